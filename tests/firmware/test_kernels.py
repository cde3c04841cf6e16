"""The inference kernels, as compiled into the extension, against float64."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from servorl._core import firmware
from servorl.export.packing import pack
from servorl.policies.inference_graph import DenseLayer

INFINITY_BITS = 0x7F800000
JOINT_BITS = int(np.float32(0.375).view(np.uint32))


def floats(bits: np.ndarray) -> np.ndarray:
    return bits.astype(np.uint32).view(np.float32)


def all_magnitudes(step: int = 499) -> np.ndarray:
    """Every ``step``-th non-negative float, subnormals and infinity included."""
    return floats(np.append(np.arange(0, INFINITY_BITS, step), INFINITY_BITS))


def runs_of_neighbours() -> list[np.ndarray]:
    """Runs of consecutive floats from all over the range, and a long one across the joint."""
    starts = np.linspace(0, INFINITY_BITS - 4096, 400, dtype=np.int64)
    runs = [floats(np.arange(start, start + 4096)) for start in starts]
    return [*runs, floats(np.arange(JOINT_BITS - (1 << 20), JOINT_BITS + (1 << 20)))]


def test_tanh_error_is_bounded_over_all_magnitudes():
    x = all_magnitudes()
    error = np.abs(firmware.tanh(x).astype(np.float64) - np.tanh(x.astype(np.float64)))
    assert error.max() <= 2.3e-7


def test_tanh_relative_error_is_small_near_zero():
    x = all_magnitudes()
    x = x[(x > 1e-30) & (x < 1)]
    exact = np.tanh(x.astype(np.float64))
    assert np.max(np.abs(firmware.tanh(x) - exact) / exact) <= 1e-6


def test_tanh_is_odd():
    x = all_magnitudes()
    np.testing.assert_array_equal(firmware.tanh(-x), -firmware.tanh(x))


def test_tanh_is_monotone_and_bounded():
    for x in [all_magnitudes(), *runs_of_neighbours()]:
        y = firmware.tanh(x)
        assert np.all(np.diff(y) >= 0)
        assert y[0] >= 0
        assert y[-1] <= 1


@pytest.mark.parametrize("x", [20.0, 1e30, np.inf])
def test_tanh_saturates_exactly(x: float):
    np.testing.assert_array_equal(firmware.tanh(np.float32([x, -x])), np.float32([1, -1]))


def test_nan_propagates():
    nan = np.float32([np.nan])
    for kernel in (firmware.tanh, firmware.elu, firmware.relu):
        assert np.isnan(kernel(nan)).all()


def test_elu_against_float64():
    x = -all_magnitudes()
    y = firmware.elu(x)
    assert np.abs(y - np.expm1(x.astype(np.float64))).max() <= 3.6e-7
    assert y.min() == -1
    positive = all_magnitudes()
    np.testing.assert_array_equal(firmware.elu(positive), positive)


def test_elu_is_monotone():
    for x in [all_magnitudes(), *runs_of_neighbours()]:
        assert np.all(np.diff(firmware.elu(-x)) <= 0)


def test_relu():
    x = np.float32([-np.inf, -1e-40, -0.0, 0.0, 2.5, np.inf])
    np.testing.assert_array_equal(firmware.relu(x), np.maximum(x, 0))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("place", [0, 3, 8])
def test_all_finite_sees_every_place(bad: float, place: int):
    x = np.full(9, np.finfo(np.float32).max, np.float32)
    assert firmware.all_finite(x)
    x[place] = bad
    assert not firmware.all_finite(x)


@given(st.integers(1, 13), st.integers(1, 13), st.integers(0, 2**32 - 1))
def test_dense_against_float64(rows: int, columns: int, seed: int):
    generator = np.random.default_rng(seed)
    weight = generator.standard_normal((rows, columns)).astype(np.float32)
    bias = generator.standard_normal(rows).astype(np.float32)
    x = generator.standard_normal(columns).astype(np.float32)
    y = firmware.dense(pack(DenseLayer(weight, bias, "identity")), x, rows)
    exact = weight.astype(np.float64) @ x + bias
    magnitude = np.abs(weight).astype(np.float64) @ np.abs(x) + np.abs(bias)
    assert np.all(np.abs(y - exact) <= (columns + 1) * 2.0**-24 * magnitude * 1.01)


def test_dense_rejects_a_wrong_size():
    with pytest.raises(ValueError, match="packed must hold"):
        firmware.dense(np.zeros(11, np.float32), np.zeros(2, np.float32), 4)
