"""``servorl export``: a run's policy as ONNX and as C for a small computer."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from servorl.cli.parse import parse
from servorl.errors import UnknownNameError

NUMBERS = ("float32",)
TARGETS = ("c",)


@dataclass(frozen=True)
class ExportConfig:
    """Write policy.onnx, policy.h, policy.c and policy.json from a run's latest checkpoint."""

    run: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """Folder of a training run, or one checkpoint inside it."""
    out: Path | None = None
    """Folder to write to; by default `export` inside the run."""
    numbers: str = "float32"
    """What weights and activations are held in: float32."""
    target: str = "c"
    """What to write beside ONNX: c, two files without dependencies."""
    board: str | None = None
    """Also compile for this board and print flash, RAM and stack (cortex-m4f)."""
    prefix: str = "policy"
    """Start of every name in the C files, so that several policies fit into one image."""


def run(arguments: list[str]) -> int:
    """Run the command; returns its exit code."""
    config = parse(ExportConfig, arguments, prog="servorl export")
    for kind, value, known in (
        ("numbers", config.numbers, NUMBERS),
        ("target", config.target, TARGETS),
    ):
        if value not in known:
            raise UnknownNameError(kind, value, known)
    from servorl.export import export
    from servorl.export.boards import load_board
    from servorl.runs import load_policy

    board = None if config.board is None else load_board(config.board)
    loaded = load_policy(config.run)
    out = export(
        loaded.policy.inference_graph(),
        loaded.task_info,
        config.out or loaded.run / "export",
        prefix=config.prefix,
    )
    print(f"{loaded.environment}, trained for {loaded.steps:,} steps by {loaded.algorithm}")
    for name in ("policy.onnx", "policy.h", "policy.c", "policy.json"):
        print(f"  {out / name}")
    if board is not None:
        from servorl.export.footprint import build_and_measure
        from servorl.export.integrity import read_export

        size = build_and_measure(read_export(out), board)
        print(
            f"{board.name}: {size.flash:,} bytes of flash, {size.ram:,} of RAM, without the stack"
        )
    print(f"next: servorl verify {out}")
    return 0
