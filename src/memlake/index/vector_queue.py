"""Rows that wait for a vector: a queue in index.db that survives a restart. Knows rows, not texts."""

from __future__ import annotations

from memlake.index import rows
from memlake.objects import layout
from memlake.objects.db import Database

HELD = 60_000_000  # microseconds after which what a process took may be taken by another: it is thought dead
# Whoever claimed a row for longer had another time: it is free, or it would wait until the clock gets there.
_FREE = f"(claimed < ?1 OR claimed > ?1 + {HELD})"
TRIES = 8  # after so many failures of its own a row is set aside: nobody waits for it until a model is opened anew


def take(db: Database, most: int) -> list[tuple[int, bytes]]:
    """Claim rows to embed: (row, oid), oldest first. Nobody else gets them for a while.

    One that failed is taken alone: a text that no model can bear must not keep others from being embedded.
    """
    now = layout.now()
    if db.row(f"SELECT 1 FROM pending WHERE {_FREE} AND tries < ?2 LIMIT 1", (now, TRIES)) is None:
        return []
    with db.write():
        sql = (
            "SELECT p.row, oid FROM pending p LEFT JOIN row r ON r.id = p.row "
            f"WHERE {_FREE} AND tries < ?2 ORDER BY p.row LIMIT ?3"
        )
        found = db.rows(sql, (now, 1, most)) or db.rows(sql, (now, TRIES, 1))
        gone = [row for row, oid in found if oid is None]
        db.run_in("DELETE FROM pending WHERE row IN carray(?1)", gone)
        taken = [(row, bytes(oid)) for row, oid in found if oid is not None]
        db.run_in("UPDATE pending SET claimed = ?2 WHERE row IN carray(?1)", [row for row, _ in taken], (now + HELD,))
    return taken


def done(db: Database, ids: list[int]) -> None:
    with db.write():
        db.run_in("DELETE FROM pending WHERE row IN carray(?1)", ids)
        rows.stamp(db)


def put_back(db: Database, ids: list[int], after: float, *, failed: bool) -> None:
    """Give rows back to the queue, to be tried again after some seconds. `failed` counts against the rows."""
    with db.write():
        sql = "UPDATE pending SET claimed = ?2, tries = tries + ?3 WHERE row IN carray(?1)"
        db.run_in(sql, ids, (layout.now() + int(after * 1e6), int(failed)))


def try_again(db: Database) -> None:
    """Those that were set aside wait again."""
    if db.row("SELECT 1 FROM pending WHERE tries >= ? LIMIT 1", (TRIES,)) is not None:
        with db.write():
            db.run("UPDATE pending SET tries = 0 WHERE tries >= ?", (TRIES,))


def holds(db: Database, key: bytes) -> bool:
    """Whether a row of this record waits."""
    sql = "SELECT 1 FROM pending WHERE row IN (SELECT id FROM row WHERE key = ?) AND tries < ?"
    return db.row(sql, (key, TRIES)) is not None


def any_waits(db: Database) -> bool:
    return db.row("SELECT 1 FROM pending WHERE tries < ? LIMIT 1", (TRIES,)) is not None


def count(db: Database) -> int:
    row = db.row("SELECT count(*) FROM pending WHERE tries < ?", (TRIES,))
    return int(row[0]) if row else 0


def all_again(db: Database) -> None:
    """Every row waits: there is another model. Call inside a write."""
    db.run("INSERT OR IGNORE INTO pending(row) SELECT id FROM row")
