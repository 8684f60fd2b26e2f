"""Both sides of a changed file, opened where they are, and what differs inside. Wires the store to types of files."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from memlake import contents, versions
from memlake.errors import NotFound
from memlake.named_tuple import NamedTuple
from memlake.records import Change, Entry
from memlake.versions.paths import FILES, file_path

if TYPE_CHECKING:
    from memlake.contents.content import Content
    from memlake.contents.explain import Explanation
    from memlake.repo.repo import Repo
    from memlake.versions.checkout.attributes import Attributes


class Asked(NamedTuple):
    """How a change is to be looked at, as `Repo.explain` says it."""

    worktree: bool
    key: tuple[str, ...]
    limit: int | None
    attributes: Attributes | None
    revs: tuple[str, str]
    as_bytes: bool


def explain_change(repo: Repo, change: Change, asked: Asked) -> Explanation | None:
    """What differs inside a file, or what it is if it came or went."""
    name = file_path(change.path)
    if any(entry is not None and entry.kind != "file" for entry in (change.old, change.new)):
        return None
    before, after = _open_sides(repo, change, asked)
    how = contents.explain.How(asked.key, limit=asked.limit)
    with before or nullcontext(), after or nullcontext():
        if asked.as_bytes:
            return contents.explain.explain_bytes(before, after, how) if before and after else None
        attributes = asked.attributes or repo.attributes()
        if attributes.find(name).get("diff") == "text":
            return None
        if not asked.key:
            how = how._replace(key=attributes.find_key(name), key_origin="declared")
        if before is not None and after is not None:
            return contents.explain.explain(before, after, how)
        side = before or after
        return contents.explain.describe(side) if side is not None else None


def sketch_change(repo: Repo, change: Change, asked: Asked) -> Any | None:
    """Both sides of a file to be drawn; None if it came or went, or is not of a type that is drawn."""
    name = file_path(change.path)
    if not (change.old and change.new and change.old.kind == change.new.kind == "file"):
        return None
    before, after = _open_sides(repo, change, asked)
    how = contents.explain.How(asked.key or repo.attributes().find_key(name))
    with before or nullcontext(), after or nullcontext():
        return contents.explain.sketch(before, after, how) if before and after else None


def _open_sides(repo: Repo, change: Change, asked: Asked) -> tuple[Content | None, Content | None]:
    name = file_path(change.path)
    before = _open_content(repo, name, change.old, asked.revs[0]) if change.old else None
    # Of a working file that differs by its size nobody has read more, so it has no oid.
    is_here = change.new is not None and (asked.worktree or not change.new.oid)
    return before, _open_content(repo, name, None if is_here else change.new, asked.revs[1]) if change.new else None


def _open_content(repo: Repo, name: str, entry: Entry | None, rev: str) -> Content:
    """A file as it is stored, or without an entry the working file."""
    if entry is None:
        return contents.content.open_file(name, repo.root / name, _find_beside(repo, None))
    return contents.content.open_stored(repo._history.objects, name, entry, _find_beside(repo, rev))


def _find_beside(repo: Repo, rev: str | None) -> Callable[[str], Content | None]:
    """Opens other files of a commit, or of the working folder, by their path; not of one that is not known."""

    def find(path: str) -> Content | None:
        if rev is None:
            file = repo.root / path
            is_there = file.is_file() and not file.is_symlink()
            return contents.content.open_file(path, file) if is_there else None
        try:
            entry = versions.show.entry_at(repo._look(), FILES + path, rev) if rev else None
        except NotFound:
            return None
        is_file = entry is not None and entry.kind == "file"
        return contents.content.open_stored(repo._history.objects, path, entry) if entry and is_file else None

    return find
