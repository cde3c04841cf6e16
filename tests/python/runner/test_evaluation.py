"""Evaluation: a fixed number of whole episodes, whoever else runs."""

from __future__ import annotations

import json
from pathlib import Path

import gymnasium
import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper

from servorl.errors import NonFiniteError, RunFolderError, SettingError, UnknownNameError
from servorl.evaluation import (
    EVALUATION_SEED_OFFSET,
    evaluate,
    evaluate_onnx,
    evaluate_policy,
    load_onnx,
)
from servorl.policies.actor_critic import ActorCritic
from servorl.registry import make_vec

GAIN = np.array([[0.0], [1.5], [0.0], [0.2]], np.float32)


def weak(obs: np.ndarray) -> np.ndarray:
    """Holds the pole for a while: episodes of very different lengths."""
    return obs @ GAIN


@pytest.mark.parametrize("num_envs", [1, 3, 5, 7, None])
def test_environment_i_plays_the_same_episodes_whatever_num_envs(num_envs: int | None) -> None:
    result = evaluate(weak, "inverted_pendulum", 7, seed=4, num_envs=num_envs)
    assert len(result.returns) == len(result.lengths) == 7
    env = make_vec("inverted_pendulum", min(num_envs or 7, 7))
    obs, _ = env.reset(seed=4 + EVALUATION_SEED_OFFSET)
    expected: dict[int, list[float]] = {index: [] for index in range(env.num_envs)}
    total = np.zeros(env.num_envs)
    while min(map(len, expected.values())) < 7:
        obs, rewards, terminated, truncated, _ = env.step(weak(obs))
        total += rewards
        for index in np.flatnonzero(terminated | truncated):
            expected[index].append(total[index])
            total[index] = 0.0
    rounds = [expected[index][number] for number in range(7) for index in range(env.num_envs)]
    assert list(result.returns) == rounds[:7]
    env.close()


def test_returns_are_gymnasiums_own() -> None:
    """The mean over many random starts agrees with a plain Gymnasium loop's."""
    ours = evaluate(weak, "inverted_pendulum", 40, seed=0)
    env = gymnasium.make("InvertedPendulum-v5")
    lengths = []
    for seed in range(40):
        obs, _ = env.reset(seed=seed)
        length, done = 0, False
        while not done:
            obs, _, terminated, truncated, _ = env.step(weak(obs[None].astype(np.float32))[0])
            length, done = length + 1, terminated or truncated
        lengths.append(length)
    spread = np.hypot(np.std(lengths), ours.std_return) / np.sqrt(40)
    assert abs(np.mean(lengths) - ours.mean_return) < 4 * spread + 1e-9


def test_mean_and_deviation_are_over_all_episodes() -> None:
    result = evaluate(weak, "inverted_pendulum", 5, seed=1)
    assert result.mean_return == pytest.approx(np.mean(result.returns))
    assert result.std_return == pytest.approx(np.std(result.returns))
    document = json.loads(json.dumps(result.to_dict()))
    assert set(document) == {"mean_return", "std_return", "returns", "lengths"}
    assert document["lengths"] == list(result.lengths)


def test_recorded_positions_are_the_first_episodes() -> None:
    result = evaluate(weak, "inverted_pendulum", 3, seed=1, record_qpos=True)
    assert result.qpos is not None
    assert result.qpos.shape == (result.lengths[0], 2)
    assert np.abs(result.qpos[0]).max() < 0.011  # the initial state
    assert evaluate(weak, "inverted_pendulum", 1, seed=1).qpos is None


@pytest.mark.parametrize("training", [True, False])
def test_evaluation_leaves_the_training_mode_as_it_found_it(training: bool) -> None:
    policy = ActorCritic(4, [-3.0], [3.0], generator=torch.Generator().manual_seed(0))
    policy.train(training)
    state = torch.random.get_rng_state()
    first = evaluate_policy(policy, "inverted_pendulum", episodes=2, seed=3)
    assert policy.training is training
    assert torch.equal(state, torch.random.get_rng_state())
    assert evaluate_policy(policy, "inverted_pendulum", episodes=2, seed=3) == first


def test_bad_arguments_raise() -> None:
    with pytest.raises(ValueError, match="episodes must be at least 1"):
        evaluate(weak, "inverted_pendulum", 0)
    with pytest.raises(ValueError, match="num_envs must be at least 1"):
        evaluate(weak, "inverted_pendulum", 1, num_envs=0)
    with pytest.raises(UnknownNameError, match="inverted_pendulum"):
        evaluate(weak, "inverted_pendulums", 1)
    with pytest.raises(ValueError, match="actions must be of shape"):
        evaluate(lambda obs: np.zeros(len(obs)), "inverted_pendulum", 1)
    with pytest.raises(NonFiniteError, match="not finite in environment 0"):
        evaluate(lambda obs: np.full((len(obs), 1), np.nan), "inverted_pendulum", 1)


def write_onnx(path: Path, width: int = 4, environment: str | None = "inverted_pendulum") -> Path:
    """``weak`` as an ONNX model."""
    gain = np.resize(GAIN, (width, 1))
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["obs", "gain"], ["action"])],
        "weak",
        [helper.make_tensor_value_info("obs", TensorProto.FLOAT, ["batch", width])],
        [helper.make_tensor_value_info("action", TensorProto.FLOAT, ["batch", 1])],
        [helper.make_tensor("gain", TensorProto.FLOAT, gain.shape, gain.tobytes(), raw=True)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    if environment is not None:
        helper.set_model_props(model, {"environment": environment})
    onnx.save(model, path)
    return path


def test_an_onnx_policy_plays_in_the_environment_that_it_names(tmp_path: Path) -> None:
    result = evaluate_onnx(write_onnx(tmp_path / "policy.onnx"), episodes=4, seed=2)
    expected = evaluate(weak, "inverted_pendulum", 4, seed=2)
    assert result.env_name == "inverted_pendulum"
    np.testing.assert_allclose(result.returns, expected.returns, atol=1.0)


def test_onnx_files_that_cannot_be_played_are_named(tmp_path: Path) -> None:
    nameless = write_onnx(tmp_path / "nameless.onnx", environment=None)
    with pytest.raises(SettingError, match="does not name its environment"):
        evaluate_onnx(nameless)
    assert len(evaluate_onnx(nameless, "inverted_pendulum", episodes=1).returns) == 1
    with pytest.raises(ValueError, match="takes observations"):
        evaluate_onnx(write_onnx(tmp_path / "narrow.onnx", width=3), episodes=1)
    broken = tmp_path / "broken.onnx"
    broken.write_bytes(b"not a model")
    for path in (broken, tmp_path / "absent.onnx"):
        with pytest.raises(RunFolderError, match=path.name):
            load_onnx(path)
