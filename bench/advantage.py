"""Generalised advantage estimation: ours, loops over time in NumPy and torch, and copy bandwidth.

Every contestant gets the same arrays and masks and writes both results. The limit is the time in
which the same bytes, 14 read and 8 written per element, are copied on as many threads as ours may
use. ``gae TxN`` finds cold caches, since calls go round over sets of arrays that no cache holds
together; ``warm gae TxN`` calls again and again with one set.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from servorl.advantages import gae
from servorl.bench.harness import (
    LIMIT,
    OURS,
    Ratio,
    Row,
    SuiteResult,
    Timing,
    measure,
    measure_in_turn,
    usable_cores,
    versions_of,
)

SHAPES = ((24, 4096), (2048, 8), (128, 128), (32, 65536))
GAMMA, GAE_LAMBDA = 0.99, 0.95
REPEATS = 11
TURN_SECONDS = 0.005
COLD_BYTES = 256 << 20
BYTES_READ, BYTES_WRITTEN = 14, 8

FloatArray = NDArray[np.float32]
Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class Arrays:
    """One set of inputs and results, and memory of the same size to copy."""

    inputs: tuple[FloatArray, FloatArray, FloatArray, Flags, Flags]
    results: tuple[FloatArray, FloatArray]
    source: NDArray[np.uint8]
    target: NDArray[np.uint8]

    @classmethod
    def random(cls, num_steps: int, num_envs: int, seed: int) -> Arrays:
        """Normal rewards and values; one step in a hundred ends an episode, each way."""
        random = np.random.default_rng(seed)
        shape = (num_steps, num_envs)
        reals = [random.standard_normal(shape, np.float32) for _ in range(3)]
        flags = [random.random(shape) < 0.01 for _ in range(2)]
        results = np.zeros(shape, np.float32), np.zeros(shape, np.float32)
        # A copy of n bytes reads n and writes n. Ones, since untouched zeros are no memory yet.
        size = num_steps * num_envs * (BYTES_READ + BYTES_WRITTEN) // 2
        memory = np.ones(size, np.uint8), np.ones(size, np.uint8)
        return cls((reals[0], reals[1], reals[2], flags[0], flags[1]), results, *memory)


def run(peers: bool) -> SuiteResult:
    """Time every shape, cold and warm; the loops in NumPy and torch are part of every run."""
    result = SuiteResult("advantage", versions=versions_of("servorl", "numpy", "torch"))
    threads = usable_cores()
    torch_threads = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        with ThreadPoolExecutor(threads) as pool:
            for num_steps, num_envs in SHAPES:
                name = f"gae {num_steps}x{num_envs}"
                bytes_per_set = 2 * num_steps * num_envs * (BYTES_READ + BYTES_WRITTEN)
                sets = max(2, COLD_BYTES // bytes_per_set)
                many = [Arrays.random(num_steps, num_envs, seed) for seed in range(sets)]
                _case(name, many, pool, threads, result)
                _ratios(name, result)
                _case(f"warm {name}", many[:1], pool, threads, result)
    finally:
        torch.set_num_threads(torch_threads)
    return result


def _case(
    case: str,
    sets: list[Arrays],
    pool: ThreadPoolExecutor,
    threads: int,
    result: SuiteResult,
) -> None:
    calls = {
        OURS: _ours(threads),
        "numpy": _numpy_loop,
        "torch": _torch_loop,
        LIMIT: _copy(pool, threads),
    }
    turns = {name: _Turn(call, sets) for name, call in calls.items()}
    timings = measure_in_turn(turns, repeats=REPEATS, warmup=1)
    for name, timing in timings.items():
        one = Timing(
            *(t / turns[name].calls for t in (timing.median, timing.low, timing.high)), REPEATS
        )
        result.rows.append(Row.time(case, name, one, unit="us"))


class _Turn:
    """As many calls as take some milliseconds, each on the next set of arrays, round and round.

    A single short call would be timed with whatever the contestant before it left in the caches.
    """

    def __init__(self, call: Callable[[Arrays], object], sets: list[Arrays]) -> None:
        self._call, self._sets = call, itertools.cycle(sets)
        call(next(self._sets))
        seconds = measure(lambda: call(next(self._sets)), repeats=3).low
        self.calls = max(1, round(TURN_SECONDS / seconds))

    def __call__(self) -> None:
        for _ in range(self.calls):
            self._call(next(self._sets))


def _ratios(case: str, result: SuiteResult) -> None:
    seconds = {row.name: row.median for row in result.rows if row.case == case}
    ours = seconds[OURS] or 1.0
    best = min(seconds["numpy"] or 0.0, seconds["torch"] or 0.0)
    result.ratios.append(Ratio(case, LIMIT, (seconds[LIMIT] or 0.0) / ours))
    result.ratios.append(Ratio(case, "best peer", best / ours))


def _ours(threads: int) -> Callable[[Arrays], object]:
    return lambda arrays: gae(
        *arrays.inputs,
        gamma=GAMMA,
        gae_lambda=GAE_LAMBDA,
        num_threads=threads,
        out=arrays.results,
    )


def _copy(pool: ThreadPoolExecutor, threads: int) -> Callable[[Arrays], object]:
    """One NumPy copy per thread where that is faster; NumPy lets go of the interpreter's lock."""

    def call(arrays: Arrays) -> object:
        size = len(arrays.source)
        if threads == 1 or size < 1 << 21:
            np.copyto(arrays.target, arrays.source)
            return None
        edges = [size * part // threads for part in range(threads + 1)]
        parts = [slice(begin, end) for begin, end in itertools.pairwise(edges)]
        return list(pool.map(lambda p: np.copyto(arrays.target[p], arrays.source[p]), parts))

    return call


def _numpy_loop(arrays: Arrays) -> object:
    """float32 throughout, as such loops usually are; in place where that saves a pass."""
    rewards, values, next_values, terminated, truncated = arrays.inputs
    advantages, returns = arrays.results
    running: Any = np.zeros(rewards.shape[1], np.float32)
    gamma, decay = np.float32(GAMMA), np.float32(GAMMA * GAE_LAMBDA)
    for t in range(len(rewards) - 1, -1, -1):
        delta = rewards[t] + gamma * np.where(terminated[t], np.float32(0), next_values[t])
        delta -= values[t]
        running = delta + decay * np.where(terminated[t] | truncated[t], np.float32(0), running)
        advantages[t] = running
    return np.add(advantages, values, out=returns)


def _torch_loop(arrays: Arrays) -> object:
    tensors = [torch.from_numpy(array) for array in arrays.inputs]
    rewards, values, next_values, terminated, truncated = tensors
    advantages, returns = map(torch.from_numpy, arrays.results)
    running = torch.zeros(rewards.shape[1])
    for t in range(len(rewards) - 1, -1, -1):
        delta = rewards[t] + GAMMA * next_values[t].masked_fill(terminated[t], 0.0) - values[t]
        ended = terminated[t] | truncated[t]
        running = delta + GAMMA * GAE_LAMBDA * running.masked_fill(ended, 0.0)
        advantages[t] = running
    return torch.add(advantages, values, out=returns)
