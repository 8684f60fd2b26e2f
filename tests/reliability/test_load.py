"""Many processes write everything at once, and some are killed: what was acknowledged is there, once."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

import memlake as ml
from memlake.dataset.datasets import Datasets
from memlake.repo import Repo
from tests.reliability.ground import TORTURE, assert_sound, fast_folder, init, python
from tests.reliability.memory_ground import everything

WRITERS = 64 if TORTURE else 6
SECONDS = 2700 if TORTURE else 4
KILLS = WRITERS if TORTURE else 3

# A line of the log is written after the verb returned, by one write: a kill leaves it whole or not at all.
_WRITER = """
import json, os, pathlib, random, sys
import memlake as ml
root, me, log = pathlib.Path(sys.argv[1]), sys.argv[2], os.open(sys.argv[3], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
chance = random.Random(me)
repo = ml.open(root)
agent, data = ml.Agent(str(root), agent_id=me), repo.datasets()

def acknowledge(kind, *facts):
    os.write(log, (json.dumps([kind, *facts]) + "\\n").encode())

number = 0
while not (root / "stop").exists():
    number += 1
    text = f"{me} noted {number}"
    what = chance.choices(["memory", "file", "state", "dataset", "gc", "search"], [60, 12, 12, 8, 1, 7])[0]
    if what == "memory":
        acknowledge("memory", agent.store_memory(text), text)
    elif what == "file":
        commit = repo.write({f"files/{me}/{number % 9}.txt": text.encode()}, text)
        acknowledge("file", commit.oid, text)
    elif what == "state":
        agent.set_state("number", number)
        acknowledge("state", me, number)
    elif what == "dataset":
        acknowledge("dataset", str(data.read_values(writer=[me], number=[number]).save(f"of_{me[:2]}").version), text)
    elif what == "search":
        agent.search_memory(text)
    else:
        repo.upkeep.gc()
        acknowledge("gc")
"""


def _start(root: Path, folder: Path, name: str) -> subprocess.Popen[str]:
    log, errors = folder / f"{name}.log", (folder / f"{name}.err").open("a")
    return python("-c", _WRITER, str(root), name, str(log), stderr=errors)


def run_writers(root: Path, folder: Path) -> int:
    """Start them all, kill some and start others in their place; returns how many were killed."""
    chance, killed = random.Random(5), 0
    children = {f"w{n}": _start(root, folder, f"w{n}") for n in range(WRITERS)}
    every = SECONDS / (KILLS + 1)
    for turn in range(KILLS + 1):
        until = time.monotonic() + every
        while time.monotonic() < until or len(_acknowledged(folder)) < 40 * (turn + 1):  # a busy machine takes longer
            time.sleep(0.2)
        assert all(child.poll() is None for child in children.values()), "a writer stopped by itself"
        if turn < KILLS:
            name = chance.choice(list(children))
            children[name].send_signal(signal.SIGKILL)
            children.pop(name).wait()
            killed += 1
            children[f"{name}r"] = _start(root, folder, f"{name}r")
    (root / "stop").touch()
    for child in children.values():
        assert child.wait(timeout=600) == 0
    return killed


def _acknowledged(folder: Path) -> list[list[str]]:
    return [json.loads(line) for log in folder.glob("*.log") for line in log.read_text().splitlines()]


def test_everything_acknowledged_under_load_and_kills_is_there_once(tally: Callable[..., None]) -> None:
    with fast_folder() as folder:
        root = folder / "repo"
        init(root).close()
        killed = run_writers(root, folder)
        lines = _acknowledged(folder)
        tally(kills=killed, writers=WRITERS, **Counter(f"acknowledged_{line[0]}" for line in lines))
        assert "".join(log.read_text() for log in folder.glob("*.err")) == ""
        with ml.open(root) as repo:
            _compare(repo, lines)
            assert_sound(repo)


def _compare(repo: Repo, lines: list[list[str]]) -> None:
    by_kind = defaultdict[str, list[list[str]]](list)
    for kind, *facts in lines:
        by_kind[kind].append(facts)
    stored = everything(repo.memories())
    assert dict(by_kind["memory"]).items() <= stored.items()
    assert max(Counter(stored.values()).values()) == 1, "a memory was stored twice"
    for oid, text in by_kind["file"]:
        assert repo.show(oid).commit.message == text
    for agent, number in dict(by_kind["state"]).items():
        state = repo.memories().find_state(agent, "number")
        assert state is not None and state.value >= number
    data = repo.datasets()
    saved = {row for name in {version.name for version in data.all()} for row in _rows(data, name)}
    assert {text for _, text in by_kind["dataset"]} <= saved


def _rows(data: Datasets, name: str) -> Iterator[str]:
    """What every version of a dataset says was noted."""
    for version in data.versions(name):
        for writer, number in data.read_dataset(name, version.version).to_list("writer", "number"):
            yield f"{writer} noted {number}"
