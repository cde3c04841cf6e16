"""Running statistics against NumPy on all the data at once."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from servorl.policies.normalizer import Moments, ObservationNormalizer


@settings(max_examples=60, deadline=None)
@given(
    sizes=st.lists(st.integers(0, 40), min_size=1, max_size=12),
    offset=st.sampled_from([0.0, -3.0, 1e3, 1e6]),
    scale=st.sampled_from([1e-3, 1.0, 1e3]),
    seed=st.integers(0, 2**16),
)
def test_statistics_merged_across_batches_equal_those_of_all_the_data(
    sizes: list[int], offset: float, scale: float, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    batches = [rng.normal(offset, scale, (size, 3)) for size in sizes]
    moments = Moments(3)
    for batch in batches:
        moments.update(torch.from_numpy(batch))
    everything = np.concatenate(batches)
    assert int(moments.count) == len(everything)
    if len(everything) > 0:
        np.testing.assert_allclose(moments.mean, everything.mean(0), rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(moments.variance, everything.var(0), rtol=1e-6, atol=1e-18)


def test_statistics_merged_across_workers_equal_those_of_all_the_data() -> None:
    rng = np.random.default_rng(0)
    parts = [rng.normal(mean, 1.0, (50 * (mean + 1), 2)) for mean in range(4)]
    total = Moments(2)
    for part in parts:
        worker = Moments(2)
        worker.update(torch.from_numpy(part))
        total.merge(worker)
    everything = np.concatenate(parts)
    np.testing.assert_allclose(total.mean, everything.mean(0), rtol=1e-12)
    np.testing.assert_allclose(total.variance, everything.var(0), rtol=1e-12)


def test_the_normaliser_is_frozen_until_it_is_published() -> None:
    normalizer = ObservationNormalizer(2)
    obs = torch.tensor([[3.0, -4.0]])
    before = normalizer(obs)
    normalizer.update(torch.randn(100, 2) * 5.0 + 1.0)
    assert torch.equal(normalizer(obs), before)
    normalizer.publish()
    assert not torch.equal(normalizer(obs), before)


def test_normalised_observations_are_clipped_and_a_constant_channel_stays_finite() -> None:
    normalizer = ObservationNormalizer(2, clip=10.0)
    rows = torch.stack((torch.randn(1000), torch.full((1000,), 7.0)), 1)
    normalizer.update(rows)
    normalizer.publish()
    normal = normalizer(torch.tensor([[1e6, 7.0], [-1e6, 8.0]]))
    assert normal[0].tolist() == [10.0, 0.0]
    assert normal[1].tolist() == [-10.0, 10.0]


def test_publishing_before_the_first_row_changes_nothing() -> None:
    normalizer = ObservationNormalizer(2)
    normalizer.publish()
    assert normalizer(torch.tensor([[0.5, -2.0]])).tolist() == [[0.5, -2.0]]


def test_wrong_rows_raise() -> None:
    with pytest.raises(ValueError, match=r"rows must be of shape \[K, 3\]"):
        Moments(3).update(torch.zeros(5, 1))
    with pytest.raises(ValueError, match="mean must be of shape"):
        Moments(3).load_state(Moments(2).state())
