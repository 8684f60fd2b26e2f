"""Tree nodes in repo.db, and the trees of commits whose nodes were dropped. Knows nodes and roots, not refs.

Nodes of memory-lane commits that no ref names are dropped after a while (see thin.py). A commit's changes carry full
entries, so its tree can be rebuilt by replaying at most 511 lists of changes, and the root hash proves the result.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from memlake.errors import Corrupt
from memlake.objects.db import Database
from memlake.versions import tables
from memlake.versions.trees import tree
from memlake.versions.trees.tree import Node

_CACHE = 20_000
_FEW = 64


class Gone(Corrupt):
    """A node is not there. Thinning may have dropped it a moment ago; its tree can then be rebuilt."""


class Nodes:
    """`get_many` for tree.py: memory first, then one query."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._cache: dict[bytes, Node] = {}
        self._rebuilt: dict[bytes, Node] = {tree.EMPTY: tree.decode(tree.EMPTY_DATA)}
        self._older: dict[bytes, Node] = {}

    def get_many(self, oids: Iterable[bytes]) -> Mapping[bytes, Node]:
        nodes: dict[bytes, Node] = {}
        wanted: list[bytes] = []
        for oid in oids:
            node = self._cache.get(oid) or self._rebuilt.get(oid) or self._older.get(oid)
            if node is None:
                wanted.append(oid)
            else:
                nodes[oid] = node
        if wanted:
            nodes.update(self._load(wanted))
        return nodes

    def _load(self, wanted: list[bytes]) -> dict[bytes, Node]:
        if len(self._cache) + len(wanted) > _CACHE:
            self._cache.clear()
        loaded = {oid: tree.decode(data) for oid, (_, data) in self.find_stored(wanted).items()}
        self._cache.update(loaded)
        if len(loaded) < len(wanted) and len(loaded) < len(set(wanted)):
            lost = next(oid for oid in wanted if oid not in loaded)
            raise Gone(f"tree node {lost.hex()} is missing or damaged.", hint="Run memlake fsck.")
        return loaded

    def find_stored(self, oids: Collection[bytes]) -> dict[bytes, tuple[int, bytes]]:
        """Those of these nodes that are in repo.db and not damaged: oid -> (row id, bytes)."""
        wanted = set(oids)
        rows = tables.list_nodes(self._db, {key_of(oid) for oid in wanted})
        stored = {tree.oid_of(data): (id, data) for id, data in rows if type(data) is bytes}
        return {oid: stored[oid] for oid in stored.keys() & wanted}

    def has(self, oid: bytes) -> bool:
        return oid in self._rebuilt or oid in self._older or bool(self.find_stored([oid]))

    def write(self, new_nodes: Mapping[bytes, bytes], *, keep: bool) -> None:
        """Store new nodes. Call inside a write."""
        new_nodes = {oid: data for oid, data in new_nodes.items() if oid != tree.EMPTY}
        stored = self.find_stored(new_nodes)
        if keep:
            tables.keep_nodes(self._db, [id for id, _ in stored.values()])
        rows = [(None, key_of(oid), int(keep), data) for oid, data in new_nodes.items() if oid not in stored]
        tables.add_nodes(self._db, rows)
        if len(new_nodes) <= _FEW:  # one small write follows another: the next begins on these
            self._cache.update((oid, tree.decode(data)) for oid, data in new_nodes.items())

    def remember(self, new_nodes: Mapping[bytes, bytes]) -> None:
        """Keep rebuilt nodes for this process; they are not written."""
        if len(self._rebuilt) > _CACHE:
            # Two generations, because a diff needs both its trees, and the second may be built on nodes of the first.
            self._older, self._rebuilt = self._rebuilt, {tree.EMPTY: tree.decode(tree.EMPTY_DATA)}
        self._rebuilt.update((oid, tree.decode(data)) for oid, data in new_nodes.items())

    def forget(self) -> None:
        """Drop what is cached: another process may have thinned the nodes behind it."""
        self._cache.clear()
        self._older.clear()
        self._rebuilt = {tree.EMPTY: tree.decode(tree.EMPTY_DATA)}


def key_of(oid: bytes) -> int:
    """The number a node is found by."""
    return int.from_bytes(oid[:8], "big", signed=True)
