"""Rows that kill the process they run in: named, never run in this one again, and no reason to lose the others."""

from __future__ import annotations

import os
import signal
import textwrap
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import memlake as ml
from memlake.dataset import executors
from memlake.dataset.datasets import Datasets
from memlake.dataset.memo.results import KEY
from memlake.dataset.parts import parquet
from memlake.dataset.run import call_step
from memlake.dataset.run.killer_rows import Suspects
from tests.dataset.conftest import Python
from tests.dataset.deadly import GUILTY, deadly, deadly_batch, deadly_items, note


@pytest.fixture
def ds(repo: ml.Repo) -> Datasets:
    return repo.datasets()


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fragments of ten rows."""
    monkeypatch.setattr(parquet, "ROWS", 10)


@pytest.fixture
def apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Functions run in workers from their first row on."""
    chosen = executors.choose
    monkeypatch.setattr(call_step.executors, "choose", lambda *given, apart: chosen(*given, apart=True))


def calls() -> Counter[int]:
    """How often each row was run since this was asked last."""
    log = Path("calls")
    found = Counter(map(int, log.read_text().split())) if log.exists() else Counter[int]()
    log.unlink(missing_ok=True)
    return found


def suspected(ds: Datasets) -> int:
    return len(ds.context.recall._db.rows("SELECT * FROM suspect"))


def test_a_row_that_kills_its_worker_is_named_and_does_not_kill_the_next_run(ds: Datasets, python: Python) -> None:
    Path("script.py").write_text(
        textwrap.dedent(
            """
            import os, signal, sys, time
            import memlake as ml
            def slow(x):
                with open("calls", "a") as file:
                    file.write(f"{x}\\n")
                time.sleep(0.02)
                if x == 390:
                    os.kill(os.getpid(), signal.SIGSEGV)
                return x + 1
            parallel = int(sys.argv[1])
            ml.read_values(x=range(400)).settings(parallel=parallel, on_error=sys.argv[2]).map(y=slow).save("made")
            """
        )
    )

    def run(*given: str) -> Any:
        return python("script.py", *given, check=False)

    first = run("2", "raise")
    assert "slow() failed on row 390, with x=390:" in first.stderr and "killed by SIGSEGV" in first.stderr
    assert calls().keys() <= set(range(400)) and ds.all() == []
    second = run("1", "raise")  # in process, were it not for what is remembered
    assert second.returncode == 1 and "row 390, with x=390" in second.stderr
    assert calls()[390] == 2
    assert run("1", "skip").returncode == 0
    assert calls() == {390: 2}, "rows before it and after it were computed by the run before"
    assert ds.read_dataset("made").to_values("x") == [x for x in range(400) if x != 390]


@pytest.mark.parametrize(("guilty", "parallel"), [(0, 2), (3, 1)])
def test_a_row_that_kills_the_program_is_named_by_the_next_run_which_lives(
    ds: Datasets, python: Python, guilty: int, parallel: int
) -> None:
    Path("script.py").write_text(
        textwrap.dedent(
            f"""
            import os, sys, time
            import memlake as ml
            def slow(x):
                time.sleep(0.01)
                if x == {guilty}:
                    os._exit(3)
                return x
            chain = ml.read_values(x=range(30)).settings(parallel={parallel}, on_error=sys.argv[1])
            print(chain.map(y=slow).save("made").count())
            """
        )
    )
    first = python("script.py", "skip", check=False)
    assert (first.returncode, first.stdout) == (3, "")
    second = python("script.py", "raise", check=False)
    assert f"failed on row {guilty}, with x={guilty}:\nits worker process ended with exit code 3" in second.stderr
    third = python("script.py", "skip", check=False)
    assert (third.returncode, third.stdout) == (0, "29\n")
    assert ds.context.recall._db.rows("SELECT * FROM begun") == [] and suspected(ds) == 1


def test_a_program_is_ended_once_although_the_next_run_did_not_get_to_the_row(ds: Datasets, python: Python) -> None:
    """Ctrl-C, or another row that raises: neither says that the function is harmless."""
    Path("script.py").write_text(
        textwrap.dedent(
            """
            import os, signal, sys
            from pathlib import Path
            import memlake as ml
            def slow(x):
                how = Path("how").read_text()  # not an argument, which would make it another function
                if x == 2 and how == "raise":
                    raise ValueError
                if x == 2 and how == "stop":
                    os.kill(int(Path("program").read_text()), signal.SIGINT)
                if x == 3:
                    os.kill(os.getpid(), signal.SIGSEGV)
                return x
            Path("program").write_text(str(os.getpid()))
            Path("how").write_text(sys.argv[1])
            print(ml.read_values(x=range(30)).map(y=slow).count())
            """
        )
    )
    assert python("script.py", "go", check=False).returncode == -signal.SIGSEGV
    for how, message in (("raise", "ValueError"), ("stop", "KeyboardInterrupt"), ("go", "failed on row 3, with x=3:")):
        run = python("script.py", how, check=False)
        assert message in run.stderr and run.returncode != -signal.SIGSEGV


