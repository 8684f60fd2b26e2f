"""Who did it and who may see it: agents, people and organisations that share a repo."""

from __future__ import annotations

import pytest

import memlake as ml
from memlake.memories.memories import Draft, Memories


def authors(memories: Memories) -> list[str]:
    return [commit.author.name for commit in memories.log(100)][::-1]


# -- who did it ---------------------------------------------------------------------------------


def test_what_is_done_to_a_memory_is_signed_by_who_did_it_not_by_whose_it_is(memories: Memories) -> None:
    alice, mallory = memories.as_agent("alice"), memories.as_agent("mallory")
    stored = alice.store(Draft("The sky is blue", "alice")).memory_id
    mallory.update(stored, Draft("The sky is green"), changed=["content"])
    mallory.delete(stored)
    mallory.restore(stored)
    assert authors(memories) == ["alice", "mallory", "mallory", "mallory"]
    told = memories.history(stored)
    assert [(one.author, one.ended_by) for one in told] == [
        ("alice", "mallory"),
        ("mallory", "mallory"),
        ("mallory", ""),
    ]
    assert memories.get(stored).agent_id == "alice"


def test_a_person_signs_with_their_own_name(memories: Memories) -> None:
    person = memories.context.here.author.name
    stored = memories.store(Draft("The sky is blue", "alice")).memory_id  # said for alice
    memories.update(stored, Draft("The sky is green"), changed=["content"])
    memories.delete(stored)
    assert authors(memories) == ["alice", person, person]


def test_what_an_agent_says_for_another_is_signed_by_itself(memories: Memories) -> None:
    memories.as_agent("mallory").remember(Draft("The sky is blue", "alice"))
    memories.as_agent("mallory").set_state("alice", "phase", 1)
    memories.as_agent("mallory").remove_state("alice", "phase")
    assert authors(memories) == ["mallory"] * 3


def test_a_purge_and_a_branch_are_signed_by_the_agent(memories: Memories) -> None:
    mallory = memories.as_agent("mallory")
    stored = memories.store(Draft("The safe opens with 4711", "alice")).memory_id
    mallory.create_branch("draft")
    mallory.on("draft").store(Draft("The sky is blue", "mallory"))
    mallory.merge_branch("draft")
    assert memories.log(1)[0].author.name == "mallory"
    mallory.purge(stored, "asked to")
    assert memories.history(stored)[0].ended_by == "mallory"


def test_a_contradiction_is_settled_by_who_settles_it(memories: Memories) -> None:
    memories.as_agent("a").remember(Draft("The deploy day is Monday", "a"))
    new = memories.as_agent("b").remember(Draft("The deploy day is Friday", "b"))
    assert new.review
    memories.as_agent("c").resolve(new.memory_id, "new")
    assert set(authors(memories)[2:]) == {"c"}


def test_an_agent_in_python_signs_what_it_does(repo: ml.Repo) -> None:
    with ml.Agent(repo.root, "alice") as alice, ml.Agent(repo.root, "mallory") as mallory:
        stored = alice.store_memory("The sky is blue")
        mallory.update_memory(stored, "The sky is green")
        assert mallory.delete_memory(stored)
    assert authors(repo.memories()) == ["alice", "mallory", "mallory"]


# -- what cannot be meant -----------------------------------------------------------------------


@pytest.mark.parametrize("seconds", [1e18, 3e11, float("inf"), float("nan"), 0, -1, True, "1h"])
def test_a_time_to_live_that_no_calendar_has_makes_no_branch(memories: Memories, seconds: object) -> None:
    with pytest.raises(ml.errors.InvalidInput, match="Nothing was made"):
        memories.create_branch("draft", ttl_seconds=seconds)  # type: ignore[arg-type]
    assert [branch.name for branch in memories.branches()] == ["main"]


@pytest.mark.parametrize(
    "given",
    [
        {"min_importance": "x"}, {"min_importance": True}, {"min_importance": 5}, {"agent_id": 5}, {"agent_id": [1]},
        {"metadata": "a"},
        {"metadata": {"a": {1}}}, {"category": 5}, {"memory_type": ["fact"]}, {"session_id": 5}, {"as_of": 5},
    ],
    ids=str,
)  # fmt: skip
def test_a_search_that_cannot_be_meant_is_refused_by_name(repo: ml.Repo, given: dict[str, object]) -> None:
    with ml.Agent(repo.root, "alice") as alice:
        alice.store_memory("The sky is blue")
        for asked in ("sky", ""):
            with pytest.raises(ml.errors.InvalidInput, match=next(iter(given))):
                alice.search_memory(asked, **given)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", [5, "*", ["a"], "a\0b"])
def test_an_agent_has_one_name(repo: ml.Repo, name: object) -> None:
    with pytest.raises(ml.errors.InvalidInput, match="agent_id"):
        ml.Agent(repo.root, name)  # type: ignore[arg-type]
    with pytest.raises(ml.errors.InvalidInput, match="agent_id"):
        repo.memories().store(Draft("The sky is blue", name))  # type: ignore[arg-type]


# -- organisations ------------------------------------------------------------------------------


def test_an_organisation_does_not_see_what_another_keeps(repo: ml.Repo) -> None:
    with ml.Agent(repo.root, "p", org_id="o1") as ours, ml.Agent(repo.root, "q", org_id="o2") as theirs:
        stored = ours.store_memory("The sky is blue")
        assert [hit["memory_id"] for hit in ours.search_memory("sky", agent_id="*")] == [stored]
        for asked in ("sky", ""):
            assert theirs.search_memory(asked, agent_id="*") == []
            assert len(theirs.search_memory(asked, agent_id="*", org_id="o1")) == 1
            assert len(theirs.search_memory(asked, agent_id="*", org_id="*")) == 1
        for verb in (theirs.get_memory, theirs.update_memory, theirs.restore_memory, theirs.memory_history):
            with pytest.raises(ml.errors.NotFound):
                verb(stored)
        assert not theirs.delete_memory(stored)
        assert not theirs.delete_memory(stored, purge=True)
        assert theirs.memories.diff("yesterday") == []
        assert ours.get_memory(stored)["content"] == "The sky is blue"
    assert repo.memories().as_agent("", "*").get(stored).org_id == "o1"  # whoever asks for all sees all


def test_agents_of_one_name_in_two_organisations_keep_two_states(repo: ml.Repo) -> None:
    kinds = ("o1", "o2", "local")
    agents = [ml.Agent(repo.root, "p", org_id=org) for org in kinds]
    for agent, org in zip(agents, kinds, strict=True):
        assert agent.get_state("phase") is None
        agent.set_state("phase", org)
    for agent, org in zip(agents, kinds, strict=True):
        assert (agent.get_state("phase"), agent.list_state()) == (org, {"phase": org})
    assert [one.value for one in agents[0].memories.states()] == ["o1"]
    assert agents[0].delete_state("phase") and agents[1].get_state("phase") == "o2"
    assert {one.org_id for one in repo.memories().as_agent("", "*").states()} == {"o2", "local"}
    for agent in agents:
        agent.close()


def test_a_purge_names_where_the_same_text_still_stands(memories: Memories) -> None:
    old = memories.remember(Draft("The deploy day is Monday", "a")).memory_id
    new = memories.remember(Draft("The deploy day is Friday", "b")).memory_id
    memories.resolve(new, "new")
    assert any(f"The same text stands in {old}" in note for note in memories.purge(new, "asked to").notes)
    assert not any("same text" in note for note in memories.purge(old, "asked to").notes)
