"""Two edits of one table joined by key and cell, and written as ours is written.

Which rows and cells are taken from where, rows/merge.py says. Lines of CSV and JSON that nobody touched stay as they
are, byte by byte; Parquet is written anew, with the compression and the row groups of ours.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from memlake.contents.content import Content, Unreadable
from memlake.contents.documents import is_same
from memlake.contents.line_files import Fields, LineFile, Written, unquote, write_lines
from memlake.contents.merged import InnerConflict, Merged, MergeHow
from memlake.contents.read_tables import CsvText, find_format, open_table, read_csv, reading, whole_side
from memlake.errors import InvalidInput
from memlake.named_tuple import NamedTuple
from memlake.rows.compare import Key, Side
from memlake.rows.merge import (
    Column,
    Met,
    Readers,
    RowMerge,
    Unjoinable,
    find_key,
    make_table,
    merge_rows,
    name_row,
    open_sides,
    settle_cells,
)

_LARGEST = 1 << 31  # bytes of a side: all of it is in memory


def merge(base: Content, ours: Content, theirs: Content, how: MergeHow) -> Merged:
    """Ours with the rows and cells they changed; a cell that both changed differently is a conflict of that cell."""
    sides = (base, ours, theirs)
    formats = {find_format(side) for side in sides}
    if len(formats) > 1 or not all(side.size for side in sides) or max(side.size for side in sides) > _LARGEST:
        raise Unreadable(f"{ours.path} is not a table of one format on all sides, so it is not merged as one")
    try:
        with reading(ours):
            return _MERGES[formats.pop()](sides, how)
    except (Unjoinable, InvalidInput, duckdb.Error) as error:
        raise Unreadable(f"{ours.path} cannot be merged as a table: {error}") from error


def _choose_key(sides: Readers, how: MergeHow) -> tuple[Key, tuple[str, ...]]:
    """The declared key, else one that is found; and what is to be said about it."""
    missing = [name for name in how.key if any(name not in side.schema.names for side in sides)]
    if how.key and not missing:
        return Key(how.key, "declared"), ()
    notes = (f"the declared key {missing[0]!r} is not a column of all sides",) if missing else ()
    return find_key(sides), notes


# -- CSV ----------------------------------------------------------------------------------------


def _merge_csv(contents: Sequence[Content], how: MergeHow) -> Merged:
    texts = [read_csv(content) for content in contents]
    sides = open_sides(*(whole_side(text.table) for text in texts))
    key, notes = _choose_key(sides, how)
    merged = settle_cells(merge_rows(sides, key, how), sides, how)
    ours, theirs = (_open_fields(text) for text in texts[1:])
    data = _write_csv(merged, ours, theirs, texts)
    text = texts[1]
    if text.encoding != "utf-8":
        data = text.mark + data.decode().encode(text.encoding)
    return Merged(data, merged.conflicts, (*notes, *merged.notes))


def _open_fields(text: CsvText) -> Fields:
    file = LineFile(text.data, quoted=True)
    if len(file) != text.table.num_rows + text.header or (file.blanks and text.table.num_columns == 1):
        raise ValueError("its lines are not its rows")
    return Fields(file, text.delimiter, text.table.num_columns, text.header)


def _write_csv(merged: RowMerge, ours: Fields, theirs: Fields, texts: Sequence[CsvText]) -> bytes:
    names = [column.name for column in merged.columns]
    numbers = [{name: number for number, name in enumerate(text.table.column_names)} for text in texts[1:]]
    places = [
        [None if name is None else number[name] for name in sides]
        for number, sides in (
            (numbers[0], [column.ours for column in merged.columns]),
            (numbers[1], [column.theirs for column in merged.columns]),
        )
    ]
    is_same_layout = [names == list(text.table.column_names) for text in texts[1:]]
    is_written_alike = (
        ours.delimiter == theirs.delimiter
        and ours.file.newline == theirs.file.newline
        and is_same_layout[1]
        and ours.quoted == theirs.quoted
    )
    cells: dict[int, set[int]] = {}  # by row of ours, the places of the result that are theirs
    for place, column in enumerate(merged.columns):
        for row in merged.taken.get(column.name, np.empty(0, np.int64)).tolist():
            cells.setdefault(row, set()).add(place)
    is_touched = np.zeros(ours.file.starts.shape, bool)
    is_touched[list(cells)] = True
    if not is_same_layout[0]:
        is_touched[:] = True
    source = np.where(merged.ours < 0, 1, 0).astype(np.int8)
    source[(merged.ours >= 0) & is_touched[merged.ours]] = 2
    if not is_written_alike:
        source[merged.ours < 0] = 2
    number = np.where(source == 1, merged.theirs + theirs.header, merged.ours + ours.header)
    lines: list[str] = []
    quoted = [ours.quoted[place] if place is not None else all(ours.quoted) for place in places[0]]
    for at in np.flatnonzero(source == 2).tolist():
        mine, other = int(merged.ours[at]), int(merged.theirs[at])
        number[at] = len(lines)
        fields = [
            ours.split(mine + ours.header) if mine >= 0 else None,
            theirs.split(other + theirs.header)
            if other >= 0 and (mine < 0 or mine in cells or not is_same_layout[0])
            else None,
        ]
        lines.append(_write_record(ours, fields, places, (quoted, cells.get(mine, set()) if mine >= 0 else None)))
    if ours.header and is_same_layout[0]:
        source, number = np.append(np.int8(0), source), np.append(0, number)
    elif ours.header:
        number[source == 2] += 1
        source, number = np.append(np.int8(2), source), np.append(0, number)
        lines.insert(0, _write_header(ours, theirs, merged.columns, texts))
    return write_lines(ours.file, theirs.file, Written(source, number), lines)


def _write_record(
    style: Fields,
    fields: Sequence[list[str] | None],
    places: Sequence[Sequence[int | None]],
    how: tuple[Sequence[bool], set[int] | None],
) -> str:
    """A record with cells of both sides; a cell of ours stays as it is written."""
    quoted, taken = how
    out = []
    for place, (mine, other) in enumerate(zip(*places, strict=True)):
        ours = fields[0][mine] if fields[0] is not None and mine is not None else None
        theirs = fields[1][other] if fields[1] is not None and other is not None else None
        if ours is not None and (taken is None or place not in taken):
            out.append(ours)
        else:
            value = unquote(theirs if theirs is not None else "")
            out.append(style.write(value, quoted=ours.startswith('"') if ours else quoted[place]))
    return style.delimiter.join(out)


def _write_header(ours: Fields, theirs: Fields, columns: Sequence[Column], texts: Sequence[CsvText]) -> str:
    written = [
        dict(zip(text.table.column_names, fields.split(0), strict=True))
        for text, fields in ((texts[1], ours), (texts[2], theirs))
    ]
    names = []
    for column in columns:
        if column.name == column.ours:
            names.append(written[0][column.name])
        else:
            raw = unquote(written[1].get(column.name, column.name))
            names.append(ours.write(raw, quoted=all(name.startswith('"') for name in written[0].values())))
    mark = "\ufeff" if ours.file.text(0).startswith("\ufeff") else ""
    return mark + ours.delimiter.join(names)


# -- JSON lines ---------------------------------------------------------------------------------

_LINE = "\0line"  # beside columns of the key
_ABSENT = object()


class _JsonLines(NamedTuple):
    """The lines of a file, with the columns of the key."""

    file: LineFile
    side: Side

    def read(self, row: int) -> dict[str, Any]:
        value: dict[str, Any] = json.loads(self.file.text(row))
        return value


def _merge_jsonl(contents: Sequence[Content], how: MergeHow) -> Merged:
    """Rows are matched by key columns and compared as lines; lines that differ, field by field."""
    opened = []
    for content in contents:
        with open_table(content) as side:
            opened.append(side)
    key, notes = _choose_key(open_sides(*(_add_fields(side, how.key, opened) for side in opened)), how)
    opened = [_add_fields(side, key.columns, opened) for side in opened]
    base, ours, theirs = (_read_lines(*each, key) for each in zip(contents, opened, strict=True))
    files = (base, ours, theirs)
    sides = open_sides(base.side, ours.side, theirs.side)
    merged = merge_rows(sides, key, how, lambda side, row: files[side].read(row))
    conflicts = list(merged.conflicts)
    lines: dict[int, str] = {}
    for row in merged.taken.get(_LINE, np.empty(0, np.int64)).tolist():
        lines[row] = theirs.file.text(int(merged.partner[row]))
    met = merged.met.get(_LINE, Met(*(np.empty(0, np.int64),) * 3))
    for old, mine, other in zip(met.base.tolist(), met.ours.tolist(), met.theirs.tolist(), strict=True):
        was = base.read(old) if old >= 0 else {}
        where = {name: ours.read(mine).get(name) for name in key.columns}
        value, found = _join_fields((was, ours.read(mine), theirs.read(other)), where, how)
        conflicts += found
        lines[mine] = _write_json(ours.file.text(mine), value)
    source = np.where(merged.ours < 0, 1, 0).astype(np.int8)
    touched = np.zeros(len(ours.file) + 1, bool)  # a row of -1 is the last: never touched
    touched[list(lines)] = True
    source[(merged.ours >= 0) & touched[merged.ours]] = 2
    number = np.where(source == 1, merged.theirs, merged.ours)
    if theirs.file.newline != ours.file.newline:
        source[source == 1] = 3
    texts = []
    for at in np.flatnonzero(source >= 2).tolist():
        texts.append(lines[int(number[at])] if source[at] == 2 else theirs.file.text(int(merged.theirs[at])))
        source[at], number[at] = 2, len(texts) - 1
    data = write_lines(ours.file, theirs.file, Written(source, number), texts)
    return Merged(data, tuple(conflicts), (*notes, *merged.notes))


def _add_fields(side: Side, names: Sequence[str], sides: Sequence[Side]) -> Side:
    """The same table with columns that its lines do not have but those of others do: a line need not have a field."""
    known = {
        field.name: field.type for one in reversed(sides) for field in one.schema if not pa.types.is_null(field.type)
    }
    missing = {name: known[name] for name in names if name in known and name not in side.schema.names}
    if not missing:
        return side
    whole = (
        pa.concat_tables(one.read(side.schema.names) for one in side.pieces)
        if side.pieces
        else side.schema.empty_table()
    )
    for name, kind in missing.items():
        whole = whole.append_column(name, pa.nulls(side.rows, kind))
    return whole_side(whole)


def _read_lines(content: Content, side: Side, key: Key) -> _JsonLines:
    file = LineFile(content.read(), quoted=False)
    if len(file) != side.rows:
        raise ValueError("its lines are not its rows")
    names = list(key.columns)
    empty = pa.Table.from_batches([], pa.schema([side.schema.field(name) for name in names]))
    columns = pa.concat_tables([empty, *(one.read(names) for one in side.pieces)])
    lines = file.as_array()
    table = pa.table([*columns.columns, lines], [*key.columns, _LINE])
    return _JsonLines(file, whole_side(table))


def _join_fields(
    sides: tuple[dict[str, Any], dict[str, Any], dict[str, Any]], where: Mapping[str, Any], how: MergeHow
) -> tuple[dict[str, Any], list[InnerConflict]]:
    base, ours, theirs = sides
    result: dict[str, Any] = {}
    conflicts = []
    for name in dict.fromkeys((*ours, *theirs, *base)):
        old, mine, other = (side.get(name, _ABSENT) for side in sides)
        value = mine
        if is_same(old, mine):
            value = other
        elif not is_same(old, other) and not is_same(mine, other):
            place = f"{name_row(where)}: {name}"
            side = how.find_side(place)
            value = other if side == "theirs" else mine
            if side not in ("ours", "theirs"):
                was, here, there = (None if one is _ABSENT else one for one in (old, mine, other))
                conflicts.append(InnerConflict(place, was, here, there, {**where, "column": name}))
        if value is not _ABSENT:
            result[name] = value
    return result, conflicts


def _write_json(line: str, value: Mapping[str, Any]) -> str:
    """An object in the layout of a line."""
    old = json.loads(line)
    for separators in ((", ", ": "), (",", ":")):
        for ascii_only in (False, True):
            if json.dumps(old, separators=separators, ensure_ascii=ascii_only) == line:
                return json.dumps(value, separators=separators, ensure_ascii=ascii_only)
    raise ValueError("a line that both changed is not written as JSON would be written anew")


# -- Parquet ------------------------------------------------------------------------------------


def _merge_parquet(contents: Sequence[Content], how: MergeHow) -> Merged:
    opened = []
    for content in contents:
        with open_table(content) as side:
            opened.append(side)
    sides = open_sides(*opened)
    key, notes = _choose_key(sides, how)
    merged = settle_cells(merge_rows(sides, key, how), sides, how)
    ours = pq.ParquetFile(contents[1].open(), pre_buffer=False)
    table = make_table(merged, sides)
    out = io.BytesIO()
    pq.write_table(
        table,
        out,
        row_group_size=_find_group_size(ours),
        compression=_find_compression(ours, table),
        use_dictionary=[name for name in table.column_names if _has_repeats(table[name])] or False,
    )
    return Merged(out.getvalue(), merged.conflicts, (*notes, *merged.notes))


def _has_repeats(column: pa.ChunkedArray) -> bool:
    """Whether a dictionary of its values pays. The writer would find out by making one of all values."""
    some = column.slice(0, 10_000)
    try:
        return bool(2 * pc.count_distinct(some).as_py() <= len(some))
    except pa.ArrowNotImplementedError:  # nested
        return True


def _find_group_size(file: pq.ParquetFile) -> int:
    groups = [file.metadata.row_group(number).num_rows for number in range(file.metadata.num_row_groups)]
    return max(max(groups, default=0), 1024)


def _find_compression(file: pq.ParquetFile, table: pa.Table) -> str | dict[str, str]:
    """The compression of each column of ours; a new column gets that of the first."""
    if not file.metadata.num_row_groups:
        return "snappy"
    group = file.metadata.row_group(0)
    codecs = {
        group.column(number).path_in_schema: group.column(number).compression for number in range(group.num_columns)
    }
    names: dict[str, str] = {path: codec.lower().replace("uncompressed", "none") for path, codec in codecs.items()}
    first = next(iter(names.values()), "snappy")
    if len(set(names.values())) < 2 or any("." in path for path in names):
        return first
    return {name: names.get(name, first) for name in table.column_names}


_MERGES = {"csv": _merge_csv, "tsv": _merge_csv, "jsonl": _merge_jsonl, "parquet": _merge_parquet}
