"""``policy.onnx``: the inference graph with its normaliser and action transform, and the way back.

The batch is dynamic: ``observation [batch, obs]`` to ``action [batch, action]`` (clipped) and
``action_unclipped``. Only graphs of this form are read back.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from servorl.errors import RunFolderError
from servorl.policies.inference_graph import Activation, DenseLayer, Float32Array, InferenceGraph

OPSET = 17
IR_VERSION = 8
MAX_FILE_BYTES = 256 * 1024 * 1024
ACTIVATION_OPS: dict[str, Activation] = {"Tanh": "tanh", "Relu": "relu", "Elu": "elu"}


def serialize(graph: InferenceGraph, metadata: Mapping[str, Any]) -> bytes:
    """The bytes of ``policy.onnx``; the same ones for the same arguments.

    Args:
        graph: the policy.
        metadata: becomes ``metadata_props``; what is not a string is written as JSON.
    """
    import onnx
    from onnx import TensorProto, helper

    writer = _Writer()
    writer.constant("mean", graph.mean)
    writer.constant("inv_std", graph.inv_std)
    value = writer.node("Sub", ["observation", "mean"], "centred")
    value = writer.node("Mul", [value, "inv_std"], "normalised")
    if np.isfinite(graph.obs_clip):
        for name, bound in (("obs_low", -graph.obs_clip), ("obs_high", graph.obs_clip)):
            writer.constant(name, np.array(bound, np.float32))
        value = writer.node("Clip", [value, "obs_low", "obs_high"], "normalised_clipped")
    for index, layer in enumerate(graph.layers):
        value = _write_layer(writer, f"layer{index}", layer, value)
    for name in ("action_scale", "action_offset", "action_low", "action_high"):
        writer.constant(name, getattr(graph, name))
    value = writer.node("Mul", [value, "action_scale"], "action_scaled")
    value = writer.node("Add", [value, "action_offset"], "action_unclipped")
    value = writer.node("Max", [value, "action_low"], "action_above_low")
    writer.node("Min", [value, "action_high"], "action")

    def batched(name: str, size: int) -> Any:
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", size])

    model = helper.make_model(
        helper.make_graph(
            writer.nodes,
            "policy",
            [batched("observation", graph.obs_dim)],
            [batched("action", graph.action_dim), batched("action_unclipped", graph.action_dim)],
            writer.initializers,
        ),
        producer_name="servorl",
        ir_version=IR_VERSION,
        opset_imports=[helper.make_opsetid("", OPSET)],
    )
    texts = {k: v if isinstance(v, str) else json.dumps(v) for k, v in metadata.items()}
    helper.set_model_props(model, dict(sorted(texts.items())))
    onnx.checker.check_model(model)
    return bytes(model.SerializeToString(deterministic=True))


class _Writer:
    """Collects nodes, each named after its output, and initialisers."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.initializers: list[Any] = []

    def node(self, operator: str, inputs: list[str], output: str, **attributes: Any) -> str:
        from onnx import helper

        self.nodes.append(helper.make_node(operator, inputs, [output], name=output, **attributes))
        return output

    def constant(self, name: str, array: Any) -> None:
        from onnx import numpy_helper

        self.initializers.append(numpy_helper.from_array(np.ascontiguousarray(array), name))


def _write_layer(writer: _Writer, name: str, layer: DenseLayer, value: str) -> str:
    writer.constant(f"{name}.weight", layer.weight)
    writer.constant(f"{name}.bias", layer.bias)
    inputs = [value, f"{name}.weight", f"{name}.bias"]
    value = writer.node("Gemm", inputs, f"{name}.linear", transB=1)
    for operator, activation in ACTIVATION_OPS.items():
        if activation == layer.activation:
            value = writer.node(operator, [value], f"{name}.{activation}")
    return value


def read(path: Path) -> tuple[InferenceGraph, dict[str, str]]:
    """Rebuild the inference graph and the metadata from a ``policy.onnx`` that servorl wrote.

    Raises RunFolderError where the file is not a readable ONNX model, or not of this form; the
    message names the tensor or the node.
    """
    import onnx
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

    try:
        if path.stat().st_size > MAX_FILE_BYTES:
            raise RunFolderError(f"{path} is larger than {MAX_FILE_BYTES} bytes")
        model = onnx.load_model_from_string(path.read_bytes())
        onnx.checker.check_model(model)
    except (OSError, DecodeError, onnx.checker.ValidationError, ValueError) as error:
        reason = " ".join(str(error).split())[:200]
        raise RunFolderError(f"{path} is not an ONNX model that can be read: {reason}") from error
    try:
        graph = _Reader(model).graph()
    except (ValueError, TypeError) as error:
        raise RunFolderError(f"{path} is not a policy that servorl wrote: {error}") from error
    return graph, {entry.key: entry.value for entry in model.metadata_props}


