"""Kills one training run again and again, and prints what each kill left, as JSON.

A program of its own: it imports torch once and forks a child per life of the run, each of which
calls the command line. The kills come from the parent at a random moment, or from inside the
checkpoint's writing, where a function of ``os`` or ``shutil`` is replaced in the child.

    python kill_runs.py RUN SEED
"""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch

from servorl import checkpoint as checkpoints
from servorl.cli.main import main

FLAGS = (
    "--env pendulum --num-envs 2 --num-threads 1 --rollout-steps 16 --num-epochs 1"
    " --num-minibatches 2 --hidden-sizes 8 --checkpoint-interval 32 --keep-checkpoints 2"
    " --evaluation-interval 0 --evaluation-episodes 1 --no-tensorboard --device cpu"
    " --anneal-steps 100000 --progress plain"
)
SETTINGS = FLAGS.split()
ANNOUNCED = re.compile(r"^checkpoint at (\d+) steps", re.MULTILINE)


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def die_at_file(number: int) -> None:
    """Die once ``number`` files of the third checkpoint are on the disk."""
    real, seen = checkpoints.write_durably, [0]

    def write(path: Path, content: bytes) -> None:
        real(path, content)
        if path.parent.name.startswith(".writing-"):
            seen[0] += 1
            if seen[0] == 12 + number:  # six files in each
                die()

    checkpoints.write_durably = write


def die_before(module: object, name: str, matches: Callable[..., bool], times: int) -> None:
    """Die instead of the ``times``-th call that matches."""
    real, seen = getattr(module, name), [0]

    def call(*arguments: object) -> object:
        seen[0] += bool(matches(*arguments))
        if seen[0] == times and matches(*arguments):
            die()
        return real(*arguments)

    setattr(module, name, call)


def die_while_pruning(removed_files: int) -> None:
    """Die when some of the files of the second checkpoint to go are gone."""
    real, seen = shutil.rmtree, [0]

    def remove(path: Path) -> None:
        seen[0] += 1
        if seen[0] < 2:
            return real(path)
        for file in sorted(path.iterdir())[:removed_files]:
            file.unlink()
        return die()

    shutil.rmtree = remove


FORCED: dict[str, Callable[[], None]] = {
    **{f"after file {number}": lambda number=number: die_at_file(number) for number in (1, 3, 6)},
    **{
        f"before rename {times}": lambda times=times: die_before(
            os, "rename", lambda source, target: source.name.startswith(".writing-"), times
        )
        for times in (1, 4)
    },
    **{
        f"before pointer {times}": lambda times=times: die_before(
            os, "replace", lambda source, target: target.name == "latest", times
        )
        for times in (2, 5)  # the first is the resume's own
    },
    **{f"pruning {count}": lambda count=count: die_while_pruning(count) for count in (0, 2, 5)},
}


def life(run: Path, log: Path, patch: Callable[[], None] | None, arguments: list[str]) -> int:
    """Fork a child that trains; returns its process id."""
    child = os.fork()
    if child:
        return child
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(output, 1)
    os.dup2(output, 2)
    if patch is not None:
        patch()
    os._exit(main(["train", "ppo", *arguments]))


def announced(log: Path) -> int:
    """The last step count that a child announced as safely on the disk."""
    found = ANNOUNCED.findall(log.read_text())
    return int(found[-1]) if found else 0


def wait_for_announcement(log: Path, child: int) -> None:
    while not (log.exists() and announced(log)):
        if os.waitpid(child, os.WNOHANG)[0]:
            sys.exit(f"the run ended before its first checkpoint:\n{log.read_text()}")
        time.sleep(0.005)


def kill_again_and_again(run: Path, seed: int) -> None:
    rng = random.Random(seed)
    kinds = [*FORCED, *["random"] * 10]
    rng.shuffle(kinds)
    log, last = run.with_suffix(".log"), 0
    for number, kind in enumerate(["random", *kinds]):  # the first one starts the run
        start = [*SETTINGS, "--steps", "1000000", "--out", str(run)]
        arguments = start if number == 0 else ["--resume", str(run)]
        log.unlink(missing_ok=True)
        child = life(run, log, FORCED.get(kind), arguments)
        if kind == "random":
            if number == 0:
                wait_for_announcement(log, child)
            time.sleep(rng.uniform(0.0, 0.4))
            os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        last = max(last, announced(log))
        found = checkpoints.load(checkpoints.find(run)[1])
        report = {
            "kind": kind,
            "killed": os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL,
            "announced": last,
            "found": found.steps,
            "counters": found.documents["counters"]["steps"],
            "algorithm": int(found.arrays["algorithm"].arrays["steps"]),
        }
        print(json.dumps(report), flush=True)
        if not report["killed"]:
            print(log.read_text(), file=sys.stderr)
            return


def finish(run: Path) -> None:
    """One more life that nothing kills, and the same run without a kill."""
    steps = checkpoints.load(checkpoints.find(run)[1]).steps + 64
    log = run.with_suffix(".log")
    twin = run.with_name("twin")
    for arguments in (
        ["--resume", str(run), "--steps", str(steps)],
        [*SETTINGS, "--steps", str(steps), "--out", str(twin)],
    ):
        _, status = os.waitpid(life(run, log, None, arguments), 0)
        print(json.dumps({"kind": "finish", "status": status}), flush=True)
        if status:
            print(log.read_text(), file=sys.stderr)


if __name__ == "__main__":
    torch.set_num_threads(1)
    kill_again_and_again(Path(sys.argv[1]), int(sys.argv[2]))
    finish(Path(sys.argv[1]))
