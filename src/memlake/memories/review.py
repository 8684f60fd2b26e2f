"""Keeping memories in order: what speaks against what, and what was decided. Changes only what it is told to."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator, Sequence

from memlake.errors import Corrupt, InvalidInput, NotFound, Nothing, Purged, pasted
from memlake.memories import conflicts, record, search, store, timeline
from memlake.memories.context import MemoryContext
from memlake.memories.record import AGENT_CONFLICT, AGENT_SAME, Memory, describe_other_agent
from memlake.memories.search import EVERYONE, Query
from memlake.named_tuple import NamedTuple
from memlake.records import Commit
from memlake.versions.kinds import Sides

KEEP = ("new", "old", "both")
LOOKED_BACK = 10_000  # commits among which decisions are looked for
_ALL = 100_000  # memories, where a list has no end of its own
_DECISION = re.compile(r"(?P<did>replace|conflict|merge) memory [0-9a-f-]{36}\n\n(?P<why>\{.*\})")


class Contradiction(NamedTuple):
    """Two memories that may contradict each other, both kept, and the rule that was unsure or found another agent.

    Of a merge that waits: one memory as theirs (`new`) and ours (`old`) have it; None is a side that forgot it.
    """

    new: Memory | None
    old: Memory | None
    rule: str
    why: str = ""
    merging: bool = False


class Decided(NamedTuple):
    """A memory that a new one changed by itself: the rule, whether it was unsure, both contents, the value before."""

    memory_id: str
    decision: str
    rule: str
    unsure: bool
    new: str
    old: str
    version: str
    time: int
    author: str


def list_contradictions(
    context: MemoryContext, agent_id: str | Sequence[str] = EVERYONE, *, project: str | None = None
) -> Iterator[Contradiction]:
    """What a merge waits for, then what `decide` could not decide: both sides; of one project, if given."""
    whose = context.choose_projects(project)
    for met in conflicts.list_waiting(context):
        if conflicts.describe_sides(context.here.history, met) is None:  # no memory, whatever its path
            continue
        ours, theirs = conflicts.read_sides(context.here.history, met)
        owner = theirs or ours
        shown = any(context.shows(side, whose) for side in (ours, theirs) if side is not None)
        if shown and owner is not None and search.is_asked_for(owner.agent_id, agent_id):
            yield Contradiction(theirs, ours, conflicts.describe_merge(context), merging=True)
    for told in conflicts.list_waiting_states(context):
        if search.is_asked_for(told.agent_id, agent_id):
            yield _describe_state(context, told)
    for new in search.list_memories(context, Query(limit=_ALL, agent_id=agent_id, review=True, project=whose)):
        other = store.find(context, new.related[0]) if new.related else None
        if other is None and new.related:  # forgotten or purged since: nothing speaks against the new one any more
            continue
        yield Contradiction(
            new,
            other,
            new.review,
            describe_other_agent(new.review, other) if other and _is_between_agents(new, other) else "",
        )


def _describe_state(context: MemoryContext, told: Sides) -> Contradiction:
    """A state value of a merge that waits, each side as a memory would say it, under its key."""
    theirs, ours = (
        None if text is None else Memory(told.key, f"{told.key} = {text}", told.agent_id, memory_type="state")
        for text in (told.theirs, told.ours)
    )
    why = f"State of {told.agent_id or 'nobody'}: choose with `memlake merge --ours {pasted(told.key)}` or `--theirs`."
    return Contradiction(theirs, ours, conflicts.describe_merge(context), why, merging=True)


def _is_between_agents(new: Memory, old: Memory) -> bool:
    return new.review in (AGENT_CONFLICT, AGENT_SAME) and new.agent_id != old.agent_id


def list_decided(
    context: MemoryContext, agent_id: str = EVERYONE, limit: int = 20, *, project: str | None = None
) -> list[Decided]:
    """The newest changes that `decide` made to memories, newest first, among the last commits of the branch."""
    whose = context.choose_projects(project)
    found = (
        _parse_decision(context, commit, agent_id, whose) for commit in timeline.list_commits(context, LOOKED_BACK)
    )
    return list(itertools.islice((one for one in found if one is not None), limit))


def _parse_decision(
    context: MemoryContext, commit: Commit, agent_id: str, whose: Sequence[str] | None
) -> Decided | None:
    said = _DECISION.fullmatch(commit.message)
    changes = context.here.history.changes(commit) if said else ()
    if said is None or len(changes) != 1 or changes[0].old is None or changes[0].new is None:
        return None
    before = changes[0].old.oid
    try:
        why = json.loads(said["why"])
        old, new = (record.decode(context.here.history.objects.read(oid)) for oid in (before, changes[0].new.oid))
        found = Decided(
            new.memory_id, said["did"], why["rule"], why.get("unsure", False), new.content, old.content, before,
            commit.time, commit.author.name,
        )  # fmt: skip
    except (Purged, NotFound, Corrupt, ValueError, KeyError):  # gone, or anybody's commit with such a message
        return None
    return found if search.is_asked_for(new.agent_id, agent_id) and context.shows(new, whose) else None


def resolve(context: MemoryContext, memory_id: str, keep: str) -> Memory | None:
    """Settle a contradiction: the new one stands (the old value becomes its history), the old one, or both.

    Of two agents neither loses its memory: both say what stands. Of a merge that waits, theirs is the new one and
    ours the old; None when the side that was kept had forgotten it.
    """
    keep = {"theirs": "new", "ours": "old"}.get(keep, keep)
    if keep not in KEEP:
        raise InvalidInput(f"keep is one of {', '.join(KEEP)}, not {keep!r}. Nothing was changed.")
    met = conflicts.find(context, memory_id)
    return _settle(context, memory_id, keep) if met is None else conflicts.choose(context, met, keep)


def _settle(context: MemoryContext, memory_id: str, keep: str) -> Memory:
    new = store.get(context, memory_id)
    if not new.review:
        raise Nothing(
            f"memory {memory_id} is in no conflict. Nothing was changed.",
            hint="See what is in conflict with: memlake memory conflicts",
        )
    old = store.find(context, new.related[0]) if new.related else None
    settled = new._replace(review="")
    if keep == "both" or old is None:
        return store.replace(context, new, settled, f"resolve memory {memory_id}: keep both")
    if _is_between_agents(new, old):
        return _settle_two(context, new, old, keep)
    if keep == "old":
        store.delete(context, new)
        return old
    made = store.replace(context, old, settled._replace(related=()), f"resolve memory {old.memory_id}: keep the new")
    store.delete(context, new)
    return made


def _settle_two(context: MemoryContext, new: Memory, old: Memory, keep: str) -> Memory:
    message = f"resolve memory {new.memory_id}: keep the {keep}"
    if keep == "old":
        return store.replace(context, new, new._replace(content=old.content, review=""), message)
    store.replace(context, old, old._replace(content=new.content), message)
    return store.replace(context, new, new._replace(review=""), message)
