"""``servorl train``: train a policy, or go on with a run."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path
from typing import Any

SIGNAL_EXIT = 128
"""A run that a signal ended exits with this plus the signal's number, as shells report it."""
USAGE = "usage: servorl train ALGORITHM --env NAME [--steps N] [--seed S] [OPTIONS]"


@dataclasses.dataclass(frozen=True)
class Folders:
    """What is written where, beside the settings of the run and of the algorithm."""

    seeds: tuple[int, ...] = ()
    """Several seeds, one after the other, each in a folder of its own under --out."""
    out: Path | None = None
    """The run folder; a new one under runs/ if not given."""
    resume: Path | None = None
    """Go on with this run, or from this checkpoint directory of one, instead of starting anew."""


def run(arguments: list[str]) -> int:
    """Run ``servorl train ARGUMENTS`` and return its exit code."""
    from servorl.algorithms import algorithm_names, config_class
    from servorl.errors import SettingError

    resumed = _value_of(arguments, "--resume")
    if not arguments or (arguments[0].startswith("-") and resumed is None):
        print(f"{USAGE}\n\nalgorithms: {', '.join(algorithm_names())}")
        print("servorl train ALGORITHM --help shows every setting")
        return 0 if arguments and arguments[0] in ("-h", "--help") else SettingError.exit_code
    named = None if arguments[0].startswith("-") else arguments[0]
    rest = arguments if named is None else arguments[1:]
    if named is not None:
        config_class(named)
    if resumed is not None:
        return _resume(Path(resumed), named, rest)
    return _start(str(named), rest)


def _start(algorithm: str, arguments: list[str]) -> int:
    from servorl.errors import SettingError, UnknownNameError
    from servorl.registry import env_names
    from servorl.settings import check_settings
    from servorl.training import configure, start

    env = _value_of(arguments, "--env")
    if env is None and not {"-h", "--help"} & set(arguments):
        raise SettingError(f"--env is missing; environments: {', '.join(env_names())}")
    if env is not None and env not in env_names():
        raise UnknownNameError("environment", env, env_names())
    defaults = configure(algorithm, {} if env is None else {"env": env})
    options = _parse(algorithm, arguments, *defaults)
    if len(set(options.folders.seeds)) < len(options.folders.seeds):
        raise SettingError(f"seeds must differ from each other, not {options.folders.seeds}")
    if not options.folders.seeds:
        return _finish(
            start(algorithm, options.run, getattr(options, algorithm), out=options.folders.out)
        )
    folder = options.folders.out or Path("runs") / f"{env}-{algorithm}-seeds"
    configs = [dataclasses.replace(options.run, seed=seed) for seed in options.folders.seeds]
    for config in configs:
        check_settings(config)
    for config in configs:
        out = folder / f"seed{config.seed}"
        if exit_code := _finish(start(algorithm, config, getattr(options, algorithm), out=out)):
            return exit_code
    return 0


def _resume(path: Path, named: str | None, arguments: list[str]) -> int:
    from servorl.errors import SettingError
    from servorl.training import read_run, resume

    algorithm, *defaults = read_run(path)
    if named not in (None, algorithm):
        raise SettingError(f"{path} is a run of {algorithm}, not of {named}")
    options = _parse(algorithm, arguments, *defaults)
    if options.folders.seeds or options.folders.out is not None:
        raise SettingError("--resume goes on in its own folder: leave out --seeds and --out")
    values = dataclasses.asdict(options.run) | dataclasses.asdict(getattr(options, algorithm))
    return _finish(resume(path, **values))


def _finish(run: Any) -> int:
    print(f"run: {run.path}", flush=True)
    if run.signal is not None:
        print(f"go on with: servorl train --resume {run.path}", file=sys.stderr)
        return SIGNAL_EXIT + int(run.signal)
    return 0


def _parse(algorithm: str, arguments: list[str], config: Any, settings: Any) -> Any:
    """Every field of the run and of the algorithm as a flag, with the given defaults."""
    from servorl.cli.parse import parse
    from servorl.settings import check_settings

    parts = {"run": config, algorithm: settings, "folders": Folders()}
    options_class = dataclasses.make_dataclass(
        "TrainOptions", [(name, type(part)) for name, part in parts.items()], frozen=True
    )
    options_class.__doc__ = "Train a policy; leaves checkpoints, metrics and a TensorBoard log."
    options = parse(
        options_class,
        arguments,
        prog=f"servorl train {algorithm}",
        default=options_class(**parts),
    )
    check_settings(options.run)
    check_settings(getattr(options, algorithm))
    return options


def _value_of(arguments: list[str], flag: str) -> str | None:
    """The value of a flag that decides what the other flags' defaults are."""
    for index, argument in enumerate(arguments):
        name, equals, value = argument.partition("=")
        if name == flag:
            return value if equals else next(iter(arguments[index + 1 : index + 2]), None)
    return None
