"""Params that were given and that nothing asked for: mostly they are misspelled. Pure, and quick to load."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence

_SHOWN = 10  # names of a file, which may be there for other programs too


def unasked(given: Iterable[str], asked: Sequence[str]) -> list[str]:
    """Names that nothing asked for; who asks for a section asks for all that is in it."""
    return [name for name in given if not any(name == one or name.startswith(f"{one}.") for one in asked)]


def of_file(file: str, names: Iterable[str], asked: Sequence[str]) -> list[str]:
    """What is said of a file of params: a line, or nothing."""
    found = unasked(names, asked)
    if not found:
        return []
    nears = [(name, nearest(name, asked)) for name in found[:_SHOWN]]
    said = ", ".join(f"{name} (did you mean {near}?)" if near else name for name, near in nears)
    more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    return [f"warning: nothing asked for these params of {file}: {said}{more}. They had no effect."]


def nearest(name: str, asked: Sequence[str]) -> str:
    return next(iter(difflib.get_close_matches(name, asked, 1)), "")
