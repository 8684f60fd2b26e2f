"""Agents, MCP servers and short commands on one repo at once: nothing lost or doubled, each sees what it wrote."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import memlake as ml
from memlake.errors import Conflict
from memlake.memories import index_sync, remember, store
from memlake.memories.context import MemoryContext
from memlake.memories.memories import Draft
from tests.reliability.ground import TORTURE, assert_sound, fast_folder, python
from tests.reliability.memory_ground import (
    WORDS,
    assert_equals_a_rebuilt_index,
    everything,
    found_by_own_word,
    in_history,
    made,
)

WRITES = 10_000 if TORTURE else 400
AGENTS, SERVERS, SHORT = 4, 3, 1
EACH = WRITES // (AGENTS + SERVERS + SHORT)
FRESH = 64  # fold often, so that folds happen beside writes also in a short run

# Each writer says "<id> <content>" of what it stored, and "blind <content>" of what it did not find at once.
_AGENT = """
import sys
import memlake as ml
from memlake.index import segments
segments.FRESH = {fresh}
{patch}
agent = ml.Agent(sys.argv[1], agent_id=sys.argv[2])
for n in range(int(sys.argv[3])):
    content = f"{{sys.argv[2]}}n{{n}} {{sys.argv[4 + n % 20]}}"
    stored = agent.store_memory(content)
    print(stored, content)
    hits = agent.search_memory(content.split()[0], mode="keyword")
    if [hit["memory_id"] for hit in hits] != [stored]:
        print("blind", content, hits)
    if n % 10 == 9:
        agent.set_state("count", agent.get_state("count") or 0)
agent.close()
"""

_SHORT = """
import sys
import memlake as ml
from memlake.memories.memories import Draft
from memlake.memories.search import Query
me, first, count = sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
with ml.open(sys.argv[1]) as repo:
    memories = repo.memories()
    for n in range(first, first + count):
        content = f"{me}n{n} short lived process"
        stored = memories.store(Draft(content, agent_id=me))
        print(stored.memory_id, content)
        if [hit["memory_id"] for hit in memories.search(Query(f"{me}n{n}", mode="keyword"))] != [stored.memory_id]:
            print("blind", content)
"""

_SERVER = """
import os, signal, sys
from memlake.index import segments
from memlake.mcp import server
from memlake.mcp.workspace import Desk, Who
from memlake.objects import disk
segments.FRESH = int(sys.argv[3])
left = [int(sys.argv[4])]
def hook(name):
    left[0] -= 1
    if left[0] == 0:
        os.kill(os.getpid(), signal.SIGKILL)
