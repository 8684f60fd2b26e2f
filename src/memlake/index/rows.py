"""Rows of the index: bringing them up to a commit, what each branch shows, and the queue of those without a vector.

Knows commits only by their numbers, and loads no numpy, because a hook brings the index up to date too.

Rows of the trunk (the branch that most searches are about) carry the seqs between which they are shown, so the trunk
at any moment is an integer filter. Another branch is the trunk at its fork, less hidden rows, with added ones. A row
is never changed but for its end: a record that comes back gets a new row.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Mapping, Sequence

from memlake.identifiers import quote
from memlake.index import terms
from memlake.index.terms import Terms
from memlake.named_tuple import NamedTuple
from memlake.objects import layout
from memlake.objects.db import Database

NEVER = 1 << 62
MOMENT = "@"  # begins the name of the overlay of a commit, where a branch's is its own
MOMENTS = 16  # of those that are kept
_MOMENTS_LIE = ("@", "A")
CANDIDATES = 16  # words whose spelling is compared with one that nobody wrote
SIMILAR = 4  # words that a misspelt one is taken for
LIKE = 0.45  # likeness from which a word may be a misspelling of another
HELD = 60_000_000  # microseconds after which what a process took may be taken by another: it is thought dead
# Whoever claimed a row for longer had another time: it is free, or it would wait until the clock gets there.
_FREE = f"(claimed < ?1 OR claimed > ?1 + {HELD})"
TRIES = 8  # after so many failures of its own a row is set aside: nobody waits for it until a model is opened anew


class Doc(NamedTuple):
    """What the index wants to know of one record."""

    key: bytes
    oid: bytes
    text: str
    marks: tuple[str, ...]
    session: str
    created: int
    importance: float
    expires: int


class Replaced(NamedTuple):
    """One record that changed: its key, the oid it had, the oid it has."""

    key: bytes
    old: bytes | None
    new: bytes | None


class Overlay(NamedTuple):
    """What a branch shows: the trunk at `base` without `hidden` and with `added`."""

    base: int
    added: frozenset[int]
    hidden: frozenset[int]


class Filter(NamedTuple):
    """What a row must have: of each group of marks one; a time, an importance, a life that lasts."""

    marks: tuple[tuple[int, ...], ...] = ()
    since: int | None = None
    until: int | None = None
    least: float | None = None
    now: int = 0


class Shown(NamedTuple):
    """Which rows are there to be seen: the trunk at a seq (None: now), or a branch over it."""

    seq: int | None = None
    overlay: Overlay | None = None
    only_added: bool = False


Docs = Mapping[bytes, Doc]


# -- the trunk --------------------------------------------------------------------------------


def apply_changes(db: Database, changes: Iterable[tuple[int, Replaced]], docs: Docs) -> None:
    """Bring the trunk's rows over what commits changed, each change with the seq of its commit. Call inside a write.

    A record without a doc was purged: it has no row.
    """
    waiting: dict[bytes, tuple[Doc, int]] = {}  # rows are inserted together, in a third of the time
    for seq, change in changes:
        if change.key in waiting:
            insert_rows(db, [*waiting.values()])
            waiting.clear()
        if change.old is not None:
            _end_row(db, change, seq)
        doc = docs.get(change.new) if change.new is not None else None
        if doc is not None:
            waiting[change.key] = doc, seq
    if waiting:
        insert_rows(db, [*waiting.values()])


def _end_row(db: Database, change: Replaced, seq: int) -> None:
    """The trunk shows this row no longer."""
    sql = "SELECT id FROM row WHERE key = ? AND from_seq < ?2 AND to_seq = ?2"
    for (row,) in db.rows(sql, (change.key, NEVER)):
        db.run("UPDATE row SET to_seq = ? WHERE id = ?", (seq, row))
        db.run("INSERT INTO ended(row, to_seq) VALUES(?, ?)", (row, seq))


def insert_rows(db: Database, docs: Sequence[tuple[Doc, int]]) -> int:
    """New rows with their terms, each from a seq on; they wait for their vectors. Returns the id of the last one."""
    last = db.row("SELECT seq FROM sqlite_sequence WHERE name = 'row'")
    first = (last[0] if last else 0) + 1
    found = [terms.count_terms(doc.text, doc.marks) for doc, _ in docs]
    db.run_many(
        "INSERT INTO row VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [
            (row, doc.key, doc.oid, terms.hash_term(doc.session) if doc.session else 0, doc.created, doc.importance,
             doc.expires, counted.length, seq, NEVER)
            for row, ((doc, seq), counted) in enumerate(zip(docs, found, strict=True), first)
        ],
    )  # fmt: skip
    db.run_many("INSERT INTO fresh VALUES(?, ?)", enumerate(map(terms.pack_terms, found), first))
    db.run_many("INSERT INTO pending(row) VALUES(?)", ((row,) for row in range(first, first + len(docs))))
    _learn_words(db, found)
    return int(first) + len(docs) - 1


def _learn_words(db: Database, found: Iterable[Terms]) -> None:
    """Keep the words behind hashes that are new here."""
    known = _learnt.setdefault(str(db.path), set())
    if len(known) > 200_000:
        known.clear()
    fresh = {terms.hash_term(word): word for counted in found for word in counted.words if word not in known}
    if not fresh:
        return
    there = {code for (code,) in db.rows_in("SELECT hash FROM term WHERE hash IN carray(?1)", fresh)}
    new = [item for item in fresh.items() if item[0] not in there]
    db.run_many("INSERT INTO term VALUES(?, ?)", new)
    db.run_many("INSERT INTO spelling(rowid, text) VALUES(?, ?)", new)
    known.update(fresh.values())


_learnt: dict[str, set[str]] = {}


def forget_learnt(db: Database) -> None:
    """Look words up again: some were erased."""
    _learnt.pop(str(db.path), None)


# -- other branches ---------------------------------------------------------------------------


def find_overlay(db: Database, branch: str) -> tuple[bytes | None, Overlay] | None:
    """The commit a branch was last seen at, and what it showed."""
    row = db.row("SELECT head, base, added, hidden FROM overlay WHERE branch = ?", (branch,))
    return None if row is None else (row[0], Overlay(row[1], _unpack_ids(row[2]), _unpack_ids(row[3])))


def write_overlay(db: Database, branch: str, head: bytes | None, overlay: Overlay) -> None:
    """Call inside a write."""
    packed = (array("q", sorted(ids)).tobytes() for ids in (overlay.added, overlay.hidden))
    db.run("INSERT OR REPLACE INTO overlay VALUES(?, ?, ?, ?, ?)", (branch, head, overlay.base, *packed))
    if branch.startswith(MOMENT):
        _drop_moments(db, branch)


def _drop_moments(db: Database, newest: str) -> None:
    """Keep the overlays of the last few moments that were asked about: others are made again when they are."""
    known = str(read_meta(db, "moments") or "").split()
    kept = [*(name for name in known if name != newest), newest][-MOMENTS:]
    set_meta(db, moments=" ".join(kept))
    named = [name for (name,) in db.rows("SELECT branch FROM overlay WHERE branch >= ?1 AND branch < ?2", _MOMENTS_LIE)]
    db.run_in("DELETE FROM overlay WHERE branch IN carray(?1)", [name for name in named if name not in kept])


def lay_over(db: Database, overlay: Overlay, changes: Iterable[Replaced], docs: Docs) -> Overlay:
    """An overlay brought over changes. Call inside a write: records that are new here get rows."""
    added, hidden = set(overlay.added), set(overlay.hidden)
    for change in changes:
        # A record may have two rows: one of this branch, and one of the trunk, which merged it.
        rows: dict[int, bytes] = dict(db.rows("SELECT id, oid FROM row WHERE key = ? ORDER BY id", (change.key,)))
        shown = _find_shown_at(db, change.key, overlay.base)
        if change.old is not None:
            added -= rows.keys()
            hidden |= set(shown)
        if change.new is not None:
            same = [row for row, oid in rows.items() if oid == change.new]
            back = set(shown) & set(same)
            hidden -= back
            if not back and (same or change.new in docs):
                added.add(same[-1] if same else insert_rows(db, [(docs[change.new], NEVER)]))
    return Overlay(overlay.base, frozenset(added), frozenset(hidden))


def _find_shown_at(db: Database, key: bytes, seq: int) -> list[int]:
    rows = db.rows("SELECT id FROM row WHERE key = ? AND from_seq <= ?2 AND to_seq > ?2", (key, seq))
    return [row for (row,) in rows]


def _unpack_ids(packed: bytes) -> frozenset[int]:
    numbers = array("q")
    numbers.frombytes(packed)
    return frozenset(numbers)


# -- steps ------------------------------------------------------------------------------------


def is_step(db: Database, generation: int, seq: int) -> bool:
    """Whether a commit is one of the trunk's that are applied."""
    return db.row("SELECT 1 FROM step WHERE generation = ? AND seq = ?", (generation, seq)) is not None


