"""`memlake metrics` and `log --where` on the command line."""

from __future__ import annotations

import pytest

from tests.cli.conftest import Run, Write


@pytest.fixture(autouse=True)
def _scored(run: Run, write: Write) -> None:
    run("init")
    for number, score in enumerate((0.8, 0.91), 1):
        write("model", str(number))
        run("add", ".")
        run("commit", "-m", f"run {number}", "--metric", f"accuracy={score}", "--param", "lr=0.1")


def test_metrics_is_a_table_with_differences(run: Run) -> None:
    head, last, first = run("metrics").lines
    assert head.split() == ["commit", "accuracy", "lr", "(param)", "subject"]
    assert last.split()[1:] == ["0.91", "(+0.11)", "0.1", "run", "2"] and first.split()[1] == "0.8"
    assert run("metrics", "--where", "accuracy > 0.9").lines[1:] == [last]


def test_metrics_as_json_has_values_and_differences(run: Run) -> None:
    body = run("metrics", "--json", "--sort", "accuracy", "--reverse", "-n", "1").json
    (row,) = body["commits"]
    assert (row["metrics"], row["params"], row["deltas"]) == ({"accuracy": 0.8}, {"lr": 0.1}, {})
    assert row["subject"] == "run 1" and row["date"].endswith("Z") and row["author"]["name"] == "Ada"


def test_revs_are_compared_by_name(run: Run) -> None:
    _, now, before = run("metrics", "HEAD", "HEAD~1").lines
    assert now.split()[0] == "HEAD" and before.split()[2:4] == ["0.8", "(-0.11)"]


def test_log_json_holds_values_and_not_their_ids(run: Run) -> None:
    (last,) = run("log", "--json", "--where", "metrics.accuracy > 0.9").json["commits"]
    assert last["metrics"] == {"accuracy": 0.91} and last["params"] == {"lr": 0.1}
    assert not {"metrics", "params"} & set(last["meta"])


def test_wrong_questions_are_refused(run: Run) -> None:
    assert "character 10" in run("metrics", "--where", "accuracy = 0.9", code=128).err
    assert "accuracy" in run("metrics", "--sort", "f1", code=128).err
    assert "records metrics.f1" in run("log", "--where", "metrics.f1 > 1").err
    assert "unknown rev" in run("metrics", "nope", code=128).err


def test_a_name_that_branches_do_not_record_is_answered_with_names_that_they_do(run: Run) -> None:
    run("branch", "hp/1")
    told = run("metrics", "hp/*", "--sort", "f1", code=128).err
    assert told.splitlines() == [
        "fatal: the commit does not record metrics.f1.",
        "hint: It records metrics called: accuracy",
    ]
    run("branch", "hp/2")
    assert "Did you mean" not in run("metrics", "hp/1", "hp/2", "--sort", "f1", code=128).err
    assert "Did you mean 'main'" in run("metrics", "mian", code=128).err


def test_where_nothing_is_recorded_it_is_said_how_to(run: Run) -> None:
    done = run("metrics", "HEAD..HEAD")
    assert not done.out and "--metric accuracy=0.9" in done.err
