"""Workers that die, functions that end the process, run out of memory or are interrupted: told, resumed, none left."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import psutil
import pytest

import memlake as ml
from tests.reliability.dataset_ground import look
from tests.reliability.ground import TORTURE, fast_folder, init, python

MARK = "MEMLAKE_TEST_MARK"

# `ill` is what a function does once it comes to row 90, while the file `ill` is there; after row 0 it waits while the
# file `hold` is.
_SCRIPT = """
import ctypes, os, resource, signal, sys, time
import memlake as ml
from memlake.dataset import executors
root, ill, calls, hold = sys.argv[1:5]

def trouble():
    {ill}

def work(x: int) -> int:
    while x and os.path.exists(hold):
        time.sleep(0.01)
    if x == 90 and os.path.exists(ill):
        trouble()
    with open(calls, "a") as out:
        out.write(f"{{x}}\\n")
    time.sleep(0.02)
    return x + 1

if {parallel} > 1:  # from the first row on: by itself it would begin in this process
    executors.choose = lambda *_, apart: executors.pool({parallel})
repo = ml.open(root)
chain = repo.datasets().read_values(x=list(range(120))).settings(parallel={parallel}).map(y=work)
try:
    chain.save("made")
except ml.Error as error:
    print(f"{{type(error).__name__}}: {{error}}", file=sys.stderr)
    sys.exit(3)
except KeyboardInterrupt:
    sys.exit(4)
assert repo.datasets().read_dataset("made").to_values("y") == list(range(1, 121))
"""

ILLS = {
    "raises": ("raise RuntimeError('bad row')", "RowFailed"),
    "exits": ("os._exit(7)", "exit code 7"),
    "kills itself": ("os.kill(os.getpid(), signal.SIGKILL)", "SIGKILL"),
    "segfaults": ("ctypes.string_at(0)", "SIGSEGV"),
    "has no memory": (
        "resource.setrlimit(resource.RLIMIT_AS, (1 << 28, resource.RLIM_INFINITY)); bytearray(1 << 32)",
        "emory",  # a MemoryError of the row, or of what is around it
    ),
}


class Place:
    """A repo, a script that works in it, and what the script left running."""

    def __init__(self, folder: Path) -> None:
        self.root, self.ill, self.calls, self.hold = (folder / name for name in ("repo", "ill", "calls", "hold"))
        self.mark = uuid4().hex
        init(self.root).close()

    def start(self, ill: str, parallel: int = 2) -> subprocess.Popen[str]:
        text = _SCRIPT.format(ill=ill, parallel=parallel)
        told = (str(self.root), str(self.ill), str(self.calls), str(self.hold))
        return python(
            "-c", text, *told, stderr=subprocess.PIPE, env=os.environ | {MARK: self.mark}, start_new_session=True
        )

    def run(self, ill: str, parallel: int = 2) -> tuple[int, str]:
        child = self.start(ill, parallel)
        _, error = child.communicate(timeout=250)
        return child.returncode, error

    def called(self) -> list[int]:
        return [int(line) for line in self.calls.read_text().split()] if self.calls.exists() else []

    def workers(self, child: subprocess.Popen[str]) -> list[psutil.Process]:
        """The worker processes of a script that is held, once one has done its first row."""
        while not self.called():
            assert child.poll() is None, child.communicate()
            time.sleep(0.02)
        return psutil.Process(child.pid).children()

    def left(self, seconds: float = 100) -> list[psutil.Process]:
        """Processes of the script that are still there."""
        until = time.monotonic() + seconds
        while (found := list(self._marked())) and time.monotonic() < until:
            time.sleep(0.05)
        return found

    def _marked(self) -> Iterator[psutil.Process]:
        for process in psutil.process_iter():
            try:
                if process.environ().get(MARK) == self.mark and process.status() != psutil.STATUS_ZOMBIE:
                    yield process
            except psutil.Error:
                continue


@pytest.fixture
def place() -> Iterator[Place]:
    with fast_folder() as folder:
        made = Place(folder)
        yield made
        for process in made._marked():
            process.kill()


@pytest.mark.parametrize("ill", ILLS if TORTURE else ["raises", "kills itself"])
def test_a_function_that_ends_its_worker_is_named_and_the_rest_is_not_done_again(place: Place, ill: str) -> None:
    text, told = ILLS[ill]
    place.ill.touch()
    code, error = place.run(text)
    assert code == 3, error
    assert told in error, error
    assert "Traceback (most recent call last)" not in error.split(told)[0], "ours come first"
    assert place.left() == []
    assert "made@1.0.0" not in look(place.root), "nothing half saved is seen"
    before = place.called()
    assert len(set(before)) > 20
    place.ill.unlink()
    place.calls.unlink()
    code, error = place.run(text)
    assert code == 0, error
    again = place.called()
    assert len(again) < 100, "what was done before was done again"
    assert place.left() == []
    assert "made@1.0.0" in look(place.root)


def test_a_worker_that_is_killed_midway_is_replaced_and_nothing_is_said(place: Place) -> None:
    place.hold.touch()
    child = place.start("pass")
    workers = place.workers(child)
    os.kill(workers[0].pid, signal.SIGKILL)
    place.hold.unlink()
    _, error = child.communicate(timeout=250)
    assert child.returncode == 0, error
    assert sorted(set(place.called())) == list(range(120))
    assert place.left() == []


@pytest.mark.parametrize("parallel", [1, 2])
def test_an_interrupt_of_the_group_leaves_what_was_done_and_no_process(place: Place, parallel: int) -> None:
    child = place.start("pass", parallel)
    while len(place.called()) < 90:
        assert child.poll() is None, child.communicate()
        time.sleep(0.02)
    os.killpg(child.pid, signal.SIGINT)
    _, error = child.communicate(timeout=250)
    assert child.returncode == 4, error
    assert place.left() == []
    assert "made@1.0.0" not in look(place.root)
    place.calls.unlink()
    code, error = place.run("pass", parallel)
    assert code == 0, error
    assert len(place.called()) < 100, "what was done before was done again"


def test_a_kill_of_the_parent_leaves_no_worker(place: Place) -> None:
    place.hold.touch()
    child = place.start("pass")
    place.workers(child)
    child.kill()
    child.communicate(timeout=250)
    assert place.left() == []
    place.hold.unlink()
    code, error = place.run("pass")
    assert code == 0, error


def test_a_failing_row_can_be_left_out_or_noted(place: Place) -> None:
    def odd(x: int) -> int:
        if x % 10 == 3:
            raise ValueError(f"no {x}")
        return x

    with ml.open(place.root) as repo:
        chain = repo.datasets().read_values(x=list(range(40)))
        assert chain.settings(on_error="skip").map(y=odd).count() == 36
        noted = chain.settings(on_error="column").map(y=odd).to_records()
        assert [row["y_error"] for row in noted if row["y_error"]] == [f"ValueError: no {n}" for n in (3, 13, 23, 33)]
