"""Memories that follow the branches of git: each stays on its branch until git shows that it was merged."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import memlake as ml
from memlake import config, git_files, projects
from memlake.memories.record import Memory
from memlake.memories.search import Query
from memlake.objects import layout
from memlake.repo import merge_finished, open_for_memories, open_narrow


def git(folder: Path, *args: str) -> str:
    who = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org", "-c", "init.defaultBranch=main")
    quiet = ("-c", "advice.detachedHead=false", "-c", "gc.auto=0")
    done = subprocess.run(["git", *who, *quiet, *args], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def commit(folder: Path, message: str = "x") -> None:
    git(folder, "commit", "-q", "--allow-empty", "-m", message)


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A git repo with a repo of ours whose memories follow it; we stand in it."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    config.set_value(None, "embedding.provider", "none", "user")
    folder = tmp_path / "shop"
    folder.mkdir()
    git(folder, "init", "-q")
    commit(folder)
    with ml.init(folder) as repo:
        repo.config["memory.follow_git"] = "true"
    monkeypatch.chdir(folder)
    return folder


def remember(text: str, folder: Path | None = None) -> None:
    os.chdir(folder or ".")
    with ml.Agent(agent_id="a") as agent:
        agent.remember(text)


def read(folder: Path | None = None) -> list[str]:
    """What is remembered where we stand, once git was looked at; a hook must see the same."""
    os.chdir(folder or ".")
    with open_for_memories() as repo:
        merge_finished(repo)
        found = sorted(one.content for one in repo.memories().list_memories(Query()))
        assert sorted(memory.content for memory in open_narrow(repo).newest(20)) == found
    return found


MAIN, SIDE = "Releases are cut on Tuesdays", "The cart uses Redis"


def test_what_an_abandoned_branch_remembered_never_comes_to_main(shop: Path) -> None:
    remember(MAIN)
    git(shop, "switch", "-q", "-c", "side")
    remember(SIDE)
    assert read() == sorted([MAIN, SIDE])
    git(shop, "switch", "-q", "main")
    commit(shop, "on main")
    assert read() == [MAIN]
    git(shop, "branch", "-D", "side")
    assert read() == [MAIN]


def merge_here(shop: Path) -> None:
    git(shop, "switch", "-q", "main")
    git(shop, "merge", "-q", "side")


def merge_with_a_commit(shop: Path) -> None:
    git(shop, "switch", "-q", "main")
    commit(shop, "meanwhile")
    git(shop, "merge", "-q", "--no-ff", "-m", "merged", "side")


def merge_and_delete(shop: Path) -> None:
    merge_with_a_commit(shop)
    git(shop, "branch", "-q", "-d", "side")


def merge_elsewhere(shop: Path) -> None:
    """As on a server: the branch is merged in another clone, and main is pulled."""
    git(shop, "switch", "-q", "main")
    git(shop.parent, "clone", "-q", str(shop), "other")
    other = shop.parent / "other"
    git(other, "merge", "-q", "--no-ff", "-m", "merged", "origin/side")
    git(shop, "pull", "-q", str(other), "main")
    git(shop, "pack-refs", "--all")


@pytest.mark.parametrize("merge", [merge_here, merge_with_a_commit, merge_and_delete, merge_elsewhere])
def test_what_a_branch_remembered_comes_with_its_merge(shop: Path, merge: Callable[[Path], None]) -> None:
    remember(MAIN)
    git(shop, "switch", "-q", "-c", "side")
    remember(SIDE)
    assert len(read()) == 2
    commit(shop, "on side")
    merge(shop)
    assert read() == sorted([MAIN, SIDE])
    with open_for_memories() as repo:
        assert repo.operations()[0].verb == "merge"
        assert merge_finished(repo) == []
        repo.undo()
    assert read() == [MAIN], "what a person took back does not come again"


def test_a_branch_that_only_caught_up_with_main_is_not_taken_for_merged(shop: Path) -> None:
    git(shop, "switch", "-q", "-c", "side")
    remember(SIDE)
    git(shop, "switch", "-q", "main")
    commit(shop, "on main")
    git(shop, "switch", "-q", "side")
    git(shop, "merge", "-q", "main")
    assert read() == [SIDE]
    with open_for_memories() as repo:
        assert repo.memories("main").list_memories(Query()) == []


def test_a_branch_sees_what_main_learns_until_it_remembers_something_itself(shop: Path) -> None:
    remember(MAIN)
    git(shop, "switch", "-q", "-c", "side")
    assert read() == [MAIN]
    git(shop, "switch", "-q", "main")
    remember("The API runs on port 8080")
    git(shop, "switch", "-q", "side")
    assert len(read()) == 2
    with open_for_memories() as repo:
        assert [branch.name for branch in repo.branches] == ["main"], "reading makes no branch"
    remember(SIDE)
    git(shop, "switch", "-q", "main")
    remember("Deploys run at night")
    git(shop, "switch", "-q", "side")
    assert "Deploys run at night" not in read()


@pytest.mark.parametrize("way", [("switch", "-c", "deep"), ("branch", "deep", "side")])
def test_a_branch_of_a_branch_begins_with_what_that_remembers(shop: Path, way: tuple[str, ...]) -> None:
    git(shop, "switch", "-q", "-c", "side")
    remember(SIDE)
    git(shop, *way)
    git(shop, "switch", "-q", "deep")
    remember(MAIN)
    assert read() == sorted([MAIN, SIDE])
    git(shop, "switch", "-q", "side")
    assert read() == [SIDE]


def test_each_worktree_follows_its_own_branch_and_a_detached_head_that_of_its_commit(shop: Path) -> None:
    git(shop, "worktree", "add", "-q", "../tree", "-b", "side")
    tree = shop.parent / "tree"
    remember(SIDE, tree)
    remember(MAIN, shop)
    assert (read(tree), read(shop)) == ([SIDE], [MAIN])
    commit(tree, "on side")
    git(tree, "switch", "-q", "--detach")
    assert read(tree) == [SIDE]
    commit(tree, "on no branch")
    assert read(tree) == [MAIN]
    git(shop, "merge", "-q", "side")
    assert read(shop) == sorted([MAIN, SIDE])


def test_two_texts_of_one_memory_are_merged_and_both_are_kept(shop: Path) -> None:
    remember("The API runs on port 8080")
    git(shop, "switch", "-q", "-c", "side")
    remember("The API runs on port 9090")
    commit(shop, "on side")
    git(shop, "switch", "-q", "main")
    remember("The API runs on port 7070")
    git(shop, "merge", "-q", "side")
    assert read() == ["The API runs on port 9090"]
    with open_for_memories() as repo:
        (memory,) = repo.memories().list_memories(Query())
        past = repo.memories().fields(memory)["metadata"]["history"]
    assert {one["value"] for one in past} == {"The API runs on port 8080", "The API runs on port 7070"}


def test_a_hook_and_an_agent_that_lives_on_write_to_the_branch_of_git(shop: Path) -> None:
    git(shop, "switch", "-q", "-c", "side")
    with open_for_memories() as repo:
        now = layout.now()
        said = Memory(layout.new_id(), SIDE, "a", created_at=now, updated_at=now)
        open_narrow(repo).put([said], "store", agent="a")
    with ml.Agent(agent_id="a") as agent:
        agent.store_memory(MAIN)
        assert agent.branch == "side" and len(agent.search_memory("Tuesdays releases")) == 1
    git(shop, "switch", "-q", "main")
    assert read() == []


def test_without_the_setting_branches_of_git_change_nothing(shop: Path) -> None:
    with ml.open(shop) as repo:
        repo.config["memory.follow_git"] = "false"
    git(shop, "switch", "-q", "-c", "side")
    remember(SIDE)
    git(shop, "switch", "-q", "main")
    assert read() == [SIDE]


def test_a_rebase_is_work_on_its_branch(shop: Path) -> None:
    git(shop, "switch", "-q", "-c", "side")
    tree = projects.find_git_tree(str(shop))
    assert tree is not None and git_files.find_branch(tree) == "side"
    (shop / ".git" / "rebase-merge").mkdir()
    (shop / ".git" / "rebase-merge" / "head-name").write_text("refs/heads/side\n")
    (shop / ".git" / "HEAD").write_text("0" * 40 + "\n")
    assert git_files.find_branch(tree) == "side"
