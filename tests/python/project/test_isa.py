"""The compiled module runs on any x86-64: no AVX instruction outside functions chosen at run time.

Such a function's symbol says for which instruction set it is, ``avx2`` or ``avx512``. The test
disassembles the installed module itself, which therefore keeps its symbols.
"""

from __future__ import annotations

import platform
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from servorl._native import core

X86 = platform.machine() in ("x86_64", "AMD64")

FUNCTION = re.compile(r"^[0-9a-f]+ <(.+)>:$")
INSTRUCTION = re.compile(r"^ +[0-9a-f]+:\t(\S+)\s*(.*)$")
# Every VEX or EVEX mnemonic begins with v, but for mask registers and the integer ones of BMI.
AVX = re.compile(
    r"^v(?!er[rw]$|m(m?call|func|launch|resume|run|load|save|x|read|write|ptr|clear))|^k[a-z]+[bwdq]$"
)
BMI = re.compile(r"^(andn|bextr|bls(i|r|msk)|bzhi|mulx|pdep|pext|rorx|s[ah][lr]x)[lq]?$")
AVX512_ONLY = re.compile(r"%zmm|%[xy]mm(1[6-9]|2\d|3[01])\b|%k[0-7]\b")
FUSED = re.compile(r"^vfn?m(add|sub)")


def instructions(module: Path) -> Iterator[tuple[str, str, str]]:
    """(function, mnemonic, operands) of everything executable in an object file."""
    command = ["objdump", "-d", "--no-show-raw-insn", str(module)]
    listing = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    function = ""
    for line in listing.splitlines():
        if match := FUNCTION.match(line):
            function = match[1]
        elif match := INSTRUCTION.match(line):
            yield function, match[1], match[2]


def violations(module: Path) -> set[str]:
    """Functions that hold instructions which their name does not announce."""
    found = set()
    for function, mnemonic, operands in instructions(module):
        if AVX512_ONLY.search(operands):
            allowed: tuple[str, ...] = ("avx512",)
        elif AVX.match(mnemonic) or BMI.match(mnemonic):
            allowed = ("avx2", "avx512")
        else:
            continue
        if not any(name in function for name in allowed):
            found.add(function)
    return found


def test_no_avx_outside_dispatched_functions() -> None:
    assert violations(Path(core.__file__)) == set()


def test_dispatched_functions_hold_what_their_names_say() -> None:
    """So that an empty set of violations is not the emptiness of a stripped or unread file."""
    if not X86:
        assert core.advantage.supported_isas() == ["baseline"]
        return
    seen = {"ymm": set(), "zmm": set()}
    for function, _, operands in instructions(Path(core.__file__)):
        for register, functions in seen.items():
            if f"%{register}" in operands:
                functions.add(function)
    assert any("avx2" in function for function in seen["ymm"])
    assert any("avx512" in function for function in seen["zmm"])


def test_no_multiply_add_is_fused() -> None:
    """One rounding more or less would make the variants differ in their last bit."""
    fused = {f for f, mnemonic, _ in instructions(Path(core.__file__)) if FUSED.match(mnemonic)}
    assert fused == set()


PLANTED = """
extern "C" {
void plain(float* x, const float* y, float a) { for (int i = 0; i < 64; ++i) x[i] = a * y[i]; }
void with_avx2(float* x, const float* y, float a) { for (int i = 0; i < 64; ++i) x[i] = a * y[i]; }
}
"""


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ([], set()),
        (["-mavx"], {"plain"}),
        (["-mavx2", "-mfma"], {"plain"}),
        (["-mavx512f", "-mprefer-vector-width=512"], {"plain", "with_avx2"}),
    ],
)
def test_a_planted_violation_is_found(flags: list[str], expected: set[str], tmp_path: Path) -> None:
    if not X86:
        return
    (tmp_path / "planted.cpp").write_text(PLANTED)
    command = ["g++", "-O3", *flags, "-shared", "-fPIC", "planted.cpp", "-o", "planted.so"]
    subprocess.run(command, cwd=tmp_path, check=True)
    assert violations(tmp_path / "planted.so") == expected
