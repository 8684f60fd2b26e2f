"""The type of an expression over a schema, and the sentences for what has none."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa
import pytest

from memlake.dataset.expressions import bind
from memlake.dataset.expressions.bind import check, column_names, type_of_column
from memlake.dataset.expressions.columns import C, Expression, lit
from memlake.dataset.expressions.functions import func
from memlake.errors import InvalidInput

FILE = pa.struct({"path": pa.string(), "size": pa.int64(), "at": pa.timestamp("us", "UTC")})
SCHEMA = pa.schema(
    [
        pa.field("file", FILE, metadata={b"memlake.class": b"memlake:File"}),
        pa.field("breed", pa.string()),
        pa.field("i32", pa.int32()),
        pa.field("emb", pa.list_(pa.float32(), 4)),
        pa.field("boxes", pa.list_(pa.struct({"label": pa.string()}))),
        pa.field("tags", pa.map_(pa.string(), pa.float32())),
        pa.field("later", pa.null(), metadata={b"memlake.unknown": b"1"}),
    ]
)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        (C("file"), FILE),
        (C("file.at"), pa.timestamp("us", "UTC")),
        (C("file.size") + 1, pa.int64()),
        (C("file.size") / 2, pa.float64()),
        (C("breed") == "x", pa.bool_()),
        (C("i32"), pa.int32()),
        (C("emb"), pa.list_(pa.float32(), 4)),
        (C("boxes")[0]["label"], pa.string()),
        (C("tags")["k"], pa.float32()),
        (C("file.size").desc(), pa.int64()),
        (lit(1), pa.int64()),
        (lit(1).label("one"), pa.int64()),
        (lit(2.5), pa.float64()),
        (func.case((C("i32") > 0, 1), else_=2), pa.int64()),
        (func.sum("file.size"), pa.int64()),
        (func.sum("i32") * 2, pa.int64()),
        (func.collect("breed"), pa.list_(pa.string())),
        (func.row_number().over(func.window(partition_by="breed")), pa.int64()),
        (func.cosine_distance("emb", [1, 2, 3, 4]), pa.float64()),
        (C("later") + 1, pa.null()),
        (C("later.inside") == "x", pa.null()),
        (func.lower("breed") + C("later"), pa.null()),
    ],
    ids=str,
)
def test_the_type_of(expression: Expression, expected: pa.DataType) -> None:
    assert check(expression, SCHEMA) == expected


@pytest.mark.parametrize(
    ("expression", "says"),
    [
        (C("bred") == "x", "there is no column 'bred'; did you mean 'breed'? columns: file, file.path, file.size"),
        (C("Breed"), "did you mean 'breed'?"),
        (C("file.pth"), "did you mean 'file.path'?"),
        (C("FILE.path"), "did you mean 'file.path'?"),
        (C("size"), "did you mean 'file.size'?"),
        (C("breed.x"), "there is no column 'breed.x'; did you mean 'breed'?"),
        (C("zzzzzz"), "there is no column 'zzzzzz'; columns: file"),
        (func.lower("text that is no column"), "write lit('text that is no column')"),
        (C("boxes.label"), "goes into a list"),
        (C("breed") * 2, "'*(VARCHAR, INTEGER)'"),
        (C("i32") == "abc", "'i32' is int32, and is compared with 'abc'"),
        (func.sum("breed"), "'sum(VARCHAR)'"),
        (func.sum("i32") + C("i32"), "must appear in the GROUP BY clause"),
        (func.lower("breed", "i32"), "'lower(VARCHAR, INTEGER)'"),
        (C("file") > C("boxes"), "cannot be computed"),
        (C("i32") & 2, "& joins conditions, and i32 is int32"),
        (func.length("breed") | (C("i32") > 1), "| joins conditions, and length(breed) is int64"),
        ((C("i32") > 1) & lit(2), "& joins conditions, and 2 is int"),
        (~C("breed"), "~ joins conditions, and breed is string"),
    ],
    ids=str,
)
def test_what_has_no_type_is_told_in_a_sentence(expression: Expression, says: str) -> None:
    with pytest.raises(InvalidInput) as told:
        check(expression, SCHEMA)
    assert says in str(told.value)
    assert "LINE 1" not in str(told.value) and "Candidate" not in str(told.value) and "$1" not in told.value.message


def test_a_column_of_unknown_type_still_has_to_exist() -> None:
    with pytest.raises(InvalidInput, match="no column 'latr'; did you mean 'later'"):
        check(C("later") + C("latr"), SCHEMA)


def test_one_check_leaves_nothing_for_the_next() -> None:
    assert check(C("a"), pa.schema([("a", pa.int8())])) == pa.int8()
    assert check(C("a"), pa.schema([("a", pa.string())])) == pa.string()
    assert check(lit("x"), pa.schema([])) == pa.string()


def test_threads_may_check_at_the_same_time() -> None:
    def one(number: int) -> Any:
        return check(C(f"c{number}"), pa.schema([(f"c{number}", pa.int16())]))

    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(one, range(100))) == {pa.int16()}


def test_names_go_into_structs_and_maps() -> None:
    assert list(column_names(SCHEMA))[:4] == ["file", "file.path", "file.size", "file.at"]
    assert type_of_column("tags.anything", SCHEMA) == pa.float32()


def test_the_same_names_with_other_types_are_asked_about_anew() -> None:
    for kind, told in ((pa.int32(), pa.int32()), (pa.float64(), pa.float64()), (pa.int32(), pa.int32())):
        assert check(func.max("x"), pa.schema([("x", kind)])) == told


def test_many_schemas_do_not_pile_up() -> None:
    for number in range(bind._MOST + 10):
        assert check(func.max(f"x{number}"), pa.schema([(f"x{number}", pa.int64())])) == pa.int64()
    assert len(bind._kept) <= bind._MOST
    assert set(bind._kept.values()) == {f"one_row_{i}" for i in range(len(bind._kept))}


def test_a_question_is_asked_once_and_another_value_is_another_question(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    answer = bind._answer
    monkeypatch.setattr(bind, "_answers", {})
    monkeypatch.setattr(bind, "_answer", lambda sql: (asked.append(sql), answer(sql))[1])
    schema = pa.schema([("x", pa.int32())])
    for _ in range(3):
        assert check(C("x") + lit(1), schema) == pa.int32()
        assert check(C("x") + lit(1.5), schema) == pa.float64()
        with pytest.raises(InvalidInput, match="cannot be computed"):
            check(C("x") + lit("no number").cast(int), schema)
    assert len(asked) == 2 + 3, "what has no type is asked again"
    assert check(C("x") + lit(1), pa.schema([("x", pa.float64())])) == pa.float64()


def test_many_answers_do_not_pile_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bind, "_answers", {})
    monkeypatch.setattr(bind, "_MOST_ANSWERS", 4)
    for number in range(10):
        assert check(C("x") > number, pa.schema([("x", pa.int64())])) == pa.bool_()
        assert len(bind._answers) <= 4


@pytest.mark.parametrize(
    ("condition", "told"),
    [
        (C("n") == "1", "'n' is int64, and is compared with '1'"),
        (lit("1") == C("n"), "compared with '1'"),
        (C("t") == 1, "'t' is string, and is compared with 1"),
        (C("t").in_(["a", 2]), "compared with 2"),
        ((C("n") > 1) & (C("x") < "2"), "'x' is double, and is compared with '2'"),
    ],
)
def test_a_number_is_not_compared_with_text(condition: Any, told: str) -> None:
    fields = pa.schema([("n", pa.int64()), ("t", pa.string()), ("x", pa.float64()), ("d", pa.date32())])
    with pytest.raises(InvalidInput, match=re.escape(told)):
        check(condition, fields)
    for fine in (C("n") == 1.5, C("n") == True, C("d") > "2024-01-01", C("t") == "1", C("t").cast(int) == 1):  # noqa: E712
        assert check(fine, fields) == pa.bool_()
