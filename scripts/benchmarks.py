"""The measured tables of README.md and docs/benchmarks.md.

    .venv/bin/python scripts/benchmarks.py [SUITE ...]

Runs the suites named with their peers, keeps each result in docs/results/bench/SUITE.json with its
picture in docs/images/, and writes the tables from all results that are kept. Without a suite it
only writes the tables. Nothing else may run on the machine meanwhile.
"""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any

from servorl.bench.report import draw_picture, write_json

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "docs" / "results" / "bench"
IMAGES = ROOT / "docs" / "images"
README, PAGE = ROOT / "README.md", ROOT / "docs" / "benchmarks.md"
BEGIN, END = "<!-- measured: written by scripts/benchmarks.py -->", "<!-- end -->"
README_SUITE = "stepping"


def main(suites: list[str]) -> int:
    """Measure what was asked for and write both pages."""
    for suite in suites:
        print(f"measuring {suite}", file=sys.stderr)
        result = importlib.import_module(f"servorl.bench.{suite}").run(True)
        RESULTS.mkdir(parents=True, exist_ok=True)
        write_json([result], RESULTS / f"{suite}.json")
        draw_picture(result, IMAGES / f"bench-{suite}.png")
    README.write_text(with_measured(README.read_text(), readme_section()))
    PAGE.write_text(with_measured(PAGE.read_text(), page_section()))
    return 0


def readme_section() -> str:
    """The README's table: one suite, and the machine it was read on."""
    document = json.loads((RESULTS / f"{README_SUITE}.json").read_text())
    return f"{machine_line(document)}\n\n{table(document)}"


def page_section() -> str:
    """A section per kept result: command, machine, table, picture, versions."""
    sections = []
    for path in sorted(RESULTS.glob("*.json")):
        document = json.loads(path.read_text())
        suite = document["suite"]
        versions = ", ".join(f"{name} {version}" for name, version in document["versions"].items())
        sections.append(
            f"## {suite}\n\n`servorl bench {suite} --peers`\n\n{machine_line(document)}\n\n"
            f"{table(document)}\n\n![{suite}](images/bench-{suite}.png)\n\nVersions: {versions}."
        )
    return "\n\n".join(sections)


def machine_line(document: dict[str, Any]) -> str:
    """The machine in words."""
    machine = document["machine"]
    return (
        f"Read on {machine['cores']} cores of {machine['cpu']} ({machine['isa']}, "
        f"{machine['ram']:.0f} GiB); median of at least five runs."
    )


def table(document: dict[str, Any]) -> str:
    """Markdown: a line per case with ours, and how many times faster ours is than each other."""
    ratios = {(ratio["case"], ratio["of"]): ratio["value"] for ratio in document["ratios"]}
    ours = {row["case"]: row for row in document["rows"] if row["name"] == "servorl"}
    others = list(dict.fromkeys(of for case, of in ratios if case in ours))
    names = ["of the limit" if other == "limit" else f"× {other}" for other in others]
    lines = [
        f"| case | servorl | {' | '.join(names)} |",
        f"| --- | ---: |{' ---: |' * len(names)}",
    ]
    for case, row in ours.items():
        cells = [_ratio(other, ratios.get((case, other))) for other in others]
        if any(cells):
            lines.append(
                f"| {case} | {_number(row['median'])} {row['unit']} | {' | '.join(cells)} |"
            )
    return "\n".join(lines)


def with_measured(text: str, section: str) -> str:
    """The text with what stands between the markers replaced."""
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    return f"{before}{BEGIN}\n{section}\n{END}{after}"


def _ratio(other: str, value: float | None) -> str:
    if value is None:
        return ""
    return f"{100 * value:.0f} %" if other == "limit" else f"{value:.2f}"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
