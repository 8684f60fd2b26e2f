"""Outputs: rows shown, and handed to other tools. What a tool needs is imported where it is used."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from memlake.dataset import storages
from memlake.dataset.expressions import bind
from memlake.dataset.expressions.columns import C
from memlake.dataset.plan import build, nodes
from memlake.dataset.plan.nodes import Call, Plan, Source, alike, named
from memlake.dataset.types import arrow
from memlake.dataset.types.field_metadata import JSON, class_of, holds_json
from memlake.errors import InvalidInput, NotFound, Unavailable
from memlake.rows.sql import NOTHING, PLACE, compose, hole, identifier, path, several, template

if TYPE_CHECKING:
    from memlake.dataset.chain import Chain
    from memlake.dataset.types.files import File

_CELL = 60  # characters of a shown value


# -- shown -----------------------------------------------------------------------------------------


def show(table: pa.Table, limit: int, *, flatten: bool = False, transpose: bool = False) -> None:
    """Rows as a table on the terminal; one more than the limit says that there are more."""
    if limit < 0:
        raise InvalidInput(f"show takes a number of rows, 0 or more, not {limit}.")
    more = table.num_rows > limit
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    sys.stdout.write(shown(table.slice(0, limit), flatten=flatten, transpose=transpose, width=width) + "\n")
    if more:
        sys.stdout.write(f"[the first {limit} rows]\n" if limit != 1 else "[the first row]\n")


def shown(table: pa.Table, *, flatten: bool = False, transpose: bool = False, width: int | None = None) -> str:
    """Rows as lines of text; columns that do not fit into `width` are only named."""
    flat = flattened(table) if flatten else _unfolded(table)
    names = list(flat.column_names)
    columns = [[_printable(name), *map(_cell, flat[name].to_pylist())] for name in names]
    lines = columns if transpose else [list(line) for line in zip(*columns, strict=True)]
    widths = [max(map(len, column)) for column in (zip(*columns, strict=True) if transpose else columns)]
    kept = len(widths) if width is None or transpose else _fitting(widths, width)
    right = [
        not transpose
        and bool(pa.types.is_integer(one.type) or pa.types.is_floating(one.type) or pa.types.is_decimal(one.type))
        for one in flat.schema
    ] + [False] * flat.num_rows
    text = [_line(line[:kept], widths, right) for line in lines]
    if not transpose:
        text.insert(1, "  ".join("-" * width for width in widths[:kept]))
    text += [] if flat.num_rows else ["(no rows)"]
    text += [f"[not shown: {_printable(', '.join(names[kept:]))}]"] if kept < len(widths) else []
    return "\n".join(text)


def _line(cells: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> str:
    sides = zip(cells, widths, right, strict=False)
    return "  ".join(cell.rjust(width) if is_right else cell.ljust(width) for cell, width, is_right in sides).rstrip()


def _fitting(widths: Sequence[int], most: int) -> int:
    """How many columns fit beside each other; one at least."""
    return max(1, sum(end - 2 <= most for end in itertools.accumulate(width + 2 for width in widths)))


def _unfolded(table: pa.Table) -> pa.Table:
    """Nested columns of no class, which a select of inner fields makes too, as the `a.b` they were asked for by."""
    while any(_is_bare(one) for one in table.schema):
        parts = [
            pa.table([table[one.name]], schema=pa.schema([one])).flatten()
            if _is_bare(one)
            else table.select([one.name])
            for one in table.schema
        ]
        fields = [one for part in parts for one in part.schema]
        table = pa.Table.from_arrays([column for part in parts for column in part.columns], schema=pa.schema(fields))
    return table


def _is_bare(one: pa.Field) -> bool:
    return bool(pa.types.is_struct(one.type)) and not class_of(one) and one.type.num_fields > 0


def _cell(value: Any) -> str:
    text = "" if value is None else _number(value) if isinstance(value, float) else str(_brief(value))
    text = _printable(text)
    return text if len(text) <= _CELL else text[: _CELL - 1] + "…"


def _printable(text: str) -> str:
    """Without what a terminal would act on."""
    return "".join(char if char.isprintable() else " " for char in text)


def _number(value: float) -> str:
    """Six digits; of large numbers all before the point, for their size is what they say."""
    return f"{value:.2f}".rstrip("0").rstrip(".") if 1e5 <= abs(value) < 1e15 else f"{value:.6g}"


def _brief(value: Any) -> Any:
    if isinstance(value, Mapping) and {"source", "path"} <= value.keys():
        return value["path"]
    return value


def print_schema(schema: pa.Schema) -> None:
    for line in schema_lines(schema):
        sys.stdout.write(line + "\n")


def schema_lines(fields: Iterable[pa.Field], depth: int = 0) -> Iterator[str]:
    for one in fields:
        yield f"{'  ' * depth}{_printable(one.name)}: {arrow.shown(one)}"
        if pa.types.is_struct(one.type):
            yield from schema_lines(one.type, depth + 1)


def explained(node: Plan) -> str:
    """The steps from the sources down, and what runs each."""
    lines = []
    for one in node.walk():
        where = "reads" if isinstance(one, Source) else "python" if isinstance(one, Call) else "duckdb"
        lines.append(f"{where:7} {one.describe()}")
    return "\n".join(lines)


# -- handed over -----------------------------------------------------------------------------------


def tuples(table: pa.Table) -> Iterator[tuple[Any, ...]]:
    """Rows as Python values, models and files as what they are."""
    columns = [arrow.decode(one, _whole(table[one.name])) for one in table.schema]
    return zip(*columns, strict=True) if columns else iter(())


def plain_rows(table: pa.Table) -> list[dict[str, Any]]:
    """Rows as what JSON has words for."""
    found: list[dict[str, Any]] = json.loads(json.dumps(list(_rows(table)), default=jsonable))
    return found


def _rows(table: pa.Table | pa.RecordBatch) -> Iterator[dict[str, Any]]:
    """Rows as dictionaries, in which a dict that is kept as text is a dict."""
    packed = [one for one in table.schema if holds_json(one)]
    for row in table.to_pylist():
        for one in packed:
            row[one.name] = _unpacked(one, row[one.name])
        yield row


def _unpacked(field: pa.Field, value: Any) -> Any:
    kind = field.type
    if value is None or not holds_json(field):
        return value
    if class_of(field) == JSON:
        return json.loads(value)
    if pa.types.is_struct(kind):
        return {child.name: _unpacked(child, value[child.name]) for child in kind}
    if pa.types.is_map(kind):
        return {key: _unpacked(kind.item_field, one) for key, one in value}
    return [_unpacked(kind.value_field, one) for one in value]


def _whole(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def flattened(table: pa.Table) -> pa.Table:
    """Nested columns as `a.b` columns."""
    while any(pa.types.is_struct(one.type) for one in table.schema):
        table = table.flatten()
    return table


def to_pandas(table: pa.Table, *, flatten: bool) -> Any:
    pandas = need("pandas", "pandas")
    table = flattened(table) if flatten else table
    frame = table.to_pandas()
    for one in table.schema:
        if holds_json(one):
            values = [_unpacked(one, value) for value in table[one.name].to_pylist()]
            frame[one.name] = pandas.Series(values, index=frame.index, dtype=object)
    return frame


def to_polars(table: pa.Table) -> Any:
    return need("polars", "polars").from_arrow(table)


def to_hf(table: pa.Table) -> Any:
    datasets = need("datasets", "'memlake[hf]'")
    return datasets.Dataset(datasets.table.InMemoryTable(table.replace_schema_metadata(None)))


def need(module: str, package: str) -> Any:
    try:
        return __import__(module)
    except ImportError as error:
        raise InvalidInput(f"this needs {module}, which is not installed.", hint=f"pip install {package}") from error


def to_parquet(
    batches: Iterator[pa.RecordBatch], path: Any, partition_cols: Sequence[str], options: Mapping[str, Any]
) -> None:
    options = {"compression": "zstd", **options}
    if partition_cols:
        table = pa.Table.from_batches(batches)
        pq.write_to_dataset(table, storages.path_of(path), partition_cols=list(partition_cols), **options)
        return
    replacing = _Replacing(path)
    first = next(batches, None)
    with replacing as file:
        schema = first.schema if first is not None else pa.schema([])
        with pq.ParquetWriter(file, schema, **options) as writer:
            for batch in _after(first, batches):
                writer.write_batch(batch)


def to_csv(batches: Iterator[pa.RecordBatch], path: Any, delimiter: str, *, header: bool) -> None:
    replacing = _Replacing(path)
    first = next(batches, None)
    with replacing as file:
        if first is None:
            file.write_bytes(b"")
            return
        schema = flattened(pa.Table.from_batches([first])).schema
        writable = pa.schema([one if _is_plain(one.type) else one.with_type(pa.string()) for one in schema])
        options = pa_csv.WriteOptions(include_header=header, delimiter=delimiter)
        with pa_csv.CSVWriter(file, writable, write_options=options) as writer:
            for batch in _after(first, batches):
                # Columns CSV cannot hold, as JSON
                table = flattened(pa.Table.from_batches([batch]))
                columns = []
                for one in writable:
                    column = table[one.name]
                    if not _is_plain(column.type):
                        texts = [
                            None if value is None else json.dumps(value, default=jsonable)
                            for value in column.to_pylist()
                        ]
                        column = pa.array(texts, pa.string())
                    columns.append(column)
                writer.write_table(pa.table(columns, schema=writable))


def _is_plain(kind: pa.DataType) -> bool:
    return not pa.types.is_nested(kind) and not pa.types.is_binary(kind) and not pa.types.is_null(kind)


def to_json(batches: Iterator[pa.RecordBatch], path: Any, *, lines: bool) -> None:
    with _Replacing(path) as file, file.open("w", encoding="utf-8") as out:
        out.write("" if lines else "[")
        gap = ""
        for batch in batches:
            for row in _rows(batch):
                out.write(gap + json.dumps(row, ensure_ascii=False, default=jsonable) + ("\n" if lines else ""))
                gap = "" if lines else ",\n"
        out.write("" if lines else "]\n")


def jsonable(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.hex()
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


def _after(first: pa.RecordBatch | None, rest: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    if first is not None:
        yield first
    yield from rest


class _Replacing:
    """A file that is there whole or not at all. A folder that is not there is mostly misspelt: it is not made."""

    def __init__(self, path: Any) -> None:
        self.path = Path(storages.path_of(path))
        if not self.path.parent.is_dir():
            raise NotFound(
                f"{self.path}: there is no folder {self.path.parent}. Nothing was computed or written.",
                hint=f"Check the spelling, or make it: mkdir -p {self.path.parent}",
            )
        self.temporary = self.path.with_name(f".{self.path.name}.{os.getpid()}.tmp")

    def __enter__(self) -> Path:
        if self.path.is_dir():
            raise InvalidInput(f"{self.path} is a folder. Nothing was written.", hint="Give the file a name in it.")
        return self.temporary

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, *_: object) -> None:
        if kind is None:
            os.replace(self.temporary, self.path)
            return
        with contextlib.suppress(OSError):
            self.temporary.unlink()
        if isinstance(error, OSError):
            raise Unavailable(
                f"{self.path} could not be written: {os.strerror(error.errno) if error.errno else error}. "
                f"{'The old file is unchanged.' if self.path.exists() else 'No file was left.'}",
                hint="Free some space, or choose another place.",
            ) from error


_PLACEMENTS = ("fullpath", "filepath", "filename", "etag")


def to_storage(found: Sequence[File | None], output: Any, placement: str, threads: int, link_type: str) -> int:
    """Copy files to a folder or bucket."""
    if placement not in _PLACEMENTS:
        raise InvalidInput(f"placement is {placement!r}; it takes one of {', '.join(_PLACEMENTS)}.")
    copied = [one for one in found if one is not None]
    targets = [_target(one, placement) for one in copied]
    twice = {name for name in targets if targets.count(name) > 1} if len(set(targets)) < len(targets) else set()
    if twice:
        raise InvalidInput(f"two files would both become {min(twice)!r}.", hint="Use placement='fullpath'.")
    root = str(output).rstrip("/")

    def copy(pair: tuple[File, str]) -> None:
        one, name = pair
        local = root if "://" not in root else None
        if local is not None and link_type == "symlink" and one.source.startswith("file://"):
            place = Path(local, name)
            place.parent.mkdir(parents=True, exist_ok=True)
            place.unlink(missing_ok=True)
            place.symlink_to(one.get_fs_path())
            return
        with storages.open_file(one) as stream:
            storages.write_file(f"{root}/{name}", stream)

    with ThreadPoolExecutor(max(threads, 1)) as pool:
        list(pool.map(copy, zip(copied, targets, strict=True)))
    return len(copied)


def _target(one: File, placement: str) -> str:
    if placement == "filename":
        return one.name
    if placement == "etag":
        return f"{one.etag}{one.suffix}"
    host = one.source.partition("://")[2].strip("/")
    return f"{host}/{one.path}" if placement == "fullpath" and not one.source.startswith("file:") else one.path


def to_pytorch(chain: Chain, transform: Any, num_samples: int) -> Any:
    torch = need("torch", "torch")

    class Rows(torch.utils.data.IterableDataset):  # type: ignore[misc,name-defined]
        """The rows of a chain; each worker of a DataLoader gets its share."""

        def __iter__(self) -> Iterator[Any]:
            worker = torch.utils.data.get_worker_info()
            rows = chain.shuffle(0).limit(num_samples) if num_samples else chain
            rows = rows.chunk(worker.id, worker.num_workers) if worker else rows
            for row in rows.to_iter():
                yield transform(row) if transform else row

        def __len__(self) -> int:
            return min(num_samples, chain.count()) if num_samples else chain.count()

    return Rows()


# -- two chains compared ---------------------------------------------------------------------------


def difference(
    left: Plan, right: Plan, on: Any, right_on: Any, *, compare: Any, wanted: str, status_col: str | None
) -> Plan:
    """Rows of the left that the right lacks, lacks in this form, or has besides."""
    left, right, pairs, made = build.keyed(left, right, on, right_on, "diff")
    status_col = build.check_column(status_col) if status_col else None
    if status_col and status_col in left.schema.names:
        raise InvalidInput(
            f"the rows have a column {status_col!r} already, so diff has no name for its status. Nothing was run.",
            hint=f"Name another, diff(..., status_col={status_col + '_2'!r}), or leave it out: status_col=None",
        )
    keys = {a for a, _ in pairs}
    shared = [n for n in left.schema.names if n in right.schema.names and n not in keys]
    told = shared if compare is None else [build.path_of(one, "compare") for one in build.listed(compare, "compare")]
    for name in told:
        bind.check(C(name), left.schema)
        bind.check(C(name), right.schema)
    names = left.schema.names
    either = template(f"CASE WHEN a.{PLACE} IS NULL THEN {{}} ELSE {{}} END")
    columns = [
        named(either.fill(path([name], "b"), path([name], "a")), name)
        if name in right.schema.names
        else path([name], "a")
        for name in names
    ]
    status = compose(
        f"CASE WHEN b.{PLACE} IS NULL THEN 'A' WHEN a.{PLACE} IS NULL THEN 'D' WHEN {{}} THEN 'S' ELSE 'M' END",
        alike((name, name) for name in told) if told else template("true"),
    )
    mark = identifier(status_col or "memlake.status")
    form = compose(  # rows come in the order of the left, what it lacks last
        "SELECT * {0} FROM (SELECT {1}, {2} AS {3} FROM {4} AS a FULL JOIN {5} AS b ON {6} "
        f"ORDER BY a.{PLACE} NULLS LAST, b.{PLACE}) WHERE contains({{7}}, {{3}})",
        NOTHING if status_col else compose("EXCLUDE ({})", mark),
        several(columns),
        status,
        mark,
        nodes.numbered(hole(0)),
        nodes.numbered(hole(1)),
        alike(pairs),
        hole(2),
    )
    fields = [*left.schema, *([pa.field(status_col, pa.string())] if status_col else [])]
    read = frozenset((*names, *right.schema.names))
    return build.unkeyed(nodes.Shaped(pa.schema(fields), (left, right), "diff", form, (wanted,), read), made)
