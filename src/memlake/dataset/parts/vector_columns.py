"""Columns of vectors, kept ready beside the repo: distances at the speed of memory, and rows without decoding others.

A matrix is derived from a part and named by it; deleting the folder loses nothing. Columns with nulls or vectors of
different lengths have none: their distances are left to SQL.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from memlake import nofollow
from memlake.dataset.parts import column_hashes
from memlake.dataset.parts.frames import Family
from memlake.dataset.parts.parquet import Parts

Array = np.ndarray[Any, Any]
_SMALL = 1 << 20  # bytes: below, a matrix is made again rather than kept


class Vectors:
    def __init__(self, folder: Path, parts: Parts) -> None:
        self._folder, self._parts = folder, parts

    def matrix(self, family: Family, column: str) -> Array | None:
        """The vectors of a column as rows of a matrix."""
        if family.oid is None:
            return _stack_rows(self._parts.table(family, [column]).column(0))
        name = hashlib.sha256(column.encode()).hexdigest()[:8]
        return self._read_or_make(self._folder / f"{family.oid}-{name}.npy", family, column)

    def at(self, family: Family, column: str, rows: Array) -> pa.Array | None:
        """Vectors of some rows, when the column's matrix is kept."""
        name = hashlib.sha256(column.encode()).hexdigest()[:8]
        place = self._folder / f"{family.oid}-{name}.npy"
        if family.oid is None or not place.exists():
            return None
        matrix = self._read_or_make(place, family, column)
        if matrix is None:
            return None
        picked = np.ascontiguousarray(matrix[rows])
        return pa.FixedSizeListArray.from_arrays(pa.array(picked.reshape(-1)), matrix.shape[1])

    def _read_or_make(self, place: Path, family: Family, column: str) -> Array | None:
        with contextlib.suppress(OSError, ValueError):  # not made yet, or cut short
            return np.asarray(_map_file(str(place), place.stat().st_mtime_ns))
        matrix = _stack_rows(self._parts.table(family, [column]).column(0))
        if matrix is not None and matrix.nbytes >= _SMALL:
            with contextlib.suppress(OSError):  # a full disk costs only the next time
                nofollow.make_folder(place.parent)
                temporary = place.with_name(f"{place.name}.{os.getpid()}.tmp")
                try:
                    with os.fdopen(nofollow.open_file(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), "wb") as out:
                        np.save(out, matrix, allow_pickle=False)
                    os.replace(temporary, place)
                finally:
                    temporary.unlink(missing_ok=True)
        return matrix


@functools.lru_cache(maxsize=256)
def _map_file(place: str, _: int) -> Array:
    return np.load(place, mmap_mode="r", allow_pickle=False)  # type: ignore[no-any-return]


def _stack_rows(column: pa.ChunkedArray) -> Array | None:
    array = column_hashes.whole(column)
    kind = array.type
    if array.null_count or not len(array) or not is_vector(kind):
        return None
    items = array.flatten()
    if items.null_count:
        return None
    width, rest = divmod(len(items), len(array))
    if pa.types.is_list(kind):
        lengths = np.diff(np.frombuffer(array.buffers()[1], np.int32, len(array) + 1, array.offset * 4))
        if rest or not width or (lengths != width).any():
            return None
    return np.asarray(items.to_numpy()).reshape(len(array), width)


def is_vector(kind: pa.DataType) -> bool:
    lists = pa.types.is_list(kind) or pa.types.is_fixed_size_list(kind)
    return bool(lists and pa.types.is_floating(kind.value_type))


_ROWS = 4096  # taken at a time, so that what is between stays in the processor's cache


def _lengths(rows: Array) -> Array:
    return np.asarray(np.sqrt(np.einsum("ij,ij->i", rows, rows)), np.float64)


def distances(kind: str, matrix: Array, query: Array) -> Array:
    """From each row to the query, as `func` defines them."""
    wanted = query.astype(matrix.dtype)
    if kind == "inner":
        return np.asarray(matrix @ wanted, np.float64)
    if kind == "euclidean":
        return np.concatenate([_lengths(matrix[i : i + _ROWS] - wanted) for i in range(0, len(matrix), _ROWS)])
    squares = np.einsum("ij,ij->i", matrix, matrix)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(1 - matrix @ wanted / np.sqrt(squares * (wanted @ wanted)), np.float64)
