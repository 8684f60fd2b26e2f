"""diff: what differs between working files, the stage and commits. Changes nothing but the stat cache."""

from __future__ import annotations

from collections.abc import Sequence

from memlake.errors import InvalidInput, NotFound, pasted
from memlake.records import Change, Commit, Entry, Lane
from memlake.versions.checkout import rev, worktree
from memlake.versions.checkout import status as scanning
from memlake.versions.checkout.context import Checkout
from memlake.versions.history.bases import merge_bases
from memlake.versions.paths import FILES, file_path, matches
from memlake.versions.trees.codec import LANES
from memlake.versions.verbs.show import check_lane


def find_sides(here: Checkout, a: str | None, b: str | None, *, staged: bool) -> tuple[str, str]:
    """The revs that are compared; ":" is the stage, "" the working folder."""
    if a is not None and b is None and (parts := rev.split_range(a)):
        return _resolve_sides(here, parts)
    if a is not None and b is not None:
        return a, b
    return (a or "HEAD", ":") if staged else (a or ":", "")


def diff(
    here: Checkout, a: str | None, sides: tuple[str, str], *, paths: tuple[str, ...], lane: str | None
) -> tuple[Change, ...]:
    """What differs between two sides; `a` is the rev that was named, if one was."""
    if sides[1] not in ("", ":"):
        changes = _diff_commits(here, *sides, lane)
    elif sides[1] == ":":
        changes = here.local.staged_changes() if a is None else _diff_stage(here, a)
    elif a is not None:
        changes = _diff_files(here, a)
    else:
        changes = scanning.compare(here, untracked=False)[0]
    return filter_changes(changes, paths) if paths else changes


def filter_changes(changes: Sequence[Change], wanted: Sequence[str]) -> tuple[Change, ...]:
    return tuple(change for change in changes if matches(change.path, wanted))


def _resolve_sides(here: Checkout, parts: tuple[str, str, str]) -> tuple[str, str]:
    a, dots, b = parts
    if dots == "..":
        return a, b
    base = next(iter(merge_bases(here.history, rev.resolve(here, a), rev.resolve(here, b))), None)
    if base is None:
        raise NotFound(
            f"{a!r} and {b!r} have no commit in common.",
            hint=f"Compare them directly: memlake diff {pasted(a)} {pasted(b)}",
        )
    return base.oid, b


def _diff_commits(here: Checkout, a: str, b: str, lane: str | None) -> tuple[Change, ...]:
    check_lane(lane or "work")
    lanes: tuple[Lane, ...] = LANES if lane == "all" else (lane or "work",)  # type: ignore[assignment]
    found: list[Change] = []
    for one in lanes:
        old, new = (rev.find(here, text, one) for text in (a, b))
        if one == "work":
            old, new = rev.resolve(here, a), rev.resolve(here, b)
        if old is not None and new is not None and old.lane != new.lane:
            raise InvalidInput(
                f"{a!r} and {b!r} are commits of different lanes.",
                hint="Compare two commits of one lane; see them with: memlake log --all",
            )
        found += here.history.diff_by_lists(old, new)
    return tuple(found)


def _diff_stage(here: Checkout, a: str) -> tuple[Change, ...]:
    commit = rev.resolve(here, a)
    entries: dict[str, Entry | None] = {c.path: c.new for c in here.history.diff(commit, here.base(), FILES)}
    entries.update((FILES + row.path, row.entry) for row in here.local.list_staged().values())
    return _compare_entries(here, commit, entries)


def _diff_files(here: Checkout, a: str) -> tuple[Change, ...]:
    commit = rev.resolve(here, a)
    entries: dict[str, Entry | None] = {c.path: c.new for c in _diff_stage(here, a)}
    for change in scanning.compare(here, untracked=False)[0]:
        # Status does not read a file whose size has changed; against another commit its content decides.
        unread = change.new is not None and not change.new.oid
        entries[change.path] = worktree.read(here.root, file_path(change.path), None).entry if unread else change.new
    return _compare_entries(here, commit, entries)


def _compare_entries(here: Checkout, commit: Commit, entries: dict[str, Entry | None]) -> tuple[Change, ...]:
    before = here.history.entries(commit, entries)
    return tuple(Change(p, before.get(p), entries[p]) for p in sorted(entries) if before.get(p) != entries[p])
