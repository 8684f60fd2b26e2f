"""What a Repo opens it closes: with the repo, with the thread that used it, with the index that was made again."""

from __future__ import annotations

import gc
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

import memlake as ml
from memlake.index import generations
from memlake.memories.memories import Draft
from memlake.memories.search import Query
from memlake.objects.db import Database

ME = psutil.Process()
# SQLite keeps a file open that a thread let go of, and gives it to the next one, while others have locks on it: so many
# as threads were at it at the same time, on three databases.
AT_ONCE = 12


def open_files() -> int:
    gc.collect()
    return ME.num_fds()


def in_threads(count: int, work: Callable[[int], object]) -> list[BaseException]:
    """Run work at once in threads that have ended then; what they raised."""
    start, raised = threading.Barrier(count), list[BaseException]()

    def run(number: int) -> None:
        start.wait(60)
        try:
            work(number)
        except BaseException as error:
            raised.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)
    return raised


def wait_for(is_true: Callable[[], bool]) -> None:
    """Threads that were told to end do so in a moment."""
    end = time.monotonic() + 250
    while not is_true():
        assert time.monotonic() < end, "it did not come to be"
        time.sleep(0.01)


@pytest.fixture
def root(here: Path) -> Path:
    """A repo without a model, which loads libraries that open files of their own; opened and closed once."""
    made = ml.init(here)
    made.config.set("embedding.provider", "none")
    made.close()
    with ml.Agent(str(here), "bot") as agent:
        agent.store_memory("the sky is blue")
        agent.search_memory("sky")
    return here


@pytest.fixture
def repo(root: Path) -> Iterator[ml.Repo]:
    opened = ml.open(root)
    yield opened
    opened.close()


# -- what is opened when first used ---------------------------------------------------------------------


def test_threads_that_come_at_once_share_what_is_opened_on_first_use(root: Path) -> None:
    before, threads = open_files(), threading.active_count()
    for _ in range(5):
        repo = ml.open(root)
        found: list[tuple[object, object]] = []
        raised = in_threads(8, lambda _, repo=repo, found=found: found.append((repo.memories().shared, repo._rows())))
        assert not raised and len({id(one) for one, _ in found}) == 1 == len({id(one) for _, one in found})
        repo.close()
    wait_for(lambda: threading.active_count() <= threads)
    assert open_files() <= before


def test_the_repo_found_from_here_is_opened_once_by_threads_that_come_at_once(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[object] = []
    monkeypatch.setattr("memlake.read._OPEN", {})
    real = ml.open

    def slow() -> ml.Repo:
        made = real(root)
        opened.append(made)
        time.sleep(0.05)  # widens the gap that others could come through; the result does not depend on it
        return made

    monkeypatch.setattr("memlake.read.open_repo", slow)
    assert not in_threads(4, lambda _: ml.read_values(x=[1]))
    assert len(opened) == 1
    for one in opened:
        one.close()  # type: ignore[attr-defined]


# -- threads that end -------------------------------------------------------------------------------------


def test_a_thread_that_ends_takes_its_connections_with_it(repo: ml.Repo) -> None:
    repo.memories().search(Query("sky"))
    in_threads(4, lambda _: repo.memories().search(Query("sky")))
    before = open_files()
    for _ in range(10):
        assert not in_threads(4, lambda _: repo.memories().search(Query("sky")))
    assert open_files() <= before + AT_ONCE


# -- an index that is made again ----------------------------------------------------------------------------


def test_an_index_that_others_make_again_is_let_go_of(repo: ml.Repo) -> None:
    memories = repo.memories()
    folder = repo.dir / "index"

    def made_again() -> None:
        """As another process does it."""
        with generations.take_turn(folder, wait=True):
            generations.begin_generation(folder)
            generations.drop_old(folder)
        memories.search(Query("sky"))
        in_threads(3, lambda _: memories.search(Query("sky")))

    made_again()
    before = open_files()
    for _ in range(10):
        made_again()
    assert open_files() <= before + AT_ONCE


def test_a_reader_of_an_index_that_was_left_reads_on(repo: ml.Repo) -> None:
    repo.memories().store_many([Draft("a"), Draft("b")])
    repo.memories().search(Query("sky"))
    index = repo.memories().context.index
    old = index.db.each("SELECT id FROM row ORDER BY id")
    assert next(old) == (1,)
    with generations.take_turn(index.folder, wait=True):
        generations.begin_generation(index.folder)
    index.refresh()
    gc.collect()
    assert [row for (row,) in old] == [2, 3]


# -- closing beside others at work --------------------------------------------------------------------------

_LONG = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 1000000000) SELECT count(*) FROM n"


