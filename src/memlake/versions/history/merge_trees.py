"""Three-way merge of trees. Reads only: no ref, no stage, no working file; objects that come of it are in the outcome.

A path changed on one side takes that side; changed alike on both is no conflict; changed differently is one,
unless a merge driver of its kind can join the two. An edit follows a file the other side renamed. After a criss-cross
there are several merge bases: they are merged first, and a path they disagree on counts as changed on both sides.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from memlake.records import Change, Commit, Conflict, Entry
from memlake.versions.history.bases import bases_of_many, merge_bases
from memlake.versions.history.commits import History
from memlake.versions.history.renames import Candidates, find_renamed
from memlake.versions.paths import FILES, folder_clashes
from memlake.versions.text.lines import LARGEST, find_text
from memlake.versions.text.merge3 import merge_text
from memlake.versions.trees import codec, tree

# Stands in a merged base where the bases disagree: equal to nothing either side can hold.
_UNDECIDED = Entry("ff" * 32)
Changes = Mapping[str, Change]
Undecided = Mapping[str, Entry | None]  # where several bases disagree: what one of them has, to be shown


class Made(NamedTuple):
    """An object that a merge made and nobody has stored."""

    data: bytes
    links: tuple[str, ...] = ()


class Outcome(NamedTuple):
    """What to apply on top of ours, and what nobody can decide but a person."""

    edits: Mapping[str, Entry | None]
    conflicts: tuple[Conflict, ...]
    moved: Mapping[str, str] = MappingProxyType({})  # paths of theirs that come under another name
    made: Mapping[str, Made] = MappingProxyType({})  # by oid

    def store(self, history: History, entries: Iterable[Entry | None]) -> None:
        """Store what the merge made of these entries. Whoever names them holds a lease until they are named."""
        for oid in sorted({entry.oid for entry in entries if entry is not None} & self.made.keys()):
            history.objects.write(self.made[oid].data, links=self.made[oid].links)


class Making:
    """The objects one merge reads, with those it makes on the way."""

    def __init__(self, history: History, made: Mapping[str, Made] = MappingProxyType({})) -> None:
        self.history, self.made = history, dict(made)

    def read(self, oid: str) -> bytes:
        return self.made[oid].data if oid in self.made else self.history.objects.read(oid)

    def add(self, data: bytes, *, links: Sequence[str] = ()) -> str:
        oid = hashlib.sha256(data).hexdigest()
        self.made[oid] = Made(data, tuple(links))
        return oid


def merge_commits(history: History, ours: Commit | None, theirs: Commit | None) -> Outcome:
    making = Making(history)
    base, undecided = _fold_bases(making, merge_bases(history, ours, theirs) if ours and theirs else [])
    roots = history.root(ours), history.root(theirs)
    return join_kinds(history, _merge(making, base, *roots, undecided=undecided), *roots)


def join_kinds(history: History, outcome: Outcome, ours: bytes, theirs: bytes) -> Outcome:
    """An outcome with what the layers that know a kind make of its conflicts."""
    for kind in history.kinds.values():
        met = (side for one in outcome.conflicts for side in (one.ours, one.theirs))
        if kind.join and any(side and side.kind == kind.name for side in met):
            outcome = kind.join(history, outcome, ours, theirs)
    return outcome


def _fold_bases(making: Making, bases: Sequence[Commit]) -> tuple[bytes, Undecided]:
    """One tree from several bases: each joins those before it, over what it and all of them have in common."""
    history = making.history
    root, undecided = history.root(bases[0] if bases else None), dict[str, Entry | None]()
    for number, other in enumerate(bases[1:], 1):
        below, open_below = _fold_bases(making, bases_of_many(history, bases[:number], other))
        merged = _merge(making, below, root, history.root(other), undecided=open_below)
        undecided.update((one.path, one.base or one.theirs) for one in merged.conflicts)
        edits = {**merged.edits, **{conflict.path: _UNDECIDED for conflict in merged.conflicts}}
        root, made = tree.edit(history.nodes.get_many, root, _encoded(edits))
        history.nodes.remember(made)
    return root, undecided


Sides = tuple[Entry | None, Entry | None, Entry | None]  # base, ours, theirs


def merge_roots(history: History, base: bytes, ours: bytes, theirs: bytes) -> Outcome:
    """Merge three trees. Cost grows with what changed on either side, not with what exists."""
    return _merge(Making(history), base, ours, theirs)


def _merge(
    making: Making, base: bytes, ours: bytes, theirs: bytes, *, undecided: Undecided = MappingProxyType({})
) -> Outcome:
    mine = {change.path: change for change in making.history.diff_roots(base, ours)}
    other = {change.path: change for change in making.history.diff_roots(base, theirs)}
    edits: dict[str, Entry | None] = {path: change.new for path, change in other.items() if path not in mine}
    met: dict[str, Sides] = {
        path: (change.old, mine[path].new, change.new)
        for path, change in other.items()
        if path in mine and mine[path].new != change.new
    }
    edits.update(_follow(making, mine, other, met))
    conflicts: list[Conflict] = []
    for path, (old, our, their) in met.items():
        edits.pop(path, None)
        joined = _join(making, path, (old, our, their))
        if joined is None:
            conflicts.append(Conflict(path, undecided.get(path) if old == _UNDECIDED else old, our, their))
        else:
            edits[path] = joined
    ours_now = {path: change.new for path, change in mine.items()}
    conflicts.extend(_clashes(ours_now, edits, {one.path for one in conflicts}))
    return Outcome(edits, tuple(sorted(conflicts, key=lambda conflict: conflict.path)), made=making.made)


def _join(making: Making, path: str, sides: Sides) -> Entry | None:
    old, ours, theirs = sides
    if ours is None or theirs is None or ours.kind != theirs.kind or _UNDECIDED in (old, ours, theirs):
        return None
    driver = making.history.kinds[ours.kind].merge
    return driver(making, path, old, ours, theirs) if driver else None


def merge_files(making: Making, old: Entry | None, ours: Entry, theirs: Entry) -> Entry | None:
    """The merge driver of files: small texts whose edits do not touch are joined line by line."""
    if old is None or max(old.size, ours.size, theirs.size) > LARGEST:
        return None
    base, one, two = (find_text(making.read(entry.oid)) for entry in (old, ours, theirs))
    merged = None if base is None or one is None or two is None else merge_text(base, one, two)
    if merged is None:
        return None
    data = merged.encode()
    return Entry(making.add(data), "file", len(data), theirs.mode if ours.mode == old.mode else ours.mode)


# -- renames ----------------------------------------------------------------------------------------


def _follow(making: Making, mine: Changes, other: Changes, met: dict[str, Sides]) -> dict[str, Entry | None]:
    """Edits of files that the other side renamed meet it at the new name, and are no conflict of the old one."""
    edits: dict[str, Entry | None] = {}
    gone = sorted((path, sides) for path, sides in met.items() if None in sides[1:])
    if not gone:
        return edits
    added_by_us, added_by_them = (
        Candidates((one.path, one.new) for one in changes.values() if one.old is None and one.new is not None)
        for changes in (mine, other)
    )
    for path, (old, our, their) in gone:
        edited, added, rival = (their, added_by_us, other) if our is None else (our, added_by_them, mine)
        if old is None or edited is None or edited.kind != "file" or old == _UNDECIDED:
            continue
        target, new = find_renamed(making.read, path, old, added) or (path, old)
        if target == path or target in rival or target in edits or target in met:
            continue
        if new.oid == old.oid:  # not only text follows a file that is the same under its new name
            edits[target] = edited._replace(mode=new.mode if new.mode != old.mode else edited.mode)
        else:
            met[target] = (old, new, edited) if our is None else (old, edited, new)
        edits |= {path: None} if their is None else {}
        del met[path]
    return edits


def _clashes(mine: Mapping[str, Entry | None], edits: dict[str, Entry | None], met: set[str]) -> list[Conflict]:
    """A file on one side where the other has a folder of that name: both wait for a choice, `met` do so already."""
    added = {path for path, entry in edits.items() if entry is not None}
    kept = {path for path, entry in mine.items() if entry is not None and edits.get(path, entry) is not None}
    if not added or not kept:
        return []
    bad = folder_clashes(dict.fromkeys(added | kept))
    conflicts = []
    for path in bad:
        theirs_file = path in added
        below, folder = kept if theirs_file else added, path + "/"
        inside = [p for p in below if p.startswith(folder)]
        theirs, ours = ([path], inside) if theirs_file else (inside, [path])
        conflicts += [Conflict(one, None, None, edits.pop(one)) for one in theirs]
        # Of files both sides are named, because one has to leave the disk before the other can be written.
        conflicts += [Conflict(one, None, mine[one], None) for one in ours if one.startswith(FILES) and one not in met]
    return conflicts


def _encoded(edits: Mapping[str, Entry | None]) -> dict[bytes, bytes | None]:
    return {path.encode(): codec.maybe_bytes(entry) for path, entry in edits.items()}


def apply_choices(history: History, conflicts: tuple[Conflict, ...]) -> dict[str, Entry | None]:
    """The edits that chosen conflicts mean, on top of ours."""
    edits: dict[str, Entry | None] = {}
    for conflict in conflicts:
        side = conflict.ours or conflict.theirs
        settle = history.kinds[side.kind].settle if side else None
        if settle is not None:
            edits.update(settle(history, conflict))
        else:
            # Ours, too: where they renamed the file, our tree has it under the old name.
            sides = {"ours": conflict.ours, "theirs": conflict.theirs, "file": conflict.chosen}
            edits[conflict.path] = sides[conflict.choice or "ours"]
    return edits
