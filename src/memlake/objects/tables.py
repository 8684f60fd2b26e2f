"""Every statement on the tables of objects/schema.sql, by table, each with a name. Knows rows, not what they mean.

A function takes the database and plain values and returns plain rows. `scan_` yields the rows one by one, for tables
too large for memory; what changes a table is called inside a write. Values that an index depends on stand in the text.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from memlake.objects.db import Database, Row
from memlake.objects.packs import AWAY, CHUNKED, DELTA, INLINE, INLINE_ZSTD, OBJECT, PACKED, PACKED_ZSTD, PART

# -- meta ------------------------------------------------------------------------------------------


def find_fact(db: Database, key: str) -> Row | None:
    """What the repo notes under a key, as a row of one value."""
    return db.row("SELECT value FROM meta WHERE key = ?", (key,))


def list_facts(db: Database, start: str) -> list[Row]:
    """The facts whose key starts so: key, value."""
    return db.rows("SELECT key, value FROM meta WHERE substr(key, 1, length(?1)) = ?1 ORDER BY key", (start,))


def has_facts(db: Database) -> bool:
    """Whether anything is noted, as it is in every repo that was begun."""
    return db.row("SELECT 1 FROM meta") is not None


def write_fact(db: Database, key: str, value: Any) -> None:
    """Note one value in place of the one before it."""
    db.run("INSERT OR REPLACE INTO meta VALUES(?, ?)", (key, value))


def write_facts(db: Database, facts: Mapping[str, Any]) -> None:
    """Note several values, each in place of the one before it."""
    db.run_many("INSERT OR REPLACE INTO meta VALUES(?, ?)", facts.items())


def delete_facts(db: Database, *keys: str) -> None:
    """Forget what is noted under these keys."""
    db.run_in("DELETE FROM meta WHERE key IN carray(?1)", keys)


# -- lease -----------------------------------------------------------------------------------------


def add_lease(db: Database, owner: tuple[str, int, str], *, tick: int, expires: int, what: str) -> int:
    """Note a writer, (host, pid, when it was born); returns the id of its lease."""
    sql = "INSERT INTO lease(host, pid, born, tick, expires, what) VALUES(?, ?, ?, ?, ?, ?)"
    db.run(sql, (*owner, tick, expires, what))
    return db.last_id()


def has_lease(db: Database, id: int, tick: int) -> bool:
    """Whether a lease is still there. The tick too: an id is given out again once its row is gone."""
    return db.row("SELECT 1 FROM lease WHERE id = ? AND tick = ?", (id, tick)) is not None


def extend_lease(db: Database, id: int, expires: int) -> None:
    """Let a lease last until then."""
    db.run("UPDATE lease SET expires = ? WHERE id = ?", (expires, id))


def shorten_leases(db: Database, longest: int, host: str) -> None:
    """Let no lease of another host last longer than this."""
    db.run("UPDATE lease SET expires = ?1 WHERE expires > ?1 AND host != ?2", (longest, host))


def list_leases(db: Database) -> list[Row]:
    """All leases: id, host, pid, born, expires."""
    return db.rows("SELECT id, host, pid, born, expires FROM lease")


def find_oldest_lease(db: Database) -> int | None:
    """The tick at which the oldest lease began."""
    row = db.row("SELECT min(tick) FROM lease")
    return row[0] if row else None


def delete_lease(db: Database, id: int, tick: int) -> None:
    """Forget the lease of a writer that is done. The tick too: the id may be another writer's by now."""
    db.run("DELETE FROM lease WHERE id = ? AND tick = ?", (id, tick))


def delete_leases(db: Database, ids: Iterable[int]) -> None:
    """Forget the leases of writers that are gone."""
    db.run_in("DELETE FROM lease WHERE id IN carray(?1)", ids)


# -- stray -----------------------------------------------------------------------------------------


def list_strays(db: Database) -> list[Row]:
    """The files that no row names: name, the tick at which each was first seen."""
    return db.rows("SELECT name, seen FROM stray")


