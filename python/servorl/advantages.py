"""Advantage estimation over a rollout: the checked door to ``csrc/advantage`` and ``csrc/cuda``.

NumPy arrays and torch CPU tensors go to the host's vectorised loops, torch CUDA tensors to one
kernel launch on torch's current stream. C-contiguous inputs are read where they lie; strided ones
are copied first. Nothing is converted from one dtype to another: a wrong dtype is an error.
"""

from __future__ import annotations

import functools
import numbers
import sys
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np

from servorl.errors import NativeModuleError

if TYPE_CHECKING:
    import torch

    Array = TypeVar("Array", np.ndarray[Any, Any], torch.Tensor)

_NumpyArray: TypeAlias = np.ndarray[Any, Any]
_BOOL, _UINT8 = np.dtype(np.bool_), np.dtype(np.uint8)


def gae(
    rewards: Array,
    values: Array,
    next_values: Array,
    terminated: Array,
    truncated: Array,
    *,
    gamma: float,
    gae_lambda: float,
    valid: Array | None = None,
    num_threads: int = 0,
    out: tuple[Array, Array] | None = None,
    isa: str = "auto",
) -> tuple[Array, Array]:
    """Generalised advantage estimation (Schulman et al. 2015, eq. 16) of a time-major batch.

    With ``delta = rewards + gamma * next_values - values``, where ``next_values`` counts as 0 if
    ``terminated``, an advantage is ``delta + gamma * gae_lambda *`` (the next step's advantage),
    the latter counting as 0 if ``terminated`` or ``truncated``. What a flag cuts off is never
    read as a number, so a NaN there has no effect. float64 inside.

    Args:
        rewards: ``[T, N]`` float32 (or float64, and then all four real arrays and both results).
        values: ``[T, N]``, V of the state in which the step was taken.
        next_values: ``[T, N]``, V of its true successor: of ``final_obs`` where truncated.
        terminated: ``[T, N]`` bool, or uint8 with any non-zero value for true.
        truncated: ``[T, N]`` bool or uint8.
        gamma: Discount, in [0, 1].
        gae_lambda: Trace decay, in [0, 1].
        valid: ``[T, N]`` bool or uint8. Rows that are not valid give 0 in both results and cut
            the recursion; None means that all are.
        num_threads: The most threads to use on the host, 0 for all processors. Fewer are used
            where they would not pay. The result does not depend on it.
        out: The pair ``(advantages, returns)`` to write into and return: C-contiguous, writable,
            of the shape and dtype of ``rewards``, overlapping no other array of the call.
        isa: Instruction set of the host's loops, for tests: ``auto``, ``baseline``, ``avx2`` or
            ``avx512``. The result does not depend on it.

    Returns:
        ``(advantages, returns)``, both ``[T, N]`` of the dtype of ``rewards``, with
        ``returns = advantages + values``; tensors on the device of ``rewards`` if that is a tensor.

    Raises:
        TypeError: an argument is of the wrong kind or dtype; the message names it.
        ValueError: a shape, device, range or memory layout is wrong; the message names it.
        NativeModuleError: CUDA tensors, but servorl was built without CUDA.
    """
    gamma = _unit_interval("gamma", gamma)
    gae_lambda = _unit_interval("gae_lambda", gae_lambda)
    num_threads = _thread_count(num_threads)
    if not isinstance(isa, str):
        raise TypeError(f"isa must be a string, not {type(isa).__name__}")
    reals = {"rewards": rewards, "values": values, "next_values": next_values}
    flags = {"terminated": terminated, "truncated": truncated}
    if valid is not None:
        flags["valid"] = valid
    arrays = _checked(reals, flags, out)
    if getattr(rewards, "is_cuda", False):
        _gae_on_device(arrays, gamma, gae_lambda)
    else:
        _gae_on_host(arrays, gamma, gae_lambda, num_threads, isa)
    return arrays[-2], arrays[-1]


def _gae_on_host(
    arrays: list[Any], gamma: float, gae_lambda: float, num_threads: int, isa: str
) -> None:
    from servorl._native import core

    views = [None if array is None else _host_view(array) for array in arrays]
    core.advantage.gae(*views, gamma, gae_lambda, num_threads, isa)


