"""Batches for the GAE tests, and every implementation that must treat them alike."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from hypothesis import strategies as st

from servorl._native import core
from servorl.advantages import gae

INPUTS = ("rewards", "values", "next_values", "terminated", "truncated", "valid")


@dataclass(frozen=True)
class Batch:
    """The arguments of one call."""

    rewards: Any
    values: Any
    next_values: Any
    terminated: Any
    truncated: Any
    gamma: float = 0.99
    gae_lambda: float = 0.95
    valid: Any = None

    def arrays(self) -> dict[str, Any]:
        arrays = {name: getattr(self, name) for name in INPUTS}
        return {name: a for name, a in arrays.items() if a is not None or name != "valid"}

    def map(self, function: Callable[[Any], Any]) -> Batch:
        return replace(self, **{name: function(array) for name, array in self.arrays().items()})

    def run(self, **options: Any) -> tuple[Any, Any]:
        settings = {"gamma": self.gamma, "gae_lambda": self.gae_lambda}
        return gae(**self.arrays(), **settings, **options)


def random_batch(num_steps: int, num_envs: int, seed: int = 0, **settings: Any) -> Batch:
    """Normal rewards and values, a tenth of the steps ended each way, all of them valid."""
    return draw_arrays(np.random.default_rng(seed), num_steps, num_envs, **settings)


def draw_arrays(
    random: np.random.Generator,
    num_steps: int,
    num_envs: int,
    *,
    value_scale: float = 1.0,
    steady_values: bool = False,
    constant_reward: float | None = None,
    end_rate: float = 0.1,
    invalid_rate: float | None = None,
    **settings: Any,
) -> Batch:
    shape = (num_steps, num_envs)
    rewards = random.standard_normal(shape, np.float32)
    if constant_reward is not None:
        rewards[...] = constant_reward
    values = np.float32(value_scale) * random.uniform(-1, 1, shape).astype(np.float32)
    next_values = np.float32(value_scale) * random.uniform(-1, 1, shape).astype(np.float32)
    if steady_values:  # as of a good critic: neighbours nearly cancel in delta
        values = np.float32(value_scale) + np.float32(0.01) * random.standard_normal(
            shape, np.float32
        )
        next_values = np.roll(values, -1, axis=0)
    terminated, truncated = (random.random(shape) < end_rate for _ in range(2))
    valid = None if invalid_rate is None else random.random(shape) >= invalid_rate
    return Batch(rewards, values, next_values, terminated, truncated, valid=valid, **settings)


def on_twin(batch: Batch) -> tuple[Any, Any]:
    """By the CUDA kernel's body, run on the host."""
    arrays = [np.ascontiguousarray(array) for array in batch.arrays().values()]
    arrays[3:] = [flags.view(np.uint8) for flags in arrays[3:]]
    arrays += [None] * (6 - len(arrays))
    results = np.empty_like(arrays[0]), np.empty_like(arrays[0])
    core.advantage.gae_twin(*arrays, *results, batch.gamma, batch.gae_lambda)
    return results


ISAS: list[str] = core.advantage.supported_isas()
IMPLEMENTATIONS: dict[str, Callable[[Batch], tuple[Any, Any]]] = {
    **{isa: lambda batch, isa=isa: batch.run(isa=isa) for isa in ISAS},
    "cuda kernel on the host": on_twin,
}

# ---------------------------------------------------------------------------------- layouts


def fortran(array: np.ndarray) -> np.ndarray:
    return np.asfortranarray(array)


def every_second(array: np.ndarray) -> np.ndarray:
    """The same numbers, two apart in memory along both axes, with others between them."""
    wide = np.full((2 * array.shape[0], 2 * array.shape[1]), 77).astype(array.dtype)
    wide[::2, ::2] = array
    return wide[::2, ::2]


def backwards(array: np.ndarray) -> np.ndarray:
    return array[::-1, ::-1].copy()[::-1, ::-1]


def unaligned(array: np.ndarray) -> np.ndarray:
    """The same numbers, one byte off their alignment."""
    room = np.empty(array.nbytes + 1, np.uint8)
    view = room[1:].view(array.dtype).reshape(array.shape)
    view[...] = array
    return view


def read_only(array: np.ndarray) -> np.ndarray:
    copy = array.copy()
    copy.flags.writeable = False
    return copy


def as_uint8(array: np.ndarray) -> np.ndarray:
    """Flags as bytes of which any but 0 is true."""
    return array.astype(np.uint8) * 255 if array.dtype == np.bool_ else array


LAYOUTS = (np.copy, fortran, every_second, backwards, unaligned, read_only, as_uint8)

# ------------------------------------------------------------------------------- strategies

unit = st.one_of(
    st.sampled_from([0.0, 1.0, 0.99, 0.95]), st.floats(0.0, 1.0, allow_subnormal=False)
)
shapes = st.one_of(
    st.tuples(st.integers(1, 24), st.integers(1, 80)),
    st.tuples(st.sampled_from([1, 2, 3]), st.integers(1000, 1100)),  # beyond one block of columns
    st.tuples(st.integers(200, 700), st.integers(1, 3)),
)


@st.composite
def batches(draw: st.DrawFn, shapes: st.SearchStrategy[tuple[int, int]] = shapes) -> Batch:
    num_steps, num_envs = draw(shapes)
    return draw_arrays(
        np.random.default_rng(draw(st.integers(0, 2**32 - 1))),
        num_steps,
        num_envs,
        value_scale=draw(st.sampled_from([0.0, 1.0, 100.0, 1e4])),
        steady_values=draw(st.booleans()),
        constant_reward=draw(st.sampled_from([None, 0.0, 0.1, 1.0, -3.5])),
        end_rate=draw(st.sampled_from([0.0, 0.01, 0.2, 1.0])),
        invalid_rate=draw(st.sampled_from([None, 0.0, 0.1, 1.0])),
        gamma=draw(unit),
        gae_lambda=draw(unit),
    )
