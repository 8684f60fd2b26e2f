"""A session, an agent or a time is taken back: what it had overwritten stands again, what came after it stays."""

from __future__ import annotations

import random

import pytest

import memlake as ml
from memlake.memories import store
from memlake.memories.answers.recalls import Teller
from memlake.memories.memories import Draft, Memories
from memlake.memories.record import Caller
from memlake.memories.revert import Choice
from memlake.memories.search import Query
from memlake.objects import layout
from memlake.repo import note_written


def contents(memories: Memories) -> list[str]:
    return sorted(hit["content"] for hit in memories.search(Query("")))


def test_a_session_is_taken_back_in_one_commit_and_what_it_overwrote_stands_again(memories: Memories) -> None:
    good = memories.remember(Draft("Payments go through Stripe", category="conventions"))
    bad = memories.remember(Draft("Payments go now through EvilPay", session_id="bad"))
    assert bad.memory_id == good.memory_id
    memories.update(good.memory_id, Draft("Payments go through WorsePay", session_id="bad"), changed=["content"])
    memories.store(Draft("The admin password hint is in the wiki", session_id="bad"))
    memories.store(Draft("Releases are cut on Tuesdays", session_id="other"))
    before = memories.log()[0]
    gone = memories.revert(Choice(session_id="bad")).memories
    assert {one.restored and one.restored.content for one in gone} == {"Payments go through Stripe", None}
    assert memories.log()[0].parents == (before.oid,)
    assert contents(memories) == ["Payments go through Stripe", "Releases are cut on Tuesdays"]
    stands = memories.get(good.memory_id)
    assert (stands.session_id, stands.category) == ("", "conventions")
    assert len(stands.history) == 3, "what the session said stays in the history, where it can be purged"
    assert memories.revert(Choice(session_id="bad")).memories == []


def test_what_somebody_wrote_over_a_session_since_stays(memories: Memories) -> None:
    for port, session in ((1313, None), (6666, "bad"), (5173, None)):  # the last by a person, in no session
        memories.remember(Draft(f"The dev server listens on port {port}", session_id=session))
    assert memories.revert(Choice(session_id="bad")).memories == []
    assert contents(memories) == ["The dev server listens on port 5173"]


def test_a_dry_run_lists_and_changes_nothing(memories: Memories) -> None:
    memories.store(Draft("The sky is blue", session_id="bad"))
    head = memories.context.head()
    assert [one.memory.content for one in memories.revert(Choice(session_id="bad"), dry_run=True).memories] == [
        "The sky is blue"
    ]
    assert memories.context.head() == head


def test_an_agent_is_taken_back_also_where_it_changed_what_is_nobodys(memories: Memories) -> None:
    memories.remember(Draft("Payments go through Stripe"))
    memories.as_agent("evil").remember(Draft("Payments go now through EvilPay", "evil"))
    memories.as_agent("evil").store(Draft("The sky is green", "evil"))
    memories.as_agent("good").store(Draft("The grass is green", "good"))
    memories.revert(Choice(agent_id="evil"))
    assert contents(memories) == ["Payments go through Stripe", "The grass is green"]


def test_everything_since_a_time_is_taken_back_and_all_that_is_given_must_hold(memories: Memories) -> None:
    memories.remember(Draft("Payments go through Stripe"))
    then = layout.now()
    memories.remember(Draft("Payments go now through EvilPay", session_id="s"))
    memories.store(Draft("The sky is blue", "a"))
    memories.store(Draft("The grass is green", "b"))
    assert len(memories.revert(Choice(since=then, agent_id="a"), dry_run=True).memories) == 1
    assert memories.revert(Choice(since=layout.now(), session_id="s"), dry_run=True).memories == []
    memories.revert(Choice(since=then))
    assert contents(memories) == ["Payments go through Stripe"]


