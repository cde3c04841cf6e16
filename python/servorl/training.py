"""``servorl.train``: from names and settings to a trained run, in one call."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from servorl import checkpoint as checkpoints
from servorl.errors import CheckpointError, OutputError, SettingError, UnknownNameError
from servorl.evaluation import Evaluation, evaluate_policy
from servorl.metrics import read_metrics
from servorl.runs import LoadedPolicy, load_policy

if TYPE_CHECKING:
    from servorl.runner import Callback, RunConfig

CONFIG_FILE = "config.json"


@dataclasses.dataclass(frozen=True)
class Run:
    """A run folder that ``train`` or ``resume`` has worked on."""

    path: Path
    stopped: str | None = None
    """Why it ended before its last step; None where it did not."""
    signal: int | None = None
    """The signal that ended it, if one did."""

    def load(self) -> LoadedPolicy:
        """The policy of the latest checkpoint."""
        return load_policy(self.path)

    def evaluate(self, episodes: int = 20, seed: int = 0) -> Evaluation:
        """Deterministic episodes of the latest checkpoint, on seeds disjoint from training's."""
        loaded = self.load()
        return evaluate_policy(loaded.policy, loaded.environment, episodes=episodes, seed=seed)

    def export(self, out: str | Path) -> Path:
        """Write the policy as ONNX and as C into ``out``; returns that folder."""
        from servorl.export import export

        loaded = self.load()
        return export(loaded.policy.inference_graph(), loaded.task_info, Path(out))

    def metrics(self) -> list[dict[str, Any]]:
        """The rows of ``metrics.csv``."""
        return read_metrics(self.path)


def train(
    algorithm: str = "ppo",
    *,
    env: str,
    steps: int,
    seed: int = 1,
    out: str | Path | None = None,
    callbacks: Sequence[Callback] = (),
    **settings: Any,
) -> Run:
    """Train a policy and leave a run folder.

    Args:
        algorithm: a name of ``servorl.algorithms.algorithm_names()``.
        env: a name of ``servorl envs``.
        steps: environment steps, rounded up to whole rollouts.
        seed: fixes the run bit for bit on one machine.
        out: the run folder; None makes a new one under ``runs/``. It may not hold a run yet.
        callbacks: told of every iteration, evaluation and checkpoint.
        settings: fields of ``servorl.runner.RunConfig`` and of the algorithm's configuration;
            the environment's preset holds for those of the algorithm that are not given.

    Raises:
        UnknownNameError: an algorithm, environment or setting of that name does not exist.
        SettingError: a setting has the wrong type or is out of range.
        OutputError: the run folder cannot be written or holds a run.
    """
    config, algorithm_config = configure(
        algorithm, {"env": env, "steps": steps, "seed": seed} | settings
    )
    return start(algorithm, config, algorithm_config, out=out, callbacks=callbacks)


def configure(algorithm: str, settings: Mapping[str, Any]) -> tuple[RunConfig, Any]:
    """The run's and the algorithm's configuration for given settings, presets included."""
    from servorl.algorithms import config_class
    from servorl.algorithms.presets import preset
    from servorl.runner import RunConfig
    from servorl.settings import with_settings

    own_class = config_class(algorithm)
    run_names = [field.name for field in dataclasses.fields(RunConfig)]
    own_names = [field.name for field in dataclasses.fields(own_class)]
    for name in settings:
        if name not in run_names and name not in own_names:
            raise UnknownNameError("setting", name, run_names + own_names)
    config = with_settings(RunConfig(), {n: v for n, v in settings.items() if n in run_names})
    own = preset(algorithm, config.env) | {n: v for n, v in settings.items() if n in own_names}
    return config, with_settings(own_class(), own)


