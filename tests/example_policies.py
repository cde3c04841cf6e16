"""Policies for export tests: trained-like random weights behind a normaliser that matters."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence

import numpy as np

from servorl.export import reference
from servorl.policies.inference_graph import Activation, DenseLayer, InferenceGraph
from servorl.task_info import Channel, TaskInfo


def make_graph(
    sizes: Sequence[int],
    *,
    activation: Activation = "tanh",
    output: Activation = "identity",
    obs_clip: float = 10.0,
    statistics: tuple[np.ndarray, np.ndarray] | None = None,
    bounds: tuple[np.ndarray, np.ndarray] | None = None,
    seed: int = 0,
) -> InferenceGraph:
    """A graph of these layer sizes; ``statistics`` are mean and std, ``bounds`` low and high."""
    generator = np.random.default_rng(seed)

    def normal(*shape: int) -> np.ndarray:
        return generator.standard_normal(shape)

    layers = [
        DenseLayer(
            (normal(rows, columns) * 1.3 / np.sqrt(columns)).astype(np.float32),
            (normal(rows) * 0.1).astype(np.float32),
            output if index + 2 == len(sizes) else activation,
        )
        for index, (columns, rows) in enumerate(itertools.pairwise(sizes))
    ]
    mean, std = statistics or (normal(sizes[0]) * 0.5, np.exp(0.3 * normal(sizes[0])))
    low, high = bounds or (-1.5 - np.abs(normal(sizes[-1])), 1.0 + np.abs(normal(sizes[-1])))
    return InferenceGraph(
        mean=mean.astype(np.float32),
        inv_std=(1 / std).astype(np.float32),
        obs_clip=obs_clip,
        layers=tuple(layers),
        action_scale=((high - low) / 2).astype(np.float32),
        action_offset=((high + low) / 2).astype(np.float32),
        action_low=low.astype(np.float32),
        action_high=high.astype(np.float32),
    )


def make_task(graph: InferenceGraph, name: str = "example") -> TaskInfo:
    """A task whose channels fit the graph."""
    return TaskInfo(
        name=name,
        observation=tuple(
            Channel(f"sensor {i}", "m/s", -np.inf, np.inf) for i in range(graph.obs_dim)
        ),
        action=tuple(
            Channel(f"motor {i}", "N m", float(low), float(high))
            for i, (low, high) in enumerate(zip(graph.action_low, graph.action_high, strict=True))
        ),
        control_period=0.02,
        max_episode_steps=1000,
        reward_threshold=None,
    )


def observations(graph: InferenceGraph, count: int, seed: int = 1) -> np.ndarray:
    """Observations ``[count, obs]`` float32 spread around the normaliser's statistics."""
    generator = np.random.default_rng(seed)
    noise = generator.standard_normal((count, graph.obs_dim))
    spread = generator.uniform(0.1, 4.0, (count, 1))
    return (graph.mean + spread * noise / graph.inv_std).astype(np.float32)


def environment_policy(name: str, seed: int = 0) -> tuple[InferenceGraph, TaskInfo]:
    """A 64x64 tanh policy for an environment, its normaliser from what random actions show.

    That of ``inverted_pendulum`` balances; the others move as random weights make them.
    """
    from servorl.registry import make_vec, task_info

    task = task_info(name)
    low = np.array([channel.low for channel in task.action])
    high = np.array([channel.high for channel in task.action])
    env = make_vec(name, 8, num_threads=1, seed=seed)
    generator = np.random.default_rng(seed)
    try:
        seen = [env.reset(seed=seed)[0]]
        seen += [env.step(generator.uniform(low, high, (8, len(low))))[0] for _ in range(100)]
    finally:
        env.close()
    data = np.concatenate(seen)
    graph = make_graph(
        (len(task.observation), 64, 64, len(task.action)),
        statistics=(data.mean(axis=0), data.std(axis=0) + 1e-3),
        bounds=(low, high),
        seed=seed,
    )
    if name == "inverted_pendulum":
        graph = fit_last_layer(graph, np.array([0.5, 6.0, 0.8, 1.2]))
    return graph, task


def fit_last_layer(graph: InferenceGraph, gains: np.ndarray) -> InferenceGraph:
    """The graph with a last layer that makes it act like ``gains @ observation``."""
    data = observations(graph, 4000)
    data[::2] = graph.mean + (data[::2] - graph.mean) / 10  # where a balanced pole stays
    hidden = dataclasses.replace(
        graph,
        layers=graph.layers[:-1],
        **{name: np.zeros(64, np.float32) for name in ("action_offset", "action_low")},
        **{name: np.ones(64, np.float32) for name in ("action_scale", "action_high")},
    )
    features, _ = reference.evaluate(hidden, data)
    features = np.column_stack([features, np.ones(len(data))])
    wanted = np.clip(data @ gains, 2 * graph.action_low, 2 * graph.action_high)
    wanted = (wanted - graph.action_offset) / graph.action_scale
    ridge = 1e-3 * np.eye(features.shape[1])
    weights = np.linalg.solve(features.T @ features + ridge, features.T @ wanted)
    last = DenseLayer(
        weights[None, :-1].astype(np.float32), weights[-1:].astype(np.float32), "identity"
    )
    return dataclasses.replace(graph, layers=(*graph.layers[:-1], last))