def test_an_agents_update_belongs_to_its_session(repo: ml.Repo) -> None:
    with ml.Agent(repo.root, "bot") as calm, ml.Agent(repo.root, "bot", session_id="bad") as bad:
        stored = calm.store_memory("Payments go through Stripe")
        bad.update_memory(stored, importance=0.9)
        assert bad.revert(session_id="bad").memories == [], "how it is filed is not what it says"
        bad.update_memory(stored, "Payments go through EvilPay")
        assert len(bad.revert(session_id="bad").memories) == 1
        assert calm.get_memory(stored)["content"] == "Payments go through Stripe"


def test_nothing_chosen_forgets_nothing(memories: Memories) -> None:
    memories.store(Draft("The sky is blue"))
    with pytest.raises(ml.errors.InvalidInput, match="say whose writing"):
        memories.revert(Choice())
    assert contents(memories) == ["The sky is blue"]


def test_what_a_merge_brought_belongs_to_whoever_wrote_it_not_to_whoever_merged(memories: Memories) -> None:
    memories.store(Draft("The base is granite"))
    memories.create_branch("side")
    memories.on("side").as_agent("alice").store(Draft("Apples are Alice's", "alice"))
    memories.store(Draft("The main branch went on"))
    memories.as_agent("bot").merge_branch("side")
    memories.as_agent("bot").store(Draft("Robots rust", "bot"))
    gone = memories.revert(Choice(agent_id="bot"), dry_run=True).memories
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
    memories.revert(Choice(since=then))
    assert contents(memories) == ["Apples are old", "The base is granite"]


@pytest.mark.parametrize("strategy", ["branch_wins", "main_wins"])
def test_a_text_that_a_merge_settled_on_is_its_authors_still(memories: Memories, strategy: str) -> None:
    known = memories.store(Draft("Deploys go to fly")).memory_id
    memories.create_branch("side")
    memories.on("side").as_agent("alice").update(known, Draft("Deploys go to Render"), changed=["content"])
    memories.as_agent("carol").update(known, Draft("Deploys go to Hetzner"), changed=["content"])
    memories.as_agent("bot").merge_branch("side", strategy)
    winner = "alice" if strategy == "branch_wins" else "carol"
    assert memories.revert(Choice(agent_id="bot"), dry_run=True).memories == []
    assert len(memories.revert(Choice(agent_id=winner), dry_run=True).memories) == 1


def test_a_memory_that_a_merge_found_contradicted_is_its_authors_still(memories: Memories) -> None:
    memories.create_branch("side")
    memories.on("side").as_agent("alice").remember(Draft("The dev server listens on port 5173", "alice"))
    memories.remember(Draft("The dev server listens on port 8080", "alice"))
    memories.as_agent("bot").merge_branch("side")
    assert len(memories.conflicts()) == 1
    assert memories.revert(Choice(agent_id="bot"), dry_run=True).memories == []


# -- what was forgotten, where it came from, what was made of it, who was told ---------------------


def by(memories: Memories, session: str, source: str = "") -> Memories:
    return memories.called_by(Caller("test", session, source))


def test_what_a_session_forgot_is_there_again_and_what_it_wrote_and_forgot_is_not(memories: Memories) -> None:
    good = memories.store(Draft("Payments go through Stripe")).memory_id
    other = memories.store(Draft("The sky is blue")).memory_id
    bad = by(memories, "bad")
    bad.delete(good)
    by(memories, "fine").delete(other)
    bad.delete(bad.store(Draft("The grass is red")).memory_id)
    taken = bad.revert(Choice(session_id="bad"))
    assert [(one.memory, one.restored and one.restored.memory_id) for one in taken.memories] == [(None, good)]
    assert contents(memories) == ["Payments go through Stripe"]
    assert memories.revert(Choice(session_id="bad")).memories == []


def test_a_value_that_a_session_wrote_over_and_then_forgot_comes_back_as_it_was_before(memories: Memories) -> None:
    good = memories.store(Draft("Payments go through Stripe")).memory_id
    bad = by(memories, "bad")
    bad.update(good, Draft("Payments go through EvilPay"), changed=["content"])
    bad.delete(good)
    bad.revert(Choice(session_id="bad"))
    assert contents(memories) == ["Payments go through Stripe"]


