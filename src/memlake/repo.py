"""Repo: opens the parts of a repo and wires them; one short method per verb. Formats nothing, decides nothing."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Self

from memlake import config
from memlake.errors import AlreadyExists, Denied, InvalidInput, NotFound
from memlake.objects import disk, layout
from memlake.objects.db import Database
from memlake.objects.places import Folder, open_place
from memlake.objects.purge import PurgeRequest
from memlake.objects.store import Objects
from memlake.records import (
    About,
    Author,
    BlameLine,
    Branch,
    Change,
    Check,
    Commit,
    Conflict,
    Entry,
    FsckReport,
    GcReport,
    Lane,
    Merged,
    Move,
    Operation,
    PurgeReport,
    Staged,
    Stash,
    Status,
    Tag,
    Usage,
)  # fmt: skip
from memlake.versions import (
    branching,
    checkout,
    committing,
    doctor,
    fsck,
    gc,
    looking,
    merging,
    operations,
    purging,
    refs,
    rev,
    stage,
    stash,
    worktree,
    writing,
)  # fmt: skip
from memlake.versions.backup import backup
from memlake.versions.committing import Saying
from memlake.versions.here import Here
from memlake.versions.history import History
from memlake.versions.local import Local
from memlake.versions.log import blame
from memlake.versions.looking import LogQuery

AnyPath = str | os.PathLike[str]
DIR = ".memlake"
_SCHEMAS = Path(__file__).parent


def init(path: AnyPath = ".", branch: str | None = None) -> Repo:
    """Make a repo in a folder, or open the one that is there."""
    root = Path(path).resolve()
    folder = root / DIR
    name = branch or config.read_settings(None).init_branch
    with disk.named_errors(f"making a repo in {root}"):
        root.mkdir(parents=True, exist_ok=True)
        for part in (folder, folder / "packs", folder / "parts", folder / "tmp"):
            part.mkdir(exist_ok=True)
        if not (folder / ".gitignore").exists():
            disk.write_file(folder / ".gitignore", b"*\n")
    return Repo(folder, fresh=name)


def open_repo(path: AnyPath | None = None) -> Repo:
    """Open the repo at a path, in MEMLAKE_REPO, or in this folder or one above."""
    return Repo(config.get_repo(explicit=path) / DIR)


class Repo:
    """One repo and this checkout of it."""

    def __init__(self, folder: Path, *, fresh: str | None = None) -> None:
        self.dir, self.root = folder, folder.parent
        if fresh is None and not (folder / "repo.db").exists():
            raise NotFound(
                f"{folder} has no repo.db.", hint="If it never had one: memlake init. Else restore a backup."
            )
        self._settings = config.read_settings(folder)
        db = Database(folder / "repo.db", schema=_schema("objects/schema.sql", "versions/schema.sql"))
        local = Local(Database(folder / "local.db", schema=_schema("versions/local.sql"), durable=False))
        packs = self._settings.core_packs if hasattr(self._settings, "core_packs") else ""
        place = open_place(packs) if packs else Folder(folder / "packs")
        self._history = History(db, Objects(db, place, Folder(folder / "parts"), folder / "tmp"))
        self._local = local
        self._identity: Author | None = None
        self._draft: writing.Group | None = None
        if fresh is not None:
            writing.begin(self._history, local, fresh)
        layout.check_format(db)

    # -- where we are -------------------------------------------------------------------------

    @property
    def identity(self) -> Author:
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
        return Here(self._history, self._local, str(self.root), self.identity)

    def _here(self) -> Here:
        """For verbs that use the working files: an interrupted checkout is finished first."""
        here = self._look()
        checkout.resume(self._history, self._local, here.root)
        return here

    def _relative(self, *paths: AnyPath) -> list[str]:
        return [worktree.relative(self.root, path) for path in paths]

    def path(self, given: AnyPath) -> str:
        """The tree path a user's path means: `datasets/x` and other rooms in full, anything else a file."""
        return looking.tree_path_of(self.root, os.fspath(given))

    # -- files --------------------------------------------------------------------------------

    def add(
        self,
        *paths: AnyPath,
        all: bool = False,
        update: bool = False,
        force: bool = False,
        progress: stage.Progress | None = None,
    ) -> Staged:
        given = self._relative(*paths)
        if not given and not (all or update):
            raise InvalidInput("nothing was named to add.", hint="Name files or folders, or use: memlake add -A")
        here, asked = self._here(), stage.Adding(given or [""], force, update, progress)
        with operations.operation(here, "add", " ".join(str(path) for path in paths[:5]) or "--all"):
            return stage.add(self._history.objects, self._local, here.root, self.identity, asked)

    def rm(self, *paths: AnyPath, cached: bool = False, force: bool = False) -> Staged:
        return writing.remove(self._here(), self._relative(*paths), cached=cached, force=force)

    def mv(self, src: AnyPath, dst: AnyPath, force: bool = False) -> Staged:
        source, target = self._relative(src, dst)
        return writing.move(self._here(), source, target, force=force)

    def status(self) -> Status:
        return looking.status(self._here())

    def commit(
        self,
        message: str | None = None,
        *,
        all: bool = False,
        amend: bool = False,
        allow_empty: bool = False,
        author: Author | str | None = None,
        uses: Sequence[str] = (),
        metrics: Mapping[str, Any] | None = None,
        params: Mapping[str, Any] | None = None,
    ) -> Commit:
        here = self._here()
        if all:
            self.add(update=True)
        if self._local.json_state("doing") is not None and not amend:
            merged = merging.proceed(here, message)
            return self._history.get(merged.commit or "")
        by = writing.author_of(author)
        return committing.commit_stage(here, Saying(message, by, uses, metrics, params, amend, allow_empty))

    def restore(
        self, *paths: AnyPath, source: str | None = None, staged: bool = False, worktree: bool | None = None
    ) -> tuple[Change, ...]:
        files = not staged if worktree is None else worktree
        return branching.restore(self._here(), self._relative(*paths), source, staged=staged, worktree=files)

    # -- looking ------------------------------------------------------------------------------

    def commit_at(self, rev_: str = "HEAD", lane: Lane = "work") -> Commit:
        return rev.resolve(self._look(), rev_, lane)

    def changes(self, commit: Commit) -> tuple[Change, ...]:
        return self._history.changes(commit)

    def meta(self, commit: Commit, name: str) -> Any:
        oid = commit.meta.get(name)
        return json.loads(self._history.objects.read(oid)) if oid else None

    def log(
        self,
        rev: str | tuple[str, ...] = "HEAD",
        *,
        lane: str = "work",
        paths: Sequence[AnyPath] = (),
        limit: int | None = None,
        skip: int = 0,
        since: str | None = None,
        until: str | None = None,
        author: str | None = None,
        grep: str | None = None,
        first_parent: bool = False,
        all: bool = False,
    ) -> Iterator[Commit]:
        wanted = tuple(self.path(path) for path in paths)
        query = LogQuery(rev, lane, wanted, limit, skip, since, until, author, grep, first_parent, all)
        return looking.log(self._look(), query)

    def diff(
        self,
        a: str | None = None,
        b: str | None = None,
        *,
        staged: bool = False,
        paths: Sequence[AnyPath] = (),
        lane: str | None = None,
    ) -> tuple[Change, ...]:
        wanted = tuple(self.path(path) for path in paths)
        return looking.diff(self._here() if b is None else self._look(), a, b, staged=staged, paths=wanted, lane=lane)

    def read(self, path: AnyPath, rev: str = "HEAD") -> bytes:
        return self._history.objects.read(looking.entry_at(self._look(), self.path(path), rev).oid)

    def open(self, path: AnyPath, rev: str = "HEAD") -> BinaryIO:
        return self._history.objects.open(looking.entry_at(self._look(), self.path(path), rev).oid)

    def read_object(self, oid: str) -> bytes:
        return self._history.objects.read(oid)

    def open_object(self, oid: str) -> BinaryIO:
        return self._history.objects.open(oid)

    def read_worktree(self, path: AnyPath) -> bytes:
        return looking.working_bytes(self.root, os.fspath(path))

    def ls(self, rev_: str = "HEAD", prefix: str = "") -> Iterator[tuple[str, Entry]]:
        return looking.listing(self._look(), rev_, prefix)

    def about(self, path: AnyPath, rev: str = "HEAD") -> About | None:
        return looking.about(self._look(), self.path(path), rev)

    def blame(self, path: AnyPath, rev_: str = "HEAD") -> list[BlameLine]:
        full = self.path(path)
        looking.entry_at(self._look(), full, rev_)
        return blame(self._history, looking.commit_for(self._look(), full, rev_), full)

    # -- branches -----------------------------------------------------------------------------

    def branches(self) -> list[Branch]:
        return refs.branches(self._history.db, self._local.branch)

    def branch(self, name: str, at: str = "HEAD") -> Branch:
        return branching.create_branch(self._look(), name, at)

    def delete_branch(self, name: str, force: bool = False) -> Branch:
        return branching.delete_branch(self._look(), name, force)

    def rename_branch(self, old: str, new: str, force: bool = False) -> Branch:
        return branching.rename_branch(self._look(), old, new, force)

    def switch(
        self, name: str, *, create: bool = False, detach: bool = False, at: str | None = None, force: bool = False
    ) -> tuple[Change, ...]:
        return branching.switch(self._here(), name, create=create, detach=detach, at=at, force=force)

    def merge(self, rev: str, *, ff: bool = True, only_ff: bool = False, message: str | None = None) -> Merged:
        return merging.merge_rev(self._here(), rev, merging.How(ff, only_ff, message))

    def merge_choose(self, side: str, *paths: AnyPath) -> tuple[Conflict, ...]:
        return merging.choose(self._here(), side, tuple(self.path(path) for path in paths))

    def merge_continue(self, message: str | None = None) -> Merged:
        return merging.proceed(self._here(), message)

    def merge_abort(self) -> None:
        merging.abort(self._here())

    def reset(self, rev: str = "HEAD", mode: str = "mixed") -> tuple[Change, ...]:
        return branching.reset(self._here(), rev, mode)

    def reset_paths(self, *paths: AnyPath, rev: str = "HEAD") -> tuple[Change, ...]:
        return branching.reset_paths(self._here(), self._relative(*paths), rev)

    def revert(self, rev: str, no_commit: bool = False) -> Merged:
        return merging.revert(self._here(), rev, commit=not no_commit)

    def cherry_pick(self, rev: str) -> Merged:
        return merging.cherry_pick(self._here(), rev)

    def stash_push(self, message: str = "", include_untracked: bool = False) -> Stash:
        return stash.push(self._here(), message, include_untracked)

    def stash_list(self) -> list[Stash]:
        return stash.stashes(self._look())

    def stash_pop(self, index: int = 0) -> tuple[Change, ...]:
        return stash.pop(self._here(), index)

    def stash_apply(self, index: int = 0) -> tuple[Change, ...]:
        return stash.apply(self._here(), index)

    def stash_drop(self, index: int = 0) -> Stash:
        return stash.drop(self._here(), index)

    def tag(self, name: str, at: str = "HEAD", message: str = "", force: bool = False) -> Tag:
        return branching.create_tag(self._look(), name, at, message, force)

    def tags(self) -> list[Tag]:
        return refs.tags(self._history.db)

    def delete_tag(self, name: str) -> Tag:
        return branching.delete_tag(self._look(), name)

    def reflog(self, ref: str = "HEAD", lane: Lane = "work") -> Iterator[Move]:
        return rev.head_log(self._look()) if ref in ("HEAD", "@") else refs.reflog(self._history, ref, lane)

    # -- writing without files ----------------------------------------------------------------

    def write(
        self,
        changes: Mapping[str, bytes | Entry | None],
        message: str,
        *,
        branch: str | None = None,
        author: Author | str | None = None,
        expects: Mapping[str, Entry | None] | None = None,
    ) -> Commit:
        """Commit records at any tree paths of one lane, in one step; staged files are not touched."""
        by = writing.author_of(author) or self.identity
        return writing.write(self._look(), writing.Request(changes, message, branch, by, expects), self._draft)

    @contextlib.contextmanager
    def transaction(self, message: str) -> Iterator[Self]:
        """Group the writes inside into one commit a lane; an exception drops them all."""
        if self._draft is not None:
            raise AlreadyExists(
                "a transaction is open already in this Repo.", hint="Finish it before starting another."
            )
        self._draft = writing.Group(message)
        try:
            yield self
            group, self._draft = self._draft, None
            writing.write_group(self._look(), group)
        finally:
            self._draft = None

    # -- keeping ------------------------------------------------------------------------------

    def gc(self, dry_run: bool = False, prune: bool = False) -> GcReport:
        grace = 0.0 if prune else self._settings.gc_grace_hours
        return gc.collect(self._look(), gc.Policy(dry_run, grace, self._settings.gc_reflog_expire))

    def fsck(self, full: bool = False) -> FsckReport:
        return fsck.check(self._look(), full=full)

    def purge(self, *oids: str, reason: str) -> PurgeReport:
        if not reason.strip():
            raise Denied(
                "a purge needs a reason; it stays in the repo for ever. Nothing was purged.",
                hint='Give one with --reason "..."',
            )
        return purging.purge(self._look(), PurgeRequest(oids, reason, self.identity.name))

    def undo(self) -> Operation:
        return operations.undo(self._here())

    def redo(self) -> Operation:
        return operations.redo(self._here())

    def operations(self, limit: int = 20) -> list[Operation]:
        return operations.operations(self._look(), limit)

    def backup(self, file: AnyPath) -> int:
        return backup(self._look(), self.dir, Path(file))

    def du(self) -> Usage:
        return looking.usage(self._look(), self.dir)

    def doctor(self) -> list[Check]:
        return doctor.examine(self._look(), self.dir)

    def config_get(self, key: str) -> str | None:
        return config.get_value(self.dir, key)

    def config_set(self, key: str, value: str | None, *, user: bool = False) -> None:
        config.set_value(self.dir, key, value, "user" if user else "repo")

    def config_list(self) -> dict[str, str]:
        return {value.key: value.text for value in config.list_values(self.dir)}

    def checkpoint(self) -> bool:
        """Fold the write-ahead logs into the databases, as closing does."""
        return self._local.db.checkpoint() and self._history.db.checkpoint()

    def close(self) -> None:
        self._history.db.close()
        self._local.db.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Repo({str(self.root)!r}, {self._local.branch or 'detached'})"


def _schema(*names: str) -> tuple[Path, ...]:
    """Files of SQL, read only when a database has to be made."""
    return tuple(_SCHEMAS / name for name in names)
