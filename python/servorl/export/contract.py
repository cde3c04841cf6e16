"""``policy.json``: what a policy's numbers mean, and the hash that ties its four files together.

The hash covers the meaning (names, order, units, bounds, period …) and every constant. It stands in
policy.json, in policy.onnx's metadata and behind ``<prefix>_hash()`` in the C code. ``files`` adds
a checksum of each other file.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from servorl.errors import RunFolderError
from servorl.export.names import identifiers
from servorl.policies.inference_graph import Float32Array, InferenceGraph
from servorl.task_info import Channel, TaskInfo

FORMAT = "servorl-policy"
VERSION = 1
SCHEMA_FILE = Path(__file__).parent / "schema" / f"policy-{VERSION}.json"
MAX_FILE_BYTES = 16 * 1024 * 1024
NAN_POLICY = (
    "where an observation or a result is not finite, "
    "the status is NOT_FINITE and the action is safe_action"
)
UNHASHED = ("hash", "files", "memory")
"""What follows from the rest: the hash itself, the checksums and the memory figures."""

Document = dict[str, Any]


def describe(
    graph: InferenceGraph, task_info: TaskInfo, prefix: str, safe_action: Float32Array
) -> Document:
    """The hashed part of ``policy.json``, with its hash."""
    std = 1.0 / np.where(graph.inv_std == 0, np.inf, graph.inv_std.astype(np.float64))
    document: Document = {
        "format": FORMAT,
        "version": VERSION,
        "environment": task_info.name,
        "control_period": task_info.control_period,
        "max_episode_steps": task_info.max_episode_steps,
        "reward_threshold": task_info.reward_threshold,
        "numbers": "float32",
        "prefix": prefix,
        "observation": [
            channel | {"mean": float(graph.mean[i]), "std": float(np.float32(std[i]))}
            for i, channel in enumerate(_channels(task_info.observation))
        ],
        "action": [
            channel
            | {
                "scale": float(graph.action_scale[i]),
                "offset": float(graph.action_offset[i]),
                "clip": [float(graph.action_low[i]), float(graph.action_high[i])],
            }
            for i, channel in enumerate(_channels(task_info.action))
        ],
        "network": {
            "obs_clip": _finite_or_none(graph.obs_clip),
            "layers": [
                {
                    "inputs": layer.weight.shape[1],
                    "outputs": layer.weight.shape[0],
                    "activation": layer.activation,
                }
                for layer in graph.layers
            ],
            "parameters": sum(layer.weight.size + layer.bias.size for layer in graph.layers),
        },
        "not_finite": {"policy": NAN_POLICY, "safe_action": [float(v) for v in safe_action]},
    }
    return document | {"hash": compute_hash(document, graph)}


def compute_hash(document: Document, graph: InferenceGraph) -> str:
    """SHA-256, hexadecimal, of the document without ``UNHASHED`` and of every constant."""
    hashed = {key: value for key, value in document.items() if key not in UNHASHED}
    digest = hashlib.sha256(json.dumps(hashed, sort_keys=True, allow_nan=False).encode())
    arrays = [graph.mean, graph.inv_std, np.array([graph.obs_clip], np.float32)]
    for layer in graph.layers:
        arrays += [layer.weight, layer.bias]
    arrays += [graph.action_scale, graph.action_offset, graph.action_low, graph.action_high]
    for array in arrays:
        digest.update(f"|{array.shape}|".encode())
        digest.update(array.astype("<f4").tobytes())
    return digest.hexdigest()


def task_info_of(document: Document) -> TaskInfo:
    """The task that a validated ``policy.json`` describes."""
    return TaskInfo(
        name=document["environment"],
        observation=tuple(map(_channel, document["observation"])),
        action=tuple(map(_channel, document["action"])),
        control_period=document["control_period"],
        max_episode_steps=document["max_episode_steps"],
        reward_threshold=document["reward_threshold"],
    )


def safe_action_of(document: Document) -> Float32Array:
    """The safe action ``[action]`` of a validated ``policy.json``."""
    return np.array(document["not_finite"]["safe_action"], np.float32)


def render(document: Document) -> str:
    """The text of ``policy.json``; validates it first, so that an invalid one is never written."""
    _validator().validate(document)
    return json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def read(path: Path) -> Document:
    """Read and validate a ``policy.json``; RunFolderError names the entry that is wrong."""
    try:
        if path.stat().st_size > MAX_FILE_BYTES:
            raise RunFolderError(f"{path} is larger than {MAX_FILE_BYTES} bytes")
        document = json.loads(path.read_text(encoding="utf-8"))
        json.dumps(document, allow_nan=False)  # Python reads NaN and 1e999, which JSON has not
    except (OSError, ValueError, RecursionError) as error:
        raise RunFolderError(f"{path} cannot be read as JSON: {error}") from error
    errors = sorted(_validator().iter_errors(document), key=lambda error: error.json_path)
    if errors:
        message = errors[0].message[:200]
        raise RunFolderError(f"{path} is not a servorl policy: {errors[0].json_path}: {message}")
    valid: Document = document
    return valid


@cache
def _validator() -> Any:
    import jsonschema

    schema = json.loads(SCHEMA_FILE.read_text(encoding="utf-8"))
    return jsonschema.Draft202012Validator(schema)


def _channels(channels: tuple[Channel, ...]) -> list[Document]:
    names = identifiers(["size", *(channel.name for channel in channels)])[1:]
    return [
        {
            **dataclasses.asdict(channel),
            "index": index,
            "identifier": name,
            "low": _finite_or_none(channel.low),
            "high": _finite_or_none(channel.high),
        }
        for index, (channel, name) in enumerate(zip(channels, names, strict=True))
    ]


def _channel(entry: Document) -> Channel:
    low, high = entry["low"], entry["high"]
    return Channel(
        name=entry["name"],
        unit=entry["unit"],
        low=-math.inf if low is None else low,
        high=math.inf if high is None else high,
    )


def _finite_or_none(value: float) -> float | None:
    """JSON has no infinity: an absent bound is null."""
    return float(value) if math.isfinite(value) else None
