"""An environment whose every number is known beforehand, and the transitions that it must give."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode, SyncVectorEnv

# Length of each episode and how it ends: (terminated, truncated); repeated for ever.
EPISODES = ((3, (True, False)), (5, (False, True)), (1, (True, True)), (2, (False, True)))


class ScriptedEnv(gymnasium.Env[np.ndarray, np.ndarray]):
    """Observations are (environment, episode, step); the reward names where it came from."""

    def __init__(self, index: int) -> None:
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (3,), np.float32)
        self.action_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32)
        self.index, self.episode, self.step_count = index, index - 1, 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        self.episode, self.step_count = self.episode + 1, 0
        return self._obs(), {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict]:
        self.step_count += 1
        length, (terminated, truncated) = EPISODES[self.episode % len(EPISODES)]
        last = self.step_count == length
        reward = reward_of(self.index, self.episode, self.step_count)
        return self._obs(), reward, last and terminated, last and truncated, {}

    def _obs(self) -> np.ndarray:
        return np.array([self.index, self.episode, self.step_count], np.float32)


def reward_of(index: int, episode: int, step: int) -> float:
    return float(index - 0.5 * episode + 0.25 * step)


@dataclass(frozen=True)
class Transition:
    obs: tuple[int, int, int]
    next_obs: tuple[int, int, int]
    reward: float
    terminated: bool
    truncated: bool


def transitions(index: int) -> Iterator[Transition]:
    """What environment ``index`` gives, for ever, whatever the autoreset mode."""
    episode = index
    while True:
        length, (terminated, truncated) = EPISODES[episode % len(EPISODES)]
        for step in range(length):
            last = step + 1 == length
            yield Transition(
                (index, episode, step),
                (index, episode, step + 1),
                reward_of(index, episode, step + 1),
                last and terminated,
                last and truncated,
            )
        episode += 1


def make_scripted(num_envs: int, mode: AutoresetMode) -> SyncVectorEnv:
    """Gymnasium's own vector environment over scripted ones."""
    factories = [lambda index=index: ScriptedEnv(index) for index in range(num_envs)]
    return SyncVectorEnv(factories, autoreset_mode=mode)
