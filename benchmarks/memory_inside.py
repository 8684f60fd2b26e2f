"""Figures of agent memory taken inside a process: one verb, in a fresh child, its answer as one line of JSON.

Run by the rows as `python memory_inside.py VERB '{"repo": ..., ...}'`; CPU is process_time, so all threads count,
except where a thread is named. Nothing is embedded.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from measure import peak_memory

BEGAN = time.process_time(), time.perf_counter()

import numpy as np  # noqa: E402
from memory_fixtures import START, STEP, batched, directions, drafts, opened, questions, with_vectors  # noqa: E402

from memlake import Agent  # noqa: E402

ROUNDS, QUESTIONS, K = 3, 100, 10
LOG = 19 * 4096  # bytes a commit of one memory adds to the log
Times = list[float]


def percentiles(times: Sequence[float]) -> dict[str, float]:
    """In milliseconds."""
    found = np.percentile(np.array(times) * 1e3, [50, 95, 99])
    return dict(zip(("p50", "p95", "p99"), found.tolist(), strict=True))


# -- storing ----------------------------------------------------------------------------------


def store(repo: str, count: int) -> dict[str, Any]:
    """One memory a call; every tenth time a bare write and fsync of as much on the same device."""
    agent = Agent(repo)
    wall, own, bare = [], [], []
    with open(Path(repo) / "bare", "wb", buffering=0) as file:
        file.write(bytes(64 * LOG))
        began = time.process_time()
        for number, draft in enumerate(drafts(count, seed=5)):
            started, spent = time.perf_counter(), time.thread_time()
            agent.store_memory(**_call(draft, agent))
            own.append(time.thread_time() - spent)
            wall.append(time.perf_counter() - started)
            if number % 10 == 0:
                bare.append(_fsync(file, number // 10 % 64))
        cpu = time.process_time() - began
    folded = agent.memories.shared.index.db.rows("SELECT first, last FROM segment ORDER BY first")
    agent.close()
    return {
        "wall": percentiles(wall),
        "own": percentiles(own),
        "fsync": percentiles(bare),
        "cpu": cpu / count * 1e3,
        "segments": len(folded),
        "slowest": sorted(wall)[-5:],
    }


def _call(draft: Any, agent: Agent) -> dict[str, Any]:
    agent.agent_id = draft.agent_id
    names = ("content", "memory_type", "metadata", "importance", "category", "tags", "session_id")
    return {name: getattr(draft, name) for name in names}


def _fsync(file: Any, place: int) -> float:
    """In a file that is there, as SQLite's log is."""
    started = time.perf_counter()
    os.pwrite(file.fileno(), bytes(LOG), place * LOG)
    os.fsync(file.fileno())
    return time.perf_counter() - started


def batches(repo: str, count: int, size: int) -> dict[str, Any]:
    """So many memories in each commit."""
    agent, parts = Agent(repo), list(batched(drafts(count, seed=6), size))
    wall, cpu = time.perf_counter(), time.process_time()
    for part in parts:
        agent.memories.store_many(part)
    spent = {"per_second": count / (time.perf_counter() - wall), "per_cpu": count / (time.process_time() - cpu)}
    agent.close()
    return spent


# -- searching --------------------------------------------------------------------------------


