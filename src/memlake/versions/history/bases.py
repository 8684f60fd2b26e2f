"""Ancestry: whether one commit is behind another, and where two lines of history parted. Walks seqs only."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence

from memlake.records import Commit
from memlake.versions import tables
from memlake.versions.history.commits import History

_OURS, _THEIRS, _STALE = 1, 2, 4


def is_ancestor(history: History, old: Commit, new: Commit) -> bool:
    """Whether `old` is `new` or an ancestor of it."""
    return tables.is_behind(history.db, old.seq, new.seq)


def merge_bases(history: History, a: Commit, b: Commit) -> list[Commit]:
    """The best common ancestors: common to both and not behind another. More than one after a criss-cross."""
    return bases_of_many(history, [a], b)


def bases_of_many(history: History, ours: Sequence[Commit], theirs: Commit) -> list[Commit]:
    """The merge bases of one commit and a merge of several that was never committed.

    Walks from the newest seq down, painting commits with the side they were reached from. A commit reached
    from both is a candidate; everything behind it is stale. A parent's seq is always smaller than its child's,
    so when a commit is taken from the queue its paint is final.
    """
    paint = {commit.seq: _OURS for commit in ours}
    paint[theirs.seq] = paint.get(theirs.seq, 0) | _THEIRS
    queue = [-seq for seq in paint]
    heapq.heapify(queue)
    bases: list[int] = []
    while any(not paint[-seq] & _STALE for seq in queue):
        seq = -heapq.heappop(queue)
        color = paint[seq]
        if color == _OURS | _THEIRS:
            bases.append(seq)
            color |= _STALE
        for parent in history.parents([seq])[seq][1]:
            if parent not in paint:
                heapq.heappush(queue, -parent)
            paint[parent] = paint.get(parent, 0) | color
    return [history.at(seq) for seq in bases if not paint[seq] & _STALE]


def reachable(history: History, tips: Iterable[int], hidden: Iterable[int] = ()) -> set[int]:
    """Seqs behind the tips and not behind the hidden ones."""
    out = _closure(history, hidden, set())
    return _closure(history, tips, out) - out


def _closure(history: History, tips: Iterable[int], stop: set[int]) -> set[int]:
    seen: set[int] = set()
    waiting = [seq for seq in tips if seq not in stop]
    while waiting:
        seen.update(waiting)
        parents = history.parents(waiting)
        waiting = list({p for _, ps in parents.values() for p in ps if p not in seen and p not in stop})
    return seen
