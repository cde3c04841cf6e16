"""Checkpoints on disk, written in stages of which any may be the last one a process lives through.

    RUN/checkpoints/000000204800/   JSON for configuration and counters, safetensors for arrays,
                                    manifest.json with the size and SHA-256 of each
    RUN/latest, RUN/best            name of a checkpoint and the SHA-256 of its manifest

``save`` writes the files under a temporary name, makes them durable, renames the directory,
replaces the pointers, and only then removes old checkpoints. ``load`` believes nothing that does
not match its checksum. No pickle is read or written.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from servorl.errors import CheckpointError, OutputError, RunFolderError

FORMAT = 1
CHECKPOINTS = "checkpoints"
LATEST = "latest"
BEST = "best"
MANIFEST = "manifest.json"
_WRITING = ".writing-"
_REMOVING = ".removing-"
_NAME = re.compile(r"\d{12}")
_POINTER = re.compile(r"(\d{12}) ([0-9a-f]{64})\n")

Arrays = Mapping[str, NDArray[Any]]


@dataclass(frozen=True)
class ArrayFile:
    """One safetensors file: named arrays, and text for its header."""

    arrays: Arrays
    metadata: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Checkpoint:
    """What a checkpoint holds: ``NAME.json`` documents and ``NAME.safetensors`` arrays."""

    steps: int
    """Environment steps taken so far; the checkpoint's number."""
    documents: Mapping[str, Any]
    arrays: Mapping[str, ArrayFile]


def name_of(steps: int) -> str:
    """Name of the checkpoint directory written after ``steps`` environment steps."""
    return f"{steps:012d}"


def save(run: Path, checkpoint: Checkpoint, *, keep: int, best: bool = False) -> Path:
    """Write a checkpoint, point ``latest`` (and ``best``) at it, and keep the newest ``keep``.

    Returns its directory once it is durable. Raises OutputError where it cannot be written; the
    checkpoints that were there are then still there, and no temporary file is left.
    """
    try:
        staging = write_files(run, checkpoint)
        directory = publish(staging, run / CHECKPOINTS / name_of(checkpoint.steps))
        point(run, LATEST, directory)
        if best:
            point(run, BEST, directory)
        prune(run, keep)
    except OSError as error:
        with suppress(OSError, CheckpointError):
            clean(run)
        raise OutputError(f"cannot write a checkpoint under {run}: {error}") from error
    return directory


