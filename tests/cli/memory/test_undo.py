"""undo and redo of what commands wrote to the memory lane, while others write there too."""

from __future__ import annotations

from pathlib import Path

import pytest

import memlake as ml
from memlake.memories.memories import Draft
from tests.cli.conftest import Run, stored


@pytest.fixture
def repo(memory_repo: Path) -> Path:
    return memory_repo


def contents(run: Run) -> set[str]:
    return {one["content"] for one in run("memory", "ls", "--json").json["memories"]}


def agent_writes(folder: Path, text: str) -> None:
    with ml.open(folder) as repo:
        repo.memories().store(Draft(text, agent_id="bot"))


def test_undo_takes_a_memory_back_and_redo_brings_it_again(run: Run, repo: Path) -> None:
    stored(run, "The sky is blue")
    second = stored(run, "Ada lives in Paris")
    assert run("undo").out.startswith(f"Took back: remember {second}: Ada lives in Paris (")
    assert contents(run) == {"The sky is blue"}
    assert run("redo").out == f"Did again: remember {second}\n"
    assert contents(run) == {"The sky is blue", "Ada lives in Paris"}
    run("undo")
    run("undo")
    assert contents(run) == set()
    assert "nothing to undo" in run("undo", code=None).err


@pytest.mark.parametrize(
    "verb", [("forget", "{}"), ("update", "{}", "The sky is red"), ("update", "{}", "--category", "x")]
)
def test_undo_brings_back_what_a_verb_of_memory_changed(run: Run, repo: Path, verb: tuple[str, ...]) -> None:
    memory = stored(run, "The sky is blue")
    before = run("memory", "show", memory, "--json").json["memory"]
    run("memory", *(word.format(memory) for word in verb))
    run("undo")
    assert run("memory", "show", memory, "--json").json["memory"] == before


def test_undo_takes_state_back(run: Run, repo: Path) -> None:
    run("state", "set", "phase", "one")
    run("state", "set", "phase", "two")
    assert run("undo").out.startswith("Took back: state set phase (")
    assert run("state", "get", "phase").out == "one\n"
    run("state", "rm", "phase")
    run("undo")
    assert run("state", "get", "phase").out == "one\n"


def test_undo_takes_all_that_one_command_wrote_back(run: Run, repo: Path) -> None:
    first, second = stored(run, "The sky is blue"), stored(run, "Ada lives in Paris")
    run("memory", "forget", first, second)
    assert run("ops").lines[0].endswith(f"memory forget {first} and 1 more")
    run("undo")
    assert contents(run) == {"The sky is blue", "Ada lives in Paris"}


def test_undo_takes_back_what_was_settled_between_two_agents(run: Run, repo: Path) -> None:
    stored(run, "User lives in Oslo", "--agent", "cursor")
    second = stored(run, "User lives in Lisbon", "--agent", "claude")
    run("memory", "resolve", second, "--keep", "new")
    assert contents(run) == {"User lives in Lisbon"}
    run("undo")
    assert contents(run) == {"User lives in Oslo", "User lives in Lisbon"}
    assert len(run("memory", "conflicts", "--json").json["conflicts"]) == 1


def test_what_an_agent_wrote_since_stays(run: Run, repo: Path) -> None:
    stored(run, "The sky is blue")
    agent_writes(repo, "The build is green")
    run("undo")
    assert contents(run) == {"The build is green"}
    assert "nothing to undo" in run("undo", code=None).err  # the agent's is not ours to take back


def test_undo_refuses_where_somebody_changed_the_same_memory_again(run: Run, repo: Path) -> None:
    memory = stored(run, "The sky is blue")
    with ml.open(repo) as other:
        other.memories().update(memory, Draft("The sky is grey"), changed=["content"])
    told = run("undo", code=None)
    assert told.code and f"memory {memory} was changed again on 'main' since" in told.err
    assert "memlake memory restore" in told.err and contents(run) == {"The sky is grey"}


def test_a_verb_before_a_memory_that_was_taken_back_can_still_be_undone(run: Run, repo: Path) -> None:
    stored(run, "The sky is blue")
    run("switch", "-c", "draft")
    stored(run, "Ada lives in Paris")
    run("undo")
    assert run("undo").out.startswith("Took back: switch -c draft")
    assert run("branch").out == "* main\n"


def test_undo_of_a_memory_leaves_stage_and_files_alone(run: Run, repo: Path) -> None:
    stored(run, "The sky is blue")
    (repo / "a.txt").write_text("hello")
    run("add", "a.txt")
    run("undo")
    run("undo")
    assert contents(run) == set() and (repo / "a.txt").read_text() == "hello"
    run("redo")
    run("redo")
    assert contents(run) == {"The sky is blue"} and "new file:   a.txt" in run("status").out


def test_a_purge_is_not_undone(run: Run, repo: Path) -> None:
    memory = stored(run, "The sky is blue")
    run("memory", "purge", memory, "--reason", "test", "--yes")
    told = run("undo", code=None).err
    assert "nothing to undo: the purge of" in told and "(test) ended the list" in told


def test_outside_a_repo_undo_is_about_the_personal_memories(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("MEMLAKE_EMBEDDING_PROVIDER", "none")
    stored(run, "The sky is blue")
    done = run("undo")
    assert done.out.startswith("Took back: remember") and "your personal one" in done.err


def test_a_session_is_reverted_in_one_step_and_undo_brings_it_back(run: Run, repo: Path) -> None:
    run("remember", "Payments go through Stripe")
    run("remember", "Payments go now through EvilPay", "--session", "bad")
    run("remember", "The sky is green today", "--session", "bad")
    listed = run("memory", "ls", "--session", "bad", "-q").lines
    assert len(listed) == 2 and all(len(line) == 36 for line in listed)
    would = run("memory", "revert", "--session", "bad", "--dry-run")
    assert "Would restore" in would.out and "Would forget" in would.out and "EvilPay" in run("recall", "payments").out
    run("memory", "revert", "--session", "bad")
    assert "Stripe" in run("recall", "payments").out and "green" not in run("memory", "ls").out
    run("undo")
    assert "EvilPay" in run("recall", "payments").out and "green" in run("memory", "ls").out
    assert run("memory", "forget", code=2).err and run("memory", "revert", "--derived", code=2).err
