"""Parts: families as Parquet files of the repo, written always alike, read in place."""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Iterable, Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from memlake import nofollow
from memlake.dataset.parts import column_hashes, sums
from memlake.dataset.parts.frames import KEEP, ROWS, Family, Fragment, Frame, Kept
from memlake.errors import Corrupt, Error, InvalidInput, NotFound, Unavailable
from memlake.objects import disk
from memlake.objects.forks import Mutex
from memlake.objects.leases import Keeping
from memlake.objects.store import Objects

_GROUP = 131_072  # rows of a row group
_WIDE_GROUP = 16_384  # where a row holds a vector or a document
_SAMPLE = 8_192
_PLACES = 4  # where a sample is taken of what may change on the way
_counter = itertools.count()


class Parts:
    """The families of one repo: sealing tables into parts, and reading them back."""

    def __init__(self, objects: Objects) -> None:
        self.objects = objects
        self._keeping, self._runs, self._mutex = Keeping(objects.db, "dataset"), 0, Mutex()

    @contextlib.contextmanager
    def hold(self) -> Iterator[None]:
        """Keep gc from what is sealed inside, also before a commit names it. Runs may overlap; the last one lets go."""
        with self._mutex:
            self._runs += 1
        try:
            yield
        finally:
            with self._mutex:
                self._runs -= 1
                if not self._runs:
                    done, self._keeping = self._keeping, Keeping(self.objects.db, "dataset")
                    with contextlib.suppress(Error):  # a lease that cannot be given back ends with this process
                        done.__exit__(None)

    def _lease(self) -> None:
        with self._mutex:
            if self._runs:
                self._keeping.take().renew()

    def path(self, family: Family) -> str:
        assert family.oid is not None
        place = self.objects.part_path(family.oid)
        if place is None or not place.exists():
            self.objects.size(family.oid)  # purged or never here: says which
            raise NotFound(f"part {family.oid} is not on this machine.", hint="Run memlake fsck.")
        return str(place)

    def check_columns(self, family: Family, columns: Sequence[str]) -> str:
        """The path of a part whose columns are seen to be as they were written, for an engine that does not look."""
        path = self.path(family)
        with _translate_errors(family):
            sums.check(path, columns, family.footer)
        return path

    def table(self, family: Family, columns: Sequence[str]) -> pa.Table:
        if family.table is not None:
            return family.table.select(list(columns))
        path = self.check_columns(family, columns)
        with _translate_errors(family):
            return pq.read_table(path, columns=list(columns), partitioning=None)

    def rows(self, family: Family, columns: Sequence[str], rows: Any) -> pa.Table:
        """Some rows, by their sorted places; only the row groups that hold them are read."""
        if family.table is not None:
            return family.table.select(list(columns)).take(pa.array(rows))
        path = self.check_columns(family, ())
        with _translate_errors(family):
            file = pq.ParquetFile(path)
            sizes = [file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)]
            starts = np.concatenate([[0], np.cumsum(sizes)])
            groups = np.searchsorted(starts, rows, side="right") - 1
            sums.check(path, columns, family.footer, np.unique(groups).tolist())
            tables = [
                file.read_row_group(int(group), columns=list(columns)).take(
                    pa.array(rows[groups == group] - starts[group])
                )
                for group in np.unique(groups)
            ]
            return pa.concat_tables(tables)

    def equal(self, a: Frame, b: Frame) -> bool:
        """Whether two frames of one schema hold the same rows in the same order, however they are cut."""
        return all(self.read_column(a, name).equals(self.read_column(b, name)) for name in a.schema.names)

    def read_column(self, frame: Frame, name: str) -> pa.ChunkedArray:
        chunks = [chunk for one in frame.fragments for chunk in self.read_fragment(one, [name]).column(0).chunks]
        return pa.chunked_array(chunks, frame.schema.field(name).type)

    def read_fragment(self, fragment: Fragment, names: Sequence[str]) -> pa.Table:
        """The kept rows of a fragment."""
        columns = {}
        for index, owned in fragment.list_homes(names).items():
            table = self.table(fragment.families[index], owned)
            if table.num_rows != fragment.rows:
                raise Corrupt(f"a family has {table.num_rows} rows where its fragment has {fragment.rows}.")
            columns.update({name: table.column(name) for name in owned})
        table = (
            pa.table({name: columns[name] for name in names})
            if names
            else pa.table({"": pa.nulls(fragment.rows)}).select([])
        )
        return table if fragment.kept is None else table.filter(self.table(fragment.kept.family, [KEEP]).column(KEEP))

    def seal(self, frame: Frame) -> Frame:
        """A frame all of whose families are parts."""
        fragments, trace = map(self.seal_fragment, frame.fragments), frame.trace
        if trace is not None:
            trace = trace.convert(self.seal_fragment)
        return Frame(frame.schema, tuple(fragments), trace)

    def seal_fragment(self, fragment: Fragment) -> Fragment:
        kept = fragment.kept and Kept(fragment.kept.rows, self.seal_family(fragment.kept.family))
        return Fragment(fragment.rows, tuple(self.seal_family(family) for family in fragment.families), kept)

    def seal_family(self, family: Family) -> Family:
        if family.oid is not None:
            return family
        assert family.table is not None
        self._lease()
        file = self._write_file(family.table)
        size, footer = file.stat().st_size, sums.footer(str(file))
        try:
            oid = self.objects.write_part(file)
        finally:
            file.unlink(missing_ok=True)
        return Family(family.columns, family.marks, size, oid, footer=footer)

    def try_seal(self, family: Family) -> Family:
        """Sealed so that it can be remembered; as it was where the disk is full or read-only, which stops no work."""
        try:
            return self.seal_family(family)
        except Unavailable:
            return family

    def _write_file(self, table: pa.Table) -> Path:
        file = self.objects.tmp / f"family-{os.getpid()}-{next(_counter)}.parquet"
        try:
            nofollow.make_folder(self.objects.tmp)
            disk.step("write")
            _write(table, file)
        except OSError as error:
            file.unlink(missing_ok=True)
            raise Unavailable(
                f"a part of the dataset could not be written: {error}. Nothing was saved; finished work is kept.",
                hint="Free some space and run it again.",
            ) from error
        except pa.ArrowException:
            file.unlink(missing_ok=True)
            raise
        return file


