"""Thinning: dropping the nodes of memory-lane commits that nobody stands on. Knows nodes and heads, not objects.

An agent that writes all day makes about seven nodes a commit and needs only the last ones. The first commit of each
window of 512 generations drops the nodes made since the last thinning, unless a kept tree has them: that of a head, a
tag, or the first commit of a window. The cost grows with the commits since then, never with the tree: a node is never
newer than its parent, so the walk stops at the first node older than the cursor.
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
    rows = tables.list_loose_nodes(db, read_number(db, "thin_node"))
    fresh = {tree.oid_of(data): data for _, data in rows}
    waiting = [root for root in _find_kept_roots(history) if root in fresh]
    live = set(waiting)
    while waiting:
        node = tree.decode(fresh[waiting.pop()])
        if node.level == 0:
            continue
        for child in node.values:
            if child in fresh and child not in live:
                live.add(child)
                waiting.append(child)
    # Remove all rows and write the kept ones again behind all others, because the space between would never be used
    # again. Their ids must be new to everyone (gc relies on it), and the newest rows may be nodes of the work lane.
    last = tables.find_last_node(db)
    with db.without_wiping():  # nodes hold hashes and paths, no content
        tables.delete_nodes(db, [id for id, _ in rows])
    tables.add_nodes(db, [(id, key_of(oid), 0, fresh[oid]) for id, oid in enumerate(live, last + 1)])
    history.nodes.forget()
    tables.note_thinned(db)
    return len(rows) - len(live)


def _find_kept_roots(history: History) -> set[bytes]:
    """Roots whose trees must stay, among commits of the memory lane since the last thinning."""
    db = history.db
    roots = {root_of(data) for data in tables.list_head_commits(db)}
    for _, _, lane, generation, below, data in tables.scan_generations(db, after=read_number(db, "thin_seq")):
        if lane == 1 and keeps_tree(generation, below):
            roots.add(root_of(data))
    return roots


def root_of(data: bytes) -> bytes:
    """The root named in a commit's bytes, without decoding the rest of it into records."""
    # [1, lane, root, ...]: array header (1), 1, lane, then bin8 header (2) and 32 bytes.
    return data[5:37]
