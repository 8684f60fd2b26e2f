"""Which trees of the memory lane are kept, and the weak note of the other lane."""

from __future__ import annotations

from pathlib import Path

import pytest

import memlake as ml
from memlake.objects.purge import PurgeRecord, decode_purge, read_purges
from memlake.versions.history import commits, thin
from memlake.versions.trees import codec


@pytest.fixture
def repo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ml.Repo:
    monkeypatch.setattr(commits, "WINDOW", 16)
    return ml.init(tmp_path / "repo")


def roots_stored(repo: ml.Repo) -> dict[str, bool]:
    """commit -> whether the root of its tree is stored."""
    found = {}
    for oid, data in repo._history.db.rows("SELECT oid, data FROM history WHERE lane = 1"):
        found[oid.hex()] = bool(repo._history.nodes.find_stored([thin.root_of(data)]))
    return found


def merge_often(repo: ml.Repo, times: int) -> None:
    repo.branches.create("side")
    for number in range(times):
        repo.write({f"memories/bot/a{number}": b"%d" % number}, "ours")
        repo.write({f"memories/bot/b{number}": b"%d" % number}, "theirs", branch="side")
        assert not repo.merge("side").conflicts


def test_merges_and_their_parents_are_thinned_and_every_commit_still_reads(repo: ml.Repo) -> None:
    repo.write({"memories/bot/0": b"first"}, "m")
    merge_often(repo, 24)
    repo.upkeep.gc(prune=True)
    stored = roots_stored(repo)
    assert sum(stored.values()) <= len(stored) // 16 + 3, "as many as there are windows, and the heads"
    repo._history.forget()
    for oid in stored:
        assert dict(repo.ls(oid))
    assert repo.upkeep.fsck(full=True).ok


def test_a_window_whose_beginning_a_merge_jumped_over_is_kept_all_the_same(repo: ml.Repo) -> None:
    repo.write({"memories/bot/0": b"first"}, "m")
    repo.branches.create("side")
    for number in range(14):
        repo.write({f"memories/bot/s{number}": b"x"}, "theirs", branch="side")
    repo.write({"memories/bot/1": b"ours"}, "m")
    repo.merge("side")  # from generation 2 to 16
    jumped = repo.show(lane="memory").commit
    assert jumped.generation == 16 and len(jumped.parents) == 2
    for number in range(6):
        repo.write({f"memories/bot/t{number}": b"x"}, "m")
    repo.upkeep.gc(prune=True)
    assert roots_stored(repo)[jumped.oid]
    assert repo.upkeep.fsck(full=True).ok


def test_a_window_that_begins_with_no_node_of_its_own_right_after_a_work_commit_is_thinned(repo: ml.Repo) -> None:
    for number in range(1, 15):
        repo.write({f"state/bot/{number}": b"x"}, "m")
    repo.write({"state/bot/last": b"x"}, "m")
    (repo.root / "a.txt").write_text("a")
    repo.add(repo.root / "a.txt")
    repo.commit("one")
    repo.write({"state/bot/last": None}, "m")  # the tree is that of the commit before the last: no node is new
    begun = repo.show(lane="memory").commit
    assert begun.generation == 16 and roots_stored(repo)[begun.oid]
    assert len(dict(repo.ls(prefix="state/"))) == 14 and repo.read("files/a.txt") == b"a"
    assert repo.upkeep.fsck(full=True).ok


def test_a_commit_may_name_a_head_of_the_other_lane_that_is_not_here(repo: ml.Repo) -> None:
    repo.write({"memories/bot/0": b"first"}, "m")
    (repo.root / "a.txt").write_text("a")
    repo.add(repo.root / "a.txt")
    commit = repo.commit("one")
    assert commit.other is not None
    db = repo._history.db
    with db.write():  # as if files had been shared without memories
        db.run("DELETE FROM reflog")
        db.run("UPDATE ref SET memory = NULL")
        db.run("UPDATE history SET other = NULL WHERE lane = 0")
        db.run("DELETE FROM history WHERE lane = 1")
    repo._history.forget()
    repo.upkeep.gc(prune=True)
    assert [problem for problem in repo.upkeep.fsck(full=True).problems if problem.kind == "missing"] == []
    repo.branches.create("from-there", commit.oid)
    assert {b.name: b.memory for b in repo.branches}["from-there"] is None
    repo.switch(commit.oid, detach=True)
    assert repo.read("a.txt") == b"a"


def test_a_purge_is_a_record_that_a_second_purge_never_changes(repo: ml.Repo) -> None:
    (repo.root / "big.bin").write_bytes(bytes(range(256)) * 8000)
    repo.add(repo.root / "big.bin")
    repo.commit("one")
    oid = repo.objects.at("big.bin").oid
    chunks = {digest.hex() for digest, _ in repo._history.objects.pieces(oid)}
    first = repo.upkeep.purge(oid, reason="a key")
    again = repo.upkeep.purge(oid, reason="another reason")
    assert again.seq == first.seq
    ((seq, record),) = read_purges(repo._history.db)
    assert (seq, record.repo, record.oids, record.reason) == (first.seq, repo._id, (oid,), "a key")
    assert set(record.loose) >= chunks
    assert read_purges(repo._history.db, after=seq) == []
    with pytest.raises(ml.errors.Purged, match="a key"):
        repo.read("big.bin")
    assert repo.upkeep.fsck(full=True).ok


def test_the_record_of_a_purge_has_the_bytes_it_always_had() -> None:
    record = PurgeRecord("0199c5b0-1111-7222-8333-444455556666", ("22" * 32, "11" * 32), ("33" * 32,), 5, "why", "who")
    assert codec.unpack(record.encode()) == [
        1, bytes.fromhex("0199c5b0111172228333444455556666"), [b"\x11" * 32, b"\x22" * 32], [b"\x33" * 32], 5, "why",
        "who",
    ]  # fmt: skip
    assert decode_purge(record.encode()) == record._replace(oids=("11" * 32, "22" * 32))


@pytest.mark.parametrize("column", ["reason = 'other'", "time = time + 1", "purge = zeroblob(32)"])
def test_a_tombstone_that_says_other_than_its_record_is_found(repo: ml.Repo, column: str) -> None:
    (repo.root / "a.txt").write_text("a")
    repo.add(repo.root / "a.txt")
    repo.commit("one")
    repo.upkeep.purge(repo.objects.at("a.txt").oid, reason="a key")
    with repo._history.db.write():
        repo._history.db.run(f"UPDATE tombstone SET {column}")
    assert [problem.kind for problem in repo.upkeep.fsck().problems] == ["damaged"]
