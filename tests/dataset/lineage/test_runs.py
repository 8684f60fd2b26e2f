"""Runs: answers leave a note with their rows, cheaply, and may become datasets; a save leaves none."""

from __future__ import annotations

import os
import signal
import statistics
import threading
import time
from pathlib import Path

import pytest

import memlake as ml
from memlake.dataset.lineage import program, runs
from memlake.dataset.session import Session
from memlake.errors import InvalidInput, NotFound
from tests.dataset.whole import assert_whole


def test_answers_leave_a_run_and_saves_and_counts_do_not(repo: ml.Repo, here: Path) -> None:
    data = repo.datasets()
    chain = data.read_values(x=[1, 2, 3]).map(y=lambda x: x + 1)
    chain.show()
    chain.to_pandas()
    chain.to_list()
    chain.to_parquet(here / "out.parquet")
    chain.count()
    chain.sum("x")
    _ = chain.schema
    chain.save("a")
    found = data.runs()
    assert [one.action for one in found] == ["to_parquet", "to_list", "to_pandas", "show"]
    for one in found:
        assert_whole(one.provenance)
        assert one.rows == 3 and not one.kept and one.seconds > 0
    shown = next(one for one in found if one.action == "show")
    assert shown.provenance["plan"][-1].endswith("map y = <lambda>(x)"), "the limit of show is not the user's"


def test_a_run_becomes_a_dataset_with_its_rows_and_provenance(repo: ml.Repo) -> None:
    data = repo.datasets()
    data.read_values(x=[1, 2, 3]).filter(ml.C("x") > 1).to_pandas()
    [run] = data.runs()
    made = data.promote(run.number, "kept")
    assert made.to_values("x") == [2, 3] and made.name == "kept"
    assert made.record is not None
    assert made.record.provenance == run.provenance
    assert_whole(made.record.provenance)


def test_an_answer_without_rows_becomes_a_dataset_too(repo: ml.Repo) -> None:
    data = repo.datasets()
    data.read_values(x=[1]).filter(ml.C("x") > 1).to_arrow()
    assert data.promote(data.runs()[0].number, "none").schema == {"x": "int"}
    data.read_values(x=[1]).filter(ml.C("x") > 1).to_list()
    assert data.promote(data.runs()[0].number, "nothing").schema == {"x": "int"}


def test_rows_that_were_not_all_shown_are_not_promoted(repo: ml.Repo) -> None:
    data = repo.datasets()
    chain = data.read_values(x=list(range(30)))
    chain.show(5)
    next(iter(chain))
    for run in data.runs():
        assert run.rows is None
        with pytest.raises(InvalidInput, match=r"only its first rows.*Nothing was saved") as caught:
            data.promote(run.number, "kept")
        assert ".save(NAME)" in caught.value.hint
    chain.limit(20).show()
    assert data.promote(data.runs()[0].number, "kept").count() == 20


def test_large_results_are_not_kept(repo: ml.Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "LARGEST", 1000)
    data = repo.datasets()
    data.read_values(x=list(range(1000))).to_arrow()
    data.read_values(x=list(range(1000))).to_list()
    for run in data.runs():
        assert run.rows == 1000
        with pytest.raises(InvalidInput, match="too large to keep"):
            data.promote(run.number, "kept")
    assert not list((repo.dir / "runs").glob("*")) if (repo.dir / "runs").exists() else True


def test_older_results_make_room_and_older_runs_are_forgotten(repo: ml.Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    data = repo.datasets()
    chain = data.read_values(x=list(range(100)))
    monkeypatch.setattr(runs, "NEWEST", 3)
    for _ in range(5):
        chain.to_arrow()
        runs.wait()
    assert [one.number for one in data.runs()] == [5, 4, 3]
    monkeypatch.setattr(runs, "_ROOM", 1)
    chain.to_arrow()
    with pytest.raises(InvalidInput, match="needed their place"):
        data.promote(5, "kept")


def test_small_results_are_counted_seldom_and_still_make_room(repo: ml.Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    chain = repo.datasets().read_values(x=[1])
    counted = []
    real = runs._make_room
    monkeypatch.setattr(runs, "_make_room", lambda folder: (counted.append(folder), real(folder)))
    monkeypatch.setattr(runs, "_SELDOM", 4)
    monkeypatch.setattr(runs, "NEWEST", 2)
    for _ in range(8):
        chain.to_arrow()
    runs.wait()
    assert len(counted) == 2
    assert sorted(file.name for file in (repo.dir / "runs").iterdir()) == ["7.arrow", "8.arrow"]


def test_many_answers_in_a_row_ask_git_once(repo: ml.Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr(program, "_git_answers", {})
    monkeypatch.setattr(program, "_LATELY", 60.0)
    monkeypatch.setattr(program, "git", lambda folder: (asked.append(folder), {"commit": str(len(asked))})[1])
    data = repo.datasets()
    for _ in range(5):
        data.read_values(x=[1]).to_list()
    assert [one.provenance["git"] for one in data.runs()] == [{"commit": "1"}] * 5
    monkeypatch.setattr(program, "_LATELY", 0.0)
    data.read_values(x=[1]).to_list()
    runs.wait()
    assert data.runs()[0].provenance["git"] == {"commit": "2"}


def test_a_fork_notes_its_own_runs_and_waits_for_none_of_its_parent(
    repo: ml.Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    go = threading.Event()
    monkeypatch.setattr(runs, "_record", lambda *_: go.wait(30))
    repo.datasets().read_values(x=[1]).to_list()
    child = os.fork()
    if not child:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(10)
        runs.wait()
        monkeypatch.setattr(runs, "_record", lambda *_: os._exit(7))
        runs.record(None, "", {}, None)  # type: ignore[arg-type]
        runs.wait()
        os._exit(1)
    go.set()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


def test_a_run_that_is_not_there_is_said(repo: ml.Repo) -> None:
    with pytest.raises(NotFound, match="no run 9"):
        repo.datasets().promote(9, "kept")


def test_a_note_that_cannot_be_made_does_not_fail_the_chain(repo: ml.Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    chain = repo.datasets().read_values(x=[1])
    monkeypatch.setattr(runs, "_write", lambda *_: 1 / 0)
    assert chain.to_values("x") == [1]
    runs.wait()
    monkeypatch.setattr(runs, "record", lambda *_: 1 / 0)
    assert chain.to_values("x") == [1]


def test_recording_costs_an_answer_less_than_ten_milliseconds(repo: ml.Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    data = repo.datasets()
    chain = data.read_values(x=list(range(1000))).map(y=lambda x: x + 1).mutate(z=ml.C("y") + 1)
    chain.to_arrow()
    spent = []
    note = Session._note_run

    def timed(*args: object) -> None:
        begun = time.thread_time()
        note(*args)  # type: ignore[arg-type]
        spent.append(time.thread_time() - begun)

    monkeypatch.setattr(Session, "_note_run", timed)
    for _ in range(9):
        chain.to_arrow()
    assert statistics.median(spent) < 0.010