disk.hook = hook if left[0] else None
server.run(Desk(sys.argv[1]), Who(sys.argv[2]))
"""


@pytest.fixture
def root() -> Iterator[Path]:
    with fast_folder() as folder:
        yield made(folder / "repo", "test")


def agents(root: Path, count: int, each: int, patch: str = "") -> list[subprocess.Popen[str]]:
    script = _AGENT.format(fresh=FRESH, patch=patch)
    return [
        python("-c", script, str(root), f"agent{n}", str(each), *WORDS, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for n in range(count)
    ]


async def serve(root: Path, name: str, count: int, lines: list[str], *, dies_at: int = 0) -> list[str]:
    """Store and search through a real MCP server over stdio with the official client."""
    from mcp import ClientSession, StdioServerParameters, stdio_client

    command = ["-c", _SERVER, str(root), name, str(FRESH), str(dies_at)]
    started = StdioServerParameters(command=sys.executable, args=command, env=dict(os.environ))
    # Its own default is the stderr of when it was imported, which may have been a test's that captured it.
    async with stdio_client(started, errlog=sys.__stderr__ or sys.stderr) as pipes, ClientSession(*pipes) as session:
        await session.initialize()
        for n in range(count):
            content = f"{name}n{n} {WORDS[n % 20]}"
            told = _told(await session.call_tool("store_memory", {"content": content}))
            lines.append(f"{told['memory_id']} {content}")
            found = _told(await session.call_tool("search_memory", {"query": content}))
            if told["memory_id"] not in [hit["memory_id"] for hit in found["results"]]:
                lines.append(f"blind {content}")
    return lines


def _told(result: Any) -> dict[str, Any]:
    assert not result.is_error, result.content
    found: dict[str, Any] = json.loads(result.content[0].text)
    return found


def _finished(children: list[subprocess.Popen[str]]) -> list[str]:
    told = [child.communicate(timeout=3000) for child in children]
    for child, (_, problem) in zip(children, told, strict=True):
        assert child.returncode == 0, problem
    return [line for out, _ in told for line in out.splitlines()]


async def _all(root: Path) -> list[str]:
    """Everybody at once: agents, servers, and short processes one after the other."""
    working = agents(root, AGENTS, EACH)
    served = [asyncio.create_task(serve(root, f"server{n}", EACH, [])) for n in range(SERVERS)]
    lines: list[str] = []
    step = max(1, EACH // (40 if TORTURE else 5))
    for first in range(0, EACH, step):
        short = python(
            "-c", _SHORT, str(root), "short", str(first), str(min(step, EACH - first)), stdout=subprocess.PIPE
        )
        lines += (await asyncio.to_thread(short.communicate))[0].splitlines()
        assert short.returncode == 0
    for part in await asyncio.gather(*served):
        lines += part
    return lines + await asyncio.to_thread(_finished, working)


def test_eight_processes_write_at_once_and_nothing_is_lost_doubled_or_unseen(
    root: Path, tally: Callable[..., None]
) -> None:
    pytest.importorskip("mcp")
    lines = asyncio.run(_all(root))
    blind = [line for line in lines if line.startswith("blind")]
    assert blind == []
    stored = dict(line.split(" ", 1) for line in lines)
    tally(memories=len(stored))
    assert len(stored) == EACH * (AGENTS + SERVERS + SHORT)
    with ml.open(root) as repo:
        memories = repo.memories()
        assert everything(memories) == stored
        assert in_history(repo) == set(stored)
        commits = Counter(commit.message for commit in repo.log(lane="memory") if commit.message.startswith("store"))
        assert set(commits.values()) == {1} and len(commits) == len(stored)
        found_by_own_word(memories, dict(list(stored.items())[:: max(1, len(stored) // 200)]))
        assert memories.wait(120)
        assert_sound(repo)
    assert_equals_a_rebuilt_index(root, [*WORDS, *(f"agent{n % 4}n{n}" for n in range(50))])


async def _served_until_killed(root: Path, name: str, dies_at: int) -> list[str]:
    lines: list[str] = []
    with contextlib.suppress(Exception):  # the connection breaks off: what was said before that counts
        await asyncio.wait_for(serve(root, name, 1000, lines, dies_at=dies_at), 60)
    return lines


def test_what_an_mcp_server_acknowledged_before_it_was_killed_is_there_and_found(root: Path) -> None:
    pytest.importorskip("mcp")
    stored: dict[str, str] = {}
    for turn in range(40 if TORTURE else 2):
        lines = asyncio.run(_served_until_killed(root, f"server{turn}", 150 + 37 * turn))
        assert lines and not any(line.startswith("blind") for line in lines)
        stored.update(line.split(" ", 1) for line in lines)
    with ml.open(root) as repo:
        memories = repo.memories()
        assert stored.items() <= everything(memories).items()
        assert len(everything(memories)) <= len(stored) + turn + 1, "more than the one in flight of each server"
        found_by_own_word(memories, everything(memories))
        assert_sound(repo)


_REMEMBER = """
import sys
import memlake as ml
agent = ml.Agent(sys.argv[1], agent_id="one")
for n in range(int(sys.argv[3])):
    agent.remember(f"User phone: {int(sys.argv[2]) * 1000 + n}")
