"""Three-way merge of trees. Pure over trees: no ref, no stage, no working file.

A path changed on one side takes that side; changed alike on both is no conflict; changed differently is one,
unless a merge driver of its kind can join the two. An edit follows a file the other side renamed. After a criss-cross
there are several merge bases: they are merged first, and a path they disagree on counts as changed on both sides.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from memlake.records import Change, Commit, Conflict, Entry
from memlake.versions import codec, tree
from memlake.versions.bases import bases_of_many, merge_bases
from memlake.versions.history import History
from memlake.versions.paths import folder_clashes

# Stands in a merged base where the bases disagree: equal to nothing either side can hold.
_UNDECIDED = Entry("ff" * 32)
Changes = Mapping[str, Change]
Undecided = Mapping[str, Entry | None]  # where several bases disagree: what one of them has, to be shown
Driver = Callable[[History, Entry | None, Entry, Entry], Entry | None]
DRIVERS: dict[str, Driver] = {}


class Outcome(NamedTuple):
    """What to apply on top of ours, and what nobody can decide but a person."""

    edits: Mapping[str, Entry | None]
    conflicts: tuple[Conflict, ...]
    moved: Mapping[str, str] = MappingProxyType({})  # paths of theirs that come under another name


def merge_commits(history: History, ours: Commit | None, theirs: Commit | None) -> Outcome:
    base, undecided = _folded(history, merge_bases(history, ours, theirs) if ours and theirs else [])
    roots = history.root(ours), history.root(theirs)
    return joined(history, merge_roots(history, base, *roots, undecided=undecided), *roots)


def joined(history: History, outcome: Outcome, ours: bytes, theirs: bytes) -> Outcome:
    """An outcome with what the layers that know a kind make of its conflicts."""
    for kind, join in history.joiners.items():
        if any(side and side.kind == kind for one in outcome.conflicts for side in (one.ours, one.theirs)):
            outcome = join(history, outcome, ours, theirs)
    return outcome


def _folded(history: History, bases: Sequence[Commit]) -> tuple[bytes, Undecided]:
    """One tree from several bases: each joins those before it, over what it and all of them have in common."""
    root, undecided = history.root(bases[0] if bases else None), dict[str, Entry | None]()
    for number, other in enumerate(bases[1:], 1):
        below, open_below = _folded(history, bases_of_many(history, bases[:number], other))
        merged = merge_roots(history, below, root, history.root(other), undecided=open_below)
        undecided.update((one.path, one.base or one.theirs) for one in merged.conflicts)
        edits = {**merged.edits, **{conflict.path: _UNDECIDED for conflict in merged.conflicts}}
        root, made = tree.edit(history.nodes.get_many, root, _encoded(edits))
        history.nodes.remember(made)
    return root, undecided


Sides = tuple[Entry | None, Entry | None, Entry | None]  # base, ours, theirs


def merge_roots(
    history: History, base: bytes, ours: bytes, theirs: bytes, *, undecided: Undecided = MappingProxyType({})
) -> Outcome:
    """Merge three trees. Cost grows with what changed on either side, not with what exists."""
    mine = {change.path: change for change in history.diff_roots(base, ours)}
    other = {change.path: change for change in history.diff_roots(base, theirs)}
    edits: dict[str, Entry | None] = {path: change.new for path, change in other.items() if path not in mine}
    met: dict[str, Sides] = {
        path: (change.old, mine[path].new, change.new)
        for path, change in other.items()
        if path in mine and mine[path].new != change.new
    }
    edits.update(_follow(mine, other, met))
    conflicts: list[Conflict] = []
    for path, (old, our, their) in met.items():
        joined = _join(history, old, our, their)
        if joined is None:
            conflicts.append(Conflict(path, undecided.get(path) if old == _UNDECIDED else old, our, their))
        else:
            edits[path] = joined
    conflicts.extend(_clashes({path: change.new for path, change in mine.items()}, edits))
    return Outcome(edits, tuple(sorted(conflicts, key=lambda conflict: conflict.path)))


def _join(history: History, old: Entry | None, ours: Entry | None, theirs: Entry | None) -> Entry | None:
    if ours is None or theirs is None or ours.kind != theirs.kind or _UNDECIDED in (old, ours, theirs):
        return None
    driver = DRIVERS.get(ours.kind)
    return driver(history, old, ours, theirs) if driver else None


# -- renames ----------------------------------------------------------------------------------------


def _follow(mine: Changes, other: Changes, met: dict[str, Sides]) -> dict[str, Entry | None]:
    """Edits of files that the other side renamed unchanged land at the new name; these are conflicts no more."""
    edits: dict[str, Entry | None] = {}
    for path, (old, our, their) in sorted(met.items()):
        edited, renamed_by, rival = (their, mine, other) if our is None else (our, other, mine)
        if old is None or edited is None or (our and their) or not old.size or {old.kind, edited.kind} != {"file"}:
            continue
        target = _renamed_to(path, old, renamed_by)
        if target is None or target.path in rival or target.path in edits or target.new is None:
            continue
        mode = target.new.mode if target.new.mode != old.mode else edited.mode
        edits[target.path] = edited._replace(mode=mode)
        edits |= {path: None} if their is None else {}
        del met[path]
    return edits


def _renamed_to(path: str, old: Entry, changes: Changes) -> Change | None:
    """Where one side has the very content it removed at a path; a place of the same name first."""
    places = [one for one in changes.values() if one.old is None and one.new and one.new[:2] == old[:2]]
    return min(places, key=lambda one: (one.path.rpartition("/")[2] != path.rpartition("/")[2], one.path), default=None)


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


def decided(history: History, conflicts: tuple[Conflict, ...]) -> dict[str, Entry | None]:
    """The edits that chosen conflicts mean, on top of ours."""
    edits: dict[str, Entry | None] = {}
    for conflict in conflicts:
        side = conflict.ours or conflict.theirs
        settle = history.settlers.get(side.kind) if side else None
        if settle is not None:
            edits.update(settle(history, conflict))
        elif conflict.choice == "theirs":
            edits[conflict.path] = conflict.theirs
        elif conflict.choice == "file":
            edits[conflict.path] = conflict.chosen
    return edits
