"""Which earlier texts come back as near."""

from __future__ import annotations

from memlake.memories.rot.nearness import Neighbours


def near(texts: list[str], number: int, projects: list[str] | None = None) -> list[int]:
    neighbours = Neighbours(zip(texts, projects or [""] * len(texts), strict=True))
    for at in range(len(texts)):
        if at != number:
            neighbours.add(at)
    return list(neighbours.find(number, accepts=lambda _: True))


def test_the_text_that_shares_the_rare_words_is_found_among_thousands_that_share_the_common_ones() -> None:
    texts = [f"The server of team {name} runs on port 80" for name in map(str, range(3000))]
    texts[17] = "The server of team heliotrope runs on port 81"
    texts.append("The server of team heliotrope runs on port 99")
    assert near(texts, 3000)[0] == 17


def test_texts_that_share_little_are_not_near() -> None:
    assert near(["The port is 8080", "The port of call was Lyon in May when Ada came by with tea"], 0) == []


def test_texts_of_another_project_are_not_near() -> None:
    assert near(["Tea is at four", "Tea is at four"], 1) == [0]
    assert near(["Tea is at four", "Tea is at four"], 1, ["a", "b"]) == []


def test_no_more_than_a_few_come_back_however_many_are_alike() -> None:
    assert len(near(["Tea is at four"] * 500, 499)) == 3
