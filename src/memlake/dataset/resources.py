"""What the datasets of an open repo share: their parts, and what is recalled."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from memlake.dataset import RECALL, erase
from memlake.dataset.context import DatasetContext
from memlake.dataset.datasets import Datasets
from memlake.dataset.lineage import process_facts, runs
from memlake.dataset.memo.results import Memo
from memlake.dataset.parts.parquet import Parts
from memlake.objects.store import Objects
from memlake.versions.checkout.context import Here
from memlake.versions.verbs.write import Group


class Store:
    def __init__(self, folder: Path, objects: Objects, cache_limit: int) -> None:
        self._folder, self._parts, self._limit = folder, Parts(objects), cache_limit
        self.recall = Memo(folder / RECALL, self._parts)

    def datasets(self, here: Here, branch: str | None, group: Callable[[], Group | None]) -> Datasets:
        return Datasets(DatasetContext(here, self._folder, self._parts, self.recall, branch, group, self._limit))

    def forget(self) -> None:
        """What runs kept, and functions answered: all derived, made again when needed."""
        runs.wait()
        erase.forget(self._folder)
        self.recall.empty()

    def close(self) -> None:
        runs.wait()
        process_facts.let_go(self.recall)
        self.recall.close()
