"""Stepping a vector environment into a ``RolloutBuffer``, in any of Gymnasium's autoreset modes.

The mode is read from ``env.metadata["autoreset_mode"]``:

- SAME_STEP: a step that ends an episode returns the next one's first observation, and the true last
  one as ``final_obs``;
- NEXT_STEP: it returns the last observation, and the step after it is a dummy that resets;
- DISABLED: it returns the last observation, and this file resets.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from servorl.buffers import RolloutBuffer
from servorl.errors import NonFiniteError

Choose = Callable[[int, NDArray[np.float32]], NDArray[np.float32]]
"""Step number and observations ``[N, O]`` to actions ``[N, A]`` in the environment's units."""


@dataclass
class RolloutReport:
    """What one rollout saw."""

    steps: int = 0
    """Environment steps, dummy ones left out."""
    returns: list[float] = field(default_factory=list)
    """Undiscounted, unscaled return of each episode that ended."""
    lengths: list[int] = field(default_factory=list)
    diverged: int = 0
    """Environments that diverged."""
    simulate_seconds: float = 0.0
    infer_seconds: float = 0.0


class Collector:
    """Keeps a vector environment going from rollout to rollout.

    Args:
        env: a ``gymnasium.vector.VectorEnv`` with Box spaces of vectors.
        seed: for the first reset.

    Raises ValueError for an environment whose autoreset mode is unknown.
    """

    def __init__(self, env: Any, seed: int) -> None:
        self.env = env
        self.mode = AutoresetMode(env.metadata.get("autoreset_mode", AutoresetMode.NEXT_STEP))
        self.obs = _checked(env.reset(seed=seed)[0], -1)
        self.dummy = np.zeros(env.num_envs, np.bool_)
        """Environments whose next step only resets them (NEXT_STEP)."""
        self.diverged = np.zeros((), np.int64)
        """The environment's count of divergences so far."""
        self.episode_return = np.zeros(env.num_envs)
        self.episode_length = np.zeros(env.num_envs, np.int64)

    def collect(self, buffer: RolloutBuffer, choose: Choose) -> RolloutReport:
        """Fill ``buffer``; raises NonFiniteError for a non-finite observation or reward."""
        report = RolloutReport()
        buffer.begin(self.obs)
        for step in range(buffer.num_steps):
            started = time.perf_counter()
            actions = choose(step, self.obs)
            chosen = time.perf_counter()
            obs, rewards, terminated, truncated, infos = self.env.step(actions)
            report.infer_seconds += chosen - started
            report.simulate_seconds += time.perf_counter() - chosen

            valid = ~self.dummy
            if "valid" in infos:  # environments that servorl has masked after repeated divergence
                valid &= infos["valid"]
            done = (terminated | truncated) & valid
            if done.any():
                obs = self._end_episodes(buffer, step, obs, terminated, truncated, done, infos)
            self.obs = _checked(obs, step)
            buffer.add(step, self.obs, rewards, terminated, truncated, valid)
            self._account(report, rewards, done, valid)
            if self.mode == AutoresetMode.NEXT_STEP:
                self.dummy = done
        diverged = int(np.sum(infos.get("diverged", 0)))
        report.diverged, self.diverged[...] = diverged - int(self.diverged), diverged
        if not bool(buffer.rewards.isfinite().all()):
            step, env_id = buffer.rewards.isfinite().logical_not().nonzero()[0].tolist()
            raise NonFiniteError(f"reward of environment {env_id} is not finite at step {step}")
        return report

    def state(self) -> dict[str, NDArray[Any]]:
        """What the next rollout depends on, beside the environment's own state."""
        return {
            "obs": self.obs,
            "dummy": self.dummy,
            "diverged": self.diverged,
            "episode_return": self.episode_return,
            "episode_length": self.episode_length,
        }

    def load_state(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Go on from ``state()``; the environment's own state must have been set by the caller."""
        for name, array in self.state().items():
            array[...] = state[name]

    def _end_episodes(
        self,
        buffer: RolloutBuffer,
        step: int,
        obs: NDArray[np.float32],
        terminated: NDArray[np.bool_],
        truncated: NDArray[np.bool_],
        done: NDArray[np.bool_],
        infos: dict[str, Any],
    ) -> NDArray[np.float32]:
        """Store final observations where the value of one is needed; return what comes next."""
        cut = np.flatnonzero(truncated & ~terminated & done)
        if self.mode == AutoresetMode.SAME_STEP and len(cut) > 0:
            final_obs = infos["final_obs"]
            rows = final_obs[cut] if final_obs.ndim == 2 else np.stack(list(final_obs[cut]))
            buffer.add_final(step, cut, _checked(rows, step))
        elif self.mode == AutoresetMode.DISABLED:
            if len(cut) > 0:
                buffer.add_final(step, cut, _checked(obs[cut], step))
            obs = self.env.reset(options={"reset_mask": done})[0]
        return obs

    def _account(
        self,
        report: RolloutReport,
        rewards: NDArray[np.floating],
        done: NDArray[np.bool_],
        valid: NDArray[np.bool_],
    ) -> None:
        self.episode_return += np.where(valid, rewards, 0.0)
        self.episode_length += valid
        report.steps += int(np.count_nonzero(valid))
        if done.any():
            report.returns += self.episode_return[done].tolist()
            report.lengths += self.episode_length[done].tolist()
            self.episode_return[done] = 0.0
            self.episode_length[done] = 0


def _checked(obs: NDArray[Any], step: int) -> NDArray[np.float32]:
    """``obs`` as float32; raises NonFiniteError naming the environment and the element."""
    obs = np.asarray(obs, np.float32)
    if not np.isfinite(obs).all():
        env_id, element = np.argwhere(~np.isfinite(obs))[0]
        where = "the first reset" if step < 0 else f"step {step}"
        raise NonFiniteError(
            f"observation {element} of environment {env_id} is not finite at {where}"
        )
    return obs
