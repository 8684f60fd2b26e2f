"""Repo: the verbs, each a short method that wires the parts. Those of datasets are in `rows.py`."""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Self

from memlake import config, datasets, inside, memories, projects, versions
from memlake.calls import checked, door
from memlake.errors import AlreadyExists, Corrupt, Denied, Error, InvalidInput, pasted
from memlake.objects import disk
from memlake.objects.bucket import open_place
from memlake.objects.db import advise_rescue
from memlake.objects.forks import check_process
from memlake.objects.places import Folder, Place
from memlake.records import Author, Branch, Change, Commit, Conflict, Entry, Lane, Move, Staged, Status, Tag
from memlake.repo.opened import AnyPath, SomePaths, checked_oid, each
from memlake.repo.rows import Rows
from memlake.repo.settings import has_database
from memlake.reports import Problem, Rescued

if TYPE_CHECKING:
    from memlake.memories.memories import Memories
    from memlake.memories.narrow import Narrow
    from memlake.memories.record import Memory
    from memlake.memories.sides import Sides
    from memlake.reports import (
        About,
        BlameLine,
        Check,
        FsckReport,
        GcReport,
        Merged,
        Operation,
        PurgeReport,
        Stash,
        Usage,
    )  # fmt: skip

Progress = Callable[[int, int, str], None]
DIR = ".memlake"


@checked
def init(path: AnyPath = ".", branch: str | None = None) -> Repo:
    """Make a repo in a folder, or open the one that is there."""
    name = branch or config.read_settings(None).init_branch
    versions.refs.check_name(name)
    with disk.named_errors(f"making a repo in {path}"):
        root = Path(os.path.realpath(config.real_name(path)))
        folder = config.check_owner(root) / DIR
        root.mkdir(parents=True, exist_ok=True)
        inside.check_new(folder)
        inside.check_folder(folder)
        _refuse_lost(folder)
        for part in (folder, folder / "packs", folder / "parts", folder / "tmp"):
            inside.make_folder(part)
        if not (folder / ".gitignore").exists():
            disk.write_file(folder / ".gitignore", b"*\n")
    return Repo(folder, fresh=name)


def _refuse_lost(folder: Path) -> None:
    """Packs without a repo.db are a repo whose history was lost: an empty one beside them would hide that."""
    packs = folder / "packs"
    if not has_database(folder) and packs.is_dir() and any(packs.iterdir()):
        raise Denied(
            f"{folder} has packs but no repo.db: the history of this repo is lost, its content is not. Nothing was "
            "changed.",
            hint=f"Restore a backup. Without one, save what gc packed: {advise_rescue(folder / 'repo.db')}\n"
            f"To begin an empty repo instead, set the old one aside: mv {pasted(folder)} {pasted(f'{folder}.old')}",
        )


@checked
def rescue(sources: SomePaths, into: AnyPath) -> Rescued:
    """Make a repo again in a new folder, from packs alone: `.memlake` folders, folders of packs, URLs of buckets."""
    folder = Path(os.path.realpath(config.real_name(into)))
    if (folder / DIR).exists():
        raise AlreadyExists(f"{folder} is a repo already. Nothing was written.", hint="Name a folder that is not.")
    places, parts = list[Place](), list[Place]()
    for given in each([sources]):
        source = os.fspath(given)
        inner = Path(source) / DIR if (Path(source) / DIR).is_dir() else Path(source)
        places.append(Folder(inner / "packs") if (inner / "packs").is_dir() else open_place(source))
        parts += [Folder(inner / "parts")] if (inner / "parts").is_dir() else []
    found = versions.rescue.read_packs(places)
    with _built_aside(folder) as aside, init(aside) as repo:
        rescued = versions.rescue.rebuild(repo._history, found, parts)
        versions.recovery.stand_first(repo._look(), repo.settings.init_branch)
    return rescued


