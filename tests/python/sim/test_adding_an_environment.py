"""The page on adding an environment: its code compiles against the headers, its model loads."""

import re
import subprocess
from pathlib import Path

import mujoco
import pytest

ROOT = Path(__file__).parents[3]
PROGRAM = """
#include "envs/swing_cart/task.hpp"
#include "sim/registry.hpp"
void add() { servorl::register_task<servorl::envs::swing_cart::Task>("swing_cart"); }
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    page = (ROOT / "docs" / "adding-an-environment.md").read_text()
    folder = tmp_path / "envs" / "swing_cart"
    folder.mkdir(parents=True)
    for language, name in (("xml", "model.xml"), ("cpp", "task.hpp"), ("markdown", "card.md")):
        (block,) = re.findall(rf"```{language}\n(.*?)```", page, re.DOTALL)
        (folder / name).write_text(block)
    return folder


def test_the_task_compiles(folder: Path) -> None:
    mujoco_headers = Path(mujoco.__file__).parent / "include"
    includes = [f"-I{path}" for path in (ROOT / "csrc", folder.parents[1], mujoco_headers)]
    command = ["c++", "-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", "-Werror", *includes]
    done = subprocess.run(
        [*command, "-x", "c++", "-"], input=PROGRAM, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_the_model_loads_and_the_card_names_its_channels(folder: Path) -> None:
    model = mujoco.MjModel.from_xml_path(str(folder / "model.xml"))
    assert (model.nq, model.nu) == (2, 1)
    card, task = (folder / "card.md").read_text(), (folder / "task.hpp").read_text()
    names = re.findall(r'\{"(\w+)", "[^"]+"', task)
    assert len(names) >= 6
    for name in names:
        assert f"`{name}" in card
