"""Every wrong argument of ``gae`` is a clear error that names it; none is garbage or a crash."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch
from gae_cases import INPUTS, ISAS, Batch, random_batch

from servorl._native import core
from servorl.advantages import gae

T, N = 6, 4
REALS = INPUTS[:3]
FLAGS = INPUTS[3:]
as_tensors: Callable[[Any], Any] = torch.from_numpy


def plain_batch() -> Batch:
    return random_batch(T, N, invalid_rate=0.2)


def changed(name: str, change: Callable[[Any], Any], batch: Batch | None = None) -> Batch:
    batch = batch or plain_batch()
    return replace(batch, **{name: change(getattr(batch, name))})


@pytest.mark.parametrize("name", INPUTS)
@pytest.mark.parametrize(
    "other",
    [3.0, [[1.0] * N] * T, "text", b"bytes", object(), (), np.float32(1.0)],
    ids=lambda value: type(value).__name__,
)
def test_not_an_array(name: str, other: Any) -> None:
    with pytest.raises(TypeError, match=rf"^{name} must be a"):
        changed(name, lambda _: other).run()


@pytest.mark.parametrize("name", INPUTS[:5])
def test_none_is_no_array(name: str) -> None:
    with pytest.raises(TypeError, match=rf"^{name} must be a"):
        changed(name, lambda _: None).run()


@pytest.mark.parametrize("name", INPUTS)
def test_masked_array(name: str) -> None:
    """Its mask would be dropped without a word."""
    with pytest.raises(TypeError, match=f"^{name} must be .*MaskedArray"):
        changed(name, np.ma.masked_array).run()


@pytest.mark.parametrize("name", INPUTS[1:])
def test_tensors_and_arrays_mixed(name: str) -> None:
    with pytest.raises(TypeError, match=f"^{name} must be a NumPy array.* torch tensor"):
        changed(name, torch.from_numpy).run()
    with pytest.raises(TypeError, match=f"^{name} must be a torch tensor.* ndarray"):
        changed(name, lambda tensor: tensor.numpy(), plain_batch().map(as_tensors)).run()


REAL_DTYPES = [
    "float16",
    "longdouble",
    "int32",
    "int64",
    "bool",
    "complex64",
    "object",
    ">f4",
    "M8[s]",
]


@pytest.mark.parametrize("name", REALS)
@pytest.mark.parametrize("dtype", [*REAL_DTYPES, "float64"])
def test_wrong_dtype_of_reals(name: str, dtype: str) -> None:
    with pytest.raises(TypeError, match=r"^(rewards must be float32|values is|next_values is)"):
        changed(name, lambda array: array.astype(np.int64).astype(dtype)).run()


@pytest.mark.parametrize("dtype", REAL_DTYPES)
def test_wrong_dtype_of_all_reals(dtype: str) -> None:
    batch = plain_batch()
    for name in REALS:
        batch = changed(name, lambda array: array.astype(np.int64).astype(dtype), batch)
    with pytest.raises(TypeError, match=r"^rewards must be float32"):
        batch.run()


@pytest.mark.parametrize("name", FLAGS)
@pytest.mark.parametrize("dtype", ["int8", "int32", "int64", "float32", "object", "S1"])
def test_wrong_dtype_of_flags(name: str, dtype: str) -> None:
    with pytest.raises(TypeError, match=f"^{name} must be bool or uint8"):
        changed(name, lambda array: array.astype(dtype)).run()


@pytest.mark.parametrize("name", INPUTS)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.int64, torch.complex64])
def test_wrong_dtype_of_tensors(name: str, dtype: torch.dtype) -> None:
    batch = changed(name, lambda tensor: tensor.to(dtype), plain_batch().map(as_tensors))
    with pytest.raises(TypeError, match=f"^{name} (must be|is)"):
        batch.run()


WRONG_SHAPES: dict[str, Callable[[Any], Any]] = {
    "row too few": lambda array: array[:-1],
    "column too few": lambda array: array[:, :-1],
    "swapped": lambda array: array.T,
    "1-D": lambda array: array[0],
    "3-D": lambda array: array[None],
    "flat": lambda array: array.reshape(-1),
    "one row": lambda array: array[:1],
    "one column": lambda array: array[:, :1],
}


@pytest.mark.parametrize("name", INPUTS)
@pytest.mark.parametrize("shape", WRONG_SHAPES)
def test_wrong_shape(name: str, shape: str) -> None:
    for batch in (plain_batch(), plain_batch().map(as_tensors)):
        with pytest.raises(ValueError, match=r"(has the shape \[.*\], but rewards has|\[T, N\])"):
            changed(name, WRONG_SHAPES[shape], batch).run()


def test_every_array_of_another_rank() -> None:
    with pytest.raises(ValueError, match=r"^rewards must have the shape \[T, N\], not \[4\]"):
        plain_batch().map(lambda array: array[0]).run()


@pytest.mark.parametrize("name", INPUTS)
def test_tensor_on_another_device(name: str) -> None:
    batch = changed(name, lambda tensor: tensor.to("meta"), plain_batch().map(as_tensors))
    with pytest.raises(ValueError, match=r"is on (meta|cpu), but rewards is on|cpu or cuda"):
        batch.run()


def test_tensors_on_a_device_that_is_neither_cpu_nor_cuda() -> None:
    with pytest.raises(ValueError, match=r"^rewards must be on a cpu or cuda device, not meta"):
        plain_batch().map(lambda array: torch.from_numpy(array).to("meta")).run()


@pytest.mark.parametrize("name", REALS)
def test_tensor_that_requires_grad(name: str) -> None:
    batch = changed(name, lambda tensor: tensor.requires_grad_(), plain_batch().map(as_tensors))
    with pytest.raises(ValueError, match=f"^{name} requires grad"):
        batch.run()


def test_sparse_tensor() -> None:
    batch = changed("rewards", lambda tensor: tensor.to_sparse(), plain_batch().map(as_tensors))
    with pytest.raises(ValueError, match=r"^rewards must be a dense tensor"):
        batch.run()


def test_tensor_with_a_pending_sign_is_read_right() -> None:
    """torch keeps ``conj(z).imag`` as the memory of ``z.imag`` and a note to negate it."""
    batch = plain_batch().map(as_tensors)
    rewards = torch.complex(batch.rewards, -batch.rewards).conj().imag
    assert rewards.is_neg()
    results = replace(batch, rewards=rewards).run()
    for ours, plain in zip(results, batch.run(), strict=True):
        torch.testing.assert_close(ours, plain, rtol=0, atol=0)


@pytest.mark.parametrize("name", ["gamma", "gae_lambda"])
@pytest.mark.parametrize("value", [-1e-9, 1.0000001, 2, -1, float("nan"), float("inf")])
def test_outside_the_unit_interval(name: str, value: float) -> None:
    with pytest.raises(ValueError, match=rf"^{name} must lie in \[0, 1\]"):
        replace(plain_batch(), **{name: value}).run()


@pytest.mark.parametrize("name", ["gamma", "gae_lambda"])
@pytest.mark.parametrize("value", [None, "0.9", True, [0.9], 0.9 + 0j, np.array(0.9)])
def test_not_a_number(name: str, value: Any) -> None:
    with pytest.raises(TypeError, match=f"^{name} must be a number"):
        replace(plain_batch(), **{name: value}).run()


@pytest.mark.parametrize(
    "value", [1, np.float32(0.5), np.float64(0.5), np.int64(1), Fraction(1, 2)]
)
def test_any_real_number_will_do(value: Any) -> None:
    plain = replace(plain_batch(), gamma=float(value)).run()
    for ours, expected in zip(replace(plain_batch(), gamma=value).run(), plain, strict=True):
        np.testing.assert_array_equal(ours, expected)


@pytest.mark.parametrize("value", [1.0, "2", None, True])
def test_num_threads_of_another_type(value: Any) -> None:
    with pytest.raises(TypeError, match=r"^num_threads must be an integer"):
        plain_batch().run(num_threads=value)


def test_negative_num_threads() -> None:
    with pytest.raises(ValueError, match=r"^num_threads must be 0 .* or more, not -1"):
        plain_batch().run(num_threads=-1)


def test_unknown_instruction_set() -> None:
    with pytest.raises(ValueError, match=r"^isa must be one of auto, baseline.* not 'sse9'"):
        plain_batch().run(isa="sse9")
    with pytest.raises(TypeError, match=r"^isa must be a string"):
        plain_batch().run(isa=None)


def test_instruction_set_that_the_processor_lacks() -> None:
    """Refused before anything runs: a wrong request cannot end in an illegal instruction."""
    lacking = {"avx2", "avx512"} - set(ISAS)
    for isa in lacking:
        with pytest.raises(ValueError, match=f"^isa must be one of .* not '{isa}'"):
            plain_batch().run(isa=isa)
    assert ISAS[0] == "baseline"


def new_out() -> list[np.ndarray]:
    return [np.empty((T, N), np.float32), np.empty((T, N), np.float32)]


@pytest.mark.parametrize("out", [np.empty((2, T, N), np.float32), (), (1, 2, 3), "ab", 5])
def test_out_is_no_pair(out: Any) -> None:
    with pytest.raises(TypeError, match=r"^out(\[0\])? must be a"):
        plain_batch().run(out=out)


BAD_OUTPUTS: dict[str, tuple[type[Exception], str, Callable[[np.ndarray], Any]]] = {
    "list": (TypeError, "must be a NumPy array", lambda array: array.tolist()),
    "tensor": (TypeError, "must be a NumPy array", torch.from_numpy),
    "float64": (TypeError, "is float64, but rewards is float32", lambda array: array.astype("f8")),
    "small": (ValueError, "has the shape", lambda array: array[:-1]),
    "strided": (ValueError, "must be C-contiguous", lambda array: np.asfortranarray(array)),
    "read-only": (ValueError, "is read-only", lambda array: np.broadcast_to(array, array.shape)),
}


@pytest.mark.parametrize("place", [0, 1])
@pytest.mark.parametrize("fault", BAD_OUTPUTS)
def test_output_that_cannot_be_written(place: int, fault: str) -> None:
    error, message, spoil = BAD_OUTPUTS[fault]
    out = new_out()
    out[place] = spoil(out[place])
    with pytest.raises(error, match=rf"^out\[{place}\] {message}"):
        plain_batch().run(out=tuple(out))


def test_strided_tensor_as_output() -> None:
    out = (torch.empty(N, T).T, torch.empty(T, N))
    with pytest.raises(ValueError, match=r"^out\[0\] must be contiguous"):
        plain_batch().map(as_tensors).run(out=out)


@pytest.mark.parametrize("name", INPUTS)
def test_output_that_overlaps_an_input(name: str) -> None:
    room = np.zeros((2 * T, N), np.float32)
    out = room[:T], np.empty((T, N), np.float32)
    batch = plain_batch()
    array = getattr(batch, name)
    over = room.reshape(-1).view(array.dtype)[3 : 3 + array.size].reshape(array.shape)
    over[...] = array
    with pytest.raises(ValueError, match=rf"^out\[0\] overlaps {name} in memory"):
        replace(batch, **{name: over}).run(out=out)


def test_outputs_that_overlap_each_other() -> None:
    room = np.zeros((2 * T, N), np.float32)
    with pytest.raises(ValueError, match=r"^out\[0\] overlaps out\[1\] in memory"):
        plain_batch().run(out=(room[:T], room[1 : T + 1]))
    tensor = torch.zeros(T, N)
    with pytest.raises(ValueError, match=r"^out\[0\] overlaps out\[1\] in memory"):
        plain_batch().map(as_tensors).run(out=(tensor, tensor))


def test_an_error_leaves_the_outputs_as_they_were() -> None:
    out = np.full((T, N), 7, np.float32), np.full((T, N), 7, np.float32)
    with pytest.raises(ValueError, match=r"^gamma"):
        replace(plain_batch(), gamma=2.0).run(out=out)
    with pytest.raises(ValueError, match=r"^isa"):
        plain_batch().run(out=out, isa="sse9")
    assert (out[0] == 7).all()
    assert (out[1] == 7).all()


def test_unknown_keyword() -> None:
    batch = plain_batch()
    with pytest.raises(TypeError, match=r"lam"):
        gae(**batch.arrays(), gamma=0.9, gae_lambda=0.9, lam=0.9)


def test_the_compiled_function_reads_past_no_array() -> None:
    """A direct call is checked too, if less politely."""
    flags = np.zeros((T, N), np.uint8)
    reals = np.zeros((T, N), np.float32)
    short = reals[:-1]
    for arrays in (
        (reals, short, reals, flags, flags, None, *new_out()),
        (reals, reals, reals, flags, flags[:-1], None, *new_out()),
        (reals, reals, reals, flags, flags, flags[:-1], *new_out()),
        (reals, reals, reals, flags, flags, None, new_out()[0], short.copy()),
    ):
        with pytest.raises(ValueError, match=r"shape"):
            core.advantage.gae(*arrays, 0.9, 0.9, 0, "auto")
        with pytest.raises(ValueError, match=r"shape"):
            core.advantage.gae_twin(*arrays, 0.9, 0.9)
    with pytest.raises(TypeError):
        core.advantage.gae(
            *[array.T for array in (reals,) * 3],
            flags,
            flags,
            None,
            *new_out(),
            0.9,
            0.9,
            0,
            "auto",
        )
