"""What the advantage contract promises beyond accuracy: cuts, validity, one result everywhere."""

from __future__ import annotations

import subprocess
import sys
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
import torch
from gae_cases import IMPLEMENTATIONS, ISAS, Batch, batches, on_twin, random_batch
from hypothesis import given, settings

every_implementation = pytest.mark.parametrize("implementation", IMPLEMENTATIONS)


def assert_same_bits(ours: tuple, others: tuple) -> None:
    for a, b in zip(ours, others, strict=True):
        np.testing.assert_array_equal(a.view(np.uint32), b.view(np.uint32))


@every_implementation
def test_nan_behind_terminated_changes_nothing(implementation: str) -> None:
    run = IMPLEMENTATIONS[implementation]
    batch = random_batch(50, 70, end_rate=0.3)
    poisoned = np.where(batch.terminated, np.float32(np.nan), batch.next_values)
    assert np.isnan(poisoned).any()
    assert_same_bits(run(replace(batch, next_values=poisoned)), run(batch))


@every_implementation
def test_nan_outside_valid_changes_nothing(implementation: str) -> None:
    run = IMPLEMENTATIONS[implementation]
    batch = random_batch(50, 70, invalid_rate=0.2)

    def poison(array: np.ndarray) -> np.ndarray:
        if array.dtype == np.bool_:
            return array
        return np.where(batch.valid, array, np.float32(np.nan))

    assert_same_bits(run(batch.map(poison)), run(batch))


@every_implementation
def test_nan_in_one_episode_stays_there(implementation: str) -> None:
    """The recursion is cut by selection: what lies after an end does not leak as NaN * 0."""
    batch = random_batch(6, 70, end_rate=0.0)
    batch.rewards[4] = np.nan
    batch.truncated[2, ::2] = True
    batch.terminated[2, 1::2] = True
    advantages, returns = IMPLEMENTATIONS[implementation](batch)
    assert np.isfinite(advantages[:3]).all()
    assert np.isfinite(returns[:3]).all()
    assert np.isnan(advantages[3:5]).all()


@every_implementation
def test_rows_that_are_not_valid_give_zero_and_cut(implementation: str) -> None:
    run = IMPLEMENTATIONS[implementation]
    batch = replace(random_batch(9, 70, end_rate=0.0), valid=np.ones((9, 70), bool))
    batch.valid[4] = False
    advantages, returns = run(batch)
    assert not advantages[4].any()
    assert not returns[4].any()
    before = run(batch.map(lambda array: array[:4]))
    after = run(batch.map(lambda array: array[5:]))
    assert_same_bits((advantages[:4], returns[:4]), before)
    assert_same_bits((advantages[5:], returns[5:]), after)


@every_implementation
def test_all_valid_is_the_same_as_no_mask(implementation: str) -> None:
    run = IMPLEMENTATIONS[implementation]
    batch = random_batch(40, 70)
    assert_same_bits(run(replace(batch, valid=np.ones((40, 70), bool))), run(batch))


@every_implementation
def test_truncation_equals_the_trajectories_apart(implementation: str) -> None:
    run = IMPLEMENTATIONS[implementation]
    batch = random_batch(30, 70, end_rate=0.0)
    batch.truncated[12] = True
    together = run(batch)
    first = run(batch.map(lambda array: array[:13]))
    second = run(batch.map(lambda array: array[13:]))
    assert_same_bits(together, tuple(np.concatenate(p) for p in zip(first, second, strict=True)))


@every_implementation
def test_lambda_one_telescopes(implementation: str) -> None:
    """With lambda = 1 the values between cancel: the return is the discounted sum of rewards."""
    batch = random_batch(200, 9, end_rate=0.0, gamma=0.97, gae_lambda=1.0)
    batch.next_values[:-1] = batch.values[1:]
    _, returns = IMPLEMENTATIONS[implementation](batch)
    expected = batch.next_values[-1].astype(np.float64)
    for t in reversed(range(200)):
        expected = batch.rewards[t] + 0.97 * expected
        np.testing.assert_allclose(returns[t], expected, rtol=1e-6, atol=1e-6)


