"""``servorl doctor``: what is installed, what each missing part would give, and how to get it."""

from __future__ import annotations

import dataclasses
import importlib.util
import json
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from servorl.cli.parse import parse
from servorl.errors import ServorlError

ARM_PACKAGES = "apt-get install gcc-arm-none-eabi libnewlib-arm-none-eabi"
QEMU_PACKAGES = "apt-get install qemu-system-arm"


@dataclass(frozen=True)
class DoctorConfig:
    """Say what is installed, what a missing part would give, and how to get it."""

    json: bool = False
    """Print JSON alone on standard output."""


@dataclass(frozen=True)
class Finding:
    """One part of the installation."""

    name: str
    found: str | None
    """What is there, in words; None where the part is missing or does not work."""
    gives: str
    """What the part is for."""
    get: str
    """How to get it."""
    required: bool = False
    """Whether servorl is of no use without it."""


def run(arguments: list[str]) -> int:
    """Run the command; 1 where a part is missing that nothing works without."""
    config = parse(DoctorConfig, arguments, prog="servorl doctor")
    findings = [check() for check in CHECKS]
    ok = all(finding.found is not None for finding in findings if finding.required)
    if config.json:
        document = {"ok": ok, "findings": [dataclasses.asdict(finding) for finding in findings]}
        json.dump(document, sys.stdout, indent=2)
        print()
    else:
        _print(findings)
    return 0 if ok else 1


def _print(findings: list[Finding]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column()
    for finding in findings:
        if finding.found is not None:
            table.add_row("[green]ok[/]", finding.name, finding.found)
        else:
            mark = "[red]missing[/]" if finding.required else "[yellow]missing[/]"
            table.add_row(mark, finding.name, f"would give {finding.gives}; {finding.get}")
    Console(highlight=False).print(table)


def _python() -> Finding:
    version = f"{platform.python_version()} ({sys.executable})"
    return Finding("Python", version, "", "", required=True)


def _native() -> Finding:
    found = None
    get = "reinstall servorl"
    try:
        from servorl._native import core

        in_use = core.advantage.supported_isas()[-1]
        found = f"{core.version}; instruction set in use: {in_use}"
    except ServorlError as error:
        get = str(error)
    return Finding("compiled module", found, "everything", get, required=True)


def _mujoco() -> Finding:
    found = None
    get = "pip install mujoco"
    try:
        from servorl._native import check_mujoco, resource_root

        found = f"{check_mujoco(resource_root())}, the version servorl was built for"
    except ServorlError as error:
        get = str(error)
    return Finding("MuJoCo", found, "the physics", get, required=True)


def _torch() -> Finding:
    found = None
    if importlib.util.find_spec("torch") is not None:
        import torch

        build = f"CUDA {torch.version.cuda} build" if torch.version.cuda else "CPU build"
        found = f"{torch.__version__}, {build}"
        if torch.cuda.is_available():
            found += f", {torch.cuda.get_device_name()}"
    return Finding("torch", found, "learning", "pip install torch", required=True)


def _onnx() -> Finding:
    found = None
    try:
        found = f"onnx {metadata.version('onnx')}, onnxruntime {metadata.version('onnxruntime')}"
    except metadata.PackageNotFoundError as error:
        missing = str(error)
        return Finding("ONNX", None, "policy.onnx", f"pip install {missing}", required=True)
    return Finding("ONNX", found, "policy.onnx", "pip install onnx onnxruntime", required=True)


def _compiler() -> Finding:
    return Finding(
        "C compiler",
        _version("cc") or _version("gcc") or _version("clang"),
        "verification of the exported C on this machine, and rebuilding servorl",
        "apt-get install g++",
    )


def _nvcc() -> Finding:
    return Finding(
        "CUDA compiler",
        _version("nvcc", line="release"),
        "building servorl._cuda, the advantages on a GPU",
        "install NVIDIA's CUDA toolkit, then rebuild servorl",
    )


def _cuda_module() -> Finding:
    found = None
    if importlib.util.find_spec("servorl._cuda") is not None:
        found = "built"
    return Finding(
        "servorl._cuda",
        found,
        "advantages of rollouts that live on a GPU",
        "rebuild servorl where nvcc is found",
    )


def _arm() -> Finding:
    found = _version("arm-none-eabi-gcc")
    get = ARM_PACKAGES
    if found is not None and not _has_newlib():
        found = None
        get = f"its C library is missing: {ARM_PACKAGES}"
    return Finding("Arm compiler", found, "firmware images for Cortex-M boards", get)


def _has_newlib() -> bool:
    printed = _output(["arm-none-eabi-gcc", "-print-file-name=libc.a"])
    return printed is not None and Path(printed.strip()).is_absolute()


def _qemu() -> Finding:
    return Finding(
        "QEMU for Arm",
        _version("qemu-system-arm"),
        "the proof that the policy is the same on an emulated chip",
        QEMU_PACKAGES,
    )


def _renderer() -> Finding:
    from servorl import render

    try:
        found: str | None = f"MuJoCo draws with {render.find_backend()}"
    except ServorlError:
        found = None
    return Finding(
        "renderer",
        found,
        "pictures and videos (servorl eval --video)",
        f"apt-get install {render.PACKAGES}",
    )


def _version(program: str, line: str = "") -> str | None:
    """The line of ``program --version`` that holds ``line``; None where it does not run."""
    printed = _output([program, "--version"])
    if printed is None:
        return None
    return next((text.strip() for text in printed.splitlines() if line in text), program)


def _output(command: list[str]) -> str | None:
    if shutil.which(command[0]) is None:
        return None
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None


CHECKS: tuple[Callable[[], Finding], ...] = (
    _python,
    _native,
    _mujoco,
    _torch,
    _onnx,
    _compiler,
    _arm,
    _qemu,
    _renderer,
    _nvcc,
    _cuda_module,
)
