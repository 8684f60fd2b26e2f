"""What gc and purge remove of files that no row names: what is provably ours, and nothing else."""

from __future__ import annotations

import contextlib
import random
from pathlib import Path

import pytest

import memlake as ml
from memlake.objects import strays
from memlake.objects.leases import Lease
from memlake.objects.packs import PackWriter
from memlake.objects.sweep import FEW
from memlake.repo import Repo

OURS = ("tmp/" + "1" * 32 + ".pack", "tmp/family-12-3.parquet", "tmp/backup-ab_c1", "parts/ab/ab" + "c" * 62)
FOREIGN = ("tmp/thesis.docx", "tmp/1234.pack", "parts/ab/cd" + "c" * 62, "parts/notes.txt", "packs/" + "f" * 64)


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    return ml.init(tmp_path / "repo")


def plant(repo: Repo, *names: str) -> None:
    for name in names:
        (repo.dir / name).parent.mkdir(exist_ok=True)
        (repo.dir / name).write_bytes(b"12345")


def orphan_pack(repo: Repo) -> str:
    """What a writer that died between its pack and its rows leaves behind."""
    writer = PackWriter(repo.dir / "tmp", repo._id)
    writer.append(b"\1" * 32, random.Random(1).randbytes(1000), 1)
    sealed = writer.seal()
    sealed.path.rename(repo.dir / "packs" / sealed.name)
    return f"packs/{sealed.name}"


def test_a_dry_run_names_exactly_the_files_that_a_run_removes(repo: Repo) -> None:
    plant(repo, *OURS, *FOREIGN)
    ours = {*OURS, orphan_pack(repo)}
    told = repo.upkeep.gc(dry_run=True, prune=True)
    assert set(told.names) == ours and told.files == len(ours)
    assert all((repo.dir / name).exists() for name in ours)
    done = repo.upkeep.gc(prune=True)
    assert done == told._replace(dry_run=False)
    assert not any((repo.dir / name).exists() for name in ours)
    assert all((repo.dir / name).read_bytes() == b"12345" for name in FOREIGN)


def test_a_dry_run_counts_rows_packs_and_files_as_the_run_after_it_does(repo: Repo) -> None:
    for number in range(12):
        (repo.root / "f").write_bytes(random.Random(number).randbytes(30_000))
        repo.add(repo.root / "f")
    part = repo.dir / "tmp" / "made"
    part.write_bytes(b"a part that nothing names")
    repo._history.objects.write_part(part)
    repo.commit("one")
    told = repo.upkeep.gc(dry_run=True, prune=True)
    assert (told.objects, told.packs, told.files, told.bytes) == (1, 12, 1, len(b"a part that nothing names"))
    assert repo.upkeep.gc(prune=True) == told._replace(dry_run=False)
    assert repo.upkeep.fsck(full=True).ok


def test_the_age_of_a_stray_counts_from_when_gc_first_saw_it(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(repo, OURS[0])
    assert repo.upkeep.gc().files == 0  # seen now, by our own clock: what the file system says of its age is not asked
    assert repo.upkeep.gc().files == 0
    monkeypatch.setattr(strays, "_HOUR", -1)  # a day later
    assert repo.upkeep.gc().names == (OURS[0],)


def test_a_stray_seen_before_a_lease_began_goes_and_one_seen_after_stays(repo: Repo) -> None:
    plant(repo, OURS[0])
    repo.upkeep.gc()
    lease = Lease(repo._history.db, "test")
    plant(repo, OURS[1])
    with repo._history.db.write():
        assert [stray.name for stray in strays.find_old_strays(repo._history.objects, 0)] == [OURS[0]]
    lease.close()


@pytest.mark.parametrize("room", ["tmp", "parts", "packs"])
def test_gc_and_purge_follow_no_link(repo: Repo, tmp_path: Path, room: str) -> None:
    (repo.root / "f").write_bytes(b"text")
    repo.add(repo.root / "f")
    repo.commit("one")
    victim = tmp_path / "victim"
    (victim / "ab").mkdir(parents=True)
    for name in ("1" * 32 + ".pack", "ab/ab" + "c" * 62, "f" * 64):
        (victim / name).write_bytes(b"mine")
    (repo.dir / room).rmdir()
    (repo.dir / room).symlink_to(victim)
    for verb in (
        lambda: repo.upkeep.gc(prune=True),
        lambda: repo.upkeep.purge(repo.objects.at("f").oid, reason="test"),
    ):
        with contextlib.suppress(ml.Error):  # refusing to work there is as good
            verb()
    assert sum(path.is_file() for path in victim.rglob("*")) == 3


def read_packs(repo: Repo) -> set[str]:
    return {f"packs/{file.name}" for file in (repo.dir / "packs").iterdir()}


def commit_text(repo: Repo, name: str, text: str) -> None:
    (repo.root / name).write_text(text)
    repo.add(all=True)
    repo.commit(name)


def test_a_gc_that_finds_nothing_to_do_replaces_no_pack(repo: Repo) -> None:
    for number in range(3):
        commit_text(repo, f"f{number}", f"{number}\n")
    repo.upkeep.gc()
    before = read_packs(repo)
    report = repo.upkeep.gc()
    assert (report.packs, report.names, read_packs(repo)) == (0, (), before)
    assert repo.upkeep.gc(dry_run=True) == report._replace(dry_run=True)


def test_a_dry_run_names_the_packs_that_older_versions_leave_behind_as_they_become_deltas(repo: Repo) -> None:
    lines = [f"line {number} {random.Random(number).random()}" for number in range(3000)]
    for number in range(6):
        lines[number * 7] = f"edited {number}"
        commit_text(repo, "data.txt", "\n".join(lines))
    told, before = repo.upkeep.gc(dry_run=True, prune=True), read_packs(repo)
    assert told.deltas == 5 and told.packs > 0 and not list((repo.dir / "tmp").iterdir())
    done = repo.upkeep.gc(prune=True)
    assert done == told._replace(dry_run=False)
    assert before - read_packs(repo) == {name for name in told.names if name.startswith("packs/")}
    assert repo.upkeep.fsck(full=True).ok


def test_a_dry_run_names_the_log_packs_that_a_run_joins(repo: Repo) -> None:
    for number in range(FEW):
        commit_text(repo, f"f{number}", f"{number}\n")
        repo.upkeep.gc()
    commit_text(repo, "last", "last\n")
    told, before = repo.upkeep.gc(dry_run=True), read_packs(repo)
    assert repo.upkeep.gc() == told._replace(dry_run=False)
    assert len(told.names) >= FEW and before - read_packs(repo) == set(told.names)
    assert repo.upkeep.fsck(full=True).ok
