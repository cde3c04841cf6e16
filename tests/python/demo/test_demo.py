"""The demo in short form: every step runs, and its folder is replaced whole or not at all."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from servorl import render
from servorl.cli import main
from servorl.demo import steps
from servorl.demo.report import DemoResult, next_steps, write_report
from servorl.errors import VerificationError
from servorl.training import Run

EXPORTED = ["cortex-m4f.elf", "policy.c", "policy.h", "policy.json", "policy.onnx", "report.json"]
SHORT = ["demo", "--steps", "2048", "--out"]


@pytest.fixture(scope="module")
def short_demo(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, int]:
    """A demo that stops long before the task is solved, and its exit code."""
    out = tmp_path_factory.mktemp("demo") / "report"
    return out, main.main([*SHORT, str(out)])


def test_it_leaves_everything_that_it_names(short_demo: tuple[Path, int]) -> None:
    out, _ = short_demo
    assert sorted(path.name for path in out.iterdir()) == [
        "demo.json",
        "exported",
        "index.html",
        "learning-curve.png",
        "policy.gif",
        "run",
    ]
    assert sorted(path.name for path in (out / "exported").iterdir()) == EXPORTED
    assert [path.name for path in out.parent.iterdir()] == [out.name]


def test_an_unsolved_task_is_a_failure_that_still_proves_its_export(
    short_demo: tuple[Path, int],
) -> None:
    out, exit_code = short_demo
    summary = json.loads((out / "demo.json").read_text())
    assert exit_code == 1
    assert summary["solved"] is False
    assert summary["verification"]["ok"] is True
    (chip,) = [r for r in summary["verification"]["rows"] if r["target"] == "cortex-m4f"]
    assert chip["max_error"] <= 1e-5
    assert chip["observations"] >= 1000
    assert min(chip["flash"], chip["ram"], chip["stack"], chip["instructions"]) > 0


def test_the_film_moves(short_demo: tuple[Path, int]) -> None:
    with Image.open(short_demo[0] / "policy.gif") as film:
        assert film.n_frames == round(steps.VIDEO_SECONDS / 0.04)  # type: ignore[attr-defined]
        assert film.size == (480, 288)
        first = film.convert("RGB").tobytes()
        film.seek(60)
        assert film.convert("RGB").tobytes() != first


def test_the_page_stands_alone(short_demo: tuple[Path, int]) -> None:
    page = (short_demo[0] / "index.html").read_text()
    assert page.startswith("<!doctype html>")
    assert "Not solved yet" in page
    assert 'src="data:image/gif;base64,' in page
    assert 'src="data:image/png;base64,' in page
    assert "http" not in page.replace("http-equiv", "")
    assert "$" not in page
    for name in EXPORTED:
        assert f'href="exported/{name}"' in page


def test_without_a_renderer_the_demo_goes_on(
    short_demo: tuple[Path, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MUJOCO_GL", "disabled")
    render.find_backend.cache_clear()
    said: list[str] = []
    settings = steps.DemoSettings(tmp_path, "inverted_pendulum", 1, 1, "cortex-m4f")
    try:
        film, note = steps._film(
            Run(short_demo[0] / "run"), settings, tmp_path / "a.gif", said.append
        )
    finally:
        render.find_backend.cache_clear()
    assert film is None
    assert note.startswith("No video: no OpenGL renderer works here")
    assert "libegl1" in said[0]
    assert not list(tmp_path.iterdir())


def test_a_folder_that_is_no_demo_is_left_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    assert main.main([*SHORT, str(tmp_path)]) == 1
    assert "no earlier demo" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_an_earlier_demo_comes_back_where_the_new_one_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "report"
    out.mkdir()
    (out / steps.MARKER).write_text('{"earlier": true}')

    def fail(*arguments: Any) -> None:
        assert not (out / "index.html").exists()
        raise VerificationError("for a test")

    monkeypatch.setattr(steps, "_train", fail)
    assert main.main([*SHORT, str(out)]) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["report"]
    assert json.loads((out / steps.MARKER).read_text()) == {"earlier": True}


@pytest.mark.parametrize(
    ("arguments", "exit_code", "message"),
    [
        (["--board", "cortex-m4"], 2, "did you mean cortex-m4f?"),
        (["--steps", "0"], 2, "--steps must be at least 1, not 0"),
        (["--steps", "many"], 2, "--steps expects INT, not 'many'"),
        (["--out", "/proc/demo"], 1, "/proc/demo cannot be written"),
    ],
)
def test_a_wrong_request_is_refused_before_training(
    arguments: list[str],
    exit_code: int,
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main.main(["demo", *arguments]) == exit_code
    captured = capsys.readouterr()
    assert captured.err.count("\n") == 1
    assert message in captured.err
    assert "train" not in captured.out
    assert not list(tmp_path.iterdir())


def row(target: str, **figures: float | int) -> dict[str, Any]:
    empty = dict.fromkeys(
        ["max_error", "observations", "flash", "ram", "stack", "instructions", "return_mean"]
    )
    return {"target": target, **empty, **figures}


@pytest.fixture
def result(tmp_path: Path) -> DemoResult:
    """A solved and proven demo, without the work."""
    exported = tmp_path / "exported"
    exported.mkdir()
    (exported / "policy.c").write_text("/* C */")
    Image.new("RGB", (4, 4)).save(tmp_path / "curve.png")
    chip = row("cortex-m4f", max_error=2e-7, flash=20_000, ram=512, stack=80, instructions=19_012)
    return DemoResult(
        environment="inverted_pendulum",
        steps=20_480,
        num_envs=8,
        train_seconds=21.0,
        total_seconds=120.0,
        mean_return=1000.0,
        reward_threshold=950.0,
        episodes=20,
        curve=tmp_path / "curve.png",
        video=None,
        video_note="No video: install libegl1 <or> libosmesa6",
        export_folder=exported,
        verification={"ok": True, "rows": [chip], "problems": [], "left_out": []},
        board="cortex-m4f",
    )


def page_of(result: DemoResult) -> str:
    path = result.curve.parent / "index.html"
    write_report(result, path)
    return path.read_text()


def test_a_solved_and_proven_demo_says_so(result: DemoResult) -> None:
    page = page_of(result)
    for expected in ("Solved, and proven", "19.5 KB", "19,012", "2.0e-07", "2.0 min"):
        assert expected in page
    assert all(line in page for line in next_steps())


def test_what_is_missing_is_said_and_escaped(result: DemoResult) -> None:
    assert "install libegl1 &lt;or&gt; libosmesa6" in page_of(result)
    left_out = {"rows": [row("cortex-m4f")], "left_out": ["chip: install qemu-system-arm"]}
    page = page_of(dataclasses.replace(result, verification={**result.verification, **left_out}))
    assert "not proven on the chip" in page
    assert "chip: install qemu-system-arm" in page


def test_a_failed_proof_leads_the_page(result: DemoResult) -> None:
    failed = {**result.verification, "ok": False, "problems": ["weight 7 differs"]}
    page = page_of(dataclasses.replace(result, verification=failed))
    assert "The export is not the trained policy" in page
    assert "weight 7 differs" in page
