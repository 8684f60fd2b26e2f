"""What the tools of a server share: a search that finds nothing says what others have, at no cost of its own."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from memlake.errors import Unavailable
from memlake.mcp.workspace import search_for
from memlake.memories.memories import Draft, Memories
from memlake.memories.record import list_own
from memlake.memories.search import Query
from tests.memories.conftest import opened


@pytest.mark.parametrize("fails", [False, True])
def test_a_search_that_finds_nothing_asks_the_embedder_once(tmp_path: Path, fails: bool) -> None:
    with opened(tmp_path / "repo", "test") as repo:
        memories, asked = repo.memories(), list[str]()
        memories.store(Draft("Ada plays the cello in an orchestra", "ada"))
        assert memories.wait(30)

        def vector_of(text: str) -> tuple[str, Any] | None:
            asked.append(text)
            if fails:
                raise Unavailable("the service is away.")
            return memories.shared.vector_of(text)

        watched = Memories(dataclasses.replace(memories.context, vector_of=vector_of), memories.shared)
        hits = search_for(watched, Query("who plays the cello", agent_id=list_own("bob")), "own")
        assert hits == [] and any("Memories of other agents match (ada)" in note for note in hits.notes)
        assert asked == ["who plays the cello"]
