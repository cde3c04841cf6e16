"""Every Python example of the README and of docs/ runs as it is printed."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from servorl.bench import report

REPOSITORY = Path(__file__).parents[3]
PAGES = [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").rglob("*.md"))]
FENCE = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FOLLOWED_ELSEWHERE = {"docs/adding-an-environment.md"}
"""Pages whose steps a test of their own room follows, since their code needs a build between."""
LINK = re.compile(r"\]\(([^)#]+)(?:#[^)]*)?\)")


@dataclass(frozen=True)
class Example:
    """The Python blocks of one page, run one after the other in one interpreter."""

    page: Path
    code: str


def examples() -> list[Example]:
    found = [(page, FENCE.findall(page.read_text())) for page in PAGES]
    return [
        Example(page, "\n".join(blocks))
        for page, blocks in found
        if blocks and str(page.relative_to(REPOSITORY)) not in FOLLOWED_ELSEWHERE
    ]


@pytest.mark.parametrize("example", examples(), ids=lambda e: str(e.page.relative_to(REPOSITORY)))
def test_examples_run_as_printed(example: Example, tmp_path: Path) -> None:
    script = tmp_path / "example.py"
    script.write_text(example.code)
    done = subprocess.run(
        [sys.executable, str(script)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "MPLBACKEND": "agg"},
    )
    assert done.returncode == 0, done.stderr


def test_the_readme_has_an_example() -> None:
    assert any(example.page.name == "README.md" for example in examples())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    for target in LINK.findall(page.read_text()):
        if "://" not in target and not target.startswith("mailto:"):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_the_readme_keeps_its_order() -> None:
    text = (REPOSITORY / "README.md").read_text()
    places = [
        text.index("# servorl"),
        text.index("!["),
        text.index("make demo"),
        text.index("make test"),
        text.index("```python"),
        text.index("## Benchmarks"),
        text.index("## Where to go next"),
    ]
    assert places == sorted(places)


def test_measured_tables_say_what_was_measured() -> None:
    """Every kept result follows the schema, and the pages show it and nothing else."""
    path = REPOSITORY / "scripts" / "benchmarks.py"
    spec = importlib.util.spec_from_file_location("benchmarks", path)
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    results = sorted(script.RESULTS.glob("*.json"))
    assert results
    for result in results:
        report.validate(json.loads(result.read_text()))
    readme, page = script.README.read_text(), script.PAGE.read_text()
    assert script.with_measured(readme, script.readme_section()) == readme
    assert script.with_measured(page, script.page_section()) == page
