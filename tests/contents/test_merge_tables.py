"""Two edits of one table: by key and cell, in the format of ours, and untouched lines byte by byte."""

from __future__ import annotations

import io
import json
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from memlake.contents import tables
from memlake.contents.content import Content, Unreadable
from memlake.contents.merged import Merged, MergeHow

OPEN = MergeHow()
BASE = "id,name,price\n1,a,10\n2,b,20\n3,c,30\n"


def open_bytes(data: str | bytes, name: str) -> Content:
    raw = data.encode() if isinstance(data, str) else data
    return Content(name, len(raw), lambda: io.BytesIO(raw))


def merge(
    base: str | bytes, ours: str | bytes, theirs: str | bytes, how: MergeHow = OPEN, name: str = "a.csv"
) -> Merged:
    return tables.merge(*(open_bytes(data, name) for data in (base, ours, theirs)), how)


def merge_csv(base: str, ours: str, theirs: str, how: MergeHow = OPEN) -> str:
    found = merge(base, ours, theirs, how)
    assert found.conflicts == ()
    assert found.data is not None
    return found.data.decode()


# -- rows and cells


def test_rows_that_both_appended_are_all_there() -> None:
    assert merge_csv(BASE, BASE + "4,d,40\n", BASE + "5,e,50\n6,f,60\n") == BASE + "4,d,40\n5,e,50\n6,f,60\n"


def test_different_cells_of_one_row_are_both_taken() -> None:
    assert merge_csv(BASE, BASE.replace("a,10", "a,11"), BASE.replace("1,a", "1,A")) == BASE.replace("1,a,10", "1,A,11")


def test_the_same_cell_is_a_conflict_of_that_cell_and_ours_stays() -> None:
    ours, theirs = BASE.replace("b,20", "b,21"), BASE.replace("b,20", "b,22").replace("1,a", "1,A")
    found = merge(BASE, ours, theirs)
    assert found.data == ours.replace("1,a", "1,A").encode()
    assert [tuple(one) for one in found.conflicts] == [
        ("id=2: price", "20", "21", "22", {"id": "2", "column": "price"}, "")
    ]


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        (MergeHow(strategy="ours"), "21"),
        (MergeHow(strategy="theirs"), "22"),
        (MergeHow(choices={"id=2: price": "theirs"}), "22"),
        (MergeHow(strategy="ours", choices={"id=2: price": "theirs"}), "22"),
        (MergeHow(strategy="latest", latest="theirs"), "22"),
    ],
)
def test_a_choice_settles_a_cell(how: MergeHow, expected: str) -> None:
    ours, theirs = BASE.replace("b,20", "b,21"), BASE.replace("b,20", "b,22")
    assert merge_csv(BASE, ours, theirs, how) == BASE.replace("b,20", f"b,{expected}")


def test_a_row_that_one_side_removed_and_the_other_left_alone_is_gone() -> None:
    without = BASE.replace("2,b,20\n", "")
    assert merge_csv(BASE, without, BASE + "4,d,40\n") == without + "4,d,40\n"
    assert merge_csv(BASE, BASE + "4,d,40\n", without) == without + "4,d,40\n"


@pytest.mark.parametrize("ours_removes", [True, False])
@pytest.mark.parametrize(("side", "stays"), [("", None), ("ours", False), ("theirs", True), ("union", True)])
def test_a_row_that_one_side_removed_and_the_other_changed_waits(
    ours_removes: bool, side: str, stays: bool | None
) -> None:
    without, changed = BASE.replace("2,b,20\n", ""), BASE.replace("b,20", "b,21")
    ours, theirs = (without, changed) if ours_removes else (changed, without)
    found = merge(BASE, ours, theirs, MergeHow(strategy=side))
    if stays is None:
        (conflict,) = found.conflicts
        assert conflict.place == "id=2"
        assert (conflict.ours is None, conflict.theirs is None) == (ours_removes, not ours_removes)
        assert found.data == ours.encode()
    else:
        kept = stays if ours_removes or side == "union" else not stays
        assert found.data == (changed if kept else without).encode()


def test_rows_of_theirs_stand_where_they_stood_there() -> None:
    base = "id\n10\n20\n30\n"
    assert merge_csv(base, "id\n10\n11\n20\n30\n", "id\n5\n10\n12\n20\n30\n35\n") == ("id\n5\n10\n11\n12\n20\n30\n35\n")


