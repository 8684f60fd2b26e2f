"""Every statement on the tables of versions/schema.sql, by table, each with a name. Knows rows, not what they mean.

The rules are those of objects/tables.py: plain values in, plain rows out, `scan_` yields them one by one, and what
changes a table is called inside a write.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

from memlake.objects.db import Database, Row, array
from memlake.records import Lane

_ALL = -1  # rows, as SQLite's LIMIT has it
_NEWEST = (1 << 63) - 1

# -- history ---------------------------------------------------------------------------------------

_IS_ARCHIVED = "substr(data, 1, 1) = x'00'"  # no commit begins so: it is a list


def _fill(db: Database, rows: Iterable[Row], at: int) -> Iterator[Row]:
    """Rows with the data of commits whose own rows only say where in an archive it lies (history/archive.py).

    All that reads the data of commits goes through here, so nobody else need know of archives.
    """
    for row in rows:
        data = row[at]
        yield row if data is None or data[0] else (*row[:at], db.read_archived(data), *row[at + 1 :])


def add_commit(db: Database, row: Sequence[Any]) -> None:
    """Store a commit: seq, oid, lane, p1, p2, other, generation, data."""
    add_commits(db, [row])


def add_commits(db: Database, rows: Iterable[Sequence[Any]]) -> None:
    """Store commits, as `add_commit` does one."""
    sql = "INSERT INTO history(seq, oid, lane, p1, p2, other, generation, data) VALUES(?, ?, ?, ?, ?, ?, ?, ?)"
    db.run_many(sql, rows)


def find_commit(db: Database, oid: bytes) -> Row | None:
    """A commit by its oid: seq, oid, data."""
    rows = db.rows("SELECT seq, oid, data FROM history WHERE oid = ?", (oid,))
    return next(_fill(db, rows, 2), None)


def find_commit_at(db: Database, seq: int) -> Row | None:
    """A commit by its number: seq, oid, data."""
    return next(_fill(db, db.rows("SELECT seq, oid, data FROM history WHERE seq = ?", (seq,)), 2), None)


def find_seq(db: Database, oid: bytes) -> int | None:
    """The number of a commit; None where it is not here. Read from the index alone."""
    row = db.row("SELECT seq FROM history WHERE oid = ?", (oid,))
    return row[0] if row else None


def find_lane(db: Database, oid: bytes) -> Row | None:
    """Of which lane a commit is: seq, lane."""
    return db.row("SELECT seq, lane FROM history WHERE oid = ?", (oid,))


def find_newest(db: Database) -> int:
    """The number of the newest commit; 0 where there is none."""
    row = db.row("SELECT max(seq) FROM history")
    return (row and row[0]) or 0


def list_seqs(db: Database, oids: Iterable[bytes]) -> list[int]:
    """The numbers of those of these commits that are here."""
    return [row[0] for row in db.rows_in("SELECT seq FROM history WHERE oid IN carray(?1)", oids)]


def list_known_commits(db: Database, oids: Iterable[bytes]) -> list[bytes]:
    """Those of these commits that are here."""
    return [row[0] for row in db.rows_in("SELECT oid FROM history WHERE oid IN carray(?1)", oids)]


def list_oids_between(db: Database, low: bytes, high: bytes) -> list[bytes]:
    """The oids of commits in this range, at most three."""
    rows = db.rows("SELECT oid FROM history WHERE oid BETWEEN ? AND ? LIMIT 3", (low, high))
    return [row[0] for row in rows]


def list_parents(db: Database, seqs: Iterable[int]) -> list[Row]:
    """The parents of commits: seq, generation, p1, p2."""
    return db.rows_in("SELECT seq, generation, p1, p2 FROM history WHERE seq IN carray(?1)", seqs)


def is_behind(db: Database, old: int, new: int) -> bool:
    """Whether a commit is another or lies behind it, by their numbers. A parent's is smaller than its child's."""
    sql = """
