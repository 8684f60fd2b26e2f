"""`memlake doubt`: what is in doubt and why, what changed, and settling it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Run


@pytest.fixture
def known(run: Run, here: Path) -> str:
    """A memory whose lines were edited after they were committed."""
    run("init")
    run("config", "embedding.provider", "none")
    (here / "api.py").write_text("".join(f"line {number}\n" for number in range(1, 31)))
    run("add", "api.py")
    run("commit", "-qm", "first")
    known = run("remember", "Ports stand in api.py", "--uses", "api.py:10-12", "-q").out.strip()
    (here / "api.py").write_text((here / "api.py").read_text().replace("line 11\n", "line eleven\n"))
    return known


def test_a_hit_says_that_what_it_rests_on_changed(run: Run, known: str) -> None:
    assert "api.py:10-12 changed" in run("recall", "ports").out
    (hit,) = run("recall", "ports", "--json").json["hits"]
    assert (hit["memory_id"], hit["standing"], hit["because"]) == (known, "changed", ["api.py:10-12 changed"])
    assert hit["uses"] == ["api.py:10-12"]
    assert "in doubt    1  (memlake doubt)" in run("memory", "stats").out


def test_doubt_lists_why_with_the_diff_settles_and_is_undone(run: Run, known: str) -> None:
    shown = run("doubt", "--diff")
    assert "in doubt because api.py:10-12 changed" in shown.out and "+line eleven" in shown.out
    assert f"memlake doubt --settle {known}" in shown.err
    run("remember", "Whoever needs a port asks", "--uses", known)
    again = [line for line in run("doubt", "--diff").lines if f"memory {known[-6:]} is in doubt" in line]
    assert len(again) == 1, "the reason is not said twice where there is no diff"
    assert run("doubt", "--settle", known).out == f"Settled {known}: Ports stand in api.py\n"
    assert run("doubt").err == "Nothing is in doubt.\n"
    run("undo")
    one, _ = run("doubt", "--json").json["doubts"]
    assert (one["memory"]["memory_id"], one["because"]) == (known, ["api.py:10-12 changed"])


def test_update_names_something_else_and_forget_removes_it(run: Run, known: str) -> None:
    run("memory", "update", known, "--uses", "api.py:20")
    assert run("doubt").err == "Nothing is in doubt.\n"
    run("undo")
    run("memory", "forget", known)
    assert run("doubt").err == "Nothing is in doubt.\n"


def test_settling_needs_an_id(run: Run, known: str) -> None:
    assert known and "say which memories to settle" in run("doubt", "--settle", code=2).err
