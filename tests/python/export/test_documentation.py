"""The C example of docs/export.md, compiled and run as it stands."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from example_policies import make_graph, make_task

from servorl.export import export
from servorl.export.boards import load_board

PAGE = Path(__file__).parents[3] / "docs" / "export.md"
STRICT = ["-Wall", "-Wextra", "-Wconversion", "-Wdouble-promotion", "-Werror", "-c"]
AROUND = """
#include "policy.h"
#include <math.h>
int control_start(void);
void control_step(void);
static int broken, alarms;
static float last[POLICY_ACTION_SIZE];
void read_sensors(float observation[POLICY_OBSERVATION_SIZE])
{
  for (int i = 0; i < POLICY_OBSERVATION_SIZE; ++i) {
    observation[i] = broken ? NAN : 0.5f;
  }
}
void drive_motors(const float action[POLICY_ACTION_SIZE])
{
  for (int i = 0; i < POLICY_ACTION_SIZE; ++i) {
    last[i] = action[i];
  }
}
void raise_alarm(void)
{
  ++alarms;
}
int main(void)
{
  if (!control_start()) {
    return 1;
  }
  control_step();
  if (alarms != 0 || last[0] == 0.0f) {
    return 2;
  }
  broken = 1;
  control_step();
  return alarms == 1 && last[0] == 0.0f ? 0 : 3;
}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    graph = make_graph((3, 8, 2))
    export(graph, make_task(graph), tmp_path / "export")
    (example,) = re.findall(r"```c\n(.*?)```", PAGE.read_text(), re.DOTALL)
    (tmp_path / "export" / "example.c").write_text(example)
    (tmp_path / "export" / "around.c").write_text(AROUND)
    return tmp_path / "export"


def test_the_example_compiles_without_a_warning(folder: Path):
    board = load_board("cortex-m4f")
    for compiler in (["gcc", "-std=c99"], [board.compiler, *board.flags, "-std=c99"]):
        subprocess.run([*compiler, *STRICT, "example.c"], cwd=folder, check=True)
    cpp = ["g++", "-x", "c++", "-std=c++17"]
    subprocess.run([*cpp, *STRICT, "example.c"], cwd=folder, check=True)


def test_the_example_controls(folder: Path):
    sources = ["example.c", "around.c", "policy.c"]
    subprocess.run(["gcc", "-o", "program", *sources], cwd=folder, check=True)
    assert subprocess.run([folder / "program"], check=False).returncode == 0
