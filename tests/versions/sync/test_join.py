"""Joining: a remote that was pushed to very often has few files, and nobody reads one twice for it."""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

import memlake as ml
from memlake.objects.packs import PACKED
from memlake.objects.places import Folder
from memlake.repo import Repo
from memlake.versions.sync import join
from memlake.versions.sync import push as pushing
from memlake.versions.sync.fetch import Link
from memlake.versions.sync.remote import Remote
from memlake.versions.sync.root import LogFile, Root
from tests.versions.sync.conftest import Team, commit, files_of, heads, remember
from tests.versions.sync.test_purges import holds, kill_at, leak

SMALL = 17_000  # bytes of a file that goes into a pack


class Asked:
    """What a remote in a folder was asked for: how often for each kind, and the bytes of what was read."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()
        self.read = 0

    @property
    def total(self) -> int:
        return sum(self.calls.values())


@contextlib.contextmanager
def watch() -> Iterator[Asked]:
    """Count requests to any folder called remote, and of its root."""
    asked, patch = Asked(), pytest.MonkeyPatch()

    def wrap(kind: str, real: object) -> object:
        def call(self: object, *args: object) -> object:
            found = real(self, *args)  # type: ignore[operator]
            if not isinstance(self, Folder) or self.root.name == "remote":
                asked.calls[kind] += 1
                asked.read += sum(map(len, found)) if kind == "get_ranges" else 0
            return found

        return call

    for kind in ("put", "get_ranges", "size", "delete"):  # get is a range, too
        patch.setattr(Folder, kind, wrap(kind, getattr(Folder, kind)))
    for kind in ("load", "swap"):
        patch.setattr(Remote, kind, wrap(kind, getattr(Remote, kind)))
    try:
        yield asked
    finally:
        patch.undo()


def root_of(repo: Repo) -> Root:
    with repo.remotes.link(None) as link:
        return link.remote.get_root().root


def joins(repo: Repo) -> list[LogFile]:
    return [file for file in root_of(repo).log if file.joined]


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Joins begin with the fifth batch of a lane, so that a dozen pushes make several."""
    monkeypatch.setattr(join, "MANY", 4)
    monkeypatch.setattr(join, "_TOGETHER", 3)


def push_often(repos: list[Repo], times: int, *, size: int = SMALL) -> None:
    """Each in turn pulls, adds one small file and one memory, and pushes."""
    for n in range(times):
        repo = repos[n % len(repos)]
        if len(repos) > 1:
            repo.pull()
        commit(repo, f"small/{n}.bin", os.urandom(size))
        remember(repo, f"Number {n} of the build was painted {os.urandom(4).hex()}")
        repo.push()


# -- what is joined ----------------------------------------------------------------------------------


def _file(size: int, lane: int = 0) -> LogFile:
    return LogFile(os.urandom(32).hex(), size, lane, 1, 2 * size, 3)


@pytest.mark.parametrize("sizes", [[200], [200, 90_000], [5_000_000, 1], [1, 1 << 21, 50]])
def test_the_number_of_files_stays_small_and_each_byte_is_written_few_times(sizes: list[int]) -> None:
    log, written, sent, most = list[LogFile](), 0, 0, 0
    for n in range(1000):
        log.append(_file(sizes[n % len(sizes)]))
        sent += log[-1].size
        for run in join.plan(log, 0):
            at = log.index(run[0])
            assert log[at : at + len(run)] == list(run) and len(run) > 1  # neighbours
            whole = LogFile(
                os.urandom(32).hex(), *(sum(one[k] for one in run) for k in (1,)), 0, 1,
                sum(one.unpacked for one in run), sum(one.rows for one in run),
            )  # fmt: skip
            assert whole.size <= 8 << 20 and whole.unpacked <= 48 << 20
            log[at : at + len(run)] = [whole]
            written += whole.size
        most = max(most, sum(map(join._is_small, log)))
    large = [file for file in log if not join._is_small(file)]
    assert len(log) <= join.MANY + 1 + 2 * len(large) and most <= join.MANY + 1 + len(large)
    assert len(large) <= sent / (4 << 20) and written <= 12 * sent


