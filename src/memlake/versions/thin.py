"""Thinning: dropping the nodes of memory-lane commits that nobody stands on. Knows nodes and heads, not objects.

An agent that writes all day makes about seven nodes a commit and needs the last ones. The first commit of each
window of 512 generations drops what came since the last thinning and is not part of a kept tree: a head, a tag, the
first commit of a window. Cost grows with the commits since then, never with the tree: a node is never newer than its
parent, so the walk stops at the first node older than the cursor.
"""

from __future__ import annotations

from memlake.objects.layout import read_number
from memlake.versions import tree
from memlake.versions.history import History, keeps_tree
from memlake.versions.nodes import key_of


def thin(history: History) -> int:
    """Drop nodes made since the last thinning that no kept tree needs. Call inside a write; returns how many."""
    db = history.db
    cursor, since = _cursor(history)
    rows = db.rows("SELECT id, data FROM node WHERE id > ? AND keep = 0", (cursor,))
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
    _move_cursor(history)
    return len(rows) - len(live)


def _rewrite(history: History, ids: list[int], kept: list[bytes]) -> None:
    """Remove all rows and write the kept ones again behind all others: the space between would never be used again.

    Their new ids are new to everyone, which gc relies on; behind these rows there may be nodes of the work lane. Nodes
    hold hashes and paths, no content: no need to wipe.
    """
    db = history.db
    (last,) = db.row("SELECT coalesce(max(id), 0) FROM node") or (0,)
    with db.unwiped():
        db.run_in("DELETE FROM node WHERE id IN carray(?1)", ids)
    rows = [(id, key_of(tree.oid_of(data)), data) for id, data in enumerate(kept, last + 1)]
    db.run_many("INSERT INTO node(id, key, keep, data) VALUES(?, ?, 0, ?)", rows)


def _kept_roots(history: History, since: int) -> set[bytes]:
    """Roots whose trees must stay, among commits of the memory lane since the last thinning."""
    db = history.db
    heads = [row[0] for row in db.rows("SELECT memory FROM ref WHERE memory IS NOT NULL")]
    rows = db.rows_in("SELECT data FROM history WHERE oid IN carray(?1)", heads)
    sql = (
        "SELECT h.data, h.generation, coalesce(p.generation, 0) FROM history h LEFT JOIN history p ON p.seq = h.p1 "
        "WHERE h.seq > ? AND h.lane = 1"
    )
    rows += [(data,) for data, generation, below in db.rows(sql, (since,)) if keeps_tree(generation, below)]
    return {root_of(row[0]) for row in rows}


def root_of(data: bytes) -> bytes:
    """The root named in a commit's bytes, without decoding the rest of it into records."""
    # [1, lane, root, ...]: array header (1), 1, lane, then bin8 header (2) and 32 bytes.
    return data[5:37]


def _cursor(history: History) -> tuple[int, int]:
    return read_number(history.db, "thin_node"), read_number(history.db, "thin_seq")


def _move_cursor(history: History) -> None:
    history.db.run("INSERT OR REPLACE INTO meta SELECT 'thin_node', coalesce(max(id), 0) FROM node")
    history.db.run("INSERT OR REPLACE INTO meta SELECT 'thin_seq', coalesce(max(seq), 0) FROM history")
