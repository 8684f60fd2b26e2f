"""The journal of this checkout: what a verb is about to do to HEAD, the stage and the files. Touches no file.

repo.db and local.db cannot change in one transaction. So a plan stands in local.db before the first change, and the
transaction that moves history leaves the plan's token, and the commit it made, in repo.db. Found again after a crash,
a plan whose token is not there has changed nothing and is dropped; any other is finished by checkout.resume.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from memlake.objects.db import Database
from memlake.records import Change
from memlake.versions.codec import as_hex, from_hex
from memlake.versions.history import History
from memlake.versions.local import Local, Tracked


class Goal(NamedTuple):
    """Where a checkout goes: the commit, what HEAD says then, and what to write in HEAD's log ("": nothing)."""

    commit: str | None
    head: str
    action: str
    who: str


class Plan(NamedTuple):
    """A goal, and what does not follow from it and base: other files to write, rows to set, the state to leave."""

    goal: Goal
    token: str = ""
    writes: Sequence[Change] = ()
    rows: Sequence[Tracked] = ()
    files: bool = True  # False: the working files stay as they are
    doing: str | None = None
    undone: int | None = None


@dataclass
class Moved:
    """What the transaction of a plan made; set by the verb."""

    commit: str | None


def new_token() -> str:
    return os.urandom(8).hex()


def begin(local: Local, plan: Plan) -> None:
    local.set_state(journal=_encode(plan))


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
            history.db.run("INSERT OR REPLACE INTO meta VALUES('checkout', ?)", (f"{plan.token} {moved.commit or ''}",))
    except BaseException:
        if stamp(history.db)[0] != plan.token:
            local.set_state(journal=None)
        raise


def stamp(db: Database) -> tuple[str, str | None]:
    """The token of the last plan that moved history, and the commit it made."""
    row = db.row("SELECT value FROM meta WHERE key = 'checkout'")
    token, _, commit = str(row[0]).partition(" ") if row else ("", "", "")
    return token, commit or None


def _encode(plan: Plan) -> str:
    goal = plan.goal
    return json.dumps(
        {
            "goal": [goal.commit, goal.head, goal.action, goal.who],
            "token": plan.token,
            "writes": [[change.path, as_hex(change.old), as_hex(change.new)] for change in plan.writes],
            "rows": [[row.path, as_hex(row.entry), row.staged, as_hex(row.old), row.about] for row in plan.rows],
            "files": plan.files,
            "doing": plan.doing,
            "undone": plan.undone,
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
        data["undone"],
    )
