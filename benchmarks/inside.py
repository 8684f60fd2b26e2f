"""Figures of memlake taken inside a process: one verb, in a fresh child, its answer as one line of JSON.

Run by the rows as `python inside.py VERB '{"repo": ..., ...}'`; CPU is process_time, so all threads count.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

from generate import memory, spread, uuid7
from measure import allocated, checkpoint, peak_memory

import memlake as ml

EPOCH_MS = 1_700_000_000_000
AGENTS = [f"agent-{number}" for number in range(8)]
Changes = dict[str, bytes]


def clock(work: Callable[[], object]) -> float:
    started = time.process_time()
    work()
    return time.process_time() - started


def work_path(number: int) -> str:
    return f"files/data/{number // 100:05d}/{number:07d}.bin"


def memory_path(moment: int, random: Random) -> str:
    return f"memories/{random.choice(AGENTS)}/{uuid7(EPOCH_MS + moment, random)}"


def setup(repo: str, lane: str, paths: int) -> dict[str, Any]:
    """A repo of this many paths on one lane, all of them in one commit and of one small object."""
    random = Random(11)
    names = [work_path(n) if lane == "work" else memory_path(n, random) for n in range(paths)]
    with ml.init(repo) as lake:
        first = lake.write({names[0]: b"the same content at every path"}, "first")
        entry = lake.show(first).changes[0].new
        cpu = clock(lambda: lake.write(dict.fromkeys(names[1:], entry), "all of them"))
    return {"cpu": cpu, "peak": peak_memory()}


def edits(lane: str, paths: int, seed: int) -> Iterator[Changes]:
    """One-path changes without end: an old path rewritten, or a new memory after all others."""
    random = Random(seed)
    moment = paths + seed * 1_000_000
    while True:
        moment += 1
        if lane == "work":
            yield {work_path(random.randrange(paths)): random.randbytes(64)}
        else:
            yield {memory_path(moment, random): memory(random)}


def commits(repo: str, lane: str, paths: int, count: int) -> dict[str, Any]:
    """CPU of one-path commits (mean of the best of 5 batches, and the middle one) and what each leaves behind."""
    before = _stored(repo)
    batches = []
    with ml.open(repo) as lake:
        changes = edits(lane, paths, seed=1)
        for _ in range(5):
            batch = [next(changes) for _ in range(count // 5)]
            batches.append([clock(lambda change=change: lake.write(change, "one path")) for change in batch])  # type: ignore[misc]
    means = [statistics.fmean(batch) for batch in batches]
    every = [value for batch in batches for value in batch]
    stored = (_stored(repo) - before) / len(every)
    return {"cpu": min(means), "mean": statistics.fmean(every), "median": statistics.median(every), "stored": stored}


def wal(repo: str, lane: str, paths: int, count: int) -> dict[str, Any]:
    """Bytes one commit puts into the write-ahead log, which is emptied before each."""
    log = Path(repo, ".memlake/repo.db-wal")
    sizes = []
    with ml.open(repo) as lake:
        changes = edits(lane, paths, seed=2)
        for _ in range(count):
            checkpoint(log.parent)
            lake.write(next(changes), "one path")
            sizes.append(log.stat().st_size if log.exists() else 0)
    return {"median": statistics.median(sizes), "most": max(sizes)}


def change(repo: str, paths: int) -> dict[str, Any]:
    """100 paths changed by two commits, so that no single commit's own list answers the diff."""
    numbers = spread(100, paths)
    with ml.open(repo) as lake:
        old = lake.head
        for half in (numbers[::2], numbers[1::2]):
            new = lake.write({work_path(n): b"changed %d at %d" % (n, time.time_ns()) for n in half}, "fifty").oid
    return {"old": old, "new": new}


def diff(repo: str, old: str, new: str) -> dict[str, Any]:
    """CPU of the first diff after opening, when no node is in memory, and of the best of five after it."""
    with ml.open(repo) as lake:
        # Modules are imported at first use: start-up is another row's figure.
        imports = clock(lambda: lake.diff(old, old))
    with ml.open(repo) as lake:
        cold = clock(lambda: lake.diff(old, new))
        warm = min(clock(lambda: lake.diff(old, new)) for _ in range(5))
        found = len(lake.diff(old, new))
    with ml.open(repo) as lake:  # by their trees, as commits of two branches are compared; lists answer the others
        ends = lake.show(old).commit, lake.show(new).commit
        trees = clock(lambda: lake._history.diff(*ends))
    return {"cold": cold, "warm": warm, "trees": trees, "imports": imports, "changes": found}


def branches(repo: str, count: int, prefix: str) -> dict[str, Any]:
    with ml.open(repo) as lake:
        every = [clock(lambda n=n: lake.branches.create(f"{prefix}-{n}")) for n in range(count)]  # type: ignore[misc]
    return {"cpu": statistics.fmean(every), "median": statistics.median(every)}


def grow(repo: str, count: int) -> dict[str, Any]:
    """Memory-lane commits, each its own write; says on stderr how far it is."""
    started, cpu = time.time(), time.process_time()
    with ml.init(repo) as lake:
        changes = edits("memory", 0, seed=3)
        for number in range(1, count + 1):
            lake.write(next(changes), "remember")
            if number % 20_000 == 0:
                rate = number / (time.time() - started)
                left = (count - number) / rate / 60
                print(f"  {number:,} of {count:,} commits, {rate:.0f} a second, {left:.0f} min left", file=sys.stderr)
    return {"cpu": (time.process_time() - cpu) / count, "peak": peak_memory()}


def gc(repo: str) -> dict[str, Any]:
    with ml.open(repo) as lake:
        started = time.process_time()
        report = lake.upkeep.gc(prune=True)
        cpu = time.process_time() - started
    return {"cpu": cpu, "peak": peak_memory(), "report": report._asdict()}


def fsck(repo: str) -> dict[str, Any]:
    with ml.open(repo) as lake:
        started = time.process_time()
        report = lake.upkeep.fsck()
        cpu = time.process_time() - started
    return {"cpu": cpu, "peak": peak_memory(), "ok": report.ok, "checked": dict(report.checked)}


def _stored(repo: str) -> int:
    folder = Path(repo, ".memlake")
    checkpoint(folder)
    return allocated(folder)


VERBS: dict[str, Callable[..., dict[str, Any]]] = {
    verb.__name__: verb for verb in (setup, commits, wal, change, diff, branches, grow, gc, fsck)
}

if __name__ == "__main__":
    print(json.dumps(VERBS[sys.argv[1]](**json.loads(sys.argv[2]))))
