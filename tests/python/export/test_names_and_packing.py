"""Identifiers for C, and the order of packed weights."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from servorl.export.names import KEYWORDS, comment, identifier, identifiers
from servorl.export.packing import describe, pack, unpack
from servorl.policies.inference_graph import DenseLayer


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("obs.0", "obs_0"),
        ("1", "n1"),
        ("class", "class_"),
        ("main", "main_"),
        ("a b", "a_b"),
        ("__x__", "x"),
        ("", "unnamed"),
        ("é", "unnamed"),
        ("restrict", "restrict_"),
        ("cart_position", "cart_position"),
    ],
)
def test_identifier(name: str, expected: str):
    assert identifier(name) == expected


def test_names_that_become_alike_stay_apart():
    assert identifiers(["a.b", "a_b", "A.B", "a b"]) == ["a_b", "a_b_2", "A_B_3", "a_b_4"]
    assert identifiers(["x", "x_2", "x"]) == ["x", "x_2", "x_3"]


@given(st.lists(st.text(max_size=12), max_size=20))
def test_identifiers_are_always_valid_and_unique(names: list[str]):
    result = identifiers(names)
    assert len({name.upper() for name in result}) == len(names)
    for name in result:
        assert re.fullmatch(r"[A-Za-z][A-Za-z0-9]*(_[A-Za-z0-9]+)*_?", name)
        assert name not in KEYWORDS


@given(st.text())
def test_comments_cannot_be_left(text: str):
    written = comment(text)
    assert "*/" not in written
    assert "/*" not in written
    assert written.isascii()
    assert "\n" not in written
    assert not set(written) & set("\\?")


@given(st.integers(1, 11), st.integers(1, 7))
def test_packing_can_be_undone_and_described(rows: int, columns: int):
    weight = np.arange(rows * columns, dtype=np.float32).reshape(rows, columns)
    bias = -1 - np.arange(rows, dtype=np.float32)
    packed = pack(DenseLayer(weight, bias, "identity"))
    unpacked_weight, unpacked_bias = unpack(packed, rows, columns)
    np.testing.assert_array_equal(unpacked_weight, weight)
    np.testing.assert_array_equal(unpacked_bias, bias)
    for index, value in enumerate(packed):
        if value < 0:
            expected = f"bias row {int(-1 - value)}"
        else:
            expected = f"weight row {int(value) // columns} column {int(value) % columns}"
        assert describe(index, rows, columns) == expected


def test_packed_order_is_what_dense_h_says():
    weight = np.arange(10, dtype=np.float32).reshape(5, 2)
    packed = pack(DenseLayer(weight, np.float32([10, 11, 12, 13, 14]), "identity"))
    blocks = [10, 11, 12, 13, 0, 2, 4, 6, 1, 3, 5, 7]
    np.testing.assert_array_equal(packed, [*blocks, 14, 8, 9])
