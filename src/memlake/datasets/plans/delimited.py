"""Files of values with a delimiter: how one is written, and which of its lines is not written so.

DuckDB's own guess makes every file fit, by another delimiter or by leaving out lines. Here the first line is the
header, a delimiter is believed only when every line of the sample agrees, and a line that does not fit is an error.
"""

from __future__ import annotations

import contextlib
import csv
import gzip
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TextIO

import duckdb

from memlake.datasets.expressions.catalogue import connection
from memlake.errors import InvalidInput

_DELIMITERS = (",", ";", "\t", "|")
_ADVICE = re.compile(r"\n+(Possible|Potential) (fixes|solutions?)\b.*|\n+Try (setting|increasing)\b.*", re.I | re.S)
_SHOWN = 100  # characters of a line
_MEND = "Mend that line, or say how the file is written: read_csv(..., delimiter=';') or header=False."


def dialect(path: str, delimiter: str | None, *, header: bool) -> dict[str, Any]:
    """How a file is written, as options of DuckDB's reader that leave it nothing to guess but types."""
    known = {"header": header, "quote": '"', "escape": '"', "comment": "", "skip": _blank_lines(path)}
    if delimiter is None:
        likely = ("\t",) if path.lower().endswith((".tsv", ".tsv.gz")) else _DELIMITERS
        delimiter = next((one for one in likely if _divides(path, {**known, "delim": one})), likely[0])
    return {**known, "delim": delimiter}


def _divides(path: str, options: Mapping[str, Any]) -> bool:
    """Whether a delimiter makes columns of a file, as many in each line."""
    told = "".join(f", {name}=${at}" for at, name in enumerate(options, 2))
    try:
        found = connection().cursor().sql(f"FROM read_csv($1{told}) LIMIT 0", params=[path, *options.values()])
    except duckdb.Error:
        return False
    return len(found.columns) > 1


def _blank_lines(path: str) -> int:
    """Lines before the first that says something."""
    with _opened(path) as lines:
        return sum(1 for _ in itertools.takewhile(lambda line: not line.strip("\r\n\ufeff"), lines))


def _opened(path: str) -> TextIO:
    if path.lower().endswith(".gz"):
        return gzip.open(path, "rt", encoding="utf-8", errors="replace", newline="")
    return open(path, encoding="utf-8", errors="replace", newline="")


@contextlib.contextmanager
def naming_lines(paths: Sequence[str], delimiter: str) -> Iterator[None]:
    """An error of DuckDB's sniffer, which names no line, as one that does where a line has too many or few values."""
    try:
        yield
    except InvalidInput as error:
        for path in paths if "sniffing" in error.message else ():
            _check(path, delimiter)
        raise


def _check(path: str, delimiter: str) -> None:
    with _opened(path) as file, contextlib.suppress(csv.Error):  # what Python cannot read, DuckDB has to explain
        lines = csv.reader(file, delimiter=delimiter)
        first = next((row for row in lines if row), [])
        for row in lines:
            if row and len(row) != len(first):
                text = delimiter.join(row)[:_SHOWN]
                raise InvalidInput(
                    f"{path}: line {lines.line_num} has {len(row)} values where the first has {len(first)}, parted by "
                    f"{delimiter!r}: {text!r}. Nothing was read.",
                    hint=_MEND,
                )


def told(text: str) -> tuple[str, str]:
    """What DuckDB says of a file, and what to do about it: it knows other options than there are here."""
    file = re.search(r"^  file = (.*)$", text, re.M)
    said = _ADVICE.sub("", text).strip()
    message = f"{file[1]}: {said}" if file else said
    column = re.search(r'converting column "(.+?)"', said)
    if column:
        return message, f"Mend that line, or read the column as text: types={{{column[1]!r}: 'VARCHAR'}}."
    return message, _MEND if "CSV" in said else ""
