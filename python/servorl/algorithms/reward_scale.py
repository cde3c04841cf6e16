"""Rewards over the running deviation of the discounted return, as Gymnasium's NormalizeReward.

The statistics take in a whole rollout before it is scaled, so that one scale holds for all of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from servorl.policies.normalizer import VARIANCE_FLOOR, Moments


class RewardScale:
    """``clip(reward / deviation, ±clip)``, with one return accumulator per environment."""

    def __init__(self, num_envs: int, gamma: float, clip: float) -> None:
        self.gamma = gamma
        self.clip = clip
        self.moments = Moments(1)
        self._returns = np.zeros(num_envs)

    def scale(
        self, rewards: NDArray[np.float32], done: NDArray[np.bool_], valid: NDArray[np.bool_]
    ) -> NDArray[np.float32]:
        """Take in and scale the rewards ``[T, N]`` of one rollout.

        An accumulator starts from 0 after ``done``. Rows that are not ``valid`` leave it and the
        statistics alone.
        """
        returns = np.empty(rewards.shape)
        last = self._returns
        for step in range(len(rewards)):
            np.multiply(last, self.gamma, out=returns[step])
            returns[step] += rewards[step]
            np.copyto(returns[step], last, where=~valid[step])
            last = np.where(done[step], 0.0, returns[step])
        self._returns = last
        self.moments.update(torch.from_numpy(returns[valid][:, None]))
        deviation = np.sqrt(self.moments.variance.numpy() + VARIANCE_FLOOR)
        scaled = rewards * (1.0 / deviation).astype(np.float32)
        return np.clip(scaled, -self.clip, self.clip, out=scaled)

    def state(self) -> dict[str, NDArray[np.float64]]:
        """The accumulators and the statistics, float64."""
        moments = {name: tensor.numpy() for name, tensor in self.moments.state().items()}
        return {"returns": self._returns, **moments}

    def load_state(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Copy ``state()``'s arrays back."""
        self._returns = np.array(state["returns"])
        tensors = {name: torch.from_numpy(array) for name, array in state.items()}
        self.moments.load_state(tensors)
