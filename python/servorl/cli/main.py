"""The ``servorl`` command: runs the sub-command asked for, and turns failures into one line.

Every sub-command is a module with ``run(arguments: list[str]) -> int``. It is imported only when
it is asked for, and imports torch, MuJoCo and the like inside its functions, so that
``servorl --help`` answers at once.
"""

from __future__ import annotations

import importlib
import os
import sys
import traceback
from dataclasses import dataclass

from servorl.errors import ServorlError, UnknownNameError

USAGE_EXIT = 2
FAILURE_EXIT = 1
INTERRUPT_EXIT = 130
BROKEN_PIPE_EXIT = 141
TRACEBACK_VARIABLE = "SERVORL_TRACEBACK"


@dataclass(frozen=True)
class Command:
    """One sub-command: the module that implements it and its line in ``servorl --help``."""

    module: str
    summary: str


COMMANDS: dict[str, Command] = {
    "train": Command("servorl.cli.train", "train a policy: servorl train ppo --env NAME"),
    "eval": Command("servorl.cli.eval", "play a trained policy and report its return"),
    "export": Command("servorl.cli.export", "write a policy as ONNX and as C for a small computer"),
    "verify": Command("servorl.cli.verify", "prove that an export is the policy that was trained"),
    "bench": Command("servorl.cli.bench", "measure speed against the limit and other libraries"),
    "envs": Command("servorl.cli.envs", "list the environments, or show one"),
    "doctor": Command("servorl.cli.doctor", "say what is installed and what a missing part gives"),
    "demo": Command("servorl.cli.demo", "train, export and prove a first policy, with a report"),
}


def main(arguments: list[str] | None = None) -> int:
    """Run one command line and return its exit code.

    0 is success, 2 a request that is wrong, 1 a failure of a file or the machine, 130 Ctrl-C.
    ``arguments`` defaults to ``sys.argv[1:]``.
    """
    arguments = sys.argv[1:] if arguments is None else arguments
    try:
        exit_code = _dispatch(arguments)
        sys.stdout.flush()
        return exit_code
    except SystemExit as stop:  # --help of a sub-command
        return stop.code if isinstance(stop.code, int) else (0 if stop.code is None else 1)
    except KeyboardInterrupt:
        return _fail("interrupted", INTERRUPT_EXIT)
    except BrokenPipeError:
        # The reader (head, less) has gone; keep the interpreter from flushing into it at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE_EXIT
    except Exception as error:
        if os.environ.get(TRACEBACK_VARIABLE):
            traceback.print_exc()
        return _report(error)


def _dispatch(arguments: list[str]) -> int:
    if not arguments:
        print(_help_text())
        return USAGE_EXIT
    name, rest = arguments[0], arguments[1:]
    if name in ("-h", "--help", "help"):
        print(_help_text())
        return 0
    if name in ("-V", "--version"):
        from importlib.metadata import version

        print(f"servorl {version('servorl')}")
        return 0
    if name not in COMMANDS:
        raise UnknownNameError("command", name, COMMANDS)
    module = importlib.import_module(COMMANDS[name].module)
    exit_code: int = module.run(rest)
    return exit_code


def _help_text() -> str:
    width = max(map(len, COMMANDS))
    lines = [
        "usage: servorl COMMAND [OPTIONS]",
        "",
        "Reinforcement learning for robots and the small computers inside them:",
        "simulate, learn, export, prove.",
        "",
        "commands:",
        *(f"  {name:<{width}}  {command.summary}" for name, command in COMMANDS.items()),
        "",
        "options:",
        "  -h, --help     this text; servorl COMMAND --help shows every setting of a command",
        "  -V, --version  the installed version",
        "",
        "A first look: servorl demo",
    ]
    return "\n".join(lines)


def _report(error: Exception) -> int:
    """Print an exception as one line and return the exit code that it stands for."""
    if isinstance(error, ServorlError):
        return _fail(str(error), error.exit_code)
    if isinstance(error, (ValueError, TypeError)):
        return _fail(str(error), USAGE_EXIT)
    if isinstance(error, OSError):
        return _fail(_describe_os_error(error), FAILURE_EXIT)
    if isinstance(error, MemoryError):
        return _fail("the machine has too little memory for this", FAILURE_EXIT)
    if isinstance(error, ImportError):
        return _fail(f"{error}; servorl doctor shows what is installed", FAILURE_EXIT)
    return _fail(
        f"internal error, {type(error).__name__}: {error} "
        f"(set {TRACEBACK_VARIABLE}=1 to see where it came from)",
        FAILURE_EXIT,
    )


def _describe_os_error(error: OSError) -> str:
    """``cannot use PATH: reason``, without errno numbers, where the error names a file."""
    if error.filename is None or error.strerror is None:
        return str(error)
    return f"{error.filename}: {error.strerror[:1].lower()}{error.strerror[1:]}"


def _fail(message: str, exit_code: int) -> int:
    print(f"servorl: {' '.join(message.split())}", file=sys.stderr)
    return exit_code


if __name__ == "__main__":
    sys.exit(main())
