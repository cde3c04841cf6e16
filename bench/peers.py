"""Other libraries, each suite's in a virtual environment of its own under ``.bench/``.

A peer's versions must not change ours, so it never shares our environment: a worker script runs in
the peers' one, reads its request as JSON from standard input, and answers JSON on standard output.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_STAMP = ".requirements"


class PeerUnavailable(Exception):
    """A peer cannot be installed or run on this machine; the message is its row's note."""


@dataclass(frozen=True)
class PeerEnvironment:
    """A virtual environment with a suite's peers installed."""

    python: Path

    def call(self, script: Path, request: object, *, timeout: float = 600.0) -> Any:
        """Run a worker script once: ``request`` to its standard input, its JSON answer back.

        Raises:
            PeerUnavailable: it failed, took longer than ``timeout`` seconds or answered no JSON.
        """
        try:
            done = subprocess.run(
                [str(self.python), str(script)],
                input=json.dumps(request),
                capture_output=True,
                text=True,
                timeout=timeout,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise PeerUnavailable(f"no answer within {timeout:.0f} s") from None
        if done.returncode != 0:
            raise PeerUnavailable(_last_line(done.stderr) or f"exit code {done.returncode}")
        try:
            return json.loads(_last_line(done.stdout))
        except ValueError:
            raise PeerUnavailable("its worker answered no JSON") from None


def prepare(suite: str, requirements: list[str], *, root: Path = Path(".bench")) -> PeerEnvironment:
    """Make, once, the environment of a suite's peers; later calls find it as it is.

    Args:
        suite: Name of the suite; the environment is ``<root>/<suite>``.
        requirements: What pip installs, with exact versions, for example ``envpool==1.2.5``.
        root: The folder of all such environments.

    Raises:
        PeerUnavailable: pip could not install them.
    """
    folder = root.resolve() / suite
    python = folder / "bin" / "python"
    wanted = hashlib.sha256("\n".join([sys.version, *requirements]).encode()).hexdigest()
    stamp = folder / _STAMP
    if stamp.is_file() and stamp.read_text() == wanted:
        return PeerEnvironment(python)
    print(f"installing {' '.join(requirements)} into {folder}", file=sys.stderr)
    _run_or_unavailable([sys.executable, "-m", "venv", "--clear", str(folder)])
    _run_or_unavailable([str(python), "-m", "pip", "install", "-q", *requirements])
    stamp.write_text(wanted)
    return PeerEnvironment(python)


def _run_or_unavailable(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise PeerUnavailable(f"cannot be installed: {_last_line(done.stderr)}")


def _last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1].strip() if lines else ""
