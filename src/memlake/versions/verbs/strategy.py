"""How a merge settles what both sides changed without asking anybody: by a strategy, and by `.memlakeattributes`.

A strategy given with the verb decides over the attributes, which are read from the tree of ours: what is not committed
is told, and does not count. Reads only.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Sequence, Set
from pathlib import Path

from memlake.errors import InvalidInput
from memlake.records import Commit, Conflict, Entry, Lane, MergeHow
from memlake.versions.checkout.attributes import FILE, read_attributes, read_working_attributes
from memlake.versions.checkout.context import Checkout
from memlake.versions.checkout.pending import MERGE, REVERT, STRATEGIES, Pending
from memlake.versions.history import log, refs
from memlake.versions.history.bases import is_ancestor
from memlake.versions.history.commits import History
from memlake.versions.history.merge_trees import Making, Outcome, Settle, join_path
from memlake.versions.kinds import kind_at
from memlake.versions.paths import FILES, plain


def check_strategy(strategy: str, verb: str) -> str:
    """The strategy, if there is one of that name and it has a meaning for the verb."""
    if strategy and strategy not in STRATEGIES:
        raise InvalidInput(
            f"there is no merge strategy {strategy!r:.50}. Nothing was changed.",
            hint=f"Use one of: {', '.join(STRATEGIES)}",
        )
    if strategy == "latest" and verb == REVERT:
        raise InvalidInput(
            "a revert brings back what was before, so neither side is the latest. Nothing was changed.",
            hint="Use ours or theirs.",
        )
    return strategy


def make_settle(here: Checkout, pending: Pending, on: Commit | None = None) -> Settle:
    """How each path is to be settled in what is pending; `on` is ours where that is not HEAD."""
    attributes = read_attributes(here.history, here.history.root(on or here.head()))
    check_working = _make_check(here)

    @functools.cache
    def settle(path: str) -> MergeHow:
        said = attributes.find(path) if path.startswith(FILES) else {}
        check_working(path)
        named = said.get("merge", "")
        strategy = pending.strategy or (named if named != "lines" else "")
        latest = find_latest(here, pending, path, on=on) if strategy == "latest" else ""
        key = attributes.find_key(path) if said else ()
        return MergeHow(key, strategy=strategy, latest=latest, by_lines=named == "lines")

    return settle


def _make_check(here: Checkout) -> Callable[[str], None]:
    """Tells if a working `.memlakeattributes` says of a path what HEAD does not: a merge goes by what is committed.

    So it is the same whoever repeats it, and while it waits, when the working file may be what theirs brought.
    """
    if here.local.find_pending() is not None:
        return lambda _: None
    committed = read_attributes(here.history, here.history.root(here.head()))
    working = read_working_attributes(Path(here.root))
    told = False

    def check(path: str) -> None:
        nonlocal told
        said = working.find(path) if path.startswith(FILES) and not told else {}
        if said and said != committed.find(path):
            told = True
            warnings.warn(
                f"{FILE} in the working folder is not committed, and a merge goes by the one of HEAD, so what it says "
                f"of {plain(path)} does not count.",
                stacklevel=2,
            )

    return check


def find_latest(here: Checkout, pending: Pending, path: str, *, on: Commit | None = None) -> str:
    """The side whose last commit of a path is the newer one, "ours" or "theirs"; "" if nobody can say."""
    lane: Lane = kind_at(path).lane
    if pending.verb == REVERT:
        return ""
    if pending.verb == MERGE:
        oid = pending.theirs if lane == "work" else pending.theirs_memory
        theirs = _find_last(here.history, refs.commit_of(here.history, oid), path)
    else:
        theirs = refs.commit_of(here.history, pending.target)
    ours = _find_last(here.history, on or here.head(lane), path)
    if ours is None or theirs is None:
        return ""
    if is_ancestor(here.history, ours, theirs):
        return "theirs"
    if is_ancestor(here.history, theirs, ours):
        return "ours"
    return "theirs" if (theirs.time, theirs.seq) > (ours.time, ours.seq) else "ours"


def _find_last(history: History, head: Commit | None, path: str) -> Commit | None:
    tips: Sequence[Commit] = [head] if head else ()
    return next(log.log(history, tips, (), log.Filter((path,))), None)


def settle_paths(history: History, outcome: Outcome, settle: Settle) -> Outcome:
    """The outcome with whole paths settled that have a strategy and nothing inside to settle by it."""
    edits: dict[str, Entry | None] = dict(outcome.edits)
    conflicts: list[Conflict] = []
    for one in outcome.conflicts:
        how = settle(one.path)
        side, entry = _choose_whole(one, how), one.ours or one.theirs
        keeps_other = entry is not None and history.kinds[entry.kind].settle is not None
        if side == "union" and keeps_other and one.ours and one.theirs:
            side = "both"
        if side not in ("ours", "theirs", "both"):
            conflicts.append(one)
        elif keeps_other:
            conflicts.append(one._replace(choice=side))
        else:
            edits[one.path] = one.ours if side == "ours" else one.theirs
    return outcome._replace(edits=edits, conflicts=tuple(conflicts))


def _choose_whole(met: Conflict, how: MergeHow) -> str:
    # Of a file against a folder the paths are settled together: each by its own time could keep both, or neither.
    if how.strategy == "latest" and met.base is None and not (met.ours and met.theirs):
        return ""
    return how.find_side("")


def count_places(outcome: Outcome) -> dict[str, int]:
    """Of paths in conflict that are joined but for some places: how many. A text is not, it would have markers."""
    return {path: len(one.conflicts) for path, one in outcome.half.items() if one.entry and one.conflicts}


def settle_inside(
    making: Making, outcome: Outcome, settle: Settle, conflicts: tuple[Conflict, ...], inside: Set[str]
) -> tuple[Outcome, tuple[Conflict, ...]]:
    """Conflicts where the side chosen for some paths is that of their open places; the outcome has what that makes."""
    if not inside:
        return outcome, conflicts
    settled = tuple(_settle_open(making, one, outcome, settle) if one.path in inside else one for one in conflicts)
    return outcome._replace(made=making.made), settled


def _settle_open(making: Making, met: Conflict, outcome: Outcome, settle: Settle) -> Conflict:
    """A conflict whose choice became that of its open places; as a whole it is open if that leaves one."""
    side, how = met.choice or "", settle(met.path)
    places = {inner.place: side for inner in outcome.half[met.path].conflicts}
    how = how._replace(choices=places, strategy=how.strategy or side)
    joined = join_path(making, met.path, (met.base, met.ours, met.theirs), lambda _: how)
    if joined is None or joined.entry is None or joined.conflicts:
        return met._replace(choice=None)
    return met._replace(choice="file", chosen=joined.entry, places=places)