def _gae_on_device(tensors: list[Any], gamma: float, gae_lambda: float) -> None:
    import torch

    try:
        from servorl import _cuda
    except ImportError as error:
        raise NativeModuleError(
            "rewards is on a CUDA device, but servorl was built without CUDA "
            f"({error}); install nvcc and reinstall servorl, or pass CPU tensors"
        ) from None
    pointers = [0 if tensor is None else tensor.data_ptr() for tensor in tensors]
    rewards = tensors[0]
    device = rewards.device
    with torch.cuda.device(device):
        stream = torch.cuda.current_stream().cuda_stream
        is_float64 = rewards.dtype == torch.float64
        steps, envs = rewards.shape
        _cuda.gae(pointers, steps, envs, gamma, gae_lambda, is_float64, device.index, stream)


def _host_view(array: Any) -> _NumpyArray:
    """The same memory as a NumPy array, flags as uint8."""
    view: _NumpyArray = array if isinstance(array, np.ndarray) else array.numpy()
    return view.view(_UINT8) if view.dtype == _BOOL else view


def _checked(reals: dict[str, Any], flags: dict[str, Any], out: Any) -> list[Any]:
    """Every array of the call in the order of the compiled functions' arguments, or an error.

    That is rewards, values, next_values, terminated, truncated, valid (or None), advantages and
    returns; all contiguous, the inputs copied where they were not.
    """
    rewards = reals["rewards"]
    kind: _Numpy | _Torch = _torch() if _is_tensor(rewards) else _NUMPY
    kind.require_kind("rewards", rewards)
    if rewards.dtype not in kind.reals:
        raise TypeError(f"rewards must be float32 (or float64), not {rewards.dtype}")
    if len(rewards.shape) != 2:
        raise ValueError(f"rewards must have the shape [T, N], not {list(rewards.shape)}")
    inputs = {}
    for name, array in reals.items():
        _require_like(kind, name, array, rewards)
        inputs[name] = kind.contiguous(array)
    for name, array in flags.items():
        _require_like(kind, name, array, rewards, kind.flags)
        inputs[name] = kind.contiguous(array)
    arrays = list(inputs.values())
    if "valid" not in inputs:
        arrays.append(None)
    if out is None:
        return [*arrays, kind.empty(rewards), kind.empty(rewards)]
    outputs = _out_by_name(out)
    for name, array in outputs.items():
        _require_like(kind, name, array, rewards)
        kind.require_writable(name, array)
    _require_apart(kind, inputs, outputs)
    return [*arrays, *outputs.values()]


def _require_like(
    kind: _Numpy | _Torch, name: str, array: Any, rewards: Any, dtypes: tuple[Any, ...] = ()
) -> None:
    """Of the kind, place and shape of rewards, and of one of the dtypes or else that of rewards."""
    kind.require_kind(name, array)
    if dtypes and array.dtype not in dtypes:
        raise TypeError(f"{name} must be bool or uint8, not {array.dtype}")
    if not dtypes and array.dtype != rewards.dtype:
        raise TypeError(f"{name} is {array.dtype}, but rewards is {rewards.dtype}")
    if array.shape != rewards.shape:
        raise ValueError(
            f"{name} has the shape {list(array.shape)}, but rewards has {list(rewards.shape)}"
        )
    kind.require_place(name, array, rewards)


def _out_by_name(out: Any) -> dict[str, Any]:
    if not isinstance(out, tuple | list) or len(out) != 2:
        raise TypeError("out must be a pair (advantages, returns)")
    return {"out[0]": out[0], "out[1]": out[1]}


def _require_apart(kind: _Numpy | _Torch, inputs: dict[str, Any], outputs: dict[str, Any]) -> None:
    spans = {name: kind.span(array) for name, array in (inputs | outputs).items()}
    for output in outputs:
        begin, end = spans.pop(output)
        for name, (other_begin, other_end) in spans.items():
            if begin < other_end and other_begin < end:
                raise ValueError(f"{output} overlaps {name} in memory")