class _Reader:
    """Walks the chain of nodes that ``serialize`` writes; ValueError where it is another graph."""

    def __init__(self, model: Any) -> None:
        self.nodes: Iterator[Any] = iter(model.graph.node)
        self.tensors = {tensor.name: tensor for tensor in model.graph.initializer}
        if [i.name for i in model.graph.input if i.name not in self.tensors] != ["observation"]:
            raise ValueError("its one input must be named observation")
        if [o.name for o in model.graph.output] != ["action", "action_unclipped"]:
            raise ValueError("its outputs must be action and action_unclipped")
        self.value = "observation"
        self.current: Any = None
        self._next()

    def graph(self) -> InferenceGraph:
        mean = self._constant_of("Sub")
        inv_std = self._constant_of("Mul")
        obs_clip = float("inf")
        if self.current.op_type == "Clip":
            obs_low, obs_clip = (float(a.reshape(())) for a in self._constants_of("Clip", 2))
            if obs_low != -obs_clip or not obs_clip > 0:
                raise ValueError(f"node {self.value} must clip to -c, c, not {obs_low}, {obs_clip}")
        layers = []
        while self.current.op_type == "Gemm":
            layers.append(self._layer())
        scale, offset = self._constant_of("Mul"), self._constant_of("Add")
        if self.value != "action_unclipped":
            raise ValueError(f"node {self.value} should give action_unclipped")
        low, high = self._constant_of("Max"), self._constant_of("Min")
        if self.value != "action" or self.current is not None:
            raise ValueError(f"node {self.value} should be the last and give action")
        return InferenceGraph(
            mean=mean,
            inv_std=inv_std,
            obs_clip=obs_clip,
            layers=tuple(layers),
            action_scale=scale,
            action_offset=offset,
            action_low=low,
            action_high=high,
        )

    def _layer(self) -> DenseLayer:
        attributes = {a.name: (a.f, a.i)[a.type == 2] for a in self.current.attribute}
        unusual = {k: v for k, v in attributes.items() if (k, v) not in _GEMM_ATTRIBUTES}
        if unusual or attributes.get("transB") != 1:
            raise ValueError(f"node {self.current.name} must be a plain Gemm with transB=1")
        weight, bias = self._constants_of("Gemm", 2)
        if weight.ndim != 2:
            raise ValueError(f"the weight of {self.value} must have two dimensions")
        activation: Activation = "identity"
        if self.current is not None and self.current.op_type in ACTIVATION_OPS:
            operator = self.current.op_type
            if any(a.name == "alpha" and a.f != 1.0 for a in self.current.attribute):
                raise ValueError(f"node {self.current.name} must have alpha = 1")
            activation = ACTIVATION_OPS[operator]
            self._constants_of(operator, 0)
        return DenseLayer(weight, bias, activation)

    def _constant_of(self, operator: str) -> Float32Array:
        return self._constants_of(operator, 1)[0]

    def _constants_of(self, operator: str, count: int) -> list[Float32Array]:
        """The constants of the current node, which must be ``operator`` on the chain's value."""
        node = self.current
        if node is None or node.op_type != operator or len(node.input) != count + 1:
            found = "the end" if node is None else f"{node.op_type} with {len(node.input)} inputs"
            raise ValueError(
                f"expected {operator} with {count + 1} inputs after {self.value}, found {found}"
            )
        if node.input[0] != self.value or len(node.output) != 1:
            raise ValueError(f"node {node.name} does not continue {self.value}")
        self.value = node.output[0]
        self._next()
        return [self._tensor(name) for name in node.input[1:]]

    def _next(self) -> None:
        self.current = next(self.nodes, None)

    def _tensor(self, name: str) -> Float32Array:
        from onnx import TensorProto, numpy_helper

        tensor = self.tensors.get(name)
        if tensor is None:
            raise ValueError(f"tensor {name} must be a constant")
        if tensor.data_type != TensorProto.FLOAT or tensor.data_location == TensorProto.EXTERNAL:
            raise ValueError(f"tensor {name} must be float32 and lie inside the file")
        return np.array(numpy_helper.to_array(tensor), np.float32)


_GEMM_ATTRIBUTES = {("transB", 1), ("transA", 0), ("alpha", 1.0), ("beta", 1.0)}
