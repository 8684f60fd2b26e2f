"""What a sentence is made of: the weights, and that they find what no rule lists and leave secrets alone."""

from __future__ import annotations

import time

import pytest

from memlake.memories.sessions import statement_odds, statements
from memlake.memories.sessions.prompts import Sentence
from memlake.memories.sessions.statement_odds import judge, list_features
from memlake.memories.sessions.statements import find_statements, judge_by_rules


@pytest.mark.parametrize(
    ("states", "asks"),
    [("tabs, not spaces", "ok commit and push it"), ("money is integers everywhere", "why does it crash when I run"),
     ("金额都是整数分", "为什么打开文件就崩溃"), ("用户文案中文,代码英文", "把这个按钮删掉")],
)  # fmt: skip
def test_what_states_something_is_likelier_than_an_order_or_a_question(states: str, asks: str) -> None:
    assert judge(Sentence(states), "") > judge(Sentence(asks), "")


def test_some_of_what_is_found_is_found_by_odds_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "hotfixes branch off the release tag"
    assert judge_by_rules(Sentence(text)) == ""
    monkeypatch.setattr(statement_odds, "judge", lambda _sentence, _ruled: 0.9)
    assert [one.text for one in find_statements(text)] == ["Hotfixes branch off the release tag"]
    monkeypatch.setattr(statement_odds, "judge", lambda _sentence, _ruled: statements.LIKELY - 0.01)
    assert find_statements(text) == []


def test_a_rule_is_overruled_only_by_odds_that_are_very_low(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statement_odds, "judge", lambda _sentence, _ruled: 0.0)
    assert find_statements("from now on, always squash merge") == []


@pytest.mark.parametrize("text", ["the password of the tester is Turnstone58", "the login token is abc-123-def"])
def test_no_secret_is_kept_by_odds(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statement_odds, "judge", lambda _sentence, _ruled: 0.99)
    assert find_statements(text) == []


def test_every_weight_is_of_a_feature_and_a_sentence_costs_little() -> None:
    weights = statement_odds._read_weights()
    assert "" in weights and len(weights) > 1000 and all(-20 < weight < 20 for weight in weights.values())
    seen = set(list_features(Sentence("Never commit to main without a review, 4 eyes always"), "rule"))
    assert len(seen & weights.keys()) > 20
    began = time.process_time()
    for number in range(200):
        judge(Sentence(f"keep the answers short and in plain English, at most {number} lines"), "")
    assert time.process_time() - began < 2


@pytest.mark.parametrize("text", ["", " ", "?", "\x00", "a" * 5000, "`" * 300, "1" * 300])
def test_absurd_sentences_have_odds(text: str) -> None:
    assert 0 <= judge(Sentence(text), "") <= 1
