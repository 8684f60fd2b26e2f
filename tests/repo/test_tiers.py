"""Tiers: what nobody has read for long lies in a colder place, and is read as if it were here."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import memlake as ml
from memlake.objects import tiered
from memlake.repo import Repo

REAL_TIME = time.time


@pytest.fixture
def repo(tmp_path: Path) -> Iterator[Repo]:
    with ml.init(tmp_path / "pets") as repo:
        (tmp_path / "pets" / "big.bin").write_bytes(random.Random(1).randbytes(3_000_000))
        repo.add("big.bin")
        repo.commit("one")
        ml_rows(repo)
        yield repo


def ml_rows(repo: Repo) -> None:
    repo.datasets().read_values(x=list(range(100_000))).save("rows")


def later(monkeypatch: pytest.MonkeyPatch, days: int) -> None:
    monkeypatch.setattr(tiered.time, "time", lambda: REAL_TIME() + days * 86_400)


def packs(root: Path) -> set[str]:
    return {file.name for file in root.rglob("*") if file.is_file() and len(file.name) == 64}


def test_unread_packs_and_parts_move_and_come_back_when_they_are_read(
    repo: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo.upkeep.tiers.set(tmp_path / "archive", "unread > 90d")
    assert repo.upkeep.tiers.move().files == 0  # of what nothing is known, the days count from now
    later(monkeypatch, 91)
    due = repo.upkeep.tiers.status()
    moved = repo.upkeep.tiers.move()
    assert moved.files == due.due >= 1 and moved.bytes > 3_000_000
    assert packs(tmp_path / "archive") and not packs(Path(repo.dir) / "packs")
    with ml.open(repo.root) as again:
        assert again.read("big.bin") == (tmp_path / "pets" / "big.bin").read_bytes()
        assert again.datasets().read_dataset("rows").count() == 100_000
        assert again.upkeep.fsck(full=True).ok
    assert repo.upkeep.tiers.status().there == 0  # all of it was read


def test_what_was_read_meanwhile_stays(repo: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    repo.upkeep.tiers.set(tmp_path / "archive", "unread > 90d")
    later(monkeypatch, 60)
    with ml.open(repo.root) as again:
        again.read("big.bin")
    later(monkeypatch, 120)
    repo.upkeep.tiers.move()
    assert packs(Path(repo.dir) / "packs")


def test_gc_moves_them_and_names_no_file_of_the_colder_place_a_stray(
    repo: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo.upkeep.tiers.set(tmp_path / "archive", "unread > 0d")
    later(monkeypatch, 2)
    with ml.open(repo.root) as again:
        again.upkeep.gc(prune=True)
        assert again.upkeep.tiers.status().there
        again.upkeep.gc(prune=True)
        assert again.read("big.bin") == (tmp_path / "pets" / "big.bin").read_bytes()


def test_a_purge_erases_in_the_colder_place_too(repo: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pets" / "secret").write_bytes(b"swordfish" + random.Random(2).randbytes(400_000))
    repo.add("secret")
    repo.commit("two")
    oid = repo._history.entries(repo._history.get(str(repo.head)), ["files/secret"])["files/secret"].oid
    repo.upkeep.tiers.set(tmp_path / "archive", "unread > 0d")
    later(monkeypatch, 2)
    with ml.open(repo.root) as again:
        again.upkeep.tiers.move()
        getattr(again.upkeep, "purge", getattr(again, "purge", None))(oid, reason="leaked")
    left = b"".join(file.read_bytes() for file in tmp_path.rglob("*") if file.is_file() and file.name != "secret")
    assert b"swordfish" not in left


def test_everything_comes_back_when_the_tier_goes(repo: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    repo.upkeep.tiers.set(tmp_path / "archive", "unread > 0d")
    later(monkeypatch, 2)
    before = packs(Path(repo.dir) / "packs")
    repo.upkeep.tiers.move()
    with pytest.raises(ml.errors.Conflict):
        repo.upkeep.tiers.set(tmp_path / "elsewhere")
    repo.upkeep.tiers.unset()
    assert packs(Path(repo.dir) / "packs") == before and repo.upkeep.tiers.status().tier is None


def test_an_address_that_somebody_sent_is_not_asked(
    repo: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo.upkeep.tiers.set(tmp_path / "archive", "unread > 0d")
    later(monkeypatch, 2)
    repo.upkeep.tiers.move()
    file = Path(repo.dir) / "tier.json"
    file.write_text(file.read_text().replace("archive", "trap"))
    with ml.open(repo.root) as again, pytest.raises(ml.errors.Denied, match="you have not given that address"):
        again.read("big.bin")


@pytest.mark.parametrize("when", ["", "unread", "unread > x", "size > 3", "unread > 90"])
def test_a_rule_that_cannot_be_read_is_refused(repo: Repo, tmp_path: Path, when: str) -> None:
    with pytest.raises(ml.errors.InvalidInput, match="is not a rule"):
        repo.upkeep.tiers.set(tmp_path / "archive", when)
