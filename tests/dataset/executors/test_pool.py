"""The pool of worker processes: results, failures, deaths, and that nothing stays behind."""

from __future__ import annotations

import contextlib
import importlib
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import psutil
import pyarrow as pa
import pytest

from memlake.dataset.executors import Lost, Serial, pool
from memlake.dataset.executors.messages import pack
from memlake.errors import Error, InvalidInput, Unavailable

EXECUTORS = [Serial(), pool(2)]
SOURCE = Path(__file__).resolve().parents[3] / "src"


def wait_until(true: Callable[[], object], seconds: float = 200) -> bool:
    until = time.monotonic() + seconds
    while not true():
        if time.monotonic() > until:
            return False
        time.sleep(0.02)
    return True


def run_script(text: str, *how: str) -> subprocess.CompletedProcess[str]:
    environment = dict(os.environ)
    return subprocess.run(
        [sys.executable, *how], input=text, capture_output=True, text=True, env=environment, timeout=250, check=False
    )


class Opened:
    """Work that is opened: says by whom and how often."""

    def __init__(self, log: Path) -> None:
        self.log, self.times = log, 0

    def _say(self, what: str) -> None:
        with self.log.open("a") as log:
            log.write(f"{what} {os.getpid()}\n")

    def open(self) -> None:
        self._say("open")
        self.times += 1

    def __call__(self, item: int) -> tuple[int, int]:
        return item, self.times

    def close(self) -> None:
        self._say("close")


@pytest.mark.parametrize("executor", EXECUTORS)
def test_every_item_has_its_result_under_its_index(executor) -> None:
    factor = 3
    found = dict(executor.map(lambda item: item * factor, iter(range(50))))
    assert found == {index: index * 3 for index in range(50)}
    assert list(executor.map(str, [])) == []


@pytest.mark.parametrize("executor", EXECUTORS)
def test_work_is_opened_once_in_each_worker_and_closed_at_the_end(executor, tmp_path: Path) -> None:
    found = dict(executor.map(Opened(tmp_path / "log"), range(20)))
    assert found == {index: (index, 1) for index in range(20)}
    log = (tmp_path / "log").read_text().split("\n")[:-1]
    opened = [line.split()[1] for line in log if line.startswith("open")]
    assert 1 <= len(opened) == len(set(opened)) <= executor.workers
    assert sorted(line.split()[1] for line in log if line.startswith("close")) == sorted(opened)


@pytest.mark.parametrize("executor", EXECUTORS)
def test_a_failure_is_of_its_own_type_and_what_was_done_before_is_kept(executor) -> None:
    kept: dict[int, float] = {}
    with pytest.raises(ZeroDivisionError) as raised:
        kept.update(executor.map(lambda item: 1 / item, [4, 2, 1, 0, 5, 10]))
    assert {index: kept[index] for index in range(3)} == {0: 0.25, 1: 0.5, 2: 1.0}
    if executor.workers > 1:
        assert "in <lambda>" in raised.value.__notes__[0] and "worker.py" not in raised.value.__notes__[0]


def test_workers_are_kept_for_the_next_map() -> None:
    first = {pid for _, pid in pool(2).map(lambda _: os.getpid(), range(30))}
    second = {pid for _, pid in pool(2).map(lambda _: os.getpid(), range(30))}
    assert first & second and os.getpid() not in first
    assert pool(2) is pool(2)


def test_items_are_pulled_as_there_is_room() -> None:
    pulled, taken, most = 0, 0, 0

    def items() -> Iterator[int]:
        nonlocal pulled
        for item in range(100):
            pulled += 1
            yield item

    for _ in pool(2).map(lambda item: item, items()):
        taken += 1
        most = max(most, pulled - taken)
    assert taken == 100 and most <= 4


def test_maps_can_be_nested() -> None:
    inner = pool(2).map(lambda item: item + 1, range(10))
    outer = pool(2).map(lambda item: item * 10, (result for _, result in inner))
    assert sorted(result for _, result in outer) == [item * 10 for item in range(1, 11)]


# -- what is sent


def test_a_slice_is_sent_without_the_rest_of_its_column() -> None:
    table = pa.table({"text": [f"row {number}" for number in range(200_000)], "n": np.arange(200_000)})
    body, beside = pack(table.slice(1000, 10))
    assert body.nbytes + sum(one.nbytes for one in beside) < 10_000
    assert dict(pool(2).map(lambda part: part.slice(1, 2), [table.slice(1000, 10)]))[0].equals(table.slice(1001, 2))


