"""Set servorl up in ``.venv``: system packages, environment, dependencies, compiled module.

    python3 scripts/setup.py [--dev] [--torch-index URL]

Standard library only, since it runs before anything is installed. Each phase says what it does
and how long it took. What is up to date is left alone, without a call to pip or apt, so that the
second run works without a network: a stamp in ``.venv`` holds hashes of what was installed from.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
import subprocess
import sys
from pathlib import Path

import system_packages
from phases import Failure, Phases, fail, run
from torch_build import install_cpu_torch

ROOT = Path(__file__).resolve().parent.parent
ENVIRONMENT = ROOT / ".venv"
PYTHON = ENVIRONMENT / "bin" / "python"
STAMP = ENVIRONMENT / "servorl-setup.json"
CONSTRAINTS = ROOT / "constraints.txt"
SUPPORTED = ((3, 11), (3, 14))
DEPENDENCY_FILES = ("pyproject.toml", "constraints.txt")
NATIVE_FILES = ("CMakeLists.txt", "cmake", "csrc", "envs")
CMAKE_MINIMUM = (3, 22)


def main() -> int:
    """Run the phases that are due; 0 where servorl is ready to use."""
    parser = argparse.ArgumentParser(description="Set servorl up in .venv.")
    parser.add_argument("--dev", action="store_true", help="also what the tests need")
    parser.add_argument("--torch-index", default="", help="URL of an index of torch's CPU builds")
    options = parser.parse_args()
    phases = Phases()
    try:
        set_up(phases, dev=options.dev, torch_index=options.torch_index)
    except Failure as error:
        return fail(error)
    except KeyboardInterrupt:
        return 130
    if phases.seconds:
        print(f"set-up took\n{phases.summary()}")
    return 0


def set_up(phases: Phases, *, dev: bool, torch_index: str) -> None:
    """Bring the system, ``.venv`` and the compiled module up to date, in that order."""
    if not SUPPORTED[0] <= sys.version_info[:2] < SUPPORTED[1]:
        raise Failure(
            f"Python 3.11, 3.12 or 3.13 is needed, and {sys.executable} is "
            f"{sys.version.split()[0]}; name another: make demo PYTHON=python3.12"
        )
    missing = system_packages.missing(system_packages.NEEDS)
    if missing:
        with phases.phase("system packages"):
            system_packages.install(missing)
    if not _environment_works():
        with phases.phase("virtual environment .venv"):
            run([sys.executable, "-m", "venv", "--clear", ENVIRONMENT], why="no .venv")
            run([*_pip(), "-q", "pip>=24"], why="pip cannot be brought up to date")
    stamp = _read_stamp()
    extras = "dev" if dev else ""
    dependencies = _hash(DEPENDENCY_FILES)
    native = _hash(NATIVE_FILES)
    satisfied = stamp.get("dependencies") == dependencies
    if not satisfied or (dev and stamp.get("extras") != "dev"):
        with phases.phase("Python packages"):
            install_cpu_torch(PYTHON, CONSTRAINTS, torch_index)
            _install_dependencies(extras)
    if not satisfied or stamp.get("native") != native:
        with phases.phase("compile servorl"):
            # No index is asked: everything that this needs was installed by the phase above.
            command = [*_pip(), "-q", "--no-index", "--no-deps", "--no-build-isolation"]
            run([*command, "--editable", ROOT], why="servorl does not compile")
    if satisfied and stamp.get("extras") == "dev":
        extras = "dev"
    new_stamp = {"dependencies": dependencies, "native": native, "extras": extras}
    if new_stamp != stamp:
        STAMP.write_text(json.dumps(new_stamp))


def _install_dependencies(extras: str) -> None:
    import tomllib  # not before the version of Python was checked

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    requirements = [*project["build-system"]["requires"], *project["project"]["dependencies"]]
    if extras:
        requirements += project["project"]["optional-dependencies"][extras]
    if not _cmake_is_recent():
        requirements.append(f"cmake>={'.'.join(map(str, CMAKE_MINIMUM))}")
    if shutil.which("ninja") is None:
        requirements.append("ninja")
    command = [*_pip(), "-q", "-c", CONSTRAINTS]
    run([*command, *requirements], why="the Python packages cannot be installed")


def _pip() -> list[str | Path]:
    # Byte-compiling everything takes as long as unpacking it; Python compiles what it imports.
    return [PYTHON, "-m", "pip", "--disable-pip-version-check", "install", "--no-compile"]


def _environment_works() -> bool:
    """Whether ``.venv`` holds a supported Python that starts."""
    code = "import sys, pip; print(sys.version_info[0], sys.version_info[1])"
    try:
        asked = subprocess.run(
            [str(PYTHON), "-c", code], capture_output=True, text=True, check=False
        )
    except OSError:
        return False
    if asked.returncode != 0:
        return False
    return SUPPORTED[0] <= tuple(map(int, asked.stdout.split())) < SUPPORTED[1]


def _cmake_is_recent() -> bool:
    cmake = shutil.which("cmake")
    if cmake is None:
        return False
    asked = subprocess.run([cmake, "--version"], capture_output=True, text=True, check=False)
    words = asked.stdout.split()
    numbers = words[2].split(".") if len(words) > 2 else []
    return tuple(int(n) for n in numbers[:2] if n.isdigit()) >= CMAKE_MINIMUM


def _read_stamp() -> dict[str, str]:
    try:
        stamp = json.loads(STAMP.read_text())
    except (OSError, ValueError):
        return {}
    return stamp if isinstance(stamp, dict) else {}


def _hash(names: tuple[str, ...]) -> str:
    """One hash over files and folders: names and contents."""
    digest = hashlib.sha256(str(ROOT).encode())
    for name in names:
        path = ROOT / name
        files = sorted(p for p in path.rglob("*") if p.is_file()) if path.is_dir() else [path]
        for file in files:
            digest.update(str(file.relative_to(ROOT)).encode())
            digest.update(hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()


if __name__ == "__main__":
    sys.exit(main())
