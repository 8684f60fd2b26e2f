"""Two tables row by row: what was added, removed and changed, cell by cell. Knows no file, no dataset and no format.

First rows are matched: by key columns or, without any, as a multiset. Then each column is compared by itself, over the
rows that match. Pieces of a column that are surely equal on both sides are not read. One engine says whether two values
are equal, so NULL is NULL and NaN is NaN wherever they meet.
"""

from __future__ import annotations

import copy
import difflib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from memlake.errors import Usage
from memlake.named_tuple import NamedTuple
from memlake.rows import duckdb_connections
from memlake.rows.sql import Sql, compose, identifier, join, template

Numbers = npt.NDArray[np.int64]
NO_ROWS: Numbers = np.empty(0, np.int64)
_LIKELY = ("id", "key", "uuid", "guid", "uid", "pk", "index")  # names of columns that are keys where they are unique
_SAMPLE = 10_000  # rows that show of most columns that they are not unique
_NEARLY = 0.95  # share of rows with a value of their own by which a column without nulls may be a key
_ALIKE = 0.9  # share of equal values by which a column that went and one that came are one, renamed
_KEPT = 512 << 20  # bytes of columns that are kept because they are often needed again


class Piece(NamedTuple):
    """Rows that follow each other and are read by column.

    Two identities of a column are equal only if all its values are. None says nothing.
    """

    rows: int
    identify: Callable[[str], object | None]
    read: Callable[[Sequence[str]], pa.Table]


class Side(NamedTuple):
    """One of the two tables. `inner` are columns of the schema that lie inside others, as `file.path` in `file`: rows
    may be matched by them, and they are not told beside what they lie in.
    """

    schema: pa.Schema
    pieces: tuple[Piece, ...]
    inner: tuple[str, ...] = ()

    @property
    def rows(self) -> int:
        return sum(piece.rows for piece in self.pieces)


class ColumnChange(NamedTuple):
    """A column that came (no `old_type`), went (no `new_type`), or has another type or another name (`old_name`)."""

    name: str
    old_type: str | None
    new_type: str | None
    old_name: str = ""


class RowChange(NamedTuple):
    """A row that was added ("A"), removed ("D") or changed ("M"); of one that changed, `row` is its key."""

    status: str
    row: Mapping[str, Any]
    cells: Mapping[str, tuple[Any, Any]] = MappingProxyType({})  # what differs, as (old, new)


class Key(NamedTuple):
    """The columns that tell which row is which, and who says so: given, declared, found, or nearly (unique)."""

    columns: tuple[str, ...] = ()
    origin: str = ""


