"""Memo: what was done before is answered from memory when, and only when, doing it again would give the same."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import memlake as ml
from memlake.dataset import storages
from memlake.dataset.chain import Chain
from memlake.dataset.datasets import Datasets
from memlake.dataset.memo import listings
from memlake.dataset.parts import parquet
from memlake.dataset.run.engine import Ran
from tests.dataset.memo.edits import CASES

C = ml.C
LOG = Path("calls")


@pytest.fixture
def ds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Datasets]:
    monkeypatch.chdir(tmp_path)
    with ml.init(tmp_path) as repo:
        yield repo.datasets()


def calls() -> int:
    """How often `dear` was called since this was last asked."""
    count = LOG.stat().st_size if LOG.exists() else 0
    LOG.unlink(missing_ok=True)
    return count


def dear(x: Any) -> Any:
    """Dear enough to be remembered row by row."""
    with LOG.open("a") as file:
        file.write("x")
    time.sleep(0.0005)
    return x * 2


def ran(chain: Chain) -> list[Ran]:
    """What the functions of a chain did, without a save that would answer for all of it."""
    with chain._session.run(chain.plan, chain._settings) as engine:
        engine.table(chain.plan)
        return engine.ran


# -- input edits -----------------------------------------------------------------------------------


def test_the_same_work_is_answered_from_memory_whatever_it_is_saved_as(ds: Datasets) -> None:
    ds.read_values(x=range(100)).save("numbers")
    assert ds.read_dataset("numbers").map(y=dear).save("a").to_values("y") == [2 * x for x in range(100)]
    assert calls() == 100
    assert ds.read_dataset("numbers").map(y=dear).save("a").reused
    ds.read_dataset("numbers").map(y=dear).save("b")
    ds.read_dataset("numbers").map(z=dear).save("c")
    ds.read_dataset("numbers").mutate(k=C("x")).select("k").map(y=dear, params=["k"]).save("d")
    assert calls() == 0
    assert ds.read_dataset("c").to_list() == ds.read_dataset("a").to_list()


def test_a_renamed_dataset_an_unrelated_column_and_another_branch_rerun_nothing(ds: Datasets) -> None:
    ds.read_values(x=range(50), other=[1] * 50).save("numbers").map(y=dear).save("a")
    calls()
    ds.move_dataset("numbers", "moved")
    ds.read_dataset("moved").map(y=dear).save("b")
    ds.read_values(x=range(50), other=[2] * 50).save("numbers").map(y=dear).save("c")
    ds.read_values(x=range(50)).map(y=dear).save("d")
    assert calls() == 0
    assert ds.read_dataset("c").to_list("other", "y")[3] == (2, 6)


@pytest.mark.parametrize("rows", [7, 1000])
def test_changed_grown_and_shrunk_inputs_run_only_what_is_new(
    ds: Datasets, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet, "ROWS", rows)
    before = list(range(50))
    ds.read_values(x=before).save("numbers").map(y=dear).save("a")
    assert calls() == 50
    for now, new in [
        ([*before, 50, 51], 2),
        ([x for x in before if x % 2], 0),
        ([100 if x == 20 else x for x in before], 1),
        (before[::-1], 0),
        ([], 0),
    ]:
        made = ds.read_values(x=now).save("numbers").map(y=dear).save("a")
        assert made.to_list("x", "y") == [(x, 2 * x) for x in now]
        assert calls() == new
    assert ds.read_dataset("numbers@1.0.0").filter(C("x") > 25).map(y=dear).sum("y") == sum(
        2 * x for x in range(26, 50)
    )
    assert calls() == 0


def test_files_of_rows_that_grew_or_changed_run_only_what_is_new(ds: Datasets, tmp_path: Path) -> None:
    for kind, read in {"parquet": ds.read_parquet, "csv": ds.read_csv}.items():
        file, shift = tmp_path / f"rows.{kind}", 1000 if kind == "csv" else 0
        for numbers, new in [(range(20), 20), (range(20), 0), (range(25), 5), ([*range(24), 99], 1)]:
            wanted = [shift + x for x in numbers]
            getattr(ds.read_values(x=wanted), f"to_{kind}")(file)
            os.utime(file, ns=(time.time_ns(), time.time_ns()))
            assert read(file).map(y=dear).save(f"from_{kind}").to_values("y") == [2 * x for x in wanted]
            assert calls() == new


def test_a_file_of_rows_edited_without_another_size_or_time_is_read_again(ds: Datasets, tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    for number in (1, 2):
        file.write_text(f"x\n{number}\n")
        os.utime(file, ns=(5, 5))
        assert ds.read_csv(file).map(y=dear).save("from_csv").to_values("y") == [2 * number]
        time.sleep(0.02)  # a file system's clock ticks some hundred times a second


def test_a_listing_with_new_changed_and_removed_files_runs_only_those(ds: Datasets, tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()

    def look() -> dict[str, str]:
        chain = ds.read_storage(folder, type="text").map(text=read).save("texts")
        return {file.name: text for file, text in chain.to_iter("file", "text")}

    def read(file: ml.TextFile) -> str:
        dear(1)
        return file.read()

    texts = {f"{i}.txt": f"text {i}" for i in range(10)}
    for name, text in texts.items():
        (folder / name).write_text(text)
    assert (look(), calls()) == (texts, 10)
    assert (look(), calls()) == (texts, 0)
    (folder / "3.txt").write_text("another text")
    (folder / "new.txt").write_text("new")
    (folder / "5.txt").unlink()
    texts |= {"3.txt": "another text", "new.txt": "new"}
    del texts["5.txt"]
    assert (look(), calls()) == (texts, 2)
    (folder / "5.txt").write_text("text 5")
    assert look() == {**texts, "5.txt": "text 5"}


def test_only_storages_that_were_reached_in_a_way_of_their_own_are_looked_up(
    ds: Datasets, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The fragments of a listing lie before its access in the file: a look at each would read through all of them."""
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "1.txt").write_text("x")
    for config in ({}, {"region": "us-east-1"}):
        ds.read_storage(str(tmp_path / "a"), recursive=not config, client_config=config).count()
    recall, read = ds.context.recall, list[tuple[Any, ...]]()
    rows = recall._rows
    monkeypatch.setattr(recall, "_rows", lambda sql: (read.extend(rows("EXPLAIN QUERY PLAN " + sql)), rows(sql))[1])
    assert [access["client_config"] for access in recall.accesses().values()] == [{"region": "us-east-1"}]
    assert "COVERING INDEX listing_access" in read[0][-1]


