"""policy.onnx against torch and float64, and reading it back from untrusted files."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from example_policies import make_graph, make_task, observations
from onnx import helper, numpy_helper

from servorl.errors import RunFolderError
from servorl.export import export, reference, targets
from servorl.export import onnx as policy_onnx
from servorl.policies.inference_graph import ACTIVATIONS, InferenceGraph


def session(data: bytes) -> onnxruntime.InferenceSession:
    return onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("obs_clip", [2.0, float("inf")])
def test_onnxruntime_torch_and_float64_agree(activation, obs_clip: float):
    graph = make_graph((17, 64, 33, 6), activation=activation, obs_clip=obs_clip)
    data = observations(graph, 1000)
    unclipped, clipped = reference.evaluate(graph, data)
    assert np.any(unclipped != clipped)
    run = session(policy_onnx.serialize(graph, {}))
    action, before = run.run(["action", "action_unclipped"], {"observation": data})
    torch_unclipped, torch_clipped = targets.torch_graph(graph)(data)
    magnitude = np.maximum(1, np.abs(unclipped) / graph.action_scale) * graph.action_scale
    for mine, theirs in ((before, unclipped), (torch_unclipped, unclipped)):
        assert np.max(np.abs(mine - theirs) / magnitude) <= 1e-5
    np.testing.assert_allclose(action, clipped, atol=1e-4)
    np.testing.assert_allclose(torch_clipped, clipped, atol=1e-4)
    assert np.all((action >= graph.action_low) & (action <= graph.action_high))


@pytest.mark.parametrize("batch", [0, 1, 7])
def test_batch_is_dynamic(batch: int):
    graph = make_graph((4, 8, 2))
    run = session(policy_onnx.serialize(graph, {}))
    assert [entry.shape for entry in run.get_inputs()] == [["batch", 4]]
    (action,) = run.run(["action"], {"observation": observations(graph, batch)})
    assert action.shape == (batch, 2)


def test_metadata_says_what_the_policy_is_for(tmp_path: Path):
    graph = make_graph((2, 8, 1))
    folder = export(graph, make_task(graph, "pendulum"), tmp_path / "out")
    metadata = session(folder.joinpath("policy.onnx").read_bytes()).get_modelmeta()
    entries = metadata.custom_metadata_map
    document = json.loads(folder.joinpath("policy.json").read_text())
    assert entries["environment"] == "pendulum"
    assert entries["hash"] == document["hash"]
    assert float(entries["control_period"]) == document["control_period"]
    assert json.loads(entries["observation_names"]) == ["sensor 0", "sensor 1"]
    assert json.loads(entries["action_units"]) == ["N m"]


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("obs_clip", [10.0, float("inf")])
def test_reading_back_gives_the_same_graph(tmp_path: Path, activation, obs_clip: float):
    graph = make_graph((5, 6, 7, 2), activation=activation, obs_clip=obs_clip, output="tanh")
    path = tmp_path / "policy.onnx"
    path.write_bytes(policy_onnx.serialize(graph, {"key": ["value"]}))
    back, metadata = policy_onnx.read(path)
    assert metadata == {"key": '["value"]'}
    assert back.obs_clip == graph.obs_clip
    for name in ("mean", "inv_std", "action_scale", "action_offset", "action_low", "action_high"):
        np.testing.assert_array_equal(getattr(back, name), getattr(graph, name))
    for mine, theirs in zip(graph.layers, back.layers, strict=True):
        assert mine.activation == theirs.activation
        np.testing.assert_array_equal(mine.weight, theirs.weight)
        np.testing.assert_array_equal(mine.bias, theirs.bias)


@pytest.fixture
def model() -> onnx.ModelProto:
    return onnx.load_model_from_string(policy_onnx.serialize(make_graph((3, 5, 2)), {}))


def read(model: onnx.ModelProto, folder: Path) -> InferenceGraph:
    path = folder / "policy.onnx"
    path.write_bytes(model.SerializeToString())
    return policy_onnx.read(path)[0]


def replace_tensor(model: onnx.ModelProto, name: str, array: np.ndarray) -> None:
    for tensor in model.graph.initializer:
        if tensor.name == name:
            tensor.CopyFrom(numpy_helper.from_array(array, name))


def test_values_that_are_not_finite_are_named(model: onnx.ModelProto, tmp_path: Path):
    replace_tensor(model, "layer0.bias", np.full(5, np.nan, np.float32))
    with pytest.raises(RunFolderError, match=r"layers\[0\].bias holds a value that is not finite"):
        read(model, tmp_path)


def test_other_number_types_are_named(model: onnx.ModelProto, tmp_path: Path):
    replace_tensor(model, "mean", np.zeros(3, np.float16))
    with pytest.raises(RunFolderError, match=r"not a policy|not an ONNX model"):
        read(model, tmp_path)


def test_a_shape_that_does_not_fit_is_named(model: onnx.ModelProto, tmp_path: Path):
    replace_tensor(model, "action_scale", np.ones(3, np.float32))
    with pytest.raises(RunFolderError, match="action_scale must be float32 of shape"):
        read(model, tmp_path)


def test_another_operator_is_named(model: onnx.ModelProto, tmp_path: Path):
    tanh = next(node for node in model.graph.node if node.op_type == "Tanh")
    tanh.op_type = "Sigmoid"
    with pytest.raises(RunFolderError, match=r"expected Mul with 2 inputs after .* found Sigmoid"):
        read(model, tmp_path)


def test_an_attribute_that_changes_the_sum_is_named(model: onnx.ModelProto, tmp_path: Path):
    gemm = next(node for node in model.graph.node if node.op_type == "Gemm")
    gemm.attribute.append(helper.make_attribute("alpha", 2.0))
    with pytest.raises(RunFolderError, match="must be a plain Gemm"):
        read(model, tmp_path)


def test_weights_outside_the_file_are_refused(model: onnx.ModelProto, tmp_path: Path):
    tensor = model.graph.initializer[0]
    tensor.data_location = onnx.TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="../../etc/passwd")
    tensor.ClearField("raw_data")
    with pytest.raises(RunFolderError):
        read(model, tmp_path)


def test_damaged_files_are_refused_or_read(tmp_path: Path):
    """A flipped byte is named as such or changes a value; nothing else may come out of it."""
    data = policy_onnx.serialize(make_graph((3, 5, 2)), {})
    generator = np.random.default_rng(0)
    path = tmp_path / "policy.onnx"
    refused = 0
    for place in generator.integers(0, len(data), 200):
        damaged = bytearray(data)
        damaged[place] ^= 1 << generator.integers(8)
        path.write_bytes(damaged)
        try:
            policy_onnx.read(path)
        except RunFolderError:
            refused += 1
    assert refused > 0
    for content in (b"", b"\0" * 100, data[:-7], b"{}"):
        path.write_bytes(content)
        with pytest.raises(RunFolderError):
            policy_onnx.read(path)


def test_an_absent_file_is_named(tmp_path: Path):
    with pytest.raises(RunFolderError, match="No such file"):
        policy_onnx.read(tmp_path / "policy.onnx")
