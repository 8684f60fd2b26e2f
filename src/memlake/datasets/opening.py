"""What the datasets of an open repo share: their parts, and what is recalled."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from memlake.datasets import RECALL, erasing
from memlake.datasets.datasets import Datasets
from memlake.datasets.ground import Ground
from memlake.datasets.lineage import process, runs
from memlake.datasets.parts.parts import Parts
from memlake.datasets.recall.recall import Recall
from memlake.objects.store import Objects
from memlake.versions.here import Here
from memlake.versions.writing import Group


class Store:
    def __init__(self, folder: Path, objects: Objects, cache_limit: int) -> None:
        self._folder, self._parts, self._limit = folder, Parts(objects), cache_limit
        self.recall = Recall(folder / RECALL, self._parts)

    def datasets(self, here: Here, branch: str | None, group: Callable[[], Group | None]) -> Datasets:
        return Datasets(Ground(here, self._folder, self._parts, self.recall, branch, group, self._limit))

    def forget(self) -> None:
        """What runs kept, and functions answered: all derived, made again when needed."""
        runs.wait()
        erasing.forget(self._folder)
        self.recall.empty()

    def close(self) -> None:
        runs.wait()
        process.let_go(self.recall)
        self.recall.close()
