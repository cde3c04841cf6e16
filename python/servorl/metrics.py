"""What a run logs: one row per iteration, to ``metrics.csv`` and to TensorBoard.

A row is written and flushed at once. A resumed run first drops the rows after its checkpoint, so
that the file is that of a run that was never interrupted.
"""

from __future__ import annotations

import csv
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from servorl.checkpoint import replace_durably
from servorl.errors import OutputError, RunFolderError

METRICS_FILE = "metrics.csv"
TENSORBOARD_FOLDER = "tensorboard"
Row = Mapping[str, float | int | None]


class MetricsLog:
    """Appends rows to a run folder; every row has the columns of the first, ``steps`` among them.

    Args:
        run: the run folder.
        after: rows with more ``steps`` than this are dropped first; 0 for a new run.
        tensorboard: also write event files.

    Raises OutputError where the folder cannot be written.
    """

    def __init__(self, run: Path, after: int = 0, tensorboard: bool = True) -> None:
        self.path = run / METRICS_FILE
        try:
            kept = [row for row in read_metrics(run) if row["steps"] <= after]
            if kept:
                replace_durably(self.path, _csv_text(kept).encode())
            else:
                self.path.unlink(missing_ok=True)
            self._events = _EventFile(run / TENSORBOARD_FOLDER, after) if tensorboard else None
        except OSError as error:
            raise OutputError(f"cannot write {self.path}: {error}") from error
        self._columns = list(kept[0]) if kept else []

    def write(self, row: Row) -> None:
        """Append one row; None leaves its cell empty."""
        try:
            self._columns = self._columns or list(row)
            with open(self.path, "a", newline="") as file:
                writer = csv.writer(file, lineterminator="\n")
                if file.tell() == 0:
                    writer.writerow(self._columns)
                writer.writerow([_cell(row[column]) for column in self._columns])
            if self._events is not None:
                self._events.write(row)
        except OSError as error:
            raise OutputError(f"cannot write {self.path}: {error}") from error

    def close(self) -> None:
        """Flush and close the event file."""
        if self._events is not None:
            self._events.close()


def read_metrics(run: Path) -> list[dict[str, Any]]:
    """The complete rows of a run's ``metrics.csv`` as numbers; None where a cell is empty.

    A last line without its end, which a killed process may leave, is not a row. Raises
    RunFolderError where the file holds something else.
    """
    path = run / METRICS_FILE
    if not path.is_file():
        return []
    try:
        text = path.read_text()
        table = csv.DictReader(text[: text.rfind("\n") + 1].splitlines())
        rows = [
            {name: _number(cell) for name, cell in row.items()}
            for row in table
            if None not in row.values()
        ]
        if any(row.get("steps") is None for row in rows):
            raise ValueError("a row has no steps")
        return rows
    except (TypeError, ValueError, csv.Error) as error:
        raise RunFolderError(f"{path} is not a table of numbers: {error}") from error


def _csv_text(rows: list[dict[str, Any]]) -> str:
    lines = [list(rows[0]), *([_cell(value) for value in row.values()] for row in rows)]
    return "".join(",".join(line) + "\n" for line in lines)


def _cell(value: float | None) -> str:
    return "" if value is None else repr(value)


def _number(cell: str) -> float | int | None:
    if cell == "":
        return None
    try:
        return int(cell)
    except ValueError:
        return float(cell)


class _EventFile:
    """TensorBoard scalars, without importing TensorFlow or torch's writer."""

    def __init__(self, folder: Path, after: int) -> None:
        from tensorboard.compat.proto.event_pb2 import Event, SessionLog
        from tensorboard.compat.proto.summary_pb2 import Summary
        from tensorboard.summary.writer.event_file_writer import EventFileWriter

        self._event, self._summary = Event, Summary
        self._writer = EventFileWriter(str(folder))
        if after > 0:  # tells TensorBoard to forget what a previous process logged from here on
            session = SessionLog(status=SessionLog.START)
            self._writer.add_event(
                Event(wall_time=time.time(), step=after + 1, session_log=session)
            )

    def write(self, row: Row) -> None:
        values = [
            self._summary.Value(tag=name, simple_value=value)
            for name, value in row.items()
            if value is not None and name != "steps"
        ]
        event = self._event(wall_time=time.time(), step=int(row["steps"] or 0))
        event.summary.CopyFrom(self._summary(value=values))
        self._writer.add_event(event)
        self._writer.flush()

    def close(self) -> None:
        self._writer.close()
