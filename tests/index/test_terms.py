"""What words a text is found by, and what a query asks for."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memlake.index import terms


def test_words_are_folded_and_stemmed() -> None:
    assert terms.words("Running DOGS, naïve!") == ["run", "dog", "naiv"]


def test_chinese_is_found_by_characters_and_pairs() -> None:
    assert terms.words("靠窗的") == ["靠", "窗", "的", "靠窗", "窗的"]


@pytest.mark.parametrize(
    ("query", "text"),
    [("北京", "我下周二要去北京出差"), ("猫", "她的猫叫小白"), ("搜索性能", "向量搜索的性能问题"),
     ("東京", "東京タワーに行く"), ("서울", "서울에서 만나요"), ("jazz", "User likes 北京烤鸭 and jazz")],
)  # fmt: skip
def test_a_query_in_another_script_meets_its_text(query: str, text: str) -> None:
    assert set(terms.query_words(query)) & set(terms.words(text))


def test_a_search_may_ask_for_single_characters_that_say_something() -> None:
    assert terms.query_characters("猫叫什么 cat") == ["猫", "叫"]
    assert terms.query_characters("cat") == []


def test_a_query_of_chinese_asks_for_pairs_not_for_single_characters() -> None:
    assert terms.query_words("向量搜索") == ["向量", "量搜", "搜索"]


def test_an_identifier_is_found_whole_and_in_parts() -> None:
    assert {"getusernam", "get", "user", "name"} <= set(terms.words("call getUserName()"))
    assert terms.words("snake_case") == ["snake", "case"]


def test_words_that_say_nothing_are_not_asked_for() -> None:
    assert terms.query_words("What is the revenue of this quarter?") == ["revenu", "quarter"]


def test_a_query_of_nothing_else_asks_for_them_all_the_same() -> None:
    assert terms.query_words("who are you") == ["who", "ar", "you"]


def test_a_mark_is_never_a_word() -> None:
    assert terms.mark("agent", "bot") not in terms.words("agent bot \0agent\0bot")


def test_packing_keeps_counts_and_marks() -> None:
    packed = terms.pack_terms(terms.count_terms("dog dog cat", [terms.mark("type", "fact")]))
    assert len(packed) == 3 * 9
    assert packed[-3:] == bytes([2, 1, 0])


@given(st.text())
def test_any_text_has_words_and_none_is_too_long(text: str) -> None:
    assert all(len(word) <= terms.LONGEST for word in terms.words(text))
    terms.pack_terms(terms.count_terms(text, ()))


def test_likeness_is_high_for_a_misspelling_and_low_for_another_word() -> None:
    close = terms.likeness(terms.grams("enterprise"), terms.grams("enterprize"))
    assert close > 0.6 > 0.3 > terms.likeness(terms.grams("enterprise"), terms.grams("segment"))


def test_an_emoji_is_a_word_of_its_own_wherever_it_stands() -> None:
    party = terms.query_words("\U0001f389")
    assert len(party) == 1 and party != terms.query_words("\U0001f38a")
    assert terms.words("party\U0001f389\U0001f389") == ["parti", *party, *party]
    assert terms.words("\u2714\ufe0f done") == [*terms.query_words("\u2714"), "done"]
    assert terms.words("20\u00b0C") == ["20", "c"]
