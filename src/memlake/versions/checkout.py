"""Making the working files be what a commit says: safely, resumably, never over uncommitted work.

The journal in local.db names the target before the first file is touched and is cleared, with the new HEAD
and stat cache, in one transaction after the last. A crash in between is resumed by running it again: a path
that holds the old content (or a beginning of the new) is written, one that holds the new is left, and one
that holds neither was edited by someone and is kept.
"""

from __future__ import annotations

import contextlib
import os
import stat as modes
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from memlake.errors import Conflict, Error, Unavailable
from memlake.objects import disk
from memlake.objects.export import copy_out
from memlake.objects.store import Objects
from memlake.objects.writer import is_large
from memlake.records import Change, Commit, Entry
from memlake.versions import journal, worktree
from memlake.versions.history import History
from memlake.versions.journal import Goal, Plan
from memlake.versions.local import Local, Tracked, is_racy, pack_stat
from memlake.versions.paths import FILES, check_file, file_path, parents

Saved = Mapping[str, Entry | None]
_BATCH_FILES, _BATCH_BYTES = 2000, 16 << 20
_DIR = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


Stats = Mapping[str, tuple[bytes, bool]]


def move_to(
    history: History, local: Local, root: str, goal: Goal, changes: Sequence[Change], *, saved: Saved | None = None
) -> None:
    """Apply changes of files (old -> new entries) and stand on the goal. The caller has checked that it is safe.

    `saved` is uncommitted content that is thrown away on purpose: what such a path holds is then no later edit.
    """
    plan = Plan(goal)
    if saved is not None:
        plan = forced(goal, changes, saved)
    check_bytes(history.objects, changes)
    journal.begin(local, plan)
    stats = write_files(history.objects, root, changes)
    if changes:
        _flush(root)
    finish(local, plan, goal.commit, changes, stats)


def forced(goal: Goal, changes: Sequence[Change], saved: Saved, token: str = "") -> Plan:
    """The plan of a checkout that throws uncommitted content away."""
    writes = [Change(c.path, saved.get(file_path(c.path), c.old), c.new) for c in changes]
    rows = [Tracked(file_path(c.path), c.new, None, True) for c in changes]
    return Plan(goal, token, writes, rows)


def finish(local: Local, plan: Plan, commit: str | None, changes: Iterable[Change], stats: Stats) -> None:
    """One transaction: tracked rows, HEAD, base, what waits, what undo needs, no journal."""
    goal, old, changes = plan.goal, local.base, list(changes)
    rows = {file_path(change.path): Tracked(file_path(change.path), change.new, None, True) for change in changes}
    rows.update((row.path, row) for row in plan.rows)
    written = {file_path(change.path): change.new for change in (*changes, *plan.writes)}
    for path, (stat, racy) in stats.items():
        if path in rows and rows[path].entry == written[path]:  # else the file holds what is not staged
            rows[path] = rows[path]._replace(stat=stat, racy=racy)
    head = f"@{commit}" if goal.head.startswith("@") else goal.head
    with local.db.write():
        local.put(rows.values())
        if plan.doing is None:
            local.clear_doing()
        local.put_conflicts(plan.conflicts)
        local.set_state(head=head, base=commit, doing=plan.doing, journal=None)
        local.db.run_many("UPDATE operation SET undone = ?2 WHERE id = ?1", plan.undone.items())
        if goal.action:
            local.log_head(old, commit, None if head.startswith("@") else head, goal.action, goal.who)
        journal.keep(local)


def resume(history: History, local: Local, root: str) -> list[str]:
    """Finish what was interrupted, or drop it where it had changed nothing; returns paths edited since, and kept."""
    plan = journal.find(local)
    if plan is None:
        return []
    commit, left = plan.goal.commit, journal.stamp(history.db)
    if plan.token:
        commit = left.commit
        if left.token != plan.token:
            local.set_state(journal=None)
            return []
    base = history.get(local.base) if local.base else None
    changes = history.diff(base, history.get(commit) if commit else None, FILES)
    kept: list[str] = []
    stats: Stats = {}
    if plan.files:
        stats = _write_what_is_left(history, local, root, (plan, changes), kept)
    with local.db.write():
        finish(local, plan, commit, changes, stats)
        journal.keep_found(local, plan, left)
    return kept


def _write_what_is_left(
    history: History, local: Local, root: str, work: tuple[Plan, Sequence[Change]], kept: list[str]
) -> Stats:
    plan, changes = work
    # What is staged is on its way into the commit already: the file itself is its owner's.
    staged = local.staged()
    wanted = {change.path: change for change in changes if file_path(change.path) not in staged}
    wanted.update((change.path, change) for change in plan.writes)
    todo = []
    for change in wanted.values():
        place = _where(history.objects, root, change)
        if place == "edited":
            kept.append(file_path(change.path))
        elif place == "before":
            todo.append(change)
    stats = _write_each(history.objects, root, todo, kept)
    _flush(root)
    return stats