class _Numpy:
    """What the checks need to know of NumPy arrays."""

    reals = (np.dtype(np.float32), np.dtype(np.float64))
    flags = (_BOOL, _UINT8)

    def require_kind(self, name: str, array: Any) -> None:
        if type(array) is np.ndarray:
            return
        if not isinstance(array, np.ndarray) or isinstance(array, np.ma.MaskedArray):
            expected = "a NumPy array or a torch tensor" if name == "rewards" else "a NumPy array"
            raise TypeError(f"{name} must be {expected}, not {_type_name(array)}")

    def require_place(self, name: str, array: Any, rewards: Any) -> None:
        """Every NumPy array lies in the host's memory."""

    def contiguous(self, array: Any) -> Any:
        layout = array.flags
        return array if layout.c_contiguous and layout.aligned else np.array(array, order="C")

    def require_writable(self, name: str, array: Any) -> None:
        if not (array.flags.c_contiguous and array.flags.aligned):
            raise ValueError(f"{name} must be C-contiguous and aligned")
        if not array.flags.writeable:
            raise ValueError(f"{name} is read-only")

    def empty(self, like: Any) -> Any:
        return np.empty(like.shape, like.dtype)

    def span(self, array: Any) -> tuple[int, int]:
        begin = array.__array_interface__["data"][0]
        return begin, begin + array.nbytes


class _Torch:
    """What the checks need to know of torch tensors."""

    def __init__(self, torch: Any) -> None:
        self.reals = (torch.float32, torch.float64)
        self.flags = (torch.bool, torch.uint8)
        self._torch = torch

    def require_kind(self, name: str, array: Any) -> None:
        if not isinstance(array, self._torch.Tensor):
            raise TypeError(
                f"{name} must be a torch tensor, as rewards is, not {_type_name(array)}"
            )
        if array.requires_grad:
            raise ValueError(f"{name} requires grad, which gae would drop; pass {name}.detach()")

    def require_place(self, name: str, array: Any, rewards: Any) -> None:
        if array.device != rewards.device:
            raise ValueError(f"{name} is on {array.device}, but rewards is on {rewards.device}")
        if array.device.type not in ("cpu", "cuda"):
            raise ValueError(f"{name} must be on a cpu or cuda device, not {array.device}")
        if array.layout != self._torch.strided:
            raise ValueError(f"{name} must be a dense tensor, not {array.layout}")

    def contiguous(self, array: Any) -> Any:
        return array.resolve_neg().contiguous()

    def require_writable(self, name: str, array: Any) -> None:
        if not array.is_contiguous() or array.is_neg():
            raise ValueError(f"{name} must be contiguous")

    def empty(self, like: Any) -> Any:
        return self._torch.empty(like.shape, dtype=like.dtype, device=like.device)

    def span(self, array: Any) -> tuple[int, int]:
        begin = array.data_ptr()
        return begin, begin + array.numel() * array.element_size()


_NUMPY = _Numpy()


@functools.cache
def _torch() -> _Torch:
    import torch

    return _Torch(torch)


def _is_tensor(array: Any) -> bool:
    torch = sys.modules.get("torch")  # whoever holds a tensor has imported torch
    return torch is not None and isinstance(array, torch.Tensor)


def _type_name(array: Any) -> str:
    return "a torch tensor" if _is_tensor(array) else type(array).__name__


def _unit_interval(name: str, value: float) -> float:
    if type(value) is not float and (
        isinstance(value, bool) or not isinstance(value, numbers.Real)
    ):
        raise TypeError(f"{name} must be a number, not {type(value).__name__}")
    if not 0.0 <= value <= 1.0:  # false for NaN too
        raise ValueError(f"{name} must lie in [0, 1], not {value}")
    return float(value)


def _thread_count(num_threads: int) -> int:
    if type(num_threads) is not int and (
        isinstance(num_threads, bool) or not isinstance(num_threads, numbers.Integral)
    ):
        raise TypeError(f"num_threads must be an integer, not {type(num_threads).__name__}")
    if num_threads < 0:
        raise ValueError(f"num_threads must be 0 (all processors) or more, not {num_threads}")
    return min(int(num_threads), _MOST_THREADS)


_MOST_THREADS = 4096
