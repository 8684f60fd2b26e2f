"""Where packs are kept may change only with the packs: no setting strands what is stored, or hides that it is gone."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

import memlake as ml
from memlake import config
from memlake.errors import Denied, InvalidInput, NotARepo, Unavailable
from memlake.repo import read_repo_id, set_setting

DATA = os.urandom(2 << 20)


@pytest.fixture
def root(here: Path) -> Path:
    """A repo with a file of two megabytes, which lies in a pack inside it."""
    with ml.init(here / "repo") as repo:
        keep(repo, "big")
    return here / "repo"


def keep(repo: ml.Repo, name: str) -> None:
    (repo.root / name).write_bytes(DATA + name.encode())
    repo.add(repo.root / name)
    repo.commit(name)


def set_packs(root: Path, place: str | None) -> None:
    with ml.open(root) as repo:
        repo.config.set("core.packs", place)


@pytest.mark.parametrize("to", ["another folder", "the repo itself"])
def test_packs_are_named_elsewhere_only_once_they_are_there(root: Path, here: Path, to: str) -> None:
    old, new = root / ".memlake/packs", here / "disk"
    if to == "the repo itself":
        shutil.copytree(old, new)
        set_packs(root, str(new))
        shutil.rmtree(old)
        old.mkdir()
        old, new = new, old
    place = str(new) if to == "another folder" else None
    with pytest.raises(InvalidInput, match=r"not in .* Nothing was changed") as refused:
        set_packs(root, place)
    os.system(refused.value.hint.splitlines()[0].removeprefix("Copy them: "))
    set_packs(root, place)
    shutil.rmtree(old)
    with ml.open(root) as repo:
        assert repo.read("big") == DATA + b"big"
        keep(repo, "more")
    assert len([path for path in new.iterdir() if path.name != "owner"]) == 2


def test_a_place_counts_from_where_it_was_named_and_is_the_same_from_everywhere(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ml.init(here / "repo") as repo:
        repo.config.set("core.packs", "disk")
        (here / "repo/sub").mkdir()
        monkeypatch.chdir(here / "repo/sub")
    with ml.open() as repo:
        keep(repo, "big")
    assert len(list((here / "disk").iterdir())) == 2 and not (here / "repo/sub/disk").exists()
    (here / "repo/.memlake/config.toml").write_text('[core]\npacks = "../disk"\n')  # by hand: counts from the repo
    folder = here / "repo/.memlake"
    config.grant_request(folder, read_repo_id(folder), config.read_request(folder))
    with ml.open() as repo:
        assert repo.read(here / "repo/big") == DATA + b"big"


def test_a_place_inside_the_repo_is_refused(root: Path) -> None:
    with pytest.raises(InvalidInput, match="lies inside"):
        set_packs(root, str(root / ".memlake/packs"))


def test_a_disk_that_is_not_mounted_is_not_taken_for_a_new_place(root: Path, here: Path) -> None:
    shutil.move(root / ".memlake/packs", here / "disk")
    set_packs(root, str(here / "disk"))
    (here / "disk").rename(here / "unmounted")
    with ml.open(root) as repo, pytest.raises(Unavailable, match="no owner mark either"):
        keep(repo, "more")
    with ml.open(root) as repo, pytest.raises(Unavailable, match="Nothing was changed"):
        repo.upkeep.purge(repo.objects.at("big").oid, reason="leaked")
    assert not (here / "disk").exists() or not any((here / "disk").iterdir())
    shutil.rmtree(here / "disk", ignore_errors=True)
    (here / "unmounted").rename(here / "disk")
    with ml.open(root) as repo:
        keep(repo, "more")
        assert repo.read("big") == DATA + b"big"


def test_what_lies_in_a_pack_that_is_gone_is_not_said_to_be_erased(root: Path, here: Path) -> None:
    (pack,) = (root / ".memlake/packs").iterdir()
    pack.rename(here / "pack")
    with ml.open(root) as repo:
        oid = repo.objects.at("big").oid
        with pytest.raises(Unavailable, match=f"pack {pack.name[:10]} holds what is to be purged"):
            repo.upkeep.purge(oid, reason="leaked")
        (here / "pack").rename(pack)
        repo.upkeep.purge(oid, reason="leaked")
    assert not any(DATA[:64] in path.read_bytes() for path in root.rglob(".memlake/packs/*"))


def test_a_setting_is_written_into_a_repo_only(here: Path) -> None:
    (here / "victim").mkdir()
    (here / "victim/config.toml").write_text("theirs = 1\n")
    (here / "repo").mkdir()
    (here / "repo/.memlake").symlink_to(here / "victim")
    with pytest.raises(NotARepo):
        set_setting(here / "repo/.memlake", "user.name", "Ada")
    with ml.init(here / "other") as repo:
        (repo.dir / "index").symlink_to(here / "victim")
        with pytest.raises(Denied, match="is a link"):
            repo.config.set("user.name", "Ada")
    assert (here / "victim/config.toml").read_text() == "theirs = 1\n" and len(os.listdir(here / "victim")) == 1


def test_packs_whose_history_was_lost_are_not_covered_by_an_empty_repo(root: Path) -> None:
    for path in (root / ".memlake").glob("repo.db*"):
        path.unlink()
    with pytest.raises(Denied, match=r"has packs but no repo\.db") as refused:
        ml.init(root)
    assert "memlake rescue" in refused.value.hint
    os.system(refused.value.hint.splitlines()[1].partition(": ")[2])
    ml.init(root).close()


def test_an_init_that_was_interrupted_is_finished_by_the_next_command(here: Path) -> None:
    with ml.init(here / "repo") as repo:
        repo._history.db.run("DELETE FROM ref")
        repo._history.db.run("DELETE FROM meta WHERE key = 'head'")
    for name in ("one", "two"):
        with ml.open(here / "repo") as repo:
            keep(repo, name)
            assert repo.branches.current == "main"


def test_a_first_branch_that_cannot_be_named_so_leaves_no_repo(here: Path) -> None:
    with pytest.raises(InvalidInput, match="cannot be a name"):
        ml.init(here / "repo", branch="../../x")
    assert not (here / "repo").exists()