WITH RECURSIVE behind(seq) AS (
  SELECT ?1
  UNION SELECT h.p1 FROM behind b JOIN history h ON h.seq = b.seq WHERE h.p1 >= ?2
  UNION SELECT h.p2 FROM behind b JOIN history h ON h.seq = b.seq WHERE h.p2 >= ?2)
SELECT 1 FROM behind WHERE seq = ?2 LIMIT 1"""
    return db.row(sql, (new, old)) is not None


def scan_behind(db: Database, seqs: Iterable[int]) -> Iterator[Row]:
    """Commits with these numbers and all behind them, newest first: seq, oid, p1, data."""
    sql = """
WITH RECURSIVE behind(seq) AS (
  SELECT value FROM carray(?1)
  UNION SELECT h.p1 FROM behind b JOIN history h ON h.seq = b.seq WHERE h.p1 NOT NULL
  UNION SELECT h.p2 FROM behind b JOIN history h ON h.seq = b.seq WHERE h.p2 NOT NULL)
SELECT h.seq, h.oid, h.p1, h.data FROM behind b JOIN history h ON h.seq = b.seq ORDER BY h.seq DESC"""
    members = tuple(seqs)
    return _fill(db, db.each(sql, (array(members),)), 3) if members else iter(())


def scan_first_parents(db: Database, seq: int, holding: bytes = b"") -> Iterator[Row]:
    """A commit and the line of its first parents, newest first, read as far as is asked for: seq, oid, p1, data.

    Of these only commits whose data holds some bytes.
    """
    sql = f"""
WITH RECURSIVE line(seq) AS (
  SELECT ?1 UNION ALL SELECT h.p1 FROM line l JOIN history h ON h.seq = l.seq WHERE h.p1 NOT NULL)
SELECT h.seq, h.oid, h.p1, h.data FROM line l JOIN history h ON h.seq = l.seq
  WHERE instr(h.data, ?2) OR {_IS_ARCHIVED}"""
    return (row for row in _fill(db, db.each(sql, (seq, holding)), 3) if holding in row[3])


def scan_line(db: Database, seq: int, *, after: int) -> Iterator[Row]:
    """A commit and the line of its first parents, newest first, down to this number: seq. Reads no commit."""
    sql = """
WITH RECURSIVE line(seq) AS (
  SELECT ?1 UNION ALL SELECT h.p1 FROM line l JOIN history h ON h.seq = l.seq WHERE h.p1 >= ?2)
SELECT seq FROM line"""
    return db.each(sql, (seq, after))


def list_commits_at(db: Database, seqs: Iterable[int]) -> list[Row]:
    """Commits with these numbers, oldest first: seq, oid, data."""
    return db.rows_in("SELECT seq, oid, data FROM history WHERE seq IN carray(?1) ORDER BY seq", seqs)


def list_parents_below(db: Database, top: int, most: int) -> list[Row]:
    """Commits with this number and below, newest first: seq, p1, p2."""
    return db.rows("SELECT seq, p1, p2 FROM history WHERE seq <= ? ORDER BY seq DESC LIMIT ?", (top, most))


def list_commit_data(db: Database, seqs: Iterable[int]) -> list[Row]:
    """The bytes of commits with these numbers, oldest first: seq, data."""
    rows = db.rows_in("SELECT seq, data FROM history WHERE seq IN carray(?1) ORDER BY seq", seqs)
    return list(_fill(db, rows, 1))


def list_new_parents(db: Database, after: int) -> list[int]:
    """The numbers of the parents that the commits after this one name."""
    sql = (
        "SELECT p1 FROM history WHERE seq > ?1 AND p1 NOT NULL UNION "
        "SELECT p2 FROM history WHERE seq > ?1 AND p2 NOT NULL"
    )
    return [row[0] for row in db.rows(sql, (after,))]


def list_head_commits(db: Database) -> list[bytes]:
    """The data of the commits that a ref names now."""
    sql = "SELECT data FROM history WHERE oid IN (SELECT memory FROM ref UNION SELECT work FROM ref)"
    return [row[0] for row in _fill(db, db.rows(sql), 0)]


def scan_commits(db: Database, *, after: int = 0, upto: int = _NEWEST, most: int = _ALL) -> Iterator[Row]:
    """Commits in the order they became visible: seq, data."""
    sql = "SELECT seq, data FROM history WHERE seq > ? AND seq <= ? ORDER BY seq LIMIT ?"
    return _fill(db, db.each(sql, (after, upto, most)), 1)


def scan_work_commits(db: Database, *, after: int, upto: int) -> Iterator[Row]:
    """Commits of the work lane in the order they became visible: seq, data."""
    sql = "SELECT seq, data FROM history WHERE lane = 0 AND seq > ? AND seq <= ? ORDER BY seq"
    return _fill(db, db.each(sql, (after, upto)), 1)


def scan_commit_rows(db: Database) -> Iterator[Row]:
    """Whole rows, for a check: seq, oid, lane, p1, p2, other, generation, data."""
    return _fill(db, db.each("SELECT seq, oid, lane, p1, p2, other, generation, data FROM history ORDER BY seq"), 7)


def scan_ancestry(db: Database) -> Iterator[Row]:
    """What every commit names, newest first: seq, p1, p2, other."""
    return db.each("SELECT seq, p1, p2, other FROM history ORDER BY seq DESC")


def scan_generations(db: Database, *, after: int = 0) -> Iterator[Row]:
    """Commits beside their first parents: seq, oid, lane, generation, the parent's or 0, data."""
    sql = (
        "SELECT h.seq, h.oid, h.lane, h.generation, coalesce(p.generation, 0), h.data "
        "FROM history h LEFT JOIN history p ON p.seq = h.p1 WHERE h.seq > ?"
    )
    return _fill(db, db.each(sql, (after,)), 5)


