"""A suite's result as validated JSON, as a table, and as a picture."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from servorl.bench.harness import LIMIT, OURS, Row, SuiteResult
from servorl.errors import OutputError

if TYPE_CHECKING:
    from rich.console import Console

_COLOURS = {OURS: "#2563eb", LIMIT: "#94a3b8"}
_PEER_COLOUR = "#f59e0b"


def validate(document: Mapping[str, Any]) -> None:
    """Check a suite's JSON document against the schema of this package.

    Raises:
        ValueError: it does not follow the schema; the message names the place.
    """
    import jsonschema

    schema = json.loads((Path(__file__).parent / "schema.json").read_text())
    error = jsonschema.exceptions.best_match(
        jsonschema.Draft202012Validator(schema).iter_errors(document)
    )
    if error is not None:
        raise ValueError(f"benchmark result, at {error.json_path}: {error.message}")


def documents(results: list[SuiteResult]) -> Any:
    """What ``--json`` writes: the validated document of one suite, or a list of several."""
    found = [result.to_json() for result in results]
    for document in found:
        validate(document)
    return found[0] if len(found) == 1 else found


def write_json(results: list[SuiteResult], path: Path) -> None:
    """Validate the results and write them as one file, whole or not at all."""
    text = json.dumps(documents(results), indent=2) + "\n"
    try:
        with tempfile.TemporaryDirectory(dir=path.parent, prefix=f".{path.name}.") as scratch:
            written = Path(scratch) / path.name
            written.write_text(text)
            os.replace(written, path)
    except OSError as error:
        raise OutputError(f"{path} cannot be written: {error.strerror}") from None


def print_table(result: SuiteResult, console: Console) -> None:
    """Print a section per case, with ours relative to each row where the suite gives that ratio."""
    from rich import box
    from rich.table import Table

    ratios = {(ratio.case, ratio.of): ratio for ratio in result.ratios}
    table = Table(title=f"servorl bench {result.suite}", title_justify="left", box=box.SIMPLE_HEAD)
    table.add_column("case")
    for heading in ("median", "low … high", "ours / it", "goal"):
        table.add_column(heading, justify="right", no_wrap=True)
    case = None
    for row in result.rows:
        if row.case != case:
            table.add_section()
            table.add_row(f"[bold]{row.case}[/] [dim]({row.unit})[/]")
        case = row.case
        ratio = ratios.get((case, row.name))
        measured = row.median is not None
        table.add_row(
            f"  {row.name}",
            _number(row.median) if measured else "-",
            f"{_number(row.low)} … {_number(row.high)}" if measured else "",
            f"{ratio.value:.2f}" if ratio else "",
            f"{ratio.goal:g}" if ratio and ratio.goal is not None else "",
        )
    console.print(table)
    _print_remarks(result, console)


def _print_remarks(result: SuiteResult, console: Console) -> None:
    """The ratios that belong to no row, why a peer is missing, and the versions."""
    names = {row.name for row in result.rows}
    for ratio in result.ratios:
        if ratio.of not in names:
            goal = f" (goal {ratio.goal:g})" if ratio.goal is not None else ""
            console.print(f"{ratio.case}: {ratio.value:.2f} x {ratio.of}{goal}", highlight=False)
    for row in result.rows:
        if row.note:
            console.print(f"{row.case}, {row.name}: {row.note}", highlight=False)
    versions = ", ".join(f"{name} {version}" for name, version in result.versions.items())
    if versions:
        console.print(versions, highlight=False, style="dim")


def draw_picture(result: SuiteResult, path: Path) -> None:
    """Draw the suite as bars, one panel per case, spread as a whisker, to a PNG file."""
    from matplotlib.figure import Figure

    cases: dict[str, list[Row]] = {}
    for row in result.rows:
        if row.median is not None:
            cases.setdefault(row.case, []).append(row)
    heights = [0.35 * len(rows) + 0.75 for rows in cases.values()]
    figure = Figure(figsize=(8.0, sum(heights) + 0.4), layout="constrained")
    panels = figure.subplots(len(cases), 1, squeeze=False, height_ratios=heights)[:, 0]
    for axes, (case, rows) in zip(panels, cases.items(), strict=True):
        names = [row.name for row in rows]
        medians = [row.median or 0.0 for row in rows]
        below = [median - (row.low or 0.0) for median, row in zip(medians, rows, strict=True)]
        above = [(row.high or 0.0) - median for median, row in zip(medians, rows, strict=True)]
        colours = [_COLOURS.get(name, _PEER_COLOUR) for name in names]
        axes.barh(names, medians, xerr=[below, above], color=colours, ecolor="#475569", height=0.6)
        axes.invert_yaxis()
        axes.set_title(case, loc="left", fontsize=10)
        axes.set_xlabel(rows[0].unit, fontsize=8)
        axes.tick_params(labelsize=8)
        axes.spines[["top", "right"]].set_visible(False)
    try:
        figure.savefig(path, dpi=120)
    except OSError as error:
        raise OutputError(f"{path} cannot be written: {error.strerror}") from None


def _number(value: float | None) -> str:
    if value is None:
        return ""
    if value >= 1000:
        return f"{value:,.0f}"
    return f"{value:.4g}"
