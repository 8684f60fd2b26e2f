"""Purges that travel: what was erased in one copy is erased at the remote and in every other copy, and stays away."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import memlake as ml
from memlake.memories.memories import Draft
from memlake.objects.packs import DELTA, Record, read_footer
from memlake.objects.places import Folder
from memlake.repo import Repo
from memlake.versions.sync.remote import Remote
from tests.versions.sync.conftest import Team, commit, files_of, heads, put

SECRET = b"the password is swordfish"


def test_what_was_purged_is_erased_in_every_copy_at_its_next_pull(ours: Repo, team: Team) -> None:
    oid = leak(ours)
    ours.push()
    theirs = team("theirs")
    ours.upkeep.purge(oid, reason="leaked")
    pushed = ours.push()
    assert [record.reason for record in pushed.erased.records] == ["leaked"] and not pushed.changes
    told = theirs.fetch().purged
    assert [record.reason for record in told] == ["leaked"]
    for repo in (theirs, team("third")):
        with pytest.raises(ml.errors.Purged):
            repo.read("secret.txt", "HEAD")
        assert repo.upkeep.fsck(full=True).ok and heads(repo) == heads(ours)
    assert theirs.fetch().up_to_date and ours.push().up_to_date


@pytest.mark.parametrize("size", [100, 70_000, 3_000_000])
def test_no_file_of_the_remote_has_what_was_purged(ours: Repo, team: Team, tmp_path: Path, size: int) -> None:
    """Small objects lie in batches, larger ones in packs, large ones in chunks."""
    data = bytes(os.urandom(size))
    oid = leak(ours, data)
    commit(ours, "kept.bin", data[:50] + b"!")
    ours.push()
    assert holds(tmp_path / "remote", data)
    ours.upkeep.purge(oid, reason="leaked")
    assert ours.push().erased.files > 0
    assert not holds(tmp_path / "remote", data)
    third = team("third")
    assert third.read("kept.bin") == data[:50] + b"!" and third.upkeep.fsck(full=True).ok
    commit(ours, "more.txt", b"more")
    ours.push()
    assert not third.pull().fetched.up_to_date and heads(third) == heads(ours)


def test_what_rests_on_a_purged_object_there_becomes_whole(ours: Repo, team: Team, tmp_path: Path) -> None:
    lines = [os.urandom(30).hex() for _ in range(3000)]
    for n in range(4):
        lines[n * 500] = f"version {n}"
        commit(ours, "log.txt", "\n".join(lines).encode())
    ours.upkeep.gc(prune=True)  # older versions rest on the newest from now on
    newest = oid_of(ours, "log.txt")
    ours.push()
    assert any(record.form == DELTA for record in records(tmp_path / "remote"))
    ours.upkeep.purge(newest, reason="leaked")
    ours.push()
    assert newest not in {record.oid.hex() for record in records(tmp_path / "remote")}
    third = team("third")
    assert b"version 2" in third.read("log.txt", "HEAD~1") and third.upkeep.fsck(full=True).ok


def test_a_clone_that_pushes_a_branch_with_purged_content_erases_it_and_brings_nothing_back(
    ours: Repo, team: Team, tmp_path: Path
) -> None:
    data = os.urandom(70_000)
    oid = leak(ours, data)
    ours.push()
    theirs = team("theirs")
    theirs.switch("dev", create=True)
    commit(theirs, "again.txt", data)
    ours.upkeep.purge(oid, reason="leaked")
    ours.push()
    pushed = theirs.push()
    assert [record.reason for record in pushed.purged] == ["leaked"] and pushed.changes
    assert not holds(tmp_path / "remote", data) and team("third").upkeep.fsck(full=True).ok


def test_a_fetch_brings_nothing_back_that_was_purged_here_and_not_there_yet(
    ours: Repo, team: Team, tmp_path: Path
) -> None:
    theirs_only, data = os.urandom(70_000), os.urandom(70_000)
    ours.push()
    theirs = team("theirs")
    oid = leak(ours, data)
    put(theirs, "b.bin", theirs_only)
    commit(theirs, "a.bin", data)
    theirs.switch("dev", create=True)
    theirs.push()
    ours.upkeep.purge(oid, reason="leaked")
    ours.fetch()
    assert not [path for path in Path(ours.dir).rglob("*") if path.is_file() and data[:64] in path.read_bytes()]


def test_what_a_killed_push_left_is_erased_too(ours: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ours.push()
    data = os.urandom(70_000)
    oid = leak(ours, data)
    with monkeypatch.context() as patch:
        patch.setattr(Remote, "swap", die)
        with pytest.raises(KeyboardInterrupt):
            ours.push()
    assert holds(tmp_path / "remote", data)
    ours.upkeep.purge(oid, reason="leaked")
    ours.push()
    assert not holds(tmp_path / "remote", data)


def test_a_push_of_a_purge_that_is_killed_at_any_request_is_finished_by_the_next(
    ours: Repo, team: Team, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours.push()
    for at in range(100):
        data = os.urandom(70_000)
        oid = leak(ours, data)
        ours.push()
        ours.upkeep.purge(oid, reason="leaked")
        with monkeypatch.context() as patch:
            calls = kill_at(patch, at)
            with contextlib.suppress(KeyboardInterrupt):
                ours.push()
            if calls[0] <= at:
                break
        team(f"early{at}").close()
        ours.push()
        assert not holds(tmp_path / "remote", data)
    assert at >= 6
    assert team("late").upkeep.fsck(full=True).ok


def test_a_new_remote_hears_of_old_purges(ours: Repo, tmp_path: Path) -> None:
    oid = leak(ours)
    ours.upkeep.purge(oid, reason="leaked")
    ours.push()
    with ml.clone(tmp_path / "remote", tmp_path / "new") as theirs, pytest.raises(ml.errors.Purged):
        commit(theirs, "again.txt", SECRET)


def test_a_purge_names_the_remotes_that_still_have_it(ours: Repo) -> None:
    oid = leak(ours)
    assert not ours.upkeep.purge(oid_of(ours, "a.txt"), reason="never sent").notes[1:]
    ours.push()
    assert any("origin still has it" in note for note in ours.upkeep.purge(oid, reason="leaked").notes)


def test_a_purge_of_a_memory_or_a_state_names_the_remotes_that_still_have_it(ours: Repo) -> None:
    told = "origin still has it, until you push there: memlake push origin"
    memories = ours.memories()
    memory_id = memories.store(Draft("The safe code is 4711")).memory_id
    memories.set_state("bot", "phase", "4712")
    ours.push()
    assert memories.purge(memory_id, "leaked").notes == (told,)
    assert told in memories.purge_state("bot", "phase", "leaked").notes
    ours.push()
    assert memories.purge(memories.store(Draft("Never sent")).memory_id, "wrong").notes == ()


def test_a_purge_in_a_clone_of_a_bundle_says_that_the_file_still_has_it(ours: Repo, tmp_path: Path) -> None:
    oid, bundle = leak(ours), tmp_path / "ours.bundle"
    ours.remotes.bundle(bundle)
    with ml.clone(bundle, tmp_path / "new") as theirs:
        notes = theirs.upkeep.purge(oid, reason="leaked").notes
    assert f"origin is the bundle {bundle}, which still has it. Delete that file, and its copies." in notes


def die(*_: object) -> None:
    raise KeyboardInterrupt


def kill_at(patch: pytest.MonkeyPatch, at: int) -> list[int]:
    """Raise at the n-th call that changes the remote, before it; returns the count of calls."""
    calls = [0]

    def wrap(real: Callable[..., object]) -> Callable[..., object]:
        def call(self: object, *args: object) -> object:
            if not (isinstance(self, Folder) and self.root.name != "remote"):
                calls[0] += 1
                if calls[0] > at:
                    raise KeyboardInterrupt
            return real(self, *args)

        return call

    patch.setattr(Remote, "swap", wrap(Remote.swap))
    patch.setattr(Folder, "put", wrap(Folder.put))
    patch.setattr(Folder, "delete", wrap(Folder.delete))
    return calls


def records(remote: Path) -> list[Record]:
    place = Folder(remote / "packs")
    return [record for name, _, _ in place.list() for record in read_footer(place, name).records]


def leak(repo: Repo, data: bytes = SECRET, path: str = "secret.txt") -> str:
    commit(repo, path, data, "a mistake")
    return oid_of(repo, path)


def oid_of(repo: Repo, path: str) -> str:
    entries = repo._history.entries(repo._history.get(str(repo.head)), [f"files/{path}"])
    return entries[f"files/{path}"].oid


def holds(remote: Path, data: bytes) -> list[str]:
    """Files of a remote that have any of these bytes, also inside what is compressed."""
    found = []
    for name in files_of(remote):
        raw = (remote / name).read_bytes()
        if name.startswith("log/"):
            raw += b"".join(unpacked(raw))
        if any(data[at : at + 64] in raw for at in range(0, len(data), 1000)):
            found.append(name)
    return found


def unpacked(raw: bytes) -> Iterator[bytes]:
    import zstandard

    yield zstandard.ZstdDecompressor().decompress(raw[8:])