def _write_each(objects: Objects, root: str, todo: list[Change], kept: list[str]) -> Stats:
    """A path that cannot be written any more (purged meanwhile, or something in its way) must not stop the others."""
    try:
        return write_files(objects, root, todo)
    except Unavailable:
        raise
    except Error:
        if len(todo) == 1:
            kept.append(file_path(todo[0].path))
            return {}
        half = len(todo) // 2
        first = _write_each(objects, root, todo[:half], kept)
        return {**first, **_write_each(objects, root, todo[half:], kept)}


def _flush(root: str) -> None:
    with disk.named_errors("flushing the working files"):
        disk.sync_filesystem(root)


def _where(objects: Objects, root: str, change: Change) -> str:
    """Whether a path is still as before, done, or was edited by someone else."""
    path = file_path(change.path)
    found = worktree.find_stat(root, path)
    if found is None:
        return "done" if change.new is None else "before"
    if change.new is not None and worktree.holds(root, path, change.new, None, True):
        return "done"
    if change.old is not None and worktree.holds(root, path, change.old, None, True):
        return "before"
    if change.new is not None and _is_beginning(objects, f"{root}/{path}", change.new):
        return "before"
    return "edited"


def _is_beginning(objects: Objects, full: str, entry: Entry) -> bool:
    if entry.kind != "file" or os.path.islink(full):
        return False
    with open(full, "rb") as ours, objects.open(entry.oid) as theirs:
        while True:
            block = ours.read(1 << 20)
            if not block:
                return True
            if theirs.read(len(block)) != block:
                return False


# -- safety -------------------------------------------------------------------------------------


class Safety(NamedTuple):
    """Whether a path may be written; `differs` where it does not hold what is tracked, and `holds` is what it does."""

    safe: bool
    differs: bool = False
    holds: Entry | None = None


def check_safe(local: Local, root: str, changes: Sequence[Change], verb: str) -> dict[str, Entry | None]:
    """Refuse if a change would overwrite uncommitted work.

    Returns what paths hold that differ from the stage and are lost in no commit (they are already what they are to
    become, or were deleted by hand): undo has to bring that back.
    """
    found = _examine(root, changes, local.tracked(file_path(change.path) for change in changes))
    return _agreeing(found, verb)


def check_over_stage(
    local: Local, root: str, changes: Sequence[Change], verb: str, left: Saved = MappingProxyType({})
) -> dict[str, Entry | None]:
    """As check_safe, where what is staged (or in `left`) is no work, only what the files hold beyond it."""
    rows = local.tracked(file_path(change.path) for change in changes)
    plain = {path: row._replace(staged=False, old=None) for path, row in rows.items()}
    found = _examine(root, changes, plain)
    return _agreeing({path: one for path, one in found.items() if not _still_holds(root, path, left)}, verb)


def _agreeing(found: Mapping[str, Safety], verb: str) -> dict[str, Entry | None]:
    _refuse([path for path, one in found.items() if not one.safe], verb)
    return {path: one.holds for path, one in found.items() if one.differs}


def _refuse(unsafe: list[str], verb: str) -> None:
    if unsafe:
        listed = "\n".join(f"  {path}" for path in unsafe[:10])
        more = f"\n  and {len(unsafe) - 10} more" if len(unsafe) > 10 else ""
        raise Conflict(
            f"{verb} would overwrite uncommitted work in:\n{listed}{more}\nNothing was changed.",
            hint="Commit it (memlake commit -a), put it aside (memlake stash), or move the files away.",
        )


def _still_holds(root: str, path: str, left: Saved) -> bool:
    entry = left.get(path)
    return entry is not None and worktree.holds(root, path, entry, None, True)


def unsafe_paths(local: Local, root: str, changes: Sequence[Change]) -> list[str]:
    """Files whose uncommitted content a change would overwrite."""
    found = _examine(root, changes, local.tracked(file_path(change.path) for change in changes))
    return [path for path, one in found.items() if not one.safe]


def _examine(root: str, changes: Sequence[Change], rows: Mapping[str, Tracked]) -> dict[str, Safety]:
    removed = {file_path(change.path) for change in changes if change.new is None}
    paths = {file_path(change.path): change for change in changes}
    return {path: _safety(root, change, rows.get(path), removed) for path, change in paths.items()}


