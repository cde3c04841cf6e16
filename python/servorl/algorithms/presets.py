"""Settings for tasks on which an algorithm's defaults do not do; docs/algorithms has the figures.

``servorl train`` and ``servorl.train`` start from these; a setting that is given wins over them.
"""

from __future__ import annotations

from typing import Any

PRESETS: dict[tuple[str, str], dict[str, Any]] = {
    # Discount and trace of RL-Zoo's tuned PPO; less noise than exp(0) lets the gait form.
    ("ppo", "half_cheetah"): {"gamma": 0.98, "gae_lambda": 0.92, "initial_log_std": -1.0},
    # RL-Zoo's: the swing-up is decided within a second, and reward grows with every step upright.
    ("ppo", "pendulum"): {"gamma": 0.9, "learning_rate": 1e-3},
}


def preset(algorithm: str, environment: str) -> dict[str, Any]:
    """The algorithm's settings for one environment that differ from its defaults."""
    return dict(PRESETS.get((algorithm, environment), {}))
