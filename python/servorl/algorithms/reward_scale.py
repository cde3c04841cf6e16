"""Rewards over the running deviation of the discounted return, as Gymnasium's NormalizeReward.

The statistics take in a whole rollout before it is scaled, so that one scale holds for all of it.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from servorl.policies.normalizer import VARIANCE_FLOOR, Moments


class RewardScale:
    """``clip(reward / deviation, ±clip)``, with one return accumulator per environment."""

    def __init__(self, num_envs: int, gamma: float, clip: float) -> None:
        self.gamma = gamma
        self.clip = clip
        self.moments = Moments(1)
        self._returns = torch.zeros(num_envs, dtype=torch.float64)

    def scale(self, rewards: Tensor, done: Tensor, valid: Tensor) -> Tensor:
        """Take in and scale the rewards of one rollout.

        ``rewards`` ``[T, N]`` float32, ``done`` and ``valid`` ``[T, N]`` bool. An accumulator
        starts from 0 after ``done``; rows that are not valid leave it and the statistics alone.
        """
        returns = torch.empty_like(rewards, dtype=torch.float64)
        for step in range(len(rewards)):
            grown = self.gamma * self._returns + rewards[step]
            torch.where(valid[step], grown, self._returns, out=returns[step])
            self._returns.copy_(returns[step].masked_fill(done[step], 0.0))
        self.moments.update(returns[valid].unsqueeze(1))
        inv_deviation = (self.moments.variance + VARIANCE_FLOOR).rsqrt().to(torch.float32)
        return (rewards * inv_deviation).clamp_(-self.clip, self.clip)

    def state(self) -> dict[str, NDArray[np.float64]]:
        """The accumulators and the statistics, float64."""
        return {name: tensor.numpy() for name, tensor in self._tensors().items()}

    def load_state(self, state: dict[str, NDArray[np.float64]]) -> None:
        """Copy ``state()``'s arrays back."""
        for name, tensor in self._tensors().items():
            tensor.copy_(torch.from_numpy(state[name]))

    def _tensors(self) -> dict[str, Tensor]:
        return {"returns": self._returns, **self.moments.state()}
