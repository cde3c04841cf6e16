"""Bad input on the command line: one clear line, the right exit code, nothing half-written."""

from __future__ import annotations

import json
import shutil
import stat
from pathlib import Path

import pytest

import servorl
from servorl.cli.main import main

TRAIN = "train ppo --env inverted_pendulum --steps 256 --num-envs 2 --rollout-steps 128"


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of one iteration."""
    out = tmp_path_factory.mktemp("runs") / "run"
    servorl.train("ppo", env="inverted_pendulum", steps=256, num_envs=2, rollout_steps=128, out=out)
    return out


@pytest.fixture
def here(run_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with ``run``, a file ``file``, and an empty folder ``empty``."""
    shutil.copytree(run_folder, tmp_path / "run")
    (tmp_path / "file").write_text("text")
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def complaint(capfd: pytest.CaptureFixture[str], line: str) -> tuple[int, str]:
    """Exit code of a command line and the one line that it prints to standard error."""
    capfd.readouterr()
    exit_code = main(line.split())
    captured = capfd.readouterr()
    assert captured.err.startswith("servorl: ")
    assert captured.err.count("\n") == 1, captured.err
    assert "Traceback" not in captured.out + captured.err
    return exit_code, captured.err


WRONG_REQUESTS = [
    ("train ppo --env inverted_pendulm --steps 256", "did you mean inverted_pendulum?"),
    ("train pppo --env pendulum", "did you mean ppo?"),
    ("train ppo --steps 256", "--env"),
    (f"{TRAIN} --learning-rat 1e-3", "did you mean --learning-rate?"),
    (f"{TRAIN} --learning-rate fast", "--learning-rate expects FLOAT, not 'fast'"),
    (f"{TRAIN} --learning-rate -1", "learning_rate"),
    (f"{TRAIN} --learning-rate nan", "learning_rate"),
    ("train ppo --env pendulum --num-envs 0", "num_envs must be in [1, 1048576], not 0"),
    ("train ppo --env pendulum --steps 0", "steps must be at least 1, not 0"),
    ("train ppo --env pendulum --num-envs many", "--num-envs expects INT, not 'many'"),
    (f"{TRAIN} --device tpu", "unknown device 'tpu'"),
    ("eval run --episodes 0", "episodes must be at least 1, not 0"),
    ("eval run --env pendulm", "did you mean pendulum?"),
    ("eval run --video play.avi", ".mp4 or .gif"),
    ("eval", "missing"),
    ("export run --otu x", "did you mean --out?"),
    ("export", "missing"),
    ("verify run --board cortex-m4", "did you mean cortex-m4f?"),
    ("verify", "missing"),
    ("envs half_chetah", "did you mean half_cheetah?"),
    ("bench steping", "did you mean stepping?"),
    ("bench stepping --json", "--json"),
    ("doctor --jsn", "did you mean --json?"),
]


