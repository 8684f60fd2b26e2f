"""Refs: names for commits, moved only by compare-and-set, every move kept in the reflog. Knows no working file."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping

import msgpack

from memlake.errors import AlreadyExists, Conflict, Corrupt, InvalidInput, NotFound, pasted
from memlake.objects.db import Database
from memlake.objects.layout import now
from memlake.records import Author, Branch, Commit, Lane, Move, Tag
from memlake.versions import tables
from memlake.versions.history.commits import History
from memlake.versions.paths import name_problem
from memlake.versions.trees import codec
from memlake.versions.trees.codec import LANES

BRANCH, TAG, INTERNAL, REMOTE = 0, 1, 2, 3  # the last: what the branches of remotes named when last asked
Heads = dict[Lane, str | None]
Moves = list[tuple[int, str, int, int | None, int | None]]  # kind, name, lane, seq before, seq after: for undo


def find(db: Database, name: str, kind: int = BRANCH) -> Heads | None:
    row = tables.find_ref(db, kind, name)
    return None if row is None else {"work": _hex(row[0]), "memory": _hex(row[1])}


def get(db: Database, name: str, kind: int = BRANCH) -> Heads:
    heads = find(db, name, kind)
    if heads is None:
        what = "tag" if kind == TAG else "branch"
        import difflib  # only for a mistake

        names = [row[0] for row in tables.list_refs(db, kind)]
        near = [one for one in names if one.startswith(name)] or difflib.get_close_matches(name, names, 1)
        raise NotFound(
            f"there is no {what} {name!r}.",
            hint=f"Did you mean {near[0]!r}?" if near else f"See them with: memlake {what}",
        )
    return heads


def branches(db: Database, current: str | None) -> list[Branch]:
    rows = tables.list_refs(db, BRANCH)
    return [Branch(name, _hex(work), _hex(memory), name == current) for name, work, memory, _ in rows]


def list_followed(db: Database, name: str) -> list[str]:
    """The branches of this name at remotes, as `origin/main`."""
    return [full for full, *_ in tables.list_refs(db, REMOTE) if full.partition("/")[2] == name]


def advise_switch(db: Database) -> str:
    """The command that leaves a detached HEAD, for the first branch or, if there is none, a new one."""
    name = next((branch.name for branch in branches(db, None)), None)
    return f"memlake switch {pasted(name)}" if name else "memlake switch -c NAME"


def tags(db: Database) -> list[Tag]:
    return [_tag(*row) for row in tables.list_refs(db, TAG)]


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
    """Make a ref. Call inside a write. Here and below, the move is added to `moved`, the list that a verb keeps."""
    if kind != INTERNAL:
        check_name(name)
    db = history.db
    _check_free(db, name, kind)
    tables.add_ref(db, (kind, name, _raw(heads["work"]), _raw(heads["memory"]), note))
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
    for other, *_ in tables.list_refs(db, kind):
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
    before, after = (commit and bytes.fromhex(commit.oid) for commit in (old, new))
    if not tables.move_ref(history.db, kind, name, lane, old=before, new=after):
        raise Conflict(f"branch {name!r} moved while this was being done. Nothing was changed.", hint="Run it again.")
    seqs = (old.seq if old else None, new.seq if new else None)
    _log(history, (kind, name, LANES.index(lane), *seqs, now(), action, who), moved)


def delete(
    history: History, name: str, *, kind: int = BRANCH, action: str, who: str, moved: Moves | None = None
) -> Heads:
    """Remove a ref. Call inside a write. Its reflog stays, so that the commits it named can be found again."""
    heads = get(history.db, name, kind)
    tables.delete_ref(history.db, kind, name)
    for lane in LANES:
        if heads[lane]:
            fields = (kind, name, LANES.index(lane), history.seq(heads[lane] or ""), None, now(), action, who)
            _log(history, fields, moved)
    return heads


def follow(history: History, name: str, old: Heads | None, new: Heads | None, *, action: str) -> None:
    """Let the ref of a remote's branch name what that branch names now. Call inside a write."""
    db, before = history.db, old or {"work": None, "memory": None}
    if new is None:
        tables.delete_ref(db, REMOTE, name)
    elif old is None:
        tables.add_ref(db, (REMOTE, name, _raw(new["work"]), _raw(new["memory"]), None))
    for lane in LANES:
        head, last = new[lane] if new else None, before[lane]
        if head == last:
            continue
        commit = commit_of(history, head)
        if commit is not None:
            history.pin(commit)
        if new is not None and old is not None:
            tables.move_ref(db, REMOTE, name, lane, old=_raw(last), new=_raw(head))
        seqs = (history.seq(last) if last else None, commit.seq if commit else None)
        _log(history, (REMOTE, name, LANES.index(lane), *seqs, now(), action, ""), None)


def reflog(history: History, name: str, lane: Lane = "work", kind: int = BRANCH) -> Iterator[Move]:
    """Moves of a ref, newest first."""
    for index, row in enumerate(tables.scan_moves_of(history.db, kind, name, LANES.index(lane))):
        time, action, who, old, new, data = row
        if action is None and data is not None:  # a plain commit, which says both itself
            fields = codec.unpack(data)
            action, who = f"commit: {fields[7].splitlines()[0] if fields[7] else ''}", fields[5][0]
        yield Move(name, lane, index, _hex(old), _hex(new), time, action or "", who or "")


def _log(
    history: History,
    fields: tuple[int, str, int, int | None, int | None, int, str | None, str | None],
    moved: Moves | None,
) -> None:
    db = history.db
    if moved is not None:
        moved.append(fields[:5])
    tables.add_move(db, fields, chain_mark(tables.find_last_mark(db), fields))


def chain_mark(before: int, fields: tuple[object, ...]) -> int:
    """The mark of a reflog row, which changes if the row or any row before it changes."""
    digest = hashlib.sha256(msgpack.packb([before, *fields])).digest()
    return int.from_bytes(digest[:6], "big")


def encode_tag_note(message: str, author: Author, time: int) -> bytes:
    return msgpack.packb([message, author.name, author.email, time])  # type: ignore[no-any-return]


def decode_tag_note(note: bytes) -> tuple[str, Author, int]:
    try:
        message, name, email, time = codec.unpack(note)
        if {type(message), type(name), type(email)} != {str} or type(time) is not int or not codec.is_time(time):
            raise ValueError("its values are of the wrong types")
        return message, Author(name, email), time
    except (ValueError, TypeError) as error:
        raise Corrupt("the note of a tag cannot be read.", hint="Run memlake fsck.") from error


def tag_notes(db: Database) -> dict[str, str]:
    """What is noted of each tag, in hex, for undo."""
    return {name: note.hex() for name, _, _, note in tables.list_refs(db, TAG) if note is not None}


def set_tag_notes(db: Database, notes: Mapping[str, str]) -> None:
    """Give tags back what was noted of them. Call inside a write."""
    for name, note in notes.items():
        tables.write_tag_note(db, name, bytes.fromhex(note))


def _tag(name: str, work: bytes | None, memory: bytes | None, note: bytes | None) -> Tag:
    if not note:
        return Tag(name, _hex(work), _hex(memory))
    return Tag(name, _hex(work), _hex(memory), *decode_tag_note(note))


def commit_of(history: History, oid: str | None) -> Commit | None:
    return history.get(oid) if oid else None


def _hex(oid: bytes | None) -> str | None:
    return oid.hex() if oid else None


def _raw(oid: str | None) -> bytes | None:
    return bytes.fromhex(oid) if oid else None
