"""I/O errors, a full disk, too few files: the operation fails whole with a named error, and the repo stays readable."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import resource
import shutil
import signal
import subprocess
import tarfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import apsw
import pytest

import memlake as ml
from memlake.errors import AlreadyExists, Conflict, Error, InvalidInput, NotFound, Nothing, Unavailable
from memlake.objects.db import Database
from memlake.repo import Repo
from memlake.versions.upkeep import backup
from tests.reliability.ground import (
    EVERY,
    KILLED,
    TORTURE,
    VERBS,
    Trial,
    Verb,
    assert_sound,
    branched_repo,
    die_at,
    fast_folder,
    hooked,
    in_child,
    init,
    look,
    mounted,
    noise,
    put,
    snapshot_of,
    steps_of,
    steps_to_try,
    trial_of,
)

SQL_STEPS = {"sql", "commit", "checkpoint", "vacuum"}
NAMES = sorted(VERBS)


@pytest.fixture(scope="module")
def template() -> Iterator[Path]:
    with branched_repo() as root:
        yield root


# -- an error at every step -----------------------------------------------------------------------------


def fail_at(number: int, code: int) -> Callable[[str], None]:
    """A fault hook that fails one step the way the disk or SQLite would."""
    seen = 0

    def hook(name: str) -> None:
        nonlocal seen
        seen += 1
        if seen != number or name == "committed":  # after COMMIT there is nothing left that could fail
            return
        if name in SQL_STEPS:
            raise apsw.FullError("injected") if code == errno.ENOSPC else apsw.IOError("injected")
        raise OSError(code, os.strerror(code), "injected")

    return hook


def fail_everywhere(
    template: Path, verb: Verb, codes: tuple[int, ...], some: Callable[[int], range] | None = None
) -> int:
    """Fail each step of a verb once, or `some` of so many; returns how often it was made to fail."""
    failed = 0
    with trial_of(template, verb) as trial:
        for at, number in enumerate(some(trial.steps) if some else range(1, trial.steps + 1)):
            for code in codes if TORTURE else codes[at % len(codes) :][:1]:
                copy = trial.fresh()
                try:
                    failed += _fail_once(copy, verb, (number, code))
                    trial.assert_before_or_after(look(copy))
                    _still_works(copy, trial)
                except AssertionError as error:
                    name = errno.errorcode[code]
                    raise AssertionError(f"{name} at step {number} of {trial.steps}: {error}") from error
    return failed


def _fail_once(root: Path, verb: Verb, at: tuple[int, int]) -> int:
    with ml.open(root) as repo:
        try:
            with hooked(fail_at(*at)):
                verb.do(repo)
        except Unavailable:
            return 1
        except BaseException as error:
            raise AssertionError(f"failed with {type(error).__name__}, not Unavailable: {error}") from error
    return 0


def _still_works(root: Path, trial: Trial) -> None:
    with ml.open(root) as repo:
        assert_sound(repo)
        for oid in trial.committed:
            repo.show(oid)
        with contextlib.suppress(AlreadyExists, Conflict, InvalidInput, NotFound, Nothing):  # it is done already
            trial.verb.do(repo)
        repo.status()
        assert_sound(repo)


@pytest.mark.parametrize("name", NAMES)
def test_an_error_at_any_step_fails_the_verb_whole(name: str, template: Path, tally: Callable[..., None]) -> None:
    failed = fail_everywhere(template, VERBS[name], (errno.EIO, errno.ENOSPC), partial(steps_to_try, name))
    tally(errors=failed)
    assert failed > 3 // EVERY


def test_without_taking_the_transaction_back_an_error_leaves_half_of_it(
    template: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextlib.contextmanager
    def commits_anyway(self: Database) -> Iterator[None]:
        if getattr(self._local, "writing", False):
            yield
            return
        self._connection().execute("BEGIN IMMEDIATE")
        self._local.writing = True
        try:
            with self.named_errors():
                yield
        finally:
            self._local.writing = False
            self._connection().execute("COMMIT")

    monkeypatch.setattr(Database, "write", commits_anyway)
    with pytest.raises(AssertionError):
        fail_everywhere(template, VERBS["merge"], (errno.EIO,))


# -- an error at every operation of SQLite ----------------------------------------------------------------


class Faults:
    """Counts what SQLite does to the file, and fails one operation, or all from one on."""

    def __init__(self) -> None:
        self.seen, self.at, self.lasting = 0, 0, False

    def hit(self) -> None:
        self.seen += 1
        if self.at and (self.seen == self.at or (self.lasting and self.seen > self.at)):
            raise apsw.IOError("injected")


class FaultyFile(apsw.VFSFile):
    faults: Faults

    def __init__(self, name: str | apsw.URIFilename, flags: list[int]) -> None:
        super().__init__("", name, flags)

    def xWrite(self, data: bytes, offset: int) -> None:
        self.faults.hit()
        super().xWrite(data, offset)

    def xSync(self, flags: int) -> None:
        self.faults.hit()
        super().xSync(flags)

    def xTruncate(self, size: int) -> None:
        self.faults.hit()
        super().xTruncate(size)


class FaultyVFS(apsw.VFS):
    def __init__(self) -> None:
        super().__init__("faulty", "")

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:
        return FaultyFile(name or "", flags)


class AloneConnection(apsw.Connection):
    """A file system in Python has no shared memory, which WAL needs unless one connection has the file to itself."""

    def __init__(self, *args: object, **named: object) -> None:
        super().__init__(*args, **named)  # type: ignore[arg-type]
        self.execute("PRAGMA locking_mode=EXCLUSIVE")


@contextlib.contextmanager
def faulty_sqlite() -> Iterator[Faults]:
    vfs, faults = FaultyVFS(), Faults()
    FaultyFile.faults = faults
    original = Database._open

    def opened(self: Database) -> apsw.Connection:
        self._vfs = "faulty"
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(apsw, "Connection", AloneConnection)
            return original(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Database, "_open", opened)
        yield faults
    vfs.unregister()


def _work(root: Path, acknowledged: list[str]) -> None:
    """Memories, files, a gc; every commit is noted when it has been acknowledged."""
    with contextlib.ExitStack() as stack:
        repo = ml.open(root)
        stack.callback(_close_quietly, repo)
        acknowledged.append(repo.write({"memories/bot/0": b"0"}, "m").oid)
        acknowledged.append(repo.write({"memories/bot/1": b"1"}, "m").oid)
        put(root, "new.bin", noise(20_000, "new"))
        repo.add(root / "new.bin")
        acknowledged.append(repo.commit("new").oid)
        repo.upkeep.gc(prune=True)


def _close_quietly(repo: Repo) -> None:
    with contextlib.suppress(apsw.Error, Error):
        repo.close()


def sweep_sqlite(template: Path, points: range, *, lasting: bool) -> tuple[int, int]:
    """(points tried, how often the work failed). An error on close is no one's to see; the next open repairs."""
    tried = failed = 0
    with fast_folder() as folder:
        for number in points:
            root, acknowledged = snapshot_of(template, folder / "copy"), list[str]()
            with faulty_sqlite() as faults:
                faults.at, faults.lasting = number, lasting
                try:
                    _work(root, acknowledged)
                except Unavailable:
                    failed += 1
                if faults.seen < number:
                    return tried, failed
            tried += 1
            with ml.open(root) as repo:
                repo.status()
                assert_sound(repo)
                for oid in acknowledged:
                    commit = repo.show(oid, lane="memory").commit if oid in acknowledged[:2] else repo.show(oid).commit
                    assert all(change.new and repo.objects.read(change.new.oid) for change in repo.show(commit).changes)
            shutil.rmtree(root)
    return tried, failed


