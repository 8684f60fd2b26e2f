"""The journal of this checkout: what a verb is about to do to HEAD, the stage and the files. Touches no file.

repo.db and local.db cannot change in one transaction. So a plan stands in local.db before the first change, and the
transaction that moves history leaves the plan's token, the commit it made and the refs it moved in repo.db. Found
again after a crash, a plan whose token is not there has changed nothing and is dropped; any other is finished by
checkout.resume. What undo needs of the verb is in the plan, too, and is kept in the transaction that ends it.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple

import zstandard

from memlake.objects.db import Database
from memlake.objects.layout import now
from memlake.records import Change, Conflict
from memlake.versions.codec import as_hex, from_hex
from memlake.versions.history import History
from memlake.versions.local import Local, Tracked, UnderWay

KEPT = 200  # operations


class Goal(NamedTuple):
    """Where a checkout goes: the commit, what HEAD says then, and what to write in HEAD's log ("": nothing)."""

    commit: str | None
    head: str
    action: str
    who: str


Kept = tuple[str, str, dict[str, Any]]  # verb, detail, the state before it
MADE = "made"  # stands in such a state for the commit the verb makes


class Rename(NamedTuple):
    """A file or folder with all that is in it, and the inode by which to tell whether it is still there."""

    source: str
    target: str
    inode: int


class Plan(NamedTuple):
    """A goal, and what does not follow from it and base: other files to write, rows to set, the state to leave."""

    goal: Goal
    token: str = ""
    writes: Sequence[Change] = ()
    rows: Sequence[Tracked] = ()
    files: bool = True  # False: the working files stay as they are
    doing: str | None = None
    conflicts: Sequence[Conflict] = ()
    undone: Mapping[int, bool] = MappingProxyType({})  # operations to mark as taken back, or as not taken back
    operation: Kept | None = None  # of a plan that is found again
    rename: Rename | None = None
    moved: bool = False  # history was moved for it, and the token has done its duty


@dataclass
class Moved:
    """What the transaction of a plan made; set by the verb."""

    commit: str | None


class Stamp(NamedTuple):
    """What the last transaction of a plan left: its token, the commit it made, the refs moved by then."""

    token: str = ""
    commit: str | None = None
    refs: Sequence[Sequence[Any]] = ()


def new_token() -> str:
    return os.urandom(8).hex()


def begin(local: Local, plan: Plan, *, lasting: bool = False) -> None:
    """Write a plan down. `lasting`: before the first file changes, so that a power cut does not leave half of them."""
    with local.db.durably() if lasting else contextlib.nullcontext():
        local.set_state(journal=_encode(plan, local.under_way))


def settled(plan: Plan, commit: str | None) -> Plan:
    """A plan whose history has moved: it is to be finished, whatever token a later verb leaves.

    A plan's end is written down without syncing: a power cut may bring the plan back after the next one's token.
    """
    return plan._replace(token="", goal=plan.goal._replace(commit=commit), moved=plan.moved or bool(plan.token))


def fasten(db: Database, local: Local) -> None:
    """Make the plan that stands survive a power cut, for a verb that finds only then that it writes files."""
    plan = find(local)
    if plan is not None:
        begin(local, settled(plan, stamp(db).commit), lasting=True)


def staying(local: Local, who: str, writes: Sequence[Change], rows: Sequence[Tracked]) -> Plan:
    """The plan of a verb that writes files and rows and moves neither HEAD nor what waits."""
    goal = Goal(local.base, local.state("head") or "", "", who)
    return Plan(goal, "", writes, rows, doing=local.state("doing"))


def find(local: Local) -> Plan | None:
    text = local.state("journal")
    return None if text is None else _decode(text)


@contextlib.contextmanager
def moving(history: History, local: Local, plan: Plan) -> Iterator[Moved]:
    """The one transaction in which a verb moves history. An error inside takes the plan back with it."""
    begin(local, plan)
    moved = Moved(plan.goal.commit)
    try:
        with history.db.write():
            yield moved
            left = f"{plan.token} {moved.commit or ''} {json.dumps(history.moved or [], separators=(',', ':'))}"
            history.db.run("INSERT OR REPLACE INTO meta VALUES('checkout', ?)", (left,))
    except BaseException:
        if stamp(history.db).token != plan.token:
            local.set_state(journal=None)
        raise


