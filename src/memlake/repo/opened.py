"""Opened: the databases and stores of a repo, where this checkout stands, its settings, its closing. Has no verb."""

from __future__ import annotations

import contextlib
import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Self

from memlake import config, datasets, memories, versions
from memlake.calls import door
from memlake.errors import InvalidInput, NotFound, Unavailable
from memlake.objects import layout
from memlake.objects.bucket import open_place
from memlake.objects.db import LONG, Database
from memlake.objects.places import Folder
from memlake.objects.store import Objects
from memlake.records import Author, Conflict, Entry
from memlake.versions.here import Here
from memlake.versions.history import History
from memlake.versions.local import Local

if TYPE_CHECKING:
    from memlake.datasets.opening import Store
    from memlake.memories.opening import Shared
    from memlake.versions.merge import Outcome
    from memlake.versions.writing import Group

AnyPath = str | os.PathLike[str]
SomePaths = AnyPath | Sequence[AnyPath]  # one path, or a list of them
_SCHEMAS = Path(__file__).parent.parent
_OPEN: ContextVar[tuple[tuple[str, Group], ...]] = ContextVar("transactions of this thread, by folder", default=())


@door
class Opened:
    """The parts of one repo and of this checkout of it."""

    def __init__(self, folder: Path, *, fresh: str | None = None) -> None:
        self.dir, self.root = folder, folder.parent
        if fresh is None and not any(_size(folder / name) for name in ("repo.db", "repo.db-wal")):
            raise NotFound(
                f"{folder} has no repo.db, or an empty one.",
                hint="If it never had one: memlake init. Else restore a backup.",
            )
        self._settings = config.read_settings(folder)
        db = Database(folder / "repo.db", schema=_schema("objects/schema.sql", "versions/schema.sql"))
        db.lease_seconds = self._settings.core_lease_seconds
        local = Local(Database(folder / "local.db", schema=_schema("versions/local.sql"), durable=False))
        place = open_place(self._settings.core_packs) if self._settings.core_packs else Folder(folder / "packs")
        self._history = History(db, Objects(db, place, Folder(folder / "parts"), folder / "tmp"))
        self._history.settlers["memory"] = _settled
        self._history.joiners["dataset"] = _joined
        self._local = local
        self._identity: Author | None = None
        self._draft: Group | None = None
        self._shared: Shared | None = None
        self._store: Store | None = None
        if fresh is not None:
            versions.writing.begin(self._history, local, fresh)
        layout.check_format(db)
        if local.is_new:  # local.db was lost: everything in it can be found again but the stage
            versions.writing.stand_again(self._history, local, self._settings.init_branch)

    # -- where we are -------------------------------------------------------------------------

    @property
    def identity(self) -> Author:
        return self._who()

    def _who(self) -> Author:
        if self._identity is None:
            self._identity = config.read_identity(self.dir)
        return self._identity

    @property
    def head(self) -> str | None:
        found = self._look().head()
        return found.oid if found else None

    @property
    def branch_name(self) -> str | None:
        return self._local.branch

    def _look(self) -> Here:
        """For verbs that only read."""
        return Here(self._history, self._local, str(self.root), self._who)

    def _settled(self) -> Here:
        """For verbs that look at the working files: an interrupted checkout is finished first, where it can be."""
        if self._local.state("journal") is not None:
            with contextlib.suppress(Unavailable), self._verb(LONG):
                return self._look()
            if holder := self._local.holder():
                warnings.warn(f"{holder} is at work here: what this shows is half done.", stacklevel=2)
        return self._look()

    @contextlib.contextmanager
    def _verb(self, patience: float | None = None) -> Iterator[Here]:
        """For verbs that change the stage or the files: in one checkout they take turns."""
        with self._local.verb(patience):
            here = self._look()
            if self._local.state("journal") is not None:
                versions.checkout.resume(self._history, self._local, here.root)
            yield here

    def _group(self) -> Group | None:
        """The transaction that writes join: of this Repo, or opened in this thread by another one of the same folder.

        `ml.read_values(...).save(...)` has a Repo of its own, and must not be left when the transaction is dropped.
        """
        if self._draft is None and (known := dict(_OPEN.get())):
            return known.get(os.path.realpath(self.dir))
        return self._draft

    @contextlib.contextmanager
    def _drafting(self, group: Group) -> Iterator[None]:
        before = _OPEN.get()
        _OPEN.set((*before, (os.path.realpath(self.dir), group)))
        self._draft = group
        try:
            yield
        finally:
            self._draft = None
            _OPEN.set(before)

    def _relative(self, *paths: SomePaths) -> list[str]:
        return [versions.worktree.relative(self.root, path) for path in each(paths)]

    def _wanted(self, *paths: SomePaths) -> list[str]:
        """As `_relative`, where a path may be a pattern."""
        return [self._pattern(path) or self._relative(path)[0] for path in each(paths)]

    def _wanted_paths(self, paths: Sequence[AnyPath]) -> tuple[str, ...]:
        return tuple(self._pattern(path, in_tree=True) or self.path(path) for path in paths)

    def _pattern(self, path: AnyPath, *, in_tree: bool = False) -> str | None:
        text = os.fspath(path)
        plain = "*" not in text and "?" not in text and "[" not in text
        return None if plain else versions.globs.spec(self.root, self._local, text, in_tree=in_tree)

    def path(self, given: AnyPath) -> str:
        """The tree path a user's path means: `datasets/x` and other rooms in full, anything else a file."""
        return versions.looking.tree_path_of(self.root, os.fspath(given))

    # -- settings and closing ----------------------------------------------------------------

    def config_get(self, key: str) -> str | None:
        return config.get_value(self.dir, key)

    def config_set(self, key: str, value: str | None, *, user: bool = False) -> None:
        if value is not None:
            memories.embedders.check_setting(key, str(value))
        config.set_value(self.dir, key, value, "user" if user else "repo")

    def config_list(self) -> dict[str, str]:
        return {value.key: value.text for value in config.list_values(self.dir)}

    def checkpoint(self) -> bool:
        """Fold the write-ahead logs into the databases, as closing does."""
        return self._local.db.checkpoint() and self._history.db.checkpoint()

    def close(self) -> None:
        """Let go of the files; a second time changes nothing."""
        if self._shared is not None:
            self._shared.close()
            self._shared = None
        if self._store is not None:
            self._store.close()
            self._store = None
        try:
            self._history.db.close()
        finally:
            self._local.db.close()

    def _refuse_closed(self) -> None:
        if self._history.db.closed:
            raise InvalidInput(
                f"this Repo of {self.root} was closed. Nothing was changed.",
                hint=f"Open it again: memlake.open({str(self.root)!r})",
            )

    def __enter__(self) -> Self:
        self._refuse_closed()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "closed" if self._history.db.closed else self._local.branch or "detached"
        return f"{type(self).__name__}({str(self.root)!r}, {state})"


def each(paths: Sequence[SomePaths]) -> list[AnyPath]:
    """Paths given one by one, as lists, or both."""
    return [one for given in paths for one in ([given] if isinstance(given, str | os.PathLike) else given)]


def _settled(history: History, met: Conflict) -> Mapping[str, Entry | None]:
    return memories.sides.settled(history, met)  # loaded only where memories meet


def _joined(history: History, outcome: Outcome, ours: bytes, theirs: bytes) -> Outcome:
    return datasets.joining.joined(history, outcome, ours, theirs)  # loaded only where datasets meet


def checked_oid(text: str) -> str:
    if len(text) != 64 or text.strip("0123456789abcdef"):
        raise InvalidInput(f"{text!r} is no object id, which is 64 hex digits.", hint="See ids with: memlake ls -l")
    return text


def _size(file: Path) -> int:
    return file.stat().st_size if file.exists() else 0


def _schema(*names: str) -> tuple[Path, ...]:
    """Files of SQL, read only when a database has to be made."""
    return tuple(_SCHEMAS / name for name in names)
