"""``servorl envs`` and ``servorl doctor``: what they print, for people and for programs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from servorl import errors
from servorl.cli import doctor
from servorl.cli.main import main
from servorl.registry import env_names, task_info


def test_every_environment_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["envs"]) == 0
    printed = capsys.readouterr().out
    for name in env_names():
        assert name in printed


@pytest.mark.parametrize("name", env_names())
def test_a_card_describes_every_channel(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["envs", name]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith(f"# {name}")
    for channel in (*task_info(name).observation, *task_info(name).action):
        assert channel.name.removesuffix("_velocity") in printed


def test_envs_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["envs", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert [entry["name"] for entry in listed] == env_names()
    assert main(["envs", "half_cheetah", "--json"]) == 0
    (entry,) = [json.loads(capsys.readouterr().out)]
    assert len(entry["observation"]) == 17
    assert len(entry["action"]) == 6
    assert entry["observation"][0]["low"] is None


def test_a_complete_machine_is_in_order(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    found = {finding["name"]: finding["found"] for finding in document["findings"]}
    assert document["ok"] is True
    for name in ("Python", "compiled module", "MuJoCo", "torch", "ONNX", "C compiler"):
        assert found[name] is not None
    assert "4.0.0" in found["MuJoCo"]
    assert "instruction set in use" in found["compiled module"]


def test_missing_tools_are_explained_and_cost_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "200")
    assert main(["doctor"]) == 0
    printed = capsys.readouterr().out
    for expected in ("gcc-arm-none-eabi", "qemu-system-arm", "would give"):
        assert expected in printed


def test_a_broken_compiled_module_is_a_failure(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(root: Path) -> str:
        raise errors.NativeModuleError("built for mujoco 3.9.9; rebuild it")

    monkeypatch.setattr("servorl._native.check_mujoco", broken)
    monkeypatch.setattr(doctor, "CHECKS", (doctor._python, doctor._mujoco))
    assert main(["doctor"]) == 1
    assert "rebuild it" in " ".join(capsys.readouterr().out.split())
