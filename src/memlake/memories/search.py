"""Searching memories: from what a caller asks to hits with their reasons. Reads only."""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta, timezone
from itertools import accumulate
from typing import Any

from memlake import memories as later  # embedders, where there is a vector; what is anchored, where something is
from memlake.errors import Damaged, Error, InvalidInput, NotFound, Purged
from memlake.index.index import Found, IndexQuery
from memlake.index.rank import LOOKED, Boosts
from memlake.index.rows import Filter, Shown
from memlake.index.terms import ASKED, hash_term, mark
from memlake.memories import branch_expiry, embed, index_sync, record, reorder
from memlake.memories.access_counts import Access
from memlake.memories.anchors.anchor import FRESH, Standing, choose_word
from memlake.memories.answers import recalls
from memlake.memories.answers.recalls import Candidate
from memlake.memories.context import MemoryContext, heals, reads
from memlake.memories.kind import memory_path
from memlake.memories.record import Memory
from memlake.named_tuple import NamedTuple
from memlake.objects import layout
from memlake.records import Commit
from memlake.versions.checkout import rev
from memlake.versions.history.times import parse_time

MODES = ("hybrid", "keyword", "semantic")
SEES = ("branch", "branch-only", "main")  # what a search on a branch sees: all of it, its own writes, the trunk
EVERYONE = "*"
PER_TOKEN = 4  # characters a token stands for, roughly
_ONE_PROJECT = 'Only memories of this project and of none were searched; project "*" searches all.'
_NEXT = 20  # of the next best, which are noted beside what is told
_NOTHING = Shown(seq=0)  # the trunk before its first commit
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def is_asked_for(name: str, agents: str | Sequence[str]) -> bool:
    """Whether an agent is among those that are asked for."""
    return agents in (EVERYONE, name) or (not isinstance(agents, str) and (name in agents or EVERYONE in agents))


class Query(NamedTuple):
    """What is asked. `agent_id` may be a name, a list of names, or "*" for everybody's memories.

    `org_id` is the asker's own organisation unless given; "*" for all of them.
    """

    text: str = ""
    limit: int = 10
    offset: int = 0
    mode: str = "hybrid"
    agent_id: str | Sequence[str] = EVERYONE
    session_id: str | None = None
    memory_type: str | None = None
    category: str | None = None
    tags: Sequence[str] = ()
    metadata: Mapping[str, Any] = {}
    since: str | int | None = None
    until: str | int | None = None
    min_importance: float | None = None
    as_of: str | None = None
    sees: str = "branch"
    review: bool = False
    org_id: str | None = None
    project: str | Sequence[str] | None = None  # names or folders ("*": all); None: the one we are in, and none
    min_score: float | None = None  # what is less near is left out; None: what search.min_score says
    user_id: str | Sequence[str] | None = None  # only what is about these; "" is what names no user
    source: str | None = None  # a kind (person, agent, tool, web, import), or what follows it, or both
    anchored: bool = False  # only what rests on something that it names


def choose_agents(me: str, asked: str | Sequence[str] | None, scope: str | None) -> str | Sequence[str]:
    """Whose memories a search of an agent sees: those it asks for, else everybody's, or with the scope "own" its own.

    Everybody's, because agents of one project work on one thing: what one of them learned the others would ask again.
    """
    if scope not in (None, *record.SCOPES):
        raise InvalidInput(f"scope is one of {', '.join(record.SCOPES)}, not {scope!r}. Nothing was searched.")
    if asked is not None and scope == "own":
        raise InvalidInput('scope "own" and agent_id both say whose memories are meant. Nothing was searched.')
    return asked if asked is not None else record.list_own(me) if scope == "own" else EVERYONE


def list_users(user_id: str | None) -> tuple[str, ...] | None:
    """Whom memories are about that are seen while a user is served: that user, and nobody; without one all (None)."""
    return (user_id, "") if user_id else None


def build_query(
    me: str, text: str, *, top_k: int = 10, agent_id: str | Sequence[str] | None = None, scope: str | None = None,
    **narrowed: Any,
) -> Query:  # fmt: skip
    """What an agent asks that says `top_k`."""
    _check_count("top_k", top_k, 1)
    return Query(text, limit=top_k, agent_id=choose_agents(me, agent_id, scope), **narrowed)


