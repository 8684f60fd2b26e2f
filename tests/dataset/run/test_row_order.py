"""Rows have a place: ties, the first of a group, pages, chunks and seeded samples are the same at every run.

At so many rows the engine works with several threads, which hand rows over in an order of their own.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

import memlake as ml
from memlake import func
from memlake.dataset.chain import Chain
from memlake.dataset.datasets import Datasets
from memlake.dataset.run.engine import Engine
from memlake.rows.sql import Sql

N = 300_000
KEYS = [n * 7919 % 50_021 for n in range(N)]
TIES = [n % 10 for n in range(N)]


@pytest.fixture(scope="module")
def big(tmp_path_factory: pytest.TempPathFactory) -> Datasets:
    repo = ml.init(tmp_path_factory.mktemp("big"))
    data = repo.datasets()
    data.read_values(n=range(N), k=KEYS, s=TIES).save("big")
    return data


def first_of(values: list[int]) -> list[int]:
    seen: dict[int, int] = {}
    for place, value in enumerate(values):
        seen.setdefault(value, place)
    return list(seen.values())


def read(big: Datasets) -> Chain:
    return big.read_dataset("big")


STEPS: dict[str, Callable[[Chain], Chain]] = {
    "group_by": lambda c: c.group_by("k", n=func.count()),
    "distinct": lambda c: c.distinct("k"),
    "distinct rows": lambda c: c.select("k").distinct(),
    "order_by": lambda c: c.order_by("s"),
    "merge": lambda c: c.merge(c.select("n", "s"), on="n"),
    "subtract": lambda c: c.subtract(c.filter(ml.C("s") == 3).select("n"), on="n"),
    "window": lambda c: c.mutate(r=func.row_number().over(func.window(partition_by="s", order_by="k"))),
}


@pytest.mark.parametrize("step", STEPS)
def test_chunks_pages_and_samples_are_of_one_order(big: Datasets, step: str) -> None:
    chain = STEPS[step](read(big))
    name = "k" if "k" in chain.columns and step != "order_by" else "n"
    whole = chain.to_values(name)
    chunks = [chain.chunk(i, 3).to_values(name) for i in range(3)]
    assert sorted(value for part in chunks for value in part) == sorted(whole)
    half = len(whole) // 2
    assert chain.limit(half).to_values(name) + chain.offset(half).to_values(name) == whole
    assert chain.sample(50, seed=1).to_values(name) == chain.sample(50, seed=1).to_values(name)


def test_groups_come_in_the_order_of_their_keys(big: Datasets) -> None:
    assert read(big).group_by("k", n=func.count()).to_values("k") == sorted(set(KEYS))


@pytest.mark.parametrize("descending", [False, True])
def test_of_equal_rows_the_first_comes_first(big: Datasets, descending: bool) -> None:
    wanted = sorted(range(N), key=lambda n: -TIES[n] if descending else TIES[n])
    assert read(big).order_by("s", descending=descending).to_values("n") == wanted
    assert read(big).order_by("s", descending=descending).limit(5).to_values("n") == wanted[:5]


def test_of_rows_with_one_key_the_first_is_kept(big: Datasets) -> None:
    assert read(big).distinct("k").to_values("n") == first_of(KEYS)
    assert read(big).select("s").distinct().to_values("s") == list(range(10))


def test_what_depends_on_order_takes_the_rows_as_they_lie(big: Datasets) -> None:
    found = read(big).group_by("s", f=func.first("n"), e=func.last("n"), all=func.collect("n"))
    rows = {s: [n for n in range(N) if TIES[n] == s] for s in range(10)}
    assert found.to_list() == [(s, ns[0], ns[-1], ns) for s, ns in rows.items()]
    by_key = read(big).group_by("s", f=func.first("n", order_by="s")).to_values("f")
    assert by_key == list(range(10)), "equal in the order that is asked for"


def test_steps_that_join_rows_keep_the_order_of_the_left(big: Datasets) -> None:
    other = big.read_values(s=[0, 1, 2, 2], w=[7, 8, 9, 10])
    joined = read(big).merge(other, on="s")
    wanted = [(n, w) for n in range(N) for w in {0: [7], 1: [8], 2: [9, 10]}.get(TIES[n], [None])]
    assert [row[0::3] for row in joined.select("n", "k", "s", "w").to_list()] == wanted
    kept = read(big).subtract(big.read_values(s=[1, 2, 5]), on="s").to_values("n")
    assert kept == [n for n in range(N) if TIES[n] not in (1, 2, 5)]


def test_windows_tell_equal_rows_apart_by_their_place(big: Datasets) -> None:
    rows = func.window(order_by="s")
    found = read(big).mutate(r=func.row_number().over(rows), rank=func.rank().over(rows), sum=func.count().over(rows))
    table = found.select("n", "r", "rank", "sum").to_list()
    places = {n: place for place, n in enumerate(sorted(range(N), key=TIES.__getitem__), 1)}
    each = N // 10
    assert table == [(n, places[n], TIES[n] * each + 1, (TIES[n] + 1) * each) for n in range(N)]


def test_what_no_order_is_asked_of_is_not_sorted(big: Datasets, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Sql] = []
    relation = Engine.relation
    monkeypatch.setattr(Engine, "relation", lambda *a, **how: asked.append(relation(*a, **how)) or asked[-1])
    chain = read(big).order_by("s").merge(read(big).select("n"), on="n")
    assert chain.count() == N and "ORDER BY" not in asked[-1].render().text
    assert chain.limit(3).to_values("n") == [0, 10, 20] and "ORDER BY" in asked[-1].render().text
