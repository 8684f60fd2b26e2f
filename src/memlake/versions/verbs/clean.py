"""clean: removing files that are not tracked. What undo brings back is stored first; ignored files never are.

Ignored files hold what can be made again, and passwords: they stay out of the repo, so `clean -x` is for good.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from memlake.named_tuple import NamedTuple
from memlake.records import Change, Entry
from memlake.reports import Cleaned
from memlake.versions.checkout import journal, update, worktree
from memlake.versions.checkout.context import Checkout
from memlake.versions.checkout.ignore import ALWAYS, Ignore
from memlake.versions.paths import FILES, file_problem, matches, parents, unwritable
from memlake.versions.verbs.undo import operation, save_dirty


class Cleaning(NamedTuple):
    """Which files go: tree paths or patterns, also those of untracked folders, also ignored ones."""

    paths: Sequence[str] = ()
    folders: bool = False
    ignored: bool = False
    dry_run: bool = False


def clean(here: Checkout, how: Cleaning) -> Cleaned:
    """Remove untracked files and the folders that this empties. Another repo in here is left alone."""
    found = _Untracked(here, how)
    found.collect("", Ignore(here.root), inside=False)
    waiting = {conflict.path.removeprefix(FILES) for conflict in here.local.list_waiting()}  # the merge put them there
    cleaned = Cleaned(
        tuple(sorted(path for path in found.plain if path not in waiting)),
        tuple(sorted(path for path in found.ignored if path not in waiting)),
        found.left,
    )
    if how.dry_run or not (cleaned.removed or cleaned.ignored):
        return cleaned
    if cleaned.removed:
        with operation(here, "clean", " ".join(cleaned.removed[:5]), files=True) as verb:
            changes = tuple(Change(FILES + path, None, None) for path in cleaned.removed)
            verb.before.saved = save_dirty(here, verb, changes)
            gone = [change for change in update.with_held_content(changes, verb.before.saved) if change.old is not None]
            update.carry_out(here, verb, journal.plan_in_place(here.local, here.who, gone, ()))
    if cleaned.ignored:
        _remove_for_good(here, cleaned.ignored)
    return cleaned


def _remove_for_good(here: Checkout, paths: Sequence[str]) -> None:
    nothing = Entry("", "file")
    update.write_files(here.history.objects, here.root, [Change(FILES + path, nothing, None) for path in paths])


class _Untracked:
    """One walk over the working files for those that are in no commit and not staged."""

    def __init__(self, here: Checkout, how: Cleaning) -> None:
        self._root, self._how, self._tracked = here.root, how, set(here.local.paths())
        self._folders = {folder for path in self._tracked for folder in parents(path)}
        self.plain: list[str] = []
        self.ignored: list[str] = []
        self.left: dict[str, str] = {}

    def collect(self, folder: str, ignore: Ignore, *, inside: bool) -> None:
        """Look through a folder; `inside` one that is ignored, where every file is."""
        for entry in self._list(folder):
            path = f"{folder}/{entry.name}" if folder else entry.name
            is_folder = entry.is_dir(follow_symlinks=False)
            if entry.name in ALWAYS or path in self._tracked:
                continue
            ignored = inside or ignore.ignores(entry.name, is_folder)
            if is_folder:
                self._enter(path, ignore.enter(entry.name), ignored=ignored and path not in self._folders)
            elif self._is_meant(path) and (self._how.ignored or not ignored) and self._can_go(path, entry, ignored):
                (self.ignored if ignored else self.plain).append(path)

    def _list(self, folder: str) -> list[os.DirEntry[str]]:
        try:
            with os.scandir(f"{self._root}/{folder}" if folder else self._root) as entries:
                return sorted(entries, key=lambda entry: entry.name)
        except PermissionError:
            self.left[f"{folder}/"] = "it cannot be read"
            return []

    def _enter(self, path: str, ignore: Ignore, *, ignored: bool) -> None:
        if path not in self._folders:
            # A folder that is named is meant with what is in it, as in git.
            named = any(
                matches(FILES + path, (want,)) or want.startswith(f"{FILES}{path}/") for want in self._how.paths
            )
            if not self._how.folders and not named:
                return
            if ignored and not self._how.ignored:
                return
            if any(os.path.lexists(f"{self._root}/{path}/{name}") for name in ALWAYS):
                self.left[f"{path}/"] = "it is a repo of its own"
                return
        self.collect(path, ignore, inside=ignored)

    def _is_meant(self, path: str) -> bool:
        return not self._how.paths or matches(FILES + path, self._how.paths)

    def _can_go(self, path: str, entry: os.DirEntry[str], ignored: bool) -> bool:
        """Whether it can be removed, and where it is not ignored stored before; else why not is noted."""
        if not worktree.can_be_kept(entry):
            self.left[path] = "it is neither a file nor a link"
        elif why := unwritable(path) if ignored else file_problem(path):
            self.left[path] = why
        elif not ignored and entry.is_symlink():
            self.left |= dict(worktree.link_problems(self._root, (path,)))
        return path not in self.left