def add_strays(db: Database, names: Iterable[str], seen: int) -> None:
    """Note files that no row names."""
    db.run_many("INSERT INTO stray VALUES(?, ?)", [(name, seen) for name in names])


def redate_strays(db: Database, seen: int) -> None:
    """Let all count as seen first at this tick."""
    db.run("UPDATE stray SET seen = ?", (seen,))


def delete_strays(db: Database, names: Iterable[str]) -> None:
    """Forget files that are gone, or that a row names now."""
    db.run_many("DELETE FROM stray WHERE name = ?", [(name,) for name in names])


def clear_strays(db: Database) -> None:
    """Forget all of them, because all are removed."""
    db.run("DELETE FROM stray")


# -- pack ------------------------------------------------------------------------------------------


def add_pack(db: Database, name: str, size: int, *, log: bool = False) -> int:
    """List a pack that lies in its place; returns its id."""
    db.run("INSERT INTO pack(name, size, log) VALUES(?, ?, ?)", (name, size, int(log)))
    return db.last_id()


def find_pack(db: Database, id: int) -> Row | None:
    """One pack: name, size."""
    return db.row("SELECT name, size FROM pack WHERE id = ?", (id,))


def has_pack(db: Database, name: str) -> bool:
    """Whether a pack of this name is listed."""
    return db.row("SELECT 1 FROM pack WHERE name = ?", (name,)) is not None


def list_packs(db: Database) -> list[Row]:
    """All packs: id, name, size, whether it holds a log segment."""
    return db.rows("SELECT id, name, size, log FROM pack")


def list_pack_names(db: Database) -> set[str]:
    """The names of all packs."""
    return {row[0] for row in db.rows("SELECT name FROM pack")}


def list_packs_named(db: Database, names: Iterable[str]) -> list[Row]:
    """Those packs that are listed: id, name."""
    return db.rows_in("SELECT id, name FROM pack WHERE name IN carray(?1)", names)


def list_log_packs(db: Database, *, below: int = 1 << 62) -> list[str]:
    """The names of the packs that hold a log segment and have fewer bytes than this, oldest first."""
    return [row[0] for row in db.rows("SELECT name FROM pack WHERE log = 1 AND size < ? ORDER BY id", (below,))]


def list_packs_holding(db: Database, oids: Iterable[bytes]) -> set[str]:
    """The names of the packs that rows of these objects point to."""
    sql = "SELECT DISTINCT pack.name FROM object JOIN pack ON pack.id = object.pack WHERE oid IN carray(?1)"
    return {row[0] for row in db.rows_in(sql, oids)}


def list_pack_use(db: Database, line: int) -> list[Row]:
    """Packs without the logs: id, name, size, bytes that rows need of it, with `line` bytes of footer for each."""
    sql = (
        "SELECT p.id, p.name, p.size, coalesce(sum(o.length + ? + coalesce(length(o.links), 0)), 0) "
        "FROM pack p LEFT JOIN object o ON o.pack = p.id WHERE p.log = 0 GROUP BY p.id"
    )
    return db.rows(sql, (line,))


def delete_packs(db: Database, ids: Iterable[int]) -> None:
    """Forget packs whose rows point elsewhere by now."""
    db.run_in("DELETE FROM pack WHERE id IN carray(?1)", ids)


def delete_unused_pack(db: Database, id: int) -> None:
    """Forget a pack, unless a row points to it."""
    db.run("DELETE FROM pack WHERE id = ?1 AND NOT EXISTS (SELECT 1 FROM object WHERE pack = ?1)", (id,))


# -- purge and tombstone ---------------------------------------------------------------------------


def add_purge(db: Database, oid: bytes, seq: int, data: bytes) -> None:
    """Keep the record of a purge."""
    db.run("INSERT INTO purge VALUES(?, ?, ?)", (oid, seq, data))


def list_purges(db: Database, after: int = 0) -> list[Row]:
    """The records of the purges after a seq, oldest first: seq, data, oid."""
    return db.rows("SELECT seq, data, oid FROM purge WHERE seq > ? ORDER BY seq", (after,))


