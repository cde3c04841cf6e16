"""Checkpoint directories: what comes back, what is refused, what stays after a failure."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from servorl import checkpoint as checkpoints
from servorl.checkpoint import ArrayFile, Checkpoint
from servorl.errors import CheckpointError, OutputError, RunFolderError


def make_checkpoint(steps: int) -> Checkpoint:
    arrays = {
        "weights": np.arange(12, dtype=np.float32).reshape(3, 4).T,  # not C-contiguous
        "count": np.array(steps),
        "mask": np.array([True, False]),
        "bytes": np.arange(5, dtype=np.uint8),
        "empty": np.zeros((0, 3)),
    }
    return Checkpoint(
        steps, {"counters": {"x": 0.1 + steps, "none": None}}, {"arrays": ArrayFile(arrays)}
    )


def save_some(run: Path, *steps: int, keep: int = 10) -> Path:
    for number in steps:
        directory = checkpoints.save(run, make_checkpoint(number), keep=keep)
    return directory


def test_everything_comes_back_bit_for_bit(tmp_path: Path) -> None:
    save_some(tmp_path, 64, 128)
    run, directory = checkpoints.find(tmp_path)
    assert (run, directory.name) == (tmp_path, "000000000128")
    loaded, saved = checkpoints.load(directory), make_checkpoint(128)
    assert loaded.steps == 128
    assert loaded.documents == saved.documents
    for name, array in saved.arrays["arrays"].arrays.items():
        back = loaded.arrays["arrays"].arrays[name]
        assert back.dtype == array.dtype
        np.testing.assert_array_equal(back, array)


def test_no_pickle_is_written_and_no_temporary_file_stays(tmp_path: Path) -> None:
    directory = save_some(tmp_path, 64)
    assert sorted(path.name for path in directory.iterdir()) == [
        "arrays.safetensors",
        "counters.json",
        "manifest.json",
    ]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["checkpoints", "latest"]
    assert [path.name for path in (tmp_path / "checkpoints").iterdir()] == [directory.name]


def test_old_checkpoints_go_but_the_latest_and_the_best_stay(tmp_path: Path) -> None:
    checkpoints.save(tmp_path, make_checkpoint(1), keep=2, best=True)
    save_some(tmp_path, 2, 3, 4, 5, keep=2)
    assert [int(path.name) for path in checkpoints.list_checkpoints(tmp_path)] == [1, 4, 5]
    assert checkpoints.find(tmp_path, checkpoints.BEST)[1].name.endswith("1")


def flip(position: float) -> Callable[[bytes], bytes]:
    def damage(content: bytes) -> bytes:
        index = min(int(position * len(content)), len(content) - 1)
        return content[:index] + bytes([content[index] ^ 0x01]) + content[index + 1 :]

    return damage


DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    **{f"flip{position}": flip(position) for position in (0.0, 0.1, 0.5, 0.9, 1.0)},
    "empty": lambda content: b"",
    "half": lambda content: content[: len(content) // 2],
    "short": lambda content: content[:-1],
    "long": lambda content: content + b"\n",
    "zeros": lambda content: bytes(len(content)),
    "high bytes": lambda content: b"\xff" * len(content),
}
FILES = ["arrays.safetensors", "counters.json", "manifest.json", "latest"]


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("name", FILES)
def test_a_tampered_file_is_named_with_what_to_do(tmp_path: Path, name: str, damage: str) -> None:
    directory = save_some(tmp_path, 64, 128)
    path = tmp_path / name if name == "latest" else directory / name
    path.write_bytes(DAMAGE[damage](path.read_bytes()))
    with pytest.raises(CheckpointError) as caught:
        checkpoints.load(checkpoints.find(tmp_path)[1])
    assert str(path) in str(caught.value)
    other = "000000000128" if name == "latest" else "000000000064"
    assert f"name another one: {directory.parent / other}" in str(caught.value)
    if name != "latest":  # the other one is whole, and can be named instead
        assert checkpoints.load(checkpoints.find(directory.parent / other)[1]).steps == 64
        with pytest.raises(CheckpointError):  # and a damaged one is, even when named itself
            checkpoints.load(checkpoints.find(directory)[1])


@pytest.mark.parametrize("name", FILES[:3])
def test_a_missing_file_is_named(tmp_path: Path, name: str) -> None:
    directory = save_some(tmp_path, 64)
    (directory / name).unlink()
    with pytest.raises(CheckpointError, match=f"{name}.*there is no other one in this run"):
        checkpoints.load(checkpoints.find(tmp_path)[1])


def test_every_byte_of_the_manifest_and_the_pointer_matters(tmp_path: Path) -> None:
    directory = save_some(tmp_path, 64)
    for path in (directory / "manifest.json", tmp_path / "latest"):
        content = path.read_bytes()
        for index in range(len(content)):
            path.write_bytes(
                content[:index] + bytes([content[index] ^ 0x10]) + content[index + 1 :]
            )
            with pytest.raises(CheckpointError):
                checkpoints.load(checkpoints.find(tmp_path)[1])
        path.write_bytes(content)
    assert checkpoints.load(checkpoints.find(tmp_path)[1]).steps == 64


def test_a_checkpoint_moved_to_another_number_is_refused(tmp_path: Path) -> None:
    directory = save_some(tmp_path, 64)
    moved = directory.with_name("000000000999")
    shutil.copytree(directory, moved)
    with pytest.raises(CheckpointError, match="checksum"):
        checkpoints.load(moved)


def test_a_checkpoint_of_a_later_format_says_so(tmp_path: Path) -> None:
    manifest = save_some(tmp_path, 64) / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"format": 1', '"format": 2'))
    with pytest.raises(CheckpointError, match="format 2; this servorl reads up to 1"):
        checkpoints.load(manifest.parent)


def test_a_manifest_nested_too_deeply_is_damaged(tmp_path: Path) -> None:
    manifest = save_some(tmp_path, 64) / "manifest.json"
    manifest.write_text("[" * 100_000)
    with pytest.raises(CheckpointError, match=r"manifest\.json"):
        checkpoints.load(manifest.parent)


def test_folders_that_are_no_run_are_named(tmp_path: Path) -> None:
    with pytest.raises(RunFolderError, match="is not a folder"):
        checkpoints.find(tmp_path / "nowhere")
    with pytest.raises(RunFolderError, match="no run in it"):
        checkpoints.find(tmp_path)
    (tmp_path / "checkpoints").mkdir()
    with pytest.raises(RunFolderError, match="no checkpoint yet"):
        checkpoints.find(tmp_path)


STAGES = ["fsync", "rename", "replace"]


@pytest.mark.parametrize("stage", STAGES)
def test_a_failing_disk_leaves_the_old_checkpoint_and_no_temporary_file(
    tmp_path: Path, stage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_some(tmp_path, 64)

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, stage, fail)
        with pytest.raises(OutputError, match="No space left on device"):
            save_some(tmp_path, 128)
    checkpoints.clean(tmp_path)
    assert checkpoints.load(checkpoints.find(tmp_path)[1]).steps == 64
    assert [path.name for path in (tmp_path / "checkpoints").iterdir()] == ["000000000064"]
    save_some(tmp_path, 128)
    assert checkpoints.load(checkpoints.find(tmp_path)[1]).steps == 128


def test_stages_happen_in_the_order_that_survives_a_crash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every file is synced before the rename, the folder before the pointer, then pruning."""
    save_some(tmp_path, 64)
    events: list[str] = []

    def spy(module: object, name: str, describe: Callable[..., str]) -> None:
        real = getattr(module, name)
        monkeypatch.setattr(
            module, name, lambda *a, **k: (events.append(describe(*a)), real(*a, **k))[1]
        )

    spy(os, "fsync", lambda fd: f"sync {Path(os.readlink(f'/proc/self/fd/{fd}')).name}")
    spy(os, "rename", lambda source, target: f"rename {source.name}")
    spy(os, "replace", lambda source, target: f"replace {target.name}")
    spy(shutil, "rmtree", lambda path: f"remove {path.name}")
    save_some(tmp_path, 128, keep=1)
    assert events == [
        "sync counters.json",
        "sync arrays.safetensors",
        "sync manifest.json",
        "sync .writing-000000000128",
        "rename .writing-000000000128",
        "sync checkpoints",
        "sync .latest.writing",
        "replace latest",
        f"sync {tmp_path.name}",
        "rename 000000000064",
        "remove .removing-000000000064",
    ]


def test_an_output_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="file"), checkpoints.output_folder(tmp_path / "file"):
        pass
    with pytest.raises(OutputError), checkpoints.output_folder(Path("/proc/servorl")):
        pass
