"""Why a memory was told, and why not: by the records of what was told, or by the gates a memory has to pass.

Reads only. Explaining counts as no reading: it neither raises the counters nor makes a record.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from memlake.errors import NotFound, Purged
from memlake.index.terms import query_words, says_nothing
from memlake.memories import record, search, store, timeline
from memlake.memories.answers import recalls
from memlake.memories.answers.recalls import Candidate, Recall, Recalls, Teller
from memlake.memories.context import MemoryContext
from memlake.memories.record import Memory
from memlake.memories.search import EVERYONE, Hits, Query
from memlake.named_tuple import NamedTuple
from memlake.objects import layout
from memlake.versions import tables
from memlake.versions.history import refs

AROUND = 80  # characters that a door shows around what a hit says
_DEEPEST = 2000  # places of an answer that are looked through for one memory
_USUAL = Query()._asdict()
_UNASKED = {
    recalls.FLOOR: "The prompt was not about it, so nobody was told it unasked",
    recalls.RANK: "Others were nearer to the prompt, and it brings few",
    recalls.BUDGET: "There was no room for it",
    recalls.ECHO: "It says little beside what a person said, which comes first",
    recalls.OWN: "The session itself said it",
}


class Told(NamedTuple):
    """A record in which a memory was told, its place there, and how many were told with it."""

    recall: Recall
    candidate: Candidate
    place: int
    of: int


class Asker(NamedTuple):
    """To whom a memory would be told: the session that may know it already, and the room it has."""

    session: str = ""
    max_tokens: int | None = None


class Gate(NamedTuple):
    """One thing that keeps a memory back: its name, and how it stands there."""

    name: str
    says: str


def describe_recall(
    context: MemoryContext, query: Query, hits: Hits, teller: Teller, kept: int | None = None
) -> Recall:
    """The record of an answer."""
    told = hits if kept is None else hits[:kept]
    asked = {name: value for name, value in query._asdict().items() if name != "text" and value != _USUAL[name]}
    tokens = sum(len(hit["content"]) + AROUND for hit in told) // search.PER_TOKEN
    candidates = recalls.describe_hits(hits, kept) + hits.missed
    return Recall(
        teller.surface, query.text, teller.session, teller.agent or context.agent, context.place.project,
        context.branch, hits.head, hits.mode, asked, tokens, candidates, hits.notes,
    )  # fmt: skip


def list_told(records: Recalls, memory_id: str, session: str | None = None) -> list[Told]:
    """Every record in which a memory was told, newest first; of one session if it is named."""
    found = []
    for recall in records.scan(memory_id=memory_id):
        if session is None or recall.session == session:
            told = recall.told
            place = next(at for at, one in enumerate(told, 1) if one.memory_id == memory_id)
            found.append(Told(recall, told[place - 1], place, len(told)))
    return found


def read_told(context: MemoryContext, recall: Recall) -> Iterator[Memory]:
    """What was told, word for word: each memory as it was then. What was purged since is left out."""
    for one in filter(lambda one: one.oid, recall.told):  # what a hook told of the personal repo is not here
        with contextlib.suppress(Purged, NotFound):
            yield record.decode(context.here.history.objects.read(one.oid))


# -- why not ----------------------------------------------------------------------------------


def find_gates(context: MemoryContext, records: Recalls, memory_id: str, query: Query, asker: Asker) -> list[Gate]:
    """What keeps a memory from being told in answer to a question, in the order it is met; nothing if it is told."""
    memory = store.find(context, memory_id)
    if memory is None:
        return [_describe_absence(context, memory_id)]
    gates = list(_find_filters(context, memory, query))
    if not gates:
        gates += _find_place(context, memory, query, asker)
    if asker.session:
        if memory_id in records.list_told(asker.session):
            gates.append(_describe_known(records, memory_id, asker.session))
        gates += _find_recorded(records, memory_id, query.text, asker.session)
    return gates


def _find_recorded(records: Recalls, memory_id: str, question: str, session: str) -> Iterator[Gate]:
    """What kept a memory from being told unasked when a session was asked this: a hook demands more than a search."""
    asked = (one for one in records.scan(session=session) if one.surface in recalls.HOOKS and one.question == question)
    for recall in itertools.islice(asked, 1):
        gate = next((one.gate for one in recall.candidates if one.memory_id == memory_id), recalls.TOLD)
        if gate in _UNASKED:
            yield Gate(gate, f"{_UNASKED[gate]} (recall {recall.number}, {recall.surface}).")


def _describe_absence(context: MemoryContext, memory_id: str) -> Gate:
    """Why a memory is not on the branch at all."""
    last = timeline.list_versions(context, memory_id)[-1]  # NotFound where it was never stored
    if last.ended in ("forgotten", "purged"):
        when = search.iso(last.until or 0)[:10]
        said = f": {last.reason}" if last.reason else ""
        return Gate(last.ended, f"It was {last.ended} on {when} by {last.ended_by}{said}.")
    history = context.here.history
    for name, _, _, _ in tables.list_refs(history.db, refs.BRANCH):
        if name != context.branch and store.find(replace(context, branch=name), memory_id) is not None:
            return Gate("branch", f"It is on branch {name!r}; {context.branch!r} was asked.")
    return Gate("branch", f"It is not on branch {context.branch!r}.")


def _find_filters(context: MemoryContext, memory: Memory, query: Query) -> Iterator[Gate]:
    """What was asked for that the memory is not."""
    org = context.org if query.org_id is None else None if query.org_id == EVERYONE else query.org_id
    if org is not None and memory.org_id != org:
        yield Gate("organisation", f"It belongs to organisation {memory.org_id!r}; those of {org!r} are seen.")
    names = search.list_projects(context, query.project)
    if names is not None and not record.is_of(memory, names):
        yield Gate("project", f"It belongs to project {memory.project or '(none)'}; {_list(names)} was searched.")
    if query.user_id not in (None, EVERYONE) and memory.user_id not in _names(query.user_id or ""):
        yield Gate(
            "user", f"It is about {memory.user_id or '(no user)'}; {_list(_names(query.user_id or ''))} was asked for."
        )
    if not search.is_asked_for(memory.agent_id, query.agent_id):
        yield Gate(
            "scope", f"Agent {memory.agent_id!r} stored it; memories of {_list(_names(query.agent_id))} were asked for."
        )
    if 0 < memory.expires_at <= layout.now():
        yield Gate("expired", f"It expired on {search.iso(memory.expires_at)[:10]}.")
    yield from _find_narrowing(memory, query)


def _find_narrowing(memory: Memory, query: Query) -> Iterator[Gate]:
    equal = {"session": "session_id", "type": "memory_type", "category": "category"}
    for name, field in equal.items():
        wanted, has = getattr(query, field), getattr(memory, field)
        if wanted is not None and wanted != has:
            yield Gate("filter", f"Its {name} is {has or '(none)'!r}; {wanted!r} was asked for.")
    if query.source is not None and query.source not in record.name_sources(memory.source):
        yield Gate("filter", f"Its source is {memory.source or '(none)'!r}; {query.source!r} was asked for.")
    if missing := [tag for tag in query.tags if tag not in memory.tags]:
        yield Gate("filter", f"It does not have the tag {missing[0]!r}.")
    for name, value in query.metadata.items():
        if name not in memory.metadata or memory.metadata[name] != value:
            yield Gate("filter", f"Its metadata {name} is {memory.metadata.get(name)!r}; {value!r} was asked for.")
    if query.min_importance is not None and memory.importance < query.min_importance:
        yield Gate(
            "filter", f"Its importance is {memory.importance:g}; at least {query.min_importance:g} was asked for."
        )
    since, until = search.parse_moment(query.since), search.parse_moment(query.until)
    if (since is not None and memory.created_at < since) or (until is not None and memory.created_at >= until):
        yield Gate(
            "filter", f"It was stored on {search.iso(memory.created_at)[:10]}, outside of the time that was asked for."
        )
    if query.review and not memory.review:
        yield Gate("filter", "Nothing speaks against it, and only contradictions were asked for.")


def _find_place(context: MemoryContext, memory: Memory, query: Query, asker: Asker) -> Iterator[Gate]:
    """Where it stands among the answers, if that is too far down."""
    place, lengths = 0, list[int]()
    most = context.settings.search_max_results
    for start in range(0, _DEEPEST, most):
        hits = search.search(context, query._replace(limit=most, offset=start))
        missed = {one.memory_id: one for one in hits.missed}
        if (below := missed.get(memory.memory_id)) is not None and below.gate == recalls.FLOOR:
            yield Gate(
                "floor",
                f"Its score of {below.score:.2f} is below {_describe_floor(context, query)}.",
            )
            return
        for at, hit in enumerate(hits, start + 1):
            lengths.append(len(hit["content"]) + AROUND)
            if hit["memory_id"] == memory.memory_id:
                place = at
        if place or len(hits) < most:
            break
    if not place:
        yield _describe_mismatch(context, memory, query)
    elif not query.offset < place <= query.offset + query.limit:
        yield Gate("rank", f"It is at rank {place}; {query.limit} were asked for{_from(query.offset)}.")
    elif place > (fitting := search.count_fitting(lengths, asker.max_tokens)):
        yield Gate("budget", f"It is at rank {place}, and {asker.max_tokens} tokens hold the first {fitting}.")


def _describe_floor(context: MemoryContext, query: Query) -> str:
    if query.min_score is not None:
        return f"the least that was asked for, {query.min_score:g}"
    return f"the least that is told, {context.settings.search_min_score:g} (search.min_score)"


def _from(offset: int) -> str:
    return f" from rank {offset + 1} on" if offset else ""


def _describe_mismatch(context: MemoryContext, memory: Memory, query: Query) -> Gate:
    """A memory that no arm of the search found: perhaps what it said before would have been."""
    asked = {word for word in query_words(query.text) if not says_nothing(word)}
    for past in reversed(search.list_past_values(context, memory)):
        if asked and asked <= set(query_words(str(past.get("value", "")))):
            return Gate(
                "superseded", f"It said {str(past['value'])[:80]!r} until {str(past.get('updatedAt'))[:10]}; what is "
                "superseded is not searched.",
            )  # fmt: skip
    return Gate("no match", "It has none of the words that were asked for, and its meaning is not near enough.")


def _describe_known(records: Recalls, memory_id: str, session: str) -> Gate:
    last = next((one for one in records.scan(memory_id=memory_id) if one.session == session), None)
    if last is None:
        raise NotFound(f"there is no record that session {session!r} was told of memory {memory_id}.")
    return Gate(
        "told already", f"Session {session!r} was told on {search.iso(last.time)[:16].replace('T', ' ')} UTC "
        f"(recall {last.number}, {last.surface}).",
    )  # fmt: skip


def _names(given: str | Sequence[str]) -> Sequence[str]:
    return [given] if isinstance(given, str) else given


def _list(names: Sequence[str]) -> str:
    return ", ".join(name or "(none)" for name in names)


def shape(recall: Recall) -> Mapping[str, Any]:
    """A record as programs see it."""
    fields = recall._asdict()
    fields["time"] = search.iso(recall.time)
    fields["candidates"] = [one._asdict() for one in recall.candidates]
    return fields
