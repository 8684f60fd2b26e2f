"""Adopting memory commits that were made elsewhere, many at once. Knows commits and trees, not where they came from.

`History.adopt` replays each commit. A lane that agents write to all day has a million small ones in one line, so here
they are replayed a window at a time, as `keeps_tree` cuts them: every hash, path and step from old to new is checked,
and the tree at the end of each window, which is the one that is kept. A tree inside a window is proven when it is
asked for, because it is rebuilt by a replay then. Whatever is not plain (a merge, a long list of changes, something
wrong) takes the way of one commit.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import msgpack

from memlake.errors import Corrupt
from memlake.objects.layout import next_seq
from memlake.versions import tables
from memlake.versions.history.commits import WINDOW, History
from memlake.versions.kinds import NAMES, kind_at
from memlake.versions.paths import check
from memlake.versions.trees import codec, tree

_START = b"\x9b\x01\x01\xc4\x20"  # of eleven fields: the format, the lane, and that the root has 32 bytes
_LONGEST_ENTRY = 41  # a size of up to seven bytes


def adopt_memories(history: History, commits: Sequence[bytes], named: set[bytes]) -> int:
    """Take in commits of the memory lane, parents first; returns how many are new. Call inside a write.

    `named` is filled with the objects that they name.
    """
    fresh = {hashlib.sha256(data).digest(): data for data in commits}
    for known in tables.list_known_commits(history.db, fresh):  # a batch that was joined has old ones
        del fresh[known]
    run: _Run | None = None
    for digest, data in fresh.items():
        fields = _unpack_plain(data)
        if run is not None and (fields is None or run.last != fields[3][0] or run.is_full):
            run.end()
            run = None
        if fields is None:
            commit = history.adopt(data)
            if commit.lane != "memory":
                raise Corrupt(f"commit {commit.oid} was sent among those of another lane. Nothing was changed.")
            named.update(map(bytes.fromhex, commit.meta.values()))
            named.update(bytes.fromhex(change.new.oid) for change in history.changes(commit) if change.new)
        else:
            run = run or _Run(history, fields[3][0])
            run.add(digest, data, fields)
            named.update(fields[9].values())
            named.update(change[2][:32] for change in fields[8] if change[2] is not None)
    if run is not None:
        run.end()
    return len(fresh)


class _Run:
    """Commits in one line, at most a window of them, of which the last one's tree is replayed and kept."""

    def __init__(self, history: History, parent: bytes) -> None:
        commit = history.get(parent.hex())
        if commit.lane != "memory":
            raise Corrupt(f"commit {commit.oid} has a child of the other lane. Nothing was taken in.")
        self.last, self.generation = parent, commit.generation
        self._history, self._root, self._seq = history, history.root(commit), commit.seq
        self._before: dict[bytes, bytes | None] = {}
        self._edits: dict[bytes, bytes | None] = {}
        self._rows: list[tuple[bytes, int | None, bytes]] = []
        self._others: dict[bytes | None, int | None] = {None: None}
        self._target = self._root

    @property
    def is_full(self) -> bool:
        return bool(self._rows) and self.generation % WINDOW == 0

    def add(self, digest: bytes, data: bytes, fields: list[Any]) -> None:
        other, changes = fields[4], fields[8]
        if fields[10] != self.generation + 1:
            raise Corrupt(f"commit {digest.hex()} does not fit its parents. It was not taken in.")
        for path, old, value in changes:
            if kind_at(check(path)).lane != "memory":
                raise Corrupt(f"commit {digest.hex()} changes {path!r}, which is of the other lane.")
            key = path.encode()
            if self._edits.get(key, old) != old or old == value:
                raise _refuse(digest)
            self._before.setdefault(key, old)
            self._edits[key] = value
        if other not in self._others:
            self._others[other] = tables.find_seq(self._history.db, other)
        self._rows.append((digest, self._others[other], data))
        self.last, self._target, self.generation = digest, fields[2], fields[10]

    def end(self) -> None:
        """Replay the run and store it."""
        history, held = self._history, dict[bytes, bytes]()
        root, nodes = tree.edit(history.nodes.get_many, self._root, self._edits, held)
        if root != self._target or any(held.get(key) != old for key, old in self._before.items()):
            raise _refuse(self.last)
        history.nodes.write(nodes, keep=False)
        seq = next_seq(history.db, len(self._rows))
        generation = self.generation - len(self._rows)
        parents = [self._seq, *range(seq, seq + len(self._rows) - 1)]
        tables.add_commits(
            history.db,
            [
                (seq + at, digest, 1, parents[at], None, other, generation + 1 + at, data)
                for at, (digest, other, data) in enumerate(self._rows)
            ],
        )


def _refuse(oid: bytes) -> Corrupt:
    return Corrupt(f"the changes of the commits up to {oid.hex()} do not lead to its tree. They were not taken in.")


def _unpack_plain(data: bytes) -> list[Any] | None:
    """The fields of a memory commit with one parent and its changes in it, every one of its type; None for another."""
    if not data.startswith(_START):
        return None
    fields: list[Any] = codec.unpack(data)
    _, _, _, parents, other, author, time, message, changes, meta, generation = fields
    is_plain = (
        type(parents) is list
        and len(parents) == 1
        and _is_oid(parents[0])
        and (other is None or _is_oid(other))
        and type(author) is list
        and [*map(type, author)] == [str, str]
        and type(time) is type(generation) is int
        and codec.is_time(time)
        and type(message) is str
        and type(changes) is list
        and all(map(_is_change, changes))
        and all(a[0] < b[0] for a, b in pairwise(changes))
        and type(meta) is dict
        and all(type(name) is str and name != "changes" and _is_oid(oid) for name, oid in meta.items())
        and list(meta) == sorted(meta)
        and len(data) <= codec.CHANGES_INLINE
        and msgpack.packb(fields) == data
    )
    return fields if is_plain else None


def _is_change(change: Any) -> bool:
    return type(change) is list and len(change) == 3 and type(change[0]) is str and all(map(_is_entry, change[1:]))


def _is_entry(value: Any) -> bool:
    return value is None or (
        type(value) is bytes
        and 34 <= len(value) <= _LONGEST_ENTRY
        and value[32] in NAMES
        and (len(value) == 34 or value[-1] != 0)
    )


def _is_oid(value: Any) -> bool:
    return type(value) is bytes and len(value) == 32
