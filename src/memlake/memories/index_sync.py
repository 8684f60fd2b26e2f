"""Bringing the index up to the history, and what a branch or a moment shows of it.

The index is handed what changed and a way to read it; this is the side that knows commits.
"""

from __future__ import annotations

import contextlib
import re
from array import array
from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Protocol

from memlake.errors import Corrupt, Damaged, NotFound, Purged
from memlake.index import rows
from memlake.index.rows import Doc, Docs, Overlay, Replaced, Shown
from memlake.memories import record
from memlake.memories.kind import MEMORY
from memlake.objects import purge
from memlake.objects.db import Database
from memlake.records import Change, Commit
from memlake.versions import tables
from memlake.versions.history import refs
from memlake.versions.history.commits import History

ROOM = MEMORY.folder
_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
FAR = 10_000  # commits behind from which the index is brought up in groups
GROUP = 8192  # commits that are applied in one transaction, whose rows become a segment
_PART = 1000  # changes whose records are read at once


class Erasable(Protocol):
    """Something that is kept of objects, in which nothing may be left of those that were purged."""

    def read_purge_cursor(self) -> bytes | None:
        """The last purge that was followed here."""

    def erase_objects(self, oids: Collection[bytes], purge: bytes) -> None:
        """Leave nothing of these objects. Once that is so, `purge` is the last one that was followed."""


class Index(Protocol):
    """What of an index is needed to bring it up to the history."""

    @property
    def db(self) -> Database: ...

    @property
    def erasables(self) -> Sequence[Erasable]:
        """Where purged objects are to be erased."""

    def fold_soon(self) -> None:
        """Tidy up in the background when it is due."""

    def fold(self) -> bool:
        """Tidy up now."""


def follow(history: History, index: Index, branch: str, known: Docs | None = None) -> Commit | None:
    """Bring the trunk's rows up to its head, and erase what was purged; returns the head.

    Records that are `known` are not read again.
    """
    # Before the head: whatever this purge erased is then in commits that the index knows, and no row comes later.
    purged = purge.find_last(history.db)
    name = find_trunk(history, index, branch)
    head = _find_head(history, name)
    if head is not None and rows.read_meta(index.db, "head") != bytes.fromhex(head.oid):
        try:
            _approach(history, index, head)
            with index.db.write():
                # Read again where nobody else can move the index: an older head would take it back, and hide what
                # another process has just stored from that process.
                head = _find_head(history, name)
                if head is not None:
                    _advance(history, index, head, known or {})
        except BaseException:
            rows.forget_learnt(index.db)  # words of rows that were taken back
            raise
        index.fold_soon()
    if purged is not None:
        for kept in index.erasables:
            _erase_purged(history, kept, purged)
    return head


def _erase_purged(history: History, kept: Erasable, last: bytes) -> None:
    seen = kept.read_purge_cursor()
    if seen != last:
        gone = {bytes.fromhex(oid) for found in purge.read_since(history.db, seen) for oid in found.oids}
        kept.erase_objects(gone, last)


def _find_head(history: History, branch: str) -> Commit | None:
    """The last memory commit of a branch; None also when it is gone: others then show the trunk as it was."""
    found = refs.find(history.db, branch)
    return None if found is None else refs.commit_of(history, found["memory"])


def find_trunk(history: History, index: Index, branch: str) -> str:
    """The branch whose rows carry seqs: main, or the first branch that was asked about."""
    return str(rows.read_meta(index.db, "trunk") or _choose_trunk(history, index, branch))


def _choose_trunk(history: History, index: Index, branch: str) -> str:
    names = [found.name for found in refs.branches(history.db, None)]
    name = "main" if "main" in names or not names else branch
    with index.db.write():
        rows.set_meta(index.db, trunk=name)
    return name


def _approach(history: History, index: Index, head: Commit) -> None:
    """Bring an index that is far behind a head up to it, in groups of commits.

    Each group is a transaction and a segment, so what is held does not grow with the history, others may use the index
    in between, and whoever follows after a crash goes on where it was. Does nothing if the head does not follow.
    """
    seen = rows.read_meta(index.db, "head")
    last = _get_seen(history, seen) if isinstance(seen, bytes) else None
    if head.generation - (last.generation if last else 0) <= FAR:
        return
    line = array("q", (seq for (seq,) in tables.scan_line(history.db, head.seq, after=last.seq if last else 0)))[::-1]
    while True:
        with index.db.write():
            at = _find_place(history, index, line)  # each time, because another process may be at it too
            if at is None or at == len(line):
                return
            _take_steps(history, index, history.list_at(line[at : at + GROUP]))
        index.fold()


