"""gc of a remote: what no ref needs goes in two phases, and nothing that a ref reaches is ever missing."""

from __future__ import annotations

import contextlib
import itertools
import os
import random
from pathlib import Path

import pytest

import memlake as ml
from memlake.objects.places import Folder
from memlake.repo import Repo
from memlake.versions.sync import push as pushing
from memlake.versions.sync import remote_gc
from tests.versions.sync.conftest import Team, commit, files_of, heads
from tests.versions.sync.test_purges import holds, kill_at, leak


def test_a_deleted_branch_is_condemned_first_and_deleted_a_grace_period_later(
    ours: Repo, team: Team, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = push_and_delete(ours)
    trial = ours.remotes.gc(dry_run=True)
    assert trial.paths == ("files/dead.bin",) and trial.branches == ("dev",) and trial.commits == 1
    before = files_of(tmp_path / "remote")
    done = ours.remotes.gc()
    assert [file.path for file in done.condemned] == [file.path for file in trial.condemned] and not done.deleted
    assert holds(tmp_path / "remote", data) and set(before) <= set(files_of(tmp_path / "remote"))
    assert not ours.remotes.gc().deleted  # the grace period is not over
    real = remote_gc.now
    monkeypatch.setattr(remote_gc, "now", lambda: real() + 25 * 3_600_000_000)
    assert len(ours.remotes.gc().deleted) == len(done.condemned)
    assert not holds(tmp_path / "remote", data)
    third = team("third")
    assert third.upkeep.fsck(full=True).ok and heads(third)[0, "main"] == heads(ours)[0, "main"]
    assert not ours.remotes.gc(dry_run=True).commits


def test_a_gc_of_a_remote_without_garbage_changes_nothing(ours: Repo, tmp_path: Path) -> None:
    ours.push()
    before = files_of(tmp_path / "remote"), (tmp_path / "remote" / "root").read_bytes()
    done = ours.remotes.gc(prune=True)
    assert not (done.deleted or done.condemned or done.commits)
    assert (files_of(tmp_path / "remote"), (tmp_path / "remote" / "root").read_bytes()) == before


def test_what_was_condemned_or_deleted_can_be_pushed_again(ours: Repo, team: Team) -> None:
    for prune in (False, True):
        push_and_delete(ours, f"dev{prune}")
        ours.remotes.gc(prune=prune)
        ours.push("origin", f"dev{prune}")
        assert team(f"theirs{prune}").upkeep.fsck(full=True).ok
        ours.remotes.gc(prune=True)
        with ml.clone(ours.remotes.get("origin").url, Path(ours.root).parent / f"b{prune}", branch=f"dev{prune}") as b:
            assert b.read("dead.bin") == ours.read("dead.bin", f"dev{prune}")


def test_a_push_that_meets_a_gc_between_its_files_and_its_swap_loses_nothing(
    ours: Repo, team: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    push_and_delete(ours)
    theirs = team("theirs")
    real, raced = pushing._swap, []

    def swap(*args: object) -> object:
        if not raced:
            raced.append(1)
            theirs.remotes.gc(prune=True)
        return real(*args)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(pushing, "_swap", swap)
        ours.push("origin", "dev")
    assert raced and team("third").upkeep.fsck(full=True).ok
    theirs.remotes.gc(prune=True)
    assert team("fourth").upkeep.fsck(full=True).ok


def test_a_gc_that_is_killed_at_any_request_is_finished_by_the_next(
    ours: Repo, team: Team, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for at in range(100):
        data = push_and_delete(ours, f"dev{at}")
        with monkeypatch.context() as patch:
            calls = kill_at(patch, at)
            with contextlib.suppress(KeyboardInterrupt):
                ours.remotes.gc(prune=True)
            if calls[0] <= at:
                break
        if at % 2:  # else it is the gc alone that deletes what a swap has doomed
            commit(ours, f"main{at}.txt", b"more")
            ours.push("origin", "main")
        ours.remotes.gc(prune=True)
        assert not holds(tmp_path / "remote", data)
    assert at >= 4
    late = team("late")
    assert late.upkeep.fsck(full=True).ok and heads(late)[0, "main"] == heads(ours)[0, "main"]


def test_a_clock_that_is_set_back_saves_nothing_from_a_gc_at_once(
    ours: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = push_and_delete(ours)
    clock = itertools.count(remote_gc.now(), -1)
    monkeypatch.setattr(remote_gc, "now", lambda: next(clock))
    assert ours.remotes.gc(prune=True).deleted and not holds(tmp_path / "remote", data)


def test_the_remote_of_another_repo_loses_nothing_to_a_gc_or_a_purge(ours: Repo, tmp_path: Path) -> None:
    push_and_delete(ours)
    before = files_of(tmp_path / "remote"), (tmp_path / "remote" / "root").read_bytes()
    with ml.init(tmp_path / "other") as other:
        commit(other, "a.txt", b"hello again\n")
        other.remotes.add("origin", tmp_path / "remote")
        other.upkeep.purge(other.objects.at("a.txt").oid, reason="leaked")
        for verb in (other.push, other.remotes.gc):
            with pytest.raises(ml.errors.Denied, match="holds another repo"):
                verb()
            assert (files_of(tmp_path / "remote"), (tmp_path / "remote" / "root").read_bytes()) == before


def test_a_gc_obeys_what_was_purged_elsewhere(ours: Repo, team: Team) -> None:
    ours.push()
    theirs = team("theirs")
    theirs.upkeep.purge(theirs.objects.at("a.txt").oid, reason="leaked")
    theirs.push()
    ours.remotes.gc()
    with pytest.raises(ml.errors.Purged):
        ours.read("a.txt")


@pytest.mark.parametrize("seed", range(3))
def test_nothing_that_a_ref_reaches_is_ever_missing(
    ours: Repo, team: Team, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Two clones push, delete and collect, and are killed between any two requests."""
    rng = random.Random(seed)
    ours.push()
    repos = [ours, team("theirs")]
    contents = [rng.randbytes(size) for size in (80, 5000, 60_000, 400_000)]
    for step in range(14):
        repo, name = rng.choice(repos), f"b{rng.randrange(3)}"
        with monkeypatch.context() as patch:
            if rng.random() < 0.4:
                kill_at(patch, rng.randrange(12))
            with contextlib.suppress(KeyboardInterrupt, ml.errors.Conflict, ml.errors.NotFound, ml.errors.Nothing):
                act(repo, rng, name, contents[rng.randrange(4)])
        if step % 5 == 4:
            check(tmp_path, step)
    for repo in repos:
        repo.remotes.gc(prune=True)
    check(tmp_path, 99)


def act(repo: Repo, rng: random.Random, name: str, data: bytes) -> None:
    kind = rng.choice(["push", "push", "push", "delete", "gc", "gc", "fetch"])
    if kind == "push":
        repo.switch(name, create=name not in {branch.name for branch in repo.branches})
        commit(repo, f"{rng.randrange(4)}.bin", data, str(rng.random()))
        repo.push("origin", name, force=True)
    elif kind == "delete":
        repo.push("origin", name, delete=True)
    elif kind == "gc":
        repo.remotes.gc(prune=rng.random() < 0.7)
    else:
        repo.fetch()


def check(tmp_path: Path, step: int) -> None:
    with ml.clone(tmp_path / "remote", tmp_path / f"check{step}", bare=True) as clone:
        assert clone.upkeep.fsck(full=True).ok


def push_and_delete(repo: Repo, name: str = "dev") -> bytes:
    """Push a branch with a file of its own, and delete it there."""
    data = os.urandom(70_000)
    repo.switch(name, create=True)
    commit(repo, "dead.bin", data)
    repo.push("origin", "main", name)
    repo.push("origin", name, delete=True)
    repo.switch("main")
    return data


@pytest.mark.parametrize("way", ["gc", "purge"])
def test_a_deleter_that_stalled_deletes_nothing_that_was_sent_again_since(
    ours: Repo, team: Team, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """Between the swap that dooms a part and its deletion, somebody else sends the same part."""
    ours.push()
    theirs = team("theirs")
    if way == "purge":
        oid = leak(ours)
        ours.push()
        ours.upkeep.purge(oid, reason="leaked")
        ours.push()  # names have a number from now on
    ours.switch("dev", create=True)
    rows = random.Random(9).choices(range(1 << 60), k=150_000)
    ours.datasets().read_values(x=rows).save("numbers")
    ours.push("origin", "dev")
    theirs.fetch()
    theirs.switch("dev", create=True)
    theirs.merge("origin/dev")
    ours.push("origin", "dev", delete=True)
    parts = [name for name in files_of(tmp_path / "remote") if name.startswith("parts/")]
    assert len(parts) == 1 and ("." in parts[0]) == (way == "purge")
    real, stalled = Folder.delete, list[str]()

    def delete(self: Folder, name: str) -> None:
        if name == parts[0] and not stalled:
            stalled.append(name)
            theirs.push("origin", "dev")  # finishes the deletion, and sends the part anew
        real(self, name)

    with monkeypatch.context() as patch:
        patch.setattr(Folder, "delete", delete)
        ours.remotes.gc(prune=True)
    assert stalled and parts[0] not in files_of(tmp_path / "remote")
    with ml.clone(tmp_path / "remote", tmp_path / "fresh", branch="dev") as fresh:
        assert fresh.upkeep.fsck(full=True).ok and fresh.head == theirs.head
        assert not fresh.remotes.gc(dry_run=True).commits
    with ml.clone(tmp_path / "remote", tmp_path / "partial", branch="dev", filter="none") as partial:
        assert partial.datasets().read_dataset("numbers").to_values("x") == rows
