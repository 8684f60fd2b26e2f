"""Memories and state that a merge found changed on both sides: what each side says, and what a choice keeps.

The text that is not chosen is never lost: it becomes part of the history of the one that is.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping

from memlake.errors import Conflict as Conflicting
from memlake.errors import Corrupt, NotFound, Purged
from memlake.memories import record
from memlake.memories.context import MemoryContext
from memlake.memories.kind import MEMORY, STATE, write_entry
from memlake.memories.record import Memory, Past
from memlake.objects import layout
from memlake.records import Conflict, Entry
from memlake.versions.checkout import update
from memlake.versions.history.commits import History
from memlake.versions.kinds import Sides
from memlake.versions.verbs import merge

SIDES = {"new": "theirs", "old": "ours", "both": "both"}


def describe_sides(history: History, met: Conflict) -> Sides | None:
    """What both sides of a conflict say; None for what is neither a memory nor state."""
    name = met.path.rsplit("/", 1)[1]
    with contextlib.suppress(Corrupt):  # what `Repo.write` put there is any bytes
        if met.path.startswith(MEMORY.folder):
            texts = [memory and memory.content for memory in read_sides(history, met)]
            return Sides(f"memory {name}", texts[0], texts[1])
        if met.path.startswith(STATE.folder):
            return _state_said(history, met)
    return None


def read_sides(history: History, met: Conflict) -> tuple[Memory | None, Memory | None]:
    """Ours and theirs as memories; None is a side that forgot it."""
    return _read_side(history, met.path, met.ours), _read_side(history, met.path, met.theirs)


def _read_side(history: History, path: str, entry: Entry | None) -> Memory | None:
    if entry is None:
        return None
    try:
        return record.decode(history.objects.read(entry.oid))
    except (Purged, NotFound):
        return Memory(path.rsplit("/", 1)[1], "(purged)")


def _state_said(history: History, met: Conflict) -> Sides:
    found = [entry and record.decode_state(history.objects.read(entry.oid)) for entry in (met.ours, met.theirs)]
    known = next(one for one in found if one is not None)
    values = [None if one is None else json.dumps(one.value, ensure_ascii=False) for one in found]
    name = f"{met.path}  (state {known.key!r} of {known.agent_id or 'nobody'})"
    return Sides(name, values[0], values[1], known.key, known.agent_id)


# -- choosing ---------------------------------------------------------------------------------


def settle_choice(history: History, met: Conflict) -> Mapping[str, Entry | None]:
    """What a choice between two memories means: path -> entry, on top of ours."""
    plain = {met.path: met.ours if met.choice == "ours" else met.theirs}
    if met.ours is None or met.theirs is None:
        return plain
    try:
        ours, theirs = (record.decode(history.objects.read(entry.oid)) for entry in (met.ours, met.theirs))
    except (Corrupt, Purged, NotFound):  # no memory, or none any more: there is no text to keep
        return plain
    if met.choice == "both":
        copy = theirs._replace(memory_id=layout.new_id(), related=(ours.memory_id,))
        return {f"{met.path.rsplit('/', 1)[0]}/{copy.memory_id}": write_entry(history, copy)}
    if met.choice == "ours":
        return {met.path: write_entry(history, _with_past(ours, theirs, met.theirs.oid))}
    return {met.path: write_entry(history, _with_past(theirs, ours, met.ours.oid))}


def _with_past(won: Memory, lost: Memory, oid: str) -> Memory:
    """The chosen memory, its history continued by what the other side said, now and before."""
    now = layout.now()
    earlier = {past.oid: past for past in (*lost.history, *won.history)}
    known = sorted(earlier.values(), key=lambda past: past.until)
    last = () if lost.content == won.content else (Past(oid, now),)
    return won._replace(history=(*known, *last), updated_at=now)


# -- while it waits ---------------------------------------------------------------------------


def list_waiting(context: MemoryContext) -> list[Conflict]:
    """Memories of this branch on which a merge in this checkout waits for a choice."""
    return [one for one in _list_conflicts(context) if one.choice is None]


def list_waiting_states(context: MemoryContext) -> list[Sides]:
    """State values on which it waits."""
    local = context.here.local
    met = local.conflicts() if local.branch == context.branch else ()
    told = [
        describe_sides(context.here.history, one)
        for one in met
        if one.choice is None and one.path.startswith(STATE.folder)
    ]
    return [one for one in told if one is not None]


def find(context: MemoryContext, memory_id: str) -> Conflict | None:
    """The conflict of a memory in what waits, also where a choice was made already: it may be made anew."""
    return next((one for one in _list_conflicts(context) if one.path.endswith(f"/{memory_id}")), None)


def _list_conflicts(context: MemoryContext) -> list[Conflict]:
    local = context.here.local
    found = local.conflicts() if local.branch == context.branch else ()
    return [one for one in found if one.path.startswith(MEMORY.folder)]


def describe_merge(context: MemoryContext) -> str:
    pending = context.here.local.find_pending()
    return f"{pending.verb} of {pending.name}" if pending else "merge"


def choose(context: MemoryContext, met: Conflict, keep: str) -> Memory | None:
    """Settle one that waits: ours (old), theirs (new) or both. The merge itself is finished by `merge --continue`."""
    ours, theirs = read_sides(context.here.history, met)
    side = SIDES[keep]
    if side == "both" and (ours is None or theirs is None):
        raise Conflicting(
            f"one side of the {describe_merge(context)} forgot memory {met.path.rsplit('/', 1)[1]}, so there are "
            "no two to keep. Nothing was changed.",
            hint="Keep ours or theirs.",
        )
    here = context.here
    with here.local.verb():
        if here.local.state("journal") is not None:
            update.resume(here.history, here.local, here.root)
        merge.choose(here, side, (met.path,))
    return theirs if side == "theirs" else ours
