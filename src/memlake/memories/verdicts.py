"""What a new memory does to the nearest old ones, and what becomes of both. Pure: memories in, memories out.

`remember` finds the old ones by all that the index has, a hook by words alone; both decide and write the same.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from memlake.errors import InvalidInput
from memlake.memories.anchors.anchor import join_anchors
from memlake.memories.record import AGENT_CONFLICT, AGENT_SAME, Memory, Outcome, describe_other_agent, list_own
from memlake.memories.rules import Context, Decision, decide
from memlake.named_tuple import NamedTuple

CHANGES = ("skip", "replace", "conflict", "merge")  # the new memory is not kept beside the old one
_STRENGTH = (*CHANGES, "coexist", "add")
Judge = Callable[[str, str], str | None]


class Verdict(NamedTuple):
    """What is to be done, the memory it was decided against, and one of another agent that says otherwise."""

    decision: Decision
    old: Memory | None
    against: Memory | None = None


def choose(new: Memory, met: Sequence[Verdict]) -> Verdict:
    """The strongest of the verdicts on the nearest old memories; of equals the nearest one's.

    What another agent keeps is never changed: where it says otherwise, or the same, both are kept and a person is told.
    """
    mine = [verdict for verdict in met if verdict.old is None or may_change(new, verdict.old)]
    best = min(mine, key=lambda v: _STRENGTH.index(v.decision), default=Verdict(_none_near(), None))
    said = {str(v.decision): v for v in reversed(met) if v.old is not None and not may_change(new, v.old)}
    if best.decision in CHANGES:
        return best._replace(against=said["conflict"].old if "conflict" in said and best.decision != "skip" else None)
    if "conflict" in said:
        return _keep_apart(said["conflict"])
    return _keep_apart(said["skip"]) if "skip" in said and not best.decision.is_unsure else best


def may_change(new: Memory, old: Memory) -> bool:
    return old.agent_id in list_own(new.agent_id)


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


def judge_pair(old: Memory | None, new: Memory, cosine: float | None = None, judge: Judge | None = None) -> Verdict:
    """What a new memory means for an old one; a judge may know better where that is unsure."""
    if old is None:
        return Verdict(_none_near(), None)
    filing = Context(cosine, describe_filing(old), describe_filing(new))
    decision = decide(old.content, new.content, filing)
    if decision == "merge" and (apart := _find_filed_apart(old, new)):
        scores = decision.scores
        decision = Decision("coexist", rule="other-filing", why=f"They add to each other, but their {apart} differs.")
        decision.scores = scores
    if judge is not None and decision.is_unsure:
        said = judge(old.content, new.content)
        if said is not None:
            if said not in _STRENGTH:
                raise InvalidInput(f"the judge said {said!r}; it may say {', '.join(_STRENGTH)} or None.")
            measured = decision.scores
            decision = Decision(said, rule="judge", why="The judge said so.", text=decision.text)
            decision.scores = measured
    return Verdict(decision, old)


def _find_filed_apart(old: Memory, new: Memory) -> str:
    """What keeps two facts from being one memory: one of them would get the other's end, kind or category."""
    if old.expires_at != new.expires_at:
        return "end"
    if old.memory_type != new.memory_type:
        return "type"
    return "category" if old.category and new.category and old.category != new.category else ""


def describe_filing(memory: Memory) -> dict[str, Any]:
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
    folded = fold_fields(old, new)
    gained, lost = _describe_gained(old, folded), "; ".join(_list_lost(new, folded))
    why = f"{decision.why.rstrip('.')}; it takes over {gained}" if gained else decision.why
    told = (f"known already; not kept of the new one: {lost}.",) if lost else ()
    review = decision.is_unsure
    return Outcome(old.memory_id, "skip", decision.rule, why, old.content, old.memory_id, review, decision.scores, told)


def _why(decision: Decision, against: Memory | None) -> str:
    return decision.why if against is None else f"{decision.why} {describe_other_agent(AGENT_CONFLICT, against)}"


def join_memories(old: Memory, new: Memory, result: Outcome) -> Memory:
    """The new version of an old memory: what the new one says, and what only the old one said about it."""
    return old._replace(
        content=result.content,
        session_id=new.session_id,  # a value belongs to the session that said it, so that it can be taken back
        category=new.category or old.category,
        tags=tuple(dict.fromkeys((*old.tags, *new.tags))),
        metadata={**old.metadata, **new.metadata},
        importance=max(old.importance, new.importance),
        source=new.source,
        client=new.client,
        expires_at=new.expires_at,
        uses=join_anchors(old.uses if result.decision == "merge" else (), new.uses) or old.uses,
    )


def write_message(result: Outcome) -> str:
    """Which rule decided, and what it measured; nothing of the content."""
    scores = {name: round(value, 4) for name, value in result.scores.items()}
    said: dict[str, Any] = {"rule": result.rule, "other": result.other_id, "scores": scores}
    said |= {"unsure": True} if result.review else {}
    verb = "update" if result.decision == "skip" else result.decision
    return f"{verb} memory {result.memory_id}\n\n{json.dumps(said, sort_keys=True)}"


def fold_fields(old: Memory, new: Memory) -> Memory:
    """Return the old memory with what the new one adds to how it is filed, never to what it says."""
    return old._replace(
        category=old.category or new.category,
        tags=tuple(dict.fromkeys((*old.tags, *new.tags))),
        metadata={**new.metadata, **old.metadata},
        importance=max(old.importance, new.importance),
        expires_at=max(old.expires_at, new.expires_at) if old.expires_at and new.expires_at else 0,
        uses=join_anchors(old.uses, new.uses),
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
