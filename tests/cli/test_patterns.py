"""Quoted patterns wherever a path is taken, by git's rules."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import memlake as ml
from tests.cli.conftest import Run, Write

Keep = Callable[..., str]
NAMES = ("a", "[a]", "x.log", "top.csv", "data/b.csv", "data/sub/c.csv", "data/d.txt", "exp[1]/e.csv")


@pytest.fixture
def files(repo: Path, write: Write) -> Path:
    for name in NAMES:
        write(name, name)
    return repo


@pytest.fixture
def kept(files: Path, run: Run) -> Path:
    run("add", "-A")
    run("commit", "-m", "all")
    return files


@pytest.mark.parametrize(
    "pattern", ["*.csv", "*", "data/*", "d*b.csv", "?", "[a]", "*[bc].csv", "exp?1?/*", "data/su*"]
)
def test_add_and_ls_match_what_git_matches(files: Path, run: Run, pattern: str) -> None:
    run("add", pattern)
    run("commit", "-m", "some")
    assert run("ls").lines == _as_git(files, pattern) == run("ls", "--", pattern).lines


def _as_git(root: Path, pattern: str) -> list[str]:
    def git(*args: str) -> str:
        config = ("-c", "core.excludesFile=/dev/null", "-c", "core.quotePath=false")
        return subprocess.run(["git", *config, *args], cwd=root, capture_output=True, text=True, check=True).stdout

    git("init", "-q")
    git("add", pattern)
    return sorted(git("ls-files").splitlines())


@pytest.mark.parametrize(("verb", "code"), [("add", 128), ("rm", 128), ("restore", 1), ("checkout", 1)])
def test_a_pattern_that_matches_nothing_is_refused_by_verbs_that_change(
    kept: Path, run: Run, verb: str, code: int
) -> None:
    ran = run(verb, "--", "*.nope", code=code)
    assert "'*.nope'" in ran.err and "files/" not in ran.err
    assert run("status", "-s").lines == []


@pytest.mark.parametrize("verb", ["log", "diff", "ls", "status"])
def test_and_is_simply_empty_for_those_that_look(kept: Path, run: Run, verb: str) -> None:
    ran = run(verb, *(["-s"] if verb == "status" else []), "--", "*.nope")
    assert (ran.out, ran.err) == ("", "")


def test_a_pattern_needs_no_dashes(kept: Path, run: Run) -> None:
    assert len(run("log", "--oneline", "*.csv").lines) == 1
    assert run("log", "--oneline", "*.nope").lines == []


def test_log_and_diff_show_only_what_matches(kept: Path, run: Run, keep: Keep, write: Write) -> None:
    keep("text only", data__d="new")
    shown = run("log", "--oneline", "--", "*.csv").lines
    assert len(shown) == 1 and shown[0].endswith(" all")
    write("data/b.csv", "new")
    write("a", "new")
    assert run("diff", "--name-only", "--", "*.csv").lines == ["data/b.csv"]
    assert run("diff", "--name-only", "HEAD", "--", "data*").lines == ["data/b.csv"]


def test_restore_reset_and_rm_take_patterns(kept: Path, run: Run, write: Write) -> None:
    for name in ("data/b.csv", "a"):
        write(name, "new")
    run("restore", "*.csv")
    assert run("status", "-s").lines == [" M a"]
    assert run("rm", "data/*").lines == ["rm 'data/b.csv'", "rm 'data/d.txt'", "rm 'data/sub/c.csv'"]
    run("reset", "-q", "--", "*.csv")
    assert run("status", "-s").lines == [" M a", " D data/b.csv", "D  data/d.txt", " D data/sub/c.csv"]
    run("restore", "--source", "HEAD", "*.csv")
    assert run("status", "-s").lines == [" M a", "D  data/d.txt"]


def test_a_pattern_stages_what_is_gone_too(kept: Path, run: Run) -> None:
    (kept / "data/b.csv").unlink()
    (kept / "a").unlink()
    run("add", "*.csv")
    assert run("status", "-s").lines == [" D a", "D  data/b.csv"]


def test_a_file_named_like_a_pattern_is_meant_itself(kept: Path, run: Run) -> None:
    assert run("rm", "[a]").lines == ["rm '[a]'"]
    assert run("ls", "--", "[a]").lines == ["[a]"], "it is still in HEAD under that very name"


def test_a_pattern_starts_in_the_folder_one_stands_in(kept: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(kept / "exp[1]")
    assert run("ls", "*.csv").lines == ["e.csv"]
    assert run("ls", "../data/*.csv").lines == ["../data/b.csv", "../data/sub/c.csv"]


def test_status_lists_matching_files_of_untracked_folders(files: Path, run: Run) -> None:
    assert run("status", "-s", "--", "data/*.csv").lines == ["?? data/b.csv", "?? data/sub/c.csv"]
    assert run("status", "-s", "data/d.txt", "a").lines == ["?? a", "?? data/d.txt"]
    assert run("status", "-s", "data").lines == ["?? data/"]


def test_status_names_what_is_ignored(files: Path, run: Run, write: Write) -> None:
    write(".memlakeignore", "*.log\nsub/\n")
    run("add", "a")
    listed = run("status", "-s", "--ignored").lines
    assert [line for line in listed if line.startswith("!!")] == ["!! data/sub/", "!! x.log"]
    assert run("status", "--ignored", "--json").json["ignored"] == ["files/data/sub/", "files/x.log"]
    assert "Ignored files:" in run("status", "--ignored").lines
    assert "!!" not in run("status", "-s").out


def test_short_status_quotes_names_with_spaces(repo: Path, run: Run, write: Write) -> None:
    write("a b", "x")
    assert run("status", "-s").lines == ['?? "a b"']
    run("add", "-A")
    run("commit", "-m", "one")
    run("mv", "a b", "c d")
    assert run("status", "--porcelain").lines == ['R  "a b" -> "c d"']


def test_branches_and_tags_are_listed_by_pattern(kept: Path, run: Run) -> None:
    for name in ("exp1", "exp/2", "other"):
        run("branch", name)
        run("tag", f"v1-{name}")
    run("tag", "v2")
    assert run("branch", "--list", "exp*").lines == ["  exp/2", "  exp1"]
    assert run("tag", "-l", "v1*").lines == ["v1-exp/2", "v1-exp1", "v1-other"]
    assert [tag["name"] for tag in run("tag", "-l", "v1-e*", "--json").json["tags"]] == ["v1-exp/2", "v1-exp1"]


def test_a_path_that_is_not_in_a_commit_cannot_be_listed(kept: Path, run: Run) -> None:
    assert "'nope'" in run("ls", "HEAD:nope", code=128).err
    assert run("ls", "HEAD:data").lines == ["data/b.csv", "data/d.txt", "data/sub/c.csv"]


def test_errors_name_files_without_their_room(kept: Path, run: Run) -> None:
    for words in (("cat", "."), ("cat", "data"), ("cat", "nope"), ("blame", "nope"), ("show", "HEAD:nope")):
        assert "files" not in run(*words, code=128).err.replace("memlake files", "")


def test_python_takes_patterns_too(kept: Path) -> None:
    with ml.open(kept) as repo:
        (kept / "data/b.csv").write_text("new")
        (kept / "a").write_text("new")
        assert [path for path, _ in repo.ls(paths=["*.csv"])][:1] == ["files/data/b.csv"]
        assert len(list(repo.log(paths=["*.csv"]))) == 1 and list(repo.log(paths=["*.nope"])) == []
        assert [change.path for change in repo.diff(paths=["*.csv"])] == ["files/data/b.csv"]
        assert [change.path for change in repo.status("*.csv").unstaged] == ["files/data/b.csv"]
        assert [change.path for change in repo.add("*.csv").changes] == ["files/data/b.csv"]


def test_patterns_reach_the_other_rooms(kept: Path, run: Run) -> None:
    with ml.open(kept) as repo:
        repo.write({"memories/bot/1": b"x", "memories/bot/2": b"y"}, "m")
        assert [path for path, _ in repo.ls(paths=["memories/*/2"])] == ["memories/bot/2"]
    assert run("ls", "memories/*1").lines == ["memories/bot/1"]


def test_a_listing_shows_what_it_holds_and_can_still_be_read(kept: Path) -> None:
    with ml.open(kept) as repo:
        found = repo.ls(paths=["*.csv"])
        assert repr(found) == ("Listing(files/data/b.csv, files/data/sub/c.csv, files/exp[1]/e.csv, files/top.csv)")
        assert len(list(found)) == 4


def test_a_side_is_chosen_by_pattern_and_conflicts_are_named_as_files(kept: Path, run: Run, keep: Keep) -> None:
    run("switch", "-q", "-c", "dev")
    keep("theirs", data__d="theirs", a="theirs")
    run("switch", "-q", "main")
    keep("ours", data__d="ours", a="ours")
    run("merge", "dev", code=1)
    assert "files/" not in run("merge", "--continue", code=1).err
    assert "files/" not in run("merge", "--ours", "top.csv", code=128).err
    run("merge", "--theirs", "data/*")
    assert run("status", "--json").json["conflicts"][1]["choice"] == "theirs"


def test_a_dry_run_takes_patterns_and_files_in_untracked_folders(files: Path, run: Run) -> None:
    assert run("add", "-n", "*.csv").lines == [
        "add 'data/b.csv'", "add 'data/sub/c.csv'", "add 'exp[1]/e.csv'", "add 'top.csv'",
    ]  # fmt: skip
    assert run("add", "-n", "data/d.txt").lines == ["add 'data/d.txt'"]
    run("add", "-n", "*.nope", code=128)
    assert run("status", "-s", "data").lines == ["?? data/"]


def test_force_adds_ignored_files_below_a_folder_or_by_pattern(files: Path, run: Run, write: Write) -> None:
    write(".memlakeignore", "*.log\nsub/\n")
    assert "matches no file" in run("add", "*.log", code=128).err
    run("add", "-f", "*.log")
    assert run("status", "-s", "*.log").lines == ["A  x.log"]
    run("add", "-f", "data")
    assert "A  data/sub/c.csv" in run("status", "-s").lines
    run("add", "-f", ".")
    assert not any(".memlake/" in line for line in run("status", "-s", "--ignored").lines)
