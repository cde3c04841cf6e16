"""N steps, a resume and M steps are N + M steps, bit for bit; one seed is one run."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from servorl import checkpoint as checkpoints
from servorl.errors import CheckpointError, RunFolderError, SettingError, UnknownNameError
from servorl.metrics import read_metrics
from servorl.runner import Callback, Runner
from servorl.training import resume, train

SMALL: dict[str, Any] = {
    "num_envs": 4,
    "num_threads": 1,
    "rollout_steps": 32,
    "num_minibatches": 3,
    "num_epochs": 2,
    "hidden_sizes": (16,),
    "checkpoint_interval": 256,
    "evaluation_interval": 384,
    "evaluation_episodes": 2,
    "device": "cpu",
    "progress": "none",
}
TIMED = {"steps_per_second", "simulate_share", "infer_share", "learn_share", "seconds"}


class StopAt(Callback):
    """Stops a run in its middle, as a signal would."""

    def __init__(self, steps: int) -> None:
        self.steps = steps

    def on_iteration(self, runner: Runner, metrics: Any) -> None:
        if metrics["steps"] >= self.steps:
            runner.stop("as asked")


def arrays_of(run: Path) -> dict[str, np.ndarray]:
    """Every array of the latest checkpoint: policy, optimiser, generators, simulator."""
    saved = checkpoints.load(checkpoints.find(run)[1])
    return {
        f"{part}/{name}": array
        for part, file in saved.arrays.items()
        for name, array in file.arrays.items()
    }


def assert_same_run(one: Path, other: Path, evaluations: bool = True) -> None:
    ours, theirs = arrays_of(one), arrays_of(other)
    assert ours.keys() == theirs.keys()
    for name, array in theirs.items():
        np.testing.assert_array_equal(ours[name], array, err_msg=name)
    skipped = TIMED if evaluations else TIMED | {"evaluation_return", "evaluation_std"}
    rows = [
        [{k: v for k, v in row.items() if k not in skipped} for row in read_metrics(run)]
        for run in (one, other)
    ]
    assert rows[0] == rows[1]


@pytest.mark.parametrize("env", ["inverted_pendulum", "pendulum", "half_cheetah"])
def test_a_stopped_and_resumed_run_is_the_uninterrupted_one(tmp_path: Path, env: str) -> None:
    whole = train("ppo", env=env, steps=1024, seed=3, out=tmp_path / "whole", **SMALL)
    parts = train(
        "ppo", env=env, steps=1024, seed=3, out=tmp_path / "parts", callbacks=[StopAt(300)], **SMALL
    )
    assert parts.stopped == "as asked"
    assert len(parts.metrics()) == 3
    resume(parts.path, callbacks=[StopAt(600)])
    resume(parts.path)
    assert len(whole.metrics()) == 8
    assert_same_run(whole.path, parts.path)


def test_a_run_given_more_steps_is_the_longer_run(tmp_path: Path) -> None:
    settings = SMALL | {"anneal_steps": 768}
    whole = train("ppo", env="pendulum", steps=768, out=tmp_path / "whole", **settings)
    parts = train("ppo", env="pendulum", steps=384, out=tmp_path / "parts", **settings)
    resume(parts.path, steps=768)
    assert whole.metrics()[-1]["learning_rate"] < whole.metrics()[0]["learning_rate"]
    assert_same_run(whole.path, parts.path)


@pytest.mark.parametrize("num_threads", [1, 2])
def test_one_seed_is_one_run_whatever_the_simulators_threads(
    tmp_path: Path, num_threads: int
) -> None:
    settings = SMALL | {"env": "inverted_pendulum", "steps": 640, "seed": 5}
    one = train("ppo", out=tmp_path / "one", **settings)
    other = train("ppo", out=tmp_path / "two", **settings | {"num_threads": num_threads})
    assert_same_run(one.path, other.path)


def test_another_seed_is_another_run(tmp_path: Path) -> None:
    runs = [
        train("ppo", env="pendulum", steps=128, seed=seed, out=tmp_path / str(seed), **SMALL)
        for seed in (1, 2)
    ]
    weights = [arrays_of(run.path)["policy/actor.weights.0"] for run in runs]
    assert not np.array_equal(*weights)


def test_going_on_from_an_earlier_checkpoint_drops_the_later_ones(tmp_path: Path) -> None:
    whole = train("ppo", env="pendulum", steps=1024, out=tmp_path / "whole", **SMALL)
    before = arrays_of(whole.path)
    earlier = checkpoints.list_checkpoints(whole.path)[0]
    assert earlier != checkpoints.list_checkpoints(whole.path)[-1]
    resume(earlier)
    after = arrays_of(whole.path)
    for name, array in before.items():
        np.testing.assert_array_equal(after[name], array, err_msg=name)
    assert len(whole.metrics()) == 8


def test_a_finished_run_resumed_does_nothing(tmp_path: Path) -> None:
    run = train("ppo", env="pendulum", steps=128, out=tmp_path / "run", **SMALL)
    before = sorted((path, path.stat().st_size) for path in run.path.rglob("*.safetensors"))
    resume(run.path)
    assert before == sorted((path, path.stat().st_size) for path in run.path.rglob("*.safetensors"))


def test_another_torch_thread_count_warns(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    run = train(
        "ppo", env="pendulum", steps=256, out=tmp_path / "run", callbacks=[StopAt(1)], **SMALL
    )
    resume(run.path, torch_threads=2, progress="plain")
    assert "warning: torch_threads is 2, the run was saved under 1" in capsys.readouterr().out


def test_what_a_resumed_run_cannot_change_is_refused(tmp_path: Path) -> None:
    run = train("ppo", env="pendulum", steps=128, out=tmp_path / "run", **SMALL)
    with pytest.raises(SettingError, match=r"gamma is 0\.9.* cannot become 0\.5"):
        resume(run.path, gamma=0.5)
    with pytest.raises(SettingError, match="num_envs"):
        resume(run.path, num_envs=5)
    with pytest.raises(UnknownNameError, match="did you mean steps"):
        resume(run.path, step=5)
    with pytest.raises(RunFolderError):
        resume(tmp_path / "nothing")


def test_a_damaged_checkpoint_is_not_resumed_and_nothing_is_changed(tmp_path: Path) -> None:
    run = train("ppo", env="pendulum", steps=128, out=tmp_path / "run", **SMALL)
    policy = checkpoints.find(run.path)[1] / "policy.safetensors"
    policy.write_bytes(policy.read_bytes()[:-1])
    before = {path: path.read_bytes() for path in run.path.rglob("*") if path.is_file()}
    with pytest.raises(CheckpointError, match=r"policy\.safetensors"):
        resume(run.path, steps=256)
    assert before == {path: path.read_bytes() for path in run.path.rglob("*") if path.is_file()}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_run_with_a_checkpoint(tmp_path: Path, number: signal.Signals) -> None:
    run = tmp_path / "run"
    flags = "--steps 100000000 --num-envs 2 --rollout-steps 16 --num-minibatches 1 --num-epochs 1"
    command = [sys.executable, "-m", "servorl.cli.main", "train", "ppo", "--env", "pendulum"]
    process = subprocess.Popen(
        [*command, *flags.split(), "--checkpoint-interval", "64", "--out", str(run)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    while not process.stdout.readline().startswith("checkpoint at"):
        assert process.poll() is None
    os.kill(process.pid, number)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 128 + number
    stopped = re.search(rf"stopped at (\d+) steps: {number.name} received", out)
    assert stopped is not None
    assert checkpoints.load(checkpoints.find(run)[1]).steps == int(stopped[1])
    assert f"servorl train --resume {run}" in err