@contextlib.contextmanager
def _built_aside(folder: Path) -> Iterator[Path]:
    """A folder in `folder` whose `.memlake` moves there once it is whole; on failure it goes, so one can try again."""
    aside = folder / f"{DIR}-rescue-{os.urandom(4).hex()}"
    try:
        yield aside
        with disk.named_errors(f"moving the rescued repo to {folder / DIR}"):
            os.rename(aside / DIR, folder / DIR)
    finally:
        disk.remove_tree(aside)


@checked
def open_repo(path: AnyPath | None = None) -> Repo:
    """Open the repo at a path, in MEMLAKE_REPO, or in this folder or one above."""
    return Repo(config.get_repo(explicit=path) / DIR)


def open_damaged(path: AnyPath | None = None) -> Repo:
    """As `open_repo`, and where repo.db is damaged all the same: for doctor, which says what of it can be read."""
    folder = config.get_repo(explicit=path) / DIR
    try:
        return Repo(folder)
    except Corrupt:
        return Repo(folder, unchecked=True)


@checked
def open_for_memories(path: AnyPath | None = None) -> Repo:
    """The repo found as `open_repo` finds it, else the personal one, made on first use. For memories, not for files."""
    found = projects.find_memory_repo(path)
    return Repo(found / DIR) if found is not None else open_personal()


def open_personal() -> Repo:
    """The repo in the user's data folder, made if it is not there, and that is said."""
    home = config.check_owner(config.personal_folder())
    _make_private(home, home / DIR)
    if has_database(home / DIR):
        with contextlib.suppress(Corrupt):  # another process is about to stamp it, or died before it did
            return Repo(home / DIR)
        return init(home)
    made = init(home)
    sys.stderr.write(f"memlake: no repo here, so data is kept in your personal one: {home}\n")
    return made


def _make_private(*folders: Path) -> None:
    """Folders that nobody but the user can look into, whatever the umask; what is made inside them is as private."""
    for folder in folders:
        with disk.named_errors(f"making {folder}"):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if folder.stat().st_mode & 0o077:
            with contextlib.suppress(OSError):  # a file system that is read-only, or has no modes
                folder.chmod(0o700)


