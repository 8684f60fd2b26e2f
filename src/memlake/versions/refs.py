"""Refs: names for commits, moved only by compare-and-set, every move kept in the reflog. Knows no working file."""

from __future__ import annotations

import difflib
import hashlib
from collections.abc import Iterator, Mapping

import msgpack

from memlake.errors import AlreadyExists, Conflict, InvalidInput, NotFound, pasted
from memlake.objects.db import Database, Row
from memlake.objects.layout import now
from memlake.records import Author, Branch, Commit, Lane, Move, Tag
from memlake.versions import codec
from memlake.versions.codec import LANES
from memlake.versions.history import History
from memlake.versions.paths import name_problem

BRANCH, TAG, INTERNAL = 0, 1, 2
Heads = dict[Lane, str | None]
Moves = list[tuple[int, str, int, int | None, int | None]]  # kind, name, lane, seq before, seq after: for undo
_MOVE: dict[Lane, str] = {
    "work": "UPDATE ref SET work = ? WHERE kind = ? AND name = ? AND work IS ?",
    "memory": "UPDATE ref SET memory = ? WHERE kind = ? AND name = ? AND memory IS ?",
}


def find(db: Database, name: str, kind: int = BRANCH) -> Heads | None:
    row = db.row("SELECT work, memory FROM ref WHERE kind = ? AND name = ?", (kind, name))
    return None if row is None else {"work": _hex(row[0]), "memory": _hex(row[1])}


def get(db: Database, name: str, kind: int = BRANCH) -> Heads:
    found = find(db, name, kind)
    if found is None:
        what = "tag" if kind == TAG else "branch"
        near = difflib.get_close_matches(
            name, [row[0] for row in db.rows("SELECT name FROM ref WHERE kind = ?", (kind,))], 1
        )
        raise NotFound(
            f"there is no {what} {name!r}.",
            hint=f"Did you mean {near[0]!r}?" if near else f"See them with: memlake {what}",
        )
    return found


def branches(db: Database, current: str | None) -> list[Branch]:
    rows = db.rows("SELECT name, work, memory FROM ref WHERE kind = 0 ORDER BY name")
    return [Branch(name, _hex(work), _hex(memory), name == current) for name, work, memory in rows]


def advise_switch(db: Database) -> str:
    """The command that leaves a detached HEAD: to the branch there is, or to a new one."""
    found = next((branch.name for branch in branches(db, None)), None)
    return f"memlake switch {pasted(found)}" if found else "memlake switch -c NAME"


def tags(db: Database) -> list[Tag]:
    return [_tag(*row) for row in db.rows("SELECT name, work, memory, note FROM ref WHERE kind = 1 ORDER BY name")]


def create(
    history: History,
    name: str,
    heads: Heads,
    *,
    kind: int = BRANCH,
    action: str,
    who: str,
    note: bytes | None = None,
    moved: Moves | None = None,
) -> None:
    """Make a ref. Call inside a write. `moved` is where the verb that does it wants it noted, here and below."""
    if kind != INTERNAL:
        check_name(name)
    db = history.db
    _check_free(db, name, kind)
    db.run("INSERT INTO ref VALUES(?, ?, ?, ?, ?)", (name, kind, _raw(heads["work"]), _raw(heads["memory"]), note))
    for lane in LANES:
        if heads[lane]:
            commit = history.get(heads[lane] or "")
            history.pin(commit)
            _log(history, (kind, name, LANES.index(lane), None, commit.seq, now(), action, who), moved)


def check_name(name: str) -> None:
    """Refuse what neither a branch nor a tag can be called."""
    if problem := name_problem(name):
        raise InvalidInput(
            f"{name!r} cannot be a name: {problem}. Nothing was changed.",
            hint="Use letters, digits, dots, dashes and slashes.",
        )


def _check_free(db: Database, name: str, kind: int) -> None:
    what = "tag" if kind == TAG else "branch"
    for (other,) in db.rows("SELECT name FROM ref WHERE kind = ?", (kind,)):
        if other == name:
            raise AlreadyExists(
                f"{what} {name!r} exists already. Nothing was changed.",
                hint=f"Choose another name, or see it with: memlake show {pasted(name)}",
            )
        if other.startswith(name + "/") or name.startswith(other + "/"):
            raise AlreadyExists(
                f"{what} {name!r} cannot exist beside {other!r}: one is a folder of the other.",
                hint="Choose another name.",
            )


