"""The command-line frame: lazy commands, one line for every failure, the right exit code."""

from __future__ import annotations

import subprocess
import sys
import types
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Literal

import pytest
import tyro

from servorl.cli import main as cli
from servorl.cli.parse import parse
from servorl.errors import CheckpointError, MissingToolError, SettingError, UnknownNameError

HEAVY = ("torch", "mujoco", "gymnasium", "onnx", "onnxruntime", "matplotlib", "numpy", "tyro")


def run_module(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout


def test_help_imports_nothing_heavy() -> None:
    printed = run_module(
        "import sys; from servorl.cli.main import main; code = main(['--help']);"
        f"print([m for m in {HEAVY!r} if m in sys.modules], code)"
    )
    assert printed.splitlines()[-1] == "[] 0"
    for command in cli.COMMANDS:
        assert command in printed


@pytest.mark.parametrize("command", cli.COMMANDS)
def test_every_command_has_help_and_loads_no_torch_for_it(command: str) -> None:
    printed = run_module(
        f"import sys; from servorl.cli.main import main; code = main([{command!r}, '--help']);"
        "print([m for m in ('torch', 'mujoco', 'onnx', 'matplotlib') if m in sys.modules], code)"
    )
    assert printed.splitlines()[-1] == "[] 0"
    assert printed.startswith(f"usage: servorl {command}")


@pytest.mark.parametrize("command", cli.COMMANDS)
def test_every_setting_is_explained(command: str) -> None:
    """A flag's line in the help holds more than its name, type and default."""
    done = subprocess.run(
        [sys.executable, "-m", "servorl.cli.main", command, "--help"],
        capture_output=True,
        text=True,
        check=True,
        env={"COLUMNS": "80", "PATH": ""},
    )
    options = " ".join(done.stdout.replace("│", " ").split()).partition("options")[2]
    for entry in options.split(" --")[1:]:
        words = entry.partition("(default")[0].partition("(required)")[0].split()
        assert len(words) >= 3, f"{command} --{entry} has no help"


def test_python_minus_m_and_version() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "servorl.cli.main", "--version"], capture_output=True, text=True
    )
    assert done.returncode == 0
    assert done.stdout.startswith("servorl ")


