"""Branches of memory that were given an end: whether it has come, and what whoever asks for one then is told.

The end stands in the note of the ref; once it has come, whoever looks next discards the branch. The one that is
checked out does not end under a person's feet.
"""

from __future__ import annotations

import json
from datetime import datetime, timezone
from typing import Any

from memlake.errors import AlreadyExists, InvalidInput, NotFound, pasted
from memlake.memories import record
from memlake.objects import layout
from memlake.records import short
from memlake.versions import tables
from memlake.versions.checkout.context import Checkout
from memlake.versions.history import refs

_ENDED = "expired at "


def read_note(note: bytes | None) -> dict[str, Any]:
    """What was noted of a branch when it was made: description, created_at, expires_at."""
    return json.loads(note) if note else {}


def make_note(ttl_seconds: float | None, description: str = "") -> bytes:
    """The note of a branch that is made now."""
    now = layout.now()
    ends = 0 if ttl_seconds is None else _compute_end(ttl_seconds, now)
    return json.dumps({"description": description, "created_at": now, "expires_at": ends}).encode()


def _compute_end(seconds: object, now: int) -> int:
    """When a time to live is over, which must be a time that a calendar has."""
    is_number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
    if not is_number or not 0 < seconds < (record.LATEST - now) / 1e6:  # type: ignore[operator]
        raise InvalidInput(
            f"a time to live is a number of seconds above 0 that ends before the year 10000, not {str(seconds)[:40]}. "
            "Nothing was made.",
            hint="Leave it out for a branch that stays.",
        )
    return now + int(seconds * 1e6)  # type: ignore[operator]


def fork(here: Checkout, base: str, name: str) -> str:
    """The name of a branch, made at where another one stands if it is not there; the other one where it cannot be."""
    with here.history.db.write():
        if refs.find(here.history.db, name) is None:
            heads = refs.get(here.history.db, base)
            try:
                refs.create(here.history, name, heads, action=f"branch from {base}", who=here.who, note=make_note(None))
            except AlreadyExists:  # one whose name is a folder of this one
                return base
    return name


def sweep(here: Checkout) -> None:
    """Discard every branch whose time is over."""
    for name, _, _, note in tables.list_refs(here.history.db, refs.BRANCH):
        if note is not None and is_over(here, name, note):
            end(here, name, note)


def is_over(here: Checkout, name: str, note: bytes | None) -> bool:
    return 0 < read_note(note).get("expires_at", 0) <= layout.now() and here.local.branch != name


def end(here: Checkout, name: str, note: bytes | None) -> None:
    """Discard a branch whose time is over; its reflog says so."""
    when = datetime.fromtimestamp(read_note(note)["expires_at"] // 1_000_000, timezone.utc)
    with here.history.db.write():
        if refs.find(here.history.db, name) is not None:
            refs.delete(here.history, name, action=f"{_ENDED}{when:%Y-%m-%dT%H:%M:%SZ}", who=here.who)


def check(here: Checkout, name: str) -> None:
    """NotFound that says when, for a branch whose time is over. Knows nothing of one that never was."""
    history = here.history
    row = tables.find_ref(history.db, refs.BRANCH, name)
    if row is not None and not is_over(here, name, row[2]):
        return
    if row is not None:
        end(here, name, row[2])
    for lane in ("memory", "work"):
        last = next(refs.reflog(history, name, lane), None)
        if last is not None and last.new is None and last.action.startswith(_ENDED):
            raise NotFound(
                f"branch {name!r} {last.action}; nothing was read or written.",
                hint=f"Bring it back with `memlake branch {pasted(name)} {short(last.old or '')}`, or make another.",
            )