def scan_commit_sizes(db: Database, *, upto: int) -> Iterator[Row]:
    """What commits cost: seq, bytes."""
    return db.each("SELECT seq, length(data) FROM history WHERE seq <= ?", (upto,))


def list_to_archive(db: Database, heads: Iterable[bytes]) -> list[int]:
    """The numbers of all commits behind these that have their data themselves and that no ref names."""
    sql = f"""
WITH RECURSIVE behind(seq) AS (
  SELECT seq FROM history WHERE oid IN carray(?1)
  UNION SELECT h.p1 FROM behind b JOIN history h ON h.seq = b.seq WHERE h.p1 NOT NULL
  UNION SELECT h.p2 FROM behind b JOIN history h ON h.seq = b.seq WHERE h.p2 NOT NULL)
SELECT h.seq FROM behind b JOIN history h ON h.seq = b.seq WHERE NOT {_IS_ARCHIVED}
  AND h.oid NOT IN (SELECT work FROM ref WHERE work NOT NULL UNION SELECT memory FROM ref WHERE memory NOT NULL)
  ORDER BY h.lane, h.generation, h.oid"""
    return [row[0] for row in db.rows_in(sql, heads)]


def list_archived(db: Database) -> list[Row]:
    """The commits whose data lies in an archive, by where in it: seq, oid, what its row says."""
    return db.rows(f"SELECT seq, oid, data FROM history WHERE {_IS_ARCHIVED} ORDER BY data")


def replace_data(db: Database, rows: Iterable[Sequence[Any]]) -> None:
    """Keep the data of commits elsewhere, or here again: data, oid."""
    db.run_many("UPDATE history SET data = ? WHERE oid = ?", rows)


def delete_commits(db: Database, seqs: Collection[int]) -> None:
    """Forget commits that nothing reaches."""
    db.run_in("DELETE FROM history WHERE seq IN carray(?1)", seqs)


def count_commits(db: Database) -> Row | None:
    """How many commits there are, and their bytes."""
    return db.row("SELECT count(*), coalesce(sum(length(data)), 0) FROM history")


# -- node ------------------------------------------------------------------------------------------


def add_nodes(db: Database, rows: Iterable[Sequence[Any]]) -> None:
    """Store tree nodes: id or None for the next one, key, keep, data."""
    db.run_many("INSERT INTO node(id, key, keep, data) VALUES(?, ?, ?, ?)", rows)


