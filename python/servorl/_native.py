"""The one door to the compiled module: ``from servorl._native import core``.

The extension is linked against the library of one exact ``mujoco`` version. Loading it beside
another one would fail in the dynamic linker or, worse, read structures of another layout, so the
versions are compared first.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
from pathlib import Path

from servorl.errors import NativeModuleError

_REBUILD = "rebuild it: pip install --force-reinstall --no-deps servorl (in a clone: make install)"


def resource_root() -> Path:
    """The folder that holds the extension and, beside it, ``envs/`` and ``include/``.

    Raises:
        NativeModuleError: the extension is not installed.
    """
    spec = importlib.util.find_spec("servorl._core")
    if spec is None or spec.origin is None:
        raise NativeModuleError(f"servorl's compiled module is missing; {_REBUILD}")
    return Path(spec.origin).parent


def check_mujoco(root: Path) -> str:
    """Compare the installed ``mujoco`` with the one that the extension in ``root`` was built for.

    Returns the common version. Raises NativeModuleError, saying what to do, where they differ.
    """
    try:
        built_for = json.loads((root / "build_info.json").read_text())["mujoco"]
    except (OSError, ValueError, KeyError) as error:
        raise NativeModuleError(
            f"{root / 'build_info.json'} does not say which mujoco servorl was built for "
            f"({error}); {_REBUILD}"
        ) from None
    try:
        installed = importlib.metadata.version("mujoco")
    except importlib.metadata.PackageNotFoundError:
        raise NativeModuleError(
            f"mujoco is not installed; install the one servorl was built for: "
            f"pip install mujoco=={built_for}"
        ) from None
    if installed != built_for:
        raise NativeModuleError(
            f"servorl was built for mujoco {built_for}, but {installed} is installed; "
            f"install that one (pip install mujoco=={built_for}) or {_REBUILD}"
        )
    return str(built_for)


check_mujoco(resource_root())
try:
    import servorl._core as core
except ImportError as load_error:
    raise NativeModuleError(
        f"servorl's compiled module does not load: {load_error}; {_REBUILD}"
    ) from load_error

__all__ = ["check_mujoco", "core", "resource_root"]
