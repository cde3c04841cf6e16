"""PPO's loss and its closed-form gradient against torch.distributions and autograd in float64."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from servorl.algorithms.ppo_loss import STATISTICS, ppo_loss
from servorl.buffers import Batch


def make_batch(size: int, action_dim: int, seed: int, spread: float) -> tuple[Batch, list[Tensor]]:
    """A float64 batch and network outputs (mean, log_std, value) some way from the old policy."""
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int, scale: float = 1.0) -> Tensor:
        return scale * torch.randn(shape, dtype=torch.float64, generator=generator)

    mean, log_std, value = normal(size, action_dim), normal(action_dim, scale=0.5), normal(size)
    raw = mean + log_std.exp() * normal(size, action_dim)
    log_probs = torch.distributions.Normal(mean, log_std.exp()).log_prob(raw).sum(1)
    batch = Batch(
        obs=normal(size, 2),
        raw_actions=raw,
        log_probs=log_probs + normal(size, scale=spread),
        values=value + normal(size, scale=spread),
        advantages=3.0 * normal(size) + 1.0,
        returns=normal(size),
    )
    batch.check_shapes()
    return batch, [mean, log_std, value]


def reference_loss(outputs: list[Tensor], batch: Batch, c: dict[str, float]) -> dict[str, Tensor]:
    """CleanRL's loss, written with torch.distributions."""
    mean, log_std, value = outputs
    distribution = torch.distributions.Normal(mean, log_std.exp())
    log_prob = distribution.log_prob(batch.raw_actions).sum(1)
    log_ratio = log_prob - batch.log_probs
    ratio = log_ratio.exp()
    advantages = batch.advantages
    if len(advantages) > 1:
        advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
    bounded = torch.clamp(ratio, 1 - c["clip_range"], 1 + c["clip_range"])
    policy_loss = torch.max(-advantages * ratio, -advantages * bounded).mean()
    eps = c["value_clip_range"]
    value_clipped = batch.values + torch.clamp(value - batch.values, -eps, eps)
    value_loss = torch.max((value - batch.returns) ** 2, (value_clipped - batch.returns) ** 2)
    value_loss = 0.5 * value_loss.mean()
    entropy = distribution.entropy().sum(1).mean()
    return {
        "loss": policy_loss
        + c["value_coefficient"] * value_loss
        - c["entropy_coefficient"] * entropy,
        "policy_loss": policy_loss,
        "value_loss": value_loss,
        "entropy": entropy,
        "approx_kl": ((ratio - 1) - log_ratio).mean(),
        "clip_fraction": ((ratio - 1).abs() > c["clip_range"]).double().mean(),
    }


@settings(max_examples=80, deadline=None)
@given(
    size=st.integers(1, 40),
    action_dim=st.integers(1, 6),
    seed=st.integers(0, 2**16),
    spread=st.sampled_from([0.0, 0.05, 0.5]),
    clip_range=st.sampled_from([0.1, 0.2, 0.9]),
    value_clip_range=st.sampled_from([0.2, math.inf]),
    entropy_coefficient=st.sampled_from([0.0, 0.01]),
)
def test_loss_and_gradient_match_an_independent_implementation(
    size: int,
    action_dim: int,
    seed: int,
    spread: float,
    clip_range: float,
    value_clip_range: float,
    entropy_coefficient: float,
) -> None:
    coefficients = {
        "clip_range": clip_range,
        "value_clip_range": value_clip_range,
        "value_coefficient": 0.5,
        "entropy_coefficient": entropy_coefficient,
    }
    batch, outputs = make_batch(size, action_dim, seed, spread)
    loss = ppo_loss(*outputs, batch, **coefficients)
    leaves = [output.clone().requires_grad_() for output in outputs]
    reference = reference_loss(leaves, batch, coefficients)
    gradients = torch.autograd.grad(reference["loss"], leaves)

    for name, value in zip(STATISTICS, loss.statistics, strict=True):
        torch.testing.assert_close(value, reference[name].detach(), rtol=1e-9, atol=1e-11)
    for ours, theirs in zip(loss[1:], gradients, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-11)


def test_a_wrong_shape_raises_instead_of_broadcasting() -> None:
    batch, (mean, log_std, value) = make_batch(6, 2, 0, 0.1)
    c = {
        "clip_range": 0.2,
        "value_clip_range": 0.2,
        "value_coefficient": 0.5,
        "entropy_coefficient": 0.0,
    }
    with pytest.raises(ValueError, match="value must be of shape"):
        ppo_loss(mean, log_std, value.unsqueeze(1), batch, **c)
    with pytest.raises(ValueError, match="must fit raw_actions"):
        ppo_loss(mean[:, :1], log_std, value, batch, **c)
    with pytest.raises(ValueError, match="must fit raw_actions"):
        ppo_loss(mean, log_std[:1], value, batch, **c)
    tensors = [batch.obs, batch.raw_actions, batch.log_probs, batch.values, batch.advantages]
    with pytest.raises(ValueError, match="returns must be of shape"):
        Batch(*tensors, batch.returns.unsqueeze(1)).check_shapes()
