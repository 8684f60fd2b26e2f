"""Two edits of one table joined, by key and cell. Knows no file, no dataset and no format.

Both edits are compared with the base (compare.py). Columns are joined first, then rows, then cells: what one side
changed is taken from that side, and a cell that both changed differently is a conflict of that cell. Rows without a
key, and rows whose key is not unique, are joined as multisets. The result is told as numbers of rows, so whoever writes
it need not touch the rows that stay. What could lose something is refused, and the file is merged by other means.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from memlake.errors import Error
from memlake.named_tuple import NamedTuple
from memlake.records import InnerConflict, MergeHow, count
from memlake.rows import duckdb_connections
from memlake.rows.compare import (
    NO_ROWS,
    Comparison,
    Key,
    Matches,
    Numbers,
    Pair,
    Reader,
    Side,
    find_repeated,
    has_overlap,
    is_unique,
    list_candidates,
)

MOST_CONFLICTS = 50_000  # more than anybody decides one by one
_PLAIN = re.compile(r"[\w.@/+:-]{1,80}")
_CUT = 100
_MOST_SLICES = 4096


class Unjoinable(Error):
    """These tables cannot be joined without losing something."""


class Column(NamedTuple):
    """A column of the result: its name there, and its name on each side; None where a side does not have it."""

    name: str
    base: str | None
    ours: str | None
    theirs: str | None
    type: pa.DataType
    compared: pa.DataType  # the type in which the values of both sides can be compared


class Met(NamedTuple):
    """Cells of one column that both sides set differently, by their rows; a row of -1 is not there."""

    base: Numbers
    ours: Numbers
    theirs: Numbers


class RowMerge(NamedTuple):
    """The joined table. A row of -1 is not on that side; a row that ours has is ours but for the cells in `taken`."""

    key: Key
    columns: tuple[Column, ...]
    ours: Numbers  # by row of the result
    theirs: Numbers
    partner: Numbers  # by row of ours, its row in theirs
    taken: Mapping[str, Numbers]  # by column of the result, rows of ours whose value is theirs
    met: Mapping[str, Met]
    conflicts: tuple[InnerConflict, ...]  # of columns and whole rows
    notes: tuple[str, ...]


Readers = tuple[Reader, Reader, Reader]  # base, ours, theirs
Describe = Callable[[int, int], Mapping[str, Any]]  # a row as people see it, by side (0 base, 1 ours, 2 theirs)


def open_sides(base: Side, ours: Side, theirs: Side) -> Readers:
    """The sides of a merge, read once for all of its steps."""
    return Reader(base, 0), Reader(ours, 1), Reader(theirs, 1)


def find_key(readers: Readers) -> Key:
    """The first column that is unique on all sides and mostly the same on them; a key without columns if none is."""
    fields = [dict(zip(one.schema.names, one.schema.types, strict=True)) for one in readers]
    shared = {name: kind for name, kind in fields[0].items() if all(one.get(name) == kind for one in fields[1:])}
    for pair in list_candidates([Pair(name, name, kind) for name, kind in shared.items()]):
        old, *others = _read_sides(readers, pair)
        if is_unique(old) and all(old.equals(one) or (is_unique(one) and has_overlap(old, one)) for one in others):
            return Key((pair.new,), "found")
    return Key()


def _read_sides(readers: Readers, pair: Pair) -> list[pa.ChunkedArray]:
    """A column of the key on all sides. Where it is surely the same as in the base, it is read once."""
    base = readers[0].read(pair, 0, readers[0].rows)
    return [base, *(base if one.has_same(pair.new, readers[0]) else one.read(pair, 0, one.rows) for one in readers[1:])]


def merge_rows(sides: Readers, key: Key, how: MergeHow, describe: Describe | None = None) -> RowMerge:
    """Join base, ours and theirs. Cells that both set are in `met`; `settle_cells` decides them by what was chosen."""
    with duckdb_connections.open_scratch() as con:
        return _Joining(con, sides, how, describe).run(key)


class _Joining:
    """One merge, in the order in which it happens: matching rows, columns, rows, cells, order."""

    def __init__(
        self, con: duckdb.DuckDBPyConnection, sides: Readers, how: MergeHow, describe: Describe | None
    ) -> None:
        self.con, self.how = con, how
        self.base, self.ours, self.theirs = sides
        self.describe = describe or self._describe_row
        self.conflicts: list[InnerConflict] = []
        self.notes: list[str] = []

    def run(self, key: Key) -> RowMerge:
        self.key = key
        repeated = self._find_repeated() if key.columns else None
        sides = (self.ours, self.theirs)
        self.found = [
            Comparison(self.con, self.base, side).find(key, (repeated[0], repeated[place]) if repeated else None)
            for place, side in enumerate(sides, 1)
        ]
        self.at = [_map_rows(found.matches, self.base.rows) for found in self.found]
        self._check_columns(repeated)
        columns = list(self._join_columns())
        both = self._match_added(columns, repeated)
        self._refuse_lost_edits(both, repeated)
        partner = np.full(self.ours.rows, -1)
        shared = (self.at[0] >= 0) & (self.at[1] >= 0)
        partner[self.at[0][shared]] = self.at[1][shared]
        partner[both.old] = both.new
        taken, met = self._join_cells(columns, both, partner)
        dropped, restored = self._join_removed()
        ours, theirs = self._order_rows(partner, dropped, np.sort(np.concatenate([both.added, restored])))
        if np.any(np.diff(partner[partner >= 0]) < 0) and not np.any(np.diff(self.at[0][self.at[0] >= 0]) < 0):
            self.notes.append("they have rows in another order; the rows stay in the order of ours")
        conflicts = tuple(self.conflicts)
        return RowMerge(key, tuple(columns), ours, theirs, partner, taken, met, conflicts, tuple(self.notes))

    # -- rows that match --------------------------------------------------------------------------

    def _find_repeated(self) -> tuple[Numbers, ...] | None:
        """Rows of each side whose key is not unique; also checks that the key can be compared at all."""
        keys = []
        for name in self.key.columns:
            if not all(name in side.schema.names for side in (self.base, self.ours, self.theirs)):
                raise Unjoinable(f"the key {name!r} is not a column of all sides")
            old, *others = (side.schema.field(name).type for side in (self.base, self.ours, self.theirs))
            kinds = [
                Comparison(self.con, self.base, side).find_type(name, old, kind)
                for side, kind in zip((self.ours, self.theirs), others, strict=True)
            ]
            if kinds[0] is None or kinds[1] is None or not kinds[0].equals(kinds[1]):
                raise Unjoinable(f"the key {name!r} has types on the sides that cannot be compared")
            keys.append(Pair(name, name, kinds[0]))
        readers = (self.base, self.ours, self.theirs)
        columns = [_read_sides(readers, pair) for pair in keys]
        repeated = find_repeated(self.con, [list(side) for side in zip(*columns, strict=True)])
        if any(map(len, repeated)):
            counts = ", ".join(f"{len(rows):,}" for rows in repeated)
            self.notes.append(
                f"the key is not unique in {counts} rows of base, ours and theirs, so these were joined as a multiset"
            )
        return repeated

    def _match_added(self, columns: Sequence[Column], repeated: tuple[Numbers, ...] | None) -> Matches:
        """Rows that both sides added: those with the same key or, without one, the same in all columns."""
        added = [found.matches.added for found in self.found]
        if not all(map(len, added)):
            return Matches((), removed=added[0], added=added[1])
        comparison = Comparison(self.con, self.ours.renumber(0), self.theirs)
        pairs = [Pair(one.ours, one.theirs, one.compared) for one in columns if one.ours and one.theirs]
        if repeated is None:
            return comparison.match_whole(pairs, *added)
        keys = [pair for pair in pairs if pair.old in self.key.columns]
        plain = [np.setdiff1d(rows, known) for rows, known in zip(added, repeated[1:], strict=True)]
        several = [np.intersect1d(rows, known) for rows, known in zip(added, repeated[1:], strict=True)]
        first, second = comparison.match_keys(keys, *plain), comparison.match_whole(pairs, *several)
        return Matches((), *(np.concatenate([getattr(one, name) for one in (first, second)]) for name in _LISTED))

    def _refuse_lost_edits(self, both: Matches, repeated: tuple[Numbers, ...] | None) -> None:
        """Without a key an edited row is one that went and one that came.

        If both sides took away one row and put others there, nobody can tell two edits of it from a removal.
        """
        gone = (self.at[0] < 0) & (self.at[1] < 0)
        came = len(both.removed) + len(both.added)
        if repeated is not None:
            gone &= _mask(repeated[0], self.base.rows)
            came = len(np.intersect1d(both.removed, repeated[1])) + len(np.intersect1d(both.added, repeated[2]))
        if came and np.any(gone):
            raise Unjoinable("both sides removed the same row and added others, and without a unique key nobody can "
                             "tell whether they edited it")  # fmt: skip

    # -- columns ----------------------------------------------------------------------------------

    def _check_columns(self, repeated: tuple[Numbers, ...] | None) -> None:
        before = set(self.base.schema.names)
        for found, side in zip(self.found, (self.ours, self.theirs), strict=True):
            known = {pair.new for pair in found.pairs}
            for name in side.schema.names:
                if name in before and name not in known:
                    raise Unjoinable(f"no type holds the values that {name!r} has on both sides")
            is_other = any(change.old_type is None or change.new_type is None or change.old_name
                           for change in found.columns)  # fmt: skip
            if is_other and (repeated is None or any(map(len, repeated))):
                raise Unjoinable("columns came, went or were renamed, and without a unique key nobody can tell "
                                 "which row is which")  # fmt: skip

    def _join_columns(self) -> Iterator[Column]:
        """The columns of the result: in the order of ours, those that only theirs has after the one before them."""
        names = [{pair.old: pair.new for pair in found.pairs} for found in self.found]
        back = [{new: old for old, new in side.items()} for side in names]
        joined: dict[tuple[int, str], Column] = {}  # by (side, name there), ours if it has one
        for old in self.base.schema.names:
            column = self._join_column(old, names[0].get(old), names[1].get(old))
            if column is not None:
                joined[(0, column.ours) if column.ours else (1, str(column.theirs))] = column
        added = [
            [name for name in side.schema.names if name not in known]
            for side, known in zip((self.ours, self.theirs), back, strict=True)
        ]
        for name in added[0]:
            joined[0, name] = self._add_column(name, name, name if name in added[1] else None)
        for name in added[1]:
            if name not in added[0]:
                joined[1, name] = self._add_column(name, None, name)
        order = [joined[0, name] for name in self.ours.schema.names if (0, name) in joined]
        theirs = self.theirs.schema.names
        for place, name in enumerate(theirs):
            if (1, name) in joined:
                before = next((c for n in reversed(theirs[:place]) for c in order if c.theirs == n), None)
                order.insert(order.index(before) + 1 if before else 0, joined[1, name])
        if len({column.name for column in order}) < len(order):
            raise Unjoinable("two columns would have the same name")
        yield from order

    def _join_column(self, old: str, ours: str | None, theirs: str | None) -> Column | None:
        if ours is None or theirs is None:
            return self._join_removed_column(old, ours, theirs)
        name = ours if theirs in (old, ours) else theirs
        if len({old, ours, theirs}) == 3:
            side = self._settle(f"column {old}: name", {"column": old}, old, ours, theirs)
            name = theirs if side == "theirs" else ours
        types = [
            side.schema.field(one).type for side, one in ((self.base, old), (self.ours, ours), (self.theirs, theirs))
        ]
        kind = types[1] if types[2].equals(types[0]) or types[1].equals(types[2]) else types[2]
        if not any(types[a].equals(types[b]) for a, b in ((0, 1), (0, 2), (1, 2))):
            side = self._settle(f"column {old}: type", {"column": old}, *map(str, types))
            kind = types[2] if side == "theirs" else types[1]
        return Column(name, old, ours, theirs, kind, self._find_type(name, ours, theirs))

    def _join_removed_column(self, old: str, ours: str | None, theirs: str | None) -> Column | None:
        """A column that one side removed: gone, unless the other side changed something in it."""
        if ours is None and theirs is None:
            return None
        place = 0 if ours is not None else 1
        name = str(ours if ours is not None else theirs)
        cells = sum(len(one.old) for pair, one in self.found[place].cells.items() if pair.old == old)
        is_kept = False
        if cells or name != old:
            told = f"{name}, {cells:,} cells changed"
            side = self._settle(f"column {old}", {"column": old}, old, *((told, None) if place == 0 else (None, told)))
            is_kept = side in ("union", "theirs") if place else side != "theirs"
        elif lost := len(self.found[place].matches.added):
            self.notes.append(f"{count(lost, 'added row')} came without {old!r}, because the other side removed it")
        if not is_kept:
            return None
        kind = (self.ours, self.theirs)[place].schema.field(name).type
        return Column(name, old, ours, theirs, kind, kind)

    def _add_column(self, name: str, ours: str | None, theirs: str | None) -> Column:
        kinds = [side.schema.field(one).type for side, one in ((self.ours, ours), (self.theirs, theirs)) if one]
        if len(kinds) == 1 or kinds[0].equals(kinds[1]):
            return Column(name, None, ours, theirs, kinds[0], kinds[0])
        side = self._settle(f"column {name}: type", {"column": name}, None, *map(str, kinds))
        kind = kinds[1] if side == "theirs" else kinds[0]
        return Column(name, None, ours, theirs, kind, self._find_type(name, name, name))

    def _find_type(self, name: str, ours: str, theirs: str) -> pa.DataType:
        comparison = Comparison(self.con, self.ours.renumber(0), self.theirs)
        types = self.ours.schema.field(ours).type, self.theirs.schema.field(theirs).type
        kind = comparison.find_type(ours, *types, theirs)
        if kind is None:
            raise Unjoinable(f"no type holds the values that {name!r} has on both sides")
        return kind

    # -- rows and cells ---------------------------------------------------------------------------

    def _join_cells(
        self, columns: Sequence[Column], both: Matches, partner: Numbers
    ) -> tuple[dict[str, Numbers], dict[str, Met]]:
        """What is taken from theirs, and what both set differently, by column of the result."""
        changed = [{pair.old: one.old for pair, one in found.cells.items()} for found in self.found]
        comparison = Comparison(self.con, self.ours.renumber(0), self.theirs)
        taken, met = {}, {}
        for column in columns:
            if column.ours is None or column.theirs is None:
                continue
            if column.base is None:  # both added it: every row that both have
                rows = np.flatnonzero(partner >= 0)
                old = np.full(len(rows), -1)
            else:
                theirs = changed[1].get(column.base, NO_ROWS)
                theirs = theirs[self.at[0][theirs] >= 0]
                mine = changed[0].get(column.base, NO_ROWS)
                is_mine = np.isin(theirs, mine)
                if not np.all(is_mine):
                    taken[column.name] = np.sort(self.at[0][theirs[~is_mine]])
                shared = theirs[is_mine]
                rows = np.concatenate([self.at[0][shared], both.old])
                old = np.concatenate([shared, np.full(len(both.old), -1)])
            if len(rows):
                values = (
                    self.ours.take(column.ours, rows, column.compared),
                    self.theirs.take(column.theirs, partner[rows], column.compared),
                )
                unequal = comparison.find_unequal(*values)
                if len(unequal):
                    met[column.name] = Met(old[unequal], rows[unequal], partner[rows[unequal]])
        return taken, met

    def _join_removed(self) -> tuple[Numbers, Numbers]:
        """Rows of ours that go because theirs are gone, and rows of theirs that stay although ours are gone."""
        changed = []
        for found in self.found:
            mask = np.zeros(self.base.rows, bool)
            for cells in found.cells.values():
                mask[cells.old] = True
            changed.append(mask)
        here = [at >= 0 for at in self.at]
        kept = [
            row
            for row in np.flatnonzero(here[0] & ~here[1] & changed[0]).tolist()
            if self._settle_row(row, int(self.at[0][row]), None) != "theirs"
        ]
        restored = [
            row
            for row in np.flatnonzero(~here[0] & here[1] & changed[1]).tolist()
            if self._settle_row(row, None, int(self.at[1][row])) in ("theirs", "union")
        ]
        dropped = here[0] & ~here[1]
        dropped[kept] = False
        return self.at[0][dropped], self.at[1][np.array(restored, np.int64)]

    def _settle_row(self, row: int, ours: int | None, theirs: int | None) -> str:
        place, where = self._name_row(0, row)
        told = [
            None if number is None else self.describe(side, number) for side, number in enumerate((row, ours, theirs))
        ]
        return self._settle(place, where, *told)

    def _settle(self, place: str, where: Mapping[str, Any], *sides: Any) -> str:
        """What was chosen for a place; a conflict if nothing was."""
        side = self.how.find_side(place)
        if side not in ("ours", "theirs", "union") or (
            side == "union" and place.startswith("column ") and ": " in place
        ):
            self.conflicts.append(InnerConflict(place, sides[0], sides[1], sides[2], where))
            _check_count(self.conflicts)
            return ""
        return side

    def _name_row(self, side: int, row: int) -> tuple[str, dict[str, Any]]:
        reader = (self.base, self.ours, self.theirs)[side]
        where = {name: reader.value(name, row) for name in self.key.columns}
        return name_row(where), where

    def _describe_row(self, side: int, row: int) -> dict[str, Any]:
        reader = (self.base, self.ours, self.theirs)[side]
        return {name: reader.value(name, row) for name in reader.schema.names}

    def _order_rows(self, partner: Numbers, dropped: Numbers, inserted: Numbers) -> tuple[Numbers, Numbers]:
        """Ours in their order; each row of theirs after the row it follows there, and after what ours added there."""
        count = self.ours.rows
        kept = np.delete(np.arange(count), dropped)
        if not len(inserted):
            return kept, partner[kept]
        at = np.full(self.theirs.rows, -1)  # by row of theirs, its row in ours
        known = np.flatnonzero(partner >= 0)
        at[partner[known]] = known
        last = np.maximum.accumulate(np.where(at >= 0, np.arange(len(at)), -1))[inserted]
        after = np.where(last >= 0, at[last], -1)
        is_old = np.zeros(count, bool)
        is_old[self.at[0][self.at[0] >= 0]] = True
        following = np.append(np.where(is_old, np.arange(count), count), count)
        following = np.minimum.accumulate(following[::-1])[::-1]  # by row, the first row from there on that is not new
        slots = following[after + 1]
        order = np.argsort(slots, kind="stable")
        places = np.searchsorted(kept, slots[order])
        return np.insert(kept, places, -1), np.insert(partner[kept], places, inserted[order])


_LISTED = ("old", "new", "removed", "added")


def settle_cells(merge: RowMerge, readers: Readers, how: MergeHow) -> RowMerge:
    """The same with the cells that both set: as it was chosen, else ours, and a conflict of the cell."""
    if not merge.met:
        return merge
    conflicts, taken = list(merge.conflicts), dict(merge.taken)
    columns = {column.name: column for column in merge.columns}
    for name, met in merge.met.items():
        column, chosen = columns[name], []
        if len(met.ours) > MOST_CONFLICTS and not (how.strategy or how.choices):
            _check_count(met.ours)
        keys = [readers[1].take(one, met.ours).to_pylist() for one in merge.key.columns]
        base = readers[0].take(column.base, met.base[met.base >= 0]).to_pylist() if column.base else []
        olds = iter(base)
        values = zip(
            readers[1].take(str(column.ours), met.ours).to_pylist(),
            readers[2].take(str(column.theirs), met.theirs).to_pylist(),
            strict=True,
        )
        for place, (ours, theirs) in enumerate(values):
            old = next(olds) if column.base and met.base[place] >= 0 else None
            where = {one: keys[number][place] for number, one in enumerate(merge.key.columns)}
            text = f"{name_row(where)}: {name}"
            side = how.find_side(text)
            if side == "theirs":
                chosen.append(int(met.ours[place]))
            elif side != "ours":
                conflicts.append(InnerConflict(text, old, ours, theirs, {**where, "column": name}))
                _check_count(conflicts)
        if chosen:
            taken[name] = np.sort(np.concatenate([taken.get(name, NO_ROWS), np.array(chosen)]))
    return merge._replace(conflicts=tuple(conflicts), taken=taken, met={})


def make_table(merge: RowMerge, readers: Readers) -> pa.Table:
    """The joined table, with the metadata of ours."""
    fields = [_make_field(column, readers) for column in merge.columns]
    schema = pa.schema(fields, metadata=readers[1].schema.metadata)
    return pa.table([_make_column(merge, column, readers) for column in merge.columns], schema=schema)


def _make_field(column: Column, readers: Readers) -> pa.Field:
    if column.ours is not None:
        return readers[1].schema.field(column.ours).with_name(column.name).with_type(column.type)
    field: pa.Field = readers[2].schema.field(str(column.theirs))
    return field.with_nullable(True)  # rows that only ours has are without it


def _make_column(merge: RowMerge, column: Column, readers: Readers) -> pa.ChunkedArray:
    """A column of the result: taken by row number from ours and theirs, put one after the other."""
    taken = merge.taken.get(column.name)
    index: Numbers = np.full(len(merge.ours), -1)
    rows = readers[1].rows
    if column.ours is not None:
        index = merge.ours.copy()
    from_theirs = index < 0
    if taken is not None:
        is_taken = np.zeros(rows, bool)
        is_taken[taken] = True
        from_theirs |= (merge.ours >= 0) & is_taken[merge.ours]
    from_theirs &= merge.theirs >= 0
    pieces = [_read_column(readers[1], column.ours, column.type)] if column.ours is not None else []
    if column.theirs is not None and np.any(from_theirs):
        index[from_theirs] = merge.theirs[from_theirs] + (rows if pieces else 0)
        pieces.append(_read_column(readers[2], column.theirs, column.type))
    if not pieces:
        return pa.chunked_array([pa.nulls(len(index), column.type)])
    whole = pa.chunked_array([chunk for piece in pieces for chunk in piece.chunks], column.type)
    jumps = np.flatnonzero(np.diff(index) != 1) + 1
    if len(jumps) > _MOST_SLICES or (len(index) and index.min() < 0):
        return whole.take(pa.array(index, mask=index < 0))
    # A few runs of rows, none of which is copied.
    slices = [whole.slice(int(index[a]), b - a).chunks for a, b in pairwise([0, *jumps.tolist(), len(index)]) if b > a]
    return pa.chunked_array([chunk for chunks in slices for chunk in chunks], column.type)


def _read_column(side: Reader, name: str, kind: pa.DataType) -> pa.ChunkedArray:
    column = side.read_column(name, 0, side.rows)
    if pa.types.is_dictionary(kind):  # of other values on the other side
        return pc.dictionary_encode(column.cast(kind.value_type)).cast(kind)
    return column if column.type.equals(kind) else column.cast(kind)


def name_row(where: Mapping[str, Any]) -> str:
    """A row by its key, as people write it: `id=17, lang=de`."""
    return ", ".join(f"{name}={_value_text(value)}" for name, value in where.items())


def _value_text(value: Any) -> str:
    text = "null" if value is None else str(value)
    if value is not None and not _PLAIN.fullmatch(text):
        text = json.dumps(text, ensure_ascii=False)
    return text if len(text) <= _CUT else f"{text[:_CUT]}...{hashlib.sha256(text.encode()).hexdigest()[:8]}"


def _check_count(conflicts: Sequence[object] | Numbers) -> None:
    if len(conflicts) > MOST_CONFLICTS:
        raise Unjoinable(f"more than {MOST_CONFLICTS:,} places were changed on both sides")


def _mask(rows: Numbers, count: int) -> npt.NDArray[np.bool_]:
    mask = np.zeros(count, bool)
    mask[rows] = True
    return mask


def _map_rows(matches: Matches, count: int) -> Numbers:
    """By row of the base, its row on the other side, or -1."""
    at = np.full(count, -1)
    for run in matches.runs:
        at[run.old : run.old + run.length] = np.arange(run.new, run.new + run.length)
    at[matches.old] = matches.new
    return at
