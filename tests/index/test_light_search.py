"""A glance at the index finds what the whole index finds by words, from segments and fresh rows alike."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import memlake as ml
from memlake import projects
from memlake.index import light_search
from memlake.index.terms import query_words
from memlake.memories.memories import Draft, Memories
from memlake.memories.record import Memory
from memlake.memories.search import Query
from memlake.memories.sessions.hook_search import Narrow
from memlake.repo import open_narrow
from tests.memories.conftest import opened

WORDS = [
    a + b for a in ("pro", "con", "de", "re", "ex", "in") for b in ("duce", "form", "tract", "serve", "port", "mit")
]


def find(narrow: Narrow, text: str, most: int) -> list[Memory]:
    return narrow.search(query_words(text), most).memories


@pytest.fixture
def repo(tmp_path: Path) -> Iterator[ml.Repo]:
    with opened(tmp_path / "repo") as made:
        yield made


@pytest.fixture
def memories(repo: ml.Repo) -> Memories:
    """2,500 in a segment, 500 fresh, with some changed and some gone in both."""
    draw, found = random.Random(7), repo.memories()
    for count in (2500, 500):
        texts = [" ".join(draw.choices(WORDS, k=6)) for _ in range(count)]
        made = found.store_many([Draft(text, category=draw.choice(["a", "b"])) for text in texts])
        if count == 2500:
            found.context.index.fold()
        for n, memory in enumerate(draw.sample(made, 40)):
            if n % 2:
                found.delete(memory.memory_id)
            else:
                found.update(memory.memory_id, Draft("reform export"), changed=["content"])
    assert len(list(found.context.index.generation.glob("*.seg"))) == 1
    return found


@pytest.mark.parametrize("text", ["produce contract", "inform export remit", "deserve conserve reserve the in of"])
def test_what_it_finds_is_what_the_index_finds_first(repo: ml.Repo, memories: Memories, text: str) -> None:
    narrow = open_narrow(repo)
    found = [memory.memory_id for memory in find(narrow, text, 10)]
    # Boosts, and scores rounded to a byte in fresh rows, may order near equals another way.
    best = [hit["memory_id"] for hit in memories.search(Query(text, limit=40, mode="keyword"))]
    assert len(set(found)) == 10 and set(found) <= set(best)


def test_what_is_gone_or_said_no_more_is_not_found(repo: ml.Repo, memories: Memories) -> None:
    present = {memory.memory_id: memory.content for memory in memories.list_memories(Query(limit=10_000))}
    narrow = open_narrow(repo)
    found = [memory for word in WORDS for memory in find(narrow, f"{word} reform", 2000)]
    assert len(found) > 1000 and [one for one in found if present.get(one.memory_id) != one.content] == []


def test_the_newest_of_a_category_are_those_the_index_lists(repo: ml.Repo, memories: Memories) -> None:
    narrow = open_narrow(repo)
    found = [memory.memory_id for memory in narrow.newest(20, categories=("a",))]
    every = narrow.newest(100)
    listed = {memory.memory_id for memory in memories.list_memories(Query(limit=10_000, category="a"))}
    assert len(found) == 20 and set(found) <= listed and {memory.category for memory in every} == {"a", "b"}


def test_a_branch_shows_its_own(repo: ml.Repo, memories: Memories) -> None:
    memories.create_branch("draft")
    draft = memories.on("draft")
    gone = memories.search(Query("reform export", limit=1, mode="keyword"))[0]["memory_id"]
    draft.delete(gone)
    made = draft.store(Draft("xylophone reform export"))
    narrow = open_narrow(repo)
    assert find(narrow, "xylophone reform", 5)[:1] != [made]
    narrow.branch = "draft"
    assert find(narrow, "xylophone reform", 5)[0].memory_id == made.memory_id
    assert gone not in {memory.memory_id for memory in find(narrow, "reform export", 1000)}


def test_the_rarest_words_are_read_first_and_no_more_than_there_is_time_for(
    repo: ml.Repo, memories: Memories, monkeypatch: pytest.MonkeyPatch
) -> None:
    memories.store(Draft("xylophone produce"))
    memories.context.index.fold()
    monkeypatch.setattr(light_search, "_READ", 1000)  # produce and contract are in several hundred each
    assert find(open_narrow(repo), "xylophone produce", 5)[0].content == "xylophone produce"
    assert find(open_narrow(repo), "produce contract export", 5)
    monkeypatch.setattr(light_search, "_READ", 100)
    assert find(open_narrow(repo), "produce contract export", 5) == []


def test_an_index_that_is_not_there_is_made(repo: ml.Repo) -> None:
    repo.memories().store(Draft("The staging cluster runs in Frankfurt"))
    repo.close()
    shutil.rmtree(repo.dir / "index")
    with ml.open(repo.root) as again:
        assert len(find(open_narrow(again), "staging cluster", 5)) == 1
        assert len(again.memories().search(Query("staging", mode="keyword"))) == 1


@pytest.mark.parametrize("is_folded", [True, False])
def test_an_older_project_is_not_crowded_out_by_newer_ones(
    repo: ml.Repo, monkeypatch: pytest.MonkeyPatch, is_folded: bool
) -> None:
    monkeypatch.setattr(light_search, "_MOST", 20)
    memories = repo.memories()
    memories.store(Draft("This project indents with tabs", category="preferences", project="/here"))
    memories.store(Draft("Everybody indents with care", category="preferences", project=""))
    others = [f"Project {n} indents with tabs with tabs" for n in range(50)]
    memories.store_many([Draft(text, category="preferences", project="/elsewhere") for text in others])
    if is_folded:
        memories.context.index.fold()
    narrow = open_narrow(repo)
    narrow.place = projects.Place(("/here",))
    both = ["Everybody indents with care", "This project indents with tabs"]
    assert [memory.content for memory in narrow.newest(5, categories=("preferences",))] == both
    assert [memory.content for memory in narrow.newest(5)] == both
    assert [memory.content for memory in find(narrow, "indents tabs", 5)] == both[::-1]
