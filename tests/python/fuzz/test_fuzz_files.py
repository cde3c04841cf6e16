"""Every file that servorl reads, spoiled in thousands of ways: it is read, or named in one error.

What counts as a fault is any exception but servorl's own and those for wrong arguments, and any
crash. ``SERVORL_FUZZ_CASES`` sets how many times each file is spoiled; ``SERVORL_FUZZ_SEED`` how.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import random
import resource
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mutations import spoil_bytes, spoil_json, spoil_safetensors, to_json_bytes

from servorl import checkpoint
from servorl.errors import ServorlError
from servorl.evaluation import load_onnx
from servorl.export import contract, integrity, onnx
from servorl.export.elf import Image
from servorl.metrics import read_metrics
from servorl.runs import load_policy
from servorl.training import read_run, resume

CASES = int(os.environ.get("SERVORL_FUZZ_CASES", "150"))
SEED = int(os.environ.get("SERVORL_FUZZ_SEED", "0"))
MEMORY = 2 << 30
"""Bytes beyond what is in use that reading a small file may take, whatever it claims to hold."""


@pytest.fixture(autouse=True)
def _bounded_memory() -> Iterator[None]:
    """Turns an allocation by a spoiled size into an error instead of a killed test run."""
    with open("/proc/self/statm") as file:
        in_use = int(file.read().split()[0]) * resource.getpagesize()
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (in_use + MEMORY, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)


class Unnamed(Exception):
    """Reading a spoiled file raised something that no caller is told to expect."""


@contextmanager
def only_named_errors(case: int, spoiled: bytes) -> Iterator[None]:
    """Lets servorl's own errors pass; any other is reported with the case that raised it."""
    try:
        yield
    except ServorlError:
        raise
    except Exception as error:
        raise Unnamed(f"case {case}, seed {SEED}: {error!r}; file: {spoiled[:200]!r}") from error


def read_or_refuse(case: int, spoiled: bytes, read: Callable[[], Any]) -> None:
    """The file is read, or an error says in words what is wrong with it."""
    with contextlib.suppress(ServorlError), only_named_errors(case, spoiled):
        read()


def cases(name: str, factor: float = 1.0) -> Iterator[tuple[int, random.Random]]:
    for case in range(max(1, int(CASES * factor))):
        yield case, random.Random(f"{name} {SEED} {case}")


# ------------------------------------------------------------------------------- exported files

READERS: dict[str, Callable[[Path], Any]] = {
    "policy.json": contract.read,
    "policy.onnx": onnx.read,
}


@pytest.mark.parametrize("name", READERS)
def test_spoiled_bytes_of_an_export(name: str, finished_export: Path, tmp_path: Path) -> None:
    data = (finished_export / name).read_bytes()
    for case, rng in cases(name):
        spoiled = spoil_bytes(rng, data)
        (tmp_path / name).write_bytes(spoiled)
        read_or_refuse(case, spoiled, lambda: READERS[name](tmp_path / name))


def test_spoiled_contract(finished_export: Path, tmp_path: Path) -> None:
    """Through what verify does with it: read, compare, write the C anew."""
    folder = tmp_path / "export"
    shutil.copytree(finished_export, folder)
    document = json.loads((finished_export / "policy.json").read_text())
    for case, rng in cases("contract"):
        spoiled = to_json_bytes(spoil_json(rng, document))
        (folder / "policy.json").write_bytes(spoiled)
        read_or_refuse(case, spoiled, lambda: integrity.check_files(integrity.read_export(folder)))