class Hit(dict[str, Any]):
    """A memory found: a mapping with its fields, `similarity_score`, `why`, and what became of what it rests on.

    `standing` is fresh, moved, changed or gone (unknown if that cannot be told here, None if it names nothing that it
    rests on), and `because` says why it is not fresh.

    The score, 0 to 1, says how near it is to what was asked, by the words it has, rare ones counting more, and by the
    cosine of its vector, if it has one; a hit is never shown as less near than one that stands behind it. The order of
    hits is by `why["rank"]`, with what each arm gave beside it.
    """

    oid = ""

    def __repr__(self) -> str:
        return f"Hit({self['similarity_score']:.2f} {self['content'][:60]!r})"


class Hits(list[Hit]):
    """Hits, best first, with the mode that was used and what the caller should know."""

    mode: str = "hybrid"
    notes: tuple[str, ...] = ()
    missed: tuple[Candidate, ...] = ()  # the next best, and those below a floor
    head = ""  # the newest memory commit that was seen


def search(context: MemoryContext, query: Query) -> Hits:
    """The best memories for a query; without words, the newest that pass the filters."""
    _check(query)
    is_unasked = query.project is None and not context.found.own
    hits = _search_checked(context, query._replace(project=list_projects(context, query.project)))
    most = context.settings.search_max_results
    if query.limit > most == len(hits):
        hits.notes += (
            f"A search gives at most {most} hits (setting search.max_results); {query.limit} were asked for.",
        )
    if is_unasked and not hits:
        hits.notes += (_ONE_PROJECT,)
    if notice := context.index.take_notice():
        hits.notes += (notice,)
    return hits


def list_projects(context: MemoryContext, asked: str | Sequence[str] | None) -> Sequence[str] | None:
    """The names of the projects that a query asks for; None for all of them."""
    if asked is None or isinstance(asked, str):
        return context.choose_projects(asked)
    chosen = [context.choose_projects(one) for one in asked]
    return None if None in chosen else [name for names in chosen for name in names or ()]


@reads
def _search_checked(context: MemoryContext, query: Query) -> Hits:
    """Hits, each held against the history: an index that is wrong may miss something, but shows nothing wrong."""
    for _ in range(3):
        head = context.head()
        hits = _search(context, query)
        hits.notes += context.notes
        hits.head = head.oid if head else ""
        strays = _find_strays(context, query, hits, head)
        if strays:  # perhaps the index has followed a commit that came meanwhile
            now = context.head()
            if now == head:
                raise Damaged(f"the index shows {len(strays)} memories that are not on branch {context.branch!r}.")
            strays = _find_strays(context, query, hits, now)
        if not strays:
            return hits
    sound = Hits(hit for hit in hits if hit["memory_id"] not in strays)
    sound.missed, sound.head = hits.missed, hits.head
    return _with_notes(sound, hits.mode, hits.notes)


def _find_strays(context: MemoryContext, query: Query, hits: Hits, head: Commit | None) -> set[str]:
    """Hits that are not what the branch holds at a commit. The past is not held against its trees: some are thinned."""
    if query.as_of or query.sees == "main":
        return set()
    history = context.here.history
    paths = {memory_path(history, hit["agent_id"], hit["memory_id"]): hit for hit in hits}
    held = history.entries(head, paths)
    return {hit["memory_id"] for path, hit in paths.items() if path not in held or held[path].oid != hit.oid}


