"""Are the files of an export, and an image built from them, still the policy that was exported?

policy.onnx and policy.json are read back and must give the hash; from them policy.h and policy.c
are written anew and compared; an image's constants are read through its symbols.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from servorl.errors import RunFolderError
from servorl.export import c, contract, exporter, onnx, packing
from servorl.export.elf import Image
from servorl.policies.inference_graph import Float32Array, InferenceGraph
from servorl.task_info import TaskInfo

ARRAY = re.compile(r"^static const float (\w+)")
MAX_DIFFERENCES = 5
MAX_SOURCE_BYTES = 512 * 1024 * 1024


@dataclass(frozen=True)
class Export:
    """An export folder, read back."""

    folder: Path
    graph: InferenceGraph
    task_info: TaskInfo
    document: contract.Document

    @property
    def prefix(self) -> str:
        """Start of every name in the C files."""
        return str(self.document["prefix"])

    @property
    def hash(self) -> str:
        """The hash in policy.json."""
        return str(self.document["hash"])

    @property
    def safe_action(self) -> Float32Array:
        """``[action]``"""
        return contract.safe_action_of(self.document)


def read_export(folder: Path) -> Export:
    """Read policy.json and policy.onnx; RunFolderError where one is missing or damaged."""
    document = contract.read(folder / exporter.CONTRACT)
    graph, _ = onnx.read(folder / "policy.onnx")
    given = (len(document["observation"]), len(document["action"]))
    safe = contract.safe_action_of(document)
    if given != (graph.obs_dim, graph.action_dim) or len(safe) != graph.action_dim:
        raise RunFolderError(
            f"{folder}: policy.json names {given[0]} observations and {given[1]} actions, "
            f"policy.onnx has {graph.obs_dim} and {graph.action_dim}"
        )
    return Export(folder, graph, contract.task_info_of(document), document)


def check_files(export: Export) -> list[str]:
    """What in the folder is not as it was exported: one sentence for each finding."""
    findings = []
    _, metadata = onnx.read(export.folder / "policy.onnx")
    computed = contract.compute_hash(export.document, export.graph)
    if computed != export.hash:
        recorded = export.document["files"]["policy.onnx"]
        changed = _sha256(export.folder / "policy.onnx") != recorded
        culprit = "policy.onnx" if changed else "policy.json"
        findings.append(
            f"{culprit} was changed after the export: the hash is {export.hash[:12]}…, "
            f"its content gives {computed[:12]}…"
        )
        return findings
    if metadata.get("hash") != export.hash:
        findings.append(f"policy.onnx names the hash {metadata.get('hash')!r}, not policy.json's")
    try:
        expected = exporter.contents(
            export.graph, export.task_info, export.prefix, export.safe_action
        )
    except ValueError as error:
        return [*findings, f"policy.json cannot be what was exported: {error}"]
    for name, data in expected.items():
        findings += _compare_file(export.folder / name, data)
    return findings


def _compare_file(path: Path, expected: bytes) -> list[str]:
    try:
        if path.stat().st_size > MAX_SOURCE_BYTES:
            return [f"{path.name} is larger than {MAX_SOURCE_BYTES} bytes"]
        actual = path.read_bytes()
    except OSError as error:
        return [f"{path.name} cannot be read: {error.strerror}"]
    if actual == expected:
        return []
    if path.suffix == ".onnx":
        return [f"{path.name} is not the file that was exported"]
    return [f"{path.name} was changed after the export: {_first_difference(actual, expected)}"]


def _first_difference(actual: bytes, expected: bytes) -> str:
    array = ""
    actual_lines = actual.decode("utf-8", "replace").splitlines()
    expected_lines = expected.decode("utf-8").splitlines()
    for number, line in enumerate(expected_lines, start=1):
        if match := ARRAY.match(line):
            array = f" ({match.group(1)})"
        found = actual_lines[number - 1] if number <= len(actual_lines) else "nothing"
        if found != line:
            return f"line {number}{array} has {found.strip()[:80]!r}, not {line.strip()[:80]!r}"
    return f"it goes on after line {len(expected_lines)}"


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def check_constants(export: Export, image: Image) -> list[str]:
    """Where the constants in the image are not the policy's: array, row and column of each."""
    findings: list[str] = []
    for array in c.constant_arrays(export.graph, export.prefix, export.safe_action):
        held = np.frombuffer(image.read(array.name, array.values.nbytes), "<u4")
        wanted = array.values.astype("<f4").view("<u4")
        name = array.name.removeprefix(f"{export.prefix}_")
        for index in np.flatnonzero(held != wanted):
            where = _describe(name, int(index), export.graph)
            findings.append(
                f"{where}: image has {_float_text(held[index])}, "
                f"policy has {_float_text(wanted[index])}"
            )
    if len(findings) > MAX_DIFFERENCES:
        more = len(findings) - MAX_DIFFERENCES
        findings = [*findings[:MAX_DIFFERENCES], f"and {more} more constants differ"]
    return findings


def _describe(name: str, index: int, graph: InferenceGraph) -> str:
    if not name.startswith("layer"):
        return f"{name}[{index}]"
    layer = int(name.removeprefix("layer"))
    rows, columns = graph.layers[layer].weight.shape
    return f"layer {layer} {packing.describe(index, rows, columns)}"


def _float_text(bits: np.uint32) -> str:
    value = np.array(bits, "<u4").view("<f4")
    return f"{float(value):.9g} (0x{int(bits):08x})"