def list_nodes(db: Database, keys: Iterable[int]) -> list[Row]:
    """The nodes with these keys, of which two oids may share one: id, data."""
    return db.rows_in("SELECT id, data FROM node WHERE key IN carray(?1)", keys)


def list_loose_nodes(db: Database, after: int) -> list[Row]:
    """The nodes after this one that thinning may remove: id, data."""
    return db.rows("SELECT id, data FROM node WHERE id > ? AND keep = 0", (after,))


def find_last_node(db: Database) -> int:
    """The id of the newest node; 0 where there is none."""
    row = db.row("SELECT max(id) FROM node")
    return (row and row[0]) or 0


def keep_nodes(db: Database, ids: Iterable[int]) -> None:
    """Let thinning never look at these nodes again, because a commit of files needs them."""
    db.run_in("UPDATE node SET keep = 1 WHERE keep = 0 AND id IN carray(?1)", ids)


def scan_nodes(db: Database) -> Iterator[Row]:
    """Whole rows, for a check: id, key, keep, data."""
    return db.each("SELECT id, key, keep, data FROM node")


def scan_node_sizes(db: Database, *, upto: int) -> Iterator[Row]:
    """What nodes cost: id, bytes."""
    return db.each("SELECT id, length(data) FROM node WHERE id <= ?", (upto,))


def delete_nodes(db: Database, ids: Collection[int]) -> None:
    """Forget nodes that no kept tree needs."""
    db.run_in("DELETE FROM node WHERE id IN carray(?1)", ids)


def count_nodes(db: Database) -> Row | None:
    """How many nodes there are, and their bytes."""
    return db.row("SELECT count(*), coalesce(sum(length(data)), 0) FROM node")


# -- ref -------------------------------------------------------------------------------------------

_MOVE: dict[Lane, str] = {
    "work": "UPDATE ref SET work = ? WHERE kind = ? AND name = ? AND work IS ?",
    "memory": "UPDATE ref SET memory = ? WHERE kind = ? AND name = ? AND memory IS ?",
}


def add_ref(db: Database, row: Sequence[Any]) -> None:
    """Make a ref: kind, name, work, memory, note."""
    db.run("INSERT INTO ref(kind, name, work, memory, note) VALUES(?, ?, ?, ?, ?)", row)


def find_ref(db: Database, kind: int, name: str) -> Row | None:
    """One ref: work, memory, note."""
    return db.row("SELECT work, memory, note FROM ref WHERE kind = ? AND name = ?", (kind, name))


def list_refs(db: Database, kind: int) -> list[Row]:
    """The refs of a kind, by name: name, work, memory, note."""
    return db.rows("SELECT name, work, memory, note FROM ref WHERE kind = ? ORDER BY name", (kind,))


def list_all_refs(db: Database) -> list[Row]:
    """The refs of all kinds, by kind and name: kind, name, work, memory, note."""
    return db.rows("SELECT kind, name, work, memory, note FROM ref ORDER BY kind, name")


def list_memory_heads(db: Database) -> set[bytes]:
    """The commits of the memory lane that a ref names."""
    return {row[0] for row in db.rows("SELECT memory FROM ref WHERE memory NOT NULL")}


def has_memory(db: Database) -> bool:
    """Whether a ref names a commit of the memory lane."""
    return db.row("SELECT 1 FROM ref WHERE memory NOT NULL LIMIT 1") is not None


def move_ref(db: Database, kind: int, name: str, lane: Lane, *, old: bytes | None, new: bytes | None) -> bool:
    """Let a ref name another commit of a lane; False where it does not name the old one any more."""
    return db.run(_MOVE[lane], (new, kind, name, old)) == 1


def write_tag_note(db: Database, name: str, note: bytes) -> None:
    """Note what is said of a tag."""
    db.run("UPDATE ref SET note = ? WHERE kind = 1 AND name = ?", (note, name))


def delete_ref(db: Database, kind: int, name: str) -> None:
    """Forget a ref."""
    db.run("DELETE FROM ref WHERE kind = ? AND name = ?", (kind, name))


