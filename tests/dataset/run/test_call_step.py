"""Functions in chains: every kind of them, what they take and give, and what is said of a row that fails."""

from __future__ import annotations

import asyncio
import functools
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import memlake as ml
from memlake.dataset.datasets import Datasets
from memlake.dataset.parts import parquet

C = ml.C


@dataclass
class Point:
    a: int
    b: list[str]


class Model:
    def __init__(self, n: int) -> None:
        self.n = n

    def times(self, x: int) -> int:
        return x * self.n

    def __call__(self, x: int) -> int:
        return x + self.n


class Waiting:
    async def __call__(self, x: int) -> int:
        await asyncio.sleep(0)
        return x + 1


async def awaited(x: int) -> int:
    await asyncio.sleep(0)
    return x * 2


async def awaited_list(x: int) -> list[int]:
    return [x] * x


async def awaited_items(x: int) -> AsyncIterator[int]:
    for i in range(x):
        yield i


def with_default(x: int, k: int = 5) -> int:
    return x + k


def annotated(x: pa.Array) -> pa.Array:
    return pc.add(x, 1)


def listed(x: list[int]) -> list[int]:
    return [one + 1 for one in x]


def maybe(x: int) -> int | None:
    return x if x > 1 else None


def to_point(x: int) -> Point:
    return Point(x, ["q"] * x)


