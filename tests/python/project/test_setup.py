"""The set-up scripts: what is due, what is left alone, what is said where something is missing."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

SCRIPTS = Path(__file__).parents[3] / "scripts"
CPU = ["filelock", "sympy>=1.13.3", "networkx"]
CUDA = [*CPU, 'nvidia-cudnn-cu13==9.20.0.48; platform_system == "Linux"']


@pytest.fixture
def scripts(monkeypatch: pytest.MonkeyPatch) -> Iterator[SimpleNamespace]:
    """The modules of scripts/, imported anew as its programs import them."""
    names = ("phases", "system_packages", "torch_build", "setup")
    monkeypatch.syspath_prepend(str(SCRIPTS))
    for name in names:
        monkeypatch.delitem(sys.modules, name, raising=False)
    yield SimpleNamespace(**{name: importlib.import_module(name) for name in names})
    for name in names:
        sys.modules.pop(name, None)


@pytest.fixture
def commands(
    scripts: SimpleNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> list[str]:
    """A clone with a complete set-up in ``tmp_path``; the commands that set-up would run."""
    setup: ModuleType = scripts.setup
    ran: list[str] = []

    def record(command: list[Any], **_: Any) -> None:
        ran.append(" ".join(map(str, command)))

    for folder in ("csrc", "envs", "cmake"):
        (tmp_path / folder).mkdir()
    (tmp_path / "CMakeLists.txt").write_text("project(servorl)")
    (tmp_path / "constraints.txt").write_text("torch==2.13.0\n")
    (tmp_path / "pyproject.toml").write_text(
        '[build-system]\nrequires = ["pybind11"]\n[project]\ndependencies = ["numpy"]\n'
        'optional-dependencies = {dev = ["pytest"]}\n'
    )
    (tmp_path / ".venv").mkdir()
    monkeypatch.setattr(setup, "ROOT", tmp_path)
    monkeypatch.setattr(setup, "CONSTRAINTS", tmp_path / "constraints.txt")
    monkeypatch.setattr(setup, "STAMP", tmp_path / ".venv" / "stamp.json")
    monkeypatch.setattr(setup, "_environment_works", lambda: True)
    monkeypatch.setattr(setup, "install_cpu_torch", lambda *_: ran.append("torch"))
    monkeypatch.setattr(setup, "run", record)
    monkeypatch.setattr(scripts.system_packages, "missing", lambda needs: [])
    set_up(scripts)
    assert ran
    ran.clear()
    return ran


def set_up(scripts: SimpleNamespace, *, dev: bool = False) -> None:
    scripts.setup.set_up(scripts.phases.Phases(), dev=dev, torch_index="")


def test_the_second_time_nothing_is_run(scripts: SimpleNamespace, commands: list[str]) -> None:
    set_up(scripts)
    assert commands == []


def test_a_change_in_cpp_recompiles_without_an_index(
    scripts: SimpleNamespace, commands: list[str], tmp_path: Path
) -> None:
    (tmp_path / "csrc" / "new.cpp").write_text("int x;")
    set_up(scripts)
    (compile_command,) = commands
    for flag in ("--no-index", "--no-deps", "--no-build-isolation", "--editable"):
        assert flag in compile_command
    commands.clear()
    set_up(scripts)
    assert commands == []


def test_a_change_of_requirements_installs_them(
    scripts: SimpleNamespace, commands: list[str], tmp_path: Path
) -> None:
    (tmp_path / "constraints.txt").write_text("torch==2.14.0\n")
    set_up(scripts)
    assert commands[0] == "torch"
    assert commands[1].endswith("pybind11 numpy")


def test_the_test_tools_are_added_once(scripts: SimpleNamespace, commands: list[str]) -> None:
    set_up(scripts, dev=True)
    assert commands[1].endswith("pybind11 numpy pytest")
    assert not any("--editable" in command for command in commands)
    commands.clear()
    set_up(scripts, dev=True)
    set_up(scripts)
    set_up(scripts, dev=True)
    assert commands == []


def test_a_failed_step_is_done_again(
    scripts: SimpleNamespace, commands: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(command: list[Any], why: str, **_: Any) -> None:
        raise scripts.phases.Failure(why)

    (tmp_path / "csrc" / "new.cpp").write_text("int x")
    with monkeypatch.context() as broken:
        broken.setattr(scripts.setup, "run", fail)
        with pytest.raises(scripts.phases.Failure, match="does not compile"):
            set_up(scripts)
    set_up(scripts)
    assert len(commands) == 1


@pytest.mark.parametrize(("requirements", "cuda"), [(CPU, False), (CUDA, True), (None, False)])
def test_a_cuda_build_is_known_by_its_requirements(
    requirements: list[str] | None, cuda: bool, scripts: SimpleNamespace
) -> None:
    assert scripts.torch_build.needs_cuda({"requires_dist": requirements}) is cuda


def offer(
    scripts: SimpleNamespace, monkeypatch: pytest.MonkeyPatch, requirements: list[str]
) -> list[str]:
    """An index that offers one build of torch, on a Linux without an NVIDIA driver."""
    metadata = {"version": "2.13.0", "requires_dist": requirements}
    report = json.dumps({"install": [{"metadata": metadata}]})
    asked: list[str] = []

    def answer(command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        asked.append(" ".join(command))
        return subprocess.CompletedProcess(command, 0, report, "")

    module = scripts.torch_build
    monkeypatch.setattr(module, "has_nvidia_driver", lambda: False)
    monkeypatch.setattr(module, "_is_installed", lambda *_: False)
    monkeypatch.setattr(module.subprocess, "run", answer)
    monkeypatch.setattr(module.sys, "platform", "linux")
    return asked


def test_a_cuda_build_alone_stops_before_anything_is_installed(
    scripts: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = offer(scripts, monkeypatch, CUDA)
    with pytest.raises(scripts.phases.Failure, match="TORCH_INDEX=<URL>") as caught:
        scripts.torch_build.install_cpu_torch(Path("python"), Path("constraints.txt"), "")
    assert "\n" not in str(caught.value)
    assert "--dry-run" in asked[0]


def test_a_cpu_build_is_taken_from_the_index_at_hand(
    scripts: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    offer(scripts, monkeypatch, CPU)
    scripts.torch_build.install_cpu_torch(Path("python"), Path("constraints.txt"), "")


def test_a_named_index_is_the_one_that_torch_comes_from(
    scripts: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[str] = []
    monkeypatch.setattr(
        scripts.torch_build, "run", lambda command, why: ran.append(" ".join(map(str, command)))
    )
    url = "https://index.example/cpu"
    scripts.torch_build.install_cpu_torch(Path("python"), Path("constraints.txt"), url)
    assert f"--index-url {url} torch" in ran[0]


def test_without_an_administrator_the_line_is_printed(
    scripts: SimpleNamespace, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    module = scripts.system_packages
    monkeypatch.setattr(module, "_privilege", lambda: None)
    optional = module.Need("QEMU", ("qemu-system-arm",), lambda: False, "the proof on a chip")
    module.install([optional])
    printed = capsys.readouterr().out
    assert "sudo apt-get install -y qemu-system-arm" in printed
    assert "left out: the proof on a chip" in printed
    required = module.Need("a compiler", ("g++",), lambda: False, "")
    with pytest.raises(scripts.phases.Failure, match=r"install g\+\+"):
        module.install([required])


def test_this_machine_lacks_nothing(scripts: SimpleNamespace) -> None:
    assert scripts.system_packages.missing(scripts.system_packages.NEEDS) == []


def test_an_old_python_is_named(
    scripts: SimpleNamespace, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(scripts.setup.sys, "version_info", (3, 9, 2))
    monkeypatch.setattr(sys, "argv", ["setup.py"])
    assert scripts.setup.main() == 1
    assert "Python 3.11, 3.12 or 3.13 is needed" in capsys.readouterr().err


def test_constraints_pin_every_requirement() -> None:
    import tomllib

    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    root = SCRIPTS.parent
    project = tomllib.loads((root / "pyproject.toml").read_text())
    lines = (root / "constraints.txt").read_text().splitlines()
    pinned = dict(line.split("==") for line in lines if "==" in line)
    versions = {canonicalize_name(name): version for name, version in pinned.items()}
    assert versions["torch"] == "2.13.0"
    required = [
        *project["build-system"]["requires"],
        *project["project"]["dependencies"],
        *project["project"]["optional-dependencies"]["dev"],
    ]
    for line in required:
        requirement = Requirement(line)
        assert requirement.specifier.contains(versions[canonicalize_name(requirement.name)])
