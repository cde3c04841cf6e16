"""Learning algorithms: one file each, which reads as the algorithm does in its paper.

A new one is a new file and its line in ``_ALGORITHMS``.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any, Protocol

from numpy.typing import NDArray

from servorl.errors import UnknownNameError

_ALGORITHMS = {"ppo": ("servorl.algorithms.ppo", "PPOConfig", "PPO")}


class Algorithm(Protocol):
    """What the runner asks of an algorithm over one vector environment."""

    policy: Any
    steps: int
    """Environment steps taken so far."""

    def collect(self) -> Any:
        """Gather experience; returns a ``servorl.rollout.RolloutReport``."""

    def learn(self) -> dict[str, float]:
        """Improve the policy on it; returns metrics by name."""

    def state(self) -> dict[str, NDArray[Any]]:
        """All that ``collect`` and ``learn`` depend on, beside the policy and the environment."""

    def load_state(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Go on from ``state()``."""


def algorithm_names() -> list[str]:
    """The names that ``servorl train`` takes."""
    return sorted(_ALGORITHMS)


def config_class(name: str) -> type[Any]:
    """The configuration dataclass of an algorithm; raises UnknownNameError."""
    module, config, _ = _entry(name)
    cls: type[Any] = getattr(importlib.import_module(module), config)
    return cls


def make_algorithm(name: str, config: Any, env: Any, **settings: Any) -> Algorithm:
    """Build an algorithm; ``settings`` are ``seed``, ``total_steps`` and ``device``."""
    module, _, algorithm = _entry(name)
    made: Algorithm = getattr(importlib.import_module(module), algorithm)(config, env, **settings)
    return made


def _entry(name: str) -> tuple[str, str, str]:
    if name not in _ALGORITHMS:
        raise UnknownNameError("algorithm", name, _ALGORITHMS)
    return _ALGORITHMS[name]
