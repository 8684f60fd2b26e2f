"""Remembering with a decision: what a new memory does to those that are there. Every change it makes keeps history.

`decide` is pure and lives in its own file; here the candidates are found, the decision is carried out in one commit
that says which rule spoke and what it measured, and a memory that changed meanwhile makes it be decided again.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from memlake.errors import Conflict, Corrupt, InvalidInput, NotFound, Purged
from memlake.memories import index_sync, record, search, store
from memlake.memories.context import MemoryContext
from memlake.memories.kind import MEMORY
from memlake.memories.record import AGENT_CONFLICT, AGENT_SAME, Memory, Outcome, describe_other_agent
from memlake.memories.rules import Context, Decision, decide, name_rivals
from memlake.memories.search import Query
from memlake.named_tuple import NamedTuple
from memlake.records import Commit, Entry

WAYS = ("decide", "add", "ask")
_NEAR = 8  # old memories a new one is held against
_MOST_MERGED = 200  # memories of one merge that are held against others: each is a search
_TRIES = 10  # each is lost only to another process that wrote about the same thing
_STRENGTH = ("skip", "replace", "conflict", "merge", "coexist", "add")
_CHANGES = ("skip", "replace", "conflict", "merge")  # the new memory is not kept beside the old one
Judge = Callable[[str, str], str | None]


class Verdict(NamedTuple):
    """What is to be done, the memory it was decided against, and one of another agent that says otherwise."""

    decision: Decision
    old: Memory | None
    against: Memory | None = None


class Since(NamedTuple):
    """Where the branch stood when a decision was made, and whether somebody is asked where it is in doubt."""

    head: Commit | None
    judged: bool


def remember(
    context: MemoryContext, new: Memory, *, way: str = "decide", dry_run: bool = False, judge: Judge | None = None
) -> Outcome:
    """Store a memory, or let it change one that is there."""
    if way not in WAYS:
        raise InvalidInput(f"on_conflict is one of {', '.join(WAYS)}, not {way!r}. Nothing was stored.")
    # One vector of the text, however often it is decided: the last time nobody else can write, and no service is asked.
    context = dataclasses.replace(context, vector_of=functools.cache(context.vector_of))

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
    met = [_judge_pair(store.find(context, hit["memory_id"]), new, hit, judge) for hit in _find_near(context, new)]
    mine = [verdict for verdict in met if verdict.old is None or _may_change(new, verdict.old)]
    best = min(mine, key=lambda v: _STRENGTH.index(v.decision), default=Verdict(_none_near(), None))
    said = {str(v.decision): v for v in reversed(met) if v.old is not None and not _may_change(new, v.old)}
    if best.decision in _CHANGES:
        return best._replace(against=said["conflict"].old if "conflict" in said and best.decision != "skip" else None)
    if "conflict" in said:
        return _keep_apart(said["conflict"])
    return _keep_apart(said["skip"]) if "skip" in said and not best.decision.is_unsure else best


def find_doubt(context: MemoryContext, new: Memory) -> Verdict | None:
    """The verdict on a memory from elsewhere that contradicts or repeats one that is here, or may."""
    verdict = _judge_new(context, new, None)
    unsure = verdict.decision.is_unsure or verdict.decision.rule in (AGENT_CONFLICT, AGENT_SAME)
    return verdict if unsure or verdict.decision in ("skip", "replace", "conflict") else None


def _find_near(context: MemoryContext, new: Memory) -> list[search.Hit]:
    """The nearest of everybody, and enough of those the writer may change, all of one organisation and project."""
    query = Query(
        new.content[:2000], limit=_NEAR, org_id=new.org_id, project=context.list_same(new), user_id=new.user_id
    )
    found = search.search(context, query)
    if any(hit["agent_id"] not in search.list_own(new.agent_id) for hit in found):
        found += search.search(context, query._replace(agent_id=search.list_own(new.agent_id)))
    if named := name_rivals(new.content):  # what is used now and what it replaces may share no word
        found += search.search(context, query._replace(text=named, mode="keyword"))
    return list({hit["memory_id"]: hit for hit in reversed(found)}.values())[::-1]


def _may_change(new: Memory, old: Memory) -> bool:
    return old.agent_id in search.list_own(new.agent_id)


def _keep_apart(verdict: Verdict) -> Verdict:
    """The verdict on another agent's memory, which stays as it is."""
    decision, old = verdict.decision, verdict.old
    assert old is not None
    rule = AGENT_SAME if decision == "skip" else AGENT_CONFLICT
    kept = Decision("coexist", rule=rule, why=f"{describe_other_agent(rule, old)} {decision.why}")
    kept.scores = decision.scores
    return Verdict(kept, old)