def test_tables_of_every_shape_arrive_as_they_were() -> None:
    nested = pa.array([{"a": [1, 2], "b": None}, None, {"a": [], "b": "x"}] * 1000)
    named = pa.array(["x", "y", None] * 1000).dictionary_encode()
    batch = pa.record_batch({"nested": nested, "named": named, "nothing": pa.nulls(3000)})
    schema = batch.schema.with_metadata({b"memlake": b"1"})
    table = pa.Table.from_batches([batch, batch.slice(5, 17)]).cast(schema)
    given = [table, batch, batch.slice(2990), table.slice(2995, 20), (1, {"t": table}), table.slice(0, 0)]
    for index, result in pool(2).map(lambda item: item, given):
        assert result == given[index]
    assert dict(pool(2).map(lambda item: item, [table]))[0].schema.metadata == {b"memlake": b"1"}


def test_an_array_can_be_written_to_as_in_process() -> None:
    def negate(array: np.ndarray) -> np.ndarray:
        array *= -1
        return array

    assert dict(pool(2).map(negate, [np.ones(100_000)]))[0].sum() == -100_000


@pytest.mark.parametrize("size", [1, 30_000_000])
def test_items_and_results_larger_than_a_pipe_pass_at_the_same_time(size: int) -> None:
    found = dict(pool(2).map(lambda item: item + b"!", [b"x" * size] * 5))
    assert [len(found[index]) for index in range(5)] == [size + 1] * 5


def test_work_that_cannot_be_sent_is_named() -> None:
    lock = threading.Lock()

    def embed(item: int) -> int:
        with lock:
            return item

    with pytest.raises(InvalidInput, match=r"(?s)`lock`, which embed uses.*setup=") as raised:
        pool(2).map(lambda item: embed(item) + 1, [1])
    assert "Nothing was run" in raised.value.message


def test_an_item_or_a_result_that_cannot_be_sent_is_an_error_and_the_worker_lives_on() -> None:
    with pytest.raises(TypeError, match="lock"):
        list(pool(2).map(str, [threading.Lock()]))
    with pytest.raises(InvalidInput, match=r"made a generator that cannot be sent back"):
        list(pool(2).map(lambda item: (x for x in item), ["ab"]))
    assert list(pool(2).map(str, [1])) == [(0, "1")]


class Picky(Exception):
    def __init__(self, code: int, *, reason: str) -> None:
        super().__init__(f"{code} {reason}")


def test_an_exception_that_cannot_be_sent_is_told_in_words() -> None:
    def fail(item: int) -> None:
        raise Picky(item, reason="for a reason")

    with pytest.raises(Error, match=r"Picky: 7 for a reason"):
        list(pool(2).map(fail, [7]))


# -- workers as the parent sees the world


def test_arguments_are_the_parents_of_now(monkeypatch: pytest.MonkeyPatch) -> None:
    for given in (["train.py", "--rate", "0.1"], ["train.py"]):
        monkeypatch.setattr(sys, "argv", given)
        assert [found for _, found in pool(2).map(lambda _: list(sys.argv), range(4))] == [given] * 4