def find_last_purge(db: Database) -> bytes | None:
    """The oid of the record of the last purge."""
    row = db.row("SELECT oid FROM purge ORDER BY seq DESC LIMIT 1")
    return row[0] if row else None


def find_purge_seq(db: Database, oid: bytes) -> int | None:
    """The seq of a purge, by the oid of its record."""
    row = db.row("SELECT seq FROM purge WHERE oid = ?", (oid,))
    return row[0] if row else None


def add_tombstones(db: Database, rows: Iterable[Row]) -> None:
    """Note what was purged, (oid, seq, time, size, reason, who, oid of the record). An earlier tombstone stands."""
    db.run_many("INSERT OR IGNORE INTO tombstone VALUES(?, ?, ?, ?, ?, ?, ?)", rows)


def has_tombstones(db: Database) -> bool:
    """Whether anything was ever purged."""
    return db.row("SELECT 1 FROM tombstone LIMIT 1") is not None


def find_tombstone(db: Database, oid: bytes) -> Row | None:
    """When, why and by whom an object was purged: time, reason, who."""
    return db.row("SELECT time, reason, who FROM tombstone WHERE oid = ?", (oid,))


def find_last_tombstone(db: Database) -> Row | None:
    """What was purged last: time, reason."""
    return db.row("SELECT time, reason FROM tombstone ORDER BY time DESC LIMIT 1")


def list_tombstones_of(db: Database, oids: Iterable[bytes]) -> list[Row]:
    """Those of these objects that were purged: oid, seq, reason."""
    return db.rows_in("SELECT oid, seq, reason FROM tombstone WHERE oid IN carray(?1)", oids)


def list_tombstones(db: Database) -> list[Row]:
    """Everything that was purged: oid, oid of the record, seq, time, reason, who."""
    return db.rows("SELECT oid, purge, seq, time, reason, who FROM tombstone")


def list_purged_sizes(db: Database, purge: bytes) -> list[Row]:
    """What one purge erased: oid, size."""
    return db.rows("SELECT oid, size FROM tombstone WHERE purge = ?", (purge,))


# -- object: writing -------------------------------------------------------------------------------


def add_object(
    db: Database, oid: bytes, *, size: int, form: int, tick: int, links: bytes | None, data: bytes | None
) -> None:
    """Store a whole object that is not there yet, in its row or as a part."""
    sql = f"INSERT INTO object(oid, size, form, role, touched, links, data) VALUES(?, ?, ?, {OBJECT}, ?, ?, ?)"
    db.run(sql, (oid, size, form, tick, links, data))


def put_objects(db: Database, rows: Iterable[Sequence[Any]]) -> None:
    """Store objects and chunks, (oid, size, form, role, pack, start, length, tick, links, data).

    One that is there stays where it lies: the write relies on it, and it gets the role as well.
    """
    sql = (
        "INSERT INTO object(oid, size, form, role, pack, start, length, touched, links, data) "
        "VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?) "
        "ON CONFLICT(oid) DO UPDATE SET touched = excluded.touched, condemned = NULL, role = role | excluded.role"
    )
    db.run_many(sql, rows)


def touch_object(db: Database, oid: bytes, tick: int, links: bytes | None) -> bool:
    """Rely on a whole object: takes it back from gc. False when it is not there."""
    sql = (
        f"UPDATE object SET touched = ?, condemned = NULL, role = role | {OBJECT}, links = coalesce(?, links) "
        "WHERE oid = ?"
    )
    return db.run(sql, (tick, links, oid)) == 1


def touch_objects(db: Database, oids: Iterable[bytes], tick: int) -> None:
    """Rely on whole objects that are there: takes them back from gc."""
    sql = f"UPDATE object SET touched = ?2, condemned = NULL, role = role | {OBJECT} WHERE oid IN carray(?1)"
    db.run_in(sql, oids, (tick,))


