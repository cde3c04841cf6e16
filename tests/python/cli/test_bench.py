"""The benchmark frame: timing, the JSON schema, the table, the picture, the peers' environment."""

from __future__ import annotations

import json
import sys
import types
from pathlib import Path

import pytest
from rich.console import Console

from servorl.bench import harness, peers, report
from servorl.cli import bench, main
from servorl.errors import OutputError

CASE = "half_cheetah 64 envs 1 thread"


def example_result() -> harness.SuiteResult:
    timing = harness.timing_of([0.5, 0.25, 1.0])
    return harness.SuiteResult(
        "example",
        [
            harness.Row.rate(CASE, harness.OURS, timing, 100.0, unit="steps/s"),
            harness.Row.rate(CASE, harness.LIMIT, timing, 110.0, unit="steps/s"),
            harness.Row.unavailable(CASE, "envpool", "steps/s", "no wheel for this Python"),
        ],
        [harness.Ratio(CASE, "limit", 0.91, 0.9), harness.Ratio(CASE, "best peer", 1.3, None)],
        {"mujoco": "4.0.0"},
    )


@pytest.fixture
def example_suite(monkeypatch: pytest.MonkeyPatch) -> None:
    """``servorl.bench.example``, a suite that measures nothing."""
    import servorl.bench

    module = types.ModuleType("servorl.bench.example")
    module.run = lambda peers: example_result()  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr(bench, "_is_suite", lambda name: name == "example")
    assert servorl.bench is not None


def test_median_and_spread_are_of_the_repeats_alone() -> None:
    calls = []
    timing = harness.measure(lambda: calls.append(None), repeats=4, warmup=2)
    assert len(calls) == 6
    assert timing.repeats == 4
    assert timing.low <= timing.median <= timing.high


def test_contestants_are_timed_in_turn() -> None:
    order: list[str] = []
    calls = {"a": lambda: order.append("a"), "b": lambda: order.append("b")}
    harness.measure_in_turn(calls, repeats=2, warmup=0)
    assert order == ["a", "b", "a", "b"]


def test_rates_and_times_convert_the_spread_the_right_way_round() -> None:
    timing = harness.timing_of([0.5, 0.25, 1.0])
    rate = harness.Row.rate(CASE, "x", timing, 100.0, unit="steps/s")
    assert (rate.low, rate.median, rate.high, rate.repeats) == (100.0, 200.0, 400.0, 3)
    time = harness.Row.time(CASE, "x", timing, unit="ms")
    assert (time.low, time.median, time.high) == (250.0, 500.0, 1000.0)


def test_a_result_follows_the_schema() -> None:
    document = example_result().to_json()
    report.validate(document)
    assert set(document) == {"suite", "machine", "versions", "rows", "ratios"}
    assert set(document["machine"]) == {"cpu", "cores", "isa", "ram"}
    assert set(document["rows"][0]) == {
        "case",
        "name",
        "unit",
        "median",
        "low",
        "high",
        "repeats",
    }


@pytest.mark.parametrize(
    ("change", "place"),
    [
        (lambda d: d.pop("machine"), "machine"),
        (lambda d: d["rows"][0].update(median="fast"), "rows[0].median"),
        (lambda d: d["rows"][0].update(name="EnvPool"), "rows[0].name"),
        (lambda d: d["rows"][2].pop("note"), "rows[2]"),
        (lambda d: d["ratios"][0].update(extra=1), "ratios[0]"),
        (lambda d: d["machine"].update(cores=0), "machine.cores"),
    ],
)
def test_a_result_that_breaks_the_schema_is_refused(change: object, place: str) -> None:
    document = example_result().to_json()
    change(document)  # type: ignore[operator]
    with pytest.raises(ValueError, match="benchmark result") as caught:
        report.validate(document)
    assert place in str(caught.value)


def test_json_dash_is_json_alone(example_suite: None, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["bench", "example", "--json", "-"]) == 0
    captured = capsys.readouterr()
    report.validate(json.loads(captured.out))
    assert "limit" in captured.err


def test_table_file_and_picture(
    example_suite: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = [str(tmp_path / "result.json"), str(tmp_path / "result.png")]
    assert main.main(["bench", "example", "--json", files[0], "--picture", files[1]]) == 0
    report.validate(json.loads((tmp_path / "result.json").read_text()))
    assert (tmp_path / "result.png").read_bytes().startswith(b"\x89PNG")
    printed = capsys.readouterr().out
    for expected in (CASE, "0.91", "0.9", "no wheel for this Python", "1.30 x best peer"):
        assert expected in printed
    assert sorted(path.name for path in tmp_path.iterdir()) == ["result.json", "result.png"]


def test_an_output_that_cannot_be_written_is_refused_before_measuring(
    example_suite: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.main(["bench", "example", "--json", str(tmp_path / "no" / "r.json")]) == 1
    captured = capsys.readouterr()
    assert captured.err.count("\n") == 1
    assert not list(tmp_path.iterdir())
    with pytest.raises(OutputError):
        report.write_json([example_result()], tmp_path / "no" / "r.json")


def test_an_unknown_suite_offers_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["bench", "steping"]) == 2
    assert "did you mean stepping?" in capsys.readouterr().err
    assert "harness" not in bench.suites()


def test_wide_cases_fit_an_ordinary_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    report.print_table(example_result(), Console(width=100))
    assert f"{CASE} (steps/s)" in capsys.readouterr().out


def test_a_peer_that_cannot_be_had_says_why(tmp_path: Path) -> None:
    """A requirement that pip refuses at once, without asking any index."""
    with pytest.raises(peers.PeerUnavailable, match="cannot be installed"):
        peers.prepare("example", ["not a requirement!"], root=tmp_path)


def test_a_worker_answers_json_or_says_why(tmp_path: Path) -> None:
    environment = peers.PeerEnvironment(Path(sys.executable))
    worker = tmp_path / "worker.py"
    worker.write_text("import json, sys; print('noise'); print(json.load(sys.stdin)['n'] + 1)")
    assert environment.call(worker, {"n": 41}) == 42
    worker.write_text("raise RuntimeError('no such task')")
    with pytest.raises(peers.PeerUnavailable, match="no such task"):
        environment.call(worker, {})
    worker.write_text("print('not json')")
    with pytest.raises(peers.PeerUnavailable, match="no JSON"):
        environment.call(worker, {})
    worker.write_text("import time; time.sleep(60)")
    with pytest.raises(peers.PeerUnavailable, match="no answer"):
        environment.call(worker, {}, timeout=0.2)