def _safety(root: str, change: Change, row: Tracked | None, removed: set[str]) -> Safety:
    path = file_path(change.path)
    if row is not None and row.staged and row.entry != change.new:
        return Safety(False)
    found = worktree.find_stat(root, path)
    if row is not None and found is not None:
        if row.entry is not None and worktree.holds(root, path, row.entry, row.stat, row.racy):
            return Safety(True)
        if row.staged and row.old is not None and worktree.holds(root, path, row.old, None, True):
            return Safety(True, True, row.old)
    if found is None and (change.new is None or _has_room(root, path, removed)):
        # Deleted by hand, or a folder in its place: agreeing to its removal loses nothing.
        return Safety(True, row is not None and row.entry is not None)
    if change.new is None or not _has_room(root, path, removed):
        return Safety(False)
    same = worktree.holds(root, path, change.new, None, True)
    return Safety(same, same, change.new)


def _has_room(root: str, path: str, removed: set[str]) -> bool:
    """Whether nothing but what is removed stands where a file needs a folder, or in a folder where it must be."""
    for folder in parents(path):
        if worktree.find_stat(root, folder) is not None:
            return folder in removed
    full = f"{root}/{path}"
    if os.path.isdir(full) and not os.path.islink(full):
        return removed.issuperset(_files_in(root, path))
    return True


def in_the_way(root: str, changes: Sequence[Change]) -> list[str]:
    """Files that stand where a new file needs a folder, or in a folder where it must be, and are not removed anyway."""
    wanted = [file_path(change.path) for change in changes if change.new is not None]
    removed = {file_path(change.path) for change in changes if change.new is None}
    found = {folder for path in wanted for folder in parents(path)}
    found = {folder for folder in found if worktree.find_stat(root, folder) is not None}
    for path in wanted:
        if os.path.isdir(f"{root}/{path}") and not os.path.islink(f"{root}/{path}"):
            found.update(_files_in(root, path))
    return sorted(found - removed)


def refuse_in_the_way(root: str, changes: Sequence[Change], verb: str) -> None:
    found = in_the_way(root, changes)
    if found:
        listed = "\n".join(f"  {path}" for path in found[:10])
        raise Conflict(
            f"{verb} needs the place of files that are not tracked:\n{listed}\nNothing was changed.",
            hint="Move them away, then run it again.",
        )


def _files_in(root: str, path: str) -> Iterator[str]:
    """Everything in a folder that is not a folder, as paths relative to the root."""
    for folder, folders, names in os.walk(f"{root}/{path}"):
        links = [name for name in folders if os.path.islink(f"{folder}/{name}")]
        yield from (f"{folder}/{name}"[len(root) + 1 :] for name in (*names, *links))


# -- writing ------------------------------------------------------------------------------------


def write_files(objects: Objects, root: str, changes: Sequence[Change]) -> dict[str, tuple[bytes, bool]]:
    """Remove, then create. Returns the stat of each created file. All paths are followed without links."""
    with disk.named_errors("writing the working files"), _Folders(root) as folders:
        erased = objects.purged(c.new.oid for c in changes if c.new is not None)
        wanted = sorted((c for c in changes if c.new is not None and c.new.oid not in erased), key=lambda c: c.path)
        for change in changes:
            if change.new is None or (change.old is not None and change.new.oid in erased):
                folders.remove(file_path(change.path))
        folders.tidy()
        found: dict[str, os.stat_result] = {}
        for batch in _batches(wanted):
            found.update(_write_batch(objects, folders, batch))
    # Asked once at the end: nobody but us could have changed a file in the instant after we wrote it.
    clock = time.time_ns()
    return {path: (pack_stat(stat), is_racy(stat, clock)) for path, stat in found.items()}


def check_bytes(objects: Objects, changes: Sequence[Change]) -> None:
    """Better no checkout than half of one: everything to be written is there, and small things are sound."""
    wanted = {change.new.oid: change.new.size for change in changes if change.new is not None}
    for oid in objects.purged(wanted):
        del wanted[oid]  # erased on purpose: the file stays away, and status says so
    for oid in objects.missing(wanted):
        objects.size(oid)  # raises
    objects.check_places(wanted)
    small = [oid for oid, size in wanted.items() if not is_large(size)]
    if sum(wanted[oid] for oid in small) <= _BATCH_BYTES:
        for _ in objects.read_many(small):
            pass


def _batches(changes: list[Change]) -> Iterator[list[Change]]:
    batch: list[Change] = []
    size = 0
    for change in changes:
        assert change.new is not None
        batch.append(change)
        size += change.new.size if not is_large(change.new.size) else 0
        if len(batch) >= _BATCH_FILES or size >= _BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _write_batch(objects: Objects, folders: _Folders, batch: list[Change]) -> dict[str, os.stat_result]:
    small = {c.new.oid for c in batch if c.new is not None and not is_large(c.new.size)}
    contents = dict(objects.read_many(small))
    stats = {}
    for change in batch:
        assert change.new is not None
        path = file_path(change.path)
        # Old and new one by one, as git does: a folder emptied first and filled after is far slower on ext4.
        stats[path] = folders.create(objects, path, change.new, contents.get(change.new.oid), replaces=change.old)
    return stats