def test_rows_are_told_apart_by_type_and_class_not_by_how_they_print(ds: Datasets, tmp_path: Path) -> None:
    def kind(x: Any) -> str:
        time.sleep(0.0005)
        return type(x).__name__

    stamp = ds.read_values(x=["2020-01-01 00:00:00"]).mutate(x=C("x").cast("timestamp"))
    for chain, name in [
        (ds.read_values(x=["1"]), "str"),
        (ds.read_values(x=[1]), "int"),
        (ds.read_values(x=[1.0]), "float"),
        (ds.read_values(x=[b"1"]), "bytes"),
        (ds.read_values(x=["2020-01-01 00:00:00"]), "str"),
        (stamp, "datetime"),
        (ds.read_values(x=[[1]]), "list"),
    ]:
        assert chain.map(k=kind).to_values("k") == [name]
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "a.txt").write_text("a")
    for how, name in [("binary", "File"), ("text", "TextFile"), ("image", "ImageFile")]:
        assert ds.read_storage(tmp_path / "d", type=how, column="x").map(k=kind).to_values("k") == [name]


@pytest.mark.parametrize(
    ("kind", "first", "then"),
    [
        (pa.timestamp("ns"), [1, 2], [2, 3]),
        (pa.timestamp("ns", "UTC"), [1], [2]),
        (pa.decimal128(20, 5), [Decimal("1.00001")], [Decimal("1.00002")]),
        (pa.decimal256(50, 2), [Decimal("1.01")], [Decimal("1.02")]),
        (pa.float64(), [math.nan, 0.0, math.inf], [-0.0, math.nan, -math.inf]),
        (pa.float32(), [0.1], [0.10000001]),
        (pa.float16(), [1.0], [2.0]),
        (pa.uint64(), [2**64 - 1], [2**64 - 2]),
        (pa.binary(), [b"\xff\x00", b"\\xFF\\x00"], [b"\xff\x00", b"\xff"]),
        (pa.string(), ["a\x00b", "null", ""], ["a", "a\x00b", None]),
        (pa.duration("us"), [1, 2, 86_400_000_001], [2, 3, None]),
        (pa.time64("us"), [1], [2]),
        (pa.map_(pa.string(), pa.int64()), [[("a", 1)]], [[("a", 2)]]),
        (pa.list_(pa.float32(), 2), [[1, 2]], [[1, 3], None]),
        (pa.struct([("a", pa.int64()), ("b", pa.binary())]), [{"a": 1, "b": b"1"}], [{"a": 1, "b": b"2"}, None]),
        (pa.large_list(pa.large_string()), [["a"]], [["b"], []]),
    ],
    ids=str,
)
def test_rows_of_every_type_are_told_apart_and_kept(
    ds: Datasets, kind: pa.DataType, first: list[Any], then: list[Any]
) -> None:
    def seen(x: Any) -> str:
        time.sleep(0.0005)
        return repr(x)

    for values in (first, then, first + then):
        found = ds.read_arrow(pa.table({"x": pa.array(values, kind)}))
        fresh = [repr(value) for value in found.to_values("x")]
        assert found.map(y=seen).to_values("y") == fresh
        saved = found.save("typed")
        assert [repr(value) for value in saved.to_values("x")] == fresh
        kept = saved.filter(C("x").is_null() | C("x").is_not_null())
        assert [repr(value) for value in kept.to_values("x")] == fresh