def test_folder_and_environment_are_the_parents_of_now(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    list(pool(2).map(str, range(8)))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SAID_LATER", "yes")
    found = {result for _, result in pool(2).map(lambda _: (os.getcwd(), os.environ["SAID_LATER"]), range(8))}
    assert found == {(str(tmp_path), "yes")}
    monkeypatch.delenv("SAID_LATER")
    assert {result for _, result in pool(2).map(lambda _: os.environ.get("SAID_LATER"), range(8))} == {None}


@pytest.mark.parametrize("behind", [0, 86_400], ids=["clocks agree", "the file server is a day behind"])
def test_a_module_the_user_changed_is_loaded_again(
    tmp_path: Path, behind: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    name = f"changing_module_{behind}"

    def answer(_: int) -> object:
        return importlib.import_module(name).ANSWER

    def write(text: str, seconds: int) -> None:
        (tmp_path / f"{name}.py").write_text(f"ANSWER = {text!r}\n")
        os.utime(tmp_path / f"{name}.py", (time.time() + seconds - behind,) * 2)

    write("old", seconds=-10)

    def answers() -> tuple[set[int], set[str]]:
        """Of a pool of one: of two workers, one may do all items of a map, and the other all of the next."""
        found = [found for _, found in pool(1).map(lambda item: (os.getpid(), answer(item)), range(8))]
        return {pid for pid, _ in found}, {text for _, text in found}

    pids, texts = answers()
    assert texts == {"old"}
    assert answers() == (pids, {"old"}), "a worker is kept while no module changed"
    write("renewed", seconds=10)
    assert answers()[1] == {"renewed"}


def test_numeric_libraries_share_the_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    assert {found for _, found in pool(64).map(lambda _: os.environ["OMP_NUM_THREADS"], range(2))} == {"1"}
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert {found for _, found in pool(64).map(lambda _: os.environ["OMP_NUM_THREADS"], range(2))} == {"3"}


SCRIPT = """
import os
from memlake.dataset.executors import pool
print("imported")
factor = 3
class Found:
    def __init__(self, value): self.value = value
def triple(item):
    print("printed in a worker")
    return Found(item * factor)
found = sorted((index, result.value, type(result) is Found) for index, result in pool(2).map(triple, range(3)))
print(found)
"""


@pytest.mark.parametrize("way", ["file", "stdin", "command"])
def test_a_script_without_a_guard_works_from_anywhere(way: str, tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    how = {"file": [str(tmp_path / "script.py")], "stdin": ["-"], "command": ["-c", SCRIPT]}[way]
    done = run_script(SCRIPT, *how)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines.count("imported") == 1 and lines.count("printed in a worker") == 3
    assert "[(0, 0, True), (1, 3, True), (2, 6, True)]" in lines
    assert done.stderr == ""


def test_what_is_printed_without_a_newline_is_seen_too() -> None:
    script = "from memlake.dataset.executors import pool\nlist(pool(2).map(lambda _: print('dots', end=''), [1]))"
    assert run_script("", "-c", script).stdout == "dots"


# -- deaths


def test_an_item_whose_worker_died_is_done_by_another(tmp_path: Path) -> None:
    def die_once(item: int) -> int:
        if item == 3:
            with contextlib.suppress(FileExistsError):
                (tmp_path / "died").touch(exist_ok=False)
                os.kill(os.getpid(), signal.SIGKILL)
        return item

    assert dict(pool(2).map(die_once, range(10))) == {item: item for item in range(10)}


@pytest.mark.parametrize(("number", "hint"), [(signal.SIGKILL, "memory"), (signal.SIGSEGV, "in process")])
def test_an_item_that_kills_every_worker_is_given_up_and_the_others_are_kept(number: int, hint: str) -> None:
    def die(item: int) -> int:
        if item == 3:
            os.kill(os.getpid(), number)
        return item

    kept: dict[int, float] = {}
    with pytest.raises(Unavailable, match=rf"killed by {signal.Signals(number).name} at item 3, 2 times") as raised:
        kept.update(pool(2).map(die, range(8)))
    assert hint in raised.value.hint
    assert {0, 1, 2} <= kept.keys() and 3 not in kept


class Bearing:
    """Work that goes on where workers die of an item."""

    bears_loss = True

    def __call__(self, item: int) -> int:
        return os._exit(7) if item == 3 else item


def test_work_that_bears_it_is_told_what_was_lost_and_goes_on() -> None:
    found = dict(pool(2).map(Bearing(), range(8)))
    assert found.pop(3) == Lost("ended with exit code 7")
    assert found == {item: item for item in range(8) if item != 3}


def test_once_an_item_was_lost_each_further_one_costs_one_worker(tmp_path: Path) -> None:
    """The first death may be anybody's doing; a function that has killed twice over an item is known to kill."""

    class Deadly:
        bears_loss = True

        def __call__(self, item: int) -> int:
            if item in (2, 3, 5):
                with (tmp_path / "deaths").open("a") as log:
                    log.write(f"{item} ")
                os._exit(7)
            return item

    found = dict(pool(1).map(Deadly(), range(8)))
    assert [item for item, result in found.items() if isinstance(result, Lost)] == [2, 3, 5]
    assert (tmp_path / "deaths").read_text().split() == ["2", "2", "3", "5"]


def test_workers_that_died_while_idle_are_replaced_and_are_not_the_items_fault(tmp_path: Path) -> None:
    at_once = pool(5)

    def meet(_: int) -> int:
        (tmp_path / str(os.getpid())).touch()
        while len(list(tmp_path.iterdir())) < 4:  # more than an item has tries
            time.sleep(0.01)
        return os.getpid()

    pids = {pid for _, pid in at_once.map(meet, range(10))}
    assert len(pids) > 3
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    assert wait_until(lambda: all(psutil.Process(pid).status() == psutil.STATUS_ZOMBIE for pid in pids))
    assert list(at_once.map(str, [7])) == [(0, "7")]


# -- being stopped


def test_closing_early_ends_what_is_under_way_and_runs_its_finally(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules[pool.__module__], "STOP_SECONDS", 60)  # a busy machine is not a stubborn item

    def slow(item: int) -> int:
        if item:
            try:
                (tmp_path / "begun").touch()
                time.sleep(1000)  # longer than a test may take
            finally:
                (tmp_path / "ended").touch()
        return item

    results = pool(2).map(slow, range(100))
    assert next(results) == (0, 0)
    assert wait_until((tmp_path / "begun").exists)
    results.close()
    assert (tmp_path / "ended").exists()
    assert dict(pool(2).map(str, range(4))) == {item: str(item) for item in range(4)}


STUBBORN = """
import os, signal, subprocess, sys, time
from memlake.dataset.executors import pool
def stubborn(item):
    child = subprocess.Popen(["sleep", "100"])
    print("pids", os.getpid(), child.pid)
    while True:
        try: time.sleep(100)
        except KeyboardInterrupt: pass
for _ in pool(2).map(stubborn, range(10)): pass
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL, signal.SIGHUP])
def test_nothing_is_left_however_the_parent_ends(number: signal.Signals) -> None:
    environment = {**os.environ, "PYTHONUNBUFFERED": ""}  # a line is seen when it is printed
    with subprocess.Popen(
        [sys.executable, "-c", STUBBORN], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as parent:
        try:
            told = [parent.stdout.readline().split() for _ in range(2)]
            pids = [int(pid) for line in told for pid in line[1:]]
            assert len(pids) == 4 and all(psutil.pid_exists(pid) for pid in pids)
            parent.send_signal(number)
            _, error = parent.communicate(timeout=200)
        finally:
            parent.kill()
    assert wait_until(lambda: not any(psutil.pid_exists(pid) for pid in pids))
    if number == signal.SIGINT:
        assert error.count("Traceback") == 1 and error.rstrip().endswith("KeyboardInterrupt")
    else:
        assert error == ""


def test_an_exit_in_the_middle_of_a_map_leaves_nothing() -> None:
    script = """
    import os, sys, time
    from memlake.dataset.executors import pool
    results = pool(2).map(lambda item: (item and time.sleep(100), os.getpid())[1], range(10))
    print(next(results)[1])
    """
    done = run_script("", "-c", textwrap.dedent(script))
    assert done.returncode == 0 and done.stderr == ""
    assert wait_until(lambda: not psutil.pid_exists(int(done.stdout)))


def test_a_fork_of_the_parent_has_its_own_workers() -> None:
    script = """
    import os, sys
    from memlake.dataset.executors import pool
    def pids(): return {pid for _, pid in pool(1).map(lambda _: os.getpid(), range(8))}
    mine = pids()
    if not os.fork():
        sys.exit(1 if mine & pids() else 0)
    _, status = os.wait()
    assert pids() == mine
    print(os.waitstatus_to_exitcode(status))
    """
    done = run_script("", "-c", textwrap.dedent(script))
    assert (done.returncode, done.stdout, done.stderr) == (0, "0\n", "")


def test_no_more_workers_stay_than_were_asked_for() -> None:
    script = """
    import os, psutil
    from memlake.dataset.executors import pool
    try: list(pool(2).map(lambda item: os._exit(7), range(4)))
    except Exception as error: print(error)
    inner = pool(2).map(lambda item: item, range(20))
    list(pool(2).map(lambda item: item and os.getpid(), (result for _, result in inner)))
    print([child.status() for child in psutil.Process().children(recursive=True)])
    """
    done = run_script("", "-c", textwrap.dedent(script))
    assert done.stderr == "" and "ended with exit code 7 at item" in done.stdout
    left = done.stdout.splitlines()[-1]
    assert 1 <= left.count("'") / 2 <= 2 and "zombie" not in left
