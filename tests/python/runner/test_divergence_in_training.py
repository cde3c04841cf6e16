"""A simulator that breaks down, or a GPU, does not change what a training run promises."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from servorl import checkpoint as checkpoints
from servorl.runner import Callback, Runner
from servorl.training import resume, train

SMALL: dict[str, Any] = {
    "num_envs": 4,
    "rollout_steps": 32,
    "num_epochs": 2,
    "num_minibatches": 4,
    "evaluation_interval": 0,
    "evaluation_episodes": 1,
    "progress": "none",
}


class Sabotage(Callback):
    """After the second iteration, gives two environments a velocity that no integrator survives."""

    def on_iteration(self, runner: Runner, metrics: Any) -> None:
        if metrics["steps"] == 256:
            state = runner.env.get_state([1, 2])
            runner.env.set_state({"qvel": np.full_like(state["qvel"], 1e12)}, [1, 2])


def test_diverged_environments_are_counted_and_training_goes_on(tmp_path: Path) -> None:
    run = train(
        "ppo", env="half_cheetah", steps=768, out=tmp_path / "run", callbacks=[Sabotage()],
        device="cpu", **SMALL,
    )  # fmt: skip
    counts = [row["diverged"] for row in run.metrics()]
    assert counts[:2] == [0, 0]
    assert counts[2:] == [2] * 4
    for array in checkpoints.load(checkpoints.find(run.path)[1]).arrays["policy"].arrays.values():
        assert np.isfinite(array).all()


@pytest.mark.gpu
def test_training_and_resuming_on_a_gpu(tmp_path: Path) -> None:
    settings = SMALL | {"device": "cuda"}
    run = train("ppo", env="pendulum", steps=256, out=tmp_path / "run", **settings)
    resume(run.path, steps=512)
    assert run.load().steps == 512
    assert np.isfinite(run.evaluate(episodes=2).mean_return)
