"""why, why-not, recalls, recall-diff and recall-test as a person types them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Run


@pytest.fixture
def port(memory_repo: Path, run: Run) -> str:
    """The id of the memory that answers the question, in a repo with another one."""
    run("remember", "Deploys happen on Mondays")
    return str(run("remember", "-q", "The dev server listens on port 1313").out.strip())


def test_a_recall_is_listed_shown_and_explained(run: Run, port: str) -> None:
    run("recall", "dev server port")
    assert "recall          1 told  dev server port" in run("recalls").out
    shown = run("recalls", "1").out
    assert "asked:   dev server port" in shown
    assert "      The dev server listens on port 1313" in shown
    assert "place 1 of 1" in run("why", port[-6:]).out
    told = run("why", port[-6:], "--json").json["told"]
    assert [one["surface"] for one in told] == ["recall"]
    assert run("recalls", "7", code=128).err.startswith("fatal: there is no recall 7")
    assert "no record of it being told" in run("why", port[-6:], "--session", "s9").err
    assert "'foo' is not possible; give a whole number, 1 or more. For example: memlake recalls 1" in (
        run("recalls", "foo", code=2).err
    )
    assert "'foo' is not possible; give a whole number, 1 or more." in run("recalls", "-n", "foo", code=2).err


def test_a_search_in_one_session_that_finds_nothing_says_so_and_how_to_look_in_all(run: Run, port: str) -> None:
    told = run("recall", "dev server port", "--session", "s1").err
    assert "Only memories of session 's1' were looked at." in told and "    memlake recall 'dev server port'\n" in told
    assert "session" not in run("recall", "dev server port").err
    assert "session" not in run("recall", "dev server port", "--tag", "x").err


def test_why_not_names_the_gate_or_says_that_there_is_none(run: Run, port: str) -> None:
    assert run("why-not", port[-6:], "dev server port").out == "Nothing keeps it back: it is told in answer to this.\n"
    assert run("why-not", port[-6:], "dev server port", "--agent", "bob").out.startswith("scope: ")
    run("memory", "forget", port[-6:])
    assert run("why-not", port[-6:], "dev server port", "--json").json["gates"][0]["name"] == "forgotten"
    assert not run("recalls").out, "explaining makes no record"


def test_golden_questions_decide_the_exit_code(run: Run, port: str) -> None:
    Path("tests").mkdir()
    Path("tests/recall.toml").write_text('[[question]]\nask = "dev server port"\nexpect = "1313"\n', encoding="utf-8")
    assert run("recall-test").out == "1 passed, 0 failed\n"
    run("memory", "update", port[-6:], "The dev server listens on port 5173")
    failed = run("recall-test", code=1)
    assert "'1313' is not among the first 5" in failed.out
    assert run("recall-test", "nosuch.toml", code=128).err.startswith("fatal: there are no golden questions")


def test_branches_are_compared_by_recorded_and_golden_questions(run: Run, port: str) -> None:
    assert "no question was recorded yet" in run("recall-diff", "main..main", code=1).err
    run("branch", "draft")
    run("recall", "dev server port")
    assert run("recall-diff", "main..draft").out == ""
    run("memory", "update", port[-6:], "The dev server listens on port 5173", "--branch", "draft")
    found = run("recall-diff", "main..draft")
    assert found.out.splitlines()[0] == "dev server port"
    assert found.err == "1 of 1 question is answered differently.\n"
    assert run("recall-diff", "main..draft", "--json").json["changes"][0]["ask"] == "dev server port"
    assert "does not name two branches" in run("recall-diff", "draft", code=128).err
    assert "does not name two models" in run("recall-diff", "--models", "local", code=128).err