def test_the_same_row_added_on_both_sides_is_one_and_a_different_one_is_a_conflict_of_its_cells() -> None:
    assert merge_csv(BASE, BASE + "4,d,40\n", BASE + "4,d,40\n") == BASE + "4,d,40\n"
    (conflict,) = merge(BASE, BASE + "4,d,40\n", BASE + "4,d,44\n").conflicts
    assert tuple(conflict)[:4] == ("id=4: price", None, "40", "44")


def test_without_a_key_rows_are_joined_as_multisets() -> None:
    base = "x,y\n1,1\n1,1\n2,2\n"
    assert merge_csv(base, base + "3,3\n", "x,y\n1,1\n2,2\n4,4\n") == "x,y\n1,1\n2,2\n3,3\n4,4\n"


def test_two_edits_of_a_row_without_a_key_are_not_taken_for_two_rows() -> None:
    base = "x,y\n1,1\n1,1\n2,2\n2,2\n"
    with pytest.raises(Unreadable, match="removed the same row"):
        merge(base, base.replace("2,2\n2,2", "2,2\n2,3"), base.replace("2,2\n2,2", "2,2\n2,4"))


def test_a_key_that_is_not_unique_is_said() -> None:
    base = "id,v\n1,a\n1,b\n2,c\n"
    found = merge(base, base.replace("2,c", "2,C"), base + "1,z\n", MergeHow(key=("id",)))
    assert found.data == b"id,v\n1,a\n1,b\n2,C\n1,z\n"
    assert "the key is not unique in 2, 2, 3 rows" in found.notes[0]


def test_a_declared_key_decides_and_one_that_is_missing_is_said() -> None:
    base = "n,lang,v\n1,de,a\n1,en,b\n2,de,c\n"
    ours, theirs = base.replace("de,a", "de,A"), base.replace("en,b", "en,B")
    assert merge_csv(base, ours, theirs, MergeHow(key=("n", "lang"))) == base.replace(",a", ",A").replace(",b", ",B")
    (conflict,) = merge(base, ours, base.replace("de,a", "de,z"), MergeHow(key=("n", "lang"))).conflicts
    assert conflict.place == "n=1, lang=de: v"
    assert "'id' is not a column" in merge(base, ours, theirs, MergeHow(key=("id",))).notes[0]


# -- columns


def test_columns_are_joined_before_rows() -> None:
    theirs = 'id,name,cost,note\n1,a,10,x\n2,b,20,"y,y"\n3,c,30,z\n'
    ours = BASE.replace("b,20", "b,21") + "4,d,40\n"
    assert merge_csv(BASE, ours, theirs) == ('id,name,cost,note\n1,a,10,x\n2,b,21,"y,y"\n3,c,30,z\n4,d,40,\n')


def test_a_column_that_one_side_removed_is_gone_and_added_rows_are_told() -> None:
    found = merge(BASE, "id,price\n1,10\n2,20\n3,30\n", BASE + "4,d,40\n")
    assert found.data == b"id,price\n1,10\n2,20\n3,30\n4,40\n"
    assert "'name'" in found.notes[0]


@pytest.mark.parametrize(("side", "header"), [("", "id,price"), ("ours", "id,price"), ("theirs", "id,name,price")])
def test_a_column_that_one_side_removed_and_the_other_changed_waits(side: str, header: str) -> None:
    found = merge(BASE, "id,price\n1,10\n2,20\n3,30\n", BASE.replace("a,10", "A,10"), MergeHow(strategy=side))
    assert found.data is not None
    assert found.data.decode().splitlines()[0] == header
    assert [one.place for one in found.conflicts] == ([] if side else ["column name"])


def test_two_names_for_one_column_are_a_conflict_of_the_name() -> None:
    base = "id,v\n1,a\n2,b\n3,c\n"
    found = merge(base, base.replace("id,v", "id,w"), base.replace("id,v", "id,x"))
    assert [one.place for one in found.conflicts] == ["column v: name"]
    assert found.data == base.replace("id,v", "id,w").encode()


# -- how a CSV is written


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "latin-1"])
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_the_result_is_written_as_ours_is(encoding: str, newline: str) -> None:
    ours = "id;name;price\n1;'Zoë' ;10\n\n2;\"b\";20\n3;c;30".replace("\n", newline)
    theirs = BASE.replace("b,20", 'b,"2;0"') + "4,é,40\n"
    base = BASE.replace("1,a,10", "1,'Zoë' ,10")
    found = merge(base, ours.encode(encoding), theirs.replace("1,a,10", "1,'Zoë' ,10"))
    assert found.data is not None
    assert found.data == (ours.replace(";20", ';"2;0"') + newline + "4;é;40").encode(encoding)


