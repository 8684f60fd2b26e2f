"""What changed: stage against HEAD, working files against the stage. Reads; refreshes the stat cache behind itself."""

from __future__ import annotations

import contextlib
import os
import stat as modes
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence

from memlake.errors import Unavailable
from memlake.records import Change, Entry, Status
from memlake.versions.checkout import worktree
from memlake.versions.checkout.context import Here
from memlake.versions.checkout.ignore import ALWAYS, Ignore
from memlake.versions.checkout.local import Local, pack_stat
from memlake.versions.history.bases import reachable
from memlake.versions.paths import FILES, matches

Difference = tuple[tuple[Change, ...], tuple[str, ...]]


def compare(here: Here, *, untracked: bool = True, purged: bool = False) -> Difference:
    """(changes of working files against the stage, untracked paths; a whole untracked folder as `folder/`).

    A file whose content was purged cannot be written here, so that it is not is no change, unless it was here before
    or `purged` asks for it.
    """
    scan = _Scan(here.local, here.root, untracked)
    scan.folder("", Ignore(here.root))
    changes, new = scan.result()
    if purged:
        return changes, new
    away = _purged_away(here, changes)
    return tuple(c for c in changes if c.path not in away), new


def _purged_away(here: Here, changes: Iterable[Change]) -> set[str]:
    """Tree paths of files that were never here, because their content was purged before they could be written."""
    absent = [c for c in changes if c.old is not None and c.new is None]
    erased = here.history.objects.find_purged(c.old.oid for c in absent if c.old is not None)
    away = here.local.find_tracked(
        c.path.removeprefix(FILES) for c in absent if c.old is not None and c.old.oid in erased
    )
    return {FILES + path for path, row in away.items() if row.stat is None}