def test_lanes_are_joined_apart_and_work_stands_before_the_memories_that_rest_on_it(few: None) -> None:
    log = [_file(100, n % 2) for n in range(12)]
    runs = [join.plan(log, lane) for lane in (0, 1)]
    assert all({file.lane for file in run} == {lane} for lane in (0, 1) for run in runs[lane])
    root = Root("", "", 1, "", "main", {}, tuple(log))
    for lane, (run, *_) in enumerate(runs):
        joined = _file(300, lane)
        after = join._replace_listed(root, run, joined, {})
        assert after.condemned.keys() == {f"log/{file.name}" for file in run}
        if lane == 0:
            assert after.log[: log.index(run[0]) + 1] == (*log[: log.index(run[0])], joined)
        else:
            rest = log[log.index(run[-1]) + 1 :]
            assert after.log[len(after.log) - len(rest) - 1 :] == (joined, *rest)


# -- over a remote -----------------------------------------------------------------------------------


def test_a_remote_of_many_pushes_is_cloned_in_few_requests(ours: Repo, team: Team, few: None, tmp_path: Path) -> None:
    ours.push()
    theirs, third = team("theirs"), team("third")
    with_join, without = Counter[int](), Counter[int]()
    for n in range(16):
        repo = (ours, theirs)[n % 2]
        repo.pull()
        commit(repo, f"small/{n}.bin", os.urandom(SMALL))
        remember(repo, f"Number {n} of the build was painted {os.urandom(4).hex()}")
        before = joins(ours)
        with watch() as asked:
            repo.push()
        (without if joins(ours) == before else with_join)[asked.total] += 1
    assert max(without) <= 8 and with_join
    root = root_of(ours)
    assert len(root.log) <= 2 * (join.MANY + 2) and len(root.packs) <= join.MANY + 4 and joins(ours)
    third.fetch()
    with watch() as asked:
        fresh = team("fresh")
    assert asked.calls["get_ranges"] <= len(root.log) + len(root.packs)
    for repo in (ours, third, fresh):
        repo.pull()
        assert repo.upkeep.fsck(full=True).ok and heads(repo) == heads(theirs)
    assert all(fresh.read(f"small/{n}.bin") == ours.read(f"small/{n}.bin") for n in range(16))


@pytest.mark.torture
def test_three_hundred_pushes_are_cloned_in_less_than_a_hundred_requests(ours: Repo, team: Team) -> None:
    ours.push()
    theirs, third = team("theirs"), team("third")
    read, requests = 0, Counter[int]()
    for n in range(300):
        repo = (ours, theirs)[n % 2]
        repo.pull()
        commit(repo, f"small/{n}.bin", os.urandom(SMALL))
        remember(repo, f"Number {n} of the build was painted {os.urandom(4).hex()}")
        with watch() as asked:
            repo.push()
        requests[asked.total] += 1
        with watch() as asked:
            third.fetch()
        read += asked.read
    with watch() as asked:
        fresh = team("fresh")
    assert asked.total < 100 and heads(fresh) == heads(theirs) and fresh.upkeep.fsck(full=True).ok
    assert read <= 1.5 * asked.read
    assert sum(count for total, count in requests.items() if total > 8) <= 300 / 10


def test_who_followed_all_along_reads_no_byte_for_a_join(ours: Repo, team: Team, few: None) -> None:
    ours.push()
    theirs = team("theirs")
    for n in range(12):
        push_often([ours], 1)
        with watch() as asked:
            theirs.fetch()
        new = sum(file.size for file in root_of(ours).log[-2:])
        assert asked.read <= new + SMALL + 400, n
        assert theirs.fetch().up_to_date
    assert joins(ours)
    with theirs.remotes.link(None) as link:
        lies = {one.oid: one for one in link.mirror.find(scan(link))}
        for one in lies.values():
            if one.file.startswith("packs/"):
                data = link.remote.place.get(one.file, one.start, one.length)
                assert len(data) == one.length and (one.form != PACKED or hashlib.sha256(data).digest() == one.oid)


def scan(link: Link) -> list[bytes]:
    return [row[0] for row in link.mirror.db.rows("SELECT oid FROM held")]


def test_who_missed_joins_reads_them_and_takes_in_only_what_is_new(ours: Repo, team: Team, few: None) -> None:
    ours.push()
    theirs = team("theirs")
    for times in (2, 6, 1, 5):
        push_often([ours], times)
        assert theirs.pull().fetched.commits == 2 * times
        assert heads(theirs) == heads(ours) and theirs.upkeep.fsck(full=True).ok