def test_lines_that_nobody_touched_stay_byte_by_byte() -> None:
    ours = 'id,name,price\n"1",a , 10\n2,"b",20\n3,"c\nc",30\n4,"d ""d""",1\n'
    theirs = ours.replace('2,"b",20', '2,"B",20') + "5,e,50\n"
    assert merge_csv(ours, ours.replace(",30", ",31"), theirs) == theirs.replace(",30", ",31")


def test_a_file_that_quotes_everything_quotes_new_rows_too() -> None:
    base = '"id","v"\n"1","a"\n"2","b"\n'
    assert merge_csv(base, base.replace('"a"', '"A"'), "id,v\n1,a\n2,b\n3,c\n") == (
        '"id","v"\n"1","A"\n"2","b"\n"3","c"\n'
    )


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (BASE.encode(), (BASE + "4,d,40,5\n").encode()),  # another number of fields
        (BASE.encode(), b""),
        (BASE.replace("a", "é").encode("latin-1"), BASE.replace("a", "€").encode()),  # cannot be written as ours is
        (BASE.encode(), b"PAR1" + BASE.encode()),
        (BASE.encode(), b"\xff\xfe\x00"),
        (BASE.encode(), BASE.encode() + b'9,"x,1\n'),
    ],
)
def test_what_cannot_be_joined_is_refused_and_nothing_else(ours: bytes, theirs: bytes) -> None:
    with pytest.raises(Unreadable):
        merge(BASE.encode(), ours, theirs)


def test_ten_thousand_columns_are_joined() -> None:
    names = ["id", *(f"c{n}" for n in range(10_000))]
    rows = [[str(n), *["0"] * 10_000] for n in range(3)]

    def write(cells: dict[tuple[int, int], str]) -> str:
        lines = [",".join(cells.get((r, c), value) for c, value in enumerate(row)) for r, row in enumerate(rows)]
        return "\n".join([",".join(names), *lines]) + "\n"

    assert merge_csv(write({}), write({(0, 5): "x"}), write({(0, 9): "y"})) == write({(0, 5): "x", (0, 9): "y"})


# -- JSON lines


def test_json_lines_are_joined_field_by_field() -> None:
    base = '{"id": 1, "a": 1}\n{"id":2,"a":null,"b":[1, 2]}\n'
    ours = base.replace('"a": 1', '"a": 1.0') + '{"id": 3}\n'
    theirs = base.replace('"a":null,', "") + '{"id": 4, "z": {"q": 1}}'
    assert merge(base, ours, theirs, name="a.jsonl").data == (
        b'{"id": 1, "a": 1.0}\n{"id":2,"b":[1, 2]}\n{"id": 3}\n{"id": 4, "z": {"q": 1}}\n'
    )
    found = merge(base, base.replace('"a": 1', '"a": 2'), base.replace('"a": 1', '"a": "x", "c": 1'), name="a.jsonl")
    assert [tuple(one)[:4] for one in found.conflicts] == [("id=1: a", 1, 2, "x")]
    assert found.data == base.replace('"a": 1', '"a": 2, "c": 1').encode()
    chosen = merge(
        base, base.replace('"a": 1', '"a": 2'), base.replace('"a": 1', '"a": "x"'), MergeHow(strategy="theirs"),
        "a.jsonl",
    )  # fmt: skip
    assert chosen.data == base.replace('"a": 1', '"a": "x"').encode()


def test_json_lines_that_are_not_written_as_they_would_be_written_anew_are_refused() -> None:
    base = '{"id": 1, "a": 1.10, "b": 1}\n{"id": 2, "a": 2}\n'
    with pytest.raises(Unreadable):
        merge(base, base.replace("1.10", "1.20"), base.replace('"b": 1', '"b": 2'), name="a.jsonl")
    assert merge(base, base.replace("1.10", "1.20"), base + '{"id": 3}\n', name="a.jsonl").conflicts == ()


# -- Parquet


def write_parquet(columns: dict[str, Any], schema: pa.Schema | None = None, **how: Any) -> bytes:
    out = io.BytesIO()
    pq.write_table(pa.table(columns, schema=schema), out, **how)
    return out.getvalue()


