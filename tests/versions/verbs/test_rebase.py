"""rebase: what is repeated, what stays, what waits; and that undo and abort bring everything back."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

import memlake as ml
from memlake.repo import list_rebase
from memlake.versions.verbs import show

Keep = Callable[..., ml.Commit]


def subjects(repo: ml.Repo, rev: str = "HEAD") -> list[str]:
    return [commit.subject for commit in repo.log(rev)]


def files(repo: ml.Repo, rev: str = "HEAD") -> dict[str, bytes]:
    return {path.removeprefix("files/"): repo.objects.read(entry.oid) for path, entry in repo.ls(rev, "files/")}


@pytest.fixture
def apart(repo: ml.Repo, keep: Keep) -> ml.Repo:
    """dev has three commits of its own, main one that touches none of their files; HEAD is on dev."""
    keep("base", {"a": "1\n2\n3\n"})
    repo.switch("dev", create=True)
    keep("one", {"d": "1"}, metrics={"acc": 0.5}, author="Bob <bob@x.org>")
    keep("two", {"a": "1\n2\nthree\n", "d": None}, metrics={"acc": 0.7}, params={"lr": 1})
    keep("three", {"e": "3"}, uses=["e"])
    repo.switch("main")
    keep("main one", {"m": "m"})
    repo.switch("dev")
    return repo


@pytest.fixture
def clashing(apart: ml.Repo, keep: Keep) -> ml.Repo:
    """As `apart`, but main changes the line that `two` changes."""
    apart.switch("main")
    keep("main two", {"a": "1\n2\nmain\n"})
    apart.switch("dev")
    return apart


def test_commits_are_repeated_with_author_time_and_facts(apart: ml.Repo, here: Path) -> None:
    old = list(apart.log(limit=3))
    memory = apart.write({"memories/bot/x": b"m"}, "said").oid
    merged = apart.rebase("main")
    new = list(apart.log(limit=3))
    assert subjects(apart) == ["three", "two", "one", "main one", "base"]
    assert [(c.author, c.time, c.message, dict(c.meta)) for c in new] == [
        (c.author, c.time, c.message, dict(c.meta)) for c in old
    ]
    assert merged.rewritten == {was.oid: now.oid for was, now in zip(old, new, strict=True)}
    assert apart.show(new[1]).metrics == {"acc": 0.7} and apart.show(new[0]).uses
    assert (here / "m").read_text() == "m" and not (here / "d").exists() and apart.status().clean
    assert apart.show("dev", "memory").commit.oid == memory, "the memory lane does not move"
    assert apart.upkeep.fsck(full=True).ok


def test_undo_takes_all_of_it_back_and_redo_does_it_again(apart: ml.Repo, here: Path) -> None:
    before, had = apart.head, files(apart)
    after = apart.rebase("main").commit
    apart.undo()
    assert (apart.head, apart.branches.current, files(apart)) == (before, "dev", had)
    assert not (here / "m").exists() and apart.status().clean
    apart.redo()
    assert apart.head == after and (here / "m").exists()


def test_what_stands_there_already_is_left_as_it_is(apart: ml.Repo) -> None:
    assert apart.rebase("HEAD~2").up_to_date
    assert apart.operations(1)[0].verb == "switch"
    apart.rebase("main")
    head = apart.head
    assert apart.rebase("main").up_to_date and apart.head == head


def test_a_branch_that_is_behind_is_fast_forwarded(apart: ml.Repo) -> None:
    apart.branches.create("old", "HEAD~1")
    merged = apart.rebase("dev", "old")
    assert merged.fast_forward and apart.branches.current == "old" and apart.head == apart.show("dev").commit.oid
    apart.undo()
    assert apart.branches.current == "dev" and apart.show("old").commit.oid == apart.show("dev~1").commit.oid


def test_another_branch_and_another_place_can_be_named(apart: ml.Repo, keep: Keep) -> None:
    apart.switch("main")
    merged = apart.rebase("dev~1", "dev", onto="main")
    assert apart.branches.current == "dev" and subjects(apart) == ["three", "main one", "base"]
    assert len(merged.rewritten) == 1


def test_merges_are_left_out_and_their_sides_repeated(apart: ml.Repo, keep: Keep) -> None:
    apart.switch("side", create=True, at="dev~2")
    keep("on the side", {"s": "s"})
    apart.switch("dev")
    apart.merge("side", message="join")
    had = files(apart)
    apart.rebase("main")
    assert "join" not in subjects(apart) and "on the side" in subjects(apart)
    assert files(apart) == {**had, "m": b"m"}
    assert all(len(commit.parents) < 2 for commit in apart.log())


def test_a_commit_whose_changes_are_there_already_is_dropped(apart: ml.Repo) -> None:
    apart.switch("main")
    apart.cherry_pick("dev~2")
    apart.switch("dev")
    merged = apart.rebase("main")
    assert len(merged.dropped) == 1 and subjects(apart)[:3] == ["three", "two", "one"]
    assert len(list(apart.log("main..dev"))) == 2


def test_a_conflict_waits_and_going_on_finishes(clashing: ml.Repo, here: Path) -> None:
    before = clashing.head
    merged = clashing.rebase("main")
    assert [one.path for one in merged.conflicts] == ["files/a"] and "<<<<<<< HEAD" in (here / "a").read_text()
    assert clashing.status().doing == "rebase" and clashing.show("dev").commit.oid == before
    with pytest.raises(ml.errors.Conflict, match="without a choice"):
        clashing.pending_merge.conclude()
    with pytest.raises(ml.errors.Conflict, match="a rebase is waiting"):
        clashing.commit("x")
    (here / "a").write_text("1\n2\nboth\n")
    clashing.add("a")
    with ml.open(here) as again:  # another process would find it so
        done = again.pending_merge.conclude()
    assert not done.conflicts and clashing.branches.current == "dev" and clashing.status().clean
    assert subjects(clashing)[:4] == ["three", "two", "one", "main two"]
    assert files(clashing)["a"] == b"1\n2\nboth\n" and clashing.show("HEAD~1").metrics == {"acc": 0.7}
    clashing.undo()
    assert clashing.head == before and (here / "a").read_text() == "1\n2\nthree\n" and clashing.status().clean


@pytest.mark.parametrize("way", ["abort", "undo"])
def test_one_that_waits_is_given_up_whole(clashing: ml.Repo, here: Path, way: str) -> None:
    before, had = clashing.head, files(clashing)
    clashing.rebase("main")
    (here / "a").write_text("half resolved")
    clashing.pending_merge.abort() if way == "abort" else clashing.undo()
    assert (clashing.head, clashing.branches.current) == (before, "dev") and clashing.status().clean
    assert {path: (here / path).read_bytes() for path in had} == had and not (here / "m").exists()
    clashing.undo() if way == "abort" else clashing.redo()
    assert clashing.status().doing == "rebase"
    if way == "abort":
        assert (here / "a").read_text() == "half resolved"


def test_a_commit_that_waits_can_be_skipped(clashing: ml.Repo, here: Path) -> None:
    clashing.rebase("main")
    merged = clashing.pending_merge.skip()
    assert len(merged.dropped) == 1 and subjects(clashing)[:3] == ["three", "one", "main two"]
    assert (here / "a").read_text() == "1\n2\nmain\n" and clashing.status().clean
    clashing.undo()
    assert clashing.branches.current == "dev" and subjects(clashing)[0] == "three" and clashing.status().doing is None


def test_what_was_edited_in_a_step_that_is_skipped_comes_back_with_it(clashing: ml.Repo, here: Path) -> None:
    clashing.rebase("main")
    (here / "a").write_text("half resolved")
    clashing.pending_merge.skip()
    clashing.undo()
    assert clashing.status().doing == "rebase" and (here / "a").read_text() == "half resolved"


@pytest.mark.parametrize(("before", "instead"), [("x/in", "x"), ("x", "x/in")], ids=["file", "folder"])
def test_a_file_that_was_replaced_by_another_in_its_way_waits_for_a_choice(
    repo: ml.Repo, keep: Keep, here: Path, before: str, instead: str
) -> None:
    keep("base", {before: "old\n"})
    repo.switch("dev", create=True)
    keep("edit", {before: "an edit\n"})
    repo.switch("main")
    repo.rm(here / before)
    keep("instead", {instead: "something else entirely\n"})
    repo.switch("dev")
    waiting = repo.rebase("main")
    assert [one.path for one in waiting.conflicts] == [f"files/{before}"]
    assert (here / instead).read_text() == "something else entirely\n"
    repo.pending_merge.abort()
    assert files(repo) == {before: b"an edit\n"} and repo.status().clean


def test_two_conflicts_wait_one_after_the_other(repo: ml.Repo, keep: Keep, here: Path) -> None:
    keep("base", {"a": "1", "b": "1"})
    repo.switch("dev", create=True)
    keep("one", {"a": "2"})
    keep("two", {"b": "2"})
    repo.switch("main")
    keep("main", {"a": "3", "b": "3"})
    repo.switch("dev")
    assert [one.path for one in repo.rebase("main").conflicts] == ["files/a"]
    repo.pending_merge.choose("theirs")
    assert [one.path for one in repo.pending_merge.conclude().conflicts] == ["files/b"]
    assert [one.path for one in repo.status().conflicts] == ["files/b"], "the first is settled"
    repo.undo()
    assert [one.choice for one in repo.status().conflicts] == ["theirs"]
    repo.redo()
    repo.pending_merge.choose("ours")
    done = repo.pending_merge.conclude()
    assert len(done.dropped) == 1 and files(repo) == {"a": b"2", "b": b"3"} and repo.branches.current == "dev"
    repo.undo()
    assert files(repo) == {"a": b"2", "b": b"2"} and subjects(repo) == ["two", "one", "base"]


def test_memories_written_while_it_waits_go_to_its_branch(clashing: ml.Repo) -> None:
    clashing.rebase("main")
    assert clashing.memories().context.branch == "dev"


def test_uncommitted_work_stops_it_and_other_work_comes_along(apart: ml.Repo, here: Path) -> None:
    (here / "m").write_text("mine")
    with pytest.raises(ml.errors.Conflict, match="uncommitted work"):
        apart.rebase("main")
    assert apart.branches.current == "dev" and (here / "m").read_text() == "mine" and not (here / "x").exists()
    (here / "m").unlink()
    (here / "e").write_text("edited")
    apart.rebase("main")
    assert (here / "e").read_text() == "edited"
    apart.add("e")
    with pytest.raises(ml.errors.Conflict, match="empty stage"):
        apart.rebase("main~1")


def test_a_branch_that_moved_meanwhile_is_not_overwritten(clashing: ml.Repo) -> None:
    clashing.rebase("main")
    saved = clashing.write({"files/new": b"new"}, "by another", branch="dev")
    clashing.pending_merge.choose("ours")
    with pytest.raises(ml.errors.Conflict, match="was moved or removed"):
        clashing.pending_merge.conclude()
    clashing.pending_merge.abort()
    assert clashing.show("dev").commit.oid == saved.oid


# -- as a list says -------------------------------------------------------------------------------


def todo(repo: ml.Repo, *commands: str, order: tuple[int, ...] = (0, 1, 2)) -> str:
    steps = list_rebase(repo, "HEAD~3")
    return "\n".join(f"{commands[place]} {steps[at].commit[:12]} {steps[at].text}" for place, at in enumerate(order))


def test_commits_are_joined_reworded_and_dropped(apart: ml.Repo, here: Path) -> None:
    tree = files(apart)
    apart.rebase("HEAD~3", todo=todo(apart, "pick", "squash", "r").replace("three", "Three, better"))
    assert subjects(apart) == ["Three, better", "one", "base"] and files(apart) == tree
    joined = apart.show("HEAD~1").commit
    assert joined.message == "one\n\ntwo" and joined.author.name == "Bob"
    assert apart.show(joined).metrics == {"acc": 0.7} and apart.show(joined).params == {"lr": 1}
    assert set(show.fact(apart._look(), "about", joined.meta["about"])) >= {"a"}
    apart.undo()
    apart.rebase("HEAD~3", todo=todo(apart, "pick", "fixup", "drop"))
    assert subjects(apart) == ["one", "base"] and not (here / "e").exists()


def test_a_commit_is_edited_before_it_is_made(apart: ml.Repo, here: Path) -> None:
    before = files(apart)
    stopped = apart.rebase("HEAD~3", todo=todo(apart, "pick", "edit", "pick"))
    assert stopped.commit is None and not stopped.conflicts
    found = apart.status()
    assert found.doing == "rebase" and found.step.endswith("'two' onto HEAD~3, 1 commit after it") and not found.branch
    assert subjects(apart) == ["one", "base"] and (here / "a").read_text() == "1\n2\nthree\n"
    assert {change.path for change in found.staged} == {"files/a", "files/d"}
    (here / "a").write_text("1\n2\n3!\n")
    (here / "f").write_text("new\n")
    apart.add("a", "f")
    merged = apart.pending_merge.conclude()
    assert (
        subjects(apart) == ["three", "two", "one", "base"] and apart.branches.current == "dev" and apart.status().clean
    )
    assert merged.commit == apart.show().commit.oid and files(apart) == before | {"a": b"1\n2\n3!\n", "f": b"new\n"}
    assert files(apart, "HEAD~1").keys() == {"a", "f"} and apart.show("HEAD~1").params == {"lr": 1}
    apart.undo()
    assert files(apart) == before and apart.branches.current == "dev"


def test_an_edit_that_is_given_up_leaves_nothing(apart: ml.Repo, here: Path) -> None:
    tip, tree = apart.show().commit.oid, files(apart)
    apart.rebase("main", todo="\n".join(f"edit {step.commit} x" for step in list_rebase(apart, "main")))
    assert apart.status().step.endswith("onto main, 2 commits after it")
    apart.pending_merge.conclude()
    assert "'two'" in apart.status().step
    apart.pending_merge.abort()
    assert apart.show().commit.oid == tip and files(apart) == tree and apart.status().clean and not apart.status().step


def test_commits_change_places(apart: ml.Repo) -> None:
    tree = files(apart)
    apart.rebase("HEAD~3", todo=todo(apart, "pick", "pick", "pick", order=(2, 0, 1)))
    assert subjects(apart) == ["two", "one", "three", "base"] and files(apart) == tree


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("frobnicate {0}", "begins with 'frobnicate'"),
        ("pick nosuch", "names 'nosuch'"),
        ("pick {0}\npick {0}", "again"),
        ("squash {0}", "no commit before it"),
        ("drop {0}\nfixup {1}", "no commit before it"),
        ("pick main", "not one of the commits"),
    ],
)
def test_a_list_that_makes_no_sense_is_refused(apart: ml.Repo, text: str, said: str) -> None:
    before, ids = apart.head, [step.commit[:12] for step in list_rebase(apart, "HEAD~3")]
    with pytest.raises(ml.Error, match=said):
        apart.rebase("HEAD~3", todo=text.format(*ids))
    assert apart.head == before


def test_random_histories_keep_their_last_tree(repo: ml.Repo, keep: Keep, write: Callable[..., None]) -> None:
    """Edits of files that main does not touch: the rebased tree is both sides', commit by commit."""
    chance = random.Random(7)
    keep("base", {f"f{n}": "0\n" for n in range(6)})
    repo.switch("dev", create=True)
    for number in range(12):
        keep(f"c{number}", {f"f{chance.randrange(3)}": f"{number}\n", f"new{number % 4}": f"{number}"})
    trees = [files(repo, f"HEAD~{back}") for back in range(12)]
    repo.switch("main")
    keep("main", {"f4": "main\n", "f5": None})
    repo.switch("dev")
    repo.rebase("main")
    for back, tree in enumerate(trees):
        assert files(repo, f"HEAD~{back}") == {**{p: d for p, d in tree.items() if p != "f5"}, "f4": b"main\n"}
