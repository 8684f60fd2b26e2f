"""Memories that two branches changed differently, as a person meets and settles them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Run


@pytest.fixture
def split(run: Run) -> str:
    """The id of a memory that main and draft changed differently; on main."""
    run("init")
    run("config", "embedding.provider", "none")
    memory = run("remember", "User phone: 1111", "-q").out.strip()
    run("branch", "draft")
    run("memory", "update", memory, "User phone: 2222")
    run("memory", "update", memory, "User phone: 3333", "--branch", "draft")
    return memory


def shown(run: Run, memory: str) -> tuple[str, list[str]]:
    found: dict[str, Any] = run("memory", "show", memory, "--json").json["memory"]
    return found["content"], [past["value"] for past in found["metadata"].get("history", ())]


def test_a_merge_that_stops_shows_both_texts_and_what_to_do(run: Run, split: str) -> None:
    done = run("merge", "draft", code=1)
    assert "1 memory changed on both sides" in done.err
    assert f"memory {split}\n    ours:   User phone: 2222\n    theirs: User phone: 3333" in done.err
    assert f"memlake memory resolve {split} --keep ours` (or theirs, or both)" in done.err
    assert "memories/" not in done.err
    assert f"both modified:   memory {split}" in run("status").out
    assert "theirs: User phone: 3333" in run("diff").out


def test_memory_conflicts_lists_what_a_merge_waits_for(run: Run, split: str) -> None:
    run("merge", "draft", code=1)
    told = run("memory", "conflicts")
    assert f"{split}  (merge of draft)\n    theirs: User phone: 3333\n    ours:   User phone: 2222\n" in told.out
    assert f"memlake memory resolve {split} --keep ours (or theirs, or both)\n" in told.err
    (one,) = run("memory", "conflicts", "--json").json["conflicts"]
    assert (one["new"]["content"], one["old"]["content"]) == ("User phone: 3333", "User phone: 2222")
    assert run("memory", "conflicts", "--agent", "other").out == ""
    run("merge", "--abort")
    assert run("memory", "conflicts").out == ""


def test_memory_conflicts_lists_a_merge_and_agents_that_disagree_together(run: Run, split: str) -> None:
    run("remember", "User lives in Oslo", "--agent", "cursor")
    other = run("remember", "User lives in Lisbon", "--agent", "claude", "-q").out.strip()
    run("merge", "draft", code=1)
    told = run("memory", "conflicts")
    assert f"{split}  (merge of draft)\n    theirs: User phone: 3333\n" in told.out
    named = "    Agent 'cursor' keeps what speaks against it.\n    new: User lives in Lisbon\n"
    assert f"{other}  (agent-conflict)\n{named}" in told.out
    assert told.err == (
        f"Settle it with: memlake memory resolve {other} --keep new (or old, or both)\n"
        f"Settle it with: memlake memory resolve {split} --keep ours (or theirs, or both)\n"
    )
    assert run("memory", "resolve", other, "--keep", "new").out.startswith("Kept new")
    assert [one["rule"] for one in run("memory", "conflicts", "--json").json["conflicts"]] == ["merge of draft"]


@pytest.mark.parametrize(
    ("choose", "stands", "lost"),
    [
        (("merge", "--theirs", "{}"), "User phone: 3333", "User phone: 2222"),
        (("merge", "--ours", "{}"), "User phone: 2222", "User phone: 3333"),
        (("memory", "resolve", "{}", "--keep", "theirs"), "User phone: 3333", "User phone: 2222"),
        (("memory", "resolve", "{}", "--keep", "old"), "User phone: 2222", "User phone: 3333"),
    ],
)
def test_the_text_that_is_not_chosen_is_kept_in_metadata_history(
    run: Run, split: str, choose: tuple[str, ...], stands: str, lost: str
) -> None:
    run("merge", "draft", code=1)
    run(*(word.format(split) for word in choose))
    done = run("merge", "--continue")
    assert done.out == "Memory merged: 1 memory changed.\n"
    assert shown(run, split) == (stands, ["User phone: 1111", lost])
    assert run("merge", "draft").out == "Already up to date.\n"


def test_both_sides_of_a_merge_can_be_kept(run: Run, split: str) -> None:
    run("merge", "draft", code=1)
    done = run("memory", "resolve", split, "--keep", "both")
    assert "an id of its own" in done.err and "memlake merge --continue" in done.err
    run("merge", "--continue")
    listed = run("memory", "ls", "--json").json["memories"]
    assert {one["content"] for one in listed} == {"User phone: 2222", "User phone: 3333"}
    assert shown(run, split) == ("User phone: 2222", ["User phone: 1111"])


def test_a_memory_that_one_side_forgot_can_be_kept_or_not(run: Run, split: str) -> None:
    run("memory", "forget", split)
    run("merge", "draft", code=1)
    assert "ours:   (forgotten)" in run("memory", "conflicts").out
    assert "forgot memory" in run("memory", "resolve", split, "--keep", "both", code=1).err
    assert "stays forgotten" in run("memory", "resolve", split, "--keep", "ours").out
    assert run("memory", "resolve", split, "--keep", "theirs").out.startswith("Kept theirs")
    run("merge", "--continue")
    assert shown(run, split)[0] == "User phone: 3333"


def test_a_merge_of_memories_alone_names_no_commit_of_files(run: Run, split: str, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("hello")
    run("add", "a.txt")
    run("commit", "-m", "one")
    run("memory", "update", split, "User phone: 1111")
    run("merge", "draft", code=1)
    run("merge", "--theirs", split)
    assert run("merge", "--continue").out == "Memory merged: 1 memory changed.\n"
    run("remember", "The sky is blue", "--branch", "draft")
    assert run("merge", "draft").out == "Memory merged: 1 memory changed.\n"


def test_state_in_conflict_is_shown_by_key_and_values(run: Run, split: str) -> None:
    run("state", "set", "phase", "one", "--agent", "bot")
    run("state", "set", "phase", "two", "--agent", "bot", "--branch", "draft")
    told = run("merge", "draft", code=1).err
    assert '(state \'phase\' of bot)\n    ours:   "one"\n    theirs: "two"' in told


def test_going_on_too_early_shows_the_texts_again(run: Run, split: str) -> None:
    run("merge", "draft", code=1)
    told = run("merge", "--continue", code=1).err
    assert "theirs: User phone: 3333" in told and "memories/" not in told


@pytest.mark.parametrize(("side", "stands"), [("--theirs", "build"), ("--ours", "test")])
def test_a_state_value_is_listed_and_chosen_by_its_key(run: Run, split: str, side: str, stands: str) -> None:
    run("state", "set", "phase", "test", "--agent", "bot")
    run("state", "set", "phase", "build", "--agent", "bot", "--branch", "draft")
    run("merge", "draft", code=1)
    told = run("memory", "conflicts").out
    assert "phase  (merge of draft)" in told and 'theirs: phase = "build"\n    ours:   phase = "test"' in told
    assert "phase" not in run("memory", "conflicts", "--agent", "other").out
    run("merge", side, "phase")
    assert "phase" not in run("memory", "conflicts").out
    run("merge", side, split)
    run("merge", "--continue")
    assert run("state", "get", "phase", "--agent", "bot").out == f"{stands}\n"
