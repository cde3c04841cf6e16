"""A multilayer perceptron with its gradient written out beside it.

The networks of control are so small that on a CPU autograd's bookkeeping takes longer than their
arithmetic. ``forward`` is an ordinary differentiable module; ``trace`` and ``backward`` are the
same function and the chain rule, without a graph, and halve the time of an update.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class MLP(nn.Module):
    """Tanh hidden layers and a linear head: ``[K, widths[0]]`` to ``[K, widths[-1]]``.

    Args:
        widths: input, hidden and output widths.
        head_gain: gain of the last layer's orthogonal weights; sqrt(2) on the others. Biases are 0.
        generator: source of the weights.
    """

    def __init__(
        self, widths: Sequence[int], head_gain: float, generator: torch.Generator | None = None
    ) -> None:
        super().__init__()
        if len(widths) < 2 or min(widths) < 1:
            raise ValueError(f"widths must be two or more positive numbers, not {tuple(widths)}")
        self.weights = nn.ParameterList()
        self.biases = nn.ParameterList()
        last = len(widths) - 2
        for index in range(last + 1):
            weight = torch.empty(widths[index + 1], widths[index])
            gain = head_gain if index == last else math.sqrt(2.0)
            self.weights.append(nn.init.orthogonal_(weight, gain, generator=generator))
            self.biases.append(torch.zeros(widths[index + 1]))
        # The same parameters once more: looking one up in a ParameterList costs as much as adding
        # two of these matrices.
        self._layers = list(zip(self.weights, self.biases, strict=True))

    def forward(self, x: Tensor) -> Tensor:
        """Map ``x`` ``[K, in]`` to ``[K, out]``."""
        last = len(self._layers) - 1
        for index, (weight, bias) in enumerate(self._layers):
            x = F.linear(x, weight, bias)
            if index < last:
                x = torch.tanh(x)
        return x

    @torch.no_grad()
    def trace(self, x: Tensor) -> list[Tensor]:
        """Every layer's input, and last the output, for ``backward``."""
        layers = [x]
        for weight, bias in self._layers:
            layers.append(F.linear(layers[-1], weight, bias))
            if len(layers) <= len(self._layers):
                layers[-1].tanh_()
        return layers

    @torch.no_grad()
    def backward(self, trace: Sequence[Tensor], grad: Tensor) -> None:
        """Overwrite each parameter's ``.grad``, given the loss's gradient for ``trace``'s output.

        Raises ValueError where ``grad`` has another shape than the output.
        """
        if grad.shape != trace[-1].shape:
            raise ValueError(f"grad must be {list(trace[-1].shape)}, not {list(grad.shape)}")
        for index in reversed(range(len(self._layers))):
            (weight, bias), layer_input = self._layers[index], trace[index]
            torch.mm(grad.t(), layer_input, out=weight.grad)
            torch.sum(grad, 0, out=bias.grad)
            if index > 0:  # through the weights, then through the tanh whose output layer_input is
                grad = torch.ops.aten.tanh_backward(grad @ weight, layer_input)
