"""Commits: reading, finding and appending them, and the tree each one names. Knows refs only as oids it is given.

`append` is the one way a commit comes into being. It runs inside a write transaction.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import msgpack

from memlake.errors import Corrupt, InvalidInput, NotFound
from memlake.objects.db import Database
from memlake.objects.layout import next_seq
from memlake.objects.store import Objects
from memlake.records import Author, Change, Commit, Entry, Lane
from memlake.versions import codec, tree
from memlake.versions.nodes import Nodes
from memlake.versions.paths import parents

WINDOW = 256  # of memory-lane commits every 256th keeps its nodes
_COLUMNS = "seq, oid, data"


class Draft(NamedTuple):
    """What a commit is to say. `edits` maps a tree path to its new entry, or None to remove it."""

    lane: Lane
    edits: Mapping[str, Entry | None]
    author: Author
    message: str
    time: int
    meta: Mapping[str, str]


class History:
    def __init__(self, db: Database, objects: Objects) -> None:
        self.db, self.objects, self.nodes = db, objects, Nodes(db)
        self.moved: list[tuple[int, str, int, int | None, int | None]] | None = None  # by the verb under way, for undo

    # -- finding ------------------------------------------------------------------------------

    def get(self, oid: str) -> Commit:
        row = self.db.row(f"SELECT {_COLUMNS} FROM history WHERE oid = ?", (bytes.fromhex(oid),))
        if row is None:
            raise NotFound(f"commit {oid} is not in this repo.", hint="Run memlake fsck.")
        return _commit(*row)

    def at(self, seq: int) -> Commit:
        row = self.db.row(f"SELECT {_COLUMNS} FROM history WHERE seq = ?", (seq,))
        if row is None:
            raise NotFound(f"commit number {seq} is not in this repo.", hint="Run memlake fsck.")
        return _commit(*row)

    def at_many(self, seqs: Iterable[int]) -> Iterator[Commit]:
        for row in self.db.rows_in(f"SELECT {_COLUMNS} FROM history WHERE seq IN carray(?1)", seqs):
            yield _commit(*row)

    def seq(self, oid: str) -> int:
        row = self.db.row("SELECT seq FROM history WHERE oid = ?", (bytes.fromhex(oid),))
        if row is None:
            raise NotFound(f"commit {oid} is not in this repo.", hint="Run memlake fsck.")
        return int(row[0])

    def starting_with(self, prefix: str) -> list[str]:
        """Oids of commits that start with these hex digits, at most three."""
        low = bytes.fromhex(prefix.ljust(64, "0"))
        high = bytes.fromhex(prefix.ljust(64, "f"))
        rows = self.db.rows("SELECT oid FROM history WHERE oid BETWEEN ? AND ? LIMIT 3", (low, high))
        return [row[0].hex() for row in rows]

    def parents(self, seqs: Iterable[int]) -> dict[int, tuple[int, tuple[int, ...]]]:
        """seq -> (generation, seqs of parents), for walking without decoding."""
        rows = self.db.rows_in("SELECT seq, generation, p1, p2 FROM history WHERE seq IN carray(?1)", seqs)
        return {seq: (gen, tuple(p for p in (p1, p2) if p is not None)) for seq, gen, p1, p2 in rows}

    def changes(self, commit: Commit) -> tuple[Change, ...]:
        if commit.changes is not None:
            return commit.changes
        return codec.decode_changes(msgpack.unpackb(self.objects.read(commit.meta["changes"])))

    # -- trees --------------------------------------------------------------------------------

    def root(self, commit: Commit | None) -> bytes:
        """The root of a commit's tree, with its nodes at hand; rebuilt when they were dropped."""
        if commit is None:
            return tree.EMPTY
        root = bytes.fromhex(commit.root)
        if not self.nodes.has(root):
            self.nodes.remember(self._replay(commit))
        return root

    def pin(self, commit: Commit) -> None:
        """Make sure the nodes of a commit are stored, because a ref will name it. Call inside a write."""
        root = bytes.fromhex(commit.root)
        if root != tree.EMPTY and not self.nodes.stored([root]):
            self.nodes.write(self._replay(commit), keep=commit.lane == "work")

    def _replay(self, commit: Commit) -> dict[bytes, bytes]:
        """Nodes of a dropped tree, from the nearest older commit that has its own and the changes since."""
        chain = [commit]
        while True:
            oldest = chain[-1]
            below = self.get(oldest.parents[0]) if oldest.parents else None
            if below is None or self._stored(below.root):
                break
            chain.append(below)
        edits: dict[bytes, bytes | None] = {}
        for step in reversed(chain):
            for change in self.changes(step):
                edits[change.path.encode()] = codec.maybe_bytes(change.new)
        start = bytes.fromhex(below.root) if below else tree.EMPTY
        root, made = tree.edit(self.nodes.get_many, start, edits)
        if root.hex() != commit.root:
            raise Corrupt(f"the changes of commit {commit.oid} do not lead to its tree.", hint="Run memlake fsck.")
        return made

    def _stored(self, root: str) -> bool:
        return self.nodes.has(bytes.fromhex(root))

    def entries(self, commit: Commit | None, paths: Iterable[str]) -> dict[str, Entry]:
        """What a commit holds at these paths."""
        root = self.root(commit)
        if root == tree.EMPTY:
            return {}
        found = tree.get(self.nodes.get_many, root, (path.encode() for path in paths))
        return {path.decode(): codec.decode_entry(value) for path, value in found.items()}

    def scan(self, commit: Commit | None, prefix: str = "") -> Iterator[tuple[str, Entry]]:
        """All paths of a commit that start with a prefix, in order."""
        start = prefix.encode()
        for path, value in tree.scan(self.nodes.get_many, self.root(commit), start, after(start)):
            yield path.decode(), codec.decode_entry(value)

    def diff(self, a: Commit | None, b: Commit | None, prefix: str = "") -> tuple[Change, ...]:
        """What changed from a to b, in order of paths."""
        return self.diff_roots(self.root(a), self.root(b), prefix)

    def diff_roots(self, a: bytes, b: bytes, prefix: str = "") -> tuple[Change, ...]:
        start = prefix.encode()
        found = tree.diff(self.nodes.get_many, a, b, start, after(start))
        return tuple(Change(path.decode(), codec.maybe_entry(old), codec.maybe_entry(new)) for path, old, new in found)

    def find_clash(self, commit: Commit | None, edits: Mapping[str, Entry | None]) -> tuple[str, str] | None:
        """Two paths, one a folder of the other, that edits on top of a commit would leave side by side."""
        added = [path for path, entry in edits.items() if entry is not None]
        above = {folder: path for path in added for folder in parents(path)}
        for folder in [*self.entries(commit, above), *(path for path in added if path in above)]:
            if edits.get(folder, True) is not None:
                return folder, above[folder]
        for path in added:
            below = (inner for inner, _ in self.scan(commit, path + "/") if edits.get(inner, True) is not None)
            if (inner := next(below, None)) is not None:
                return path, inner
        return None

    # -- appending ----------------------------------------------------------------------------

    def plan(
        self, parent: Commit | None, edits: Mapping[str, Entry | None]
    ) -> tuple[tuple[Change, ...], bytes, dict[bytes, bytes]]:
        """What edits mean on top of a parent: (changes, new root, new nodes). Reads only; needs no lock."""
        before = self.entries(parent, edits)
        changes = tuple(
            Change(path, before.get(path), edits[path]) for path in sorted(edits) if before.get(path) != edits[path]
        )
        encoded = {c.path.encode(): codec.maybe_bytes(c.new) for c in changes}
        root, made = tree.edit(self.nodes.get_many, self.root(parent), encoded)
        return changes, root, made

    def append(
        self,
        draft: Draft,
        parents: tuple[Commit, ...],
        other: Commit | None,
        *,
        planned: tuple[tuple[Change, ...], bytes, dict[bytes, bytes]] | None = None,
    ) -> Commit:
        """Write one commit on top of its parents. Call inside a write; the caller moves the ref."""
        if any(parent.lane != draft.lane for parent in parents):
            raise InvalidInput("a commit and its parents must be of one lane.")
        changes, root, made = planned or self.plan(parents[0] if parents else None, draft.edits)
        self.nodes.write(made, keep=draft.lane == "work")
        commit = Commit(
            oid="",
            lane=draft.lane,
            root=root.hex(),
            parents=tuple(parent.oid for parent in parents),
            other=other.oid if other else None,
            author=draft.author,
            time=draft.time,
            message=draft.message,
            changes=changes,
            meta=dict(draft.meta),
            generation=1 + max((parent.generation for parent in parents), default=0),
        )
        return self._store(commit, parents, other)

    def _store(self, commit: Commit, parents: tuple[Commit, ...], other: Commit | None) -> Commit:
        data = codec.encode_commit(commit)
        if len(data) > codec.CHANGES_INLINE and commit.changes:
            listed = msgpack.packb(codec.encode_changes(commit.changes))
            commit = commit._replace(changes=None, meta={**commit.meta, "changes": self.objects.write(listed)})
            data = codec.encode_commit(commit)
        digest, seq = hashlib.sha256(data).digest(), next_seq(self.db)
        p1, p2 = (*(parent.seq for parent in parents), None, None)[:2]
        self.db.run(
            "INSERT INTO history(seq, oid, lane, p1, p2, other, generation, data) VALUES(?, ?, ?, ?, ?, ?, ?, ?)",
            (
                seq,
                digest,
                codec.LANES.index(commit.lane),
                p1,
                p2,
                other.seq if other else None,
                commit.generation,
                data,
            ),
        )
        return commit._replace(oid=digest.hex(), seq=seq)


def _commit(seq: int, oid: bytes, data: bytes) -> Commit:
    commit = codec.decode_commit(data, seq)
    if commit.oid != oid.hex():
        raise Corrupt(f"commit {oid.hex()} is damaged: its bytes do not match its hash.", hint="Run memlake fsck.")
    return commit


def after(prefix: bytes) -> bytes | None:
    """The first key past all keys with this prefix."""
    trimmed = prefix.rstrip(b"\xff")
    return trimmed[:-1] + bytes([trimmed[-1] + 1]) if trimmed else None
