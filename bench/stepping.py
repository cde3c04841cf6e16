"""Batched stepping: ours, the bare ``mj_step`` loop that replays our work, and other libraries.

The limit replays our own run, its actions, initial states and resets, on the same number of
threads and is checked to end in the same states, bit for bit; random play without our resets would
be other work, since a fallen robot is slower to simulate than a standing one.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from servorl._native import core
from servorl.bench.harness import (
    LIMIT,
    OURS,
    Ratio,
    Row,
    SuiteResult,
    measure,
    timing_of,
    usable_cores,
    versions_of,
)
from servorl.bench.peers import PeerEnvironment, PeerUnavailable, prepare
from servorl.registry import env_names, make_vec, model_path
from servorl.vec_env import VecEnv

NUM_ENVS = 64
REPEATS = 31
UNIT = "steps/s"
ENVPOOL = "envpool==1.2.5"


@dataclass(frozen=True)
class Case:
    """One task on one number of threads."""

    task: str
    num_threads: int

    @property
    def name(self) -> str:
        """The case's name in the table."""
        plural = "thread" if self.num_threads == 1 else "threads"
        return f"{self.task} {NUM_ENVS} envs {self.num_threads} {plural}"

    @property
    def native(self) -> bool:
        """Whether the task runs on native dynamics, for which there is no ``mj_step`` limit."""
        return bool(core.sim.is_native(self.task))

    @property
    def steps(self) -> int:
        """Batched steps in one timed repetition: less than a tenth of a second."""
        return 2_000 if self.native else 50

    @property
    def gymnasium_id(self) -> str:
        """The id of the same task in Gymnasium and EnvPool, where they have it."""
        camel = "".join(word.capitalize() for word in self.task.split("_"))
        return f"{camel}-v{1 if self.native else 5}"


def run(peers: bool) -> SuiteResult:
    """Time every environment on one thread and on all cores."""
    result = SuiteResult("stepping", versions=versions_of("servorl", "mujoco", "gymnasium"))
    threads = sorted({1, usable_cores()})
    cases = [Case(task, count) for task in env_names() for count in threads]
    for case in cases:
        _ours_and_limit(case, result)
        if peers:
            _gymnasium(case, result)
            _envpool(case, result)
    return result


def _ours_and_limit(case: Case, result: SuiteResult) -> None:
    env = make_vec(case.task, NUM_ENVS, num_threads=case.num_threads, seed=0)
    rng = np.random.default_rng(0)
    space = env.single_action_space
    actions = rng.uniform(space.low, space.high, (case.steps, NUM_ENVS, *space.shape))
    env.reset()
    start = env.get_state()

    def ours() -> None:
        env.set_state(start)
        for action in actions:
            env.step(action)

    if case.native:
        timing = measure(ours, REPEATS)
        result.rows.append(Row.rate(case.name, OURS, timing, _work(case), unit=UNIT))
        return
    replay = _replay(env, actions, start)
    (ours_seconds, limit_seconds), reached = _in_turn(
        ours, lambda: replay.run(case.num_threads), on_one_thread=case.num_threads == 1
    )
    if not np.array_equal(replay.final_states(), _mechanical_state(env).ravel()):
        raise RuntimeError(f"{case.name}: the replayed loop did not do the same work as ours")
    timing = timing_of(ours_seconds)
    result.rows.append(Row.rate(case.name, OURS, timing, _work(case), unit=UNIT))
    result.rows.append(Row.rate(case.name, LIMIT, timing_of(limit_seconds), _work(case), unit=UNIT))
    long_step = timing.median / case.steps > 1e-3
    goal = (0.95 if long_step else 0.85) if case.num_threads == 1 else None
    result.ratios.append(Ratio(case.name, LIMIT, reached, goal))


