"""What a memory was: its versions, how two moments differ, and bringing one back. History is never rewritten."""

from __future__ import annotations

import contextlib
import heapq
import itertools
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

from memlake.errors import Conflict, Corrupt, NotFound, Nothing, Purged
from memlake.index.rows import NEVER
from memlake.memories import index_sync, record, search, store
from memlake.memories.context import MemoryContext, reads
from memlake.memories.record import Memory
from memlake.named_tuple import NamedTuple
from memlake.objects import layout
from memlake.objects import tables as object_tables
from memlake.records import Change, Commit
from memlake.versions import tables
from memlake.versions.history.commits import History
from memlake.versions.trees.codec import decode_commit

_SHOWN = 60  # characters of a memory where it is only named
BLAMED = (
    "content",
    "memory_type",
    "category",
    "tags",
    "metadata",
    "importance",
    "session_id",
    "source",
    "client",
    "expires_at",
)


class Version(NamedTuple):
    """One value of a memory: when and by whom it was written, and why; until when it stood, and how it ended.

    `ended` is "replaced", "forgotten" or "purged", "" while it stands; `reason` is what was said then.
    """

    memory_id: str
    content: str | None  # None when it was purged
    oid: str
    commit: str | None
    time: int
    author: str
    message: str
    until: int | None
    ended: str = ""
    ended_by: str = ""
    reason: str = ""


class Origin(NamedTuple):
    """Where what a memory says in one field comes from: the commit that gave it this value."""

    field: str
    value: Any
    commit: str | None
    time: int
    author: str
    message: str


class Difference(NamedTuple):
    """One memory that differs between two moments."""

    memory_id: str
    status: str
    old: str | None
    new: str | None


@reads
def list_versions(context: MemoryContext, memory_id: str) -> list[Version]:
    """All values of a memory that this repo knows, oldest first."""
    index_sync.follow(context.here.history, context.index, context.branch)
    key = record.Memory(record.check_id(memory_id), "").key
    known = context.index.db.rows("SELECT oid, from_seq, to_seq FROM row WHERE key = ? ORDER BY id", (key,))
    starts = {start for _, start, _ in known}
    found = [
        _version(context, memory_id, row, is_last=row[2] not in starts) for row in known if _is_seen(context, row[0])
    ]
    if found and any(start == NEVER for _, start, _ in known):
        found = _with_branches(context, found)
    found = found or ([] if known else list(_read_from_history(context, record.check_id(memory_id))))
    if not found:
        raise NotFound(
            f"memory {memory_id} was never stored here, or was purged.", hint="Search for it to learn its id."
        )
    return [*_list_imported(context, found[0], {oid.hex() for oid, *_ in known}), *found]


def _list_imported(context: MemoryContext, first: Version, known: Collection[str]) -> Iterator[Version]:
    """What a memory had said elsewhere before it was imported: no commit here wrote it, but its record links to it."""
    read = context.here.history.objects.read
    try:
        linked = record.decode(read(first.oid)).history if first.content is not None else ()
        past = [(one, record.decode(read(one.oid))) for one in linked if one.oid not in known]
    except Purged:
        return
    for one, old in past:
        who = old.author or old.agent_id
        said = (first.memory_id, old.content, one.oid, None, old.updated_at, who, "imported with its history")
        yield Version(*said, one.until, "replaced")


def find_author(context: MemoryContext, memory: Memory, oid: str) -> str:
    """Who wrote this value of a memory: here, or in the repo it came from; empty where no commit is known."""
    if memory.author:
        return memory.author
    sql = "SELECT from_seq FROM row WHERE key = ? AND oid = ? ORDER BY id LIMIT 1"
    row = context.index.db.row(sql, (memory.key, bytes.fromhex(oid)))
    made = context.here.history.at(row[0]) if row is not None and row[0] < NEVER else None
    return made.author.name if made else ""


def list_written(history: History, commits: Iterable[str]) -> Iterator[Memory]:
    """The memories that commits wrote, as they wrote them, or removed; those that were purged are left out."""
    for oid in commits:
        with contextlib.suppress(NotFound):  # the commit may be gone
            for change in history.changes(history.get(oid)):
                entry = change.new or change.old
                if change.path.startswith(index_sync.ROOM) and entry is not None:
                    with contextlib.suppress(Purged, Corrupt):  # what `Repo.write` put there is any bytes
                        yield record.decode(history.objects.read(entry.oid))