def clear_refs(db: Database) -> None:
    """Forget all refs and all their moves, because others take their place."""
    db.run("DELETE FROM ref")
    db.run("DELETE FROM reflog")


# -- reflog ----------------------------------------------------------------------------------------


def add_move(db: Database, fields: Sequence[Any], mark: int, *, id: int | None = None) -> None:
    """Note a move: kind, ref, lane, old, new, time, action, who. Without an id it gets the next one."""
    sql = (
        "INSERT INTO reflog(id, kind, ref, lane, old, new, time, action, who, mark) "
        "VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
    )
    db.run(sql, (id, *fields, mark))


def find_last_mark(db: Database) -> int:
    """The mark of the newest move; 0 where there is none."""
    row = db.row("SELECT mark FROM reflog ORDER BY id DESC LIMIT 1")
    return row[0] if row else 0


def scan_moves_of(db: Database, kind: int, ref: str, lane: int) -> Iterator[Row]:
    """The moves of a ref, newest first: time, action, who, oid before, oid after, data of the commit after."""
    sql = (
        "SELECT r.time, r.action, r.who, o.oid, n.oid, n.data FROM reflog r "
        "LEFT JOIN history o ON o.seq = r.old LEFT JOIN history n ON n.seq = r.new "
        "WHERE r.ref = ? AND r.lane = ? AND r.kind = ? ORDER BY r.id DESC"
    )
    return _fill(db, db.each(sql, (ref, lane, kind)), 5)


def scan_moves(db: Database, *, after: int = 0, most: int = _ALL) -> Iterator[Row]:
    """Whole rows, oldest first: id, mark, kind, ref, lane, old, new, time, action, who."""
    sql = "SELECT id, mark, kind, ref, lane, old, new, time, action, who FROM reflog WHERE id > ? ORDER BY id LIMIT ?"
    return db.each(sql, (after, most))


def scan_kept_moves(db: Database, since: int) -> Iterator[Row]:
    """Which commits moves name that do not expire: old, new."""
    return db.each("SELECT old, new FROM reflog WHERE time >= ? OR id = (SELECT max(id) FROM reflog)", (since,))


def list_last_moves(db: Database) -> list[Row]:
    """The newest move of each ref and lane: kind, ref, lane, new, id."""
    return db.rows("SELECT kind, ref, lane, new, max(id) FROM reflog GROUP BY kind, ref, lane")


def list_new_targets(db: Database, after: int) -> list[int]:
    """The numbers of the commits that refs were moved to after this move."""
    return [row[0] for row in db.rows("SELECT new FROM reflog WHERE id > ? AND new IS NOT NULL", (after,))]


def expire_moves(db: Database, before: int) -> None:
    """Forget older moves. The newest stays in any case: the chain of marks goes on from it."""
    db.run("DELETE FROM reflog WHERE time < ? AND id < (SELECT max(id) FROM reflog)", (before,))


# -- several ---------------------------------------------------------------------------------------


def list_newest_ids(db: Database) -> Row:
    """How far each table has come: of commits the seq, of nodes, objects and moves the id; 0 where there is none."""
    row = db.row(
        "SELECT (SELECT coalesce(max(seq), 0) FROM history), (SELECT coalesce(max(id), 0) FROM node), "
        "(SELECT coalesce(max(id), 0) FROM object), (SELECT coalesce(max(id), 0) FROM reflog)"
    )
    assert row is not None
    return row


def list_heads(db: Database) -> list[bytes]:
    """The commits of either lane that a ref names."""
    sql = "SELECT work FROM ref WHERE work NOT NULL UNION SELECT memory FROM ref WHERE memory NOT NULL"
    return [row[0] for row in db.rows(sql)]


def note_thinned(db: Database) -> None:
    """Note that all nodes, and the trees of all commits, were looked at by thinning."""
    db.run("INSERT OR REPLACE INTO meta SELECT 'thin_node', coalesce(max(id), 0) FROM node")
    db.run("INSERT OR REPLACE INTO meta SELECT 'thin_seq', coalesce(max(seq), 0) FROM history")