@pytest.fixture
def ds(tmp_path: Path) -> Iterator[Datasets]:
    with ml.init(tmp_path) as repo:
        yield repo.datasets()


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fragments of ten rows."""
    monkeypatch.setattr(parquet, "ROWS", 10)


@pytest.mark.parametrize(
    ("function", "made"),
    [
        (lambda x: x + 1, [2, 3]),
        (lambda: 7, [7, 7]),
        (with_default, [6, 7]),
        (functools.partial(with_default, k=10), [11, 12]),
        (Model(3).times, [3, 6]),
        (Model(3), [4, 5]),
        (awaited, [2, 4]),
        (Waiting(), [2, 3]),
        (functools.partial(awaited), [2, 4]),
        (maybe, [None, 2]),
        (lambda x, **rest: x, [1, 2]),
        (lambda *, x: x, [1, 2]),
    ],
    ids=[
        "lambda",
        "nothing",
        "default",
        "partial",
        "method",
        "object",
        "async",
        "async-object",
        "async-partial",
        "optional",
        "rest",
        "keyword",
    ],
)
def test_map_takes_any_kind_of_function(ds: Datasets, function: Callable[..., Any], made: list[Any]) -> None:
    assert ds.read_values(x=[1, 2]).map(y=function).to_values("y") == made


def test_map_binds_columns_by_params_also_for_builtins_and_nested_ones(ds: Datasets) -> None:
    found = ds.read_values(s=["ab", "c"], x=[1, 2])
    assert found.map(n=len, params="s").to_values("n") == [2, 1]
    assert found.map(y=lambda a, b: f"{a}{b}", params=["x", "s"]).to_values("y") == ["1ab", "2c"]
    assert found.map(p=to_point).map(q=lambda v: v + 1, params=["p.a"]).to_values("q") == [2, 3]


def test_map_replaces_a_column_it_reads(ds: Datasets) -> None:
    numbers = ds.read_values(x=[1, 2])
    assert numbers.map(y=lambda x: x * 2).to_values("y") == [2, 4]
    assert numbers.map(x=lambda x: x * 2).to_values("x") == [2, 4]
    assert numbers.map(x=lambda x: x * 2).save("doubled").to_list() == [(2,), (4,)]


def test_map_makes_several_columns_by_names_or_types(ds: Datasets) -> None:
    numbers = ds.read_values(x=[1, 2])
    typed = numbers.map(lambda x: (x, str(x)), output={"a": int, "b": str})
    assert typed.to_list() == [(1, 1, "1"), (2, 2, "2")]
    assert numbers.map(lambda x: (x, str(x)), output=["a", "b"]).to_list() == typed.to_list()
    assert numbers.map(a=lambda x: x + 1, b=lambda a: a + 1).to_list() == [(1, 2, 3), (2, 3, 4)]


def test_gen_yields_rows_in_every_way(ds: Datasets) -> None:
    numbers = ds.read_values(x=[1, 2, 0])
    assert numbers.gen(y=lambda x: list(range(x))).to_list() == [(0,), (0,), (1,)]
    assert numbers.gen(y=awaited_list).to_values("y") == [1, 2, 2]
    assert numbers.gen(y=awaited_items).to_values("y") == [0, 0, 1]
    several = numbers.gen(lambda x: ((i, str(i)) for i in range(x)), output={"a": int, "b": str})
    assert several.to_list() == [(0, "0"), (0, "0"), (1, "1")]
    assert numbers.gen(y=lambda x: []).save("none").to_list() == []
    assert numbers.gen(y=lambda x: None).count() == 0
    assert numbers.gen(p=lambda x: [to_point(x)]).to_values("p")[0] == Point(1, ["q"])


def test_agg_gives_lists_of_each_group_also_of_untyped_columns(ds: Datasets) -> None:
    found = ds.read_values(k=["a", "b", "a"], x=[1, 2, 3])
    assert found.agg(s=lambda k, x: [(k[0] + str(sum(x)))], partition_by="k").to_values("s") == ["a4", "b2"]
    assert found.map(y=lambda x: x * 2).agg(s=lambda y: [sum(y)], partition_by="k").to_values("s") == [8, 4]
    assert found.agg(s=lambda x: [sum(x)]).to_values("s") == [6]


@pytest.mark.parametrize(
    "function",
    [lambda x: x + 1, annotated, listed, lambda x: pa.array(x + 1), lambda x: list(x + 1)],
    ids=["numpy", "arrow", "list", "arrow out", "list out"],
)
def test_batch_map_takes_and_gives_numpy_arrow_and_lists(ds: Datasets, function: Callable[..., Any]) -> None:
    chain = ds.read_values(x=range(100)).settings(batch_size=7).batch_map(y=function)
    assert chain.to_values("y") == list(range(1, 101))


def test_batch_map_keeps_arrow_types_we_do_not_as_those_we_do(ds: Datasets) -> None:
    texts = ds.read_values(x=["a", "b"])
    large = texts.batch_map(y=lambda x: pa.array(list(x), pa.large_string())).save("large")
    words = texts.batch_map(y=lambda x: pa.array(list(x)).dictionary_encode()).save("words")
    assert large.to_list() == words.to_list() == [("a", "a"), ("b", "b")]
    vectors = texts.batch_map(v=lambda x: np.ones((len(x), 3), "f4"))
    assert [list(one) for one in vectors.to_values("v")] == [[1, 1, 1]] * 2


def test_a_batch_of_the_wrong_length_or_that_fails_is_told(ds: Datasets) -> None:
    numbers = ds.read_values(x=[1, 2])
    with pytest.raises(ml.errors.InvalidInput, match="1 values for a batch of 2 rows"):
        numbers.batch_map(y=lambda x: x[:1]).to_list()
    with pytest.raises(ml.Error, match=r"begins with x=1(.|\n)*ZeroDivisionError"):
        numbers.batch_map(y=lambda x: 1 // 0).to_list()
    assert numbers.settings(on_error="skip").batch_map(y=lambda x: 1 // 0).to_list() == []
    kept = numbers.settings(on_error="column", batch_size=1).batch_map(y=lambda x: [6 // (int(x[0]) - 1)])
    assert kept.to_list() == [(1, None, "ZeroDivisionError: integer division or modulo by zero"), (2, 6, None)]


def test_setup_is_made_once_and_given_by_name(ds: Datasets, tmp_path: Path) -> None:
    log = tmp_path / "made"

    def make() -> Model:
        with log.open("a") as file:
            file.write("made\n")
        return Model(10)

    chain = ds.read_values(x=range(100)).setup(model=make).map(y=lambda x, model: model.times(x))
    assert chain.to_values("y") == list(range(0, 1000, 10))
    assert log.read_text() == "made\n"


def test_threads_and_coroutines_keep_the_order_of_rows(ds: Datasets) -> None:
    numbers = ds.read_values(x=range(50)).settings(threads=8, concurrency=8)

    def slow(x: int) -> int:
        time.sleep(0.001 * (x % 3))
        return x

    async def waits(x: int) -> int:
        await asyncio.sleep(0.001 * (x % 3))
        return x

    assert numbers.map(y=slow).to_values("y") == numbers.map(y=waits).to_values("y") == list(range(50))


def test_classes_come_back_as_themselves_from_a_saved_dataset(ds: Datasets) -> None:
    saved = ds.read_values(x=[1, 2]).map(p=to_point).save("points")
    assert saved.to_values("p") == [Point(1, ["q"]), Point(2, ["q", "q"])]
    assert saved.map(n=lambda p: p.a + len(p.b)).to_values("n") == [2, 4]
    assert saved.filter(C("p.a") > 1).map(n=lambda p: type(p).__name__).to_values("n") == ["Point"]


def test_files_pass_through_functions_and_saves(ds: Datasets, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "a.txt").write_text("hello")
    saved = ds.read_storage(tmp_path / "data", type="text").map(copy=lambda file: file).save("files")
    assert saved.map(n=lambda copy: copy.read()).to_values("n") == ["hello"]
    assert saved.schema == {"file": "TextFile", "copy": "TextFile"}


def test_pydantic_models_go_in_and_out(ds: Datasets) -> None:
    pydantic = pytest.importorskip("pydantic")
    box = pydantic.create_model("Box", x=(int, ...), tags=(list[str], []), __module__=__name__)
    globals()["Box"] = box
    saved = ds.read_values(x=[1]).map(b=lambda x: box(x=x, tags=["t"])).save("boxes")
    assert saved.to_values("b") == [box(x=1, tags=["t"])]
    assert saved.map(n=lambda b: b.x).to_values("n") == [1]


# -- types that show row by row --------------------------------------------------------------------


@pytest.mark.parametrize("at", [5, 10, 32, 40])
@pytest.mark.parametrize("pause", [0, 0.001])
def test_numbers_widen_across_batches_and_fragments(ds: Datasets, small: None, at: int, pause: float) -> None:
    def half(x: int) -> Any:
        time.sleep(pause)
        return x if x < at else x + 0.5

    made = ds.read_values(x=range(50)).map(y=half)
    wanted = [half(x) for x in range(50)]
    assert made.to_values("y") == wanted
    assert made.save("halves").to_values("y") == wanted
    assert made.save("halves").schema["y"] == "float"


@pytest.mark.parametrize(
    ("first", "then"),
    [
        (None, 3),
        (None, [1, 2]),
        ([], ["a"]),
        ({"a": 1}, {"a": 1, "b": "x"}),
        (np.ones(2, "f4"), np.ones(3, "f4")),
        ([1], [1.5]),
        ((1, 2), (1.5, 2)),
        (Point(1, []), None),
        (True, False),
        (np.float32(1), 2.5),
    ],
    ids=str,
)
def test_values_of_several_shapes_get_one_type_that_holds_all(ds: Datasets, small: None, first: Any, then: Any) -> None:
    for at in (5, 20):
        chain = ds.read_values(x=range(40)).map(y=lambda x, at=at: first if x < at else then)
        for found in (chain, chain.save("shapes")):
            values = found.to_values("y")
            assert [_same(value) for value in (values[0], values[-1])] == [_same(first), _same(then)]


def _same(value: Any) -> Any:
    return list(value) if isinstance(value, np.ndarray | tuple) else value


def test_gen_widens_across_fragments_too(ds: Datasets, small: None) -> None:
    def some(x: int) -> list[Any]:
        time.sleep(0.001)
        return [x if x < 20 else x + 0.5] * (x % 3)

    some.__annotations__.clear()
    made = ds.read_values(x=range(40)).gen(y=some)
    wanted = [value for x in range(40) for value in [x if x < 20 else x + 0.5] * (x % 3)]
    assert made.to_values("y") == made.save("rows").to_values("y") == wanted


def test_columns_may_be_called_as_we_call_things(ds: Datasets, small: None) -> None:
    found = ds.read_values(keep=range(40)).map(rows=lambda keep: keep if keep < 33 else keep + 0.5)
    assert found.filter(C("keep") > 30).save("rows").to_values("rows") == [31, 32, *(x + 0.5 for x in range(33, 40))]
    assert found.gen(rows=lambda rows: [rows]).count() == 40


def test_types_that_never_meet_are_told_with_the_column(ds: Datasets, small: None) -> None:
    for at in (5, 20):
        with pytest.raises(ml.errors.InvalidInput, match="'y' cannot be int and str"):
            ds.read_values(x=range(40)).map(y=lambda x, at=at: x if x < at else "a").save("mixed")
    assert ds.all() == []


# -- rows that fail --------------------------------------------------------------------------------


def test_where_a_function_failed_is_shown_without_the_way_through_memlake(ds: Datasets, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("hey")
    chain = ds.read_storage(tmp_path, type="text")
    chain.save("listed")
    (tmp_path / "a.txt").unlink()
    with pytest.raises(ml.Error) as told:
        chain.map(n=lambda file: len(file.read())).save("read")
    assert Path(__file__).name in str(told.value) and "files.py" not in str(told.value) and "a.txt" in str(told.value)


def test_a_failing_row_names_itself_and_nothing_is_saved(ds: Datasets) -> None:
    with pytest.raises(ml.Error) as caught:
        ds.read_values(x=range(100), s=["t"] * 100).map(y=lambda x: 1 // (x - 77)).save("bad")
    assert "x=77" in str(caught.value)
    assert "ZeroDivisionError" in str(caught.value)
    assert "test_call_step.py" in str(caught.value)
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    assert ds.all() == []


@pytest.mark.parametrize("how", [{}, {"threads": 4}])
def test_failing_rows_are_skipped_or_told_in_a_column(ds: Datasets, small: None, how: dict[str, Any]) -> None:
    numbers = ds.read_values(x=range(30)).filter(C("x") % 2 == 0)
    skipped = numbers.settings(on_error="skip", **how).map(y=lambda x: 60 // (x - 4))
    assert skipped.save("skipped").to_list() == [(x, 60 // (x - 4)) for x in range(0, 30, 2) if x != 4]
    told = numbers.settings(on_error="column", **how).map(y=lambda x: 60 // (x - 4)).save("told").to_records()
    assert [row["x"] for row in told if row["y_error"]] == [4]
    assert told[2] == {"x": 4, "y": None, "y_error": "ZeroDivisionError: integer division or modulo by zero"}


def test_a_limit_is_taken_before_functions_run(ds: Datasets, tmp_path: Path) -> None:
    log = tmp_path / "calls"

    def noted(x: int) -> Any:
        with log.open("a") as file:
            file.write("x")
        return x

    noted.__annotations__.clear()
    chain = ds.read_values(x=range(1000)).map(y=noted).mutate(z=C("y") + 1)
    assert chain.limit(3).to_values("z") == [1, 2, 3]
    assert chain.offset(998).to_values("z") == [999, 1000]
    assert log.stat().st_size == 5
    chain.show(2)
    assert chain.schema["z"] == "int"
    assert log.stat().st_size <= 5 + 3 + 16


def test_columns_made_of_kept_rows_do_not_trip_over_dropped_ones(ds: Datasets) -> None:
    texts = ds.read_values(s=["1", "x", "3"] * 50_000)
    kept = texts.filter(C("s") != "x").mutate(n=C("s").cast(int)).filter(C("s").cast(int) > 0).save("kept")
    assert (kept.sum("n"), kept.count()) == (200_000, 100_000)


def test_only_columns_somebody_asks_for_are_made(ds: Datasets) -> None:
    found = ds.read_values(x=[2, 1], w=[5, 6]).order_by("x").map(q=lambda x: x + 1)
    assert found.mutate(y=C("x") + 1, z=C("w") + 1).select("y").save("y").to_list() == [(2,), (3,)]


def test_models_come_back_as_they_were_stored_whatever_their_validators_do(ds: Datasets) -> None:
    pydantic = pytest.importorskip("pydantic")

    class Price(pydantic.BaseModel):
        amount: int
        unit: Annotated[str, pydantic.AfterValidator(lambda text: text + "!")] = "eur"

        @pydantic.field_validator("amount")
        @classmethod
        def _tenfold(cls, value: int) -> int:
            return value * 10

    class Offer(pydantic.BaseModel):
        price: Price
        others: list[Price] = pydantic.Field(default_factory=list)

        @pydantic.model_validator(mode="after")
        def _once(self) -> Any:
            self.others = [*self.others, self.price]
            return self

    def offer(x: int) -> Any:
        return Offer(price=Price(amount=x, unit="usd"))

    saved = ds.read_values(x=[1]).map(o=offer).save("offers")
    assert saved.to_values("o") == [offer(1)] and saved.to_values("o")[0].price.amount == 10
    assert saved.map(n=lambda o: o.price.amount + len(o.others)).to_values("n") == [11]
