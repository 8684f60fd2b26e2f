"""Tables in files: every format is read as it was written, and only what differs is read."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from memlake.contents import tables
from memlake.contents.content import Content, Unreadable, open_file
from memlake.contents.explain import How
from memlake.contents.file_types import find_type
from memlake.rows.compare import RowChange, TableDiff


def make_file(folder: Path, name: str, data: str | bytes) -> Content:
    file = folder / name
    file.write_bytes(data.encode() if isinstance(data, str) else data)
    return open_file(name, file)


def diff(folder: Path, old: str | bytes, new: str | bytes, suffix: str = "csv") -> TableDiff:
    return tables.diff(make_file(folder, f"old.{suffix}", old), make_file(folder, f"new.{suffix}", new), How())


def test_cells_of_csv_are_compared_as_text_whatever_the_dialect(tmp_path: Path) -> None:
    found = diff(
        tmp_path, 'id,name,price\n1,"x, y",3\n2,b,4\n3,c,5\n', 'id;name;price\r\n2;b;4\r\n1;x, y;3.0\r\n4;"d\nd";1\r\n'
    )
    assert found.rows == (
        RowChange("M", {"id": "1"}, {"price": ("3", "3.0")}),
        RowChange("A", {"id": "4", "name": "d\nd", "price": "1"}),
        RowChange("D", {"id": "3", "name": "c", "price": "5"}),
    )


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "latin-1"])
def test_a_table_in_another_encoding_is_the_same_table(tmp_path: Path, encoding: str) -> None:
    text = "id,name\n1,Zoë\n2,Çelik\n"
    assert diff(tmp_path, text, text.encode(encoding)).is_empty


def test_a_header_alone_and_an_empty_file_are_tables_without_rows(tmp_path: Path) -> None:
    assert diff(tmp_path, "id,name\n", "id,name\n1,a\n").added == 1
    assert [change.name for change in diff(tmp_path, "", "id,name\n1,a\n").columns] == ["id", "name"]
    assert diff(tmp_path, "", "", "jsonl").is_empty


@pytest.mark.parametrize(
    ("suffix", "data"),
    [
        ("csv", "id,name\n1,a,extra\n"),
        ("jsonl", "{"),
        ("jsonl", "[1]\n2\n"),
        ("parquet", b"PAR1 is only where it begins"),
        ("parquet", b""),
    ],
)
def test_what_is_not_a_table_is_said_to_be_unreadable(tmp_path: Path, suffix: str, data: str | bytes) -> None:
    with pytest.raises(Unreadable, match=f"broken.{suffix} cannot be read as a table"):
        tables.summarize(make_file(tmp_path, f"broken.{suffix}", data))


def test_fields_of_json_that_hold_several_types_are_compared_as_json(tmp_path: Path) -> None:
    found = diff(
        tmp_path, '{"id":1,"x":[1,2]}\n{"id":2,"x":"y"}\n', '{"id":1,"x":[1,3]}\n{"id":2,"x":"y","z":null}\n', "jsonl"
    )
    assert found.cells == {"x": 1}
    assert [change.name for change in found.columns] == ["z"]


def make_parquet(file: Path, rows: int, edit: slice | None = None) -> Content:
    values = np.arange(rows, dtype=np.float64)
    if edit is not None:
        values[edit] += 0.5
    texts = pa.array([f"text {number}" for number in range(rows)])
    table = pa.table({"id": np.arange(rows), "value": values, "text": texts, "pair": [{"a": 1, "b": "x"}] * rows})
    pq.write_table(table, file, row_group_size=1000)
    return open_file(file.name, file)


def test_of_parquet_the_row_groups_and_columns_that_differ_are_unpacked_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = (
        make_parquet(tmp_path / "old.parquet", 5000),
        make_parquet(tmp_path / "new.parquet", 5000, slice(2500, 2510)),
    )
    unpacked = []
    read = pq.ParquetFile.read_row_group
    monkeypatch.setattr(
        pq.ParquetFile,
        "read_row_group",
        lambda self, number, columns, **how: (
            unpacked.append((number, *columns)) or read(self, number, columns=columns, **how)
        ),
    )
    found = tables.diff(old, new, How(("id",)))
    assert (found.changed, found.cells) == (10, {"value": 10})
    assert set(unpacked) == {*((number, "id") for number in range(5)), (2, "value")}


def test_a_summary_names_columns_and_counts_rows(tmp_path: Path) -> None:
    found = tables.summarize(make_parquet(tmp_path / "t.parquet", 10))
    assert found.rows == 10
    assert found.columns[:2] == (("id", "int64"), ("value", "double"))


def test_a_type_is_found_by_suffix_then_by_the_first_bytes(tmp_path: Path) -> None:
    parquet = make_parquet(tmp_path / "t.parquet", 10)
    assert [getattr(find_type(name), "name", None) for name in ("a/b.CSV", "x.pq", "x.txt", ".csv", "csv")] == [
        "table",
        "table",
        None,
        None,
        None,
    ]
    assert find_type("files/no_suffix", parquet).name == "table"  # type: ignore[union-attr]
