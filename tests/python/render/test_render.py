"""Frames and videos without a display, and what is said where there is no renderer."""

from __future__ import annotations

from pathlib import Path

import imageio.v2 as imageio
import numpy as np
import pytest

from servorl import render
from servorl.errors import MissingToolError, OutputError
from servorl.registry import env_names, model_path

LEFT, RIGHT = [-0.5, 0.0], [0.5, 0.0]


def test_frames_show_the_positions() -> None:
    """The cart's bright pixels move to the right when the cart does."""
    left, right = render.frames("inverted_pendulum", [LEFT, RIGHT], width=96, height=64)
    assert left.shape == (64, 96, 3)
    assert left.dtype == np.uint8
    changed = np.abs(left.astype(int) - right.astype(int)).sum(axis=(0, 2))
    columns = np.flatnonzero(changed > 0)
    assert columns.min() < 48 < columns.max()


@pytest.mark.parametrize("name", env_names())
def test_every_environment_can_be_drawn(name: str) -> None:
    import mujoco

    model = mujoco.MjModel.from_xml_path(str(model_path(name)))
    (frame,) = render.frames(name, [model.qpos0], width=64, height=48)
    assert frame.std() > 5.0


@pytest.mark.parametrize("suffix", [".gif", ".mp4"])
def test_a_video_has_a_frame_per_position(suffix: str, tmp_path: Path) -> None:
    positions = np.linspace(LEFT, RIGHT, 7)
    path = render.record_video(
        tmp_path / f"play{suffix}", "inverted_pendulum", positions, width=64, height=48
    )
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]
    frames = [frame for frame in imageio.get_reader(path)]  # its len() is infinite for videos
    assert len(frames) == len(positions)
    assert frames[0].shape[:2] == (48, 64)


def test_wrong_requests_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"\.mp4 or \.gif"):
        render.record_video(tmp_path / "a.avi", "inverted_pendulum", [LEFT])
    with pytest.raises(ValueError, match="even"):
        render.record_video(tmp_path / "a.gif", "inverted_pendulum", [LEFT], width=33)
    with pytest.raises(OutputError):
        render.record_video(tmp_path / "no" / "a.gif", "inverted_pendulum", [LEFT])
    with pytest.raises(ValueError, match="one or more vectors"):
        list(render.frames("inverted_pendulum", []))
    with pytest.raises(ValueError, match="3 values, the model 2"):
        list(render.frames("inverted_pendulum", [[0.0, 0.0, 0.0]]))
    assert not list(tmp_path.iterdir())


def test_a_machine_without_a_renderer_names_the_packages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MUJOCO_GL", "disabled")
    render.find_backend.cache_clear()
    try:
        with pytest.raises(MissingToolError, match="libegl1"):
            render.record_video(tmp_path / "a.gif", "inverted_pendulum", [LEFT])
    finally:
        render.find_backend.cache_clear()
    assert not list(tmp_path.iterdir())


def test_software_renderers_are_found_by_name() -> None:
    assert render.probe("osmesa") is None
    reason = render.probe("no-such-backend")
    assert reason is not None
    assert "no-such-backend" in reason
    assert "\n" not in reason
