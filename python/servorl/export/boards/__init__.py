"""Emulated boards: one folder each, with ``board.json``, start-up code (``*.c``) and ``linker.ld``.

``harness.c`` beside them is the firmware that all of them run. Adding a board is adding a folder.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from servorl.errors import UnknownNameError

FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class Board:
    """What ``board.json`` says about a core and the machine that emulates it."""

    name: str
    title: str
    compiler: str
    flags: tuple[str, ...]
    """Compiler flags that choose the core."""
    emulator: str
    machine: str
    packages: tuple[str, ...]
    """Debian packages that bring compiler and emulator."""
    elf_machine: int
    """``e_machine`` of an image for this core."""
    icount_shift: int
    """The emulator lets 2**icount_shift nanoseconds pass per instruction."""
    ticks_per_instruction: float
    """How far the board's counter moves per instruction under that shift."""

    @property
    def folder(self) -> Path:
        """Where the board's sources lie."""
        return FOLDER / self.name

    @property
    def sources(self) -> list[Path]:
        """The board's C files and the harness."""
        return [*sorted(self.folder.glob("*.c")), FOLDER / "harness.c"]


def board_names() -> list[str]:
    """The boards that can be named."""
    return sorted(path.parent.name for path in FOLDER.glob("*/board.json"))


def load_board(name: str) -> Board:
    """The board of that name; UnknownNameError names the nearest ones."""
    if name not in board_names():
        raise UnknownNameError("board", name, board_names())
    entries: dict[str, Any] = json.loads((FOLDER / name / "board.json").read_text(encoding="utf-8"))
    lists = {key: tuple(entries[key]) for key in ("flags", "packages")}
    return Board(**(entries | lists | {"name": name}))
