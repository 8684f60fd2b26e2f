"""The command line in a bare repo: what it is called, where it is found, and what is refused as git refuses it."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

import memlake as ml
from tests.cli.conftest import Run


@pytest.fixture
def lake(run: Run, tmp_path: Path) -> Path:
    run("init", "--bare", "lake")
    with ml.open(tmp_path / "lake") as repo:
        repo.write({"files/a.txt": b"one\n"}, "first")
        repo.branches.create("dev")
        repo.write({"files/a.txt": b"one\ntwo\n"}, "second", branch="dev")
    return tmp_path / "lake"


def test_init_bare_says_so_and_again_changes_nothing(run: Run, tmp_path: Path) -> None:
    assert run("init", "--bare", "x").out == f"Initialized empty bare memlake repo in {tmp_path}/x/\n"
    assert run("init", "--bare", "x").out == f"Reinitialized existing bare memlake repo in {tmp_path}/x/\n"
    assert "is a bare repo" in run("init", "x", code=128).err


def test_history_is_shown_from_inside_by_c_and_by_the_variable(
    run: Run, lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run("-C", "lake", "log", "--format=%s").out == "first\n"
    assert run("-C", "lake/packs", "log", "--format=%s", "dev").out == "second\nfirst\n"
    monkeypatch.setenv("MEMLAKE_REPO", str(lake))
    assert "+two" in run("diff", "main", "dev").out
    assert run("cat", "dev:a.txt").out == "one\ntwo\n" and run("ls", "dev").out == "a.txt\n"
    assert "+two" in run("show", "dev").out and run("blame", "dev", "a.txt").code == 0
    assert run("reflog").lines[0].endswith("HEAD@{0}: commit: first")
    run("branch", "next", "dev")
    run("tag", "v1", "dev")
    run("branch", "-D", "next")
    assert run("branch").out == "  dev\n* main\n"


def test_memories_settings_trust_and_upkeep_work(run: Run, lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(lake)
    run("remember", "the port is 8080")
    assert "8080" in run("recall", "port").out
    run("config", "user.name", "Ada")
    assert run("config", "user.name").out == "Ada\n"
    (lake / "config.toml").write_text('[core]\npager = "less"\n')
    run("trust", "--yes")
    assert str(lake) in run("trust", "--list").out
    run("trust", "--revoke")
    for verb in (("gc", "--prune"), ("fsck", "--full"), ("du",), ("ops",)):
        run(*verb)
    run("doctor", code=None)
    run("backup", "../copy.tar")


@pytest.mark.parametrize(
    "line", ["status", "add a.txt", "commit -m x", "rm a.txt", "mv a.txt b", "switch dev", "restore a.txt", "stash",
             "merge dev", "reset --hard", "undo", "diff"],
)  # fmt: skip
def test_what_needs_a_working_folder_ends_with_128_and_advice(run: Run, lake: Path, line: str) -> None:
    refused = run("-C", "lake", *line.split(), code=128)
    assert "is a bare repo, which has none. Nothing was changed." in refused.err
    assert f"hint: Name a rev to read from it: memlake -C {lake} show HEAD" in refused.err
    assert run("-C", str(lake), "show", "HEAD").code == 0, "the advice works"


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
def test_git_refuses_the_same_with_the_same_code(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", "--bare", "x"], cwd=tmp_path, check=True)
    for line in ("status", "add a", "commit -m x", "rm a", "restore a", "stash", "merge dev"):
        env = {**os.environ, "GIT_AUTHOR_NAME": "A", "GIT_COMMITTER_NAME": "A", "EMAIL": "a@b.c"}
        done = subprocess.run(["git", *line.split()], cwd=tmp_path / "x", env=env, capture_output=True, check=False)
        assert done.returncode == 128, line