def touch_roles(db: Database, rows: Iterable[tuple[int, int, bytes]]) -> None:
    """Rely on objects and chunks that are there, (tick, role, oid): takes them back from gc."""
    db.run_many("UPDATE object SET touched = ?, condemned = NULL, role = role | ? WHERE oid = ?", rows)


def replace_objects(db: Database, rows: Iterable[Sequence[Any]]) -> None:
    """Store objects in another form, (form, pack, start, length, data, oid)."""
    db.run_many("UPDATE object SET form = ?, pack = ?, start = ?, length = ?, data = ? WHERE oid = ?", rows)


def move_objects(db: Database, rows: Iterable[tuple[int, int, bytes]]) -> None:
    """Point rows at the same records in another pack, (pack, start, oid)."""
    db.run_many("UPDATE object SET pack = ?, start = ? WHERE oid = ?", rows)


def add_copies(db: Database, rows: Iterable[Sequence[Any]]) -> None:
    """Note where the copy of what a row holds lies, (pack, start, length, oid, form), unless there is one."""
    sql = "UPDATE object SET pack = ?, start = ?, length = ? WHERE oid = ? AND form = ? AND pack IS NULL"
    db.run_many(sql, rows)


def forget_copies(db: Database, pack: int) -> None:
    """Forget the copies that a pack held of what rows hold."""
    sql = (
        "UPDATE object SET pack = NULL, start = NULL, length = NULL "
        f"WHERE pack = ? AND form IN ({INLINE}, {INLINE_ZSTD}, {PART})"
    )
    db.run(sql, (pack,))


def condemn_objects(db: Database, ids: Collection[int], tick: int | None) -> None:
    """Note when gc found that nothing needs these objects; None takes them back."""
    db.run_in("UPDATE object SET condemned = ?2 WHERE id IN carray(?1)", ids, (tick,))


def redate_condemned(db: Database, tick: int) -> None:
    """Let all that gc condemned count as condemned at this tick."""
    db.run("UPDATE object SET condemned = ? WHERE condemned NOT NULL", (tick,))


def delete_objects(db: Database, ids: Collection[int]) -> None:
    """Forget objects that nothing needs."""
    db.run_in("DELETE FROM object WHERE id IN carray(?1)", ids)


def delete_objects_by_oid(db: Database, oids: Iterable[bytes]) -> None:
    """Forget objects that are purged."""
    db.run_in("DELETE FROM object WHERE oid IN carray(?1)", oids)


# -- object: reading some --------------------------------------------------------------------------

_STORED = "oid, size, form, pack, start, length, data"


def find_object(db: Database, oid: bytes) -> Row | None:
    """Where an object lies: oid, size, form, pack, start, length, data."""
    return db.row(f"SELECT {_STORED} FROM object WHERE oid = ?", (oid,))


def list_objects(db: Database, oids: Iterable[bytes]) -> list[Row]:
    """Where objects lie: oid, size, form, pack, start, length, data."""
    return db.rows_in(f"SELECT {_STORED} FROM object WHERE oid IN carray(?1)", oids)


def list_away(db: Database, oids: Iterable[bytes]) -> list[Row]:
    """Those of these objects whose content is at a remote only: oid, size, chunk list if it is in chunks."""
    if not has_away(db):  # as nearly always; its index knows
        return []
    # The plus keeps SQLite from that index here: of a million that are away, each query would read all.
    return db.rows_in(f"SELECT oid, size, data FROM object WHERE +form = {AWAY} AND oid IN carray(?1)", oids)


def has_away(db: Database) -> bool:
    """Whether the content of any object is at a remote only."""
    return db.row(f"SELECT 1 FROM object WHERE form = {AWAY} LIMIT 1") is not None


def list_to_send(db: Database, oids: Iterable[bytes]) -> list[Row]:
    """All that somebody else must know of objects: oid, size, form, role, pack, start, length, links, data."""
    sql = "SELECT oid, size, form, role, pack, start, length, links, data FROM object WHERE oid IN carray(?1)"
    return db.rows_in(sql, oids)


