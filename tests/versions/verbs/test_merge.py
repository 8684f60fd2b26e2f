"""merge, revert and cherry-pick as verbs: both lanes, conflicts that wait with both sides kept, nothing half done."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path

import pytest

import memlake as ml
from memlake.versions.checkout import update
from memlake.versions.history import merge_trees
from memlake.versions.verbs import merge as merge_verb
from tests.versions.conftest import Keep

Write = Callable[..., None]


def files(repo: ml.Repo, rev: str = "HEAD") -> dict[str, str]:
    return {p.removeprefix("files/"): repo.objects.read(e.oid).decode() for p, e in repo.ls(rev, "files/")}


@pytest.fixture
def clash(repo: ml.Repo, fork: dict[str, ml.Commit], keep: Keep) -> ml.Repo:
    """On main; `b` was changed differently on dev, `d` was made differently on both."""
    keep("clashing", {"b": "main\n", "d": "main\n"})
    return repo


def test_a_merge_has_two_parents_and_what_both_sides_did(repo: ml.Repo, fork: dict[str, ml.Commit], here: Path) -> None:
    merged = repo.merge("dev")
    made = repo.show("HEAD").commit
    assert made.parents == (fork["main"].oid, fork["dev"].oid) and merged.commit == made.oid
    assert made.message == "Merge branch 'dev'" and not merged.fast_forward
    assert files(repo) == {"a": "main\n", "b": "dev\n", "d": "dev\n", "m": "main\n"}
    assert (here / "b").read_text() == "dev\n" and repo.status().clean
    assert [c.path for c in merged.changes] == ["files/b", "files/d"]


def test_a_merge_is_a_fast_forward_where_it_can_be_unless_told_otherwise(
    repo: ml.Repo, fork: dict[str, ml.Commit]
) -> None:
    repo.switch("dev")
    assert repo.merge("main~1").up_to_date
    repo.switch("new", create=True, at=fork["base"].oid)
    assert repo.merge("dev").fast_forward and repo.head == fork["dev"].oid
    repo.reset(fork["base"].oid, "hard")
    assert repo.merge("dev", ff=False, message="joined").commit != fork["dev"].oid
    assert repo.show("HEAD").commit.message == "joined" and repo.show("HEAD^2").commit.oid == fork["dev"].oid
    with pytest.raises(ml.errors.Conflict, match="fast-forward"):
        repo.merge("main", only_ff=True)
    assert repo.merge("dev").up_to_date


def test_a_branch_without_commits_begins_where_the_merged_one_is(repo: ml.Repo, keep: Keep, here: Path) -> None:
    repo.switch("dev", create=True)
    tip = keep("one", {"a": "1\n"})
    repo.switch("main")
    assert not (here / "a").exists() and repo.head is None
    with pytest.raises(ml.errors.InvalidInput, match="needs two sides"):
        repo.merge("dev", ff=False)
    (here / "a").write_text("mine\n")
    with pytest.raises(ml.errors.Conflict, match="uncommitted"):
        repo.merge("dev")
    (here / "a").unlink()
    assert repo.merge("dev").fast_forward and repo.head == tip.oid and repo.status().clean
    repo.undo()
    assert repo.head is None and not (here / "a").exists() and repo.branches.current == "main"


def test_a_branch_without_commits_is_nothing_to_merge(repo: ml.Repo, keep: Keep) -> None:
    with pytest.raises(ml.errors.NotFound, match="no commits yet"):
        repo.merge("main")
    repo.switch("dev", create=True)
    keep("one", {"a": "1\n"})
    with pytest.raises(ml.errors.NotFound, match="'main' has no commits yet"):
        repo.merge("main")


def test_staged_files_come_along_from_a_branch_without_commits(repo: ml.Repo, keep: Keep, write: Write) -> None:
    repo.switch("dev", create=True)
    keep("one", {"a": "1\n"})
    repo.switch("main")
    write({"b": "staged\n"})
    repo.add("b")
    repo.switch("dev")
    assert [c.path for c in repo.status().staged] == ["files/b"] and files(repo) == {"a": "1\n"}


def marked(ours: str, theirs: str, names: tuple[str, str] = ("main", "dev")) -> str:
    return f"<<<<<<< {names[0]}\n{ours}=======\n{theirs}>>>>>>> {names[1]}\n"


def test_conflicts_wait_with_both_sides_kept_and_shown_in_the_files(clash: ml.Repo, here: Path) -> None:
    head = clash.head
    merged = clash.merge("dev")
    assert merged.commit is None and [c.path for c in merged.conflicts] == ["files/b", "files/d"]
    first = merged.conflicts[0]
    sides = [clash.objects.read(e.oid) for e in (first.base, first.ours, first.theirs) if e]
    assert sides == [b"1\n", b"main\n", b"dev\n"] and merged.conflicts[1].base is None
    status = clash.status()
    assert status.doing == "merge" and status.conflicts == merged.conflicts
    assert not status.staged and not status.unstaged and not status.untracked
    assert clash.head == head and (here / "b").read_text() == (here / "d").read_text() == marked("main\n", "dev\n")
    clash._local.db.run("DELETE FROM operation")  # as if long ago
    clash.upkeep.gc(prune=True)
    for entry in (first.theirs, first.written):
        assert entry and clash.objects.read(entry.oid)


@pytest.mark.parametrize("path", ["b", "e"])  # in conflict, and changed by them alone
def test_nothing_waits_over_uncommitted_work_in_what_it_touches(
    repo: ml.Repo, fork: dict[str, ml.Commit], keep: Keep, write: Write, path: str
) -> None:
    keep("e", {"e": "1\n"})
    repo.switch("side", create=True)
    side = keep("on side", {"b": "side\n", "e": "side\n"})
    repo.switch("main")
    keep("clashing", {"b": "main\n"})
    write({path: "dirty\n"})
    before = repo.status()
    for verb in (repo.merge, repo.cherry_pick):
        with pytest.raises(ml.errors.Conflict, match=f"overwrite uncommitted work in:\n  {path}\nNothing"):
            verb("side")
        assert repo.status() == before and before.doing is None
    repo.restore(path)
    repo.merge("side"), repo.pending_merge.choose("ours"), repo.pending_merge.conclude()
    keep("later", {"b": "later\n"})
    write({path: "dirty\n"})
    with pytest.raises(ml.errors.Conflict, match="overwrite uncommitted work"):
        repo.revert(side.oid)
    assert repo.status().doing is None
    write({path: "side\n" if path == "e" else "later\n", "m": "elsewhere\n"})
    assert repo.revert(side.oid).conflicts  # work elsewhere is not in its way


def test_each_conflict_is_chosen_apart_or_written_by_hand(clash: ml.Repo, write: Write) -> None:
    clash.merge("dev")
    assert [c.path for c in clash.pending_merge.choose("theirs", "b")] == ["files/d"]
    with pytest.raises(ml.errors.Conflict, match="still waiting"):
        clash.pending_merge.conclude()
    write({"d": "both\n"})
    clash.add("d")
    clash.pending_merge.conclude("joined")
    assert files(clash) == {"a": "main\n", "b": "dev\n", "d": "both\n", "m": "main\n"}
    assert clash.show("HEAD").commit.message == "joined" and clash.status().clean


def test_what_was_chosen_by_hand_is_there_for_undo_after_a_prune(clash: ml.Repo, write: Write) -> None:
    clash.merge("dev")
    write({"d": "by hand\n"})
    clash.add("d")
    clash.restore("d", staged=True)
    clash.pending_merge.choose("ours", "d")
    clash._local.db.run("DELETE FROM operation WHERE verb <> 'merge --ours'")  # as if long ago
    clash.upkeep.gc(prune=True)
    clash.undo()
    chosen = [c.chosen for c in clash.status().conflicts if c.chosen]
    assert [clash.objects.read(entry.oid) for entry in chosen] == [b"by hand\n"]


def test_a_choice_can_be_changed_and_a_removal_chosen(clash: ml.Repo, here: Path) -> None:
    clash.merge("dev")
    clash.pending_merge.choose("theirs")
    clash.pending_merge.choose("ours", "b")
    clash.rm("d", force=True)
    clash.pending_merge.conclude()
    assert files(clash) == {"a": "main\n", "b": "main\n", "m": "main\n"} and not (here / "d").exists()


@pytest.mark.parametrize("many", [".", "?"])
def test_a_side_for_a_folder_or_pattern_leaves_choices_already_made(clash: ml.Repo, many: str) -> None:
    clash.merge("dev")
    clash.pending_merge.choose("theirs", "b")
    assert clash.pending_merge.choose("ours", many) == ()
    assert [c.choice for c in clash.status().conflicts] == ["theirs", "ours"]
    clash.pending_merge.choose("ours", "b")
    assert [c.choice for c in clash.status().conflicts] == ["ours", "ours"]


def test_commit_concludes_a_waiting_merge_as_in_git(clash: ml.Repo) -> None:
    clash.merge("dev")
    clash.pending_merge.choose("ours")
    made = clash.commit("by commit")
    assert len(made.parents) == 2 and made.message == "by commit"


@pytest.fixture
def waiting(repo: ml.Repo, keep: Keep) -> ml.Repo:
    """A merge of dev waits: both changed `b` and `d`, dev alone changed `c`."""
    keep("base", {"b": "1\n", "c": "1\n", "d": "1\n"})
    repo.switch("dev", create=True)
    keep("on dev", {"b": "dev\n", "c": "dev\n", "d": "dev\n"})
    repo.switch("main")
    keep("on main", {"b": "main\n", "d": "main\n"})
    assert [c.path for c in repo.merge("dev").conflicts] == ["files/b", "files/d"]
    return repo


SWEEPS = [lambda repo: repo.commit("all", all=True), lambda repo: repo.add("."), lambda repo: repo.add(update=True)]


@pytest.mark.parametrize("sweep", SWEEPS)
def test_a_file_with_markers_is_not_staged_unless_forced(
    waiting: ml.Repo, write: Write, sweep: Callable[[ml.Repo], object]
) -> None:
    before = waiting.status()
    for verb in (sweep, lambda repo: repo.add("b")):
        with pytest.raises(ml.errors.Conflict, match=r"'b' still has a conflict marker in line 1\. Nothing was staged"):
            verb(waiting)
        assert waiting.status() == before
    write({"b": "one\n>>>>>>> dev\n"})
    with pytest.raises(ml.errors.Conflict, match="line 2"):
        waiting.add("b")
    waiting.add("b", force=True)
    write({"d": "<<<<<<< of another tool\n"})
    sweep(waiting)
    assert [c.choice for c in waiting.pending_merge.conflicts] in ([], ["file", "file"])
    if waiting.status().doing:
        waiting.pending_merge.conclude()
    assert files(waiting)["b"] == "one\n>>>>>>> dev\n" and files(waiting)["d"] == "<<<<<<< of another tool\n"


@pytest.mark.parametrize("sweep", SWEEPS)
@pytest.mark.parametrize(("path", "text"), [("c", "edited\n"), ("c", None), ("b", "edited\n"), ("d", None)])
def test_files_edited_while_a_merge_waits_are_taken_when_they_are_added(
    waiting: ml.Repo, write: Write, sweep: Callable[[ml.Repo], object], path: str, text: str | None
) -> None:
    waiting.pending_merge.choose("theirs", "b"), waiting.pending_merge.choose("ours", "d")
    write({path: text})
    sweep(waiting)
    if waiting.status().doing:
        waiting.pending_merge.conclude()
    chosen = {"b": "dev\n", "c": "dev\n", "d": "main\n", path: text}
    assert {p: files(waiting).get(p) for p in "bcd"} == chosen and waiting.status().clean


def test_an_edit_that_was_not_added_stays_in_the_file_and_out_of_the_merge(
    waiting: ml.Repo, write: Write, here: Path
) -> None:
    waiting.pending_merge.choose("theirs")
    write({"b": "edited\n", "c": "edited\n"})
    waiting.pending_merge.conclude()
    assert {p: files(waiting)[p] for p in "bc"} == {"b": "dev\n", "c": "dev\n"}
    assert [c.path for c in waiting.status().unstaged] == ["files/b", "files/c"]
    waiting.restore("b")
    assert (here / "b").read_text() == "dev\n"


def test_what_merged_cleanly_is_staged_and_can_be_left_out(waiting: ml.Repo, here: Path) -> None:
    assert [c.path for c in waiting.status().staged] == ["files/c"] and (here / "c").read_text() == "dev\n"
    waiting.pending_merge.choose("ours")
    waiting.restore("c", staged=True, worktree=True)
    waiting.pending_merge.conclude()
    assert files(waiting) == {"b": "main\n", "c": "1\n", "d": "main\n"} and waiting.status().clean


def test_adding_while_a_merge_waits_reads_the_file_and_nothing_else(
    waiting: ml.Repo, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The merge is not computed again, and no text that came of it is stored."""

    def never(*_: object) -> None:
        raise AssertionError("the merge was computed again")

    known = waiting.upkeep.du().details["objects"]["count"]
    write({"b": "by hand\n"})
    with monkeypatch.context() as patch:
        patch.setattr(merge_trees, "_merge", never)
        waiting.add("b")
        waiting.status()
    assert waiting.upkeep.du().details["objects"]["count"] == known + 1


