"""Commits: reading, finding and appending them, and the tree each one names. Knows refs only as oids it is given.

`append` is the one way a commit comes into being. It runs inside a write transaction.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from typing import TypeVar

import msgpack

from memlake.errors import Corrupt, InvalidInput, NotFound
from memlake.named_tuple import NamedTuple
from memlake.objects.db import Database
from memlake.objects.layout import next_seq, read_salt
from memlake.objects.store import Objects
from memlake.records import Author, Change, Commit, Entry, Lane
from memlake.versions import tables
from memlake.versions.kinds import BUILT_IN, Kind, kind_at
from memlake.versions.paths import check_all, parents
from memlake.versions.trees import codec, tree
from memlake.versions.trees.nodes import Gone, Nodes

WINDOW = 512  # generations of the memory lane of which one commit keeps its nodes: see keeps_tree
_RECENT = 64
_TRIES = 3
_STEPS = 16  # at most so many commits lie between two that are compared by their lists of changes
T = TypeVar("T")


class Draft(NamedTuple):
    """What a commit is to say. `edits` maps a tree path to its new entry, or None to remove it."""

    lane: Lane
    edits: Mapping[str, Entry | None]
    author: Author
    message: str
    time: int
    meta: Mapping[str, str]


class Planned(NamedTuple):
    """What edits mean on top of a parent: the changes they make, and the root and new nodes of their tree."""

    parent: Commit | None
    edits: Mapping[str, Entry | None]
    changes: tuple[Change, ...]
    root: bytes
    nodes: dict[bytes, bytes]


class History:
    def __init__(self, db: Database, objects: Objects, kinds: Iterable[Kind] = ()) -> None:
        self.db, self.objects, self.nodes = db, objects, Nodes(db)
        self._recent: dict[str, Commit] = {}
        self.kinds = {kind.name: kind for kind in (*BUILT_IN, *kinds)}

    @cached_property
    def salt(self) -> bytes:
        return read_salt(self.db)

    def forget(self) -> None:
        """Drop what is remembered: gc may have removed it."""
        self._recent.clear()
        self.nodes.forget()

    # -- finding ------------------------------------------------------------------------------

    def get(self, oid: str) -> Commit:
        """A commit by its oid. A commit never changes, so the last few are remembered."""
        commit = self._recent.get(oid)
        if commit is None:
            row = tables.find_commit(self.db, bytes.fromhex(oid))
            if row is None:
                raise NotFound(f"commit {oid} is not in this repo.", hint="Run memlake fsck.")
            commit = _decode_row(*row)
            if len(self._recent) >= _RECENT:
                self._recent.clear()
            self._recent[oid] = commit
        return commit

    def at(self, seq: int) -> Commit:
        """A commit by its number."""
        row = tables.find_commit_at(self.db, seq)
        if row is None:
            raise NotFound(f"commit number {seq} is not in this repo.", hint="Run memlake fsck.")
        return _decode_row(*row)

    def list_at(self, seqs: Iterable[int]) -> list[Commit]:
        """Commits by their numbers, oldest first."""
        return [_decode_row(*row) for row in tables.list_commits_at(self.db, seqs)]

    def find_other(self, commit: Commit) -> str | None:
        """The head that the other lane had at a commit; None if there was none, or if it is not in this repo."""
        return commit.other if commit.other and self.has(commit.other) else None

    def seq(self, oid: str) -> int:
        seq = tables.find_seq(self.db, bytes.fromhex(oid))
        if seq is None:
            raise NotFound(f"commit {oid} is not in this repo.", hint="Run memlake fsck.")
        return seq

    def has(self, oid: str) -> bool:
        """Whether a commit is in this repo. The text need not even be an oid."""
        try:
            return tables.find_seq(self.db, bytes.fromhex(oid)) is not None
        except ValueError:
            return False

    def starting_with(self, prefix: str) -> list[str]:
        """Oids of commits that start with these hex digits, at most three."""
        low = bytes.fromhex(prefix.ljust(64, "0"))
        high = bytes.fromhex(prefix.ljust(64, "f"))
        return [oid.hex() for oid in tables.list_oids_between(self.db, low, high)]

    def parents(self, seqs: Iterable[int]) -> dict[int, tuple[int, tuple[int, ...]]]:
        """seq -> (generation, seqs of parents), for walking without decoding."""
        rows = tables.list_parents(self.db, seqs)
        return {seq: (gen, tuple(p for p in (p1, p2) if p is not None)) for seq, gen, p1, p2 in rows}

    def changes(self, commit: Commit) -> tuple[Change, ...]:
        """What a commit changed; a long list is an object of its own."""
        if commit.changes is not None:
            return commit.changes
        return codec.decode_changes(codec.unpack(self.objects.read(commit.meta["changes"])))

    # -- trees --------------------------------------------------------------------------------

    def root(self, commit: Commit | None) -> bytes:
        """The root of a commit's tree, whose nodes can be read then; rebuilds them if they were dropped."""
        if commit is None:
            return tree.EMPTY
        root = bytes.fromhex(commit.root)
        if not self.nodes.has(root):
            self.nodes.remember(self._replay(commit))
        return root

    def pin(self, commit: Commit) -> None:
        """Make sure the nodes of a commit are stored, because a ref will name it. Call inside a write."""
        root = bytes.fromhex(commit.root)
        if root != tree.EMPTY and not self.nodes.find_stored([root]):
            self.nodes.forget()  # nodes that are only in memory must not be built upon
            self.nodes.write(self._replay(commit), keep=commit.lane == "work")

    def _replay(self, commit: Commit) -> dict[bytes, bytes]:
        """Nodes of a dropped tree, from the nearest older commit that has its own and the changes since."""
        chain = [commit]
        while True:
            oldest = chain[-1]
            below = self.get(oldest.parents[0]) if oldest.parents else None
            if below is None or self.nodes.has(bytes.fromhex(below.root)):
                break
            chain.append(below)
        edits: dict[bytes, bytes | None] = {}
        for step in reversed(chain):
            for change in self.changes(step):
                edits[change.path.encode()] = codec.maybe_bytes(change.new)
        start = bytes.fromhex(below.root) if below else tree.EMPTY
        root, nodes = tree.edit(self.nodes.get_many, start, edits)
        if root.hex() != commit.root:
            raise Corrupt(f"the changes of commit {commit.oid} do not lead to its tree.", hint="Run memlake fsck.")
        return nodes

    def entries(self, commit: Commit | None, paths: Iterable[str]) -> dict[str, Entry]:
        """What a commit holds at these paths."""
        if commit is None:
            return {}
        keys = [path.encode() for path in paths]
        values = self._retry_thinned(lambda: tree.get(self.nodes.get_many, self.root(commit), keys))
        return {path.decode(): codec.decode_entry(value) for path, value in values.items()}

    def scan(self, commit: Commit | None, prefix: str = "") -> Iterator[tuple[str, Entry]]:
        """All paths of a commit that start with a prefix, in order."""
        start, end, tries = prefix.encode(), key_after(prefix.encode()), 0
        while True:
            try:
                for path, value in tree.scan(self.nodes.get_many, self.root(commit), start, end):
                    yield path.decode(), codec.decode_entry(value)
                    start = path + b"\0"  # if a node is gone, the rest is read again from here
                return
            except Gone:
                tries += 1
                if tries > _TRIES:
                    raise
                self.nodes.forget()

    def diff(self, a: Commit | None, b: Commit | None, prefix: str = "") -> tuple[Change, ...]:
        """What changed from a to b, in order of paths."""
        return self._retry_thinned(lambda: self.diff_roots(self.root(a), self.root(b), prefix))

    def diff_by_lists(self, a: Commit | None, b: Commit | None) -> tuple[Change, ...]:
        """As `diff`, for showing only: commits a few steps apart are compared by the lists of changes they carry.

        The hash of a commit covers its list, but nothing here compares the list with the trees. So what writes by a
        difference (a checkout, a merge) must use `diff`. A long list is an object; it is read only if it is the one.
        """
        if a is None or b is None or a.generation == b.generation:
            return self.diff(a, b)
        old, new = (a, b) if a.generation < b.generation else (b, a)
        steps: list[Commit] = []
        while new.oid != old.oid and len(steps) < _STEPS and new.parents and new.generation > old.generation:
            steps.append(new)
            new = self.get(new.parents[0])
        if new.oid != old.oid or (len(steps) > 1 and any(step.changes is None for step in steps)):
            return self.diff(a, b)
        by_path: dict[str, Change] = {}
        for change in (change for step in reversed(steps) for change in self.changes(step)):
            by_path[change.path] = change._replace(old=by_path.get(change.path, change).old)
        changes = sorted(change for change in by_path.values() if change.old != change.new)
        return tuple(changes if old is a else (Change(c.path, c.new, c.old) for c in changes))

    def _retry_thinned(self, read: Callable[[], T]) -> T:
        """Read trees. If another process thins one meanwhile, read again, so that `root` rebuilds it."""
        for _ in range(_TRIES):
            with contextlib.suppress(Gone):
                return read()
            self.nodes.forget()
        return read()

    def diff_roots(self, a: bytes, b: bytes, prefix: str = "") -> tuple[Change, ...]:
        start = prefix.encode()
        rows = tree.diff(self.nodes.get_many, a, b, start, key_after(start))
        return tuple(Change(path.decode(), codec.maybe_entry(old), codec.maybe_entry(new)) for path, old, new in rows)

    def find_clash(self, commit: Commit | None, edits: Mapping[str, Entry | None]) -> tuple[str, str] | None:
        """Two paths, one a folder of the other, that edits on top of a commit would leave side by side."""
        added = [path for path, entry in edits.items() if entry is not None]
        above = {folder: path for path in added for folder in parents(path)}
        for folder in [*self.entries(commit, above), *(path for path in added if path in above)]:
            if edits.get(folder, True) is not None:
                return folder, above[folder]
        # The other way round: an added path that is a folder in the commit, and what stays in it.
        held = self.entries(commit, added)
        firsts = {f"{path}/".encode(): path for path in added if path not in held}
        near = tree.find_next_keys(self.nodes.get_many, self.root(commit), firsts)
        for start, key in near.items():
            if key.startswith(start):
                for inner, _ in self.scan(commit, start.decode()):
                    if edits.get(inner, True) is not None:
                        return firsts[start], inner
        return None

    # -- appending ----------------------------------------------------------------------------

    def plan(self, parent: Commit | None, edits: Mapping[str, Entry | None], ready: Planned | None = None) -> Planned:
        """What edits mean on top of a parent. Reads only; needs no lock.

        Large edits are planned before the lock is taken. Inside it, that plan is passed as `ready`, and the work is
        done again only if the head has moved.
        """
        if ready is not None and ready.parent == parent and ready.edits == edits:
            return ready
        encoded = {path.encode(): codec.maybe_bytes(entry) for path, entry in edits.items()}
        held: dict[bytes, bytes] = {}

        def edit_tree() -> tuple[bytes, dict[bytes, bytes]]:
            held.clear()
            return tree.edit(self.nodes.get_many, self.root(parent), encoded, held)

        root, nodes = self._retry_thinned(edit_tree)
        before = {path.decode(): codec.decode_entry(value) for path, value in held.items()}
        changes = tuple(
            Change(path, before.get(path), edits[path]) for path in sorted(edits) if before.get(path) != edits[path]
        )
        return Planned(parent, edits, changes, root, nodes)

    def append(
        self, draft: Draft, parents: tuple[Commit, ...], other: Commit | None, ready: Planned | None = None
    ) -> Commit:
        """Write one commit on top of its parents. Call inside a write; the caller moves the ref."""
        if any(parent.lane != draft.lane for parent in parents):
            raise InvalidInput("a commit and its parents must be of one lane.")
        planned = self.plan(parents[0] if parents else None, draft.edits, ready)
        self.nodes.write(planned.nodes, keep=draft.lane == "work")
        commit = Commit(
            oid="",
            lane=draft.lane,
            root=planned.root.hex(),
            parents=tuple(parent.oid for parent in parents),
            other=other.oid if other else None,
            author=draft.author,
            time=draft.time,
            message=draft.message,
            changes=planned.changes,
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
        digest = hashlib.sha256(data).digest()
        while tables.find_seq(self.db, digest) is not None:
            # The very same commit in the same microsecond, on another branch: a moment later it gets its own id.
            commit = commit._replace(time=commit.time + 1)
            data = codec.encode_commit(commit)
            digest = hashlib.sha256(data).digest()
        return self._insert(commit, data, parents, other.seq if other else None, next_seq(self.db))

    def adopt(self, data: bytes, *, seq: int | None = None) -> Commit:
        """Take in a commit that was made elsewhere, as it is. Call inside a write.

        Its bytes must be canonical, its parents here and of its lane, and its changes must lead from the first parent's
        tree to its own; if not, it raises and nothing is written. `seq` is for a rescue, which keeps old numbers.
        Returns it with all of its changes, even if they are so many that they are an object of their own.
        """
        commit = codec.decode_commit(data)
        if self.has(commit.oid):
            return self.get(commit.oid)
        if not codec.is_sound(commit) or codec.encode_commit(commit) != data or len(commit.parents) > 2:
            raise Corrupt(f"commit {commit.oid} is not written as commits are. It was not taken in.")
        parents = tuple(self.get(parent) for parent in commit.parents)
        generation = 1 + max((parent.generation for parent in parents), default=0)
        if commit.generation != generation or any(parent.lane != commit.lane for parent in parents):
            raise Corrupt(f"commit {commit.oid} does not fit its parents. It was not taken in.")
        changes = self.changes(commit)
        if not codec.is_sound(commit._replace(changes=changes)):
            raise Corrupt(f"the changes of commit {commit.oid} are not written as such. It was not taken in.")
        check_all(change.path for change in changes)
        for change in changes:
            if kind_at(change.path).lane != commit.lane:
                raise Corrupt(f"commit {commit.oid} changes {change.path!r}, which is of the other lane.")
        edits = {change.path: change.new for change in changes}
        if clash := self.find_clash(parents[0] if parents else None, edits) if commit.lane == "work" else None:
            raise Corrupt(f"commit {commit.oid} has {clash[1]!r} inside the file {clash[0]!r}. It was not taken in.")
        planned = self.plan(parents[0] if parents else None, edits)
        if planned.changes != changes or planned.root.hex() != commit.root:
            raise Corrupt(f"the changes of commit {commit.oid} do not lead to its tree. It was not taken in.")
        self.nodes.write(planned.nodes, keep=commit.lane == "work")
        other = self.find_other(commit)
        stored = self._insert(commit, data, parents, self.seq(other) if other else None, seq or next_seq(self.db))
        return stored._replace(changes=changes)

    def _insert(self, commit: Commit, data: bytes, parents: tuple[Commit, ...], other: int | None, seq: int) -> Commit:
        digest = hashlib.sha256(data).digest()
        p1, p2 = (*(parent.seq for parent in parents), None, None)[:2]
        lane = codec.LANES.index(commit.lane)
        tables.add_commit(self.db, (seq, digest, lane, p1, p2, other, commit.generation, data))
        return commit._replace(oid=digest.hex(), seq=seq)


def keeps_tree(generation: int, below: int) -> bool:
    """Whether a commit of the memory lane keeps its nodes, by its generation and its first parent's (0 without one).

    The first commit of each window does, even if a merge jumps over the beginning of one. So a replay, which follows
    first parents, is shorter than a window. A merge as such does not: a lane that is synced merges every minute.
    """
    return generation // WINDOW != below // WINDOW


def _decode_row(seq: int, oid: bytes, data: bytes) -> Commit:
    commit = codec.decode_commit(data, seq)
    if commit.oid != oid.hex():
        raise Corrupt(f"commit {oid.hex()} is damaged: its bytes do not match its hash.", hint="Run memlake fsck.")
    return commit


def key_after(prefix: bytes) -> bytes | None:
    """The first key past all keys with this prefix."""
    trimmed = prefix.rstrip(b"\xff")
    return trimmed[:-1] + bytes([trimmed[-1] + 1]) if trimmed else None