def check_projects(found: Sequence[Memory], names: Sequence[str] | None, verb: str) -> None:
    """Conflict where one of them belongs to no project of these names; `verb` is undo or redo."""
    other = next((one for one in found if names is not None and not record.is_of(one, names)), None)
    if other is not None:
        raise Conflict(
            f"the last operation in this repo wrote a memory of another project, {other.project}: "
            f"{shorten(other)!r}. Nothing was {'taken back' if verb == 'undo' else 'done again'}.",
            hint="Take it back all the same with: memlake undo --project '*'"
            if verb == "undo"
            else "Do it again all the same with: memlake redo --project '*'",
        )


def shorten(memory: Memory) -> str:
    """What a memory says, in less than a line."""
    text = " ".join(memory.content.split())
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"


def blame(context: MemoryContext, memory_id: str) -> list[Origin]:
    """Which commit each field of a memory has its present value from; fields that say nothing are left out."""
    present, oid = store.get(context, memory_id), store.find_oid(context, memory_id)
    known = [version for version in list_versions(context, memory_id) if version.content is not None]
    last = max((at for at, version in enumerate(known) if version.oid == oid), default=len(known) - 1)
    read = context.here.history.objects.read
    past = [(version, record.decode(read(version.oid))) for version in reversed(known[: last + 1])]
    told = [name for name in BLAMED if getattr(present, name)]
    return [_origin(name, getattr(present, name), past) for name in told]


def _origin(name: str, value: Any, past: list[tuple[Version, Memory]]) -> Origin:
    same = itertools.takewhile(lambda one: getattr(one[1], name) == value, past)
    first = [version for version, _ in same][-1]
    return Origin(name, value, first.commit, first.time, first.author, first.message)


def _is_seen(context: MemoryContext, oid: bytes, projects: Sequence[str] | None = None) -> bool:
    """Whether a value may be seen here, of the projects asked for; of what was purged nothing is left to hide."""
    if context.org is None and projects is None:
        return True
    try:
        return context.shows(record.decode(context.here.history.objects.read(oid.hex())), projects)
    except Purged:
        return True


def _version(context: MemoryContext, memory_id: str, row: tuple[bytes, int, int], *, is_last: bool) -> Version:
    history, (oid, start, end) = context.here.history, row
    made = history.at(start) if start < NEVER else None
    over = history.at(end) if end < NEVER else None
    try:
        memory = record.decode(history.objects.read(oid.hex()))
        content, time, who = memory.content, made.time if made else memory.updated_at, memory.agent_id
    except Purged:
        content, time, who = None, made.time if made else 0, ""
    if content is not None and memory.author:  # it was imported, and says who wrote it there and when
        time, name = memory.updated_at, memory.author
    else:
        name = made.author.name if made else who
    version = Version(
        memory_id, content, oid.hex(), made.oid if made else None, time, name, made.subject if made else "", None
    )
    if content is None:
        return next(_find_erased(context, version), version)
    if over is None:
        return version
    how = "forgotten" if is_last else "replaced"
    return version._replace(until=over.time, ended=how, ended_by=over.author.name, reason=over.subject)


def _read_from_history(context: MemoryContext, memory_id: str) -> Iterator[Version]:
    """The values of a memory that the index has nothing of: it was purged, or only a branch had it for a while."""
    for commit, change in _changes_of(context, memory_id):
        if change.new is not None and _is_seen(context, bytes.fromhex(change.new.oid)):
            said = (change.new.oid, commit.oid, commit.time, commit.author.name, commit.subject)
            erased = next(_find_erased(context, Version(memory_id, None, *said, None)), None)
            yield erased or Version(memory_id, _read_content(context, change.new.oid), *said, None)


def _with_branches(context: MemoryContext, found: list[Version]) -> list[Version]:
    """Values that only other branches show, with who wrote them there and when: their rows name no commit."""
    first: dict[str, Commit] = {}
    for commit, change in _changes_of(context, found[0].memory_id):
        if change.new is not None:
            first.setdefault(change.new.oid, commit)
    return [_written(version, first.get(version.oid)) for version in found]


def _written(version: Version, commit: Commit | None) -> Version:
    if version.commit is not None or commit is None:
        return version
    return version._replace(commit=commit.oid, time=commit.time, author=commit.author.name, message=commit.subject)


def _changes_of(context: MemoryContext, memory_id: str) -> Iterator[tuple[Commit, Change]]:
    """Every change of a memory on any branch, oldest first. Reads all commits."""
    history = context.here.history
    for seq, data in tables.scan_commits(history.db):
        # Looked for in the raw bytes first. Long lists of changes lie elsewhere.
        if memory_id.encode() in data or b"changes" in data:
            commit = decode_commit(data, seq)
            yield from ((commit, c) for c in history.changes(commit) if c.path.endswith(f"/{memory_id}"))


