"""What a run does without: keys of rows before a function cost as much, and an engine where all is remembered."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import memlake as ml
from memlake.dataset.run.call_step import Calling
from memlake.dataset.run.call_work import Work
from memlake.dataset.run.work_items import Pace
from memlake.dataset.run_settings import Settings
from memlake.rows import duckdb_connections

ROWS = 100_000


@pytest.fixture
def keyed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many rows were given keys, each time that was done."""
    counts: list[int] = []
    real = Calling._row_keys

    def counted(self: Calling, table: pa.Table) -> Any:
        counts.append(table.num_rows)
        return real(self, table)

    monkeypatch.setattr(Calling, "_row_keys", counted)
    return counts


@pytest.fixture
def datasets(tmp_path: Path) -> Iterator[Any]:
    with ml.init(tmp_path / "repo") as repo:
        yield repo.datasets()


def test_one_slow_row_at_the_start_does_not_make_a_quick_function_dear(datasets: Any, keyed: list[int]) -> None:
    def stumbles(x: int) -> int:
        if x == 0:
            time.sleep(0.005)
        return x + 1

    made = datasets.read_values(x=list(range(ROWS))).map(y=stumbles).save("made")
    assert made.count() == ROWS
    assert keyed == []


def test_few_rows_of_a_slow_function_are_remembered_one_by_one(datasets: Any, keyed: list[int]) -> None:
    def slow(x: int) -> int:
        time.sleep(0.001)
        return x + 1

    datasets.read_values(x=list(range(20))).map(y=slow).save("made")
    assert keyed == [20]
    again = datasets.read_values(x=list(range(21))).map(y=slow)
    with datasets.session.run(again.plan, again._settings) as engine:
        engine.frame(again.plan)
    assert (engine.ran[0].called, engine.ran[0].recalled) == (1, 20)


def test_a_first_row_is_run_by_itself_and_says_nothing_of_the_rest_yet() -> None:
    pace = Pace(total=1_000_000, one_by_one=True)
    assert pace.next() == 1
    pace.add(1, 1e-4)  # mostly the start
    assert pace.left() == 0 and pace.next() == 32, "no worker is started for it, and no large item risked on it"
    pace.add(32, 32e-6)
    assert pace.left() > 0 and pace.next() == 16_384
    dear = Pace(total=100, one_by_one=True)
    dear.add(1, 60)
    assert dear.left() == 99 * 60 and dear.next() == 1


async def awaited(x: int) -> int:
    return x


def plain(x: int) -> int:
    return x


REMOTE, LOCAL = {"source": "s3://bucket", "path": "a"}, {"source": "file:///home", "path": "a"}


@pytest.mark.parametrize(
    ("kind", "function", "settings", "value", "is_one"),
    [
        ("map", plain, {}, 1, True),
        ("gen", plain, {}, LOCAL, True),
        ("map", plain, {}, REMOTE, False),
        ("map", plain, {"prefetch": 0}, REMOTE, True),
        ("map", plain, {"threads": 2}, 1, False),
        ("map", awaited, {}, 1, False),
        ("batch_map", plain, {}, 1, False),
    ],
)
def test_rows_that_share_their_time_are_not_run_one_by_one(
    kind: str, function: Any, settings: dict[str, Any], value: Any, *, is_one: bool
) -> None:
    batch = pa.table({"x": [value]})
    work = Work(kind, function, {"x": "x"}, {}, batch.schema, (), single=True, settings=Settings(**settings))
    assert work.is_one_by_one(batch) is is_one


def test_a_save_that_is_all_remembered_opens_no_connection(datasets: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def slow(x: int) -> int:
        time.sleep(0.001)
        return x + 1

    def save() -> Any:
        return datasets.read_dataset("numbers").map(y=slow).save("made")

    datasets.read_values(x=list(range(100))).save("numbers")
    save()
    opened: list[str] = []
    real = duckdb_connections.engine
    monkeypatch.setattr(
        duckdb_connections, "engine", lambda spill, *others: opened.append(spill) or real(spill, *others)
    )
    assert save().reused
    assert opened == []
    datasets.read_dataset("numbers").filter(ml.C("x") > 50).count()
    assert len(opened) == 1


def test_a_chain_without_coroutines_does_not_load_their_loop(tmp_path: Path) -> None:
    with ml.init(tmp_path / "repo") as repo:
        repo.datasets().read_values(x=[1, 2]).save("made")
    text = "import sys, memlake as ml; print(ml.read_dataset('made').to_list(), 'asyncio' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", text], cwd=tmp_path / "repo", check=True, capture_output=True, text=True
    )
    assert done.stdout.strip() == "[(1,), (2,)] False"