def test_nothing_of_a_closed_repo_stays_in_memory_because_datasets_were_saved_through_it(tmp_path: Path) -> None:
    def work(number: int) -> weakref.ref[object]:
        with ml.init(tmp_path / "repo") as repo:
            repo.datasets().read_values(x=[number]).save("numbers")
            return weakref.ref(repo._history)

    held = [work(number) for number in range(3)]
    gc.collect()
    assert [history() for history in held] == [None] * 3


def test_closing_stops_a_read_of_another_thread_and_names_it(tmp_path: Path) -> None:
    db = Database(tmp_path / "a.db", schema=())
    db.row("SELECT 1")
    running, raised = threading.Event(), list[BaseException]()

    def read() -> None:
        # Told from inside the statement, so it is under way when the other thread goes on.
        db._connection().create_scalar_function("begun", lambda: running.set() or 1)
        try:
            db.row(f"SELECT begun(), ({_LONG})")
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=read)
    thread.start()
    assert running.wait(30)
    db.close()
    thread.join(30)
    assert not thread.is_alive() and [type(error) for error in raised] == [ml.errors.InvalidInput]
    assert "was closed" in str(raised[0])
    with pytest.raises(ml.errors.InvalidInput, match="was closed"):
        db.row("SELECT 1")


def test_closing_waits_for_a_write_of_another_thread(repo: ml.Repo) -> None:
    inside, closing = threading.Event(), threading.Event()

    def write() -> None:
        with repo._history.db.write():
            inside.set()
            closing.wait(30)
            repo._history.db.run("INSERT OR REPLACE INTO meta VALUES('test', 'there')")

    thread = threading.Thread(target=write)
    thread.start()
    assert inside.wait(30)
    closer = threading.Thread(target=repo.close)
    closer.start()
    closing.set()
    thread.join(30)
    closer.join(30)
    assert not closer.is_alive()
    again = ml.open(repo.root)
    assert again._history.db.row("SELECT value FROM meta WHERE key = 'test'") == ("there",)
    again.close()


def test_closing_beside_threads_at_work_closes_all_and_they_get_a_named_error(root: Path) -> None:
    before, threads = open_files(), threading.active_count()
    for _ in range(4):
        agent = ml.Agent(str(root), "bot")
        agent.store_memory("the sky is blue")
        busy = threading.Barrier(5)

        def work(number: int, agent: ml.Agent = agent, busy: threading.Barrier = busy) -> None:
            if number == 4:
                busy.wait(60)
                agent.close()
                return
            for turn in range(10_000):
                if number % 2:
                    agent.search_memory("sky")
                else:
                    list(agent.repo.log(lane="memory"))
                if turn == 0:
                    busy.wait(60)

        raised = in_threads(5, work)
        assert {type(error) for error in raised} == {ml.errors.InvalidInput}, raised
        assert len(raised) == 4 and all("closed" in str(error) for error in raised)
    wait_for(lambda: threading.active_count() <= threads)
    assert open_files() <= before


def test_one_part_that_fails_to_close_does_not_keep_the_others_open(
    repo: ml.Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared = repo.memories().shared
    monkeypatch.setattr(shared.access, "close", lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        repo.close()
    assert shared.index.db.closed and repo._history.db.closed and repo._local.db.closed
    repo.close()