def spoil_model(rng: random.Random, model: Any) -> None:
    """A node, an attribute, a constant, an input or a piece of metadata is changed or lost."""
    graph = model.graph
    node, tensor = rng.choice(graph.node), rng.choice(graph.initializer)
    match rng.randrange(11):
        case 0:
            node.op_type = rng.choice(["Tanh", "Relu", "Gemm", "Loop", "If", "Nothing", ""])
        case 1:
            graph.node.remove(node)
        case 2:
            graph.initializer.remove(tensor)
        case 3:
            tensor.dims[:] = rng.choice([[], [0], [-1], [2**40], [1, 1, 1], [2, 3], [10**9, 10**9]])
        case 4:
            tensor.data_type = rng.choice([0, 1, 2, 7, 8, 10, 11, 16, 99])
        case 5:
            tensor.raw_data = tensor.raw_data[: rng.randrange(len(tensor.raw_data) + 1)]
        case 6:
            tensor.raw_data = np.float32([np.nan, np.inf]).tobytes() * (len(tensor.raw_data) // 8)
        case 7:
            node.input[rng.randrange(len(node.input))] = rng.choice(["", "observation", "action"])
        case 8:
            del rng.choice([graph.input, graph.output, graph.node, graph.initializer])[:]
        case 9:
            tensor.data_location = 1
            entry = tensor.external_data.add()
            entry.key, entry.value = (
                "location",
                rng.choice(["/etc/passwd", "../secret", "policy.onnx"]),
            )
        case 10:
            model.ir_version = rng.choice([0, -1, 2**31 - 1])
            model.opset_import[0].version = rng.choice([0, 1, 10**6])


@pytest.mark.parametrize("reader", [onnx.read, load_onnx], ids=["export", "eval"])
def test_spoiled_onnx_model(
    reader: Callable[[Path], Any], finished_export: Path, tmp_path: Path
) -> None:
    from onnx import load_model_from_string

    data, path = (finished_export / "policy.onnx").read_bytes(), tmp_path / "policy.onnx"
    for case, rng in cases("model"):
        model = load_model_from_string(data)
        for _ in range(rng.randint(1, 2)):
            if model.graph.node and model.graph.initializer:
                spoil_model(rng, model)
        path.write_bytes(model.SerializeToString())
        read_or_refuse(case, str(model).encode(), lambda: reader(path))


def test_spoiled_image(tmp_path: Path) -> None:
    """An ELF image of a board, as ``servorl verify --image`` is given one."""
    source = tmp_path / "image.c"
    source.write_text("const float weights[8] = {1, 2, 3}; int state; int main(void) { return 0; }")
    path = tmp_path / "image.elf"
    command = ["arm-none-eabi-gcc", "-nostdlib", "-nostartfiles", "-emain", str(source), "-o", path]
    subprocess.run([str(part) for part in command], check=True)
    data = path.read_bytes()
    assert Image(path).read("weights", 32)[:4] == np.float32(1).tobytes()
    for case, rng in cases("image", 4):
        spoiled = spoil_bytes(rng, data if rng.random() < 0.5 else data[:52]) + data[52:]
        path.write_bytes(spoiled)
        read_or_refuse(case, spoiled, lambda: Image(path).read("weights", 32))


# ------------------------------------------------------------------------------------- a run


def copy_of(run: Path, folder: Path) -> tuple[Path, Path]:
    """A copy of the run, and its latest checkpoint."""
    shutil.copytree(run, folder)
    return folder, checkpoint.find(folder)[1]


def seal(run: Path, directory: Path) -> None:
    """Give a spoiled checkpoint the checksums of its content, so that the parsers see it."""
    files = {
        path.name: {
            "bytes": path.stat().st_size,
            "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
        }
        for path in directory.iterdir()
        if path.name != checkpoint.MANIFEST
    }
    body = {"format": checkpoint.FORMAT, "steps": int(directory.name), "files": files}
    digest = hashlib.sha256(checkpoint.to_json(body)).hexdigest()
    (directory / checkpoint.MANIFEST).write_bytes(checkpoint.to_json({**body, "sha256": digest}))
    checkpoint.point(run, checkpoint.LATEST, directory)


def test_spoiled_bytes_of_a_run_never_load(finished_run: Path, tmp_path: Path) -> None:
    """Not one changed byte of a checkpoint gets past its checksums."""
    run, directory = copy_of(finished_run, tmp_path / "run")
    files = [run / checkpoint.LATEST, *sorted(directory.iterdir())]
    for case, rng in cases("bytes", 2):
        path = rng.choice(files)
        data = path.read_bytes()
        spoiled = spoil_bytes(rng, data)
        if spoiled == data:
            continue
        path.write_bytes(spoiled)
        with pytest.raises(ServorlError), only_named_errors(case, spoiled):
            load_policy(run)
        path.write_bytes(data)
    load_policy(run)


def spoil_file(rng: random.Random, path: Path) -> bytes:
    data = path.read_bytes()
    if rng.random() < 0.2:
        return spoil_bytes(rng, data)
    if path.suffix == ".json":
        return to_json_bytes(spoil_json(rng, json.loads(data)))
    return spoil_safetensors(rng, data)


READ_A_RUN: dict[str, tuple[Callable[[Path], Any], float]] = {
    "load_policy": (load_policy, 1.0),
    "read_run": (read_run, 1.0),
    "resume": (lambda run: resume(run, steps=64), 0.3),
}


@pytest.mark.parametrize("reader", READ_A_RUN)
def test_spoiled_checkpoint_with_right_checksums(
    reader: str, finished_run: Path, tmp_path: Path
) -> None:
    """What an attacker could do, or a writer with a fault: checksums hold, the content does not."""
    read, factor = READ_A_RUN[reader]
    run, directory = copy_of(finished_run, tmp_path / "run")
    files = [path for path in sorted(directory.iterdir()) if path.name != checkpoint.MANIFEST]
    for case, rng in cases(reader, factor):
        path = rng.choice(files)
        data = path.read_bytes()
        spoiled = spoil_file(rng, path)
        path.write_bytes(spoiled)
        seal(run, directory)
        read_or_refuse(case, path.name.encode() + b": " + spoiled, lambda: read(run))
        path.write_bytes(data)
    seal(run, directory)
    load_policy(run)


def test_spoiled_metrics(finished_run: Path, tmp_path: Path) -> None:
    data = (finished_run / "metrics.csv").read_bytes()
    for case, rng in cases("metrics"):
        spoiled = spoil_bytes(rng, data)
        (tmp_path / "metrics.csv").write_bytes(spoiled)
        read_or_refuse(case, spoiled, lambda: read_metrics(tmp_path))
