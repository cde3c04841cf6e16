"""Adam (Kingma & Ba 2015) over all parameters of a module, laid out as one vector.

A network for control has a dozen tensors of a few thousand numbers; an optimiser that visits each
of them spends its time on calls. Here the parameters and their gradients are views of two vectors,
and a step is eight operations. The result is that of ``torch.optim.Adam``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

BETA1, BETA2 = 0.9, 0.999


class FlatAdam:
    """Owns the memory of ``module``'s parameters and gradients.

    The module must already be on its device: moving it afterwards would part it from the optimiser.
    """

    def __init__(self, module: nn.Module, epsilon: float) -> None:
        self.epsilon = epsilon
        self.step_count = 0
        self._named = list(module.named_parameters())
        parameters = [parameter for _, parameter in self._named]
        self.values = torch.cat([parameter.detach().flatten() for parameter in parameters])
        self.grad = torch.zeros_like(self.values)
        self.mean = torch.zeros_like(self.values)
        self.mean_square = torch.zeros_like(self.values)
        self._scratch = torch.zeros_like(self.values)
        offset = 0
        for parameter in parameters:
            end = offset + parameter.numel()
            parameter.data = self.values[offset:end].view(parameter.shape)
            parameter.grad = self.grad[offset:end].view(parameter.shape)
            offset = end

    def clip_grad_norm(self, max_norm: float) -> float:
        """Scale the gradient down to ``max_norm`` if it is longer; returns the norm that it had."""
        norm = float(self.grad.norm())
        if norm > max_norm:
            self.grad.mul_(max_norm / (norm + 1e-6))
        return norm

    def step(self, learning_rate: float) -> None:
        """Move the parameters against the gradient."""
        self.step_count += 1
        correction1 = 1.0 - BETA1**self.step_count
        correction2 = 1.0 - BETA2**self.step_count
        self.mean.lerp_(self.grad, 1.0 - BETA1)
        self.mean_square.mul_(BETA2).addcmul_(self.grad, self.grad, value=1.0 - BETA2)
        deviation = torch.sqrt(self.mean_square, out=self._scratch)
        deviation.div_(math.sqrt(correction2)).add_(self.epsilon)
        self.values.addcdiv_(self.mean, deviation, value=-learning_rate / correction1)

    def non_finite_grads(self) -> list[str]:
        """Names of the parameters whose gradient is not finite."""
        return [
            name
            for name, parameter in self._named
            if parameter.grad is not None and not bool(parameter.grad.isfinite().all())
        ]

    def state(self) -> dict[str, NDArray[Any]]:
        """Step count and moments."""
        return {
            "step_count": np.array(self.step_count),
            "mean": self.mean.cpu().numpy(),
            "mean_square": self.mean_square.cpu().numpy(),
        }

    def load_state(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Copy ``state()``'s arrays back."""
        self.step_count = int(state["step_count"])
        self.mean.copy_(torch.from_numpy(state["mean"]))
        self.mean_square.copy_(torch.from_numpy(state["mean_square"]))