@pytest.mark.parametrize(("line", "message"), WRONG_REQUESTS, ids=[w[0] for w in WRONG_REQUESTS])
def test_a_wrong_request_exits_2(
    line: str, message: str, here: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    before = contents(here)
    exit_code, printed = complaint(capfd, line)
    assert exit_code == 2, printed
    assert message in printed
    assert contents(here) == before


BEYOND_REASON = [
    ("--torch-threads 50000", "torch_threads"),
    ("--num-envs 2147483647", "num_envs"),
    ("--hidden-sizes 99999999999", "hidden_sizes"),
    ("--rollout-steps 2147483647", "rollout_steps"),
    ("--obs-clip 1e300", "obs_clip"),
    ("--target-return nan", "target_return"),
    ("--learning-rate inf", "learning_rate must be finite"),
    ("--seeds 3,3", "seeds must differ"),
    ("--out=", "empty"),
]


@pytest.mark.parametrize(("flag", "message"), BEYOND_REASON, ids=[b[0] for b in BEYOND_REASON])
def test_a_setting_beyond_reason_is_refused_before_anything_is_written(
    flag: str, message: str, here: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    before = contents(here)
    base = "train ppo --env inverted_pendulum --steps 256 --out new"
    exit_code, printed = complaint(capfd, f"{base} {flag}")
    assert exit_code == 2, printed
    assert message in printed
    assert contents(here) == before
    assert not (here / "new").exists()


def test_a_prefix_too_long_for_c_is_refused(here: Path, capfd: pytest.CaptureFixture[str]) -> None:
    exit_code, printed = complaint(capfd, f"export run --out new --prefix {'a' * 300}")
    assert exit_code == 2
    assert "prefix is 300 characters long" in printed
    assert not (here / "new").exists()


@pytest.mark.parametrize("command", ["eval run", "train --resume run", f"{TRAIN} --out run"])
def test_checkpoints_that_nothing_marks_as_the_latest_are_kept(
    command: str, here: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (here / "run" / "latest").unlink()
    before = contents(here)
    exit_code, printed = complaint(capfd, command)
    assert exit_code == 1, printed
    assert str(next((here / "run" / "checkpoints").iterdir()).name) in printed
    assert contents(here) == before


FAILURES = [
    ("eval nowhere", "nowhere"),
    ("eval empty", "empty"),
    ("eval file", "file"),
    ("export nowhere --out new", "nowhere"),
    ("export empty --out new", "empty"),
    ("export run --out file", "file"),
    ("export run --out file/deeper", "file/deeper"),
    ("verify empty", "empty"),
    ("eval run --video file/play.gif", "file/play.gif"),
    (f"{TRAIN} --out file", "file"),
    (f"{TRAIN} --out file/deeper", "file/deeper"),
    (f"{TRAIN} --out run", "holds a run already"),
    ("train --resume empty", "empty"),
    ("train --resume nowhere", "nowhere"),
    ("demo --out file", "file"),
    ("bench stepping --json file/deeper.json", "file/deeper.json"),
]


@pytest.mark.parametrize(("line", "message"), FAILURES, ids=[f[0] for f in FAILURES])
def test_a_failure_of_a_file_exits_1(
    line: str, message: str, here: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    before = contents(here)
    exit_code, printed = complaint(capfd, line)
    assert exit_code == 1, printed
    assert message in printed
    assert contents(here) == before
    assert not (here / "new").exists()


@pytest.mark.parametrize("command", ["eval run", "export run --out new", "train --resume run"])
@pytest.mark.parametrize("damage", ["truncated", "tampered", "missing"])
def test_a_damaged_checkpoint_exits_1(
    command: str, damage: str, here: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (arrays,) = (here / "run" / "checkpoints").glob("*/policy.safetensors")
    data = bytearray(arrays.read_bytes())
    if damage == "truncated":
        arrays.write_bytes(data[:-100])
    elif damage == "tampered":
        data[-5] ^= 1
        arrays.write_bytes(data)
    else:
        arrays.unlink()
    before = contents(here)
    exit_code, printed = complaint(capfd, command)
    assert exit_code == 1, printed
    assert arrays.name in printed
    assert contents(here) == before
    assert not (here / "new").exists()


def test_a_missing_arm_toolchain_is_named_and_the_rest_is_done(
    here: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """A PATH with every program but the Arm compiler."""
    programs = here / "programs"
    programs.mkdir()
    for name in ("cc", "gcc", "g++", "as", "ld", "qemu-system-arm"):
        found = shutil.which(name)
        if found is not None:
            (programs / name).symlink_to(found)
    monkeypatch.setenv("PATH", str(programs))
    exit_code = main(["verify", "run", "--json"])
    captured = capfd.readouterr()
    report = json.loads(captured.out)
    rows = {row["target"]: row for row in report["rows"]}
    assert rows["onnxruntime"]["max_error"] <= 1e-5
    assert rows["host-c"]["max_error"] <= 1e-5
    assert rows["cortex-m4f"]["max_error"] is None
    assert "gcc-arm-none-eabi" in captured.err
    assert exit_code == 1
    assert "Traceback" not in captured.err


def test_an_output_folder_without_permission_names_it(
    here: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """/proc takes no new folder, not even from root."""
    for line in (f"{TRAIN} --out /proc/run", "export run --out /proc/export"):
        exit_code, printed = complaint(capfd, line)
        assert exit_code == 1
        assert "/proc/" in printed
    assert stat.S_ISDIR(Path("/proc").stat().st_mode)
