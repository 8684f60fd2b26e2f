"""conflicts, resolve and merge -X as commands: what is printed, what is asked, and exit codes without a terminal."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Run

Keep = Callable[..., str]

BASE, OURS, THEIRS = (json.dumps({"lr": lr, "size": size, "tags": tags}) for lr, size, tags in (
    (0.1, 8, ["a"]), (0.2, 8, ["b"]), (0.3, 9, ["c"]),
))  # fmt: skip


@pytest.fixture
def fork(run: Run, repo: Path, keep: Keep) -> Path:
    keep("base", **{"p.json": BASE, "t.txt": "1\n"})
    run("switch", "-c", "dev")
    keep("theirs", **{"p.json": THEIRS, "t.txt": "2\n"})
    run("switch", "main")
    keep("ours", **{"p.json": OURS, "t.txt": "3\n"})
    return repo


def test_conflicts_shows_every_place_with_what_each_side_has(run: Run, fork: Path) -> None:
    assert run("conflicts").err == "Nothing is in conflict.\n" and run("conflicts", "--json").json["conflicts"] == []
    run("merge", "dev", code=1)
    run("resolve", "p.json", "--theirs", "--where", "path = lr")
    assert run("conflicts").lines == [
        "p.json (changed on both sides, 1 of 2 places open)",
        "  lr  chosen theirs",
        "    base:   0.1",
        "    ours:   0.2",
        "    theirs: 0.3",
        "  tags",
        '    base:   ["a"]',
        '    ours:   ["b"]',
        '    theirs: ["c"]',
        "t.txt (changed on both sides, 1 of 1 place open)",
        "  line 1",
        "    base:   1",
        "    ours:   3",
        "    theirs: 2",
    ]
    assert [(one["place"], one["choice"]) for one in run("conflicts", "p.json", "--json").json["conflicts"]] == [
        ("lr", "theirs"),
        ("tags", None),
    ]


def test_a_path_that_is_settled_is_not_all_there_is_to_settle(run: Run, fork: Path) -> None:
    run("merge", "dev", code=1)
    run("resolve", "p.json", "--ours")
    assert "memlake resolve t.txt --ours" in run("conflicts", "p.json").err


def test_the_merge_says_where_it_waits_inside_a_file(run: Run, fork: Path) -> None:
    said = run("merge", "dev", code=1).err
    assert "p.json (2 places inside; the file holds our side there, and all else of both)" in said
    assert "`memlake resolve p.json --ours`" in said
    assert json.loads((fork / "p.json").read_text()) == {"lr": 0.2, "size": 9, "tags": ["b"]}
    assert "Every conflict is resolved" in run("resolve", "--latest").out
    run("merge", "--continue")
    assert run("status", "--short").out == ""


def test_without_a_terminal_resolve_lists_and_ends_with_1(run: Run, fork: Path) -> None:
    run("merge", "dev", code=1)
    told = run("resolve", code=1)
    assert "  line 1" in told.lines and "no terminal to ask at" in told.err
    assert "no terminal to edit at" in run("resolve", "t.txt", "--edit", code=1).err


def test_a_strategy_or_a_squash_needs_no_choice(run: Run, fork: Path) -> None:
    assert "Merge made" in run("merge", "-X", "theirs", "dev").out
    assert (fork / "p.json").read_text() == THEIRS
    run("undo")
    run("merge", "--squash", "-X", "ours", "dev")
    assert json.loads((fork / "p.json").read_text()) == {"lr": 0.2, "size": 9, "tags": ["b"]}
    assert run("log", "-1", "--json").json["commits"][0]["message"] == "Squash branch 'dev'\n\n- theirs"
    assert "cannot be combined" in run("merge", "--squash", "--no-ff", "dev", code=2).err
    assert "is not one of" in run("merge", "-X", "mine", "dev", code=2).err


def test_a_merge_that_was_settled_before_says_so_and_waits_to_be_finished(run: Run, fork: Path) -> None:
    run("merge", "dev", code=1)
    run("resolve", "--theirs")
    run("merge", "--continue")
    for _ in range(3):
        run("undo")
    told = run("merge", "dev", code=1).err
    assert "3 places were resolved as before: p.json lr, p.json tags, t.txt line 1. Nothing is left to choose." in told
    run("merge", "--abort")
    assert run("conflicts", "--forget", "p.json").out == "Forgot 2 answers.\n"
    assert "1 place was resolved as before: t.txt line 1." in run("merge", "dev", code=1).err


def test_two_sides_at_once_are_refused(run: Run, fork: Path) -> None:
    run("merge", "dev", code=1)
    assert "--theirs and --ours say different things" in run("resolve", "--theirs", "--ours", code=2).err
    assert all(one["choice"] is None for one in run("conflicts", "--json").json["conflicts"])


def test_a_memory_and_a_state_value_are_settled_by_the_same_verb(run: Run, fork: Path) -> None:
    run("config", "embedding.provider", "none")
    run("state", "set", "port", "1")
    run("switch", "dev")
    run("state", "set", "port", "2")
    run("switch", "main")
    run("state", "set", "port", "3")
    run("merge", "dev", "-X", "ours", code=0)
    assert run("state", "get", "port").out.strip() == "3"
    run("undo")
    run("merge", "dev", code=1)
    [place] = [one for one in run("conflicts", "--json").json["conflicts"] if one["kind"] == "state"]
    assert (place["ours"], place["theirs"], place["place"]) == ("3", "2", "")
    run("resolve", "port", "--theirs")
    run("resolve", "--ours")
    run("merge", "--continue")
    assert run("state", "get", "port").out.strip() == "2"


def test_of_two_memories_a_union_keeps_both_and_one_side_is_found_by_its_id(run: Run, memory_repo: Path) -> None:
    run("remember", "The port is 1")
    run("commit", "--allow-empty", "-m", "one")
    run("switch", "-c", "dev")
    name = run("memory", "ls", "--json").json["memories"][0]["memory_id"]
    run("memory", "update", name, "The port is 2")
    run("switch", "main")
    run("memory", "update", name, "The port is 3")
    run("merge", "dev", code=1)
    assert run("conflicts").lines == [
        f"memory {name} (changed on both sides)", "    ours:   The port is 3", "    theirs: The port is 2"
    ]  # fmt: skip
    run("resolve", name[-8:], "--latest")
    run("resolve", name, "--union")
    run("merge", "--continue")
    assert {one["content"] for one in run("memory", "ls", "--json").json["memories"]} == {
        "The port is 2", "The port is 3"
    }  # fmt: skip
    run("undo")
    run("undo")
    run("undo")
    run("undo")
    assert "Memory merged" in run("merge", "-X", "theirs", "dev").out
    assert [one["content"] for one in run("memory", "ls", "--json").json["memories"]] == ["The port is 2"]


def test_at_a_terminal_it_asks_for_each_place(run: Run, fork: Path, tmp_path: Path) -> None:
    run("merge", "dev", code=1)
    editor = tmp_path.parent / f"{tmp_path.name}-editor.sh"
    editor.write_text('#!/bin/sh\necho edited > "$1"\n')
    editor.chmod(0o755)
    main, door = pty.openpty()
    asked = subprocess.Popen(
        [sys.executable, "-m", "memlake.cli", "resolve"],
        stdin=door, stdout=door, stderr=door, cwd=fork,
        env={**os.environ, "MEMLAKE_EDITOR": str(editor), "PYTHONDONTWRITEBYTECODE": "1"},
    )  # fmt: skip
    os.close(door)
    os.write(main, b"x\nu\ntheirs\nu\ne\n")  # not an answer; no union of two numbers; theirs; a union; the editor
    said = b""
    while True:
        try:
            part = os.read(main, 4096)
        except OSError:  # the other end was closed
            break
        if not part:
            break
        said += part
    os.close(main)
    assert asked.wait() == 0, said.decode()
    assert b"'x' is not an answer" in said and b"has no meaning for 'lr'" in said
    assert b"Every conflict is resolved" in said
    assert json.loads((fork / "p.json").read_text()) == {"lr": 0.3, "size": 9, "tags": ["b", "c"]}
    assert (fork / "t.txt").read_text() == "edited\n"
