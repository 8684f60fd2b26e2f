"""A search says what it left out, and leaves out what is not near enough."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

import memlake as ml
from memlake.memories import record
from memlake.memories.embedders.local import is_installed
from memlake.memories.memories import Draft, Memories
from memlake.memories.search import Query

from .conftest import opened

needs_model = pytest.mark.skipif(not is_installed(), reason="memlake-minilm is not installed: make model")


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
    everything = memories.search(Query("Ada plays the cello", min_score=0))
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
        unlike = memories.search(Query("painted walls"))  # a cosine of 0.09, where unrelated texts have 0.3
        assert unlike == [] and "Nothing is near to it; the nearest has a score of 0.00." in unlike.notes


@pytest.mark.parametrize("score", [-0.1, 1.5, "high", True])
def test_a_score_that_cannot_be_is_refused(memories: Memories, score: Any) -> None:
    with pytest.raises(ml.errors.InvalidInput, match="min_score is a number from 0 to 1"):
        memories.search(Query("ada", min_score=score))


def test_a_comparison_in_metadata_is_refused_and_a_mapping_is_found(memories: Memories) -> None:
    memories.store(Draft("Ada plays the cello", metadata={"confidence": 0.9, "at": {"hall": 3}}))
    with pytest.raises(ml.errors.InvalidInput, match=r"metadata .*'\$gt'"):
        memories.search(Query("cello", metadata={"confidence": {"$gt": 0.5}}))
    assert len(memories.search(Query("cello", metadata={"at": {"hall": 3}}))) == 1


def test_figures_and_the_list_of_contradictions_count_the_same(memories: Memories) -> None:
    for n in range(3):
        memories.remember(Draft(f"Server {chr(97 + n)} is slow"), "add")
        memories.remember(Draft(f"Server {chr(97 + n)} is not slow"), "ask")
    assert memories.stats().conflicts == len(memories.conflicts()) == 3
    contradiction = memories.conflicts()[0]
    assert contradiction.old is not None
    memories.delete(contradiction.old.memory_id)
    assert memories.stats().conflicts == len(memories.conflicts()) == 2


def test_every_contradiction_is_listed_however_many_hits_a_search_gives(repo: ml.Repo) -> None:
    repo.config.set("search.max_results", "2")
    with ml.open(repo.root) as again:
        memories = again.memories()
        for n in range(4):
            memories.remember(Draft(f"Server {chr(97 + n)} is slow"), "add")
            memories.remember(Draft(f"Server {chr(97 + n)} is not slow"), "ask")
        assert len(memories.conflicts()) == 4


FACTS = (
    "The checkout service is written in Go and talks to Stripe through webhooks",
    "Lena owns the search page; ask her before changing the ranking of products",
    "Refunds over 200 euros need a second person to approve them",
    "Discount of 20% for Acme",
)
UNRELATED = ("who painted the mona lisa", "tallest mountain of africa", "谁画了蒙娜丽莎")


@pytest.mark.parametrize("question", UNRELATED)
def test_what_is_unrelated_finds_nothing_unless_told_to(memories: Memories, question: str) -> None:
    memories.store_many(
        [Draft(fact) for fact in (*FACTS, "On Monday the lists are sorted")]
    )  # mona is no misspelt Monday
    assert memories.search(Query(question)) == []


def test_one_right_word_of_a_long_question_is_enough(memories: Memories) -> None:
    memories.store_many([Draft(fact) for fact in FACTS])
    asked = (
        "I was wondering the other day what people here usually do when a customer wants refunds for something broken"
    )
    assert [hit["content"] for hit in memories.search(Query(asked))] == [FACTS[2]]


def test_one_character_of_chinese_finds_what_no_pair_does(memories: Memories) -> None:
    memories.store_many([Draft("她养了一只白猫"), Draft("周会在周一上午十点"), Draft("数据库的备份在凌晨三点")])
    assert [hit["content"] for hit in memories.search(Query("白的猫"))] == ["她养了一只白猫"]
    assert memories.search(Query("什么时候有木星")) == []


def test_the_floor_is_a_setting_that_a_question_may_overrule(repo: ml.Repo, memories: Memories) -> None:
    memories.store_many([Draft(fact) for fact in FACTS])
    weak = Query("rankin")  # spelt nearly as a word that is there
    assert memories.search(weak._replace(min_score=0.9)) == []
    assert [hit["content"] for hit in memories.search(weak)] == [FACTS[1]]
    repo.config.set("search.min_score", "0.9")
    with ml.open(repo.root) as again:
        assert again.memories().search(weak) == []
        assert [hit["content"] for hit in again.memories().search(weak._replace(min_score=0))] == [FACTS[1]]


def test_what_is_below_the_floor_is_named_with_it(memories: Memories) -> None:
    far = memories.store(Draft("On Monday the lists are sorted")).memory_id
    weak = Query("who painted the mona lisa")
    memories.store_many([Draft(fact) for fact in FACTS])
    (gate,) = memories.why_not(far, weak)
    assert gate.name == "floor"
    assert "is below the least that is told, 0.2 (search.min_score)" in gate.says
    (gate,) = memories.why_not(far, weak._replace(min_score=0.5))
    assert "is below the least that was asked for, 0.5" in gate.says


def test_scores_fall_as_they_are_shown_and_ranks_do(memories: Memories) -> None:
    turns = [f"Ada: note {n} about the harbour {'and its boats ' * (n % 7)}{'?' * (n % 2)}" for n in range(30)]
    memories.store_many([Draft(turn, session_id=f"s{at % 3}") for at, turn in enumerate(turns)])
    memories.store_many([Draft(fact) for fact in FACTS])
    for question in ("Ada harbour boats", "boats of Ada?", "what did she note about the harbour"):
        hits = memories.search(Query(question, limit=30))
        assert len(hits) > 1
        for shown in ([hit["similarity_score"] for hit in hits], [hit["why"]["rank"] for hit in hits]):
            assert shown == sorted(shown, reverse=True)


def test_a_neighbour_lifts_only_what_matches_by_itself(memories: Memories) -> None:
    turns = ("Ada: python it is", "Ada: we test with the python unit test framework", "Ben: discount of 20% for Acme")
    memories.store_many([Draft(turn, session_id="s") for turn in turns])
    memories.store_many([Draft(fact) for fact in FACTS])
    told = {hit["content"] for hit in memories.search(Query("python unit test framework"))}
    assert told == {turns[0], turns[1]}
    memories.store(Draft("The parser reads python", session_id="other"))
    lifted = {hit["content"]: hit["similarity_score"] for hit in memories.search(Query("python unit test framework"))}
    assert turns[0] in lifted and "The parser reads python" not in lifted  # the same word, and nobody beside it


@needs_model
def test_vectors_change_what_is_told_in_number_and_not_in_kind(tmp_path: Path) -> None:
    """The same questions before the memories have their vectors and after it."""
    with opened(tmp_path / "repo", "none") as repo:
        repo.memories().store_many([Draft(fact) for fact in FACTS])
        answers = {"who owns the search page": 1, "refunds over 200 euros": 2, "discount for Acme": 3}
        before = {ask: _tell(repo.memories(), ask) for ask in (*answers, *UNRELATED)}
        repo.config.set("embedding.provider", "local")
    with ml.open(tmp_path / "repo") as repo:
        assert repo.memories().wait(60)
        after = {ask: _tell(repo.memories(), ask) for ask in (*answers, *UNRELATED)}
    for ask, right in answers.items():
        assert before[ask][0] == after[ask][0] == FACTS[right]
    for ask in UNRELATED:
        assert before[ask] == after[ask] == []


def _tell(memories: Memories, question: str) -> list[str]:
    return [hit["content"] for hit in memories.search(Query(question))]


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
