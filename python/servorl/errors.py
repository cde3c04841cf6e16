"""Every failure that servorl names, beside ``ValueError`` / ``TypeError`` for wrong arguments.

A message says what was wrong, where, and what to do. ``exit_code`` is what the command line
returns: 2 where the request is wrong, 1 where a file or the machine is.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class ServorlError(Exception):
    """Base of all of servorl's own errors."""

    exit_code = 1


class UnknownNameError(ServorlError, ValueError):
    """A name (environment, algorithm, board, setting …) that servorl does not know."""

    exit_code = 2

    def __init__(self, kind: str, name: str, known: Iterable[str]) -> None:
        known = sorted(known)
        bare = {entry.lstrip("-").lower(): entry for entry in known}
        matches = difflib.get_close_matches(name.lstrip("-").lower(), bare, n=3, cutoff=0.6)
        near = [bare[match] for match in matches]
        hint = f"did you mean {' or '.join(near)}?" if near else f"known: {', '.join(known)}"
        super().__init__(f"unknown {kind} {name!r}; {hint}")


class SettingError(ServorlError, ValueError):
    """A setting whose value has the wrong type or lies outside its range."""

    exit_code = 2


class NativeModuleError(ServorlError, ImportError):
    """The compiled module is absent, or was built for another MuJoCo."""


class ClosedError(ServorlError):
    """An environment was used after ``close()`` or in a forked process."""


class DivergenceError(ServorlError):
    """An environment diverged in the first step after each of three resets in a row."""


class NonFiniteError(ServorlError):
    """A NaN or infinity reached a place from which it would spread; names the tensor."""


class RunFolderError(ServorlError):
    """A folder that was expected to hold a run (or an export) does not."""


class CheckpointError(ServorlError):
    """A checkpoint is truncated, tampered with or of another format."""


class OutputError(ServorlError):
    """An output file or folder cannot be written."""


class DeviceError(ServorlError, RuntimeError):
    """A device was asked for that is not there, or that torch cannot use."""


class MissingToolError(ServorlError):
    """A program or optional package is missing; the message names what to install."""


class VerificationError(ServorlError):
    """The exported policy is not the function that was trained; the message says where."""
