"""What changed: stage against HEAD, working files against the stage. Changes nothing but the stat cache."""

from __future__ import annotations

import contextlib
import os
import stat as modes
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence

from memlake.errors import Unavailable
from memlake.records import Change, Entry, Status, count, short
from memlake.versions.checkout import worktree
from memlake.versions.checkout.context import Checkout
from memlake.versions.checkout.ignore import ALWAYS, Ignore
from memlake.versions.checkout.local import NOT_HERE, Local, Tracked, pack_stat
from memlake.versions.checkout.pending import Pending
from memlake.versions.history.bases import reachable
from memlake.versions.paths import FILES, matches, parents

Difference = tuple[tuple[Change, ...], tuple[str, ...]]


def compare(here: Checkout, *, untracked: bool = True, purged: bool = False) -> Difference:
    """(changes of working files against the stage, untracked paths; a whole untracked folder as `folder/`).

    A file whose content was purged could not be written here, so its absence is not a change, unless it was here before
    or the caller wants `purged` ones too. Nor is that of a file whose content is at a remote only.
    """
    scan = _Scan(here.local, here.root, untracked)
    scan.scan_folder("", Ignore(here.root))
    changes, new = scan.result()
    absent = {c.path.removeprefix(FILES): c.old.oid for c in changes if c.old is not None and c.new is None}
    away = find_never_here(here.local, absent, here.history.objects.find_away(absent.values()))
    if away:  # local.db was lost, and with it the marks
        with contextlib.suppress(Unavailable):
            here.local.set_stats(dict.fromkeys(away, (NOT_HERE, False)))
    hidden = away if purged else away | _find_purged_away(here, changes)
    return tuple(c for c in changes if c.path.removeprefix(FILES) not in hidden), new


def find_never_here(local: Local, absent: Mapping[str, str], oids: set[str]) -> set[str]:
    """Those of some paths, each with its content, that were never written here because theirs is one of these oids."""
    rows = local.find_tracked(path for path, oid in absent.items() if oid in oids)
    return {path for path, row in rows.items() if not row.stat}


def _find_purged_away(here: Checkout, changes: Iterable[Change]) -> set[str]:
    """Files that were never here, because their content was purged before they could be written."""
    absent = {c.path.removeprefix(FILES): c.old.oid for c in changes if c.old is not None and c.new is None}
    return find_never_here(here.local, absent, here.history.objects.find_purged(absent.values()))


