"""Sources: where a chain begins. Each is a plan node that brings its rows only when the plan runs."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from duckdb import DuckDBPyRelation

from memlake.dataset import databases, feedback, storages
from memlake.dataset.context import DatasetContext
from memlake.dataset.memo import listings
from memlake.dataset.parts import column_hashes, parquet
from memlake.dataset.parts.arrow_types import is_told_as, plain, plain_type
from memlake.dataset.parts.frames import Frame
from memlake.dataset.parts.version_record import Version
from memlake.dataset.plan import table_files
from memlake.dataset.plan.nodes import Origin, Source
from memlake.dataset.read import delimited, headers
from memlake.dataset.read.duckdb_errors import named_errors
from memlake.dataset.types import arrow
from memlake.dataset.types.field_metadata import inner
from memlake.dataset.types.files import File
from memlake.errors import InvalidInput, NotFound
from memlake.identifiers import check_name
from memlake.rows import duckdb_connections
from memlake.rows.sql import Sql, compose, hole, join, span, template

_LONG = re.compile(rb'(?<![\d.eE"+])\d{16,}(?![\d.eE"])')


def from_version(context: DatasetContext, version: Version) -> Source:
    frame = context.frame(version)
    origin = Origin(
        "dataset", version.spec, {"name": version.name, "version": version.version, "content": version.content}
    )
    return Source(version.schema, (), origin, lambda: frame, None, lambda: version.content)


def from_table(table: pa.Table, origin: Origin) -> Source:
    """Rows that are in memory."""
    table = plain(headers.nest(table))
    frame = Frame(table.schema, tuple(parquet.fragments([table], table.schema)))
    return Source(table.schema, (), origin, lambda: frame, None, frame.content)


def from_listing(context: Callable[[], DatasetContext], asked: listings.Asked) -> Source:
    known: list[Frame] = []

    def frame() -> Frame:
        if not known:
            known.append(listings.list_storage(context(), asked))
        return known[0]

    origin = Origin("storage", ", ".join(asked.uris), {"uris": list(asked.uris), "type": asked.kind})
    schema = pa.schema([listings.field(asked)])
    return Source(schema, (), origin, frame, None, lambda: frame().content())


# -- files of rows ---------------------------------------------------------------------------------


def from_files(kind: table_files.Kind, paths: Sequence[str], options: Mapping[str, Any]) -> Source:
    """Files of rows, read in place by DuckDB: nothing is copied before it is saved."""

    feedback.report({"read": [os.path.abspath(path) for path in paths]})
    seen = _etags(paths)
    with named_errors():
        given = table_files.Files(kind, paths, options).look()
        for path in paths if kind == "parquet" else ():  # of what is given, the engine has numbered the fields
            headers.check_fields(pq.read_schema(path))
        told = _describe_numbered(kind, paths, options, given.columns)
        if kind == "json" and (exact := _keep_long_numbers(paths, options, given)) != options:
            if told:  # typed columns are found by their own names alone, and a numbered one would be empty
                raise InvalidInput(
                    f"{told} It cannot be read so beside fractions and whole numbers beyond 2**53. Nothing was read.",
                    hint="Rename one of them where they come from.",
                )
            return from_files(kind, paths, exact)
        if told:
            feedback.warn(told)
        chosen = headers.choose_columns(given)
        empty = given.to_arrow_table()
        found, is_exact = _columns(empty, chosen), table_files.is_exact(given, empty)
    schema = pa.schema([pa.field(one.name, plain_type(one.type)) for one in found])
    if kind == "parquet":
        with named_errors():
            schema = _read_footers(paths, schema)
        chosen = chosen or _read_spans(schema)
    wanted = chosen or template("*")
    origin = Origin(
        kind, ", ".join(paths[:3]) + (f" and {len(paths) - 3} more" if len(paths) > 3 else ""), {"paths": list(paths)}
    )
    stamped = {**options, "select": wanted.key()}  # what is remembered of a file holds for this way of reading it
    scan, files = compose("SELECT {} FROM {}", wanted, hole(0)), table_files.Files(kind, paths, options, is_exact)
    return Source(schema, (), origin, None, scan, lambda: _stamp(paths, stamped), seen, files)


def _describe_numbered(
    kind: table_files.Kind, paths: Sequence[str], options: Mapping[str, Any], columns: Sequence[str]
) -> str:
    """Which columns the engine calls otherwise than the first file does; "" where none is."""
    if "columns" in options or not headers.may_be_numbered(columns):
        return ""
    if kind == "csv":
        return headers.describe_numbered(delimited.header(paths[0], options), columns)
    names = pq.read_schema(paths[0]).names if kind == "parquet" else table_files.keys_of(paths, options["format"])
    return headers.describe_numbered(names, columns)


def _columns(rows: pa.Table, chosen: Sql | None) -> pa.Schema:
    """What is selected of rows, of which there are none."""
    if chosen is None:
        return rows.schema
    with duckdb_connections.lock:
        con = duckdb_connections.catalogue()
        con.register("looked_at", rows)
        asked = compose("SELECT {} FROM looked_at", chosen).render()
        return con.sql(asked.text, params=asked.values).to_arrow_table().schema


def _keep_long_numbers(paths: Sequence[str], options: Mapping[str, Any], found: DuckDBPyRelation) -> dict[str, Any]:
    """The options of JSON files, with the types of all columns where some have to be read as text.

    The engine makes floats of a column that has fractions, and drops the digits of whole numbers that no float can
    hold. Such a column is text. Looked for in the first 16 MiB, and only where there are floats at all.
    """
    types = {name: str(kind) for name, kind in zip(found.columns, found.types, strict=True)}
    floats = [name for name, kind in types.items() if kind == "DOUBLE"]
    if not floats or not any(_LONG.search(text) for _, text in delimited.heads(paths)):
        return dict(options)
    texts = dict.fromkeys(
        (name for name in floats if table_files.has_long_numbers(paths, options.get("format", "auto"), name)), "VARCHAR"
    )
    return {**options, "columns": types | texts} if texts else dict(options)


def _read_footers(paths: Sequence[str], found: pa.Schema) -> pa.Schema:
    """The columns the engine found in Parquet files, as all footers describe them where these say more.

    The engine reads the types of Parquet alone, which has none for a span of time, and no word for a dict in a text.
    Who wrote the file from Arrow left its schema in the footer, with both.
    """
    first = pq.read_schema(paths[0])
    if not any(map(_says_more, first)):  # as usual; then the others are not asked
        return found
    schemas = [first, *(pq.read_schema(path) for path in paths[1:])]
    fields = []
    for seen in found:
        same_name = [one.field(seen.name) for one in schemas if one.get_field_index(seen.name) >= 0]
        if same_name and _says_more(same_name[0]):
            kind = plain_type(same_name[0].type)
            agree = all(one.equals(same_name[0], check_metadata=True) for one in same_name)
            if agree and is_told_as(kind, seen.type):
                seen = same_name[0].with_type(kind).with_nullable(True)
        fields.append(seen)
    return pa.schema(fields)


def _says_more(field: pa.Field) -> bool:
    marked = any(key.startswith(b"memlake.") for key in field.metadata or ())
    return marked or pa.types.is_duration(field.type) or any(map(_says_more, inner(field.type)))


def _read_spans(columns: pa.Schema) -> Sql | None:
    """All columns with spans of time as the engine's own, which it can compare and add; None where there are none."""
    made = [span(one) for one in columns if pa.types.is_duration(one.type)]
    return compose("* REPLACE ({})", join(", ", made)) if made else None


