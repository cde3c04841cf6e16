"""The demo's steps: train, evaluate, draw, export, verify, report.

Everything is made in a folder beside the wanted one, which takes its place at the end: a demo that
was interrupted leaves the one before it as it was.
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
    from servorl.export import VerifyReport
    from servorl.training import Run

EVALUATION_EPISODES = 20
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
    table: str
    """The verification as text."""

    @property
    def ok(self) -> bool:
        """Solved, and nothing that was verified failed."""
        verification = self.result.verification
        return self.result.solved and (verification is None or bool(verification["ok"]))


def run_demo(settings: DemoSettings, say: Callable[[str], None]) -> DemoOutcome:
    """Run every step, telling ``say`` what is being done, and leave ``settings.out``.

    Raises:
        OutputError: ``settings.out`` cannot be written, or holds something that is no demo.
    """
    from servorl.registry import task_info

    started = time.perf_counter()
    task = task_info(settings.environment)
    with _output(settings.out) as folder:
        say(f"1/4 train: PPO on {settings.environment}, until it is solved")
        training_started = time.perf_counter()
        run = _train(settings, task.reward_threshold, folder / "run")
        train_seconds = time.perf_counter() - training_started
        rows = run.metrics()

        say(f"2/4 evaluate: {EVALUATION_EPISODES} episodes on initial states never seen before")
        evaluation = run.evaluate(episodes=EVALUATION_EPISODES)
        say(f"    mean return {evaluation.mean_return:.1f}")
        curve = folder / "learning-curve.png"
        draw_curve(
            [row["steps"] for row in rows],
            [_number(row["return_mean"]) for row in rows],
            curve,
            threshold=task.reward_threshold,
        )
        video, video_note = _film(run, settings, folder / "policy.gif", say)

        say("3/4 export: ONNX and C")
        exported = run.export(folder / "exported")

        say(f"4/4 verify: torch, onnxruntime, C on this machine, C on an emulated {settings.board}")
        report, verification_note = _verify(exported, settings.board, say)
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
            verification=None if report is None else report.to_json(),
            verification_note=verification_note,
            board=settings.board,
        )
        write_report(result, folder / "index.html")
        _write_marker(result, folder / MARKER)
    return DemoOutcome(result, verification_note if report is None else report.table())


def _train(settings: DemoSettings, threshold: float | None, path: Path) -> Run:
    from servorl.training import train

    return train(
        "ppo",
        env=settings.environment,
        steps=settings.steps,
        seed=settings.seed,
        out=path,
        num_envs=NUM_ENVS,
        target_return=threshold,
        evaluation_interval=10_000,
    )


def _film(
    run: Run, settings: DemoSettings, path: Path, say: Callable[[str], None]
) -> tuple[Path | None, str]:
    """A GIF of the policy while it is being pushed; or why there is none."""
    from servorl.render import record_video

    try:
        positions = _positions_under_pushes(run, settings.environment, settings.seed)
        return record_video(path, settings.environment, positions, width=480, height=320), ""
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


def _verify(
    exported: Path, board: str, say: Callable[[str], None]
) -> tuple[VerifyReport | None, str]:
    """The verification; or, where tools are missing, what there is of it and why."""
    from servorl.export import verify

    try:
        return verify(exported, board=board), ""
    except MissingToolError as error:
        say(f"    {error}")
        return None, str(error)


@contextlib.contextmanager
def _output(out: Path) -> Iterator[Path]:
    """A new folder beside ``out`` that replaces it where the block succeeds."""
    if out.exists() and not (out / MARKER).is_file() and (not out.is_dir() or any(out.iterdir())):
        raise OutputError(f"{out} exists and is no earlier demo; name another folder with --out")
    partial = out.with_name(f".{out.name}.partial")
    try:
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
    except OSError as error:
        raise OutputError(f"{out} cannot be written: {error.strerror}") from None
    try:
        yield partial
        shutil.rmtree(out, ignore_errors=True)
        partial.rename(out)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


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


def _number(value: Any) -> float:
    """A metric as a number; NaN where it was not measured."""
    return float("nan") if value in (None, "") else float(value)
