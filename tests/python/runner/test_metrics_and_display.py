"""The log of a run, and what a person sees of it."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from servorl.display import Display
from servorl.errors import OutputError
from servorl.metrics import MetricsLog, read_metrics


def row(steps: int, **changes: float | None) -> dict[str, float | int | None]:
    return {"steps": steps, "return_mean": 0.1 * steps, "evaluation_return": None, **changes}


def test_rows_come_back_as_they_were_written(tmp_path: Path) -> None:
    log = MetricsLog(tmp_path)
    rows = [row(1), row(2, evaluation_return=-1 / 3), row(3, return_mean=None)]
    for entry in rows:
        log.write(entry)
        assert read_metrics(tmp_path)[-1] == entry  # at once, not when the log is closed
    log.close()
    assert read_metrics(tmp_path) == rows


def test_a_resumed_log_drops_what_came_after_the_checkpoint(tmp_path: Path) -> None:
    log = MetricsLog(tmp_path, tensorboard=False)
    for steps in (10, 20, 30):
        log.write(row(steps))
    with open(tmp_path / "metrics.csv", "a") as file:
        file.write("40,4.")  # a process was killed here
    log = MetricsLog(tmp_path, after=20, tensorboard=False)
    log.write(row(31))
    assert [entry["steps"] for entry in read_metrics(tmp_path)] == [10, 20, 31]


def test_a_new_log_starts_empty(tmp_path: Path) -> None:
    MetricsLog(tmp_path, tensorboard=False).write(row(10))
    MetricsLog(tmp_path, tensorboard=False)
    assert read_metrics(tmp_path) == []


def test_tensorboard_reads_the_scalars_and_forgets_what_a_resume_replaced(tmp_path: Path) -> None:
    log = MetricsLog(tmp_path)
    for steps in (10, 20, 30):
        log.write(row(steps, return_mean=1.0))
    log.close()
    log = MetricsLog(tmp_path, after=20)
    log.write(row(40, return_mean=2.0))
    log.close()
    events = EventAccumulator(str(tmp_path / "tensorboard")).Reload()
    assert events.Tags()["scalars"] == ["return_mean"]
    assert [(e.step, e.value) for e in events.Scalars("return_mean")] == [
        (10, 1.0),
        (20, 1.0),
        (40, 2.0),
    ]


def test_a_log_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    log = MetricsLog(tmp_path, tensorboard=False)
    (tmp_path / "metrics.csv").mkdir()
    with pytest.raises(OutputError, match=r"metrics\.csv"):
        log.write(row(1))


METRICS = {
    "steps": 2048,
    "episodes": 3,
    "return_mean": None,
    "length_mean": 20.0,
    "diverged": 0,
    "policy_loss": -0.0123,
    "value_loss": 0.5,
    "evaluation_return": 12.0,
    "steps_per_second": 1000.0,
    "simulate_share": 0.25,
    "infer_share": 0.1,
    "learn_share": 0.65,
}


def test_plain_lines_hold_speed_shares_losses_and_time_left() -> None:
    stream = io.StringIO()
    with Display("ppo on x", 10_048, stream=stream) as display:
        assert display.progress == "plain"
        display.message("hello")
        display.update(METRICS)
        display.update(METRICS)  # too soon for a second line
        display.update(METRICS | {"steps": 10_048}, last=True)
    hello, first, last = stream.getvalue().splitlines()
    assert hello == "hello"
    for part in ("2,048 steps", "20 %", "return -", "1,000 steps/s", "policy loss -0.0123"):
        assert part in first
    for part in ("simulate 25 %", "infer 10 %", "learn 65 %", "value loss 0.5", "0:00:08 left"):
        assert part in first
    assert "100 %" in last


def test_a_terminal_gets_a_live_panel() -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    stream = Terminal()
    with Display("ppo on x", 10_000, stream=stream) as display:
        assert display.progress == "live"
        display.message("a line that stays")
        display.update(METRICS, last=True)
    text = stream.getvalue()
    for part in ("ppo on x", "a line that stays", "simulate", "25 %", "2,048 of 10,000"):
        assert part in text


def test_no_progress_is_silent() -> None:
    stream = io.StringIO()
    with Display("x", 1, "none", stream) as display:
        display.message("hello")
        display.update(METRICS, last=True)
    assert stream.getvalue() == ""
