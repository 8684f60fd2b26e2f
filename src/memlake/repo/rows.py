"""Rows: the verbs of datasets and of purge, which of a dataset's version erases all its rows. Each wires the parts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memlake import datasets, versions
from memlake.calls import door
from memlake.repo.opened import Opened, checked_oid

if TYPE_CHECKING:
    from memlake.datasets.datasets import Datasets
    from memlake.datasets.opening import Store
    from memlake.reports import PurgeReport


@door
class Rows(Opened):
    """What a repo does with typed rows."""

    def datasets(self, branch: str | None = None) -> Datasets:
        """Typed rows: read, chained and saved. On the branch that is checked out at each save, unless one is named."""
        if branch is not None:
            versions.refs.get(self._history.db, branch)
        return self._rows().datasets(self._look(), branch, self._group)

    def _rows(self) -> Store:
        if self._store is None:
            self._store = datasets.opening.Store(
                self.dir, self._history.objects, int(self._settings.storage_cache_gb * 1e9)
            )
        return self._store

    def _used(self, text: str) -> str:
        """A dataset as its own verbs take it, `pets@1.0.0`, as its path; anything else as it is."""
        name, head = text.partition("@")[0], self._look().head()
        is_file = "/" in name or (self.root / name).is_file() or head is None
        is_known = not is_file and any(self._history.scan(head, f"datasets/{name}/"))
        return self.datasets().get(text).path if is_known else text

    def purge(self, *oids: str, reason: str, with_others: bool = False, leave_derived: bool = False) -> PurgeReport:
        """Erase objects for good; of a dataset's version all its rows, and what is remembered of work over them.

        `with_others`: also versions made from it, and its rows where others share them; `leave_derived`: not those.
        """
        with self._verb() as here:
            named, loose = datasets.erasing.whole(
                here, map(checked_oid, oids), datasets.erasing.Others(with_others, leave_derived)
            )
            done = versions.purging.purge(here, named, reason, loose=loose)
        datasets.erasing.forget(self.dir)
        if (self.dir / datasets.RECALL).exists():
            self._rows().forget()
        return done

    def purged_with(self, *oids: str, with_others: bool = False, leave_derived: bool = False) -> tuple[str, ...]:
        """What a purge of these objects erases: the same, unless one is the record of a dataset's version."""
        how = datasets.erasing.Others(with_others, leave_derived)
        named, loose = datasets.erasing.whole(self._look(), map(checked_oid, oids), how)
        return (*named, *loose)
