"""Merge: what a merge, revert, cherry-pick, rebase or stash pop came to, and the choices it waits for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self

from memlake import versions
from memlake.calls import check_methods
from memlake.records import Change, Conflict, Merged
from memlake.repo.open import AnyPath, SomePaths, each
from memlake.reports import Place
from memlake.versions.kinds import Sides, kind_at

if TYPE_CHECKING:
    from memlake.repo.repo import Repo
    from memlake.versions.checkout.context import Checkout


@check_methods
class Merge(Merged):
    """How a merge ended. While it has `conflicts` it waits: choose a side or edit the files, then conclude or abort."""

    _repo: Repo

    @classmethod
    def of(cls, repo: Repo, merged: Merged) -> Self:
        merge = cls(*merged)
        merge._repo = repo
        return merge

    @classmethod
    def of_rebase(cls, repo: Repo, here: Checkout, merged: Merged) -> Self:
        """A step that waits is settled as the same conflict was before, if it was."""
        return cls.of(repo, versions.resolve.settle_known(here, merged) if repo._settings.merge_rerere else merged)

    def choose(self, side: str, *paths: SomePaths) -> tuple[Conflict, ...]:
        """Take "ours", "theirs" or of memories "both" for these paths; returns the conflicts that are left."""
        with self._repo._verb() as here:
            return versions.merge.choose(here, side, self._find_paths(paths))

    def places(self, *paths: SomePaths) -> tuple[Place, ...]:
        """Everything there is to decide, down to the value, the row or the cell; with paths, what is inside those."""
        return versions.resolve.list_places(self._repo._look(), self._find_paths(paths))

    def resolve(self, side: str, *paths: SomePaths, where: str = "", place: str = "") -> tuple[Place, ...]:
        """Take a side at the places that both changed, and keep both sides' other edits; returns what is still open.

        A side is "ours", "theirs", "union" or "latest". `where` picks places as in `id = 17`, `place` one by its name.
        """
        with self._repo._verb() as here:
            meant = self._find_paths(paths)
            return versions.resolve.resolve(here, side, versions.resolve.Wanted(meant, where, place))

    def forget(self, *paths: SomePaths) -> int:
        """Forget how conflicts of these paths were resolved before, of all without paths; returns how many."""
        with self._repo._verb() as here:
            return versions.resolve.forget(here, self._find_paths(paths))

    def mark(self, *paths: SomePaths) -> tuple[Change, ...]:
        """Write the markers of conflicts into their files again; their choices are open again."""
        with self._repo._verb() as here:
            return versions.merge.mark_again(here, self._find_paths(paths))

    def conclude(
        self, message: str | None = None, *, metrics: Mapping[str, Any] | None = None,
        params: Mapping[str, Any] | None = None,
    ) -> Merge:  # fmt: skip
        """Commit it; refused while a conflict has no choice."""
        said = versions.merge.Conclusion(message, None, said_facts(metrics, params), self._repo._give())
        with self._repo._verb() as here:
            if (pending := here.local.find_pending()) and pending.rebase:
                return Merge.of_rebase(
                    self._repo, here, versions.rebase.go_on(here, message, remember=self._repo._settings.merge_rerere)
                )
            return Merge.of(self._repo, versions.merge.conclude_pending(here, said))

    def skip(self) -> Merge:
        """Leave out the commit that a rebase waits at, and go on with the others."""
        with self._repo._verb() as here:
            return Merge.of_rebase(self._repo, here, versions.rebase.skip(here))

    def abort(self) -> None:
        """Give it up: the files are as they were before it, and what was edited since is kept."""
        with self._repo._verb() as here:
            pending = here.local.find_pending()
            (versions.rebase if pending and pending.rebase else versions.merge).abort(here)

    def text(self, path: AnyPath) -> str | None:
        """Both sides of a path in conflict as one text with markers; None where that cannot be."""
        return versions.show.conflict_text(self._repo._look(), self._find_paths((path,))[0])

    def sides(self, conflict: Conflict) -> Sides | None:
        """What both sides of a memory, state value or dataset in conflict say; None for a file."""
        history = self._repo._history
        find = history.kinds[kind_at(conflict.path).name].sides
        return find(history, conflict) if find else None

    def _find_paths(self, paths: tuple[SomePaths, ...]) -> tuple[str, ...]:
        """Tree paths; the path of a record of a conflict means that one, also where a folder is called `files`."""
        known = {conflict.path for conflict in self._repo._local.conflicts()}
        given = each(paths)
        return tuple(
            str(path)
            if str(path) in known and f"files/{path}" not in known
            else self._repo._resolve_tree_paths([path])[0]
            for path in given
        )

    def _refuse_closed(self) -> None:
        self._repo._refuse_closed()


def said_facts(metrics: Mapping[str, Any] | None, params: Mapping[str, Any] | None) -> dict[str, Any]:
    return {name: dict(value) for name, value in (("metrics", metrics), ("params", params)) if value}