def find_step_at(db: Database, generation: int) -> int | None:
    """The seq of the last applied commit of the trunk up to a generation."""
    sql = "SELECT seq FROM step WHERE generation <= ? ORDER BY generation DESC LIMIT 1"
    row = db.row(sql, (generation,))
    return row[0] if row else None


def find_first_step(db: Database) -> int | None:
    row = db.row("SELECT seq FROM step ORDER BY generation LIMIT 1")
    return row[0] if row else None


def read_meta(db: Database, key: str) -> object:
    row = db.row("SELECT value FROM meta WHERE key = ?", (key,))
    return row[0] if row else None


def set_meta(db: Database, **values: object) -> None:
    db.run_many("INSERT OR REPLACE INTO meta VALUES(?, ?)", values.items())


def raise_stamp(db: Database) -> None:
    """Say that something changed, so that what processes remember is read again. Call inside a write."""
    db.run("INSERT INTO meta VALUES('stamp', 1) ON CONFLICT(key) DO UPDATE SET value = value + 1")


# -- words of similar spelling ----------------------------------------------------------------


def find_similar(db: Database, word: str) -> dict[int, float]:
    """Words spelt much like this one: hash -> likeness. For words nobody wrote here as they were asked for."""
    own = terms.grams(word)
    pieces = [gram for gram in own if len(gram) == 3 and gram[0] != "^" and gram[-1] != "$"]
    near = _find_sharing(db, pieces)
    texts = db.rows_in("SELECT hash, text FROM term WHERE hash IN carray(?1)", near) if near else []
    found = {code: _measure_closeness(own, text, word) for code, text in texts}
    best = sorted((code for code, how in found.items() if how >= LIKE), key=lambda code: -found[code])
    return {code: found[code] for code in best[:SIMILAR]}