def test_an_unknown_command_offers_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["verfy"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == "servorl: unknown command 'verfy'; did you mean verify?\n"


def _command(
    monkeypatch: pytest.MonkeyPatch, run: Callable[[list[str]], int], name: str = "envs"
) -> None:
    module = types.ModuleType("servorl_test_command")
    module.run = run  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setitem(cli.COMMANDS, name, cli.Command(module.__name__, "for a test"))


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (
            SettingError("num_envs must be at least 1,\nnot 0"),
            2,
            "num_envs must be at least 1, not 0",
        ),
        (UnknownNameError("board", "cortex-m4", ["cortex-m4f"]), 2, "did you mean cortex-m4f?"),
        (CheckpointError("step_5 is truncated"), 1, "step_5 is truncated"),
        (MissingToolError("install qemu-system-arm"), 1, "install qemu-system-arm"),
        (ValueError("shape (3,)"), 2, "shape (3,)"),
        (TypeError("not an array"), 2, "not an array"),
        (PermissionError(13, "Permission denied", "/out"), 1, "/out: permission denied"),
        (ModuleNotFoundError("No module named 'torch'"), 1, "servorl doctor"),
        (KeyError("weights"), 1, "internal error, KeyError: 'weights'"),
        (KeyboardInterrupt(), 130, "interrupted"),
    ],
)
def test_a_failure_is_one_line_and_an_exit_code(
    error: BaseException,
    code: int,
    line: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fail(arguments: list[str]) -> int:
        raise error

    _command(monkeypatch, fail)
    monkeypatch.delenv(cli.TRACEBACK_VARIABLE, raising=False)
    assert cli.main(["envs"]) == code
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert captured.err.startswith("servorl: ")
    assert line in captured.err


def test_a_traceback_can_be_asked_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(arguments: list[str]) -> int:
        raise SettingError("wrong")

    _command(monkeypatch, fail)
    monkeypatch.setenv(cli.TRACEBACK_VARIABLE, "1")
    assert cli.main(["envs"]) == 2
    assert "Traceback" in capsys.readouterr().err


def test_a_reader_that_leaves_early_is_no_failure() -> None:
    script = (
        "import sys, types; from servorl.cli import main as cli;"
        "module = types.ModuleType('t');"
        "module.run = lambda a: print('x' * 1_000_000) or 0;"
        "sys.modules['t'] = module; cli.COMMANDS['envs'] = cli.Command('t', '');"
        "sys.exit(cli.main(['envs']))"
    )
    writer = subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert writer.stdout is not None
    assert writer.stderr is not None
    writer.stdout.read(1)
    writer.stdout.close()
    complaints = writer.stderr.read()
    writer.stderr.close()
    assert writer.wait() == cli.BROKEN_PIPE_EXIT
    assert complaints == b""


@dataclass(frozen=True)
class Nested:
    """Settings inside settings."""

    learning_rate: float = 3e-4
    """Step size."""


@dataclass(frozen=True)
class Example:
    """A command for the tests."""

    algorithm: Annotated[Literal["ppo", "sac"], tyro.conf.Positional]
    """Which one."""
    env: str
    """Which task."""
    num_envs: int | None = None
    """How many."""
    seeds: tuple[int, ...] = ()
    """Several."""
    anneal: bool = True
    """A switch that is on."""
    inner: Nested = Nested()
    """More."""


def parse_example(line: str) -> Example:
    return parse(Example, line.split(), prog="servorl example")


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("ppo --env a", Example("ppo", "a")),
        ("sac --env a --num-envs 4", Example("sac", "a", num_envs=4)),
        ("sac --env=a --num_envs=4", Example("sac", "a", num_envs=4)),
        ("ppo --env a --seeds 1 2 3", Example("ppo", "a", seeds=(1, 2, 3))),
        ("ppo --env a --seeds 1,2,3", Example("ppo", "a", seeds=(1, 2, 3))),
        ("ppo --seeds=1,2,-3 --env a", Example("ppo", "a", seeds=(1, 2, -3))),
        ("ppo --env a,b", Example("ppo", "a,b")),
        ("ppo --env a --no-anneal", Example("ppo", "a", anneal=False)),
        ("ppo --env a --learning-rate 1e-3", Example("ppo", "a", inner=Nested(1e-3))),
    ],
)
def test_arguments_become_a_configuration(line: str, expected: Example) -> None:
    assert parse_example(line) == expected


@pytest.mark.parametrize(
    ("line", "kind", "message"),
    [
        ("ppo --env a --num-env 4", UnknownNameError, "'--num-env'; did you mean --num-envs"),
        ("ppo --env a --learning-rat 4", UnknownNameError, "did you mean --learning-rate?"),
        ("ppo --wat 4", UnknownNameError, "unknown setting '--wat'"),
        ("ppa --env a", UnknownNameError, "unknown algorithm 'ppa'; did you mean ppo?"),
        ("ppo --env a --num-envs four", SettingError, "--num-envs expects {None}|INT, not 'four'"),
        ("ppo --env a --num-envs=1.5", SettingError, "--num-envs expects {None}|INT, not '1.5'"),
        ("ppo --env a --seeds x,y", SettingError, "not 'x,y'"),
        ("ppo --env a --learning-rate fast", SettingError, "--learning-rate expects FLOAT"),
        ("ppo", SettingError, "missing --env; see servorl example --help"),
        ("--env a", SettingError, "missing ALGORITHM; see servorl example --help"),
        ("ppo --env", SettingError, "--env"),
        ("ppo --env a b", SettingError, "unexpected argument 'b'"),
    ],
)
def test_a_wrong_request_is_named_in_one_line(
    line: str, kind: type[Exception], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(kind) as caught:
        parse_example(line)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    assert capsys.readouterr() == ("", "")
