"""Bad input: typed exceptions in Python, one line and the right exit code on the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from servorl import checkpoint as checkpoints
from servorl.algorithms.ppo import PPOConfig
from servorl.algorithms.presets import PRESETS
from servorl.cli.main import main
from servorl.errors import DeviceError, OutputError, RunFolderError, SettingError, UnknownNameError
from servorl.metrics import read_metrics
from servorl.runs import load_policy
from servorl.settings import with_settings
from servorl.training import configure, train

SMALL: dict[str, Any] = {
    "env": "pendulum",
    "steps": 64,
    "num_envs": 2,
    "rollout_steps": 16,
    "num_epochs": 1,
    "evaluation_episodes": 1,
    "device": "cpu",
    "progress": "none",
}
FLAGS = [
    word
    for name, value in SMALL.items()
    for word in (f"--{name.replace('_', '-')}", str(value))
]  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"env": "half_cheeta"}, UnknownNameError, "did you mean half_cheetah"),
        ({"num_envs": 0}, SettingError, r"num_envs must be in \[1, 1048576\], not 0"),
        ({"num_envs": 2.5}, SettingError, r"num_envs must be an integer, not 2\.5"),
        ({"num_envs": True}, SettingError, "num_envs must be an integer"),
        ({"steps": 0}, SettingError, "steps must be at least 1"),
        ({"seed": -1}, SettingError, "seed must be in"),
        ({"gamma": 1.5}, SettingError, r"gamma must be in \[0, 1\], not 1\.5"),
        ({"gamma": float("nan")}, SettingError, "gamma must be"),
        ({"learning_rate": 0.0}, SettingError, "learning_rate must be above 0"),
        ({"learning_rate": "fast"}, SettingError, "learning_rate must be a number"),
        ({"hidden_sizes": (64, 0)}, SettingError, r"hidden_sizes must be in \[1, 65536\]"),
        ({"hidden_sizes": 64}, SettingError, "hidden_sizes must be a tuple of int"),
        ({"normalize_obs": 1}, SettingError, "normalize_obs must be true or false"),
        ({"device": "tpu"}, SettingError, "device must be one of auto, cpu, cuda"),
        ({"backend": "numpy"}, SettingError, "backend must be one of"),
        ({"target_return": "high"}, SettingError, "target_return must be"),
        ({"gama": 0.9}, UnknownNameError, "did you mean gamma"),
    ],
)
def test_a_wrong_setting_is_named_before_anything_is_written(
    tmp_path: Path, changes: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        train("ppo", out=tmp_path / "run", **SMALL | changes)
    assert not (tmp_path / "run").exists()


def test_an_unknown_algorithm_offers_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match="did you mean ppo"):
        train("pppo", **SMALL)


def test_cuda_without_a_gpu_raises_and_auto_falls_back_and_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    train("ppo", out=tmp_path / "auto", **SMALL | {"device": "auto", "progress": "plain"})
    assert "device: cpu (torch sees no GPU)" in capsys.readouterr().out

    def no_gpu(*_: object, **__: object) -> None:
        raise RuntimeError("Found no NVIDIA driver on your system.\nmore")

    monkeypatch.setattr("torch.zeros", no_gpu)
    with pytest.raises(DeviceError, match=r"device cuda: Found no NVIDIA driver.*; use cpu"):
        train("ppo", out=tmp_path / "cuda", **SMALL | {"device": "cuda"})


def test_a_folder_that_cannot_be_written_stops_before_training(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(OutputError, match="file"):
        train("ppo", out=tmp_path / "file", **SMALL)
    assert (tmp_path / "file").read_text() == "mine"
    with pytest.raises(OutputError):
        train("ppo", out="/proc/servorl-run", **SMALL)


def test_a_folder_that_holds_a_run_is_not_overwritten(tmp_path: Path) -> None:
    run = train("ppo", out=tmp_path / "run", **SMALL)
    before = checkpoints.find(run.path)
    with pytest.raises(OutputError, match="holds a run already"):
        train("ppo", out=tmp_path / "run", **SMALL)
    assert checkpoints.find(run.path) == before


def test_a_folder_that_is_no_run_is_named(tmp_path: Path) -> None:
    with pytest.raises(RunFolderError, match="is not a folder"):
        load_policy(tmp_path / "nothing")
    with pytest.raises(RunFolderError, match="no run in it"):
        load_policy(tmp_path)


def test_settings_of_the_wrong_type_inside_a_checked_config_raise() -> None:
    with pytest.raises(SettingError, match="num_epochs"):
        with_settings(PPOConfig(), {"num_epochs": 0})
    with pytest.raises(UnknownNameError, match="num_epochs"):
        with_settings(PPOConfig(), {"num_epoch": 3})


def test_presets_name_existing_settings_and_given_settings_win() -> None:
    for (algorithm, env), preset in PRESETS.items():
        _, settings = configure(algorithm, {"env": env})
        for name, value in preset.items():
            assert getattr(settings, name) == value
        name = next(iter(preset))
        _, settings = configure(algorithm, {"env": env, name: getattr(PPOConfig(), name)})
        assert getattr(settings, name) == getattr(PPOConfig(), name)


@pytest.mark.parametrize(
    ("arguments", "exit_code", "message"),
    [
        (["train", "pppo", "--env", "pendulum"], 2, "unknown algorithm 'pppo'; did you mean ppo?"),
        (["train", "ppo", "--env", "pendulums"], 2, "did you mean pendulum"),
        (["train", "ppo"], 2, "--env is missing"),
        (["train", "ppo", *FLAGS, "--num-envs", "0"], 2, "num_envs must be in [1, 1048576]"),
        (["train", "ppo", *FLAGS, "--gamma", "2"], 2, "gamma must be in [0, 1]"),
        (["train", "ppo", *FLAGS, "--gamma", "much"], 2, "--gamma"),
        (["train", "ppo", *FLAGS, "--gama", "0.9"], 2, "--gamma"),
        (["train", "ppo", *FLAGS, "--out", "/proc/servorl-run"], 1, "/proc/servorl-run"),
        (["train", "--resume", "/nowhere"], 1, "/nowhere is not a folder"),
        (["eval", "/nowhere"], 1, "/nowhere is not a folder"),
        (["eval", "/nowhere.onnx"], 1, "/nowhere.onnx"),
        (["eval", "--episodes", "3"], 2, "missing POLICY"),
        (["eval", "/nowhere", "--episodes", "0"], 2, "episodes must be at least 1"),
    ],
)
def test_the_command_line_answers_in_one_line(
    arguments: list[str], exit_code: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == exit_code
    out, err = capsys.readouterr()
    assert message in err
    assert err.count("\n") == 1
    assert "Traceback" not in out + err


def test_train_and_eval_on_the_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = [flag if flag != "none" else "plain" for flag in FLAGS]
    assert main(["train", "ppo", *flags, "--seeds", "1,2", "--out", str(tmp_path / "runs")]) == 0
    out = capsys.readouterr().out
    assert "checkpoint at 64 steps" in out
    assert "simulate" in out
    run = tmp_path / "runs" / "seed2"
    assert load_policy(run).seed == 2
    assert [row["steps"] for row in read_metrics(run)] == [32, 64]
    assert list((run / "tensorboard").iterdir())

    assert main(["eval", str(run), "--episodes", "3", "--seed", "7", "--json"]) == 0
    first = json.loads(capsys.readouterr().out)
    assert len(first["returns"]) == len(first["lengths"]) == 3
    assert first["mean_return"] == pytest.approx(np.mean(first["returns"]))
    assert main(["eval", str(run), "--episodes", "3", "--seed", "7", "--best"]) == 0
    assert "pendulum: return" in capsys.readouterr().out

    assert main(["train", "--resume", str(run), "--steps", "128", "--progress", "none"]) == 0
    assert load_policy(run).steps == 128


def test_a_target_return_ends_the_run_early(tmp_path: Path) -> None:
    run = train(
        "ppo",
        out=tmp_path / "run",
        **SMALL | {"steps": 10_000, "evaluation_interval": 32, "target_return": -1e9},
    )
    assert run.stopped is not None
    assert "reached" in run.stopped
    assert run.load().steps == 32
    assert run.evaluate(episodes=2).returns == run.evaluate(episodes=2).returns
