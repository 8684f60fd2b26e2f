"""Repo: the verbs, each a short method that wires the parts. A waiting merge, stash and upkeep have their own files."""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Self, overload

from memlake import dataset, governance, memories, projects, versions
from memlake import repo as later
from memlake.calls import check_methods
from memlake.dataset.kind import DATASET
from memlake.errors import AlreadyExists, Conflict, Error, InvalidInput, pasted
from memlake.objects.forks import check_process
from memlake.records import Author, Change, Commit, Entry, Lane, Merged, Move, Staged, Status
from memlake.repo.open import AnyPath, Opened, SomePaths, each

if TYPE_CHECKING:
    from memlake.dataset.datasets import Datasets, Store
    from memlake.dataset.lineage.rows import RowLineage
    from memlake.governance.policy import Preference
    from memlake.memories.memories import Memories
    from memlake.memories.record import Memory
    from memlake.repo.bisect import Bisect
    from memlake.repo.diff import Diff
    from memlake.repo.git_branches import Followed
    from memlake.repo.merge import Merge
    from memlake.repo.promotions import Promotions
    from memlake.repo.refs import Branches, Tags
    from memlake.repo.remotes import Remotes
    from memlake.repo.show import Shown
    from memlake.repo.stash import Stashes
    from memlake.repo.stored_objects import StoredObjects
    from memlake.repo.sync import Pulled
    from memlake.repo.upkeep import Upkeep
    from memlake.reports import (
        BlameLine,
        Cleaned,
        Match,
        Measurement,
        Operation,
        PurgeReport,
        Rebuilt,
    )
    from memlake.versions.lineage.graph import Lineage
    from memlake.versions.sync.fetch import Fetched
    from memlake.versions.sync.push import Pushed

Progress = Callable[[int, int, str], None]


