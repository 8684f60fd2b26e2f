"""Bundles: what a push would send, in one file that can be cloned, fetched and checked."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest

import memlake as ml
from memlake.repo import Repo, verify_bundle
from tests.versions.sync.conftest import Team, commit, heads, remember, snapshot


def test_a_clone_of_a_bundle_is_the_repo(ours: Repo, tmp_path: Path) -> None:
    made = ours.remotes.bundle(tmp_path / "pets.bundle")
    assert made.commits == 4 and made.needs == () and made.size == (tmp_path / "pets.bundle").stat().st_size
    with ml.clone(tmp_path / "pets.bundle", tmp_path / "theirs") as theirs:
        assert heads(theirs) == heads(ours) and theirs.upkeep.fsck(full=True).ok
        assert (Path(theirs.root) / "big.bin").read_bytes() == (Path(ours.root) / "big.bin").read_bytes()
        commit(theirs, "x", b"1")
        with pytest.raises(ml.errors.Denied, match="is a bundle"):
            theirs.push()


def test_a_range_brings_what_came_since_and_only_that(ours: Repo, team: Team, tmp_path: Path) -> None:
    ours.push()
    theirs = team("theirs")
    before = str(ours.head)
    ours.switch("base", create=True)
    ours.switch("main")
    commit(ours, "new.txt", b"new\n")
    remember(ours, "The new file is new")
    made = ours.remotes.bundle(tmp_path / "news.bundle", "base..main")
    assert before in made.needs and made.commits == 2 and made.size < 20_000
    theirs.remotes.unbundle(tmp_path / "news.bundle")
    merged = theirs.merge("news/main")
    assert merged.fast_forward and heads(theirs)[0, "main"] == heads(ours)[0, "main"]
    with pytest.raises(ml.errors.NotFound, match="not one of yours") as caught:
        theirs.branches.delete("news/main")
    assert "memlake remote remove news" in caught.value.hint
    theirs.remotes.remove("news")
    with pytest.raises(ml.errors.NotFound, match="there is no branch"):
        theirs.branches.delete("news/main")


def test_a_range_is_refused_where_its_beginning_is_not(ours: Repo, tmp_path: Path) -> None:
    ours.remotes.bundle(tmp_path / "all.bundle")
    with ml.clone(tmp_path / "all.bundle", tmp_path / "theirs") as theirs:
        ours.switch("base", create=True)
        commit(ours, "a1", b"1")
        ours.switch("main")
        ours.merge("base")
        commit(ours, "a2", b"2")
        ours.remotes.bundle(tmp_path / "news.bundle", "base..main")
        before = snapshot(theirs)
        with pytest.raises(ml.errors.InvalidInput, match="begins after commit"):
            theirs.remotes.unbundle(tmp_path / "news.bundle")
        with pytest.raises(ml.errors.InvalidInput, match="begins after commit"):
            verify_bundle(tmp_path / "news.bundle", theirs)
        assert snapshot(theirs) == before
    with ml.init(tmp_path / "elsewhere") as elsewhere, pytest.raises(ml.errors.InvalidInput, match="begins after"):
        verify_bundle(tmp_path / "news.bundle", elsewhere)
    with pytest.raises(ml.errors.InvalidInput, match="no whole repo"):
        ml.clone(tmp_path / "news.bundle", tmp_path / "cloned")
    assert not (tmp_path / "cloned").exists()
    assert verify_bundle(tmp_path / "news.bundle", ours).commits == 1


def test_nothing_in_a_range_is_said_and_no_file_is_made(ours: Repo, tmp_path: Path) -> None:
    ours.switch("base", create=True)
    ours.switch("main")
    with pytest.raises(ml.errors.Nothing):
        ours.remotes.bundle(tmp_path / "none.bundle", "base..main")
    assert not list(tmp_path.glob("none.bundle*"))


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9, 0.999])
def test_a_bundle_that_is_cut_short_is_refused(ours: Repo, tmp_path: Path, share: float) -> None:
    file = tmp_path / "pets.bundle"
    ours.remotes.bundle(file)
    data = file.read_bytes().rstrip(b"\0")
    file.write_bytes(data[: int(len(data) * share)])
    with pytest.raises(ml.errors.Error):
        verify_bundle(file, None)
    with pytest.raises(ml.errors.Error):
        ml.clone(file, tmp_path / "theirs")
    assert not (tmp_path / "theirs" / ".memlake").exists()


def test_a_flipped_byte_of_any_file_in_it_is_found(ours: Repo, tmp_path: Path) -> None:
    file = tmp_path / "pets.bundle"
    ours.remotes.bundle(file)
    whole = file.read_bytes()
    with tarfile.open(file) as archive:
        members = [(one.name, one.offset_data, one.size) for one in archive]
    for name, start, size in members:
        if name != "root":
            file.write_bytes(
                whole[: start + size // 2] + bytes([whole[start + size // 2] ^ 1]) + whole[start + size // 2 + 1 :]
            )
            with pytest.raises(ml.errors.Corrupt):
                verify_bundle(file, None)


def test_links_and_paths_that_lead_elsewhere_in_a_strangers_archive_are_no_files_of_it(tmp_path: Path) -> None:
    file = tmp_path / "evil.bundle"
    with tarfile.open(file, "w") as archive:
        for name in ("../../root", "/root", "log/../root"):
            info = tarfile.TarInfo(name)
            info.size = 2
            archive.addfile(info, io.BytesIO(b"{}"))
        link = tarfile.TarInfo("root")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
    with pytest.raises(ml.errors.Corrupt, match="not a bundle"):
        verify_bundle(file, None)


def test_what_is_no_bundle_is_said_so(tmp_path: Path) -> None:
    (tmp_path / "x.bundle").write_bytes(b"hello" * 1000)
    with pytest.raises(ml.errors.Corrupt, match="not a bundle"):
        ml.clone(tmp_path / "x.bundle", tmp_path / "theirs")


def test_what_was_purged_is_not_in_a_bundle_and_its_purge_is_obeyed(ours: Repo, team: Team, tmp_path: Path) -> None:
    commit(ours, "secret.txt", b"the password is swordfish " * 3000)
    ours.push()
    theirs = team("theirs")
    entry = ours._history.entries(ours._history.get(str(ours.head)), ["files/secret.txt"])["files/secret.txt"]
    getattr(ours.upkeep, "purge", getattr(ours, "purge", None))(entry.oid, reason="leaked")
    ours.remotes.bundle(tmp_path / "clean.bundle")
    assert b"swordfish" not in (tmp_path / "clean.bundle").read_bytes()
    assert [one.reason for one in theirs.remotes.unbundle(tmp_path / "clean.bundle").purged] == ["leaked"]
    with pytest.raises(ml.errors.Purged):
        theirs.read("secret.txt")


def test_a_clone_of_a_bundle_stands_on_the_branch_it_was_made_on(ours: Repo, tmp_path: Path) -> None:
    ours.branches.create("aside")
    ours.remotes.bundle(tmp_path / "pets.bundle")
    with ml.clone(tmp_path / "pets.bundle", tmp_path / "theirs") as theirs:
        assert theirs.branches.current == "main"


def test_a_bundle_with_the_name_of_a_remote_does_not_say_what_that_has(ours: Repo, team: Team, tmp_path: Path) -> None:
    ours.push()
    theirs = team("theirs")
    commit(ours, "new.txt", b"new\n")
    ours.remotes.bundle(tmp_path / "origin.bundle")
    before = {one.name: one.work for one in theirs.remotes.branches()}
    theirs.remotes.unbundle(tmp_path / "origin.bundle")
    now = {one.name: one.work for one in theirs.remotes.branches()}
    assert now == {**before, "origin-bundle/main": ours.head}
    theirs.remotes.remove("origin-bundle")
    assert {one.name: one.work for one in theirs.remotes.branches()} == before
    with pytest.raises(ml.errors.NotFound, match="no remote 'origin-bundle'"):
        theirs.remotes.remove("origin-bundle")
