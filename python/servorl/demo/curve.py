"""The learning curve as a picture."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def draw_curve(rows: list[dict[str, Any]], path: Path, *, threshold: float | None) -> None:
    """Draw the returns of a run against environment steps to a PNG file.

    Args:
        rows: ``Run.metrics()``.
        path: The file.
        threshold: Return at which the task counts as solved; drawn dashed.
    """
    from matplotlib.figure import Figure
    from matplotlib.ticker import EngFormatter

    figure = Figure(figsize=(6.0, 3.6), layout="constrained")
    axes = figure.subplots()
    if threshold is not None:
        axes.axhline(threshold, color="#94a3b8", linestyle="--", linewidth=1.2)
    axes.plot(*_points(rows, "return_mean"), color="#93b4f5", label="while exploring")
    axes.plot(
        *_points(rows, "evaluation_return"), color="#2563eb", marker="o", label="deterministic"
    )
    axes.set_xlabel("environment steps")
    axes.set_ylabel("episode return")
    axes.set_ylim(bottom=min(0.0, axes.get_ylim()[0]))
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    axes.grid(axis="y", color="#e2e8f0", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, loc="upper left")
    figure.savefig(path, dpi=150)


def _points(rows: list[dict[str, Any]], column: str) -> tuple[list[float], list[float]]:
    """Steps and values of the rows in which a column was measured."""
    measured = [row for row in rows if row[column] not in (None, "")]
    return [float(row["steps"]) for row in measured], [float(row[column]) for row in measured]
