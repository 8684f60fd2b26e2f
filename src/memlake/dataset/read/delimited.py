"""Files of values with a delimiter: how one is written, and which of its lines is not written so.

DuckDB's own guess makes every file fit, by another delimiter or by leaving out lines. Here the first line is the
header, a delimiter is believed only when every line of the sample agrees, and a line that does not fit is an error.
Lines may end in \\r\\n here and in \\n there, as in files that were joined.
"""

from __future__ import annotations

import contextlib
import csv
import gzip
import io
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, BinaryIO, TextIO

import duckdb
import numpy as np

from memlake.dataset.plan import table_files
from memlake.errors import InvalidInput

_DELIMITERS = (",", ";", "\t", "|")
_ADVICE = re.compile(
    r"\n+((Possible|Potential) (fixes|solutions?)|Try (setting|increasing)|It was not possible to automatically)\b.*",
    re.I | re.S,
)
_HEAD = 100  # lines that tell how a file is written
_SHOWN = 100  # characters of a line
_LONGEST = 2**31 - 1
_LOOKED = 16 << 20  # bytes that are searched for what the engine does not notice
_SAY = "say how the file is written: read_csv(..., delimiter=';') or header=False."
_MEND, _CLOSE = f"Mend that line, or {_SAY}", f"Close a quote that was left open, or {_SAY}"


def dialect(paths: Sequence[str], delimiter: str | None, *, header: bool) -> dict[str, Any]:
    """How files are written, as options of DuckDB's reader that leave it nothing to guess but types."""
    path, ends = paths[0], {one: _line_end(text) for one, text in heads(paths)}
    mixed = [one for one, end in ends.items() if end == "mixed"]
    known = {"header": header, "quote": '"', "escape": '"', "comment": "", "skip": _blank_lines(path)}
    known |= {"strict_mode": False} if mixed else {}
    if len(ends) == len(paths) and "quoted" in ends.values() and {*ends.values()} <= {"quoted", "\r\n"}:
        known["new_line"] = r"\r\n"  # DuckDB takes the first sign that may end a line, even in quotes in the header
    if delimiter is None:
        likely = ("\t",) if path.lower().endswith((".tsv", ".tsv.gz")) else _DELIMITERS
        delimiter = next((one for one in likely if len(_types(path, {**known, "delim": one})) > 1), likely[0])
    for one in paths if mixed else ():  # DuckDB, no longer strict, would drop what stands behind a quote
        _check_file(one, delimiter, strict=True)
    known["delim"] = delimiter
    return known | ({"allow_quoted_nulls": False} if _quotes_texts(path, known) else {})


def _line_end(text: bytes) -> str:
    """How the lines of a file end, as far as one looks: in \\n, in \\r\\n (`quoted` values holding \\n), or mixed."""
    returns, every = text.count(b"\r\n"), text.count(b"\n")
    if not 0 < returns < every:
        return "\r\n" if returns else "\n"
    signs = np.frombuffer(text, np.uint8)
    ends = np.flatnonzero((signs == ord("\n")) & (np.cumsum(signs == ord('"')) % 2 == 0))  # what is quoted ends no line
    returns = int(np.count_nonzero(signs[ends - 1] == ord("\r")))
    return "mixed" if 0 < returns < len(ends) else "quoted" if returns else "\n"


def _types(path: str, options: Mapping[str, Any]) -> list[str]:
    """What the columns of a file would be; none where it cannot be read so."""
    try:
        found = table_files.Files("csv", [path], options).look()
    except duckdb.Error:
        return []
    return [str(kind) for kind in found.types]


def _quotes_texts(path: str, options: Mapping[str, Any]) -> bool:
    """Whether quotes tell an empty text from nothing: not where a file has them around numbers as well."""
    usual = _types(path, options)
    if usual != _types(path, {**options, "allow_quoted_nulls": False}):
        return False
    return set(usual) <= {"VARCHAR"} or not _all_quoted(path, options["delim"])


def _all_quoted(path: str, delimiter: str) -> bool:
    value = r'"(?:[^"]|"")*"'
    line = re.compile(rf"{value}(?:{re.escape(delimiter)}{value})*\s*")
    with _open_text(path) as lines:
        return all(line.fullmatch(one) for one in itertools.islice(lines, 1, _HEAD))


def _blank_lines(path: str) -> int:
    """Lines before the first that says something."""
    with _open_text(path) as lines:
        return sum(1 for _ in itertools.takewhile(lambda line: not line.strip("\r\n\ufeff"), lines))