def _none_near() -> Decision:
    return Decision("add", rule="nothing-near", why="nothing like it is remembered")


def _judge_pair(old: Memory | None, new: Memory, hit: search.Hit, judge: Judge | None) -> Verdict:
    if old is None:
        return Verdict(_none_near(), None)
    filing = Context(hit["why"].get("vectors"), _describe_filing(old), _describe_filing(new))
    decision = decide(old.content, new.content, filing)
    if judge is not None and decision.is_unsure:
        said = judge(old.content, new.content)
        if said is not None:
            if said not in _STRENGTH:
                raise InvalidInput(f"the judge said {said!r}; it may say {', '.join(_STRENGTH)} or None.")
            measured = decision.scores
            decision = Decision(said, rule="judge", why="The judge said so.", text=decision.text)
            decision.scores = measured
    return Verdict(decision, old)


def _describe_filing(memory: Memory) -> dict[str, Any]:
    where = {"area": memory.package, "user_id": memory.user_id}
    where = {name: value for name, value in where.items() if value}
    return {**memory.metadata, **where, "category": memory.category, "tags": list(memory.tags)}


def describe_outcome(new: Memory, verdict: Verdict, way: str) -> Outcome:
    """What would become of a memory."""
    decision, old, against = verdict
    changes_old = decision in ("replace", "conflict", "merge")
    asks = way == "ask" and changes_old
    stands = old if old is not None and changes_old and not asks else new
    if old is not None and decision == "skip":
        return _describe_skip(old, new, decision)
    content = decision.text or new.content
    return Outcome(
        stands.memory_id,
        "coexist" if asks else str(decision),
        decision.rule,
        f"would {decision}: {decision.why}" if asks else _why(decision, against),
        new.content if asks else content,
        old.memory_id if old is not None and decision != "add" else None,
        asks or against is not None or decision.rule in (AGENT_CONFLICT, AGENT_SAME) or decision.is_unsure,
        decision.scores,
    )


def _describe_skip(old: Memory, new: Memory, decision: Decision) -> Outcome:
    """What is known already stands, with how the new one is filed folded in; what is not kept of that is told."""
    folded = _fold_fields(old, new)
    gained, lost = _describe_gained(old, folded), "; ".join(_list_lost(new, folded))
    why = f"{decision.why.rstrip('.')}; it takes over {gained}" if gained else decision.why
    told = (f"known already; not kept of the new one: {lost}.",) if lost else ()
    review = decision.is_unsure
    return Outcome(old.memory_id, "skip", decision.rule, why, old.content, old.memory_id, review, decision.scores, told)


def _why(decision: Decision, against: Memory | None) -> str:
    return decision.why if against is None else f"{decision.why} {describe_other_agent(AGENT_CONFLICT, against)}"


def _carry_out(context: MemoryContext, new: Memory, verdict: Verdict, way: str, since: Since | None) -> Outcome:
    result, old, against = describe_outcome(new, verdict, way), verdict.old, verdict.against
    message = _write_message(result)
    if old is not None and result.decision == "skip":
        folded = _fold_fields(old, new)
        if folded != old:
            store.replace(context, old, folded, message, by=new.agent_id)
    elif old is not None and result.memory_id == old.memory_id:
        made = _join_memories(old, new, result)
        if against is not None:
            made = made._replace(related=(against.memory_id,), review=AGENT_CONFLICT)
        store.replace(context, old, made, message, by=new.agent_id)
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
            if context.may_meet(old, new) and _may_change(new, old):
                _check_one(old, new, since)


def _check_one(old: Memory, new: Memory, since: Since) -> None:
    filing = Context(old=_describe_filing(old), new=_describe_filing(new))
    decision = decide(old.content, new.content, filing)
    if decision in _CHANGES or (since.judged and decision.is_unsure):
        raise Conflict(f"memory {old.memory_id} was written meanwhile. Nothing was stored.", hint="Decide again.")


def _join_memories(old: Memory, new: Memory, result: Outcome) -> Memory:
    """The new version of an old memory: what the new one says, and what only the old one said about it."""
    return old._replace(
        content=result.content,
        session_id=new.session_id,  # a value belongs to the session that said it, so that it can be taken back
        category=new.category or old.category,
        tags=tuple(dict.fromkeys((*old.tags, *new.tags))),
        metadata={**old.metadata, **new.metadata},
        importance=max(old.importance, new.importance),
        source=new.source or old.source,
        expires_at=new.expires_at,
    )


