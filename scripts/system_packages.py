"""What the system must or may provide, how to see whether it is there, and apt's name for it."""

from __future__ import annotations

import ctypes.util
import os
import shutil
import subprocess
import sysconfig
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from phases import Failure, run


@dataclass(frozen=True)
class Need:
    """One thing from outside Python."""

    what: str
    packages: tuple[str, ...]
    is_there: Callable[[], bool]
    without: str
    """What is left out where it is missing; empty where nothing works without it."""

    @property
    def required(self) -> bool:
        """Whether set-up stops without it."""
        return not self.without


def _program(*names: str) -> Callable[[], bool]:
    return lambda: any(shutil.which(name) for name in names)


def _python_can_make_environments() -> bool:
    try:
        import ensurepip
        import venv
    except ImportError:
        return False
    return bool(ensurepip.version() and venv)


def _python_headers() -> bool:
    return (Path(sysconfig.get_path("include")) / "Python.h").is_file()


def _arm_c_library() -> bool:
    compiler = shutil.which("arm-none-eabi-gcc")
    if compiler is None:
        return False
    asked = subprocess.run(
        [compiler, "-print-file-name=libc.a"], capture_output=True, text=True, check=False
    )
    return os.path.isabs(asked.stdout.strip())


def _opengl() -> bool:
    found = ctypes.util.find_library
    egl = found("EGL") and (found("EGL_mesa") or found("EGL_nvidia"))
    return bool(egl or found("OSMesa"))


NEEDS = (
    Need("a C++20 compiler", ("g++",), _program("g++", "clang++"), ""),
    Need("Python's venv", ("python3-venv",), _python_can_make_environments, ""),
    Need("Python's headers", ("python3-dev",), _python_headers, ""),
    Need(
        "the Arm compiler",
        ("gcc-arm-none-eabi", "libnewlib-arm-none-eabi"),
        _arm_c_library,
        "the proof on an emulated chip",
    ),
    Need(
        "QEMU for Arm",
        ("qemu-system-arm",),
        _program("qemu-system-arm"),
        "the proof on an emulated chip",
    ),
    Need(
        "Mesa's EGL",
        ("libegl1", "libegl-mesa0", "libgl1-mesa-dri", "libosmesa6"),
        _opengl,
        "pictures and videos of the simulation",
    ),
)


def missing(needs: tuple[Need, ...]) -> list[Need]:
    """The needs that this system does not meet."""
    return [need for need in needs if not need.is_there()]


def install(needs: list[Need]) -> None:
    """Install with apt where that is possible; else print the one line that would.

    Raises Failure where something is missing without which nothing works.
    """
    packages = sorted({package for need in needs for package in need.packages})
    for need in needs:
        print(f"    missing: {need.what} ({' '.join(need.packages)})")
    prefix = _privilege()
    if prefix is not None and shutil.which("apt-get"):
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        try:
            run([*prefix, "apt-get", "update", "-q"], env=environment, why="apt-get update failed")
            command = ["apt-get", "install", "-y", "-q", "--no-install-recommends", *packages]
            run([*prefix, *command], env=environment, why="apt-get install failed")
        except Failure as error:
            print(f"    {error}")
    else:
        print("    this needs an administrator; the line to run:")
        print(f"    sudo apt-get install -y {' '.join(packages)}")
    still = missing(tuple(needs))
    for need in still:
        if need.required:
            raise Failure(f"{need.what} is missing: install {' '.join(need.packages)}")
        print(f"    going on without {need.what}; left out: {need.without}")


def _privilege() -> list[str | Path] | None:
    """What to put before a command so that it runs as root; None where that cannot be."""
    if os.geteuid() == 0:
        return []
    if shutil.which("sudo"):
        asked = subprocess.run(["sudo", "-n", "true"], capture_output=True, check=False)
        if asked.returncode == 0:
            return ["sudo"]
    return None
