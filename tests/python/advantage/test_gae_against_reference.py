"""GAE against the paper's sum in scalar float64: shapes, masks, settings and memory layouts."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from gae_cases import IMPLEMENTATIONS, LAYOUTS, Batch, batches, draw_arrays
from gae_reference import Reference, gae_reference
from hypothesis import given, settings
from hypothesis import strategies as st


def reference_of(batch: Batch) -> Reference:
    arrays = {"valid": None, **batch.arrays()}
    return gae_reference(**arrays, gamma=batch.gamma, gae_lambda=batch.gae_lambda)


def assert_within_bounds(expected: Reference, advantages: np.ndarray, returns: np.ndarray) -> None:
    assert advantages.dtype == returns.dtype == np.float32
    advantage_error = np.abs(advantages - expected.advantages)
    assert np.all(advantage_error <= expected.advantage_bound())
    assert np.all(np.abs(returns - expected.returns) <= expected.return_bound())


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
@settings(max_examples=60, deadline=None)
@given(batch=batches())
def test_error_stays_within_the_bound(implementation: str, batch: Batch) -> None:
    assert_within_bounds(reference_of(batch), *IMPLEMENTATIONS[implementation](batch))


@pytest.mark.parametrize(
    ("gamma", "gae_lambda", "value_scale", "end_rate"),
    [
        (0.99, 0.95, 1.0, 0.01),
        (1.0, 1.0, 1e4, 0.02),
        (0.999, 1.0, 1e4, 0.0),
        (0.0, 1.0, 1e4, 0.1),
        (1.0, 0.0, 1.0, 0.1),
    ],
)
def test_error_stays_within_the_bound_over_4096_steps(
    gamma: float, gae_lambda: float, value_scale: float, end_rate: float
) -> None:
    batch = draw_arrays(
        np.random.default_rng(4096),
        4096,
        2,
        gamma=gamma,
        gae_lambda=gae_lambda,
        value_scale=value_scale,
        end_rate=end_rate,
        invalid_rate=0.001,
    )
    expected = reference_of(batch)
    for run in IMPLEMENTATIONS.values():
        assert_within_bounds(expected, *run(batch))


HARD_IN_FLOAT32 = {
    "cancellation in delta": {"value_scale": 1e4, "steady_values": True, "gae_lambda": 0.0},
    "a long sum": {"value_scale": 0.0, "constant_reward": 0.1, "gamma": 1.0, "gae_lambda": 1.0},
}


@pytest.mark.parametrize("case", HARD_IN_FLOAT32)
def test_the_bound_needs_float64(case: str) -> None:
    """The bound tells a float32 loop from ours: both delta and the recursion must be float64."""
    batch = draw_arrays(np.random.default_rng(1), 4096, 1, end_rate=0.0, **HARD_IN_FLOAT32[case])
    expected = reference_of(batch)
    decay, running = np.float32(batch.gamma * batch.gae_lambda), np.zeros(1, np.float32)
    in_float32 = np.empty_like(batch.rewards)
    for t in reversed(range(4096)):
        delta = batch.rewards[t] + np.float32(batch.gamma) * batch.next_values[t] - batch.values[t]
        running = in_float32[t] = delta + decay * running
    assert np.any(np.abs(in_float32 - expected.advantages) > expected.advantage_bound())
    for run in IMPLEMENTATIONS.values():
        assert_within_bounds(expected, *run(batch))


@settings(max_examples=60, deadline=None)
@given(batch=batches(), layouts=st.lists(st.sampled_from(LAYOUTS), min_size=6, max_size=6))
def test_memory_layout_does_not_matter(batch: Batch, layouts: list) -> None:
    chosen = iter(layouts)
    laid_out = batch.map(lambda array: next(chosen)(array))
    for ours, plain in zip(laid_out.run(), batch.run(), strict=True):
        np.testing.assert_array_equal(ours, plain)


@settings(max_examples=20, deadline=None)
@given(batch=batches())
def test_float64_agrees_far_beyond_float32(batch: Batch) -> None:
    """With float64 arrays the same recursion is good to the last digits of float64."""
    double = batch.map(lambda array: array if array.dtype == np.bool_ else array.astype(np.float64))
    advantages, returns = double.run()
    expected = reference_of(double)
    assert advantages.dtype == returns.dtype == np.float64
    bound = 1e-12 * (1.0 + expected.absolute_sums)
    assert np.all(np.abs(advantages - expected.advantages) <= bound)
    assert np.all(np.abs(returns - expected.returns) <= bound + 1e-12 * np.abs(expected.returns))


@settings(max_examples=20, deadline=None)
@given(batch=batches(), transposed=st.booleans())
def test_torch_tensors_give_the_arrays_results(batch: Batch, transposed: bool) -> None:
    def tensor(array: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(array.T.copy()).T if transposed else torch.from_numpy(array)

    results = batch.map(tensor).run()
    for ours, plain in zip(results, batch.run(), strict=True):
        assert isinstance(ours, torch.Tensor)
        assert ours.dtype == torch.float32
        np.testing.assert_array_equal(ours.numpy(), plain)
