"""The process that draws for ``render.py``: a request on standard input, raw frames on output.

Request: a little-endian uint32 length, that many bytes of JSON (``path`` or ``xml``, ``count``,
``width``, ``height``), then ``count`` float64 positions. Answer: ``count`` RGB frames. Whatever
goes wrong ends the process, its last line on standard error being the reason.
"""

from __future__ import annotations

import contextlib
import json
import os
import struct
import sys
from typing import Any

import numpy as np

WRONG_REQUEST = 2


class _WrongRequest(Exception):
    """The caller's mistake, not the backend's."""


def main() -> int:
    """Draw one request; 0 where every frame was written."""
    request = sys.stdin.buffer.read()
    (length,) = struct.unpack_from("<I", request)
    settings = json.loads(request[4 : 4 + length])
    positions = np.frombuffer(request, np.float64, offset=4 + length)
    # What libraries print must not land between the frames.
    frames_out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    try:
        _draw(settings, positions.reshape(settings["count"], -1), frames_out)
        frames_out.close()
    except Exception as error:
        print(f"{type(error).__name__}: {' '.join(str(error).split())}", file=sys.stderr)
        sys.stderr.flush()
        # A backend that failed may raise again while the interpreter shuts down.
        os._exit(WRONG_REQUEST if isinstance(error, _WrongRequest) else 1)
    return 0


def _draw(settings: dict[str, Any], positions: np.ndarray[Any, Any], frames_out: Any) -> None:
    import mujoco

    # Without a handler, MuJoCo appends its warnings to a file in the working directory.
    mujoco.set_mju_user_warning(lambda text: print(text, file=sys.stderr))
    model = _lit_model(mujoco, settings)
    if positions.shape[1] != model.nq:
        raise _WrongRequest(f"a position has {positions.shape[1]} values, the model {model.nq}")
    width, height = settings["width"], settings["height"]
    model.vis.global_.offwidth = max(width, model.vis.global_.offwidth)
    model.vis.global_.offheight = max(height, model.vis.global_.offheight)
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    camera = _camera(mujoco, model)
    with contextlib.closing(mujoco.Renderer(model, height, width)) as renderer:
        # Shadows and reflections triple the time of a frame on a software renderer.
        renderer.scene.flags[mujoco.mjtRndFlag.mjRND_SHADOW] = 0
        renderer.scene.flags[mujoco.mjtRndFlag.mjRND_REFLECTION] = 0
        for position in positions:
            data.qpos[:] = position
            mujoco.mj_forward(model, data)
            renderer.update_scene(data, camera)
            frames_out.write(renderer.render().tobytes())


def _lit_model(mujoco: Any, settings: dict[str, str]) -> Any:
    """The model, with a light sky and a lamp where it brings none: only the picture changes."""
    if "path" in settings:
        spec = mujoco.MjSpec.from_file(settings["path"])
    else:
        spec = mujoco.MjSpec.from_string(settings["xml"])
    if not any(texture.type == mujoco.mjtTexture.mjTEXTURE_SKYBOX for texture in spec.textures):
        spec.add_texture(
            name="servorl_sky",
            type=mujoco.mjtTexture.mjTEXTURE_SKYBOX,
            builtin=mujoco.mjtBuiltin.mjBUILTIN_GRADIENT,
            rgb1=[0.96, 0.97, 0.99],
            rgb2=[0.72, 0.80, 0.90],
            width=64,
            height=384,
        )
    if not spec.lights:
        spec.worldbody.add_light(pos=[0, -2, 4], dir=[0, 0.4, -1], diffuse=[0.5, 0.5, 0.5])
        spec.visual.headlight.ambient = [0.4, 0.4, 0.4]
    return spec.compile()


def _camera(mujoco: Any, model: Any) -> Any:
    """The model's first camera, or one that sees all of it from the side."""
    if model.ncam > 0:
        return 0
    camera = mujoco.MjvCamera()
    camera.lookat[:] = model.stat.center
    camera.distance = 1.6 * model.stat.extent
    camera.azimuth = 90.0
    camera.elevation = -10.0
    return camera


if __name__ == "__main__":
    sys.exit(main())
