"""Files of rows as tables: CSV, TSV, JSON lines and Parquet, each with columns that are read when they are needed."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.json as pa_json
import pyarrow.parquet as pq

from memlake.contents.content import Content, Unreadable
from memlake.named_tuple import NamedTuple
from memlake.rows.compare import Piece, Side

_DELIMITERS = ",;\t|"
_VALUE = re.compile(r"[+-]?(\d+([.,]\d*)?|\.\d+)([eE][+-]?\d+)?|nan|\d{4}-\d\d-\d\d([ T].*)?", re.IGNORECASE)
_MARK = b"\xef\xbb\xbf"
_HEAD = 1 << 16
_BEYOND_ASCII = re.compile(rb"[\x80-\xff]+")
_BLOCK = 1 << 20
_LONGEST = 1 << 30  # bytes of a block, that is of a line


@contextlib.contextmanager
def open_table(content: Content) -> Iterator[Side]:
    """A file as a table whose columns are read when they are needed."""
    with reading(content):
        yield _OPENERS[find_format(content)](content)


@contextlib.contextmanager
def reading(content: Content) -> Iterator[None]:
    """Whatever a library says of a file that is not what its name says becomes Unreadable."""
    try:
        yield
    except (pa.ArrowException, csv.Error, UnicodeError, ValueError, RecursionError) as error:
        raise Unreadable(f"{content.path} cannot be read as a table: {_first_line(error)}") from error


def find_format(content: Content) -> str:
    if content.suffix in ("parquet", "pq") or content.read_head(4) == b"PAR1":
        return "parquet"
    return {"csv": "csv", "tsv": "tsv", "tab": "tsv"}.get(content.suffix, "jsonl")


def _first_line(error: Exception) -> str:
    text = str(error).strip().splitlines()
    return text[0] if text else type(error).__name__


# -- Parquet ------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Chunk:
    """The bytes of a column in one row group. Equal to one of the same type if the bytes are, read if need be."""

    type: pa.DataType  # the same bytes are other values in another type
    content: Content
    spans: tuple[tuple[int, int], ...]  # (start, length) of each of its leaves

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _Chunk) or not self.type.equals(other.type):
            return False
        if [span[1] for span in self.spans] != [span[1] for span in other.spans]:
            return False
        return all(
            self.content.has_same_range(mine[0], other.content, theirs[0], mine[1])
            for mine, theirs in zip(self.spans, other.spans, strict=True)
        )

    def __hash__(self) -> int:
        return hash(tuple(length for _, length in self.spans))


def _open_parquet(content: Content) -> Side:
    # Stored bytes are read by Python, which Arrow's own threads must not call (they have ended a process that way).
    file = pq.ParquetFile(content.open(), buffer_size=_BLOCK, pre_buffer=False)
    schema, leaves = file.schema_arrow, _list_leaves(file)

    def make_piece(number: int) -> Piece:
        group = file.metadata.row_group(number)

        def identify(name: str) -> _Chunk | None:
            columns = [group.column(place) for place in leaves[name]]
            if not columns:
                return None
            starts = [min(filter(None, (one.dictionary_page_offset, one.data_page_offset))) for one in columns]
            return _Chunk(
                schema.field(name).type,
                content,
                tuple(zip(starts, (one.total_compressed_size for one in columns), strict=True)),
            )

        def read(names: Sequence[str]) -> pa.Table:
            return file.read_row_group(number, columns=list(names), use_threads=False)

        return Piece(group.num_rows, identify, read)

    return Side(schema, tuple(make_piece(number) for number in range(file.metadata.num_row_groups)))


def _list_leaves(file: pq.ParquetFile) -> dict[str, list[int]]:
    """The numbers of the stored columns that make up each column: a struct has one for each field."""
    leaves: dict[str, list[int]] = {name: [] for name in file.schema_arrow.names}
    for place in range(len(file.schema)):
        name = file.schema.column(place).path
        while name not in leaves and "." in name:  # the longest: a column may be called `a.b` beside a struct `a`
            name = name.rpartition(".")[0]
        if name in leaves:
            leaves[name].append(place)
    return leaves


# -- CSV ----------------------------------------------------------------------------------------


class CsvText(NamedTuple):
    """A file of delimited values: how it is written, and what it holds. The data are UTF-8, whatever the file is."""

    data: bytes
    encoding: str
    mark: bytes  # what stands before the text in a file of that encoding
    delimiter: str
    table: pa.Table
    header: int = 1  # lines before the first row: none if the first line is a row itself


def read_csv(content: Content) -> CsvText:
    encoding, head = _find_encoding(content)
    delimiter = "\t" if content.suffix in ("tsv", "tab") else _find_delimiter(head)
    rows = list(islice((row for row in csv.reader(io.StringIO(head, newline=""), delimiter=delimiter) if row), 20))
    first = [name.removeprefix("\ufeff") for name in rows[0]] if rows else []
    header = 0 if _is_row(first, rows[1:]) else 1
    names = _unique_names(first) if header else [f"column{number}" for number in range(1, len(first) + 1)]
    data, mark = content.read(), b""
    if encoding.startswith("utf-16"):
        mark, data = data[:2], data[2:]
    if encoding != "utf-8":
        data = data.decode(encoding).encode()
    if not names:
        return CsvText(data, encoding, mark, delimiter, pa.table({}))
    table = pa_csv.read_csv(
        pa.BufferReader(data),
        pa_csv.ReadOptions(column_names=names, skip_rows=0, block_size=4 * _BLOCK),
        pa_csv.ParseOptions(delimiter=delimiter, newlines_in_values=b'"' in data),
        pa_csv.ConvertOptions(
            column_types={name: pa.string() for name in names},
            strings_can_be_null=False,
            null_values=[],
            check_utf8=True,
        ),
    )
    if not header and data.startswith(_MARK):  # which the reader takes for a part of the first value
        column = table.column(0)
        rest = pa.array([str(column[0]).removeprefix("\ufeff")], pa.string())
        table = table.set_column(0, names[0], pa.chunked_array([rest, *column.slice(1).chunks]))
    return CsvText(data, encoding, mark, delimiter, table.slice(header), header)


def _open_csv(content: Content) -> Side:
    return whole_side(read_csv(content).table)


def _find_encoding(content: Content) -> tuple[str, str]:
    """How the text is written, and its beginning."""
    head = content.read(_HEAD)
    for mark, encoding in ((b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be")):
        if head.startswith(mark):
            return encoding, head[2 : len(head) // 2 * 2].decode(encoding, errors="ignore")
    try:
        return "utf-8", head.decode("utf-8")
    except UnicodeDecodeError as error:
        if error.start >= len(head) - 3 and len(head) == _HEAD:  # cut inside a character
            return "utf-8", head[: error.start].decode("utf-8")
        if _holds_utf8(head):
            at = head.count(b"\n", 0, error.start) + 1
            raise ValueError(f"it is written in two encodings: line {at} is not UTF-8, and others are") from error
        return "latin-1", head.decode("latin-1")


def _holds_utf8(head: bytes) -> bool:
    """Whether letters beyond ASCII stand there in UTF-8, in a text that is not UTF-8 as a whole."""
    for run in _BEYOND_ASCII.findall(head):
        try:
            run.decode("utf-8")
            return True
        except UnicodeDecodeError:
            continue
    return False


def _find_delimiter(head: str) -> str:
    """The delimiter that splits the first rows into the same number of values, which is more than one."""
    for sign in _DELIMITERS:
        rows = list(islice(csv.reader(io.StringIO(head, newline=""), delimiter=sign), 20))
        whole = rows[:-1] if len(head) >= _HEAD // 4 and len(rows) > 1 else rows  # the last may be cut
        widths = {len(row) for row in whole if row}
        if len(widths) == 1 and widths.pop() > 1:
            return sign
    return ","


def _is_row(first: Sequence[str], rows: Sequence[Sequence[str]]) -> bool:
    """Whether the first line is a row and not the names of the columns.

    It begins with a number or a date, which no name does, and has one in every column that has nothing else below.
    """
    if not first or not _VALUE.fullmatch(first[0].strip()):
        return False
    for place, cell in enumerate(first):
        below = [row[place] for row in rows if len(row) > place and row[place].strip()]
        if below and all(map(_VALUE.fullmatch, below)) and cell.strip() and not _VALUE.fullmatch(cell.strip()):
            return False
    return True


def _unique_names(names: Sequence[str]) -> list[str]:
    """Names as they are, but numbered where one occurs again."""
    unique: dict[str, None] = {}
    for name in names:
        number, free = 1, name
        while free in unique:
            number += 1
            free = f"{name}.{number}"
        unique[free] = None
    return list(unique)


# -- JSON lines ---------------------------------------------------------------------------------


def _open_jsonl(content: Content) -> Side:
    if not content.size:
        return Side(pa.schema([]), ())
    data = content.read()
    try:
        options = pa_json.ReadOptions(block_size=min(max(content.size, _BLOCK), _LONGEST))
        return whole_side(pa_json.read_json(pa.BufferReader(data), options))
    except pa.ArrowInvalid:
        return whole_side(_read_mixed(data))


def _read_mixed(data: bytes) -> pa.Table:
    """Lines of which some fields hold values of several types: those as their JSON, the others as they are."""
    rows = []
    for number, line in enumerate(data.decode("utf-8").split("\n"), 1):
        if not line.strip():
            continue
        row = json.loads(line)
        if not isinstance(row, dict):
            raise ValueError(f"line {number} is not an object")
        rows.append(row)
    columns = {}
    for name in dict.fromkeys(name for row in rows for name in row):
        values = [row.get(name) for row in rows]
        try:
            columns[name] = pa.array(values)
        except (pa.ArrowInvalid, pa.ArrowTypeError):
            texts = [
                None if value is None else json.dumps(value, sort_keys=True, ensure_ascii=False) for value in values
            ]
            columns[name] = pa.array(texts, pa.string())
    return pa.table(columns)


def whole_side(table: pa.Table) -> Side:
    """A table that is in memory, as one piece."""
    return Side(table.schema, (Piece(table.num_rows, lambda _: None, table.select),) if table.num_rows else ())


_OPENERS: dict[str, Callable[[Content], Side]] = {
    "parquet": _open_parquet,
    "csv": _open_csv,
    "tsv": _open_csv,
    "jsonl": _open_jsonl,
}
