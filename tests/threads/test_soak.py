"""A long-lived program: repos opened and closed, searches, saves, an index that another process makes again.

Files, threads and memory must be after many rounds what they were after the first few.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import psutil
import pytest

import memlake as ml
from tests.reliability.ground import TORTURE

pytestmark = [pytest.mark.torture] if TORTURE else []
ROUNDS = 400 if TORTURE else 8
_REBUILDS = """
import sys
from pathlib import Path
from memlake.index import generations
folder = Path(sys.argv[1])
for _ in sys.stdin:
    with generations.take_turn(folder, wait=True):
        generations.begin_generation(folder)
        generations.drop_old(folder)
    print("made again", flush=True)
"""


class Held(NamedTuple):
    files: int
    threads: int
    megabytes: int


def held() -> Held:
    gc.collect()
    with contextlib.suppress(OSError, AttributeError):  # of glibc: what it keeps for the next one is not held by us
        ctypes.CDLL("libc.so.6").malloc_trim(0)
    me = psutil.Process()
    return Held(me.num_fds(), threading.active_count(), me.memory_info().rss >> 20)


def test_files_threads_and_memory_stay_what_they_were(here: Path) -> None:
    with ml.init(here) as made:
        made.config.set("embedding.provider", "test")
    kept = ml.Agent(str(here), "kept")
    kept.store_memory("the sky is blue")
    other = subprocess.Popen(
        [sys.executable, "-c", _REBUILDS, str(here / ".memlake" / "index")],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1,
    )  # fmt: skip
    assert other.stdin is not None and other.stdout is not None

    def work(number: int) -> None:
        with ml.Agent(str(here), f"bot{number}") as agent:
            agent.store_memory(f"the sea is {number} deep")
            assert agent.search_memory("sea") and kept.search_memory("sky")
            agent.repo.datasets().read_values(x=[number]).save(f"numbers{number % 3}")

    seen: list[Held] = []
    try:
        for turn in range(ROUNDS):
            other.stdin.write("again\n")
            assert other.stdout.readline() == "made again\n"
            with ThreadPoolExecutor(3) as pool:
                list(pool.map(work, range(3 * turn, 3 * turn + 3)))
            seen.append(held())
    finally:
        other.stdin.close()
        other.wait(30)
        other.stdout.close()
        kept.close()
    first, last = seen[2], seen[-1]
    assert last.files <= first.files + 12 and last.threads <= first.threads + 2, seen
    assert last.megabytes <= first.megabytes + 60, seen
