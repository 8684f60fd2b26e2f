"""The journal of this checkout: what a verb is about to do to HEAD, the stage and the files. Touches no file.

repo.db and local.db cannot change in one transaction. So a plan is written into local.db before the first change, and
the transaction that moves history leaves the plan's token, the commit it made and the refs it moved in repo.db. If a
plan is found after a crash and its token is not in repo.db, it has changed nothing and is dropped; any other plan is
finished by update.resume. The plan also holds what undo needs, which is kept in the transaction that ends the plan.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from memlake.errors import Corrupt
from memlake.named_tuple import NamedTuple
from memlake.objects import tables as object_tables
from memlake.objects.layout import now
from memlake.records import Change, Conflict
from memlake.versions.checkout.context import Checkout, Stamp, read_stamp
from memlake.versions.checkout.local import MADE_AGAIN, Local, Tracked, as_written
from memlake.versions.operation import (
    Kept,
    Verb,
    as_json,
    conflicts_as_json,
    conflicts_from_json,
    from_json,
    pack_state,
)
from memlake.versions.paths import unwritable
from memlake.versions.trees.codec import as_hex, from_hex


class Goal(NamedTuple):
    """Where a checkout goes: the commit, what HEAD says then, and what to write in HEAD's log ("": nothing)."""

    commit: str | None
    head: str
    action: str
    who: str


MADE = "made"  # stands in the state before a verb for the commit the verb makes


class Rename(NamedTuple):
    """A file or folder with all that is in it, and the inode by which to tell whether it is still there."""

    source: str
    target: str
    inode: int


class Plan(NamedTuple):
    """A goal, and what does not follow from it and from base: other files to write, rows to set, state to leave."""

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
    moved: bool = False  # history was moved for it, and the token is no longer needed


class Moved:
    """What the transaction of a plan made, and which commit the files reflect when it ends; set by the verb."""

    def __init__(self, commit: str | None, files: str | None) -> None:
        self.commit, self.files = commit, files


def new_token() -> str:
    return os.urandom(8).hex()


def begin(local: Local, plan: Plan, *, verb: Verb | None = None, lasting: bool = False) -> None:
    """Write a plan down. `lasting` syncs it before the first file changes, so that a power cut cannot lose it."""
    with local.db.durably() if lasting else contextlib.nullcontext():
        local.set_state(journal=_encode(plan, verb))


def settle_plan(plan: Plan, commit: str | None) -> Plan:
    """The plan once history has moved, to be finished whatever token a later verb leaves.

    The end of a plan is written without syncing, so a power cut may bring the plan back after the next one's token.
    """
    return plan._replace(token="", goal=plan.goal._replace(commit=commit), moved=plan.moved or bool(plan.token))


def fasten(here: Checkout, verb: Verb) -> None:
    """Make the current plan survive a power cut, for a verb that finds out late that it writes files."""
    plan = find(here.local)
    if plan is not None:
        begin(here.local, settle_plan(plan, read_stamp(here.history.db).commit), verb=verb, lasting=True)


def plan_in_place(local: Local, who: str, writes: Sequence[Change], rows: Sequence[Tracked]) -> Plan:
    """The plan of a verb that writes files and rows, and changes neither HEAD nor a waiting merge."""
    goal = Goal(local.base, local.state("head") or "", "", who)
    return Plan(goal, "", writes, rows, doing=local.state("doing"))


def find(local: Local) -> Plan | None:
    text = local.state("journal")
    with as_written("journal"):
        return None if text is None else _decode(text)


@contextlib.contextmanager
def move_history(here: Checkout, verb: Verb, plan: Plan) -> Iterator[Moved]:
    """The one transaction in which a verb moves history. An error inside also drops the plan."""
    with here.local.db.write():
        begin(here.local, plan, verb=verb)
        # From now on repo.db may hold either of these two tokens: see `is_behind`.
        here.local.set_state(tokens=f"{plan.token} {read_stamp(here.history.db).token}")
    moved, db = Moved(plan.goal.commit, here.local.base if plan.files else plan.goal.commit), here.history.db
    try:
        with db.write():
            yield moved
            refs = json.dumps(verb.moved, separators=(",", ":"))
            left = f"{plan.token} {moved.commit or ''} {moved.files or ''} {refs}"
            object_tables.write_fact(db, "checkout", left)
    except BaseException:
        if read_stamp(db).token != plan.token:
            here.local.set_state(journal=None)
        raise


# -- what undo needs ----------------------------------------------------------------------------


def keep(local: Local, verb: Verb) -> None:
    """Keep a verb as an operation, or keep it again if more is known about it since."""
    values = (verb.name, verb.detail, pack_state(as_json(verb.before)))
    if values != verb.kept:
        verb.id, verb.kept = local.write_operation(values, verb.id), values


def keep_found(local: Local, plan: Plan, left: Stamp) -> None:
    """Keep the verb of a plan that was found again, with what its transaction made."""
    if plan.operation is None:
        return
    before = plan.operation.before
    if plan.token:
        before.refs = [tuple(move) for move in left.refs]
    if before.commit == MADE:
        before.commit = left.commit if plan.token else plan.goal.commit
    write_operation(local, plan.operation)


def write_operation(local: Local, kept: Kept, id: int | None = None) -> int:
    """Write an operation down."""
    return local.write_operation((kept.verb, kept.detail, pack_state(as_json(kept.before))), id)


# -- as JSON ------------------------------------------------------------------------------------


def _encode(plan: Plan, verb: Verb | None) -> str:
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
            "operation": [verb.name, verb.detail, as_json(verb.before)] if verb else None,
            "rename": plan.rename,
            "moved": plan.moved,
            # Makes each plan differ from the last, because SQLite neither writes nor syncs a row that did not change.
            "written": now(),
        },
        separators=(",", ":"),
    )


def _decode(text: str) -> Plan:
    data = json.loads(text)
    for path in (data["rename"] or ())[:2]:
        if why := unwritable(path):
            raise Corrupt(
                f"local.db holds an interrupted rename of {path!r}, which cannot be a working file: {why}. "
                "Nothing was changed.",
                hint=MADE_AGAIN,
            )
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
        _decode_operation(*data["operation"]) if data["operation"] else None,
        Rename(*data["rename"]) if data["rename"] else None,
        data["moved"],
    )


def _decode_operation(verb: str, detail: str, before: dict[str, Any]) -> Kept:
    return Kept(verb, detail, from_json(before))