def test_parameters_bound_to_other_columns_are_other_work(ds: Datasets) -> None:
    found = ds.read_values(a=[1], b=[2])

    def minus(x: int, y: int) -> int:
        time.sleep(0.0005)
        return x - y

    binds = [["a", "b"], ["b", "a"], ["a", "a"], ["b", "b"]]
    assert [found.map(d=minus, params=each).to_values("d") for each in binds] == [[-1], [1], [0], [0]]


def test_types_an_earlier_run_showed_do_not_change_those_of_a_later(ds: Datasets) -> None:
    def same(x: Any) -> Any:
        time.sleep(0.0005)
        return x

    assert ds.read_values(x=[1.5]).map(y=same).schema["y"] == "float"
    assert ds.read_values(x=[1, 2]).map(y=same).save("ints").schema["y"] == "int"
    assert ds.read_values(x=[1, 2, 3]).map(y=same).save("ints").schema["y"] == "int"


# -- overriding, failing, dying --------------------------------------------------------------------


def test_recompute_runs_again_and_what_it_gave_is_remembered_from_then_on(ds: Datasets) -> None:
    answer = Path("answer")

    def asks(x: int) -> str:
        dear(x)
        return Path("answer").read_text()

    chain = ds.read_values(x=range(5)).save("numbers").map(y=asks)
    for text, how, wanted, times in [
        ("old", {}, "old", 5),
        ("new", {}, "old", 0),
        ("new", {"recompute": True}, "new", 5),
        ("newest", {}, "new", 0),
    ]:
        answer.write_text(text)
        made = ds.read_dataset("numbers").settings(**how).map(y=asks)
        assert made.save("answers").to_values("y") == [wanted] * 5
        assert calls() == times
        assert chain.to_values("y") == [wanted] * 5
        assert calls() == 0


@pytest.mark.parametrize("on_error", ["skip", "column"])
def test_failed_rows_are_tried_again_and_only_those(ds: Datasets, on_error: Any) -> None:
    def shaky(x: int) -> int:
        dear(x)
        if x % 10 == 3 and not Path("mended").exists():
            raise ValueError(x)
        return x

    numbers = ds.read_values(x=range(40)).save("numbers").settings(on_error=on_error)
    first = numbers.map(y=shaky).save("made")
    assert first.filter(C("y").is_not_null()).count() == 36
    assert calls() == 40
    numbers.map(y=shaky).save("made")
    assert calls() == 4
    Path("mended").touch()
    assert numbers.map(y=shaky).save("made").to_values("y") == list(range(40))
    assert calls() == 4
    numbers.map(y=shaky).save("made")
    assert calls() == 0


def test_a_row_that_raises_leaves_the_rows_before_it_remembered(ds: Datasets) -> None:
    def shaky(x: int) -> int:
        dear(x)
        if x == 30 and not Path("mended").exists():
            raise ValueError(x)
        return x

    numbers = ds.read_values(x=range(40)).save("numbers")
    with pytest.raises(ml.Error, match="x=30"):
        numbers.map(y=shaky).save("made")
    assert calls() == 31
    Path("mended").touch()
    assert numbers.map(y=shaky).save("made").to_values("y") == list(range(40))
    assert calls() == 10


