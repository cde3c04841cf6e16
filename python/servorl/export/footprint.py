"""What a policy takes from a board: flash and RAM beyond the same firmware without a policy."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

from servorl.export import toolchain
from servorl.export.boards import Board
from servorl.export.elf import Image
from servorl.export.integrity import Export


@dataclass(frozen=True)
class Footprint:
    """Bytes; RAM is without the stack."""

    flash: int
    ram: int


def measure(exported: Export, board: Board, image: Image) -> Footprint:
    """Compare an image of the policy with a newly built one that holds none."""
    with tempfile.TemporaryDirectory() as temporary:
        path = Path(temporary) / "empty.elf"
        toolchain.build_empty_image(board, exported.graph.obs_dim, exported.graph.action_dim, path)
        empty = Image(path)
    return Footprint(image.flash - empty.flash, image.ram - empty.ram)


def build_and_measure(exported: Export, board: Board) -> Footprint:
    """Build an image in a temporary folder and measure it; MissingToolError without a compiler."""
    toolchain.require_board_tools(board)
    with tempfile.TemporaryDirectory() as temporary:
        path = Path(temporary) / "policy.elf"
        toolchain.build_image(board, exported.folder, exported.prefix, path)
        return measure(exported, board, Image(path))
