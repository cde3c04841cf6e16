"""Keeps torch's CUDA build (gigabytes of libraries) off a machine that has no NVIDIA driver."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

from phases import Failure, run

_CUDA_REQUIREMENT = re.compile(r"^(nvidia[-_]|cuda[-_]|pytorch-triton|triton\b)", re.IGNORECASE)


def has_nvidia_driver() -> bool:
    """Whether this machine can run CUDA."""
    places = ("/proc/driver/nvidia/version", "/dev/nvidia0", "/dev/dxg")
    return any(Path(place).exists() for place in places) or bool(shutil.which("nvidia-smi"))


def needs_cuda(metadata: dict[str, object]) -> bool:
    """Whether a torch wheel's metadata asks for NVIDIA's libraries.

    ``metadata`` is the ``metadata`` object of pip's installation report.
    """
    requirements = metadata.get("requires_dist") or []
    assert isinstance(requirements, list)
    return any(_CUDA_REQUIREMENT.match(str(requirement)) for requirement in requirements)


def install_cpu_torch(python: Path, constraints: Path, index: str) -> None:
    """Make sure that the torch which the next installation takes is a CPU build.

    Does nothing where the pinned version is installed, outside Linux, or beside an NVIDIA driver.

    Args:
        python: The interpreter of the environment.
        constraints: The file that pins torch's version.
        index: URL of an index of CPU builds that the user named; empty where none was.

    Raises:
        Failure: the index at hand offers the CUDA build alone, and the user named no other.
    """
    if index:
        command = [python, "-m", "pip", "install", "-c", constraints, "--no-deps"]
        run([*command, "--index-url", index, "torch"], why=f"torch cannot be had from {index}")
        return
    if sys.platform != "linux" or has_nvidia_driver() or _is_installed(python, constraints):
        return
    command = [python, "-m", "pip", "install", "--dry-run", "--no-deps", "--ignore-installed"]
    command += ["-q", "--report", "-", "-c", constraints, "torch"]
    asked = subprocess.run(
        [str(word) for word in command], stdout=subprocess.PIPE, text=True, check=False
    )
    if asked.returncode != 0:
        raise Failure("the package index at hand offers no torch of the version in constraints.txt")
    metadata = json.loads(asked.stdout)["install"][0]["metadata"]
    if needs_cuda(metadata):
        raise Failure(
            f"the package index at hand offers torch {metadata['version']} as its CUDA build "
            "alone, and this machine has no NVIDIA driver; name an index of CPU builds: "
            "make demo TORCH_INDEX=<URL> (the README says where to find it)"
        )
    print(f"    torch {metadata['version']}: a CPU build")


def _is_installed(python: Path, constraints: Path) -> bool:
    """Whether the environment holds the version that ``constraints`` pins, whatever its build."""
    pinned = re.search(r"^torch==(\S+)$", constraints.read_text(), re.MULTILINE)
    code = "import importlib.metadata as m; print(m.version('torch').split('+')[0])"
    asked = subprocess.run([str(python), "-c", code], capture_output=True, text=True, check=False)
    return pinned is not None and asked.stdout.strip() == pinned.group(1)