def list_present(db: Database, oids: Iterable[bytes]) -> set[bytes]:
    """Those of these objects that are there."""
    return {row[0] for row in db.rows_in("SELECT oid FROM object WHERE oid IN carray(?1)", oids)}


def list_sizes(db: Database, oids: Iterable[bytes]) -> list[Row]:
    """Those of these objects that are there: oid, size."""
    return db.rows_in("SELECT oid, size FROM object WHERE oid IN carray(?1)", oids)


def list_states(db: Database, oids: Iterable[bytes]) -> list[Row]:
    """How objects are stored: oid, form, pack, the tick at which gc condemned it."""
    return db.rows_in("SELECT oid, form, pack, condemned FROM object WHERE oid IN carray(?1)", oids)


def list_places(db: Database, oids: Iterable[bytes]) -> list[Row]:
    """What must be there for objects to be read: oid, size, form, pack, chunk list."""
    sql = f"SELECT oid, size, form, pack, CASE WHEN form = {CHUNKED} THEN data END FROM object WHERE oid IN carray(?1)"
    return db.rows_in(sql, oids)


def list_plain_records(db: Database, oids: Iterable[bytes]) -> list[Row]:
    """Those of these objects that lie in a pack as they are: oid, pack, start, length."""
    sql = f"SELECT oid, pack, start, length FROM object WHERE form = {PACKED} AND oid IN carray(?1)"
    return db.rows_in(sql, oids)


def list_whole(db: Database, oids: Iterable[bytes]) -> set[bytes]:
    """Those of these that were written as objects, not only as chunks of one."""
    sql = f"SELECT oid FROM object WHERE role & {OBJECT} AND oid IN carray(?1)"
    return {row[0] for row in db.rows_in(sql, oids)}


def list_chunk_lists(db: Database, oids: Iterable[bytes]) -> list[Row]:
    """Those of these objects that are in chunks: oid, chunk list."""
    return db.rows_in(f"SELECT oid, data FROM object WHERE form = {CHUNKED} AND oid IN carray(?1)", oids)


def list_needs(db: Database, oids: Iterable[bytes]) -> list[Row]:
    """What objects need: id, oid, links, form, chunk list or the oid that a delta rests on."""
    sql = (
        f"SELECT id, oid, links, form, CASE WHEN form IN ({CHUNKED}, {DELTA}) THEN data END "
        "FROM object WHERE oid IN carray(?1)"
    )
    return db.rows_in(sql, oids)


def find_base(db: Database, oid: bytes) -> bytes | None:
    """What a delta rests on; None where the object is not a delta."""
    row = db.row(f"SELECT data FROM object WHERE form = {DELTA} AND oid = ?", (oid,))
    return row[0] if row else None


def list_resting(db: Database, bases: Iterable[bytes]) -> list[Row]:
    """The deltas that rest on these objects: oid, role."""
    return db.rows_in(f"SELECT oid, role FROM object WHERE form = {DELTA} AND data IN carray(?1)", bases)


def list_versions(db: Database, oids: Iterable[bytes], *, least: int, most: int) -> list[Row]:
    """Those of these objects with so many bytes: id, condemned, oid, size, form, role, pack, bytes it costs, links."""
    sql = (
        "SELECT id, condemned, oid, size, form, role, pack, coalesce(length, length(data)), links FROM object "
        "WHERE size BETWEEN ?2 AND ?3 AND oid IN carray(?1)"
    )
    return db.rows_in(sql, oids, (least, most))


def list_packed(db: Database, packs: Iterable[int]) -> list[Row]:
    """The rows that point to these packs: oid, pack, form, start, length, size."""
    return db.rows_in("SELECT oid, pack, form, start, length, size FROM object WHERE pack IN carray(?1)", packs)


def list_uncopied(db: Database) -> list[int]:
    """The ids of the rows whose content is in no pack and is to be."""
    sql = (
        f"SELECT id FROM object WHERE form IN ({INLINE}, {INLINE_ZSTD}, {PART}) AND pack IS NULL AND condemned IS NULL"
    )
    return [row[0] for row in db.rows(sql)]


