"""Functions that wait: threads and coroutines."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator

import pytest

from memlake.dataset.executors import run_async, run_threads, threads
from memlake.dataset.executors.map_loop import Crew
from memlake.errors import InvalidInput


async def add(left: int, right: int) -> int:
    await asyncio.sleep(0.001)
    return left + right


def waited(left: int, right: int) -> int:
    time.sleep(0.001)
    return left + right


def run(kind: str, function, rows, n: int) -> Iterator[tuple[int, int]]:
    return (run_async if kind == "async" else run_threads)(function, rows, n)


@pytest.mark.parametrize(("kind", "function"), [("async", add), ("threads", waited)])
def test_every_row_has_its_value_under_its_index(kind: str, function) -> None:
    rows = ((number, 1) for number in range(500))
    assert dict(run(kind, function, rows, 20)) == {number: number + 1 for number in range(500)}
    assert list(run(kind, function, [], 20)) == []


def test_at_most_so_many_coroutines_run_and_no_more_rows_are_read() -> None:
    running, most, pulled = 0, 0, 0

    async def watched(_: int) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.002)
        running -= 1

    def rows() -> Iterator[tuple[int]]:
        nonlocal pulled
        for number in range(200):
            pulled += 1
            yield (number,)

    for taken, _ in enumerate(run_async(watched, rows(), 8)):
        assert pulled - taken <= 9
    assert most == 8


def test_a_slow_row_does_not_hold_up_the_others() -> None:
    done = 0

    async def one_slow(number: int) -> int:
        nonlocal done
        while number == 0 and done < 99:  # as slow as all the others
            await asyncio.sleep(0.001)
        await asyncio.sleep(0.001)
        done += 1
        return number

    order = [index for index, _ in run_async(one_slow, ((number,) for number in range(100)), 4)]
    assert order[-1] == 0 and sorted(order) == list(range(100))


def test_it_works_where_an_event_loop_runs_already() -> None:
    async def notebook() -> dict[int, int]:
        return dict(run_async(add, [(1, 2), (3, 4)], 2))

    assert asyncio.run(notebook()) == {0: 3, 1: 7}


@pytest.mark.parametrize("error", [ValueError("no"), asyncio.CancelledError()])
def test_a_coroutine_that_fails_raises_and_what_was_done_is_kept(error: BaseException) -> None:
    async def fail(number: int) -> int:
        await asyncio.sleep(0.001 * number)
        if number == 10:
            raise error
        return number

    kept: dict[int, int] = {}
    with pytest.raises(type(error)):
        kept.update(run_async(fail, ((number,) for number in range(1000)), 4))
    assert set(range(10)) <= kept.keys() and len(kept) < 20


def test_a_thread_that_fails_raises_and_what_was_done_is_kept() -> None:
    kept: dict[int, float] = {}
    with pytest.raises(ZeroDivisionError):
        kept.update(run_threads(lambda item: 1 / item, ((item,) for item in (1, 2, 4, 0, *range(1, 99))), 2))
    assert {0, 1, 2} <= kept.keys() and len(kept) < 20


def test_after_a_failure_what_waits_is_not_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[int] = []
    dropped, drop = threading.Event(), Crew.drop

    def work(item: int) -> None:
        begun.append(item)
        assert item
        dropped.wait(200)

    monkeypatch.setattr(Crew, "drop", lambda self: (drop(self), dropped.set())[0])
    with pytest.raises(AssertionError):
        list(run_threads(work, ((item,) for item in range(99)), 2))
    assert {0, 1} <= set(begun) <= {0, 1, 2}, "2 may have been taken before the failure was heard of"


def test_closing_early_cancels_coroutines_and_leaves_no_thread() -> None:
    begun, cancelled = [], []

    async def slow(number: int) -> int:
        begun.append(number)
        try:
            while number or len(begun) < 4:  # the first one answers when the others are under way
                await asyncio.sleep(0.001)
        except asyncio.CancelledError:
            cancelled.append(number)
            raise
        return number

    results = run_async(slow, ((number,) for number in range(100)), 4)
    assert next(results) == (0, 0)
    results.close()
    assert sorted(cancelled) == [1, 2, 3]
    assert not [thread for thread in threading.enumerate() if thread.name == "memlake-async"]


def test_threads_open_the_work_once_for_all_of_them() -> None:
    class Work:
        opened = closed = 0

        def open(self) -> None:
            self.opened += 1

        def __call__(self, item: int) -> tuple[int, str]:
            time.sleep(0.005)
            return item, threading.current_thread().name

        def close(self) -> None:
            self.closed += 1

    work = Work()
    found = dict(threads(4).map(work, range(40)))
    assert [found[index][0] for index in range(40)] == list(range(40))
    assert (work.opened, work.closed) == (1, 1)


def test_threads_wait_at_the_same_time() -> None:
    all_of_them = threading.Barrier(10)
    list(threads(10).map(lambda _: all_of_them.wait(200), range(20)))  # raises where fewer than ten wait at once


def test_none_at_a_time_is_refused() -> None:
    with pytest.raises(InvalidInput, match="0 at the same time"):
        run_async(add, [], 0)
    with pytest.raises(InvalidInput, match="0 at the same time"):
        threads(0)