@check_methods
class Repo(Opened):
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
        given = self._resolve_patterns(*paths)
        if not given and not (all or update):
            raise InvalidInput("nothing was named to add.", hint="Name files or folders, or use: memlake add -A")
        asked = versions.stage.Adding(given or [""], force, update, self._settings.add_warn_secrets, progress)
        detail = " ".join(path or "." for path in given[:5]) or "--all"
        with self._verb() as here, versions.undo.operation(here, "add", detail) as verb:
            staged = versions.stage.add(self._history.objects, self._local, here.root, self._who(), asked)
            verb.changed = versions.undo.has_staged(here, verb, staged)
            return staged

    def rm(self, *paths: SomePaths, cached: bool = False, force: bool = False, dry_run: bool = False) -> Staged:
        how = versions.stage.Removing(cached, force, dry_run)
        with self._verb() as here:
            return versions.stage.remove(here, self._resolve_patterns(*paths), how)

    def mv(self, src: AnyPath, dst: AnyPath, force: bool = False, dry_run: bool = False) -> Staged:
        source, target = self._resolve_files(src, dst)
        with self._verb() as here:
            return versions.stage.move(here, source, target, force=force, dry_run=dry_run)

    def status(self, *paths: AnyPath, ignored: bool = False) -> Status:
        return versions.status.status(self._look_at_files(), self._resolve_tree_paths(paths), ignored=ignored)

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
        by, only = versions.write.author_of(author), self._resolve_files(*paths)
        saying = versions.commit.Saying(
            message, by, [*map(self._resolve_use, uses)], metrics, params, amend, allow_empty, only
        )
        given = self._give()
        with self._verb() as here:
            if only:
                versions.commit.check_known(here, only)
            if not only and not all:
                return versions.commit.commit(here, saying, given)
            asked = versions.stage.Adding(
                self._resolve_patterns(*paths) or [""], False, True, self._settings.add_warn_secrets
            )
            with versions.undo.staging_first(here) as found:
                versions.stage.add(self._history.objects, self._local, here.root, self._who(), asked)
                return versions.commit.commit(here, saying, given._replace(found=found))

    def restore(
        self, *paths: SomePaths, source: str | None = None, staged: bool = False, worktree: bool | None = None,
        overlay: bool = False,
    ) -> tuple[Change, ...]:  # fmt: skip
        """Files, the stage or both as `source` has them; `overlay` keeps tracked files that it does not have."""
        files, wanted = not staged if worktree is None else worktree, self._resolve_patterns(*paths)
        with self._verb() as here:
            return versions.branch.restore(here, wanted, source, staged=staged, worktree=files, overlay=overlay)

    def clean(self, *paths: SomePaths, folders: bool = False, ignored: bool = False, dry_run: bool = False) -> Cleaned:
        """Remove files that are not tracked; `undo` brings them back, but not `ignored` ones."""
        how = versions.clean.Cleaning(self._resolve_tree_paths(each(paths)), folders, ignored, dry_run)
        if dry_run:
            return versions.clean.clean(self._look_at_files(), how)
        with self._verb() as here:
            return versions.clean.clean(here, how)

    # -- looking ------------------------------------------------------------------------------

    def show(self, rev: str | Commit = "HEAD", lane: Lane = "work", *, paths: Sequence[AnyPath] = ()) -> Shown:
        """A commit, what it changed, in all or at some paths or patterns, and its metrics, params and inputs."""
        commit = rev if isinstance(rev, Commit) else versions.rev.resolve(self._look(), rev, lane)
        return later.show.Shown(self, commit, self._resolve_tree_paths(paths))

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
        where: str | None = None,
    ) -> Iterator[Commit]:
        """Commits, newest first. `text`: those that add or remove it; `follow`: the one path past exact renames.

        `author` and `grep` are regular expressions, found anywhere in the author and in the message. `where` is a
        condition on what they record, such as "metrics.accuracy < 0.9".
        """
        query = versions.show.LogQuery(
            rev, lane, self._resolve_tree_paths(paths), limit, skip, since, until, author, grep, first_parent, all,
            text, follow, reverse, where,
        )  # fmt: skip
        return versions.show.log(self._look(), query)

    def metrics(
        self, *revs: str, where: str | None = None, sort: str | None = None, reverse: bool = False,
        limit: int | None = None,
    ) -> list[Measurement]:  # fmt: skip
        """What the commits of a rev or a range record, newest first; or of several revs or branch patterns, a row each.

        `sort` is a name, the largest value first; `where` a condition, "accuracy > 0.9 && params.lr == 0.1".
        """
        return versions.metrics.list_measurements(
            self._look(), versions.metrics.Query(revs, where, sort, reverse, limit)
        )

    def diff(
        self,
        a: str | None = None,
        b: str | None = None,
        *,
        staged: bool = False,
        paths: Sequence[AnyPath] = (),
        lane: str | None = None,
    ) -> Diff:
        """What differs between the working files and the stage, or a rev; two revs, or a range; the stage and a rev."""
        sides = versions.diff.find_sides(self._look(), a, b, staged=staged)
        here = self._look() if sides[1] not in ("", ":") else self._look_at_files()
        changes = versions.diff.diff(here, a, sides, paths=self._resolve_tree_paths(paths), lane=lane)
        return later.diff.Diff.of(self, changes, sides)

    @property
    def objects(self) -> StoredObjects:
        """Content by its id: `repo.objects.at("data.csv").oid`, `repo.objects.read(oid)`."""
        return later.stored_objects.StoredObjects(self)

    def read(self, path: AnyPath, rev: str | None = "HEAD") -> bytes:
        """The content of a path in a commit; ":" is the stage, None the working file."""
        if rev is None:
            return versions.show.working_bytes(Path(self._local.root), os.fspath(path))
        return self.objects.read(self.objects.at(path, rev).oid)

    def open(self, path: AnyPath, rev: str = "HEAD") -> BinaryIO:
        return self.objects.open(self.objects.at(path, rev).oid)

    def ls(self, rev: str = "HEAD", prefix: str = "", *, paths: Sequence[AnyPath] = ()) -> versions.show.Listing:
        """(tree path, entry) of all that starts with a prefix, or of what some paths or patterns mean.

        ":" is the stage.
        """
        here, wanted = self._look(), self._resolve_tree_paths(paths)
        if wanted:
            return versions.show.Listing(lambda: versions.show.list_paths(here, rev, wanted))
        return versions.show.Listing(lambda: versions.show.list_state(here, rev, prefix))

    def blame(self, path: AnyPath, rev: str = "HEAD") -> list[BlameLine]:
        full = self._tree_path(path)
        versions.show.entry_at(self._look(), full, rev)
        start = versions.show.commit_for(self._look(), full, rev)
        return versions.log.blame(self._history, start, full, partial(versions.worktree.path_as_typed, self.root))

    def grep(
        self, pattern: str, rev: str | None = None, *, paths: Sequence[AnyPath] = (), lane: str | None = None,
        ignore_case: bool = False, word: bool = False, fixed: bool = False,
    ) -> Iterator[Match]:  # fmt: skip
        """Lines that match a regular expression, or with `fixed` a text: of the tracked working files, or of a commit.

        Memories and datasets are searched where `paths` names their room, or `lane` does: "work", "memory" or "all".
        """
        here = self._look_at_files() if rev is None and self._local.databases else self._look()
        where = versions.grep.Where(rev, self._resolve_tree_paths(paths), lane)
        return versions.grep.grep(here, versions.grep.Sought(pattern, ignore_case, word, fixed), where)

    # -- branches -----------------------------------------------------------------------------

    @property
    def branches(self) -> Branches:
        """All branches: `for branch in repo.branches`, `repo.branches.create("dev")`, `repo.branches.current`."""
        return later.refs.Branches(self)

    @property
    def tags(self) -> Tags:
        """All tags: `for tag in repo.tags`, `repo.tags.create("v1")`, `repo.tags.describe()`."""
        return later.refs.Tags(self)

    def switch(
        self, name: str, *, create: bool = False, detach: bool = False, at: str | None = None, force: bool = False,
        reset: bool = False,
    ) -> tuple[Change, ...]:  # fmt: skip
        with self._verb() as here:
            return versions.branch.switch(here, name, versions.branch.Going(create, detach, at, force, reset))

    def merge(
        self, rev: str, *, ff: bool = True, only_ff: bool = False, message: str | None = None,
        conflict: str | None = None, strategy: str = "", squash: bool = False,
        metrics: Mapping[str, Any] | None = None, params: Mapping[str, Any] | None = None,
        prefer: str | None = None, margin: float = 0.0, lower_is_better: bool = False,
    ) -> Merge:  # fmt: skip
        """Join another branch into this one; `conflict` is how files are marked, "merge" or "diff3".

        `strategy` ("ours", "theirs", "union" or "latest") decides what both sides changed. `squash` makes one commit
        with one parent of all that the branch did to files. `metrics` and `params` are kept with the merge commit, so
        with them one is made where a fast-forward would do.
        `prefer` names a metric, "metrics.accuracy": of what both changed, the side with the better value is taken, if
        it is better by more than `margin`; else the rules in policy/merge.toml decide, and what they do not waits.
        """
        better = None
        if prefer is not None and strategy:
            raise InvalidInput(f"the strategy {strategy!r} decides all there is, and leaves nothing to prefer.")
        if prefer is not None:
            better = governance.policy.parse_preference(prefer, margin=margin, lower=lower_is_better)
        elif margin or lower_is_better:
            raise InvalidInput("a margin, and what is better, belong to prefer. Nothing was changed.")
        given, facts = self._give(better), later.merge.said_facts(metrics, params)
        how = versions.merge.How(ff, only_ff, message, self._marks_base(conflict), given, facts, strategy, squash)
        with self._verb() as here:
            return later.merge.Merge.of(self, versions.merge.merge_rev(here, rev, how))

    @property
    def promotions(self) -> Promotions:
        """What one branch takes over from another: `repo.promotions.create(...)`, `.list()`, `.undo()`."""
        return later.promotions.Promotions(self)

    def _give(self, prefer: Preference | None = None) -> versions.merge.Given:
        """What a merge asks of the layers above: whom kinds ask, and who judges it."""
        return versions.merge.Given(
            self,
            judge=lambda case: governance.judge.judge_merge(self._history, case, prefer),
            recall=self._settings.merge_rerere,
        )

    def _marks_base(self, conflict: str | None) -> bool:
        """Whether markers show what both sides had before, too."""
        style = conflict or self._settings.merge_conflict
        if style not in ("merge", "diff3"):
            raise InvalidInput(f"there is no way {style!r} to mark conflicts.", hint="Use merge or diff3.")
        return style == "diff3"

    @property
    def pending_merge(self) -> Merge:
        """The merge, revert or cherry-pick that waits in this checkout, to choose, conclude or abort."""
        return later.merge.Merge.of(self, Merged(None, conflicts=self._local.conflicts()))

    def reset(self, rev: str = "HEAD", mode: str = "mixed") -> tuple[Change, ...]:
        with self._verb() as here:
            return versions.branch.reset(here, rev, mode)

    def revert(
        self, rev: str, no_commit: bool = False, *, mainline: int | None = None, conflict: str | None = None,
        strategy: str = "",
    ) -> Merge:  # fmt: skip
        recall = self._settings.merge_rerere
        how = versions.merge.Picking(not no_commit, mainline, False, self._marks_base(conflict), strategy, recall)
        with self._verb() as here:
            return later.merge.Merge.of(self, versions.merge.revert(here, rev, how))

    def cherry_pick(
        self, rev: str, no_commit: bool = False, *, mainline: int | None = None, cite: bool = False,
        conflict: str | None = None, strategy: str = "",
    ) -> Merge:  # fmt: skip
        recall = self._settings.merge_rerere
        how = versions.merge.Picking(not no_commit, mainline, cite, self._marks_base(conflict), strategy, recall)
        with self._verb() as here:
            return later.merge.Merge.of(self, versions.merge.cherry_pick(here, rev, how))

    def rebase(
        self, upstream: str, branch: str | None = None, *, onto: str | None = None, todo: str | None = None,
        conflict: str | None = None,
    ) -> Merge:  # fmt: skip
        """Repeat what a branch has beyond `upstream` on top of it, or of `onto`; the branch moves when all is done.

        `todo` says what becomes of each commit, a line each: pick, reword, squash, fixup or drop, its id, its subject.
        """
        asked = versions.rebase.Asked(upstream, branch, onto, todo, self._marks_base(conflict))
        with self._verb() as here:
            return later.merge.Merge.of_rebase(self, here, versions.rebase.rebase(here, asked))

    @property
    def bisect(self) -> Bisect:
        """Finding the commit that first went wrong: `repo.bisect.search(...)`, or by hand `start`, `mark`, `reset`."""
        return later.bisect.Bisect(self)

    @property
    def stash(self) -> Stashes:
        """Uncommitted work put aside: `repo.stash.push()`, `repo.stash.pop()`."""
        return later.stash.Stashes(self)

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
        by, records = versions.write.author_of(author) or self._who(), versions.write.encode_texts(changes)
        asked = versions.write.Request(records, message, branch, by, expects)
        return versions.write.write(self._look(), asked, self._group())

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
        group = versions.write.Group(message)
        process = os.getpid()
        with self._join_transaction(group):
            yield self
        check_process(process)
        versions.write.write_group(self._look(), group)

    # -- memories -----------------------------------------------------------------------------

    def memories(self, branch: str | None = None) -> Memories:
        """What agents remember on a branch. The branch is fixed now: a switch elsewhere does not redirect it."""
        followed = self._find_followed() if branch is None else None
        name = branch or (followed.base if followed else self._memory_branch())
        memories.branch_expiry.check(self._look(), name)
        versions.refs.get(self._history.db, name)
        with self._opening:
            self._refuse_closed()
            if self._shared is None:
                self._shared = memories.resources.Shared(self.dir, self._history, self._local, self._settings)
            shared = self._shared
        org = None if self._settings.memory_org == "*" else self._settings.memory_org  # None: all of them are seen
        context = memories.context.MemoryContext(
            self._look(), shared.index, name, self._settings, self._group, shared.vector_of, shared.rerank,
            shared.read_counts, org=org, found=self._place(), fork=self._fork(followed), formats=later.formats.FORMATS,
            note_holders=self._note_holders,
        )  # fmt: skip
        return memories.memories.Memories(context, shared)

    def _note_holders(self, report: PurgeReport) -> PurgeReport:
        return self.remotes.note_holders(report)  # only here, because hooks do not load what remotes need

    def _fork(self, followed: Followed | None) -> Callable[[], str] | None:
        if followed is None or followed.name == followed.base:
            return None
        return partial(later.git_branches.make_branch, self, followed)

    def _place(self) -> projects.Place:
        """The project we are in. The personal repo holds memories of many, and notes which names are of one."""
        if self._is_personal():
            return self._with_learned(projects.find_place())
        place = projects.find_place_in(self.root)
        if place.own and place.project.startswith("/"):  # a path would tell others where it lies on this machine
            place = place._replace(names=(f"{os.path.basename(place.root)}-{self._id[-12:]}", *place.names))
        return place

    def _with_learned(self, place: projects.Place) -> projects.Place:
        """The place with the names its project had in other clones, before it had the remote by which it is known."""
        if place == projects.NOWHERE:
            return place
        known = self._local.json_state("projects") or {}
        ours = known.get(place.project, []) if isinstance(known, dict) else []
        noted = [name for name in place.names[1:] if not name.startswith("/")]
        if not set(noted) <= set(ours):
            ours = list(dict.fromkeys((*ours, *noted)))
            with contextlib.suppress(Error):  # then other clones learn it another time
                self._local.set_state(projects=json.dumps({**known, place.project: ours}))
        return place._replace(names=tuple(dict.fromkeys((*place.names, *ours))))

    # -- datasets -----------------------------------------------------------------------------

    def datasets(self, branch: str | None = None) -> Datasets:
        """Typed rows: read, chained and saved. On the branch that is checked out at each save, unless one is named."""
        if branch is not None:
            versions.refs.get(self._history.db, branch)
        return self._rows().datasets(self._look(), branch, self._group)

    def _rows(self) -> Store:
        with self._opening:
            self._refuse_closed()
            if self._store is None:
                self._store = dataset.datasets.Store(
                    self.dir, self._history.objects, int(self._settings.storage_cache_gb * 1e9)
                )
            return self._store

    def _resolve_use(self, text: str) -> str:
        """A dataset as its own verbs take it, `pets@1.0.0`, as its path; anything else as it is."""
        name, head = text.partition("@")[0], self._look().head()
        is_file = "/" in name or (self.root / name).is_file() or head is None
        is_known = not is_file and any(self._history.scan(head, f"{DATASET.folder}{name}/"))
        return self.datasets().get(text).path if is_known else text

    @overload
    def lineage(
        self, of: str, *, up: bool = True, down: bool = True, depth: int | None = None, column: str | None = None,
    ) -> Lineage: ...  # fmt: skip

    @overload
    def lineage(
        self, of: str, *, up: bool = True, down: bool = True, where: str | None, rows: bool = False
    ) -> RowLineage: ...

    def lineage(
        self, of: str, *, up: bool = True, down: bool = True, depth: int | None = None, column: str | None = None,
        where: str | None = None, rows: bool = False,
    ) -> Lineage | RowLineage:  # fmt: skip
        """What a file, a dataset, a memory or a commit was made from, and what was made from it.

        `where` chooses rows, as `id = 17`, of a file `row = 3`: which rows and files each came from, and which rows,
        versions and files rest on it. With `rows` every row is traced, and each row of an aggregate is named.
        """
        if where is None and not rows:
            return later.lineage.trace(self, of, versions.graph.Asked(up, down, depth, column))
        if depth is not None or column is not None:
            raise InvalidInput("a depth or a column is of a graph, and rows are traced without one.")
        return later.lineage.trace_rows(self, of, where, up=up, down=down, rows=rows)

    def rebuild(self, of: str, *, check: bool = False) -> Rebuilt:
        """Run what made a version or a file again, in a scratch folder, and compare; `check`: could it be run?"""
        return later.rebuild.rebuild(self, of, check=check)

    # -- sharing ------------------------------------------------------------------------------

    @property
    def remotes(self) -> Remotes:
        """Where this repo is shared: `repo.remotes.add("origin", "s3://bucket/pets")`."""
        return later.remotes.Remotes(self)

    def fetch(self, remote: str | None = None, *, progress: Progress | None = None, dry_run: bool = False) -> Fetched:
        """Bring what a remote has; your branches stay as they are."""
        return later.sync.fetch(self, remote, progress, dry_run=dry_run)

    def push(
        self, remote: str | None = None, *refs: str, tags: bool = False, delete: bool = False, force: bool = False,
        force_with_lease: Mapping[str, str | None] | bool = False, memories: bool = True,
        progress: Progress | None = None, dry_run: bool = False,
    ) -> Pushed:  # fmt: skip
        """Send this branch, or the refs named, to a remote with all they need."""
        return later.sync.push(
            self, remote, refs, tags=tags, delete=delete, force=force, lease=force_with_lease, memories=memories,
            progress=progress, dry_run=dry_run,
        )  # fmt: skip

    def pull(
        self, remote: str | None = None, branch: str | None = None, *, ff: bool = True, only_ff: bool = False,
        progress: Progress | None = None,
    ) -> Pulled:  # fmt: skip
        """Fetch, and join what came to this branch; memories of both sides are merged by themselves."""
        return later.sync.pull(self, remote, branch, progress, ff=ff, only_ff=only_ff)

    # -- keeping ------------------------------------------------------------------------------

    @property
    def upkeep(self) -> Upkeep:
        """Checks, cleaning, erasing: `repo.upkeep.gc()`, `repo.upkeep.fsck()`, `repo.upkeep.purge(...)`."""
        return later.upkeep.Upkeep(self)

    def undo(self, *, project: str | None = None, files: bool = True) -> Operation:
        """Take back the last operation. In a repo of many projects not one that wrote a memory of another project than
        the one we are in, or the one named ("*": any). Without `files`, only one that wrote memories.
        """
        with self._local.verb():
            here = self._look()
            return (versions.undo.undo_interrupted(here) if files else None) or self._undo(project, files)

    def _undo(self, project: str | None, files: bool) -> Operation:
        taken: list[Memory] = []
        with self._verb() as here:
            done = versions.undo.undo(here, self._check_of_project("undo", project, taken, files=files))
        return done._replace(detail=f"{done.detail}: {memories.timeline.shorten(taken[0])}") if taken else done

    def _check_of_project(
        self, verb: str, project: str | None, taken: list[Memory], *, files: bool
    ) -> Callable[[Sequence[tuple[str, str]]], None]:
        """What refuses to undo or redo what another project wrote, and without `files` what wrote no memory.

        It puts the memories it finds into `taken`.
        """
        place = self._place()
        seen = None if project == "*" else place.seen if project is None else (*projects.find_names(project), "")

        def check(written: Sequence[tuple[str, str]]) -> None:
            if written:  # else it is no verb of memories, and pays nothing for them
                taken.extend(memories.timeline.list_written(self._history, (oid for _, oid in written)))
                memories.timeline.check_projects(taken, seen, verb)
            elif not files:
                raise Conflict(
                    f"the last operation in {self.root} is about its files, and you are in another working tree. "
                    "Nothing was changed.",
                    hint=f"Take it back there: memlake -C {pasted(str(self.root))} undo"
                    if verb == "undo"
                    else f"Do it again there: memlake -C {pasted(str(self.root))} redo",
                )

        return check

    def redo(self, *, project: str | None = None, files: bool = True) -> Operation:
        """Do again what the last undo took back; bounded by the project and by `files` as `undo` is."""
        with self._verb() as here:
            return versions.undo.redo(here, self._check_of_project("redo", project, [], files=files))

    def operations(self, limit: int = 20) -> list[Operation]:
        return versions.undo.operations(self._look(), limit)
