"""A policy on the emulated Cortex-M4F: the same function, its cost, and no trust in its word."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import numpy as np
import pytest
from c_builds import BOARD, compile_c
from example_policies import make_graph, observations

from servorl.errors import VerificationError
from servorl.export import footprint, reference, toolchain
from servorl.export.chip import EmulatedChip, observation_hashes
from servorl.export.elf import Image
from servorl.export.integrity import read_export


@pytest.fixture(scope="module")
def image(exports, tmp_path_factory: pytest.TempPathFactory) -> Image:
    path = tmp_path_factory.mktemp("image") / "policy.elf"
    toolchain.build_image(BOARD, exports["tanh"], "policy", path)
    return Image(path)


@pytest.fixture(scope="module")
def graph(exports):
    return read_export(exports["tanh"]).graph


def test_chip_computes_the_policy(exports, image: Image, graph):
    data = observations(graph, 300)
    unclipped, clipped = reference.evaluate(graph, data)
    with EmulatedChip(BOARD, image, 12, 4) as chip:
        assert chip.hash == json.loads((exports["tanh"] / "policy.json").read_text())["hash"]
        result = chip.infer(data)
    assert np.all(result.status == 0)
    assert np.max(np.abs(result.unclipped - unclipped) / graph.action_scale) <= 2e-6
    assert np.max(np.abs(result.action - clipped) / graph.action_scale) <= 2e-6


def test_cost_is_within_its_bounds_whatever_the_observation(exports, image: Image, graph):
    data = np.concatenate([observations(graph, 60), 100 * observations(graph, 40)])
    with EmulatedChip(BOARD, image, 12, 4) as chip:
        result = chip.infer(data.astype(np.float32))
    assert len(set(result.instructions)) == 1
    assert result.instructions[0] <= 22_200
    document = json.loads((exports["tanh"] / "policy.json").read_text())
    assert 0 < result.stack.max() <= document["memory"]["stack_bound"]
    size = footprint.measure(read_export(exports["tanh"]), BOARD, image)
    assert size.ram == document["memory"]["state"]
    assert document["memory"]["constants"] < size.flash < document["memory"]["constants"] + 1600


def test_not_finite_is_reported_by_the_chip(image: Image, graph):
    data = observations(graph, 20)
    data[7, 3] = np.nan
    data[18, 0] = np.inf
    with EmulatedChip(BOARD, image, 12, 4) as chip:
        result = chip.infer(data)
    assert np.flatnonzero(result.status).tolist() == [7, 18]
    np.testing.assert_array_equal(result.action[[7, 18]], np.zeros((2, 4)))


def test_observation_hash_is_fnv1a():
    data = np.float32([[1.0, -2.5]])
    expected = 2166136261
    for byte in data.tobytes():
        expected = ((expected ^ byte) * 16777619) % (1 << 32)
    assert observation_hashes(data).tolist() == [expected]


def lying_image(folder: Path, source: str) -> Image:
    """An image with the harness's symbols that answers with what ``source`` puts there."""
    main = folder / "main.c"
    main.write_text(
        '#include "harness.h"\n'
        "volatile uint32_t harness_mailbox[2 + 16 * 12 + 2 + 16 * 12];\n"
        "const char *volatile harness_policy_hash;\n"
        "void harness_fault(void) { harness_mailbox[195] = 1; for (;;) { board_notify(); } }\n"
        'void harness_run(void)\n{\n  harness_policy_hash = "none";\n  board_notify();\n'
        f"  for (;;) {{\n{source}\n  }}\n}}\n"
    )
    path = folder / "lying.elf"
    command = [BOARD.compiler, *BOARD.flags, *toolchain.BOARD_FLAGS, "-I", BOARD.folder.parent]
    command += ["-T", BOARD.folder / "linker.ld", "-o", path, main]
    compile_c([*command, *sorted(BOARD.folder.glob("*.c"))])
    return Image(path)


ANSWER = "if (harness_mailbox[0] != harness_mailbox[194]) {{ {} board_notify(); }}"


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (ANSWER.format("harness_mailbox[194] = harness_mailbox[0];"), "another observation"),
        (ANSWER.format("harness_mailbox[194] = harness_mailbox[0] + 5;"), "answered request 6"),
        (ANSWER.format('__asm volatile("udf #0");'), "faulted"),
        ("", "no answer"),
    ],
)
def test_a_chip_that_does_not_do_its_work_is_found_out(tmp_path: Path, source: str, message: str):
    image = lying_image(tmp_path, source)
    with (
        EmulatedChip(BOARD, image, 12, 4, timeout_seconds=3) as chip,
        pytest.raises(VerificationError, match=message),
    ):
        chip.infer(np.ones((1, 12), np.float32))


def test_image_of_another_policy_is_refused(image: Image):
    with pytest.raises(VerificationError, match="not an image of this policy's harness"):
        EmulatedChip(BOARD, image, 13, 4)


def test_images_that_are_none_are_refused(image: Image, tmp_path: Path):
    data = image.path.read_bytes()
    for name, content in {
        "empty": b"",
        "text": b"not an image",
        "64-bit": Path("/proc/self/exe").read_bytes()[:4096],
        "header": data[:40],
        "half": data[: len(data) // 2],
    }.items():
        path = tmp_path / name
        path.write_bytes(content)
        with pytest.raises(VerificationError, match=r"not a 32-bit|truncated"):
            Image(path)


def test_damaged_images_give_clear_errors(image: Image, tmp_path: Path):
    """A flipped byte anywhere in the headers is either harmless or named; it never crashes."""
    data = image.path.read_bytes()
    table = int.from_bytes(data[32:36], "little")
    generator = np.random.default_rng(0)
    path = tmp_path / "damaged.elf"
    for place in [*range(16, 52), *generator.integers(table, len(data), 300)]:
        damaged = bytearray(data)
        damaged[place] ^= 0xFF
        path.write_bytes(damaged)
        with contextlib.suppress(VerificationError):
            Image(path).read("policy_mean", 48)


def test_harness_needs_its_symbols(tmp_path: Path):
    (tmp_path / "main.c").write_text(
        '#include "harness.h"\nvoid harness_run(void) {}\nvoid harness_fault(void) {}\n'
    )
    path = tmp_path / "bare.elf"
    command = [BOARD.compiler, *BOARD.flags, *toolchain.BOARD_FLAGS, "-I", BOARD.folder.parent]
    command += ["-T", BOARD.folder / "linker.ld", "-o", path, tmp_path / "main.c"]
    compile_c([*command, *sorted(BOARD.folder.glob("*.c"))])
    with pytest.raises(VerificationError, match="no symbol harness_mailbox"):
        EmulatedChip(BOARD, Image(path), 12, 4)


def test_make_graph_is_what_the_figures_are_about():
    assert sum(layer.weight.size for layer in make_graph((12, 64, 64, 4)).layers) == 5120
