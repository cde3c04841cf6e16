"""Names for C: whatever a channel is called, its identifier compiles as C99 and as C++17."""

from __future__ import annotations

import re
from collections.abc import Iterable

_KEYWORDS = """
    alignas alignof and and_eq asm auto bitand bitor bool break case catch char char8_t char16_t
    char32_t class co_await co_return co_yield compl concept const const_cast consteval constexpr
    constinit continue decltype default delete do double dynamic_cast else enum explicit export
    extern false float for friend goto if inline int long main mutable namespace new noexcept not
    not_eq nullptr operator or or_eq private protected public register reinterpret_cast requires
    restrict return short signed sizeof static static_assert static_cast struct switch template
    this thread_local throw true try typedef typeid typename union unsigned using virtual void
    volatile wchar_t while xor xor_eq
"""
KEYWORDS = frozenset(_KEYWORDS.split())


def identifier(name: str) -> str:
    """The name with everything but ASCII letters, digits and single inner underscores replaced.

    Never a keyword of C or C++, never empty, never starting with a digit or an underscore.
    """
    plain = re.sub(r"[^0-9A-Za-z]+", "_", name).strip("_") or "unnamed"
    if plain[0].isdigit():
        plain = f"n{plain}"
    return f"{plain}_" if plain.lower() in KEYWORDS else plain


def identifiers(names: Iterable[str]) -> list[str]:
    """One identifier for each name, in order, unique even where case is ignored."""
    taken: set[str] = set()
    result = []
    for name in names:
        base = identifier(name)
        candidate, number = base, 2
        while candidate.lower() in taken:
            candidate = f"{base.rstrip('_')}_{number}"
            number += 1
        taken.add(candidate.lower())
        result.append(candidate)
    return result


def comment(text: str) -> str:
    """Text that may stand inside a C comment: printable ASCII, no comment or continuation marks."""
    printable = "".join(c if " " <= c <= "~" and c not in "\\?" else "_" for c in text)
    return printable.replace("*/", "* /").replace("/*", "/ *")
