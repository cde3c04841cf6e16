"""A multilayer perceptron whose gradient is written out.

On a CPU the networks of control are so small that autograd's bookkeeping takes longer than their
arithmetic. One node for a whole network, with the chain rule below, halves the time of an update.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable


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

    def forward(self, x: Tensor) -> Tensor:
        """Map ``x`` ``[K, in]`` to ``[K, out]``."""
        parameters = [*self.weights, *self.biases]
        if torch.is_grad_enabled():
            return cast(Tensor, _Network.apply(x, *parameters))  # type: ignore[no-untyped-call]
        return _activations(x, parameters)[-1]


def _activations(x: Tensor, parameters: Sequence[Tensor]) -> list[Tensor]:
    """The input and every layer's output; ``parameters`` are all weights, then all biases."""
    depth = len(parameters) // 2
    outputs = [x]
    for index in range(depth):
        linear = F.linear(outputs[-1], parameters[index], parameters[depth + index])
        outputs.append(linear if index == depth - 1 else linear.tanh_())
    return outputs


class _Network(torch.autograd.Function):
    """``_activations`` and its gradient, one node of the graph."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, *parameters: Tensor) -> Tensor:
        outputs = _activations(x, parameters)
        ctx.save_for_backward(*outputs[:-1], *parameters[: len(parameters) // 2])
        return outputs[-1]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        depth = len(ctx.saved_tensors) // 2
        inputs, weights = ctx.saved_tensors[:depth], ctx.saved_tensors[depth:]
        weight_grads: list[Tensor] = []
        bias_grads: list[Tensor] = []
        for index in reversed(range(depth)):
            weight_grads.insert(0, grad.t() @ inputs[index])
            bias_grads.insert(0, grad.sum(0))
            if index > 0:
                grad = torch.ops.aten.tanh_backward(grad @ weights[index], inputs[index])
        x_grad = grad @ weights[0] if ctx.needs_input_grad[0] else None
        return x_grad, *weight_grads, *bias_grads
