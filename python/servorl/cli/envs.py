"""``servorl envs``: the environments by name, or one environment's card."""

from __future__ import annotations

import dataclasses
import json
import math
import sys
from dataclasses import dataclass
from typing import Annotated, Any

import tyro

from servorl.cli.parse import parse


@dataclass(frozen=True)
class EnvsConfig:
    """List the environments, or show the card of one: spaces, units, reward, source."""

    name: Annotated[str | None, tyro.conf.Positional, tyro.conf.arg(metavar="[NAME]")] = None
    """Environment to show; all of them in a table where it is left out."""
    json: bool = False
    """Print JSON alone on standard output."""


def run(arguments: list[str]) -> int:
    """Run the command; returns its exit code."""
    config = parse(EnvsConfig, arguments, prog="servorl envs")
    from servorl.registry import card, env_names, task_info

    if config.json:
        names = env_names() if config.name is None else [config.name]
        described = [_as_json(dataclasses.asdict(task_info(name))) for name in names]
        json.dump(described if config.name is None else described[0], sys.stdout, indent=2)
        print()
    elif config.name is None:
        _print_table()
    else:
        print(card(config.name).strip())
    return 0


def _print_table() -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    from servorl.registry import env_names, task_info

    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("environment", no_wrap=True)
    for heading in ("observation", "action", "steps", "period", "solved at"):
        table.add_column(heading, justify="right")
    for name in env_names():
        task = task_info(name)
        solved = task.reward_threshold
        table.add_row(
            name,
            str(len(task.observation)),
            str(len(task.action)),
            str(task.max_episode_steps),
            f"{1000 * task.control_period:g} ms",
            "" if solved is None else f"{solved:g}",
        )
    Console().print(table)
    print("servorl envs NAME shows an environment's card")


def _as_json(value: Any) -> Any:
    """The value with infinities as null, which JSON can hold."""
    if isinstance(value, dict):
        return {key: _as_json(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_as_json(entry) for entry in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
