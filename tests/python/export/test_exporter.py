"""The four files: the same bytes every time, all or none, and one hash that ties them together."""

from __future__ import annotations

import dataclasses
import errno
import json
import re
from pathlib import Path

import numpy as np
import pytest
from example_policies import make_graph, make_task

from servorl.errors import OutputError, RunFolderError
from servorl.export import c, contract, export, integrity
from servorl.export.exporter import contents

FILES = ["policy.c", "policy.h", "policy.json", "policy.onnx"]


@pytest.fixture
def graph():
    return make_graph((6, 9, 5))


def test_exporting_twice_gives_the_same_bytes(graph, tmp_path: Path):
    first = export(graph, make_task(graph), tmp_path / "first")
    second = export(graph, make_task(graph), tmp_path / "second")
    assert sorted(path.name for path in first.iterdir()) == FILES
    for name in FILES:
        assert (first / name).read_bytes() == (second / name).read_bytes()


def test_reading_back_and_exporting_again_gives_the_same_bytes(graph, tmp_path: Path):
    exported = integrity.read_export(export(graph, make_task(graph), tmp_path / "out"))
    again = contents(exported.graph, exported.task_info, exported.prefix, exported.safe_action)
    for name, data in again.items():
        assert (exported.folder / name).read_bytes() == data


def test_constants_in_c_are_bit_exact(tmp_path: Path):
    graph = make_graph((3, 5, 2))
    tiny = np.float32([1e-45, -1e-40, 3.4e38, -0.0, 1 / 3])
    layer = dataclasses.replace(graph.layers[0], bias=tiny)
    graph = dataclasses.replace(graph, layers=(layer, graph.layers[1]))
    source = contents(graph, make_task(graph))["policy.c"].decode()
    for array in c.constant_arrays(graph, "policy", np.zeros(2, np.float32)):
        body = source[source.index(f"{array.name}[") :]
        body = re.sub(r"/\*.*?\*/", "", body[body.index("{") : body.index("};")])
        literals = re.findall(r"(-?0x[0-9a-f.]+p[+-]\d+)f", body)
        values = np.array([float.fromhex(text) for text in literals], np.float32)
        np.testing.assert_array_equal(values.view(np.uint32), array.values.view(np.uint32))


def test_contract_names_everything(graph, tmp_path: Path):
    folder = export(graph, make_task(graph), tmp_path / "out", prefix="walk")
    document = json.loads((folder / "policy.json").read_text())
    assert document == contract.read(folder / "policy.json")
    assert document["control_period"] == 0.02
    assert document["prefix"] == "walk"
    assert [entry["name"] for entry in document["action"]] == [f"motor {i}" for i in range(5)]
    assert document["observation"][0]["low"] is None
    std = np.array([entry["std"] for entry in document["observation"]])
    np.testing.assert_allclose(std, 1 / graph.inv_std, rtol=1e-6)
    assert document["action"][1]["clip"] == [graph.action_low[1], graph.action_high[1]]
    assert document["network"]["parameters"] == 6 * 9 + 9 + 9 * 5 + 5
    assert f'"{document["hash"]}"' in (folder / "policy.c").read_text()