def test_what_somebody_stored_again_since_it_was_forgotten_stays(memories: Memories) -> None:
    good = memories.store(Draft("Payments go through Stripe")).memory_id
    by(memories, "bad").delete(good)
    memories.restore(good)
    assert memories.revert(Choice(session_id="bad")).memories == []


@pytest.mark.parametrize(("asked", "gone"), [("web", 2), ("https://evil.example/x", 1), ("web:https://b.example", 1)])
def test_a_source_is_taken_back_by_its_kind_or_by_what_it_is(memories: Memories, asked: str, gone: int) -> None:
    memories.store(Draft("Ada likes tea"))
    memories.store(Draft("Bob likes coffee", source="https://evil.example/x"))
    memories.store(Draft("Cleo likes milk", source="web:https://b.example"))
    assert len(memories.revert(Choice(source=asked)).memories) == gone
    assert len(contents(memories)) == 3 - gone and "Ada likes tea" in contents(memories)


def test_an_import_is_taken_back_by_the_program_it_came_from(memories: Memories) -> None:
    memories.store(Draft("Ada likes tea", source="import:claude-code:MEMORY.md"))
    memories.store(Draft("Bob likes coffee", source="import:chatgpt"))
    assert memories.revert(Choice(source="import:claude"), dry_run=True).memories == []
    assert len(memories.revert(Choice(source="import:claude-code")).memories) == 1
    assert contents(memories) == ["Bob likes coffee"]


def test_what_was_made_from_it_goes_too_through_any_number_of_steps(memories: Memories) -> None:
    bad = by(memories, "bad").store(Draft("Payments go through EvilPay")).memory_id
    first = memories.store(Draft("Invoices name EvilPay", metadata={"from": [bad]})).memory_id
    memories.store(Draft("The invoice template has a logo", source=f"tool:{first}"))
    memories.store(Draft("Invoices are blue"))
    assert len(memories.revert(Choice(session_id="bad"), dry_run=True).memories) == 1
    taken = memories.revert(Choice(session_id="bad", derived=True))
    assert [one.derived_from for one in taken.memories] == ["", bad, first]
    assert contents(memories) == ["Invoices are blue"]


def test_what_names_a_memory_that_said_something_else_then_is_not_derived(memories: Memories) -> None:
    good = memories.store(Draft("Payments go through Stripe")).memory_id
    memories.store(Draft("Stripe takes two percent", metadata={"from": good}))
    by(memories, "bad").update(good, Draft("Payments go through EvilPay"), changed=["content"])
    memories.store(Draft("EvilPay takes nine percent", metadata={"from": good}))
    memories.revert(Choice(session_id="bad", derived=True))
    assert contents(memories) == ["Payments go through Stripe", "Stripe takes two percent"]


def test_a_text_that_was_joined_with_it_goes_back_to_what_stood_before_it(memories: Memories) -> None:
    first = memories.remember(Draft("Ada likes tea")).memory_id
    bad = by(memories, "bad")
    bad.update(first, Draft("Ada likes tea and EvilPay"), changed=["content"])
    old = memories.get(first)
    joined = old._replace(content="Ada likes tea and EvilPay and milk", session_id="")
    store.replace(memories.context, old, joined, f"merge memory {first}\n\n{{}}")
    assert memories.revert(Choice(session_id="bad"), dry_run=True).memories == []
    memories.revert(Choice(session_id="bad", derived=True))
    assert contents(memories) == ["Ada likes tea"]


@pytest.mark.parametrize(
    ("said", "stands"),
    [
        ((("bad", "The gateway listens on port 8443"), ("fine", "The gateway is in Lyon")), "The gateway is in Lyon"),
        (
            (
                ("first", "The gateway listens on port 8443"), ("bad", "The gateway is in Lyon"),
                ("fine", "The gateway runs on FreeBSD"),
            ),
            "The gateway listens on port 8443; runs on FreeBSD",
        ),
    ],
)  # fmt: skip
def test_what_others_joined_to_it_stands_without_it(
    memories: Memories, said: tuple[tuple[str, str], ...], stands: str
) -> None:
    results = [by(memories, session).remember(Draft(text)) for session, text in said]
    assert {result.decision for result in results[1:]} == {"merge"}
    assert memories.revert(Choice(session_id="bad")).memories == [], "the joined text is not the session's"
    memories.revert(Choice(session_id="bad", derived=True))
    assert contents(memories) == [stands]