# SQLite calls back from where no exception can be raised; apsw then reports it beside.
reported_beside = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@reported_beside
@pytest.mark.parametrize("lasting", [False, True], ids=["one error", "an error that stays"])
def test_an_error_at_any_operation_of_sqlite_loses_nothing_acknowledged(
    template: Path, lasting: bool, tally: Callable[..., None]
) -> None:
    points = range(1, 5000) if TORTURE else range(1 + lasting, 5000, 8)
    tried, failed = sweep_sqlite(template, points, lasting=lasting)
    tally(sqlite_errors=tried, errors=failed)
    assert tried > 10
    assert failed > 5


@reported_beside
def test_when_sqlite_errors_are_swallowed_acknowledged_commits_are_lost(
    template: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def swallowing(name: str) -> Callable[..., None]:
        def wrapped(self: FaultyFile, *args: object) -> None:
            with contextlib.suppress(apsw.IOError):
                self.faults.hit()
                getattr(super(FaultyFile, self), name)(*args)

        return wrapped

    for name in ("xWrite", "xSync", "xTruncate"):
        monkeypatch.setattr(FaultyFile, name, swallowing(name))
    with pytest.raises((AssertionError, Error)):
        sweep_sqlite(template, range(1, 400, 3), lasting=True)


# -- a full disk ------------------------------------------------------------------------------------------


@pytest.fixture
def small_disk(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    """A file system of a few megabytes and a few inodes."""
    with mounted(tmp_path / "disk", getattr(request, "param", "size=6m,nr_inodes=400")) as at:
        yield at


def _fill(folder: Path, leave: int) -> Path:
    """Use up the disk but for some bytes."""
    free = os.statvfs(folder).f_bavail * os.statvfs(folder).f_frsize
    filler = folder / "filler"
    with filler.open("wb") as file:
        file.write(bytes(max(0, free - leave)))
    return filler


@pytest.mark.parametrize("leave", [0, 8 << 10, 64 << 10, 160 << 10, 400 << 10])
def test_a_full_disk_fails_the_operation_whole(small_disk: Path, leave: int) -> None:
    root = small_disk / "repo"
    with init(root) as repo:
        put(root, "kept.bin", noise(100_000, "kept"))
        repo.add(root / "kept.bin")
        kept = repo.commit("kept")
        repo.upkeep.checkpoint()
        put(root, "new.bin", noise(500_000, "new"))
        filler = _fill(small_disk, leave)
        with pytest.raises(Unavailable):
            repo.add(root / "new.bin")
        with contextlib.suppress(Unavailable):
            repo.write({"memories/bot/1": noise(60_000, "memory")}, "m")
        assert repo.read(root / "kept.bin") == noise(100_000, "kept")
        assert [commit.oid for commit in repo.log()] == [kept.oid]
        assert repo.upkeep.fsck(full=True).ok
    filler.unlink()
    with ml.open(root) as repo:
        repo.add(root / "new.bin")
        repo.commit("new")
        assert_sound(repo)


def test_memories_written_until_the_disk_is_full_are_all_there(small_disk: Path) -> None:
    root = small_disk / "repo"
    written = 0
    with init(root) as repo:
        with contextlib.suppress(Unavailable):
            for number in range(2000):
                repo.write({f"memories/bot/{number}": noise(9000, number)}, "m")
                written += 1
        assert 50 < written < 2000
        assert sum(1 for _ in repo.log(lane="memory")) == written
    with ml.open(root) as repo:
        assert sum(1 for _ in repo.log(lane="memory")) == written
        assert repo.read("memories/bot/7") == noise(9000, 7)


@pytest.mark.parametrize("small_disk", ["size=8m,nr_inodes=60"], indirect=True)
def test_a_disk_without_inodes_fails_the_operation_whole(small_disk: Path) -> None:
    root = small_disk / "repo"
    with init(root) as repo:
        put(root, "kept.bin", noise(100_000, "kept"))
        repo.add(root / "kept.bin")
        repo.commit("kept")
        put(root, "new.bin", noise(200_000, "new"))
        extra = 0
        with contextlib.suppress(OSError):
            for extra in range(100):
                (small_disk / f"inode{extra}").touch()
        with pytest.raises(Unavailable):
            repo.add(root / "new.bin")
        assert repo.read(root / "kept.bin") == noise(100_000, "kept")
        assert_sound(repo)
        for number in range(extra):
            (small_disk / f"inode{number}").unlink()
        repo.add(root / "new.bin")
        repo.commit("new")
        assert_sound(repo)


def _enlarge(root: Path) -> None:
    for n in range(8):
        put(root, f"file{n}.bin", noise(200_000, f"large {n}"))


def _committed(root: Path) -> str:
    with init(root) as repo:
        put(root, "kept.bin", noise(100_000, "kept"))
        repo.add(all=True)
        oid = repo.commit("kept").oid
        repo.upkeep.gc()
    return oid


def test_a_backup_to_another_disk_works_while_the_disk_of_the_repo_is_full(small_disk: Path, tmp_path: Path) -> None:
    root, copy = small_disk / "repo", tmp_path / "copy"
    _committed(root)
    _fill(small_disk, 0)
    (tmp_path / "backups").mkdir()
    with ml.open(root) as repo:
        assert repo.upkeep.backup(tmp_path / "backups/repo.tar") > 100_000
    assert [file.name for file in (tmp_path / "backups").iterdir()] == ["repo.tar"]
    with tarfile.open(tmp_path / "backups/repo.tar") as tar:
        tar.extractall(copy, filter="data")
    with ml.open(copy) as repo:
        assert repo.read("kept.bin") == noise(100_000, "kept")
        assert_sound(repo)


def test_while_a_backup_of_a_full_disk_is_made_no_gc_takes_what_it_copies(
    small_disk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = small_disk / "repo"
    _committed(root)
    _fill(small_disk, 0)
    busy = []
    write = backup._write
    with ml.open(root) as repo, ml.open(root) as other:
        monkeypatch.setattr(backup, "_write", lambda *given: (busy.append(other._history.db.is_busy()), write(*given)))
        repo.upkeep.backup(tmp_path / "repo.tar")
        assert busy == [True] and not other._history.db.is_busy()


def test_without_room_for_a_lost_local_db_all_that_is_stored_can_be_read(small_disk: Path) -> None:
    root = small_disk / "repo"
    oid = _committed(root)
    put(root, "new", "new")
    for file in (root / ".memlake").glob("local.db*"):
        file.unlink()
    filler = _fill(small_disk, 0)
    for _ in range(2):
        with pytest.warns(UserWarning, match="local.db was lost"):
            repo = ml.open(root)
        with repo:
            status = repo.status()
            assert (status.branch, status.unstaged, status.staged) == ("main", (), ())
            assert [commit.oid for commit in repo.log()] == [oid]
            with pytest.raises(Unavailable):
                repo.add(root / "new")
            with pytest.raises(Unavailable, match="too full to make it again"), repo._local.db.write():
                pass  # what is written there would be gone with this process
    filler.unlink()
    with pytest.warns(UserWarning, match="local.db was lost"):
        repo = ml.open(root)
    with repo:
        repo.add(root / "new")
        repo.commit("new")
        assert_sound(repo)


def test_doctor_says_how_much_room_gc_needs_and_with_it_gc_works(small_disk: Path) -> None:
    root = small_disk / "repo"
    _committed(root)
    filler = _fill(small_disk, 0)
    with ml.open(root) as repo:
        cure = next(check.cure for check in repo.upkeep.doctor() if check.name == "space")
        megabytes = int(re.search(r"from this disk, (\d+) MB or more", cure)[1])  # type: ignore[index]
        with pytest.raises(Unavailable):
            repo.upkeep.gc(prune=True)
    os.truncate(filler, filler.stat().st_size - megabytes * 1_000_000)
    with ml.open(root) as repo:
        repo.upkeep.gc(prune=True)
        assert "memlake gc --prune, memlake du" in next(c.cure for c in repo.upkeep.doctor() if c.name == "space")


def test_a_repo_on_a_full_disk_moves_to_another_as_doctor_says(small_disk: Path, tmp_path: Path) -> None:
    root = small_disk / "repo"
    _committed(root)
    _fill(small_disk, 0)
    with ml.open(root) as repo:
        cure = next(check.cure for check in repo.upkeep.doctor() if check.name == "space")
    line = next(line for line in cure.splitlines() if line.startswith("Or move")).partition(": ")[2]
    subprocess.run(line.replace("/OTHER/DISK", str(tmp_path)), shell=True, check=True)
    with ml.open(root) as repo:
        repo.write({"memories/bot/1": b"there is room"}, "m")
        assert_sound(repo)


def _small_and_large(root: Path) -> None:
    """A repo with a branch of larger files."""
    with init(root) as repo:
        for n in range(8):
            put(root, f"file{n}.bin", noise(20_000, n))
        repo.add(all=True)
        repo.commit("small")
        repo.switch("large", create=True)
        _enlarge(root)
        repo.add(all=True)
        repo.commit("large")
        repo.switch("main")
        put(root, "mine.txt", "mine, untracked")


def _stuck_in_a_switch(root: Path, disk: Path) -> Path:
    """A switch to a branch of larger files that a full disk stopped half way; returns what fills the disk."""
    _small_and_large(root)
    filler = _fill(disk, 500_000)
    with ml.open(root) as repo, pytest.raises(Unavailable, match="Some working files may be written") as caught:
        repo.switch("large")
    assert "memlake undo" in (caught.value.hint or "")
    return filler


@pytest.fixture
def stuck(small_disk: Path) -> tuple[Path, Path]:
    root = small_disk / "repo"
    return root, _stuck_in_a_switch(root, small_disk)


def test_a_checkout_stopped_by_a_full_disk_leaves_every_verb_that_reads(stuck: tuple[Path, Path]) -> None:
    root, _ = stuck
    with ml.open(root) as repo:
        status = repo.status()
        assert status.branch == "main"
        assert status.unstaged
        assert [commit.subject for commit in repo.log("large")] == ["large", "small"]
        assert repo.read(root / "file0.bin", "large") == noise(200_000, "large 0")
        assert list(repo.diff("main", "large"))
        assert_sound(repo)


def test_a_verb_that_writes_says_what_a_stopped_checkout_needs(stuck: tuple[Path, Path]) -> None:
    root, _ = stuck
    with ml.open(root) as repo, pytest.raises(Unavailable, match=r"[\d,]+ bytes of files are to be written") as caught:
        repo.switch("main")
    assert "memlake undo" in (caught.value.hint or "")


def test_undo_goes_back_from_a_checkout_that_a_full_disk_stopped(stuck: tuple[Path, Path]) -> None:
    root, _ = stuck
    with ml.open(root) as repo:
        assert repo.undo().verb == "what was interrupted"
        status = repo.status()
        assert (status.branch, status.staged, status.unstaged) == ("main", (), ())
        assert repo.operations(1)[0].verb != "undo"
        assert_sound(repo)
    assert (root / "mine.txt").read_text() == "mine, untracked"
    assert all((root / f"file{n}.bin").read_bytes() == noise(20_000, n) for n in range(8))


def _stash_it(repo: Repo) -> None:
    _enlarge(repo.root)
    repo.stash.push()


def _commit_beside_another(repo: Repo) -> None:
    repo.add(repo.root / "mine.txt")
    changes = {change.path: change.new for change in repo.diff("main", "large")}
    repo.write(changes, "another's", branch="main")


STOPPED: dict[str, tuple[Callable[[Repo], object], Callable[[Repo], object]]] = {
    "switch -c": (lambda r: None, lambda r: r.switch("fresh", create=True, at="large")),
    "merge": (lambda r: None, lambda r: r.merge("large", ff=False)),
    "cherry-pick": (lambda r: None, lambda r: r.cherry_pick("large")),
    "promote": (lambda r: None, lambda r: r.promotions.create(r.root, source="large", to="main")),
    "cherry-pick -n": (lambda r: None, lambda r: r.cherry_pick("large", no_commit=True)),
    "reset --hard": (lambda r: None, lambda r: r.reset("large", "hard")),
    "restore from a commit": (lambda r: None, lambda r: r.restore(r.root, source="large")),
    "stash apply": (_stash_it, lambda r: r.stash.apply()),
    "stash pop": (_stash_it, lambda r: r.stash.pop()),
    "undo": (lambda r: (r.switch("large"), r.switch("main"), r.switch("large"), r.switch("main")), lambda r: r.undo()),
    "commit": (_commit_beside_another, lambda r: r.commit("mine")),
}


@pytest.mark.parametrize("verb", STOPPED)
def test_undo_goes_back_from_any_verb_that_a_full_disk_stopped(verb: str, small_disk: Path) -> None:
    """The files at once; history that had moved already with a second undo."""
    root = small_disk / "repo"
    _small_and_large(root)
    prepare, do = STOPPED[verb]
    with ml.open(root) as repo:
        prepare(repo)
    before = look(root)
    _fill(small_disk, 500_000)
    with ml.open(root) as repo:
        with pytest.raises(Unavailable, match="Some working files may be written"):
            do(repo)
        assert repo.undo().verb == "what was interrupted"
        assert look(root).files == before.files
        if look(root) != before:
            repo.undo()
    assert look(root) == before
    with ml.open(root) as repo:
        assert_sound(repo)


def test_a_checkout_that_a_full_disk_stopped_goes_on_once_there_is_space(stuck: tuple[Path, Path]) -> None:
    root, filler = stuck
    filler.unlink()
    with ml.open(root) as repo:
        assert repo.status().clean is False  # mine.txt
        assert repo.branches.current == "large"
        assert repo.status().unstaged == ()
        assert_sound(repo)


def test_an_undo_of_a_stopped_checkout_that_dies_anywhere_is_finished_by_another(template: Path) -> None:
    """Killed in a switch, then killed in the undo of it: once more ends where it began."""
    with fast_folder() as folder:
        ready = snapshot_of(template, folder / "ready")
        before = look(ready)

        def half_way() -> None:
            with ml.open(ready) as repo, hooked(_at_the_second("write")):
                repo.switch("side")

        assert in_child(half_way) == KILLED
        count = len(steps_of(lambda: _undo(snapshot_of(ready, folder / "count"))))
        assert count > 8
        for number in range(1, count + 1):
            copy = snapshot_of(ready, folder / str(number))
            die_at(copy, number, lambda repo: repo.undo())
            with ml.open(copy) as repo:
                if repo._local.state("journal") is not None:
                    repo.undo()
            assert look(copy) == before, f"killed before step {number} of {count}"


def _at_the_second(step: str) -> Callable[[str], None]:
    """Kills in the middle of a checkout: at its second step of this name."""
    seen = 0

    def hook(name: str) -> None:
        nonlocal seen
        seen += name == step
        if seen == 2:
            os.kill(os.getpid(), signal.SIGKILL)

    return hook


def _undo(root: Path) -> None:
    with ml.open(root) as repo:
        repo.undo()


# -- limits of a process ----------------------------------------------------------------------------------


def _within(limit: int, value: int, work: Callable[[], None]) -> int:
    """0 when the work was done, 3 when it was refused by name; anything else is wrong."""

    def limited() -> None:
        resource.setrlimit(limit, (value, resource.getrlimit(limit)[1]))
        try:
            work()
        except Unavailable:
            os._exit(3)

    return in_child(limited)


def _add_and_commit(root: Path) -> None:
    with ml.open(root) as repo:
        repo.add(all=True)
        repo.commit("within limits")
        repo.switch("side")
        repo.upkeep.gc(prune=True)


def test_too_few_open_files_are_refused_by_name(template: Path) -> None:
    taken = {int(name) for name in os.listdir("/proc/self/fd")}
    free = [number for number in range(len(taken) + 100) if number not in taken]  # so many are free below each of them
    results = []
    with fast_folder() as folder:
        for more in (*range(24), 63):
            root = snapshot_of(template, folder / str(more))
            put(root, "new.bin", noise(40_000, "new"))
            results.append(_within(resource.RLIMIT_NOFILE, free[more], lambda root=root: _add_and_commit(root)))
            with ml.open(root) as repo:
                repo.status()
                assert_sound(repo)
    assert set(results) <= {0, 3}, results
    assert results.count(3) > 2
    assert results[-1] == 0, results


def test_a_file_size_limit_is_refused_by_name(template: Path) -> None:
    results = []
    with fast_folder() as folder:
        for size in (4 << 10, 40 << 10, 130 << 10, 200 << 10, 400 << 10, 1 << 30):
            root = snapshot_of(template, folder / str(size))
            put(root, "new.bin", noise(300_000, "new"))
            results.append(_within(resource.RLIMIT_FSIZE, size, lambda root=root: _add_and_commit(root)))
            with ml.open(root) as repo:
                repo.status()
                assert_sound(repo)
    assert set(results) <= {0, 3}, results
    assert results.count(3) > 2
    assert results[-1] == 0, results