def _search(context: MemoryContext, query: Query) -> Hits:
    if not query.text.strip():
        return _with_notes(
            Hits(_build_hits(context, context.index.list_rows(_build_asked(context, query))[query.offset :], query)),
            "list",
            (),
        )
    asked = _build_asked(context, query)
    least = context.settings.search_min_score if query.min_score is None else query.min_score
    end = asked.most
    last = end + _NEXT
    vector, model, notes = _query_vector(context, query)
    by_words = query.mode != "semantic" or vector is None
    span = later.embedders.find_span(model, context.settings) if vector is not None else asked.span
    asked = asked._replace(vector=vector, model=model, span=span, by_words=by_words, most=max(last, LOOKED))
    found = context.index.search(asked)
    used = query.mode if vector is not None and context.index.has_vectors(model, len(vector)) else "keyword"
    if not asked.by_words and used == "keyword":  # there is a model, but no vector yet: words find what there is
        found = context.index.search(asked._replace(by_words=True))
    if query.mode == "semantic" and used != "semantic" and not notes:
        notes = (f"Searched by words only: {_no_meaning(context, vector is not None)}.",)
    notes = notes or _without_vector(context, model)
    turns = [one for one in found[:LOOKED] if _is_turn(one)]
    contents = _contents(context, {one.oid.hex() for one in turns})
    texts = {one.scored.row: record.decode_content(contents[one.oid.hex()]) for one in turns if contents}
    ordered = reorder.reorder(query.text, found, texts, last)
    far = [one for one in ordered if _score(one) < least]
    near, failed = _rerank(context, query.text, [one for one in ordered if _score(one) >= least], contents)
    near, notes = _show_in_order(near), notes + failed
    if far and not near:
        notes += (f"Nothing is near to it; the nearest has a score of {max(map(_score, far)):.2f}.",)
    hits = Hits(_build_hits(context, near[query.offset : end], query, contents))  # the pages before are not read
    missed = ((near[end:], recalls.RANK), (far, recalls.FLOOR))
    hits.missed = tuple(_describe_missed(one, gate) for some, gate in missed for one in some)
    return _with_notes(hits, used, notes)


def _rerank(
    context: MemoryContext, question: str, near: list[Found], contents: Mapping[str, bytes]
) -> tuple[list[Found], tuple[str, ...]]:
    """The first of them in the order of the reranker, if there is one, with the scores of their places; else a note."""
    first = near[:LOOKED]
    if context.rerank is None or len(first) < 2:
        return near, ()
    known = {**contents, **_contents(context, {one.oid.hex() for one in first} - contents.keys())}
    if not all(one.oid.hex() in known for one in first):  # one was purged meanwhile
        return near, ()
    try:
        scores = context.rerank(question, [record.decode(known[one.oid.hex()]).content for one in first])
    except Error as error:  # a search must outlive whatever a reranker does
        return near, (error.message,)
    order = sorted(range(len(first)), key=lambda place: -scores[place])
    places = [
        first[at]._replace(scored=first[at].scored._replace(reranker=scores[at], score=was.scored.score))
        for at, was in zip(order, first, strict=True)
    ]
    return [*places, *near[LOOKED:]], ()


def _show_in_order(hits: Sequence[Found]) -> list[Found]:
    """The same, each shown as at least as near as whatever stands behind it."""
    nearest = list(accumulate((one.scored.likeness for one in reversed(hits)), max))[::-1]
    return [one._replace(scored=one.scored._replace(likeness=near)) for one, near in zip(hits, nearest, strict=True)]


def _score(one: Found) -> float:
    return round(one.scored.likeness, 4)


def _is_turn(one: Found) -> bool:
    return one.scored.evidence is not None and one.scored.evidence.in_session


def _describe_missed(one: Found, gate: str) -> Candidate:
    return Candidate(str(uuid.UUID(bytes=one.key)), one.oid.hex(), _score(one), name_arms(one), gate)


def _without_vector(context: MemoryContext, model: str) -> tuple[str, ...]:
    """What a search by meaning may have missed; while the vectors of an older model serve, it missed nothing."""
    count = embed.count_waiting(context.index) if model and model == embed.read_model(context.index) else 0
    some = "1 memory waits for its vector" if count == 1 else f"{count} memories wait for their vectors"
    return (f"{some}: found by words alone until then.",) if count else ()


def _no_meaning(context: MemoryContext, has_vector: bool) -> str:
    """Why nothing can be found by meaning, although nothing failed."""
    if context.settings.embedding_provider == "none":
        return "there is no model (embedding.provider is none)"
    return "no memory has its vector yet" if has_vector else "the model cannot read this query"


def _with_notes(hits: Hits, mode: str, notes: tuple[str, ...]) -> Hits:
    hits.mode, hits.notes = mode, notes
    return hits


