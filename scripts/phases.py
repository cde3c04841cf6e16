"""Phases of a long command: each is announced, timed, and listed at the end."""

from __future__ import annotations

import contextlib
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path


class Failure(Exception):
    """A phase cannot go on; the message is what the user reads, in one line."""


class Phases:
    """Announces phases as they start and remembers how long each took."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextlib.contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Announce ``name``, run the block, and record its time, also where it fails."""
        print(f"==> {name}", flush=True)
        start = time.monotonic()
        try:
            yield
        finally:
            self.seconds[name] = time.monotonic() - start
            print(f"    {self.seconds[name]:.1f} s", flush=True)

    def summary(self) -> str:
        """One line per phase, longest name aligned, and the total."""
        total = sum(self.seconds.values())
        rows = [*self.seconds.items(), ("total", total)]
        width = max(len(name) for name, _ in rows)
        return "\n".join(f"    {name:<{width}}  {seconds:7.1f} s" for name, seconds in rows)


def run(command: list[str | Path], *, env: dict[str, str] | None = None, why: str) -> None:
    """Run a command, shown before it starts; Failure with ``why`` where it does not succeed."""
    words = [str(word) for word in command]
    print(f"    $ {shlex.join(words)}", flush=True)
    try:
        code = subprocess.run(words, env=env, check=False).returncode
    except OSError as error:
        raise Failure(f"{why}: {error}") from None
    if code != 0:
        raise Failure(f"{why} (exit code {code})")


def fail(error: Failure) -> int:
    """Print a failure and return the exit code for it."""
    print(f"\nservorl set-up: {error}", file=sys.stderr)
    return 1
