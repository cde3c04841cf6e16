"""What a verification found: as a table, as JSON, and in words."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from servorl.errors import OutputError

if TYPE_CHECKING:
    from rich.table import Table


@dataclass
class Row:
    """One target's figures; None where it has no such figure."""

    target: str
    max_error: float | None = None
    """Largest difference from torch before the final clip, in units of the action's scale."""
    observations: int | None = None
    """How many recorded observations were replayed."""
    flash: int | None = None
    """Bytes more than the same firmware without a policy."""
    ram: int | None = None
    """Bytes more than the same firmware without a policy; without the stack."""
    stack: int | None = None
    """Bytes that an inference takes at most."""
    instructions: int | None = None
    """Of one inference, at most."""
    return_mean: float | None = None
    """Mean undiscounted return of the closed-loop episodes."""


@dataclass
class VerifyReport:
    """The result of ``servorl.export.verify``."""

    hash: str
    rows: list[Row] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    """What is not as it should be; empty where the export is the policy."""
    left_out: list[str] = field(default_factory=list)
    """What could not be run on this machine, and what to install for it."""

    @property
    def ok(self) -> bool:
        """Whether everything that was run agrees."""
        return not self.problems

    def row(self, target: str) -> Row:
        """The row of that target; KeyError where there is none."""
        for row in self.rows:
            if row.target == target:
                return row
        raise KeyError(target)

    def to_json(self) -> dict[str, Any]:
        """The content of ``report.json``."""
        return {
            "hash": self.hash,
            "ok": self.ok,
            "rows": [asdict(row) for row in self.rows],
            "problems": self.problems,
            "left_out": self.left_out,
        }

    def write(self, path: Path) -> None:
        """Write ``report.json``; OutputError where that is not possible."""
        temporary = path.with_name(f".{path.name}.{os.getpid()}")
        try:
            temporary.write_text(json.dumps(self.to_json(), indent=2) + "\n", encoding="utf-8")
            temporary.replace(path)
        except OSError as error:
            temporary.unlink(missing_ok=True)
            raise OutputError(f"cannot write {path}: {error.strerror}") from error

    def table(self) -> Table:
        """The rows as a ``rich`` table."""
        from rich import box
        from rich.table import Table

        title = f"policy {self.hash[:12]}: {'verified' if self.ok else 'NOT VERIFIED'}"
        table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, padding=0)
        table.add_column("target", no_wrap=True)
        for heading in _HEADINGS:
            table.add_column(heading, justify="right", no_wrap=True)
        for row in self.rows:
            table.add_row(
                row.target,
                _text(row.max_error, ".1e"),
                *(_text(v, ",") for v in (row.observations, row.flash, row.ram, row.stack)),
                _text(row.instructions, ","),
                _text(row.return_mean, ".1f"),
            )
        return table


_HEADINGS = ("max error", "tried", "flash B", "RAM B", "stack B", "instructions", "return")


def _text(value: float | None, form: str) -> str:
    return "–" if value is None else format(value, form)
