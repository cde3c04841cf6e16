"""The forms of one policy that must agree: torch, onnxruntime, compiled C, and C on a chip.

Each is a callable from observations ``[N, obs]`` float32 to actions before and after the clip.
"""

from __future__ import annotations

import ctypes
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from servorl.errors import VerificationError
from servorl.export import toolchain
from servorl.policies.inference_graph import InferenceGraph

FloatArray = NDArray[np.float32]


class Actions(NamedTuple):
    """Two arrays ``[N, action]`` float32."""

    unclipped: FloatArray
    clipped: FloatArray


Infer = Callable[[FloatArray], Actions]


def torch_policy(policy: Any) -> Infer:
    """The trained policy itself, deterministic, as ``ActorCritic`` acts."""
    scale = policy.action_scale.detach().cpu().numpy()
    offset = policy.action_offset.detach().cpu().numpy()

    def infer(observations: FloatArray) -> Actions:
        training = policy.training
        policy.eval()
        try:
            action, extras = policy.act(observations, deterministic=True)
        finally:
            policy.train(training)
        return Actions(offset + scale * extras["raw_action"], action)

    return infer


def torch_graph(graph: InferenceGraph) -> Infer:
    """The inference graph evaluated by torch: for an export whose run is elsewhere."""
    import torch

    tensors = {
        name: torch.from_numpy(np.array(getattr(graph, name)))
        for name in (
            "mean",
            "inv_std",
            "action_scale",
            "action_offset",
            "action_low",
            "action_high",
        )
    }
    layers = [
        (torch.from_numpy(layer.weight.copy()), torch.from_numpy(layer.bias.copy()))
        for layer in graph.layers
    ]
    functions: dict[str, Callable[[Any], Any]] = {
        "identity": lambda x: x,
        "tanh": torch.tanh,
        "relu": torch.relu,
        "elu": torch.nn.functional.elu,
    }

    @torch.no_grad()
    def infer(observations: FloatArray) -> Actions:
        x = (torch.from_numpy(observations) - tensors["mean"]) * tensors["inv_std"]
        x = x.clamp(-graph.obs_clip, graph.obs_clip)
        for (weight, bias), layer in zip(layers, graph.layers, strict=True):
            x = functions[layer.activation](torch.nn.functional.linear(x, weight, bias))
        unclipped = tensors["action_offset"] + tensors["action_scale"] * x
        clipped = unclipped.maximum(tensors["action_low"]).minimum(tensors["action_high"])
        return Actions(unclipped.numpy(), clipped.numpy())

    return infer


def onnx_policy(path: Path) -> Infer:
    """``policy.onnx`` under onnxruntime, one thread."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(path), options, ["CPUExecutionProvider"])

    def infer(observations: FloatArray) -> Actions:
        outputs = ["action_unclipped", "action"]
        return Actions(*session.run(outputs, {"observation": observations}))

    return infer


class HostLibrary:
    """``policy.c`` compiled for this machine and loaded; keeps its own state.

    Only for a ``policy.c`` that is known to be servorl's own: loading runs it.
    Raises MissingToolError without a compiler.
    """

    def __init__(self, folder: Path, prefix: str, graph: InferenceGraph, state_bytes: int) -> None:
        with tempfile.TemporaryDirectory() as temporary:
            library = Path(temporary) / "policy.so"
            toolchain.build_host_library(folder / "policy.c", library)
            self._library = ctypes.CDLL(str(library))
        self._action_dim = graph.action_dim
        self._state = ctypes.create_string_buffer(state_bytes + 16)
        self._infer = getattr(self._library, f"{prefix}_infer")
        self._unclipped = getattr(self._library, f"{prefix}_unclipped_action")
        self._unclipped.restype = ctypes.POINTER(ctypes.c_float)
        hash_function = getattr(self._library, f"{prefix}_hash")
        hash_function.restype = ctypes.c_char_p
        self.hash: str = hash_function().decode("ascii")
        getattr(self._library, f"{prefix}_init")(self._state)
        status = getattr(self._library, f"{prefix}_selftest")(self._state)
        if status != 0:
            raise VerificationError(f"{folder / 'policy.c'}: self-test gave status {status}")

    def __call__(self, observations: FloatArray) -> Actions:
        """Run the policy on every row; VerificationError where its status is not OK."""
        observations = np.ascontiguousarray(observations, np.float32)
        clipped = np.empty((len(observations), self._action_dim), np.float32)
        unclipped = np.empty_like(clipped)
        for row, observation in enumerate(observations):
            status = self._infer(
                self._state,
                observation.ctypes.data_as(ctypes.c_void_p),
                clipped[row].ctypes.data_as(ctypes.c_void_p),
            )
            if status != 0:
                raise VerificationError(f"host C gave status {status} at observation {row}")
            unclipped[row] = np.ctypeslib.as_array(
                self._unclipped(self._state), (self._action_dim,)
            )
        return Actions(unclipped, clipped)
