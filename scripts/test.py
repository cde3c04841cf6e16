"""Run the checks and tests in stages and print how long each took.

    .venv/bin/python scripts/test.py [STAGE ...]

Every stage runs even where one before it failed; the exit code is 1 where any did.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from phases import Failure, Phases, run

ROOT = Path(__file__).resolve().parent.parent
BIN = ROOT / ".venv" / "bin"
PYTHON = BIN / "python"


def main(names: list[str]) -> int:
    """Run the stages named, or all of them."""
    unknown = [name for name in names if name not in STAGES]
    if unknown:
        print(f"unknown stage {unknown[0]!r}; known: {', '.join(STAGES)}", file=sys.stderr)
        return 2
    os.chdir(ROOT)
    os.environ["PATH"] = f"{BIN}{os.pathsep}{os.environ['PATH']}"
    phases = Phases()
    failures = []
    for name in names or STAGES:
        try:
            with phases.phase(name):
                STAGES[name]()
        except Failure as error:
            failures.append(f"{name}: {error}")
    print(f"stages took\n{phases.summary()}")
    for failure in failures:
        print(f"FAILED {failure}", file=sys.stderr)
    return 1 if failures else 0


def format_check() -> None:
    """The layout of every Python file."""
    run([BIN / "ruff", "format", "--check", "."], why="not formatted: ruff format .")


def lint() -> None:
    """Ruff's rules, from pyproject.toml."""
    run([BIN / "ruff", "check", "."], why="ruff found faults")


def types() -> None:
    """mypy --strict over the package."""
    run([BIN / "mypy"], why="mypy found faults")


def python_tests() -> None:
    """Everything under tests/ that pytest collects; as root every tool is there, so none skips."""
    strict = ["--no-skips"] if os.geteuid() == 0 else []
    run([PYTHON, "-m", "pytest", "-q", *strict], why="Python tests failed")


def cpp_tests(build: str, sanitize: str) -> None:
    """Build tests/cpp, with sanitizers where some are named, and run it with ctest."""
    folder = ROOT / "build" / build
    asked = subprocess.run(
        [PYTHON, "-m", "pybind11", "--cmakedir"], capture_output=True, text=True, check=True
    )
    configure: list[str | Path] = ["cmake", "-S", ".", "-B", folder, "-Wno-dev"]
    configure += [f"-DPython_EXECUTABLE={PYTHON}", f"-Dpybind11_DIR={asked.stdout.strip()}"]
    configure += ["-DSERVORL_BUILD_TESTS=ON", f"-DSERVORL_SANITIZE={sanitize}"]
    configure += ["-DCMAKE_BUILD_TYPE=RelWithDebInfo", "-DSERVORL_CUDA=OFF"]
    run(configure, why="cmake failed")
    build_command: list[str | Path] = ["cmake", "--build", folder, "--parallel", "2"]
    run([*build_command, "--target", "servorl_tests"], why="the C++ tests do not compile")
    command: list[str | Path] = ["ctest", "--test-dir", folder, "--output-on-failure"]
    run([*command, "--no-tests=error"], why="C++ tests failed")


STAGES = {
    "format": format_check,
    "lint": lint,
    "types": types,
    "cpp": lambda: cpp_tests("tests", ""),
    "cpp-asan-ubsan": lambda: cpp_tests("tests-asan", "address,undefined"),
    "cpp-tsan": lambda: cpp_tests("tests-tsan", "thread"),
    "python": python_tests,
}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