def _in_turn(
    ours: Callable[[], None], limit: Callable[[], None], *, on_one_thread: bool
) -> tuple[tuple[list[float], list[float]], float]:
    """Seconds of both, taken in turn, and the fraction of the limit that ours reaches.

    The fraction is the median over neighbouring repetitions, which see the same machine. On one
    thread it is of CPU time: on an idle machine the same, on a busy one without what others took.
    """
    seconds: tuple[list[float], list[float]] = ([], [])
    fractions = []
    for repetition in range(REPEATS + 1):
        spent = []
        for call, runs in zip((ours, limit), seconds, strict=True):
            began, began_cpu = time.perf_counter(), time.process_time()
            call()
            cpu, elapsed = time.process_time() - began_cpu, time.perf_counter() - began
            spent.append(cpu if on_one_thread else elapsed)
            if repetition > 0:  # the first is the warm-up
                runs.append(elapsed)
        if repetition > 0:
            fractions.append(spent[1] / spent[0])
    return seconds, statistics.median(fractions)


def _replay(env: VecEnv, actions: NDArray[np.float64], start: dict[str, Any]) -> Any:
    """Run once, recording every initial state, and make the loop that repeats the run."""
    steps = len(actions)
    env.set_state(start)
    states = list(_mechanical_state(env))
    resets = np.full((steps + 1, NUM_ENVS), -1, np.int32)
    resets[0] = np.arange(NUM_ENVS)
    for step, action in enumerate(actions, start=1):
        *_, infos = env.step(action)
        ended = np.flatnonzero(infos.get("_final_obs", np.zeros(NUM_ENVS, np.bool_)))
        resets[step, ended] = len(states) + np.arange(len(ended))
        states.extend(_mechanical_state(env)[ended])
    period = env.task_info.control_period
    path = model_path(env.task_info.name)
    frame_skip = round(period / core.sim.timestep(str(path)))
    return core.sim.Replay(str(path), frame_skip, actions, np.array(states), resets)


def _mechanical_state(env: VecEnv) -> NDArray[np.float64]:
    state = env.get_state()
    return np.concatenate([state["qpos"], state["qvel"]], axis=1)


def _work(case: Case) -> int:
    return case.steps * NUM_ENVS


def _gymnasium(case: Case, result: SuiteResult) -> None:
    """Gymnasium steps its environments one by one, or in a process each: neither has threads."""
    mode = "sync" if case.num_threads == 1 else "async"
    request = {"library": "gymnasium", "mode": mode, "steps": 20, "repeats": 5}
    own = PeerEnvironment(Path(sys.executable))
    _peer(case, f"gymnasium-{mode}", own, request, None, result)


def _envpool(case: Case, result: SuiteResult) -> None:
    request = {"library": "envpool", "steps": case.steps, "repeats": REPEATS}
    try:
        environment = prepare("stepping", [ENVPOOL])
    except PeerUnavailable as reason:
        result.rows.append(Row.unavailable(case.name, "envpool", UNIT, str(reason)))
        return
    _peer(case, "envpool", environment, request, 5.0 if case.native else 1.2, result)


def _peer(
    case: Case,
    name: str,
    environment: PeerEnvironment,
    request: dict[str, Any],
    goal: float | None,
    result: SuiteResult,
) -> None:
    """Time a peer in its own process; add its row, and how many times faster ours is."""
    request |= {
        "task": case.gymnasium_id,
        "num_envs": NUM_ENVS,
        "num_threads": case.num_threads,
    }
    worker = Path(__file__).with_name("stepping_peers.py")
    try:
        answer = environment.call(worker, request)
    except PeerUnavailable as reason:
        result.rows.append(Row.unavailable(case.name, name, UNIT, str(reason)))
        return
    result.versions[request["library"]] = answer["version"]
    work = request["steps"] * NUM_ENVS
    row = Row.rate(case.name, name, timing_of(answer["seconds"]), work, unit=UNIT)
    result.rows.append(row)
    ours = result.row(case.name, OURS).median
    if ours is not None and row.median is not None:
        result.ratios.append(Ratio(case.name, name, ours / row.median, goal))
