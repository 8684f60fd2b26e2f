"""Commit: what it says beside its content, amending, and racing with others."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import memlake as ml
from memlake.versions.verbs import stage
from tests.versions.conftest import Keep


def test_a_commit_says_who_when_what_and_against_what(repo: ml.Repo, keep: Keep) -> None:
    first = keep("one", {"a": "1"})
    second = keep("two\n\nbody", {"a": "2"}, author="Grace <g@example.org>")
    assert second.parents == (first.oid,) and second.subject == "two" and second.message == "two\n\nbody"
    assert (second.author, first.author) == (ml.Author("Grace", "g@example.org"), ml.Author("Ada", "ada@example.org"))
    assert [(c.status, c.path) for c in repo.show(second).changes] == [("M", "files/a")]
    assert second.time >= first.time and repo.show(second.oid).commit == second


@pytest.mark.parametrize("message", [None, "", "  \n "])
def test_a_commit_needs_a_message(repo: ml.Repo, write: Callable[..., None], message: str | None) -> None:
    write({"a": "1"})
    repo.add("a")
    with pytest.raises(ml.errors.InvalidInput, match="Nothing was committed"):
        repo.commit(message)
    assert repo.head is None and len(repo.status().staged) == 1


def test_nothing_staged_is_nothing_to_commit_unless_asked(repo: ml.Repo, keep: Keep) -> None:
    keep("one", {"a": "1"})
    with pytest.raises(ml.errors.Nothing):
        repo.commit("two")
    assert repo.commit("empty", allow_empty=True).changes == ()


def test_commit_all_takes_changed_and_removed_files_but_no_new_ones(
    repo: ml.Repo, keep: Keep, write: Callable[..., None]
) -> None:
    keep("one", {"a": "1", "b": "1"})
    write({"a": "2", "b": None, "new": "1"})
    made = repo.commit("two", all=True)
    assert [(c.status, c.path) for c in repo.show(made).changes] == [("M", "files/a"), ("D", "files/b")]
    assert repo.status().untracked == ("new",)


@pytest.mark.parametrize(
    "how", [{"message": None}, {"message": "x", "uses": ["nowhere"]}, {"message": "x", "metrics": {"a": object()}}]
)
def test_a_commit_all_that_fails_leaves_the_stage_and_the_operations_as_they_were(
    repo: ml.Repo, keep: Keep, write: Callable[..., None], how: Any
) -> None:
    keep("one", {"a": "1", "b": "1", "c": "1"})
    write({"b": "staged", "new": "staged"})
    repo.add("b", "new")
    write({"a": "2", "b": "edited", "c": None, "new": None})
    before = repo.status(), repo.operations()
    with pytest.raises(ml.errors.InvalidInput, match="Nothing was committed"):
        repo.commit(all=True, **how)
    assert (repo.status(), repo.operations()) == before
    assert repo.read("b", ":") == b"staged"


def test_commit_all_without_a_change_leaves_no_operation(repo: ml.Repo, keep: Keep) -> None:
    keep("one", {"a": "1"})
    before = repo.operations()
    with pytest.raises(ml.errors.Nothing):
        repo.commit("two", all=True)
    assert repo.operations() == before


def test_commit_all_that_a_waiting_merge_refuses_leaves_its_conflicts_open(
    repo: ml.Repo, keep: Keep, write: Callable[..., None]
) -> None:
    keep("base", {"a": "1", "b": "1"})
    repo.switch("dev", create=True)
    keep("dev", {"a": "2", "b": "2"})
    repo.switch("main")
    keep("main", {"a": "3", "b": "3"})
    repo.cherry_pick("dev", no_commit=True)
    write({"a": "by hand"})
    before = repo.status(), repo.operations()
    with pytest.raises(ml.errors.Conflict, match="still has a conflict marker"):
        repo.commit("joined", all=True)
    assert (repo.status(), repo.operations()) == before


def test_what_a_file_was_made_from_and_how_it_scored_is_kept_with_the_commit(repo: ml.Repo, keep: Keep) -> None:
    data = keep("data", {"train.csv": "a\n1\n"})
    keep("data, more", {"train.csv": "a\n1\n2\n"})
    made = keep(
        "model", {"model.pt": b"\0weights"}, uses=["train.csv@HEAD~1", "train.csv"],
        metrics={"accuracy": 0.93, "epochs": 3}, params={"lr": 1e-3, "layers": [64, 32]},
    )  # fmt: skip
    assert repo.show(made).metrics == {"accuracy": 0.93, "epochs": 3}
    assert repo.show(made).params == {"lr": 1e-3, "layers": [64, 32]}
    old, new = repo.show(made).uses
    assert old["path"] == "files/train.csv" and old["commit"] == data.oid
    assert repo.objects.read(old["oid"]) == b"a\n1\n" and repo.objects.read(new["oid"]) == b"a\n1\n2\n"
    assert repo.show(data).metrics == {}
    repo.upkeep.gc(prune=True)
    assert repo.show(made).params["layers"] == [64, 32] and repo.upkeep.fsck().ok


def test_a_file_may_use_one_that_is_committed_with_it(repo: ml.Repo, keep: Keep) -> None:
    made = keep("both", {"in": "1", "out": "2"}, uses=["in"])
    (use,) = repo.show(made).uses
    assert repo.objects.read(use["oid"]) == b"1"


@pytest.mark.parametrize("use", ["missing", "a@nope", "missing@HEAD", "../a"])
def test_a_use_that_does_not_exist_commits_nothing(
    repo: ml.Repo, keep: Keep, write: Callable[..., None], use: str
) -> None:
    keep("one", {"a": "1"})
    write({"a": "2"})
    repo.add("a")
    with pytest.raises(ml.Error):
        repo.commit("two", uses=[use])
    assert repo.show("HEAD").commit.subject == "one" and len(repo.status().staged) == 1


@pytest.mark.parametrize("metrics", [{"x": float("nan")}, {"x": float("inf")}, {"x": object()}, {"x": b"bytes"}])
def test_metrics_that_are_no_json_commit_nothing(
    repo: ml.Repo, write: Callable[..., None], metrics: dict[str, object]
) -> None:
    write({"a": "1"})
    repo.add("a")
    with pytest.raises(ml.errors.InvalidInput, match="metrics"):
        repo.commit("one", metrics=metrics)
    assert repo.head is None


# -- amend ----------------------------------------------------------------------------------------


def test_amend_replaces_the_last_commit_and_the_old_one_stays_reachable(
    repo: ml.Repo, keep: Keep, write: Callable[..., None]
) -> None:
    base = keep("base", {"a": "1"})
    old = keep("tpyo", {"b": "1"}, metrics={"x": 1})
    write({"c": "1"})
    repo.add("c")
    new = repo.commit("typo", amend=True)
    assert new.parents == (base.oid,) and [c.path for c in repo.show(new).changes] == ["files/b", "files/c"]
    assert repo.show(new).metrics == {"x": 1}
    assert repo.status().clean and [c.subject for c in repo.log()] == ["typo", "base"]
    assert repo.show("main@{1}").commit.oid == old.oid and "amend" in next(iter(repo.reflog("main"))).action


def test_amend_of_the_first_commit_and_of_a_merge_keep_their_parents(
    repo: ml.Repo, fork: dict[str, ml.Commit], write: Callable[..., None]
) -> None:
    repo.merge("dev")
    write({"late": "1"})
    repo.add("late")
    again = repo.commit(amend=True)
    assert again.parents == (fork["main"].oid, fork["dev"].oid)
    assert {p for p, _ in repo.ls()} == {f"files/{n}" for n in ("a", "b", "d", "m", "late")}
    repo.switch("solo", create=True, at=fork["base"].oid)
    assert repo.commit("renamed", amend=True).parents == ()


def test_amend_may_take_a_merge_back_to_its_first_parent_but_no_other_commit(repo: ml.Repo, keep: Keep) -> None:
    """As git does: a merge without changes still joins two lines, any other commit would be empty."""
    first = keep("one", {"a": "1"})
    repo.switch("dev", create=True)
    second = keep("two", {"b": "2"})
    repo.rm("b")
    with pytest.raises(ml.errors.Nothing, match="would change nothing"):
        repo.commit(amend=True)
    repo.reset(mode="hard")
    repo.switch("main")
    repo.merge("dev", ff=False)
    repo.rm("b")
    assert repo.commit(amend=True).parents == (first.oid, second.oid)
    assert [path for path, _ in repo.ls()] == ["files/a"]


def test_there_is_nothing_to_amend_in_an_empty_repo(repo: ml.Repo) -> None:
    with pytest.raises(ml.errors.Nothing):
        repo.commit("x", amend=True)


# -- racing ---------------------------------------------------------------------------------------


def test_a_lost_race_is_rebased_when_paths_are_disjoint(
    repo: ml.Repo, keep: Keep, write: Callable[..., None], here: Path
) -> None:
    keep("one", {"a": "1", "b": "1"})
    write({"a": "mine"})
    repo.add("a")
    theirs = ml.open(here).write({"files/b": b"theirs", "files/new": b"theirs"}, "theirs")
    mine = repo.commit("mine")
    assert mine.parents == (theirs.oid,)
    assert {p: repo.objects.read(e.oid) for p, e in repo.ls()} == {
        "files/a": b"mine", "files/b": b"theirs", "files/new": b"theirs",
    }  # fmt: skip
    assert [c.path for c in repo.show(mine).changes] == ["files/a"]


def test_after_a_rebased_race_committing_everything_does_not_undo_the_others_work(
    repo: ml.Repo, keep: Keep, write: Callable[..., None], here: Path
) -> None:
    keep("one", {"a": "1", "b": "1"})
    write({"a": "mine"})
    repo.add("a")
    ml.open(here).write({"files/b": b"theirs", "files/new": b"theirs"}, "theirs")
    repo.commit("mine")
    assert repo.status().clean, repo.status()
    write({"a": "again"})
    repo.commit("all of it", all=True)
    assert repo.read("b") == b"theirs" and repo.read("new") == b"theirs"


def test_a_lost_race_on_the_same_path_is_a_conflict_that_keeps_the_stage(
    repo: ml.Repo, keep: Keep, write: Callable[..., None], here: Path
) -> None:
    keep("one", {"a": "1"})
    write({"a": "mine"})
    repo.add("a")
    theirs = ml.open(here).write({"files/a": b"theirs"}, "theirs")
    with pytest.raises(ml.errors.Conflict, match=r"\n  a\n"):
        repo.commit("mine")
    assert repo.head == theirs.oid and repo.read("a") == b"theirs"
    assert [c.path for c in repo.status().staged] == ["files/a"] and (here / "a").read_text() == "mine"


def test_files_written_without_a_checkout_are_noticed_and_merged_into_the_folder(
    repo: ml.Repo, keep: Keep, write: Callable[..., None], here: Path
) -> None:
    keep("one", {"a": "1"})
    repo.write({"files/b": b"pushed"}, "from elsewhere")
    status = repo.status()
    assert status.behind == 1 and not status.staged
    write({"c": "1"})
    repo.add("c")
    repo.commit("mine")
    assert repo.status().behind == 0 and repo.status().clean and (here / "b").read_text() == "pushed"


def test_a_merge_never_overwrites_an_untracked_file_that_a_write_brought_to_the_branch(
    repo: ml.Repo, fork: dict[str, ml.Commit], write: Callable[..., None], here: Path
) -> None:
    repo.write({"files/x": b"pushed"}, "from elsewhere")
    write({"x": "precious"})
    with pytest.raises(ml.errors.Conflict):
        repo.merge("dev")
    assert (here / "x").read_text() == "precious"


@pytest.mark.parametrize("amend", [False, True])
def test_a_stage_with_a_file_and_a_folder_of_one_name_is_not_committed(repo: ml.Repo, keep: Keep, amend: bool) -> None:
    keep("one", {"a": "1"})
    entry, before = repo.objects.at("a"), repo.head
    repo._local.put([stage.put_entry(None, path, entry) for path in ("c", "c/z")])  # `add` would not
    with pytest.raises(ml.errors.InvalidInput, match=r"'c' and 'c/z' cannot both be committed.*Nothing was committed"):
        repo.commit("both", amend=amend)
    assert repo.head == before and [c.path for c in repo.status().staged] == ["files/c", "files/c/z"]


def test_a_commit_of_some_paths_does_not_put_a_folder_beside_the_file_it_replaced(
    repo: ml.Repo, keep: Keep, write: Callable[..., None]
) -> None:
    keep("one", {"c": "1"})
    write({"c": None})
    write({"c/z": "2"})
    repo.add(all=True)
    with pytest.raises(ml.errors.InvalidInput, match="cannot both be committed"):
        repo.commit("only", paths=["c/z"])
    assert [(c.status, c.path) for c in repo.show(repo.commit("both")).changes] == [
        ("D", "files/c"),
        ("A", "files/c/z"),
    ]


def test_a_folder_that_another_committed_meanwhile_keeps_a_file_of_its_name_out(
    repo: ml.Repo, keep: Keep, write: Callable[..., None]
) -> None:
    keep("one", {"a": "1"})
    write({"c": "ours"})
    repo.add("c")
    theirs = repo.write({"files/c/z": "theirs"}, "meanwhile")
    with pytest.raises(ml.errors.InvalidInput, match="cannot both be committed"):
        repo.commit("ours")
    assert repo.head == theirs.oid and (Path("c")).read_text() == "ours"
