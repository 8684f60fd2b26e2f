"""Two versions side by side: rows as those of table files, and how far the vectors of a column moved."""

from __future__ import annotations

from datetime import date, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import memlake as ml
from memlake.dataset.parts.parquet import Parts
from memlake.views.dataset import diff_lines
from tests.contents.test_embeddings import Plain


def test_vectors_of_a_version_are_compared_by_the_key(tmp_path: Path) -> None:
    matrix = np.random.default_rng(0).standard_normal((30, 12))
    ids = [f"e{number}" for number in range(30)]
    with ml.init(tmp_path) as repo:
        datasets = repo.datasets()
        datasets.read_values(id=ids, emb=[row.tolist() for row in matrix], size=[1] * 30).save("pets")
        matrix[4] = -matrix[4]
        datasets.read_values(id=ids[1:], emb=[row.tolist() for row in matrix[1:]], size=[2] * 29).save("pets")
        (vectors,) = datasets.diff("pets@1.0.0", "pets").vectors
        assert (vectors.column, vectors.ids_from, vectors.moved) == ("emb", "column id", 1)
        assert vectors.removed_ids == ("e0",) and vectors.most_moved[0].id == "e4"


def test_the_door_shows_them(tmp_path: Path) -> None:
    with ml.init(tmp_path) as repo:
        datasets = repo.datasets()
        for sign in (1.0, -1.0):
            datasets.read_values(id=["a", "b"], emb=[[sign] * 9, [1.0] * 8 + [2.0]]).save("pets")
        lines = list(diff_lines(Plain(), datasets.diff("pets@1.0.0", "pets", key=["id"])))
    assert "vectors in column emb: 2 vectors: 1 moved, 1 unchanged (matched by column id)" in lines


def test_columns_that_are_the_same_on_both_sides_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = pa.table({"id": range(10), "a": range(10), "b": [0.5] * 10})
    with ml.init(tmp_path) as repo:
        datasets = repo.datasets()
        datasets.read_arrow(rows).save("pets")
        datasets.read_arrow(rows.set_column(2, "b", pa.array([0.5] * 9 + [1.5]))).save("pets")
        read: list[str] = []
        table = Parts.table
        monkeypatch.setattr(Parts, "table", lambda parts, of, names: read.extend(names) or table(parts, of, names))
        found = datasets.diff("pets@1.0.0", "pets", limit=0).table
        assert (found.changed, found.cells, found.key.columns) == (1, {"b": 1}, ("id",))
        assert sorted(read) == ["b", "b", "id"], "what is equal is read once where it is the key, else never"


def test_a_key_is_found_as_that_of_a_table_file_is(tmp_path: Path) -> None:
    """The unique column that both sides have, whatever it is called, and whatever the order of the rows."""
    old = pa.table({"group": [1, 1, 2, 2], "sku": ["d", "c", "b", "a"], "price": [1, 2, 3, 3]})
    new = pa.table({"group": [2, 2, 1, 3], "sku": ["a", "b", "c", "e"], "price": [3, 4, 2, 9]})
    with ml.init(tmp_path) as repo:
        for table in (old, new):
            repo.datasets().read_arrow(table).save("shop")
        found = repo.datasets().diff("shop@1.0.0", "shop").table
        assert (found.key.columns, found.key.origin) == (("sku",), "found")
        assert (found.added, found.removed, found.changed, found.cells) == (1, 1, 1, {"price": 1})
        repo.datasets().read_arrow(new.set_column(1, "sku", pa.array(["x"] * 4))).save("shop")
        assert repo.datasets().diff("shop@1.0.0", "shop").table.key.columns == ()


def test_every_type_of_column_is_compared(tmp_path: Path) -> None:
    """Each row changes in one column alone, so each column is seen to be compared, and no other row is told."""
    values: dict[str, tuple[Any, Any, pa.DataType]] = {
        "flag": (True, False, pa.bool_()),
        "blob": (b"a", b"b", pa.binary()),
        "day": (date(2024, 1, 1), date(2024, 1, 2), pa.date32()),
        "span": (timedelta(1), timedelta(2), pa.duration("us")),
        "hour": (time(1), time(2), pa.time64("us")),
        "cost": (Decimal("1.5"), Decimal("2.5"), pa.decimal128(10, 2)),
        "names": (["a"], ["a", None], pa.list_(pa.string())),
        "inside": ({"x": 1}, {"x": None}, pa.struct([("x", pa.int64())])),
        "map": ([("a", 1)], [("a", 2)], pa.map_(pa.string(), pa.int64())),
        "nan": (float("nan"), None, pa.float64()),
    }
    names = list(values)

    def make(*, changed: bool) -> pa.Table:
        columns = {"id": pa.array(range(len(names))), "none": pa.nulls(len(names))}
        for at, (name, (old, new, kind)) in enumerate(values.items()):
            columns[name] = pa.array([new if changed and row == at else old for row in range(len(names))], kind)
        return pa.table(columns)

    with ml.init(tmp_path) as repo:
        for changed in (False, True):
            repo.datasets().read_arrow(make(changed=changed)).save("all")
        found = repo.datasets().diff("all@1.0.0", "all", limit=None).table
    assert found.cells == dict.fromkeys(names, 1) and found.changed == len(names) and not found.notes
    assert [(row.row["id"], *row.cells) for row in found.rows] == list(enumerate(names))


def test_a_version_and_a_table_file_are_told_by_the_same_record(tmp_path: Path) -> None:
    old = pa.table({"id": [1, 2, 3], "v": ["a", "b", "c"]})
    new = pa.table({"id": [1, 2, 4], "v": ["a", "B", "d"], "more": [0, 0, 0]})
    with ml.init(tmp_path) as repo:
        for table in (old, new):
            repo.datasets().read_arrow(table).save("pets")
            pq.write_table(table, tmp_path / "pets.parquet")
            repo.add("pets.parquet")
            repo.commit("pets")
        explained = repo.diff("HEAD~2", "HEAD").explain("pets.parquet")
        assert explained is not None
        found = repo.datasets().diff("pets@1.0.0", "pets").table
        assert found.rows == explained.record.rows and found.rows
        assert found._replace(columns=()) == explained.record._replace(columns=())
        assert [(one.name, one.new_type) for one in found.columns] == [("more", "int")]
