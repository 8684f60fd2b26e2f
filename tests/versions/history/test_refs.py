"""Branches, tags and the reflog: names that move by compare-and-set and remember where they were."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import pairwise

import pytest

import memlake as ml
from memlake.versions import tables
from memlake.versions.history import refs
from tests.versions.conftest import Keep


def test_branches_are_listed_with_both_lanes_and_the_current_one_marked(
    repo: ml.Repo, fork: dict[str, ml.Commit]
) -> None:
    memory = repo.write({"memories/bot/1": b"x"}, "m")
    dev, main = repo.branches
    assert (dev.name, dev.work, dev.memory, dev.current) == ("dev", fork["dev"].oid, None, False)
    assert (main.name, main.work, main.memory, main.current) == ("main", fork["main"].oid, memory.oid, True)


def test_a_branch_starts_where_it_is_told_with_both_lanes(repo: ml.Repo, fork: dict[str, ml.Commit]) -> None:
    memory = repo.write({"memories/bot/1": b"x"}, "m")
    assert repo.branches.create("here").memory == memory.oid
    assert repo.branches.create("there", "dev").work == fork["dev"].oid
    assert repo.branches.create("past", "HEAD~1").work == fork["base"].oid
    assert repo.branches.current == "main"


def test_a_name_that_is_taken_or_a_folder_of_another_is_refused(repo: ml.Repo, fork: dict[str, ml.Commit]) -> None:
    repo.branches.create("feature/x")
    for name in ("dev", "feature", "dev/x", "feature/x"):
        with pytest.raises(ml.errors.AlreadyExists):
            repo.branches.create(name)
    repo.tags.create("dev")  # tags have names of their own


def test_deleting_a_branch_that_is_not_merged_needs_force_and_loses_nothing(
    repo: ml.Repo, fork: dict[str, ml.Commit]
) -> None:
    with pytest.raises(ml.errors.Conflict, match="no other branch has"):
        repo.branches.delete("dev")
    with pytest.raises(ml.errors.Conflict, match="the one you are on"):
        repo.branches.delete("main", force=True)
    assert repo.branches.delete("dev", force=True).work == fork["dev"].oid
    repo.upkeep.gc(prune=True)
    assert repo.read("d", fork["dev"].oid) == b"dev\n"
    assert next(iter(repo.reflog("dev"))).old == fork["dev"].oid
    assert repo.branches.create("dev", "dev@{1}").work == fork["dev"].oid, "its reflog brings it back by name"


def test_a_merged_branch_is_deleted_without_force(repo: ml.Repo, fork: dict[str, ml.Commit]) -> None:
    repo.merge("dev")
    repo.branches.delete("dev")
    assert [b.name for b in repo.branches] == ["main"]


def test_a_branch_whose_memories_are_not_merged_is_not_deleted_without_force(
    repo: ml.Repo, fork: dict[str, ml.Commit]
) -> None:
    repo.merge("dev")
    repo.write({"memories/bot/only-dev": b"x"}, "m", branch="dev")
    with pytest.raises(ml.errors.Conflict):
        repo.branches.delete("dev")


def test_renaming_moves_head_along_and_refuses_a_name_that_is_taken(repo: ml.Repo, fork: dict[str, ml.Commit]) -> None:
    repo.branches.rename("main", "trunk")
    assert repo.branches.current == "trunk" and repo.head == fork["main"].oid and repo.status().clean
    with pytest.raises(ml.errors.AlreadyExists):
        repo.branches.rename("trunk", "dev")
    assert repo.branches.current == "trunk" and {b.name for b in repo.branches} == {"dev", "trunk"}
    repo.branches.rename("trunk", "dev", force=True)
    assert [b.name for b in repo.branches] == ["dev"] and repo.head == fork["main"].oid
    with pytest.raises(ml.errors.NotFound):
        repo.branches.rename("nope", "x")


def test_an_unknown_branch_suggests_the_near_one(repo: ml.Repo, fork: dict[str, ml.Commit]) -> None:
    with pytest.raises(ml.errors.NotFound) as raised:
        repo.branches.delete("dv")
    assert "dev" in raised.value.hint


# -- tags -----------------------------------------------------------------------------------------


def test_a_tag_names_a_whole_state_and_says_who_and_why(repo: ml.Repo, fork: dict[str, ml.Commit]) -> None:
    memory = repo.write({"memories/bot/1": b"then"}, "m")
    tag = repo.tags.create("v1", message="release")
    repo.write({"memories/bot/1": b"now"}, "m")
    assert (tag.work, tag.memory, tag.message) == (fork["main"].oid, memory.oid, "release")
    assert repo.tags.list() == [tag] and tag.author == ml.Author("Ada", "ada@example.org")
    assert repo.read("memories/bot/1", "v1") == b"then" and repo.read("memories/bot/1") == b"now"


def test_a_tag_is_not_moved_without_force_and_can_be_deleted(repo: ml.Repo, fork: dict[str, ml.Commit]) -> None:
    repo.tags.create("v1", "HEAD~1")
    with pytest.raises(ml.errors.AlreadyExists):
        repo.tags.create("v1")
    assert repo.tags.create("v1", force=True).work == fork["main"].oid
    repo.tags.delete("v1")
    assert repo.tags.list() == []
    with pytest.raises(ml.errors.NotFound):
        repo.tags.delete("v1")


def test_nothing_can_be_tagged_or_branched_in_an_empty_repo(repo: ml.Repo) -> None:
    for verb in (repo.tags.create, repo.branches.create):
        with pytest.raises(ml.errors.NotFound, match="no commits"):
            verb("v1")
    assert repo.tags.list() == [] and len(repo.branches.list()) == 1


# -- reflog ---------------------------------------------------------------------------------------


def test_the_reflog_of_head_tells_every_step_newest_first(repo: ml.Repo, fork: dict[str, ml.Commit]) -> None:
    repo.reset("HEAD~1", "hard")
    moves = list(repo.reflog())
    assert [m.number for m in moves] == list(range(len(moves)))
    assert [m.action.split(":")[0] for m in moves] == ["reset", "commit", "switch", "commit", "switch", "commit"]
    assert (moves[0].old, moves[0].new, moves[0].who) == (fork["main"].oid, fork["base"].oid, "Ada")
    assert all(later.old == earlier.new for later, earlier in pairwise(moves))


def test_the_reflog_of_a_branch_and_of_its_memory_lane_are_apart(repo: ml.Repo, fork: dict[str, ml.Commit]) -> None:
    made = [repo.write({"memories/bot/1": bytes([n])}, f"m{n}").oid for n in range(3)]
    assert [m.new for m in repo.reflog("main", "memory")] == made[::-1]
    assert [m.new for m in repo.reflog("main")] == [fork["main"].oid, fork["base"].oid]
    assert next(iter(repo.reflog("main", "memory"))).action == "commit: m2"


def test_the_reflog_does_not_expire_by_itself_but_on_request(
    repo: ml.Repo, keep: Keep, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: real() - 400 * 86400 * 10**9)
    lost = keep("long ago", {"a": "1"}).oid
    keep("replaced", {"a": "2"})
    repo.commit("amended", amend=True)
    monkeypatch.setattr(time, "time_ns", real)
    keep("now", {"a": "3"})
    repo.upkeep.gc(prune=True)
    assert len(list(repo.reflog("main"))) == 4 and repo.read("a", lost) == b"1"
    repo.config.set("gc.reflog_expire", "365")
    repo.close()
    again = ml.open()
    again.upkeep.gc(prune=True)
    assert len(list(again.reflog("main"))) == 1 and again.upkeep.fsck().ok
    assert [c.subject for c in again.log()] == ["now", "amended", "long ago"], "what a branch reaches stays"


# -- compare and set ------------------------------------------------------------------------------


def test_a_ref_moves_only_from_where_the_mover_saw_it(repo: ml.Repo, fork: dict[str, ml.Commit]) -> None:
    history = repo._history
    with pytest.raises(ml.errors.Conflict, match="moved while"), history.db.write():
        refs.move(history, "main", "work", fork["base"], fork["dev"])
    assert repo.head == fork["main"].oid


def test_without_compare_and_set_the_move_would_lose_the_others_commit(
    repo: ml.Repo, fork: dict[str, ml.Commit], monkeypatch: pytest.MonkeyPatch
) -> None:
    blind = {lane: sql.replace(f"AND {lane} IS ?", "AND ? IS ?4") for lane, sql in tables._MOVE.items()}
    monkeypatch.setattr(tables, "_MOVE", blind)
    history = repo._history
    with history.db.write():
        refs.move(history, "main", "work", fork["base"], fork["dev"])
    assert repo.head == fork["dev"].oid, "so the test before this one can fail"


def test_names_are_checked_where_refs_are_made(repo: ml.Repo, fork: dict[str, ml.Commit]) -> None:
    check: Callable[[str], str | None] = refs.name_problem
    assert check("feature/x-1.0") is None and check("a..b") and check("HEAD")