def test_a_push_killed_at_any_request_of_a_join_loses_nothing(
    ours: Repo, team: Team, few: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    ours.push()
    while not join.plan(root_of(ours).log, 0):
        push_often([ours], 1)
    assert not joins(ours)
    at = 0
    commit(ours, "small/last.bin", os.urandom(SMALL))
    while True:
        with monkeypatch.context() as patch:
            kill_at(patch, at)
            with contextlib.suppress(KeyboardInterrupt):
                ours.push()
                break
        team(f"at{at}").close()
        at += 1
    assert at > 6 and joins(ours)
    fresh = team("fresh")
    assert heads(fresh) == heads(ours) and fresh.upkeep.fsck(full=True).ok
    assert not ours.remotes.gc(prune=True).commits
    assert team("after").upkeep.fsck(full=True).ok


def test_pushers_that_join_at_once_lose_nothing(
    ours: Repo, team: Team, few: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours.push()
    theirs = team("theirs")
    theirs.switch("dev", create=True)
    push_often([ours], 4)
    commit(ours, "small/ours.bin", os.urandom(SMALL))
    commit(theirs, "small/theirs.bin", os.urandom(SMALL))
    real, raced = pushing._swap, []

    def swap(*args: object) -> object:
        if not raced:  # somebody else is faster, and has joined the same
            raced.append(1)
            theirs.push()
        return real(*args)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(pushing, "_swap", swap)
        ours.push()
    assert joins(ours)
    fresh = team("fresh")
    assert heads(fresh)[0, "main"] == heads(ours)[0, "main"] and fresh.upkeep.fsck(full=True).ok
    ours.fetch()
    theirs.fetch()
    assert ours.remotes.branches() == theirs.remotes.branches()


def test_what_was_joined_is_deleted_a_grace_period_later_and_a_slow_reader_begins_again(
    ours: Repo, team: Team, few: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours.push()
    slow, partial = team("slow"), ml.clone(tmp_path / "remote", tmp_path / "partial", filter="none")
    push_often([ours], 3)
    partial.pull()
    with slow.remotes.link(None) as link:
        old = link.remote.get_root()
    push_often([ours], 3)
    condemned = root_of(ours).condemned
    assert condemned and {path for path in condemned if path in files_of(tmp_path / "remote")} == condemned.keys()
    real = pushing.now
    with monkeypatch.context() as patch:
        patch.setattr(pushing, "now", lambda: real() + 25 * 3_600_000_000)
        push_often([ours], 6)
    assert not condemned.keys() & set(files_of(tmp_path / "remote")) and not root_of(ours).doomed
    given, load = [old], Remote.load
    with monkeypatch.context() as patch:  # a root that was read before the files went
        patch.setattr(Remote, "load", lambda self, *known: given.pop() if given else load(self, *known))
        slow.pull()
    assert heads(slow) == heads(ours) and slow.upkeep.fsck(full=True).ok
    assert partial.read("small/1.bin", "HEAD") == ours.read(
        "small/1.bin", str(partial.head)
    )  # its pack was joined since it asked
    partial.close()


def test_purge_gc_drop_and_bundles_work_on_what_was_joined(ours: Repo, team: Team, few: None, tmp_path: Path) -> None:
    data = os.urandom(SMALL)
    oid = leak(ours, data)
    ours.push()
    theirs = team("theirs")
    push_often([ours], 8)
    assert len(joins(ours)) and holds(tmp_path / "remote", data)
    assert ours.remotes.drop("small/0.bin").objects == 1
    ours.upkeep.purge(oid, reason="leaked")
    ours.push()
    assert not holds(tmp_path / "remote", data)
    push_often([ours], 5)
    ours.remotes.gc(prune=True)
    assert not root_of(ours).condemned
    theirs.pull()
    ours.remotes.bundle(tmp_path / "all.bundle")
    for repo in (theirs, team("fresh"), ml.clone(tmp_path / "all.bundle", tmp_path / "unbundled")):
        assert repo.upkeep.fsck(full=True).ok and heads(repo)[0, "main"] == heads(ours)[0, "main"]
        repo.close()
