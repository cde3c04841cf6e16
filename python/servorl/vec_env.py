"""``VecEnv``: a ``gymnasium.vector.VectorEnv`` over a batch of environments that C++ steps.

Python runs once per batched step: it checks the actions, makes one call that steps, observes,
rewards, ends and resets every environment, and names the results. Make one with
:func:`servorl.registry.make_vec`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import ArrayLike, NDArray

from servorl import _env_state
from servorl._native import core
from servorl.errors import ClosedError, DivergenceError, UnknownNameError
from servorl.task_info import Channel, TaskInfo

Array = NDArray[Any]
Infos = dict[str, Any]


class VecEnv(VectorEnv[Array, Array, Array]):
    """Environments of one task that step together.

    Observations are ``[num_envs, obs]`` of ``obs_dtype``, rewards ``[num_envs]`` float64, flags
    ``[num_envs]`` bool. ``infos`` has the keys of Gymnasium's ``SyncVectorEnv`` over the same task,
    with ``final_obs`` as one numeric array (zeros where ``_final_obs`` is False), and
    ``infos["diverged"]``, how many times each environment has diverged since it was seeded.
    """

    def __init__(
        self,
        batch: Any,
        task_info: TaskInfo,
        *,
        info_keys: Sequence[tuple[str, bool, bool, bool]],
        seed: int | None,
        autoreset_mode: AutoresetMode,
        copy: bool,
        report_valid: bool,
    ) -> None:
        self._batch = batch
        self._owner = os.getpid()
        self._block: dict[str, Array] = core.sim.block_views(batch)
        self._state = _env_state.EnvironmentState(batch, task_info.name)
        self._info_keys = info_keys
        self._report_valid = report_valid
        self._everywhere = np.ones(len(self._block["reward"]), np.bool_)
        self.task_info = task_info
        self.num_envs = len(self._block["reward"])
        self.num_threads: int = batch.num_threads
        self.copy = copy
        self.metadata = {"render_modes": [], "autoreset_mode": autoreset_mode}
        self.single_observation_space = _box(
            task_info.observation, self._block["observation"].dtype
        )
        self.single_action_space = _box(task_info.action, np.dtype(np.float32))
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        self.seed = _random_seed() if seed is None else int(seed)
        """The seed of every environment's random streams, unless reset() was given a list."""
        self._state.views["seed"][:] = self.seed

    def reset(
        self,
        *,
        seed: int | Sequence[int | None] | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> tuple[Array, Infos]:
        """Start a new episode in every environment, or in those of ``options["reset_mask"]``.

        Args:
            seed: starts the random streams anew: one seed for all (streams still differ between
                environments), or a list of one per environment, None to leave one as it is.
            options: ``{"reset_mask": bool array [num_envs]}``, as in Gymnasium.

        Returns:
            Observations of all environments, and the infos of those that were reset.
        """
        self._check_usable()
        mask = self._reset_mask(options or {})
        envs = np.flatnonzero(mask).astype(np.int32)
        if seed is None:
            self._batch.reset(envs, np.empty(0, np.int64))
        else:
            seeds = self._seeds(seed)
            self._batch.reset(envs, seeds[envs])
        infos: Infos = {}
        for (key, _, in_reset, integer), values in zip(
            self._info_keys, self._block["info"], strict=True
        ):
            if in_reset:
                infos[key] = np.where(mask, values, 0).astype(np.int64 if integer else np.float64)
                infos[f"_{key}"] = mask.copy()
        return self._result("observation"), infos

    def step(self, actions: ArrayLike) -> tuple[Array, Array, Array, Array, Infos]:
        """Step every environment.

        Args:
            actions: ``[num_envs, action]`` float32 or float64, in the environment's units; what
                lies outside the action space is handled as the task says.

        Raises:
            TypeError, ValueError: the actions have the wrong dtype or shape, or one is not finite;
                nothing was stepped.
            gymnasium.error.ResetNeeded: an environment was never reset, or has ended (DISABLED).
            DivergenceError: see ``on_repeated_divergence``; the step is complete.
            RuntimeError: a task or MuJoCo failed; the message names the environment.
        """
        self._check_usable()
        self._take_actions(actions)
        batch = self._batch
        unready = batch.first_needing_reset()
        if unready >= 0:
            raise gymnasium.error.ResetNeeded(
                f"{self.task_info.name}: environment {unready} must be reset before it can step; "
                "call reset(), with options={'reset_mask': …} to reset only some"
            )
        finished, restarted, repeatedly_diverged = batch.step()
        if repeatedly_diverged >= 0:
            raise DivergenceError(
                f"{self.task_info.name}: environment {repeatedly_diverged} diverged in the first "
                "step after each of three resets in a row; its model or initial state is unstable "
                "(on_repeated_divergence='mask' leaves such an environment out instead)"
            )
        result = self._result
        return (
            result("observation"),
            result("reward"),
            result("terminated"),
            result("truncated"),
            self._step_infos(finished, restarted),
        )

    def observe(self) -> Array:
        """The current observation of every environment, ``[num_envs, obs]``."""
        self._check_usable()
        return self._result("observation")

    def get_state(self, env_ids: ArrayLike | None = None) -> dict[str, Array]:
        """Everything that determines the environments' future, by name.

        Args:
            env_ids: integers or a boolean mask; None means all.

        Returns:
            Copies, axis 0 being the environments in the order of ``env_ids``: the physics by
            MuJoCo's names (``qpos``, ``qvel`` …) or the native task's, the values that the task
            carries, the counters of the episode, and model fields that were set (``model.…``).
        """
        self._check_usable()
        return self._state.get(_environments(env_ids, self.num_envs))

    def set_state(self, state: Mapping[str, ArrayLike], env_ids: ArrayLike | None = None) -> None:
        """Write what :meth:`get_state` gave, or any part of it, such as ``qpos`` alone.

        Raises:
            UnknownNameError: a key that is no part of the state.
            ValueError, TypeError: a shape or dtype that does not fit; nothing was written.
        """
        self._check_usable()
        self._state.set(state, _environments(env_ids, self.num_envs))

    def set_model_field(
        self,
        name: str,
        values: ArrayLike,
        env_ids: ArrayLike | None = None,
        until_reset: bool = False,
    ) -> None:
        """Give a field of the MuJoCo model a value per environment.

        Args:
            name: a floating-point field of ``mjModel`` (``"body_mass"``, ``"geom_friction"`` …),
                options as ``"opt.gravity"``. Integers are the model's structure and stay. Fields
                that MuJoCo derives from others are not recomputed.
            values: ``[len(env_ids), *field]``, or anything that broadcasts to it.
            env_ids: integers or a boolean mask; None means all.
            until_reset: at the environment's next reset the former value comes back.

        Raises:
            UnknownNameError: no such field (a task on native dynamics has none).
            ValueError, TypeError: a shape or dtype that does not fit; nothing was written.
        """
        self._check_usable()
        envs = _environments(env_ids, self.num_envs)
        self._state.set_model_field(name, values, envs, until_reset)

    def qpos(self, env_id: int = 0) -> NDArray[np.float64]:
        """Environment ``env_id``'s position in the model that draws it (``model_path``)."""
        self._check_usable()
        if not 0 <= env_id < self.num_envs:
            raise ValueError(f"env_id must be in [0, {self.num_envs}), not {env_id}")
        position: NDArray[np.float64] = self._batch.qpos(env_id)
        return position

    @property
    def warnings(self) -> dict[str, int]:
        """How many MuJoCo warnings of each kind the environments raised so far; empty if native."""
        self._check_usable()
        return dict(self._batch.warnings())

    def close_extras(self, **kwargs: Any) -> None:
        """Let the batch and its threads go; called by ``close()``."""
        self._batch = self._block = self._state = None  # type: ignore[assignment]

    def _check_usable(self) -> None:
        if self._batch is None:
            raise ClosedError(f"{self.task_info.name}: the environment was used after close()")
        if os.getpid() != self._owner:
            raise ClosedError(
                f"{self.task_info.name}: the environment belongs to the process that made it, and "
                "its threads do not survive a fork; make a new one in this process"
            )

    def _result(self, section: str) -> Array:
        values = self._block[section]
        return values.copy() if self.copy else values

    def _take_actions(self, actions: ArrayLike) -> None:
        name = self.task_info.name
        array = np.asarray(actions)
        if array.dtype.kind != "f":
            raise TypeError(f"{name}: actions must be float32 or float64, not {array.dtype}")
        target = self._block["action"]
        if array.shape != target.shape:
            raise ValueError(
                f"{name}: actions must have shape {target.shape} (num_envs, action), "
                f"not {array.shape}"
            )
        target[...] = array
        bad = self._batch.first_bad_action()
        if bad >= 0:
            env, index = divmod(bad, target.shape[1])
            raise ValueError(
                f"{name}: action {index} ({self.task_info.action[index].name}) of environment "
                f"{env} is {target[env, index]}; nothing was stepped"
            )

    def _step_infos(self, finished: int, restarted: int) -> Infos:
        block, count = self._block, self.num_envs
        infos: Infos = {}
        for (key, in_step, in_reset, integer), values in zip(
            self._info_keys, block["info"], strict=True
        ):
            rows = (count - restarted) * in_step + restarted * in_reset
            if rows == 0:
                continue
            if rows == count:
                present = self._everywhere.copy()
            else:
                present = ~block["restarted"] if in_step else block["restarted"].copy()
            infos[key] = self._info_values(values, integer)
            infos[f"_{key}"] = present
        if finished:
            ended = block["finished"]
            final: Infos = {}
            for (key, in_step, _, integer), values in zip(
                self._info_keys, block["final_info"], strict=True
            ):
                if in_step:
                    final[key] = self._info_values(values, integer)
                    final[f"_{key}"] = ended.copy()
            infos["final_obs"] = self._result("final_observation")
            infos["_final_obs"] = ended.copy()
            infos["final_info"] = final
            infos["_final_info"] = ended.copy()
        infos["diverged"] = self._result("diverged")
        infos["_diverged"] = self._everywhere.copy()
        if self._report_valid:
            infos["valid"] = self._result("valid")
            infos["_valid"] = self._everywhere.copy()
        return infos

    def _info_values(self, values: Array, integer: bool) -> Array:
        if integer:
            return values.astype(np.int64)
        return values.copy() if self.copy else values

    def _reset_mask(self, options: Mapping[str, Any]) -> NDArray[np.bool_]:
        for option in options:
            if option != "reset_mask":
                raise UnknownNameError("reset option", option, ["reset_mask"])
        if "reset_mask" not in options:
            return np.ones(self.num_envs, np.bool_)
        mask = options["reset_mask"]
        if not isinstance(mask, np.ndarray) or mask.dtype != np.bool_:
            raise TypeError(f"options['reset_mask'] must be a bool array, not {mask!r}")
        if mask.shape != (self.num_envs,) or not mask.any():
            raise ValueError(
                f"options['reset_mask'] must have shape ({self.num_envs},) and a True value, "
                f"got {mask}"
            )
        return mask

    def _seeds(self, seed: int | Sequence[int | None]) -> NDArray[np.int64]:
        """One seed per environment."""
        if isinstance(seed, (int, np.integer)):
            self.seed = _checked_seed(seed)
            return np.full(self.num_envs, self.seed, np.int64)
        if len(seed) != self.num_envs:
            raise ValueError(f"{len(seed)} seeds were given for {self.num_envs} environments")
        return np.array([-1 if one is None else _checked_seed(one) for one in seed], np.int64)


def _box(channels: Sequence[Channel], dtype: np.dtype[Any]) -> gymnasium.spaces.Box:
    low = np.array([channel.low for channel in channels], dtype)
    high = np.array([channel.high for channel in channels], dtype)
    return gymnasium.spaces.Box(low, high, dtype=dtype.type)


def _random_seed() -> int:
    return int(np.random.SeedSequence().generate_state(1, np.uint64)[0] >> 1)


def _checked_seed(seed: int) -> int:
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)):
        raise TypeError(f"a seed must be an integer, not {seed!r}")
    if not 0 <= seed < 2**63:
        raise ValueError(f"a seed must be in [0, 2**63), not {seed}")
    return int(seed)


def _environments(env_ids: ArrayLike | None, num_envs: int) -> NDArray[np.int32]:
    """Environment numbers from numbers or a mask, each at most once."""
    if env_ids is None:
        return np.arange(num_envs, dtype=np.int32)
    ids = np.atleast_1d(np.asarray(env_ids))
    if ids.dtype == np.bool_:
        if ids.shape != (num_envs,):
            raise ValueError(
                f"a mask of environments must have shape ({num_envs},), not {ids.shape}"
            )
        return np.flatnonzero(ids).astype(np.int32)
    if ids.size and ids.dtype.kind not in "iu":
        raise TypeError(f"env_ids must be integers or a boolean mask, not {ids.dtype}")
    if ids.ndim != 1 or np.any(ids < 0) or np.any(ids >= num_envs):
        raise ValueError(f"env_ids must be one-dimensional and in [0, {num_envs}), got {env_ids!r}")
    if len(np.unique(ids)) != len(ids):
        raise ValueError(f"env_ids names an environment twice: {env_ids!r}")
    return ids.astype(np.int32)
