"""Why a memory was told, and which gate kept it back, over planted cases of every gate."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

import memlake as ml
from memlake.memories.answers.recalls import Teller
from memlake.memories.memories import Draft, Memories
from memlake.memories.search import Query
from tests.memories.conftest import opened

ASK = "which team owns the billing service"
COLORS, ANIMALS = ("red", "blue", "green", "amber", "ivory"), ("fox", "owl", "hare", "lynx")
NAMES = [f"{a} {b}" for a, b in itertools.product(COLORS, ANIMALS)]


@pytest.fixture
def crowd(memories: Memories) -> list[str]:
    """Memories that all answer the question, from best to worst by how much of it they say."""
    return [memories.store(Draft(f"Team {name} owns the billing service for customers")).memory_id for name in NAMES]


def names_of(memories: Memories, memory_id: str, query: Query, **how: object) -> list[str]:
    return [gate.name for gate in memories.why_not(memory_id, query, **how)]  # type: ignore[arg-type]


def test_what_is_told_passes_every_gate_and_what_is_not_names_its_rank(memories: Memories, crowd: list[str]) -> None:
    for most in (1, 3, 10, 19):
        query = Query(ASK, most)
        told = [hit["memory_id"] for hit in memories.search(query)]
        for memory_id in crowd:
            assert names_of(memories, memory_id, query) == ([] if memory_id in told else ["rank"])
    order = [hit["memory_id"] for hit in memories.search(Query(ASK, 20))]
    (gate,) = memories.why_not(order[13], Query(ASK, 10))
    assert gate.says == "It is at rank 14; 10 were asked for."


FILTERS = {
    "session_id": ("filter", "s1"), "memory_type": ("filter", "episode"), "category": ("filter", "contacts"),
    "tags": ("filter", ["x"]), "metadata": ("filter", {"k": 1}), "min_importance": ("filter", 0.9),
    "since": ("filter", 4_000_000_000_000_000), "until": ("filter", 1), "agent_id": ("scope", "nobody"),
    "org_id": ("organisation", "acme"), "project": ("project", "/other"), "review": ("filter", True),
    "user_id": ("user", "alex"),
}  # fmt: skip


@pytest.mark.parametrize("field", FILTERS)
def test_each_filter_is_named(memories: Memories, crowd: list[str], field: str) -> None:
    gate, value = FILTERS[field]
    query = Query(ASK, 20, **{field: value})
    told = {hit["memory_id"] for hit in memories.search(query)}
    assert not told
    assert {tuple(names_of(memories, memory_id, query)) for memory_id in crowd} == {(gate,)}


def test_what_ended_expired_or_was_superseded_is_said(memories: Memories) -> None:
    gone = memories.store(Draft("Team fox owns the billing service")).memory_id
    memories.delete(gone)
    (forgotten,) = memories.why_not(gone, Query(ASK))
    assert forgotten.name == "forgotten"
    soon = memories.store(Draft("Team owl owns the billing service", expires_at="2h")).memory_id
    assert names_of(memories, soon, Query(ASK)) == []
    old = memories.store(Draft("Team owl owns the billing service")).memory_id
    memories.update(old, Draft("The lunch menu hangs beside the door"), changed=["content"])
    (superseded,) = memories.why_not(old, Query(ASK))
    assert superseded.name == "superseded"
    assert "'Team owl owns the billing service'" in superseded.says
    memories.purge(soon, "asked")
    assert names_of(memories, soon, Query(ASK)) == ["purged"]
    with pytest.raises(ml.errors.NotFound):
        memories.why_not("01a1e428-8508-7191-b4f7-89358b3d4ba3", Query(ASK))


def test_a_memory_of_another_branch_is_named_with_its_branch(repo: ml.Repo, memories: Memories) -> None:
    memories.store(Draft("Deploys happen on Mondays"))
    repo.branches.create("draft")
    other = repo.memories("draft").store(Draft("Team hare owns the billing service")).memory_id
    (gate,) = repo.memories("main").why_not(other, Query(ASK))
    assert (gate.name, "'draft'" in gate.says) == ("branch", True)


def test_a_budget_and_a_session_that_knows_it_are_gates(memories: Memories, crowd: list[str]) -> None:
    query = Query(ASK, 10)
    order = [hit["memory_id"] for hit in memories.search(query)]
    room = 2 * (len("Team amber hare owns the billing service for customers") + 80) // 4 + 1
    assert names_of(memories, order[0], query, max_tokens=room) == []
    assert names_of(memories, order[5], query, max_tokens=room) == ["budget"]
    memories.note_told(query, memories.search(query._replace(limit=3)), Teller("mcp", "s9"))
    assert names_of(memories, order[2], query, session="s9") == ["told already"]
    assert names_of(memories, order[3], query, session="s9") == []


def test_what_nothing_was_near_to_is_below_the_floor_or_no_match(tmp_path: Path) -> None:
    with opened(tmp_path / "repo", "test") as repo:
        memories = repo.memories()
        far = memories.store(Draft("The lunch menu hangs beside the door")).memory_id
        assert memories.wait(20)
        assert names_of(memories, far, Query("quarterly hydraulic turbines"))[0] in ("floor", "no match")
        assert not memories.search(Query("quarterly hydraulic turbines"))


def test_explaining_counts_as_no_reading_and_leaves_no_record(memories: Memories, crowd: list[str]) -> None:
    query = Query(ASK, 3)
    hits = memories.search(query)
    memories.note_told(query, hits, Teller("recall"))
    before = memories.shared.access.read([memories.get(one).key for one in crowd])
    for memory_id in crowd:
        memories.why(memory_id)
        memories.why_not(memory_id, query)
    assert memories.shared.access.read([memories.get(one).key for one in crowd]) == before
    assert len(list(memories.shared.recalls.scan())) == 1
    (told,) = memories.why(hits[1]["memory_id"])
    assert (told.place, told.of, told.candidate.arms) == (2, 3, hits[1]["why"])
