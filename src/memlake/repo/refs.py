"""Branches and tags: what `repo.branches` and `repo.tags` give."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from memlake import memories, versions
from memlake.calls import check_methods
from memlake.records import Branch, Tag
from memlake.repo.part import Part
from memlake.versions import tables

if TYPE_CHECKING:
    from memlake.reports import Described


@check_methods
class Branches(Part):
    """All branches: `for branch in repo.branches`, `"dev" in repo.branches`; `create`, `delete`, `rename`, `list`."""

    def __iter__(self) -> Iterator[Branch]:
        return iter(self.list())

    def __contains__(self, name: str) -> bool:
        return any(branch.name == name for branch in self)

    def __repr__(self) -> str:
        return f"Branches({', '.join(branch.name for branch in self)})"

    @property
    def current(self) -> str | None:
        """The name of the branch that is checked out; None if HEAD is detached."""
        return self._repo._local.branch

    def create(self, name: str, at: str = "HEAD", force: bool = False, *, ttl_seconds: float | None = None) -> Branch:
        """Make a branch, or with `force` move one; a new one may be given a time to live."""
        note = None if ttl_seconds is None else memories.branch_expiry.make_note(ttl_seconds)
        with self._repo._verb(files=False) as here:
            return versions.branch.create_branch(here, name, at, force=force, note=note)

    def delete(self, name: str, force: bool = False) -> Branch:
        with self._repo._verb(files=False) as here:
            return versions.branch.delete_branch(here, name, force)

    def rename(self, old: str, new: str, force: bool = False) -> Branch:
        with self._repo._verb(files=False) as here:
            return versions.branch.rename_branch(here, old, new, force)

    def list(
        self, *, contains: str | None = None, merged: str | None = None, no_merged: str | None = None
    ) -> list[Branch]:
        """All branches, or those that contain a commit, are merged into it, or are not."""
        repo = self._repo
        if any(note is not None for *_, note in tables.list_refs(repo._history.db, versions.refs.BRANCH)):
            memories.branch_expiry.sweep(repo._look())
        if contains is merged is no_merged is None:
            return versions.refs.branches(repo._history.db, repo._local.branch)
        chosen = versions.branch.Chosen(contains, merged, no_merged)
        return versions.branch.list_branches(repo._look(), chosen)


@check_methods
class Tags(Part):
    """All tags: `for tag in repo.tags`, `"v1" in repo.tags`; `create`, `delete`, `list`, `describe`."""

    def __iter__(self) -> Iterator[Tag]:
        return iter(self.list())

    def __contains__(self, name: str) -> bool:
        return any(tag.name == name for tag in self)

    def __repr__(self) -> str:
        return f"Tags({', '.join(tag.name for tag in self)})"

    def create(self, name: str, at: str = "HEAD", message: str = "", force: bool = False) -> Tag:
        with self._repo._verb(files=False) as here:
            return versions.branch.create_tag(here, name, at, message, force)

    def delete(self, name: str) -> Tag:
        with self._repo._verb(files=False) as here:
            return versions.branch.delete_tag(here, name)

    def describe(self, rev: str = "HEAD", *, match: Sequence[str] = ()) -> Described:
        """The nearest tag at or before a commit, one that `match` allows, and how many commits lie between."""
        return versions.nearest_tag.find_nearest(self._repo._look(), rev, match)

    def list(self) -> list[Tag]:
        return versions.refs.tags(self._repo._history.db)
