"""What a merge inside a file is given, and what it gives. Pure records."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from memlake.named_tuple import NamedTuple
from memlake.records import InnerConflict, MergeHow

__all__ = ["InnerConflict", "MergeHow", "Merged"]


class Merged(NamedTuple):
    """The joined bytes, with ours at the places that wait for a choice; none only if nothing can be joined at all.

    `beside` is what other files become by that, by their path, whatever is chosen for the places.
    """

    data: bytes | None
    conflicts: tuple[InnerConflict, ...] = ()
    notes: tuple[str, ...] = ()
    beside: Mapping[str, bytes] = MappingProxyType({})
