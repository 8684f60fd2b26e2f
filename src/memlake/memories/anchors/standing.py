"""What became of what memories rest on: fresh, moved, changed or gone, and what rests on that in turn.

Judged at one moment: of now by the working files, of then by the commits of then. Loads no numpy; a hook asks it too.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress

from memlake.errors import Corrupt, NotFound, Purged
from memlake.memories import record
from memlake.memories.anchors.anchor import (
    CHANGED,
    COMMIT,
    DATASET,
    FRESH,
    GONE,
    IN_DOUBT,
    MEMORY,
    MOVED,
    TENSOR,
    UNKNOWN,
    Anchor,
    Formats,
    Standing,
)
from memlake.memories.anchors.anchored_files import LARGEST, CommitFiles, Files, FolderFiles, GitFiles, find_offset
from memlake.memories.record import Memory
from memlake.named_tuple import NamedTuple
from memlake.projects import Place
from memlake.records import Commit, Entry
from memlake.versions.checkout.context import Checkout
from memlake.versions.history import refs
from memlake.versions.history.bases import is_ancestor
from memlake.versions.history.commits import History
from memlake.versions.text.spans import Lines

_KIN = 8  # files in which a tensor of a file that is gone is looked for
_QUICK = 1 << 20  # bytes of a file that a hook reads
Standings = Mapping[str, Sequence[Standing]]  # by the id of the memory


class Moment(NamedTuple):
    """What there is at a moment: files by our ids and by git's, the heads of both lanes."""

    history: History
    place: Place
    ours: Files
    gits: Files
    work: Commit | None
    lane: Commit | None
    formats: Formats


def describe_now(
    here: Checkout, branch: str, place: Place, formats: Formats, *, follows: bool = False, quick: bool = False
) -> Moment:
    """The moment of now on a branch: the working files, or of a branch that is not checked out its last commit."""
    heads = refs.find(here.history.db, branch)
    work, lane = ((refs.commit_of(here.history, heads[name]) if heads else None) for name in ("work", "memory"))
    offset = find_offset(place.root, here.root)
    folder = FolderFiles(place.root, here.local, offset, _QUICK if quick else LARGEST, asks_git=not quick)
    is_elsewhere = place.own and not follows and here.local.branch not in (None, branch)
    ours = CommitFiles(here.history, work, offset) if is_elsewhere else folder
    return Moment(here.history, place, ours, folder, work, lane, formats)


def describe_then(here: Checkout, branch: str, place: Place, formats: Formats, at: tuple[Commit, int]) -> Moment:
    """A moment of the past: our files in the last commit before it, those that git alone tracks in git's. Runs git."""
    lane, time = at
    work = refs.commit_of(here.history, refs.get(here.history.db, branch)["work"])
    while work is not None and work.time > time:
        work = here.history.get(work.parents[0]) if work.parents else None
    ours = CommitFiles(here.history, work, find_offset(place.root, here.root))
    return Moment(here.history, place, ours, GitFiles(place.root, time), work, lane, formats)


def judge(moment: Moment, memories: Iterable[Memory]) -> Standings:
    """What became of each anchor of some memories, in their order.

    A memory is in doubt, too, if it rests on one that is, however many lie between.
    """
    known, heads = _gather(moment, memories)
    standings = {
        memory_id: [_judge_anchor(moment, anchor, memory, heads) for anchor in memory.uses]
        for memory_id, memory in known.items()
    }
    spread(standings, heads)
    return standings


def _gather(moment: Moment, memories: Iterable[Memory]) -> tuple[dict[str, Memory], dict[str, Entry | None]]:
    """The memories that rest on something and those they rest on, with what the branch holds at the paths of these."""
    known, heads = {memory.memory_id: memory for memory in memories if memory.uses}, dict[str, Entry | None]()
    latest = list(known.values())
    while latest:
        paths = {use.path for memory in latest for use in memory.uses if use.kind == MEMORY} - heads.keys()
        entries = moment.history.entries(moment.lane, paths) if paths else {}
        heads |= {path: entries.get(path) for path in paths}
        unread = {entry.oid for path, entry in entries.items() if path.rpartition("/")[2] not in known}
        latest = [memory for memory in _read_memories(moment.history, unread) if memory.uses]
        known |= {memory.memory_id: memory for memory in latest}
    return known, heads


