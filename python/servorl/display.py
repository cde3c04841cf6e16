"""What a person sees of a run: a live panel on a terminal, else a line every few seconds."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from typing import Any, Literal, TextIO

Progress = Literal["auto", "live", "plain", "none"]
PLAIN_INTERVAL = 5.0
"""Seconds between two plain lines."""


class Display:
    """Shows the latest metrics and passes messages through.

    Args:
        title: what is being trained.
        total_steps: environment steps of the run.
        progress: ``auto`` is ``live`` on a terminal and ``plain`` otherwise; ``none`` shows
            nothing, messages included.
        stream: where to; standard output by default.
    """

    def __init__(
        self,
        title: str,
        total_steps: int,
        progress: Progress = "auto",
        stream: TextIO | None = None,
    ) -> None:
        self._stream = stream or sys.stdout
        if progress == "auto":
            progress = "live" if self._stream.isatty() else "plain"
        self.progress = progress
        self._title = title
        self._total_steps = total_steps
        self._last_line = 0.0
        self._live: Any = None

    def __enter__(self) -> Display:
        if self.progress == "live":
            from rich.console import Console
            from rich.live import Live

            console = Console(file=self._stream)
            self._live = Live(console=console, refresh_per_second=4, redirect_stderr=False)
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def message(self, text: str) -> None:
        """One line that stays."""
        if self._live is not None:
            self._live.console.print(text, markup=False, highlight=False, soft_wrap=True)
        elif self.progress != "none":
            print(text, file=self._stream, flush=True)

    def update(self, metrics: Mapping[str, float | int | None], last: bool = False) -> None:
        """Show an iteration's metrics; ``last`` shows them even if the previous line is recent."""
        if self._live is not None:
            self._live.update(self._panel(metrics), refresh=last)
        elif self.progress == "plain" and (
            last or time.monotonic() - self._last_line >= PLAIN_INTERVAL
        ):
            self._last_line = time.monotonic()
            print(self._line(metrics), file=self._stream, flush=True)

    def _line(self, metrics: Mapping[str, float | int | None]) -> str:
        steps, speed = int(metrics["steps"] or 0), metrics["steps_per_second"] or 0.0
        parts = [
            f"{steps:>9,d} steps {100 * steps / self._total_steps:3.0f} %",
            f"return {_shown(metrics['return_mean'])}",
            f"{speed:,.0f} steps/s (simulate {_percent(metrics['simulate_share'])},"
            f" infer {_percent(metrics['infer_share'])}, learn {_percent(metrics['learn_share'])})",
            f"policy loss {_shown(metrics['policy_loss'])}",
            f"value loss {_shown(metrics['value_loss'])}",
            f"{_duration(self._time_left(metrics))} left",
        ]
        return "  ".join(parts)

    def _panel(self, metrics: Mapping[str, float | int | None]) -> Any:
        from rich.columns import Columns
        from rich.console import Group
        from rich.panel import Panel
        from rich.progress_bar import ProgressBar
        from rich.table import Table

        steps = int(metrics["steps"] or 0)
        columns = (
            {
                "steps": f"{steps:,d} of {self._total_steps:,d}",
                "steps/s": f"{metrics['steps_per_second'] or 0:,.0f}",
                "time left": _duration(self._time_left(metrics)),
                "episodes": f"{metrics['episodes'] or 0:,d}",
            },
            {
                "return": _shown(metrics["return_mean"]),
                "evaluation": _shown(metrics["evaluation_return"]),
                "length": _shown(metrics["length_mean"]),
                "diverged": f"{metrics['diverged'] or 0:,d}",
            },
            {
                "simulate": _percent(metrics["simulate_share"]),
                "infer": _percent(metrics["infer_share"]),
                "learn": _percent(metrics["learn_share"]),
            },
            {
                name.replace("_", " "): _shown(metrics[name])
                for name in ("policy_loss", "value_loss", "approx_kl", "explained_variance")
                if name in metrics
            },
        )
        tables = []
        for column in columns:
            table = Table.grid(padding=(0, 2))
            for name, value in column.items():
                table.add_row(f"[dim]{name}", value)
            tables.append(table)
        bar = ProgressBar(total=self._total_steps, completed=min(steps, self._total_steps))
        return Panel(Group(Columns(tables, padding=(0, 4)), bar), title=self._title)

    def _time_left(self, metrics: Mapping[str, float | int | None]) -> float:
        left = max(0, self._total_steps - int(metrics["steps"] or 0))
        return left / max(1.0, metrics["steps_per_second"] or 0.0)


def _shown(value: float | int | None) -> str:
    return "-" if value is None else f"{value:.4g}"


def _percent(share: float | int | None) -> str:
    return f"{100 * (share or 0):.0f} %"


def _duration(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours:d}:{minutes:02d}:{seconds:02d}"