def start(
    algorithm: str,
    config: RunConfig,
    settings: Any,
    *,
    out: str | Path | None = None,
    callbacks: Sequence[Callback] = (),
) -> Run:
    """``train`` with complete configurations."""
    from servorl.algorithms import config_class
    from servorl.registry import task_info
    from servorl.runner import Runner, config_document

    config_class(algorithm)
    task_info(config.env)
    if out is not None and not str(out):
        raise SettingError("out names no folder")
    path = Path(out) if out is not None else _new_folder(algorithm, config)
    if checkpoints.has(path):
        raise OutputError(f"{path} holds a run already; resume it or name another output folder")
    if left := checkpoints.list_checkpoints(path):
        raise OutputError(
            f"{path} holds checkpoints, though none is marked the latest; resume one, such as "
            f"{left[-1]}, or name another output folder"
        )
    with checkpoints.output_folder(path):
        runner = Runner(algorithm, config, settings, path, callbacks)
        document = config_document(algorithm, config, settings)
        checkpoints.replace_durably(path / CONFIG_FILE, checkpoints.to_json(document))
        checkpoints.clean(path)
    runner.run()
    return Run(path, runner.stopped, runner.signal)


def read_run(path: str | Path) -> tuple[str, RunConfig, Any]:
    """Algorithm, run configuration and algorithm configuration of a run's latest checkpoint."""
    _, directory = checkpoints.find(Path(path))
    return _configurations(checkpoints.load(directory), directory)


def resume(path: str | Path, *, callbacks: Sequence[Callback] = (), **changes: Any) -> Run:
    """Go on with a run from its latest checkpoint, or from the checkpoint directory ``path``.

    Going on from an earlier checkpoint removes the later ones. ``changes`` are run settings that
    may differ from before, such as ``steps``; the rest stays.

    Raises:
        RunFolderError, CheckpointError: there is nothing to resume, or it is damaged.
        SettingError: a setting that a resumed run cannot change.
    """
    from servorl.runner import RESUMABLE, Runner
    from servorl.settings import with_settings

    run, directory = checkpoints.find(Path(path))
    saved = checkpoints.load(directory)
    algorithm, config, settings = _configurations(saved, directory)
    before = dataclasses.asdict(config) | dataclasses.asdict(settings)
    for name, value in changes.items():
        if name not in before:
            raise UnknownNameError("setting", name, before)
        if name not in RESUMABLE and value != before[name]:
            raise SettingError(
                f"{name} is {before[name]!r} in {run} and cannot become {value!r} in a resumed run"
            )
    changed = {name: value for name, value in changes.items() if name in RESUMABLE}
    config = with_settings(config, changed)
    with checkpoints.output_folder(run):
        checkpoints.point(run, checkpoints.LATEST, directory)
        checkpoints.clean(run)
        try:
            runner = Runner.resume(saved, algorithm, config, settings, run, callbacks)
        except (KeyError, TypeError, ValueError) as error:
            raise CheckpointError(f"{directory} does not fit this servorl: {error}") from error
    runner.run()
    return Run(run, runner.stopped, runner.signal)


def _configurations(saved: checkpoints.Checkpoint, directory: Path) -> tuple[str, RunConfig, Any]:
    from servorl.algorithms import config_class
    from servorl.runner import RunConfig
    from servorl.settings import with_settings

    try:
        document = saved.documents["config"]
        algorithm = document["algorithm"]
        run, own = (
            {name: tuple(v) if isinstance(v, list) else v for name, v in document[part].items()}
            for part in ("run", "settings")
        )
        return (
            algorithm,
            with_settings(RunConfig(), run),
            with_settings(config_class(algorithm)(), own),
        )
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"{directory} does not fit this servorl: {error}") from error


def _new_folder(algorithm: str, config: RunConfig) -> Path:
    """``runs/ENV-ALGORITHM-seedS``, with a number behind it where that is taken."""
    base = Path("runs") / f"{config.env}-{algorithm}-seed{config.seed}"
    path, number = base, 1
    while path.exists():
        number += 1
        path = base.with_name(f"{base.name}-{number}")
    return path