def test_a_setup_that_kills_the_program_kills_it_once(ds: Datasets, python: Python) -> None:
    Path("script.py").write_text(
        textwrap.dedent(
            """
            import os
            import memlake as ml
            chain = ml.read_values(x=range(3)).setup(model=lambda: os._exit(5))
            chain.map(y=lambda x, model: x).save("made")
            """
        )
    )
    assert python("script.py", check=False).returncode == 5
    for _ in range(2):
        run = python("script.py", check=False)
        assert run.returncode == 1 and "exit code 5 while the work was opened" in run.stderr


def test_a_program_that_was_terminated_costs_one_run_in_a_worker(ds: Datasets, python: Python) -> None:
    Path("script.py").write_text(
        textwrap.dedent(
            """
            import os, signal
            import memlake as ml
            def home(x):
                if x == 3 and not os.path.exists("mended"):
                    os.kill(os.getpid(), signal.SIGTERM)
                return os.getpid()
            homes = ml.read_values(x=range(9)).settings(recompute=True).map(y=home).to_values("y")
            print("here" if set(homes) == {os.getpid()} else "worker", len(homes))
            """
        )
    )
    assert python("script.py", check=False).returncode == -signal.SIGTERM
    Path("mended").touch()
    assert [python("script.py").stdout for _ in range(2)] == ["worker 9\n", "here 9\n"]


def test_a_function_is_marked_while_this_process_runs_it(ds: Datasets) -> None:
    recall = ds.context.recall
    seen: list[int] = []

    def look(x: int) -> int:
        seen.append(len(recall._db.rows("SELECT * FROM begun")))
        if x == 2:
            raise ValueError
        return x

    for parallel in (1, 2):
        with pytest.raises(ml.Error):
            ds.read_values(x=range(3)).settings(parallel=parallel).map(y=look).save("made")
    assert seen == [1] * 6 and recall._db.rows("SELECT * FROM begun") == []


def test_a_process_that_still_runs_is_no_reason_to_run_in_workers(ds: Datasets) -> None:
    recall = ds.context.recall
    recall.leave_note("ab" * 16)
    assert not Suspects(recall, "ab" * 16)
    with recall._db.write():
        recall._db.run("UPDATE begun SET born = 'before'", ())
    assert Suspects(recall, "ab" * 16) and not Suspects(recall, "cd" * 16)


def test_a_function_that_cannot_be_sent_is_run_here_although_a_process_ended_in_it(ds: Datasets) -> None:
    """Somebody may have killed that process; whoever asked for no workers need not write functions for them."""
    lock, recall, homes = threading.Lock(), ds.context.recall, set[int]()

    def locked(x: int) -> int:
        with lock:
            homes.add(os.getpid())
            return x

    def run() -> list[int]:
        return ds.read_values(x=range(3)).settings(parallel=1).map(y=locked).to_values("y")

    functions: list[str] = []
    leave_note = recall.leave_note
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(recall, "leave_note", lambda function: functions.append(function) or leave_note(function))
        run()
    recall.leave_note(functions[0])
    with recall._db.write():
        recall._db.run("UPDATE begun SET born = 'before'", ())
    homes.clear()
    with pytest.warns(
        UserWarning, match=r"an earlier process ended while it ran locked\(\).*`lock`, which locked uses"
    ):
        assert run() == [0, 1, 2]
    assert homes == {os.getpid()}
    assert recall._db.rows("SELECT * FROM begun") == []


@pytest.mark.parametrize("verb", ["map", "gen"])
def test_rows_that_kill_are_skipped_and_tried_again_by_a_later_run(ds: Datasets, apart: None, verb: str) -> None:
    function: Callable[..., Any] = deadly if verb == "map" else deadly_items
    chain = getattr(ds.read_values(x=range(100)).settings(on_error="skip"), verb)(y=function)
    with pytest.warns(UserWarning, match="on 1"):
        assert sorted(chain.save("made").to_values("y")) == [x + 1 for x in range(100) if x != GUILTY]
    calls()
    Path("mended").touch()
    assert suspected(ds) == 1
    assert sorted(chain.save("made").to_values("y")) == list(range(1, 101))
    assert calls()[GUILTY] == 1 and suspected(ds) == 0


def test_rows_that_kill_are_told_in_a_column(ds: Datasets, apart: None) -> None:
    chain = ds.read_values(x=range(100)).settings(on_error="column").map(y=deadly)
    with pytest.warns(UserWarning, match="on 1"):
        found = dict(zip(*(chain.save("made").to_values(name) for name in ("x", "y_error")), strict=True))
    assert found.pop(GUILTY) == "its worker process ended with exit code 3, each time it was run alone"
    assert set(found.values()) == {None}


