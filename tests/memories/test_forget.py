"""A session, an agent or a time is taken back: what it had overwritten stands again, what came after it stays."""

from __future__ import annotations

import pytest

import memlake as ml
from memlake.memories.forget import Choice
from memlake.memories.memories import Draft, Memories
from memlake.memories.search import Query
from memlake.objects import layout


def contents(memories: Memories) -> list[str]:
    return sorted(hit["content"] for hit in memories.search(Query("")))


def test_a_session_is_taken_back_in_one_commit_and_what_it_overwrote_stands_again(memories: Memories) -> None:
    good = memories.remember(Draft("Payments go through Stripe", category="conventions"))
    bad = memories.remember(Draft("Payments go now through EvilPay", session_id="bad"))
    assert bad.memory_id == good.memory_id
    memories.update(good.memory_id, Draft("Payments go through WorsePay"), changed=["content"])
    memories.store(Draft("The admin password hint is in the wiki", session_id="bad"))
    memories.store(Draft("Releases are cut on Tuesdays", session_id="other"))
    before = memories.log()[0]
    gone = memories.forget_written(Choice(session_id="bad"))
    assert {one.restored and one.restored.content for one in gone} == {"Payments go through Stripe", None}
    assert memories.log()[0].parents == (before.oid,)
    assert contents(memories) == ["Payments go through Stripe", "Releases are cut on Tuesdays"]
    stands = memories.get(good.memory_id)
    assert (stands.session_id, stands.category) == ("", "conventions")
    assert len(stands.history) == 3, "what the session said stays in the history, where it can be purged"
    assert memories.forget_written(Choice(session_id="bad")) == []


def test_what_somebody_wrote_over_a_session_since_stays(memories: Memories) -> None:
    for port, session in ((1313, None), (6666, "bad"), (5173, None)):  # the last by a person, in no session
        memories.remember(Draft(f"The dev server listens on port {port}", session_id=session))
    assert memories.forget_written(Choice(session_id="bad")) == []
    assert contents(memories) == ["The dev server listens on port 5173"]


def test_a_dry_run_lists_and_changes_nothing(memories: Memories) -> None:
    memories.store(Draft("The sky is blue", session_id="bad"))
    head = memories.context.head()
    assert [one.memory.content for one in memories.forget_written(Choice(session_id="bad"), dry_run=True)] == [
        "The sky is blue"
    ]
    assert memories.context.head() == head


def test_an_agent_is_taken_back_also_where_it_changed_what_is_nobodys(memories: Memories) -> None:
    memories.remember(Draft("Payments go through Stripe"))
    memories.as_agent("evil").remember(Draft("Payments go now through EvilPay", "evil"))
    memories.as_agent("evil").store(Draft("The sky is green", "evil"))
    memories.as_agent("good").store(Draft("The grass is green", "good"))
    memories.forget_written(Choice(agent_id="evil"))
    assert contents(memories) == ["Payments go through Stripe", "The grass is green"]


def test_everything_since_a_time_is_taken_back_and_all_that_is_given_must_hold(memories: Memories) -> None:
    memories.remember(Draft("Payments go through Stripe"))
    then = layout.now()
    memories.remember(Draft("Payments go now through EvilPay", session_id="s"))
    memories.store(Draft("The sky is blue", "a"))
    memories.store(Draft("The grass is green", "b"))
    assert len(memories.forget_written(Choice(since=then, agent_id="a"), dry_run=True)) == 1
    assert memories.forget_written(Choice(since=layout.now(), session_id="s"), dry_run=True) == []
    memories.forget_written(Choice(since=then))
    assert contents(memories) == ["Payments go through Stripe"]


def test_an_agents_update_belongs_to_its_session(repo: ml.Repo) -> None:
    with ml.Agent(repo.root, "bot") as calm, ml.Agent(repo.root, "bot", session_id="bad") as bad:
        stored = calm.store_memory("Payments go through Stripe")
        bad.update_memory(stored, importance=0.9)
        assert bad.forget_written(session_id="bad") == [], "how it is filed is not what it says"
        bad.update_memory(stored, "Payments go through EvilPay")
        assert len(bad.forget_written(session_id="bad")) == 1
        assert calm.get_memory(stored)["content"] == "Payments go through Stripe"


def test_nothing_chosen_forgets_nothing(memories: Memories) -> None:
    memories.store(Draft("The sky is blue"))
    with pytest.raises(ml.errors.InvalidInput, match="say whose writing"):
        memories.forget_written(Choice())
    assert contents(memories) == ["The sky is blue"]


def test_what_a_merge_brought_belongs_to_whoever_wrote_it_not_to_whoever_merged(memories: Memories) -> None:
    memories.store(Draft("The base is granite"))
    memories.create_branch("side")
    memories.on("side").as_agent("alice").store(Draft("Apples are Alice's", "alice"))
    memories.store(Draft("The main branch went on"))
    memories.as_agent("bot").merge_branch("side")
    memories.as_agent("bot").store(Draft("Robots rust", "bot"))
    gone = memories.forget_written(Choice(agent_id="bot"), dry_run=True)
    assert [one.memory.content for one in gone] == ["Robots rust"]


def test_what_was_merged_since_a_time_is_as_old_as_it_was_on_its_branch(memories: Memories) -> None:
    memories.store(Draft("The base is granite"))
    memories.create_branch("side")
    side = memories.on("side")
    side.store(Draft("Apples are old"))
    then = layout.now()
    side.store(Draft("Cherries are new"))
    memories.store(Draft("Bananas are new"))
    memories.merge_branch("side")
    memories.forget_written(Choice(since=then))
    assert contents(memories) == ["Apples are old", "The base is granite"]


@pytest.mark.parametrize("strategy", ["branch_wins", "main_wins"])
def test_a_text_that_a_merge_settled_on_is_its_authors_still(memories: Memories, strategy: str) -> None:
    known = memories.store(Draft("Deploys go to fly")).memory_id
    memories.create_branch("side")
    memories.on("side").as_agent("alice").update(known, Draft("Deploys go to Render"), changed=["content"])
    memories.as_agent("carol").update(known, Draft("Deploys go to Hetzner"), changed=["content"])
    memories.as_agent("bot").merge_branch("side", strategy)
    winner = "alice" if strategy == "branch_wins" else "carol"
    assert memories.forget_written(Choice(agent_id="bot"), dry_run=True) == []
    assert len(memories.forget_written(Choice(agent_id=winner), dry_run=True)) == 1


def test_a_memory_that_a_merge_put_in_doubt_is_its_authors_still(memories: Memories) -> None:
    memories.create_branch("side")
    memories.on("side").as_agent("alice").remember(Draft("The dev server listens on port 5173", "alice"))
    memories.remember(Draft("The dev server listens on port 8080", "alice"))
    memories.as_agent("bot").merge_branch("side")
    assert len(memories.conflicts()) == 1
    assert memories.forget_written(Choice(agent_id="bot"), dry_run=True) == []
