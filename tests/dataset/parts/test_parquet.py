"""How parts are written: what is compressed, whatever a column holds inside."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import memlake as ml

ROWS = 20_000
RANDOM = np.random.default_rng(0)
NOISE = RANDOM.random(ROWS)


def written(repo: ml.Repo, column: pa.Array) -> dict[str, str]:
    """Each column of the one part of a dataset, by its path, with its compression."""
    made = repo.datasets().read_arrow(pa.table({"x": column})).save("made")
    assert made.to_arrow().column("x").combine_chunks().equals(column)
    part = next(path for path in (repo.dir / "parts").rglob("*") if path.is_file())
    group = pq.read_metadata(part).row_group(0)
    columns = [group.column(index) for index in range(group.num_columns)]
    return {one.path_in_schema: one.compression for one in columns}


@pytest.mark.parametrize(
    ("column", "compression"),
    [
        (pa.array(NOISE), "UNCOMPRESSED"),
        (pa.array(RANDOM.integers(-(1 << 62), 1 << 62, ROWS)), "UNCOMPRESSED"),
        (pa.array(NOISE, mask=np.arange(ROWS) % 3 == 0), "UNCOMPRESSED"),
        (pa.array(np.arange(ROWS)), "ZSTD"),
        (pa.array(NOISE.round(2)), "ZSTD"),
        (pa.array(RANDOM.integers(0, 100, ROWS)), "ZSTD"),
        (pa.array([f"{value:.17f}" for value in NOISE]), "ZSTD"),
        (pa.array(NOISE > 0.5), "ZSTD"),
        (pa.array(NOISE[:1000]), "ZSTD"),
    ],
    ids=["noise", "whole", "nulls", "counted", "rounded", "repeating", "text", "booleans", "few"],
)
def test_only_numbers_that_would_hardly_shrink_are_not_compressed(
    repo: ml.Repo, column: pa.Array, compression: str
) -> None:
    assert written(repo, column) == {"x": compression}


def test_numbers_that_shrink_further_on_are_compressed(repo: ml.Repo) -> None:
    later = np.concatenate([NOISE[: ROWS // 2], np.zeros(ROWS // 2)])
    assert written(repo, pa.array(later)) == {"x": "ZSTD"}


def test_what_lies_inside_a_column_is_looked_at_by_itself(repo: ml.Repo) -> None:
    rows = [{"id": place, "at": [{"v": value}], "vec": [value, value**2]} for place, value in enumerate(NOISE)]
    kind = pa.struct(
        {"id": pa.int64(), "at": pa.list_(pa.struct({"v": pa.float64()})), "vec": pa.list_(pa.float64(), 2)}
    )
    found = written(repo, pa.array(rows, kind))
    assert found == {
        "x.id": "ZSTD",
        "x.at.list.element.v": "UNCOMPRESSED",
        "x.vec.list.element": "UNCOMPRESSED",
    }


def test_keys_and_values_of_maps_are_looked_at_by_themselves(repo: ml.Repo) -> None:
    column = pa.array([[("k", value)] for value in NOISE], pa.map_(pa.string(), pa.float64()))
    assert written(repo, column) == {"x.key_value.key": "ZSTD", "x.key_value.value": "UNCOMPRESSED"}
