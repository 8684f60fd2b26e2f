"""Laws of the types of columns: what goes in comes out, through Parquet, whatever the values and their nesting."""

from __future__ import annotations

import io
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, NamedTuple
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pydantic
from hypothesis import given, reject
from hypothesis import strategies as st

from memlake.dataset.types.arrow import Vector, decode, encode, field_of, infer_field
from memlake.dataset.types.files import File, ImageFile
from memlake.errors import InvalidInput


class Inner(NamedTuple):
    count: int | None
    words: list[str]


@dataclass
class Outer:
    inner: Inner | None
    images: list[ImageFile]
    scores: dict[str, float]


class Model(pydantic.BaseModel):
    outer: Outer | None
    inners: list[Inner | None]
    when: datetime | None


WORDS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
INTS = st.integers(-(2**63), 2**63 - 1)
FLOATS = st.floats(allow_nan=False)
MOMENTS = st.datetimes(timezones=st.just(UTC))
FILES = st.builds(File, WORDS, WORDS, INTS, last_modified=st.none() | MOMENTS)
INNERS = st.builds(Inner, st.none() | INTS, st.lists(WORDS, max_size=3))
IMAGES = st.lists(FILES.map(File.as_image), max_size=2)
OUTERS = st.builds(Outer, st.none() | INNERS, IMAGES, st.dictionaries(WORDS, FLOATS, max_size=3))
MODELS = st.builds(
    Model,
    outer=st.none() | OUTERS,
    inners=st.lists(st.none() | INNERS, max_size=3),
    when=st.none() | MOMENTS,
)
JSON = st.recursive(
    st.none() | st.booleans() | INTS | FLOATS | WORDS,
    lambda inside: st.lists(inside, max_size=3) | st.dictionaries(WORDS, inside, max_size=3),
    max_leaves=6,
)
LEAVES: list[tuple[Any, st.SearchStrategy[Any]]] = [
    (bool, st.booleans()),
    (int, INTS),
    (float, FLOATS),
    (str, WORDS),
    (bytes, st.binary(max_size=8)),
    (datetime, MOMENTS),
    (date, st.dates()),
    (timedelta, st.timedeltas(timedelta(days=-10**6), timedelta(days=10**6))),
    (Decimal, st.decimals(-(10**9), 10**9, places=6)),
    (UUID, st.uuids()),
    (File, FILES),
    (Inner, INNERS),
    (Outer, OUTERS),
    (Model, MODELS),
    (dict, st.dictionaries(WORDS, JSON, max_size=3)),
]  # fmt: skip


def deeper(one: tuple[Any, st.SearchStrategy[Any]], shape: int) -> tuple[Any, st.SearchStrategy[Any]]:
    annotation, values = one
    maybe = st.none() | values
    return [
        (list[annotation], st.lists(maybe, max_size=3)),
        (tuple[annotation, ...], st.lists(maybe, max_size=3).map(tuple)),
        (dict[str, annotation], st.dictionaries(WORDS, maybe, max_size=3)),
        (tuple[annotation, int], st.tuples(maybe, INTS)),
        (annotation | None, maybe),
    ][shape]  # type: ignore[return-value]


@st.composite
def columns(draw: st.DrawFn) -> tuple[Any, list[Any]]:
    one = draw(st.sampled_from(LEAVES))
    for shape in draw(st.lists(st.integers(0, 4), max_size=2)):
        one = deeper(one, shape)
    return one[0], draw(st.lists(st.none() | one[1], max_size=6))


def through_parquet(column: pa.Field, values: list[Any]) -> list[Any]:
    buffer = io.BytesIO()
    pq.write_table(pa.table([encode(column, values)], schema=pa.schema([column])), buffer)
    table = pq.read_table(buffer)
    return decode(table.schema.field(0), table[0])


@given(columns())
def test_values_of_any_nesting_come_back_equal(drawn: tuple[Any, list[Any]]) -> None:
    annotation, values = drawn
    assert through_parquet(field_of("it", annotation), values) == values


@given(columns(), st.integers(0, 5), st.integers(0, 5))
def test_a_slice_of_the_array_is_the_slice_of_the_values(drawn: tuple[Any, list[Any]], start: int, size: int) -> None:
    annotation, values = drawn
    column = field_of("it", annotation)
    array = encode(column, values)
    assert (
        decode(column, array.slice(start, size) if start <= len(array) else array[:0]) == values[start : start + size]
    )


def without_marks(kind: pa.DataType) -> pa.DataType:
    """What is left of a type when an engine drops the metadata."""
    if pa.types.is_struct(kind):
        return pa.struct([(child.name, without_marks(child.type)) for child in kind])
    if pa.types.is_map(kind):
        return pa.map_(kind.key_type, without_marks(kind.item_type))
    return pa.list_(without_marks(kind.value_type)) if pa.types.is_list(kind) else kind


@given(columns().filter(lambda drawn: "dict" not in str(drawn[0]).replace("dict[", "")))
def test_the_annotation_as_the_want_changes_nothing(drawn: tuple[Any, list[Any]]) -> None:
    annotation, values = drawn
    column = field_of("it", annotation)
    bare = pa.field("it", without_marks(column.type))
    assert decode(bare, encode(column, values).cast(bare.type), annotation) == values


@given(columns())
def test_a_type_inferred_from_values_holds_them(drawn: tuple[Any, list[Any]]) -> None:
    _, values = drawn
    try:
        column = infer_field("it", values)
    except InvalidInput:  # rows of several types: tuples of a word and a number in rows of different lengths
        reject()
    assert len(encode(column, values)) == len(values)


@given(st.lists(st.none() | st.lists(st.floats(width=32, allow_nan=False), min_size=3, max_size=3), max_size=5))
def test_vectors_come_back_bit_for_bit(rows: list[list[float] | None]) -> None:
    values = [None if row is None else np.array(row, "float32") for row in rows]
    back = through_parquet(field_of("v", Vector(3)), values)
    assert [None if row is None else row.tobytes() for row in back] == [
        None if row is None else row.tobytes() for row in values
    ]
