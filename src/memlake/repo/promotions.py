"""Promotions: paths that a branch takes from another; what runs there, and taking the last one back."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from memlake import governance, versions
from memlake.calls import check_methods
from memlake.dataset.kind import DATASET
from memlake.errors import InvalidInput
from memlake.records import Commit
from memlake.repo.open import AnyPath, SomePaths, each
from memlake.repo.part import Part

if TYPE_CHECKING:
    from memlake.reports import Promoted, Running


@check_methods
class Promotions(Part):
    """What `repo.promotions` gives: `create`, `list` and `undo`."""

    def create(self, *paths: SomePaths, source: str, to: str, message: str = "") -> Promoted:
        """Take files and datasets over to a branch exactly as `source` has them, in one commit there.

        Refused if a rule in policy/promote.toml on that branch says so. What only that branch has in a folder goes.
        """
        repo = self._repo
        wanted = tuple(self._find_path(path, source) for path in each(paths))
        if not wanted:
            raise InvalidInput("nothing was named to promote.", hint="Name files, folders or datasets of the source.")

        def judge(head: Commit | None, coming: Mapping[str, Any]) -> None:
            governance.judge.judge_promotion(repo._history, governance.judge.Shipment(source, to, head, coming))

        with repo._verb(files=to == repo._local.checked_out) as here:
            return versions.promote.promote(here, versions.promote.Asked(wanted, source, to, message), judge)

    def list(self, to: str | None = None, *, source: str | None = None) -> list[Running]:
        """Paths that were promoted to a branch, or to any, as they are there now, and what the source has instead."""
        return versions.promote.list_running(self._repo._look(), to, source)

    def undo(self, to: str | None = None, *, message: str = "") -> Promoted:
        """Take the last promotion back, to a branch or to any, by a commit that puts its paths back."""
        with self._repo._verb(files=self._repo._local.checked_out is not None) as here:
            return versions.promote.take_back(here, to, message)

    def _find_path(self, path: AnyPath, source: str) -> str:
        """A tree path; a dataset that the source has may be named as its own verbs name it, `pets@1.0.0`."""
        repo, text = self._repo, os.fspath(path)
        name, head = DATASET.folder + text.replace("@", "/"), versions.rev.find(repo._look(), source)
        versions_there = () if "/" in text else repo._history.scan(head, name)
        is_dataset = any(one == name or one.startswith(f"{name}/") for one, _ in versions_there)
        return name if is_dataset else repo._resolve_tree_paths([path])[0]