def header(path: str, options: Mapping[str, Any]) -> list[str]:
    """The names in the first line, as they are written."""
    with _open_text(path) as file, _long_values():
        lines = csv.reader(file, delimiter=options["delim"])
        names = next((row for row in lines if row), []) if options["header"] else []
    return [name.removeprefix("\ufeff") for name in names]


def _open_text(path: str) -> TextIO:
    return io.TextIOWrapper(_open_bytes(path), encoding="utf-8", errors="replace", newline="")


def heads(paths: Sequence[str]) -> Iterator[tuple[str, bytes]]:
    """The first 16 MiB of files, unpacked, as far into them as these go."""
    left = _LOOKED
    for path in paths:
        if left <= 0:
            return
        with _open_bytes(path) as file:
            text = file.read(left)
        left -= len(text)
        yield path, text


def _open_bytes(path: str) -> BinaryIO:
    if path.lower().endswith(".gz"):
        return gzip.open(path)  # type: ignore[return-value]
    return open(path, "rb")


@contextlib.contextmanager
def naming_lines(paths: Sequence[str], delimiter: str) -> Iterator[None]:
    """An error of DuckDB's sniffer, which names no line, as one that does where a line has too many or few values."""
    try:
        yield
    except InvalidInput as error:
        for path in paths if "sniffing" in error.message else ():
            _check_file(path, delimiter)
        raise


def _check_file(path: str, delimiter: str, *, strict: bool = False) -> None:
    with _open_text(path) as file, _long_values():
        lines = csv.reader(file, delimiter=delimiter, strict=strict)
        try:
            _check_values(path, delimiter, lines)
        except csv.Error as error:  # what Python cannot read, DuckDB has to explain, if it is asked
            if strict:
                raise InvalidInput(
                    f"{path}: line {lines.line_num} cannot be read: {error}. Nothing was read.", hint=_MEND
                ) from error


@contextlib.contextmanager
def _long_values() -> Iterator[None]:
    """Python's csv refuses values from 128 KiB on, unless told; DuckDB has its own limit."""
    usual = csv.field_size_limit(_LONGEST)
    try:
        yield
    finally:
        csv.field_size_limit(usual)


def _check_values(path: str, delimiter: str, lines: Any) -> None:
    first: list[str] = next((row for row in lines if row), [])
    for row in lines:
        if row and len(row) != len(first):
            text = delimiter.join(row)[:_SHOWN]
            raise InvalidInput(
                f"{path}: line {lines.line_num} has {len(row)} values where the first has {len(first)}, parted by "
                f"{delimiter!r}: {text!r}. Nothing was read.",
                hint=_MEND,
            )


def explain(text: str) -> tuple[str, str]:
    """What DuckDB says of a file, and what to do about it: it knows other options than there are here."""
    file = re.search(r"^  file = (.*)$", text, re.M)
    if file and "invalid state" in text and (odd := _find_odd_end(file[1])):
        return odd, "Give all lines the same end, like: sed -i 's/\\r$//' FILE"
    if twin := re.search(r'Duplicate name "+(.+?)"+ in struct', text):
        return (
            f"two fields of a struct differ only in case, {twin[1]!r} is one of them, and the engine cannot tell them "
            "apart. Nothing was read or changed.",
            "Rename one of them where they come from.",
        )
    said = _ADVICE.sub("", text).strip()
    message = f"{file[1]}: {said}" if file else said
    if "not utf-8 encoded" in said:
        return message, "Write it anew as UTF-8, like: iconv -f LATIN1 -t UTF-8 FILE > NEW"
    column = re.search(r'converting column "(.+?)"', said)
    if column:
        return message, f"Mend that line, or read the column as text: types={{{column[1]!r}: 'VARCHAR'}}."
    return message, _CLOSE if "sniffing" in said else _MEND if "CSV" in said else ""


def _find_odd_end(path: str) -> str:
    """The first line that ends otherwise than those before it, far behind what was looked at."""
    first, inside = "", False
    with _open_text(path) as file:
        for number, line in enumerate(file, 1):
            inside ^= line.count('"') % 2 == 1
            end = line[len(line.rstrip("\r\n")) :]
            if not inside and end and end != (first := first or end):
                return f"{path}: line {number} ends in {end!r}, those before it in {first!r}."
    return ""