# Pinned, so that equal rows are equal bytes as long as one version of the writer is used.
_SETTINGS = {
    "version": "2.6",
    "data_page_version": "1.0",
    "write_statistics": True,
    "store_schema": True,
    "write_page_checksum": True,
}
_ZSTD = pa.Codec("zstd", compression_level=3)


def _write(table: pa.Table, file: Path, filler: int = 0) -> None:
    """Write the file of a table. Where a few bytes would stand for gigabytes, as of one long text in all rows, it is
    filled up with zeros that no reader looks at: a part so short would be refused as a trap."""
    settings = {**_SETTINGS, **_choose_encoding(table)}
    rows = settings.pop("row_group_size")
    with pa.OSFile(str(file), "wb") as sink, pq.ParquetWriter(sink, table.schema, **settings) as writer:
        writer.write_table(table, rows)
        sink.write(bytes(filler))
    if table.nbytes > sums.MOST_BYTES // 4 and not filler:
        missing = sums.missing_bytes(str(file), table.column_names)
        if missing:
            _write(table, file, missing)


@contextlib.contextmanager
def _translate_errors(family: Family) -> Iterator[None]:
    """What Arrow says of a file that cannot be read, as ours."""
    try:
        yield
    except (OSError, pa.ArrowException, Corrupt) as error:
        reason = str(error).splitlines()[0]
        raise Corrupt(f"part {family.oid} cannot be read: {reason}", hint="Run memlake fsck --full.") from error


def make_family(table: pa.Table) -> Family:
    """A family still in memory."""
    marks = tuple(column_hashes.mark(column) for column in table.columns)
    return Family(tuple(table.column_names), marks, table.nbytes, None, table)


def fragments(tables: Iterable[pa.Table | pa.RecordBatch], schema: pa.Schema) -> Iterator[Fragment]:
    """Rows cut into fragments, however they come."""
    for table in cut_fragments(tables, schema):
        yield Fragment(table.num_rows, (make_family(table),))


