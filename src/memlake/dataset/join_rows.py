"""Two versions of a dataset joined into one, by key and cell, over the version that both come from.

The rules are those of table files (rows/merge.py). A merge of branches keeps both versions (merge_versions.py); this
makes one of them, where somebody asks for it. Nothing is saved while a cell waits for a choice.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from memlake.dataset.compare import find_file_keys, open_side
from memlake.dataset.context import DatasetContext
from memlake.dataset.parts.version_record import Version
from memlake.dataset.plan import nodes
from memlake.dataset.plan.nodes import Origin, Plan
from memlake.dataset.read import sources
from memlake.dataset.session import Session
from memlake.dataset.types import names
from memlake.errors import Conflict, InvalidInput, Usage, pasted
from memlake.named_tuple import NamedTuple
from memlake.records import InnerConflict, MergeHow, count
from memlake.rows.compare import Key, Side, add_inner, split_key
from memlake.rows.merge import Unjoinable, find_key, make_table, merge_rows, open_sides, settle_cells
from memlake.versions.checkout import rev

SIDES = ("ours", "theirs", "union", "latest")
_TOLD = 10


class JoinedRows(NamedTuple):
    """What a merge of two versions made: the version that was saved, and over which base and by which key."""

    version: Version
    ours: Version
    theirs: Version
    base: Version | None
    key: tuple[str, ...]
    reused: bool = False  # the newest version held these rows already
    notes: tuple[str, ...] = ()


class Wish(NamedTuple):
    """How two versions are to be joined."""

    on: tuple[str, ...] = ()
    base: str | None = None
    how: MergeHow = MergeHow()


class Ready(NamedTuple):
    """Joined rows that are not saved yet."""

    plan: Plan
    ours: Version
    theirs: Version
    base: Version | None
    key: tuple[str, ...]
    notes: tuple[str, ...]


def join_rows(session: Session, ours: str, theirs: str, wish: Wish) -> Ready:
    """The rows of two versions as one. Raises Conflict if cells wait for a choice."""
    context = session.context
    mine, other = context.find(ours), context.find(theirs)
    base = context.find(wish.base) if wish.base else find_base(context, (ours, mine), (theirs, other))
    sides = [
        Side(mine.schema, ()) if one is None else open_side(context.parts, context.frame(one))
        for one in (base, mine, other)
    ]
    declared = context.find_declared_key(mine.name)
    known = all(name in one.schema.names for name in declared for one in (mine, other))
    on = wish.on or (declared if known else ()) or find_file_keys((mine, other))
    how = wish.how._replace(latest="ours" if mine.created > other.created else "theirs")
    try:
        joined, key, notes, conflicts = _join_sides(sides, on, how)
    except (Unjoinable, pa.ArrowException) as error:
        raise InvalidInput(
            f"{mine.spec} and {other.spec} cannot be joined, because {_say(error)}. Nothing was saved.",
            hint=f"See what differs with: memlake dataset diff {pasted(mine.spec)} {pasted(other.spec)}",
        ) from error
    if conflicts:
        raise _describe_conflicts(mine, other, conflicts, ours=ours, theirs=theirs)
    inputs = tuple(sources.from_version(context, one) for one in (mine, other))
    made_of = nodes.Union(joined.schema, inputs)
    plan = sources.from_table(joined, Origin("persisted", "", {"plan": made_of}))
    if base is None:
        notes = (*notes, "there is no earlier version of both, so the rows of either side were kept")
    return Ready(plan, mine, other, base, key, notes)


def _join_sides(
    sides: Sequence[Side], on: Sequence[str], how: MergeHow
) -> tuple[pa.Table, tuple[str, ...], tuple[str, ...], tuple[InnerConflict, ...]]:
    """The joined rows, the key, what is to be said, and the places that wait."""
    on = list(split_key(on, *sides))
    base, ours, theirs = (add_inner(side, on) for side in sides)
    for name in on:
        if not all(name in side.schema.names for side in (base, ours, theirs)):
            raise Usage(
                f"rows cannot be matched by {name!r}, which is not a column of both versions. Nothing was saved.",
                hint=f"Columns are {', '.join(sides[1].schema.names[:20])}.",
            )
    readers = open_sides(base, ours, theirs)
    key = Key(tuple(on), "given") if on else find_key(readers)
    merged = settle_cells(merge_rows(readers, key, how), readers, how)
    return make_table(merged, readers).drop_columns(list(ours.inner)), key.columns, merged.notes, merged.conflicts


# -- the version that both come from ---------------------------------------------------------------


def find_base(context: DatasetContext, ours: tuple[str, Version], theirs: tuple[str, Version]) -> Version | None:
    """One of the two if the other was made of it, else the newest version before both that both branches have."""
    (spec, mine), (other_spec, other) = ours, theirs
    if _is_parent(mine, other):
        return mine
    if _is_parent(other, mine):
        return other
    if mine.name != other.name:
        return None
    known = [_list_versions(context, spec), _list_versions(context, other_spec)]
    if known[0] != known[1]:  # on two branches
        for one, side in ((mine, known[1]), (other, known[0])):
            if (one.content, one.created) in side:
                return one
    shared = [version for mark, version in known[0].items() if mark in known[1]]
    before = [one for one in shared if one.semver < min(mine.semver, other.semver)]
    return max(before, key=lambda one: one.semver, default=None)


def _is_parent(one: Version, of: Version) -> bool:
    parents = of.provenance.get("parents") or ()
    return any((parent.get("spec"), parent.get("content")) == (one.spec, one.content) for parent in parents)


def _list_versions(context: DatasetContext, spec: str) -> dict[tuple[str, int], Version]:
    """The versions that a branch has, by what is the same on another one."""
    name, after = names.split_spec(spec)
    commit = rev.resolve(context.here, after) if after and not names.is_version(after) else context.head()
    versions = (context.read_kept(entry) for entry in context.entries(names.check_name(name), commit).values())
    return {(one.content, one.created): one for one in versions if one is not None and not one.deleted}


# -- what is said ----------------------------------------------------------------------------------


def _describe_conflicts(
    mine: Version, other: Version, conflicts: Sequence[InnerConflict], *, ours: str, theirs: str
) -> Conflict:
    listed = [f"  {one.place}: {_show(one.ours)} here, {_show(one.theirs)} there" for one in conflicts[:_TOLD]]
    more = [f"  ... and {len(conflicts) - _TOLD:,} more"] if len(conflicts) > _TOLD else []
    places = count(len(conflicts), "place was", "places were")
    return Conflict(
        f"{places} changed in both {mine.spec} and {other.spec}. Nothing was saved.\n" + "\n".join(listed + more),
        hint=f"Choose a side for all of them: memlake dataset merge {pasted(ours)} {pasted(theirs)} -X theirs",
    )


def _show(value: object) -> str:
    text = "nothing" if value is None else str(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _say(error: Exception) -> str:
    return (getattr(error, "message", "") or str(error)).splitlines()[0].rstrip(".")
