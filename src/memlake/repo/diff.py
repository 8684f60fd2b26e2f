"""Diff: what `repo.diff` gives. Looks inside files that changed and at what they touch. Wires stores to file types."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

from memlake import contents, versions
from memlake import repo as later
from memlake.calls import check_methods
from memlake.errors import NotFound
from memlake.records import Change, Entry
from memlake.repo.open import AnyPath
from memlake.versions.paths import FILES, file_path, plain

if TYPE_CHECKING:
    from memlake.contents.content import Content
    from memlake.contents.explain import Explanation
    from memlake.repo.repo import Repo
    from memlake.reports import DiffSummary
    from memlake.versions.checkout.attributes import Attributes


@check_methods
class Diff(tuple[Change, ...]):
    """The changes between two states, and `explain`, `sketch` and `summarize` of them.

    `sides` are the revs that were compared: ":" is the stage, "" the working folder or, on the left, nothing.
    """

    _repo: Repo
    sides: tuple[str, str]

    @classmethod
    def of(cls, repo: Repo, changes: Iterable[Change], sides: tuple[str, str]) -> Self:
        diff = cls(changes)
        diff._repo, diff.sides = repo, sides
        return diff

    def explain(
        self, change: Change | AnyPath, *, key: Sequence[str] = (), limit: int | None = 10, as_bytes: bool = False
    ) -> Explanation | None:
        """What differs inside a file, or what it is if it came or went; None if memlake cannot tell.

        `key`: the columns that tell the rows of a table apart; without it those that `.memlakeattributes` of the newer
        side declares, else a unique column. `as_bytes`: which ranges of bytes differ, whatever the file is.
        """
        change = self._find(change)
        if any(entry is not None and entry.kind != "file" for entry in (change.old, change.new)):
            return None
        before, after = self._open_sides(change)
        how = contents.explain.How(tuple(key), limit=limit)
        with before or nullcontext(), after or nullcontext():
            if as_bytes:
                return contents.explain.explain_bytes(before, after, how) if before and after else None
            name = file_path(change.path)
            if self._attributes.find(name).get("diff") == "text":
                return None
            if not key:
                how = how._replace(key=self._attributes.find_key(name), key_origin="declared")
            if before is not None and after is not None:
                return contents.explain.explain(before, after, how)
            side = before or after
            return contents.explain.describe(side) if side is not None else None

    def sketch(self, change: Change | AnyPath, *, key: Sequence[str] = ()) -> Any | None:
        """Both sides of embeddings or images that changed, to be drawn; None for anything else. As in `explain`."""
        change = self._find(change)
        if not (change.old and change.new and change.old.kind == change.new.kind == "file"):
            return None
        before, after = self._open_sides(change)
        how = contents.explain.How(tuple(key) or self._attributes.find_key(file_path(change.path)))
        with before or nullcontext(), after or nullcontext():
            return contents.explain.sketch(before, after, how) if before and after else None

    def summarize(self, *, key: Sequence[str] = ()) -> DiffSummary:
        """What it touches: things made from what changed, memories that name it, and metrics of all of them."""
        return later.summarize.summarize_changes(self, key)

    @cached_property
    def _attributes(self) -> Attributes:
        """What `.memlakeattributes` says of files on the newer side. A bare repo is asked at its HEAD."""
        repo, rev = self._repo, self.sides[1]
        if rev[:1] in ("", ":") and not repo._is_bare:
            return versions.attributes.read_working_attributes(repo.root)
        here = repo._look()
        commit = here.head() if rev[:1] in ("", ":") else versions.rev.resolve(here, rev)
        return versions.attributes.read_attributes(repo._history, repo._history.root(commit))

    def _find(self, change: Change | AnyPath) -> Change:
        if isinstance(change, Change):
            return change
        path = self._repo._tree_path(change)
        found = next((one for one in self if one.path == path), None)
        if found is None:
            raise NotFound(f"{plain(path)!r} does not differ here.", hint="The changes themselves say which paths do.")
        return found

    def _open_sides(self, change: Change) -> tuple[Content | None, Content | None]:
        name = file_path(change.path)
        before = self._open(name, change.old, self.sides[0]) if change.old else None
        # Of a working file that differs by its size nobody has read more, so it has no oid. One that is not there is at
        # a remote only, so what is stored is what it would hold.
        is_stored = change.new is not None and bool(change.new.oid)
        is_here = not is_stored or not (self.sides[1] or self._is_missing(name))
        return before, self._open(name, None if is_here else change.new, self.sides[1]) if change.new else None

    def _is_missing(self, name: str) -> bool:
        return not os.path.lexists(self._repo.root / name)

    def _open(self, name: str, entry: Entry | None, rev: str) -> Content:
        """A file as it is stored, or without an entry the working file."""
        repo = self._repo
        if entry is None:
            return contents.content.open_file(name, repo.root / name, self._find_beside(None))
        return contents.content.open_stored(repo._history.objects, name, entry, self._find_beside(rev))

    def _find_beside(self, rev: str | None) -> Callable[[str], Content | None]:
        """Opens other files of a commit, or of the working folder, by their path; not of one that is not known.

        So are files found that belong to another, such as the ids of vectors.
        """
        repo = self._repo

        def find(path: str) -> Content | None:
            if rev is None:
                file = repo.root / path
                is_there = file.is_file() and not file.is_symlink()
                return contents.content.open_file(path, file) if is_there else None
            try:
                entry = versions.show.entry_at(repo._look(), FILES + path, rev) if rev else None
            except NotFound:
                return None
            is_file = entry is not None and entry.kind == "file"
            return contents.content.open_stored(repo._history.objects, path, entry) if entry and is_file else None

        return find

    def _refuse_closed(self) -> None:
        self._repo._refuse_closed()
