"""On-policy memory: one rollout of a vector environment, time-major, written in place.

Each array is a torch tensor on the CPU; its NumPy view of the same memory is what a step is
written through. Rows that are not ``valid`` (the dummy reset step of Gymnasium's NEXT_STEP mode)
are stored, but reach neither a statistic nor a minibatch.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


class RolloutBuffer:
    """``num_steps`` steps of ``num_envs`` environments.

    ``obs`` is ``[T + 1, N, O]`` float32, its last row the observation after the rollout;
    ``raw_actions`` ``[T, N, A]`` and ``rewards`` ``[T, N]`` are float32; ``terminated``,
    ``truncated`` and ``valid`` are ``[T, N]`` bool.
    """

    def __init__(self, num_steps: int, num_envs: int, obs_dim: int, action_dim: int) -> None:
        for name, size in (("num_steps", num_steps), ("num_envs", num_envs)):
            if size < 1:
                raise ValueError(f"{name} must be at least 1, not {size}")
        self.num_steps, self.num_envs = num_steps, num_envs
        self.obs = torch.zeros(num_steps + 1, num_envs, obs_dim)
        self.raw_actions = torch.zeros(num_steps, num_envs, action_dim)
        self.rewards = torch.zeros(num_steps, num_envs)
        self.terminated = torch.zeros(num_steps, num_envs, dtype=torch.bool)
        self.truncated = torch.zeros(num_steps, num_envs, dtype=torch.bool)
        self.valid = torch.ones(num_steps, num_envs, dtype=torch.bool)
        self._obs = self.obs.numpy()
        self._rewards = self.rewards.numpy()
        self._terminated = self.terminated.numpy()
        self._truncated = self.truncated.numpy()
        self._valid = self.valid.numpy()
        self._final: list[tuple[int, NDArray[np.intp], NDArray[np.float32]]] = []

    def begin(self, obs: NDArray[np.floating]) -> None:
        """Start a rollout at observations ``[N, O]``; what was stored before is gone."""
        self._final.clear()
        self._obs[0] = obs

    def add(
        self,
        step: int,
        obs: NDArray[np.floating],
        rewards: NDArray[np.floating],
        terminated: NDArray[np.bool_],
        truncated: NDArray[np.bool_],
        valid: NDArray[np.bool_],
    ) -> None:
        """Store what step ``step`` returned: ``obs`` ``[N, O]`` is where the next step starts."""
        self._obs[step + 1] = obs
        self._rewards[step] = rewards
        self._terminated[step] = terminated
        self._truncated[step] = truncated
        self._valid[step] = valid

    def add_final(
        self, step: int, env_ids: NDArray[np.intp], final_obs: NDArray[np.floating]
    ) -> None:
        """Store (a copy of) the true last observations ``[K, O]`` of episodes cut at ``step``."""
        self._final.append((step, env_ids, np.array(final_obs, np.float32)))

    def final(self) -> tuple[Tensor, Tensor, Tensor]:
        """Step ``[K]``, environment ``[K]`` and observation ``[K, O]`` of ``add_final``'s rows."""
        if not self._final:
            none = torch.zeros(0, dtype=torch.long)
            return none, none, self.obs.new_zeros(0, self.obs.shape[2])
        steps = np.concatenate([np.full(len(ids), step) for step, ids, _ in self._final])
        env_ids = np.concatenate([ids for _, ids, _ in self._final])
        obs = np.concatenate([rows for _, _, rows in self._final])
        return torch.from_numpy(steps), torch.from_numpy(env_ids), torch.from_numpy(obs)


@dataclass(frozen=True)
class Batch:
    """Samples to learn from; every tensor has one row per sample."""

    obs: Tensor
    """Normalised observations ``[B, O]``."""
    raw_actions: Tensor
    """``[B, A]``, before scale and clip."""
    log_probs: Tensor
    """Of ``raw_actions`` under the policy that took them, ``[B]``."""
    values: Tensor
    """Of the critic before the update, ``[B]``."""
    advantages: Tensor
    returns: Tensor

    def check_shapes(self) -> None:
        """Raise ValueError unless every tensor has as many rows and the vectors are ``[B]``."""
        rows = self.obs.shape[0]
        for field in fields(self):
            shape = list(getattr(self, field.name).shape)
            wanted = 2 if field.name in ("obs", "raw_actions") else 1
            if len(shape) != wanted or shape[0] != rows:
                form = f"[{rows}]" if wanted == 1 else f"[{rows}, …]"
                raise ValueError(f"{field.name} must be of shape {form}, not {shape}")

    def non_finite(self) -> list[str]:
        """Names of the tensors that hold a NaN or an infinity."""
        return [
            field.name
            for field in fields(self)
            if not bool(getattr(self, field.name).isfinite().all())
        ]

    def __len__(self) -> int:
        return self.obs.shape[0]

    def minibatches(self, count: int, generator: torch.Generator) -> Iterator[Batch]:
        """Every sample once, newly shuffled, in ``count`` parts whose sizes differ by at most 1."""
        order = torch.randperm(len(self), generator=generator).to(self.obs.device)
        count = min(count, len(self))
        tensors = (getattr(self, field.name)[order] for field in fields(self))
        for parts in zip(*(tensor.tensor_split(count) for tensor in tensors), strict=True):
            yield Batch(*parts)
