"""Older versions stored as differences: small, checked on read, never too deep, and no hindrance to gc and purge."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import ItemsView
from pathlib import Path

import pytest

import memlake as ml
from memlake.errors import Corrupt
from memlake.objects import audit, deltas, packs
from memlake.objects.packs import DELTA, DEPTH
from memlake.objects.places import Pieces, Place, Ranges
from memlake.objects.store import Objects
from memlake.repo import Repo


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    return ml.init(tmp_path / "repo")


def lines(count: int, seed: int = 1) -> list[str]:
    rng = random.Random(seed)
    return [f'{{"id": {n}, "value": {rng.random()}, "name": "{rng.randbytes(8).hex()}"}}' for n in range(count)]


def edit(repo: Repo, times: int, count: int = 300, seed: int = 1, gc: bool = False) -> list[bytes]:
    """Versions of one file, each one line apart from the one before."""
    text, rng, versions = lines(count, seed), random.Random(seed), list[bytes]()
    for number in range(times):
        text[rng.randrange(count)] = f'{{"edited": {number}, "value": {rng.random()}}}'
        versions.append("\n".join(text).encode())
        (repo.root / "data.json").write_bytes(versions[-1])
        repo.add(repo.root / "data.json")
        repo.commit(f"edit {number}")
        if gc:
            repo.upkeep.gc(prune=True)
    return versions


def read_all(repo: Repo) -> list[bytes]:
    return [repo.read("data.json", commit.oid) for commit in reversed(list(repo.log()))]


def forms(repo: Repo) -> list[int]:
    return [row[0] for row in repo._history.db.rows("SELECT form FROM object WHERE size > 5000")]


def depth(repo: Repo) -> int:
    db = repo._history.db
    return max(len(list(deltas.lineage(db, oid))) - 1 for (oid,) in db.rows("SELECT oid FROM object"))


def test_older_versions_become_deltas_and_read_as_before(repo: Repo) -> None:
    versions = edit(repo, 40)
    before = sum(file.stat().st_size for file in (repo.dir / "packs").iterdir())
    assert repo.upkeep.gc(prune=True).deltas == 39
    after = sum(file.stat().st_size for file in (repo.dir / "packs").iterdir())
    assert forms(repo).count(DELTA) == 39 and after < before / 10
    assert depth(repo) <= 8, "as the digits of 39 and those below it, in base four, add up"
    assert read_all(repo) == versions
    assert repo.upkeep.fsck(full=True).ok
    assert repo.upkeep.gc(prune=True).deltas == 0, "what is done is not done again"


def test_a_gc_after_every_commit_never_goes_deeper_than_the_limit(repo: Repo) -> None:
    versions = edit(repo, DEPTH + 6, gc=True)
    assert 10 < depth(repo) <= DEPTH
    assert read_all(repo) == versions
    assert repo.upkeep.fsck(full=True).ok


BEGIN = """import sqlite3, sys
other = sqlite3.connect(sys.argv[1], timeout=0, isolation_level=None)
other.execute("BEGIN IMMEDIATE")  # refused while somebody has the lock
other.execute("ROLLBACK")"""


def test_a_dry_run_lets_others_write_while_it_tries_deltas(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    edit(repo, 5)
    squeeze, tried = packs.squeeze_against, []

    def squeeze_while_another_writes(data: bytes, base: bytes) -> bytes:
        # Another process: closing a file of ours would drop the locks that this one has on it.
        subprocess.run([sys.executable, "-c", BEGIN, repo.dir / "repo.db"], check=True)
        tried.append(len(data))
        return squeeze(data, base)

    monkeypatch.setattr(packs, "squeeze_against", squeeze_while_another_writes)
    told = repo.upkeep.gc(dry_run=True, prune=True)
    assert told.deltas == len(tried) == 4
    monkeypatch.undo()
    assert repo.upkeep.gc(prune=True) == told._replace(dry_run=False)


def test_planning_a_delta_does_not_go_through_all_that_are_planned(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    class Counted(dict[bytes, bytes]):
        scans = 0

        def items(self) -> ItemsView[bytes, bytes]:  # type: ignore[override]
            self.scans += 1
            return super().items()

    bases, init = Counted(), deltas._Work.__init__

    def watched(work: deltas._Work, objects: Objects, **how: bool) -> None:
        init(work, objects, **how)
        work._bases = bases

    edit(repo, 20)
    monkeypatch.setattr(deltas._Work, "__init__", watched)
    assert repo.upkeep.gc(prune=True).deltas == 19
    assert bases.scans == 1, "when all of them take their places"


def test_what_resembles_nothing_and_what_comes_back_is_left_readable(repo: Repo) -> None:
    first = "\n".join(lines(300, 7)).encode()
    contents = [first, random.Random(2).randbytes(20_000), first, first + b"\nmore", first]
    for number, content in enumerate(contents):
        (repo.root / "data.json").write_bytes(content)
        repo.add(repo.root / "data.json")
        repo.commit(f"{number}")
        repo.upkeep.gc(prune=True)
    assert read_all(repo) == contents
    assert repo.upkeep.fsck(full=True).ok


def test_chunks_of_a_large_file_rest_on_those_that_took_their_place(repo: Repo) -> None:
    rng = random.Random(5)
    content = bytearray("\n".join(lines(20_000, 3)).encode())
    versions = []
    for number in range(5):
        content[500_000 : 500_000 + 12] = rng.randbytes(6).hex().encode()
        versions.append(bytes(content))
        (repo.root / "data.json").write_bytes(content)
        repo.add(repo.root / "data.json")
        repo.commit(f"edit {number}")
    assert repo.upkeep.gc(prune=True).deltas >= 4
    assert read_all(repo) == versions
    assert repo.upkeep.fsck(full=True).ok


def test_a_base_that_nothing_names_any_more_stays_as_long_as_a_delta_rests_on_it(repo: Repo) -> None:
    versions = edit(repo, 3)
    repo.branches.create("old", "HEAD~1")
    repo.upkeep.gc(prune=True)
    newest = bytes.fromhex(repo.objects.at("data.json").oid)
    repo.switch("old")
    repo.branches.delete("main", force=True)
    db = repo._history.db
    with db.write():
        db.run("DELETE FROM reflog")
    with repo._local.db.write():
        for table in ("operation", "headlog"):
            repo._local.db.run(f"DELETE FROM {table}")
    repo.upkeep.gc(prune=True)
    repo.upkeep.gc(prune=True)
    assert read_all(repo) == versions[:2]
    assert db.row("SELECT 1 FROM object WHERE oid = ?", (newest,)), "two deltas rest on it"


def test_a_purge_of_a_base_stores_what_rested_on_it_whole(repo: Repo) -> None:
    versions = edit(repo, 12)
    repo.upkeep.gc(prune=True)
    commits = list(reversed(list(repo.log())))
    marker = versions[-1].split(b'{"edited": 11, ')[1][:24]
    repo.upkeep.purge(repo.objects.at("data.json", commits[-1].oid).oid, reason="a key")
    assert [repo.read("data.json", commit.oid) for commit in commits[:-1]] == versions[:-1]
    with pytest.raises(ml.errors.Purged):
        repo.read("data.json", commits[-1].oid)
    assert not any(marker in file.read_bytes() for file in (repo.dir / "packs").iterdir())
    assert repo.upkeep.fsck(full=True).ok


def test_packs_that_hold_an_old_whole_record_and_the_delta_of_it_are_joined_right(repo: Repo) -> None:
    versions = edit(repo, 6)
    for number in range(12):  # more small packs than may lie about
        (repo.root / f"noise{number}").write_bytes(random.Random(number).randbytes(30_000))
        repo.add(repo.root / f"noise{number}")
    repo.commit("noise")
    repo.upkeep.gc(prune=True)
    edited = edit(repo, 3, seed=2)
    repo.upkeep.gc(prune=True)
    assert {*versions, *edited} <= {repo.read("data.json", c.oid) for c in repo.log()}
    assert repo.upkeep.fsck(full=True).ok


@pytest.mark.parametrize("damage", ["UPDATE object SET data = zeroblob(32) WHERE form = 6", "circle"])
def test_a_delta_whose_base_is_wrong_is_found_and_not_served(repo: Repo, damage: str) -> None:
    edit(repo, 3)
    repo.upkeep.gc(prune=True)
    db = repo._history.db
    with db.write():
        if damage == "circle":
            db.run("UPDATE object SET data = oid WHERE form = 6")
        else:
            db.run(damage)
    oldest = list(repo.log())[-1]
    with pytest.raises((Corrupt, ml.errors.NotFound)):
        repo.read("data.json", oldest.oid)
    assert not repo.upkeep.fsck(full=True).ok


def test_a_delta_that_claims_more_than_any_may_is_refused_before_it_is_unpacked() -> None:
    size = packs.LARGEST + 1
    frame = packs.squeeze_against(bytes(size), b"base")
    assert len(frame) < 1000
    with pytest.raises(Corrupt, match="claims"):
        packs.expand_against(frame, b"base", size)


def test_a_hundred_small_edits_cost_no_more_than_one_and_a_half_times_what_git_needs(tmp_path: Path) -> None:
    count = 2400  # about 240 KB
    with ml.init(tmp_path / "repo") as repo:
        versions = edit(repo, 100, count)
        repo.upkeep.gc(prune=True)
        ours = sum(file.stat().st_size for file in (repo.dir / "packs").iterdir())
        databases = [(repo.dir / name).stat().st_size for name in ("repo.db", "local.db")]
        assert sum(databases) < 230_000, "what undo, HEAD's log and 100 commits need, without free pages"
        assert all(not (repo.dir / f"{name}-wal").stat().st_size for name in ("repo.db", "local.db"))
        assert read_all(repo) == versions
    root = tmp_path / "git"
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    stream = b"".join(
        b"commit refs/heads/main\ncommitter t <t@t> %d +0000\ndata 1\nxM 644 inline data.json\ndata %d\n%s\n"
        % (number, len(content), content)
        for number, content in enumerate(versions)
    )
    subprocess.run(["git", "-C", str(root), "fast-import", "--quiet"], input=stream, check=True)
    subprocess.run(["git", "-C", str(root), "gc", "-q", "--aggressive"], check=True)
    theirs = sum(file.stat().st_size for file in (root / ".git/objects/pack").iterdir())
    assert ours <= 1.5 * theirs


def test_a_purge_copies_few_bytes_of_a_pack_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    repo = ml.init(tmp_path / "repo")
    for number in range(40):
        (repo.root / f"f{number}").write_bytes(random.Random(number).randbytes(100_000))
    repo.add(all=True)
    repo.commit("all in one pack")
    monkeypatch.setattr(packs, "SPAN", 250_000)
    place, asked = type(repo._history.objects.packs), list[int]()
    read = place.get_ranges

    def get_ranges(self: Place, name: str, ranges: Ranges) -> Pieces:
        asked.append(sum(length for _, length in ranges))
        return read(self, name, ranges)

    monkeypatch.setattr(place, "get_ranges", get_ranges)
    repo.upkeep.purge(dict(repo.ls())["files/f0"].oid, reason="a test")
    assert max(asked) <= 250_000 and sum(size > 100_000 for size in asked) > 10
    monkeypatch.undo()
    assert repo.upkeep.fsck(full=True).ok and repo.read("f7") == random.Random(7).randbytes(100_000)


def test_a_full_check_reads_a_part_in_pieces(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    file = repo.dir / "part"
    file.write_bytes(random.Random(1).randbytes(1_000_000))
    oid = repo._history.objects.write_part(file)
    monkeypatch.setattr(audit, "_BLOCK", 300_000)
    place, asked = type(repo._history.objects.parts), list[int]()
    read = place.get

    def get(self: Place, name: str, start: int, length: int) -> bytes:
        asked.append(length)
        return read(self, name, start, length)

    monkeypatch.setattr(place, "get", get)
    assert audit.check_objects(repo._history.objects, full=True)[1] == []
    assert max(asked) <= 300_000 and sum(asked) >= 1_000_000
    stored = next(path for path in (repo.dir / "parts").rglob("*") if path.is_file())
    stored.chmod(0o644)
    stored.write_bytes(stored.read_bytes()[:-1] + b"!")
    findings = audit.check_objects(repo._history.objects, full=True)[1]
    assert [(one.hex(), kind) for one, kind, _ in findings] == [(oid, "damaged")]
