"""A repo made again from its packs alone, and commits taken in as they are."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

import memlake as ml
from memlake.errors import Corrupt, InvalidInput, NotFound
from memlake.records import Entry
from memlake.repo import Repo, rescue
from memlake.versions.trees import codec
from memlake.versions.upkeep import log_packs
from memlake.versions.upkeep.log_packs import FEW


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    return ml.init(tmp_path / "repo")


def fill(repo: Repo) -> None:
    """Something of every kind: small and large files, edits, memories, a part, branches, a tag, a merge, a purge."""
    rng = random.Random(1)
    text = [f"line {n} {rng.random()}" for n in range(900)]
    for number in range(6):
        text[number * 7] = f"edited {number}"
        (repo.root / "data.txt").write_text("\n".join(text))
        (repo.root / f"small{number}.txt").write_text(f"small {number}")
        (repo.root / "big.bin").write_bytes(rng.randbytes(1_200_000) if number < 2 else b"0123456789" * 150_000)
        repo.add(all=True)
        repo.commit(f"edit {number}", metrics={"n": number})
    repo.branches.create("side", "HEAD~2")
    repo.tags.create("v1", message="the first")
    for number in range(30):
        repo.write(
            {f"memories/bot/{number}": b"memory %d " % number * 20}, "m", branch="side" if number % 3 else "main"
        )
    repo.merge("side")
    part = repo.dir / "tmp" / "made"
    part.write_bytes(rng.randbytes(5000))
    oid = repo._history.objects.write_part(part)
    record = repo._history.objects.write(b"names " + oid.encode(), links=[oid])
    repo.write({"memories/bot/links": Entry(record, "memory", 6 + 64)}, "m")
    repo.upkeep.purge(repo.objects.at("small3.txt").oid, reason="a key")


def dump(repo: Repo) -> dict[str, object]:
    db = repo._history.db
    found: dict[str, object] = {
        "history": db.rows("SELECT seq, oid, lane, p1, p2, other, generation, data FROM history ORDER BY seq"),
        "ref": db.rows("SELECT kind, name, work, memory, note FROM ref ORDER BY kind, name"),
        "reflog": db.rows("SELECT id, kind, ref, lane, old, new, time, action, who, mark FROM reflog ORDER BY id"),
        "tombstone": db.rows("SELECT oid, seq, time, size, reason, who, purge FROM tombstone ORDER BY oid"),
        "objects": db.rows("SELECT oid, size, links FROM object ORDER BY oid"),
        "id": (repo._id, repo._history.salt),
    }
    for (oid,) in db.rows("SELECT oid FROM history"):
        for path, entry in repo.ls(oid.hex()):
            if not repo._history.objects.find_purged([entry.oid]):
                found[f"{oid.hex()} {path}"] = repo.objects.read(entry.oid)
    return found


def lose_database(repo: Repo) -> None:
    repo.close()
    for name in ("repo.db", "repo.db-wal", "repo.db-shm", "local.db"):
        (repo.dir / name).unlink(missing_ok=True)


def test_all_that_was_there_at_the_last_gc_comes_back_from_packs_alone(repo: Repo, tmp_path: Path) -> None:
    fill(repo)
    repo.upkeep.gc(prune=True)
    before = dump(repo)
    assert repo.upkeep.fsck(full=True).ok
    lose_database(repo)
    rescued = rescue(repo.dir, tmp_path / "again")
    assert rescued.lost == () and rescued.unnamed == ()
    with ml.open(tmp_path / "again") as again:
        assert dump(again) == before
        assert again.upkeep.fsck(full=True).ok
        again.reset("HEAD", mode="hard")
        assert (tmp_path / "again/small5.txt").read_text() == "small 5"
        fill_more = again.write({"memories/bot/new": b"new"}, "m")
        assert fill_more.seq > max(row[0] for row in before["history"])  # type: ignore[attr-defined]
        again.upkeep.gc(prune=True)
        assert again.upkeep.fsck(full=True).ok


def test_several_gcs_leave_several_segments_and_what_came_after_the_last_is_said(repo: Repo, tmp_path: Path) -> None:
    for number in range(3):
        (repo.root / "a.txt").write_text(f"text {number}\n" * 3000)
        repo.add(all=True)
        repo.commit(f"{number}")
        repo.upkeep.gc(prune=True)
    before = dump(repo)
    (repo.root / "later.bin").write_bytes(random.Random(3).randbytes(50_000))
    repo.add(all=True)
    repo.commit("after the last gc")
    lose_database(repo)
    rescued = rescue([repo.dir / "packs"], tmp_path / "again")
    assert rescued.commits == 3
    (unnamed,) = rescued.unnamed
    assert (unnamed.size, unnamed.media) == (50_000, "application/octet-stream")
    with ml.open(tmp_path / "again") as again:
        found = dump(again)
        assert {key: found[key] for key in before if key != "objects"} == {
            k: before[k] for k in before if k != "objects"
        }
        assert again.upkeep.fsck(full=True).ok
        assert again.objects.read(unnamed.oid) == random.Random(3).randbytes(50_000)


def test_a_gc_after_every_commit_leaves_few_files_and_all_can_be_rescued(repo: Repo, tmp_path: Path) -> None:
    for number in range(50):
        (repo.root / "a.txt").write_text(f"text {number}\n" * 100)
        repo.add(all=True)
        repo.commit(f"{number}")
        repo.upkeep.gc(prune=True)
    files = list((repo.dir / "packs").iterdir())
    logs = repo._history.db.rows("SELECT name FROM pack WHERE log = 1")
    assert len(logs) <= FEW and len(files) <= 2 * FEW + 2
    assert repo.upkeep.fsck(full=True).ok
    before = dump(repo)
    lose_database(repo)
    rescued = rescue(repo.dir, tmp_path / "again")
    assert (rescued.commits, rescued.lost, rescued.unnamed) == (50, (), ())
    with ml.open(tmp_path / "again") as again:
        assert dump(again) == before
        assert again.upkeep.fsck(full=True).ok


def test_refs_are_those_of_the_last_gc_also_when_no_commit_came_with_it(repo: Repo, tmp_path: Path) -> None:
    repo.write({"memories/bot/1": b"1"}, "m")
    repo.upkeep.gc(prune=True)
    repo.branches.create("side")
    repo.upkeep.gc(prune=True)
    before = dump(repo)
    lose_database(repo)
    rescue(repo.dir, tmp_path / "again")
    with ml.open(tmp_path / "again") as again:
        assert dump(again) == before


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("where", ["work", "a commit"])
def test_a_rescued_repo_stands_where_head_was_at_the_last_gc_and_says_nothing(
    repo: Repo, tmp_path: Path, where: str
) -> None:
    (repo.root / "a.txt").write_text("one\n")
    repo.add(all=True)
    one = repo.commit("one").oid
    repo.upkeep.gc()
    repo.branches.create("work")
    repo.upkeep.gc()
    repo.switch("work") if where == "work" else repo.switch(one, detach=True)
    repo.upkeep.gc()  # nothing but HEAD is new
    assert repo.upkeep.gc().packs == 0
    packs = len(list((repo.dir / "packs").iterdir()))
    repo.upkeep.gc()
    assert len(list((repo.dir / "packs").iterdir())) == packs
    lose_database(repo)
    rescue(repo.dir, tmp_path / "again")
    with ml.open(tmp_path / "again") as again:
        assert (again.branches.current, again.head) == ("work" if where == "work" else None, one)
        assert [change.path for change in again.status().unstaged] == ["files/a.txt"]
        again.reset("HEAD", mode="hard")
        assert (tmp_path / "again/a.txt").read_text() == "one\n"
        assert again.upkeep.fsck(full=True).ok and again.upkeep.gc().packs == 0


class Stop(BaseException):
    pass


@pytest.mark.parametrize("when", ["before its row", "before the old files go"])
def test_a_crash_while_segments_are_joined_loses_nothing(
    repo: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    def stop(*_: object, **__: object) -> None:
        raise Stop

    for number in range(FEW):
        repo.write({f"memories/bot/{number}": b"%d" % number}, "m")
        repo.upkeep.gc(prune=True)
    repo.write({"memories/bot/last": b"last"}, "m")
    repo.upkeep.purge(next(c.new.oid for c in repo.show(lane="memory").changes if c.new), reason="a key")
    store = log_packs._store_segment

    def store_and_stop(history: object, segment: log_packs.Segment) -> object:
        sealed = store(history, segment)  # type: ignore[arg-type]
        if len(segment.commits) > 1:
            if when == "before its row":
                raise Stop
            monkeypatch.setattr(type(repo._history.objects.packs), "delete", stop)
        return sealed

    monkeypatch.setattr(log_packs, "_store_segment", store_and_stop)
    with pytest.raises(Stop):
        repo.upkeep.gc(prune=True)
    monkeypatch.undo()
    before = dump(repo)
    assert repo.upkeep.fsck(full=True).ok
    shutil.copytree(repo.dir / "packs", tmp_path / "packs")
    rescued = rescue([tmp_path / "packs"], tmp_path / "again")
    assert (rescued.commits, rescued.lost) == (FEW + 1, ())
    with ml.open(tmp_path / "again") as again:
        assert dump(again) == before
    repo.upkeep.gc(prune=True)
    assert len(list((repo.dir / "packs").iterdir())) <= 2 * FEW
    assert repo.upkeep.fsck(full=True).ok


def test_what_cannot_be_rescued_is_named_and_nothing_is_overwritten(repo: Repo, tmp_path: Path) -> None:
    fill(repo)
    with pytest.raises(NotFound, match="no log segment"):
        rescue(repo.dir, tmp_path / "none")
    assert not (tmp_path / "none").exists()
    repo.upkeep.gc(prune=True)
    lose_database(repo)
    shutil.rmtree(repo.dir / "parts")
    rescued = rescue([repo.dir / "packs"], tmp_path / "again")
    assert [what for what in rescued.lost if what.startswith("part ")] != []
    with pytest.raises(ml.errors.AlreadyExists):
        rescue(repo.dir, tmp_path / "again")
    with ml.init(tmp_path / "other") as other:
        fill(other)
        other.upkeep.gc(prune=True)
    with pytest.raises(InvalidInput, match="the packs of 2 repos"):
        rescue([repo.dir / "packs", tmp_path / "other"], tmp_path / "both")


def test_a_purge_leaves_nothing_in_the_copies_that_gc_made(repo: Repo, tmp_path: Path) -> None:
    repo.write({"memories/bot/secret": b"MARKER-" + random.Random(4).randbytes(30).hex().encode()}, "m")
    repo.upkeep.gc(prune=True)
    assert any(b"MARKER-" in file.read_bytes() for file in (repo.dir / "packs").iterdir()), "the copy is there"
    (change,) = repo.show(lane="memory").changes
    assert change.new is not None
    repo.upkeep.purge(change.new.oid, reason="a key")
    assert not any(b"MARKER-" in file.read_bytes() for file in repo.dir.rglob("*") if file.is_file())
    repo.upkeep.gc(prune=True)
    lose_database(repo)
    rescue(repo.dir, tmp_path / "again")
    with ml.open(tmp_path / "again") as again, pytest.raises(ml.errors.Purged, match="a key"):
        again.objects.read(change.new.oid)


# -- taking in commits -----------------------------------------------------------------------------


def commits_of(repo: Repo) -> list[bytes]:
    return [row[0] for row in repo._history.db.rows("SELECT data FROM history ORDER BY seq")]


def test_a_commit_made_elsewhere_is_taken_in_as_it_is(repo: Repo, tmp_path: Path) -> None:
    for number in range(20):
        repo.write({f"memories/bot/{number % 7}": b"%d" % number}, "m")
    with ml.init(tmp_path / "other") as other:
        with other._history.db.write():
            taken = [other._history.adopt(data) for data in commits_of(repo)]
            assert other._history.adopt(commits_of(repo)[-1]).oid == taken[-1].oid, "a second time changes nothing"
        assert commits_of(other) == commits_of(repo)
        assert dict(other._history.scan(taken[-1])) == dict(repo.ls(taken[-1].oid))


@pytest.mark.parametrize(
    "change",
    [
        {"root": "11" * 32}, {"generation": 9}, {"parents": ("22" * 32,)}, {"lane": "work"}, {"changes": ()},
    ],
)  # fmt: skip
def test_a_commit_that_does_not_hold_together_is_not_taken_in(
    repo: Repo, tmp_path: Path, change: dict[str, object]
) -> None:
    for number in range(3):
        repo.write({f"memories/bot/{number}": b"%d" % number}, "m")
    *first, last = commits_of(repo)
    wrong = codec.encode_commit(codec.decode_commit(last)._replace(**change))  # type: ignore[arg-type]
    with ml.init(tmp_path / "other") as other:
        with other._history.db.write():
            for data in first:
                other._history.adopt(data)
        with pytest.raises((Corrupt, NotFound)), other._history.db.write():
            other._history.adopt(wrong)
        assert commits_of(other) == first


def test_bytes_that_are_not_canonical_are_no_commit(repo: Repo) -> None:
    repo.write({"memories/bot/1": b"1"}, "m")
    data = commits_of(repo)[0]
    with pytest.raises(Corrupt), repo._history.db.write():
        repo._history.adopt(data + b"\0")
