"""Settling what a merge waits for, place by place: a path, a value of a document, a cell of a table or of a notebook.

A choice of a place is kept beside its conflict, and the working file is written again with it; the clean edits of both
sides stay in any case. When every place of a file is chosen, the file is staged and its conflict is resolved. Answers
are remembered by hashes of the conflict alone, so that what is purged cannot be read from them.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence, Set
from typing import Any

from memlake.errors import Conflict as ConflictError
from memlake.errors import InvalidInput, NotFound, Nothing
from memlake.named_tuple import NamedTuple
from memlake.objects.leases import Keeping
from memlake.records import Change, Conflict, Entry, InnerConflict, Merged, MergeHow, count
from memlake.reports import Place
from memlake.versions import conditions
from memlake.versions.checkout import worktree
from memlake.versions.checkout.context import Checkout
from memlake.versions.checkout.local import MERGED
from memlake.versions.checkout.pending import STRATEGIES, Pending
from memlake.versions.conditions import Comparison, is_number
from memlake.versions.history.merge_trees import Making, Outcome, join_path
from memlake.versions.kinds import Joined, kind_at
from memlake.versions.paths import file_path, matches, plain
from memlake.versions.verbs import merge_to_stage, strategy

SIDES = (*STRATEGIES, "both")
_KEPT = 1000  # answers that are remembered
_NUMBER = re.compile(r"-?\d+(\.\d+)?([eE][+-]?\d+)?")


class Wanted(NamedTuple):
    """Which places are meant: those in some paths, and of those the ones a condition or a name picks; none: all."""

    paths: tuple[str, ...] = ()
    where: str = ""
    place: str = ""


class _Met(NamedTuple):
    """A conflict, how its path is settled, and what is inside it: the places that need a choice, whoever made it."""

    conflict: Conflict
    how: MergeHow
    inner: tuple[InnerConflict, ...]
    why: str = ""  # it is decided as a whole


# -- looking -----------------------------------------------------------------------------------------


def list_places(here: Checkout, paths: tuple[str, ...] = ()) -> tuple[Place, ...]:
    """Everything that what waits has to decide or has decided, down to the places inside files."""
    return tuple(place for met in _find_met(here, paths) for place in _describe(here, met))


def _find_met(here: Checkout, paths: tuple[str, ...]) -> list[_Met]:
    pending = get_pending(here)
    conflicts = here.local.conflicts()
    for path in paths:
        if not any(matches(one.path, (path,)) for one in conflicts):
            listed = "  ".join(plain(one.path) for one in conflicts[:5])
            raise NotFound(f"{plain(path)!r} is not in conflict. Nothing was changed.", hint=f"In conflict: {listed}")
    settle = strategy.make_settle(here, pending)
    making = merge_to_stage.open_making(here, pending)
    found = []
    for one in conflicts:
        if not paths or matches(one.path, paths):
            joined = join_path(making, one.path, (one.base, one.ours, one.theirs), settle)
            inner, why = (joined.conflicts, joined.why) if joined else ((), "")
            found.append(_Met(one, settle(one.path), inner, why))
    return found


def _describe(here: Checkout, met: _Met) -> list[Place]:
    one, kind = met.conflict, kind_at(met.conflict.path)
    if met.inner:
        whole = one.choice if one.choice != "file" or not one.places else None
        chosen = {inner.place: whole or one.places.get(inner.place) for inner in met.inner}
        return [
            Place(one.path, kind.name, i.place, i.base, i.ours, i.theirs, i.where, chosen[i.place], one.status)
            for i in met.inner
        ]
    sides = kind.sides(here.history, one) if kind.sides else None
    values: tuple[Any, ...] = (one.base, one.ours, one.theirs)
    if sides is not None:
        values = (None, sides.ours, sides.theirs)
    base, ours, theirs = values
    return [Place(one.path, kind.name, "", base, ours, theirs, {}, one.choice, one.status, met.why)]


def get_pending(here: Checkout) -> Pending:
    pending = here.local.find_pending()
    if pending is None:
        raise Nothing(
            "no merge, revert, cherry-pick, rebase or stash is waiting.", hint="See where you are: memlake status"
        )
    return pending


# -- choosing ----------------------------------------------------------------------------------------


def resolve(here: Checkout, side: str, wanted: Wanted) -> tuple[Place, ...]:
    """Take one side at the places that are meant; returns those that are still open anywhere."""
    if side not in SIDES:
        raise InvalidInput(f"a conflict has no side {side!r:.50}.", hint=f"Choose one of: {', '.join(STRATEGIES)}")
    met = _find_met(here, wanted.paths)
    picked = [_pick(here, one, wanted) for one in met]
    if (wanted.where or wanted.place) and not any(picked):
        raise _tell_no_match(here, met, wanted)
    # What is settled already is changed by its own name alone.
    named = [
        (one, places)
        for one, places in zip(met, picked, strict=True)
        if places and (one.conflict.choice is None or one.conflict.path in wanted.paths)
    ]
    detail = " ".join(file_path(one.conflict.path) for one, _ in named[:5])
    _settle(here, [(one, dict.fromkeys(places, side)) for one, places in named], (f"resolve --{side}", detail))
    return _list_open(here, met)


def _list_open(here: Checkout, known: Sequence[_Met]) -> tuple[Place, ...]:
    """What is open anywhere. What is inside the known ones has not changed, and finding it out costs a merge."""
    rows = {one.path: one for one in here.local.conflicts()}
    others = tuple(path for path in rows if path not in {met.conflict.path for met in known})
    met = [one._replace(conflict=rows[one.conflict.path]) for one in known]
    met += _find_met(here, others) if others else []
    places = (place for one in sorted(met, key=lambda one: one.conflict.path) for place in _describe(here, one))
    return tuple(place for place in places if place.choice is None)


def _pick(here: Checkout, met: _Met, wanted: Wanted) -> list[str]:
    """The places of a conflict that are meant; "" is the path as a whole."""
    places = _describe(here, met)
    if wanted.place:
        places = [one for one in places if one.place == wanted.place]
    if wanted.where:
        if not re.search("[=<>]", wanted.where):
            places = [one for one in places if one.place == wanted.where.strip()]
        else:
            comparisons = conditions.parse_typed(wanted.where, bare="place").comparisons
            places = [one for one in places if _fits(one, comparisons)]
    elif not wanted.place and met.conflict.choice is None:
        places = [one for one in places if one.choice is None]
    return [one.place for one in places]


def _fits(place: Place, comparisons: Sequence[Comparison]) -> bool:
    """Whether all comparisons hold. What a place is known by is text in one format and a number in another."""
    known = {**place.where, "place": place.place}
    for one in comparisons:
        held = known.get(one.fact.name)
        if isinstance(held, str) and is_number(one.value):
            held = float(held) if _NUMBER.fullmatch(held) else held
        if isinstance(one.value, str) and not isinstance(held, str):
            held = json.dumps(held, default=str)
        is_other = one.operator == "!=" and type(held) is not type(one.value)
        if one.fact.name not in known or not (one.compare(held) or (is_other and not is_number(held))):
            return False
    return True


def _tell_no_match(here: Checkout, met: Sequence[_Met], wanted: Wanted) -> NotFound:
    places = [place for one in met for place in _describe(here, one)]
    names = sorted({name for place in places for name in place.where})
    first = next((place for place in places if place.where), None)
    known = f" Places are picked by: {', '.join(names)}." if names else " It has no places inside."
    shown = "  ".join(place.place for place in places[:5] if place.place)
    return NotFound(
        f"no place in conflict fits {wanted.where or wanted.place!r}.{known} Nothing was changed.",
        hint=f"Waiting: {shown}" if first else "See what waits: memlake conflicts",
    )


def _settle(here: Checkout, chosen: Sequence[tuple[_Met, Mapping[str, str]]], verb: tuple[str, str]) -> None:
    """Apply choices to conflicts: their files, the stage and the rows that say so, as one operation."""
    if not chosen:
        return
    pending = get_pending(here)
    making, settled, still_open = merge_to_stage.open_making(here, pending), list[Conflict](), list[Conflict]()
    for met, sides in chosen:
        made = _settle_one(here, pending, making, (met, sides))
        (settled if made.choice else still_open).append(made)
    with Keeping(here.history.db, "resolve") as keeping:
        keeping.take()  # joined files are stored before they are named
        entries = [entry for one in (*settled, *still_open) for entry in (one.chosen, one.written)]
        Outcome({}, (), made=making.made).store(here.history, entries)
        merge_to_stage.take_sides(here, settled, verb, still_open=still_open)


def _settle_one(here: Checkout, pending: Pending, making: Making, chosen: tuple[_Met, Mapping[str, str]]) -> Conflict:
    met, sides = chosen
    one = met.conflict
    if "" in sides:
        return one._replace(choice=_check_whole(here, pending, one, sides[""]), chosen=None, places={})
    _refuse_edited(here, one)
    places = {**(one.places if one.choice in (None, "file") else {}), **sides}
    latest = met.how.latest or strategy.find_latest(here, pending, one.path) if "latest" in places.values() else ""
    how = met.how._replace(choices=places, latest=latest)
    joined = join_path(making, one.path, (one.base, one.ours, one.theirs), lambda _: how)
    if unsettled := [inner.place for inner in joined.conflicts if inner.place in sides] if joined else []:
        raise InvalidInput(
            f"{sides[unsettled[0]]!r} has no meaning for {unsettled[0]!r} of {plain(one.path)}. Nothing was changed.",
            hint="Choose ours or theirs there.",
        )
    if joined is not None and joined.entry is not None and not joined.conflicts:
        return one._replace(choice="file", chosen=joined.entry, places=places)
    written = merge_to_stage.join_open(making, one, joined, pending.names, how)
    return one._replace(choice=None, chosen=None, written=written, places=places)


def _check_whole(here: Checkout, pending: Pending, met: Conflict, side: str) -> str:
    """What is chosen for a path as a whole: "ours", "theirs" or "both"."""
    entry = met.ours or met.theirs
    keeps_both = entry is not None and here.history.kinds[entry.kind].settle is not None
    if side == "latest" and (met.base or (met.ours and met.theirs)):
        side = strategy.find_latest(here, pending, met.path)
    if side in ("both", "union") and keeps_both and met.ours and met.theirs:
        return "both"
    if side not in ("ours", "theirs"):
        what = "which side is the latest" if side in ("", "latest") else f"how to make a {side} of"
        raise InvalidInput(
            f"memlake cannot say {what} {kind_at(met.path).label(plain(met.path))!r}. Nothing was changed.",
            hint="Choose ours or theirs there.",
        )
    return side


def _refuse_edited(here: Checkout, met: Conflict) -> None:
    """A file that somebody edited since is not written again: only that person knows which places are done."""
    expected = met.chosen if met.choice == "file" else met.theirs if met.choice == "theirs" else None
    if met.choice is None:
        expected = met.written
    path, expected = file_path(met.path), expected or met.ours
    if expected is not None and not worktree.holds(here.root, path, expected, None, True):
        name = worktree.path_as_typed(here.root, path)
        raise ConflictError(
            f"{path!r} was edited since the {get_pending(here).verb} wrote it. Nothing was changed.",
            hint=f"Take the file as it is: memlake add {name}\nOr drop the edit first: memlake restore --merge {name}",
        )


def open_again(here: Checkout, conflicts: Sequence[Conflict]) -> tuple[Change, ...]:
    """Put what the merge wrote into files of conflicts back into them; their choices are open again."""
    pending = get_pending(here)
    making = merge_to_stage.open_making(here, pending)
    settle, opened = strategy.make_settle(here, pending), list[Conflict]()
    for one in conflicts:
        if not one.places:
            opened.append(one)
            continue
        joined: Joined | None = join_path(making, one.path, (one.base, one.ours, one.theirs), settle)
        written: Entry | None = merge_to_stage.join_open(making, one, joined, pending.names)
        opened.append(one._replace(written=written or one.written))
    with Keeping(here.history.db, "resolve") as keeping:
        keeping.take()
        Outcome({}, (), made=making.made).store(here.history, [one.written for one in opened])
        return merge_to_stage.write_again(here, opened)


# -- answers that were given before ------------------------------------------------------------------


def settle_known(here: Checkout, merged: Merged) -> Merged:
    """What began to wait, after what was settled before is settled as it was then."""
    recalled = recall(here) if merged.conflicts else ()
    return merged._replace(conflicts=here.local.conflicts(), recalled=recalled) if recalled else merged


def recall(here: Checkout) -> tuple[tuple[str, str], ...]:
    """Settle what waits as the same was settled before; returns what was, as (path, place)."""
    answers = {key: side for key, _, side in here.local.read_answers()}
    if not answers:
        return ()
    chosen: list[tuple[_Met, Mapping[str, str]]] = []
    for met in _find_met(here, ()):
        if met.conflict.choice is None:
            sides = {place: answers.get(_hash_place(here, met, place), "") for place in _list_names(met)}
            if known := {place: side for place, side in sides.items() if side}:
                chosen.append((met, known))
    _settle(here, chosen, ("resolve", f"{count(sum(len(sides) for _, sides in chosen), 'place')} as before"))
    return tuple((met.conflict.path, place) for met, sides in chosen for place in sides)


def forget(here: Checkout, paths: tuple[str, ...]) -> int:
    """Forget how conflicts of some paths were settled, of all without paths; returns how many."""
    answers = here.local.read_answers()
    hashes = {_hash(here, path) for path in paths}
    kept = [one for one in answers if paths and one[1] not in hashes]
    here.local.write_answers(kept)
    return len(answers) - len(kept)


def list_answers(here: Checkout, *, apart: Set[str] = frozenset()) -> list[list[str]]:
    """How somebody settled what waits, to be remembered once it is concluded; `apart` are paths that nobody chose."""
    chosen = [one for one in here.local.conflicts() if one.choice not in (None, MERGED) and one.path not in apart]
    inside = tuple(one.path for one in chosen if one.choice == "file" and one.places)
    whole = [_Met(one, MergeHow(), ()) for one in chosen if one.choice != "file"]
    found = [(met, "", met.conflict.choice or "") for met in whole]
    for met in _find_met(here, inside) if inside else ():
        names = {inner.place for inner in met.inner}
        found += [(met, place, side) for place, side in met.conflict.places.items() if place in names]
    return [[_hash_place(here, met, place), _hash(here, met.conflict.path), side] for met, place, side in found]


def remember(here: Checkout, answers: Sequence[list[str]]) -> None:
    new = {key for key, *_ in answers}
    with here.local.db.write():
        earlier = [one for one in here.local.read_answers() if one[0] not in new]
        here.local.write_answers([*earlier, *answers][-_KEPT:])


def _list_names(met: _Met) -> list[str]:
    return ["", *(inner.place for inner in met.inner)] if met.inner else [""]


def _hash_place(here: Checkout, met: _Met, place: str) -> str:
    """A conflict by its path and by what the three sides say. Of lines the number does not count: they move."""
    one = met.conflict
    inner = next((inner for inner in met.inner if inner.place == place), None)
    if inner is None:
        return _hash(here, one.path, *(side and f"{side.oid} {side.mode}" for side in (one.base, one.ours, one.theirs)))
    name = "" if "line" in inner.where else place
    return _hash(here, one.path, name, inner.base, inner.ours, inner.theirs, inner.exact)


def _hash(here: Checkout, *values: Any) -> str:
    text = json.dumps(values, sort_keys=True, default=str)
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), key=here.history.salt, digest_size=16).hexdigest()
