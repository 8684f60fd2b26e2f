"""Making and opening repos: what was interrupted is finished by whoever comes next, and what failed can be repeated."""

from __future__ import annotations

from pathlib import Path

import pytest

import memlake as ml
from memlake import config, versions
from memlake.errors import Denied, Unavailable
from memlake.objects.layout import RepoDatabase
from memlake.repo import open_personal, rescue


@pytest.fixture
def personal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the personal repo is going to be."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    return config.personal_folder() / config.FOLDER


def test_a_personal_repo_whose_folder_alone_was_made_is_made_whole(personal: Path) -> None:
    personal.mkdir(parents=True)
    with open_personal() as repo:
        assert repo.write({"memories/a/b": b"kept"}, "m").oid


def test_a_personal_repo_that_has_its_tables_but_no_id_yet_is_made_whole(personal: Path) -> None:
    open_personal().close()
    db = RepoDatabase(personal)
    with db.write():
        db.run("DELETE FROM meta")
        db.run("DELETE FROM ref")
    db.close()
    with open_personal() as repo:
        assert repo._id and [branch.name for branch in repo.branches] == ["main"]


def test_no_empty_personal_repo_is_made_over_packs_whose_history_is_lost(personal: Path) -> None:
    (personal / "packs").mkdir(parents=True)
    (personal / "packs" / "one").write_bytes(b"bytes")
    with pytest.raises(Denied, match=r"has packs but no repo\.db"):
        open_personal()


def test_a_rescue_that_failed_half_way_can_be_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with ml.init(tmp_path / "repo") as repo:
        made = repo.write({"memories/a/b": b"kept"}, "m")
        repo.upkeep.gc(prune=True)

    def fill_the_disk(*_: object) -> None:
        raise Unavailable("the disk is full.")

    with monkeypatch.context() as patch:
        patch.setattr(versions.rescue, "rebuild", fill_the_disk)
        with pytest.raises(Unavailable, match="the disk is full"):
            rescue(repo.dir, tmp_path / "again")
    assert list((tmp_path / "again").iterdir()) == []
    rescue(repo.dir, tmp_path / "again")
    assert [path.name for path in (tmp_path / "again").iterdir()] == [config.FOLDER]
    with ml.open(tmp_path / "again") as again:
        assert again.show(lane="memory").commit.oid == made.oid
