"""metrics: what commits record, along a line and side by side."""

from __future__ import annotations

import warnings

import pytest

import memlake as ml
from tests.versions.conftest import Keep


@pytest.fixture
def scored(repo: ml.Repo, keep: Keep) -> ml.Repo:
    """Three commits with scores and one without."""
    keep("first", {"model": "1"}, metrics={"accuracy": 0.8, "test": {"f1": 0.5}}, params={"lr": 0.1})
    keep("second", {"model": "2"}, metrics={"accuracy": 0.9, "note": "ok"}, params={"lr": 0.01})
    keep("words", {"README": "x"})
    keep("third", {"model": "3"}, metrics={"accuracy": 0.7, "test": {"f1": 0.75}})
    return repo


def test_rows_are_the_commits_that_record_something_with_the_difference_to_the_one_before(scored: ml.Repo) -> None:
    third, second, first = scored.metrics()
    assert [row.subject for row in (third, second, first)] == ["third", "second", "first"]
    assert (first.metrics, first.params, first.deltas) == ({"accuracy": 0.8, "test.f1": 0.5}, {"lr": 0.1}, {})
    assert second.deltas == {"accuracy": 0.1}
    assert third.deltas == {"accuracy": -0.2, "test.f1": 0.25}  # f1 as it was two commits before
    assert third.commit == scored.head and third.author.name == "Ada"


def test_a_range_knows_what_came_before_it(scored: ml.Repo) -> None:
    assert [(row.subject, dict(row.deltas)) for row in scored.metrics("HEAD~2..")] == [("third", {"accuracy": -0.2})]
    assert scored.metrics("HEAD~1..HEAD~1") == []


def test_the_difference_is_to_the_first_parent_not_to_the_neighbour_in_time(repo: ml.Repo, keep: Keep) -> None:
    keep("base", {"a": "1"}, metrics={"x": 1})
    repo.switch("side", create=True)
    keep("side", {"b": "1"}, metrics={"x": 10})
    repo.switch("main")
    keep("main", {"c": "1"}, metrics={"x": 2})
    repo.merge("side", metrics={"x": 5})
    assert [(row.subject.split()[0], row.deltas) for row in repo.metrics()] == [
        ("Merge", {"x": 3}), ("main", {"x": 1}), ("side", {"x": 9}), ("base", {}),
    ]  # fmt: skip


def test_rows_are_filtered_sorted_turned_round_and_cut(scored: ml.Repo) -> None:
    subjects = lambda **how: [row.subject for row in scored.metrics(**how)]  # noqa: E731
    assert subjects(where="accuracy > 0.75 && params.lr < 0.05") == ["second"]
    assert subjects(sort="accuracy") == ["second", "first", "third"]
    assert subjects(sort="params.lr") == ["first", "second", "third"]  # the last has none
    assert subjects(sort="test.f1", reverse=True, limit=1) == ["second"]


@pytest.mark.parametrize("how", [{"where": "acuracy > 0.9"}, {"sort": "acuracy"}, {"where": "params.accuracy > 1"}])
def test_a_name_that_nothing_records_is_refused_with_those_there_are(scored: ml.Repo, how: dict[str, str]) -> None:
    with pytest.raises(ml.errors.NotFound, match="none of these 3 commits records") as refused:
        scored.metrics(**how)  # type: ignore[arg-type]
    names = {"accuracy", "test.f1", "note"} if "params" not in how.get("where", "") else {"lr"}
    assert set(refused.value.hint.partition("called: ")[2].split(", ")) == names


def test_branches_that_match_stand_side_by_side(repo: ml.Repo, keep: Keep) -> None:
    keep("base", {"a": "1"}, metrics={"f1": 0.5})
    for number, score in ((1, 0.7), (2, 0.9)):
        repo.switch(f"hp/{number}", create=True, at="main")
        keep(f"run {number}", {"a": str(score)}, metrics={"f1": score})
    keep("notes", {"notes": "x"})
    rows = repo.metrics("main", "hp/*", sort="f1")
    assert [(row.rev, row.metrics["f1"], dict(row.deltas), row.behind) for row in rows] == [
        ("hp/2", 0.9, {"f1": 0.4}, 1), ("hp/1", 0.7, {"f1": 0.2}, 0), ("main", 0.5, {}, 0),
    ]  # fmt: skip
    with pytest.raises(ml.errors.NotFound, match="no branch with commits"):
        repo.metrics("nope/*")
    with pytest.raises(ml.errors.InvalidInput, match="cannot be compared"):
        repo.metrics("main", "main..hp/1")


def test_facts_that_were_purged_are_left_out(scored: ml.Repo) -> None:
    oid = scored.show("HEAD").commit.meta["metrics"]
    scored.upkeep.purge(oid, reason="wrong")
    assert scored.metrics()[0].metrics == {}


def test_log_shows_the_commits_for_which_a_condition_holds(scored: ml.Repo) -> None:
    assert [one.subject for one in scored.log(where="metrics.accuracy < 0.9")] == ["third", "first"]
    assert [one.subject for one in scored.log(where="metrics.accuracy < 0.9", paths=["model"], limit=1)] == ["third"]
    with pytest.warns(UserWarning, match="none of these commits records metrics.acuracy"):
        assert not list(scored.log(where="metrics.acuracy < 0.9"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not list(scored.log(where="metrics.accuracy < 0"))
    with pytest.raises(ml.errors.InvalidInput, match="character 1"):
        scored.log(where="accuracy < 0.9")


def test_odd_values_are_shown_and_not_subtracted(repo: ml.Repo, keep: Keep) -> None:
    keep("one", {"a": "1"}, metrics={"x": 10**400, "y": [1, 2], "z": {"deep": {"er": 1}}})
    keep("two", {"a": "2"}, metrics={"x": 0.5, "y": 3, "z": {"deep": {"er": 3}}})
    two, one = repo.metrics(sort="z.deep.er")
    assert two.deltas == {"z.deep.er": 2} and one.metrics["y"] == [1, 2]
