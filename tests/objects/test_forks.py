"""A process that forks: its child works or is refused with words. What was acknowledged is not lost, and none hangs."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import memlake as ml
from memlake.index import segments
from memlake.objects import forks
from memlake.objects.locks import FileLock
from memlake.rows import duckdb_connections

LONG = 20.0  # seconds after which a child is said to hang


@pytest.fixture
def repo(here: Path) -> Iterator[ml.Repo]:
    with ml.init(here) as made:
        made.config.set("embedding.provider", "none")
        made.write({"memories/bot/0": b"0"}, "first")
        yield made


class Child:
    """A forked child that runs `work`; what it says of it comes back by a pipe."""

    def __init__(self, work: Callable[[], object]) -> None:
        self._out, write = os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            signal.alarm(int(LONG))  # one that hangs is ended
            try:
                said = f"done {work()}"
            except BaseException as error:
                said = f"{type(error).__name__}: {error}"
            os.write(write, said.encode())
            os._exit(0)
        os.close(write)

    def answer(self) -> str:
        with open(self._out, "rb") as pipe:
            said = pipe.read().decode()
        assert os.waitpid(self._pid, 0)[1] == 0, "the child hung, or died"
        return said


class Door:
    """A child waits at it until its parent opens it."""

    def __init__(self) -> None:
        self._read, self._write = os.pipe()

    def wait(self) -> None:
        os.read(self._read, 1)

    def open(self) -> None:
        os.write(self._write, b"x")


def remember(repo: ml.Repo, name: str) -> str:
    return repo.write({f"memories/bot/{name}": name.encode()}, name).message


def messages(root: Path) -> list[str]:
    with ml.open(root) as opened:
        assert not opened.upkeep.fsck().problems
        return sorted(commit.message for commit in opened.log(lane="memory"))


@pytest.fixture
def writer(repo: ml.Repo) -> Iterator[tuple[threading.Event, threading.Event]]:
    """A thread in the middle of a transaction of repo.db: (it may go on, it is done)."""
    inside, go_on, done = threading.Event(), threading.Event(), threading.Event()

    def write() -> None:
        with repo._history.db.write():
            repo._history.db.run("INSERT OR REPLACE INTO meta VALUES('x', 1)")
            inside.set()
            go_on.wait(LONG)
        done.set()

    thread = threading.Thread(target=write)
    thread.start()
    inside.wait(LONG)
    yield go_on, done
    go_on.set()
    thread.join()


def test_what_a_child_commits_stays_when_its_parent_closes_the_repo(repo: ml.Repo, here: Path) -> None:
    first, closed = Door(), Door()

    def work() -> str:
        with ml.open(here) as own:
            remember(own, "one")
            first.open()
            closed.wait()
            return remember(own, "two")

    child = Child(work)
    first.wait()
    repo.close()
    with ml.open(here) as third:
        remember(third, "three")
    closed.open()
    assert child.answer() == "done two"
    assert messages(here) == ["first", "one", "three", "two"]


@pytest.mark.parametrize("whose", ["its own Repo", "the inherited Repo"])
def test_a_child_works_while_a_thread_of_its_parent_has_a_transaction_open(
    repo: ml.Repo, here: Path, whose: str
) -> None:
    opened, go_on = threading.Event(), threading.Event()

    def group() -> None:
        with repo.transaction("of the parent"):
            remember(repo, "a")
            opened.set()
            go_on.wait(LONG)

    thread = threading.Thread(target=group)
    thread.start()
    opened.wait(LONG)
    child = Child(lambda: remember(ml.open(here) if whose == "its own Repo" else repo, "of the child"))
    assert child.answer() == "done of the child"
    go_on.set()
    thread.join()
    assert messages(here) == ["first", "of the child", "of the parent"]


@pytest.mark.parametrize("whose", ["its own Repo", "the inherited Repo"])
def test_a_child_forked_in_the_middle_of_a_write_of_another_thread_is_refused_and_never_hangs(
    repo: ml.Repo, here: Path, whose: str, writer: tuple[threading.Event, threading.Event],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(forks, "PATIENCE", 0.05)
    child = Child(lambda: remember(ml.open(here) if whose == "its own Repo" else repo, "of the child"))
    said = child.answer()
    assert said.startswith("Unavailable: this process was forked while its parent was using") and "spawn" in said
    writer[0].set()
    writer[1].wait(LONG)
    remember(repo, "of the parent")
    assert messages(here) == ["first", "of the parent"]


def test_a_fork_waits_for_a_write_that_ends_soon(
    repo: ml.Repo, here: Path, writer: tuple[threading.Event, threading.Event], monkeypatch: pytest.MonkeyPatch
) -> None:
    real = time.sleep

    def asleep(seconds: float) -> None:
        writer[0].set()  # the fork is waiting: now the write may end
        real(seconds)

    monkeypatch.setattr(forks.time, "sleep", asleep)
    assert Child(lambda: remember(repo, "of the child")).answer() == "done of the child"
    assert writer[1].is_set() and messages(here) == ["first", "of the child"]


def test_writes_of_a_child_do_not_join_the_transaction_its_parent_has_open(repo: ml.Repo, here: Path) -> None:
    with repo.transaction("of the parent"):
        remember(repo, "a")
        assert Child(lambda: remember(repo, "of the child")).answer() == "done of the child"
        assert messages(here) == ["first", "of the child"]
    assert messages(here) == ["first", "of the child", "of the parent"]


def test_a_child_does_not_end_what_its_parent_is_writing(repo: ml.Repo, here: Path) -> None:
    def fork_inside(holding: Callable[[], object], name: str) -> str:
        """What a child says that was forked inside a context which both leave."""
        out, write = os.pipe()
        pid, said = 0, "left it"
        try:
            with holding():  # type: ignore[attr-defined]
                remember(repo, name)
                pid = os.fork()
        except ml.errors.Unavailable as error:
            said = error.message
        if pid == 0:
            os.write(write, said.encode())
            os._exit(0)
        os.close(write)
        os.waitpid(pid, 0)
        with open(out, "rb") as pipe:
            return pipe.read().decode()

    assert "belongs to its parent" in fork_inside(lambda: repo.transaction("group"), "a")
    assert "belongs to its parent" in fork_inside(repo._history.db.write, "b")
    assert messages(here) == ["b", "first", "group"]


def test_a_lock_ends_with_its_parent_and_not_with_the_child(tmp_path: Path) -> None:
    lock, door = FileLock(tmp_path / "lock"), Door()
    with lock.held():
        child = Child(door.wait)
    with FileLock(tmp_path / "lock").held(1.0):
        door.open()
    assert child.answer() == "done None"


def test_a_child_finds_locks_open_that_threads_of_its_parent_hold(tmp_path: Path) -> None:
    mutex, inside, go_on = forks.Mutex(), threading.Event(), threading.Event()

    def hold() -> None:
        with mutex:
            inside.set()
            go_on.wait(LONG)

    thread = threading.Thread(target=hold)
    thread.start()
    inside.wait(LONG)
    assert Child(lambda: mutex.acquire(timeout=1)).answer() == "done True"
    assert not mutex.acquire(timeout=0), "in the parent it is held"
    go_on.set()
    thread.join()


def test_a_scan_that_is_not_at_its_end_goes_on_after_a_fork(repo: ml.Repo, here: Path) -> None:
    for n in range(5):
        remember(repo, f"n{n}")
    rows = repo._history.db.each("SELECT seq FROM history ORDER BY seq")
    assert next(rows) == (1,)
    assert "forked while its parent was using" in Child(lambda: remember(repo, "of the child")).answer()
    assert [seq for (seq,) in rows] == [2, 3, 4, 5, 6]
    assert Child(lambda: remember(repo, "of the child")).answer() == "done of the child"


def test_a_child_closes_the_repo_although_a_thread_of_its_parent_was_folding(
    repo: ml.Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    index, begun, go_on = repo.memories().shared.index, threading.Event(), threading.Event()

    def fold_slowly(*_: object) -> bool:
        begun.set()
        return go_on.wait(LONG)

    monkeypatch.setattr(segments, "is_fold_due", lambda _: True)
    monkeypatch.setattr(segments, "fold", fold_slowly)
    index.fold_soon()
    assert begun.wait(LONG)
    try:
        assert Child(repo.close).answer() == "done None"
    finally:
        go_on.set()


def test_a_child_asks_for_an_engine_although_a_thread_of_its_parent_was_opening_one(here: Path) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def hold() -> None:
        with duckdb_connections.lock:
            begun.set()
            go_on.wait(LONG)

    thread = threading.Thread(target=hold)
    thread.start()
    assert begun.wait(LONG)
    try:
        engine = Child(lambda: duckdb_connections.engine(str(here), str(here)).execute("SELECT 7").fetchone())
        assert engine.answer() == "done (7,)"
    finally:
        go_on.set()
        thread.join()
