"""Opened: the databases and stores of a repo, where this checkout stands, its settings, its closing. Has no verb."""

from __future__ import annotations

import contextlib
import functools
import os
import warnings
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar, Token
from pathlib import Path
from typing import TYPE_CHECKING, Self

from memlake import config, nofollow, versions
from memlake import repo as later
from memlake.calls import check_methods
from memlake.contents.kind import FILE
from memlake.dataset.kind import DATASET
from memlake.errors import Denied, InvalidInput, NotFound, Unavailable
from memlake.memories.kind import MEMORY, STATE
from memlake.objects import disk, layout
from memlake.objects.db import Database, advise_rescue
from memlake.objects.forks import Mutex
from memlake.objects.locks import LONG
from memlake.objects.places import Folder, Place, Refused
from memlake.objects.store import Objects
from memlake.records import Author
from memlake.repo.settings import Config, has_database, open_packs
from memlake.versions.checkout.context import Checkout, find_problem, write_head
from memlake.versions.checkout.local import Local
from memlake.versions.history.archive import ArchiveFile, Archives
from memlake.versions.history.commits import History

if TYPE_CHECKING:
    from memlake.dataset.datasets import Store
    from memlake.memories.resources import Shared
    from memlake.repo.git_branches import Followed
    from memlake.versions.sync.remote import Progress
    from memlake.versions.verbs.write import Group

AnyPath = str | os.PathLike[str]
SomePaths = AnyPath | Sequence[AnyPath]  # one path, or a list of them
KINDS = (FILE, DATASET, MEMORY, STATE)
_SCHEMAS = Path(__file__).parent.parent
# The one thing a verb finds without being handed it: a chain or an Agent of another Repo of this folder must join the
# transaction around it, and no argument reaches there. Each thread and each asyncio task has a context of its own.
_OPEN: ContextVar[tuple[Transaction, ...]] = ContextVar("transactions open in this thread or task", default=())


class Transaction:
    """The writes waiting for the end of a `with repo.transaction(...)`, and the mark of the context that opened it."""

    def __init__(self, folder: str, group: Group) -> None:
        self.folder, self.group, self.process = folder, group, os.getpid()
        self.token: Token[tuple[Transaction, ...]] | None = None

    def is_ours(self) -> bool:
        """Whether this very thread or task opened it: a task begun inside it has a copy of the context, and so has a
        forked child, whose writes would be lost with it."""
        if self.token is None or self.process != os.getpid():
            return False
        value = _OPEN.get()
        try:
            _OPEN.reset(self.token)  # refused in any other context than the one that set it
        except (ValueError, RuntimeError):
            return False
        self.token = _OPEN.set(value)
        return True


