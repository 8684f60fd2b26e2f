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
from memlake.rows.compare import Key, RowChange, TableDiff


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


def write_parquet(file: Path, **columns: pa.Array) -> Content:
    pq.write_table(pa.table({"id": pa.array([1, 2]), **columns}), file)
    return open_file(file.name, file)


def test_a_column_with_a_dot_beside_a_struct_is_compared(tmp_path: Path) -> None:
    pairs = pa.array([{"x": 1}, {"x": 2}])
    old = write_parquet(tmp_path / "old.parquet", a=pairs, **{"a.b": pa.array([1, 2])})
    new = write_parquet(tmp_path / "new.parquet", a=pairs, **{"a.b": pa.array([1, 3])})
    assert tables.diff(old, new, How(("id",))).cells == {"a.b": 1}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (pa.array([1, 2], pa.timestamp("us")), pa.array([1, 2], pa.timestamp("ns"))),
        (
            pa.array(["1.25", "2.50"]).cast(pa.decimal128(10, 2)),
            pa.array(["0.125", "0.250"]).cast(pa.decimal128(10, 3)),
        ),
    ],
)
def test_the_same_bytes_of_another_type_are_other_values(tmp_path: Path, old: pa.Array, new: pa.Array) -> None:
    sides = (write_parquet(tmp_path / "o.parquet", v=old), write_parquet(tmp_path / "n.parquet", v=new))
    assert tables.diff(*sides, How(("id",))).cells == {"v": 2}


def test_a_field_of_several_types_leaves_the_others_as_they_are(tmp_path: Path) -> None:
    found = diff(
        tmp_path, '{"id":1,"s":"x","v":1}\n', '{"id":1,"s":"x","v":1}\n{"id":2,"s":"\u2028","v":"one"}\n', "jsonl"
    )
    assert (found.added, found.changed, [change.name for change in found.columns]) == (1, 0, ["v"])


@pytest.mark.parametrize(
    ("old", "new", "changed"),
    [
        ("\n\nid,v\n1,2\n", "\n\nid,v\n1,3\n", 1),
        ("a,a,a.2\n1,2,3\n", "a,a,a.2\n1,2,4\n", 1),
        ("id,v\n1,caf\u00e9\n".encode("latin-1"), "id,v\n1,cafe\n", 1),
    ],
)
def test_odd_csv_is_read_as_it_is_meant(tmp_path: Path, old: str | bytes, new: str, changed: int) -> None:
    found = diff(tmp_path, old, new)
    assert (found.changed or found.added, found.removed in (0, 1)) == (changed, True)


def test_a_csv_without_a_header_has_numbered_columns(tmp_path: Path) -> None:
    old = "1,ann,3.5\n2,bob,4.0\n3,cy,1.0\n"
    found = diff(tmp_path, old, old.replace("4.0", "4.5") + "4,di,2.0\n")
    assert (found.old_rows, found.key.columns, found.columns) == (3, ("column1",), ())
    assert found.rows[0] == RowChange("M", {"column1": "2"}, {"column3": ("4.0", "4.5")})
    assert found.rows[1].row == {"column1": "4", "column2": "di", "column3": "2.0"}
    marked = diff(tmp_path, "\ufeff" + old, old)
    assert marked.is_empty


@pytest.mark.parametrize("header", ["country,2019,2020", "id,1,2", "2019,2020,n", '"1a",b,c'])
def test_names_that_look_like_numbers_are_names_where_a_name_is_beside_them(tmp_path: Path, header: str) -> None:
    found = diff(tmp_path, f"{header}\nx,1,2\n", f"{header}\nx,1,3\n")
    assert (found.old_rows, found.changed, found.columns) == (1, 1, ())


def test_structs_of_two_shapes_are_compared_by_the_fields_of_both(tmp_path: Path) -> None:
    old = '{"id": 1, "p": {"x": 1}, "l": [{"a": 1}]}\n{"id": 2, "p": {"x": 2}, "l": []}\n'
    new = '{"id": 1, "p": {"x": 1, "y": null}, "l": [{"a": 1}]}\n{"id": 2, "p": {"x": 2, "y": 7}, "l": [{"b": "n"}]}\n'
    found = diff(tmp_path, old, new, "jsonl")
    assert found.cells == {"p": 1, "l": 1}
    assert [row.row for row in found.rows] == [{"id": 2}]
    assert {change.name for change in found.columns} == {"p", "l"}
    assert not found.notes


def test_a_table_in_two_encodings_is_said_to_be_so(tmp_path: Path) -> None:
    file = tmp_path / "t.csv"
    file.write_bytes("id,name\n1,Müller\n".encode() + "2,Böll\n".encode("latin-1"))
    with pytest.raises(Unreadable, match="two encodings: line 3 is not UTF-8"):
        tables.summarize(open_file("t.csv", file))


def test_leaves_are_found_by_name_however_many_columns_there_are(tmp_path: Path) -> None:
    names = [f"c{number}" for number in range(3000)]
    for side in (0, 1):
        pq.write_table(
            pa.table({name: [number, side] for number, name in enumerate(names)}), tmp_path / f"{side}.parquet"
        )
    found = tables.diff(*(open_file("t.parquet", tmp_path / f"{side}.parquet") for side in (0, 1)), How())
    assert (found.old_rows, found.new_rows, found.is_empty) == (2, 2, False)


def test_a_row_that_was_doubled_does_not_hide_the_key(tmp_path: Path) -> None:
    rows = [f"{number:03},{number % 7}\n" for number in range(100)]
    new = rows.copy()
    new[3] = "003,9\n"
    new.insert(50, new[49])
    for sides, counts in (((rows, new), (1, 0)), ((new, rows), (0, 1))):
        found = diff(tmp_path, *("iata,gates\n" + "".join(side) for side in sides))
        assert (found.key, found.changed, found.cells) == (Key(("iata",), "nearly"), 1, {"gates": 1})
        assert (found.added, found.removed) == counts
        assert any("the key is not unique" in note for note in found.notes)
    half = [*rows[:90], *rows[:10]]  # one row in ten is doubled: that is no key
    assert diff(tmp_path, "iata,gates\n" + "".join(rows), "iata,gates\n" + "".join(half)).key.columns == ()