def _read_memories(history: History, oids: set[str]) -> list[Memory]:
    try:
        return [record.decode(data) for _, data in history.objects.read_many(oids)] if oids else []
    except (Purged, NotFound, Corrupt):  # one of them is gone: each by itself
        read = (find_memory(history, oid) for oid in oids)
        return [memory for memory in read if memory is not None]


def find_memory(history: History, oid: str) -> Memory | None:
    """The memory that an object holds, if it can be read."""
    with suppress(Purged, NotFound, Corrupt):
        return record.decode(history.objects.read(oid))
    return None


def spread(standings: Mapping[str, list[Standing]], heads: Mapping[str, Entry | None]) -> None:
    """Carry doubt on to what rests on a memory in doubt. Where somebody settled it, it goes no further."""
    users = defaultdict[str, list[tuple[str, int]]](list)
    for memory_id, judged in standings.items():
        for number, one in enumerate(judged):
            if one.anchor.kind == MEMORY and one.word == FRESH and not _is_settled(one.anchor, heads):
                users[one.anchor.name].append((memory_id, number))
    causes = {
        memory_id: next(one.sentence for one in judged if one.word in IN_DOUBT)
        for memory_id, judged in standings.items()
        if any(one.word in IN_DOUBT for one in judged)
    }
    queue = list(causes)
    for doubtful in queue:  # it grows meanwhile
        for user, number in users[doubtful]:
            why = f"is in doubt, because {causes[doubtful]}"
            standings[user][number] = standings[user][number]._replace(word=CHANGED, why=why, inherited=True)
            if user not in causes:
                causes[user] = causes[doubtful]
                queue.append(user)


def _is_settled(anchor: Anchor, heads: Mapping[str, Entry | None]) -> bool:
    entry = heads.get(anchor.path)
    return anchor.settled and entry is not None and entry.oid == anchor.oid


# -- one anchor -------------------------------------------------------------------------------


def _judge_anchor(moment: Moment, anchor: Anchor, memory: Memory, heads: Mapping[str, Entry | None]) -> Standing:
    if anchor.kind == MEMORY:
        return _judge_memory(moment, anchor, heads[anchor.path])
    if anchor.kind == COMMIT:
        return _judge_commit(moment, anchor)
    if anchor.kind == DATASET:
        return _judge_version(moment, anchor)
    if not moment.place.root or not record.is_of(memory, moment.place.same):
        return Standing(UNKNOWN, anchor, why="belongs to another project than this one")
    return _judge_file(moment, anchor, memory.created_at)


def _judge_memory(moment: Moment, anchor: Anchor, entry: Entry | None) -> Standing:
    if entry is None:
        return Standing(GONE, anchor, why="was forgotten")
    if entry.oid != anchor.oid:
        then, now = (find_memory(moment.history, oid) for oid in (anchor.oid, entry.oid))
        if then is None or now is None or then.content != now.content:
            return Standing(CHANGED, anchor, why="says something else now")
    return Standing(FRESH, anchor)


def _judge_commit(moment: Moment, anchor: Anchor) -> Standing:
    history = moment.history
    if not history.has(anchor.oid):
        return Standing(GONE, anchor)
    commit, heads = history.get(anchor.oid), [moment.work]
    if moment.work is None or not is_ancestor(history, commit, moment.work):
        heads += [refs.commit_of(history, branch.work) for branch in refs.branches(history.db, None)]
    is_held = any(head is not None and is_ancestor(history, commit, head) for head in heads)
    return Standing(FRESH, anchor) if is_held else Standing(GONE, anchor, why="is on no branch any more")


