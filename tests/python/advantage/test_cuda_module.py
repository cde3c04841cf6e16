"""``servorl._cuda``: built where nvcc is, loads anywhere, and an nvcc that fails costs only it."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from gae_cases import Batch, batches, random_batch
from hypothesis import HealthCheck, given, settings

from servorl.errors import NativeModuleError

ROOT = Path(__file__).resolve().parents[3]
HAS_MODULE = importlib.util.find_spec("servorl._cuda") is not None


def test_module_exists_where_nvcc_does() -> None:
    places = os.pathsep.join([os.environ["PATH"], "/usr/local/cuda/bin"])
    has_compiler = shutil.which("nvcc", path=places) is not None
    assert has_compiler == HAS_MODULE


def test_module_loads_without_a_gpu_a_driver_or_mujoco() -> None:
    code = (
        "import sys; sys.modules['mujoco'] = None\n"
        "from servorl import _cuda\n"
        "assert '90-real' in _cuda.architectures.split()\n"
        "assert 'torch' not in sys.modules\n"
    )
    expected = 0 if HAS_MODULE else 1
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run([sys.executable, "-c", code], env=environment, check=False)
    assert done.returncode == expected


def test_module_links_neither_driver_nor_runtime_nor_torch() -> None:
    if not HAS_MODULE:
        return
    from servorl import _cuda

    command = ["objdump", "-p", str(_cuda.__file__)]
    listing = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    needed = [line.split()[1] for line in listing.splitlines() if "NEEDED" in line]
    assert needed
    assert not [name for name in needed if "cuda" in name or "torch" in name or "mujoco" in name]


class OnDevice(torch.Tensor):
    """A CPU tensor that says it is on a GPU, to reach what happens without the CUDA module."""

    @property
    def is_cuda(self) -> bool:  # type: ignore[override]
        return True


def test_without_the_module_the_error_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "servorl._cuda", None)
    monkeypatch.delattr("servorl._cuda", raising=False)
    batch = random_batch(3, 2).map(lambda array: torch.from_numpy(array).as_subclass(OnDevice))
    with pytest.raises(NativeModuleError, match=r"without CUDA .* install nvcc"):
        batch.run()


BROKEN = {
    "fails at once": "exit 1",
    "knows no architecture of ours": "echo compute_52",
    "does not compile": 'case "$*" in *--list-gpu-arch*) echo compute_90;; *) exit 1;; esac',
}


@pytest.mark.parametrize("fault", BROKEN)
def test_an_nvcc_that_does_not_work_costs_a_warning(fault: str, tmp_path: Path) -> None:
    nvcc = tmp_path / "nvcc"
    nvcc.write_text(f"#!/bin/sh\n{BROKEN[fault]}\n")
    nvcc.chmod(0o755)
    pybind11 = subprocess.run(
        [sys.executable, "-m", "pybind11", "--cmakedir"], capture_output=True, text=True, check=True
    )
    command = ["cmake", "-S", str(ROOT), "-B", str(tmp_path / "build"), f"-DSERVORL_NVCC={nvcc}"]
    command += [f"-DPython_EXECUTABLE={sys.executable}"]
    command += [f"-Dpybind11_DIR={pybind11.stdout.strip()}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "servorl is built without its CUDA module" in done.stderr.replace("\n ", "")
    targets = ["cmake", "--build", str(tmp_path / "build"), "--target", "help"]
    listing = subprocess.run(targets, capture_output=True, text=True, check=True).stdout
    assert "_core" in listing
    assert "_cuda" not in listing


# ------------------------------------------------------------------------------ on a GPU


def on_gpu(batch: Batch) -> tuple[np.ndarray, np.ndarray]:
    advantages, returns = batch.map(lambda array: torch.from_numpy(array).cuda()).run()
    assert advantages.is_cuda
    return advantages.cpu().numpy(), returns.cpu().numpy()


@pytest.mark.gpu
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(batch=batches())
def test_gpu_gives_the_hosts_bits(batch: Batch) -> None:
    """No multiply-add is fused on either side, so the bound of the host's tests holds here too."""
    for ours, host in zip(on_gpu(batch), batch.run(), strict=True):
        np.testing.assert_array_equal(ours, host)


@pytest.mark.gpu
def test_gpu_in_float64_strided_and_empty() -> None:
    batch = random_batch(50, 70, invalid_rate=0.1)
    double = batch.map(lambda array: array if array.dtype == np.bool_ else array.astype(np.float64))
    strided = batch.map(lambda array: torch.from_numpy(array.T.copy()).cuda().T)
    for call, host in ((double, double.run()), (batch, batch.run())):
        for ours, expected in zip(on_gpu(call), host, strict=True):
            np.testing.assert_array_equal(ours, expected)
    for ours, expected in zip(strided.run(), batch.run(), strict=True):
        np.testing.assert_array_equal(ours.cpu().numpy(), expected)
    assert on_gpu(random_batch(0, 5))[0].shape == (0, 5)


@pytest.mark.gpu
def test_gpu_work_is_queued_on_the_current_stream() -> None:
    """Inputs written on a side stream just before are seen, without a synchronisation between."""
    batch = random_batch(64, 4096)
    ready = batch.map(lambda array: torch.from_numpy(array).cuda())
    late = ready.map(torch.zeros_like)
    stream = torch.cuda.Stream()
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(100_000_000)
        for name, tensor in late.arrays().items():
            tensor.copy_(getattr(ready, name))
        results = late.run()
    stream.synchronize()
    for ours, expected in zip(results, batch.run(), strict=True):
        np.testing.assert_array_equal(ours.cpu().numpy(), expected)


@pytest.mark.gpu
def test_gpu_and_cpu_tensors_mixed() -> None:
    batch = random_batch(4, 3).map(torch.from_numpy)
    on_device = batch.map(lambda tensor: tensor.cuda())
    with pytest.raises(ValueError, match=r"^values is on cpu, but rewards is on cuda:0"):
        Batch(**{**on_device.arrays(), "values": batch.values}).run()
