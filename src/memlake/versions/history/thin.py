"""Thinning: dropping the nodes of memory-lane commits that nobody stands on. Knows nodes and heads, not objects.

An agent that writes all day makes about seven nodes a commit and needs the last ones. The first commit of each
window of 512 generations drops what came since the last thinning and is not part of a kept tree: a head, a tag, the
first commit of a window. Cost grows with the commits since then, never with the tree: a node is never newer than its
parent, so the walk stops at the first node older than the cursor.
"""

from __future__ import annotations

from memlake.objects.layout import read_number
from memlake.versions import tables
from memlake.versions.history.commits import History, keeps_tree
from memlake.versions.trees import tree
from memlake.versions.trees.nodes import key_of


def thin(history: History) -> int:
    """Drop nodes made since the last thinning that no kept tree needs. Call inside a write; returns how many."""
    db = history.db
    cursor, since = _cursor(history)
    rows = tables.list_loose_nodes(db, cursor)
    fresh = {tree.oid_of(data): (id, data) for id, data in rows}
    waiting = [root for root in _kept_roots(history, since) if root in fresh]
    live = set(waiting)
    while waiting:
        node = tree.decode(fresh[waiting.pop()][1])
        if node.level == 0:
            continue
        for child in node.values:
            if child in fresh and child not in live:
                live.add(child)
                waiting.append(child)
    _rewrite(history, [row[0] for row in rows], [fresh[oid][1] for oid in live])
    history.nodes.forget()
    tables.note_thinned(db)
    return len(rows) - len(live)


def _rewrite(history: History, ids: list[int], kept: list[bytes]) -> None:
    """Remove all rows and write the kept ones again behind all others: the space between would never be used again.

    Their new ids are new to everyone, which gc relies on; behind these rows there may be nodes of the work lane. Nodes
    hold hashes and paths, no content: no need to wipe.
    """
    db = history.db
    last = tables.find_last_node(db)
    with db.without_wiping():
        tables.delete_nodes(db, ids)
    tables.add_nodes(db, [(id, key_of(tree.oid_of(data)), 0, data) for id, data in enumerate(kept, last + 1)])


def _kept_roots(history: History, since: int) -> set[bytes]:
    """Roots whose trees must stay, among commits of the memory lane since the last thinning."""
    db = history.db
    roots = {root_of(data) for data in tables.list_head_commits(db)}
    for _, _, lane, generation, below, data in tables.scan_generations(db, after=since):
        if lane == 1 and keeps_tree(generation, below):
            roots.add(root_of(data))
    return roots


def root_of(data: bytes) -> bytes:
    """The root named in a commit's bytes, without decoding the rest of it into records."""
    # [1, lane, root, ...]: array header (1), 1, lane, then bin8 header (2) and 32 bytes.
    return data[5:37]


def _cursor(history: History) -> tuple[int, int]:
    return read_number(history.db, "thin_node"), read_number(history.db, "thin_seq")
