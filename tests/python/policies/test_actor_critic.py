"""The Gaussian actor-critic against formulas written out in NumPy and scipy."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from scipy import stats

from servorl.errors import CheckpointError
from servorl.policies.actor_critic import ActorCritic
from servorl.policies.inference_graph import InferenceGraph

LOW, HIGH = [-3.0, 0.0], [3.0, 10.0]


def make_policy(seed: int = 1) -> ActorCritic:
    """A policy with non-trivial statistics and an actor head large enough to reach the bounds."""
    generator = torch.Generator().manual_seed(seed)
    policy = ActorCritic(3, LOW, HIGH, generator=generator)
    with torch.no_grad():
        policy.actor.weights[-1].mul_(200.0)
        policy.log_std.copy_(torch.tensor([-0.5, 0.3]))
    rows = torch.randn(500, 3, generator=generator) * torch.tensor([1.0, 20.0, 0.1]) + 4.0
    policy.normalizer.update(rows)
    policy.normalizer.publish()
    return policy


def run_graph(graph: InferenceGraph, obs: np.ndarray) -> np.ndarray:
    """The inference graph's equations in float64."""
    x = (obs.astype(np.float64) - graph.mean) * graph.inv_std
    x = np.clip(x, -graph.obs_clip, graph.obs_clip)
    for layer in graph.layers:
        x = x @ layer.weight.T.astype(np.float64) + layer.bias
        x = np.tanh(x) if layer.activation == "tanh" else x
    return np.clip(
        graph.action_offset + graph.action_scale * x, graph.action_low, graph.action_high
    )


def observations(count: int = 200) -> np.ndarray:
    return np.random.default_rng(0).normal(4.0, [3.0, 60.0, 0.3], (count, 3)).astype(np.float32)


def test_deterministic_action_is_the_inference_graph() -> None:
    policy = make_policy()
    action, _ = policy.act(observations(), deterministic=True)
    expected = run_graph(policy.inference_graph(), observations())
    np.testing.assert_allclose(action, expected, atol=2e-5)
    assert (action == np.float32(HIGH)).any()
    assert (action == np.float32(LOW)).any()


def test_log_prob_is_the_normal_density_of_the_raw_action_before_clipping() -> None:
    policy = make_policy()
    obs = torch.from_numpy(observations())
    action, extras = policy.act(obs, generator=torch.Generator().manual_seed(0))
    mean = policy.actor(policy.normalize(obs)).detach().numpy().astype(np.float64)
    std = policy.log_std.detach().exp().numpy().astype(np.float64)
    raw = extras["raw_action"].numpy()
    expected = stats.norm.logpdf(raw, mean, std).sum(1)
    np.testing.assert_allclose(extras["log_prob"], expected, rtol=1e-4, atol=1e-4)
    scaled = np.array([0.0, 5.0]) + np.array([3.0, 5.0]) * raw
    assert (scaled > HIGH).any()  # some raw actions lie outside, and were stored unclipped
    np.testing.assert_allclose(action, np.clip(scaled, LOW, HIGH), rtol=1e-5, atol=1e-5)


def test_entropy_is_that_of_the_normal_distribution() -> None:
    policy = make_policy()
    expected = stats.norm(scale=policy.log_std.detach().exp()).entropy().sum()
    assert policy.entropy().item() == pytest.approx(expected, rel=1e-6)


def test_initial_weights_are_orthogonal_with_the_stated_gains() -> None:
    policy = ActorCritic(5, LOW, HIGH, generator=torch.Generator().manual_seed(3))
    for network, head_gain in ((policy.actor, 0.01), (policy.critic, 1.0)):
        gains = [2.0**0.5] * (len(network.weights) - 1) + [head_gain]
        for weight, bias, gain in zip(network.weights, network.biases, gains, strict=True):
            singular = np.linalg.svd(weight.detach().numpy(), compute_uv=False)
            np.testing.assert_allclose(singular, gain, rtol=1e-5)
            assert not bias.detach().any()
    assert not policy.log_std.detach().any()


def test_numpy_and_torch_observations_give_the_same_actions_and_leave_rng_alone() -> None:
    policy, obs = make_policy(), observations(8)
    before = torch.random.get_rng_state()
    from_numpy, _ = policy.act(obs, generator=torch.Generator().manual_seed(5))
    from_torch, _ = policy.act(torch.from_numpy(obs), generator=torch.Generator().manual_seed(5))
    np.testing.assert_array_equal(from_numpy, from_torch.numpy())
    assert torch.equal(before, torch.random.get_rng_state())


@pytest.mark.parametrize("shape", [(3,), (4, 2), (4, 3, 1), (4, 4)])
def test_wrong_observation_shape_raises(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"observations must be of shape \[N, 3\]"):
        make_policy().act(np.zeros(shape, np.float32))


def test_wrong_shape_raises_instead_of_broadcasting() -> None:
    policy = make_policy()
    with pytest.raises(ValueError, match="must share one shape"):
        policy.log_prob(torch.zeros(4, 2), torch.zeros(4, 1))
    with pytest.raises(ValueError, match="must share one shape"):
        policy.log_prob(torch.zeros(2), torch.zeros(2))
    with pytest.raises(ValueError, match="noise must be of shape"):
        policy.explore(torch.zeros(4, 3), torch.zeros(1, 2))


@pytest.mark.parametrize(
    ("low", "high", "message"),
    [
        ([-1.0], [np.inf], "finite"),
        ([1.0], [1.0], "low < high"),
        ([-1.0, -1.0], [1.0], "one length"),
        ([[-1.0]], [[1.0]], "vectors"),
    ],
)
def test_bad_action_bounds_raise(low: list[float], high: list[float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ActorCritic(3, low, high)


def test_a_saved_policy_comes_back_bit_for_bit(tmp_path: Path) -> None:
    policy = make_policy()
    policy.save(tmp_path / "policy.safetensors")
    loaded = ActorCritic.load(tmp_path / "policy.safetensors")
    arrays, metadata = policy.state()
    loaded_arrays, loaded_metadata = loaded.state()
    assert metadata == loaded_metadata
    assert arrays.keys() == loaded_arrays.keys()
    for name, array in arrays.items():
        np.testing.assert_array_equal(array, loaded_arrays[name], err_msg=name)


def test_a_file_that_holds_no_policy_is_named(tmp_path: Path) -> None:
    path = tmp_path / "policy.safetensors"
    make_policy().save(path)
    content = path.read_bytes()
    for damaged in (b"", content[:100], content[:-1], b"\xff" * 64):
        path.write_bytes(damaged)
        with pytest.raises(CheckpointError, match=str(path)):
            ActorCritic.load(path)


def test_arrays_of_another_policy_are_refused_by_name() -> None:
    arrays, metadata = make_policy().state()
    with pytest.raises(ValueError, match=r"actor\.weights\.0"):
        ActorCritic.from_state(
            {n: a for n, a in arrays.items() if n != "actor.weights.0"}, metadata
        )
    with pytest.raises(ValueError, match=r"critic\.biases\.1 must be"):
        ActorCritic.from_state(arrays | {"critic.biases.1": np.zeros(3, np.float32)}, metadata)
    with pytest.raises(ValueError, match="not an ActorCritic"):
        ActorCritic.from_state(arrays, {})