def test_a_killed_run_goes_on_where_it_was(ds: Datasets, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent(
            """
            import time
            import memlake as ml
            def slow(x):
                with open("calls", "a") as file:
                    file.write("x")
                time.sleep(0.02)
                return x + 1
            ml.read_values(x=range(300)).map(y=slow).save("made")
            """
        )
    )
    process = subprocess.Popen([sys.executable, str(script)], cwd=tmp_path)
    while not LOG.exists() or LOG.stat().st_size < 150:
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.wait()
    before = calls()
    assert ds.all() == []
    subprocess.run([sys.executable, str(script)], cwd=tmp_path, check=True)
    assert before + calls() < 300 + 120  # at most what a second and an item of work are
    assert ds.read_dataset("made").to_values("y") == list(range(1, 301))


_KILLED_AT = """
import os, signal, time
import memlake as ml
def slow(x):
    with open("calls", "a") as file:
        file.write("x")
    time.sleep(SECONDS)
    if x == DIES and not os.path.exists("mended"):
        os.kill(os.getpid(), signal.SIGKILL)
    return x + 1
ml.read_values(x=range(ROWS)).settings(parallel=1).map(y=slow).save("made")
"""


def killed_and_run_again(folder: Path, **told: float) -> int:
    """How often a function is called by the second run, after one row of the first one killed it."""
    script = "".join(f"{name.upper()} = {value}\n" for name, value in told.items()) + _KILLED_AT
    first = subprocess.run([sys.executable, "-c", script], cwd=folder, check=False)
    assert first.returncode == -signal.SIGKILL
    assert calls() == told["dies"] + 1
    Path("mended").touch()
    subprocess.run([sys.executable, "-c", script], cwd=folder, check=True)
    return calls()


def test_a_run_killed_within_its_first_second_leaves_most_of_it_to_the_next(ds: Datasets, tmp_path: Path) -> None:
    assert killed_and_run_again(tmp_path, rows=100, seconds=0.01, dies=70) <= 100 - 32  # at least the first item


def test_a_run_killed_in_its_first_rows_leaves_those_that_were_dear_to_the_next(ds: Datasets, tmp_path: Path) -> None:
    assert killed_and_run_again(tmp_path, rows=10, seconds=0.3, dies=4) == 6
    assert ds.read_dataset("made").to_values("y") == list(range(1, 11))


