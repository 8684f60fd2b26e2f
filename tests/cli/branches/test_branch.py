"""branch, switch, checkout, tag, diff, merge, revert, cherry-pick, reset, stash on real repos."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Run, Write

Keep = Callable[..., str]


# -- branch


def test_branches_are_listed_with_a_star_at_the_current_one(run: Run, story: dict[str, str]) -> None:
    assert run("branch", "dev").out == ""
    assert run("branch").lines == ["  dev", "* main"]
    assert run("branch", "-a").lines == ["  dev", "* main"]
    assert run("branch", "-v").lines == [f"  dev  {story['two'][:10]} second", f"* main {story['two'][:10]} second"]
    assert run("branch", "--show-current").out == "main\n"
    found = run("branch", "--json").json
    assert found["current"] == "main" and [branch["name"] for branch in found["branches"]] == ["dev", "main"]


def test_a_branch_starts_where_it_is_told(run: Run, story: dict[str, str]) -> None:
    run("branch", "old", "HEAD~1")
    assert f"old  {story['one'][:10]} first" in run("branch", "-v").out
    assert "Did you mean 'main'" in run("branch", "x", "mian", code=128).err
    assert run("branch", "old", code=128).err.startswith("fatal: ")
    assert run("branch", "bad..name", code=128).err.startswith("fatal: ")


def test_branches_are_deleted_and_renamed(run: Run, story: dict[str, str], keep: Keep) -> None:
    run("branch", "dev")
    assert run("branch", "-d", "dev").out == f"Deleted branch dev (was {story['two'][:10]}).\n"
    run("switch", "-c", "side")
    keep("only here", s="1")
    run("switch", "main")
    assert run("branch", "-d", "side", code=None).code != 0
    run("branch", "-D", "side")
    assert "Did you mean" in run("branch", "-d", "mai", code=1).err
    run("branch", "-m", "trunk")
    assert run("branch").lines == ["* trunk"]
    run("branch", "other")
    run("branch", "-m", "other", "third")
    assert run("branch").lines == ["  third", "* trunk"]
    assert run("branch", "-d", code=2).err.startswith("error: ")
    assert run("branch", "-d", "trunk", code=None).code != 0


# -- switch and checkout


def test_switch_goes_to_a_branch_and_back(run: Run, story: dict[str, str], repo: Path, keep: Keep) -> None:
    assert run("switch", "-c", "dev").err == "Switched to a new branch 'dev'\n"
    keep("on dev", a="dev\n")
    assert run("switch", "main").err == "Switched to branch 'main'\n"
    assert (repo / "a").read_text() == "one\ntwo\n"
    assert run("switch", "-").err == "Switched to branch 'dev'\n"
    assert run("switch", "dev").err == "Already on 'dev'\n"
    assert run("switch", "-q", "main").err == ""


def test_switch_to_an_unknown_branch_suggests_one(run: Run, story: dict[str, str]) -> None:
    ran = run("switch", "mian", code=128)
    assert ran.err.startswith("fatal: ") and "Did you mean 'main'?" in ran.err


def test_switch_refuses_to_lose_changes_unless_told(run: Run, story: dict[str, str], repo: Path, write: Write) -> None:
    run("branch", "old", "HEAD~1")
    write("a", "precious\n")
    ran = run("switch", "old", code=1)
    assert ran.err.startswith("error: ") and "a" in ran.err and (repo / "a").read_text() == "precious\n"
    run("switch", "-f", "old")
    assert (repo / "a").read_text() == "one\n"


def test_switch_creates_at_a_start_and_detaches(run: Run, story: dict[str, str]) -> None:
    run("switch", "-c", "old", "HEAD~1")
    assert run("log", "--oneline").lines[0].endswith("first")
    assert run("switch", "--detach", "main").err == f"HEAD is now at {story['two'][:10]} second\n"
    assert run("status").lines[0] == f"HEAD detached at {story['two'][:10]}"
    assert run("branch").lines[0] == f"* (HEAD detached at {story['two'][:10]})"
    run("switch", "main", "HEAD~1", code=2)


def test_checkout_goes_to_a_branch_or_with_advice_to_a_commit(run: Run, story: dict[str, str]) -> None:
    assert run("checkout", "-b", "dev").err == "Switched to a new branch 'dev'\n"
    assert run("checkout", "main").err == "Switched to branch 'main'\n"
    ran = run("checkout", "HEAD~1")
    assert "detached HEAD" in ran.err and "memlake switch -c" in ran.err
    assert ran.err.endswith(f"HEAD is now at {story['one'][:10]} first\n")
    run("checkout", "-")
    assert run("status").lines[0] == "On branch main"
    run("checkout", "-b", "old", "HEAD~1")
    assert run("log", "--oneline").lines[0].endswith("first")


def test_checkout_brings_files_back(run: Run, story: dict[str, str], repo: Path, write: Write) -> None:
    assert run("checkout", "HEAD~1", "--", "a").err == f"Updated 1 path from {story['one'][:10]}\n"
    assert (repo / "a").read_text() == "one\n" and run("status", "--porcelain").lines == ["M  a"]
    write("a", "broken\n")
    assert run("checkout", "--", "a").err == "Updated 1 path from the stage\n"
    assert (repo / "a").read_text() == "one\n"
    write("a", "broken\n")
    run("checkout", "a")
    assert (repo / "a").read_text() == "one\n"


def test_checkout_of_an_unknown_word_suggests_a_branch(run: Run, story: dict[str, str]) -> None:
    assert "Did you mean 'main'?" in run("checkout", "mian", code=1).err
    assert run("checkout", code=2).err.startswith("error: ")


# -- tag


def test_tags_are_made_listed_moved_and_deleted(run: Run, story: dict[str, str]) -> None:
    run("tag", "v1", "HEAD~1")
    run("tag", "-a", "v2", "-m", "second release")
    assert run("tag").lines == ["v1", "v2"] and run("tag", "-l", "*2").lines == ["v2"]
    assert run("tag", "-n").lines[1] == "v2              second release"
    assert run("log", "--oneline", "v1").lines == [f"{story['one'][:10]} first"]
    assert run("tag", "v1", code=128).err.startswith("fatal: ")
    run("tag", "-f", "v1")
    assert run("log", "-1", "--oneline", "v1").lines[0].endswith("second")
    found = run("tag", "--json").json["tags"]
    assert [tag["name"] for tag in found] == ["v1", "v2"] and found[1]["message"] == "second release"
    assert run("tag", "-d", "v1").out == f"Deleted tag 'v1' (was {story['two'][:10]}).\n"
    assert "Did you mean 'v2'" in run("tag", "-d", "v22", code=1).err


# -- diff


def test_diff_compares_files_stage_and_commits(run: Run, story: dict[str, str], write: Write) -> None:
    assert run("diff").out == ""
    write("a", "one\n2\n")
    assert run("diff").lines[-4:] == ["@@ -1,2 +1,2 @@", " one", "-two", "+2"]
    assert run("diff", "--cached").out == ""
    run("add", "a")
    assert run("diff").out == "" and "+2" in run("diff", "--staged").lines and "+2" in run("diff", "HEAD").lines
    assert "+two" in run("diff", "HEAD~1..HEAD").lines and "+two" in run("diff", "HEAD~1", "HEAD").lines
    assert "-two" in run("diff", "HEAD", "HEAD~1").lines


def test_diff_in_other_forms(run: Run, story: dict[str, str], keep: Keep) -> None:
    run("mv", "data/b", "moved")
    run("commit", "-m", "moved")
    assert run("diff", "--name-status", "HEAD~2..HEAD").lines == ["M\ta", "R100\tdata/b\tmoved"]
    assert run("diff", "--name-only", "HEAD~2..HEAD").lines == ["a", "moved"]
    assert run("diff", "--stat", "HEAD~2..HEAD").lines == [
        " a               | 1 +",
        " data/b => moved | 0",
        " 2 files changed, 1 insertion(+)",
    ]
    found = run("diff", "--json", "HEAD~2", "HEAD").json
    assert [(change["status"], change["path"]) for change in found["changes"]] == [
        ("M", "files/a"),
        ("R", "files/moved"),
    ]
    assert run("diff", "--name-only", "HEAD~2..HEAD", "--", "a").lines == ["a"]


def test_diff_tells_by_its_exit_code_when_asked(run: Run, story: dict[str, str]) -> None:
    assert run("diff", "HEAD~1..HEAD").code == 0
    assert run("diff", "--exit-code", "HEAD~1..HEAD", code=1).out != ""
    assert run("diff", "--quiet", "HEAD~1..HEAD", code=1).out == ""
    assert run("diff", "--exit-code", "HEAD..HEAD").out == ""


def test_three_dots_compare_with_where_the_branches_parted(run: Run, story: dict[str, str], keep: Keep) -> None:
    run("switch", "-c", "side")
    keep("on side", s="1\n")
    run("switch", "main")
    keep("on main", m="2\n")
    assert run("diff", "--name-status", "main...side").lines == ["A\ts"]
    assert run("diff", "--name-status", "main..side").lines == ["D\tm", "A\ts"]


def test_binary_files_are_shown_by_size(run: Run, story: dict[str, str], write: Write) -> None:
    write("m.bin", b"\0\1\2" * 100)
    run("add", "m.bin")
    assert run("diff", "--cached").lines[-1].startswith("Binary file m.bin: nothing -> 300 B (")


def test_git_applies_what_diff_prints(run: Run, story: dict[str, str], repo: Path, write: Write, keep: Keep) -> None:
    keep("more", run__me="#!/bin/sh\n", gone="bye\n", kind="file\n", last="no newline", odd="a\rb\x0cc\n")
    other = repo.parent / "other"
    shutil.copytree(repo, other, ignore=shutil.ignore_patterns(".memlake"))
    write("a", "one\n1.5\ntwo\n")
    write("new/größe", "new\n")
    write("last", "no newline\nat all")
    write("odd", "a\rb\x0cd\n")
    (repo / "gone").unlink()
    (repo / "run" / "me").chmod(0o755)
    (repo / "kind").unlink()
    (repo / "kind").symlink_to("a")
    run("mv", "data/b", "moved")
    run("add", "-A")
    subprocess.run(["git", "apply", "-"], input=run("diff", "--cached").out.encode(), cwd=other, check=True)
    for path in sorted(path for path in repo.rglob("*") if path.is_file() and ".memlake" not in path.parts):
        there = other / path.relative_to(repo)
        assert there.read_bytes() == path.read_bytes() and there.is_symlink() == path.is_symlink()
        assert there.stat().st_mode & 0o100 == path.stat().st_mode & 0o100
    assert not (other / "gone").exists() and not (other / "data" / "b").exists()


def test_diff_refuses_too_many_revisions(run: Run, story: dict[str, str]) -> None:
    run("diff", "HEAD", "HEAD", "HEAD", code=2)
    run("diff", "HEAD..HEAD", "HEAD", code=2)
    run("diff", "nowhere", code=128)


# -- merge


@pytest.fixture
def fork(run: Run, story: dict[str, str], keep: Keep) -> None:
    """`side` and `main` both changed `a`, differently; each added a file of its own."""
    run("switch", "-c", "side")
    keep("on side", a="side\n", s="1")
    run("switch", "main")
    keep("on main", a="main\n", m="1")


def test_a_merge_fast_forwards(run: Run, story: dict[str, str], keep: Keep) -> None:
    run("switch", "-c", "side")
    tip = keep("on side", s="1\n")
    run("switch", "main")
    lines = run("merge", "side").lines
    assert lines[:2] == [f"Updating {story['two'][:10]}..{tip[:10]}", "Fast-forward"]
    assert lines[2:] == [" s | 1 +", " 1 file changed, 1 insertion(+)"]
    assert run("merge", "side").out == "Already up to date.\n"


def test_a_merge_makes_a_commit_when_told(run: Run, story: dict[str, str], keep: Keep) -> None:
    run("switch", "-c", "side")
    keep("on side", s="1\n")
    run("switch", "main")
    assert run("merge", "--no-ff", "-m", "joined", "side").lines[0].startswith("Merge made: ")
    commit = run("log", "-1", "--json").json["commits"][0]
    assert commit["message"] == "joined" and len(commit["parents"]) == 2
    assert run("log", "-1").lines[1].startswith("Merge: ")


def test_ff_only_refuses_what_needs_a_commit(run: Run, fork: None) -> None:
    assert run("merge", "--ff-only", "side", code=128).err.startswith("fatal: ")
    run("merge", "--ff-only", "--no-ff", "side", code=2)
    run("merge", code=2)
    assert "Did you mean 'side'" in run("merge", "sied", code=1).err


def test_a_conflict_is_told_in_full_and_waits(run: Run, fork: None, repo: Path) -> None:
    ran = run("merge", "side", code=1)
    assert ran.err == (
        'error: merge of "side" into "main" stopped: 1 path changed on both sides.\n'
        "  a\n"
        "The merge is waiting. What merged cleanly is already in your files.\n"
        "Edit the lines between the markers, then `memlake add a`. "
        "To take one side as it is: `memlake merge --ours a` or `--theirs a`.\n"
        "Then finish with `memlake merge --continue`, or give up with `memlake merge --abort`.\n"
    )
    assert (repo / "a").read_text() == "<<<<<<< main\nmain\n=======\nside\n>>>>>>> side\n"
    out = run("status").out
    assert "merge in progress with 1 conflict" in out and "both modified:   a" in out
    assert run("status", "--json").json["doing"] == "merge"
    assert run("status", "-s").lines == ["UU a", "A  s"]
    assert "still has a conflict marker in line 1" in run("add", "a", code=1).err
    (repo / "a").write_text("both\n")
    run("restore", "--merge", "a")
    assert (repo / "a").read_text().startswith("<<<<<<< main\n")
    run("restore", "--merge", "-s", "HEAD", "a", code=2)
    run("restore", "--merge", "s", code=1)


def test_a_pick_that_is_empty_after_the_choices_says_so_and_is_over(run: Run, fork: None, repo: Path) -> None:
    head = run("log", "--oneline").lines[0]
    for verb in ("cherry-pick", "revert"):
        run(verb, "side" if verb == "cherry-pick" else "HEAD~1", code=1)
        for path in [line[3:] for line in run("status", "-s").lines if line[0] in "ADM" and line[1] == " "]:
            run("restore", "--staged", "--worktree", path) if verb == "revert" else run("rm", "-f", path)
        run("merge", "--ours", "a")
        ran = run(verb, "--continue", code=1)
        assert "is empty: with what was chosen, nothing of it is left to commit. No commit was made" in ran.err
        assert run("log", "--oneline").lines[0] == head and "nothing to commit" in run("status").out
        run(verb, "--continue", code=128)
    run("undo")
    assert "every conflict has a choice" in run("status").out


def test_markers_show_what_both_had_when_asked_or_set(run: Run, fork: None, repo: Path) -> None:
    both = "<<<<<<< main\nmain\n||||||| base\none\ntwo\n=======\nside\n>>>>>>> side\n"
    run("merge", "--conflict", "diff3", "side", code=1)
    assert (repo / "a").read_text() == both
    run("merge", "--abort")
    run("config", "merge.conflict", "diff3")
    run("merge", "side", code=1)
    assert (repo / "a").read_text() == both
    run("merge", "--abort")
    run("cherry-pick", "--conflict", "merge", "side", code=1)
    text = (repo / "a").read_text()
    assert text.startswith("<<<<<<< main\nmain\n=======\nside\n>>>>>>> ") and "base" not in text


def test_a_conflict_says_which_side_deleted_the_path_and_that_it_may_have_been_renamed(
    run: Run, story: dict[str, str], keep: Keep, repo: Path
) -> None:
    run("switch", "-c", "dev")
    run("mv", "a", "b")
    keep("renamed and changed", b="something else\n")
    run("switch", "main")
    keep("changed", a="here\n")
    ran = run("merge", "dev", code=1)
    assert "  a (changed by us, deleted by them; the file holds our side; they may have renamed it)\n" in ran.err
    assert run("status", "-s").lines == ["UD a", "A  b"]


def test_diff_shows_both_sides_of_what_is_in_conflict(run: Run, fork: None, repo: Path) -> None:
    run("merge", "side", code=1)
    assert run("diff").lines == [
        "* Unmerged path a (both modified)", "--- ours/a", "+++ a", "@@ -1 +1,5 @@",
        "+<<<<<<< main", " main", "+=======", "+side", "+>>>>>>> side",
    ]  # fmt: skip
    assert run("diff", "--name-status").lines == ["U\ta"] and run("diff", "--stat").lines == [" a | Unmerged"]
    assert run("diff", "--", "m").out == "" and run("diff", "--quiet", code=1).out == ""
    (repo / "files").mkdir()
    assert len(run("-C", "files", "diff").lines) == 9
    assert [one["status"] for one in run("diff", "--json").json["conflicts"]] == ["UU"]
    run("merge", "--ours", "a")
    assert run("diff").out == ""


def test_the_sides_of_a_conflict_are_read_as_git_names_them(run: Run, fork: None) -> None:
    run("merge", "side", code=1)
    assert [run("cat", f":{side}:a").out for side in "0123"] == ["main\n", "one\ntwo\n", "main\n", "side\n"]
    assert run("show", ":2:a").out == "main\n"
    assert "'m' is not in conflict" in run("cat", ":1:m", code=128).err
    run("merge", "--abort")
    assert "memlake status" in run("cat", ":1:a", code=128).err


def test_choosing_a_side_finishes_a_merge(run: Run, fork: None, repo: Path) -> None:
    run("merge", "side", code=1)
    assert run("merge", "--continue", code=None).code != 0
    assert "memlake merge --continue" in run("merge", "--theirs", "a").out
    assert "chosen theirs:   a" in run("status").out
    run("merge", "--continue")
    assert (repo / "a").read_text() == "side\n" and (repo / "s").exists()
    assert len(run("log", "-1", "--json").json["commits"][0]["parents"]) == 2


def test_commit_finishes_a_merge_whose_conflicts_were_settled_by_hand(run: Run, fork: None, write: Write) -> None:
    run("merge", "side", code=1)
    write("a", "both\n")
    run("add", "a")
    assert run("commit").lines[0].startswith("[main ")
    commit = run("log", "-1", "--json").json["commits"][0]
    assert len(commit["parents"]) == 2 and "side" in commit["message"]
    assert run("cat", "a").out == "both\n"


def test_a_merge_can_be_given_up(run: Run, fork: None, repo: Path) -> None:
    run("merge", "side", code=1)
    run("merge", "--abort")
    assert run("status").lines == ["On branch main", "nothing to commit, working tree clean"]
    assert run("merge", "--abort", code=None).code != 0


# -- revert and cherry-pick


def test_revert_makes_the_inverse_commit(run: Run, story: dict[str, str], repo: Path) -> None:
    lines = run("revert", "HEAD").lines
    assert lines[0].startswith("[main ") and "second" in lines[0]
    assert (repo / "a").read_text() == "one\n"
    run("revert", code=2)
    run("revert", "nowhere", code=128)


def test_a_conflicting_revert_waits_and_can_be_given_up(run: Run, story: dict[str, str], keep: Keep) -> None:
    keep("third", a="quite different\n")
    ran = run("revert", "HEAD~1", code=1)
    assert 'revert of "HEAD~1" stopped' in ran.err and "memlake revert --abort" in ran.err
    run("revert", "--abort")
    assert run("status").lines[-1] == "nothing to commit, working tree clean"
    run("revert", "HEAD~1", code=1)
    run("merge", "--theirs", "a")
    run("revert", "--continue")
    assert run("status").lines[-1] == "nothing to commit, working tree clean"


def test_cherry_pick_repeats_a_commit(run: Run, story: dict[str, str], repo: Path, keep: Keep) -> None:
    run("switch", "-c", "side")
    keep("wanted", s="1\n")
    run("switch", "main")
    assert run("cherry-pick", "side").lines[0].endswith("] wanted")
    assert (repo / "s").read_text() == "1\n"
    run("cherry-pick", code=2)


def test_a_merge_is_reverted_with_the_parent_named(run: Run, fork: None, repo: Path) -> None:
    run("merge", "side", code=1), run("merge", "--theirs", "a"), run("merge", "--continue")
    ran = run("revert", "HEAD", code=128)
    assert "is a merge: say against which parent, with -m" in ran.err and "memlake revert -m 1" in ran.err
    run("revert", "-m", "1", "HEAD")
    assert (repo / "a").read_text() == "main\n" and not (repo / "s").exists()


def test_cherry_pick_only_stages_or_names_its_source_when_told(
    run: Run, story: dict[str, str], repo: Path, keep: Keep
) -> None:
    run("switch", "-c", "side")
    tip = keep("pick me", p="1\n")
    run("switch", "main")
    assert run("cherry-pick", "-n", "side").out == "Staged, not committed: 1 file changed: 1 added\n"
    assert run("status", "-s").lines == ["A  p"]
    run("reset", "--hard")
    run("cherry-pick", "-x", "side")
    assert f"(cherry picked from commit {tip})" in run("log", "-1").out


@pytest.mark.parametrize("verb", ["merge", "revert", "cherry-pick"])
def test_a_rev_that_is_wrong_or_missing_is_told_with_a_next_step(run: Run, fork: None, verb: str) -> None:
    unknown = 1 if verb == "merge" else 128  # git's
    for given, code, next_step in (
        ((), 2, "memlake"), (("sid",), unknown, "Did you mean 'side'?"),
        (("nothing-like-it",), unknown, "memlake branch"), (("HEAD~99",), unknown, "memlake log"),
        (("",), 128, "HEAD"), (("HEAD~1", "sid"), None, "hint"),
    ):  # fmt: skip
        ran = run(verb, *given, code=code)
        assert ran.code and next_step in ran.err, (given, ran.err)
    assert run("log", "-1", "--oneline").out.endswith(" on main\n") and run("status", "-s").out == ""


def test_a_conflicting_cherry_pick_waits(run: Run, fork: None) -> None:
    ran = run("cherry-pick", "side", code=1)
    assert 'cherry-pick of "side" stopped: 1 path' in ran.err
    run("cherry-pick", "--abort")
    assert run("status").lines[-1] == "nothing to commit, working tree clean"


def test_a_range_is_picked_oldest_first_and_reverted_newest_first(
    run: Run, story: dict[str, str], repo: Path, keep: Keep
) -> None:
    run("switch", "-c", "side")
    keep("s1", s="1\n"), keep("s2", s="2\n"), keep("s3", s="3\n")
    run("switch", "main")
    run("cherry-pick", "main..side")
    assert [line.split()[-1] for line in run("log", "-3", "--oneline").lines] == ["s3", "s2", "s1"]
    run("revert", "HEAD~2..HEAD")
    assert (repo / "s").read_text() == "1\n"
    assert "the range 'side..side' is empty" in run("cherry-pick", "side..side", code=128).err
    assert "Did you mean 'side'?" in run("cherry-pick", "main..sied", code=128).err


def test_a_range_that_stops_half_way_names_the_commits_still_to_come(
    run: Run, fork: None, repo: Path, keep: Keep
) -> None:
    run("switch", "side")
    last = keep("after it", t="1\n")[:10]
    run("switch", "main")
    ran = run("cherry-pick", "main..side", code=1)
    assert f"When it is finished, do the rest with `memlake cherry-pick {last}`" in ran.err
    run("merge", "--theirs", "a"), run("cherry-pick", "--continue"), run("cherry-pick", last)
    assert (repo / "a").read_text() == "side\n" and (repo / "t").exists()


# -- reset


def test_reset_hard_goes_back_and_the_reflog_goes_forward_again(run: Run, story: dict[str, str], repo: Path) -> None:
    assert run("reset", "--hard", "HEAD~1").out == f"HEAD is now at {story['one'][:10]} first\n"
    assert (repo / "a").read_text() == "one\n"
    run("reset", "--hard", "HEAD@{1}")
    assert (repo / "a").read_text() == "one\ntwo\n"


def test_reset_soft_and_mixed_keep_the_files(run: Run, story: dict[str, str], repo: Path) -> None:
    assert run("reset", "--soft", "HEAD~1").out == ""
    assert run("status", "--porcelain").lines == ["M  a"] and (repo / "a").read_text() == "one\ntwo\n"
    assert run("reset").lines == ["Unstaged changes after reset:", "M\ta"]
    assert run("status", "--porcelain").lines == [" M a"]


def test_reset_of_paths_unstages_them(run: Run, story: dict[str, str], write: Write) -> None:
    write("a", "new\n")
    run("add", "a")
    assert run("reset", "a").lines == ["Unstaged changes after reset:", "M\ta"]
    run("add", "a")
    run("reset", "HEAD", "--", "a")
    assert run("status", "--porcelain").lines == [" M a"]
    run("reset", "--hard", "HEAD", "--", "a", code=2)
    run("reset", "--hard", "nowhere", code=128)


# -- stash


def test_a_stash_is_pushed_shown_and_popped(run: Run, story: dict[str, str], repo: Path, write: Write) -> None:
    write("a", "wip\n")
    write("untracked", "u")
    assert "Saved" in run("stash", "push", "-m", "half done").out
    assert (repo / "a").read_text() == "one\ntwo\n" and (repo / "untracked").exists()
    assert run("stash", "list").lines[0].startswith("stash@{0}: ") and "half done" in run("stash", "list").out
    assert run("stash", "list", "--json").json["stashes"][0]["number"] == 0
    assert " a | " in run("stash", "show").out and "+wip" in run("stash", "show", "-p").lines
    assert run("stash", "show", "--json").json["changes"][0]["path"] == "files/a"
    run("stash", "pop")
    assert (repo / "a").read_text() == "wip\n" and run("stash", "list").out == ""


def test_bare_stash_pushes_and_takes_untracked_files_when_told(
    run: Run, story: dict[str, str], repo: Path, write: Write
) -> None:
    write("a", "wip\n")
    write("untracked", "u")
    run("stash", "-u")
    assert not (repo / "untracked").exists()
    run("stash", "apply", "stash@{0}")
    assert (repo / "untracked").exists() and (repo / "a").read_text() == "wip\n"
    assert run("stash", "drop", "0").out.startswith("Dropped stash@{0} (")
    run("stash", "drop", code=1)
    run("stash", "pop", "nonsense", code=2)


def test_stash_with_paths_and_no_verb_pushes_only_these(
    run: Run, story: dict[str, str], repo: Path, write: Write
) -> None:
    for options in ((), ("-m", "half done")):
        write("a", "wip\n")
        write("data/b", "wip\n")
        run("stash", *options, "--", "a")
        assert run("status", "-s").lines == [" M data/b"]
        run("stash", "pop")
        assert run("status", "-s").lines == [" M a", " M data/b"]


def test_without_a_stash_each_verb_says_so_and_where_to_look(run: Run, story: dict[str, str], write: Write) -> None:
    for verb in ("show", "pop", "apply", "drop"):
        assert run("stash", verb, code=1).err == "error: there is no stash.\nhint: See them with: memlake stash list\n"
    write("a", "wip\n")
    run("stash")
    for verb in ("show", "pop"):
        assert "there is no stash@{7}; there are 1." in run("stash", verb, "7", code=1).err


def test_a_stash_that_was_purged_in_part_is_not_said_to_be_dropped(
    run: Run, story: dict[str, str], write: Write
) -> None:
    write("a", "key\n")
    write("data/b", "other\n")
    run("stash")
    run("purge", "stash@{0}:a", "--reason", "leak", "-y")
    told = run("stash", "pop", code=1)
    assert told.lines == ["Applied stash@{0}", "M\tdata/b"] and "purged:\n  a\nThe stash is kept." in told.err
    assert len(run("stash", "list").lines) == 1


def test_stash_of_nothing_says_so(run: Run, story: dict[str, str]) -> None:
    ran = run("stash")
    assert ran.out == "" and ran.err == "there is nothing to stash: no uncommitted changes.\n"


# -- moving and choosing branches


def test_branch_f_moves_a_branch_but_not_the_one_we_are_on(run: Run, story: dict[str, str]) -> None:
    run("branch", "old")
    assert "exists already" in run("branch", "old", "HEAD~1", code=None).err
    run("branch", "-f", "old", "HEAD~1")
    assert run("log", "-1", "--format=%H", "old").lines == [story["one"]]
    assert run("reflog", "old").lines[0].endswith("branch: reset to HEAD~1")
    assert "the one you are on" in run("branch", "-f", "main", "HEAD~1", code=1).err
    run("undo")
    assert run("log", "-1", "--format=%H", "old").lines == [story["two"]]


def test_branches_are_chosen_by_what_they_contain_or_are_merged_into(
    run: Run, story: dict[str, str], keep: Callable[..., str]
) -> None:
    run("branch", "old", "HEAD~1")
    run("switch", "-q", "-c", "dev")
    keep("on dev", b="dev\n")
    assert run("branch", "--contains", "main").lines == ["* dev", "  main"]
    assert run("branch", "--contains").lines == ["* dev"]
    assert run("branch", "--merged", "main").lines == ["  main", "  old"]
    assert run("branch", "--no-merged", "main", "-a").lines == ["* dev"]
    assert [b["name"] for b in run("branch", "--merged", "main", "--json").json["branches"]] == ["main", "old"]
    assert run("branch", "--contains", "nope", code=128).err


def test_switch_c_in_capitals_moves_a_branch_and_goes_there(run: Run, story: dict[str, str], repo: Path) -> None:
    run("branch", "dev")
    assert run("switch", "-C", "dev", "HEAD~1").err == "Switched to and reset branch 'dev'\n"
    assert (repo / "a").read_text() == "one\n"
    assert run("switch", "-C", "new").err == "Switched to a new branch 'new'\n"
    run("switch", "-q", "main")
    assert run("checkout", "-B", "main", "HEAD~1").err == "Reset branch 'main'\n"
    assert (repo / "a").read_text() == "one\n" and run("status", "-s").lines == []
    run("undo")
    assert (repo / "a").read_text() == "one\ntwo\n" and run("log", "-1", "--format=%H").lines == [story["two"]]


def test_switch_c_in_capitals_keeps_work_that_would_be_lost(
    run: Run, story: dict[str, str], repo: Path, write: Write
) -> None:
    run("branch", "dev")
    write("a", "precious\n")
    run("switch", "-C", "dev", "HEAD~1", code=1)
    assert (repo / "a").read_text() == "precious\n" and run("log", "-1", "--format=%H", "dev").lines == [story["two"]]


def test_a_stash_that_meets_other_changes_says_how_to_go_on(
    run: Run, story: dict[str, str], repo: Path, write: Write, keep: Keep
) -> None:
    write("a", "wip\n")
    run("stash", "-q")
    keep("moved on", a="other\n")
    ran = run("stash", "pop", code=1)
    assert "applying stash@{0} stopped: 1 path changed on both sides.\n  a\n" in ran.err
    assert "The stash is kept." in ran.err and "memlake stash apply --continue" in ran.err
    assert run("status", "-s").lines == ["UU a"] and "You have a stash apply in progress" in run("status").out
    run("stash", "apply", "--abort")
    run("stash", "pop", code=1)
    assert "memlake stash apply --continue" in run("merge", "--theirs", "a").out
    assert run("stash", "apply", "--continue").lines == ["M\ta"]
    assert (repo / "a").read_text() == "wip\n" and len(run("stash", "list").lines) == 1
    assert run("stash", "clear").out == "Dropped 1 stash.\n" and run("stash", "list").out == ""


def test_a_stash_of_paths_and_of_the_stage_in_silence(
    run: Run, story: dict[str, str], repo: Path, write: Write
) -> None:
    write("a", "wip\n")
    write("data/b", "wip\n")
    run("add", "a")
    assert run("stash", "push", "-q", "--", "a").out == ""
    assert run("status", "-s").lines == [" M data/b"]
    assert run("stash", "pop", "-q", "--index").out == "" and run("status", "-s").lines == ["M  a", " M data/b"]
    run("stash", "push", "nope", code=128)
    run("stash", "-q"), run("stash", "apply", "-q"), run("restore", "a", "data/b")
    assert run("stash", "drop", "-q").out == ""


def test_a_checkout_that_fails_says_so_and_nothing_else(run: Run, story: dict[str, str], write: Write) -> None:
    write("a", "not committed\n")
    for line in (["HEAD~1"], ["-b", "x", "HEAD~1"]):
        ran = run("checkout", *line, code=1)
        assert ran.err.startswith("error: checkout would overwrite uncommitted work in:\n  a\n")
        assert "switch would" not in ran.err and "detached HEAD" not in ran.err
    assert run("switch", "--detach", "HEAD~1", code=1).err.startswith("error: switch would overwrite")
    run("restore", "a")
    ran = run("checkout", "HEAD~1")
    assert ran.err.index("detached HEAD") < ran.err.index("HEAD is now at")


def test_deleting_the_current_branch_names_one_to_go_to(run: Run, story: dict[str, str]) -> None:
    assert "hint: Switch to another one first: memlake switch -c NAME\n" in run("branch", "-d", "main", code=1).err
    run("branch", "side")
    assert "hint: Switch to another one first: memlake switch side\n" in run("branch", "-d", "main", code=1).err


def test_ctrl_c_in_a_switch_says_on_stderr_that_the_next_command_goes_on(
    run: Run, story: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    run("branch", "old", story["one"])
    with monkeypatch.context() as patch:
        patch.setattr("memlake.versions.checkout.update.finish", stop)
        assert "The next command goes on where this one stopped" in run("switch", "old", code=130).err
    assert run("status", "-s").err == "warning: finished the interrupted switch to old\n"


def test_switch_goes_back_over_a_rename_of_the_branch_it_is_on(run: Run, story: dict[str, str]) -> None:
    run("switch", "-c", "dev")
    run("branch", "-m", "dev", "trial")
    assert run("switch", "-").err == "Switched to branch 'main'\n"
    assert run("switch", "-").err == "Switched to branch 'trial'\n"
    run("switch", "trial")
    assert run("switch", "-").err == "Already on 'trial'\n", "as git: a switch to the same branch is one"


# -- facts of a merge


def test_a_merge_commit_keeps_metrics_and_params_also_where_a_fast_forward_would_do(
    run: Run, story: dict[str, str], keep: Keep
) -> None:
    run("switch", "-c", "dev")
    keep("two", b="2\n")
    run("switch", "main")
    run("merge", "dev", "--metric", "acc=0.9", "--param", "lr=true")
    made = run("log", "-1", "--json").json["commits"][0]
    assert len(made["parents"]) == 2 and (made["metrics"], made["params"]) == ({"acc": 0.9}, {"lr": True})
    assert "Params: lr=true" in run("log", "-1").lines
    assert "not stored" in run("merge", "dev", "--metric", "acc=1").err
    assert "--ff-only makes no commit" in run("merge", "--ff-only", "--metric", "a=1", "dev", code=2).err


def test_facts_of_a_merge_wait_with_it_and_are_joined_when_it_ends(
    run: Run, story: dict[str, str], keep: Keep, write: Write
) -> None:
    run("switch", "-c", "dev")
    keep("theirs", a="theirs\n")
    run("switch", "main")
    keep("ours", a="ours\n")
    run("merge", "dev", "--metric", "acc=1", "--metric", "loss=2", code=1)
    run("merge", "--theirs", "a")
    run("merge", "--continue", "--metric", "loss=3", "--param", "lr=1")
    made = run("log", "-1", "--json").json["commits"][0]
    assert (made["metrics"], made["params"]) == ({"acc": 1, "loss": 3}, {"lr": 1})
    assert run("fsck").code == 0


def test_a_rebase_stops_to_edit_and_status_says_where_and_what_next(
    run: Run, repo: Path, keep: Callable[..., str]
) -> None:
    keep("base", a="1\n")
    keep("two", b="2\n")
    keep("three", c="3\n")
    steps = run("rebase", "--dry-run", "HEAD~2").out
    (repo / "list").write_text(steps.replace("pick", "edit", 1))
    said = run("rebase", "HEAD~2", "--todo", "list").lines
    assert said[0].startswith("Stopped at ") and "'two' onto HEAD~2, 1 commit after it." in said[0]
    assert said[1] == "Change files and `memlake add` them, then: memlake rebase --continue"
    told = run("status").lines
    assert any(line.startswith("You have a rebase in progress, at ") for line in told)
    assert '  (use "memlake rebase --continue" to finish it)' in told
    assert '  (use "memlake rebase --skip" to leave this commit out)' in told
    (repo / "b").write_text("two\n")
    run("add", "b")
    assert "2 commits rewritten" in run("rebase", "--continue").out
    assert run("cat", "HEAD~1:b").out == "two\n" and run("status", "--json").json["step"] == ""


def test_status_says_that_a_bisect_is_going_on_and_what_is_next(run: Run, repo: Path, keep: Keep) -> None:
    for number in range(5):
        keep(f"c{number}", a=f"{number}\n")
    assert not run("status", "--json").json["bisecting"]
    run("bisect", "start", "HEAD", "HEAD~4")
    told = run("status").lines
    assert "You are looking for a commit with bisect." in told
    assert '  (use "memlake bisect good" or "memlake bisect bad" to say what this one is)' in told
    assert '  (use "memlake bisect reset" to go back to where you were)' in told
    assert run("status", "--json").json["bisecting"]
    run("bisect", "reset")
    assert "bisect" not in run("status").out
