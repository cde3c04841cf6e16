"""The training loop: collect, learn, log, evaluate, checkpoint.

A ``Runner`` owns one run: its folder, its environment and its algorithm. Whether an evaluation or a
checkpoint is due depends on the steps taken alone, so that a resumed run does what an
uninterrupted one would have done.
"""

from __future__ import annotations

import dataclasses
import signal
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Annotated, Any, Literal

import numpy as np

from servorl import checkpoint as checkpoints
from servorl.algorithms import make_algorithm
from servorl.checkpoint import ArrayFile, Checkpoint
from servorl.display import Display, Progress
from servorl.evaluation import Evaluation, evaluate_policy
from servorl.metrics import MetricsLog
from servorl.platform import resolve_device, torch_thread_count, versions
from servorl.registry import make_vec
from servorl.rollout import RolloutReport
from servorl.settings import Range, check_settings

RECENT_EPISODES = 100


@dataclass(frozen=True)
class RunConfig:
    """Settings of a run, whatever its algorithm."""

    env: str = ""
    """The environment; servorl envs lists them."""
    steps: Annotated[int, Range(1)] = 1_000_000
    """Environment steps in all, rounded up to whole rollouts."""
    seed: Annotated[int, Range(0, 2**30)] = 1
    """Fixes the run bit for bit on one machine."""
    num_envs: Annotated[int, Range(1, 2**20)] = 8
    """Environments that step together."""
    num_threads: Annotated[int, Range(0)] = 0
    """Simulator threads; 0: one per core. The result does not depend on it."""
    torch_threads: Annotated[int, Range(1, 1024)] = 1
    """Threads of torch on the CPU; some results depend on it."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Where the networks are trained; auto: a GPU if there is one."""
    backend: Literal["auto", "torch"] = "auto"
    """What computes the update; auto: torch."""
    evaluation_interval: Annotated[int, Range(0)] = 50_000
    """Environment steps between evaluations; 0: none but at the end."""
    evaluation_episodes: Annotated[int, Range(1)] = 10
    """Deterministic episodes per evaluation."""
    target_return: Annotated[float | None, Range()] = None
    """Stop once an evaluation's mean return reaches this."""
    checkpoint_interval: Annotated[int, Range(1)] = 50_000
    """Environment steps between checkpoints."""
    keep_checkpoints: Annotated[int, Range(1)] = 3
    """How many of the newest checkpoints stay, beside the best."""
    tensorboard: bool = True
    """Whether to log to TensorBoard beside metrics.csv."""
    progress: Progress = "auto"
    """live panel, plain lines, none; auto: live on a terminal."""


RESUMABLE = frozenset(
    field.name for field in dataclasses.fields(RunConfig)
) - {"env", "seed", "num_envs", "backend"}  # fmt: skip
"""Run settings that may change when a run is resumed."""


class Callback:
    """Is told what a runner does, and may call its ``stop``."""

    def on_iteration(self, runner: Runner, metrics: Mapping[str, Any]) -> None:
        """After an iteration's metrics were logged."""

    def on_evaluation(self, runner: Runner, evaluation: Evaluation) -> None:
        """After an evaluation."""

    def on_checkpoint(self, runner: Runner, directory: Path) -> None:
        """After a checkpoint is durable."""


