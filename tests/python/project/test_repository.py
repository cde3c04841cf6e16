"""Rules that hold for every file of the repository."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[3]
SOURCES = {".py", ".pyi", ".cpp", ".hpp", ".h", ".c", ".cu", ".cmake", ".md"}
MAX_LINES = 400
# Written out in parts, so that this file does not break its own rule.
MACHINE_PATHS = re.compile(r"/(?:" + "root|work|home/[a-z]|opt/wheels" + r")/")
UNFINISHED = re.compile(r"\b(?:TO" + "DO|FIX" + r"ME|XX" + r"X)\b")


def tracked_files() -> list[Path]:
    listing = subprocess.run(
        ["git", "ls-files", "-z"], cwd=REPOSITORY, capture_output=True, text=True, check=True
    ).stdout
    return [
        path for name in filter(None, listing.split("\0")) if (path := REPOSITORY / name).is_file()
    ]


def texts() -> list[tuple[Path, str]]:
    found = []
    for path in tracked_files():
        try:
            found.append((path, path.read_text(encoding="utf-8")))
        except UnicodeDecodeError:
            continue
    return found


def test_no_source_is_longer_than_a_person_reads() -> None:
    long = {
        str(path.relative_to(REPOSITORY)): count
        for path, text in texts()
        if path.suffix in SOURCES and (count := text.count("\n")) > MAX_LINES
    }
    assert not long


@pytest.mark.parametrize("rule", [MACHINE_PATHS, UNFINISHED], ids=["machine paths", "unfinished"])
def test_nothing_of_one_machine_and_nothing_unfinished(rule: re.Pattern[str]) -> None:
    found = [
        f"{path.relative_to(REPOSITORY)}:{number}: {line.strip()}"
        for path, text in texts()
        for number, line in enumerate(text.splitlines(), 1)
        if rule.search(line)
    ]
    assert not found


def test_no_binary_larger_than_a_policy() -> None:
    large = [path for path in tracked_files() if path.stat().st_size > 400 * 1024]
    assert not large


def test_python_reads_no_pickle_and_runs_no_shell() -> None:
    forbidden = re.compile(
        r"^\s*(?:import|from) pickle|\beval\(|shell=True|os\.system", re.MULTILINE
    )
    package = REPOSITORY / "python" / "servorl"
    code = re.compile(r'"""[\s\S]*?"""|#.*')
    found = [
        str(path.relative_to(REPOSITORY))
        for path in [*package.rglob("*.py"), *(REPOSITORY / "bench").glob("*.py")]
        if forbidden.search(code.sub("", path.read_text()).replace(".eval(", "("))
    ]
    assert not found