class _Scan:
    def __init__(self, local: Local, root: str, untracked: bool) -> None:
        self._local, self._root, self._show = local, root, untracked
        self._absent = local.stats()  # what was not met on disk yet
        self._sorted = list(self._absent)
        self._suspects: list[str] = []
        self._changes: list[Change] = []
        self._untracked: list[str] = []
        self._fresh: dict[str, tuple[bytes | None, bool]] = {}

    def folder(self, folder: str, ignore: Ignore) -> None:
        """Hot: ten thousand files must cost well under a tenth of a second."""
        prefix = f"{folder}/" if folder else ""
        absent, pack, folders = self._absent, pack_stat, []
        # By a handle on the folder, the system need not find the way to it again for each of its files.
        fd = os.open(f"{self._root}/{folder}" if folder else self._root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            with os.scandir(fd) as found:
                for entry in found:
                    name = entry.name
                    path = prefix + name
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(name)
                    elif path in absent:
                        if absent.pop(path) != pack(entry.stat(follow_symlinks=False)):
                            self._suspects.append(path)
                    elif self._show and worktree.can_be_kept(entry) and not ignore.ignores(name, False):
                        self._untracked.append(path)
        finally:
            os.close(fd)
        for name in folders:
            self._subfolder(prefix + name, name, ignore)

    def _holds_tracked(self, folder: str) -> bool:
        at = bisect_left(self._sorted, folder + "/")
        return at < len(self._sorted) and self._sorted[at].startswith(folder + "/")

    def _subfolder(self, path: str, name: str, ignore: Ignore) -> None:
        if self._holds_tracked(path):
            # Tracked files below keep being looked at, even when the folder came to be ignored later.
            self.folder(path, ignore.enter(name))
        elif self._show and not ignore.ignores(name, True):
            inner = ignore.enter(name)
            if next(worktree.walk(self._root, path, inner), None) is not None:
                self._untracked.append(path + "/")

    def _look_at(self, path: str, old: Entry) -> None:
        """A file whose stat is another: whether its content is, too."""
        found = worktree.find_stat(self._root, path)
        if found is None:
            self._absent[path] = None
            return
        if old.kind == "file" and modes.S_ISREG(found.st_mode) and found.st_size != old.size:
            # The content is another: no need to read it to know that.
            self._changes.append(
                Change(FILES + path, old, Entry("", "file", found.st_size, int(bool(found.st_mode & 0o100))))
            )
            return
        if not (modes.S_ISREG(found.st_mode) or modes.S_ISLNK(found.st_mode)):
            self._absent[path] = None
            return
        seen = worktree.read(self._root, path, None)
        if seen.entry == old:
            self._fresh[path] = (seen.stat, seen.racy)
        else:
            self._changes.append(Change(FILES + path, old, seen.entry))

    def result(self) -> Difference:
        entries = {path: row.entry for path, row in self._local.find_tracked([*self._suspects, *self._absent]).items()}
        for path in self._suspects:
            if (old := entries.get(path)) is not None:  # None: another process untracked it just now
                self._look_at(path, old)
        gone = [Change(FILES + path, old, None) for path in self._absent if (old := entries.get(path)) is not None]
        if self._fresh:
            with contextlib.suppress(Unavailable):  # only a cache: a full or read-only disk must not stop a look
                self._local.set_stats(self._fresh)
        changes = sorted(self._changes + gone, key=lambda change: change.path)
        return tuple(changes), tuple(sorted(self._untracked))


def _folders_of(paths: Iterable[str]) -> set[str]:
    folders: set[str] = set()
    for path in paths:
        folder = path.rpartition("/")[0]
        while folder and folder not in folders:
            folders.add(folder)
            folder = folder.rpartition("/")[0]
    return folders


# -- what is ignored ----------------------------------------------------------------------------


class _Ignored:
    """A walk of its own: the scan above must not pay for what is seldom asked."""

    def __init__(self, local: Local, root: str) -> None:
        self._root, self._tracked = root, set(local.paths())
        self._folders = _folders_of(self._tracked)

    def below(self, prefix: str, ignore: Ignore) -> Iterator[str]:
        with os.scandir(f"{self._root}/{prefix}") as found:
            for entry in sorted(found, key=lambda entry: entry.name):
                path, is_folder = prefix + entry.name, entry.is_dir(follow_symlinks=False)
                if entry.name in ALWAYS or path in self._tracked:
                    continue
                if path not in self._folders and ignore.ignores(entry.name, is_folder):
                    yield f"{path}/" if is_folder else path
                elif is_folder:
                    yield from self.below(f"{path}/", ignore.enter(entry.name))


# -- status -------------------------------------------------------------------------------------


def status(here: Here, paths: Sequence[str] = (), *, ignored: bool = False) -> Status:
    """How things stand, in all or at some tree paths."""
    changes, untracked = compare(here, purged=True)
    away = _purged_away(here, changes)
    head, pending = here.head(), here.local.find_pending()
    base = here.local.base
    behind = 0
    if head is not None and base is not None and head.oid != base:
        behind = len(reachable(here.history, [head.seq], [here.history.seq(base)]))
    conflicts = here.local.conflicts()
    # A file with both sides of a conflict is neither modified nor new: it is in conflict.
    met = {conflict.path for conflict in conflicts if conflict.choice is None}
    hidden = met | away
    found = Status(
        branch=here.local.branch,
        head=head.oid if head else None,
        staged=here.local.staged_changes(),
        unstaged=tuple(change for change in changes if change.path not in hidden),
        untracked=tuple(path for path in untracked if FILES + path not in met),
        conflicts=conflicts,
        doing=pending.verb if pending else None,
        behind=behind,
        merged=pending.merged if pending else 0,
        ignored=tuple(_Ignored(here.local, here.root).below("", Ignore(here.root))) if ignored else (),
        purged=tuple(sorted(path.removeprefix(FILES) for path in away)),
    )
    return _only(here.root, found, paths) if paths else found


def _only(root: str, found: Status, wanted: Sequence[str]) -> Status:
    return found._replace(
        staged=tuple(change for change in found.staged if matches(change.path, wanted)),
        unstaged=tuple(change for change in found.unstaged if matches(change.path, wanted)),
        untracked=tuple(path for one in found.untracked for path in _untracked_in(root, one, wanted)),
        conflicts=tuple(conflict for conflict in found.conflicts if matches(conflict.path, wanted)),
        ignored=tuple(path for path in found.ignored if matches(FILES + path.rstrip("/"), wanted)),
        purged=tuple(path for path in found.purged if matches(FILES + path, wanted)),
    )


def _untracked_in(root: str, path: str, wanted: Sequence[str]) -> Iterator[str]:
    """The path itself, or the wanted files in it when it is a folder that is not wanted as a whole."""
    if matches(FILES + path.rstrip("/"), wanted):
        yield path
    elif path.endswith("/"):
        rules = Ignore(root)
        for part in path[:-1].split("/"):
            rules = rules.enter(part)
        yield from (file for file, _ in worktree.walk(root, path[:-1], rules) if matches(FILES + file, wanted))