class TableDiff(NamedTuple):
    """What differs between two tables. `rows` are the first that differ; `cells` counts changed cells by column."""

    old_rows: int
    new_rows: int
    columns: tuple[ColumnChange, ...]
    key: Key
    added: int = 0
    removed: int = 0
    changed: int = 0
    cells: Mapping[str, int] = MappingProxyType({})
    rows: tuple[RowChange, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def is_empty(self) -> bool:
        return not (self.columns or self.added or self.removed or self.changed)


def compare(old: Side, new: Side, key: Key | None = None, *, limit: int | None = 10) -> TableDiff:
    """What differs between two tables. A key that is not given is looked for; `limit` bounds the rows of each kind.

    The name of a key may lead into a column (`file.path`), or be several that a comma joins. A given one that is not
    there is refused; one that is only declared is told, and another is looked for.
    """
    key = key and Key(tuple(split_key(key.columns, old, new)), key.origin)
    old, new = (add_inner(side, key.columns if key else ()) for side in (old, new))
    with duckdb_connections.open_scratch() as con:
        comparison = Comparison(con, Reader(old, 0), Reader(new, 1))
        return comparison.tell(comparison.find(key), limit)


def split_key(names: Sequence[str], *sides: Side) -> Iterator[str]:
    """The columns of a key as it is typed: one name, or several with commas between them."""
    for name in names:
        known = any(name in side.schema.names for side in sides)
        yield from (name,) if known else filter(None, (part.strip() for part in name.split(",")))


def add_inner(side: Side, names: Iterable[str]) -> Side:
    """The same with what these names mean inside of columns, as `file.path` does, beside the columns themselves."""
    found = {name: inner for name in names if (inner := _find_inner(side.schema, name)) is not None}
    if not found:
        return side

    def add_to(piece: Piece) -> Piece:
        def identify(name: str) -> object | None:
            if name not in found:
                return piece.identify(name)
            whole = piece.identify(found[name].column)
            return None if whole is None else (whole, found[name].path)

        def read(wanted: Sequence[str]) -> pa.Table:
            tops = dict.fromkeys(found[name].column if name in found else name for name in wanted)
            table = piece.read(list(tops))
            columns = (
                pc.struct_field(table[found[name].column], list(found[name].path)) if name in found else table[name]
                for name in wanted
            )
            return pa.table(list(columns), list(wanted))

        return Piece(piece.rows, identify, read)

    schema = pa.schema([*side.schema, *(pa.field(name, inner.type) for name, inner in found.items())])
    return Side(schema, tuple(map(add_to, side.pieces)), (*side.inner, *found))


class _Inner(NamedTuple):
    """What lies inside a column: which one, the fields that lead there, and its type."""

    column: str
    path: tuple[str, ...]
    type: pa.DataType


def _find_inner(schema: pa.Schema, name: str) -> _Inner | None:
    parts = name.split(".")
    tops = (cut for cut in range(len(parts) - 1, 0, -1) if ".".join(parts[:cut]) in schema.names)
    cut = next(tops, 0)
    if name in schema.names or not cut:
        return None
    column, path = ".".join(parts[:cut]), tuple(parts[cut:])
    kind = schema.field(column).type
    for part in path:
        if not pa.types.is_struct(kind) or kind.get_field_index(part) < 0:
            return None
        kind = kind.field(part).type
    return _Inner(column, path, kind)


class Pair(NamedTuple):
    """A column that both sides have: its name in each, and the type in which its values are compared."""

    old: str
    new: str
    type: pa.DataType


class Run(NamedTuple):
    """Rows that match one after the other: `length` of them from these numbers on."""

    old: int
    new: int
    length: int


class Matches(NamedTuple):
    """Which row of one side is which of the other: in runs, then one by one; and rows without a like."""

    runs: tuple[Run, ...]
    old: Numbers = NO_ROWS
    new: Numbers = NO_ROWS
    removed: Numbers = NO_ROWS
    added: Numbers = NO_ROWS


class Found(NamedTuple):
    """What a comparison found: changed columns, the key, columns of both, which rows match, and which cells differ."""

    columns: tuple[ColumnChange, ...]
    key: Key
    pairs: tuple[Pair, ...]
    matches: Matches
    cells: Mapping[Pair, Matches]

    @property
    def keys(self) -> list[Pair]:
        return [pair for pair in self.pairs if pair.new in self.key.columns]


class Comparison:
    """One comparison, in the order in which it happens: columns, key, matching rows, cells, what is told."""

    def __init__(self, con: duckdb.DuckDBPyConnection, old: Reader, new: Reader) -> None:
        self.con, self.sides, self.inner = con, (old, new), {*old.inner, *new.inner}
        self.notes: list[str] = []

    def find(self, wanted: Key | None, repeated: Sequence[Numbers] | None = None) -> Found:
        """What differs. `repeated` are rows whose key is known to occur more than once; without it they are found."""
        old, new = (side.schema for side in self.sides)
        names = {*old.names}, {*new.names}
        pairs, changes = [], []
        for name in [name for name in new.names if name in names[0]]:
            before, after = old.field(name).type, new.field(name).type
            if not before.equals(after) and name not in self.inner:
                changes.append(ColumnChange(name, str(before), str(after)))
            kind = self.find_type(name, before, after)
            if kind is None:
                self.notes.append(
                    f"the values of {name!r} were not compared, because no type holds those of both sides"
                )
            else:
                pairs.append(Pair(name, name, kind))
        key = self._choose_key(wanted, pairs)
        pairs = [pair for pair in pairs if pair.new not in self.inner or pair.new in key.columns]
        keys = [pair for pair in pairs if pair.new in key.columns]
        matches = self._match(keys, pairs, repeated)
        if keys and len(matches.old) and np.any(np.diff(matches.old) < 0):
            self.notes.append("rows that both sides have stand in another order")
        came = [name for name in new.names if name not in names[0] and name not in self.inner]
        gone = [name for name in old.names if name not in names[1] and name not in self.inner]
        for pair in list(self._find_renamed(gone, came, matches)) if keys else ():
            types = str(old.field(pair.old).type), str(new.field(pair.new).type)
            changes.append(ColumnChange(pair.new, *types, pair.old))
            pairs.append(pair)
            gone.remove(pair.old)
            came.remove(pair.new)
        changes += [ColumnChange(name, None, str(new.field(name).type)) for name in came]
        changes += [ColumnChange(name, str(old.field(name).type), None) for name in gone]
        cells = {pair: self._find_changed(pair, matches) for pair in pairs if keys and pair not in keys}
        return Found(
            tuple(changes), key, tuple(pairs), matches, {pair: one for pair, one in cells.items() if len(one.new)}
        )

    def tell(self, found: Found, limit: int | None) -> TableDiff:
        """The same for people: counts, and the first rows of each kind."""
        cells = found.cells
        changed = np.unique(np.concatenate([one.new for one in cells.values()])) if cells else NO_ROWS
        return TableDiff(
            self.sides[0].rows, self.sides[1].rows, found.columns, found.key,
            len(found.matches.added), len(found.matches.removed), len(changed),
            {pair.new: len(one.new) for pair, one in cells.items()},
            tuple(self._list_rows(found, changed, limit)), tuple(self.notes),
        )  # fmt: skip

    # -- columns and keys -----------------------------------------------------------------------

    def find_type(self, name: str, old: pa.DataType, new: pa.DataType, new_name: str = "") -> pa.DataType | None:
        """The type in which both sides can be compared without losing anything, or None."""
        kind = _find_common_type(_plain_type(old), _plain_type(new))
        if kind is None or _plain_type(old).equals(_plain_type(new)):
            return kind
        try:  # the values decide: 2**53 + 1 is not a float, and "x" is not a number
            for side in self.sides:
                side.read(Pair(name, new_name or name, kind), 0, side.rows)
        except pa.ArrowInvalid:
            return None
        return kind

    def _choose_key(self, wanted: Key | None, pairs: Sequence[Pair]) -> Key:
        """The key that is wanted, if both sides have it; else, unless somebody typed it, one that is found."""
        names = [pair.new for pair in pairs]
        missing = next((name for name in wanted.columns if name not in names), None) if wanted else None
        if wanted is not None and missing is None:
            return wanted
        if wanted is not None:
            both = all(missing in side.schema.names for side in self.sides)
            why = "whose values have no type in common" if both else "which is not a column of both sides"
            if wanted.origin != "declared":
                plain = [name for name in names if name not in self.inner]
                near = difflib.get_close_matches(str(missing), plain, n=1)
                told = f"Columns of both are {', '.join(plain[:20])}." if plain else "They have no column in common."
                raise Usage(
                    f"rows cannot be matched by {missing!r}, {why}. Nothing was compared.",
                    hint=(f"Did you mean {near[0]!r}? " if near else "") + told,
                )
            self.notes.append(f"the declared key names {missing!r}, {why}; another key was looked for")
        return self._find_key(pairs)

    def _find_key(self, pairs: Sequence[Pair]) -> Key:
        """The first column that is unique on both sides and mostly the same on them, likely names first.

        Else the first that is nearly so: a row that somebody doubled should not hide what else changed.
        """
        near = Key()
        for pair in list_candidates(pairs, self.inner):
            old = self.sides[0].read(pair, 0, self.sides[0].rows)
            if (share := measure_unique(old)) < _NEARLY:
                continue
            new = self._read_new(pair, old)
            share = min(share, 1 if old.equals(new) else measure_unique(new))
            if share >= _NEARLY and (old.equals(new) or has_overlap(old, new)):
                if share == 1:
                    return Key((pair.new,), "found")
                near = near if near.columns else Key((pair.new,), "nearly")
        return near

    def _read_new(self, pair: Pair, old: pa.ChunkedArray) -> pa.ChunkedArray:
        """A column of the new side, which is not read if it is surely that of the old."""
        new = self.sides[1]
        is_same = pair.old == pair.new and new.has_same(pair.new, self.sides[0])
        return old if is_same else new.read(pair, 0, new.rows)

    def _find_renamed(self, gone: Sequence[str], came: Sequence[str], matches: Matches) -> Iterator[Pair]:
        """Columns that went, with one that came: of one type, and with nearly the same values in rows that match."""
        total = sum(run.length for run in matches.runs) + len(matches.old)
        left = list(came) if total else []
        for was in gone:
            kind = self.sides[0].schema.field(was).type
            for now in [name for name in left if self.sides[1].schema.field(name).type.equals(kind)]:
                pair = Pair(was, now, _plain_type(kind))
                values = self.sides[1].read(pair, 0, self.sides[1].rows)
                if values.slice(1).equals(values.slice(0, max(len(values) - 1, 0))):
                    continue  # one value everywhere proves nothing
                if len(self._find_changed(pair, matches).new) <= (1 - _ALIKE) * total:
                    left.remove(now)
                    yield pair
                    break

    # -- rows -----------------------------------------------------------------------------------

    def _match(self, keys: Sequence[Pair], pairs: Sequence[Pair], repeated: Sequence[Numbers] | None) -> Matches:
        rows = [side.rows for side in self.sides]
        if not pairs:
            return Matches((), removed=np.arange(rows[0]), added=np.arange(rows[1]))
        runs, left = self._align(keys or pairs, rows)
        if not keys:
            return self.match_whole(pairs, *left)._replace(runs=runs)
        if repeated is None:
            before = [self.sides[0].read(pair, 0, rows[0]) for pair in keys]
            after = [self._read_new(pair, column) for pair, column in zip(keys, before, strict=True)]
            repeated = find_repeated(self.con, (before, after))
        if any(map(len, repeated)):
            self.notes.append(
                f"the key is not unique in {len(repeated[0]):,} rows of the old side and {len(repeated[1]):,} of the "
                "new, so these rows were compared as a multiset"
            )
            runs = ()
            left = np.setdiff1d(np.arange(rows[0]), repeated[0]), np.setdiff1d(np.arange(rows[1]), repeated[1])
        found, whole = self.match_keys(keys, *left), self.match_whole(pairs, *repeated)
        # Rows that match as a whole are equal, so their place among the others does not matter.
        old, new = (np.concatenate([a, b]) for a, b in ((found.old, whole.old), (found.new, whole.new)))
        order = np.argsort(new, kind="stable") if len(whole.new) else slice(None)
        removed, added = (
            np.concatenate([a, b]) for a, b in ((found.removed, whole.removed), (found.added, whole.added))
        )
        return Matches(runs, old[order], new[order], np.sort(removed), np.sort(added))

    def _align(self, pairs: Sequence[Pair], rows: Sequence[int]) -> tuple[tuple[Run, ...], tuple[Numbers, Numbers]]:
        """Rows at both ends that are equal in these columns, as runs; and the numbers of the others."""
        most = min(rows)
        ahead = min((self._count_equal(pair, most, from_end=False) for pair in pairs), default=0)
        behind = min((self._count_equal(pair, most - ahead, from_end=True) for pair in pairs), default=0)
        runs = (Run(0, 0, ahead), Run(rows[0] - behind, rows[1] - behind, behind))
        left = (np.arange(ahead, rows[0] - behind), np.arange(ahead, rows[1] - behind))
        return tuple(run for run in runs if run.length), left

    def _count_equal(self, pair: Pair, most: int, *, from_end: bool) -> int:
        """How many of the first (or last) rows, up to `most`, are equal in a column."""
        rows = [side.rows for side in self.sides]
        if not from_end:
            ahead = 0
            for old, new in zip(self.sides[0].pieces, self.sides[1].pieces, strict=False):
                token = old.identify(pair.old)
                if old.rows != new.rows or token is None or token != new.identify(pair.new):
                    break
                ahead += old.rows
            if ahead >= most:
                return most
            old, new = (side.read(pair, ahead, most) for side in self.sides)
            differing = self.find_unequal(old, new)
            return int(ahead + differing[0]) if len(differing) else most
        old, new = (side.read(pair, count - most, count) for side, count in zip(self.sides, rows, strict=True))
        differing = self.find_unequal(old, new)
        return int(most - 1 - differing[-1]) if len(differing) else most

    def match_keys(self, keys: Sequence[Pair], old: Numbers, new: Numbers) -> Matches:
        """Match these rows by their keys, which are unique among them."""
        if not len(old) or not len(new):
            return Matches((), removed=old, added=new)
        self._register(0, keys, old)
        self._register(1, keys, new)
        return self._read_matches(
            compose(
                "SELECT coalesce(a.i, -1) AS a, coalesce(b.i, -1) AS b FROM old AS a FULL JOIN new AS b ON {}",
                _join_on(len(keys)),
            )
        )

    def _read_matches(self, query: Sql) -> Matches:
        found = self._query(query)
        ours, theirs = (_numbers(found[name]) for name in ("a", "b"))
        both = (ours >= 0) & (theirs >= 0)
        order = np.argsort(theirs[both], kind="stable")
        return Matches((), ours[both][order], theirs[both][order], np.sort(ours[theirs < 0]), np.sort(theirs[ours < 0]))

    def match_whole(self, pairs: Sequence[Pair], old: Numbers, new: Numbers) -> Matches:
        """Match these rows by all their columns, as multisets: the first copy of a row with the first, and so on."""
        if not len(old) or not len(new):
            return Matches((), removed=old, added=new)
        self._register(0, pairs, old)
        self._register(1, pairs, new)
        columns = join(", ", [identifier(f"c{place}") for place in range(len(pairs))])
        copies = [
            compose("(SELECT *, row_number() OVER (PARTITION BY {} ORDER BY i) AS n FROM {})", columns, side)
            for side in map(identifier, ("old", "new"))
        ]
        return self._read_matches(
            compose(
                "SELECT coalesce(a.i, -1) AS a, coalesce(b.i, -1) AS b "
                "FROM {} AS a FULL JOIN {} AS b ON {} AND a.n = b.n",
                *copies,
                _join_on(len(pairs)),
            )
        )

    def _register(self, number: int, pairs: Sequence[Pair], rows: Numbers) -> None:
        """Show some rows to the engine as `old` or `new`: their columns as c0, c1, ... and their numbers as i.

        The names are ours, so nothing that a column is called is ever read as SQL.
        """
        start, stop = (int(rows[0]), int(rows[-1]) + 1) if len(rows) else (0, 0)
        columns = [self.sides[number].read(pair, start, stop) for pair in pairs]
        if len(rows) != stop - start:
            columns = [column.take(as_array(rows - start)) for column in columns]
        table = pa.table([as_array(rows), *columns], ["i", *(f"c{place}" for place in range(len(columns)))])
        self.con.register(("old", "new")[number], table)

    def _query(self, query: Sql) -> pa.Table:
        return self.con.sql(query.render().text).to_arrow_table()

    # -- cells ----------------------------------------------------------------------------------

    def _find_changed(self, pair: Pair, matches: Matches) -> Matches:
        """The rows that match and differ in a column, by their numbers on both sides."""
        olds, news = [], []
        for run in matches.runs:
            for start, length in self._unequal_spans(pair, run):
                old = self.sides[0].read(pair, run.old + start, run.old + start + length)
                new = self.sides[1].read(pair, run.new + start, run.new + start + length)
                differing = self.find_unequal(old, new) + start
                olds.append(differing + run.old)
                news.append(differing + run.new)
        if len(matches.old):
            columns = [side.read(pair, 0, side.rows) for side in self.sides]
            old, new = (
                column.take(as_array(rows)) for column, rows in zip(columns, (matches.old, matches.new), strict=True)
            )
            differing = self.find_unequal(old, new)
            olds.append(matches.old[differing])
            news.append(matches.new[differing])
        return Matches((), np.concatenate(olds) if olds else NO_ROWS, np.concatenate(news) if news else NO_ROWS)

    def _unequal_spans(self, pair: Pair, run: Run) -> Iterator[tuple[int, int]]:
        """The parts of a run, as (start, length), that are not surely equal in a column."""
        if run.old or run.new:
            yield 0, run.length
            return
        at = 0
        for old, new in zip(self.sides[0].pieces, self.sides[1].pieces, strict=False):
            if old.rows != new.rows or at + old.rows > run.length:
                break
            token = old.identify(pair.old)
            if token is None or token != new.identify(pair.new):
                yield at, old.rows
            at += old.rows
        if at < run.length:
            yield at, run.length - at

    def find_unequal(self, old: pa.ChunkedArray, new: pa.ChunkedArray) -> Numbers:
        """Where two columns of one length differ."""
        if old.equals(new):
            return NO_ROWS
        kind = old.type
        if not (old.null_count or new.null_count or pa.types.is_nested(kind) or pa.types.is_float16(kind)):
            mask = pc.not_equal(old, new)  # about half the time of the engine, which alone says what NULL equals
            if pa.types.is_floating(kind):
                mask = pc.and_not(mask, pc.and_(pc.is_nan(old), pc.is_nan(new)))
            return _numbers(pa.chunked_array([pc.indices_nonzero(mask)]))
        self.con.register("pair_old", pa.table([old], ["a"]))
        self.con.register("pair_new", pa.table([new], ["b"]))
        found = self._query(
            compose(
                "SELECT i FROM (SELECT row_number() OVER () - 1 AS i, a, b FROM pair_old POSITIONAL JOIN pair_new) "
                "WHERE a IS DISTINCT FROM b ORDER BY i"
            )
        )
        return _numbers(found["i"])

    # -- what is told ---------------------------------------------------------------------------

    def _list_rows(self, found: Found, changed: Numbers, limit: int | None) -> Iterator[RowChange]:
        """The first rows of each kind: changed, added, removed."""
        old, new = self.sides
        was: dict[int, dict[Pair, int]] = {number: {} for number in changed[:limit].tolist()}
        for pair, cells in found.cells.items():
            shown = np.isin(cells.new, changed[:limit])
            for before, after in zip(cells.old[shown].tolist(), cells.new[shown].tolist(), strict=True):
                was[after][pair] = before
        for number, before in was.items():
            differing = {
                pair.new: (old.value(pair.old, at), new.value(pair.new, number)) for pair, at in before.items()
            }
            yield RowChange("M", {pair.new: new.value(pair.new, number) for pair in found.keys}, differing)
        for status, side, numbers in (("A", new, found.matches.added), ("D", old, found.matches.removed)):
            for number in numbers[:limit].tolist():
                told = {name: side.value(name, number) for name in side.schema.names if name not in side.inner}
                yield RowChange(status, told)


class Reader:
    """A side whose columns are read by rows; what was read is kept, up to a limit."""

    def __init__(self, side: Side, number: int) -> None:
        self.schema, self.pieces, self.rows, self._number = side.schema, side.pieces, side.rows, number
        self.inner = side.inner
        self._kept: dict[tuple[int, str], pa.ChunkedArray] = {}
        self._kept_bytes = 0

    def read(self, pair: Pair, start: int, stop: int) -> pa.ChunkedArray:
        """Rows of a column, in the type in which it is compared. Reads the pieces they are in, and no others."""
        return _cast(self.read_column(pair[self._number], start, stop), pair.type)

    def take(self, name: str, rows: Numbers, kind: pa.DataType | None = None) -> pa.ChunkedArray:
        """A column at some rows, in the type that is wanted."""
        column = self.read_column(name, 0, self.rows).take(as_array(rows))
        return column if kind is None else _cast(column, kind)

    def has_same(self, name: str, other: Reader) -> bool:
        """Whether a column is surely the same in another table, without reading it."""
        if len(self.pieces) != len(other.pieces) or not self.schema.field(name).equals(other.schema.field(name)):
            return False
        pairs = zip(self.pieces, other.pieces, strict=True)
        tokens = ((mine.identify(name), its.identify(name), mine.rows == its.rows) for mine, its in pairs)
        return all(mine is not None and mine == its and same for mine, its, same in tokens)

    def renumber(self, number: int) -> Reader:
        """The same table as the other side of a comparison; what was read is shared."""
        twin = copy.copy(self)
        twin._number = number
        return twin

    def value(self, name: str, row: int) -> Any:
        return self.read_column(name, row, row + 1)[0].as_py()

    def read_column(self, name: str, start: int, stop: int) -> pa.ChunkedArray:
        chunks, at = [], 0
        for number, piece in enumerate(self.pieces):
            first, last = max(start - at, 0), min(stop - at, piece.rows)
            if first < last:
                chunks += self._piece(number, name).slice(first, last - first).chunks
            at += piece.rows
        return pa.chunked_array(chunks, self.schema.field(name).type)

    def _piece(self, number: int, name: str) -> pa.ChunkedArray:
        if (number, name) not in self._kept:
            column = self.pieces[number].read([name]).column(0)
            self._kept_bytes += column.nbytes
            while self._kept and self._kept_bytes > _KEPT:
                self._kept_bytes -= self._kept.pop(next(iter(self._kept))).nbytes
            self._kept[number, name] = column
        return self._kept[number, name]


def find_repeated(con: duckdb.DuckDBPyConnection, sides: Sequence[Sequence[pa.ChunkedArray]]) -> tuple[Numbers, ...]:
    """The rows of each side whose key occurs more than once on any side. A side is given by its key columns."""
    if len(sides[0]) == 1:
        first, *others = (side[0] for side in sides)
        if is_unique(first) and all(first.equals(other) or is_unique(other) for other in others):
            return tuple(NO_ROWS for _ in sides)
    columns = [f"c{place}" for place in range(len(sides[0]))]
    by = join(", ", map(identifier, columns))
    for number, side in enumerate(sides):
        con.register(f"side{number}", pa.table([as_array(np.arange(len(side[0]))), *side], ["i", *columns]))
    tables = [identifier(f"side{number}") for number in range(len(sides))]
    twice = join(
        " UNION ", [compose("SELECT {0} FROM {1} GROUP BY {0} HAVING count(*) > 1", by, one) for one in tables]
    )
    con.execute(compose("CREATE OR REPLACE TEMP TABLE twice AS {}", twice).render().text)
    query = template("SELECT a.i AS i FROM {} AS a JOIN twice AS b ON {} ORDER BY 1")
    found = (con.sql(query.fill(one, _join_on(len(columns))).render().text).to_arrow_table() for one in tables)
    return tuple(_numbers(one["i"]) for one in found)


def _cast(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    for step in (_plain_type(column.type), _plain_type(kind)):  # an extension is cast to what it is made of first
        column = column if column.type.equals(step) else column.cast(step)
    return column


def _join_on(count: int) -> Sql:
    """The first columns of `a` and `b` are equal, NULL and NULL as well."""
    names = [identifier(f"c{place}") for place in range(count)]
    return join(" AND ", [compose("a.{0} IS NOT DISTINCT FROM b.{0}", name) for name in names])


def as_array(numbers: Numbers) -> pa.Array:
    """Numbers as Arrow has them. pa.array() would load pandas where it is installed, a quarter of a second."""
    return pa.Array.from_buffers(pa.int64(), len(numbers), [None, pa.py_buffer(np.ascontiguousarray(numbers))])


def _numbers(column: pa.ChunkedArray) -> Numbers:
    """The other way round, for the same reason not by to_numpy()."""
    chunks = [np.from_dlpack(chunk) for chunk in column.cast(pa.int64()).chunks if len(chunk)]
    return np.concatenate(chunks) if chunks else NO_ROWS


def _key_rank(name: str) -> tuple[bool, bool]:
    plain = name.lower()
    return plain not in _LIKELY, not plain.endswith(("_id", "_key", "_uuid"))


def list_candidates(pairs: Sequence[Pair], first: Collection[str] = ()) -> list[Pair]:
    """The columns that may be a key: those that are named `first`, then likely names."""
    usable = [pair for pair in pairs if not (pa.types.is_nested(pair.type) or pa.types.is_floating(pair.type))]
    usable = [pair for pair in usable if not pa.types.is_boolean(pair.type) and not pa.types.is_null(pair.type)]
    return sorted(usable, key=lambda pair: (pair.new not in first, *_key_rank(pair.new)))


def measure_unique(column: pa.ChunkedArray) -> float:
    """How many different values a column has for each row: 1 if it is unique. Below _NEARLY it is only about that."""
    if column.null_count:
        return 0
    if len(column) <= 1:
        return 1
    if pc.all(pc.less(column.slice(0, len(column) - 1), column.slice(1))).as_py():
        return 1  # each is larger than the one before it, as keys mostly are: far cheaper to see
    shares = (int(pc.count_distinct(some).as_py()) / len(some) for some in (column.slice(0, _SAMPLE), column))
    first = next(shares)
    return first if first < _NEARLY or len(column) <= _SAMPLE else next(shares)


def is_unique(column: pa.ChunkedArray) -> bool:
    return measure_unique(column) == 1


def has_overlap(old: pa.ChunkedArray, new: pa.ChunkedArray) -> bool:
    """Whether at least half of the smaller side's values are on the other side, too."""
    fewer, more = (old, new) if len(old) <= len(new) else (new, old)
    return not len(fewer) or 2 * (pc.sum(pc.is_in(fewer, value_set=more)).as_py() or 0) >= len(fewer)


# -- types --------------------------------------------------------------------------------------


def _plain_type(kind: pa.DataType) -> pa.DataType:
    """A type without its wrapping: what dictionaries and extensions hold, and texts that are not views."""
    if isinstance(kind, pa.BaseExtensionType):
        return _plain_type(kind.storage_type)
    if pa.types.is_dictionary(kind):
        return _plain_type(kind.value_type)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return pa.string() if not pa.types.is_large_string(kind) else pa.large_string()
    return kind


def _find_common_type(old: pa.DataType, new: pa.DataType) -> pa.DataType | None:
    """A type that may hold the values of both; whether it does, the values say when they are cast."""
    if old.equals(new):
        return old
    texts = [pa.types.is_string(kind) or pa.types.is_large_string(kind) for kind in (old, new)]
    if any(pa.types.is_null(kind) for kind in (old, new)):
        return new if pa.types.is_null(old) else old
    if any(map(pa.types.is_nested, (old, new))):
        return _find_common_nested(old, new)
    if all(texts):
        return pa.large_string()
    if all(pa.types.is_binary(kind) or pa.types.is_large_binary(kind) for kind in (old, new)):
        return pa.large_binary()
    if any(texts):
        other = new if texts[0] else old
        return None if pa.types.is_binary(other) else pa.large_string()
    if all(pa.types.is_integer(kind) for kind in (old, new)):
        return pa.decimal128(20) if any(pa.types.is_uint64(kind) for kind in (old, new)) else pa.int64()
    if all(pa.types.is_integer(kind) or pa.types.is_floating(kind) for kind in (old, new)):
        return pa.float64()
    if all(pa.types.is_decimal(kind) or pa.types.is_integer(kind) for kind in (old, new)):
        return pa.decimal128(38, max(kind.scale if pa.types.is_decimal(kind) else 0 for kind in (old, new)))
    moments = [pa.types.is_timestamp(kind) or pa.types.is_date(kind) for kind in (old, new)]
    zones = {kind.tz for kind in (old, new) if pa.types.is_timestamp(kind)}
    unit = "ns" if any(pa.types.is_timestamp(kind) and kind.unit == "ns" for kind in (old, new)) else "us"
    return pa.timestamp(unit, zones.pop()) if all(moments) and len(zones) == 1 else None


def _find_common_nested(old: pa.DataType, new: pa.DataType) -> pa.DataType | None:
    """Structs with the fields of both, where one that a side does not have is null there; lists of such."""
    old, new = _plain_type(old), _plain_type(new)
    if pa.types.is_struct(old) and pa.types.is_struct(new):
        sides = [{field.name: field.type for field in kind} for kind in (old, new)]
        if any(len(side) < kind.num_fields for side, kind in zip(sides, (old, new), strict=True)):
            return None  # two fields of one name
        fields = []
        for name in dict.fromkeys((*sides[0], *sides[1])):
            kinds = [_plain_type(side[name]) for side in sides if name in side]
            kind = _find_common_type(kinds[0], kinds[-1])
            if kind is None:
                return None
            fields.append(pa.field(name, kind))
        return pa.struct(fields)
    lists = [pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
             for kind in (old, new)]  # fmt: skip
    if all(lists):
        inner = _find_common_type(_plain_type(old.value_type), _plain_type(new.value_type))
        return pa.large_list(inner) if inner is not None else None
    return None
