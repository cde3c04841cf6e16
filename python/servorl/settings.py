"""Ranges of configuration fields, written beside them, and the one check that enforces them.

learning_rate: Annotated[float, Range(0.0)] = 3e-4
"""

from __future__ import annotations

import dataclasses
import math
import types
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from servorl.errors import SettingError, UnknownNameError


@dataclass(frozen=True)
class Range:
    """``low <= value <= high``; an open end leaves the bound itself out."""

    low: float = -math.inf
    high: float = math.inf
    open_low: bool = False
    open_high: bool = False

    def __contains__(self, value: float) -> bool:
        above = value > self.low if self.open_low else value >= self.low
        below = value < self.high if self.open_high else value <= self.high
        return above and below and _is_finite(value)

    def __str__(self) -> str:
        if self.high == math.inf:
            return f"{'above' if self.open_low else 'at least'} {self.low:g}"
        left, right = "(" if self.open_low else "[", ")" if self.open_high else "]"
        return f"in {left}{self.low:.12g}, {self.high:.12g}{right}"


def check_settings(config: Any) -> None:
    """Check each field of a configuration dataclass against its annotation.

    Raises SettingError naming the field, its value and what is allowed.
    """
    hints = get_type_hints(type(config), include_extras=True)
    for field in dataclasses.fields(config):
        problem = _problem(getattr(config, field.name), hints[field.name])
        if problem:
            raise SettingError(
                f"{field.name} must be {problem}, not {getattr(config, field.name)!r}"
            )


def with_settings(config: Any, settings: dict[str, Any]) -> Any:
    """A copy of a configuration with some fields replaced and every field checked.

    Raises UnknownNameError for a name that is no field, SettingError for a value out of range.
    """
    known = [field.name for field in dataclasses.fields(config)]
    for name in settings:
        if name not in known:
            raise UnknownNameError("setting", name, known)
    config = dataclasses.replace(config, **settings)
    check_settings(config)
    return config


def _is_finite(number: float) -> bool:
    return isinstance(number, int) or math.isfinite(number)


def _problem(value: Any, hint: Any) -> str | None:
    """What ``value`` should have been; None where it fits the annotation."""
    origin = get_origin(hint)
    if origin is Annotated:
        kind, *extras = get_args(hint)
        problem = _problem(value, kind)
        allowed = next((extra for extra in extras if isinstance(extra, Range)), None)
        if problem or allowed is None or value is None:
            return problem
        numbers = value if isinstance(value, tuple) else (value,)
        if all(number in allowed for number in numbers):
            return None
        return str(allowed) if all(map(_is_finite, numbers)) else "finite"
    if origin in (Union, types.UnionType):
        problems = [_problem(value, kind) for kind in get_args(hint)]
        return None if None in problems else " or ".join(str(problem) for problem in problems)
    if origin is Literal:
        names = get_args(hint)
        return None if value in names else f"one of {', '.join(map(str, names))}"
    if origin is tuple:
        kind = get_args(hint)[0]
        fits = isinstance(value, tuple) and not any(_problem(item, kind) for item in value)
        return None if fits else f"a tuple of {kind.__name__}"
    if hint is float:
        fits = isinstance(value, (int, float)) and not isinstance(value, bool)
        return None if fits else "a number"
    if hint is int:
        fits = isinstance(value, int) and not isinstance(value, bool)
        return None if fits else "an integer"
    names_of_kinds = {bool: "true or false", str: "a string", Path: "a path"}
    if hint is type(None):
        return None if value is None else "None"
    return None if isinstance(value, hint) else names_of_kinds.get(hint, hint.__name__)
