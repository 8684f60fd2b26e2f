"""Which executor is used, and that parallel work is not slower than work in process."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator

import numpy as np
import psutil
import pyarrow as pa
import pytest

from memlake.dataset.executors import Serial, auto, choose, choosing, pool
from memlake.dataset.executors.pool import Pool, cores
from memlake.errors import InvalidInput

HERE = os.getpid()


def cpu_seconds() -> float:
    """Of this process, those it has now and those that ended."""
    own = psutil.Process().cpu_times()
    alive = [child.cpu_times() for child in psutil.Process().children(recursive=True)]
    return own.user + own.system + own.children_user + own.children_system + sum(c.user + c.system for c in alive)


class Clock:
    """Stands in for the clocks that costs are measured with: it goes on only where work says so."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        monkeypatch.setattr(choosing, "perf_counter", lambda: self.now)
        monkeypatch.setattr(choosing, "process_time", lambda: 0.0)

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


class Warm:
    """Stands in for an executor whose start is free, and says whether it was used."""

    workers = 2

    def __init__(self, start: float = 0.0) -> None:
        self.used, self._start = False, start

    def start_seconds(self) -> float:
        return self._start

    def warm(self) -> bool:
        return True

    def map(self, work, items) -> Iterator[tuple[int, object]]:
        items = list(items)
        self.used = bool(items)
        return Serial().map(work, items)


@pytest.mark.parametrize("parallel", [None, False, 1])
def test_nothing_or_one_is_in_process(parallel: int | None) -> None:
    assert type(choose(parallel)) is type(Serial())


@pytest.mark.parametrize(("parallel", "workers"), [(None, 1), (1, 1), (3, 3), (True, cores())])
def test_apart_is_never_in_process(parallel: int | None, workers: int) -> None:
    assert choose(parallel, apart=True) is pool(workers)


def test_true_and_minus_one_are_a_worker_for_each_core() -> None:
    many = cores() > 1
    assert choose(True).workers == choose(-1).workers == cores()
    assert many == (type(choose(True)) is not type(Serial()))
    assert choose(3).workers == 3


@pytest.mark.parametrize("parallel", [0, -2])
def test_a_number_that_means_nothing_is_refused(parallel: int) -> None:
    with pytest.raises(InvalidInput, match=f"parallel is {parallel}"):
        choose(parallel)


def test_an_engine_nobody_knows_is_refused_with_those_there_are() -> None:
    with pytest.raises(InvalidInput, match=r"(?s)'spark'.*ray"):
        choose(2, "spark")


def test_trivial_work_stays_in_process_and_costs_what_it_costs_in_process() -> None:
    table = pa.table({"n": np.arange(100_000), "text": [f"row {number}" for number in range(100_000)]})
    items = [table.slice(start, 4000) for start in range(0, 100_000, 4000)]

    def trivial(part: pa.Table) -> tuple[int, int]:
        return os.getpid(), sum(len(text) for text in part["text"].to_pylist())

    def cost(executor) -> float:
        began = cpu_seconds()
        for _ in range(5):
            assert {pid for _, (pid, _) in executor.map(trivial, items)} == {HERE}
        return cpu_seconds() - began

    cost(Serial())
    costs = [(cost(Serial()), cost(choose(2))) for _ in range(5)]  # in turns: others on the machine slow both alike
    alone, both = min(one for one, _ in costs), min(other for _, other in costs)
    assert both <= alone * 1.5 + 0.03  # cpu times count in hundredths


def test_heavy_work_goes_to_the_pool_and_gains_time() -> None:
    def heavy(item: int) -> tuple[int, int, float, float]:
        began = time.monotonic()
        time.sleep(0.1)  # not a processor: this machine may have one to spare or none
        return item, os.getpid(), began, time.monotonic()

    list(pool(4).map(str, range(8)))
    found = dict(auto(pool(4), heavy, range(40)))
    assert [found[index][0] for index in range(40)] == list(range(40))
    assert found[0][1] == HERE and found[39][1] != HERE
    spans = [(began, ended) for _, _, began, ended in found.values()]
    at_once = max(sum(began <= moment < ended for began, ended in spans) for moment, _ in spans)
    assert at_once > 1, "they ran one after the other"


def test_work_goes_on_in_process_while_the_workers_start() -> None:
    def work(item: int) -> tuple[int, int]:
        if os.getpid() == HERE:
            time.sleep(0.02)
        return item, os.getpid()

    cold, count = Pool(2), 2000  # 40 seconds, for a machine on which a start takes long
    found = dict(auto(cold, work, range(count)))
    assert [found[index][0] for index in range(count)] == list(range(count))
    pids = [found[index][1] for index in range(count)]
    assert pids[:3] == [HERE] * 3, "one is enough to decide"
    assert HERE not in pids[-3:] and 1 <= len(set(pids[-100:])) <= 2


def test_items_from_a_generator_go_to_the_pool_after_a_while(clock: Clock) -> None:
    executor = Warm(start=0.02)
    found = dict(auto(executor, lambda item: clock.sleep(0.01) or item, (item for item in range(50))))
    assert found == {index: index for index in range(50)}
    assert executor.used


def test_a_dear_start_is_not_paid_for_little_work(clock: Clock) -> None:
    executor = Warm(start=60.0)
    assert len(list(auto(executor, lambda _: clock.sleep(0.01), range(20)))) == 20
    assert not executor.used


def test_opening_again_elsewhere_counts_as_a_cost(clock: Clock) -> None:
    class Model:
        loads = 0

        def open(self) -> None:
            Model.loads += 1
            clock.sleep(0.3)

        def __call__(self, item: int) -> int:
            clock.sleep(0.01)
            return item

    executor = Warm()
    assert dict(auto(executor, Model(), range(20))) == {index: index for index in range(20)}
    assert not executor.used and Model.loads == 1


def test_what_was_opened_in_process_is_not_sent_to_the_workers() -> None:
    class Model:
        def open(self) -> None:
            self.lock = threading.Lock()  # as a loaded model, nothing that can be pickled

        def __call__(self, item: int) -> int:
            time.sleep(0.02)
            with self.lock:
                return os.getpid()

    list(pool(2).map(str, range(8)))
    pids = [pid for _, pid in auto(pool(2), Model(), range(100))]
    assert pids[0] == HERE and pids[-1] != HERE


def test_items_that_are_dear_to_send_stay(clock: Clock) -> None:
    def glance(data: bytes) -> int:
        clock.sleep(0.002)
        return len(data)

    light, large = Warm(), Warm()
    list(auto(light, glance, [b"x"] * 50))
    list(auto(large, glance, [bytes(60_000_000)] * 50))
    assert light.used and not large.used