def test_hash_covers_the_meaning_and_every_constant(graph):
    task = make_task(graph)

    def digest(graph, task, **settings) -> str:
        return json.loads(contents(graph, task, **settings)["policy.json"])["hash"]

    def changed(array: np.ndarray) -> np.ndarray:
        result = array.copy()
        result.flat[-1] = np.nextafter(result.flat[-1], np.float32(100))
        return result

    renamed = (dataclasses.replace(task.action[0], name="x"), *task.action[1:])
    unit = (dataclasses.replace(task.observation[0], unit="mm"), *task.observation[1:])
    layer = graph.layers[0]
    variants = [
        (graph, task),
        (graph, dataclasses.replace(task, action=renamed)),
        (graph, dataclasses.replace(task, observation=unit)),
        (graph, dataclasses.replace(task, control_period=0.01)),
        (dataclasses.replace(graph, obs_clip=9.0), task),
        *((dataclasses.replace(graph, **{n: changed(getattr(graph, n))}), task) for n in ARRAYS),
        *(
            (dataclasses.replace(graph, layers=(other, graph.layers[1])), task)
            for other in (
                dataclasses.replace(layer, weight=changed(layer.weight)),
                dataclasses.replace(layer, bias=changed(layer.bias)),
                dataclasses.replace(layer, activation="relu"),
            )
        ),
    ]
    hashes = [digest(*variant) for variant in variants]
    hashes.append(digest(graph, task, prefix="other"))
    hashes.append(digest(graph, task, safe_action=np.full(5, 0.1, np.float32)))
    assert len(set(hashes)) == len(hashes)


ARRAYS = ("mean", "inv_std", "action_scale", "action_offset", "action_low", "action_high")


def test_an_earlier_export_is_replaced(graph, tmp_path: Path):
    other = make_graph((6, 9, 5), seed=9)
    export(other, make_task(other), tmp_path / "out")
    (tmp_path / "out" / "notes.txt").write_text("mine")
    folder = export(graph, make_task(graph), tmp_path / "out")
    assert integrity.check_files(integrity.read_export(folder)) == []
    assert (folder / "notes.txt").read_text() == "mine"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out"]


def test_an_unwritable_place_is_named_and_nothing_is_left(graph, tmp_path: Path):
    (tmp_path / "file").write_text("")
    for out in (tmp_path / "file", tmp_path / "file" / "below", Path("/proc/servorl")):
        with pytest.raises(OutputError, match=re.escape(str(out))):
            export(graph, make_task(graph), out)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_full_disk_leaves_nothing(graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    write = Path.write_bytes

    def fail_late(path: Path, data: bytes) -> int:
        if path.name == "policy.c":
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(path, data)

    monkeypatch.setattr(Path, "write_bytes", fail_late)
    with pytest.raises(OutputError, match="no space left on device"):
        export(graph, make_task(graph), tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("safe", [[0.0], [np.nan] * 5, [100.0] * 5])
def test_a_safe_action_that_is_none_is_refused(graph, tmp_path: Path, safe: list[float]):
    with pytest.raises(ValueError, match="safe_action"):
        export(graph, make_task(graph), tmp_path / "out", safe_action=np.float32(safe))
    assert not (tmp_path / "out").exists()


def test_a_task_that_does_not_fit_is_refused(graph, tmp_path: Path):
    with pytest.raises(ValueError, match="6 observations to 5 actions, but example has 4 and 2"):
        export(graph, make_task(make_graph((4, 2))), tmp_path / "out")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"version": 2}, r"\$.version"),
        ({"hash": "abc"}, r"\$.hash"),
        ({"control_period": -1}, r"\$.control_period"),
        ({"observation": []}, r"\$.observation"),
        ({"prefix": "1 x"}, r"\$.prefix"),
        ({"surprise": 1}, "surprise"),
        ({"action": "none"}, r"\$.action"),
    ],
)
def test_a_contract_that_breaks_the_schema_is_named(graph, tmp_path: Path, change, message: str):
    folder = export(graph, make_task(graph), tmp_path / "out")
    document = json.loads((folder / "policy.json").read_text()) | change
    (folder / "policy.json").write_text(json.dumps(document))
    with pytest.raises(RunFolderError, match=message):
        integrity.read_export(folder)


@pytest.mark.parametrize("text", ["", "{", "[" * 100_000, "null", '{"a": NaN}', "\ufeff{}"])
def test_a_contract_that_is_no_json_is_named(graph, tmp_path: Path, text: str):
    folder = export(graph, make_task(graph), tmp_path / "out")
    (folder / "policy.json").write_text(text)
    with pytest.raises(RunFolderError, match=r"policy\.json"):
        integrity.read_export(folder)
