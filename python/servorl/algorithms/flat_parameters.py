"""All parameters of a module as views of one vector, so that an optimiser's step is one operation.

A network for control has a dozen tensors of a few thousand numbers: Adam and the gradient's norm
over each of them cost more in calls than in arithmetic.
"""

from __future__ import annotations

import torch
from torch import nn


class FlatParameters:
    """``values`` ``[P]`` and ``grad`` ``[P]``, of which the module's own tensors are views.

    The module must already be on its device: moving it afterwards would part it from ``values``.
    """

    def __init__(self, module: nn.Module) -> None:
        self._named = list(module.named_parameters())
        parameters = [parameter for _, parameter in self._named]
        flat = torch.cat([parameter.detach().flatten() for parameter in parameters])
        self.values = nn.Parameter(flat)
        self.grad = torch.zeros_like(flat)
        self.values.grad = self.grad
        offset = 0
        for parameter in parameters:
            end = offset + parameter.numel()
            parameter.data = self.values.data[offset:end].view(parameter.shape)
            parameter.grad = self.grad[offset:end].view(parameter.shape)
            offset = end

    def zero_grad(self) -> None:
        """Set the gradient to zero where it lies."""
        self.grad.zero_()

    def clip_grad_norm(self, max_norm: float) -> float:
        """Scale the gradient down to ``max_norm`` if it is longer; returns the norm that it had."""
        norm = float(self.grad.norm())
        if norm > max_norm:
            self.grad.mul_(max_norm / (norm + 1e-6))
        return norm

    def non_finite_grads(self) -> list[str]:
        """Names of the parameters whose gradient is not finite."""
        return [
            f"gradient of {name}"
            for name, parameter in self._named
            if parameter.grad is not None and not bool(parameter.grad.isfinite().all())
        ]
