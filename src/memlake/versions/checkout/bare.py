"""What stands for a checkout where there is none: HEAD is a branch that repo.db names, and nothing is staged or waits.

Verbs that read history or move refs need no more. Whatever asks for the working folder or for local.db is refused here,
by one error, so no verb has to know that a repo can be bare.
"""

# ruff: noqa: ARG002 (the methods have the parameters of those they stand for)

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Never

from memlake.errors import NeedsCheckout, pasted
from memlake.objects import tables as object_tables
from memlake.objects.db import Database, Row
from memlake.records import Conflict
from memlake.versions.checkout.context import read_head, read_stamp
from memlake.versions.checkout.local import Local, Tracked
from memlake.versions.history import refs
from memlake.versions.history.commits import History


class NoCheckout(Local):
    """The Local of a bare repo. What is not answered below ends in `__getattr__`, because it needs local.db."""

    def __init__(self, history: History, branch: str) -> None:
        """`branch` is where HEAD is when repo.db names no branch that exists."""
        self._history, self._usual = history, branch

    def __getattr__(self, name: str) -> Never:
        folder = self.__dict__["_history"].db.path.parent
        raise NeedsCheckout(
            f"this needs a working folder, and {folder} is a bare repo, which has none. Nothing was changed.",
            hint=f"Name a rev to read from it: memlake -C {pasted(folder)} show HEAD\n"
            "To change files, go to a repo that has a working folder.",
        )

    @property
    def databases(self) -> tuple[Database, ...]:
        return ()

    def ref_verb(self) -> contextlib.AbstractContextManager[None]:
        """They need no turns here: each is one transaction of repo.db."""
        return contextlib.nullcontext()

    def note_verb(self, text: str) -> None:
        pass

    def holder(self) -> str | None:
        return None

    # -- HEAD ---------------------------------------------------------------------------------

    @property
    def is_new(self) -> bool:
        return False

    @property
    def branch(self) -> str:
        """The branch that repo.db names; where that is gone, the usual one, or the first there is."""
        last, db = read_head(self._history.db), self._history.db
        if last is not None and refs.find(db, last) is not None:
            return last
        names = [branch.name for branch in refs.branches(db, None)]
        return self._usual if self._usual in names or not names else names[0]

    @property
    def checked_out(self) -> None:
        return None

    @property
    def detached(self) -> None:
        return None

    @property
    def base(self) -> None:
        return None

    def state(self, key: str) -> str | None:
        if key == "tokens":  # so that no verb is taken for one that local.db has not heard of
            return read_stamp(self._history.db).token
        return self.branch if key == "head" else None

    def set_state(self, **values: str | None) -> None:
        """HEAD follows a branch that is renamed; nothing else is kept."""
        if values.keys() != {"head"}:
            self.__getattr__("db")
        with self._history.db.write():
            object_tables.write_fact(self._history.db, "head", values["head"])

    def log_head(self, old: str | None, new: str | None, branch: str | None, action: str, who: str) -> None:
        pass

    def head_moves(self) -> Iterator[tuple[str | None, str | None, str | None, int, str, str]]:
        """HEAD does not move between branches, so its log is that of its branch."""
        for move in refs.reflog(self._history, self.branch):
            yield move.old, move.new, move.ref, move.time, move.action, move.who

    def check(self) -> None:
        pass

    # -- what is not there ----------------------------------------------------------------------

    def find_tracked(self, paths: Iterable[str]) -> dict[str, Tracked]:
        return {}

    def under(self, folder: str) -> dict[str, Tracked]:
        return {}

    def list_staged(self) -> dict[str, Tracked]:
        return {}

    def list_waiting(self) -> tuple[Conflict, ...]:
        return ()

    def write_operation(self, values: tuple[str, str, bytes], id: int | None = None) -> int:
        """Nothing is kept for undo, which is about a working folder."""
        return 0

    def list_operations(self, limit: int = -1, *, undone: bool = True) -> list[Row]:
        return []

    def forget_content(self, oids: set[str]) -> None:
        pass

    def add_reads(self, rows: Sequence[tuple[Any, ...]]) -> None:
        pass

    def read_counts(self, keys: Iterable[bytes]) -> list[Row]:
        return []

    def forget_reads(self, keys: Iterable[bytes]) -> None:
        pass
