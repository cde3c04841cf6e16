"""Command-line arguments to a configuration dataclass, with tyro.

tyro answers a wrong request with a box of several lines; here it becomes a ``SettingError`` or an
``UnknownNameError`` with one line, which ``servorl.cli.main`` prints with exit code 2.
"""

from __future__ import annotations

import contextlib
import dataclasses
import io
import re
import sys
import types
import typing
from collections.abc import Iterator
from typing import Any, TypeVar

from servorl.errors import SettingError, UnknownNameError

Config = TypeVar("Config")
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_EDGE = re.compile(r"^│\s*|\s*│$")
_RULE = re.compile(r"^[─-]{3,}$")
_NUMBER = re.compile(r"-(\d|\.\d|inf|nan)")


def parse(
    config_class: type[Config],
    arguments: list[str],
    *,
    prog: str,
    default: Config | None = None,
) -> Config:
    """Build ``config_class`` from command-line arguments.

    Args:
        config_class: A dataclass; each field is a flag (``num_envs`` is ``--num-envs``), and the
            string under it is the flag's help. Its docstring is the command's description.
        arguments: What follows the command's name.
        prog: The command as the user types it, for example ``servorl export``.
        default: Values of the flags that are not given, instead of the class's own.

    ``--help`` prints the help and raises ``SystemExit(0)``.

    Raises:
        SettingError: a value is missing or has the wrong type, or an argument is left over.
        UnknownNameError: a flag or a choice that does not exist; names the nearest ones.
    """
    import tyro

    if any(argument == "" or argument.endswith("=") for argument in arguments):
        raise SettingError("a value is empty; is a shell variable that it comes from unset?")
    flags = dict(_flags(config_class, default))
    messages = io.StringIO()
    try:
        with contextlib.redirect_stderr(messages):
            parsed: tuple[Config, list[str]] = tyro.cli(
                config_class,
                prog=prog,
                args=_split_lists(arguments, flags),
                default=tyro.MISSING_NONPROP if default is None else default,
                return_unknown_args=True,
                config=(tyro.conf.FlagCreatePairsOff, tyro.conf.OmitArgPrefixes),
            )
    except SystemExit as stop:
        if stop.code in (0, None):
            raise
        _reject_unknown_flags(arguments, flags)
        if "Missing from" in messages.getvalue():
            raise _missing(messages.getvalue(), config_class, prog) from None
        raise _usage_error(messages.getvalue(), arguments, prog) from None
    config, unknown = parsed
    sys.stderr.write(messages.getvalue())
    if unknown:
        _reject_unknown_flags(unknown, flags)
        raise SettingError(f"unexpected argument {unknown[0]!r}; see {prog} --help")
    return config


def _flags(config_class: Any, default: Any) -> Iterator[tuple[str, Any]]:
    """Every flag of a dataclass, nested ones included, with its type."""
    hints = typing.get_type_hints(config_class)
    for field in dataclasses.fields(config_class):
        kind = hints[field.name]
        value = field.default if default is None else getattr(default, field.name)
        hyphens = field.name.replace("_", "-")
        if dataclasses.is_dataclass(kind):
            yield from _flags(kind, None if value is dataclasses.MISSING else value)
        else:
            yield f"--no-{hyphens}" if value is True else f"--{hyphens}", kind


def _reject_unknown_flags(arguments: list[str], flags: dict[str, Any]) -> None:
    known = {*flags, "--help", "-h"}
    for argument in arguments:
        name = argument.split("=", 1)[0].replace("_", "-")
        if name.startswith("-") and name not in known and not _NUMBER.match(argument):
            raise UnknownNameError("setting", argument.split("=", 1)[0], flags)


def _split_lists(arguments: list[str], flags: dict[str, Any]) -> list[str]:
    """Let ``--seeds 1,2,3`` mean ``--seeds 1 2 3``, for the flags that take several values."""
    result: list[str] = []
    several = False
    for argument in arguments:
        name, equals, value = argument.partition("=")
        kind = flags.get(name.replace("_", "-"))
        if kind is not None:
            several = _takes_several(kind)
            if several and equals:
                result += [name, *filter(None, value.split(","))]
                continue
        elif several and "," in argument:
            result += filter(None, argument.split(","))
            continue
        result.append(argument)
    return result


def _takes_several(kind: Any) -> bool:
    origin = typing.get_origin(kind)
    if origin in (typing.Union, types.UnionType):
        return any(_takes_several(member) for member in typing.get_args(kind))
    return origin in (tuple, list, set)


def _usage_error(printed: str, arguments: list[str], prog: str) -> SettingError | UnknownNameError:
    """The one-line form of the box that tyro printed."""
    sections = _sections(printed)
    first = " ".join(sections[0]) or printed.strip() or "wrong arguments"
    if choice := re.match(r"invalid choice '(.*)' for argument '(.*)'\. Expected.*\((.*)\)", first):
        value, argument, choices = choice.groups()
        return UnknownNameError(argument.lstrip("-"), value, re.findall(r"'([^']*)'", choices))
    if value_error := re.match(r"Error parsing ([^\s:]+): (.*)", first):
        name, reason = value_error.groups()
        given = _values_after(name, arguments)
        help_lines = sections[1] if len(sections) > 1 else []
        expected = next((h[len(name) :].strip() for h in help_lines if h.startswith(name)), "")
        if given and expected:
            return SettingError(f"{name} expects {expected}, not {given!r}")
        return SettingError(f"{name}: {reason}")
    return SettingError(f"{first.rstrip('.')}; see {prog} --help")


def _sections(printed: str) -> list[list[str]]:
    """The lines inside a box without its title, split at its rules.

    The box is drawn in Unicode, the title in its upper edge; or, where the terminal has none, with
    hyphens, the title being a section of its own.
    """
    sections: list[list[str]] = [[]]
    lines = _COLOUR.sub("", printed).strip().splitlines()
    for line in lines:
        text = _EDGE.sub("", line.strip())
        if text.startswith(("╭", "╰")):
            continue
        if _RULE.match(text):
            sections.append([])
        elif text:
            sections[-1].append(text)
    title_is_section = len(sections) > 1 and not lines[0].startswith("╭")
    return sections[1:] if title_is_section else sections


def _missing(printed: str, config_class: Any, prog: str) -> SettingError:
    """Names what was left out: the first required flag, else the first required position."""
    flag = re.search(r"--[a-z][\w.-]*", " ".join(_sections(printed)[0]))
    if flag is None:
        required = (
            field.name
            for field in dataclasses.fields(config_class)
            if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        )
        name = next(required, "argument").upper()
    else:
        name = flag.group()
    return SettingError(f"missing {name}; see {prog} --help")


def _values_after(flag: str, arguments: list[str]) -> str:
    """What the user wrote behind a flag, as one string."""
    for index, argument in enumerate(arguments):
        name, equals, value = argument.partition("=")
        if name.replace("_", "-") == flag:
            if equals:
                return value
            following = arguments[index + 1 :]
            end = next((i for i, word in enumerate(following) if word.startswith("--")), None)
            return " ".join(following[:end])
    return ""