def stamp(db: Database) -> Stamp:
    row = db.row("SELECT value FROM meta WHERE key = 'checkout'")
    if row is None:
        return Stamp()
    token, commit, moved = (*str(row[0]).split(" ", 2), "", "")[:3]
    return Stamp(token, commit or None, json.loads(moved or "[]"))


# -- what undo needs ----------------------------------------------------------------------------


def keep(local: Local) -> None:
    """Keep the verb under way as an operation, or what has become known of it since it was kept."""
    if (verb := local.under_way) is not None:
        verb.id = put(local, (verb.verb, verb.detail, verb.state()), verb.id)


def keep_found(local: Local, plan: Plan, left: Stamp) -> None:
    """Keep the verb of a plan that was found again, with what its transaction made."""
    if plan.operation is None:
        return
    verb, detail, state = plan.operation
    if plan.token:
        state["refs"] = left.refs
    if state["commit"] == MADE:
        state["commit"] = left.commit if plan.token else plan.goal.commit
    put(local, (verb, detail, state))


def put(local: Local, kept: Kept, id: int | None = None) -> int:
    """Write an operation down."""
    verb, detail, state = kept
    packer = zstandard.ZstdCompressor(write_checksum=True)
    data = packer.compress(json.dumps(state, separators=(",", ":")).encode())
    with local.db.write():
        sql = "INSERT OR REPLACE INTO operation(id, time, verb, detail, before) VALUES(?, ?, ?, ?, ?)"
        local.db.run(sql, (id, now(), verb, detail, data))
        if id is None:
            id = local.db.last_id()
            local.db.run("DELETE FROM operation WHERE id <= ?", (id - KEPT,))
    return id


# -- as JSON ------------------------------------------------------------------------------------


def conflicts_as_json(conflicts: Iterable[Conflict]) -> list[list[str | None]]:
    return [[c.path, *map(as_hex, (c.base, c.ours, c.theirs)), c.choice, as_hex(c.chosen)] for c in conflicts]


def conflicts_from_json(rows: Iterable[Sequence[Any]]) -> tuple[Conflict, ...]:
    return tuple(
        Conflict(path, from_hex(base), from_hex(ours), from_hex(theirs), choice, from_hex(chosen))
        for path, base, ours, theirs, choice, chosen in rows
    )


def _encode(plan: Plan, verb: UnderWay | None) -> str:
    goal = plan.goal
    return json.dumps(
        {
            "goal": [goal.commit, goal.head, goal.action, goal.who],
            "token": plan.token,
            "writes": [[change.path, as_hex(change.old), as_hex(change.new)] for change in plan.writes],
            "rows": [[row.path, as_hex(row.entry), row.staged, as_hex(row.old), row.about] for row in plan.rows],
            "files": plan.files,
            "doing": plan.doing,
            "conflicts": conflicts_as_json(plan.conflicts),
            "undone": list(plan.undone.items()),
            "operation": [verb.verb, verb.detail, verb.state()] if verb else None,
            "rename": plan.rename,
            "moved": plan.moved,
            # Never the same twice: SQLite writes nothing, and syncs nothing, for a row that is what it was.
            "written": now(),
        },
        separators=(",", ":"),
    )


def _decode(text: str) -> Plan:
    data = json.loads(text)
    return Plan(
        Goal(*data["goal"]),
        data["token"],
        [Change(path, from_hex(old), from_hex(new)) for path, old, new in data["writes"]],
        [
            Tracked(path, from_hex(new), None, True, at, from_hex(old), note)
            for path, new, at, old, note in data["rows"]
        ],
        data["files"],
        data["doing"],
        conflicts_from_json(data["conflicts"]),
        dict(data["undone"]),
        tuple(data["operation"]) if data["operation"] else None,
        Rename(*data["rename"]) if data["rename"] else None,
        data["moved"],
    )