def test_parquet_is_joined_with_types_compression_and_metadata_of_ours() -> None:
    columns: dict[str, Any] = {
        "id": [1, 2, 3],
        "tags": [["a"], None, []],
        "p": [{"x": 1, "y": None}, None, {"x": 2, "y": "z"}],
        "f": [float("nan"), 1.5, None],
        "c": pa.array(["u", "v", "u"]).dictionary_encode(),
    }
    base = write_parquet(columns)
    ours = write_parquet({**columns, "f": [float("nan"), 2.5, None]}, compression="zstd", row_group_size=2)
    theirs = write_parquet(
        {
            "id": [1, 2, 3, 4],
            "tags": [["a"], ["b"], [], ["n"]],
            "p": [{"x": 1, "y": None}, None, {"x": 3, "y": "z"}, None],
            "f": [float("nan"), 1.5, None, 4.0],
            "c": pa.array(["w", "v", "u", "q"]).dictionary_encode(),
        }
    )
    found = merge(base, ours, theirs, name="a.parquet")
    assert found.conflicts == ()
    assert found.data is not None
    file = pq.ParquetFile(io.BytesIO(found.data))
    assert file.metadata.row_group(0).column(0).compression == "ZSTD"
    table = file.read()
    assert table.schema.field("c").type == pa.dictionary(pa.int32(), pa.string())
    rows = table.to_pylist()
    assert np.isnan(rows[0].pop("f"))
    assert rows == [
        {"id": 1, "tags": ["a"], "p": {"x": 1, "y": None}, "c": "w"},
        {"id": 2, "tags": ["b"], "p": None, "f": 2.5, "c": "v"},
        {"id": 3, "tags": [], "p": {"x": 3, "y": "z"}, "f": None, "c": "u"},
        {"id": 4, "tags": ["n"], "p": None, "f": 4.0, "c": "q"},
    ]


def test_a_column_that_one_side_retyped_has_the_new_type() -> None:
    base = write_parquet({"id": [1, 2], "v": pa.array([1, 2], pa.int32())})
    ours = write_parquet({"id": [1, 2], "v": pa.array([1.0, 2.0], pa.float64())})
    theirs = write_parquet({"id": [1, 2, 3], "v": pa.array([1, 5, 7], pa.int32())})
    found = merge(base, ours, theirs, name="a.parquet")
    assert found.data is not None
    table = pq.read_table(io.BytesIO(found.data))
    assert table.to_pydict() == {"id": [1, 2, 3], "v": [1.0, 5.0, 7.0]}
    assert table.schema.field("v").type == pa.float64()
    other = write_parquet({"id": [1, 2], "v": pa.array([1, 2], pa.int64())})
    assert [one.place for one in merge(base, ours, other, name="a.parquet").conflicts] == ["column v: type"]


def test_a_truncated_parquet_file_is_refused() -> None:
    whole = write_parquet({"id": [1, 2]})
    with pytest.raises(Unreadable):
        merge(whole, whole, whole[:-20], name="a.parquet")


def test_keys_of_nothing_and_of_nan_are_keys() -> None:
    base = write_parquet({"k": [1.0, float("nan"), None], "v": [1, 2, 3]})
    ours = write_parquet({"k": [1.0, float("nan"), None], "v": [1, 2, 4]})
    theirs = write_parquet({"k": [1.0, float("nan"), None], "v": [1, 5, 3]})
    found = merge(base, ours, theirs, MergeHow(key=("k",)), "a.parquet")
    assert found.data is not None
    assert pq.read_table(io.BytesIO(found.data)).column("v").to_pylist() == [1, 5, 4]
    clash = merge(base, ours, write_parquet({"k": [1.0, float("nan"), None], "v": [1, 5, 6]}), MergeHow(key=("k",)),
                  "a.parquet")  # fmt: skip
    assert [one.place for one in clash.conflicts] == ["k=null: v"]


def test_rows_that_hold_json_text_stay_text() -> None:
    line = json.dumps({"id": 1, "text": "ä\u2028"}, ensure_ascii=False)
    found = merge(line + "\n", line + '\n{"id": 2}\n', line.replace("ä", "ö") + "\n", name="a.jsonl")
    assert found.data == (line.replace("ä", "ö") + '\n{"id": 2}\n').encode()


def test_a_csv_without_a_header_is_joined_and_stays_without_one() -> None:
    base = "5.1,3.5,setosa\n4.9,3.0,setosa\n6.0,1,virginica\n"
    assert merge_csv(base, base + "7,1,a\n", base.replace("3.0", "3.1")) == base.replace("3.0", "3.1") + "7,1,a\n"