"""


def test_decisions_of_many_processes_about_one_memory_keep_every_value_in_its_history(root: Path) -> None:
    each = 40 if TORTURE else 6
    with ml.open(root) as repo:
        first = repo.memories().store(Draft("User phone: 99999", agent_id="one"))
    children = [
        python("-c", _REMEMBER, str(root), str(n), str(each), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for n in range(1, 4)
    ]
    _finished(children)
    with ml.open(root) as repo:
        memories = repo.memories()
        assert list(everything(memories)) == [first.memory_id]
        said = {version.content for version in memories.history(first.memory_id)}
        assert said == {"User phone: 99999", *(f"User phone: {n * 1000 + k}" for n in (1, 2, 3) for k in range(each))}
        past = memories.fields(memories.get(first.memory_id))["metadata"]["history"]
        assert len(past) == 3 * each, "every earlier value, once"


def test_one_who_loses_every_race_about_a_memory_decides_at_last_while_others_wait(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each time it has decided, another process is faster, as long as that one may write at all."""
    with ml.open(root) as slow, ml.open(root) as fast:
        first = slow.memories().store(Draft("User phone: 1", agent_id="one"))
        decide, follow = remember._judge_new, store._follow
        raced: list[str] = []

        def decide_late(ground: MemoryContext, *given: Any) -> Any:
            verdict = decide(ground, *given)
            if not ground.here.history.db.is_writing:
                raced.append(f"User phone: {1000 + len(raced)}")
                fast.memories().update(first.memory_id, Draft(raced[-1]), changed=["content"])
            return verdict

        def follow_what_is_committed(ground: MemoryContext, *given: Any) -> None:
            assert not ground.here.history.db.is_writing, "others would find an index ahead of the history"
            follow(ground, *given)

        monkeypatch.setattr(remember, "_judge_new", decide_late)
        monkeypatch.setattr(store, "_follow", follow_what_is_committed)
        done = slow.memories().remember(Draft("User phone: 2", agent_id="one"))
        assert (done.memory_id, done.decision) == (first.memory_id, "conflict")
        said = [version.content for version in fast.memories().history(first.memory_id)]
        assert sorted(said) == sorted(["User phone: 1", *raced, "User phone: 2"])
        assert everything(fast.memories()) == {first.memory_id: "User phone: 2"}


def test_a_follower_that_read_the_head_early_does_not_take_the_index_back(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between its reading the head and its turn to write, another process stores and brings the index further."""
    with ml.open(root) as first, ml.open(root) as second:
        with monkeypatch.context() as patch:
            patch.setattr(store, "update_index", lambda *_: None)
            first.memories().store(Draft("early"))
        read, late = index_sync._find_head, []

        def slow(*given: Any) -> Any:
            head = read(*given)
            if not late:
                late.append(1)
                second.memories().store(Draft("late"))
            return head

        monkeypatch.setattr(index_sync, "_find_head", slow)
        assert sorted(everything(first.memories()).values()) == ["early", "late"]
        assert second.memories().shared.index.db.rows("SELECT count(*) FROM row") == [(2,)]


# -- each safeguard switched off ----------------------------------------------------------------------------


def test_without_following_before_a_search_a_process_does_not_see_what_it_wrote(root: Path) -> None:
    patch = "from memlake.memories import index_sync as following\nfollowing.follow = lambda *_: None"
    lines = _finished(agents(root, 1, 5, patch))
    assert any(line.startswith("blind") for line in lines)


def test_a_memory_changed_since_it_was_read_is_not_written_over(root: Path) -> None:
    """What the decisions above rely on: without it the second of two corrections loses the first."""
    with ml.open(root) as repo:
        memories = repo.memories()
        old = memories.get(memories.store(Draft("User phone: 1")).memory_id)
        memories.update(old.memory_id, Draft("User phone: 2"), changed=["content"])
        with pytest.raises(Conflict):
            store.replace(memories.context, old, old._replace(content="User phone: 3"), "late")