def list_to_copy(db: Database, ids: Iterable[int]) -> list[Row]:
    """What goes into a pack of these rows: oid, size, form, role, links, data."""
    sql = (
        "SELECT oid, size, form, role, links, data FROM object "
        f"WHERE form IN ({INLINE}, {INLINE_ZSTD}, {PART}) AND id IN carray(?1)"
    )
    return db.rows_in(sql, ids)


# -- object: reading all ---------------------------------------------------------------------------


def scan_objects(db: Database) -> Iterator[Row]:
    """Every row, for a check: oid, size, form, links, data where the form has any."""
    sql = (
        f"SELECT oid, size, form, links, CASE WHEN form IN ({INLINE}, {INLINE_ZSTD}, {CHUNKED}, {DELTA}) THEN data END "
        "FROM object"
    )
    return db.each(sql)


def scan_held(db: Database) -> Iterator[Row]:
    """What every row costs: id, condemned, bytes. Those of a part count with its file, when that goes."""
    sql = f"SELECT id, condemned, CASE WHEN form IN ({PART}, {AWAY}) THEN 0 ELSE coalesce(length, size) END FROM object"
    return db.each(sql)


def scan_touched(db: Database, since: int) -> Iterator[bytes]:
    """The objects that a write relied on at this tick or later."""
    return (row[0] for row in db.each("SELECT oid FROM object WHERE touched >= ?", (since,)))


def scan_links(db: Database) -> Iterator[Row]:
    """The objects that need others: oid, links."""
    return db.each("SELECT oid, links FROM object WHERE links NOT NULL")


def scan_chunk_lists(db: Database) -> Iterator[Row]:
    """The objects that are in chunks: oid, chunk list."""
    return db.each(f"SELECT oid, data FROM object WHERE form = {CHUNKED}")


def scan_parts(db: Database) -> Iterator[Row]:
    """The objects that are files of their own: oid, size."""
    return db.each(f"SELECT oid, size FROM object WHERE form = {PART}")


def scan_outside(db: Database) -> Iterator[Row]:
    """The objects whose bytes are not in their row, in the order they lie: oid, form, size."""
    sql = (
        f"SELECT oid, form, size FROM object WHERE form IN ({PACKED}, {PACKED_ZSTD}, {PART}, {DELTA}) "
        "ORDER BY pack, start"
    )
    return db.each(sql)


def scan_copies(db: Database) -> Iterator[Row]:
    """What stands in a row and in a pack: oid, name of the pack, start, length, data."""
    sql = (
        "SELECT o.oid, p.name, o.start, o.length, coalesce(o.data, x'') FROM object o JOIN pack p ON p.id = o.pack "
        f"WHERE o.form IN ({CHUNKED}, {INLINE}, {INLINE_ZSTD})"
    )
    return db.each(sql)


def list_without_pack(db: Database) -> list[bytes]:
    """The objects whose row points to a pack that is not listed."""
    sql = "SELECT oid FROM object WHERE pack IS NOT NULL AND pack NOT IN (SELECT id FROM pack)"
    return [row[0] for row in db.rows(sql)]


def list_all_whole(db: Database) -> list[Row]:
    """What was written as objects, oldest first: oid, size."""
    return db.rows(f"SELECT oid, size FROM object WHERE role & {OBJECT} ORDER BY id")


def count_objects(db: Database) -> Row | None:
    """How many there are that were written as objects, and their bytes."""
    return db.row(f"SELECT count(*), coalesce(sum(size), 0) FROM object WHERE role & {OBJECT}")


def count_away(db: Database) -> Row | None:
    """How many objects are at a remote only, and their bytes."""
    return db.row(f"SELECT count(*), coalesce(sum(size), 0) FROM object WHERE form = {AWAY}")


def count_condemned(db: Database) -> Row | None:
    """How many gc condemned, and what they cost."""
    sql = "SELECT count(*), coalesce(sum(coalesce(length, size)), 0) FROM object WHERE condemned IS NOT NULL"
    return db.row(sql)