def _judge_version(moment: Moment, anchor: Anchor) -> Standing:
    """A version is changed when it holds other rows, and when a newer one does."""
    folder = anchor.path.rpartition("/")[0] + "/"
    entries = dict(moment.history.scan(moment.work, folder)) if moment.work else {}
    then, entry = _read_rows(moment, anchor.oid), entries.get(anchor.path)
    if entry is None:
        room = anchor.path.partition("/")[0] + "/"
        everything = moment.history.scan(moment.work, room) if moment.work else ()
        moved = next((path for path, one in everything if one.oid == anchor.oid or _holds(moment, one, then)), None)
        return Standing(GONE, anchor) if moved is None else Standing(MOVED, anchor, anchor._replace(path=moved).name)
    now = then if entry.oid == anchor.oid else _read_rows(moment, entry.oid)
    if now != then:
        return Standing(CHANGED if now else GONE, anchor, why="holds other rows now" if now else "was deleted")
    newer = [path for path in entries if number_version(path) > number_version(anchor.path)]
    for path in sorted(newer, key=number_version, reverse=True):
        if rows := _read_rows(moment, entries[path].oid):
            name = anchor._replace(path=path).name
            return (
                Standing(FRESH, anchor) if rows == then else Standing(CHANGED, anchor, name, f"was followed by {name}")
            )
    return Standing(FRESH, anchor)


def _read_rows(moment: Moment, oid: str) -> str:
    with suppress(NotFound, Purged):
        return moment.formats.read_rows(moment.history.objects.read(oid))
    return ""


def _holds(moment: Moment, entry: Entry, rows: str) -> bool:
    return bool(rows) and _read_rows(moment, entry.oid) == rows


def number_version(path: str) -> tuple[int, ...]:
    """The number of the version of a dataset, to be compared."""
    parts = path.rpartition("/")[2].split(".")
    return tuple(int(part) for part in parts if part.isdecimal())


def _judge_file(moment: Moment, anchor: Anchor, since: int) -> Standing:
    """A file under its name or a new one, then a passage of it in another file."""
    files = moment.gits if anchor.is_of_git else moment.ours
    renamed = files.find_renamed(anchor, since) if files.find_size(anchor.path) is None else anchor.path
    here = anchor._replace(path=renamed or "")
    word, lines = _judge_inside(moment, files, here) if renamed else (GONE, None)
    if word in IN_DOUBT and (
        place := files.find_elsewhere(anchor, since) or _find_tensor(moment, files, anchor, since)
    ):
        here, word = anchor._replace(path=place[0]), FRESH
        lines = place[1]
    now = here._replace(lines=lines).name
    if word == FRESH:
        return Standing(FRESH if now == anchor.name else MOVED, anchor, "" if now == anchor.name else now)
    if word == UNKNOWN:
        return Standing(UNKNOWN, anchor, why="cannot be read here")
    is_renamed = bool(renamed) and renamed != anchor.path
    why = f"{word} and is {renamed} now" if is_renamed else ""
    return Standing(word, anchor, now if is_renamed else "", why, path=renamed or "")


def _judge_inside(moment: Moment, files: Files, anchor: Anchor) -> tuple[str, Lines | None]:
    """What became of what is meant in a file that is there, and which lines that is now; a new place is no change."""
    size = files.find_size(anchor.path)
    oid = files.find_oid(anchor.path, of_git=anchor.is_of_git) if size == anchor.size else ""
    if oid == anchor.oid:
        return FRESH, anchor.lines
    if oid is None:  # too large to be read
        return UNKNOWN, None
    if anchor.kind == TENSOR:
        digest = _digest(moment, files, anchor.path, anchor.part)
        is_same = anchor.span is not None and digest == anchor.span.digest
        return UNKNOWN if digest is None else FRESH if is_same else CHANGED if digest else GONE, None
    if anchor.lines is None:
        return FRESH if files.has_same_text(anchor.path, anchor) else CHANGED, None
    lines = files.find_passage(anchor.path, anchor)
    return FRESH if lines else CHANGED, lines or anchor.lines


def _find_tensor(moment: Moment, files: Files, anchor: Anchor, since: int) -> tuple[str, None] | None:
    """The file that has a tensor now whose own file is gone."""
    if anchor.kind == TENSOR and anchor.span is not None and files.find_size(anchor.path) is None:
        for path in files.list_kin(anchor, since)[:_KIN]:
            if _digest(moment, files, path, anchor.part) == anchor.span.digest:
                return path, None
    return None


def _digest(moment: Moment, files: Files, path: str, part: str) -> str | None:
    size = files.find_size(path)
    return None if size is None else moment.formats.digest_part(path, size, lambda: files.open(path), part)