@every_implementation
def test_lambda_zero_is_the_one_step_error(implementation: str) -> None:
    batch = random_batch(20, 9, end_rate=0.0, gamma=0.5, gae_lambda=0.0)
    advantages, _ = IMPLEMENTATIONS[implementation](batch)
    delta = batch.rewards.astype(np.float64) + 0.5 * batch.next_values - batch.values
    np.testing.assert_array_equal(advantages, delta.astype(np.float32))


@settings(max_examples=40, deadline=None)
@given(batch=batches())
def test_every_instruction_set_gives_the_same_bits(batch: Batch) -> None:
    plain = batch.run(isa="baseline")
    for isa in ISAS:
        assert_same_bits(batch.run(isa=isa), plain)
    assert_same_bits(on_twin(batch), plain)


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("with_valid", [False, True])
def test_number_of_threads_changes_no_bit(isa: str, with_valid: bool) -> None:
    """Large enough for eight threads to pay, and not a multiple of any block."""
    batch = random_batch(70, 9001, invalid_rate=0.1 if with_valid else None)
    alone = batch.run(isa=isa, num_threads=1)
    for num_threads in (0, 2, 3, 8, 10**9):
        assert_same_bits(batch.run(isa=isa, num_threads=num_threads), alone)


def test_column_is_independent_of_its_neighbours() -> None:
    batch = random_batch(64, 37)
    together = batch.run()
    for column in (0, 7, 35, 36):
        alone = batch.map(lambda array, c=column: array[:, c : c + 1].copy()).run()
        assert_same_bits(alone, tuple(result[:, column : column + 1].copy() for result in together))


@pytest.mark.parametrize("shape", [(0, 0), (0, 5), (5, 0)])
def test_empty_batches_give_empty_results(shape: tuple[int, int]) -> None:
    for result in random_batch(*shape).run():
        assert result.shape == shape
    for result in random_batch(*shape).map(torch.from_numpy).run():
        assert result.shape == shape


def test_out_is_written_and_returned() -> None:
    batch = random_batch(33, 17)
    out = np.full((33, 17), 7, np.float32), np.full((33, 17), 7, np.float32)
    results = batch.run(out=out)
    assert results[0] is out[0]
    assert results[1] is out[1]
    assert_same_bits(results, batch.run())
    tensors = torch.empty(33, 17), torch.empty(33, 17)
    assert batch.map(torch.from_numpy).run(out=tensors)[0] is tensors[0]
    assert_same_bits(tuple(tensor.numpy() for tensor in tensors), out)


def test_contiguous_inputs_are_not_copied_and_nothing_is_written_to_them() -> None:
    batch = random_batch(256, 512, invalid_rate=0.1)
    before = batch.map(np.copy)
    out = np.empty((256, 512), np.float32), np.empty((256, 512), np.float32)
    for call in (batch, batch.map(torch.from_numpy)):
        given_out = out if call is batch else tuple(map(torch.from_numpy, out))
        call.run(out=given_out)  # so that what is cached is cached
        tracemalloc.start()
        call.run(out=given_out)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < batch.valid.nbytes // 4, "an input was copied"
    for name, array in batch.arrays().items():
        np.testing.assert_array_equal(array, getattr(before, name))


def test_numpy_alone_imports_neither_torch_nor_gymnasium() -> None:
    code = (
        "import sys, numpy as np; from servorl.advantages import gae\n"
        "z = np.zeros((2, 2), np.float32); f = np.zeros((2, 2), bool)\n"
        "gae(z, z, z, f, f, gamma=0.9, gae_lambda=0.9)\n"
        "assert not {'torch', 'gymnasium'} & set(sys.modules), 'a heavy import'"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
