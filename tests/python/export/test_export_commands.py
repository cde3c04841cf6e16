"""servorl export and servorl verify: what they print, and how they fail."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from example_policies import environment_policy

from servorl.cli.main import main
from servorl.export import export, integrity
from servorl.training import train


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of a few updates: what it learnt does not matter here."""
    out = tmp_path_factory.mktemp("runs") / "run"
    train("ppo", env="inverted_pendulum", steps=4096, seed=1, out=out, progress="none")
    return out


def test_export_writes_next_to_the_run(run_folder: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["export", str(run_folder), "--board", "cortex-m4f"]) == 0
    printed = capsys.readouterr().out
    assert "bytes of flash" in printed
    exported = integrity.read_export(run_folder / "export")
    assert integrity.check_files(exported) == []
    assert exported.task_info.name == "inverted_pendulum"
    assert str(run_folder / "export" / "policy.c") in printed


def test_export_takes_a_prefix_and_a_folder(run_folder: Path, tmp_path: Path):
    arguments = ["--out", str(tmp_path / "a" / "b"), "--prefix", "balance"]
    assert main(["export", str(run_folder), *arguments]) == 0
    assert "balance_infer(" in (tmp_path / "a" / "b" / "policy.h").read_text()


def test_a_trained_policy_is_verified_from_its_run(
    run_folder: Path, capsys: pytest.CaptureFixture[str]
):
    """From a run, torch is the trained policy itself, not the exported graph."""
    assert main(["verify", str(run_folder), "--json", "--episodes", "2"]) == 0
    printed = capsys.readouterr()
    report = json.loads(printed.out)
    assert report == json.loads((run_folder / "export" / "report.json").read_text())
    assert report["ok"]
    targets = [row["target"] for row in report["rows"]]
    assert targets == ["torch", "onnxruntime", "host-c", "cortex-m4f"]
    assert all(row["max_error"] <= 1e-5 for row in report["rows"])
    exported = integrity.read_export(run_folder / "export")
    assert np.any(exported.graph.inv_std != 1)


def test_verifying_a_run_keeps_the_prefix_of_its_export(run_folder: Path):
    assert main(["export", str(run_folder), "--prefix", "balance"]) == 0
    assert main(["verify", str(run_folder), "--episodes", "1", "--observations", "16"]) == 0
    assert integrity.read_export(run_folder / "export").prefix == "balance"


def test_verify_prints_a_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    folder = export(*environment_policy("pendulum"), tmp_path / "export")
    assert main(["verify", str(folder), "--episodes", "1", "--observations", "40"]) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    for word in ("verified", "torch", "onnxruntime", "host-c", "cortex-m4f", "instructions"):
        assert word in printed.out


def test_a_policy_that_was_changed_exits_with_1_and_says_where(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    folder = export(*environment_policy("pendulum"), tmp_path / "export")
    source = (folder / "policy.c").read_text()
    (folder / "policy.c").write_text(source.replace("0x1.", "0x1.8", 60))
    assert main(["verify", str(folder)]) == 1
    printed = capsys.readouterr()
    assert "NOT VERIFIED" in printed.out
    assert printed.err.startswith("servorl: policy.c was changed after the export: line ")


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["export", "nowhere"], 1, "nowhere"),
        (["export", "."], 1, "run"),
        (["export"], 2, "missing RUN"),
        (["export", "nowhere", "--numbers", "float23"], 2, "did you mean float32"),
        (["export", "nowhere", "--target", "rust"], 2, "known: c"),
        (["export", "nowhere", "--board", "cortex-m4"], 2, "did you mean cortex-m4f"),
        (["export", "nowhere", "--nubers", "float32"], 2, "--numbers"),
        (["verify", "nowhere"], 1, "neither a run nor an export"),
        (["verify", "nowhere", "--board", "esp"], 2, "unknown board"),
        (["verify", "nowhere", "--episodes", "0"], 2, "episodes must be at least 1"),
        (["verify", "nowhere", "--episodes", "many"], 2, "--episodes expects"),
        (["verify", "nowhere", "--image", "none.elf"], 1, "none.elf is not a file"),
    ],
)
def test_bad_requests_are_one_line(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    code: int,
    message: str,
):
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == code
    printed = capsys.readouterr()
    assert printed.out == ""
    assert message in printed.err
    assert printed.err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_an_output_that_cannot_be_written(
    run_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    (tmp_path / "file").write_text("")
    assert main(["export", str(run_folder), "--out", str(tmp_path / "file" / "out")]) == 1
    assert "cannot write the export to" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_importing_the_commands_imports_nothing_heavy():
    code = (
        "import sys, servorl.cli.export, servorl.cli.verify;"
        "print([m for m in ('torch', 'onnx', 'mujoco', 'gymnasium') if m in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.stdout.strip() == "[]", result.stderr
