"""A place outside the repo belongs to one repo folder: nothing of anybody else's in it is ever removed."""

from __future__ import annotations

import os
import random
import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path

import boto3
import pytest
from moto.server import ThreadedMotoServer

import memlake as ml
from memlake.errors import Denied
from memlake.objects.owner_mark import MARK, Mark, OwnedPlace, decode_mark
from memlake.objects.packs import PackWriter
from memlake.objects.places import Folder
from memlake.repo import Repo

SIZE = 40_000


@pytest.fixture(params=["folder", "bucket"])
def place(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    if request.param == "folder":
        (tmp_path / "disk").mkdir()
        yield str(tmp_path / "disk")
        return
    server = ThreadedMotoServer("127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    names = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL")
    for name, value in zip(names, ("k", "s", "us-east-1", "us-east-1", f"http://{host}:{port}"), strict=True):
        monkeypatch.setenv(name, value)
    bucket = f"b{uuid.uuid4().hex}"  # the server keeps what is in a bucket as long as the process lives
    boto3.client("s3").create_bucket(Bucket=bucket)
    yield f"s3://{bucket}/packs"
    server.stop()


def repo_in(root: Path, place: str) -> Repo:
    """A repo whose packs lie in `place`, by a setting of the user's that holds for all repos."""
    settings = root.parent / "settings/memlake/config.toml"
    settings.parent.mkdir(parents=True, exist_ok=True)
    settings.write_text(f'[core]\npacks = "{place}"\n')
    return ml.init(root)


@pytest.fixture(autouse=True)
def _settings_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "settings"))


def put(repo: Repo, name: str, seed: int) -> bytes:
    data = random.Random(seed).randbytes(SIZE)
    (repo.root / name).write_bytes(data)
    repo.add(repo.root / name)
    repo.commit(name)
    return data


def test_a_second_repo_is_refused_and_the_first_keeps_every_byte(tmp_path: Path, place: str) -> None:
    with repo_in(tmp_path / "a", place) as a, repo_in(tmp_path / "b", place) as b:
        data = put(a, "big.bin", 1)
        (b.root / "mine.bin").write_bytes(random.Random(2).randbytes(SIZE))
        for verb in (
            lambda: b.add(b.root / "mine.bin"),
            lambda: b.upkeep.gc(prune=True),
            b.upkeep.gc,
            lambda: b.config.set("core.packs", place),
        ):
            with pytest.raises(Denied, match=f"another repo, {a._id}"):
                verb()
        assert a.read("big.bin") == data
        a.upkeep.gc(prune=True)
        assert a.upkeep.fsck(full=True).ok


def test_a_folder_that_holds_other_things_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    (disk / "photos").mkdir(parents=True)
    for name in ("thesis.docx", "photos/a.jpg", "old.txt"):
        (disk / name).write_text("mine")
        os.utime(disk / name, (1, 1))
    with repo_in(tmp_path / "repo", str(disk)) as repo:
        (repo.root / "big").write_bytes(random.Random(3).randbytes(SIZE))
        for verb in (
            lambda: repo.add(repo.root / "big"),
            lambda: repo.upkeep.gc(prune=True),
            lambda: repo.upkeep.gc(dry_run=True),
        ):
            with pytest.raises(Denied, match="is not empty"):
                verb()
    assert sorted(path.name for path in disk.rglob("*")) == ["a.jpg", "old.txt", "photos", "thesis.docx"]


def test_gc_and_purge_leave_what_others_put_into_a_place_of_ours_later(tmp_path: Path) -> None:
    disk, foreign = tmp_path / "disk", "ab" * 32
    with repo_in(tmp_path / "repo", str(disk)) as repo:
        put(repo, "one.bin", 4)
        put(repo, "two.bin", 5)
        (disk / "notes.txt").write_text("mine")
        (disk / foreign).write_text("looks like a pack by its name alone")
        (disk / "photos").mkdir()
        (disk / "photos/a.jpg").write_text("mine")
        writer = PackWriter(tmp_path, "0199c5b0-1111-7222-8333-444455556666")
        writer.append(bytes.fromhex(repo.objects.at("two.bin").oid), b"of another repo", 1)
        sealed = writer.seal()
        shutil.copy(sealed.path, disk / sealed.name)
        before = {path.name for path in disk.rglob("*")}
        assert repo.upkeep.gc(dry_run=True, prune=True).names == ()
        repo.upkeep.gc(prune=True)
        assert before <= {path.name for path in disk.rglob("*")}  # what gc adds are packs of its own
        repo.upkeep.purge(repo.objects.at("two.bin").oid, reason="test")
        assert {"notes.txt", foreign, "a.jpg", sealed.name} <= {path.name for path in disk.rglob("*")}
        assert repo.upkeep.fsck(full=True).ok


