"""`memlake promote` on the command line."""

from __future__ import annotations

import pytest

from tests.cli.conftest import Run, Write


@pytest.fixture(autouse=True)
def _shop(run: Run, write: Write) -> None:
    run("init")
    write("models/a", "1")
    run("add", ".")
    run("commit", "-m", "base")
    run("branch", "production")
    run("switch", "-c", "staging")
    write("models/a", "2")
    run("commit", "-a", "-m", "better", "--metric", "f1=0.9")


def test_a_promotion_is_made_listed_read_and_taken_back(run: Run, write: Write) -> None:
    done = run("promote", "models/a", "--from", "staging", "--to", "production", "-m", "Ship it")
    assert done.lines[0].endswith(" on production") and done.lines[1:] == [" M\tmodels/a"]
    assert run("cat", "production:models/a").out == "2"
    head, running, commit = run("promote", "--list").lines
    assert (
        head == "production" and running.startswith("  models/a  since 2") and running.endswith("from staging, f1=0.9")
    )
    assert commit.endswith("Promote models/a from staging (Ada)")
    write("models/a", "3")
    run("commit", "-a", "-m", "best")
    assert run("promote", "--list").lines[3].strip().startswith("newer on staging: ")
    (row,) = run("promote", "--list", "--json").json["running"]
    assert (row["path"], row["other"]["subject"], row["metrics"]) == ("files/models/a", "best", {"f1": 0.9})
    assert run("promote", "--undo", "--json").json["promotion"]["back"]
    assert run("cat", "production:models/a").out == "1"


def test_wrong_command_lines_are_refused(run: Run) -> None:
    for line in (["promote"], ["promote", "models/a"], ["promote", "models/a", "--list"]):
        assert run(*line, code=2).err
    assert "Nothing was promoted yet." in run("promote", "--list").err
    assert "nothing was promoted to any branch" in run("promote", "--undo", code=1).err
    assert "'staging'" in run("promote", "models/a", "--from", "stagin", "--to", "production", code=128).err


def test_a_typing_error_is_answered_with_what_was_meant(run: Run) -> None:
    there = ("--from", "staging", "--to", "production")
    assert "Did you mean 'models/a'?" in run("promote", "models/aa", *there, code=128).err
    assert "memlake ls staging" in run("promote", "zzz", *there, code=128).err
    told = run("promote", "models/a", "--from", "staging", "--to", "prod", code=128).err
    assert "Did you mean 'production'?" in told
    assert "promote also needs --to BRANCH." in run("promote", "models", "--from", "main", code=2).err
    assert "promote also needs paths and --from BRANCH." in run("promote", "--to", "production", code=2).err