def cut_fragments(tables: Iterable[pa.Table | pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.Table]:
    waiting: list[pa.Table] = []
    rows = 0
    for rows_in in tables:
        table = rows_in if isinstance(rows_in, pa.Table) else pa.Table.from_batches([rows_in])
        while rows + table.num_rows >= ROWS:
            head = ROWS - rows
            yield _join([*waiting, table.slice(0, head)], schema)
            table, waiting, rows = table.slice(head), [], 0
        if table.num_rows:
            waiting.append(table)
            rows += table.num_rows
    if waiting:
        yield _join(waiting, schema)


def _join(tables: list[pa.Table], schema: pa.Schema) -> pa.Table:
    table = pa.concat_tables(tables) if len(tables) > 1 else tables[0]
    return fit_schema(table, schema).combine_chunks()


def fit_schema(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """A table with exactly these fields: engines name list items and time zones as they like."""
    if table.schema.equals(schema, check_metadata=True):
        return table
    arrays = [_fit_column(table.column(field.name), field) for field in schema]
    if any(
        pa.types.is_null(field.type) and pa.types.is_nested(one.type) for field, one in zip(schema, arrays, strict=True)
    ):
        # A list of a column of nothing is a list, though its type was not known before it ran.
        schema = pa.schema([field.with_type(one.type) for field, one in zip(schema, arrays, strict=True)])
    return pa.Table.from_arrays(arrays, schema=schema)


def _fit_column(column: pa.ChunkedArray, field: pa.Field) -> pa.ChunkedArray:
    try:
        if pa.types.is_null(field.type) and column.null_count == len(column):
            return pa.chunked_array([pa.nulls(len(column))])  # engines give a column of nothing some type
        if column.type == pa.month_day_nano_interval() and pa.types.is_duration(field.type):
            return pa.chunked_array([_convert_durations(chunk) for chunk in column.chunks], pa.duration("ns")).cast(
                field.type
            )
        if pa.types.is_nested(field.type) and "interval" in str(column.type):
            return pa.chunked_array(
                [pa.array(_convert_spans(chunk.to_pylist()), field.type) for chunk in column.chunks], field.type
            )
        is_unknown = pa.types.is_null(field.type) and pa.types.is_nested(column.type)
        return column if is_unknown or column.type.equals(field.type) else column.cast(field.type)
    except pa.ArrowInvalid as error:
        raise InvalidInput(
            f"a value of {field.name!r} is too large for {field.type}: {error}. Nothing was saved.",
            hint="Where numbers do not fit, compute with wider ones: C('x').cast(float)",
        ) from error


def _convert_spans(value: Any) -> Any:
    """A value in which the engine's spans of time are Python's: inside others, Arrow casts none."""
    if isinstance(value, pa.MonthDayNano):
        return timedelta(days=value.days, microseconds=value.nanoseconds // 1000)
    if isinstance(value, dict):
        return {name: _convert_spans(one) for name, one in value.items()}
    return type(value)(map(_convert_spans, value)) if isinstance(value, list | tuple) else value


def _convert_durations(chunk: pa.Array) -> pa.Array:
    """Spans of time as the engine gives them, in months (none of ours has any), days and nanoseconds."""
    kind = np.dtype([("months", "i4"), ("days", "i4"), ("nanoseconds", "i8")])
    spans = np.frombuffer(chunk.buffers()[1], kind, len(chunk), chunk.offset * kind.itemsize)
    nanoseconds = spans["days"].astype("i8") * 86_400_000_000_000 + spans["nanoseconds"]
    return pa.array(nanoseconds, pa.duration("ns"), mask=np.asarray(chunk.is_null()) if chunk.null_count else None)


def _choose_encoding(table: pa.Table) -> dict[str, Any]:
    leaves = [leaf for field in table.schema for leaf in _leaves(field.name, column_hashes.whole(table[field.name]))]
    dense = {path for path, values in leaves if _is_dense(values)}
    has_lists = any(pa.types.is_nested(field.type) and not pa.types.is_struct(field.type) for field in table.schema)
    is_wide = has_lists or table.nbytes > 1024 * max(table.num_rows, 1)
    sample = table.slice(0, _SAMPLE)
    return {
        "row_group_size": _WIDE_GROUP if is_wide else _GROUP,
        "use_dictionary": [path for name in table.column_names for path in _repeating_leaves(name, sample[name])],
        "compression": {path: "none" if path in dense else _ZSTD.name for path, _ in leaves},
        "compression_level": {path: _ZSTD.compression_level for path, _ in leaves if path not in dense},
    }


def _leaves(path: str, values: pa.Array) -> Iterator[tuple[str, pa.Array]]:
    """What Parquet has as columns: all that has no more columns inside, by its path."""
    kind = values.type
    if pa.types.is_struct(kind):
        for child, inside in zip(kind, values.flatten(), strict=True):
            yield from _leaves(f"{path}.{child.name}", inside)
    elif pa.types.is_map(kind):
        yield from _leaves(f"{path}.key_value.key", values.keys)
        yield from _leaves(f"{path}.key_value.value", values.items)
    elif pa.types.is_nested(kind):
        yield from _leaves(f"{path}.list.element", values.flatten())
    else:
        yield path, values


def _is_dense(values: pa.Array) -> bool:
    """Whether compression would save less than a tenth of these numbers, at twice the time to read them."""
    if not (pa.types.is_floating(values.type) or pa.types.is_integer(values.type)):
        return False
    places = [values.slice(len(values) * place // _PLACES, _SAMPLE // _PLACES) for place in range(_PLACES)]
    sample = pa.concat_arrays(places).drop_null().to_numpy(zero_copy_only=False).tobytes()
    return len(_ZSTD.compress(sample, asbytes=True)) * 10 > len(sample) * 9


def _repeating_leaves(path: str, column: pa.ChunkedArray) -> list[str]:
    """A column, or the children of a struct, whose values repeat: a dictionary only helps these."""
    kind = column.type
    if pa.types.is_struct(kind):
        children = zip(kind, column_hashes.whole(column).flatten(), strict=True)
        return [leaf for child, values in children for leaf in _repeating_leaves(f"{path}.{child.name}", values)]
    if pa.types.is_nested(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind) or pa.types.is_null(kind):
        return []
    return [path] if pc.count_distinct(column).as_py() * 2 <= len(column) else []