def _write_message(result: Outcome) -> str:
    """Which rule decided, and what it measured; nothing of the content."""
    scores = {name: round(value, 4) for name, value in result.scores.items()}
    said: dict[str, Any] = {"rule": result.rule, "other": result.other_id, "scores": scores}
    said |= {"unsure": True} if result.review else {}
    verb = "update" if result.decision == "skip" else result.decision
    return f"{verb} memory {result.memory_id}\n\n{json.dumps(said, sort_keys=True)}"


def _fold_fields(old: Memory, new: Memory) -> Memory:
    """Return the old memory with what the new one adds to how it is filed, never to what it says."""
    return old._replace(
        category=old.category or new.category,
        tags=tuple(dict.fromkeys((*old.tags, *new.tags))),
        metadata={**new.metadata, **old.metadata},
        importance=max(old.importance, new.importance),
        source=old.source or new.source,
        expires_at=max(old.expires_at, new.expires_at) if old.expires_at and new.expires_at else 0,
    )


def _describe_gained(old: Memory, folded: Memory) -> str:
    """Say what was folded in; empty when nothing was."""
    tags = [tag for tag in folded.tags if tag not in old.tags]
    names = [name for name in folded.metadata if name not in old.metadata]
    parts = (
        (tags, f"tags: {', '.join(tags)}"),
        (names, f"metadata: {', '.join(names)}"),
        (folded.category != old.category, f"category: {folded.category}"),
        (folded.importance != old.importance, f"importance: {folded.importance:g}"),
        (folded.source != old.source, f"source: {folded.source}"),
        (folded.expires_at != old.expires_at, "a later end" if folded.expires_at else "no end"),
    )
    return "; ".join(text for has, text in parts if has)


def _list_lost(new: Memory, folded: Memory) -> Iterator[str]:
    """Yield what the new memory was given and the old one says otherwise."""
    usual = Memory._field_defaults
    for name in ("category", "memory_type", "importance"):
        given, has = getattr(new, name), getattr(folded, name)
        if given not in (usual[name], has):
            yield f"{name} {given} (it has {has})"
    if new.expires_at and new.expires_at != folded.expires_at:
        yield f"its end (it has {'a later one' if folded.expires_at else 'none'})"
    for name, value in new.metadata.items():
        if folded.metadata[name] != value:
            yield f"metadata {name} (it has another)"


# -- what a merge brings, held against what is here -------------------------------------------


def find_doubts(context: MemoryContext, edits: Mapping[str, Entry | None]) -> dict[str, tuple[str, Memory]]:
    """Those of a merge that say otherwise, or the same, as one that is here: path -> (object, the memory, noted)."""
    came = [(path, entry) for path, entry in edits.items() if entry is not None and path.startswith(MEMORY.folder)]
    found: dict[str, tuple[str, Memory]] = {}
    for path, entry in [one for one in came if context.entry(one[0]) is None][:_MOST_MERGED]:
        with contextlib.suppress(Corrupt, Purged, NotFound):  # no memory, or none any more
            noted = _note_doubt(context, record.decode(context.here.history.objects.read(entry.oid)))
            found |= {path: (entry.oid, noted)} if noted else {}
    return found


def _note_doubt(context: MemoryContext, new: Memory) -> Memory | None:
    met = None if new.review else find_doubt(context, new)
    return new._replace(review=met.decision.rule, related=(met.old.memory_id,)) if met and met.old else None


def apply_notes(
    context: MemoryContext, edits: Mapping[str, Entry | None], noted: Mapping[str, tuple[str, Memory]]
) -> dict[str, Entry | None]:
    """The edits of a merge with the doubts noted; what changed since they were looked for stays as it is."""
    same = {path: memory for path, (oid, memory) in noted.items() if (entry := edits.get(path)) and entry.oid == oid}
    return {**edits, **{path: store.write_entry(context.here.history, memory) for path, memory in same.items()}}


def note_doubts(context: MemoryContext, edits: Mapping[str, Entry | None]) -> dict[str, Entry | None]:
    """The edits of a merge with what is in doubt noted."""
    found = find_doubts(context, edits)
    with context.here.history.db.write():
        return apply_notes(context, edits, found)