def _find_sharing(db: Database, pieces: Iterable[str]) -> list[int]:
    """The words that share most with some pieces of three characters, rare ones counting more.

    One query a piece and no ORDER BY rank: FTS5 takes twice as long to rank what it finds as to find it.
    """
    shared: dict[int, float] = {}
    for piece in sorted(pieces):
        codes = [code for (code,) in db.rows("SELECT rowid FROM spelling WHERE spelling MATCH ?", (quote(piece),))]
        rare = 1 / (1 + math.log1p(len(codes)))
        for code in codes:
            shared[code] = shared.get(code, 0.0) + rare
    if len(shared) > CANDIDATES:  # sorting the sums alone costs a third of a heap over pairs
        least = sorted(shared.values())[-CANDIDATES]
        shared = {code: total for code, total in shared.items() if total >= least}
    return sorted(shared, key=lambda code: (shared[code], code), reverse=True)[:CANDIDATES]


def _measure_closeness(own: frozenset[str], text: str, word: str) -> float:
    """How alike two words are; one that is part of the other (a name inside an identifier) counts as nearly so."""
    inside = 0.6 if len(word) >= 4 and len(text) >= 4 and (word in text or text in word) else 0.0
    # Most candidates share a gram or two: too few to be alike however short they are, seen without taking them apart.
    if sum(map(f"^{text}$".__contains__, own)) < LIKE / (2 - LIKE) * len(own):
        return inside
    return max(terms.likeness(own, terms.grams(text)), inside)


# -- rows that wait for a vector: a queue that survives a restart ------------------------------


def claim_pending(db: Database, most: int) -> list[tuple[int, bytes]]:
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


def finish_pending(db: Database, ids: list[int]) -> None:
    with db.write():
        db.run_in("DELETE FROM pending WHERE row IN carray(?1)", ids)
        raise_stamp(db)


def return_pending(db: Database, ids: list[int], after: float, *, failed: bool) -> None:
    """Give rows back to the queue, to be tried again after some seconds. `failed` counts against the rows."""
    with db.write():
        sql = "UPDATE pending SET claimed = ?2, tries = tries + ?3 WHERE row IN carray(?1)"
        db.run_in(sql, ids, (layout.now() + int(after * 1e6), int(failed)))


def retry_failed(db: Database) -> None:
    """Those that were set aside wait again."""
    if db.row("SELECT 1 FROM pending WHERE tries >= ? LIMIT 1", (TRIES,)) is not None:
        with db.write():
            db.run("UPDATE pending SET tries = 0 WHERE tries >= ?", (TRIES,))


def is_pending(db: Database, key: bytes) -> bool:
    """Whether a row of this record waits."""
    sql = "SELECT 1 FROM pending WHERE row IN (SELECT id FROM row WHERE key = ?) AND tries < ?"
    return db.row(sql, (key, TRIES)) is not None


def has_pending(db: Database) -> bool:
    return db.row("SELECT 1 FROM pending WHERE tries < ? LIMIT 1", (TRIES,)) is not None


def count_pending(db: Database) -> int:
    row = db.row("SELECT count(*) FROM pending WHERE tries < ?", (TRIES,))
    return int(row[0]) if row else 0


def requeue_all(db: Database) -> None:
    """Every row waits: there is another model. Call inside a write."""
    db.run("INSERT OR IGNORE INTO pending(row) SELECT id FROM row")