def delimited_files(
    paths: Sequence[str], delimiter: str | None, *, header: bool, types: Mapping[str, str] | None
) -> Source:
    """Files of values with a delimiter, written as the first of them."""
    options = delimited.dialect(paths, delimiter, header=header)
    with delimited.naming_lines(paths, options["delim"]):
        return from_files("csv", paths, {**options, "types": dict(types) if types else None})


def _stamp(paths: Sequence[str], options: Mapping[str, Any]) -> str:
    """Changes whenever a file does."""
    etags = _etags(paths)
    return column_hashes.of("files", repr(sorted(options.items())), *((path, etags[path]) for path in paths))


def _etags(paths: Sequence[str]) -> dict[str, str]:
    try:
        return {path: storages.etag_of(os.stat(path)) for path in paths}
    except OSError as error:
        raise table_files.gone(error.filename) from error


def expand_paths(
    context: Callable[[], DatasetContext],
    given: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    suffixes: tuple[str, ...],
) -> list[str]:
    """Files a user means by a path, a folder, a pattern or a list of them; remote ones are fetched into the cache."""
    found: list[str] = []
    for one in [given] if isinstance(given, str | os.PathLike) else given:
        text = os.fspath(one)
        remote = "://" in text and not text.startswith("file:")
        found += _fetch(context(), text, suffixes) if remote else _expand(os.path.expanduser(text), suffixes)
    return found