class _Folders:
    """Folders of the working tree by open handles, so that no link can lead a write elsewhere."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._path: str | None = None
        self._fd = -1
        self._emptied: set[str] = set()

    def __enter__(self) -> _Folders:
        self._top = os.open(self._root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        return self

    def __exit__(self, *_: object) -> None:
        self._leave()
        os.close(self._top)

    def _leave(self) -> None:
        if self._fd >= 0 and self._fd != self._top:
            os.close(self._fd)
        self._fd, self._path = -1, None

    def _enter(self, folder: str, *, make: bool) -> int:
        """A handle on a folder; consecutive paths share it."""
        if folder == self._path:
            return self._fd
        self._leave()
        fd = os.dup(self._top)
        for part in folder.split("/") if folder else ():
            try:
                inner = _open_folder(fd, part, make)
            except OSError as error:
                os.close(fd)
                if isinstance(error, (NotADirectoryError, FileExistsError)) or os.path.lexists(
                    f"{self._root}/{folder}"
                ):
                    raise Conflict(
                        f"{folder!r} must be a folder, but something else stands in its way.",
                        hint="Move it away, then run it again.",
                    ) from error
                raise
            os.close(fd)
            fd = inner
        self._fd, self._path = fd, folder
        return fd

    def remove(self, path: str) -> None:
        folder, _, name = path.rpartition("/")
        try:
            disk.unlink(name, dir_fd=self._enter(folder, make=False))
        except (FileNotFoundError, Conflict):
            return
        except (IsADirectoryError, PermissionError):
            if not os.path.isdir(f"{self._root}/{path}"):
                raise
            return
        if folder:
            self._emptied.add(folder)

    def tidy(self) -> None:
        """Remove folders that the removals emptied, never the one we stand in."""
        self._leave()
        here = os.path.realpath(os.getcwd()) if os.path.exists(".") else ""
        every = {above for folder in self._emptied for above in (*parents(folder), folder)}
        for folder in sorted(every, key=len, reverse=True):
            full = f"{self._root}/{folder}"
            if os.path.realpath(full) != here and not os.path.islink(full):
                with contextlib.suppress(OSError):
                    if not os.listdir(full):
                        disk.rmdir(full)
        self._emptied.clear()

    def create(
        self, objects: Objects, path: str, entry: Entry, content: bytes | None, *, replaces: Entry | None
    ) -> os.stat_result:
        check_file(path)
        folder, _, name = path.rpartition("/")
        at = self._enter(folder, make=True)
        if replaces is not None:
            self._make_room(at, name, path)
        if entry.kind == "link":
            target = os.fsdecode(content if content is not None else objects.read(entry.oid))
            worktree.check_link(self._root, path, target)
            self._make_room(at, name, path)
            disk.symlink(target, name, dir_fd=at)
            return os.stat(name, dir_fd=at, follow_symlinks=False)
        fd = self._new_file(at, name, path, 0o777 if entry.mode else 0o666)
        try:
            if content is not None:
                disk.write_all(fd, content)
            else:
                copy_out(objects, entry.oid, fd)
            return os.fstat(fd)
        except Error:
            disk.unlink(name, dir_fd=at)  # damaged content: no file is better than a beginning of one
            raise
        finally:
            os.close(fd)

    def _new_file(self, at: int, name: str, path: str, mode: int) -> int:
        disk.step("create")
        try:
            return os.open(name, _NEW, mode, dir_fd=at)
        except FileExistsError:
            self._make_room(at, name, path)
            return os.open(name, _NEW, mode, dir_fd=at)

    def _make_room(self, at: int, name: str, path: str) -> None:
        """What stands here was found safe to replace (the same content, or an emptied folder)."""
        try:
            disk.unlink(name, dir_fd=at)
        except FileNotFoundError:
            return
        except (IsADirectoryError, PermissionError):
            if not modes.S_ISDIR(os.stat(name, dir_fd=at, follow_symlinks=False).st_mode):
                raise
            try:
                disk.rmdir(name, dir_fd=at)
            except OSError as error:
                raise Conflict(
                    f"a folder stands where file {path!r} should be.", hint="Move it away, then run it again."
                ) from error


def _open_folder(at: int, name: str, make: bool) -> int:
    try:
        return os.open(name, _DIR, dir_fd=at)
    except FileNotFoundError:
        if not make:
            raise
    disk.mkdir(name, dir_fd=at)
    return os.open(name, _DIR, dir_fd=at)


def target_changes(history: History, local: Local, target: Commit | None) -> tuple[Change, ...]:
    """What files change from what is checked out to a commit."""
    base = history.get(local.base) if local.base else None
    return history.diff(base, target, FILES)
