"""The environments by name: what there is, what each one's numbers mean, and ``make_vec``.

An environment is a folder under ``envs/`` that the build found; nothing here names one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import DTypeLike

from servorl._native import core, resource_root
from servorl.errors import SettingError, UnknownNameError
from servorl.task_info import Channel, TaskInfo
from servorl.vec_env import VecEnv

TaskOption = bool | int | float


def env_names() -> list[str]:
    """The names that :func:`make_vec` takes, sorted."""
    return sorted(core.sim.names())


def model_path(name: str) -> Path:
    """The environment's MuJoCo model; of a task on native dynamics, the one that draws it."""
    return _folder(name) / "model.xml"


def card(name: str) -> str:
    """The environment's page in Markdown: spaces, units, reward, source."""
    return (_folder(name) / "card.md").read_text(encoding="utf-8")


def task_info(name: str, **task_options: TaskOption) -> TaskInfo:
    """What the environment's numbers mean, with the given task options."""
    values = _option_values(name, task_options)
    return _task_info(name, core.sim.describe(name, str(model_path(name)), values))


def make_vec(
    name: str,
    num_envs: int = 1,
    *,
    num_threads: int = 0,
    seed: int | None = None,
    autoreset_mode: AutoresetMode | str = AutoresetMode.SAME_STEP,
    obs_dtype: DTypeLike = np.float32,
    copy: bool = True,
    max_episode_steps: int | None = None,
    on_repeated_divergence: str = "raise",
    **task_options: TaskOption,
) -> VecEnv:
    """Make ``num_envs`` environments that step together in C++.

    Args:
        name: one of :func:`env_names`.
        num_envs: how many, at least 1.
        num_threads: threads that step them, the caller's among them; 0 means the cores that this
            process may use. Results do not depend on it.
        seed: of every random stream, 0 <= seed < 2**63; None draws one (read it from ``.seed``).
        autoreset_mode: as Gymnasium's vector environments have it.
        obs_dtype: float32 or float64. Native dynamics are computed in it, MuJoCo's in float64.
        copy: False returns views of the results, which the next step overwrites.
        max_episode_steps: the time limit; None means the task's own.
        on_repeated_divergence: what happens to an environment that diverges in the first step
            after each of three resets in a row: ``"raise"`` a DivergenceError, or ``"mask"`` it: it
            stands still, and its row of ``infos["valid"]`` is False, until ``reset()`` is called
            for it.
        task_options: the task's own options, with Gymnasium's names and defaults.

    Raises:
        UnknownNameError: no such environment or option; the message offers the nearest names.
        SettingError: a value of the wrong type or out of its range.
    """
    values = _option_values(name, task_options)
    mode = _autoreset_mode(autoreset_mode)
    if on_repeated_divergence not in ("raise", "mask"):
        raise SettingError(
            f"on_repeated_divergence must be 'raise' or 'mask', not {on_repeated_divergence!r}"
        )
    dtype = _obs_dtype(obs_dtype)
    _check_integer("num_envs", num_envs, 1, 2**31 - 1)
    _check_integer("num_threads", num_threads, 0, 4096)
    if seed is not None:
        _check_integer("seed", seed, 0, 2**63 - 1)
    if max_episode_steps is not None:
        _check_integer("max_episode_steps", max_episode_steps, 1, 2**31 - 1)
    path = str(model_path(name))
    description = core.sim.describe(name, path, values)
    try:
        batch = core.sim.make_batch(
            name,
            path,
            values,
            int(num_envs),
            min(int(num_threads) or core.sim.available_cores(), int(num_envs)),
            mode.name.lower(),
            dtype == np.float64,
            int(max_episode_steps or 0),
            on_repeated_divergence == "mask",
        )
    except MemoryError:
        raise SettingError(f"num_envs: {num_envs} environments do not fit in memory") from None
    description["max_episode_steps"] = max_episode_steps or description["max_episode_steps"]
    return VecEnv(
        batch,
        _task_info(name, description),
        info_keys=description["info"],
        seed=seed,
        autoreset_mode=mode,
        copy=copy,
        report_valid=on_repeated_divergence == "mask",
    )


def _folder(name: str) -> Path:
    known = env_names()
    if name not in known:
        raise UnknownNameError("environment", str(name), known)
    return resource_root() / "envs" / name


def _task_info(name: str, description: Mapping[str, Any]) -> TaskInfo:
    return TaskInfo(
        name=name,
        observation=tuple(Channel(*channel) for channel in description["observation"]),
        action=tuple(Channel(*channel) for channel in description["action"]),
        control_period=description["control_period"],
        max_episode_steps=description["max_episode_steps"],
        reward_threshold=description["reward_threshold"],
    )


def _option_values(name: str, given: Mapping[str, TaskOption]) -> list[TaskOption]:
    """Every option of the task in declared order, checked and of its declared type."""
    _folder(name)
    declared = core.sim.options(name)
    known = [option[0] for option in declared]
    for option in given:
        if option not in known:
            raise UnknownNameError(f"option of {name}", option, known)
    return [
        _option_value(f"{name}'s {option}", given.get(option, default), default, low, high)
        for option, default, low, high, _ in declared
    ]


def _option_value(
    what: str, value: object, default: TaskOption, low: float, high: float
) -> TaskOption:
    if isinstance(default, bool):
        if not isinstance(value, (bool, np.bool_)):
            raise SettingError(f"{what} must be true or false, not {value!r}")
        return bool(value)
    numbers = (int, np.integer) if isinstance(default, int) else (int, float, np.number)
    if not isinstance(value, numbers) or isinstance(value, (bool, complex, np.complexfloating)):
        kind = "an integer" if isinstance(default, int) else "a number"
        raise SettingError(f"{what} must be {kind}, not {value!r}")
    number = float(value)
    if not (low <= number <= high and math.isfinite(number)):
        raise SettingError(f"{what} must be in [{low:g}, {high:g}], not {value!r}")
    return int(value) if isinstance(default, int) else number


def _check_integer(what: str, value: object, low: int, high: int) -> None:
    if not isinstance(value, (int, np.integer)) or isinstance(value, bool):
        raise SettingError(f"{what} must be an integer, not {value!r}")
    if not low <= value <= high:
        raise SettingError(f"{what} must be in [{low}, {high}], not {value}")


def _autoreset_mode(mode: AutoresetMode | str) -> AutoresetMode:
    """The mode by itself, by Gymnasium's value ("SameStep") or by its name ("same_step")."""
    if isinstance(mode, AutoresetMode):
        return mode
    for candidate in AutoresetMode:
        if str(mode).lower() in (candidate.name.lower(), str(candidate.value).lower()):
            return candidate
    names = [candidate.name.lower() for candidate in AutoresetMode]
    raise UnknownNameError("autoreset_mode", str(mode), names)


def _obs_dtype(obs_dtype: DTypeLike) -> np.dtype[Any]:
    try:
        dtype = np.dtype(obs_dtype)
    except TypeError:
        dtype = None
    if dtype not in (np.float32, np.float64):
        raise SettingError(f"obs_dtype must be float32 or float64, not {obs_dtype!r}")
    return dtype