def _find_place(history: History, index: Index, line: array[int]) -> int | None:
    """How many commits of a line the index has; None where it stands elsewhere, or knows later ones."""
    seen, applied = rows.read_meta(index.db, "head"), rows.read_meta(index.db, "applied")
    last = _get_seen(history, seen).seq if isinstance(seen, bytes) else 0
    at = bisect_right(line, last)
    is_on = line[at - 1] == last if at else not last
    later = isinstance(applied, int) and at < len(line) and line[at] <= applied
    return at if is_on and not later else None


def _take_steps(history: History, index: Index, steps: Sequence[Commit], known: Docs | None = None) -> None:
    """Inside a write of the index: apply the commits that follow the one it knows."""
    changes = [(commit.seq, change) for commit in steps for change in history.changes(commit)]
    _apply(history, index, changes, known)
    _note_steps(index, steps, steps[-1], steps[-1].seq)


def _note_steps(index: Index, steps: Sequence[Commit], head: Commit, applied: int) -> None:
    index.db.run_many("INSERT OR REPLACE INTO step VALUES(?, ?)", [(c.generation, c.seq) for c in steps])
    rows.set_meta(index.db, applied=applied, head=bytes.fromhex(head.oid))
    rows.raise_stamp(index.db)


def _advance(history: History, index: Index, head: Commit, known: Docs) -> None:
    """Inside a write of the index: apply what the trunk gained since."""
    seen = rows.read_meta(index.db, "head")
    if seen == bytes.fromhex(head.oid):
        return
    last = _get_seen(history, seen) if isinstance(seen, bytes) else None
    noted = rows.read_meta(index.db, "applied")
    applied = noted if isinstance(noted, int) else last.seq if last else 0
    steps = _list_steps(history, last, head)
    if steps is not None and steps[0].seq > applied:
        _take_steps(history, index, steps, known)
        return
    # The branch was moved elsewhere: the trees are compared.
    changes = _order_changes(history, history.diff(last, head, ROOM), head, last)
    # A commit that was here before cannot be shown by its seq, because rows of later ones were there first.
    applied = head.seq if head.seq > applied else tables.find_newest(history.db)
    steps = [head] if applied == head.seq or rows.is_step(index.db, head.generation, head.seq) else []
    _apply(history, index, [(applied, change) for change in changes])
    index.db.run("DELETE FROM step WHERE generation >= ?", (head.generation,))
    _note_steps(index, steps, head, applied)


def _get_seen(history: History, oid: bytes) -> Commit:
    try:
        return history.get(oid.hex())
    except NotFound as error:  # collected since: what the index has cannot be compared with anything
        raise Damaged(f"the index stands at commit {oid.hex()[:12]}, which is gone.") from error


def _list_steps(history: History, last: Commit | None, head: Commit) -> list[Commit] | None:
    """Commits after `last` up to `head`, oldest first, by first parents; None when head does not follow it."""
    if head.generation - (last.generation if last else 0) > FAR:
        return None
    found, current = [head], head
    while current.parents and (last is None or current.parents[0] != last.oid):
        current = history.get(current.parents[0])
        if last is not None and current.generation <= last.generation:
            return None
        found.append(current)
    return None if last is not None and not current.parents else found[::-1]


def _order_changes(history: History, changes: Sequence[Change], head: Commit, last: Commit | None) -> list[Change]:
    """Changes in the order of the commits that made them, as walking has them: of equal hits the newer row is first.

    To read a commit takes a quarter of the time of adding a row. Where the branch was moved elsewhere, only the last
    FAR commits are looked at.
    """
    left, ages, current = {change.path for change in changes if change.new is not None}, dict[str, int](), head
    for _ in range(max(FAR, head.generation - (last.generation if last else 0))):
        made = left & {change.path for change in history.changes(current)} if left else set()
        ages.update(dict.fromkeys(made, current.seq))
        left -= made
        if not left or not current.parents:
            break
        current = history.get(current.parents[0])
    return sorted(changes, key=lambda change: ages.get(change.path, 0))


def _apply(history: History, index: Index, changes: Iterable[tuple[int, Change]], known: Docs | None = None) -> None:
    """Apply changes, each with the seq of its commit."""
    moved = [(seq, change) for seq, change in changes if is_memory(change.path)]
    for start in range(0, len(moved), _PART):
        part = moved[start : start + _PART]
        docs = load_docs(history, [change for _, change in part], known or {})
        rows.apply_changes(index.db, [(seq, _describe_change(change)) for seq, change in part], docs)


def is_memory(path: str) -> bool:
    """Whether a path is one of ours: anybody may write others below memories/, which no search is about."""
    return path.startswith(ROOM) and _ID.fullmatch(path.rsplit("/", 1)[1]) is not None


def _describe_change(change: Change) -> Replaced:
    return Replaced(
        bytes.fromhex(change.path[-36:].replace("-", "")),
        bytes.fromhex(change.old.oid) if change.old else None,
        bytes.fromhex(change.new.oid) if change.new else None,
    )