@pytest.mark.parametrize("verb", ["merge", "cherry_pick", "revert"])
def test_a_merge_stores_nothing_before_it_is_sure_to_be_carried_out(
    repo: ml.Repo, keep: Keep, write: Write, verb: str
) -> None:
    lines = [f"{n}\n" for n in range(9)]
    keep("base", {"f": "".join(lines), "e": "1\n"})
    repo.switch("dev", create=True)
    theirs = keep("theirs", {"f": "".join(["theirs\n", *lines[1:]]), "e": "2\n"})
    if verb != "revert":
        repo.switch("main")
    keep("ours", {"f": "".join([*(["theirs\n"] if verb == "revert" else lines[:1]), *lines[1:-1], "ours\n"])})
    write({"e": "in the way\n"})
    known = repo.upkeep.du().details["objects"]["count"]
    with pytest.raises(ml.errors.Conflict, match="overwrite uncommitted work"):
        getattr(repo, verb)(theirs.oid)
    assert repo.upkeep.du().details["objects"]["count"] == known


def test_their_clean_hunks_are_in_a_file_that_is_resolved_by_hand(repo: ml.Repo, keep: Keep, here: Path) -> None:
    lines = [f"{n}\n" for n in range(1, 41)]
    keep("base", {"f.txt": "".join(lines)})
    repo.switch("th", create=True)
    keep("th", {"f.txt": "".join([*lines[:4], "five-th\n", *lines[5:29], "thirty-th\n", *lines[30:]])})
    repo.switch("main")
    keep("ou", {"f.txt": "".join([*lines[:4], "five-ou\n", *lines[5:]])})
    repo.merge("th", conflict="diff3")
    text = (here / "f.txt").read_text()
    clash = "<<<<<<< main\nfive-ou\n||||||| base\n5\n=======\nfive-th\n>>>>>>> th\n"
    assert clash in text and "thirty-th\n" in text
    (here / "f.txt").write_text(text.replace(clash, "five-both\n"))
    repo.add("f.txt")
    repo.pending_merge.conclude()
    assert files(repo)["f.txt"].splitlines()[29] == "thirty-th" and files(repo)["f.txt"].splitlines()[4] == "five-both"


