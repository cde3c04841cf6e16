"""Reading and writing the state of a batch's environments: named columns over the C++ memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from servorl._native import core
from servorl.errors import UnknownNameError

Array = NDArray[Any]
# Counters that do not change what the task observes.
_BOOKKEEPING = frozenset(
    (
        "seed",
        "episode",
        "elapsed_steps",
        "diverged",
        "repeated_divergences",
        "needs_reset",
        "masked",
    )
)
# Of a model field that was set: its values, those that a reset brings back, and where it will.
_MODEL_PARTS = ("model", "model_after_reset", "model_until_reset")


class EnvironmentState:
    """The state's columns by name, each a live array with the environments on axis 0."""

    def __init__(self, batch: Any, task: str) -> None:
        self._batch = batch
        self._task = task
        self.views: dict[str, Array] = core.sim.state_views(batch)
        self._model_fields: list[str] = batch.model_field_names()

    def get(self, envs: NDArray[np.int32]) -> dict[str, Array]:
        """Copies of the columns' rows ``envs``."""
        return {name: view[envs] for name, view in self.views.items()}

    def set(self, state: Mapping[str, ArrayLike], envs: NDArray[np.int32]) -> None:
        """Write rows ``envs`` of some columns, all or none of them."""
        rows: dict[str, Array] = {}
        for name, values in state.items():
            view = self._column(name)
            what = f"{self._task}: state {name!r}"
            rows[name] = _fitting(what, values, view, (len(envs), *view.shape[1:]), exact=True)
        for name, values in rows.items():
            self.views[name][envs] = values
        ascending = np.sort(envs)
        if "last_observation" in rows:
            self._batch.show_last_observation(ascending)
        elif rows.keys() - _BOOKKEEPING:
            self._batch.refresh(ascending)

    def set_model_field(
        self, name: str, values: ArrayLike, envs: NDArray[np.int32], until_reset: bool
    ) -> None:
        """Write rows ``envs`` of a model field, making it per environment if it is not yet."""
        view = self._expand(name)
        what = f"{self._task}: model field {name!r}"
        view[envs] = _fitting(what, values, view, (len(envs), *view.shape[1:]), exact=False)
        self._batch.mark_field(name, envs, until_reset)

    def _column(self, name: str) -> Array:
        part, _, field = name.partition(".")
        if part in _MODEL_PARTS and name not in self.views:
            self._expand(field)
        if name not in self.views:
            raise UnknownNameError(f"part of the state of {self._task}", name, self.views)
        return self.views[name]

    def _expand(self, name: str) -> Array:
        if f"model.{name}" not in self.views:
            expanded = core.sim.expand(self._batch, name) if name in self._model_fields else None
            if expanded is None:
                raise UnknownNameError(f"model field of {self._task}", name, self._model_fields)
            for part, view in zip(_MODEL_PARTS, expanded, strict=True):
                self.views[f"{part}.{name}"] = view
        return self.views[f"model.{name}"]


def _fitting(
    what: str, values: ArrayLike, view: Array, shape: tuple[int, ...], *, exact: bool
) -> Array:
    """``values`` as the view's dtype in the given shape; raises TypeError or ValueError."""
    array = np.asarray(values)
    if array.size and not np.can_cast(array.dtype, view.dtype, "same_kind"):
        raise TypeError(f"{what} must be {view.dtype}, not {array.dtype}")
    if array.shape == shape:
        return array.astype(view.dtype, copy=False)
    if exact:
        raise ValueError(f"{what} must have shape {shape}, not {array.shape}")
    try:
        return np.broadcast_to(array, shape).astype(view.dtype)
    except ValueError:
        raise ValueError(f"{what} takes values of shape {shape}, not {array.shape}") from None
