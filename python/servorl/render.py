"""Pictures and videos of an environment, without a display.

MuJoCo binds its OpenGL backend when it is first imported, and a backend that fails leaves its
process in an unclear state. So frames are drawn by a process of their own (``_render_worker.py``),
one backend after another until one works: EGL, OSMesa, GLFW, or the one that ``MUJOCO_GL`` names.
"""

from __future__ import annotations

import functools
import json
import os
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from servorl._render_worker import WRONG_REQUEST
from servorl.errors import MissingToolError, OutputError

BACKENDS = ("egl", "osmesa", "glfw")
PACKAGES = "libegl1 libegl-mesa0 libgl1-mesa-dri libosmesa6"
VIDEO_SUFFIXES = (".mp4", ".gif")
_GIF_MAX_FPS = 50  # players slow down GIFs with a shorter delay than 20 ms
_HEADER = struct.Struct("<I")

Frame = NDArray[np.uint8]


def candidate_backends() -> tuple[str, ...]:
    """The backends to try, in order; ``MUJOCO_GL`` narrows them to one."""
    chosen = os.environ.get("MUJOCO_GL", "").strip().lower()
    return (chosen,) if chosen else BACKENDS


def probe(backend: str) -> str | None:
    """Draw one small frame with a backend; None where that works, else the reason in one line."""
    model = "<mujoco><worldbody><geom size='1'/></worldbody></mujoco>"
    try:
        next(_draw(backend, {"xml": model}, np.zeros((1, 0)), 32, 32))
    except _BackendError as error:
        return str(error)
    return None


@functools.cache
def find_backend() -> str:
    """The first backend that draws on this machine.

    Raises:
        MissingToolError: none does; names the packages to install.
    """
    reasons = []
    for backend in candidate_backends():
        reason = probe(backend)
        if reason is None:
            return backend
        reasons.append(f"{backend}: {reason}")
    raise MissingToolError(
        f"no OpenGL renderer works here ({'; '.join(reasons)}); install Mesa's: "
        f"apt-get install {PACKAGES}"
    )


def frames(
    env_name: str, qpos_sequence: Iterable[Any], width: int = 480, height: int = 360
) -> Iterator[Frame]:
    """Draw an environment's model in a sequence of positions.

    Args:
        env_name: The environment; its ``model_path`` is drawn, through its first camera where it
            has one.
        qpos_sequence: MuJoCo positions, each float64 of length ``nq``.
        width: Pixels.
        height: Pixels.

    Yields:
        One ``[height, width, 3]`` uint8 RGB frame per position.

    Raises:
        MissingToolError: this machine has no OpenGL renderer.
        ValueError: there is no position, or one of another length than ``nq``.
    """
    from servorl.registry import model_path

    positions = np.asarray(list(qpos_sequence), dtype=np.float64)
    if positions.ndim != 2 or len(positions) == 0:
        raise ValueError(f"qpos_sequence must hold one or more vectors, not {positions.shape}")
    request = {"path": str(model_path(env_name))}
    try:
        yield from _draw(find_backend(), request, positions, width, height)
    except _BackendError as error:
        raise MissingToolError(f"drawing {env_name} failed: {error}") from None


def record_video(
    path: Path | str,
    env_name: str,
    qpos_sequence: Iterable[Any],
    *,
    fps: float | None = None,
    width: int = 480,
    height: int = 360,
) -> Path:
    """Write a video of a sequence of positions, whole or not at all.

    Args:
        path: Ends in ``.mp4`` (H.264) or ``.gif``; its folder exists.
        env_name: The environment to draw.
        qpos_sequence: One position per control period.
        fps: Frames per second; real time by default.
        width: Pixels, even.
        height: Pixels, even.

    Raises:
        ValueError: the suffix is neither, or a size is odd.
        MissingToolError: this machine has no OpenGL renderer.
        OutputError: the file cannot be written.
    """
    import imageio.v2 as imageio

    path = Path(path)
    if path.suffix.lower() not in VIDEO_SUFFIXES:
        raise ValueError(f"{path}: a video ends in {' or '.join(VIDEO_SUFFIXES)}")
    if width % 2 or height % 2:
        raise ValueError(f"a video's width and height must be even, not {width} x {height}")
    if not path.parent.is_dir() or path.is_dir():
        raise OutputError(f"{path} cannot be written: its folder does not exist or it is one")
    if fps is None:
        from servorl.registry import task_info

        fps = 1.0 / task_info(env_name).control_period
    gif = path.suffix.lower() == ".gif"
    keep_every = max(1, round(fps / _GIF_MAX_FPS)) if gif else 1
    pictures = frames(env_name, list(qpos_sequence)[::keep_every], width, height)
    try:
        with tempfile.TemporaryDirectory(dir=path.parent, prefix=f".{path.name}.") as scratch:
            written = Path(scratch) / f"video{path.suffix.lower()}"
            if gif:
                delay = 1000.0 * keep_every / fps
                imageio.mimwrite(written, _shared_palette(pictures), duration=delay, loop=0)
            else:
                imageio.mimwrite(written, list(pictures), fps=fps, macro_block_size=2)
            os.replace(written, path)
    except OSError as error:
        raise OutputError(f"{path} cannot be written: {error.strerror or error}") from None
    return path


def _shared_palette(pictures: Iterable[Frame]) -> list[Any]:
    """The frames in 128 colours of the first one: a third of the size, and no flicker."""
    from PIL import Image

    images = [Image.fromarray(picture) for picture in pictures]
    palette = images[0].quantize(128, dither=Image.Dither.NONE)
    return [
        np.asarray(image.quantize(palette=palette, dither=Image.Dither.NONE).convert("RGB"))
        for image in images
    ]


class _BackendError(Exception):
    """A backend did not draw; the message is its reason in one line."""


def _draw(
    backend: str, model: dict[str, str], positions: NDArray[np.float64], width: int, height: int
) -> Iterator[Frame]:
    request = {**model, "count": len(positions), "width": width, "height": height}
    header = json.dumps(request).encode()
    environment = {**os.environ, "MUJOCO_GL": backend}
    command = [sys.executable, "-m", "servorl._render_worker"]
    with (
        tempfile.TemporaryFile() as complaints,
        subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=complaints,
            env=environment,
        ) as worker,
    ):
        assert worker.stdin is not None
        assert worker.stdout is not None
        try:
            # The worker reads all of its request before it draws, so this cannot deadlock.
            _send(worker.stdin, _HEADER.pack(len(header)) + header + positions.tobytes())
            for _ in range(len(positions)):
                data = worker.stdout.read(width * height * 3)
                if len(data) < width * height * 3:
                    wrong_request = worker.wait() == WRONG_REQUEST
                    raise (ValueError if wrong_request else _BackendError)(_reason(complaints))
                yield np.frombuffer(data, np.uint8).reshape(height, width, 3)
        finally:
            worker.kill()


def _send(pipe: IO[bytes], data: bytes) -> None:
    try:
        pipe.write(data)
        pipe.close()
    except BrokenPipeError:
        pass  # the worker has ended; what it printed says why


def _reason(complaints: IO[bytes]) -> str:
    complaints.seek(0)
    lines = complaints.read().decode(errors="replace").strip().splitlines()
    return lines[-1].strip() if lines else "the drawing process ended without a word"