def move(
    history: History,
    name: str,
    lane: Lane,
    old: Commit | None,
    new: Commit | None,
    *,
    kind: int = BRANCH,
    action: str | None = None,
    who: str | None = None,
    moved: Moves | None = None,
) -> None:
    """Move a ref if it is still at `old`. Call inside a write. No action means a plain commit."""
    if new:
        history.pin(new)
    sql = _MOVE[lane]
    if history.db.run(sql, (new and bytes.fromhex(new.oid), kind, name, old and bytes.fromhex(old.oid))) != 1:
        raise Conflict(f"branch {name!r} moved while this was being done. Nothing was changed.", hint="Run it again.")
    seqs = (old.seq if old else None, new.seq if new else None)
    _log(history, (kind, name, LANES.index(lane), *seqs, now(), action, who), moved)


def delete(
    history: History, name: str, *, kind: int = BRANCH, action: str, who: str, moved: Moves | None = None
) -> Heads:
    """Remove a ref; its reflog stays, so what it named can be found again. Call inside a write."""
    heads = get(history.db, name, kind)
    history.db.run("DELETE FROM ref WHERE kind = ? AND name = ?", (kind, name))
    for lane in LANES:
        if heads[lane]:
            fields = (kind, name, LANES.index(lane), history.seq(heads[lane] or ""), None, now(), action, who)
            _log(history, fields, moved)
    return heads


def reflog(history: History, name: str, lane: Lane = "work", kind: int = BRANCH) -> Iterator[Move]:
    """Moves of a ref, newest first."""
    sql = (
        "SELECT r.old, r.new, r.time, r.action, r.who, o.oid, n.oid, n.data FROM reflog r "
        "LEFT JOIN history o ON o.seq = r.old LEFT JOIN history n ON n.seq = r.new "
        "WHERE r.ref = ? AND r.lane = ? AND r.kind = ? ORDER BY r.id DESC"
    )
    for index, row in enumerate(history.db.each(sql, (name, LANES.index(lane), kind))):
        yield _move(name, lane, index, row)


def _move(name: str, lane: Lane, index: int, row: Row) -> Move:
    _, _, time, action, who, old, new, data = row
    if action is None and data is not None:
        fields = codec.unpack(data)
        action, who = f"commit: {fields[7].splitlines()[0] if fields[7] else ''}", fields[5][0]
    return Move(name, lane, index, _hex(old), _hex(new), time, action or "", who or "")


def _log(
    history: History,
    fields: tuple[int, str, int, int | None, int | None, int, str | None, str | None],
    moved: Moves | None,
) -> None:
    db = history.db
    if moved is not None:
        moved.append(fields[:5])
    last = db.row("SELECT mark FROM reflog ORDER BY id DESC LIMIT 1")
    db.run(
        "INSERT INTO reflog(kind, ref, lane, old, new, time, action, who, mark) VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (*fields, mark(last[0] if last else 0, fields)),
    )


def mark(before: int, fields: tuple[object, ...]) -> int:
    """The chain value of a reflog row: changes when the row or any row before it changes."""
    digest = hashlib.sha256(msgpack.packb([before, *fields])).digest()
    return int.from_bytes(digest[:6], "big")


def tag_note(message: str, author: Author, time: int) -> bytes:
    return msgpack.packb([message, author.name, author.email, time])  # type: ignore[no-any-return]


def tag_notes(db: Database) -> dict[str, str]:
    """What is noted of each tag, in hex, for undo."""
    return dict(db.rows("SELECT name, lower(hex(note)) FROM ref WHERE kind = 1 AND note IS NOT NULL"))


def set_tag_notes(db: Database, notes: Mapping[str, str]) -> None:
    """Give tags back what was noted of them. Call inside a write."""
    for name, note in notes.items():
        db.run("UPDATE ref SET note = ? WHERE kind = 1 AND name = ?", (bytes.fromhex(note), name))


def _tag(name: str, work: bytes | None, memory: bytes | None, note: bytes | None) -> Tag:
    if not note:
        return Tag(name, _hex(work), _hex(memory))
    message, who, email, time = codec.unpack(note)
    return Tag(name, _hex(work), _hex(memory), message, Author(who, email), time)


def commit_of(history: History, oid: str | None) -> Commit | None:
    return history.get(oid) if oid else None


def _hex(oid: bytes | None) -> str | None:
    return oid.hex() if oid else None


def _raw(oid: str | None) -> bytes | None:
    return bytes.fromhex(oid) if oid else None
