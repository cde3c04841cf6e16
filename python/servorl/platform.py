"""What of the machine a run depends on: device, torch's threads, versions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from typing import Literal

import torch

from servorl.errors import DeviceError


def resolve_device(device: Literal["auto", "cpu", "cuda"]) -> tuple[str, str | None]:
    """The torch device to use, and what to tell the user about it.

    Raises DeviceError, a RuntimeError as torch's own, for ``cuda`` without a usable GPU.
    """
    if device == "auto":
        if torch.cuda.is_available():
            return "cuda", f"device: cuda ({torch.cuda.get_device_name()})"
        return "cpu", "device: cpu (torch sees no GPU)"
    if device == "cuda":
        try:
            torch.zeros(1, device="cuda")
        except (RuntimeError, AssertionError) as error:
            first_line = str(error).splitlines()[0]
            raise DeviceError(f"device cuda: {first_line}; use cpu or auto") from error
    return device, None


@contextmanager
def torch_thread_count(count: int) -> Iterator[None]:
    """Let torch use ``count`` threads on the CPU for a while."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def versions(torch_threads: int) -> dict[str, str]:
    """What a run's numbers may depend on; a resume under another value warns."""
    return {
        "servorl": version("servorl"),
        "mujoco": version("mujoco"),
        "numpy": version("numpy"),
        "torch": torch.__version__,
        "torch_threads": str(torch_threads),
        "instruction set": str(torch.backends.cpu.get_cpu_capability()),
    }