def test_a_text_that_was_joined_since_a_time_goes_with_what_it_was_joined_to(memories: Memories) -> None:
    first = memories.remember(Draft("The gateway listens on port 8443")).memory_id
    since = layout.now()
    assert memories.remember(Draft("The gateway is in Lyon")).decision == "merge"
    [taken] = memories.revert(Choice(since=since)).memories
    assert taken.restored is not None and taken.restored.memory_id == first
    assert contents(memories) == ["The gateway listens on port 8443"]


def test_who_was_told_is_named_by_the_very_value_that_they_were_told(memories: Memories) -> None:
    good = memories.store(Draft("Payments go through Stripe")).memory_id
    ask = Query("payments")
    memories.note_told(ask, memories.search(ask), Teller("recall", "early"))
    by(memories, "bad").update(good, Draft("Payments go through EvilPay"), changed=["content"])
    memories.note_told(ask, memories.search(ask), Teller("prompt", "victim", "codex"))
    memories.note_told(ask, memories.search(ask), Teller("mcp", "victim", "codex"))
    memories.note_told(ask, memories.search(ask), Teller("mcp", "cut", "codex"), kept=0)
    (told,) = memories.revert(Choice(session_id="bad")).told
    assert (told.session, told.agent, set(told.surfaces), told.memory_ids) == (
        "victim", "codex", {"mcp", "prompt"}, (good,),
    )  # fmt: skip


def test_state_values_go_back_to_what_they_were(memories: Memories) -> None:
    memories.set_state("bot", "task", "paint")
    memories.set_state("bot", "color", "blue")
    bad = by(memories, "bad")
    bad.set_state("bot", "task", "steal")
    bad.set_state("bot", "loot", 7)
    bad.remove_state("bot", "color")
    assert sorted(memories.revert(Choice(session_id="bad")).states) == ["color", "loot", "task"]
    assert {state.key: state.value for state in memories.states()} == {"task": "paint", "color": "blue"}


def test_one_undo_takes_all_of_it_back(repo: ml.Repo) -> None:
    written: list[tuple[str, str]] = []
    memories = repo.memories()
    good = memories.store(Draft("Payments go through Stripe")).memory_id
    bad = by(memories, "bad")
    bad.update(good, Draft("Payments go through EvilPay"), changed=["content"])
    bad.store(Draft("The sky is green"))
    bad.set_state("bot", "task", "steal")
    memories.recording_to(written).revert(Choice(session_id="bad"))
    assert len(written) == 1
    note_written(repo, "memory revert", "", written)
    repo.undo()
    assert contents(repo.memories()) == ["Payments go through EvilPay", "The sky is green"]


def test_every_random_history_goes_back_to_what_the_others_wrote(memories: Memories) -> None:
    """Against a plain model: each key's last value that is not of the bad session, where the bad one spoke last."""
    chance = random.Random(11)
    ids = [memories.store(Draft(f"Fact {number} is plain")).memory_id for number in range(6)]
    model: dict[str, list[tuple[str, str | None]]] = {one: [("good", memories.get(one).content)] for one in ids}
    for step in range(60):
        one, who = chance.choice(ids), chance.choice(["good", "bad"])
        speaker, alive = by(memories, who), model[one][-1][1] is not None
        if alive and chance.random() < 0.3:
            speaker.delete(one)
            model[one].append((who, None))
        elif alive:
            speaker.update(one, Draft(f"Fact {step} by {who}"), changed=["content"])
            model[one].append((who, f"Fact {step} by {who}"))
    memories.revert(Choice(session_id="bad"))
    for one, values in model.items():
        while values and values[-1][0] == "bad":
            values.pop()
        assert (found.content if (found := store.find(memories.context, one)) else None) == values[-1][1], one