def test_files_of_which_there_is_one_side_or_no_text_say_so_and_are_chosen(
    repo: ml.Repo, keep: Keep, here: Path
) -> None:
    keep("base", {"mine": "1\n", "theirs": "1\n", "binary": b"\0 1", "x": "1\n"})
    repo.switch("dev", create=True)
    keep("on dev", {"mine": None, "theirs": "dev\n", "binary": b"\0 dev", "x": "2\n"})
    repo.switch("main")
    keep("on main", {"mine": "main\n", "theirs": None, "binary": b"\0 main"})
    before = repo.status(), sorted(p.name for p in here.iterdir())
    merged = {c.path[6:]: c for c in repo.merge("dev").conflicts}
    assert {path: c.status for path, c in merged.items()} == {"binary": "UU", "mine": "UD", "theirs": "DU"}
    assert [(here / name).read_bytes() for name in merged] == [b"\0 main", b"main\n", b"dev\n"]
    assert not repo.status().unstaged and not repo.status().untracked
    repo.add(".")  # what nobody edited is no choice
    assert [c.choice for c in repo.pending_merge.conflicts] == [None] * 3
    repo.pending_merge.abort()
    assert (repo.status(), sorted(p.name for p in here.iterdir())) == before
    repo.merge("dev")
    repo.add("binary", "theirs")
    repo.pending_merge.choose("theirs", "mine")
    assert not (here / "mine").exists()
    repo.pending_merge.conclude()
    assert {p: e.size for p, e in repo.ls()} == {"files/binary": 6, "files/theirs": 4, "files/x": 2}
    assert repo.status().clean


def test_a_removal_of_what_we_had_deleted_is_a_choice_too(repo: ml.Repo, keep: Keep, here: Path) -> None:
    keep("base", {"f": "1\n", "k": "1\n"})
    repo.switch("dev", create=True)
    keep("on dev", {"f": "dev\n"})
    repo.switch("main")
    keep("on main", {"f": None})
    repo.merge("dev")
    repo.rm("f")
    assert not (here / "f").exists()
    repo.pending_merge.conclude()
    assert set(files(repo)) == {"k"} and repo.status().clean


@pytest.mark.parametrize("back", [lambda repo: repo.pending_merge.abort(), lambda repo: repo.undo()])
def test_giving_a_waiting_merge_up_brings_the_files_back_and_keeps_what_was_edited(
    waiting: ml.Repo, write: Write, here: Path, back: Callable[[ml.Repo], object]
) -> None:
    write({"b": "half way\n", "c": "edited, too\n", "new": "untracked\n"})
    held = waiting.status(), {name: (here / name).read_text() for name in "bcd"}
    back(waiting)
    assert [(here / name).read_text() for name in "bcd"] == ["main\n", "1\n", "main\n"]
    assert waiting.status().doing is None and waiting.status().untracked == ("new",)
    waiting._local.db.run("DELETE FROM operation WHERE id < (SELECT max(id) FROM operation)")  # as if long ago
    waiting.upkeep.gc(prune=True)
    waiting.redo() if back is not None and "undo" in waiting.operations(1)[0].verb else waiting.undo()
    assert (waiting.status(), {name: (here / name).read_text() for name in "bcd"}) == held
    write({"b": "done\n"})
    waiting.add("b")
    waiting.pending_merge.choose("ours", "d")
    waiting.pending_merge.conclude()
    assert files(waiting)["b"] == "done\n" and files(waiting)["c"] == "dev\n"
    waiting.undo(), waiting.undo(), waiting.undo()
    assert (here / "b").read_text() == "done\n" and [c.choice for c in waiting.pending_merge.conflicts] == [None, None]


def test_taking_a_side_keeps_what_was_edited_for_undo_and_markers_can_be_had_again(
    waiting: ml.Repo, write: Write, here: Path
) -> None:
    write({"b": "half way\n"})
    waiting.pending_merge.choose("theirs", "b")
    assert (here / "b").read_text() == "dev\n" and [c.path for c in waiting.status().staged] == ["files/b", "files/c"]
    waiting.undo()
    assert (here / "b").read_text() == "half way\n"
    waiting.pending_merge.choose("theirs", "b")
    waiting.pending_merge.mark("b")
    assert (here / "b").read_text() == marked("main\n", "dev\n")
    assert [c.choice for c in waiting.pending_merge.conflicts] == [None, None] and len(waiting.status().staged) == 1
    with pytest.raises(ml.errors.NotFound, match="'c' has no conflict"):
        waiting.pending_merge.mark("c")


@pytest.mark.parametrize("sweep", SWEEPS)
def test_a_file_put_back_to_our_side_is_resolved_and_a_choice_that_was_made_stays(
    clash: ml.Repo, sweep: Callable[[ml.Repo], object]
) -> None:
    clash.merge("dev")
    clash.pending_merge.choose("theirs", "b")
    clash.restore("d")
    clash._local.db.run("UPDATE file SET racy = 1")  # written so lately that it is read again
    sweep(clash)
    if clash.status().doing:
        assert [c.choice for c in clash.pending_merge.conflicts] == ["theirs", "file"]
        clash.commit("joined", all=True)
    assert (files(clash)["b"], files(clash)["d"]) == ("dev\n", "main\n")


def test_abort_forgets_the_merge_and_leaves_everything_as_it_was(clash: ml.Repo) -> None:
    before = clash.head, files(clash), clash.status()
    clash.merge("dev")
    clash.pending_merge.choose("theirs")
    clash.pending_merge.abort()
    assert (clash.head, files(clash), clash.status()) == before
    for verb in (clash.pending_merge.abort, clash.pending_merge.conclude, lambda: clash.pending_merge.choose("ours")):
        with pytest.raises(ml.errors.Nothing):
            verb()


@pytest.mark.parametrize("back", [lambda repo: repo.pending_merge.abort(), lambda repo: repo.undo()])
def test_giving_a_merge_up_leaves_files_deleted_and_made_by_hand_as_they_were(
    repo: ml.Repo, keep: Keep, write: Write, here: Path, back: Callable[[ml.Repo], object]
) -> None:
    keep("base", {"both": "1\n", "changed": "1\n", "removed": "1\n"})
    repo.switch("dev", create=True)
    keep("on dev", {"both": "dev\n", "changed": "dev\n", "removed": None, "made": "dev\n"})
    repo.switch("main")
    keep("on main", {"both": "main\n"})
    for name in ("both", "changed", "removed"):
        (here / name).unlink()
    write({"made": "dev\n"})  # what dev has, so the merge does not refuse it
    before = repo.status()
    assert [c.path for c in repo.merge("dev").conflicts] == ["files/both"]
    waiting = repo.status()
    back(repo)
    assert [path.name for path in here.iterdir() if path.is_file()] == ["made"] and repo.status() == before
    repo.redo() if repo.operations(1)[0].verb == "undo" else repo.undo()
    assert repo.status() == waiting


def test_a_conflict_does_not_wait_in_an_untracked_file_even_if_it_is_what_would_be_written(
    repo: ml.Repo, keep: Keep, write: Write, here: Path
) -> None:
    keep("base", {"f": "1\n", "k": "1\n"})
    changed = keep("changed", {"f": "2\n"})
    keep("removed", {"f": None})
    write({"f": "1\n"})
    before = repo.status()
    with pytest.raises(ml.errors.Conflict, match=r"would overwrite uncommitted work in:\n  f\n"):
        repo.revert(changed.oid)
    assert (here / "f").read_text() == "1\n" and repo.status() == before