def test_a_batch_that_kills_fails_as_a_whole_and_names_its_first_row(ds: Datasets, apart: None) -> None:
    chain = ds.read_values(x=range(100)).settings(batch_size=8)
    with pytest.raises(ml.Error, match=r"the batch that begins with row 32, with x=32:\nits worker process ended"):
        chain.batch_map(y=deadly_batch).save("made")
    with pytest.warns(UserWarning, match="on 8"):
        made = chain.settings(on_error="skip").batch_map(y=deadly_batch).save("made")
    assert made.to_values("x") == [*range(32), *range(40, 100)]


def test_the_error_of_a_row_out_of_memory_says_so(ds: Datasets, apart: None) -> None:
    def greedy(x: int) -> int:
        if x == 3:
            os.kill(os.getpid(), signal.SIGKILL)  # as the system does
        return x

    with pytest.raises(ml.Error, match=r"row 3, with x=3:\nits worker process was killed by SIGKILL") as raised:
        ds.read_values(x=range(5)).map(y=greedy).save("made")
    assert "less memory" in raised.value.hint


@pytest.mark.parametrize("deaths", [1, 3])
def test_workers_killed_from_outside_are_blamed_on_no_row(ds: Datasets, apart: None, deaths: int) -> None:
    def unlucky(x: int) -> int:
        note(x)
        if x == GUILTY and Path("calls").read_text().split().count(str(x)) <= deaths:
            os.kill(os.getpid(), signal.SIGKILL)
        return x

    assert ds.read_values(x=range(100)).map(y=unlucky).save("made").to_values("y") == list(range(100))
    assert suspected(ds) == 0


def test_a_row_that_kills_costs_the_rows_around_it_one_run_more_at_most(ds: Datasets, apart: None) -> None:
    """Also those of its own item behind it, which the first run did not get to."""
    chain = ds.read_values(x=range(100)).map(y=deadly)
    for _ in range(2):
        with pytest.raises(ml.Error, match=f"row {GUILTY}, with x={GUILTY}"):
            chain.save("made")
    assert calls().keys() == set(range(100))
    assert suspected(ds) == 1


def test_a_row_is_named_by_its_number_among_the_kept_rows_of_all_fragments(
    ds: Datasets, apart: None, small: None
) -> None:
    chain = ds.read_values(x=range(100)).save("all").filter(ml.C("x") >= 10)
    with pytest.raises(ml.Error, match=f"row {GUILTY - 10}, with x={GUILTY}"):
        chain.map(y=deadly).save("made")


def test_a_function_without_columns_that_kills_is_told_too(ds: Datasets, apart: None) -> None:
    def end() -> int:
        os._exit(4)

    with pytest.raises(ml.Error, match="exit code 4"):
        ds.read_values(x=range(3)).map(y=end).save("made")
    with pytest.raises(ml.Error, match="exit code 4"):
        ds.read_values(x=range(3)).map(y=end).save("made")


def test_a_setup_that_kills_is_blamed_on_no_row(ds: Datasets, apart: None) -> None:
    chain = ds.read_values(x=range(3)).setup(model=lambda: os._exit(5)).settings(on_error="skip")
    with pytest.raises(ml.errors.Unavailable, match="exit code 5 while the work was opened"):
        chain.map(y=lambda x, model: x).save("made")
    assert suspected(ds) == 0


def test_rows_are_suspected_from_the_death_of_their_worker_on_until_all_is_settled(ds: Datasets) -> None:
    """A process that ends while it looks for the row leaves all of them to the next as suspects."""
    keys = np.array([b"a" * 16, b"b" * 15 + b"\0", b"\0" * 16, b"d" * 16], KEY)
    one = Suspects(ds.context.recall, "ab" * 16)
    assert not one
    one.add(keys[:3])
    two = Suspects(ds.context.recall, "ab" * 16)
    assert one and two and two.find(keys).tolist() == [True, True, True, False]
    assert not Suspects(ds.context.recall, "cd" * 16)
    one.blame(keys[1:2])
    one.settle()
    assert Suspects(ds.context.recall, "ab" * 16).find(keys).tolist() == [False, True, False, False]


def test_a_memory_made_before_there_were_suspects_gets_room_for_them(ds: Datasets) -> None:
    recall, key = ds.context.recall, np.array([b"a" * 16], KEY)
    with recall._db.write():
        recall._db.run("DROP TABLE suspect", ())
    assert not Suspects(recall, "ab" * 16)
    Suspects(recall, "ab" * 16).add(key)
    assert Suspects(recall, "ab" * 16).find(key).all()
