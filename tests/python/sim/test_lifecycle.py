"""Memory, threads and processes: views and copies, close, fork, Ctrl-C, and the lock."""

import _thread
import gc
import multiprocessing
import os
import subprocess
import sys
import threading
import time
from typing import Any

import numpy as np
import pytest

from servorl.errors import ClosedError
from servorl.registry import env_names, make_vec


def step(env: Any) -> tuple[Any, ...]:
    return env.step(np.full(env.action_space.shape, 0.5))


@pytest.mark.parametrize("name", env_names())
def test_results_are_the_callers(name: str) -> None:
    env = make_vec(name, 3, max_episode_steps=2)
    kept = [env.reset()[0]]
    copies = [kept[0].copy()]
    for _ in range(4):
        *arrays, infos = step(env)
        arrays += [v for v in infos.values() if isinstance(v, np.ndarray)]
        arrays += [v for k, v in infos.items() if k == "final_info" for v in v.values()]
        kept += arrays
        copies += [array.copy() for array in arrays]
    for array, copy in zip(kept, copies, strict=True):
        np.testing.assert_array_equal(array, copy)
        assert array.flags.writeable


def test_without_copies_results_are_views_that_the_next_step_overwrites() -> None:
    env = make_vec("pendulum", 3, copy=False)
    first, _ = env.reset()
    second, reward, terminated, truncated, infos = step(env)
    later = step(env)
    assert first is second
    assert later[0] is second
    assert later[1] is reward
    assert later[2] is terminated
    assert later[3] is truncated
    assert later[4]["diverged"] is infos["diverged"]
    env.close()
    del env
    gc.collect()
    assert np.all(np.isfinite(second))  # the memory lives as long as somebody looks at it


@pytest.mark.parametrize("name", env_names())
def test_use_after_close(name: str) -> None:
    env = make_vec(name, 2)
    env.reset()
    env.close()
    env.close()
    for call in (
        env.reset,
        env.observe,
        env.get_state,
        env.qpos,
        lambda: step(env),
        lambda: env.set_state({}),
        lambda: env.set_model_field("body_mass", 1.0),
        lambda: env.warnings,
    ):
        with pytest.raises(ClosedError, match=f"{name}.*close"):
            call()


def child_uses(env: Any, answers: Any) -> None:
    try:
        step(env)
    except ClosedError as error:
        answers.put(str(error))
    fresh = make_vec(env.task_info.name, 2, num_threads=2)
    fresh.reset()
    step(fresh)
    answers.put("a new one works")


@pytest.mark.parametrize("name", env_names())
def test_use_after_fork(name: str) -> None:
    """The child gets an error, not a deadlock, may leave, and the parent goes on."""
    env = make_vec(name, 2, num_threads=2)
    env.reset()
    context = multiprocessing.get_context("fork")
    answers = context.Queue()
    child = context.Process(target=child_uses, args=(env, answers))
    child.start()
    assert "fork" in answers.get(timeout=30)
    assert answers.get(timeout=30) == "a new one works"
    child.join(timeout=30)
    assert child.exitcode == 0
    step(env)


def test_stepping_does_not_hold_the_interpreter() -> None:
    """Another thread runs while one step is under way."""
    env = make_vec("half_cheetah", 3_000, num_threads=1)
    env.reset()
    in_step, counted = threading.Event(), 0

    def count() -> None:
        nonlocal counted
        in_step.wait()
        while in_step.is_set():
            counted += 1
            time.sleep(0)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(100.0)  # the interpreter is handed over only where it is released
    try:
        thread = threading.Thread(target=count)
        thread.start()
        in_step.set()
        step(env)
        in_step.clear()
        thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert counted > 100


def test_two_threads_cannot_step_one_batch() -> None:
    env = make_vec("half_cheetah", 3_000, num_threads=1)
    env.reset()
    refused: list[str] = []
    start = threading.Barrier(2)

    def work() -> None:
        start.wait()
        try:
            step(env)
        except RuntimeError as error:
            refused.append(str(error))

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(refused) <= 1
    assert all("in use by another thread" in message for message in refused)
    step(env)


def test_ctrl_c_stops_a_loop_of_steps() -> None:
    env = make_vec("half_cheetah", 64)
    env.reset()
    timer = threading.Timer(0.3, _thread.interrupt_main)

    def forever() -> None:
        while True:
            step(env)

    timer.start()
    with pytest.raises(KeyboardInterrupt):
        forever()
    step(env)  # and the environments are still whole


def test_threads_end_with_the_environment() -> None:
    def count() -> int:
        return len(os.listdir("/proc/self/task"))

    before = count()
    for name in env_names():
        env = make_vec(name, 16, num_threads=4)
        env.reset()
        step(env)
        assert count() >= before + 3
        env.close()
        del env
        gc.collect()
    deadline = time.monotonic() + 10
    while count() > before and time.monotonic() < deadline:
        time.sleep(0.01)
    assert count() <= before


def test_all_threads_means_the_cores_this_process_may_use() -> None:
    program = (
        "import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))});"
        "from servorl.registry import make_vec; print(make_vec('pendulum', 8).num_threads)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "1"
    assert make_vec("pendulum", 64).num_threads <= len(os.sched_getaffinity(0))
    assert make_vec("pendulum", 2, num_threads=8).num_threads == 2
