"""What a verb works on: history, this checkout's state, its folder, and who is asking. No behaviour beyond lookups."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from memlake.records import Author, Commit, Lane
from memlake.versions import refs
from memlake.versions.history import History
from memlake.versions.local import Local


class Here(NamedTuple):
    history: History
    local: Local
    root: str
    identity: Callable[[], Author]  # asked only when something is written: it may have to ask git

    def head(self, lane: Lane = "work") -> Commit | None:
        """The commit HEAD names; None before the first one."""
        branch = self.local.branch
        if branch is not None:
            found = refs.find(self.history.db, branch)
            return refs.commit_of(self.history, found[lane]) if found else None
        detached = refs.commit_of(self.history, self.local.detached)
        if detached is None or lane == "work":
            return detached
        return refs.commit_of(self.history, detached.other)

    def base(self) -> Commit | None:
        """The commit the working files reflect."""
        return refs.commit_of(self.history, self.local.base)

    @property
    def author(self) -> Author:
        return self.identity()

    @property
    def who(self) -> str:
        return self.author.name
