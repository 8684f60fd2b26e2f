"""Upkeep: which memories may go, and which matter more or less than they say. Changes only what it is told to.

Who reads what is known on this machine alone: how often (`access_counts.py`), and by whom (`recalls.py`). What is
suggested never touches the order of a search: what was told would be told again for having been told.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from memlake import memories as later  # what only memories that rest on something need
from memlake.errors import InvalidInput
from memlake.memories import record, search, store
from memlake.memories.access_counts import Access
from memlake.memories.answers.recalls import Audience, Recalls
from memlake.memories.context import MemoryContext
from memlake.memories.kind import memory_path
from memlake.memories.record import Memory
from memlake.memories.search import EVERYONE, Query
from memlake.named_tuple import NamedTuple
from memlake.objects import layout

DAY = 86_400_000_000
_ALL = 100_000  # memories, where a list has no end of its own
_MOST_DAYS = record.LATEST // DAY
_HALF = 90.0  # days after which a memory's age counts half
_UNCERTAIN = 0.25  # of what a memory is still worth, lost where it is in doubt or contradicted
_MANY = 3  # sessions from which on a memory is read by many
_RAISED, _LOWERED = 0.8, 0.5  # importance that is suggested at most, and for what nobody reads
_SILENT = 180.0  # days in which a memory was told to nobody, before it is suggested to matter less


class Age(NamedTuple):
    """A memory that may be out of date: how old, how often and when last read, by how many sessions, whether
    another memory speaks against it, and whether what it rests on changed. Its score is from 0 to 1.
    """

    memory: Memory
    days: float
    access_count: int
    last_accessed: int | None
    sessions: int = 0
    contradicted: bool = False
    in_doubt: bool = False

    @property
    def score(self) -> float:
        """How little is lost if it goes."""
        uncertain = self.contradicted or self.in_doubt
        return score(self.memory.importance, self.days, self.sessions, uncertain=uncertain)


class Rule(NamedTuple):
    """What `stale` and `evict` look for: old, not important, not read."""

    days: float = 90.0
    max_importance: float = 0.5
    max_sessions: int = 0
    agent_id: str | Sequence[str] = EVERYONE
    limit: int = 10_000
    project: str | None = None  # of this one ("*": all); None: where we are in one, of it and of none


class Suggestion(NamedTuple):
    """Another importance for a memory, and why."""

    memory: Memory
    importance: float
    why: str


class Readers(NamedTuple):
    """What this machine knows of reads."""

    access: Access
    recalls: Recalls


def score(importance: float, days: float, sessions: int, *, uncertain: bool) -> float:
    """How little is lost if a memory goes: the older, the less important and the less read, the more."""
    worth = 1 - (1 - importance) * days / (days + _HALF) / (1 + sessions)
    return round(1 - worth * (1 - _UNCERTAIN if uncertain else 1), 4)


def list_stale(context: MemoryContext, readers: Readers, rule: Rule = Rule()) -> list[Age]:  # noqa: B008  a record, never changed
    """Memories that are old, not important and not read, what is missed least first."""
    _check_rule(rule)
    now = layout.now()
    before = now - int(rule.days * DAY)
    whose = context.choose_projects(rule.project)
    hits = search.list_memories(context, Query(limit=rule.limit, agent_id=rule.agent_id, until=before, project=whose))
    found = [memory for memory in hits if memory.importance <= rule.max_importance and memory.updated_at < before]
    aged = [
        age
        for age in _measure(context, readers, found, now)
        if age.sessions <= rule.max_sessions and (age.last_accessed or 0) < before
    ]
    return sorted(aged, key=lambda age: -age.score)


def _check_rule(rule: Rule) -> None:
    """NaN is in no range, so it is refused with what lies outside."""
    for name, value, most in (("days", rule.days, _MOST_DAYS), ("max_importance", rule.max_importance, 1)):
        given: object = value
        if isinstance(given, bool) or not isinstance(given, int | float) or not 0 <= given <= most:
            raise InvalidInput(
                f"{name} is a number from 0 to {most:,}, not {given!r}. Nothing was changed.",
                hint="Like: memlake memory stale --days 90 --max-importance 0.5",
            )


def _measure(context: MemoryContext, readers: Readers, memories: Sequence[Memory], now: int) -> list[Age]:
    anchored = [memory for memory in memories if memory.uses]
    doubtful = {one.memory.memory_id for one in (later.doubt.find_doubts(context, anchored) if anchored else ())}
    reads = readers.access.read([memory.key for memory in memories])
    audiences = readers.recalls.count_audiences([memory.key for memory in memories])
    return [
        _measure_age(memory, reads, audiences, now)._replace(in_doubt=memory.memory_id in doubtful)
        for memory in memories
    ]


def _measure_age(
    memory: Memory, reads: Mapping[bytes, tuple[int, int]], audiences: Mapping[bytes, Audience], now: int
) -> Age:
    count, last = reads.get(memory.key, (0, 0))
    told = audiences.get(memory.key, Audience())
    days, sessions = max(now - memory.updated_at, 0) / DAY, max(told.sessions, 1 if count else 0)
    return Age(memory, days, count, max(last, told.last) or None, sessions, bool(memory.review))


def evict(context: MemoryContext, readers: Readers, rule: Rule, *, dry_run: bool) -> list[Age]:
    """Forget what is stale, and what has expired, in one commit. It can be restored."""
    found = {age.memory.key: age for age in (*list_stale(context, readers, rule), *list_expired(context, rule))}
    if found and not dry_run:
        history = context.here.history
        paths = [memory_path(history, age.memory.agent_id, age.memory.memory_id) for age in found.values()]
        context.write(dict.fromkeys(paths), f"evict {len(paths)} memories", context.author)
        store.update_index(context)
    return list(found.values())


def list_expired(context: MemoryContext, rule: Rule) -> list[Age]:
    """Memories past the end they were given; searches leave them out already. Of a rule, whose they are counts."""
    now, whose = layout.now(), context.choose_projects(rule.project)
    gone = search.list_memories(context, Query(limit=_ALL, agent_id=rule.agent_id, project=whose), now=0)
    return [_measure_age(m, {}, {}, now) for m in gone if m.expires_at and m.expires_at <= now]


# -- importance ---------------------------------------------------------------------------------------


def suggest(context: MemoryContext, readers: Readers, rule: Rule) -> list[Suggestion]:
    """Memories that matter more or less than they say, by who was told them. Those that differ most come first."""
    now, whose = layout.now(), context.choose_projects(rule.project)
    memories = search.list_memories(context, Query(limit=_ALL, agent_id=rule.agent_id, project=whose))
    since = readers.recalls.read_beginning() or now  # before that nobody knows who was told what
    found = [
        _suggest_one(age, (now - max(age.memory.updated_at, since)) / DAY)
        for age in _measure(context, readers, memories, now)
    ]
    return sorted(
        (one for one in found if one is not None), key=lambda one: -abs(one.importance - one.memory.importance)
    )


def _suggest_one(age: Age, watched: float) -> Suggestion | None:
    """What one memory should rather say; `watched` is for how many days it is known whom it was told."""
    memory = age.memory
    if (age.contradicted or age.in_doubt) and memory.importance > _LOWERED:
        why = "another memory speaks against it" if age.contradicted else "what it rests on changed"
        return Suggestion(memory, _LOWERED, why)
    raised = round(min(_RAISED, memory.importance + 0.1 * (age.sessions - _MANY + 1)), 2)
    if age.sessions >= _MANY and raised > memory.importance:
        return Suggestion(memory, raised, f"{age.sessions} sessions were told it")
    if not age.sessions and watched >= _SILENT and memory.importance > _LOWERED:
        return Suggestion(memory, _LOWERED, f"nobody was told it in {watched:.0f} days")
    return None


def apply(context: MemoryContext, suggestions: Sequence[Suggestion]) -> None:
    """Give memories the importance that was suggested, in one commit; none if one of them was changed meanwhile."""
    changes = [(one.memory, one.memory._replace(importance=one.importance)) for one in suggestions]
    store.replace_many(context, changes, f"importance of {len(changes)} memories")
