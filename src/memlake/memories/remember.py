"""Remembering with a decision: what a new memory does to those that are there. Every change it makes keeps history.

`decide` is pure and lives in its own file; here the candidates are found, the decision is carried out in one commit
that says which rule spoke and what it measured, and a memory that changed meanwhile makes it be decided again.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Mapping

from memlake import memories as later  # what only memories that rest on something need
from memlake.errors import Conflict, Corrupt, InvalidInput, NotFound, Purged
from memlake.memories import index_sync, record, search, store, verdicts
from memlake.memories.context import MemoryContext
from memlake.memories.kind import MEMORY, write_entry
from memlake.memories.record import AGENT_CONFLICT, AGENT_SAME, Memory, Outcome
from memlake.memories.rules import Context, Decision, decide, is_elliptic, name_rivals
from memlake.memories.search import Query
from memlake.memories.verdicts import CHANGES, Judge, Verdict, describe_outcome, may_change
from memlake.named_tuple import NamedTuple
from memlake.records import Commit, Entry

WAYS = ("decide", "add", "ask")
_NEAR = 8  # old memories a new one is held against
_MOST_MERGED = 200  # memories of one merge that are held against others: each is a search
_TRIES = 10  # each is lost only to another process that wrote about the same thing


class Since(NamedTuple):
    """Where the branch stood when a decision was made, and whether somebody is asked where it is unsure."""

    head: Commit | None
    judged: bool


def remember(
    context: MemoryContext, new: Memory, *, way: str = "decide", dry_run: bool = False, judge: Judge | None = None
) -> Outcome:
    """Store a memory, or let it change one that is there."""
    if way not in WAYS:
        raise InvalidInput(f"on_conflict is one of {', '.join(WAYS)}, not {way!r}. Nothing was stored.")
    # One vector of the text, however often it is decided: the last time nobody else can write, and no service is asked.
    context = dataclasses.replace(context, vector_of=functools.cache(context.vector_of), rerank=None)

    def decide_once() -> Outcome:
        head = context.head()
        asked = Decision("add", rule="asked", why="it was to be added as it is")
        verdict = Verdict(asked, None) if way == "add" else _judge_new(context, new, judge)
        news = Since(head, judge is not None) if way != "add" else None
        return describe_outcome(new, verdict, way) if dry_run else _carry_out(context, new, verdict, way, news)

    for _ in range(_TRIES):
        with contextlib.suppress(Conflict):
            return decide_once()
    if judge is not None:  # it may take long, or write by another process: nobody can be made to wait for it
        return decide_once()
    # Chance favours whoever decides faster, so on a busy machine one process could lose for ever.
    with context.here.history.db.write():
        result = decide_once()
    store.update_index(context)
    return result


def _judge_new(context: MemoryContext, new: Memory, judge: Judge | None) -> Verdict:
    """The strongest decision over the nearest old memories; of equals the nearest one's.

    What another agent keeps is never changed: where it says otherwise, or the same, both are kept and a person is told.
    """
    near = _find_near(context, new)
    met = [
        verdicts.judge_pair(store.find(context, hit["memory_id"]), new, hit["why"].get("vectors"), judge)
        for hit in near
    ]
    met += [verdicts.judge_pair(old, new, judge=judge) for old in _find_last(context, new)]
    return verdicts.choose(new, met)


def find_contradiction(context: MemoryContext, new: Memory) -> Verdict | None:
    """The verdict on a memory from elsewhere that contradicts or repeats one that is here, or may."""
    verdict = _judge_new(context, new, None)
    unsure = verdict.decision.is_unsure or verdict.decision.rule in (AGENT_CONFLICT, AGENT_SAME)
    return verdict if unsure or verdict.decision in ("skip", "replace", "conflict") else None


def _find_near(context: MemoryContext, new: Memory) -> list[search.Hit]:
    """The nearest of everybody, and enough of those the writer may change, all of one organisation and project."""
    query = Query(
        new.content[:2000],
        limit=_NEAR,
        org_id=new.org_id,
        project=context.list_same(new),
        user_id=new.user_id,
        min_score=0,  # the rules look at what it says, and not at how near it is
    )
    found = search.search(context, query)
    if any(hit["agent_id"] not in record.list_own(new.agent_id) for hit in found):
        found += search.search(context, query._replace(agent_id=record.list_own(new.agent_id)))
    if named := name_rivals(new.content):  # what is used now and what it replaces may share no word
        found += search.search(context, query._replace(text=named, mode="keyword"))
    return list({hit["memory_id"]: hit for hit in reversed(found)}.values())[::-1]


def _find_last(context: MemoryContext, new: Memory) -> list[Memory]:
    """What the writer said last in this session, if the new one says of nothing else what it should be."""
    if not new.session_id or not is_elliptic(new.content):
        return []
    said = Query(
        limit=1, agent_id=record.list_own(new.agent_id), session_id=new.session_id, org_id=new.org_id,
        project=context.list_same(new), user_id=new.user_id,
    )  # fmt: skip
    return search.list_memories(context, said)


def _carry_out(context: MemoryContext, new: Memory, verdict: Verdict, way: str, since: Since | None) -> Outcome:
    result, old, against = describe_outcome(new, verdict, way), verdict.old, verdict.against
    message = verdicts.write_message(result)
    if old is not None and result.decision == "skip":
        folded = verdicts.fold_fields(old, new)
        if folded != old:
            store.replace(context, old, folded, message, by=new.agent_id)
    elif old is not None and result.memory_id == old.memory_id:
        made = verdicts.join_memories(old, new, result)
        if against is not None:
            made = made._replace(related=(against.memory_id,), review=AGENT_CONFLICT)
        if old.uses and made.uses == old.uses:  # it is said anew, so it rests on what there is now
            made = later.doubt.anchor_again(context, made)
        store.replace(context, old, made, message, by=new.agent_id, said=new if result.decision == "merge" else None)
    else:
        related = (result.other_id,) if result.other_id else ()
        kept = new._replace(related=related, review=result.rule if result.review else "")
        guard = functools.partial(_check_news, context, new, since) if since is not None else None
        store.write_memories(context, [kept], message, by=new.agent_id, guard=guard)
    return result


def _check_news(context: MemoryContext, new: Memory, since: Since) -> None:
    """Hold a memory that is to stand beside the others against what was written while that was decided.

    A search may also have missed a memory because another process was just changing it: that one is among them.
    """
    history, now = context.here.history, context.head()
    changes = history.diff(since.head, now, index_sync.ROOM) if now != since.head else ()
    for change in changes:
        if change.new is None or not index_sync.is_memory(change.path):
            continue
        with contextlib.suppress(Purged, Corrupt):
            old = record.decode(history.objects.read(change.new.oid))
            if context.may_meet(old, new) and may_change(new, old):
                _check_one(old, new, since)


def _check_one(old: Memory, new: Memory, since: Since) -> None:
    filing = Context(old=verdicts.describe_filing(old), new=verdicts.describe_filing(new))
    decision = decide(old.content, new.content, filing)
    if decision in CHANGES or (since.judged and decision.is_unsure):
        raise Conflict(f"memory {old.memory_id} was written meanwhile. Nothing was stored.", hint="Decide again.")


# -- what a merge brings, held against what is here -------------------------------------------


def find_contradictions(context: MemoryContext, edits: Mapping[str, Entry | None]) -> dict[str, tuple[str, Memory]]:
    """Those of a merge that say otherwise, or the same, as one that is here: path -> (object, the memory, noted)."""
    came = [(path, entry) for path, entry in edits.items() if entry is not None and path.startswith(MEMORY.folder)]
    found: dict[str, tuple[str, Memory]] = {}
    for path, entry in [one for one in came if context.entry(one[0]) is None][:_MOST_MERGED]:
        with contextlib.suppress(Corrupt, Purged, NotFound):  # no memory, or none any more
            noted = _note_contradiction(context, record.decode(context.here.history.objects.read(entry.oid)))
            found |= {path: (entry.oid, noted)} if noted else {}
    return found


def _note_contradiction(context: MemoryContext, new: Memory) -> Memory | None:
    met = None if new.review else find_contradiction(context, new)
    return new._replace(review=met.decision.rule, related=(met.old.memory_id,)) if met and met.old else None


def apply_notes(
    context: MemoryContext, edits: Mapping[str, Entry | None], noted: Mapping[str, tuple[str, Memory]]
) -> dict[str, Entry | None]:
    """The edits of a merge with the contradictions noted; what changed since they were looked for stays as it is."""
    same = {path: memory for path, (oid, memory) in noted.items() if (entry := edits.get(path)) and entry.oid == oid}
    return {**edits, **{path: write_entry(context.here.history, memory) for path, memory in same.items()}}


def note_contradictions(context: MemoryContext, edits: Mapping[str, Entry | None]) -> dict[str, Entry | None]:
    """The edits of a merge with what speaks against what noted."""
    found = find_contradictions(context, edits)
    with context.here.history.db.write():
        return apply_notes(context, edits, found)
