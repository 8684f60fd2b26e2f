"""What a verb works on: history, this checkout's state and folder, the author; and HEAD as both databases have it."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from memlake.errors import Corrupt
from memlake.named_tuple import NamedTuple
from memlake.objects import tables as object_tables
from memlake.objects.db import Database
from memlake.objects.layout import read_text, wrong_fact
from memlake.records import Author, Commit, Lane
from memlake.versions.checkout.local import Local
from memlake.versions.history import refs
from memlake.versions.history.commits import History


class Checkout(NamedTuple):
    """A checkout: what every verb is given."""

    history: History
    local: Local
    identity: Callable[[], Author]  # called only if something is written, because it may have to run git

    @property
    def root(self) -> str:
        """The working folder."""
        return self.local.root

    @property
    def databases(self) -> tuple[Database, ...]:
        """Those that hold what cannot be made again."""
        return (self.history.db, *self.local.databases)

    def head(self, lane: Lane = "work") -> Commit | None:
        """The commit that HEAD names; None before the first one."""
        branch = self.local.branch
        if branch is not None:
            heads = refs.find(self.history.db, branch)
            return refs.commit_of(self.history, heads[lane]) if heads else None
        detached = refs.commit_of(self.history, self.local.detached)
        if detached is None or lane == "work":
            return detached
        return refs.commit_of(self.history, self.history.find_other(detached))

    def base(self) -> Commit | None:
        """The commit the working files reflect."""
        return refs.commit_of(self.history, self.local.base)

    @property
    def author(self) -> Author:
        return self.identity()

    @property
    def who(self) -> str:
        return self.author.name


# -- HEAD, as local.db and repo.db have it ------------------------------------------------------


def find_problem(history: History, local: Local) -> str | None:
    """Why HEAD cannot be used; None if it can. A damaged local.db is reported by whoever reads it next."""
    try:
        head, base = local.state("head"), local.base
    except Corrupt:
        return None
    if head is None:
        return "local.db was lost" if local.is_new else "local.db does not say where HEAD is"
    if is_behind(history, local):
        return "local.db is older than what was last done here"
    if head.startswith("@") and not history.has(head[1:]):
        return f"HEAD was at commit {head[1:11]}, which is not in this repo"
    if not head.startswith("@") and refs.find(history.db, head) is None:
        return f"HEAD was on branch {head!r}, which is gone"
    if base is not None and not history.has(base):
        return f"local.db belongs to commit {base[:10]}, which is not in this repo"
    return None


class Stamp(NamedTuple):
    """What the last transaction of a plan left in repo.db: its token, the commit it made, the commit that the files
    reflected then, and the refs that had been moved."""

    token: str = ""
    commit: str | None = None
    files: str | None = None
    refs: Sequence[Sequence[Any]] = ()


def read_stamp(db: Database) -> Stamp:
    noted = read_text(db, "checkout")
    if noted is None:
        return Stamp()
    token, commit, files, moved = (*noted.split(" ", 3), "", "", "")[:4]
    try:
        refs = json.loads(moved or "[]")
    except (ValueError, RecursionError) as error:
        raise wrong_fact(db, "checkout", noted) from error
    if not isinstance(refs, list) or not all(isinstance(moves, list) for moves in refs):
        raise wrong_fact(db, "checkout", noted)
    return Stamp(token, commit or None, files or None, refs)


def is_behind(history: History, local: Local) -> bool:
    """Whether a power cut took the last writes of local.db, so that repo.db holds the token of a plan unknown to it.

    local.db is not synced with each commit. Before a plan moves history, local.db notes its token and the one before.
    """
    token = read_stamp(history.db).token
    return bool(token) and token not in (local.state("tokens") or "").split()


def read_head(db: Database) -> str | None:
    """The HEAD that repo.db noted last."""
    return read_text(db, "head")


def write_head(db: Database, local: Local) -> None:
    """Note HEAD in repo.db, where it survives the loss of local.db.

    A power cut may take the note, but then also what is written after it, such as the deletion of the branch we left.
    """
    head = local.state("head")
    if head is not None and head != read_head(db):
        with db.in_order(), db.write():
            object_tables.write_fact(db, "head", head)