def test_while_a_merge_waits_other_verbs_do_not_lose_track_of_it(clash: ml.Repo) -> None:
    clash.merge("dev")
    for verb in (
        lambda: clash.switch("dev"), lambda: clash.merge("dev"), lambda: clash.revert("HEAD"),
        lambda: clash.cherry_pick("dev"), clash.stash.push,
        lambda: clash.reset("HEAD~1", "soft"), lambda: clash.reset("HEAD", "soft"),
    ):  # fmt: skip
        with pytest.raises(ml.errors.Conflict, match="waiting"):
            verb()
    assert clash.status().doing == "merge"
    for bad in ("mine", "base"):
        with pytest.raises(ml.errors.InvalidInput):
            clash.pending_merge.choose(bad)
    with pytest.raises(ml.errors.NotFound, match="not in conflict"):
        clash.pending_merge.choose("ours", "a")


def test_a_merge_survives_closing_and_a_branch_that_moved_meanwhile(clash: ml.Repo, here: Path) -> None:
    clash.merge("dev")
    clash.pending_merge.choose("theirs")
    clash.close()
    again = ml.open(here)
    again.write({"files/late": b"late\n"}, "someone else")
    again.pending_merge.conclude()
    assert files(again) == {"a": "main\n", "b": "dev\n", "d": "dev\n", "m": "main\n", "late": "late\n"}
    assert again.upkeep.fsck().ok


def test_a_choice_made_for_another_content_is_asked_again(clash: ml.Repo, here: Path) -> None:
    clash.merge("dev")
    clash.pending_merge.choose("ours")
    clash.write({"files/b": b"changed meanwhile\n"}, "someone else")
    merged = clash.pending_merge.conclude()
    assert [c.path for c in merged.conflicts if c.choice is None] == ["files/b"]


def test_a_staged_file_must_be_committed_before_a_merge(clash: ml.Repo, write: Write) -> None:
    write({"a": "staged\n"})
    clash.add("a")
    for verb in (lambda: clash.merge("dev"), lambda: clash.revert("HEAD"), lambda: clash.cherry_pick("dev")):
        with pytest.raises(ml.errors.Conflict, match="empty stage"):
            verb()


def test_memories_of_both_branches_are_joined_and_their_conflicts_asked_too(
    repo: ml.Repo, fork: dict[str, ml.Commit]
) -> None:
    repo.write({"memories/bot/both": b"0"}, "m")
    repo.branches.create("side")
    repo.write({"memories/bot/side": b"1", "memories/bot/both": b"1"}, "m", branch="side")
    repo.write({"memories/bot/main": b"2", "memories/bot/both": b"2"}, "m")
    merged = repo.merge("side")
    assert [c.path for c in merged.conflicts] == ["memories/bot/both"]
    repo.pending_merge.choose("theirs", "memories/bot/both")
    repo.pending_merge.conclude()
    held = {p.rpartition("/")[2]: repo.objects.read(e.oid) for p, e in repo.ls(prefix="memories/")}
    assert held == {"both": b"1", "main": b"2", "side": b"1"}
    assert repo.head == fork["main"].oid, "nothing changed on the work lane, so it did not move"
    assert not any(path.startswith("memories/") for path, _ in repo.ls(fork["main"].oid))
    assert len(repo.show("HEAD", lane="memory").commit.parents) == 2 and repo.upkeep.fsck().ok