class Runner:
    """One run. ``Runner.start`` and ``Runner.resume`` make it, ``run`` carries it out.

    Attributes: ``path`` (run folder), ``algorithm``, ``config``, ``settings`` (the algorithm's
    configuration), ``stopped`` (why it ended early, or None).
    """

    def __init__(
        self,
        algorithm: str,
        config: RunConfig,
        settings: Any,
        path: Path,
        callbacks: Sequence[Callback] = (),
    ) -> None:
        check_settings(config)
        check_settings(settings)
        self.algorithm_name = algorithm
        self.config, self.settings, self.path = config, settings, path
        self.callbacks = callbacks
        self.stopped: str | None = None
        self.signal: int | None = None
        """The signal that ended the run, if one did."""
        self.notes: list[str] = []
        """What the user should know before the run goes on."""
        device, note = resolve_device(config.device)
        self.notes += [note] if note else []
        self.env = make_vec(
            config.env, config.num_envs, num_threads=config.num_threads, seed=config.seed
        )
        with torch_thread_count(config.torch_threads):
            self.algorithm = make_algorithm(
                algorithm,
                settings,
                self.env,
                seed=config.seed,
                total_steps=config.steps,
                device=device,
            )
        self._episodes = 0
        self._diverged = 0
        self._seconds = 0.0
        self._returns: deque[float] = deque(maxlen=RECENT_EPISODES)
        self._lengths: deque[int] = deque(maxlen=RECENT_EPISODES)
        self._best: dict[str, Any] | None = None

    @classmethod
    def resume(
        cls, saved: Checkpoint, algorithm: str, config: RunConfig, settings: Any, path: Path,
        callbacks: Sequence[Callback] = (),
    ) -> Runner:  # fmt: skip
        """A runner that goes on from a checkpoint; raises CheckpointError where it does not fit."""
        runner = cls(algorithm, config, settings, path, callbacks)
        runner._load(saved)
        return runner

    def run(self) -> None:
        """Train until the steps are taken, the target is reached, or a signal or callback stops it.

        SIGINT and SIGTERM end the run after the current iteration, with a checkpoint.
        """
        config, title = self.config, f"{self.algorithm_name} on {self.config.env}"
        with ExitStack() as stack:
            stack.callback(self.env.close)
            display = stack.enter_context(Display(title, config.steps, config.progress))
            log = MetricsLog(self.path, self.algorithm.steps, config.tensorboard)
            stack.callback(log.close)
            stack.enter_context(torch_thread_count(config.torch_threads))
            stack.enter_context(self._signals())
            for note in self.notes:
                display.message(note)
            while self.algorithm.steps < config.steps and self.stopped is None:
                self._iterate(display, log)

    def stop(self, reason: str) -> None:
        """End the run after the current iteration, with a checkpoint."""
        self.stopped = reason

    def _iterate(self, display: Display, log: MetricsLog) -> None:
        config = self.config
        before, started = self.algorithm.steps, time.perf_counter()
        report = self.algorithm.collect()
        collected = time.perf_counter()
        learned = self.algorithm.learn()
        seconds = time.perf_counter() - started
        metrics = self._account(report, learned, seconds, started + seconds - collected)

        steps, finished = self.algorithm.steps, self.algorithm.steps >= config.steps
        best = False
        if finished or _crossed(before, steps, config.evaluation_interval):
            best = self._evaluate(display, metrics)
        log.write(metrics)
        display.update(metrics, last=finished)
        for callback in self.callbacks:
            callback.on_iteration(self, metrics)
        ends = finished or self.stopped is not None
        if best or ends or _crossed(before, steps, config.checkpoint_interval):
            self._save(display, best)
        if self.stopped is not None and not finished:
            display.message(f"stopped at {steps} steps: {self.stopped}")

    def _account(
        self, report: RolloutReport, learned: Mapping[str, float], seconds: float, learning: float
    ) -> dict[str, Any]:
        """One row of metrics; what is measured in seconds stands last."""
        self._episodes += len(report.returns)
        self._diverged += report.diverged
        self._seconds += seconds
        self._returns.extend(report.returns)
        self._lengths.extend(report.lengths)
        return {
            "steps": self.algorithm.steps,
            "episodes": self._episodes,
            "return_mean": float(np.mean(self._returns)) if self._returns else None,
            "length_mean": float(np.mean(self._lengths)) if self._lengths else None,
            "diverged": self._diverged,
            **learned,
            "evaluation_return": None,
            "evaluation_std": None,
            "steps_per_second": report.steps / seconds,
            "simulate_share": report.simulate_seconds / seconds,
            "infer_share": report.infer_seconds / seconds,
            "learn_share": learning / seconds,
            "seconds": self._seconds,
        }

    def _evaluate(self, display: Display, metrics: dict[str, Any]) -> bool:
        """Fill in the evaluation's metrics; returns whether the policy is the best so far."""
        config = self.config
        evaluation = evaluate_policy(
            self.algorithm.policy,
            config.env,
            episodes=config.evaluation_episodes,
            seed=config.seed,
            num_threads=config.num_threads,
        )
        metrics["evaluation_return"] = mean = evaluation.mean_return
        metrics["evaluation_std"] = evaluation.std_return
        display.message(
            f"evaluation at {self.algorithm.steps} steps: return {mean:.4g} "
            f"± {evaluation.std_return:.3g} over {config.evaluation_episodes} episodes"
        )
        for callback in self.callbacks:
            callback.on_evaluation(self, evaluation)
        if config.target_return is not None and mean >= config.target_return:
            self.stop(f"the return has reached {config.target_return:g}")
        if self._best is not None and mean <= self._best["return"]:
            return False
        self._best = {"return": mean, "steps": self.algorithm.steps}
        return True

    def _save(self, display: Display, best: bool) -> None:
        directory = checkpoints.save(
            self.path, self._checkpoint(), keep=self.config.keep_checkpoints, best=best
        )
        display.message(f"checkpoint at {self.algorithm.steps} steps: {directory}")
        for callback in self.callbacks:
            callback.on_checkpoint(self, directory)

    def _checkpoint(self) -> Checkpoint:
        arrays, metadata = self.algorithm.policy.state()
        return Checkpoint(
            steps=self.algorithm.steps,
            documents={
                "config": config_document(self.algorithm_name, self.config, self.settings),
                "counters": {
                    "steps": self.algorithm.steps,
                    "episodes": self._episodes,
                    "diverged": self._diverged,
                    "seconds": self._seconds,
                    "recent_returns": list(self._returns),
                    "recent_lengths": list(self._lengths),
                    "best": self._best,
                },
            },
            arrays={
                "policy": ArrayFile(arrays, metadata),
                "algorithm": ArrayFile(self.algorithm.state()),
                "environment": ArrayFile(self.env.get_state()),
            },
        )

    def _load(self, saved: Checkpoint) -> None:
        counters = saved.documents["counters"]
        self.algorithm.policy.load_state(saved.arrays["policy"].arrays)
        self.algorithm.load_state(saved.arrays["algorithm"].arrays)
        self.env.set_state(saved.arrays["environment"].arrays)
        self._episodes, self._diverged = counters["episodes"], counters["diverged"]
        self._seconds = counters["seconds"]
        self._returns.extend(counters["recent_returns"])
        self._lengths.extend(counters["recent_lengths"])
        self._best = counters["best"]
        was, now = saved.documents["config"]["versions"], versions(self.config.torch_threads)
        for name in was.keys() & now.keys():
            if was[name] != now[name]:
                self.notes.append(
                    f"warning: {name} is {now[name]}, the run was saved under {was[name]}; "
                    "from here on it may differ from an uninterrupted one"
                )

    @contextmanager
    def _signals(self) -> Iterator[None]:
        """Turn the first SIGINT or SIGTERM into ``stop``; a second one acts as usual."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        numbers = (int(signal.SIGINT), int(signal.SIGTERM))
        before = {number: signal.getsignal(number) for number in numbers}

        def handle(number: int, _: FrameType | None) -> None:
            self.signal = number
            self.stop(f"{signal.Signals(number).name} received")
            signal.signal(number, before[number])

        for number in before:
            signal.signal(number, handle)
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def config_document(algorithm: str, config: RunConfig, settings: Any) -> dict[str, Any]:
    """A run's configuration as JSON."""
    return {
        "algorithm": algorithm,
        "run": dataclasses.asdict(config),
        "settings": dataclasses.asdict(settings),
        "versions": versions(config.torch_threads),
    }


def _crossed(before: int, after: int, interval: int) -> bool:
    """Whether a multiple of ``interval`` lies in ``(before, after]``."""
    return interval > 0 and after // interval > before // interval