def filters(count: int) -> dict[str, dict[str, Any]]:
    middle = START + count // 2 * STEP
    return {
        "no filter": {},
        "agent": {"agent_id": "agent-3"},
        "category": {"category": "plans"},
        "tag and metadata": {"tags": ["tag-7"], "metadata": {"quarter": "Q2"}},
        "time": {"since": middle, "until": middle + count // 10 * STEP},
        "min_importance": {"min_importance": 0.8},
    }


def search(repo: str, count: int, vectors: bool, questions_each: int = QUESTIONS) -> dict[str, Any]:
    """CPU of each kind of search, of each question the least of the rounds."""
    agent = Agent(repo, agent_id="agent-1")
    if vectors:
        with_vectors(agent)
    asked, answer = questions(questions_each), {}
    for name, how in filters(count).items():
        kind: dict[str, Any] = {"agent_id": "*", "mode": "hybrid" if vectors else "keyword", **how}
        times, hits = timed(asked, lambda text, kind=kind: agent.search_memory(text, K, **kind))
        answer[name] = percentiles(times) | {"hits": hits / len(asked)}
    memory = status()
    agent.close()
    return {"searches": answer, **memory}


def timed(asked: Sequence[str], work: Callable[[str], Sequence[Any]]) -> tuple[Times, int]:
    rounds, hits = [], 0
    work(asked[0])
    for _ in range(ROUNDS):
        times, hits = [], 0
        for text in asked:
            began = time.process_time()
            hits += len(work(text))
            times.append(time.process_time() - began)
        rounds.append(times)
    return np.min(rounds, axis=0).tolist(), hits


def status() -> dict[str, int]:
    """Resident bytes: all, and without the pages of mapped files, which the system may drop when it likes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    known = {line.split(":")[0]: int(line.split()[1]) * 1024 for line in lines if line.startswith(("VmRSS", "RssAnon"))}
    return {"rss": known["VmRSS"], "anonymous": known["RssAnon"], "peak": peak_memory()}


def branches(repo: str, alone: str, count: int, writes: int) -> dict[str, Any]:
    """Searches on branches in turn, each with some writes of its own, and in a repo that has only main."""
    agent, other = Agent(repo), Agent(alone)
    turns = itertools.cycle([_branch(agent, number, writes) for number in range(count)])

    def both(text: str) -> tuple[float, float]:
        agent.memories = next(turns)
        return tuple(_spent(lambda one=one: one.search_memory(text, K, agent_id="*")) for one in (agent, other))

    asked = questions(QUESTIONS)
    rounds = [[both(text) for text in asked] for _ in range(ROUNDS + 1)][1:]
    many, one = np.min(rounds, axis=0).T
    return {"one": percentiles(one), "many": percentiles(many)}


def _spent(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


def _branch(agent: Agent, number: int, writes: int) -> Any:
    main = agent.memories
    main.create_branch(f"try-{number}")
    made = main.on(f"try-{number}")
    made.store_many(list(drafts(writes, seed=1000 + number)))
    return made


# -- opening ----------------------------------------------------------------------------------


def open_and_search(repo: str, vectors: bool) -> dict[str, Any]:
    """Opening a repo and its first search, imports apart."""
    imported = time.process_time() - BEGAN[0]
    cpu, wall = time.process_time(), time.perf_counter()
    agent = Agent(repo)
    opened_at = time.process_time() - cpu
    if vectors:
        with_vectors(agent)
    hits = agent.search_memory(questions(1)[0], K, agent_id="*", mode="hybrid" if vectors else "keyword")
    spent = {"cpu": time.process_time() - cpu, "wall": time.perf_counter() - wall, "hits": len(hits)}
    read = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return {**spent, "opened": opened_at, "imports": imported, "read": int(read["rchar"]), **status()}


# -- making -----------------------------------------------------------------------------------


def embedded(repo: str) -> dict[str, Any]:
    """Give the memories of a repo made-up vectors under the name of the local model, which then embeds only queries."""
    agent = opened(Path(repo), "local")
    shared = agent.memories.shared
    embedder, count, db = shared.embedder(), shared.index.count(), shared.index.db
    if embedder is not None:
        shared.index.add_vectors(embedder.name, np.arange(1, count + 1), directions(count, 3), of=db)
        with db.write():
            db.run("DELETE FROM pending")
    agent.close()
    return {"model": embedder.name if embedder is not None else ""}


VERBS = {work.__name__: work for work in (store, batches, search, branches, open_and_search, embedded)}

if __name__ == "__main__":
    print(json.dumps(VERBS[sys.argv[1]](**json.loads(sys.argv[2]))))
