"""Amounts written in two ways: what is equal is found, what is not stays another value."""

from __future__ import annotations

import pytest

from memlake.memories.rules import decide
from memlake.memories.rules.amounts import unify

EQUAL = [
    ("30 seconds", "30000 ms"),
    ("one hour", "60 minutes"),
    ("2 TB", "2000 GB"),
    ("16GB", "16 GB"),
    ("5 km", "5000 m"),
    ("ninety days", "90 days"),
    ("3 pm", "15:00"),
    ("12k rows", "12,000 rows"),
    ("1,000,000", "1000000"),
    ("the second Friday", "the 2nd Fri"),
    ("星期二", "周二"),
    ("下午三点", "15:00"),
    ("九点半", "9:30"),
    ("1小时", "60分钟"),
    ("半小时", "30分钟"),
    ("half an hour", "30 minutes"),
    ("the Berlin timezone", "the Berlin time zone"),
]
OTHER = [
    ("30 seconds", "30 ms"),
    ("3 pm", "3:00"),
    ("Python 3.1", "Python 3.10"),
    ("agent 007", "agent 7"),
    ("10.0.0.12", "10.0.0.1"),
    ("5 m", "5 min"),
    ("9:30", "9.5 hours"),
    ("周二", "周三"),
]


@pytest.mark.parametrize(("old", "new"), EQUAL)
def test_what_is_equal_is_written_as_in_the_first_text(old: str, new: str) -> None:
    assert unify(old, new) == old
    assert unify(new, old) == new


@pytest.mark.parametrize(("old", "new"), OTHER)
def test_what_is_not_equal_stays_as_it_is(old: str, new: str) -> None:
    assert unify(old, new) == new


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("The request timeout is 30 seconds", "The request timeout is 30000 ms"),
        ("请求超时是30秒", "请求超时是30000毫秒"),
        ("Send bills by e-mail", "Send bills by email"),
        ("The set-up takes ten minutes", "The setup takes 10 min"),
    ],
)
def test_another_unit_or_spelling_is_known_already(old: str, new: str) -> None:
    assert decide(old, new) == "skip"


def test_another_amount_is_a_change_in_whatever_unit() -> None:
    assert decide("The request timeout is 30 seconds", "The request timeout is 40000 ms") == "conflict"
