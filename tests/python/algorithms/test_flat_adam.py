"""The flat optimiser against torch.optim.Adam and torch's gradient clipping."""

from __future__ import annotations

import torch
from torch import nn

from servorl.algorithms.flat_adam import FlatAdam
from servorl.policies.mlp import MLP


def test_steps_are_those_of_torch_adam_with_clipped_gradients() -> None:
    ours = MLP((4, 8, 2), 1.0, torch.Generator().manual_seed(0))
    theirs = MLP((4, 8, 2), 1.0, torch.Generator().manual_seed(0))
    optimizer = FlatAdam(ours, 1e-5)
    reference = torch.optim.Adam(theirs.parameters(), eps=1e-5)
    generator = torch.Generator().manual_seed(1)
    clipped = 0
    for step in range(200):
        learning_rate = 1e-2 * (1 - step / 200)
        for mine, other in zip(ours.parameters(), theirs.parameters(), strict=True):
            other.grad = 0.1 * torch.randn(other.shape, generator=generator)
            mine.grad.copy_(other.grad)
        norm = optimizer.clip_grad_norm(0.8)
        clipped += norm > 0.8
        expected = nn.utils.clip_grad_norm_(theirs.parameters(), 0.8)
        torch.testing.assert_close(torch.tensor(norm), expected)
        reference.param_groups[0]["lr"] = learning_rate
        reference.step()
        optimizer.step(learning_rate)
    assert 0 < clipped < 200
    for mine, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-4, atol=1e-6)


def test_parameters_and_gradients_are_views_of_the_flat_vectors() -> None:
    network = MLP((3, 4, 1), 1.0)
    before = [parameter.detach().clone() for parameter in network.parameters()]
    optimizer = FlatAdam(network, 1e-8)
    for parameter, value in zip(network.parameters(), before, strict=True):
        assert torch.equal(parameter, value)
    optimizer.values.zero_()
    optimizer.grad.fill_(torch.nan)
    assert not any(parameter.detach().any() for parameter in network.parameters())
    assert optimizer.non_finite_grads() == [name for name, _ in network.named_parameters()]