def test_a_run_that_is_stopped_says_briefly_what_is_kept(ds: Datasets, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent(
            """
            import time
            import memlake as ml
            def slow(x):
                with open("calls", "a") as file:
                    file.write("x")
                time.sleep(0.05)
                return x + 1
            ml.read_values(x=range(400)).settings(parallel=2).map(y=slow).save("made")
            """
        )
    )
    process = subprocess.Popen([sys.executable, str(script)], cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    while not LOG.exists() or LOG.stat().st_size < 40:
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, told = process.communicate()
    assert process.returncode == -signal.SIGINT and ds.all() == [], told
    assert told.splitlines()[-1].startswith("KeyboardInterrupt: stopped") and "run it again" in told, told
    assert told.count("Traceback") == 1 and "calling.py" not in told and "executors" not in told


def test_what_was_not_recalled_says_why(ds: Datasets) -> None:
    numbers = ds.read_values(x=range(10)).save("numbers")
    lock = __import__("threading").Lock()

    def hidden(x: int) -> int:
        with lock:
            return dear(x)  # type: ignore[no-any-return]

    assert [(one.called, one.recalled) for one in ran(numbers.map(y=dear))] == [(10, 0)]
    assert "nothing is remembered" in _why(ds.read_values(x=range(100, 110)).map(y=dear))
    assert _why(numbers.map(y=dear)) == ""
    assert _why(ds.read_values(x=range(11)).map(y=dear)) == "some rows are new or changed"
    assert _why(numbers.settings(recompute=True).map(y=dear)) == "recompute=True"
    assert "lock" in _why(numbers.map(y=hidden))
    assert "lock" in _why(numbers.setup(m=lambda: lock).map(y=lambda x, m: x))


def _why(chain: Chain) -> str:
    return ran(chain)[0].why


# -- edits of code ---------------------------------------------------------------------------------

RUN = """
import dataclasses, importlib.metadata, json, sys, types
import memlake as ml
from memlake.dataset.memo import code_origin as origins
from memlake.dataset.datasets import Datasets
from memlake.dataset.memo.results import Memo
from memlake.read import here

def apart(number):
    # the datasets here, with a memory of their own
    ground = here().context
    return Datasets(dataclasses.replace(ground, recall=Memo(ground.folder / f"{number}.db", ground.parts)))

def run(number, text):
    main = types.ModuleType("__main__")
    main.__dict__["ml"] = ml
    modules, version = dict(sys.modules), importlib.metadata.version
    sys.modules["__main__"] = main
    origins._library.cache_clear()
    try:
        exec(compile(text, "<script>", "exec"), main.__dict__)
        chain = apart(number).read_dataset("numbers").settings(on_error="column").map(y=main.__dict__["f"])
        frame, engine = chain._session.frame(chain.plan, chain._settings)
        made = engine.read(frame, ["y", "y_error"]).to_pylist()
        return sum(one.called for one in engine.ran), [str(row) for row in made]
    except Exception as error:
        return repr(error), []
    finally:
        importlib.metadata.version = version
        for name in sys.modules.keys() - modules.keys():
            if getattr(sys.modules[name], "__file__", None) is None or name == "mylib":
                del sys.modules[name]
        sys.modules["__main__"] = modules["__main__"]

done = [run(number, text) for number, text in enumerate(json.load(sys.stdin))]
print()
print(json.dumps(done))
"""


def test_every_edit_of_the_table_reruns_or_is_recalled_as_it_says(ds: Datasets, tmp_path: Path) -> None:
    """Before and after in two processes; and what is recalled is what running gives."""
    ds.read_values(x=[1, 2, 3]).save("numbers")

    def run(texts: list[str]) -> list[tuple[Any, list[str]]]:
        done = subprocess.run(
            [sys.executable, "-c", RUN],
            input=json.dumps(texts),
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=True,
            env=os.environ | {"PYTHONPATH": ""},  # with pandas
        )
        found: list[tuple[Any, list[str]]] = json.loads(done.stdout.splitlines()[-1])
        return found

    before = run([case.before for case in CASES])
    after = run([case.after for case in CASES])
    wrong = []
    for case, (_, old), (called, new) in zip(CASES, before, after, strict=True):
        failing = any("'y_error': None" not in row for row in [*old, *new])  # these are tried again in any case
        reran = called != 0  # or what it returned cannot be kept, which only running tells
        if reran != (case.reruns or failing) or (not reran and old != new):
            wrong.append(f"{case.name}: {'reran' if reran else 'recalled'}, from {old} to {called} {new}")
    assert "\n".join(wrong) == ""


def test_a_storage_is_not_reached_at_an_address_that_a_stranger_left_in_the_repo(
    ds: Datasets, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "settings"))
    monkeypatch.setattr(storages, "ACCESS", {})
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "1.txt").write_text("x")
    ds.read_storage(str(tmp_path / "a"), client_config={"endpoint_url": "https://mine"}).count()
    with ds.context.recall._db.write():
        ds.context.recall._db.run("UPDATE listing SET access = replace(access, 'mine', 'stranger')")
    storages.ACCESS.clear()
    listings.reach(ds.context)
    assert storages.ACCESS == {}

    with ds.context.recall._db.write():
        ds.context.recall._db.run("UPDATE listing SET access = replace(access, 'stranger', 'mine')")
    listings.reach(ds.context)
    assert [one.client_config for one in storages.ACCESS.values()] == [{"endpoint_url": "https://mine"}]


def test_a_function_that_reads_nothing_is_called_for_each_new_row(ds: Datasets, tmp_path: Path) -> None:
    """As one that tells the time: a file that was not there yet has no answer, whatever others have."""
    folder = tmp_path / "grows"
    folder.mkdir()

    def told() -> dict[str, str]:
        chain = ds.read_storage(folder).map(said=lambda: os.urandom(8).hex(), output=str)
        return dict(chain.save("said").to_list("file.path", "said"))

    seen: dict[str, str] = {}
    for name in "abc":
        (folder / name).write_text(name)
        said = told()
        assert said == told()
        assert said.items() >= seen.items()
        assert len(set(said.values())) == len(said) == len(seen) + 1
        seen = said


def test_a_function_that_reads_nothing_is_called_when_another_column_changes(ds: Datasets, tmp_path: Path) -> None:
    def told(b: int) -> str:
        (tmp_path / "rows.csv").write_text(f"a,b\n1,{b}\n")
        chain = ds.read_csv(tmp_path / "rows.csv").map(said=lambda: os.urandom(8).hex(), output=str)
        return str(chain.select("said").save("said").to_values("said")[0])

    assert told(1) != told(2)


def test_while_another_thread_sets_a_damaged_file_aside_nothing_is_remembered_and_nothing_fails(ds: Datasets) -> None:
    recall = ds.context.recall
    recall._db.close()  # as between the two steps of the other thread
    assert recall.accesses() == {}
    recall.close()
    with pytest.raises(ml.errors.InvalidInput, match="was closed"):
        recall.accesses()