@check_methods
class Opened:
    """The parts of one repo and of this checkout of it."""

    def __init__(self, folder: Path, *, fresh: str | None = None, unchecked: bool = False) -> None:
        """`fresh` names the first branch of a repo that is made; `unchecked` opens one that is damaged, for doctor."""
        self.dir, self.root = folder, config.check_owner(config.repo_root(folder))
        nofollow.check_folder(folder)
        if fresh is None and not has_database(folder):
            raise NotFound(
                f"{folder} has no repo.db, or an empty one.",
                hint="If it never had one: memlake init\n"
                f"Else restore a backup. Without one, save what gc packed: {advise_rescue(folder / 'repo.db')}",
            )
        db = layout.RepoDatabase(folder)
        db.cure = layout.advise_restore(db)  # while it is opened: what cannot be opened, fsck cannot open either
        self._settings, ignored = config.read_in_force(folder, lambda: layout.find_id(db))
        if ignored:
            warnings.warn(config.describe_ignored(self.root, ignored), stacklevel=2)
        db.lease_seconds = self._settings.core_lease_seconds
        place = self._open_packs(db, ignored.get("core.packs"))
        self._spare = contextlib.ExitStack()  # what is let go of at the end, such as stand-ins for files on a full disk
        parts: Place = Folder(folder / "parts")
        if (folder / "tier.json").exists() and (tiered := later.tiers.wrap(folder, db, place)) is not None:
            place, parts = tiered.packs, tiered.parts
            self._spare.callback(tiered.reads.flush)
        objects = Objects(db, place, parts, folder / "tmp", remotes=functools.partial(_bring, folder))
        self._history = History(db, objects, KINDS)
        self._archives = Archives(db, functools.partial(_bring_archive, weakref.ref(objects)))
        db.read_archived = self._archives.read
        self._spare.callback(self._archives.close)
        self._is_bare = self.root == folder
        bare = versions.bare.NoCheckout(self._history, self._settings.init_branch) if self._is_bare else None
        self._local = bare or self._open_local(folder)
        self._identity: Author | None = None
        self._closed = False
        self._opening = Mutex()  # of the parts below, which are opened when first used, by whichever thread
        self._shared: Shared | None = None
        self._store: Store | None = None
        if fresh is not None:
            layout.stamp_format(db)
            versions.rebuild.begin(self._history, self._local, fresh)
        if unchecked:
            return
        layout.check_format(db)
        if self._local.databases:
            self._local = self._find_head()
        db.cure = f"See what is affected with: memlake fsck\n{layout.advise_restore(db)}"

    def _open_local(self, folder: Path) -> Local:
        schema = (_SCHEMAS / "versions/checkout/local.sql",)  # read only when the database has to be made
        return Local(Database(folder / "local.db", schema=schema, durable=False), str(self.root))

    def _find_head(self) -> Local:
        """This checkout, with a HEAD that names what exists. A lost local.db that has no room is made in memory."""
        local = self._local
        try:
            problem = find_problem(self._history, local)
        except Unavailable:
            if local.db.path.exists() and local.db.path.stat().st_size:
                raise
            return self._stand_in()
        return local if problem is None else self._stand_again(local)

    def _stand_again(self, local: Local) -> Local:
        here = Checkout(self._history, local, self._who)
        return versions.rebuild.stand_again(here, self._settings.init_branch)

    def _stand_in(self) -> Local:
        """A local.db for this process, to be read: what a verb wrote there would be gone with it."""
        folder = self._spare.enter_context(disk.spare_folder())
        local = self._open_local(folder)
        found = self._stand_again(local)
        local.db.denied = Unavailable(
            "local.db was lost, and the disk is too full to make it again. Nothing was changed.",
            hint="Free some space, then run it again.",
        )
        return found

    def _open_packs(self, db: Database, ignored: str | None) -> Place:
        """The place of packs. One that the user did not trust is never replaced by another: bytes would part there."""
        if ignored is None:
            return open_packs(self.dir, self._settings.core_packs, db)
        db.denied = Denied(
            f"this repo keeps its packs in {ignored} (core.packs), and you have not trusted that. They were not read, "
            "and nothing was changed.",
            hint=f"To see what the repo asks for and allow it: {config.trust_command(self.root)}",
        )
        return Refused(db.denied)

    # -- where we are -------------------------------------------------------------------------

    @property
    def _id(self) -> str:
        """What this repo is known by, the same in every copy of it: a UUIDv7 given by `init`."""
        return layout.read_id(self._history.db)

    def _who(self) -> Author:
        if self._identity is None:
            self._identity = config.read_identity(self.dir)
        return self._identity

    @property
    def head(self) -> str | None:
        found = self._look().head()
        return found.oid if found else None

    def _memory_branch(self) -> str:
        """The branch whose memories are meant when none is named: the one that git has checked out, if they follow git;
        else HEAD's, or where that names none, the usual one.
        """
        if (followed := self._find_followed()) is not None:
            return followed.base
        if (name := self._local.branch) is not None:
            return name
        if (pending := self._local.find_pending()) and pending.rebase and pending.rebase.branch:
            return pending.rebase.branch
        return self._usual_branch()

    def _usual_branch(self) -> str:
        usual = self._settings.init_branch
        names = [found.name for found in versions.refs.branches(self._history.db, None)]
        return usual if usual in names or not names else names[0]

    def _find_followed(self) -> Followed | None:
        """Our branch for the one that git has checked out, where memories follow git; not in the personal repo."""
        if not self._settings.memory_follow_git or self._is_personal():
            return None
        return later.git_branches.find_followed(self, self._usual_branch())

    def _is_personal(self) -> bool:
        return os.path.realpath(self.root) == os.path.realpath(config.personal_folder())

    def _look(self) -> Checkout:
        """For verbs that only read."""
        return Checkout(self._history, self._local, self._who)

    def _look_at_files(self) -> Checkout:
        """For verbs that look at the working files: an interrupted checkout is finished first, where it can be."""
        _ = self._local.root  # refused in a bare repo
        if self._local.state("journal") is not None:
            with contextlib.suppress(Unavailable), self._verb(LONG):
                return self._look()
            if holder := self._local.holder():
                warnings.warn(f"{holder} is at work here: what this shows is half done.", stacklevel=2)
        return self._look()

    @contextlib.contextmanager
    def _verb(self, patience: float | None = None, *, files: bool = True) -> Iterator[Checkout]:
        """For verbs that change the stage or the files, or without `files` only refs: in one checkout they take turns.

        A bare repo has those without `files` alone.
        """
        with self._local.verb(patience) if files else self._local.ref_verb():
            here = self._look()
            if self._local.state("journal") is not None:
                versions.update.resume(self._history, self._local, here.root)
            yield here
            # The verb is done: where there is no room to note HEAD, the next one notes it.
            with contextlib.suppress(Unavailable):
                write_head(self._history.db, self._local)

    def _group(self) -> Group | None:
        """The transaction that writes join: the one this thread or task opened, by whichever Repo of this folder.

        `ml.read_values(...).save(...)` has a Repo of its own, and must not be left when the transaction is dropped.
        """
        if not (known := _OPEN.get()):
            return None
        folder = os.path.realpath(self.dir)
        return next((one.group for one in known if one.folder == folder and one.is_ours()), None)

    @contextlib.contextmanager
    def _join_transaction(self, group: Group) -> Iterator[None]:
        before, opened = _OPEN.get(), Transaction(os.path.realpath(self.dir), group)
        opened.token = _OPEN.set((*before, opened))
        try:
            yield
        finally:
            opened.token = None  # nobody joins it from here on, wherever a copy of the context went
            _OPEN.set(before)

    def _resolve_files(self, *paths: SomePaths) -> list[str]:
        return [versions.worktree.relative(self.root, path) for path in each(paths)]

    def _resolve_patterns(self, *paths: SomePaths) -> list[str]:
        """As `_resolve_files`, where a path may be a pattern."""
        return [self._pattern(path) or self._resolve_files(path)[0] for path in each(paths)]

    def _resolve_tree_paths(self, paths: Sequence[AnyPath]) -> tuple[str, ...]:
        return tuple(self._pattern(path, in_tree=True) or self._tree_path(path) for path in paths)

    def _pattern(self, path: AnyPath, *, in_tree: bool = False) -> str | None:
        text = os.fspath(path)
        plain = "*" not in text and "?" not in text and "[" not in text
        return None if plain else versions.globs.spec(self.root, self._local, text, in_tree=in_tree)

    def _tree_path(self, given: AnyPath) -> str:
        """The tree path a user's path means: `datasets/x` and other rooms in full, anything else a file."""
        return versions.show.tree_path_of(self.root, os.fspath(given))

    # -- settings and closing ----------------------------------------------------------------

    @property
    def config(self) -> Config:
        """The settings by key: `repo.config["embedding.provider"] = "none"`."""
        return Config(self.dir, self._settings)

    def close(self) -> None:
        """Let go of the files; a second time changes nothing."""
        with self._opening:
            parts, self._shared, self._store = [self._shared, self._store], None, None
            self._closed = True  # nobody opens one of them again
        with self._spare as closing:  # all of them, whatever one of them raises; the last first
            for part in (*self._local.databases, self._history.db, *reversed(parts)):
                if part is not None:
                    closing.callback(part.close)

    def _refuse_closed(self) -> None:
        if self._closed:
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
        state = "closed" if self._closed else self._local.branch or "detached"
        return f"{type(self).__name__}({str(self.root)!r}, {state})"


def _bring(folder: Path, objects: Objects, oids: Sequence[bytes], progress: Progress | None = None) -> None:
    """Bring content that is at a remote only. A method of Opened would keep a closed repo, and the files it has open,
    until Python collects cycles."""
    versions.partial.bring(objects, later.remotes.open_links(folder, objects.repo), oids, progress)


def _bring_archive(find_objects: Callable[[], Objects | None], file: ArchiveFile) -> None:
    if (objects := find_objects()) is not None:  # whoever reads a commit holds them
        links = later.remotes.open_links(objects.db.path.parent, objects.repo)
        versions.archive.bring_archive(objects.db, links, file)


def each(paths: Sequence[SomePaths]) -> list[AnyPath]:
    """Paths given one by one, as lists, or both."""
    return [one for given in paths for one in ([given] if isinstance(given, str | os.PathLike) else given)]


def checked_oid(text: str) -> str:
    if len(text) != 64 or text.strip("0123456789abcdef"):
        raise InvalidInput(f"{text!r} is no object id, which is 64 hex digits.", hint="See ids with: memlake ls -l")
    return text
