"""The generated C compiles without a warning everywhere, and computes the same function there."""

from __future__ import annotations

import dataclasses
import json
import subprocess
from pathlib import Path

import pytest
from c_builds import (
    ARM,
    LANGUAGES,
    MAIN,
    STRICT,
    compile_c,
    compile_fails,
    run_program,
    selftest_on_chip,
)
from example_policies import make_graph, make_task

from servorl.export import export

ACTIVATIONS = ["tanh", "relu", "elu", "linear"]
LEVELS = ["-O0", "-O2", "-O3", "-Os"]


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_compiles_without_a_warning(exports, tmp_path: Path, language: str, activation: str):
    for level in LEVELS if activation == "tanh" else ["-O2"]:
        output = ["-c", exports[activation] / "policy.c", "-o", tmp_path / "policy.o"]
        compile_c([*LANGUAGES[language], *STRICT, level, *output])


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("compiler", ["gcc", "clang"])
@pytest.mark.parametrize("level", LEVELS)
def test_selftest_passes_with_contraction(
    exports, tmp_path: Path, compiler: str, level: str, activation: str
):
    folder = exports[activation]
    (tmp_path / "main.c").write_text(MAIN)
    flags = [level, "-march=native", "-ffp-contract=fast", f"-I{folder}"]
    program = tmp_path / "program"
    compile_c([compiler, *flags, "-o", program, tmp_path / "main.c", folder / "policy.c"])
    digest = json.loads((folder / "policy.json").read_text())["hash"]
    assert run_program(program) == (0, digest)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_clean_under_sanitizers(exports, tmp_path: Path, activation: str):
    folder = exports[activation]
    (tmp_path / "main.c").write_text(MAIN)
    flags = ["-O1", "-g", "-fsanitize=address,undefined,float-cast-overflow"]
    flags += ["-fno-sanitize-recover=all", f"-I{folder}"]
    program = tmp_path / "program"
    compile_c(["gcc", *flags, "-o", program, tmp_path / "main.c", folder / "policy.c"])
    assert run_program(program)[0] == 0


@pytest.mark.parametrize("level", ["-O0", "-O2", "-O3", "-Os"])
@pytest.mark.parametrize("activation", ["tanh", "elu"])
def test_selftest_passes_on_the_chip(exports, tmp_path: Path, level: str, activation: str):
    flags = [level, "-ffreestanding", "-fno-builtin"]
    assert selftest_on_chip(exports[activation], tmp_path / "selftest.elf", flags) == 0


@pytest.mark.parametrize("compiler", [("gcc",), ("clang",), ARM])
@pytest.mark.parametrize("level", LEVELS)
def test_needs_nothing_from_outside(exports, tmp_path: Path, compiler, level: str):
    """No call of memcpy, memset or libm, even a hidden one."""
    output = tmp_path / "policy.o"
    flags = ["-std=c99", level, "-ffreestanding", "-fno-builtin", "-fno-stack-protector"]
    for folder in exports.values():
        compile_c([*compiler, *flags, "-c", folder / "policy.c", "-o", output])
        undefined = subprocess.run(["nm", "-u", output], capture_output=True, text=True, check=True)
        names = {line.split()[-1] for line in undefined.stdout.splitlines()}
        assert names <= {"_GLOBAL_OFFSET_TABLE_"}


def test_constants_lie_in_flash(exports, tmp_path: Path):
    output = tmp_path / "policy.o"
    compile_c([*ARM, "-O2", "-c", exports["tanh"] / "policy.c", "-o", output])
    sizes = subprocess.run(
        ["arm-none-eabi-size", output], capture_output=True, text=True, check=True
    ).stdout.splitlines()[1]
    _, data, bss = (int(word) for word in sizes.split()[:3])
    assert (data, bss) == (0, 0)


@pytest.mark.parametrize("flag", ["-ffast-math", "-Ofast", "-ffinite-math-only"])
def test_fast_math_is_refused(exports, tmp_path: Path, flag: str):
    message = compile_fails(
        ["gcc", flag, "-c", exports["tanh"] / "policy.c", "-o", tmp_path / "policy.o"]
    )
    assert "without them" in message


def test_a_broken_build_fails_its_selftest(exports, tmp_path: Path):
    """The golden vectors notice one weight that changed."""
    source = (exports["relu"] / "policy.c").read_text()
    start = source.index("relu_layer(float")  # behind the kernels: the first constant follows
    place = source.index("policy_layer0[", start)
    place = source.index("0x1", place)
    (tmp_path / "policy.c").write_text(source[:place] + "0x9" + source[place + 3 :])
    (tmp_path / "main.c").write_text(MAIN)
    program = tmp_path / "program"
    sources = [tmp_path / "main.c", tmp_path / "policy.c"]
    compile_c(["gcc", f"-I{exports['relu']}", "-o", program, *sources])
    assert run_program(program)[0] == 3


@pytest.mark.parametrize("language", ["gcc", "g++", "clang", "clang++"])
def test_any_name_compiles(tmp_path: Path, language: str):
    names = ["obs.0", "1", "class", "main", "a.b", "a_b", "A B", "size", "*/", "\\", "??/", "é", ""]
    graph = make_graph((len(names), 3))
    task = make_task(graph, name="weird */ name\n#error")
    channels = tuple(
        dataclasses.replace(channel, name=name, unit=name)
        for channel, name in zip(task.observation, names, strict=True)
    )
    task = dataclasses.replace(task, observation=channels)
    for prefix in ("policy", "class", "2 legs!", "__init", "a-b.c"):
        folder = export(graph, task, tmp_path / f"p{len(prefix)}", prefix=prefix)
        output = ["-c", folder / "policy.c", "-o", tmp_path / "policy.o"]
        compile_c([*LANGUAGES[language], *STRICT, *output])