class _Scan:
    """One walk over the working files, compared with what local.db tracks."""

    def __init__(self, local: Local, root: str, untracked: bool) -> None:
        self._local, self._root, self._show = local, root, untracked
        self._absent = local.stats()  # what was not met on disk yet
        self._sorted = list(self._absent)
        self._suspects: list[str] = []
        self._changes: list[Change] = []
        self._untracked: list[str] = []
        self._fresh: dict[str, tuple[bytes | None, bool]] = {}

    def scan_folder(self, folder: str, ignore: Ignore) -> None:
        """Compare a folder and those in it. Hot: ten thousand files must cost well under a tenth of a second."""
        prefix = f"{folder}/" if folder else ""
        absent, pack, folders = self._absent, pack_stat, []
        # With a handle on the folder the system need not resolve its path again for each file.
        fd = os.open(f"{self._root}/{folder}" if folder else self._root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            with os.scandir(fd) as entries:
                for entry in entries:
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
            path = prefix + name
            at = bisect_left(self._sorted, path + "/")
            if at < len(self._sorted) and self._sorted[at].startswith(path + "/"):
                # It holds tracked files, which we compare even if the folder was ignored later.
                self.scan_folder(path, ignore.enter(name))
            elif self._show and not ignore.ignores(name, True):
                self._untracked += [path + "/"] if any(worktree.walk(self._root, path, ignore.enter(name))) else []

    def _compare_content(self, path: str, row: Tracked, old: Entry) -> None:
        """Note whether a file whose stat changed has other content, too."""
        stat = worktree.find_stat(self._root, path)
        if stat is None or not (modes.S_ISREG(stat.st_mode) or modes.S_ISLNK(stat.st_mode)):
            self._absent[path] = None
            return
        if old.kind == "file" and modes.S_ISREG(stat.st_mode) and stat.st_size != old.size:
            # Another size means other content, without reading it.
            new = Entry("", "file", stat.st_size, int(bool(stat.st_mode & 0o100)))
            self._note_other(row, Change(FILES + path, old, new))
            return
        seen = worktree.read(self._root, path, None)
        if seen.entry == old:
            self._fresh[path] = (seen.stat, seen.racy)
        else:
            self._note_other(row, Change(FILES + path, old, seen.entry))

    def _note_other(self, row: Tracked, change: Change) -> None:
        """A file with other content. One that was not here before is here now, so its mark goes."""
        self._changes.append(change)
        if row.stat == NOT_HERE:
            self._fresh[row.path] = (None, True)

    def result(self) -> Difference:
        absent = [path for path, stat in self._absent.items() if stat != NOT_HERE]
        rows = self._local.find_tracked([*self._suspects, *absent])
        entries = {path: row.entry for path, row in rows.items()}
        for path in self._suspects:
            if (old := entries.get(path)) is not None:  # None: another process untracked it just now
                self._compare_content(path, rows[path], old)
        absent += [path for path in self._suspects if path in self._absent]
        gone = [Change(FILES + path, old, None) for path in absent if (old := entries.get(path)) is not None]
        if self._fresh:
            with contextlib.suppress(Unavailable):  # only a cache: a full or read-only disk must not stop `status`
                self._local.set_stats(self._fresh)
        changes = sorted(self._changes + gone, key=lambda change: change.path)
        return tuple(changes), tuple(sorted(self._untracked))


# -- what is ignored ----------------------------------------------------------------------------


class _Ignored:
    """A walk of its own, so that the scan above does not pay for what is seldom asked for."""

    def __init__(self, local: Local, root: str) -> None:
        self._root, self._tracked = root, set(local.paths())
        self._folders = {folder for path in self._tracked for folder in parents(path)}

    def list_under(self, prefix: str, ignore: Ignore) -> Iterator[str]:
        with os.scandir(f"{self._root}/{prefix}") as entries:
            for entry in sorted(entries, key=lambda entry: entry.name):
                path, is_folder = prefix + entry.name, entry.is_dir(follow_symlinks=False)
                if entry.name in ALWAYS or path in self._tracked:
                    continue
                if path not in self._folders and ignore.ignores(entry.name, is_folder):
                    yield f"{path}/" if is_folder else path
                elif is_folder:
                    yield from self.list_under(f"{path}/", ignore.enter(entry.name))


# -- status -------------------------------------------------------------------------------------


def _describe_step(here: Checkout, pending: Pending) -> str:
    """Where a rebase waits."""
    if pending.rebase is None:
        return ""
    (step, *left), name = pending.rebase.todo, pending.rebase.name
    what = f"at {short(step.commit)} {' '.join(here.history.get(step.commit).subject.split())!r:.60}"
    return f"{what} onto {name}, {count(len(left), 'commit')} after it"


def status(here: Checkout, paths: Sequence[str] = (), *, ignored: bool = False) -> Status:
    """How things stand, in all or at some tree paths."""
    changes, untracked = compare(here, purged=True)
    erased = _find_purged_away(here, changes)
    head, pending = here.head(), here.local.find_pending()
    base = here.local.base
    behind = 0
    if head is not None and base is not None and head.oid != base:
        behind = len(reachable(here.history, [head.seq], [here.history.seq(base)]))
    conflicts = here.local.conflicts()
    # A file with both sides of a conflict is neither modified nor new: it is in conflict.
    met = {conflict.path for conflict in conflicts if conflict.choice is None}
    hidden = met | {FILES + path for path in erased}
    result = Status(
        branch=here.local.branch,
        head=head.oid if head else None,
        staged=here.local.staged_changes(),
        unstaged=tuple(change for change in changes if change.path not in hidden),
        untracked=tuple(path for path in untracked if FILES + path not in met),
        conflicts=conflicts,
        doing=pending.verb if pending else None,
        step=_describe_step(here, pending) if pending else "",
        bisecting=here.local.state("bisect") is not None,
        behind=behind,
        merged=pending.merged if pending else 0,
        ignored=tuple(_Ignored(here.local, here.root).list_under("", Ignore(here.root))) if ignored else (),
        purged=tuple(sorted(erased)),
        away=here.local.count_away(),
    )
    if not paths:
        return result
    return result._replace(
        staged=tuple(change for change in result.staged if matches(change.path, paths)),
        unstaged=tuple(change for change in result.unstaged if matches(change.path, paths)),
        untracked=tuple(file for path in result.untracked for file in _untracked_in(here.root, path, paths)),
        conflicts=tuple(conflict for conflict in result.conflicts if matches(conflict.path, paths)),
        ignored=tuple(path for path in result.ignored if matches(FILES + path.rstrip("/"), paths)),
        purged=tuple(path for path in result.purged if matches(FILES + path, paths)),
        away=sum(stat == NOT_HERE and matches(FILES + path, paths) for path, stat in here.local.stats().items()),
    )


def _untracked_in(root: str, path: str, wanted: Sequence[str]) -> Iterator[str]:
    """The path itself, or the wanted files in it if it is a folder that is not wanted as a whole."""
    if matches(FILES + path.rstrip("/"), wanted):
        yield path
    elif path.endswith("/"):
        rules = Ignore(root)
        for part in path[:-1].split("/"):
            rules = rules.enter(part)
        yield from (file for file, _ in worktree.walk(root, path[:-1], rules) if matches(FILES + file, wanted))
