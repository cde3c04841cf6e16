"""What the fuzz tests spoil: a small run and an export of it, made once."""

from __future__ import annotations

from pathlib import Path

import pytest

import servorl


@pytest.fixture(scope="session")
def finished_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    settings = {
        "num_envs": 2,
        "rollout_steps": 16,
        "hidden_sizes": (4,),
        "num_minibatches": 2,
        "progress": "none",
    }
    out = tmp_path_factory.mktemp("fuzz") / "run"
    run = servorl.train(
        "ppo", env="pendulum", steps=64, seed=1, out=out, evaluation_interval=0, **settings
    )
    return run.path


@pytest.fixture(scope="session")
def finished_export(finished_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    from servorl.export import export
    from servorl.runs import load_policy

    loaded = load_policy(finished_run)
    out = tmp_path_factory.mktemp("fuzz") / "export"
    return export(loaded.policy.inference_graph(), loaded.task_info, out)
