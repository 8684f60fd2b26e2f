"""The past of memories: before the first one, what was forgotten and brought back, what was purged."""

from __future__ import annotations

from pathlib import Path

import pytest

import memlake as ml
from memlake.memories.memories import Draft, Memories
from memlake.memories.searching import Query

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
    assert memories.listed(Query(as_of=LONG_AGO)) == []
    with pytest.raises(ml.NotFound):
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
