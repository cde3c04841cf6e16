"""``policy.h`` and ``policy.c``: the kernels of ``csrc/firmware`` around one policy's constants.

Two files that depend on nothing, compile as C99 and as C++17, and are the same every time that they
are written from the same policy.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from servorl.export import reference
from servorl.export.names import comment, identifier, identifiers
from servorl.export.packing import pack
from servorl.policies.inference_graph import DenseLayer, Float32Array, InferenceGraph
from servorl.task_info import Channel, TaskInfo

TOLERANCE = 1e-5
"""Largest difference that counts as the same function, in units of the action's scale."""
STACK_BOUND = 256
"""Bytes of stack that ``_infer`` never exceeds on a 32-bit core at -O1 and above."""
INCLUDE = re.compile(r'^#include "(\w+\.h)"\n', re.MULTILINE)


@dataclass(frozen=True)
class CSource:
    """The text of both files, and what they take from the chip."""

    header: str
    source: str
    constant_bytes: int
    state_bytes: int


@dataclass(frozen=True)
class _Array:
    """One constant array of policy.c: values are written ``columns`` to a line."""

    name: str
    values: Float32Array
    columns: int
    comment: str


def generate(
    graph: InferenceGraph, task_info: TaskInfo, prefix: str, safe_action: Float32Array, digest: str
) -> CSource:
    """Write both files as text; ``digest`` is policy.json's hash."""
    prefix = identifier(prefix)
    arrays = constant_arrays(graph, prefix, safe_action)
    golden = _golden_arrays(graph, prefix)
    even, odd = workspace(graph)
    header = _header(graph, task_info, prefix, digest, even, odd)
    source = "\n".join(
        [
            f"/* {prefix}: constants and inference; policy.h says how to use it. */",
            '#include "policy.h"\n',
            _kernels(graph),
            f"/* ---- the policy {'-' * 60} */\n",
            _asserts(graph, prefix),
            *(_definition(array, (len(array.values),)) for array in arrays),
            *(_definition(array, (8, len(array.values) // 8)) for array in golden[:2]),
            _definition(golden[2], (len(golden[2].values),)),
            _functions(graph, prefix, digest),
        ]
    )
    constants = sum(array.values.nbytes for array in arrays) + len(digest) + 1
    return CSource(header, source, constants, 4 * (even + odd))


def constant_arrays(graph: InferenceGraph, prefix: str, safe_action: Float32Array) -> list[_Array]:
    """Every array that an inference reads, under the name of its symbol in the image."""
    result = [
        _Array(f"{prefix}_mean", graph.mean, 4, "normaliser: subtracted from the observation"),
        _Array(f"{prefix}_inv_std", graph.inv_std, 4, "normaliser: multiplied afterwards"),
    ]
    for index, layer in enumerate(graph.layers):
        rows, columns = layer.weight.shape
        note = f"{columns} -> {rows}, {layer.activation}; blocks of four rows: biases, then columns"
        result.append(_Array(f"{prefix}_layer{index}", pack(layer), 4, note))
    return [
        *result,
        _Array(f"{prefix}_action_scale", graph.action_scale, 4, "unclipped = offset + scale * x"),
        _Array(f"{prefix}_action_offset", graph.action_offset, 4, ""),
        _Array(f"{prefix}_action_low", graph.action_low, 4, "action = clip(unclipped, low, high)"),
        _Array(f"{prefix}_action_high", graph.action_high, 4, ""),
        _Array(f"{prefix}_safe_action", safe_action, 4, "given where a value is not finite"),
    ]


def workspace(graph: InferenceGraph) -> tuple[int, int]:
    """Floats in the two halves of the state: layers read one and write the other in turn."""
    widths = [graph.obs_dim, *(len(layer.bias) for layer in graph.layers)]
    return max(widths[::2]), max(widths[1::2], default=1)


def _golden_arrays(graph: InferenceGraph, prefix: str) -> list[_Array]:
    observations = reference.golden_observations(graph)
    unclipped, _ = reference.evaluate(graph, observations)
    scale = np.abs(graph.action_scale.astype(np.float64))
    # Far outside the action's range a float does not hold 1e-5 of the scale: there, of the value.
    reach = np.maximum(scale, np.abs(unclipped - graph.action_offset).max(axis=0))
    return [
        _Array(f"{prefix}_golden_observation", observations.ravel(), graph.obs_dim, ""),
        _Array(
            f"{prefix}_golden_unclipped",
            unclipped.astype(np.float32).ravel(),
            graph.action_dim,
            "computed in float64",
        ),
        _Array(f"{prefix}_golden_tolerance", (TOLERANCE * reach).astype(np.float32), 4, ""),
    ]


def _header(
    graph: InferenceGraph, task_info: TaskInfo, prefix: str, digest: str, even: int, odd: int
) -> str:
    upper = prefix.upper()
    return _HEADER.format(
        p=prefix,
        P=upper,
        environment=comment(task_info.name),
        digest=digest,
        observation_size=graph.obs_dim,
        action_size=graph.action_dim,
        period=float_literal(task_info.control_period),
        hertz=f"{1 / task_info.control_period:g}",
        observations=_enumerators(f"{upper}_OBSERVATION_", task_info.observation),
        actions=_enumerators(f"{upper}_ACTION_", task_info.action),
        even=even,
        odd=odd,
    )


def _enumerators(start: str, channels: tuple[Channel, ...]) -> str:
    # SIZE is taken by the macro, hence the seed of the unique names.
    names = identifiers(["size", *(channel.name for channel in channels)])[1:]
    lines = []
    for index, (name, channel) in enumerate(zip(names, channels, strict=True)):
        end = "," if index + 1 < len(channels) else ""
        about = f"{comment(channel.name)} [{comment(channel.unit)}]"
        about += f", {channel.low:g} to {channel.high:g}"
        lines.append(f"  {start}{name.upper()} = {index}{end} /* {about} */")
    return "\n".join(lines)


def _kernels(graph: InferenceGraph) -> str:
    """The kernels that this policy calls, each file once, in the order of their includes."""
    activations = sorted({layer.activation for layer in graph.layers} - {"identity"})
    seen: set[str] = set()
    return "\n".join(
        filter(
            None,
            (_inline(f, seen) for f in ["vector.h", "dense.h", *(f"{a}.h" for a in activations)]),
        )
    )


def _inline(name: str, seen: set[str]) -> str:
    if name in seen:
        return ""
    seen.add(name)
    text = (firmware_folder() / name).read_text(encoding="ascii")
    needed = "".join(_inline(include, seen) for include in INCLUDE.findall(text))
    return f"{needed}{'' if not needed else chr(10)}{INCLUDE.sub('', text)}"


def firmware_folder() -> Path:
    """Where the installed package keeps the kernels of ``csrc/firmware``."""
    import servorl._core

    return Path(servorl._core.__file__).parent / "include" / "servorl" / "firmware"


def _definition(array: _Array, shape: tuple[int, ...]) -> str:
    dimensions = "".join(f"[{size}]" for size in shape)
    note = f" /* {array.comment} */" if array.comment else ""
    rows = [
        ", ".join(float_literal(value) for value in array.values[start : start + array.columns])
        for start in range(0, len(array.values), array.columns)
    ]
    opening, closing, separator = ("{", "}", "},\n  {") if len(shape) == 2 else ("", "", ",\n  ")
    body = separator.join(rows)
    return (
        f"static const float {array.name}{dimensions} SERVORL_ALIGNED = {{{note}\n"
        f"  {opening}{body}{closing}\n}};\n"
    )


def float_literal(value: float | np.float32) -> str:
    """The nearest float as a hexadecimal literal, without trailing zeros: bit-exact."""
    text = float(np.float32(value)).hex()
    mantissa, exponent = text.split("p")
    mantissa = mantissa.rstrip("0").rstrip(".") if "." in mantissa else mantissa
    return f"{mantissa}p{exponent}f"


def _asserts(graph: InferenceGraph, prefix: str) -> str:
    upper = prefix.upper()
    return (
        "/* Compilation stops here where a type is not what the constants were written for. */\n"
        f"typedef char {prefix}_assert_float"
        "[sizeof(float) == 4 && FLT_RADIX == 2 && FLT_MANT_DIG == 24 ? 1 : -1];\n"
        f"typedef char {prefix}_assert_sizes[{upper}_OBSERVATION_SIZE == {graph.obs_dim} && "
        f"{upper}_ACTION_SIZE == {graph.action_dim} ? 1 : -1];\n"
    )


def _functions(graph: InferenceGraph, prefix: str, digest: str) -> str:
    even, odd = workspace(graph)
    limit = float_literal(graph.obs_clip) if np.isfinite(graph.obs_clip) else "FLT_MAX"
    halves = ("state->even", "state->odd")
    steps = [
        f"  servorl_normalize(observation, {prefix}_mean, {prefix}_inv_std, {limit}, "
        f"{prefix.upper()}_OBSERVATION_SIZE, {halves[0]});"
    ]
    for index, layer in enumerate(graph.layers):
        steps += _layer_calls(
            f"{prefix}_layer{index}", layer, halves[index % 2], halves[1 - index % 2]
        )
    return _FUNCTIONS.format(
        p=prefix,
        P=prefix.upper(),
        digest=digest,
        digest_size=len(digest) + 1,
        even=even,
        odd=odd,
        output=halves[len(graph.layers) % 2],
        steps="\n".join(steps),
    )


def _layer_calls(name: str, layer: DenseLayer, source: str, target: str) -> list[str]:
    rows, columns = layer.weight.shape
    calls = [f"  servorl_dense({name}, {source}, {columns}, {rows}, {target});"]
    if layer.activation != "identity":
        calls.append(f"  servorl_{layer.activation}_layer({target}, {rows});")
    return calls


_TEMPLATES = Path(__file__).parent / "templates"
_HEADER = (_TEMPLATES / "policy.h.txt").read_text(encoding="ascii")
_FUNCTIONS = (_TEMPLATES / "functions.c.txt").read_text(encoding="ascii")
