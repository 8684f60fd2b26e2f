"""Exit codes beside git's: every line is run by both, in the same situation, and must end alike.

Where we differ on purpose, the reason stands beside the line.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from memlake.cli.main import main

Tool = Callable[[str], int]
needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="needs git")

# (what is done before, with `!` for the shell; the line; the code of both)
ALIKE = [
    ("", "nonsense", 1),
    ("", "--version", 0),
    ("", "-C nowhere status", 128),
    ("", "init", 0),
    ("", "init fresh", 0),
    ("", "init -q", 0),
    ("", "init -b bad..name fresh", 128),
    ("", "add", 0),
    ("", "add nowhere", 128),
    ("", "add -n nowhere", 128),
    ("", "add ../outside", 128),
    ("", "add -u new", 0),
    ("", "add -A", 0),
    ("!echo new >.gitignore; cp .gitignore .memlakeignore", "add new", 1),
    ("", "commit -m x", 1),
    ("", "commit", 1),
    ("!echo q >a", "commit -m x", 1),
    ("!echo q >a", "commit -am x", 0),
    ("!echo q >a", "commit -m x a", 0),
    ("", "commit -m x nowhere", 1),
    ("", "commit -m x new", 1),
    ("", "commit -m x a", 1),
    ("", "commit --allow-empty -m x", 0),
    ("", "commit --allow-empty -m ''", 1),
    ("", "commit -F nowhere", 128),
    ("", "commit --amend -m y", 0),
    ("", "commit -m x --author bad", 128),
    ("", "rm nowhere", 128),
    ("", "rm new", 128),
    ("", "rm d", 128),
    ("", "rm -n a", 0),
    ("", "rm -r --cached d", 0),
    ("!echo q >a", "rm a", 1),
    ("", "mv nowhere y", 128),
    ("", "mv a d/x", 128),
    ("", "mv a a", 128),
    ("", "mv new z", 128),
    ("", "mv a nowhere/", 128),
    ("", "mv -n a b", 0),
    ("", "mv d e/", 0),
    ("", "restore nowhere", 1),
    ("", "restore new", 1),
    ("", "restore --staged nowhere", 1),
    ("", "restore --source=nowhere a", 128),
    ("", "reset nowhere", 128),
    ("", "reset --hard nowhere", 128),
    ("", "checkout nowhere", 1),
    ("", "checkout -- nowhere", 1),
    ("", "checkout nowhere -- a", 128),
    ("", "checkout -b main", 128),
    ("", "checkout -b bad..name", 128),
    ("", "checkout -b x nowhere", 128),
    ("", "checkout HEAD~1", 0),
    ("!echo q >a", "checkout side", 1),
    ("", "switch nowhere", 128),
    ("", "switch HEAD~1", 128),
    ("", "switch -c main", 128),
    ("!echo q >a", "switch side", 1),
    ("", "branch -d nowhere", 1),
    ("", "branch -D nowhere", 1),
    ("", "branch -d main", 1),
    ("", "branch -d side", 1),
    ("", "branch main", 128),
    ("", "branch bad..name", 128),
    ("", "branch x nowhere", 128),
    ("", "branch -m nowhere x", 128),
    ("", "branch -m side main", 128),
    ("", "branch --list nomatch", 0),
    ("", "tag -d nowhere", 1),
    ("", "tag v1", 128),
    ("", "tag bad..name", 128),
    ("", "tag x nowhere", 128),
    ("", "tag -l nomatch", 0),
    ("", "merge nowhere", 1),
    ("", "merge side", 1),
    ("", "merge main", 0),
    ("", "merge --abort", 128),
    ("", "merge --continue", 128),
    ("", "merge --ff-only side", 128),
    ("", "revert nowhere", 128),
    ("", "revert --abort", 128),
    ("", "cherry-pick nowhere", 128),
    ("", "cherry-pick --abort", 128),
    ("", "stash", 0),
    ("", "stash pop", 1),
    ("", "stash apply", 1),
    ("", "stash drop", 1),
    ("", "stash show", 1),
    ("", "stash list", 0),
    ("", "log nowhere", 128),
    ("", "log -- nowhere", 0),
    ("", "log nowhere..main", 128),
    ("", "show nowhere", 128),
    ("", "show HEAD:nowhere", 128),
    ("", "diff nowhere", 128),
    ("", "diff --exit-code HEAD~1", 1),
    ("", "diff --quiet HEAD~1", 1),
    ("", "blame nowhere", 128),
    ("", "config user.nickname", 1),
    ("", "config --get user.name", 1),
    ("config user.name X", "config --get user.name", 0),
    ("", "config --unset user.name", 5),
    ("config user.name X", "config --unset user.name", 0),
]
# (line, git's, ours, why)
APART = [
    ("status --bogus", 129, 2, "a wrong command line is 2, as for most programs"),
    ("log --bogus", 128, 2, "the same"),
    ("restore", 128, 2, "the same"),
    ("rm", 128, 2, "the same"),
    ("tag -d", 0, 2, "the same: nothing was named"),
    ("reset HEAD -- nowhere", 0, 128, "a mistyped path is not passed over"),
]


@pytest.fixture(autouse=True)
def _nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    for who in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{who}_NAME", "Ada")
        monkeypatch.setenv(f"GIT_{who}_EMAIL", "ada@example.org")


def ours(line: str) -> int:
    here = os.getcwd()
    try:
        return main(shlex.split(line))
    finally:
        os.chdir(here)


def gits(line: str) -> int:
    done = subprocess.run(
        ["git", *shlex.split(line)], stdin=subprocess.DEVNULL, capture_output=True, timeout=250, check=False
    )
    return done.returncode


def situation(tool: Tool, folder: Path) -> None:
    """Two branches that changed `a` apart, a folder, a tag, and a new file, told in both tongues."""
    (folder / "d").mkdir(parents=True)
    os.chdir(folder)
    tool("init -b main")
    Path("d/x").write_text("x\n")
    for name, content, before in (
        ("one", "1\n", ""),
        ("side", "side\n", "switch -c side"),
        ("two", "2\n", "switch main"),
    ):
        assert not before or tool(before) == 0
        Path("a").write_text(content)
        assert tool("add a d") == 0 and tool(f"commit -m {name}") == 0
    tool("tag v1")
    Path("new").write_text("n\n")


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("told")


def code(tool: Tool, told: Path, folder: Path, before: str, line: str) -> int:
    """The situation is told once and copied for each line."""
    story = told / tool.__name__
    if not story.exists():
        situation(tool, story)
    shutil.copytree(story, folder)
    os.chdir(folder)
    if before.startswith("!"):
        subprocess.run(before[1:], shell=True, check=True)
    elif before:
        assert tool(before) == 0
    return tool(line)


@pytest.mark.parametrize(("before", "line", "expected"), ALIKE, ids=[f"{line} {before}" for before, line, _ in ALIKE])
def test_we_end_with_the_code_git_ends_with(here: Path, told: Path, before: str, line: str, expected: int) -> None:
    assert code(ours, told, here / "ours", before, line) == expected


@needs_git
@pytest.mark.parametrize(("before", "line", "expected"), ALIKE, ids=[f"{line} {before}" for before, line, _ in ALIKE])
def test_git_ends_with_the_code_the_table_says(here: Path, told: Path, before: str, line: str, expected: int) -> None:
    assert code(gits, told, here / "gits", before, line) == expected


@pytest.mark.parametrize(("line", "theirs", "expected", "why"), APART, ids=[row[0] for row in APART])
def test_where_we_differ_from_git_there_is_a_reason(
    here: Path, told: Path, line: str, theirs: int, expected: int, why: str
) -> None:
    assert why and theirs != expected
    assert code(ours, told, here / "ours", "", line) == expected
