"""PPO's clipped loss for a diagonal Gaussian, with its gradient in closed form.

With z = (r - mean) / std, ratio = exp(log_prob - old_log_prob), A normalised over the minibatch:

    policy_loss = mean(max(-A ratio, -A clip(ratio, 1 - eps, 1 + eps)))
    value_loss  = 1/2 mean(max((v - R)^2, (v_old + clip(v - v_old, -eps_v, eps_v) - R)^2))
    loss        = policy_loss + c_v value_loss - c_e entropy

    d policy_loss / d log_prob = -A ratio / B   where A ratio <= A clip(ratio), else 0
    d log_prob / d mean = z / std,   d log_prob / d log_std = z^2 - 1
    d value_loss / d v  = (v - R) / B           where the unclipped square is the larger or v was
                                                not clipped, else 0

A further loss term adds its own gradient for the same three outputs.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from servorl.buffers import Batch
from servorl.policies.actor_critic import HALF_LOG_2PI


class PPOLoss(NamedTuple):
    """Per-minibatch statistics, and the gradient of the loss for what the networks put out."""

    statistics: Tensor
    """``STATISTICS`` ``[6]``, the loss first."""
    mean_grad: Tensor
    """``[B, A]``, for the actor's mean."""
    log_std_grad: Tensor
    """``[A]``."""
    value_grad: Tensor
    """``[B]``, for the critic's value."""


STATISTICS = ("loss", "policy_loss", "value_loss", "entropy", "approx_kl", "clip_fraction")


@torch.no_grad()
def ppo_loss(
    mean: Tensor,
    log_std: Tensor,
    value: Tensor,
    batch: Batch,
    *,
    clip_range: float,
    value_clip_range: float,
    value_coefficient: float,
    entropy_coefficient: float,
) -> PPOLoss:
    """The module's equations.

    Args:
        mean: the actor's output ``[B, A]`` for ``batch.obs``.
        log_std: ``[A]``.
        value: the critic's output ``[B]``.
        batch: the samples.
        clip_range, value_clip_range: eps and eps_v above; ``inf`` does not clip.
        value_coefficient, entropy_coefficient: c_v and c_e above.

    Raises ValueError for a shape that would broadcast.
    """
    if mean.shape != batch.raw_actions.shape or log_std.shape != mean.shape[1:]:
        raise ValueError(
            f"mean {list(mean.shape)} and log_std {list(log_std.shape)} must fit raw_actions "
            f"{list(batch.raw_actions.shape)}"
        )
    if value.shape != batch.returns.shape:
        raise ValueError(
            f"value must be of shape {list(batch.returns.shape)}, not {list(value.shape)}"
        )
    size, action_dim = mean.shape
    inv_std = torch.exp(-log_std)
    z = (batch.raw_actions - mean) * inv_std
    z_squared = z * z
    log_std_sum = log_std.sum()
    constant = HALF_LOG_2PI * action_dim
    log_ratio = -0.5 * z_squared.sum(1) - (batch.log_probs + (log_std_sum + constant))
    ratio = log_ratio.exp()
    change = ratio - 1.0

    advantages = normalized(batch.advantages)
    unclipped = advantages * ratio
    clipped = advantages * ratio.clamp(1.0 - clip_range, 1.0 + clip_range)
    log_prob_grad = (unclipped * (unclipped <= clipped)).unsqueeze(1) * (-1.0 / size)
    log_std_grad = (log_prob_grad * (z_squared - 1.0)).sum(0) - entropy_coefficient

    error = value - batch.returns
    move = value - batch.values
    bounded = move.clamp(-value_clip_range, value_clip_range)
    square, clipped_square = error.square(), (batch.values + bounded - batch.returns).square()
    # Inside the range both squares are the same but for rounding, and both have the gradient.
    flows = (square >= clipped_square) | (move == bounded)
    value_grad = error * flows * (value_coefficient / size)

    policy_loss = -torch.minimum(unclipped, clipped)
    value_loss = 0.5 * torch.maximum(square, clipped_square)
    entropy = (log_std_sum + (constant + 0.5 * action_dim)).expand(size)
    loss = policy_loss + value_coefficient * value_loss - entropy_coefficient * entropy
    clip_fraction = (change.abs() > clip_range).to(change.dtype)
    terms = (loss, policy_loss, value_loss, entropy, change - log_ratio, clip_fraction)
    return PPOLoss(
        torch.stack(terms).mean(1), log_prob_grad * z * inv_std, log_std_grad, value_grad
    )


def normalized(advantages: Tensor) -> Tensor:
    """Zero mean and unit (sample) deviation over the minibatch; a single one stays as it is."""
    if len(advantages) < 2:
        return advantages
    deviation, mean = torch.std_mean(advantages)
    return (advantages - mean) / (deviation + 1e-8)
