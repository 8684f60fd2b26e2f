"""StoredObjects: content by its id, and the ids that paths have."""

from __future__ import annotations

from collections.abc import Sequence
from typing import BinaryIO

from memlake import dataset, versions
from memlake.calls import check_methods
from memlake.objects.store import Progress
from memlake.records import Entry
from memlake.repo.open import AnyPath, checked_oid
from memlake.repo.part import Part


@check_methods
class StoredObjects(Part):
    """What `repo.objects` gives: `at`, `read`, `open`, `bring`, and what is known of ids and of paths."""

    def at(self, path: AnyPath, rev: str = "HEAD") -> Entry:
        """What a path holds in a commit: its object, its kind, its size and its mode; ":" is the stage."""
        return versions.show.entry_at(self._repo._look(), self._repo._tree_path(path), rev)

    def read(self, oid: str) -> bytes:
        return self._repo._history.objects.read(checked_oid(oid), most=None)

    def open(self, oid: str) -> BinaryIO:
        return self._repo._history.objects.open(checked_oid(oid))

    def bring(self, oids: Sequence[str], *, progress: Progress | None = None) -> None:
        """Have here, in as few requests as it takes, the content of those that are at a remote only."""
        self._repo._history.objects.bring(map(checked_oid, oids), progress)

    def is_away(self, oid: str) -> bool:
        """Whether the content of an object is at a remote only."""
        return bool(self._repo._history.objects.find_away([checked_oid(oid)]))

    def versions_of(self, path: AnyPath) -> list[str]:
        """Every object a path ever was, in any commit of the repo, reachable or not, or is in the stage."""
        return versions.show.versions_of(self._repo._look(), self._repo._tree_path(path))

    def is_purged(self, oid: str) -> bool:
        """Whether an object was erased on purpose; asks repo.db alone."""
        return bool(self._repo._history.objects.find_purged([checked_oid(oid)]))

    def purged_with(self, *oids: str, with_others: bool = False, leave_derived: bool = False) -> tuple[str, ...]:
        """What a purge of these objects erases: the same, unless one is the record of a dataset's version."""
        how = dataset.erase.Others(with_others, leave_derived)
        named, loose = dataset.erase.plan_erasure(self._repo._look(), map(checked_oid, oids), how)
        return (*named, *loose)
