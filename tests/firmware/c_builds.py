"""Compiling and running exported C in tests."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

from servorl.export.boards import FOLDER, load_board
from servorl.export.debugger import Debugger
from servorl.export.elf import Image

STRICT = ("-Wall", "-Wextra", "-Wconversion", "-Wdouble-promotion", "-pedantic", "-Werror")
BOARD = load_board("cortex-m4f")
ARM = (BOARD.compiler, *BOARD.flags)
LANGUAGES = {
    "gcc": ("gcc", "-std=c99"),
    "g++": ("g++", "-x", "c++", "-std=c++17"),
    "clang": ("clang", "-std=c99"),
    "clang++": ("clang++", "-x", "c++", "-std=c++17"),
    "arm-gcc": (*ARM, "-std=c99"),
    "arm-g++": (*ARM, "-x", "c++", "-std=c++17"),
}

MAIN = """
#include "policy.h"
#include <stdio.h>
int main(void)
{
  static policy_state state;
  policy_status status = policy_init(&state);
  if (status == POLICY_OK) {
    status = policy_selftest(&state);
  }
  printf("%s", policy_hash());
  return (int)status;
}
"""

CHIP_MAIN = """
#include "harness.h"
#include "policy.h"
volatile uint32_t result = 99;
static policy_state state;
void harness_run(void)
{
  policy_init(&state);
  result = (uint32_t)policy_selftest(&state);
  board_notify();
  for (;;) {
  }
}
void harness_fault(void)
{
  result = 98;
  board_notify();
}
"""


def compile_c(command: Sequence[str | Path]) -> None:
    """Run a compiler; its messages are the assertion's."""
    result = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""


def compile_fails(command: Sequence[str | Path]) -> str:
    """Run a compiler that must fail; returns its messages."""
    result = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    assert result.returncode != 0
    return result.stderr


def run_program(path: Path) -> tuple[int, str]:
    """Exit code and standard output; anything on standard error fails."""
    result = subprocess.run([str(path)], capture_output=True, text=True, timeout=60)
    assert result.stderr == ""
    return result.returncode, result.stdout


def selftest_on_chip(folder: Path, output: Path, flags: Sequence[str]) -> int:
    """Build an image that runs ``policy_selftest`` on the emulated chip; returns the status."""
    main = output.with_suffix(".c")
    main.write_text(CHIP_MAIN)
    sources = [main, folder / "policy.c", *sorted(BOARD.folder.glob("*.c"))]
    link = ["-nostdlib", "-T", BOARD.folder / "linker.ld", "-o", output]
    compile_c([*ARM, "-std=c99", *flags, f"-I{FOLDER}", f"-I{folder}", *link, *sources])
    command = [BOARD.emulator, "-M", BOARD.machine, "-kernel", str(output)]
    command += ["-nodefaults", "-display", "none", "-monitor", "none", "-nic", "none", "-S"]
    with Debugger(command) as debugger:
        debugger.run_until_notified()
        address = Image(output).symbol("result").address
        return int.from_bytes(debugger.read_memory(address, 4), "little")
