"""What a merge inside a file gives. Pure records."""

from __future__ import annotations

from typing import Any, NamedTuple


class InnerConflict(NamedTuple):
    """A place inside a file that both sides changed differently; None stands for what a side does not have."""

    place: str
    base: Any
    ours: Any
    theirs: Any


class Merged(NamedTuple):
    """The joined bytes; or none, and the places that wait for a choice."""

    data: bytes | None
    conflicts: tuple[InnerConflict, ...] = ()
    notes: tuple[str, ...] = ()
