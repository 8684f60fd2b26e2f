"""Versions of a dataset that two branches saved, joined by a merge: none of either side is lost.

The same rows on both sides are one version, and what is said of them is merged field by field. A number that both sides
gave to other rows stays ours: theirs counts on behind ours, with the later ones of their side, in their order. Of a
branch and what was pushed to it, the numbers that were pushed stay. Called where records are in conflict; writes
records, and no commit.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from typing import Any

from memlake.dataset.parts import version_record
from memlake.dataset.parts.version_record import Version, path_of
from memlake.dataset.types.names import ROOM, Semver, parse_version
from memlake.errors import Corrupt, InvalidInput, NotFound, Purged
from memlake.named_tuple import NamedTuple
from memlake.records import Conflict, Entry
from memlake.versions.history.commits import History
from memlake.versions.history.merge_trees import Making, Outcome
from memlake.versions.kinds import Sides
from memlake.versions.trees import tree

_FIELDS = ("description", "attrs", "tags", "params", "metrics")
_GONE = object()  # where a side has no value of that name
Numbered = dict[Semver, Version | None]  # None: it cannot be read, as one that was purged
Renamed = dict[tuple[str, str], tuple[str, str]]  # (spec there, content) -> (spec, number here)


class Meeting(NamedTuple):
    """One dataset with records in conflict."""

    name: str
    ours: Numbered
    theirs: Numbered
    here: Numbered  # ours, counted as they count: what an earlier merge there gave another number has that
    places: dict[Semver, Semver]  # their number -> the number here
    met: dict[Semver, Conflict]  # their number -> where it is in conflict, which knows how it was before

    def path(self, number: Semver) -> str:
        return path_of(self.name, str(number))

    def there(self, number: Semver) -> Version:
        version = self.theirs[number]
        assert version is not None
        return version

    def moves(self) -> dict[Semver, Semver]:
        """Their numbers that are others here."""
        return {old: new for old, new in self.places.items() if old != new}

    def list_renames(self) -> Renamed:
        """How what refers to a version of theirs knows it, and as what it is known here."""
        moves = [(self.there(old), str(new)) for old, new in self.moves().items()]
        return {(one.spec, one.content): (f"{one.name}@{number}", number) for one, number in moves}


def join_versions(history: History, outcome: Outcome, ours: bytes, theirs: bytes, *, yields: bool = False) -> Outcome:
    """The outcome of a merge of two trees, with what can be joined of datasets joined. If ours `yields`, numbers that
    both sides gave stay theirs."""
    joined = _join(history, outcome, ours, theirs)
    return _join_from_there(history, outcome, ours, theirs) if yields and joined.moved else joined


def _join_from_there(history: History, outcome: Outcome, ours: bytes, theirs: bytes) -> Outcome:
    """The same join as their side would make it, told as what to change on ours."""
    differ = {change.path: change for change in history.diff_roots(ours, theirs, ROOM)}
    met = {one.path: one for one in outcome.conflicts if one.path.startswith(ROOM)}
    turned = _join(
        history,
        outcome._replace(
            edits={path: one.old for path, one in differ.items() if path not in outcome.edits and path not in met},
            conflicts=tuple(one._replace(ours=one.theirs, theirs=one.ours) for one in met.values()),
        ),
        theirs,
        ours,
    )
    conflicts = {one.path: one for one in outcome.conflicts if one.path not in met}
    conflicts |= {one.path: one._replace(ours=one.theirs, theirs=one.ours) for one in turned.conflicts}
    edits = {path: entry for path, entry in outcome.edits.items() if not path.startswith(ROOM)}
    edits |= {**{path: one.new for path, one in differ.items()}, **turned.edits}
    same = {path for path, one in differ.items() if edits[path] == one.old}
    edits = {path: entry for path, entry in edits.items() if path not in conflicts and path not in same}
    ordered = tuple(conflicts[path] for path in sorted(conflicts))
    return outcome._replace(edits=edits, conflicts=ordered, yielded=turned.moved, made=turned.made)


def _join(history: History, outcome: Outcome, ours: bytes, theirs: bytes) -> Outcome:
    paths = [one.path for one in outcome.conflicts if one.path.startswith(ROOM)]
    meetings = [
        _match_versions(name, _read_versions(history, ours, name), _read_versions(history, theirs, name), outcome)
        for name in sorted({path.removeprefix(ROOM).rpartition("/")[0] for path in paths})
    ]
    known = {key: renamed for one in meetings for key, renamed in one.list_renames().items()}
    edits, conflicts = dict(outcome.edits), {one.path: one for one in outcome.conflicts}
    making = Making(history, outcome.made)
    for one in meetings:
        _apply(making, one, known, (edits, conflicts))
    _rename_parents(making, outcome, known, edits)
    moved = {one.path(old): one.path(new) for one in meetings for old, new in one.moves().items()}
    ordered = tuple(conflicts[path] for path in sorted(conflicts))
    return outcome._replace(edits=edits, conflicts=ordered, moved={**outcome.moved, **moved}, made=making.made)


# -- which number ----------------------------------------------------------------------------------


def _read_versions(history: History, root: bytes, name: str) -> Numbered:
    prefix = f"{ROOM}{name}/"
    versions: Numbered = {}
    for change in history.diff_roots(tree.EMPTY, root, prefix):
        with contextlib.suppress(InvalidInput):  # `Repo.write` puts anything anywhere
            versions[parse_version(change.path.removeprefix(prefix))] = _read(history, change.path, change.new)
    return versions


def _read(history: History, path: str, entry: Entry | None) -> Version | None:
    try:
        version = version_record.decode(history.objects.read(entry.oid)) if entry else None
    except (Corrupt, Purged, NotFound):
        return None
    return version if version is not None and version.path == path else None


def _match_versions(name: str, ours: Numbered, theirs: Numbered, outcome: Outcome) -> Meeting:
    paths = {number: path_of(name, str(number)) for number in {*ours, *theirs}}
    by_path = {one.path: one for one in outcome.conflicts}
    conflicts = {n: by_path[path] for n, path in paths.items() if path in by_path}
    taken = {n for n, path in paths.items() if path in outcome.edits}  # theirs alone changed what is there
    new: Numbered = {n: theirs[n] for n in taken if n not in ours and theirs.get(n)}
    back = {
        n: place
        for n in conflicts
        if (place := _find_place(ours.get(n), new, n)) and not _alike(ours[n], theirs.get(n))
    }
    here: Numbered = {n: theirs[n] for n in taken if n in ours and n in theirs}
    for n, one in ours.items():
        if n not in taken:
            number = back.get(n, n)
            here[number] = one and one._replace(version=str(number))
    met = {n: one for n, one in conflicts.items() if theirs.get(n) and (ours.get(n) or _find_place(theirs[n], here, n))}
    places = _choose_places({*met, *new}, theirs, here)
    return Meeting(name, ours, theirs, here, places, met | {place: conflicts[n] for n, place in back.items()})


def _choose_places(coming: set[Semver], theirs: Numbered, here: Numbered) -> dict[Semver, Semver]:
    """Where each of theirs goes: to the same save, to its own number, or behind all once one had to."""
    end = max([*here, *(number for number, one in theirs.items() if one is None)], default=Semver(0, 0, 0))
    places: dict[Semver, Semver] = {}
    counting = False
    for number in sorted(coming):
        place = _find_place(theirs[number], here, number)
        if place is None and (number in here or (counting and number <= end)):
            # Count up the part of the number that their save counted up
            before = max((one for one in theirs if one < number), default=number)
            part = "major" if before.major != number.major else "minor" if before.minor != number.minor else "patch"
            place, counting = end.bump(part), True
        places[number] = place or number
        end = max(end, places[number])
    return places


def _alike(one: Version | None, other: Version | None) -> bool:
    return one is not None and other is not None and one.content == other.content


def _find_place(one: Version | None, among: Numbered, number: Semver) -> Semver | None:
    """Where a version is: under its number if that has the same rows, or the very same save under another."""
    if one is None:
        return None
    if _alike(one, among.get(number)):
        return number
    saves = {(each.content, each.created): place for place, each in among.items() if each is not None}
    return saves.get((one.content, one.created))


# -- what is written -------------------------------------------------------------------------------


def _apply(
    making: Making, at: Meeting, known: Renamed, into: tuple[dict[str, Entry | None], dict[str, Conflict]]
) -> None:
    """Put each version of theirs where its place is, joined with ours if that is the same."""
    edits, conflicts = into
    left = at.ours.keys() - at.here.keys()
    for number in (*at.places, *left):
        edits.pop(at.path(number), None)
        conflicts.pop(at.path(number), None)
    edits |= {at.path(number): None for number in left}
    for number, place in at.places.items():
        path, met = at.path(place), at.met.get(number)
        theirs = _with_parents(at.there(number)._replace(version=str(place)), known)
        ours = at.here.get(place)
        if ours is None:
            edits[path] = _entry(making, theirs)
            continue
        base = _read(making.history, met.path, met.base) if met else None
        base = base if _alike(base, theirs) else None
        mine, other = (_merge_fields(base, ours, theirs, ours_wins=wins) for wins in (True, False))
        if mine != at.ours.get(place):
            edits[path] = _entry(making, mine)
        if _differing_fields(mine, other):  # a field that both changed: ours is written, unless theirs is chosen
            conflicts[path] = Conflict(path, met and met.base, _entry(making, mine), _entry(making, other))


def _entry(making: Making, version: Version) -> Entry:
    data = version_record.encode(version)
    return Entry(making.add(data, links=[version.manifest]), "dataset", len(data))


def _rename_parents(making: Making, outcome: Outcome, known: Renamed, edits: dict[str, Entry | None]) -> None:
    """Versions of theirs that are made of one with another number here say so."""
    if not known:
        return
    for path, entry in outcome.edits.items():
        if path.startswith(ROOM) and edits.get(path) == entry and (found := _read(making.history, path, entry)):
            renamed = _with_parents(found, known)
            edits[path] = _entry(making, renamed) if renamed != found else entry


def _with_parents(version: Version, known: Renamed) -> Version:
    facts = version.provenance
    names: dict[str, str] = {}
    parents: list[Mapping[str, Any]] = []
    for parent in facts.get("parents") or ():
        if isinstance(parent, Mapping):
            spec = str(parent.get("spec"))
            new = known.get((spec, str(parent.get("content"))))
            if new is not None:
                names[spec] = new[0]
            parents.append({**parent, "spec": new[0], "version": new[1]} if new is not None else parent)
    if not names:
        return version
    columns = {
        column: [[names.get(spec, spec), theirs] for spec, theirs in sources]
        for column, sources in (facts.get("columns") or {}).items()
    }
    return version._replace(provenance={**facts, "parents": parents, "columns": columns})


def show_sides(history: History, met: Conflict) -> Sides | None:
    """What each side says in the fields that both changed; None if the conflict is not about such fields."""
    ours, theirs = (_read(history, met.path, entry) for entry in (met.ours, met.theirs))
    fields = _differing_fields(ours, theirs) if ours and theirs else []
    mine, other = (
        json.dumps({name: getattr(one, name) for name in fields}, ensure_ascii=False) for one in (ours, theirs)
    )
    return Sides(f"{met.path}  ({', '.join(fields)})", mine, other) if fields else None


def _differing_fields(one: Version, other: Version) -> list[str]:
    return [name for name in _FIELDS if getattr(one, name) != getattr(other, name)]


# -- field by field --------------------------------------------------------------------------------


def _merge_fields(base: Version | None, ours: Version, theirs: Version, *, ours_wins: bool) -> Version:
    """Ours, with what theirs says of the same rows; a field that both changed is as the side that wins has it."""
    blank = Version("", "", "", "", ours.schema, 0, 0, 0)
    fields = {
        name: _merge_value(
            getattr(base or blank, name), getattr(ours, name), getattr(theirs, name), ours_wins=ours_wins
        )
        for name in _FIELDS
    }
    mine, other = ours.provenance, theirs.provenance
    if base is None:  # another making of the same rows: only its params are said of the version, too
        other = {**mine, **{key: other[key] for key in ("params",) if key in other}}
    provenance = _merge_value((base or blank).provenance, mine, other, ours_wins=ours_wins)
    # Deleted if both did, or one did since; rows that each side saved for itself are kept if one keeps them.
    is_gone = (ours.deleted and theirs.deleted) or (base is not None and not base.deleted)
    deleted = (ours.deleted or theirs.deleted) if is_gone else None
    return ours._replace(**fields, deleted=deleted, provenance=provenance)


def _merge_value(base: Any, ours: Any, theirs: Any, *, ours_wins: bool) -> Any:
    """The value of three: the side that changed it; of named values and of labels each is one."""
    if theirs in (ours, base):
        return ours
    if ours == base:
        return theirs
    if isinstance(ours, Mapping) and isinstance(theirs, Mapping):
        old = base if isinstance(base, Mapping) else {}
        values = {
            key: _merge_value(*(one.get(key, _GONE) for one in (old, ours, theirs)), ours_wins=ours_wins)
            for key in {**ours, **theirs}
        }
        return {key: value for key, value in values.items() if value is not _GONE}
    if isinstance(ours, tuple) and isinstance(theirs, tuple):
        kept = [one for one in ours if one in theirs or one not in base]
        return (*kept, *(one for one in theirs if one not in ours and one not in base))
    return ours if ours_wins else theirs