def _fetch(context: DatasetContext, uri: str, suffixes: tuple[str, ...]) -> list[str]:
    """Remote files by etag: what did not change is fetched once."""
    listings.reach(context)
    storages.use(context.cache[0], limit=context.cache[1])
    named = [File(**row) for batch in storages.list_files(uri) for row in batch.to_pylist()]
    wanted = [one for one in named if len(named) == 1 or one.path.lower().endswith(suffixes)]
    if not wanted:
        raise NotFound(f"{uri!r}: no file that ends in {' or '.join(suffixes)}.")
    paths = []
    for one in wanted:
        one.ensure_cached()
        with storages.open_file(one) as stream:  # now under its lasting name
            paths.append(str(stream.name))
    return paths


def _expand(text: str, suffixes: tuple[str, ...]) -> list[str]:
    path = Path(storages.path_of(text))
    if path.is_dir():
        found = sorted(str(p) for p in path.rglob("*") if p.name.lower().endswith(suffixes) and p.is_file())
    elif storages.is_pattern(text):
        listed = (batch.to_pylist() for batch in storages.list_files(text))
        found = [storages.local_path(File(**row)) for rows in listed for row in rows]
    else:
        found = [str(path)] if path.is_file() else []
    if not found:
        raise NotFound(f"{text!r}: no such file.", hint="Name a file, a folder or a pattern like data/*.parquet")
    return [os.path.abspath(one) for one in found]


# -- what comes in ---------------------------------------------------------------------------------


def from_values(columns: Mapping[str, Iterable[Any]], output: Mapping[str, Any] | None = None) -> pa.Table:
    given = {name: _as_list(name, values) for name, values in columns.items()}
    lengths = {name: len(values) for name, values in given.items()}
    if len(set(lengths.values())) > 1:
        raise InvalidInput(f"the columns have different lengths: {', '.join(f'{n} {c}' for n, c in lengths.items())}.")
    try:
        fields = [_field(check_name(name), values, output) for name, values in given.items()]
        arrays = [arrow.encode(one, given[one.name]) for one in fields]
    except UnicodeEncodeError as error:
        raise InvalidInput(
            f"the text {error.object[:60]!r} holds half a character (a lone surrogate), which no column can hold. "
            "Nothing was read.",
            hint="Mend it first: text.encode('utf-8', 'replace').decode()",
        ) from error
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields))


def _as_list(name: str, values: Any) -> list[Any]:
    if isinstance(values, str | bytes | Mapping) or not isinstance(values, Iterable):
        raise InvalidInput(
            f"{name} is {values!r}, which is not a list of values. Nothing was read.", hint=f"Like: {name}=[...]"
        )
    return list(values)


def _field(name: str, values: list[Any], output: Mapping[str, Any] | None) -> pa.Field:
    if output and name in output:
        return arrow.field_of(name, output[name])
    found = arrow.infer_field(name, values, cure="Give values of one type, or make them text: str(value).")
    return pa.field(name, pa.null()) if pa.types.is_null(found.type) else found


def from_records(records: Iterable[Mapping[str, Any]], schema: Mapping[str, Any] | None = None) -> pa.Table:
    told = list(records)
    for row, one in enumerate(told):
        _check_record(row, one)
    told = [_fold_nested(row, one, schema) for row, one in enumerate(told)] if schema else told
    for name in schema or () if told else ():
        if not any(name in one for one in told):
            feedback.warn(f"no record has a value for {name!r}, which the schema names: the column is empty.")
    names = list(dict.fromkeys([*(schema or {}), *(name for one in told for name in one)]))
    return from_values({name: [one.get(name) for one in told] for name in names}, schema)