def _find_erased(context: MemoryContext, version: Version) -> Iterator[Version]:
    """A value with what its tombstone says, if it has one."""
    if tombstone := object_tables.find_tombstone(context.here.history.db, bytes.fromhex(version.oid)):
        time, reason, who = tombstone
        yield version._replace(until=time, ended="purged", ended_by=who, reason=reason)


def restore(context: MemoryContext, memory_id: str, at: str | None = None) -> Memory:
    """Bring back a memory that was deleted, or the value it had at a rev, a time, or as an object id."""
    wanted = _value_at(context, record.check_id(memory_id), at)
    current = store.find(context, memory_id)
    if current is None:
        made = record.disown(wanted)._replace(updated_at=layout.now())
        store.write_memories(context, [made], f"restore memory {memory_id}")
        return made
    if current.content == wanted.content and current.metadata == wanted.metadata:
        raise Nothing(f"memory {memory_id} is as it was then. Nothing was changed.")
    return store.replace(context, current, wanted, f"restore memory {memory_id}")


def _value_at(context: MemoryContext, memory_id: str, at: str | None) -> Memory:
    read = context.here.history.objects.read
    known = list_versions(context, memory_id)
    if at is None:
        # The last value that said something else than the present one, or the last one of a memory that is gone.
        present = store.find(context, memory_id)
        older = [v for v in known if v.content is not None and (present is None or v.content != present.content)]
        if known[-1].ended == "purged":
            raise Purged(f"memory {memory_id} was purged: {known[-1].reason}. It cannot be brought back.")
        if not older:
            raise Nothing(f"memory {memory_id} has no earlier value. Nothing was changed.")
        return record.decode(read(older[-1].oid))
    named = [v for v in known if len(at) >= 6 and v.oid.startswith(at)]
    if named:
        return record.decode(read(named[-1].oid))
    shown = search.find_shown(context, search.Query(as_of=at))
    oid = context.index.find(record.Memory(memory_id, "").key, shown)
    if oid is None:
        raise NotFound(
            f"memory {memory_id} was not there at {at!r}.",
            hint=f"See when it was there with: memlake memory history {memory_id}",
        )
    return record.decode(read(oid.hex()))


def list_differences(
    context: MemoryContext, a: str, b: str | None = None, *, project: str | None = None
) -> Iterator[Difference]:
    """Memories that differ between two moments (revs or times); without `b`, between `a` and now."""
    whose = context.choose_projects(project)
    old = search.find_commit_as_of(context, a)
    new = search.find_commit_as_of(context, b) if b else context.head()
    for change in context.here.history.diff(old, new, index_sync.ROOM):
        if all(_is_seen(context, bytes.fromhex(entry.oid), whose) for entry in (change.old, change.new) if entry):
            sides = [_read_content(context, entry.oid) if entry else None for entry in (change.old, change.new)]
            yield Difference(change.path.rsplit("/", 1)[1], change.status, sides[0], sides[1])


def _read_content(context: MemoryContext, oid: str) -> str:
    try:
        return record.decode(context.here.history.objects.read(oid)).content
    except Purged:
        return "(purged)"


def list_commits(context: MemoryContext, limit: int = 20, projects: Sequence[str] | None = None) -> Iterator[Commit]:
    """The newest commits of the memory lane, newest first, each read when it is asked for; None is all projects.

    Of some projects: those that wrote one of their memories, or no memory at all.
    """
    current = context.head()
    while current is not None and limit > 0:
        if projects is None or _concerns(context, current, projects):
            yield current
            limit -= 1
        current = context.here.history.get(current.parents[0]) if current.parents and limit else None


def walk_commits(context: MemoryContext, first: int = 0) -> Iterator[Commit]:
    """The commits of the branch since a time, those of merged branches too, each before its parents."""
    history, head = context.here.history, context.head()
    waiting, seen = [(-head.seq, head.oid)] if head else [], set[str]()
    while waiting:
        commit = history.get(heapq.heappop(waiting)[1])
        if commit.time < first or commit.oid in seen:
            continue
        seen.add(commit.oid)
        yield commit
        for parent in commit.parents:
            heapq.heappush(waiting, (-history.seq(parent), parent))


def _concerns(context: MemoryContext, commit: Commit, projects: Sequence[str]) -> bool:
    is_others = False
    for memory in list_written(context.here.history, [commit.oid]):
        if context.shows(memory, projects):
            return True
        is_others = True
    return not is_others
