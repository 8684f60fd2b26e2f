"""Rows handed to other tools, and a version as plain files that need no memlake.

What a tool needs is imported where it is used. Files are written batch by batch: a version may be larger than memory.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from memlake.dataset import storages
from memlake.dataset.parts import column_hashes, parquet
from memlake.dataset.parts.version_record import Version
from memlake.dataset.types import arrow
from memlake.dataset.types.field_metadata import JSON, class_of, holds_json
from memlake.errors import AlreadyExists, InvalidInput, NotFound, Unavailable
from memlake.named_tuple import NamedTuple

if TYPE_CHECKING:
    from memlake.dataset.chain import Chain
    from memlake.dataset.types.files import File

FORMATS = ("parquet", "csv", "jsonl")
_PLACEMENTS = ("fullpath", "filepath", "filename", "etag")


# -- rows as Python values and as tables of other libraries ----------------------------------------


def tuples(table: pa.Table) -> Iterator[tuple[Any, ...]]:
    """Rows as Python values, models and files as what they are."""
    columns = [arrow.decode(one, column_hashes.whole(table[one.name])) for one in table.schema]
    return zip(*columns, strict=True) if columns else iter(())


def plain_rows(table: pa.Table) -> list[dict[str, Any]]:
    """Rows as dictionaries of plain JSON values."""
    rows: list[dict[str, Any]] = json.loads(json.dumps(list(_rows(table)), default=jsonable))
    return rows


def _rows(table: pa.Table | pa.RecordBatch) -> Iterator[dict[str, Any]]:
    """Rows as dictionaries, in which a dict that is kept as text is a dict."""
    packed = [one for one in table.schema if holds_json(one)]
    for row in table.to_pylist():
        for one in packed:
            row[one.name] = _unpack_json(one, row[one.name])
        yield row


def _unpack_json(field: pa.Field, value: Any) -> Any:
    kind = field.type
    if value is None or not holds_json(field):
        return value
    if class_of(field) == JSON:
        return json.loads(value)
    if pa.types.is_struct(kind):
        return {child.name: _unpack_json(child, value[child.name]) for child in kind}
    if pa.types.is_map(kind):
        return {key: _unpack_json(kind.item_field, one) for key, one in value}
    return [_unpack_json(kind.value_field, one) for one in value]


def flatten_nested(table: pa.Table) -> pa.Table:
    """Nested columns as `a.b` columns."""
    while any(pa.types.is_struct(one.type) for one in table.schema):
        table = table.flatten()
    return table


def to_pandas(table: pa.Table, *, flatten: bool) -> Any:
    pandas = import_tool("pandas", "pandas")
    table = flatten_nested(table) if flatten else table
    frame = table.to_pandas()
    for one in table.schema:
        if holds_json(one):
            values = [_unpack_json(one, value) for value in table[one.name].to_pylist()]
            frame[one.name] = pandas.Series(values, index=frame.index, dtype=object)
    return frame


def to_polars(table: pa.Table) -> Any:
    return import_tool("polars", "polars").from_arrow(table)


def to_hf(table: pa.Table) -> Any:
    datasets = import_tool("datasets", "'memlake[hf]'")
    return datasets.Dataset(datasets.table.InMemoryTable(table.replace_schema_metadata(None)))


def import_tool(module: str, package: str) -> Any:
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
    target = _Replacing(path)
    first = next(batches, None)
    with target as file:
        schema = first.schema if first is not None else pa.schema([])
        with pq.ParquetWriter(file, schema, **options) as writer:
            for batch in itertools.chain([first] if first is not None else [], batches):
                writer.write_batch(batch)


def to_csv(batches: Iterator[pa.RecordBatch], path: Any, delimiter: str, *, header: bool) -> None:
    target = _Replacing(path)
    first = next(batches, None)
    with target as file:
        if first is None:
            file.write_bytes(b"")
            return
        schema = flatten_nested(pa.Table.from_batches([first])).schema
        writable = pa.schema([one if _is_plain(one.type) else one.with_type(pa.string()) for one in schema])
        options = pa_csv.WriteOptions(include_header=header, delimiter=delimiter)
        with pa_csv.CSVWriter(file, writable, write_options=options) as writer:
            for batch in itertools.chain([first], batches):
                # Columns CSV cannot hold, as JSON
                table = flatten_nested(pa.Table.from_batches([batch]))
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


def to_storage(files: Sequence[File | None], output: Any, placement: str, threads: int, link_type: str) -> int:
    """Copy files to a folder or bucket."""
    if placement not in _PLACEMENTS:
        raise InvalidInput(f"placement is {placement!r}; it takes one of {', '.join(_PLACEMENTS)}.")
    copied = [one for one in files if one is not None]
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
    torch = import_tool("torch", "torch")

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


# -- a version as plain files ----------------------------------------------------------------------


class Exported(NamedTuple):
    version: str
    rows: int
    bytes: int
    files: tuple[str, ...]


def export(
    version: Version, batches: Iterator[pa.RecordBatch], target: Path, *, form: str | None, force: bool
) -> Exported:
    """Write to one file when the target is called like one (`pets.parquet`), else to a folder of files of 256k rows."""
    suffix = target.suffix.removeprefix(".").lower()
    kind = form or (suffix if suffix in FORMATS else "parquet")
    if kind not in FORMATS:
        raise InvalidInput(f"{kind!r} is not a format. Nothing was written.", hint=f"Formats are {', '.join(FORMATS)}.")
    if form is None and suffix.isalpha() and suffix not in FORMATS and not target.is_dir():
        raise InvalidInput(
            f"{target} looks like a file of a format that export does not know. Nothing was written.",
            hint=f"Formats are {', '.join(FORMATS)}; for a folder of that name, give the format too.",
        )
    if re.match(r"[a-z]\w+:/", str(target)):
        raise InvalidInput(
            f"{target} is not a folder on this machine. Nothing was written.", hint="Export to a folder, then copy it."
        )
    pieces = _pieces(version, batches)
    if suffix in FORMATS:
        if target.is_dir():
            raise InvalidInput(
                f"{target} is a folder. Nothing was written.", hint="Name a file in it, or another folder."
            )
        if target.exists() and not force:
            raise AlreadyExists(f"{target} is there already. Nothing was written.", hint="Say -f to replace it.")
        _write(kind, (batch for piece in pieces for batch in piece), target)
        files = [target]
    else:
        if target.is_file():
            raise AlreadyExists(
                f"{target} is a file. Nothing was written.", hint=f"Name a folder, or {target}.parquet."
            )
        present = sorted(os.listdir(target)) if target.exists() else []
        strange = [name for name in present if not name.startswith("part-") or name.rpartition(".")[2] not in FORMATS]
        if strange:
            raise AlreadyExists(
                f"{target} holds {strange[0]}, which no export wrote. Nothing was written.", hint="Name another folder."
            )
        if present and not force:
            raise AlreadyExists(f"{target} holds an export already. Nothing was written.", hint="Say -f to replace it.")
        files = _fill(kind, pieces, target)
    return Exported(version.spec, version.rows, sum(one.stat().st_size for one in files), tuple(map(str, files)))


def _pieces(version: Version, batches: Iterator[pa.RecordBatch]) -> Iterator[list[pa.RecordBatch]]:
    """Rows of at most a fragment; one piece without rows says at least what the columns are."""
    tables = parquet.cut_fragments(batches, version.schema)
    first = next(tables, None)
    if first is None:
        yield [pa.RecordBatch.from_pylist([], schema=version.schema)]
        return
    for table in itertools.chain([first], tables):
        yield table.to_batches()


def _write(kind: str, batches: Iterator[pa.RecordBatch], file: Path) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    if kind == "parquet":
        to_parquet(batches, file, (), {})
    elif kind == "csv":
        to_csv(batches, file, ",", header=True)
    else:
        to_json(batches, file, lines=True)


def _fill(kind: str, pieces: Iterator[list[pa.RecordBatch]], folder: Path) -> list[Path]:
    """The folder is there whole or as it was."""
    temporary = folder.with_name(f".{folder.name}.{os.getpid()}.tmp")
    names = []
    try:
        for number, piece in enumerate(pieces):
            names.append(f"part-{number:05}.{kind}")
            _write(kind, iter(piece), temporary / names[-1])
        if folder.exists():
            shutil.rmtree(folder)
        temporary.rename(folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return [folder / name for name in names]
