"""The demo's ``index.html``: one self-contained page that a person would show a colleague."""

from __future__ import annotations

import base64
import html
import platform
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from string import Template
from typing import Any

FILE_MEANINGS = {
    "policy.onnx": "the policy for onnxruntime, normaliser and action scaling inside",
    "policy.h": "the interface of the C policy",
    "policy.c": "the policy in C99: weights in flash, no heap, no libraries",
    "policy.json": "names, order and units of every observation and action, control period",
    "report.json": "the proof above, for a machine to read",
}
IMAGE_MEANING = "the firmware image that ran on the emulated chip"
_MEDIA_TYPES = {".png": "image/png", ".gif": "image/gif"}
_COLUMNS = (
    ("target", "target"),
    ("max_error", "largest difference"),
    ("observations", "observations"),
    ("flash", "flash, B"),
    ("ram", "RAM, B"),
    ("stack", "stack, B"),
    ("instructions", "instructions"),
    ("return_mean", "return"),
)


@dataclass(frozen=True)
class DemoResult:
    """What the page shows."""

    environment: str
    steps: int
    num_envs: int
    train_seconds: float
    total_seconds: float
    mean_return: float
    reward_threshold: float | None
    episodes: int
    curve: Path
    video: Path | None
    video_note: str
    """Why there is no video; empty where there is one."""
    export_folder: Path
    verification: dict[str, Any]
    """``report.json``'s content."""
    board: str

    @property
    def chip_row(self) -> dict[str, Any] | None:
        """The row of the emulated chip; None where nothing ran on it."""
        rows = self.verification["rows"]
        found = (row for row in rows if row["target"] == self.board)
        return next((row for row in found if row["max_error"] is not None), None)

    @property
    def solved(self) -> bool:
        """Whether the policy earns what Gymnasium calls solved."""
        return self.reward_threshold is None or self.mean_return >= self.reward_threshold


def write_report(result: DemoResult, path: Path) -> None:
    """Write the page; pictures are embedded, exported files are linked."""
    template = Template((Path(__file__).parent / "report.html").read_text(encoding="utf-8"))
    verdict_class, verdict = _verdict(result)
    folder = result.export_folder.relative_to(path.parent).as_posix()
    page = template.substitute(
        environment=_text(result.environment),
        title=_text(result.environment.replace("_", " ")),
        total_time=_duration(result.total_seconds),
        train_time=_duration(result.train_seconds),
        steps=f"{result.steps:,}",
        num_envs=result.num_envs,
        verdict_class=verdict_class,
        verdict=_text(verdict),
        figures="".join(_figure(*figure) for figure in _key_figures(result)),
        solved_note=_solved_note(result),
        curve=_image(result.curve, "curve", "Return against environment steps"),
        video=_image(result.video, "video", "The trained policy at work")
        if result.video
        else f"<p>{_text(result.video_note)}</p>",
        verification=_verification_table(result),
        verification_note="".join(
            f"<p>{_text(line)}</p>"
            for line in [*result.verification["problems"], *result.verification["left_out"]]
        ),
        export_folder=_text(folder),
        files=_file_rows(result.export_folder, folder),
        next_steps=_text("\n".join(next_steps())),
        made_with=_text(_made_with()),
    )
    path.write_text(page, encoding="utf-8")


def next_steps() -> list[str]:
    """Commands worth trying after the demo."""
    return [
        "servorl envs",
        "servorl train ppo --env half_cheetah --steps 1000000 --seed 1 --out runs/cheetah",
        "servorl eval runs/cheetah --video cheetah.mp4",
        "servorl export runs/cheetah --out exported",
        "servorl verify exported --board cortex-m4f",
    ]


def _verdict(result: DemoResult) -> tuple[str, str]:
    if not result.verification["ok"]:
        return "failed", "The export is not the trained policy: see the table below"
    if not result.solved:
        return "partial", "Not solved yet: train for longer"
    if result.chip_row is None:
        return "partial", "Solved; not proven on the chip: its tools are missing here"
    return "", "Solved, and proven to be the same policy on the chip"


def _key_figures(result: DemoResult) -> list[tuple[str, str]]:
    figures = [(f"{result.mean_return:.0f}", f"mean return of {result.episodes} episodes")]
    chip = result.chip_row
    if chip is not None:
        figures += [
            (_cell("max_error", chip["max_error"]), "largest difference on the chip"),
            (_bytes(chip["flash"]), "flash"),
            (_bytes(chip["ram"]), "RAM"),
            (_cell("instructions", chip["instructions"]), "instructions per action"),
        ]
    figures.append((_duration(result.train_seconds), "of training"))
    return figures


def _figure(value: str, label: str) -> str:
    return f'<div class="figure"><b>{_text(value)}</b><span>{_text(label)}</span></div>'


def _solved_note(result: DemoResult) -> str:
    if result.reward_threshold is None:
        return ""
    return f"The dashed line, {result.reward_threshold:g}, is where the task counts as solved."


def _verification_table(result: DemoResult) -> str:
    head = "".join(f"<th>{_text(heading)}</th>" for _, heading in _COLUMNS)
    rows = []
    for row in result.verification["rows"]:
        cells = "".join(f"<td>{_text(_cell(key, row.get(key)))}</td>" for key, _ in _COLUMNS)
        mark = ' class="chip"' if row["target"] == result.board else ""
        rows.append(f"<tr{mark}>{cells}</tr>")
    return f"<table><tr>{head}</tr>{''.join(rows)}</table>"


def _cell(key: str, value: Any) -> str:
    if value is None:
        return "–"
    if key == "max_error":
        return "0" if value == 0 else f"{value:.1e}"
    if key == "return_mean":
        return f"{value:,.1f}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _file_rows(export_folder: Path, folder: str) -> str:
    rows = []
    for file in sorted(export_folder.iterdir()):
        if file.is_file():
            otherwise = IMAGE_MEANING if file.suffix == ".elf" else ""
            meaning = FILE_MEANINGS.get(file.name, otherwise)
            link = f'<a href="{_text(folder)}/{_text(file.name)}">{_text(file.name)}</a>'
            size = f"{file.stat().st_size:,}"
            rows.append(
                f'<tr><td>{link}</td><td>{size}</td><td class="what">{_text(meaning)}</td></tr>'
            )
    return "\n".join(rows)


def _image(path: Path, style: str, alternative: str) -> str:
    data = base64.b64encode(path.read_bytes()).decode()
    kind = _MEDIA_TYPES[path.suffix]
    return f'<img class="{style}" alt="{_text(alternative)}" src="data:{kind};base64,{data}">'


def _made_with() -> str:
    versions = ", ".join(
        f"{name} {metadata.version(name)}" for name in ("servorl", "mujoco", "torch", "onnxruntime")
    )
    return f"Made with {versions}, Python {platform.python_version()} on {platform.machine()}."


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.1f} min"


def _bytes(count: int | None) -> str:
    if count is None:
        return "–"
    return f"{count:,} B" if count < 10_000 else f"{count / 1024:.1f} KB"


def _text(value: object) -> str:
    return html.escape(str(value))
