"""The learning curve as a picture."""

from __future__ import annotations

from pathlib import Path

import numpy as np


def draw_curve(
    steps: list[float], returns: list[float], path: Path, *, threshold: float | None
) -> None:
    """Draw mean episode return against environment steps to a PNG file.

    Args:
        steps: Environment steps of each point.
        returns: Mean return of the episodes that ended there; NaN where none did.
        path: The file.
        threshold: Return at which the task counts as solved; drawn dashed.
    """
    from matplotlib.figure import Figure
    from matplotlib.ticker import EngFormatter

    figure = Figure(figsize=(6.0, 3.6), layout="constrained")
    axes = figure.subplots()
    finite = np.isfinite(returns)
    x, y = np.asarray(steps)[finite], np.asarray(returns)[finite]
    if threshold is not None:
        axes.axhline(threshold, color="#94a3b8", linestyle="--", linewidth=1.2)
    axes.plot(x, y, color="#2563eb", linewidth=2.0, marker="o" if len(x) == 1 else "")
    axes.set_xlabel("environment steps")
    axes.set_ylabel("episode return")
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    axes.grid(axis="y", color="#e2e8f0", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=150)
