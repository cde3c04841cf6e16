"""Importing servorl: cheap, known to Gymnasium, and never beside the wrong MuJoCo."""

from __future__ import annotations

import importlib.metadata
import json
import subprocess
import sys
from pathlib import Path

import pytest

import servorl
from servorl import _native
from servorl.errors import NativeModuleError


def run_python(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_import_loads_nothing_heavy() -> None:
    heavy = ("torch", "mujoco", "gymnasium", "onnx", "numpy")
    assert (
        run_python(f"import sys, servorl; print([m for m in {heavy} if m in sys.modules])") == "[]"
    )


@pytest.mark.parametrize("name", servorl.__all__)
def test_every_public_name_is_there(name: str) -> None:
    assert getattr(servorl, name) is not None
    assert name in dir(servorl)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'trian'"):
        _ = servorl.trian  # type: ignore[attr-defined]


@pytest.mark.parametrize("order", ["import servorl, gymnasium", "import gymnasium, servorl"])
def test_gymnasium_knows_every_environment(order: str) -> None:
    printed = run_python(
        f"{order}\n"
        "for name in servorl.env_names():\n"
        "    env = gymnasium.make_vec(f'servorl/{name}-v0', num_envs=2)\n"
        "    print(type(env).__module__, env.num_envs)\n"
        "    env.close()\n"
    )
    assert set(printed.splitlines()) == {"servorl.vec_env 2"}


def test_the_loader_that_gymnasium_keeps_is_its_own() -> None:
    printed = run_python("import servorl, gymnasium; print(gymnasium.__spec__.loader)")
    assert "SourceFileLoader" in printed


def test_the_built_version_is_compared(tmp_path: Path) -> None:
    installed = importlib.metadata.version("mujoco")
    info = tmp_path / "build_info.json"
    info.write_text(json.dumps({"mujoco": installed}))
    assert _native.check_mujoco(tmp_path) == installed
    info.write_text(json.dumps({"mujoco": "3.9.9"}))
    with pytest.raises(NativeModuleError, match=r"built for mujoco 3\.9\.9.*pip install mujoco=="):
        _native.check_mujoco(tmp_path)
    info.write_text("{")
    with pytest.raises(NativeModuleError, match="does not say"):
        _native.check_mujoco(tmp_path)


def test_a_missing_mujoco_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> str:
        raise importlib.metadata.PackageNotFoundError(name)

    (tmp_path / "build_info.json").write_text('{"mujoco": "4.0.0"}')
    monkeypatch.setattr(importlib.metadata, "version", missing)
    with pytest.raises(NativeModuleError, match="mujoco is not installed"):
        _native.check_mujoco(tmp_path)


def test_a_missing_extension_says_how_to_rebuild(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_native.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(NativeModuleError, match="rebuild it"):
        _native.resource_root()
