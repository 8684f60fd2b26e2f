"""Three-way merge of trees. Reads only: knows no ref, stage or working file, and returns the objects it made.

A path that one side changed takes that side. A path that both changed in the same way is not a conflict; one that they
changed differently is, unless the merge driver of its kind can join the two. An edit follows a file that the other side
renamed. After a criss-cross there are several merge bases: they are merged first, and a path they disagree on counts
as changed on both sides.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

from memlake.named_tuple import NamedTuple
from memlake.records import Change, Commit, Conflict, Entry, MergeHow
from memlake.versions.history.bases import bases_of_many, merge_bases
from memlake.versions.history.commits import History
from memlake.versions.history.renames import Candidates, find_renamed
from memlake.versions.kinds import Joined
from memlake.versions.paths import FILES, folder_clashes
from memlake.versions.text.lines import LARGEST, find_object_text
from memlake.versions.text.merge3 import OPEN, join_text
from memlake.versions.trees import codec, tree

if TYPE_CHECKING:
    from memlake.versions.kinds import Three

# Placeholder in a merged base where the bases disagree: it equals no real entry.
_UNDECIDED = Entry("ff" * 32)
Changes = Mapping[str, Change]
Settle = Callable[[str], MergeHow]  # how to settle places inside a path
Undecided = Mapping[str, Entry | None]  # what one of the bases has where they disagree, to be shown to people


class Made(NamedTuple):
    """An object that a merge made and that is not stored yet."""

    data: bytes
    links: tuple[str, ...] = ()


class Outcome(NamedTuple):
    """What to apply on top of ours, and what a person must decide."""

    edits: Mapping[str, Entry | None]
    conflicts: tuple[Conflict, ...]
    moved: Mapping[str, str] = MappingProxyType({})  # paths of theirs that get another name here
    yielded: Mapping[str, str] = MappingProxyType({})  # paths of ours that do, where theirs keep their names
    made: Mapping[str, Made] = MappingProxyType({})  # by oid
    half: Mapping[str, Joined] = MappingProxyType({})  # of paths in conflict, what can be joined of them
    notes: Mapping[str, tuple[str, ...]] = MappingProxyType({})  # by path, what somebody should know of what was joined

    def store(self, history: History, entries: Iterable[Entry | None]) -> None:
        """Store those of these entries that the merge made. The caller holds a lease until something names them."""
        for oid in sorted({entry.oid for entry in entries if entry is not None} & self.made.keys()):
            history.objects.write(self.made[oid].data, links=self.made[oid].links)


Roots = tuple[bytes, bytes, bytes]  # of the trees of base, ours, theirs


class Making:
    """The objects that a merge reads, stored ones and those it made itself. `find_roots` finds the trees it joins."""

    def __init__(
        self,
        history: History,
        made: Mapping[str, Made] = MappingProxyType({}),
        find_roots: Callable[[], Roots] | None = None,
    ) -> None:
        self.history, self.made, self._find_roots = history, dict(made), find_roots

    def over(self, find_roots: Callable[[], Roots]) -> Making:
        """The same objects, for a merge of other trees."""
        other = Making(self.history, find_roots=find_roots)
        other.made = self.made
        return other

    def find_beside(self, side: int, path: str) -> Entry | None:
        """What another path holds on a side: 0 base, 1 ours, 2 theirs."""
        if self._find_roots is None:
            return None
        found = tree.get(self.history.nodes.get_many, self._find_roots()[side], [path.encode()])
        entry = next(map(codec.decode_entry, found.values()), None)
        return None if entry == _UNDECIDED else entry

    def read(self, oid: str) -> bytes:
        return self.made[oid].data if oid in self.made else self.history.objects.read(oid)

    def bring(self, oids: Iterable[str]) -> None:
        """Have here in one go what will be read and is at a remote only."""
        self.history.objects.bring(oid for oid in oids if oid not in self.made)

    def find_purged(self, oids: Iterable[str]) -> set[str]:
        """Those of these objects that nobody can read any more."""
        return self.history.objects.find_purged(oid for oid in oids if oid not in self.made)

    def add(self, data: bytes, *, links: Sequence[str] = ()) -> str:
        oid = hashlib.sha256(data).hexdigest()
        self.made[oid] = Made(data, tuple(links))
        return oid


def settle_nothing(_path: str) -> MergeHow:
    return OPEN


def merge_commits(
    history: History, ours: Commit | None, theirs: Commit | None, settle: Settle = settle_nothing, *,
    yields: bool = False,
) -> Outcome:  # fmt: skip
    """With `yields`, what of ours has a name that theirs took gets another one, because others know theirs by it."""
    making = Making(history)
    base, undecided = _fold_bases(making, merge_bases(history, ours, theirs) if ours and theirs else [])
    roots = history.root(ours), history.root(theirs)
    merged = _merge(making, (base, *roots), undecided=undecided, settle=settle)
    return join_kinds(history, merged, *roots, yields=yields)


def find_base(history: History, ours: Commit | None, theirs: Commit | None) -> bytes:
    """The tree that a merge of two commits compares both with."""
    return _fold_bases(Making(history), merge_bases(history, ours, theirs) if ours and theirs else [])[0]


def join_kinds(history: History, outcome: Outcome, ours: bytes, theirs: bytes, *, yields: bool = False) -> Outcome:
    """The outcome after each kind has tried to join its own conflicts."""
    for kind in history.kinds.values():
        sides = (side for conflict in outcome.conflicts for side in (conflict.ours, conflict.theirs))
        if kind.join and any(side and side.kind == kind.name for side in sides):
            outcome = kind.join(history, outcome, ours, theirs, yields)
    return outcome


def _fold_bases(making: Making, bases: Sequence[Commit]) -> tuple[bytes, Undecided]:
    """One tree from several bases. Each is merged into those before it, over the bases that it shares with them."""
    history = making.history
    root, undecided = history.root(bases[0] if bases else None), dict[str, Entry | None]()
    for number, other in enumerate(bases[1:], 1):
        below, open_below = _fold_bases(making, bases_of_many(history, bases[:number], other))
        merged = _merge(making, (below, root, history.root(other)), undecided=open_below)
        undecided.update((conflict.path, conflict.base or conflict.theirs) for conflict in merged.conflicts)
        edits = {**merged.edits, **{conflict.path: _UNDECIDED for conflict in merged.conflicts}}
        encoded = {path.encode(): codec.maybe_bytes(entry) for path, entry in edits.items()}
        root, nodes = tree.edit(history.nodes.get_many, root, encoded)
        history.nodes.remember(nodes)
    return root, undecided


Sides = tuple[Entry | None, Entry | None, Entry | None]  # base, ours, theirs


def merge_roots(
    history: History, base: bytes, ours: bytes, theirs: bytes, *, settle: Settle = settle_nothing
) -> Outcome:
    """Merge three trees. Cost grows with what changed on either side, not with what exists."""
    return _merge(Making(history), (base, ours, theirs), settle=settle)


def _merge(
    making: Making, roots: Roots, *, undecided: Undecided = MappingProxyType({}),
    settle: Settle = settle_nothing,
) -> Outcome:  # fmt: skip
    making = making.over(lambda: roots)
    base, ours, theirs = roots
    mine = {change.path: change for change in making.history.diff_roots(base, ours)}
    other = {change.path: change for change in making.history.diff_roots(base, theirs)}
    edits: dict[str, Entry | None] = {path: change.new for path, change in other.items() if path not in mine}
    met: dict[str, Sides] = {
        path: (change.old, mine[path].new, change.new)
        for path, change in other.items()
        if path in mine and mine[path].new != change.new
    }
    edits.update(_follow(making, mine, other, met))
    texts = [entry for _, our, their in met.values() if our and their for entry in (our, their)]
    texts += [old for old, our, their in met.values() if old and our and their]
    making.bring(entry.oid for entry in texts if entry != _UNDECIDED and entry.size <= LARGEST)
    conflicts, half, notes = list[Conflict](), dict[str, Joined](), dict[str, tuple[str, ...]]()
    beside = dict[str, Entry]()
    for path, (old, our, their) in met.items():
        edits.pop(path, None)
        joined = join_path(making, path, (old, our, their), settle)
        notes |= {path: joined.notes} if joined and joined.notes else {}
        beside |= joined.beside if joined else {}
        if joined is None or joined.entry is None or joined.conflicts:
            conflicts.append(Conflict(path, undecided.get(path) if old == _UNDECIDED else old, our, their))
            half |= {path: joined} if joined else {}
        else:
            edits[path] = joined.entry
    edits |= beside
    for path in [path for path, entry in beside.items() if making.find_beside(1, path) == entry]:
        del edits[path]
    conflicts = [one for one in conflicts if one.path not in beside]
    ours_now = {path: change.new for path, change in mine.items()}
    conflicts.extend(_find_clashes(ours_now, edits, {conflict.path for conflict in conflicts}))
    conflicts.sort(key=lambda conflict: conflict.path)
    return Outcome(edits, tuple(conflicts), made=making.made, half=half, notes=notes)


def join_path(making: Making, path: str, sides: Sides, settle: Settle) -> Joined | None:
    """Two edits of one path joined by the driver of its kind; None if that cannot be."""
    old, ours, theirs = sides
    if ours is None or theirs is None or ours.kind != theirs.kind or _UNDECIDED in (old, ours, theirs):
        return None
    driver = making.history.kinds[ours.kind].merge
    if driver is None or making.find_purged(entry.oid for entry in (old, ours, theirs) if entry is not None):
        return None
    return driver(making, path, (old, ours, theirs), settle(path))


def merge_files(making: Making, sides: Three, how: MergeHow) -> Joined | None:
    """The merge driver of files: small texts, joined line by line where edits do not touch or a choice was made."""
    old, ours, theirs = sides
    entries = [entry for entry in (old, ours, theirs) if entry is not None]
    if max(entry.size for entry in entries) > LARGEST:
        return None  # before any of them is read
    texts = [text for entry in entries if (text := find_object_text(making.read, entry)) is not None]
    if len(texts) < len(entries):
        return None
    before, mine, other = texts if old else ("", *texts)
    merged, conflicts = join_text(before, mine, other, how)
    if merged is None:
        return Joined(None, conflicts)
    if old is None and not how.strategy and not how.choices:
        return None  # both added it: which text is empty says nothing
    data = merged.encode()
    mode = theirs.mode if old is not None and ours.mode == old.mode else ours.mode
    return Joined(Entry(making.add(data), "file", len(data), mode))


# -- renames ----------------------------------------------------------------------------------------


def _follow(making: Making, mine: Changes, other: Changes, met: dict[str, Sides]) -> dict[str, Entry | None]:
    """Let edits of files that the other side renamed meet it at the new name, not conflict at the old one."""
    edits: dict[str, Entry | None] = {}
    gone = sorted((path, sides) for path, sides in met.items() if None in sides[1:])
    if not gone:
        return edits
    added_by_us, added_by_them = (
        Candidates((c.path, c.new) for c in changes.values() if c.old is None and c.new is not None)
        for changes in (mine, other)
    )
    for path, (old, our, their) in gone:
        edited, added, rival = (their, added_by_us, other) if our is None else (our, added_by_them, mine)
        if old is None or edited is None or edited.kind != "file" or old == _UNDECIDED:
            continue
        target, new = find_renamed(making.read, path, old, added, bring=making.bring) or (path, old)
        if target == path or target in rival or target in edits or target in met:
            continue
        if new.oid == old.oid:  # also for files that are not text, because the new name has the same content
            edits[target] = edited._replace(mode=new.mode if new.mode != old.mode else edited.mode)
        else:
            met[target] = (old, new, edited) if our is None else (old, edited, new)
        edits |= {path: None} if their is None else {}
        del met[path]
    return edits


def _find_clashes(mine: Mapping[str, Entry | None], edits: dict[str, Entry | None], met: set[str]) -> list[Conflict]:
    """Conflicts where one side has a file and the other a folder of that name. `met` are in conflict already."""
    added = {path for path, entry in edits.items() if entry is not None}
    kept = {path for path, entry in mine.items() if entry is not None and edits.get(path, entry) is not None}
    if not added or not kept:
        return []
    conflicts = []
    for path in folder_clashes(dict.fromkeys(added | kept)):
        is_their_file = path in added
        inside = [p for p in (kept if is_their_file else added) if p.startswith(f"{path}/")]
        theirs, ours = ([path], inside) if is_their_file else (inside, [path])
        conflicts += [Conflict(p, None, None, edits.pop(p)) for p in theirs]
        # Of files both sides are named, because one has to leave the disk before the other can be written.
        conflicts += [Conflict(p, None, mine[p], None) for p in ours if p.startswith(FILES) and p not in met]
    return conflicts


def apply_choices(history: History, conflicts: tuple[Conflict, ...]) -> dict[str, Entry | None]:
    """The edits on top of ours that result from the choices made in these conflicts."""
    edits: dict[str, Entry | None] = {}
    for conflict in conflicts:
        side = conflict.ours or conflict.theirs
        settle = history.kinds[side.kind].settle if side else None
        if settle is not None:
            edits.update(settle(history, conflict))
        else:
            # Ours is an edit too: if they renamed the file, our tree has it under the old name.
            sides = {"ours": conflict.ours, "theirs": conflict.theirs, "file": conflict.chosen}
            edits[conflict.path] = sides[conflict.choice or "ours"]
    return edits
