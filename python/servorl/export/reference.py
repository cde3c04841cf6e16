"""The inference graph in NumPy, float64 by default: what every exported form is held against."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from servorl.policies.inference_graph import InferenceGraph


def evaluate(
    graph: InferenceGraph, observations: NDArray[Any], dtype: type = np.float64
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Unclipped and clipped actions, both ``[N, action]``, for observations ``[N, obs]``."""
    with np.errstate(over="ignore", invalid="ignore"):
        x: NDArray[Any] = (
            observations.astype(dtype) - graph.mean.astype(dtype)
        ) * graph.inv_std.astype(dtype)
        x = np.clip(x, -graph.obs_clip, graph.obs_clip).astype(dtype)
        for layer in graph.layers:
            x = x @ layer.weight.T.astype(dtype) + layer.bias.astype(dtype)
            if layer.activation == "tanh":
                x = np.tanh(x)
            elif layer.activation == "relu":
                x = np.maximum(x, 0)
            elif layer.activation == "elu":
                x = np.where(x > 0, x, np.expm1(np.minimum(x, 0)))
        unclipped = graph.action_offset.astype(dtype) + graph.action_scale.astype(dtype) * x
    return unclipped, np.clip(unclipped, graph.action_low, graph.action_high)


def golden_observations(graph: InferenceGraph) -> NDArray[np.float32]:
    """Eight observations ``[8, obs]`` around the normaliser's statistics, always the same ones.

    The first is the mean; two lie far outside, where the normaliser clips (if it does).
    """
    generator = np.random.default_rng(0)
    std = 1.0 / np.where(graph.inv_std == 0, 1, graph.inv_std).astype(np.float64)
    spread = np.array([0.0, 0.5, 1.0, 1.0, 2.0, 3.0, 1e3, -1e3])[:, None]
    if not np.isfinite(graph.obs_clip):
        spread = np.clip(spread, -3.0, 3.0)
    noise = generator.standard_normal((len(spread), graph.obs_dim))
    observations = graph.mean + spread * std * noise
    limit = np.finfo(np.float32).max
    return np.clip(observations, -limit, limit).astype(np.float32)