@door
class Repo(Rows):
    """One repo and this checkout of it."""

    # -- files --------------------------------------------------------------------------------

    def add(
        self,
        *paths: SomePaths,
        all: bool = False,
        update: bool = False,
        force: bool = False,
        progress: Progress | None = None,
    ) -> Staged:
        given = self._wanted(*paths)
        if not given and not (all or update):
            raise InvalidInput("nothing was named to add.", hint="Name files or folders, or use: memlake add -A")
        asked = versions.stage.Adding(given or [""], force, update, self._settings.add_warn_secrets, progress)
        detail = " ".join(path or "." for path in given[:5]) or "--all"
        with self._verb() as here, versions.operations.operation(here, "add", detail) as verb:
            staged = versions.stage.add(self._history.objects, self._local, here.root, self.identity, asked)
            verb.changed = versions.operations.has_staged(here, verb, staged)
            return staged

    def rm(self, *paths: SomePaths, cached: bool = False, force: bool = False, dry_run: bool = False) -> Staged:
        how = versions.writing.Removing(cached, force, dry_run)
        with self._verb() as here:
            return versions.writing.remove(here, self._wanted(*paths), how)

    def mv(self, src: AnyPath, dst: AnyPath, force: bool = False, dry_run: bool = False) -> Staged:
        source, target = self._relative(src, dst)
        with self._verb() as here:
            return versions.writing.move(here, source, target, force=force, dry_run=dry_run)

    def status(self, *paths: AnyPath, ignored: bool = False) -> Status:
        return versions.status.status(self._settled(), self._wanted_paths(paths), ignored=ignored)

    def commit(
        self,
        message: str | None = None,
        *,
        paths: Sequence[AnyPath] = (),
        all: bool = False,
        amend: bool = False,
        allow_empty: bool = False,
        author: Author | str | None = None,
        uses: Sequence[str] = (),
        metrics: Mapping[str, Any] | None = None,
        params: Mapping[str, Any] | None = None,
    ) -> Commit:
        by, only = versions.writing.author_of(author), self._relative(*paths)
        saying = versions.committing.Saying(
            message, by, [*map(self._used, uses)], metrics, params, amend, allow_empty, only
        )
        given = versions.merging.Given(self._arriving)
        with self._verb() as here:
            if only:
                versions.committing.check_known(here, only)
            if not only and not all:
                return versions.committing.commit(here, saying, given)
            asked = versions.stage.Adding(self._wanted(*paths) or [""], False, True, self._settings.add_warn_secrets)
            with versions.operations.staging_first(here) as found:
                versions.stage.add(self._history.objects, self._local, here.root, self.identity, asked)
                return versions.committing.commit(here, saying, given._replace(found=found))

    def restore(
        self, *paths: SomePaths, source: str | None = None, staged: bool = False, worktree: bool | None = None,
        overlay: bool = False,
    ) -> tuple[Change, ...]:  # fmt: skip
        """Files, the stage or both as `source` has them; `overlay` keeps tracked files that it does not have."""
        files, wanted = not staged if worktree is None else worktree, self._wanted(*paths)
        with self._verb() as here:
            return versions.branching.restore(here, wanted, source, staged=staged, worktree=files, overlay=overlay)

    # -- looking ------------------------------------------------------------------------------

    def commit_at(self, rev_: str = "HEAD", lane: Lane = "work") -> Commit:
        return versions.rev.resolve(self._look(), rev_, lane)

    def changes(self, commit: Commit, *, paths: Sequence[AnyPath] = ()) -> tuple[Change, ...]:
        """What a commit changed, in all or at some paths or patterns."""
        found = self._history.changes(commit)
        return versions.looking.only(found, self._wanted_paths(paths)) if paths else found

    def meta(self, commit: Commit, name: str) -> Any:
        """Facts beside the content: "metrics", "params", "uses", or "about" (path -> what `add` noted)."""
        oid = commit.meta.get(name)
        return versions.looking.fact(self._look(), name, oid) if oid else None

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
        author: str | re.Pattern[str] | None = None,
        grep: str | re.Pattern[str] | None = None,
        first_parent: bool = False,
        all: bool = False,
        text: str | None = None,
        follow: bool = False,
        reverse: bool = False,
    ) -> Iterator[Commit]:
        """Commits, newest first. `text`: those that add or remove it; `follow`: the one path past exact renames.

        `author` and `grep` are regular expressions, found anywhere in the author and in the message.
        """
        query = versions.looking.LogQuery(
            rev, lane, self._wanted_paths(paths), limit, skip, since, until, author, grep, first_parent, all, text,
            follow, reverse,
        )  # fmt: skip
        return versions.looking.log(self._look(), query)

    def diff(
        self,
        a: str | None = None,
        b: str | None = None,
        *,
        staged: bool = False,
        paths: Sequence[AnyPath] = (),
        lane: str | None = None,
    ) -> tuple[Change, ...]:
        here = self._settled() if b is None else self._look()
        return versions.looking.diff(here, a, b, staged=staged, paths=self._wanted_paths(paths), lane=lane)

    def entry(self, path: AnyPath, rev: str = "HEAD") -> Entry:
        """What a path holds in a commit; ":" is the stage."""
        return versions.looking.entry_at(self._look(), self.path(path), rev)

    def read(self, path: AnyPath, rev: str = "HEAD") -> bytes:
        return self._history.objects.read(self.entry(path, rev).oid, most=None)

    def open(self, path: AnyPath, rev: str = "HEAD") -> BinaryIO:
        return self._history.objects.open(self.entry(path, rev).oid)

    def read_object(self, oid: str) -> bytes:
        return self._history.objects.read(checked_oid(oid), most=None)

    def open_object(self, oid: str) -> BinaryIO:
        return self._history.objects.open(checked_oid(oid))

    def read_worktree(self, path: AnyPath) -> bytes:
        return versions.looking.working_bytes(self.root, os.fspath(path))

    def ls(self, rev_: str = "HEAD", prefix: str = "", *, paths: Sequence[AnyPath] = ()) -> versions.looking.Listing:
        """(tree path, entry) of all that starts with a prefix, or of what some paths or patterns mean."""
        here, wanted = self._look(), self._wanted_paths(paths)
        if wanted:
            return versions.looking.Listing(lambda: versions.looking.listing_of(here, rev_, wanted))
        return versions.looking.Listing(lambda: versions.looking.listing(here, rev_, prefix))

    def about(self, path: AnyPath, rev: str = "HEAD") -> About:
        return versions.looking.about(self._look(), self.path(path), rev)

    def abouts(self, rev: str, entries: Mapping[str, Entry]) -> dict[str, About]:
        """`about` for many tree paths, in one walk over history."""
        return dict(versions.looking.abouts(self._look(), rev, entries))

    def versions_of(self, path: AnyPath) -> list[str]:
        """Every object a path ever was, in any commit of the repo, reachable or not, or is in the stage."""
        return versions.looking.versions_of(self._look(), self.path(path))

    def blame(self, path: AnyPath, rev_: str = "HEAD") -> list[BlameLine]:
        full = self.path(path)
        versions.looking.entry_at(self._look(), full, rev_)
        start = versions.looking.commit_for(self._look(), full, rev_)
        return versions.log.blame(self._history, start, full, partial(versions.worktree.typed, self.root))

    # -- branches -----------------------------------------------------------------------------

    def branches(
        self, *, contains: str | None = None, merged: str | None = None, no_merged: str | None = None
    ) -> list[Branch]:
        """All branches, or those that contain a commit, are merged into it, or are not."""
        if self._history.db.row("SELECT 1 FROM ref WHERE kind = 0 AND note IS NOT NULL LIMIT 1") is not None:
            memories.living.sweep(self._look())
        if contains is merged is no_merged is None:
            return versions.refs.branches(self._history.db, self._local.branch)
        chosen = versions.branching.Chosen(contains, merged, no_merged)
        return versions.branching.list_branches(self._look(), chosen)

    def branch(self, name: str, at: str = "HEAD", force: bool = False, *, ttl_seconds: float | None = None) -> Branch:
        """Make a branch, or with `force` move one; a new one may be given a time to live."""
        note = None if ttl_seconds is None else memories.living.noted(ttl_seconds)
        with self._verb() as here:
            return versions.branching.create_branch(here, name, at, force=force, note=note)

    def delete_branch(self, name: str, force: bool = False) -> Branch:
        with self._verb() as here:
            return versions.branching.delete_branch(here, name, force)

    def rename_branch(self, old: str, new: str, force: bool = False) -> Branch:
        with self._verb() as here:
            return versions.branching.rename_branch(here, old, new, force)

    def switch(
        self, name: str, *, create: bool = False, detach: bool = False, at: str | None = None, force: bool = False,
        reset: bool = False,
    ) -> tuple[Change, ...]:  # fmt: skip
        with self._verb() as here:
            return versions.branching.switch(here, name, versions.branching.Going(create, detach, at, force, reset))

    def merge(
        self, rev: str, *, ff: bool = True, only_ff: bool = False, message: str | None = None,
        conflict: str | None = None, metrics: Mapping[str, Any] | None = None, params: Mapping[str, Any] | None = None,
    ) -> Merged:  # fmt: skip
        """Join another branch into this one; `conflict` is how files are marked, "merge" or "diff3".

        `metrics` and `params` are kept with the merge commit, so with them one is made where a fast-forward would do.
        """
        given, facts = versions.merging.Given(self._arriving), _said_facts(metrics, params)
        how = versions.merging.How(ff, only_ff, message, self._marks_base(conflict), given, facts)
        with self._verb() as here:
            return versions.merging.merge_rev(here, rev, how)

    def _marks_base(self, conflict: str | None) -> bool:
        """Whether markers show what both sides had before, too."""
        style = conflict or self._settings.merge_conflict
        if style not in ("merge", "diff3"):
            raise InvalidInput(f"there is no way {style!r} to mark conflicts.", hint="Use merge or diff3.")
        return style == "diff3"

    def conflicts(self) -> tuple[Conflict, ...]:
        return self._local.conflicts()

    def conflict_text(self, path: AnyPath) -> str | None:
        """Both sides of a path in conflict as one text with markers; None where that cannot be."""
        return versions.looking.conflict_text(self._look(), self.path(path))

    def conflict_sides(self, conflict: Conflict) -> Sides | None:
        """What both sides of a memory, state value or dataset in conflict say; None for a file."""
        if conflict.path.startswith("files/"):  # neither is loaded for one
            return None
        if conflict.path.startswith("datasets/"):
            told = datasets.joining.said(self._history, conflict)
            return memories.sides.Sides(*told) if told else None
        return memories.sides.said(self._history, conflict)

    def merge_choose(self, side: str, *paths: SomePaths) -> tuple[Conflict, ...]:
        with self._verb() as here:
            return versions.merging.choose(here, side, self._wanted_paths(each(paths)))

    def merge_mark(self, *paths: SomePaths) -> tuple[Change, ...]:
        """Write the markers of conflicts into their files again; their choices are open again."""
        with self._verb() as here:
            return versions.merging.mark_again(here, self._wanted_paths(each(paths)))

    def merge_continue(
        self, message: str | None = None, *, metrics: Mapping[str, Any] | None = None,
        params: Mapping[str, Any] | None = None,
    ) -> Merged:  # fmt: skip
        given, facts = versions.merging.Given(self._arriving), _said_facts(metrics, params)
        said = versions.merging.Conclusion(message, None, facts, given)
        with self._verb() as here:
            return versions.merging.proceed(here, said)

    def _arriving(self, edits: Mapping[str, Entry | None]) -> dict[str, Entry | None]:
        return memories.arriving.noted(self.memories().ground, edits)

    def merge_abort(self) -> None:
        with self._verb() as here:
            versions.merging.abort(here)

    def reset(self, rev: str = "HEAD", mode: str = "mixed") -> tuple[Change, ...]:
        with self._verb() as here:
            return versions.branching.reset(here, rev, mode)

    def reset_paths(self, *paths: SomePaths, rev: str = "HEAD") -> tuple[Change, ...]:
        with self._verb() as here:
            return versions.branching.reset_paths(here, self._wanted(*paths), rev)

    def revert(
        self, rev: str, no_commit: bool = False, *, mainline: int | None = None, conflict: str | None = None
    ) -> Merged:
        how = versions.merging.Picking(not no_commit, mainline, with_base=self._marks_base(conflict))
        with self._verb() as here:
            return versions.merging.revert(here, rev, how)

    def cherry_pick(
        self, rev: str, no_commit: bool = False, *, mainline: int | None = None, cite: bool = False,
        conflict: str | None = None,
    ) -> Merged:  # fmt: skip
        how = versions.merging.Picking(not no_commit, mainline, cite, self._marks_base(conflict))
        with self._verb() as here:
            return versions.merging.cherry_pick(here, rev, how)

    def stash_push(self, message: str = "", include_untracked: bool = False, paths: Sequence[AnyPath] = ()) -> Stash:
        with self._verb() as here:
            return versions.stash.push(here, message, include_untracked, self._relative(*paths))

    def stash_list(self) -> list[Stash]:
        return versions.stash.stashes(self._look())

    def stash_pop(self, index: int = 0, *, staged: bool = False) -> Merged:
        with self._verb() as here:
            return versions.stash.apply(here, index, staged=staged, drop=True, with_base=self._marks_base(None))

    def stash_apply(self, index: int = 0, *, staged: bool = False) -> Merged:
        with self._verb() as here:
            return versions.stash.apply(here, index, staged=staged, with_base=self._marks_base(None))

    def stash_clear(self) -> list[Stash]:
        with self._verb() as here:
            return versions.stash.clear(here)

    def stash_drop(self, index: int = 0) -> Stash:
        with self._verb() as here:
            return versions.stash.drop(here, index)

    def tag(self, name: str, at: str = "HEAD", message: str = "", force: bool = False) -> Tag:
        with self._verb() as here:
            return versions.branching.create_tag(here, name, at, message, force)

    def tags(self) -> list[Tag]:
        return versions.refs.tags(self._history.db)

    def delete_tag(self, name: str) -> Tag:
        with self._verb() as here:
            return versions.branching.delete_tag(here, name)

    def reflog(self, ref: str = "HEAD", lane: Lane = "work") -> Iterator[Move]:
        here = self._look()
        if ref in ("HEAD", "@"):
            return versions.rev.head_log(here)
        return versions.refs.reflog(self._history, versions.rev.known_branch(here, ref), lane)

    # -- writing without files ----------------------------------------------------------------

    def write(
        self,
        changes: Mapping[str, bytes | str | Entry | None],
        message: str,
        *,
        branch: str | None = None,
        author: Author | str | None = None,
        expects: Mapping[str, Entry | None] | None = None,
    ) -> Commit:
        """Commit records at any tree paths of one lane, in one step; staged files are not touched.

        A str is kept as UTF-8; None removes a path.
        """
        by, records = versions.writing.author_of(author) or self.identity, versions.writing.encoded(changes)
        asked = versions.writing.Request(records, message, branch, by, expects)
        return versions.writing.write(self._look(), asked, self._group())

    @contextlib.contextmanager
    def transaction(self, message: str) -> Iterator[Self]:
        """Group the writes inside into one commit a lane; an exception drops them all.

        What the same thread, or in an event loop the same task, writes to the same repo in other ways,
        `ml.read_values(...).save(...)`, belongs to it. What others write meanwhile does not, also on this very object.
        """
        if self._group() is not None:
            raise AlreadyExists(
                "a transaction is open already in this Repo.", hint="Finish it before starting another."
            )
        group = versions.writing.Group(message)
        process = os.getpid()
        with self._drafting(group):
            yield self
        check_process(process)
        versions.writing.write_group(self._look(), group)

    # -- memories -----------------------------------------------------------------------------

    def memories(self, branch: str | None = None) -> Memories:
        """What agents remember on a branch. The branch is fixed now: a switch elsewhere does not redirect it."""
        name = branch or self._memory_branch()
        memories.living.check(self._look(), name)
        versions.refs.get(self._history.db, name)
        with self._opening:
            self._refuse_closed()
            if self._shared is None:
                self._shared = memories.opening.Shared(self.dir, self._history, self._local.db, self._settings)
            shared = self._shared
        ground = memories.ground.Ground(
            self._look(), shared.index, name, self._settings, self._group, shared.vector_of, shared.read_counts,
            org=self._org(), project=(project := self._project()), package=projects.find_package(project or self.root),
        )  # fmt: skip
        return memories.memories.Memories(ground, shared)

    def narrow(self, everywhere: bool = False) -> Narrow:
        """The little of memories that hooks need, without the weight of an index that is opened whole.

        Of a repo of many projects those of this one and of none are seen; with `everywhere` only those of none.
        """
        return memories.narrow.Narrow(
            self._look(), self.dir, self._settings, self._memory_branch(), project="" if everywhere else self._project()
        )

    def _org(self) -> str | None:
        """The organisation that is seen here; None for all of them."""
        return None if self._settings.memory_org == "*" else self._settings.memory_org

    def _project(self) -> str | None:
        """The project we are in, where memories record theirs: only the personal repo holds those of many."""
        is_personal = os.path.realpath(self.root) == os.path.realpath(config.personal_folder())
        return projects.find_project() if is_personal else None

    # -- keeping ------------------------------------------------------------------------------

    def gc(self, dry_run: bool = False, prune: bool = False) -> GcReport:
        inside.check_folder(self.dir)  # once more: what was made since would lead removals elsewhere
        grace = 0.0 if prune else self._settings.gc_grace_hours
        policy = versions.gc.Policy(dry_run, grace, self._settings.gc_reflog_expire)
        recalled = self._rows().recall.parts() if (self.dir / datasets.RECALL).exists() else ()
        return versions.gc.collect(self._look(), policy, recalled)

    def purge(self, *oids: str, reason: str, with_others: bool = False, leave_derived: bool = False) -> PurgeReport:
        """Erase objects for good; of a dataset's version all its rows, and what is remembered of work over them.

        `with_others`: also versions made from it, and its rows where others share them; `leave_derived`: not those.
        """
        inside.check_folder(self.dir)
        with self._verb() as here:
            named, loose = datasets.erasing.whole(
                here, map(checked_oid, oids), datasets.erasing.Others(with_others, leave_derived)
            )
            done = versions.purging.purge(here, named, reason, loose=loose)
        datasets.erasing.forget(self.dir)
        if (self.dir / datasets.RECALL).exists():
            self._rows().forget()
        if (self.dir / "index").exists() and any(path.startswith("memories/") for path in done.paths):
            try:
                self.memories().follow()
            except Error as error:
                told = f"the index still has words of it, which the next search erases: {error.message}"
                return done._replace(notes=(*done.notes, told))
        return done

    def is_purged(self, oid: str) -> bool:
        """Whether an object was erased on purpose; asks repo.db alone."""
        return bool(self._history.objects.purged([checked_oid(oid)]))

    def purged_with(self, *oids: str, with_others: bool = False, leave_derived: bool = False) -> tuple[str, ...]:
        """What a purge of these objects erases: the same, unless one is the record of a dataset's version."""
        how = datasets.erasing.Others(with_others, leave_derived)
        named, loose = datasets.erasing.whole(self._look(), map(checked_oid, oids), how)
        return (*named, *loose)

    def fsck(self, full: bool = False) -> FsckReport:
        report = versions.fsck.check(self._look(), full=full)
        wrong = self._mended_index() if (self.dir / "index").exists() else ""
        return report._replace(problems=(*report.problems, Problem("index", "", "", wrong))) if wrong else report

    def _mended_index(self) -> str:
        """What was wrong with the index of memories, which is mended then; it may have been on being opened."""
        with contextlib.suppress(Error):  # of a history that cannot be read, the report has told already
            opened = self.memories()
            return memories.checking.mend(opened.ground)
        return ""

    def undo(self, *, project: str | None = None) -> Operation:
        """Take back the last operation. In a repo of many projects not one that wrote a memory of another project than
        the one we are in, or the one named ("*": any).
        """
        with self._local.verb():
            here = self._look()
            return versions.operations.undo_interrupted(here) or self._undo(project)

    def _undo(self, project: str | None) -> Operation:
        own = self._project() if project is None else project
        projects_seen = None if own in (None, "*") else (own, "")
        taken: list[Memory] = []

        def check(written: Sequence[tuple[str, str]]) -> None:
            if written:  # else it is no verb of memories, and pays nothing for them
                taken.extend(memories.timeline.written(self._history, (oid for _, oid in written)))
                memories.timeline.check_projects(taken, projects_seen)

        with self._verb() as here:
            done = versions.operations.undo(here, check)
        return done._replace(detail=f"{done.detail}: {memories.timeline.shorten(taken[0])}") if taken else done

    def note_written(self, verb: str, detail: str, written: Sequence[tuple[str, str]]) -> None:
        """Let `undo` know what a verb wrote to the memory lane, as (branch, commit); not of what was taken back."""
        kept = [(branch, oid) for branch, oid in written if self._history.has(oid)]
        if kept:
            versions.operations.note(self._look(), verb, detail, kept)

    def redo(self) -> Operation:
        with self._verb() as here:
            return versions.operations.redo(here)

    def operations(self, limit: int = 20) -> list[Operation]:
        return versions.operations.operations(self._look(), limit)

    def backup(self, file: AnyPath) -> int:
        return versions.backup.backup(self._look(), self.dir, Path(config.real_name(file)))

    def du(self) -> Usage:
        return versions.looking.usage(self._look(), self.dir)

    def doctor(self) -> list[Check]:
        return versions.doctor.examine(self._look(), self.dir)


def _said_facts(metrics: Mapping[str, Any] | None, params: Mapping[str, Any] | None) -> dict[str, Any]:
    return {name: dict(value) for name, value in (("metrics", metrics), ("params", params)) if value}
