"""The deterministic policy as plain arrays: the one form that every export target is written from.

    normalised = clip((observation - mean) * inv_std, -obs_clip, obs_clip)
    raw        = layers(normalised)
    unclipped  = action_offset + action_scale * raw
    action     = clip(unclipped, action_low, action_high)

A policy makes one with ``policy.inference_graph()``; the ONNX and C exporters read only this.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Activation = Literal["identity", "tanh", "relu", "elu"]
ACTIVATIONS: tuple[Activation, ...] = ("identity", "tanh", "relu", "elu")
Float32Array = NDArray[np.float32]


@dataclass(frozen=True)
class DenseLayer:
    """``activation(weight @ x + bias)``; weight is ``[out, in]``, bias ``[out]``, both float32."""

    weight: Float32Array
    bias: Float32Array
    activation: Activation


@dataclass(frozen=True)
class InferenceGraph:
    """A normaliser, dense layers and an action transform; see the module's equations."""

    mean: Float32Array
    inv_std: Float32Array
    obs_clip: float
    """``inf`` where the normalised observation is not clipped."""
    layers: tuple[DenseLayer, ...]
    action_scale: Float32Array
    action_offset: Float32Array
    action_low: Float32Array
    action_high: Float32Array

    def __post_init__(self) -> None:
        """Check shapes, dtypes and finiteness; raises ValueError naming the array."""
        width = len(self.mean)
        arrays: dict[str, tuple[Float32Array, tuple[int, ...]]] = {
            "mean": (self.mean, (width,)),
            "inv_std": (self.inv_std, (width,)),
        }
        for index, layer in enumerate(self.layers):
            out = layer.weight.shape[0]
            arrays[f"layers[{index}].weight"] = (layer.weight, (out, width))
            arrays[f"layers[{index}].bias"] = (layer.bias, (out,))
            if layer.activation not in ACTIVATIONS:
                raise ValueError(
                    f"layers[{index}].activation is {layer.activation!r}; known: {ACTIVATIONS}"
                )
            width = out
        for name in ("action_scale", "action_offset", "action_low", "action_high"):
            arrays[name] = (getattr(self, name), (width,))
        for name, (array, shape) in arrays.items():
            if array.dtype != np.float32 or array.shape != shape:
                raise ValueError(
                    f"{name} must be float32 of shape {shape}, not {array.dtype} {array.shape}"
                )
            if not np.all(np.isfinite(array)):
                raise ValueError(f"{name} holds a value that is not finite")
        if not self.obs_clip > 0:
            raise ValueError(f"obs_clip must be above 0, not {self.obs_clip}")
        if np.any(self.action_low > self.action_high):
            raise ValueError("action_low must not be above action_high")

    @property
    def obs_dim(self) -> int:
        """Length of the observation vector."""
        return len(self.mean)

    @property
    def action_dim(self) -> int:
        """Length of the action vector."""
        return len(self.action_scale)