def test_a_copy_of_the_repo_reads_its_packs_but_removes_none_of_them(tmp_path: Path, place: str) -> None:
    with repo_in(tmp_path / "a", place) as a:
        kept, other = put(a, "one.bin", 6), put(a, "two.bin", 7)
        oid = a.objects.at("two.bin").oid
    shutil.copytree(tmp_path / "a", tmp_path / "copy")
    with ml.open(tmp_path / "copy") as copy:
        assert copy.read("two.bin") == other
        copy.rm(copy.root / "two.bin")
        for verb in (
            lambda: copy.upkeep.gc(prune=True),
            lambda: copy.upkeep.purge(oid, reason="test"),
            lambda: put(copy, "new", 8),
        ):
            with pytest.raises(Denied, match=r"belongs to the copy of this repo in .*/a/\.memlake"):
                verb()
    with ml.open(tmp_path / "a") as a:
        assert (a.read("one.bin"), a.read("two.bin")) == (kept, other)
        a.upkeep.gc(prune=True)
        assert a.upkeep.fsck(full=True).ok


def test_a_copy_takes_the_place_over_when_its_user_says_so(tmp_path: Path, place: str) -> None:
    with repo_in(tmp_path / "a", place) as a:
        put(a, "one.bin", 9)
    shutil.copytree(tmp_path / "a", tmp_path / "copy")
    with ml.open(tmp_path / "copy") as copy:
        with pytest.raises(Denied) as refused:
            put(copy, "new", 10)
        assert f"memlake config core.packs {place}" in refused.value.hint
        copy.config.set("core.packs", place)
        put(copy, "newer", 11)
    with ml.open(tmp_path / "a") as a, pytest.raises(Denied, match="copy of this repo"):
        a.upkeep.gc(prune=True)


def test_a_repo_that_was_moved_keeps_its_place(tmp_path: Path) -> None:
    with repo_in(tmp_path / "a", str(tmp_path / "disk")) as a:
        data = put(a, "one.bin", 12)
    os.rename(tmp_path / "a", tmp_path / "b")
    with ml.open(tmp_path / "b") as b:
        put(b, "two.bin", 13)
        b.upkeep.gc(prune=True)
        assert b.read("one.bin") == data
    assert decode_mark((tmp_path / "disk" / MARK).read_bytes()).path == str(tmp_path / "b/.memlake")


@pytest.mark.parametrize(
    ("change", "allowed"),
    [
        ({}, True),
        ({"host": "another-container"}, True),  # the same volume in a new container
        ({"inode": "1"}, True),  # unpacked from a backup at the same place
        ({"host": "other", "inode": "1"}, False),  # the same path on another machine
        ({"path": "/gone/.memlake"}, True),  # moved
        ({"path": "/gone/.memlake", "host": "other", "inode": "1"}, False),  # a copy from another machine
        ({"repo": "0199c5b0-1111-7222-8333-444455556666"}, False),
    ],
)
def test_who_may_use_a_marked_place(tmp_path: Path, change: dict[str, str], allowed: bool) -> None:
    repo = ml.init(tmp_path / "repo")
    place = OwnedPlace(Folder(tmp_path / "disk"), repo.dir, lambda: repo._id)
    place.claim()
    mark = decode_mark((tmp_path / "disk" / MARK).read_bytes())
    assert isinstance(mark, Mark) and mark.repo == repo._id
    (tmp_path / "disk" / MARK).write_bytes(mark._replace(**change).encode())
    again = OwnedPlace(Folder(tmp_path / "disk"), repo.dir, lambda: repo._id)
    if allowed:
        again.claim()
    else:
        with pytest.raises(Denied):
            again.claim()
    repo.close()
