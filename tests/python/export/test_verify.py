"""The proof: it holds for a true export on every target, and fails for anything that is not one."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from example_policies import environment_policy

from servorl.errors import OutputError, RunFolderError, UnknownNameError
from servorl.export import VerifyReport, export, integrity, packing, verify
from servorl.export.elf import Image

EPISODES = {"inverted_pendulum": 2, "half_cheetah": 5, "pendulum": 5}
ENVIRONMENTS = list(EPISODES)
TARGETS = ["torch", "onnxruntime", "host-c", "cortex-m4f"]


@pytest.fixture(scope="module")
def verified(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, VerifyReport]]:
    """An export of a policy for each environment, and its verification."""
    root = tmp_path_factory.mktemp("verified")
    result = {}
    for name in ENVIRONMENTS:
        folder = export(*environment_policy(name), root / name)
        result[name] = folder, verify(folder, episodes=EPISODES[name])
    return result


@pytest.fixture
def folder(verified, tmp_path: Path) -> Path:
    """A copy of the inverted_pendulum export, with its image, to tamper with."""
    shutil.copytree(verified["inverted_pendulum"][0], tmp_path / "export")
    return tmp_path / "export"


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_every_target_is_the_same_function(verified, name: str):
    _, report = verified[name]
    assert report.problems == []
    assert report.left_out == []
    assert report.ok
    assert [row.target for row in report.rows] == TARGETS
    for row in report.rows:
        assert row.max_error <= 1e-5
        assert row.observations >= 1000
        assert np.isfinite(row.return_mean)


@pytest.mark.parametrize("name", ["inverted_pendulum", "pendulum"])
def test_closed_loop_return_on_the_chip_is_torchs(verified, name: str):
    _, report = verified[name]
    expected = report.row("torch").return_mean
    assert name != "inverted_pendulum" or expected == 1000
    assert report.row("cortex-m4f").return_mean == pytest.approx(expected, rel=0.01)


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_only_the_chip_has_figures_of_a_chip(verified, name: str):
    folder, report = verified[name]
    document = json.loads((folder / "policy.json").read_text())
    for row in report.rows:
        figures = (row.flash, row.ram, row.stack, row.instructions)
        if row.target != "cortex-m4f":
            assert figures == (None, None, None, None)
            continue
        assert document["memory"]["constants"] < row.flash < document["memory"]["constants"] + 2000
        assert row.ram == document["memory"]["state"]
        assert 0 < row.stack <= document["memory"]["stack_bound"]
        assert document["network"]["parameters"] < row.instructions < 30_000


def test_report_json_has_the_promised_form(verified):
    folder, report = verified["half_cheetah"]
    written = json.loads((folder / "report.json").read_text())
    assert written == report.to_json()
    assert written["hash"] == json.loads((folder / "policy.json").read_text())["hash"]
    assert written["ok"] is True
    for row in written["rows"]:
        assert set(row) == {
            "target",
            "max_error",
            "observations",
            "flash",
            "ram",
            "stack",
            "instructions",
            "return_mean",
        }


def test_verifying_again_gives_the_same_report(verified):
    folder = verified["pendulum"][0]
    first = verify(folder, episodes=2, observations=100).to_json()
    assert verify(folder, episodes=2, observations=100).to_json() == first


def flip_bit(path: Path, symbol: str, index: int, bit: int) -> None:
    """Flip one bit of one float behind a symbol of an image."""
    image = Image(path)
    start = image.file_offset(symbol, image.symbol(symbol).size)
    data = bytearray(path.read_bytes())
    data[start + 4 * index + bit // 8] ^= 1 << bit % 8
    path.write_bytes(data)


@pytest.mark.parametrize("bit", [0, 22, 30])
def test_one_flipped_bit_of_a_weight_is_found_and_named(folder: Path, bit: int):
    """Even the lowest bit, which changes no action by more than the tolerance."""
    image = folder / "cortex-m4f.elf"
    layer = integrity.read_export(folder).graph.layers[1]
    packed = packing.pack(layer)
    index = int(np.flatnonzero(packed == layer.weight[3, 5])[0])
    flip_bit(image, "policy_layer1", index, bit)
    report = verify(folder, image=image, episodes=1, observations=64)
    assert not report.ok
    assert json.loads((folder / "report.json").read_text())["ok"] is False
    held = (layer.weight[3, 5:6].view(np.uint32) ^ np.uint32(1 << bit))[0]
    assert (
        f"layer 1 weight row 3 column 5: image has {held.view(np.float32):.9g}"
        in (report.problems[0])
    )


@pytest.mark.parametrize(
    ("symbol", "index", "where"),
    [
        ("policy_mean", 2, "mean[2]"),
        ("policy_inv_std", 0, "inv_std[0]"),
        ("policy_layer0", 1, "layer 0 bias row 1"),
        ("policy_layer2", 0, "layer 2 bias row 0"),
        ("policy_action_scale", 0, "action_scale[0]"),
        ("policy_action_high", 0, "action_high[0]"),
        ("policy_safe_action", 0, "safe_action[0]"),
    ],
)
def test_every_constant_is_checked(folder: Path, symbol: str, index: int, where: str):
    image = folder / "cortex-m4f.elf"
    flip_bit(image, symbol, index, 3)
    findings = integrity.check_constants(integrity.read_export(folder), Image(image))
    assert len(findings) == 1
    assert findings[0].startswith(f"{where}: image has ")


def test_an_untouched_image_passes(folder: Path):
    report = verify(folder, image=folder / "cortex-m4f.elf", episodes=1, observations=32)
    assert report.ok
    assert report.row("cortex-m4f").max_error <= 1e-5


def test_the_image_of_another_policy_fails(folder: Path, tmp_path: Path):
    other = export(*environment_policy("inverted_pendulum", seed=5), tmp_path / "other")
    verify(other, episodes=1, observations=8)
    report = verify(folder, image=other / "cortex-m4f.elf", episodes=1, observations=8)
    text = " ".join(report.problems)
    assert "holds policy" in text
    assert "more constants differ" in text
    assert "at recorded observation" in text


def test_changed_code_in_the_image_fails(folder: Path):
    """A bit of the code itself: found by what the chip answers, whatever that is."""
    image = folder / "cortex-m4f.elf"
    place = Image(image)
    size = place.symbol("servorl_affine").size
    body = place.read("servorl_affine", size)
    data = bytearray(image.read_bytes())
    multiply = body.index(b"\xee")  # the high byte of a floating-point instruction
    data[place.file_offset("servorl_affine", size) + multiply - 1] ^= 0x40
    image.write_bytes(data)
    assert not verify(folder, image=image, episodes=1, observations=32).ok


def edit(path: Path, change: Callable[[str], str]) -> None:
    text = path.read_text()
    changed = change(text)
    assert changed != text
    path.write_text(changed)


@pytest.mark.parametrize(
    ("name", "change", "where"),
    [
        (
            "policy.c",
            lambda text: text.replace("0x1.", "0x1.f", 40),
            "policy.c was changed after the export: line ",
        ),
        (
            "policy.h",
            lambda text: text.replace("_CONTROL_PERIOD ", "_CONTROL_PERIOD 2 * "),
            "policy.h was changed after the export: line ",
        ),
        ("policy.c", lambda text: text + "int x;\n", "goes on after line"),
        (
            "policy.json",
            lambda text: text.replace('"unit": "', '"unit": "k', 1),
            "policy.json was changed after the export: the hash is",
        ),
        (
            "policy.json",
            lambda text: text.replace('"stack_bound": 256', '"stack_bound": 9000'),
            "policy.json was changed after the export: line ",
        ),
    ],
)
def test_changed_files_are_named(folder: Path, name: str, change, where: str):
    edit(folder / name, change)
    report = verify(folder, episodes=1, observations=8)
    assert not report.ok
    assert report.problems[0].startswith(where) or where in report.problems[0]
    assert [row.target for row in report.rows] == TARGETS
    assert all(row.max_error is None for row in report.rows)


def test_a_changed_weight_in_c_is_named_by_its_array(folder: Path):
    weight = re.compile(r"(policy_layer1\[.*?\n.*?\n  )0x", re.DOTALL)
    edit(folder / "policy.c", lambda text: weight.sub(r"\g<1>-0x", text, count=1))
    report = verify(folder, episodes=1, observations=8)
    assert "(policy_layer1) has" in report.problems[0]


def test_a_changed_weight_in_onnx_is_found(folder: Path):
    exported = integrity.read_export(folder)
    value = exported.graph.layers[0].weight[2, 1].tobytes()
    data = (folder / "policy.onnx").read_bytes()
    assert data.count(value) == 1
    changed = bytes([value[0] ^ 1]) + value[1:]
    (folder / "policy.onnx").write_bytes(data.replace(value, changed))
    report = verify(folder, episodes=1, observations=8)
    assert report.problems[0].startswith("policy.onnx was changed after the export")


def test_missing_files_are_named(folder: Path):
    (folder / "policy.c").unlink()
    assert "policy.c cannot be read" in verify(folder).problems[0]
    (folder / "policy.onnx").unlink()
    with pytest.raises(RunFolderError, match=r"policy\.onnx"):
        verify(folder)


def path_without(tools: set[str], folder: Path) -> str:
    """A PATH that holds every program but some."""
    folder.mkdir()
    for directory in os.environ["PATH"].split(os.pathsep):
        for program in Path(directory).glob("*"):
            link = folder / program.name
            if program.name not in tools and not link.is_symlink():
                link.symlink_to(program)
    return str(folder)


@pytest.mark.parametrize("tool", ["arm-none-eabi-gcc", "qemu-system-arm"])
def test_missing_arm_tools_are_named_and_the_rest_is_done(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tool: str
):
    monkeypatch.setenv("PATH", path_without({tool}, tmp_path / "bin"))
    report = verify(folder, episodes=1, observations=64)
    assert report.ok
    (left_out,) = report.left_out
    assert f"cortex-m4f: {tool} not found" in left_out
    for package in ("gcc-arm-none-eabi", "libnewlib-arm-none-eabi", "qemu-system-arm"):
        assert package in left_out
    chip = report.row("cortex-m4f")
    assert (chip.max_error, chip.flash, chip.return_mean) == (None, None, None)
    for target in ("torch", "onnxruntime", "host-c"):
        assert report.row(target).max_error <= 1e-5


def test_a_missing_compiler_is_named_and_the_rest_is_done(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("PATH", path_without({"cc", "gcc", "clang"}, tmp_path / "bin"))
    report = verify(folder, episodes=1, observations=64)
    assert [text.split(":")[0] for text in report.left_out] == ["host-c"]
    assert report.row("cortex-m4f").max_error <= 1e-5


def test_requests_that_are_wrong(folder: Path, tmp_path: Path):
    with pytest.raises(UnknownNameError, match="did you mean cortex-m4f"):
        verify(folder, board="cortex-m4")
    with pytest.raises(ValueError, match="episodes must be at least 1"):
        verify(folder, episodes=0)
    with pytest.raises(RunFolderError, match="neither a run nor an export"):
        verify(tmp_path)
    with pytest.raises(RunFolderError, match="is not a file"):
        verify(folder, image=tmp_path / "none.elf")


def test_a_report_that_cannot_be_written_is_an_output_error(folder: Path):
    (folder / "report.json").unlink()
    (folder / "report.json").mkdir()
    with pytest.raises(OutputError, match=r"report\.json"):
        verify(folder, episodes=1, observations=8)
    assert not list(folder.glob(".report*"))


def test_an_export_for_an_unknown_environment_is_named(tmp_path: Path):
    graph, task = environment_policy("pendulum")
    folder = export(graph, type(task)(**{**vars(task), "name": "pendulun"}), tmp_path / "export")
    with pytest.raises(UnknownNameError, match="pendulum"):
        verify(folder)