def _query_vector(context: MemoryContext, query: Query) -> tuple[Any, str, tuple[str, ...]]:
    """The vector of a query, its model, and what is to be said when there is none although it was wanted."""
    if query.mode == "keyword":
        return None, "", ()
    try:
        found = context.vector_of(query.text[:ASKED])
    except Damaged:
        raise
    except Error as error:  # a wrong key or setting must not keep words from being found either
        return None, "", (f"Searched by words only: {error.message}",)
    return (None, "", ()) if found is None else (found[1], found[0], ())


def _build_asked(context: MemoryContext, query: Query, now: int | None = None) -> IndexQuery:
    org = context.org if query.org_id is None else query.org_id
    settings, limits = context.settings, build_filter(query._replace(org_id=None if org == EVERYONE else org))
    return IndexQuery(
        query.text,
        limits if now is None else limits._replace(now=now),
        find_shown(context, query),
        boosts=Boosts(settings.search_importance, settings.search_recency, settings.search_access),
        access=context.read_counts,
        most=min(query.limit, settings.search_max_results) + query.offset,
    )


@reads
def list_memories(context: MemoryContext, query: Query, now: int | None = None) -> list[Memory]:
    """All memories that pass a filter, newest first, however many. `now` 0 counts expired ones in."""
    branch_expiry.check(context.here, context.branch)
    asked = _build_asked(context, query, now)._replace(most=query.limit + query.offset)
    found = context.index.list_rows(asked)[query.offset :]
    contents = dict(context.here.history.objects.read_many({one.oid.hex() for one in found})) if found else {}
    return [record.decode(contents[one.oid.hex()]) for one in found if one.oid.hex() in contents]


def _check(query: Query) -> None:
    if not isinstance(query.text, str):
        raise InvalidInput(f"a query is text, not {type(query.text).__name__}.")
    if query.mode not in MODES:
        raise InvalidInput(f"mode is one of {', '.join(MODES)}, not {query.mode!r}.")
    if query.sees not in SEES:
        raise InvalidInput(f"what a search sees is one of {', '.join(SEES)}, not {query.sees!r}.")
    least: object = query.min_score
    is_number = isinstance(least, int | float) and not isinstance(least, bool)
    if least is not None and not (is_number and 0 <= least <= 1):  # type: ignore[operator]
        raise InvalidInput(f"min_score is a number from 0 to 1, not {least!r}. Nothing was searched.")
    _check_count("limit", query.limit, 1)
    _check_count("offset", query.offset, 0)


