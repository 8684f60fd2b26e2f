"""Stash: uncommitted work put aside, newest first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from memlake import versions
from memlake.calls import check_methods
from memlake.repo.merge import Merge
from memlake.repo.open import AnyPath
from memlake.repo.part import Part

if TYPE_CHECKING:
    from memlake.reports import Stash


@check_methods
class Stashes(Part):
    """What `repo.stash` gives: `push`, `pop`, `apply`, `drop`, `clear`, and the entries themselves."""

    def __iter__(self) -> Iterator[Stash]:
        return iter(self.entries())

    def entries(self) -> list[Stash]:
        return versions.stash.stashes(self._repo._look())

    def push(self, message: str = "", include_untracked: bool = False, paths: Sequence[AnyPath] = ()) -> Stash:
        with self._repo._verb() as here:
            return versions.stash.push(here, message, include_untracked, self._repo._resolve_files(*paths))

    def pop(self, index: int = 0, *, staged: bool = False) -> Merge:
        return self._apply(index, staged=staged, drop=True)

    def apply(self, index: int = 0, *, staged: bool = False) -> Merge:
        return self._apply(index, staged=staged, drop=False)

    def _apply(self, index: int, *, staged: bool, drop: bool) -> Merge:
        repo = self._repo
        with repo._verb() as here:
            with_base = repo._marks_base(None)
            return Merge.of(repo, versions.stash.apply(here, index, staged=staged, drop=drop, with_base=with_base))

    def drop(self, index: int = 0) -> Stash:
        with self._repo._verb() as here:
            return versions.stash.drop(here, index)

    def clear(self) -> list[Stash]:
        with self._repo._verb() as here:
            return versions.stash.clear(here)
