"""Conditions on facts: what they say, and where a wrong one is wrong."""

from __future__ import annotations

from typing import Any

import pytest

import memlake as ml
from memlake.versions import conditions

FACTS: dict[str, dict[str, Any]] = {
    "metrics": {"accuracy": 0.93, "test.f1": 1, "val-loss": 0.2, "best": True, "note": "fine"},
    "params": {"model": "small", "lr": 1e-3},
}


@pytest.mark.parametrize(
    "text",
    [
        "metrics.accuracy >= 0.9", "metrics.accuracy==0.93", "metrics.test.f1 > .5", 'metrics["val-loss"] < 3e-1',
        "params.model == 'small' && metrics.accuracy > 0", "metrics.best == true", "metrics.note != 'bad'",
        "params.lr <= 0.001 && params.lr >= 1e-3 && params.lr != -1", "metrics.test['f1'] == 1.0",
    ],
)  # fmt: skip
def test_a_condition_holds(text: str) -> None:
    assert conditions.parse(text).holds(FACTS)


@pytest.mark.parametrize(
    "text",
    [
        "metrics.accuracy > 0.93", "metrics.missing == 1", "metrics.missing != 1", "metrics.note > 1",
        "metrics.best == 1", "metrics.accuracy == '0.93'", "params.model == 'small' && metrics.accuracy < 0.9",
    ],
)  # fmt: skip
def test_what_is_not_recorded_or_of_another_type_does_not_hold(text: str) -> None:
    assert not conditions.parse(text).holds(FACTS)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 10**400, True, "1", None, [1]])
def test_what_cannot_be_subtracted_is_not_a_number(value: object) -> None:
    assert not conditions.is_number(value)
    assert not conditions.parse("metrics.x > 0").holds({"metrics": {"x": value}})


def test_the_comparison_that_fails_is_the_first_that_does() -> None:
    failing = conditions.parse('metrics.accuracy > 0.9 && params["a b"] == "x"').find_failing(FACTS)
    assert str(failing) == 'params["a b"] == "x"'


def test_a_bare_name_is_of_the_room_that_is_meant() -> None:
    assert conditions.parse("test.f1 == 1 && params.lr < 1", bare="metrics").holds(FACTS)
    assert conditions.parse_fact("accuracy", bare="metrics") == conditions.Fact("metrics", "accuracy")
    assert conditions.parse_fact("metrics > 1"[:7], bare="metrics") == conditions.Fact("metrics", "metrics")


@pytest.mark.parametrize(
    ("text", "strict"),
    [
        ("id = 17 and column != 'unit price'", 'id == 17 && column != "unit price"'),
        ("column = unit price", 'column == "unit price"'),
        ("unit price >= 2", 'row["unit price"] >= 2'),
        ('"a = b" = x AND c = "y and z"', 'row["a = b"] == "x" && c == "y and z"'),
        ("path = [id=17].v && n < 3", 'path == "[id=17].v" && n < 3'),
        ("a = true", "a == true"),
    ],
)
def test_what_people_leave_out_is_understood(text: str, strict: str) -> None:
    assert conditions.parse_typed(text, bare="row").comparisons == conditions.parse(strict, bare="row").comparisons


@pytest.mark.parametrize(
    ("text", "at", "why"),
    [
        ("", 1, "the name of a fact is missing"),
        ("accuracy > 0.9", 1, "there is no fact 'accuracy'"),
        ("metric.accuracy > 0.9", 1, "there is no fact 'metric'"),
        ("metrics > 0.9", 9, "a name of metrics is missing"),
        ("metrics.accuracy", 17, "one of == != < <= > >= is missing"),
        ("metrics.accuracy = 0.9", 18, "write =="),
        ("metrics.accuracy => 0.9", 18, "write >="),
        ("metrics.accuracy > high", 20, "a value is missing"),
        ("metrics.accuracy > 0.9 and metrics.f1 > 1", 24, "write &&"),
        ("metrics.accuracy > 0.9 || metrics.f1 > 1", 24, "there is no `or`"),
        ("metrics.accuracy > 0.9 &&", 26, "the name of a fact is missing"),
        ("metrics.accuracy > 0.9.1", 20, "means nothing here"),
        ('metrics["a" > 1', 13, "a ] is missing"),
        ("metrics.accuracy > 'x", 20, "means nothing here"),
        ("metrics.a > 1; import os", 14, "means nothing here"),
    ],
)
def test_a_wrong_condition_is_refused_with_its_place(text: str, at: int, why: str) -> None:
    with pytest.raises(ml.errors.InvalidInput, match=f"wrong at character {at}:") as refused:
        conditions.parse(text)
    assert why in refused.value.message
    *_, shown, mark = refused.value.message.split("\n")
    assert shown == f"  {text}" and mark.index("^") == at + 1


def test_a_condition_that_no_person_types_is_refused() -> None:
    with pytest.raises(ml.errors.InvalidInput, match="1,000 characters"):
        conditions.parse("metrics.a > 1 && " * 100)