def write_files(run: Path, checkpoint: Checkpoint) -> Path:
    """First stage: every file and the manifest, durable, under a temporary name."""
    from safetensors.numpy import save as to_bytes

    staging = run / CHECKPOINTS / f"{_WRITING}{name_of(checkpoint.steps)}"
    if staging.exists():
        shutil.rmtree(staging)
    staging.mkdir(parents=True)
    files: dict[str, dict[str, Any]] = {}

    def add(name: str, content: bytes) -> None:
        files[name] = {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
        write_durably(staging / name, content)

    for name, document in checkpoint.documents.items():
        add(f"{name}.json", to_json(document))
    for name, file in checkpoint.arrays.items():
        contiguous = {key: np.ascontiguousarray(array) for key, array in file.arrays.items()}
        shaped = {key: array.reshape(file.arrays[key].shape) for key, array in contiguous.items()}
        add(f"{name}.safetensors", to_bytes(shaped, metadata=dict(file.metadata)))
    write_durably(staging / MANIFEST, _manifest(checkpoint.steps, files))
    sync_directory(staging)
    return staging


def publish(staging: Path, directory: Path) -> Path:
    """Second stage: the complete directory takes its final name, durably."""
    if directory.exists():  # left by a process that was killed before it moved the pointer
        _remove(directory)
    os.rename(staging, directory)
    sync_directory(directory.parent)
    return directory


def point(run: Path, pointer: str, directory: Path) -> None:
    """Third stage: replace the small file ``latest`` or ``best``, atomically and durably."""
    digest = hashlib.sha256((directory / MANIFEST).read_bytes()).hexdigest()
    replace_durably(run / pointer, f"{directory.name} {digest}\n".encode())


def prune(run: Path, keep: int) -> None:
    """Last stage: remove all but the newest ``keep`` checkpoints and those pointed at."""
    pointed = {_read_pointer(run, pointer)[0] for pointer in (LATEST, BEST) if has(run, pointer)}
    for directory in list_checkpoints(run)[:-keep]:
        if directory.name not in pointed:
            _remove(directory)


def clean(run: Path) -> None:
    """Remove what a killed process left: temporary files, and checkpoints never pointed at.

    A checkpoint newer than ``latest`` was never announced; a resumed run writes it again.
    """
    for path in [*run.glob(".*.writing"), *(run / CHECKPOINTS).glob(".*")]:
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
    newest = _read_pointer(run, LATEST)[0] if has(run, LATEST) else ""
    for directory in list_checkpoints(run):
        if directory.name > newest:
            _remove(directory)
    if has(run, BEST) and not (run / CHECKPOINTS / _read_pointer(run, BEST)[0]).is_dir():
        (run / BEST).unlink()


def has(run: Path, pointer: str = LATEST) -> bool:
    """Whether the run has that pointer."""
    return (run / pointer).is_file()


def list_checkpoints(run: Path) -> list[Path]:
    """The complete checkpoint directories of a run, oldest first."""
    folder = run / CHECKPOINTS
    if not folder.is_dir():
        return []
    return sorted(path for path in folder.iterdir() if _NAME.fullmatch(path.name))


def find(path: Path, pointer: str = LATEST) -> tuple[Path, Path]:
    """The run folder and the checkpoint directory that ``path`` means.

    ``path`` is a run, whose ``pointer`` is followed, or one checkpoint directory of a run.
    Raises RunFolderError where it is neither, CheckpointError where the pointer leads nowhere.
    """
    if path.parent.name == CHECKPOINTS and _NAME.fullmatch(path.name) and path.is_dir():
        return path.parent.parent, path
    if not path.is_dir():
        raise RunFolderError(f"{path} is not a folder; name one that servorl train has written")
    if not has(path, pointer) and (unmarked := list_checkpoints(path)):
        raise RunFolderError(
            f"{path} holds checkpoints, but no file named {pointer!r} that marks one; name one of "
            f"them, such as {unmarked[-1]}"
        )
    if not has(path, pointer):
        reason = "no checkpoint yet" if (path / CHECKPOINTS).is_dir() else "no run in it"
        raise RunFolderError(f"{path} has {reason} (no file named {pointer!r})")
    name, digest = _read_pointer(path, pointer)
    directory = path / CHECKPOINTS / name
    if not directory.is_dir():
        raise _damaged(path / pointer, f"it names {name}, which is not there", directory)
    _read_manifest(directory)
    if hashlib.sha256((directory / MANIFEST).read_bytes()).hexdigest() != digest:
        reason = f"its checksum is not that of {name}"
        raise _damaged(path / pointer, reason, path / CHECKPOINTS / "none")
    return path, directory


def load(directory: Path) -> Checkpoint:
    """Read one checkpoint directory; raises CheckpointError naming the file that does not match."""
    from safetensors import SafetensorError, safe_open

    steps, files = _read_manifest(directory)
    documents: dict[str, Any] = {}
    arrays: dict[str, ArrayFile] = {}
    for name, expected in files.items():
        path = directory / name
        try:
            content = path.read_bytes()
        except OSError as error:
            raise _damaged(path, f"cannot be read ({error.strerror})", directory) from error
        if len(content) != expected["bytes"]:
            reason = f"{len(content)} bytes long where {expected['bytes']} were written"
            raise _damaged(path, reason, directory)
        if hashlib.sha256(content).hexdigest() != expected["sha256"]:
            raise _damaged(path, "its checksum does not match", directory)
        try:
            if path.suffix == ".json":
                documents[path.stem] = json.loads(content)
                continue
            with safe_open(path, framework="np") as file:
                tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
                arrays[path.stem] = ArrayFile(tensors, file.metadata() or {})
        except (ValueError, SafetensorError) as error:
            raise _damaged(path, f"cannot be parsed ({error})", directory) from error
    return Checkpoint(steps, documents, arrays)


def to_json(document: Any) -> bytes:
    """The one text that a document has; numbers come back bit for bit."""
    return (json.dumps(document, indent=2, sort_keys=True, allow_nan=False) + "\n").encode()


def write_durably(path: Path, content: bytes) -> None:
    """Write a file and wait until the disk has it."""
    with open(path, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def replace_durably(path: Path, content: bytes) -> None:
    """Replace a file in one step: a reader, or a crash, sees the old content or the new."""
    temporary = path.with_name(f".{path.name}.writing")
    write_durably(temporary, content)
    os.replace(temporary, path)
    sync_directory(path.parent)


def sync_directory(directory: Path) -> None:
    """Wait until the disk has a directory's entries."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def output_folder(path: Path) -> Iterator[Path]:
    """Create ``path`` and prove that it can be written, before work whose result goes there.

    Raises OutputError otherwise, and also for an OSError in the body.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
        probe = path / ".probe.writing"
        write_durably(probe, b"")
        probe.unlink()
        sync_directory(path.parent)
        yield path
    except OSError as error:
        raise OutputError(f"cannot write to {path}: {error.strerror or error}") from error


def _remove(directory: Path) -> None:
    """Remove a checkpoint so that a kill half-way never leaves a part of it under its name."""
    doomed = directory.with_name(f"{_REMOVING}{directory.name}")
    os.rename(directory, doomed)
    shutil.rmtree(doomed)


def _manifest(steps: int, files: Mapping[str, Any]) -> bytes:
    """The manifest's only possible text, so that any byte changed in it shows."""
    body = {"format": FORMAT, "steps": steps, "files": files}
    return to_json({**body, "sha256": hashlib.sha256(to_json(body)).hexdigest()})


def _read_manifest(directory: Path) -> tuple[int, dict[str, Any]]:
    path = directory / MANIFEST
    try:
        text = path.read_bytes()
        manifest = json.loads(text)
        version, steps, files = (manifest[key] for key in ("format", "steps", "files"))
        intact = text == _manifest(steps, files) and directory.name == name_of(steps)
    except OSError as error:
        raise _damaged(path, f"cannot be read ({error.strerror})", directory) from error
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise _damaged(path, f"cannot be parsed ({error})", directory) from error
    if isinstance(version, int) and version > FORMAT:
        raise CheckpointError(f"{path} has format {version}; this servorl reads up to {FORMAT}")
    if not intact or any(Path(name).name != name for name in files):
        raise _damaged(path, "its checksum does not match", directory)
    return steps, files


def _read_pointer(run: Path, pointer: str) -> tuple[str, str]:
    path = run / pointer
    match = _POINTER.fullmatch(path.read_bytes().decode("ascii", "replace"))
    if match is None:
        raise _damaged(path, "is not a checkpoint's name and checksum", run / CHECKPOINTS / "none")
    return match[1], match[2]


def _damaged(path: Path, reason: str, directory: Path) -> CheckpointError:
    """An error that names the file and the checkpoints that could be used instead."""
    others = [other for other in list_checkpoints(directory.parent.parent) if other != directory]
    remedy = f"name another one: {others[-1]}" if others else "there is no other one in this run"
    return CheckpointError(f"damaged checkpoint: {path}: {reason}; {remedy}")
