"""What the dataset rows work on, made once from a fixed seed: rows, vectors and files, for us and for a peer."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

SIZE = 384
_A_FOLDER = 1000  # files


def rows(folder: Path, count: int) -> Path:
    """Five columns as people have them: a number, a category, a score, a size, a name."""
    file = folder / f"rows-{count}.parquet"
    if not file.exists():
        write(table(count), file)
    return file


def table(count: int, seed: int = 0) -> pa.Table:
    random = np.random.default_rng(seed)
    start = seed * 10_000_000
    category = np.array([f"c{i}" for i in range(100)])[random.integers(0, 100, count)]
    names = [f"row-{i:08d}" for i in range(start, start + count)]
    columns = {"id": np.arange(start, start + count), "cat": category, "score": random.random(count),
               "size": random.integers(0, 1 << 20, count), "name": names}  # fmt: skip
    return pa.table(columns)


def write(made: pa.Table, file: Path) -> int:
    """Plain Parquet, as one would write it by hand; its bytes."""
    pq.write_table(made, file, compression="zstd")
    return file.stat().st_size


def vectors(folder: Path, count: int) -> Path:
    """Random vectors as a matrix, and beside it as Parquet."""
    file = folder / f"vectors-{count}.npy"
    if not file.exists():
        made = np.random.default_rng(0).standard_normal((count, SIZE), dtype=np.float32)
        column = pa.FixedSizeListArray.from_arrays(pa.array(made.ravel()), SIZE)
        pq.write_table(pa.table({"id": np.arange(count), "emb": column}), file.with_suffix(".parquet"))
        np.save(file, made)
    return file


def query(matrix: np.ndarray) -> list[float]:
    return [float(one) for one in matrix[17] + 0.1]


def files(folder: Path, count: int) -> Path:
    """Small text files, a thousand a folder."""
    top = folder / f"files-{count}"
    if not top.exists():
        for number in range(count):
            if number % _A_FOLDER == 0:
                (top / f"d{number // _A_FOLDER:04d}").mkdir(parents=True)
            text(top, number).write_text("x" * (number % 200))
    return top


def text(top: Path, number: int) -> Path:
    return top / f"d{number // _A_FOLDER:04d}" / f"f{number:07d}.txt"
