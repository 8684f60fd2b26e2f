"""memory evict, importance and gc as a person meets them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import memlake as ml
from memlake.memories.answers.recalls import Teller
from memlake.memories.memories import Draft, Memories
from memlake.memories.search import Query
from memlake.memories.upkeep import Rule
from memlake.repo import Repo
from tests.cli.conftest import Run
from tests.conftest import SetClock

DAY = 86_400


@pytest.fixture
def opened(repo: Path) -> Iterator[Repo]:
    with ml.open(repo) as opened:
        yield opened


def tell(memories: Memories, text: str, *sessions: str) -> None:
    for session in sessions:
        query = Query(text)
        memories.note_told(query, memories.search(query), Teller("mcp", session))


def test_eviction_is_one_commit_and_one_step_of_undo(run: Run, repo: Path, opened: Repo, set_clock: SetClock) -> None:
    memories = opened.memories()
    memories.store_many([Draft(f"Fact {n} about nothing", importance=0.1) for n in range(5)])
    set_clock(100 * DAY)
    before = len(list(opened.log(lane="memory")))
    assert "Forgot 5 memories." in run("memory", "evict").err
    assert len(list(opened.log(lane="memory"))) == before + 1
    run("undo")
    assert len(opened.memories().list_memories(Query())) == 5


def test_importance_is_suggested_with_reasons_and_changed_only_when_asked(
    run: Run, repo: Path, opened: Repo, set_clock: SetClock
) -> None:
    memories = opened.memories()
    memories.store(Draft("Deploys need two reviews", importance=0.4))
    memories.store(Draft("The canteen has soup", importance=0.9))
    memories.store(Draft("Tea is at four", importance=0.5))
    tell(memories, "deploys reviews", "s1", "s2", "s3", "s4")
    assert run("memory", "importance", "--suggest", "--json").json["memories"][0]["suggested"] == 0.6
    set_clock(200 * DAY)
    found = {one.memory.content: one for one in memories.suggest_importance(Rule())}
    assert {text: (one.importance, one.why) for text, one in found.items()} == {
        "Deploys need two reviews": (0.6, "4 sessions were told it"),
        "The canteen has soup": (0.5, "nobody was told it in 200 days"),
    }
    shown = run("memory", "importance", "--suggest")
    assert "0.40 -> 0.60  4 sessions were told it  Deploys need" in shown.out and "Nothing was changed." in shown.err
    before = {memory.content: memory.importance for memory in opened.memories().list_memories(Query())}
    assert before["Deploys need two reviews"] == 0.4
    assert "Changed 2 memories." in run("memory", "importance", "--apply").err
    after = {memory.content: memory.importance for memory in opened.memories().list_memories(Query())}
    assert after == {"Deploys need two reviews": 0.6, "The canteen has soup": 0.5, "Tea is at four": 0.5}
    run("undo")
    assert {memory.content: memory.importance for memory in opened.memories().list_memories(Query())} == before


def test_importance_wants_to_know_what_to_do(run: Run, repo: Path, opened: Repo) -> None:
    for wrong in ((), ("--suggest", "--apply")):
        assert "say --suggest to list" in run("memory", "importance", *wrong, code=2).err
