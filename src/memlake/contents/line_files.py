"""Files whose records are lines: where each begins and ends, and the file with some of them replaced.

Records that nobody touches are copied as bytes, whole runs of them at once. Knows no key and no merge.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from memlake.named_tuple import NamedTuple

Numbers = npt.NDArray[np.int64]
_SAMPLE = 200  # records that show how a file is quoted


class LineFile:
    """Text in UTF-8 whose records end with a line break; in a quoted value a line break is part of the record."""

    def __init__(self, data: bytes, *, quoted: bool) -> None:
        self.data = data
        letters = np.frombuffer(data, np.uint8)
        breaks = np.flatnonzero(letters == ord("\n"))
        if quoted and b'"' in data:  # an odd number of quotes before it: it is inside of a value
            marks = np.flatnonzero(letters == ord('"'))
            breaks = breaks[np.searchsorted(marks, breaks) % 2 == 0]
        ends = breaks + 1
        if len(data) and (not len(ends) or ends[-1] < len(data)):
            ends = np.append(ends, len(data))
        starts = np.append(0, ends[:-1]) if len(ends) else ends
        stops = ends.copy()  # of the text, before its line break
        for mark in b"\n\r":
            stops -= (stops > starts) & (letters[np.maximum(stops - 1, 0)] == mark) if len(stops) else 0
        is_blank = stops == starts
        self.blanks = int(is_blank.sum())
        self.starts, self.stops = starts[~is_blank], stops[~is_blank]
        self.ends = np.append(self.starts[1:], len(data)) if len(self.starts) else self.starts  # blanks trail a record
        self.newline = "\r\n" if len(ends) and data[: int(ends[0])].endswith(b"\r\n") else "\n"

    def __len__(self) -> int:
        return len(self.starts)

    def text(self, number: int) -> str:
        return self.data[self.starts[number] : self.stops[number]].decode()

    def as_array(self) -> pa.Array:
        """The records as a column of bytes, without their line breaks."""
        gaps = self.starts[1:] - self.stops[:-1]
        if not len(gaps) or np.any(gaps != 1):  # blank lines, or a line break of two letters
            spans = zip(self.starts.tolist(), self.stops.tolist(), strict=True)
            return pa.array([self.data[a:b] for a, b in spans], pa.large_binary())
        letters = np.delete(np.frombuffer(self.data, np.uint8), self.stops[:-1])[int(self.starts[0]) :]
        offsets = np.append(self.starts, self.stops[-1] + 1) - self.starts[0] - np.arange(len(self) + 1)
        buffers = [None, pa.py_buffer(offsets.astype(np.int64)), pa.py_buffer(np.ascontiguousarray(letters))]
        return pa.Array.from_buffers(pa.large_binary(), len(self), buffers)


class Written(NamedTuple):
    """A record of the result: copied from a file by its number, or a text of its own."""

    source: npt.NDArray[np.int8]  # by record of the result: 0 ours, 1 theirs, 2 a text
    number: Numbers  # of the record, or of the text


def write_lines(ours: LineFile, theirs: LineFile, written: Written, texts: Sequence[str]) -> bytes:
    """The file of these records, ended as ours is ended."""
    out = [ours.data[: int(ours.starts[0])] if len(ours) else ours.data]
    newline = ours.newline.encode()
    jumps = np.flatnonzero((np.diff(written.source) != 0) | (np.diff(written.number) != 1)) + 1
    places: list[int] = [0, *jumps.tolist(), len(written.source)]
    for first, last in pairwise(places):
        if first == last:
            continue
        source, number, end = int(written.source[first]), int(written.number[first]), int(written.number[last - 1])
        if source == 2:
            pieces: list[bytes] = [texts[one].encode() + newline for one in range(number, end + 1)]
        else:
            file = (ours, theirs)[source]
            pieces = [file.data[file.starts[number] : file.ends[end]]]
        if out[-1] and not out[-1].endswith(b"\n"):
            out.append(newline)
        out += pieces
    data = b"".join(out)
    if ours.data and not ours.data.endswith(b"\n") and data.endswith(newline):
        data = data[: -len(newline)]
    elif (not ours.data or ours.data.endswith(b"\n")) and data and not data.endswith(b"\n"):
        data += newline
    return data


class Fields:
    """How a file writes the values of a record: its delimiter, and which columns it puts in quotes."""

    def __init__(self, file: LineFile, delimiter: str, width: int, header: int = 1) -> None:
        self.file, self.delimiter, self.width, self.header = file, delimiter, width, header
        self._field = re.compile(rf'"(?:[^"]|"")*"|[^{re.escape(delimiter)}]*')
        self._needs = re.compile(rf'[{re.escape(delimiter)}"\r\n]')

    @cached_property
    def quoted(self) -> tuple[bool, ...]:
        """Which columns stand in quotes although they need not, by the first records."""
        rows = [self.split(number) for number in range(self.header, min(len(self.file), _SAMPLE))]
        return tuple(bool(rows) and all(row[place].startswith('"') for row in rows) for place in range(self.width))

    def split(self, number: int) -> list[str]:
        """The fields of a record as they are written, quotes and all."""
        text = self.file.text(number).removeprefix("\ufeff" if number == 0 else "")
        if '"' not in text:
            fields = text.split(self.delimiter)
        else:
            fields, at = [], 0
            while True:
                found = self._field.match(text, at)
                end = found.end() if found else at
                if end < len(text) and text[end] != self.delimiter:
                    raise ValueError(f"record {number + 1} has a quote where none belongs")
                fields.append(text[at:end])
                if end == len(text):
                    break
                at = end + 1
        if len(fields) != self.width:
            raise ValueError(f"record {number + 1} has {len(fields)} values instead of {self.width}")
        return fields

    def write(self, value: str, *, quoted: bool) -> str:
        if quoted or self._needs.search(value) or (not value and self.width == 1):
            return '"' + '""'.join(value.split('"')) + '"'
        return value


def unquote(field: str) -> str:
    return field[1:-1].replace('""', '"') if field.startswith('"') else field
