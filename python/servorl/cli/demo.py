"""``servorl demo``: a first policy, from simulation to an emulated chip, with a report."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from servorl.cli.parse import parse
from servorl.errors import SettingError

if TYPE_CHECKING:
    from servorl.export import VerifyReport


@dataclass(frozen=True)
class DemoConfig:
    """Train, export and prove a first policy; leaves a folder with a report."""

    out: Path = Path("servorl-demo")
    """Folder to leave; an earlier demo there is replaced."""
    steps: int = 200_000
    """Environment steps at most; training stops as soon as the task is solved."""
    seed: int = 1
    """Fixes the run on one machine."""
    board: str = "cortex-m4f"
    """Emulated chip to prove the policy on."""


ENVIRONMENT = "inverted_pendulum"


def run(arguments: list[str]) -> int:
    """Run the command; 1 where the task was not solved or the export is not the same policy."""
    config = parse(DemoConfig, arguments, prog="servorl demo")
    if config.steps < 1:
        raise SettingError(f"--steps must be at least 1, not {config.steps}")
    from servorl.demo.report import next_steps
    from servorl.demo.steps import DemoSettings, run_demo

    settings = DemoSettings(config.out, ENVIRONMENT, config.steps, config.seed, config.board)
    outcome = run_demo(settings, lambda line: print(line, flush=True))
    result = outcome.result
    _print_proof(outcome.report)
    if not result.solved:
        print(
            f"not solved: mean return {result.mean_return:.1f} of {result.reward_threshold:g}; "
            "train for longer with --steps"
        )
    print(f"The report:         {config.out}/index.html")
    print(f"The learning curve: {config.out}/learning-curve.png")
    if result.video is not None:
        print(f"The policy at work: {config.out}/policy.gif")
    print(f"The exported files: {config.out}/exported/")
    print(f"The training run:   {config.out}/run/")
    print("Try next:")
    for line in next_steps():
        print(f"  {line}")
    return 0 if outcome.ok else 1


def _print_proof(report: VerifyReport) -> None:
    from rich.console import Console

    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=110)
    print()
    console.print(report.table())
    for line in [*report.problems, *report.left_out]:
        print(line)
