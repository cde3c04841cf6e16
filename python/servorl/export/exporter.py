"""Writes the four files of an export: all of them, or none."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from pathlib import Path

import numpy as np

from servorl.errors import OutputError
from servorl.export import c, contract, onnx
from servorl.export.names import identifier
from servorl.policies.inference_graph import Float32Array, InferenceGraph
from servorl.task_info import TaskInfo

CONTRACT = "policy.json"
MAX_PREFIX = 100
"""Longest prefix, in characters; the schema has the same number."""


def export(
    graph: InferenceGraph,
    task_info: TaskInfo,
    out: Path | str,
    *,
    prefix: str = "policy",
    safe_action: Float32Array | None = None,
) -> Path:
    """Write ``policy.onnx``, ``policy.h``, ``policy.c`` and ``policy.json`` to the folder ``out``.

    The same arguments give the same bytes. A new folder appears complete or not at all; in one that
    exists, policy.json is taken away first and put back last, so that an interrupted export is not
    taken for one.

    Args:
        graph: the policy.
        task_info: its task; as many channels as the graph has inputs and outputs.
        out: folder; made where it is missing.
        prefix: start of every name in the C files; made an identifier where it is not one.
        safe_action: ``[action]`` float32 in the environment's units, given where a value is not
            finite; by default 0, or what is nearest to it within the bounds.

    Returns ``out``. Raises ValueError for a task or a safe action that does not fit, OutputError
    where the folder cannot be written.
    """
    out = Path(out)
    files = contents(graph, task_info, prefix, safe_action)
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        _write(files, out)
    except OSError as error:
        reason = error.strerror or str(error)
        raise OutputError(
            f"cannot write the export to {out}: {reason[:1].lower()}{reason[1:]}"
        ) from error
    return out


def contents(
    graph: InferenceGraph,
    task_info: TaskInfo,
    prefix: str = "policy",
    safe_action: Float32Array | None = None,
) -> dict[str, bytes]:
    """The four files by name, as ``export`` writes them."""
    prefix = identifier(prefix)
    if len(prefix) > MAX_PREFIX:
        raise ValueError(f"prefix is {len(prefix)} characters long; at most {MAX_PREFIX}")
    safe_action = _safe_action(graph, safe_action)
    if (len(task_info.observation), len(task_info.action)) != (graph.obs_dim, graph.action_dim):
        raise ValueError(
            f"the policy maps {graph.obs_dim} observations to {graph.action_dim} actions, but "
            f"{task_info.name} has {len(task_info.observation)} and {len(task_info.action)}"
        )
    document = contract.describe(graph, task_info, prefix, safe_action)
    source = c.generate(graph, task_info, prefix, safe_action, document["hash"])
    metadata = {
        key: document[key] for key in ("environment", "hash", "control_period", "version", "prefix")
    }
    for kind in ("observation", "action"):
        metadata[f"{kind}_names"] = [entry["name"] for entry in document[kind]]
        metadata[f"{kind}_units"] = [entry["unit"] for entry in document[kind]]
    files = {
        "policy.onnx": onnx.serialize(graph, metadata),
        "policy.h": source.header.encode("ascii"),
        "policy.c": source.source.encode("ascii"),
    }
    document["memory"] = {
        "constants": source.constant_bytes,
        "state": source.state_bytes,
        "stack_bound": c.STACK_BOUND,
    }
    document["files"] = {name: hashlib.sha256(data).hexdigest() for name, data in files.items()}
    return files | {CONTRACT: contract.render(document).encode("utf-8")}


def _safe_action(graph: InferenceGraph, safe_action: Float32Array | None) -> Float32Array:
    if safe_action is None:
        return np.clip(np.zeros_like(graph.action_low), graph.action_low, graph.action_high)
    given = np.asarray(safe_action, np.float32)
    if given.shape != (graph.action_dim,) or not np.isfinite(given).all():
        raise ValueError(f"safe_action must be {graph.action_dim} finite values, not {safe_action}")
    if np.any(given < graph.action_low) or np.any(given > graph.action_high):
        raise ValueError(f"safe_action {safe_action} lies outside the action's bounds")
    return given


def _write(files: dict[str, bytes], out: Path) -> None:
    staging = Path(tempfile.mkdtemp(prefix=f".{out.name}-", dir=out.parent))
    try:
        for name, data in files.items():
            (staging / name).write_bytes(data)
        if not out.exists():
            staging.chmod(0o755)
            staging.rename(out)
            return
        (out / CONTRACT).unlink(missing_ok=True)
        for name in files:  # the contract is the last of them
            os.replace(staging / name, out / name)
    finally:
        shutil.rmtree(staging, ignore_errors=True)
