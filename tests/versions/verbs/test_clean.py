"""clean: what is removed, what never is, and that undo brings it back."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

import memlake as ml

Keep = Callable[..., ml.Commit]
Write = Callable[..., None]


@pytest.fixture
def littered(repo: ml.Repo, keep: Keep, write: Write) -> ml.Repo:
    keep("one", {"a": "1", "src/b": "2", ".memlakeignore": "*.log\nbuild\n"})
    write(
        {
            "loose": "mine",
            "src/new": "mine too",
            "tmp/deep/x": "x",
            "out.log": "secret",
            "build/o": "o",
            "tmp/t.log": "t",
        }
    )
    return repo


def test_loose_files_go_and_folders_only_when_asked(littered: ml.Repo, here: Path) -> None:
    assert littered.clean().removed == ("loose", "src/new")
    assert not (here / "loose").exists() and (here / "tmp/deep/x").exists() and (here / "src/b").exists()
    assert littered.clean(folders=True).removed == ("tmp/deep/x",)
    assert (here / "tmp/t.log").exists() and not (here / "tmp/deep").exists()


def test_a_dry_run_removes_nothing(littered: ml.Repo, here: Path) -> None:
    cleaned = littered.clean(folders=True, ignored=True, dry_run=True)
    assert cleaned.removed == ("loose", "src/new", "tmp/deep/x")
    assert cleaned.ignored == ("build/o", "out.log", "tmp/t.log")
    assert all((here / path).exists() for path in cleaned.removed + cleaned.ignored)


def test_undo_brings_back_what_was_removed_and_redo_removes_it(littered: ml.Repo, here: Path) -> None:
    littered.clean(folders=True)
    littered.undo()
    assert (here / "loose").read_text() == "mine" and (here / "tmp/deep/x").read_text() == "x"
    assert littered.status().untracked == ("loose", "src/new", "tmp/")
    littered.redo()
    assert not (here / "loose").exists()


def test_ignored_files_go_for_good_and_are_never_stored(littered: ml.Repo, here: Path) -> None:
    littered.clean(ignored=True)
    assert not (here / "out.log").exists() and (here / "build/o").exists()
    sizes = [row[0] for row in littered._history.db.rows("SELECT size FROM object")]
    assert len(b"secret") not in sizes
    littered.undo()
    assert (here / "loose").exists() and not (here / "out.log").exists()


def test_paths_and_patterns_bound_it(littered: ml.Repo, here: Path) -> None:
    assert littered.clean("src").removed == ("src/new",)
    assert littered.clean("tmp", dry_run=True).removed == ("tmp/deep/x",)
    assert littered.clean("tmp/deep/x", dry_run=True).removed == ("tmp/deep/x",)
    assert littered.clean("l*").removed == ("loose",)
    with pytest.raises(ml.errors.InvalidInput, match="outside"):
        littered.clean("../elsewhere")


@pytest.mark.parametrize("name", [".git", ".memlake"])
def test_another_repo_is_left_alone_even_with_everything_asked(littered: ml.Repo, here: Path, name: str) -> None:
    (here / "vendor/lib" / name).mkdir(parents=True)
    (here / "vendor/lib/source").write_text("theirs")
    (here / name).mkdir(exist_ok=True)
    cleaned = littered.clean(folders=True, ignored=True)
    assert (here / "vendor/lib/source").exists() and (here / "vendor/lib" / name).exists()
    assert cleaned.left["vendor/lib/"] == "it is a repo of its own" and (here / ".memlake/repo.db").exists()


def test_what_cannot_be_brought_back_is_left_and_named(littered: ml.Repo, here: Path) -> None:
    os.mkfifo(here / "pipe")
    (here / "out").symlink_to("/etc/passwd")
    (here / "bad\nname").write_text("x")
    cleaned = littered.clean()
    assert set(cleaned.left) == {"pipe", "out", "bad\nname"} and "outside" in cleaned.left["out"]
    assert (here / "out").is_symlink() and Path("/etc/passwd").exists()


def test_a_link_goes_without_what_it_leads_to(repo: ml.Repo, keep: Keep, here: Path) -> None:
    keep("one", {"kept/a": "1"})
    (here / "link").symlink_to("kept")
    assert repo.clean().removed == ("link",)
    assert (here / "kept/a").exists() and not (here / "link").is_symlink()


def test_files_that_a_waiting_merge_put_there_stay(repo: ml.Repo, keep: Keep, here: Path) -> None:
    keep("base", {"a": "1\n"})
    repo.switch("dev", create=True)
    keep("dev", {"a": "2\n", "new": "n\n"})
    repo.switch("main")
    keep("main", {"a": "3\n"})
    assert repo.merge("dev").conflicts
    assert repo.clean().removed == ()
    assert (here / "new").exists()