@pytest.fixture
def meanwhile(repo: ml.Repo, here: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """`meanwhile(path, ...)` has an agent write these memories after each time a merge compared the branches."""
    agent, refuse_clash = ml.open(here), merge_verb.refuse_clash

    def write_each_time(*paths: str) -> None:
        left = list(paths)

        def compared(*given: object) -> None:
            if left:
                agent.write({left.pop(0): b"agent"}, "m")
            refuse_clash(*given)  # type: ignore[arg-type]

        monkeypatch.setattr(merge_verb, "refuse_clash", compared)

    return write_each_time


@pytest.fixture
def parted_memories(repo: ml.Repo, fork: dict[str, ml.Commit]) -> ml.Repo:
    """`k` was changed on side, and `z` made on main."""
    repo.write({"state/bot/k": b"base"}, "m")
    repo.branches.create("side")
    repo.write({"state/bot/k": b"theirs"}, "m", branch="side")
    repo.write({"state/bot/z": b"ours"}, "m")
    return repo


def test_a_memory_written_while_a_merge_compares_is_never_overwritten_by_it(
    parted_memories: ml.Repo, meanwhile: Callable[..., None]
) -> None:
    meanwhile("state/bot/k")
    assert [c.path for c in parted_memories.merge("side").conflicts] == ["state/bot/k"]
    assert parted_memories.read("state/bot/k") == b"agent"


def test_a_memory_written_while_a_merge_compares_is_no_folder_of_one_that_comes(
    parted_memories: ml.Repo, meanwhile: Callable[..., None]
) -> None:
    parted_memories.write({"state/bot/new": b"theirs"}, "m", branch="side")
    meanwhile("state/bot/new/inner")
    assert [c.path for c in parted_memories.merge("side").conflicts] == ["state/bot/new"]
    assert parted_memories.read("state/bot/new/inner") == b"agent"


def test_agents_that_go_on_writing_other_memories_stop_no_merge(
    parted_memories: ml.Repo, meanwhile: Callable[..., None]
) -> None:
    others = [f"state/bot/other{number}" for number in range(20)]
    meanwhile(*others)
    assert not parted_memories.merge("side").conflicts
    assert parted_memories.read("state/bot/k") == b"theirs"
    assert parted_memories.read(others[0]) == b"agent" and parted_memories.upkeep.fsck().ok


def test_a_waiting_merge_is_concluded_whatever_other_memories_are_written(
    parted_memories: ml.Repo, meanwhile: Callable[..., None]
) -> None:
    parted_memories.write({"state/bot/k": b"ours"}, "m")
    assert parted_memories.merge("side").conflicts
    parted_memories.write({"state/bot/while_it_waits": b"agent"}, "m")
    parted_memories.pending_merge.choose("theirs", "state/bot/k")
    meanwhile("state/bot/while_it_ends")
    assert parted_memories.pending_merge.conclude().commit
    names = {path.rpartition("/")[2] for path, _ in parted_memories.ls(prefix="state/")}
    assert names == {"k", "z", "while_it_waits", "while_it_ends"}
    assert parted_memories.read("state/bot/k") == b"theirs"


def test_choosing_a_file_and_a_folder_of_one_name_is_refused_until_one_gives_way(
    repo: ml.Repo, keep: Keep, here: Path
) -> None:
    keep("base", {"a": "1"})
    repo.switch("dev", create=True)
    keep("dev", {"x": "a file"})
    repo.switch("main")
    keep("main", {"x/inner": "a folder"})
    met = [(c.path, c.status) for c in repo.merge("dev").conflicts]
    assert met == [("files/x", "UA"), ("files/x/inner", "AU")]
    repo.pending_merge.choose("ours", "x/inner")
    repo.pending_merge.choose("theirs", "x")
    with pytest.raises(ml.errors.Conflict, match="folder"):
        repo.pending_merge.conclude()
    assert (here / "x/inner").read_text() == "a folder"
    repo.pending_merge.choose("ours", "x")
    repo.pending_merge.conclude()
    assert set(files(repo)) == {"a", "x/inner"} and repo.status().clean


@pytest.mark.parametrize(("before", "instead"), [("x/in", "x"), ("x", "x/in")], ids=["file", "folder"])
def test_a_file_they_edited_and_we_replaced_by_another_in_its_way_waits_for_a_choice(
    repo: ml.Repo, keep: Keep, here: Path, before: str, instead: str
) -> None:
    keep("base", {before: "old\n"})
    repo.switch("dev", create=True)
    keep("dev", {before: "their edit\n"})
    repo.switch("main")
    repo.rm(here / before)
    keep("main", {instead: "something else entirely\n"})
    merged = repo.merge("dev")
    assert [(one.path, one.status) for one in merged.conflicts] == [(f"files/{before}", "DU")]
    assert (here / instead).read_text() == "something else entirely\n"
    merged.choose("ours")
    merged.conclude()
    assert files(repo) == {instead: "something else entirely\n"} and repo.status().clean


@pytest.fixture(params=[("x", "x/in"), ("x/in", "x")], ids=["file", "folder"])
def sides(request: pytest.FixtureRequest) -> tuple[str, str]:
    """What main has, and dev in its place: a file and a folder of one name."""
    return request.param


@pytest.fixture(params=[False, True], ids=["added", "edited"])
def crossed(repo: ml.Repo, keep: Keep, sides: tuple[str, str], request: pytest.FixtureRequest) -> ml.Repo:
    """A merge that waits: main added or edited its path, and dev put the other in its place."""
    ours, theirs = sides
    keep("base", {"a": "1"} | ({ours: "base"} if request.param else {}))
    repo.switch("dev", create=True)
    if request.param:
        repo.rm(ours)
    keep("dev", {theirs: "theirs"})
    repo.switch("main")
    keep("main", {ours: "ours"})
    assert {c.path for c in repo.merge("dev").conflicts} == {f"files/{ours}", f"files/{theirs}"}
    return repo


@pytest.mark.parametrize("apart", [False, True])
def test_their_side_of_a_file_against_a_folder_is_on_disk_while_the_merge_waits(
    crossed: ml.Repo, sides: tuple[str, str], here: Path, apart: bool
) -> None:
    ours, theirs = sides
    assert (here / ours).read_text() == "ours"
    for path in (f"files/{theirs}", f"files/{ours}") if apart else ("files/x",):
        crossed.pending_merge.choose("theirs", path)
    assert (here / theirs).read_text() == "theirs" and not (here / ours).is_file()
    assert not crossed.status().unstaged and not crossed.status().untracked
    crossed.pending_merge.conclude()
    assert files(crossed) == {"a": "1", theirs: "theirs"} and crossed.status().clean


def test_a_file_against_a_folder_can_be_chosen_again_undone_and_given_up(
    crossed: ml.Repo, sides: tuple[str, str], here: Path
) -> None:
    ours, theirs = sides
    crossed.pending_merge.choose("theirs")
    crossed.pending_merge.choose("ours", f"files/{ours}")
    assert (here / ours).read_text() == "ours" and not (here / theirs).is_file()
    crossed.undo()
    assert (here / theirs).read_text() == "theirs" and not (here / ours).is_file()
    crossed.pending_merge.abort()
    assert (here / ours).read_text() == "ours" and not (here / theirs).is_file() and crossed.status().clean


def test_their_side_of_a_stash_against_our_folder_takes_its_place_in_the_stage(
    repo: ml.Repo, keep: Keep, write: Write, sides: tuple[str, str], here: Path
) -> None:
    ours, theirs = sides
    keep("base", {"a": "1"})
    write({theirs: "theirs"})
    repo.add(theirs)
    repo.stash.push()
    keep("main", {ours: "ours"})
    assert repo.stash.pop().conflicts
    repo.pending_merge.choose("theirs")
    repo.pending_merge.conclude()
    assert (here / theirs).read_text() == "theirs"
    repo.commit("both cannot be")
    assert files(repo) == {"a": "1", theirs: "theirs"} and repo.status().clean


@pytest.mark.parametrize("renaming", ["main", "dev"])
def test_an_edit_follows_a_file_that_the_other_side_renamed(
    repo: ml.Repo, keep: Keep, here: Path, renaming: str
) -> None:
    keep("base", {"old/name": "text\n", "other": "x"})
    repo.branches.create("dev")
    for branch in ("dev", "main"):
        repo.switch(branch)
        if branch == renaming:
            repo.mv("old/name", "new")
            repo.commit("renamed")
        else:
            keep("edited", {"old/name": "edited\n"})
    assert not repo.merge("dev").conflicts
    assert files(repo) == {"new": "edited\n", "other": "x"}
    assert (here / "new").read_text() == "edited\n" and not (here / "old/name").exists() and repo.status().clean


def test_a_rename_is_followed_to_the_place_of_the_same_name_and_keeps_its_mode(repo: ml.Repo, keep: Keep) -> None:
    keep("base", {"a/run": "go\n"})
    repo.branches.create("dev")
    keep("edited", {"a/run": "go on\n"})
    repo.switch("dev")
    keep("renamed", {"a/run": None, "b/copy": "go\n", "z/run": "go\n"})
    (repo.root / "z/run").chmod(0o755)
    repo.commit("executable", all=True)
    repo.switch("main")
    repo.merge("dev")
    assert files(repo) == {"b/copy": "go\n", "z/run": "go on\n"}
    assert dict(repo.ls())["files/z/run"].mode == 1


@pytest.mark.parametrize("renaming", ["main", "dev"])
def test_an_edit_meets_a_file_renamed_with_an_edit_at_its_new_name(
    repo: ml.Repo, keep: Keep, here: Path, renaming: str
) -> None:
    lines = [f"line {n}\n" for n in range(12)]
    keep("base", {"old": "".join(lines)})
    repo.branches.create("dev")
    for branch in ("dev", "main"):
        repo.switch(branch)
        if branch == renaming:
            repo.mv("old", "new")
            keep("renamed and edited", {"new": "".join(["first\n", *lines[1:]])})
        else:
            keep("edited", {"old": "".join([*lines[:-1], "last\n"])})
    assert not repo.merge("dev").conflicts
    assert files(repo) == {"new": "".join(["first\n", *lines[1:-1], "last\n"])} and repo.status().clean
    assert not (here / "old").exists()


@pytest.mark.parametrize("side", ["ours", "theirs", "abort"])
@pytest.mark.parametrize("renaming", ["main", "dev"])
def test_a_clash_with_a_renamed_file_waits_at_its_new_name_and_no_side_is_lost(
    repo: ml.Repo, keep: Keep, here: Path, renaming: str, side: str
) -> None:
    lines = [f"line {n}\n" for n in range(12)]
    keep("base", {"old": "".join(lines)})
    repo.branches.create("dev")
    for branch in ("dev", "main"):
        repo.switch(branch)
        if branch == renaming:
            repo.mv("old", "new")
        keep(branch, {"new" if branch == renaming else "old": "".join([f"{branch}\n", *lines[1:]])})
    before = files(repo), repo.status()
    assert [(c.path, c.status) for c in repo.merge("dev").conflicts] == [("files/new", "UU")]
    assert (here / "new").read_text() == marked("main\n", "dev\n") + "".join(lines[1:])
    assert not (here / "old").exists()
    if side == "abort":
        repo.pending_merge.abort()
        assert (files(repo), repo.status()) == before and {p.name for p in here.iterdir()} == {".memlake", *before[0]}
        return
    repo.pending_merge.choose(side)
    repo.pending_merge.conclude()
    chosen = {"ours": "main", "theirs": "dev"}[side]
    assert files(repo) == {"new": "".join([f"{chosen}\n", *lines[1:]])} and repo.status().clean


@pytest.mark.parametrize("in_the_way", [{"new": "changed\n"}, {}])
def test_a_rename_that_cannot_be_followed_is_a_conflict_of_the_old_name(
    repo: ml.Repo, keep: Keep, in_the_way: dict[str, str]
) -> None:
    """Changed while it was renamed, or renamed to where the other side made a file too."""
    keep("base", {"old": "text\n"})
    repo.branches.create("dev")
    keep("edited", {"old": "edited\n", **({} if in_the_way else {"new": "ours\n"})})
    repo.switch("dev")
    keep("renamed", {"old": None, "new": "text\n", **in_the_way})
    repo.switch("main")
    found = {c.path: c.status for c in repo.merge("dev").conflicts}
    assert found == {"files/old": "UD"} | ({} if in_the_way else {"files/new": "AA"})


# -- revert and cherry-pick -----------------------------------------------------------------------


def test_revert_is_a_commit_that_takes_back_what_one_did(repo: ml.Repo, keep: Keep, here: Path) -> None:
    keep("one", {"a": "1"})
    bad = keep("bad", {"a": "2", "junk": "x"})
    keep("more", {"b": "1"})
    repo.revert(bad.oid)
    assert files(repo) == {"a": "1", "b": "1"} and not (here / "junk").exists()
    assert repo.show("HEAD").commit.message == f'Revert "bad"\n\nThis reverts commit {bad.oid}.'
    with pytest.raises(ml.errors.Nothing, match="done already"):
        repo.revert(bad.oid)
    repo.revert("HEAD")
    assert files(repo) == {"a": "2", "b": "1", "junk": "x"}


def test_revert_without_commit_only_stages(repo: ml.Repo, keep: Keep, here: Path) -> None:
    keep("one", {"a": "1"})
    head = keep("two", {"a": "2", "new": "x"}).oid
    repo.revert("HEAD", no_commit=True)
    assert repo.head == head and (here / "a").read_text() == "1" and not (here / "new").exists()
    assert [(c.status, c.path) for c in repo.status().staged] == [("M", "files/a"), ("D", "files/new")]
    repo.commit("by hand")
    assert files(repo) == {"a": "1"}


def test_the_first_commit_can_be_reverted_too(repo: ml.Repo, keep: Keep, here: Path) -> None:
    keep("one", {"a": "1"})
    repo.revert("HEAD")
    assert files(repo) == {} and not (here / "a").exists()


def test_a_revert_that_meets_later_changes_waits(repo: ml.Repo, keep: Keep) -> None:
    keep("one", {"a": "1"})
    bad = keep("bad", {"a": "2"})
    keep("later", {"a": "3"})
    assert [c.path for c in repo.revert(bad.oid).conflicts] == ["files/a"]
    assert repo.status().doing == "revert"
    repo.pending_merge.choose("theirs")
    repo.pending_merge.conclude()
    assert files(repo) == {"a": "1"} and repo.show("HEAD").commit.parents == (repo.show("HEAD~1").commit.oid,)


def test_cherry_pick_brings_one_commit_and_only_that(repo: ml.Repo, fork: dict[str, ml.Commit], keep: Keep) -> None:
    repo.switch("dev")
    picked = keep("pick me", {"e": "dev\n"})
    repo.switch("main")
    repo.cherry_pick(picked.oid)
    assert files(repo) == {"a": "main\n", "b": "1\n", "m": "main\n", "e": "dev\n"}
    made = repo.show("HEAD").commit
    assert made.message == "pick me" and made.parents == (fork["main"].oid,)


def test_revert_of_a_merge_takes_back_what_it_brought(repo: ml.Repo, fork: dict[str, ml.Commit]) -> None:
    before = files(repo)
    merge = repo.merge("dev").commit
    repo.revert("HEAD", mainline=1)
    assert files(repo) == before
    said = f"This reverts commit {merge}, reversing\nchanges made to {fork['main'].oid}."
    assert repo.show("HEAD").commit.message == f"Revert \"Merge branch 'dev'\"\n\n{said}"
    repo.undo()
    repo.revert("HEAD", mainline=2)
    assert files(repo) == files(repo, "dev")


def test_a_merge_is_reverted_or_picked_against_a_parent_that_is_named(
    repo: ml.Repo, fork: dict[str, ml.Commit]
) -> None:
    merge = repo.merge("dev").commit
    for verb in (repo.revert, repo.cherry_pick):
        with pytest.raises(ml.errors.InvalidInput, match="is a merge: say against which parent") as caught:
            verb("HEAD")
        assert f"-m 2  against {fork['dev'].oid[:10]}" in str(caught.value) and "-m 1" in caught.value.hint
        for number in (0, 3):
            with pytest.raises(ml.errors.InvalidInput, match=f"no parent {number}"):
                verb("HEAD", mainline=number)
    repo.switch("other", create=True, at=fork["base"].oid)
    repo.cherry_pick(str(merge), mainline=1)
    assert files(repo) == {"a": "1\n", "b": "dev\n", "d": "dev\n"} and len(repo.show("HEAD").commit.parents) == 1


def test_reverts_and_picks_without_commit_gather_in_the_stage(
    repo: ml.Repo, fork: dict[str, ml.Commit], keep: Keep, write: Write, here: Path
) -> None:
    repo.switch("dev")
    more = keep("more", {"b": "dev\nmore\n"})
    repo.switch("main")
    write({"m": "staged\n"})
    repo.add("m")
    repo.cherry_pick(fork["dev"].oid, no_commit=True)
    repo.cherry_pick(more.oid, no_commit=True)
    assert repo.head == fork["main"].oid and (here / "b").read_text() == "dev\nmore\n"
    assert [(c.status, c.path) for c in repo.status().staged] == [("M", "files/b"), ("A", "files/d"), ("M", "files/m")]
    repo.revert(more.oid, no_commit=True)
    assert (here / "b").read_text() == "dev\n" and not repo.status().unstaged
    with pytest.raises(ml.errors.Nothing, match="done already"):
        repo.revert(more.oid, no_commit=True)
    for _ in range(3):
        repo.undo()
    assert [c.path for c in repo.status().staged] == ["files/m"] and (here / "b").read_text() == "1\n"


def test_a_pick_without_commit_that_meets_other_changes_waits_and_ends_in_the_stage(
    clash: ml.Repo, write: Write, here: Path
) -> None:
    head = clash.head
    assert [c.path for c in clash.cherry_pick("dev", no_commit=True).conflicts] == ["files/b", "files/d"]
    write({"b": "both\n"})
    clash.add("b")
    clash.pending_merge.choose("theirs", "d")
    with pytest.raises(ml.errors.Conflict, match="waiting"):
        clash.commit("too early")
    assert clash.pending_merge.conclude().commit is None and clash.head == head
    assert (here / "b").read_text() == "both\n" and (here / "d").read_text() == "dev\n"
    assert [c.path for c in clash.status().staged] == ["files/b", "files/d"] and clash.status().doing is None


def test_a_pick_names_where_it_comes_from_when_asked(repo: ml.Repo, fork: dict[str, ml.Commit], keep: Keep) -> None:
    repo.switch("dev")
    signed = keep("signed\n\nwhy: not a trailer's paragraph\nbut text\n\nSigned-off-by: Ada", {"e": "1"})
    repo.switch("main")
    for source, gap in ((fork["dev"], "\n\n"), (signed, "\n")):
        repo.cherry_pick(source.oid, cite=True)
        assert repo.show("HEAD").commit.message == f"{source.message}{gap}(cherry picked from commit {source.oid})"


def test_a_side_chosen_after_a_file_was_added_by_hand_is_the_side_that_counts(clash: ml.Repo, write: Write) -> None:
    clash.merge("dev")
    write({"b": "by hand\n"})
    clash.add("b")
    clash.pending_merge.choose("ours")
    clash.pending_merge.conclude()
    assert files(clash)["b"] == "main\n" and clash.read("b", None) == b"main\n" and clash.upkeep.fsck().ok
    clash.undo(), clash.undo()
    assert clash.read("b", None) == b"by hand\n"


def test_a_commit_of_the_memory_lane_is_not_reverted_or_picked(repo: ml.Repo, keep: Keep) -> None:
    keep("one", {"a": "1"})
    memory = repo.write({"memories/bot/1": b"x"}, "m")
    for verb in (repo.revert, repo.cherry_pick, lambda oid: repo.reset(oid, "hard")):
        with pytest.raises(ml.errors.InvalidInput, match="memory lane"):
            verb(memory.oid)


# -- stash ----------------------------------------------------------------------------------------


def test_stash_puts_work_aside_and_pop_brings_it_back(repo: ml.Repo, keep: Keep, write: Write, here: Path) -> None:
    keep("one", {"a": "1", "b": "1", "c": "1"})
    write({"a": "2", "new": "n", "untracked": "u", "c": None})
    repo.add("new")
    shelf = repo.stash.push("later")
    assert repo.status().untracked == ("untracked",) and not repo.status().staged and not repo.status().unstaged
    assert (here / "a").read_text() == "1" and not (here / "new").exists() and (here / "c").read_text() == "1"
    assert repo.stash.entries() == [shelf] and shelf.message == "later"
    repo.stash.pop()
    assert (here / "a").read_text() == "2" and (here / "new").read_text() == "n" and not (here / "c").exists()
    assert [c.path for c in repo.status().staged] == ["files/new"] and repo.stash.entries() == []


def test_stash_takes_untracked_files_when_asked_and_gives_them_back_untracked(
    repo: ml.Repo, keep: Keep, write: Write, here: Path
) -> None:
    keep("one", {"a": "1", ".memlakeignore": "*.log\n"})
    write({"dir/u": "u", "v": "v", "x.log": "ignored"})
    repo.stash.push(include_untracked=True)
    assert not (here / "dir").exists() and (here / "x.log").exists()
    repo.stash.pop()
    assert repo.status().untracked == ("dir/", "v") and (here / "dir/u").read_text() == "u"


def test_a_stash_is_applied_twice_dropped_and_not_on_top_of_other_work(
    repo: ml.Repo, keep: Keep, write: Write, here: Path
) -> None:
    keep("one", {"a": "1"})
    write({"a": "2"})
    repo.stash.push()
    repo.stash.apply()
    repo.restore("a")
    write({"a": "other work"})
    with pytest.raises(ml.errors.Conflict):
        repo.stash.pop()
    assert (here / "a").read_text() == "other work" and len(repo.stash.entries()) == 1
    repo.stash.drop()
    assert repo.stash.entries() == []
    with pytest.raises(ml.errors.NotFound):
        repo.stash.pop()


def test_a_dropped_stash_can_be_found_again(repo: ml.Repo, keep: Keep, write: Write) -> None:
    keep("one", {"a": "1"})
    write({"a": "precious"})
    oid = repo.stash.push().oid
    repo.stash.drop()
    repo.upkeep.gc(prune=True)
    assert repo.read("a", oid) == b"precious"


def test_there_is_nothing_to_stash_in_a_clean_or_empty_repo(repo: ml.Repo, keep: Keep) -> None:
    with pytest.raises(ml.errors.Nothing):
        repo.stash.push()
    keep("one", {"a": "1"})
    with pytest.raises(ml.errors.Nothing):
        repo.stash.push()


@pytest.mark.parametrize(("old", "new"), [("c/z", "c"), ("c", "c/z")])
def test_a_stashed_file_comes_back_in_the_place_of_a_folder_and_a_folder_in_that_of_a_file(
    repo: ml.Repo, keep: Keep, write: Write, old: str, new: str
) -> None:
    keep("one", {"a": "1", old: "old"})
    repo.rm(old)
    write({new: "new"})
    repo.add(new)
    repo.stash.push()
    repo.stash.pop()
    status = repo.status()
    assert {(c.status, c.path) for c in status.staged} == {("D", f"files/{old}"), ("A", f"files/{new}")}
    assert not status.unstaged and not status.untracked
    repo.commit("two")
    assert [path for path, _ in repo.ls("HEAD")] == ["files/a", f"files/{new}"]
    repo.undo()
    repo.undo()
    assert repo.status().clean and len(repo.stash.entries()) == 1 and repo.read(old) == b"old"


@pytest.mark.parametrize("content", ["stashed", "other"])
def test_a_stash_does_not_wait_over_an_untracked_file_in_the_place_of_its_conflict(
    repo: ml.Repo, keep: Keep, write: Write, here: Path, content: str
) -> None:
    keep("one", {"a": "1", "b": "1"})
    write({"a": "stashed"})
    repo.stash.push()
    repo.rm("a")
    write({"a": content})
    before = repo.status()
    with pytest.raises(ml.errors.Conflict, match="uncommitted work in:\n  a\n"):
        repo.stash.pop()
    assert repo.status() == before and (here / "a").read_text() == content and len(repo.stash.entries()) == 1
    write({"a": None})
    assert [(c.path, c.status) for c in repo.stash.pop().conflicts] == [("files/a", "DU")]


LINES = [f"{n}\n" for n in range(9)]


@pytest.fixture
def moved_on(repo: ml.Repo, keep: Keep, write: Write) -> ml.Repo:
    """A stash that changed the first line of `a`, put `new` in the stage and removed `gone`; HEAD changed the last."""
    keep("one", {"a": "".join(LINES), "b": "1\n", "gone": "1\n"})
    write({"a": "".join(["stashed\n", *LINES[1:]]), "new": "n\n", "gone": None})
    repo.add("new")
    repo.stash.push("shelf")
    keep("two", {"a": "".join([*LINES[:-1], "moved on\n"]), "b": "2\n"})
    return repo


def test_a_stash_is_joined_with_what_was_committed_since(moved_on: ml.Repo, here: Path) -> None:
    moved_on.stash.apply()
    assert len(moved_on.stash.entries()) == 1
    moved_on.undo()
    assert moved_on.status().clean
    assert not moved_on.stash.pop().conflicts and moved_on.stash.entries() == []
    assert (here / "a").read_text() == "".join(["stashed\n", *LINES[1:-1], "moved on\n"])
    assert (here / "b").read_text() == "2\n" and not (here / "gone").exists()
    status = moved_on.status()
    assert [(c.status, c.path) for c in status.staged] == [("A", "files/new")]
    assert [(c.status, c.path) for c in status.unstaged] == [("M", "files/a"), ("D", "files/gone")]


def test_a_stash_that_meets_other_changes_waits_with_both_sides_and_is_kept(
    moved_on: ml.Repo, keep: Keep, write: Write, here: Path
) -> None:
    keep("three", {"a": "other\n", "gone": "2\n"})
    before = moved_on.status()
    merged = moved_on.stash.pop()
    assert [(c.path, c.status) for c in merged.conflicts] == [("files/a", "UU"), ("files/gone", "UD")]
    both = marked("other\n", "".join(["stashed\n", *LINES[1:]]), ("files as they were", "stash"))
    assert (here / "a").read_text() == both and (here / "new").exists() and len(moved_on.stash.entries()) == 1
    assert moved_on.status().doing == "stash apply"
    for verb in (lambda: moved_on.commit("x"), moved_on.stash.pop, lambda: moved_on.switch("main")):
        with pytest.raises(ml.errors.Conflict, match="waiting"):
            verb()
    moved_on.pending_merge.abort()
    assert moved_on.status() == before
    moved_on.stash.pop()
    write({"a": "by hand\n"})
    moved_on.add("a")
    moved_on.pending_merge.choose("theirs", "gone")
    moved_on.pending_merge.conclude()
    assert (here / "a").read_text() == "by hand\n" and (here / "new").exists() and not (here / "gone").exists()
    assert moved_on.status().doing is None and len(moved_on.stash.entries()) == 1
    assert moved_on.show("HEAD").commit.subject == "three"


def test_a_stash_gives_the_stage_back_when_asked(
    repo: ml.Repo, keep: Keep, write: Write, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What is written must not be taken for what is staged.
    monkeypatch.setattr(update, "is_packed_racy", lambda *_: False)
    keep("one", {"a": "1\n", "b": "1\n"})
    write({"a": "2\n", "b": "2\n"})
    repo.add("a", "b")
    write({"a": "3\n"})
    repo.rm("b", force=True)
    before = repo.status()
    repo.stash.push()
    repo.upkeep.gc(prune=True)
    repo.stash.apply()
    assert repo.status().staged == () and len(repo.status().unstaged) == 2
    repo.undo()
    keep("elsewhere", {"c": "1\n"})
    repo.stash.pop(staged=True)
    after = repo.status()
    assert (after.staged, after.unstaged) == (before.staged, before.unstaged) and (here / "a").read_text() == "3\n"
    repo.undo()
    assert repo.status().clean
    repo.redo()
    assert (repo.status().staged, repo.status().unstaged) == (before.staged, before.unstaged)


def test_a_stage_that_cannot_be_given_back_changes_nothing(repo: ml.Repo, keep: Keep, write: Write) -> None:
    keep("one", {"a": "1\n"})
    write({"a": "2\n"})
    repo.add("a")
    write({"a": "3\n"})
    repo.stash.push()
    keep("two", {"a": "3\n"})
    with pytest.raises(ml.errors.Conflict, match="had staged meets"):
        repo.stash.pop(staged=True)
    assert repo.status().clean and len(repo.stash.entries()) == 1


def test_only_some_paths_are_put_aside(repo: ml.Repo, keep: Keep, write: Write, here: Path) -> None:
    keep("one", {"a": "1", "d/b": "1", "d/c": "1"})
    write({"a": "2", "d/b": "2", "d/c": "2", "d/u": "u", "v": "v"})
    repo.add("a", "d/b")
    repo.stash.push(paths=["d"], include_untracked=True)
    assert [c.path for c in repo.status().staged] == ["files/a"] and repo.status().untracked == ("v",)
    assert (here / "d/b").read_text() == "1" and not (here / "d/u").exists() and (here / "a").read_text() == "2"
    repo.stash.pop(staged=True)
    assert [c.path for c in repo.status().staged] == ["files/a", "files/d/b"]
    assert set(repo.status().untracked) == {"d/u", "v"}
    with pytest.raises(ml.errors.NotFound, match="nope"):
        repo.stash.push(paths=["nope"])
    repo.commit("all", all=True)
    with pytest.raises(ml.errors.Nothing):
        repo.stash.push(paths=["a"])


@pytest.mark.parametrize("meets", [False, True], ids=["plain", "changed since"])
@pytest.mark.parametrize("staged", [False, True], ids=["files", "index"])
def test_a_stash_gives_back_what_was_not_purged_and_is_kept(
    repo: ml.Repo, keep: Keep, write: Write, here: Path, staged: bool, meets: bool
) -> None:
    keep("one", {"secret": "a\nb\nc\n", "other": "1"})
    write({"secret": "a\nb\nc\nkey\n", "other": "2"})
    repo.add(all=True)
    repo.stash.push()
    if meets:
        keep("two", {"secret": "more\na\nb\nc\n"})
    held = (here / "secret").read_text()
    repo.upkeep.purge(repo.objects.at("secret", "stash@{0}").oid, reason="leak")
    with pytest.warns(UserWarning, match="^not applied.* was purged:\n  secret\nThe stash is kept"):
        merged = repo.stash.pop(staged=staged)
    assert merged.lost == ("files/secret",) and [change.path for change in merged.changes] == ["files/other"]
    assert (here / "secret").read_text() == held and (here / "other").read_text() == "2"
    assert [change.path for change in repo.status().staged] == (["files/other"] if staged else [])
    assert len(repo.stash.entries()) == 1


def test_a_stash_of_which_all_was_purged_is_refused_and_kept(
    repo: ml.Repo, keep: Keep, write: Write, here: Path
) -> None:
    keep("one", {"secret": "1"})
    write({"secret": "22"})
    repo.stash.push()
    repo.upkeep.purge(repo.objects.at("secret", "stash@{0}").oid, reason="leak")
    with pytest.raises(ml.errors.Purged, match=r"all that stash@\{0\} holds was purged.*Nothing was changed"):
        repo.stash.pop()
    assert (here / "secret").read_text() == "1" and len(repo.stash.entries()) == 1 and repo.status().clean


def test_every_stash_is_forgotten_at_once_and_undo_brings_them_back(repo: ml.Repo, keep: Keep, write: Write) -> None:
    keep("one", {"a": "1"})
    for number in "23":
        write({"a": number})
        repo.stash.push(number)
    kept = repo.stash.entries()
    assert repo.stash.clear() == kept and repo.stash.entries() == [] and repo.stash.clear() == []
    repo.undo()
    assert repo.stash.entries() == kept


def test_attributes_that_are_not_committed_are_told_once_and_do_not_count(tmp_path: Path) -> None:
    with ml.init(tmp_path) as repo:
        for name in "ab":
            (tmp_path / f"{name}.txt").write_text("old\n")
        repo.add(["."])
        repo.commit("one")
        repo.branches.create("dev")
        for branch in ("main", "dev"):
            repo.switch(branch)
            for name in "ab":
                (tmp_path / f"{name}.txt").write_text(f"{branch}\n")
            repo.commit(branch, all=True)
        repo.switch("main")
        (tmp_path / ".memlakeattributes").write_text("*.txt merge=theirs\n")
        with pytest.warns(UserWarning, match="in the working folder is not committed") as told:
            waiting = repo.merge("dev")
        assert len(waiting.conflicts) == 2 and len(told) == 1
        repo.pending_merge.abort()
        repo.add([".memlakeattributes"])
        repo.commit("how to merge")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert not repo.merge("dev").conflicts
        assert (tmp_path / "a.txt").read_text() == "dev\n"


@pytest.mark.parametrize("gone", ["base", "ours", "theirs"])
def test_an_edit_of_both_sides_waits_if_what_one_of_three_held_was_purged(
    repo: ml.Repo, keep: Keep, here: Path, gone: str
) -> None:
    texts = {"base": "1\n2\n3\n", "ours": "one\n2\n3\n", "theirs": "1\n2\nthree\n"}
    keep("base", {"both": texts["base"]})
    repo.switch("dev", create=True)
    keep("theirs", {"both": texts["theirs"]})
    repo.switch("main")
    keep("ours", {"both": texts["ours"]})
    rev = {"base": "HEAD~1", "ours": "HEAD", "theirs": "dev"}[gone]
    repo.upkeep.purge(repo.objects.at("both", rev).oid, reason="leaked")
    merged = repo.merge("dev")
    assert [one.path for one in merged.conflicts] == ["files/both"]
    merged.choose("ours" if gone == "theirs" else "theirs", "both")
    merged.conclude("Joined")
    assert (here / "both").read_text() == texts["ours" if gone == "theirs" else "theirs"]