def _fold_nested(row: int, one: Mapping[str, Any], schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """`person__name` or `person.name` as the name in a `person`, where the schema has one."""
    made: dict[str, Any] = {}
    for name, value in one.items():
        first, *rest = name.replace(".", "__").split("__")
        if name in schema or not rest or first not in schema or not all(rest):
            made[name] = value
            continue
        if first in one:
            raise InvalidInput(
                f"record {row} has both {first!r} and {name!r}. Nothing was read.", hint="Give one of them."
            )
        at = made.setdefault(first, {})
        for piece in rest[:-1]:
            at = at.setdefault(piece, {})
        at[rest[-1]] = value
    return made


def _check_record(row: int, one: Any) -> None:
    odd = [name for name in one if not isinstance(name, str)] if isinstance(one, Mapping) else [one]
    if odd:
        what = (
            f"has a column named {odd[0]!r}, which is not text"
            if odd[0] is not one
            else f"is {one!r}, not a dictionary"
        )
        raise InvalidInput(f"record {row} {what}. Nothing was read.", hint='Like: [{"name": "Rex", "age": 3}]')


def from_arrow(given: Any) -> pa.Table:
    if isinstance(given, pa.Table):
        return given
    if isinstance(given, pa.RecordBatch):
        return pa.Table.from_batches([given])
    if isinstance(given, pa.RecordBatchReader):
        return given.read_all()
    if hasattr(given, "__arrow_c_stream__"):
        return pa.table(given)
    raise InvalidInput(f"{type(given).__name__} does not hold Arrow rows.", hint="Give a pyarrow.Table.")


def from_pandas(frame: Any) -> pa.Table:
    odd = [name for name in getattr(frame, "columns", ()) if not isinstance(name, str)]
    if odd or not hasattr(frame, "columns"):
        raise InvalidInput(
            f"the name of a column has to be text; {odd[0]!r} is not." if odd else "this is not a pandas DataFrame."
        )
    for name in frame.columns:
        check_name(name)
    keys = [name for name in frame.index.names if name is not None]  # an index without a name only counts the rows
    taken = [name for name in keys if name in frame.columns or not isinstance(name, str)]
    if taken:
        raise InvalidInput(
            f"the index {taken[0]!r} cannot be a column, because another has its name or it is not text. Nothing was "
            "read.",
            hint="Rename it first: frame.rename_axis('other')",
        )
    frame = frame.reset_index(level=keys) if keys else frame
    twice = frame.columns[frame.columns.duplicated()]
    if len(twice):
        raise InvalidInput(f"column {twice[0]!r} is there twice. Nothing was read.", hint="Rename one of them.")
    try:
        return pa.Table.from_pandas(frame, preserve_index=False).replace_schema_metadata(None)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
        raise InvalidInput(
            f"a column has values of several types, or of one no column can have: {'; '.join(map(str, error.args))}. "
            "Nothing was read.",
            hint="Make it one type first: frame['x'] = frame['x'].astype(str)",
        ) from error


def from_hf(dataset: Any, split: str | None, options: Mapping[str, Any]) -> pa.Table:
    if isinstance(dataset, str):
        try:
            import datasets as hf
        except ImportError as error:
            raise InvalidInput("reading by name needs datasets.", hint="pip install 'memlake[hf]'") from error
        dataset = hf.load_dataset(dataset, split=split or "train", **options)
    elif split is not None and hasattr(dataset, "keys"):
        dataset = dataset[split]
    if hasattr(dataset, "keys") and not hasattr(dataset, "data"):
        raise InvalidInput(f"this holds several splits: {', '.join(dataset)}.", hint="Choose one: split='train'")
    if hasattr(dataset, "with_format"):
        return pa.table(dataset.with_format("arrow")[:]).replace_schema_metadata(None)
    raise InvalidInput(f"{type(dataset).__name__} is not a Hugging Face dataset.")


def from_database(query: str, connection: Any, params: Any) -> pa.Table:
    """Rows of a query, or of the table a word names; columns that hold nothing but NULL stay without a type."""
    names, rows = databases.read(query, connection, params)
    return from_values({name: [row[i] for row in rows] for i, name in enumerate(names)})
