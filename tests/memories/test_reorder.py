"""The second order of the first hits: what turns of a conversation say of themselves and of those beside them."""

from __future__ import annotations

from pathlib import Path

import pytest

import memlake as ml
from memlake.index.index import Found
from memlake.index.rank import LOOKED, Evidence, Scored
from memlake.memories import reorder
from memlake.memories.memories import Draft, Memories
from memlake.memories.search import Query


def find(memories: Memories, question: str, limit: int = 10) -> list[str]:
    return [hit["content"] for hit in memories.search(Query(question, limit=limit))]


def say(memories: Memories, *turns: str, session: str = "s") -> None:
    memories.store_many([Draft(turn, session_id=session) for turn in turns])


def test_an_answer_stands_before_the_question_it_follows(memories: Memories) -> None:
    say(
        memories,
        "Ada: Good morning Ben, nice to see you here again",
        "Ada: Did you start the lessons, Ben?",
        "Ben: I take lessons for the cello, because my grandfather had one in the attic",
        "Ada: That sounds like a lovely plan for the winter",
    )
    first, second = find(memories, "What lessons did Ben start?")[:2]
    assert (first[:11], second[:7]) == ("Ben: I take", "Ada: Di")


def test_the_person_asked_about_stands_before_one_who_speaks_to_them(memories: Memories) -> None:
    say(memories, "Ada: I adopted a puppy from the shelter", session="a")
    say(memories, "Ben: Ada, I adopted a puppy from the shelter", session="b")  # of equals the newer one comes first
    assert find(memories, "When did Ada adopt a puppy?")[0].startswith("Ada:")


def test_a_long_turn_stands_before_a_short_one_of_the_same_words(memories: Memories) -> None:
    say(memories, "Ada: the harbour was wonderful, we stayed for a week with friends of ours", session="a")
    say(memories, "Ada: wonderful harbour", session="b")
    assert find(memories, "wonderful harbour")[0].startswith("Ada: the harbour")


def test_who_asks_when_gets_a_time_first(memories: Memories) -> None:
    say(memories, "Ada: I adopted a puppy from the shelter last Tuesday", session="a")
    say(
        memories, "Ada: I adopted a puppy from the shelter quite happily", session="b"
    )  # of equals the newer comes first
    assert "Tuesday" in find(memories, "When did Ada adopt a puppy from the shelter?")[0]
    assert "happily" in find(memories, "Where did Ada adopt a puppy? At the shelter?")[0]


def test_a_name_in_a_script_without_gaps_is_found_inside_the_question() -> None:
    turns = {1: "小明\uff1a我养了一只狗", 2: "小红\uff1a我养了一只狗"}
    found = [Found(b"", b"", Scored(row, 1.0, words=1.0, evidence=Evidence(1.0, in_session=True))) for row in turns]
    other = reorder.measure("小明养了什么狗", found, turns)[:, reorder.FEATURES.index("other")]
    assert other.tolist() == [0, 1]


def test_a_statement_stands_before_a_question_of_the_same_words(memories: Memories) -> None:
    say(memories, "Ada: I like the cello from Leipzig", session="a")
    say(memories, "Ada: You like the cello from Leipzig?", session="b")
    assert find(memories, "Who likes the cello from Leipzig")[0].startswith("Ada: I like")


def test_memories_of_no_session_keep_the_order_of_their_words(memories: Memories) -> None:
    memories.store_many([Draft("Which port does the api use?"), Draft("The api use port 8001 by day")])
    assert find(memories, "Which port does the api use?")[0] == "Which port does the api use?"


def test_pages_are_parts_of_one_order(memories: Memories) -> None:
    say(memories, *(f"Ada: note {n} about the harbour {'and its boats ' * (n % 7)}" for n in range(LOOKED + 15)))
    whole = find(memories, "Ada harbour boats", limit=LOOKED + 15)
    pages = [
        hit["content"]
        for start in range(0, LOOKED + 15, 5)
        for hit in memories.search(Query("Ada harbour boats", limit=5, offset=start))
    ]
    assert len(whole) == LOOKED + 15
    assert pages[:LOOKED] == whole[:LOOKED]


def test_ranks_fall_beyond_what_is_looked_at_too(memories: Memories) -> None:
    say(memories, *(f"Ada: note {n} about the harbour {'and its boats ' * (n % 7)}" for n in range(LOOKED + 15)))
    ranks = [hit["why"]["rank"] for hit in memories.search(Query("Ada harbour boats", limit=LOOKED + 15))]
    assert ranks == sorted(ranks, reverse=True)


def test_a_vector_does_not_put_a_row_without_the_words_before_one_that_has_them_all() -> None:
    with_words = Found(b"a", b"a", Scored(1, 0.62, words=9.0, vectors=0.35, evidence=Evidence(1.0)))
    with_meaning = Found(b"b", b"b", Scored(2, 0.66, words=1.0, vectors=0.7, evidence=Evidence(0.1)))
    ordered = reorder.reorder("any", [with_meaning, with_words], {}, 2)
    assert [one.key for one in ordered] == [b"a", b"b"]


def test_a_search_by_meaning_alone_keeps_the_order_of_its_vectors(tmp_path: Path) -> None:
    with ml.init(tmp_path / "repo") as repo:
        repo.config.set("embedding.provider", "test")
    with ml.open(tmp_path / "repo") as repo:
        memories = repo.memories()
        say(memories, "Ada: what is a cello?", "Ben: a cello is a large violin that is played sitting")
        assert memories.wait(20)
        hits = memories.search(Query("what is a cello", mode="semantic"))
        near = [hit["why"]["vectors"] for hit in hits]
        assert near == sorted(near, reverse=True) and hits[0]["content"].startswith("Ada")


@pytest.mark.parametrize("text", ["no speaker here", "", ": nobody", "http://example.org/a: b"])
def test_a_text_that_names_no_speaker_is_nobodys(text: str) -> None:
    found = [Found(b"a", b"a", Scored(1, 1.0, words=1.0, evidence=Evidence(1.0, in_session=True)))]
    other = reorder.FEATURES.index("other")
    assert reorder.measure("who is nobody", found, {1: text})[0][other] == 0
