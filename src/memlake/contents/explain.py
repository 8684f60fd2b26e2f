"""What differs inside a file, whatever its type. Knows the list of types, and none of them."""

from __future__ import annotations

from typing import Any, NamedTuple

from memlake.contents.content import Content, Unreadable
from memlake.contents.file_types import find_type


class How(NamedTuple):
    """How closely to look."""

    key: tuple[str, ...] = ()  # the columns that tell rows apart; none: they are looked for
    key_origin: str = "given"  # who named them, "given" or "declared"
    limit: int | None = 10  # how many of what differs to tell of each kind; None: all


class Explanation(NamedTuple):
    """What differs inside a file, as the record of its type; or, without one, why memlake could not look inside."""

    type: str
    record: Any
    note: str = ""


def explain(old: Content, new: Content, how: How) -> Explanation | None:
    """None if memlake knows nothing about the insides of such a file."""
    kind = find_type(new.path, new) if new.size else find_type(new.path)
    diff = kind.find("diff") if kind else None
    if kind is None or diff is None:
        return None
    try:
        return Explanation(kind.name, diff(old, new, how))
    except Unreadable as error:
        return Explanation(kind.name, None, error.message)
