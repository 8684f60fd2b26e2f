"""A program that ends while the local model embeds: in good order, soon, and what it had taken is free for others."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import memlake as ml
from memlake.index import rows
from memlake.memories.embedders import local
from memlake.objects import layout
from tests.reliability.ground import TORTURE

pytestmark = [pytest.mark.skipif(not local.is_installed(), reason="the local model is not installed")] + (
    [pytest.mark.torture] if TORTURE else []
)
TIMES = 20 if TORTURE else 2

_HEAD = """
import os, signal, sys, threading, time
import memlake as ml
from memlake.memories.embedders import local
from memlake.memories.memories import Draft

inside = threading.Event()
real = local.run
def run(session, encoded):
    inside.set()
    return real(session, encoded)
local.run = run  # tells when the model is at work; the program ends at that very moment

repo = ml.open(sys.argv[1])
words = "the quick brown fox jumps over a lazy dog while it rains in the old harbour of a small town ".split()
repo.memories().store_many([Draft(" ".join(words[n % 9:] * 12) + f" {n}") for n in range(64)])
assert inside.wait(60)
"""
ENDS = {
    "closed": "repo.close()",
    "left open": "",
    "sys.exit": "sys.exit(0)",
    "sys.exit in a thread": "t = threading.Thread(target=sys.exit); t.start(); t.join()",
    "an exception": "sys.excepthook = lambda *_: None\nraise SystemExit(0)",
    "ctrl-c": "try:\n    signal.raise_signal(signal.SIGINT)\nexcept KeyboardInterrupt:\n    sys.exit(0)",
    "a query under way": "threading.excepthook = lambda *_: None\n"
    "ask = repo.memories().shared.vector_of\n"
    "threading.Thread(target=ask, args=('fox ' * 200,), daemon=True).start()",
    "a fork": "pid = os.fork()\n"
    "if not pid:\n    repo.memories().embed_pending(2); sys.exit(0)\n"
    "assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0",
}


@pytest.fixture
def root(here: Path) -> Path:
    ml.init(here).close()
    return here


@pytest.mark.parametrize("end", ENDS)
def test_a_program_that_ends_while_the_model_embeds_ends_in_good_order(here: Path, end: str) -> None:
    for turn in range(TIMES):
        ml.init(here / str(turn)).close()  # in a repo that had all vectors already, nothing would be embedded
        ran = subprocess.run(
            [sys.executable, "-c", _HEAD + ENDS[end], str(here / str(turn))],
            capture_output=True, text=True, timeout=280, check=False,
        )  # fmt: skip
        assert (ran.returncode, ran.stderr) == (0, "")


def test_what_a_closed_repo_had_taken_is_free_at_once(root: Path) -> None:
    ran = subprocess.run([sys.executable, "-c", _HEAD + "repo.close()", str(root)], timeout=280, check=False)
    assert ran.returncode == 0
    with ml.open(root) as repo:
        db = repo.memories().context.index.db
        waits, held = rows.count_pending(db), db.row("SELECT count(*) FROM pending WHERE claimed > ?", (layout.now(),))
        assert waits and held == (0,)


def test_a_terminated_program_ends_by_the_signal_alone(root: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", _HEAD + "os.kill(os.getpid(), signal.SIGTERM); time.sleep(60)", str(root)],
        capture_output=True, text=True, timeout=280, check=False,
    )  # fmt: skip
    assert (ran.returncode, ran.stderr) == (-signal.SIGTERM, "")


def test_memory_does_not_grow_with_each_agent_that_used_the_model(root: Path) -> None:
    program = """
import json, sys, psutil
import memlake as ml
sizes = []
for turn in range(10):
    with ml.Agent(sys.argv[1], "bot") as agent:
        agent.store_memory(f"the sky is blue, number {turn}")
        agent.search_memory("what colour is the sky")
    sizes.append(psutil.Process().memory_info().rss >> 20)
print(json.dumps(sizes))
"""
    ran = subprocess.run(
        [sys.executable, "-c", program, str(root)], capture_output=True, text=True, timeout=300, check=True
    )
    sizes = json.loads(ran.stdout)
    assert sizes[-1] - sizes[1] < 40, sizes
