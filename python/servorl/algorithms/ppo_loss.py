"""PPO's clipped loss for a diagonal Gaussian, with its gradient in closed form.

With z = (r - mean) / std, ratio = exp(log_prob - old_log_prob), A normalised over the minibatch:

    policy_loss = mean(max(-A ratio, -A clip(ratio, 1 - eps, 1 + eps)))
    value_loss  = 1/2 mean(max((v - R)^2, (v_old + clip(v - v_old, -eps_v, eps_v) - R)^2))
    loss        = policy_loss + c_v value_loss - c_e entropy

    d policy_loss / d log_prob = -A ratio / B   where A ratio <= A clip(ratio), else 0
    d log_prob / d mean = z / std,   d log_prob / d log_std = z^2 - 1
    d value_loss / d v  = (v - R) / B           where the unclipped square is the larger, else 0

Written as one node of the graph, because on a CPU autograd's thirty nodes take ten times as long.
"""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from servorl.buffers import Batch
from servorl.policies.actor_critic import HALF_LOG_2PI

STATISTICS = ("policy_loss", "value_loss", "entropy", "approx_kl", "clip_fraction")


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
) -> tuple[Tensor, Tensor]:
    """The loss (a scalar with gradients for ``mean``, ``log_std``, ``value``) and ``STATISTICS``.

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
    coefficients = (clip_range, value_clip_range, value_coefficient, entropy_coefficient)
    result = _ClippedLoss.apply(mean, log_std, value, batch, *coefficients)  # type: ignore[no-untyped-call]
    return cast(tuple[Tensor, Tensor], result)


class _ClippedLoss(torch.autograd.Function):
    """The module's equations."""

    @staticmethod
    def forward(
        ctx: Any,
        mean: Tensor,
        log_std: Tensor,
        value: Tensor,
        batch: Batch,
        clip_range: float,
        value_clip_range: float,
        value_coefficient: float,
        entropy_coefficient: float,
    ) -> tuple[Tensor, Tensor]:
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
        moved = (value - batch.values).clamp(-value_clip_range, value_clip_range)
        square, clipped_square = error.square(), (batch.values + moved - batch.returns).square()
        value_grad = error * (square >= clipped_square) * (value_coefficient / size)

        entropy = log_std_sum + (constant + 0.5 * action_dim)
        per_sample = (
            -torch.minimum(unclipped, clipped),
            0.5 * torch.maximum(square, clipped_square),
            entropy.expand(size),
            change - log_ratio,
            (change.abs() > clip_range).to(change.dtype),
        )
        statistics = torch.stack(per_sample).mean(1)
        weights = statistics.new_tensor((1.0, value_coefficient, -entropy_coefficient, 0.0, 0.0))
        ctx.save_for_backward(log_prob_grad * z * inv_std, log_std_grad, value_grad)
        ctx.mark_non_differentiable(statistics)
        return torch.dot(statistics, weights), statistics

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        mean_grad, log_std_grad, value_grad = ctx.saved_tensors
        nothing = (None,) * 5
        return grad * mean_grad, grad * log_std_grad, grad * value_grad, *nothing


def normalized(advantages: Tensor) -> Tensor:
    """Zero mean and unit (sample) deviation over the minibatch; a single one stays as it is."""
    if len(advantages) < 2:
        return advantages
    deviation, mean = torch.std_mean(advantages)
    return (advantages - mean) / (deviation + 1e-8)
