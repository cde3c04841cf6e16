"""``servorl train`` under SIGKILL: at random moments, and inside the writing of a checkpoint."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np

from servorl import checkpoint as checkpoints
from servorl.metrics import read_metrics

TIMED = {"steps_per_second", "simulate_share", "infer_share", "learn_share", "seconds"}


def test_a_run_killed_twenty_times_resumes_and_loses_nothing_that_was_announced(
    tmp_path: Path,
) -> None:
    run = tmp_path / "run"
    program = Path(__file__).with_name("kill_runs.py")
    result = subprocess.run(
        [sys.executable, program, run, "1"], capture_output=True, text=True, timeout=600
    )
    assert result.returncode == 0, result.stderr
    *kills, resumed, twin = map(json.loads, result.stdout.splitlines())

    assert [kill["killed"] for kill in kills] == [True] * 21, result.stderr
    kinds = [kill["kind"] for kill in kills[1:]]
    assert kinds.count("random") == 10
    assert len(set(kinds) - {"random"}) == 10
    for kill in kills:
        assert kill["found"] >= kill["announced"], kill
        assert kill["found"] == kill["counters"] == kill["algorithm"], kill
    found = [kill["found"] for kill in kills]
    assert found == sorted(found)
    assert found[-1] > found[0]

    # The survivor is, bit for bit, the run that nobody killed; and nothing was left lying about.
    assert resumed["status"] == twin["status"] == 0, result.stderr
    ours, theirs = (
        checkpoints.load(checkpoints.find(path)[1]) for path in (run, tmp_path / "twin")
    )
    assert ours.steps == theirs.steps > found[-1]
    for part in ("policy", "algorithm", "environment"):
        for name, array in theirs.arrays[part].arrays.items():
            np.testing.assert_array_equal(ours.arrays[part].arrays[name], array, err_msg=name)
    assert not [path for path in run.rglob("*") if path.name.startswith(".")]
    rows, twin_rows = read_metrics(run), read_metrics(tmp_path / "twin")
    for row in rows + twin_rows:
        for name in TIMED:
            del row[name]
    assert rows == twin_rows
