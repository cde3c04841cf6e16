"""The demo's steps: train, evaluate, draw, export, verify, report.

An earlier demo in the same folder is put aside until the new one is complete, and comes back where
it fails.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from servorl.demo.curve import draw_curve
from servorl.demo.report import DemoResult, write_report
from servorl.errors import MissingToolError, OutputError

if TYPE_CHECKING:
    from servorl.evaluation import Evaluation
    from servorl.export import VerifyReport
    from servorl.training import Run

EVALUATION_EPISODES = 20
EVALUATION_INTERVAL = 4_000
CHIP_EPISODES = 3
NUM_ENVS = 8
VIDEO_SECONDS = 8.0
PUSH_SECONDS = 2.0
PUSH = 0.7
"""Standard deviation of a push: what is added to each joint's velocity, in rad/s or m/s."""
MARKER = "demo.json"


@dataclass(frozen=True)
class DemoSettings:
    """What the demo does, and where it leaves its folder."""

    out: Path
    environment: str
    steps: int
    seed: int
    board: str


@dataclass(frozen=True)
class DemoOutcome:
    """What the demo made, for the command line's last lines."""

    result: DemoResult
    report: VerifyReport

    @property
    def ok(self) -> bool:
        """Solved, and nothing that was verified failed."""
        return self.result.solved and self.report.ok


def run_demo(settings: DemoSettings, say: Callable[[str], None]) -> DemoOutcome:
    """Run every step, telling ``say`` what is being done, and leave ``settings.out``.

    Raises:
        OutputError: ``settings.out`` cannot be written, or holds something that is no demo.
        UnknownNameError: there is no such board.
    """
    from servorl.export import verify
    from servorl.export.boards import load_board
    from servorl.platform import torch_thread_count
    from servorl.registry import task_info

    started = time.perf_counter()
    task = task_info(settings.environment)
    load_board(settings.board)
    # For networks this small, handing work to a second thread takes longer than the work.
    with _output(settings.out) as folder, torch_thread_count(1):
        say(f"1/4 train: PPO on {settings.environment}, until it is solved")
        training_started = time.perf_counter()
        run, evaluation = _train(settings, task.reward_threshold, folder / "run", say)
        train_seconds = time.perf_counter() - training_started
        rows = run.metrics()
        curve = folder / "learning-curve.png"
        draw_curve(rows, curve, threshold=task.reward_threshold)

        say("2/4 film: the policy at work, pushed every two seconds")
        video, video_note = _film(run, settings, folder / "policy.gif", say)

        say("3/4 export: ONNX and C")
        exported = run.export(folder / "exported")

        say(f"4/4 verify: torch, onnxruntime, C on this machine, C on an emulated {settings.board}")
        report = verify(exported, board=settings.board, episodes=CHIP_EPISODES)
        result = DemoResult(
            environment=settings.environment,
            steps=int(rows[-1]["steps"]),
            num_envs=NUM_ENVS,
            train_seconds=train_seconds,
            total_seconds=time.perf_counter() - started,
            mean_return=evaluation.mean_return,
            reward_threshold=task.reward_threshold,
            episodes=EVALUATION_EPISODES,
            curve=curve,
            video=video,
            video_note=video_note,
            export_folder=exported,
            verification=report.to_json(),
            board=settings.board,
        )
        write_report(result, folder / "index.html")
        _write_marker(result, folder / MARKER)
    return DemoOutcome(result, report)


def _train(
    settings: DemoSettings, threshold: float | None, path: Path, say: Callable[[str], None]
) -> tuple[Run, Evaluation]:
    """Train until an evaluation on fresh initial states agrees that the task is solved."""
    from servorl.training import resume, train

    run = train(
        "ppo",
        env=settings.environment,
        steps=settings.steps,
        seed=settings.seed,
        out=path,
        num_envs=NUM_ENVS,
        target_return=threshold,
        evaluation_interval=EVALUATION_INTERVAL,
    )
    while True:
        evaluation = run.evaluate(episodes=EVALUATION_EPISODES)
        say(
            f"    mean return of {EVALUATION_EPISODES} fresh episodes: {evaluation.mean_return:.1f}"
        )
        solved = threshold is None or evaluation.mean_return >= threshold
        if solved or run.stopped is None:
            return run, evaluation
        run = resume(path)


def _film(
    run: Run, settings: DemoSettings, path: Path, say: Callable[[str], None]
) -> tuple[Path | None, str]:
    """A GIF of the policy while it is being pushed; or why there is none."""
    from servorl.render import record_video

    try:
        positions = _positions_under_pushes(run, settings.environment, settings.seed)
        return record_video(path, settings.environment, positions, width=480, height=288), ""
    except MissingToolError as error:
        say(f"    no video: {error}")
        return None, f"No video: {error}"


def _positions_under_pushes(run: Run, environment: str, seed: int) -> NDArray[np.float64]:
    """``[T, nq]`` positions of one episode in which every joint is knocked at intervals.

    A policy that only holds still makes a dull film, and shows nothing.
    """
    from servorl.registry import make_vec, task_info

    period = task_info(environment).control_period
    push_every = round(PUSH_SECONDS / period)
    generator = np.random.default_rng(seed)
    policy = run.load().policy
    env: Any = make_vec(environment, 1, num_threads=1, seed=seed)
    with contextlib.closing(env):
        observations, _ = env.reset(seed=seed)
        positions = []
        for step in range(round(VIDEO_SECONDS / period)):
            if step % push_every == push_every // 4:
                velocity = env.get_state()["qvel"]
                env.set_state({"qvel": velocity + generator.normal(0.0, PUSH, velocity.shape)})
            positions.append(env.qpos(0))
            actions, _ = policy.act(observations, deterministic=True)
            observations, *_ = env.step(actions)
    return np.stack(positions)


@contextlib.contextmanager
def _output(out: Path) -> Iterator[Path]:
    """``out`` as a new folder; what was there comes back where the block fails.

    The marker is written first, so that the remains of a demo that was killed are replaced too.
    """
    if out.exists() and not (out / MARKER).is_file() and (not out.is_dir() or any(out.iterdir())):
        raise OutputError(f"{out} exists and is no earlier demo; name another folder with --out")
    previous = out.with_name(f".{out.name}.previous")
    try:
        if out.exists():
            shutil.rmtree(previous, ignore_errors=True)
            out.rename(previous)
        out.mkdir(parents=True)
        (out / MARKER).write_text("{}\n")
    except OSError as error:
        raise OutputError(f"{out} cannot be written: {error.strerror}") from None
    try:
        yield out
    except BaseException:
        shutil.rmtree(out, ignore_errors=True)
        if previous.exists():
            previous.rename(out)
        raise
    shutil.rmtree(previous, ignore_errors=True)


def _write_marker(result: DemoResult, path: Path) -> None:
    summary = {
        "environment": result.environment,
        "steps": result.steps,
        "mean_return": result.mean_return,
        "solved": result.solved,
        "train_seconds": round(result.train_seconds, 1),
        "verification": result.verification,
    }
    path.write_text(json.dumps(summary, indent=2) + "\n")
