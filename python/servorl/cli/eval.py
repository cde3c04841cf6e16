"""``servorl eval``: play a trained policy and report its return."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from servorl.settings import Range, check_settings

if TYPE_CHECKING:
    from servorl.evaluation import Evaluation


@dataclass(frozen=True)
class EvalOptions:
    """Play whole deterministic episodes of a run's latest checkpoint, or of an ONNX policy."""

    policy: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN|policy.onnx")]
    """A run folder, or an exported ONNX policy."""
    env: str | None = None
    """The environment; by default the one that the policy was trained in."""
    episodes: Annotated[int, Range(1)] = 20
    """How many episodes."""
    seed: Annotated[int, Range(0, 2**30)] = 0
    """Fixes the episodes; never those of training, whatever its seed."""
    num_envs: Annotated[int | None, Range(1)] = None
    """Episodes that run at the same time; all of them, up to 64, if not given."""
    num_threads: Annotated[int, Range(0)] = 0
    """Simulator threads; 0: one per core."""
    best: bool = False
    """The run's best checkpoint by evaluation instead of its latest."""
    video: Path | None = None
    """Also write the first episode as .mp4 or .gif."""
    json: bool = False
    """Print JSON on standard output and nothing else."""


def run(arguments: list[str]) -> int:
    """Run ``servorl eval ARGUMENTS`` and return its exit code."""
    from servorl.cli.parse import parse

    options = parse(EvalOptions, arguments, prog="servorl eval")
    check_settings(options)
    evaluation = _evaluate(options.policy, options)
    if options.video is not None:
        _write_video(options.video, evaluation)
    if options.json:
        print(json.dumps(evaluation.to_dict()))
        return 0
    print(
        f"{evaluation.env_name}: return {evaluation.mean_return:.2f} ± {evaluation.std_return:.2f} "
        f"over {len(evaluation.returns)} episodes of {min(evaluation.lengths)} to "
        f"{max(evaluation.lengths)} steps"
    )
    return 0


def _evaluate(path: Path, options: EvalOptions) -> Evaluation:
    from servorl.checkpoint import BEST, LATEST
    from servorl.errors import RunFolderError
    from servorl.evaluation import evaluate_onnx, evaluate_policy
    from servorl.runs import load_policy

    settings: dict[str, Any] = {
        "episodes": options.episodes,
        "seed": options.seed,
        "num_envs": options.num_envs,
        "num_threads": options.num_threads,
        "record_qpos": options.video is not None,
    }
    if path.suffix == ".onnx":
        if not path.is_file():
            raise RunFolderError(f"{path} does not exist")
        evaluation = evaluate_onnx(path, options.env, **settings)
    else:
        loaded = load_policy(path, BEST if options.best else LATEST)
        env_name = options.env or loaded.environment
        evaluation = evaluate_policy(loaded.policy, env_name, **settings)
    return evaluation


def _write_video(path: Path, evaluation: Evaluation) -> None:
    from servorl.render import record_video

    assert evaluation.qpos is not None
    record_video(path, evaluation.env_name, evaluation.qpos)
    print(f"video: {path}", file=sys.stderr)
