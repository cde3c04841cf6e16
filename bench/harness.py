"""What every benchmark suite is made of: timing, rows, ratios, and the machine they hold for.

A suite is a module of this package with ``run(peers: bool) -> SuiteResult``. It times ours, the
peers and the physical limit in turn, in one process tree; ``servorl bench SUITE`` finds it by its
name, prints the table, and writes the JSON (``report.py``). Peers live in a virtual environment
of their own (``peers.py``).
"""

from __future__ import annotations

import importlib.metadata
import os
import platform
import statistics
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

OURS = "servorl"
LIMIT = "limit"


@dataclass(frozen=True)
class Timing:
    """Seconds of one call: the median of ``repeats`` runs, the fastest and the slowest."""

    median: float
    low: float
    high: float
    repeats: int


@dataclass(frozen=True)
class Row:
    """One measured figure of one contestant in one case.

    ``name`` is ``servorl``, ``limit`` or a peer in lower case. Where a peer could not be had,
    ``median``, ``low`` and ``high`` are None and ``note`` says why.
    """

    case: str
    name: str
    unit: str
    median: float | None
    low: float | None
    high: float | None
    repeats: int
    note: str = ""

    @classmethod
    def time(cls, case: str, name: str, timing: Timing, *, unit: str = "s") -> Row:
        """A row in seconds (``unit="s"``), ``ms`` or ``us`` per call."""
        scale = {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}[unit]
        low, median, high = (scale * t for t in (timing.low, timing.median, timing.high))
        return cls(case, name, unit, median, low, high, timing.repeats)

    @classmethod
    def rate(cls, case: str, name: str, timing: Timing, work: float, *, unit: str) -> Row:
        """A row in units of work per second; one timed call does ``work`` units."""
        low, median, high = (work / t for t in (timing.high, timing.median, timing.low))
        return cls(case, name, unit, median, low, high, timing.repeats)

    @classmethod
    def unavailable(cls, case: str, name: str, unit: str, why: str) -> Row:
        """The row of a peer that could not be had on this machine."""
        return cls(case, name, unit, None, None, None, 0, why)


@dataclass(frozen=True)
class Ratio:
    """How many times faster ours is than ``of``; for ``limit``, the fraction of it reached."""

    case: str
    of: str
    value: float
    goal: float | None = None


@dataclass
class SuiteResult:
    """Everything that one run of a suite measured, on one machine."""

    suite: str
    rows: list[Row] = field(default_factory=list)
    ratios: list[Ratio] = field(default_factory=list)
    versions: dict[str, str] = field(default_factory=dict)

    def row(self, case: str, name: str) -> Row:
        """The row of one contestant in one case; KeyError where there is none."""
        for row in self.rows:
            if (row.case, row.name) == (case, name):
                return row
        raise KeyError((case, name))

    def to_json(self) -> dict[str, Any]:
        """The suite's JSON document, as ``schema.json`` describes it."""
        rows = [asdict(row) for row in self.rows]
        for row in rows:
            if not row["note"]:
                del row["note"]
        return {
            "suite": self.suite,
            "machine": machine(),
            "versions": self.versions,
            "rows": rows,
            "ratios": [asdict(ratio) for ratio in self.ratios],
        }


def measure(call: Callable[[], object], repeats: int = 5, warmup: int = 1) -> Timing:
    """Time ``call()``: ``warmup`` runs that do not count, then ``repeats`` that do."""
    return measure_in_turn({"": call}, repeats, warmup)[""]


def measure_in_turn(
    calls: Mapping[str, Callable[[], object]], repeats: int = 5, warmup: int = 1
) -> dict[str, Timing]:
    """Time several contestants in turn, so that a slow spell of the machine falls on each alike."""
    if repeats < 1:
        raise ValueError(f"repeats must be at least 1, not {repeats}")
    for call in calls.values():
        for _ in range(warmup):
            call()
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(repeats):
        for name, call in calls.items():
            start = time.perf_counter()
            call()
            seconds[name].append(time.perf_counter() - start)
    return {name: timing_of(runs) for name, runs in seconds.items()}


def timing_of(seconds: Iterable[float]) -> Timing:
    """The Timing of runs that were timed elsewhere, for example in a peer's own process."""
    runs = list(seconds)
    return Timing(statistics.median(runs), min(runs), max(runs), len(runs))


def versions_of(*packages: str) -> dict[str, str]:
    """Installed version of each package; the ones that are not installed are left out."""
    found: dict[str, str] = {}
    for package in packages:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def usable_cores() -> int:
    """Cores that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def instruction_set() -> str:
    """The processor's widest vector instructions: AVX-512, AVX2, NEON, or its architecture."""
    architecture = platform.machine()
    if architecture.lower() in ("aarch64", "arm64"):
        return "NEON"
    flags = _cpuinfo("flags").split()
    if "avx512f" in flags:
        return "AVX-512"
    return "AVX2" if "avx2" in flags else architecture


def machine() -> dict[str, str | int | float]:
    """``{cpu, cores, isa, ram}``: name, usable cores, vector instructions, memory in GiB."""
    try:
        ram = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    except (AttributeError, ValueError, OSError):
        ram = 0.0
    cpu = _cpuinfo("model name") or platform.processor() or platform.machine()
    return {"cpu": cpu, "cores": usable_cores(), "isa": instruction_set(), "ram": round(ram, 1)}


def _cpuinfo(key: str) -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return ""
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith(key)), "")
