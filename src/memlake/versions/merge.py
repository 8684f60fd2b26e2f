"""Three-way merge of trees. Pure over trees: no ref, no stage, no working file.

A path changed on one side takes that side; changed alike on both is no conflict; changed differently is one,
unless a merge driver of its kind can join the two. After a criss-cross there are several merge bases: they are
merged first, and a path they disagree on counts as changed on both sides.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from memlake.records import Commit, Conflict, Entry
from memlake.versions import codec, tree
from memlake.versions.bases import merge_bases
from memlake.versions.history import History
from memlake.versions.paths import folder_clashes

# Stands in a merged base where the bases disagree: equal to nothing either side can hold.
_UNDECIDED = Entry("ff" * 32)
Driver = Callable[[History, Entry | None, Entry, Entry], Entry | None]
DRIVERS: dict[str, Driver] = {}


class Outcome(NamedTuple):
    """What to apply on top of ours, and what nobody can decide but a person."""

    edits: Mapping[str, Entry | None]
    conflicts: tuple[Conflict, ...]


def merge_commits(history: History, ours: Commit | None, theirs: Commit | None) -> Outcome:
    return merge_roots(history, base_root(history, ours, theirs), history.root(ours), history.root(theirs))


def base_root(history: History, a: Commit | None, b: Commit | None) -> bytes:
    """The tree two commits have in common; made up from several when history criss-crosses."""
    if a is None or b is None:
        return tree.EMPTY
    bases = merge_bases(history, a, b)
    if not bases:
        return tree.EMPTY
    root = history.root(bases[0])
    for other in bases[1:]:
        below = base_root(history, bases[0], other)
        merged = merge_roots(history, below, root, history.root(other))
        edits = {**merged.edits, **{conflict.path: _UNDECIDED for conflict in merged.conflicts}}
        root, made = tree.edit(history.nodes.get_many, root, _encoded(edits))
        history.nodes.remember(made)
    return root


def merge_roots(history: History, base: bytes, ours: bytes, theirs: bytes) -> Outcome:
    """Merge three trees. Cost grows with what changed on either side, not with what exists."""
    mine = {change.path: change.new for change in history.diff_roots(base, ours)}
    edits: dict[str, Entry | None] = {}
    conflicts: list[Conflict] = []
    for change in history.diff_roots(base, theirs):
        path, old, new = change.path, change.old, change.new
        if path not in mine:
            edits[path] = new
        elif mine[path] != new:
            joined = _join(history, old, mine[path], new)
            if joined is None:
                known = None if old == _UNDECIDED else old
                conflicts.append(Conflict(path, known, mine[path], new))
            else:
                edits[path] = joined
    conflicts.extend(_clashes(mine, edits))
    return Outcome(edits, tuple(sorted(conflicts, key=lambda conflict: conflict.path)))


def _join(history: History, old: Entry | None, ours: Entry | None, theirs: Entry | None) -> Entry | None:
    if ours is None or theirs is None or ours.kind != theirs.kind or old == _UNDECIDED:
        return None
    driver = DRIVERS.get(ours.kind)
    return driver(history, old, ours, theirs) if driver else None


def _clashes(mine: Mapping[str, Entry | None], edits: dict[str, Entry | None]) -> list[Conflict]:
    """A file on one side where the other has a folder of that name: their file waits for a choice."""
    added = {path for path, entry in edits.items() if entry is not None}
    kept = {path for path, entry in mine.items() if entry is not None and edits.get(path, entry) is not None}
    if not added or not kept:
        return []
    bad = folder_clashes(dict.fromkeys(added | kept))
    conflicts = []
    for path in bad:
        theirs_file = path in added
        blocked = [path] if theirs_file else [p for p in added if p.startswith(path + "/")]
        conflicts += [Conflict(one, None, None, edits.pop(one)) for one in blocked]
    return conflicts


def _encoded(edits: Mapping[str, Entry | None]) -> dict[bytes, bytes | None]:
    return {path.encode(): codec.maybe_bytes(entry) for path, entry in edits.items()}


def decided(conflicts: tuple[Conflict, ...]) -> dict[str, Entry | None]:
    """The edits that chosen conflicts mean, on top of ours."""
    edits: dict[str, Entry | None] = {}
    for conflict in conflicts:
        if conflict.choice == "theirs":
            edits[conflict.path] = conflict.theirs
        elif conflict.choice == "file":
            edits[conflict.path] = conflict.chosen
    return edits
