"""``servorl bench``: runs a benchmark suite and shows it as a table, JSON and a picture."""

from __future__ import annotations

import importlib
import importlib.util
import json
import pkgutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from servorl.cli.parse import parse
from servorl.errors import OutputError, SettingError, UnknownNameError

if TYPE_CHECKING:
    from servorl.bench.harness import SuiteResult

ALL = "all"


@dataclass(frozen=True)
class BenchConfig:
    """Measure speed against the physical limit and other libraries, on this machine."""

    suite: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="SUITE")]
    """Name of the suite, or all."""
    peers: bool = False
    """Also install and time the other libraries, in an environment of their own under .bench/."""
    json: Path | None = None
    """File for the result as JSON; - is standard output, and nothing else is printed there."""
    picture: Path | None = None
    """File for the result as a picture (PNG)."""


def run(arguments: list[str]) -> int:
    """Run the command; returns its exit code."""
    config = parse(BenchConfig, arguments, prog="servorl bench")
    chosen = suites() if config.suite == ALL else [config.suite]
    if config.suite != ALL and not _is_suite(config.suite):
        raise UnknownNameError("suite", config.suite, [ALL, *suites()])
    for path in (config.json, config.picture):
        _check_output(path)
    if config.picture is not None and len(chosen) > 1:
        raise SettingError("--picture draws one suite; name it instead of all")
    results = []
    for name in chosen:
        print(f"running {name}", file=sys.stderr)
        result: SuiteResult = importlib.import_module(f"servorl.bench.{name}").run(config.peers)
        results.append(result)
        _show(result, to_stderr=config.json == Path("-"))
    if config.json is not None:
        _write(results, config.json)
    if config.picture is not None:
        from servorl.bench.report import draw_picture

        draw_picture(results[0], config.picture)
        print(f"wrote {config.picture}", file=sys.stderr)
    return 0


def suites() -> list[str]:
    """Names of the suites: the modules of ``servorl.bench`` that define ``run``."""
    import servorl.bench

    modules = (module.name for module in pkgutil.iter_modules(servorl.bench.__path__))
    return sorted(filter(_is_suite, modules))


def _is_suite(name: str) -> bool:
    if not name.isidentifier() or importlib.util.find_spec(f"servorl.bench.{name}") is None:
        return False
    return hasattr(importlib.import_module(f"servorl.bench.{name}"), "run")


def _show(result: SuiteResult, *, to_stderr: bool) -> None:
    from rich.console import Console

    from servorl.bench.report import print_table

    console = Console(stderr=to_stderr)
    if not console.is_terminal:
        console = Console(stderr=to_stderr, width=110)
    print_table(result, console)


def _write(results: list[SuiteResult], path: Path) -> None:
    from servorl.bench.report import documents, write_json

    if path == Path("-"):
        json.dump(documents(results), sys.stdout, indent=2)
        print()
    else:
        write_json(results, path)
        print(f"wrote {path}", file=sys.stderr)


def _check_output(path: Path | None) -> None:
    """Refuse, before minutes of measuring, a file that cannot be written."""
    if path is None or path == Path("-"):
        return
    if path.is_dir() or not path.parent.is_dir():
        raise OutputError(f"{path} cannot be written: it is a folder, or its folder does not exist")
