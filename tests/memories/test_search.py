"""A search says what it left out, and leaves out what is not near enough."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

import memlake as ml
from memlake.index.rank import Scored
from memlake.memories import record
from memlake.memories.memories import Draft, Memories
from memlake.memories.search import Query, _fits

from .conftest import opened


@pytest.mark.parametrize("text", ["", "service port"])
def test_a_search_that_gives_fewer_than_asked_for_says_so(repo: ml.Repo, text: str) -> None:
    repo.config.set("search.max_results", "5")
    with ml.open(repo.root) as again:
        memories = again.memories()
        memories.store_many([Draft(f"Service {n} listens on port {8000 + n}") for n in range(8)])
        hits = memories.search(Query(text, limit=300))
        assert len(hits) == 5
        assert any("search.max_results" in note and "300" in note for note in hits.notes)
        assert not memories.search(Query(text, limit=5)).notes


def test_a_search_that_found_all_there_is_says_nothing_of_a_limit(memories: Memories) -> None:
    memories.store(Draft("Service 1 listens on port 8001"))
    assert not memories.search(Query("", limit=300)).notes


def test_hits_below_a_score_are_left_out(memories: Memories) -> None:
    memories.store_many([Draft("Ada plays the cello in an orchestra"), Draft("Ada lives in Lisbon")])
    everything = memories.search(Query("Ada plays the cello"))
    assert len(everything) == 2
    near = memories.search(Query("Ada plays the cello", min_score=0.6))
    assert [hit["content"] for hit in near] == ["Ada plays the cello in an orchestra"]
    assert all(hit["similarity_score"] >= 0.6 for hit in near)


def test_what_nothing_is_near_to_finds_nothing_by_meaning_either(tmp_path: Path) -> None:
    with opened(tmp_path / "repo", "test") as repo:
        memories = repo.memories()
        day = int(datetime(2026, 11, 18, tzinfo=timezone.utc).timestamp() * 1e6)  # the vector holds the date too
        memories.store(Draft("Ada plays the cello in an orchestra", created_at=day))
        assert memories.wait(30)
        assert memories.search(Query("who painted the mona lisa", min_score=0.99)) == []
        unlike = memories.search(Query("painted walls"))  # a cosine of 0.09, and no word
        assert unlike == [] and "Nothing is near to it; the nearest has a score of 0.09." in unlike.notes


@pytest.mark.parametrize("score", [-0.1, 1.5, "high", True])
def test_a_score_that_cannot_be_is_refused(memories: Memories, score: Any) -> None:
    with pytest.raises(ml.errors.InvalidInput, match="min_score is a number from 0 to 1"):
        memories.search(Query("ada", min_score=score))


def test_a_comparison_in_metadata_is_refused_and_a_mapping_is_found(memories: Memories) -> None:
    memories.store(Draft("Ada plays the cello", metadata={"confidence": 0.9, "at": {"hall": 3}}))
    with pytest.raises(ml.errors.InvalidInput, match=r"metadata .*'\$gt'"):
        memories.search(Query("cello", metadata={"confidence": {"$gt": 0.5}}))
    assert len(memories.search(Query("cello", metadata={"at": {"hall": 3}}))) == 1


def test_figures_and_the_list_of_doubts_count_the_same(memories: Memories) -> None:
    for n in range(3):
        memories.remember(Draft(f"Server {chr(97 + n)} is slow"), "add")
        memories.remember(Draft(f"Server {chr(97 + n)} is not slow"), "ask")
    assert memories.stats().in_doubt == len(memories.conflicts()) == 3
    doubt = memories.conflicts()[0]
    assert doubt.old is not None
    memories.delete(doubt.old.memory_id)
    assert memories.stats().in_doubt == len(memories.conflicts()) == 2


def test_every_doubt_is_listed_however_many_hits_a_search_gives(repo: ml.Repo) -> None:
    repo.config.set("search.max_results", "2")
    with ml.open(repo.root) as again:
        memories = again.memories()
        for n in range(4):
            memories.remember(Draft(f"Server {chr(97 + n)} is slow"), "add")
            memories.remember(Draft(f"Server {chr(97 + n)} is not slow"), "ask")
        assert len(memories.conflicts()) == 4


@pytest.mark.parametrize(
    ("parts", "score", "fits"),
    [
        ({"words": 0.1, "vectors": -0.1}, 0.0, True),
        ({"grams": 1.0}, 0.0, True),  # no model: the spelling is all there is
        ({"grams": 1.0, "vectors": 0.09}, 0.09, True),
        ({"grams": 1.0, "vectors": -0.07}, 0.0, False),
        ({"vectors": 0.3}, 0.3, True),
        ({"vectors": 0.1, "neighbours": 0.2}, 0.1, False),
    ],
)
def test_spelling_alone_is_no_match_where_the_meaning_speaks_against_it(
    parts: dict[str, float], score: float, fits: bool
) -> None:
    assert _fits([Scored(1, 0.5, likeness=score, **parts)]) is fits


@pytest.mark.parametrize("text", ["", "service port"])
def test_a_later_page_reads_no_page_before_it(memories: Memories, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    memories.store_many([Draft(f"Service {n} listens on port {8000 + n}") for n in range(30)])
    every = [hit["memory_id"] for hit in memories.search(Query(text, limit=30))]
    read, decode = list[bytes](), record.decode

    def count(data: bytes) -> record.Memory:
        read.append(data)
        return decode(data)

    monkeypatch.setattr(record, "decode", count)
    assert [hit["memory_id"] for hit in memories.search(Query(text, limit=5, offset=20))] == every[20:25]
    assert len(read) == 5


@pytest.mark.parametrize("history", [5, "x", [{"value": ["y"]}], [1]], ids=str)
def test_whatever_stands_in_metadata_called_history_a_memory_can_be_shown(memories: Memories, history: object) -> None:
    key = memories.store(Draft("tea", metadata={"history": history})).memory_id
    assert memories.fields(memories.get(key))["content"] == "tea"