def _check_count(name: str, value: object, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise InvalidInput(f"{name} is a whole number of at least {least}, not {value!r}.")


def _check_narrowing(query: Query) -> None:
    """What narrows a search is of the kind it is looked for by: a wrong one would quietly find nothing."""
    for name in ("session_id", "memory_type", "category", "org_id", "as_of", "source"):
        if not isinstance(getattr(query, name), str | None):
            raise InvalidInput(f"{name} is text, not {getattr(query, name)!r}. Nothing was searched.")
    agents = [query.agent_id] if isinstance(query.agent_id, str) else query.agent_id
    if not isinstance(agents, list | tuple | set) or not all(isinstance(name, str) for name in agents):
        raise InvalidInput(
            f'agent_id is a name, a list of names or "{EVERYONE}", not {query.agent_id!r}. Nothing was searched.'
        )
    users = [query.user_id] if isinstance(query.user_id, str | None) else query.user_id
    if not isinstance(users, list | tuple | set) or not all(isinstance(name, str | None) for name in users):
        raise InvalidInput(f"user_id is a name or a list of names, not {query.user_id!r}. Nothing was searched.")
    for name, value in record.check_metadata(query.metadata).items():
        if isinstance(value, dict) and (operator := next((key for key in value if key.startswith("$")), None)):
            raise InvalidInput(
                f"metadata {name!r} is compared for equality, {operator!r} is not an operator. Nothing was searched.",
                hint="Give the value itself, or filter the hits that come back.",
            )
    least = query.min_importance
    is_number = isinstance(least, int | float) and not isinstance(least, bool)
    if least is not None and not (is_number and 0 <= least <= 1):
        raise InvalidInput(f"min_importance is a number from 0 to 1, not {least!r}. Nothing was searched.")


def build_filter(query: Query) -> Filter:
    """The filter of a query: each group of marks is an alternative."""
    _check_narrowing(query)
    groups = []
    if query.agent_id != EVERYONE:
        names = _names(query.agent_id)
        if EVERYONE not in names:
            groups.append([mark("agent", name) for name in names])
    if query.project not in (None, EVERYONE):
        groups.append([mark("project", name) for name in _names(query.project)])
    asked = {"session": query.session_id, "type": query.memory_type, "category": query.category, "org": query.org_id}
    asked |= {"source": query.source}
    for field, value in asked.items():
        groups += [[mark(field, value)]] if value is not None else []
    if query.user_id not in (None, EVERYONE):
        groups.append([mark("user", name) for name in _names(query.user_id)])
    groups += [[mark("tag", tag)] for tag in record.check_tags(query.tags)]
    groups += [[record.meta_mark(name, value)] for name, value in record.check_metadata(query.metadata).items()]
    groups += [[mark("review", "yes")]] if query.review else []
    groups += [[mark("uses", "yes")]] if query.anchored else []
    marks = tuple(tuple(hash_term(term) for term in group) for group in groups)
    return Filter(marks, parse_moment(query.since), parse_moment(query.until), query.min_importance, layout.now())


def _names(given: str | Sequence[str] | None) -> Sequence[str]:
    return [given] if isinstance(given, str) else given or ()


def parse_moment(given: str | int | None) -> int | None:
    """Microseconds of a time as people or programs write it."""
    found: object = parse_time(given) if isinstance(given, str) else given
    if found is None:
        return None
    if isinstance(found, bool) or not isinstance(found, int) or abs(found) >= record.LATEST:
        raise InvalidInput(
            f"{str(given)[:40]!r} is not a time: words, an ISO time or microseconds since 1970. Nothing was done."
        )
    return found


def find_shown(context: MemoryContext, query: Query) -> Shown:
    history, index = context.here.history, context.index
    if query.sees == "main":
        context = dataclasses.replace(context, branch=index_sync.find_trunk(history, index, context.branch))
    at = find_commit_as_of(context, query.as_of) if query.as_of else None
    found = _NOTHING if query.as_of and at is None else index_sync.find_shown(history, index, context.branch, at)
    return found._replace(only_added=query.sees == "branch-only")


def find_commit_as_of(context: MemoryContext, text: str) -> Commit | None:
    """The memory-lane commit a rev or a time means; None for a time when nothing was remembered yet."""
    if text != record.whole(text):
        raise NotFound(f"{text!r} is neither a revision nor a time.")
    try:
        return rev.resolve(context.here, text, "memory")
    except (NotFound, InvalidInput) as unknown:
        try:
            when = parse_time(text)
        except InvalidInput as wrong:
            if "lies ahead" in wrong.message:
                raise
            raise type(unknown)(
                f"{unknown.message.rstrip('.')}, and no time either.", hint=f"{unknown.hint}\n{wrong.hint}".strip()
            ) from None
    return index_sync.find_commit_before(context.here.history, context.index, context.head(), when)


def _build_hits(
    context: MemoryContext, found: Sequence[Found], query: Query, contents: Mapping[str, bytes] | None = None
) -> Iterable[Hit]:
    known = contents or {}
    known = {**known, **_contents(context, {one.oid.hex() for one in found} - known.keys())}
    hits, anchored = list[Hit](), list[Memory]()
    for one in found:
        oid = one.oid.hex()
        try:
            memory = record.decode(known[oid] if oid in known else context.here.history.objects.read(oid))
        except Purged:
            continue
        except NotFound as error:
            raise Damaged(f"the index names object {one.oid.hex()[:12]}, which is not there.") from error
        shaped = build_hit(memory, one)
        shaped.oid = one.oid.hex()
        if memory.history:
            shaped["metadata"] = {**shaped["metadata"], "history": list_past_values(context, memory)}
        hits.append(shaped)
        anchored += [memory] * bool(memory.uses)
    judged = later.doubt.judge(context, anchored, query.as_of) if anchored else {}
    for hit in hits:
        hit |= describe_standings(judged.get(hit["memory_id"], ()))
    return hits


def _contents(context: MemoryContext, oids: set[str]) -> dict[str, bytes]:
    """All of them with one query; none when one is gone, so that each is asked for by itself."""
    try:
        return dict(context.here.history.objects.read_many(oids)) if oids else {}
    except (Purged, NotFound):
        return {}


def count_fitting(lengths: Iterable[int], max_tokens: int | None) -> int:
    """How many of some texts, given by their length in characters, a budget of tokens holds: never more than it."""
    room, count = (max_tokens or 0) * PER_TOKEN, 0
    for length in lengths:
        room -= length
        if room < 0 and max_tokens is not None:
            break
        count += 1
    return count


def build_hit(memory: Memory, one: Found) -> Hit:
    return Hit(fields(memory), similarity_score=_score(one), why=name_arms(one))


def name_arms(one: Found) -> dict[str, float]:
    """What each arm of the search gave a row, and what it ranks by."""
    score = one.scored
    parts = {"words": score.words, "grams": score.grams, "vectors": score.vectors, "neighbours": score.neighbours}
    why = {name: round(value, 4) for name, value in parts.items() if value}
    why |= {"reranker": round(score.reranker, 4)} if score.reranker is not None else {}
    return why | {"boost": round(score.boost, 4), "rank": round(score.score, 4)}


def describe_standings(standings: Sequence[Standing]) -> dict[str, Any]:
    """What became of what a memory rests on, as people and programs see it."""
    because = [one.sentence for one in standings if one.word != FRESH]
    return {"standing": choose_word(standings) or None, "because": because}


def fields(memory: Memory) -> dict[str, Any]:
    """A memory as the mapping people and programs see."""
    created = iso(memory.created_at)
    return {
        "memory_id": memory.memory_id,
        "content": memory.content,
        "memory_type": memory.memory_type,
        "importance": memory.importance,
        "agent_id": memory.agent_id,
        "session_id": memory.session_id,
        "org_id": memory.org_id,
        "project": memory.project,
        "area": memory.area,
        "own": memory.own,
        "user_id": memory.user_id,
        "category": memory.category,
        "tags": list(memory.tags),
        "metadata": dict(memory.metadata),
        "source": memory.source,
        "client": memory.client,
        "created_at": created,
        "updated_at": created if memory.updated_at == memory.created_at else iso(memory.updated_at),
        "expires_at": iso(memory.expires_at) if memory.expires_at else None,
        "uses": [anchor.name for anchor in memory.uses],
    }


def full_fields(context: MemoryContext, memory: Memory, access: Access, has_embedding: bool) -> dict[str, Any]:
    """With what only the index and the counters know, and the earlier values in the shape agents know."""
    count, last = access.read([memory.key]).get(memory.key, (0, 0))
    known = fields(memory)
    past = list_past_values(context, memory)
    known["metadata"] = {**known["metadata"], "history": past} if past else known["metadata"]
    known |= describe_standings(later.doubt.judge(context, [memory])[memory.memory_id] if memory.uses else ())
    known |= {"has_embedding": has_embedding, "access_count": count, "last_accessed": iso(last) if last else None}
    return known | {"related": list(memory.related), "review": memory.review}


@heals
def has_vector(context: MemoryContext, memory_id: str, model: str) -> bool:
    index_sync.follow(context.here.history, context.index, context.branch)
    key = record.Memory(record.check_id(memory_id), "").key
    return context.index.has_vector(key, model)


@heals
def count_waiting(context: MemoryContext) -> int:
    """How many memories have no vector yet, those counted in that the index had not seen."""
    index_sync.follow(context.here.history, context.index, context.branch)
    return embed.count_waiting(context.index)


def list_past_values(context: MemoryContext, memory: Memory) -> list[dict[str, Any]]:
    """Earlier contents of a memory in the shape agents know: value and the time it was replaced."""
    noted = memory.metadata.get("history")  # what another program kept; anybody may have written anything there
    listed = [past for past in noted if isinstance(past, dict)] if isinstance(noted, list | tuple) else []
    said = [past.get("value") for past in listed]
    for past in memory.history:
        try:
            value = record.decode(context.here.history.objects.read(past.oid)).content
        except (Purged, NotFound):
            continue
        if value not in said:
            listed.append({"value": value, "updatedAt": iso(past.until)})
    return listed


def iso(time: int) -> str:
    """A time as JSON has it: UTC, with microseconds when there are some."""
    when = _EPOCH + timedelta(microseconds=time)  # exact, where seconds as a float are not
    return when.isoformat(timespec="auto").replace("+00:00", "Z")
