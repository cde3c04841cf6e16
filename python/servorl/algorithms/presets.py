"""Settings for tasks on which an algorithm's defaults do not do; docs/algorithms has the figures.

``servorl train`` and ``servorl.train`` start from these; a setting that is given wins over them.
"""

from __future__ import annotations

from typing import Any

PRESETS: dict[tuple[str, str], dict[str, Any]] = {}


def preset(algorithm: str, environment: str) -> dict[str, Any]:
    """The algorithm's settings for one environment that differ from its defaults."""
    return dict(PRESETS.get((algorithm, environment), {}))
