"""servorl: train a control policy, export it to ONNX and C, and prove it is the same function.

    import servorl
    run = servorl.train("ppo", env="inverted_pendulum", steps=100_000, seed=1)
    print(run.evaluate(episodes=20).mean_return)
    servorl.verify(run.export("out"), board="cortex-m4f")

Every name below is imported when it is first used, so ``import servorl`` itself is cheap.
It makes ``gymnasium.make_vec("servorl/half_cheetah-v0")`` and the like known to Gymnasium.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from servorl._gymnasium_ids import register_when_imported

if TYPE_CHECKING:
    from servorl.evaluation import Evaluation, evaluate
    from servorl.export.verify import verify
    from servorl.registry import card, env_names, make_vec, model_path
    from servorl.runs import load_policy
    from servorl.task_info import Channel, TaskInfo
    from servorl.training import Run, train
    from servorl.vec_env import VecEnv

_HOME = {
    "Channel": "servorl.task_info",
    "Evaluation": "servorl.evaluation",
    "Run": "servorl.training",
    "TaskInfo": "servorl.task_info",
    "VecEnv": "servorl.vec_env",
    "card": "servorl.registry",
    "env_names": "servorl.registry",
    "evaluate": "servorl.evaluation",
    "load_policy": "servorl.runs",
    "make_vec": "servorl.registry",
    "model_path": "servorl.registry",
    "train": "servorl.training",
    "verify": "servorl.export.verify",
}

__all__ = [
    "Channel",
    "Evaluation",
    "Run",
    "TaskInfo",
    "VecEnv",
    "__version__",
    "card",
    "env_names",
    "evaluate",
    "load_policy",
    "make_vec",
    "model_path",
    "train",
    "verify",
]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("servorl")
    if name not in _HOME:
        raise AttributeError(f"module 'servorl' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)


register_when_imported()
