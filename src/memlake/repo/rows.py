"""Rows: the verbs of datasets. Each wires the parts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memlake import datasets, versions
from memlake.calls import door
from memlake.repo.opened import Opened

if TYPE_CHECKING:
    from memlake.datasets.datasets import Datasets
    from memlake.datasets.opening import Store


@door
class Rows(Opened):
    """What a repo does with typed rows."""

    def datasets(self, branch: str | None = None) -> Datasets:
        """Typed rows: read, chained and saved. On the branch that is checked out at each save, unless one is named."""
        if branch is not None:
            versions.refs.get(self._history.db, branch)
        return self._rows().datasets(self._look(), branch, self._group)

    def _rows(self) -> Store:
        with self._opening:
            self._refuse_closed()
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
