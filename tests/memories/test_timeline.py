"""The past of memories: before the first one, what was forgotten and brought back, what was purged."""

from __future__ import annotations

import pytest

import memlake as ml
from memlake.memories.memories import Draft, Memories
from memlake.memories.search import Query

LONG_AGO = "2020-01-01"


def contents(memories: Memories, text: str = "", **how: object) -> list[str]:
    return [hit["content"] for hit in memories.search(Query(text, **how))]  # type: ignore[arg-type]


# -- before the first memory --------------------------------------------------------------------


def test_before_the_first_memory_nothing_is_found(memories: Memories) -> None:
    assert contents(memories, "sky", as_of=LONG_AGO) == []  # also where nothing was ever stored
    memories.store(Draft("The sky is blue"))
    memories.create_branch("draft")
    memories.on("draft").store(Draft("The sky is grey"))
    for sees in ("branch", "branch-only", "main"):
        assert contents(memories.on("draft"), "sky", as_of=LONG_AGO, sees=sees) == []
    assert memories.list_memories(Query(as_of=LONG_AGO)) == []
    with pytest.raises(ml.errors.NotFound):
        memories.search(Query("sky", as_of="nonsense"))


def test_since_before_the_first_memory_everything_was_added(memories: Memories) -> None:
    assert memories.diff(LONG_AGO) == []
    memories.store(Draft("The sky is blue"))
    assert [(one.status, one.new) for one in memories.diff(LONG_AGO)] == [("A", "The sky is blue")]
    assert memories.diff("2019-01-01", LONG_AGO) == []


def test_the_trunk_is_seen_as_it_was_from_a_branch_too(memories: Memories) -> None:
    memories.store(Draft("The sky is blue"))
    memories.create_branch("draft")
    head = memories.log(1)[0].oid
    memories.store(Draft("The sky is red"))
    assert contents(memories.on("draft"), "sky", as_of=head, sees="main") == ["The sky is blue"]


# -- how values ended ---------------------------------------------------------------------------


def test_forgetting_and_bringing_back_are_told_with_who_and_when(memories: Memories) -> None:
    stored = memories.store(Draft("The sky is blue", agent_id="bot"))
    memories.update(stored.memory_id, Draft("The sky is grey"), changed=["content"])
    memories.as_agent("bot").delete(stored.memory_id)
    memories.as_agent("bot").restore(stored.memory_id)
    told = memories.history(stored.memory_id)
    assert [version.ended for version in told] == ["replaced", "forgotten", ""]
    assert told[1].ended_by == "bot" and told[1].reason.startswith("forget memory") and told[1].until
    assert told[2].message.startswith("restore memory") and told[2].author == "bot"


def test_the_history_of_a_purged_memory_says_when_who_and_why_and_nothing_of_it(memories: Memories) -> None:
    stored = memories.store(Draft("The safe opens with 4711"))
    memories.update(stored.memory_id, Draft("The safe opens with 4712"), changed=["content"])
    memories.purge(stored.memory_id, "asked to")
    told = memories.history(stored.memory_id)
    assert [(version.content, version.ended, version.reason) for version in told] == [(None, "purged", "asked to")] * 2
    assert all(version.until and version.ended_by for version in told)
    with pytest.raises(ml.errors.NotFound, match="purged already: asked to"):
        memories.purge(stored.memory_id, "again")
    with pytest.raises(ml.errors.NotFound, match="never stored"):
        memories.history("01a1e428-8508-7191-b4f7-89358b3d4ba3")


def test_a_purged_memory_that_came_in_by_the_thousand_is_known_too(memories: Memories) -> None:
    stored = memories.store_many([Draft(f"Fact number {n}") for n in range(2000)])
    memories.purge(stored[700].memory_id, "wrong")
    (version,) = memories.history(stored[700].memory_id)
    assert version.reason == "wrong"


def test_a_purged_memory_cannot_be_brought_back_and_says_why(memories: Memories) -> None:
    stored = memories.store(Draft("The safe opens with 4711"))
    memories.purge(stored.memory_id, "asked to")
    with pytest.raises(ml.errors.Purged, match="asked to"):
        memories.restore(stored.memory_id)


@pytest.mark.parametrize("known", [False, True], ids=["no vector yet", "vectors lost"])
def test_a_purge_goes_through_where_a_model_has_no_vectors(memories: Memories, known: bool) -> None:
    stored = memories.store(Draft("The safe opens with 4711"))
    memories.store(Draft("The sky is blue"))
    index = memories.shared.index
    folder = index.vectors("some-model", 8).folder
    if known:
        index.db.run("INSERT INTO meta VALUES(?, 1)", (f"vectors {folder.name}",))
    memories.purge(stored.memory_id, "asked to")
    assert contents(memories) == ["The sky is blue"]
    assert index.db.row("SELECT count(*) FROM row") == (1,)


def test_a_value_of_another_branch_names_who_wrote_it_there(memories: Memories) -> None:
    stored = memories.store(Draft("The sky is blue", agent_id="bot"))
    memories.create_branch("draft")
    memories.as_agent("bot").on("draft").update(stored.memory_id, Draft("The sky is grey"), changed=["content"])
    told = memories.on("draft").get(stored.memory_id) and memories.history(stored.memory_id)[-1]
    assert (told.content, told.author, told.commit) == ("The sky is grey", "bot", memories.on("draft").log(1)[0].oid)
    assert told.message.startswith("update memory")
