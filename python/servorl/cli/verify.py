"""``servorl verify``: is the exported policy the function that was trained, on every target?"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from servorl.cli.parse import parse


@dataclass(frozen=True)
class VerifyConfig:
    """Replay a policy on torch, onnxruntime, C and an emulated chip; then close the loop."""

    path: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN|EXPORT")]
    """Folder of a training run (it is exported first), or of an export."""
    board: str = "cortex-m4f"
    """Emulated core or board."""
    image: Path | None = None
    """An ELF image that an earlier verification built, to verify instead of a new one."""
    episodes: int = 5
    """Closed-loop episodes of each target."""
    observations: int = 1024
    """Observations recorded from the simulator and replayed."""
    seed: int = 0
    """Of the recording and of the episodes."""
    json: bool = False
    """Print JSON alone on standard output."""


def run(arguments: list[str]) -> int:
    """Run the command; returns 0 where everything was run and agrees, else 1."""
    config = parse(VerifyConfig, arguments, prog="servorl verify")
    from servorl.export import verify

    report = verify(
        config.path,
        board=config.board,
        image=config.image,
        episodes=config.episodes,
        observations=config.observations,
        seed=config.seed,
    )
    if config.json:
        print(json.dumps(report.to_json(), indent=2))
    else:
        from rich.console import Console

        Console().print(report.table())
    for problem in report.problems:
        print(f"servorl: {problem}", file=sys.stderr)
    for missing in report.left_out:
        print(f"servorl: left out {missing}", file=sys.stderr)
    return 0 if report.ok and not report.left_out else 1
