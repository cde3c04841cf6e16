"""The rollout buffer and its minibatches."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from servorl.buffers import Batch, RolloutBuffer


def numbered_batch(size: int) -> Batch:
    numbers = torch.arange(size, dtype=torch.float32)
    return Batch(numbers[:, None], numbers[:, None], numbers, numbers, numbers, numbers)


@pytest.mark.parametrize(("size", "count"), [(2048, 32), (101, 32), (33, 32), (7, 32), (1, 1)])
def test_every_sample_is_seen_once_per_epoch_leftovers_too(size: int, count: int) -> None:
    parts = list(numbered_batch(size).minibatches(count, torch.Generator().manual_seed(0)))
    assert len(parts) == min(size, count)
    sizes = [len(part) for part in parts]
    assert max(sizes) - min(sizes) <= 1
    for name in ("obs", "raw_actions", "log_probs", "values", "advantages", "returns"):
        seen = torch.cat([getattr(part, name).flatten() for part in parts])
        assert sorted(seen.tolist()) == list(range(size))
    rows = torch.cat([part.obs.squeeze(1) for part in parts])
    assert torch.equal(rows, torch.cat([part.returns for part in parts]))  # rows stay together


def test_each_epoch_reshuffles() -> None:
    batch, generator = numbered_batch(256), torch.Generator().manual_seed(0)
    orders = [
        torch.cat([part.returns for part in batch.minibatches(8, generator)]) for _ in range(3)
    ]
    assert not torch.equal(orders[0], orders[1])
    assert not torch.equal(orders[1], orders[2])


def test_the_stored_final_observation_does_not_alias_the_callers_buffer() -> None:
    buffer = RolloutBuffer(2, 2, 3, 1)
    obs = np.ones((2, 3), np.float32)
    flags = np.zeros(2, np.bool_)
    buffer.begin(obs)
    buffer.add(0, obs, np.zeros(2), flags, flags, ~flags)
    buffer.add_final(0, np.array([1]), obs[1:])
    obs[:] = -7.0
    steps, env_ids, final_obs = buffer.final()
    assert (steps.tolist(), env_ids.tolist(), final_obs.tolist()) == ([0], [1], [[1.0, 1.0, 1.0]])
    assert torch.equal(buffer.obs[:2], torch.ones(2, 2, 3))


def test_an_empty_buffer_is_refused() -> None:
    with pytest.raises(ValueError, match="num_steps must be at least 1"):
        RolloutBuffer(0, 1, 1, 1)
    with pytest.raises(ValueError, match="num_envs must be at least 1"):
        RolloutBuffer(1, 0, 1, 1)
