"""Shown: what `repo.show` gives, a commit with what it changed and what it records."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from memlake import repo as later
from memlake import versions
from memlake.calls import check_methods
from memlake.records import Commit
from memlake.repo.open import AnyPath
from memlake.repo.part import Part

if TYPE_CHECKING:
    from memlake.repo.diff import Diff
    from memlake.repo.repo import Repo
    from memlake.reports import About


@check_methods
class Shown(Part):
    """A `commit`; its `changes`, `metrics`, `params`, `uses` and `runs` are read when they are asked for."""

    def __init__(self, repo: Repo, commit: Commit, paths: tuple[str, ...] = ()) -> None:
        super().__init__(repo)
        self.commit, self._paths = commit, paths

    @property
    def changes(self) -> Diff:
        """What it changed since its first parent, in all or at the paths that were named."""
        found, commit = self._repo._history.changes(self.commit), self.commit
        wanted = versions.diff.filter_changes(found, self._paths) if self._paths else found
        return later.diff.Diff.of(self._repo, wanted, (commit.parents[0] if commit.parents else "", commit.oid))

    @property
    def metrics(self) -> dict[str, Any]:
        return self._read_facts("metrics")

    @property
    def params(self) -> dict[str, Any]:
        return self._read_facts("params")

    @property
    def uses(self) -> tuple[dict[str, Any], ...]:
        """What it was made from, as `commit --uses` named it."""
        return tuple(self._read("uses") or ())

    @property
    def runs(self) -> tuple[dict[str, Any], ...]:
        """The runs of `memlake run` that made what it holds: their program, what they read and what they wrote."""
        return tuple(self._read("runs") or ())

    def about(self, path: AnyPath) -> About:
        """What was noted of a file when the content that it has here was added: media type, columns, rows, by whom."""
        return versions.show.about(self._repo._look(), self._repo._tree_path(path), self.commit.oid)

    def _read_facts(self, name: str) -> dict[str, Any]:
        facts = self._read(name)
        return facts if isinstance(facts, dict) else {}  # of a repo that was sent, a commit may name anything

    def _read(self, name: str) -> Any:
        oid = self.commit.meta.get(name)
        return versions.show.fact(self._repo._look(), name, oid) if oid else None

    def __repr__(self) -> str:
        return f"Shown({self.commit!r})"
