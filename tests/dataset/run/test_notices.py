"""What a person is told of a result, though nothing went wrong."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import memlake as ml
from memlake.dataset.chain import Chain
from memlake.dataset.datasets import Datasets
from memlake.dataset.run.engine import Engine
from memlake.rows.sql import Sql

C = ml.C


@pytest.fixture
def ds(repo: ml.Repo) -> Datasets:
    return repo.datasets()


@pytest.fixture
def files(ds: Datasets, here: Path) -> Chain:
    (here / "imgs").mkdir()
    for name in ("cat.jpg", "dog.jpg"):
        (here / "imgs" / name).write_bytes(b"x")
    return ds.read_storage(here / "imgs")


@pytest.fixture
def labels(ds: Datasets) -> Chain:
    return ds.read_values(path=["cat.jpg", "dog.jpg"], label=["cat", "dog"])


ENDS: dict[str, Callable[[Chain], Any]] = {
    "to_list": lambda c: c.to_list(),
    "save": lambda c: c.save("joined"),
    "select": lambda c: c.select("label").to_pandas(),
    "function": lambda c: c.map(n=lambda label: label or "", output=str).to_list(),
    "group": lambda c: c.group_by(n=ml.func.max("label")).to_list(),
    "filter": lambda c: c.filter(C("label") == "cat").to_list(),
}


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
def test_a_left_join_without_a_match_is_told_with_its_keys(
    files: Chain, labels: Chain, end: Callable[..., Any]
) -> None:
    with pytest.warns(UserWarning, match="merge found no match: none of 2 rows") as told:
        end(files.merge(labels, on="file.path", right_on="path"))
    assert "file.path is like 'imgs/cat.jpg', 'imgs/dog.jpg'" in str(told[-1].message)
    assert "path is like 'cat.jpg', 'dog.jpg'" in str(told[-1].message)
    assert told[-1].filename == __file__


JOINS: dict[str, Callable[[Chain, Chain], Any]] = {
    "a match": lambda c, o: c.merge(o, on="x"),
    "one match": lambda c, o: c.merge(o.filter(C("x") == 2), on="x"),
    "nothing but None on the right": lambda c, o: c.merge(o.mutate(y=ml.lit(None)), on="x"),
    "no rows on the left": lambda c, o: c.filter(C("x") > 5).merge(o, on="x"),
    "no rows on the right": lambda c, o: c.merge(o.filter(C("x") > 5), on="x"),
    "inner": lambda c, o: c.merge(o.mutate(x=C("x") + 9), on="x", inner=True),
    "a column of None on the left": lambda c, o: c.mutate(z=ml.lit(None)).merge(o, on="x"),
}


@pytest.mark.parametrize("join", JOINS.values(), ids=JOINS)
def test_other_joins_are_not_warned_of(ds: Datasets, join: Callable[..., Any]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        join(ds.read_values(x=[1, 2]), ds.read_values(x=[1, 2], y=["a", "b"])).to_list()


@pytest.fixture
def statements(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What engines are asked, in its order."""
    texts: list[str] = []
    real = Engine.sql

    def sql(engine: Engine, asked: Sql) -> Any:
        texts.append(asked.render().text)
        return real(engine, asked)

    monkeypatch.setattr(Engine, "sql", sql)
    return texts


def test_a_join_is_not_asked_about_where_nothing_of_its_right_side_is_wanted(
    ds: Datasets, statements: list[str]
) -> None:
    left = ds.read_values(x=[1, 2], note=[None, None], output={"x": int, "note": str})
    rows = left.merge(ds.read_values(x=[1, 2], y=["a", "b"]), on="x").select("x", "note")
    assert rows.to_list() == [(1, None), (2, None)]
    assert len(statements) == 1


def test_a_join_is_asked_for_one_row_and_not_counted(ds: Datasets, statements: list[str]) -> None:
    left, right = ds.read_values(x=[1, 2]), ds.read_values(x=[1, 2], y=["a", "b"])
    assert left.merge(right, on="x").filter(C("y") == "c").to_list() == []
    assert len(statements) == 2 and statements[1].endswith("LIMIT 1")
