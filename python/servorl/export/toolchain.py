"""Runs compilers on exported C; a missing one raises and names the Debian package."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from servorl.errors import MissingToolError, VerificationError
from servorl.export.boards import FOLDER, Board

HOST_COMPILERS = ("cc", "gcc", "clang")
HOST_FLAGS = ("-std=c99", "-O2", "-ffp-contract=off", "-shared", "-fPIC")
BOARD_FLAGS = (
    "-std=c99",
    "-O2",
    "-ffreestanding",
    "-nostdlib",
    "-ffunction-sections",
    "-fdata-sections",
    "-Wl,--gc-sections",
    "-Wl,--build-id=none",
)
TIMEOUT_SECONDS = 300


def host_compiler() -> str:
    """The path of a C compiler for this machine."""
    for name in HOST_COMPILERS:
        if path := shutil.which(name):
            return path
    raise MissingToolError("no C compiler found; on Debian: apt-get install gcc libc6-dev")


def require_board_tools(board: Board) -> None:
    """Raise MissingToolError unless the board's compiler and emulator are there."""
    missing = [tool for tool in (board.compiler, board.emulator) if shutil.which(tool) is None]
    if missing:
        raise MissingToolError(
            f"{' and '.join(missing)} not found; on Debian: apt-get install "
            f"{' '.join(board.packages)}"
        )


def build_host_library(source: Path, output: Path) -> None:
    """Compile ``policy.c`` as a shared library."""
    _compile([host_compiler(), *HOST_FLAGS, "-o", str(output), str(source)], source)


def build_image(board: Board, policy_folder: Path, prefix: str, output: Path) -> None:
    """Link harness, start-up code and ``policy.c`` to an ELF image."""
    source = policy_folder / "policy.c"
    definitions = [
        f"-DSERVORL_PREFIX={prefix}",
        f"-DSERVORL_PREFIX_UPPER={prefix.upper()}",
        f"-I{policy_folder}",
    ]
    _build_for_board(board, [source], definitions, output)


def build_empty_image(board: Board, obs_dim: int, action_dim: int, output: Path) -> None:
    """Link the same firmware without a policy: what its flash and RAM are measured against."""
    definitions = [
        "-DSERVORL_EMPTY_POLICY",
        f"-DSERVORL_OBSERVATION_SIZE={obs_dim}",
        f"-DSERVORL_ACTION_SIZE={action_dim}",
    ]
    _build_for_board(board, [], definitions, output)


def _build_for_board(
    board: Board, sources: Sequence[Path], definitions: Sequence[str], output: Path
) -> None:
    command = [board.compiler, *board.flags, *BOARD_FLAGS, *definitions]
    command += [f"-I{FOLDER}", "-T", str(board.folder / "linker.ld"), "-o", str(output)]
    command += [str(source) for source in (*board.sources, *sources)]
    _compile(command, output)


def _compile(command: Sequence[str], what: Path) -> None:
    try:
        result = subprocess.run(
            command, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise VerificationError(f"{command[0]} took longer than {TIMEOUT_SECONDS} s") from error
    if result.returncode != 0:
        first = next((line for line in result.stderr.splitlines() if "error" in line), "no message")
        raise VerificationError(f"{command[0]} failed on {what}: {first}")