def load_docs(history: History, changes: Sequence[Change], known: Docs | None = None) -> Docs:
    """What the index needs to know of the new records; those that were purged are left out."""
    wanted = {change.new.oid for change in changes if change.new is not None}
    if known and all(bytes.fromhex(oid) in known for oid in wanted):
        return known
    try:
        found = dict(history.objects.read_many(wanted))
    except (Purged, NotFound):
        found = {}
        for oid in wanted:
            with contextlib.suppress(Purged, NotFound):
                found[oid] = history.objects.read(oid)
    return dict(_docs(found))


def _docs(found: Mapping[str, bytes]) -> Iterator[tuple[bytes, Doc]]:
    """Records as the index wants them; what is no memory, at a path like one, is left out."""
    for oid, data in found.items():
        with contextlib.suppress(Corrupt):
            yield bytes.fromhex(oid), record.doc(record.decode(data), oid)


# -- what is shown ----------------------------------------------------------------------------


def find_shown(history: History, index: Index, branch: str, at: Commit | None = None) -> Shown:
    """What a branch shows, now or at one of its commits."""
    head = follow(history, index, branch)
    if at is None:
        if branch == find_trunk(history, index, branch):
            return Shown()
        at = refs.commit_of(history, refs.get(history.db, branch)["memory"])
        return Shown(overlay=_update_overlay(history, index, branch, at))
    if head is not None and at.oid == head.oid:
        return Shown()
    if rows.is_step(index.db, at.generation, at.seq):
        return Shown(seq=at.seq)
    return Shown(overlay=_update_overlay(history, index, f"{rows.MOMENT}{at.oid}", at))


def _update_overlay(history: History, index: Index, name: str, at: Commit | None) -> Overlay:
    """The overlay of a branch at a commit, brought up from where it was last seen."""
    target = bytes.fromhex(at.oid) if at else None
    known = rows.find_overlay(index.db, name)
    if known is not None and known[0] == target:
        return known[1]
    with index.db.write():
        known = rows.find_overlay(index.db, name)
        steps = _steps_on(history, known[0], at) if known is not None and known[0] is not None and at else None
        if known is not None and steps is not None:
            made = known[1]
            for commit in steps:
                made = _lay_over(history, index, made, history.changes(commit))
        else:
            base = _find_base(history, index, at)
            start = Overlay(base.seq if base else 0, frozenset(), frozenset())
            made = _lay_over(history, index, start, history.diff(base, at, ROOM))
        rows.write_overlay(index.db, name, target, made)
        rows.raise_stamp(index.db)
    return made


def _steps_on(history: History, seen: bytes, at: Commit) -> list[Commit] | None:
    """Plain commits from where a branch was seen. A merge may have brought it nearer to the trunk: begin anew."""
    try:
        steps = _list_steps(history, history.get(seen.hex()), at)
    except NotFound:  # a branch of that name was discarded and collected
        return None
    return None if steps is None or any(len(commit.parents) > 1 for commit in steps) else steps


def _lay_over(history: History, index: Index, overlay: Overlay, changes: Iterable[Change]) -> Overlay:
    moved = [change for change in changes if is_memory(change.path)]
    return rows.lay_over(index.db, overlay, [_describe_change(change) for change in moved], load_docs(history, moved))


def _find_base(history: History, index: Index, at: Commit | None) -> Commit | None:
    """The nearest commit of the trunk below one of another branch: its fork, or what it last merged."""
    waiting, seen = [at] if at else [], set[str]()
    while waiting:
        waiting.sort(key=lambda commit: commit.seq)
        current = waiting.pop()
        if rows.is_step(index.db, current.generation, current.seq):
            return current
        for parent in current.parents:
            if parent not in seen:
                seen.add(parent)
                waiting.append(history.get(parent))
    head = rows.read_meta(index.db, "head")
    return _get_seen(history, head) if isinstance(head, bytes) else None


def find_commit_before(history: History, index: Index, head: Commit | None, time: int) -> Commit | None:
    """The last commit of a line that was made no later than a time, by first parents.

    Commits of the trunk are numbered in the index, so there it is found by halving.
    """
    current = head
    while current is not None and current.time > time:
        if rows.is_step(index.db, current.generation, current.seq):
            return _find_step_before(history, index, current, time)
        current = history.get(current.parents[0]) if current.parents else None
    return current


def _find_step_before(history: History, index: Index, late: Commit, time: int) -> Commit | None:
    low, high = 0, late.generation  # the answer's generation is in [low, high)
    while high - low > 1:
        middle = (low + high) // 2
        seq = rows.find_step_at(index.db, middle)
        if seq is None or history.at(seq).time <= time:
            low = middle
        else:
            high = middle
    found = rows.find_step_at(index.db, low)
    if found is not None:
        return history.at(found)
    first = rows.find_first_step(index.db)  # older ones were taken over all at once: walk on from there
    below = history.at(first).parents if first is not None else ()
    return find_commit_before(history, index, history.get(below[0]) if below else None, time)
