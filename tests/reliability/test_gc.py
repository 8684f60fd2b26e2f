"""gc beside writers: a state machine of writers stopped at every point, and processes under a looping gc --prune."""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import hypothesis
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

import memlake as ml
from memlake.errors import Error, Unavailable
from memlake.objects import leases, sweep
from memlake.objects.leases import Keeping, Lease
from memlake.objects.writer import Writer
from memlake.records import Entry
from memlake.repo import Repo
from memlake.versions.checkout.local import Tracked
from memlake.versions.upkeep import gc
from tests.reliability.ground import (
    SHARED_MEMORY,
    TORTURE,
    assert_sound,
    fast_folder,
    hooked,
    init,
    noise,
    put,
    python,
    snapshot_of,
)

# Few contents, so that writers meet each other's: inline, packed, and two chunked ones that share most chunks.
_BIG = noise(400_000, "big")
CONTENTS: dict[str, bytes] = {
    "small": b"a small text, kept in its row",
    "other": b"another small text",
    "packed": noise(20_000, "packed"),
    "packed2": noise(20_000, "packed2"),
    "chunked": _BIG,
    "edited": b"some bytes put in front" + _BIG,
}
LARGE = {"chunked", "edited"}
PRUNE = gc.Policy(grace_hours=0)


@dataclass
class Hand:
    """One writer as an object: it stands between two of its steps while others move."""

    repo: Repo
    writer: Writer
    added: dict[str, str] = field(default_factory=dict)
    finished: bool = False
    lease_lost: bool = False

    def add(self, name: str) -> None:
        content = CONTENTS[name]
        if name in LARGE:
            self.added[name], _ = self.writer.add_stream(io.BytesIO(content), len(content))
        else:
            self.added[name] = self.writer.add(content)

    def close(self) -> None:
        self.writer.__exit__(None, None, None)
        self.repo.close()


class Workshop:
    """A repo, writers at different points, and what must be readable: named things and things a writer was promised."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.repo = init(root)
        self.hands: dict[int, Hand] = {}
        self.staged: dict[str, str] = {}
        self.committed: dict[str, str] = {}
        self.number = 0

    # -- steps of a writer -----------------------------------------------------------------------

    def open(self) -> None:
        self.number += 1
        repo = ml.open(self.root)
        self.hands[self.number] = Hand(repo, Writer(repo._history.objects, "test").__enter__())

    def add(self, key: int, name: str) -> None:
        if not self.hands[key].finished:
            self.hands[key].add(name)

    def lose_lease(self, key: int) -> None:
        hand = self.hands[key]
        assert hand.writer._lease is not None
        lease = hand.writer._lease
        with self.repo._history.db.write():
            self.repo._history.db.run("DELETE FROM lease WHERE id = ? AND tick = ?", (lease._id, lease.tick))
        hand.lease_lost = True

    def finish(self, key: int) -> None:
        hand = self.hands[key]
        if hand.finished:
            return
        if hand.lease_lost:
            self._must_fail_whole(key)
            return
        hand.writer.finish()
        hand.finished = True

    def _must_fail_whole(self, key: int) -> None:
        before = self._stored()
        hand = self.hands.pop(key)
        with pytest.raises((Unavailable, ml.errors.NotFound)):
            hand.writer.finish()
        hand.close()
        assert self._stored() == before, "a write that lost its lease left something behind"

    def _stored(self) -> tuple[object, ...]:
        rows = self.repo._history.db.rows("SELECT oid, pack, touched, condemned FROM object ORDER BY oid")
        packs = {path.name for path in (self.repo.dir / "packs").iterdir()}
        return rows, packs - {path.name for path in (self.repo.dir / "tmp").iterdir()}

    def stage(self, key: int) -> None:
        """Name what was finished the way `add` does, while the lease is held."""
        hand = self.hands[key]
        if hand.finished and not hand.lease_lost:
            rows = [
                Tracked(name, Entry(oid, "file", len(CONTENTS[name])), None, True, True)
                for name, oid in hand.added.items()
            ]
            hand.repo._local.put(rows)
            self.staged.update(hand.added)

    def commit(self, key: int) -> None:
        hand = self.hands[key]
        fresh = {name: oid for name, oid in hand.added.items() if name not in self.committed}
        if hand.finished and fresh:
            changes = {f"memories/bot/{n}": Entry(oid, "memory", len(CONTENTS[n])) for n, oid in fresh.items()}
            try:
                hand.repo.write(changes, "keep")
            except ml.errors.NotFound:  # a commit never names what is not there
                assert hand.lease_lost
            else:
                self.committed.update(fresh)

    def close(self, key: int) -> None:
        self.hands.pop(key).close()

    def unstage(self) -> None:
        self.repo._local.put([Tracked(name, None) for name in self.staged])
        self.staged.clear()

    # -- what must hold --------------------------------------------------------------------------

    def needed(self) -> dict[str, str]:
        promised = {
            name: oid
            for hand in self.hands.values()
            if hand.finished and not hand.lease_lost
            for name, oid in hand.added.items()
        }
        return {**promised, **self.staged, **self.committed}

    def check(self) -> None:
        for name, oid in self.needed().items():
            assert self.repo.objects.read(oid) == CONTENTS[name], name

    def collect(self, policy: gc.Policy, between: Callable[[str], None] | None = None) -> None:
        """gc through a Repo of its own; `between` runs at each point where it holds no lock."""
        with ml.open(self.root) as repo, _points(between):
            gc.collect(repo._look(), policy)

    def close_all(self) -> None:
        for key in list(self.hands):
            self.close(key)
        self.repo.close()


@contextlib.contextmanager
def _points(between: Callable[[str], None] | None) -> Iterator[None]:
    """Runs `between(point)` inside gc wherever it has let go of the lock and other processes can come in."""
    if between is None:
        yield
        return
    with pytest.MonkeyPatch.context() as patch:
        for module, name, point in (
            (gc, "_local_roots", "before the stage is read"),
            (gc, "_mark_commits", "before marking"),
            (gc, "sweep_files", "after deleting rows"),
            (sweep, "repack", "before packs are joined"),
        ):
            patch.setattr(module, name, _calling(getattr(module, name), lambda p=point: between(p), after=False))
        for module, name, point in (
            (gc, "_mark_nodes", "after marking"),
            (sweep, "repack", "after packs are joined"),
        ):
            patch.setattr(module, name, _calling(getattr(module, name), lambda p=point: between(p), after=True))
        # Inside the deleting transaction _local_roots is read again: nobody can come in there.
        patch.setattr(gc, "_moved_onto_garbage", _calling_original(gc._moved_onto_garbage))
        yield


def _calling(original: Callable[..., object], act: Callable[[], None], *, after: bool) -> Callable[..., object]:
    def wrapped(*args: object, **named: object) -> object:
        if not after:
            act()
        result = original(*args, **named)
        if after:
            act()
        return result

    wrapped.original = getattr(original, "original", original)  # type: ignore[attr-defined]
    return wrapped


def _calling_original(asked: Callable[..., object]) -> Callable[..., object]:
    def wrapped(*args: object) -> object:
        patched = gc._local_roots
        gc._local_roots = patched.original  # type: ignore[attr-defined]
        try:
            return asked(*args)
        finally:
            gc._local_roots = patched

    return wrapped


# -- the state machine ------------------------------------------------------------------------------

names = st.sampled_from(sorted(CONTENTS))
moves = st.sampled_from(
    ["open", "add", "add", "finish", "stage", "commit", "close", "unstage", "write", "write", "lose", "prune"]
)
policies = st.sampled_from([PRUNE, PRUNE, gc.Policy(grace_hours=24), gc.Policy(grace_hours=1e-9)])


class GcBesideWriters(RuleBasedStateMachine):
    @initialize()
    def begin(self) -> None:
        self.folder = tempfile.mkdtemp(dir=SHARED_MEMORY if os.access(SHARED_MEMORY, os.W_OK) else None)
        self.shop = Workshop(Path(self.folder))

    def move(self, move: str, pick: int, name: str) -> None:
        shop = self.shop
        if move == "open" or (move in ("add", "finish", "stage", "commit", "close", "lose") and not shop.hands):
            if len(shop.hands) < 3:
                shop.open()
            return
        key = sorted(shop.hands)[pick % len(shop.hands)] if shop.hands else 0
        if move == "add":
            shop.add(key, name)
        elif move == "write":
            self.write(name)
        elif move == "lose":
            shop.lose_lease(key)
        elif move == "prune":
            shop.collect(PRUNE)
        elif move == "unstage":
            shop.unstage()
        else:
            getattr(shop, move)(key)

    def write(self, name: str) -> None:
        """A whole short life of a writer."""
        self.shop.open()
        key = max(self.shop.hands)
        self.shop.add(key, name)
        self.shop.finish(key)
        self.shop.stage(key)
        self.shop.close(key)

    @rule(move=moves, pick=st.integers(0, 2), name=names)
    def step(self, move: str, pick: int, name: str) -> None:
        self.move(move, pick, name)

    @rule(policy=policies)
    def collect(self, policy: gc.Policy) -> None:
        self.shop.collect(policy)

    @rule(policy=policies, script=st.lists(st.tuples(st.integers(1, 9), moves, st.integers(0, 2), names), max_size=8))
    def collect_while_others_move(self, policy: gc.Policy, script: list[tuple[int, str, int, str]]) -> None:
        """The moves of the script happen inside gc, each at the n-th point at which gc holds no lock."""
        reached = 0

        def between(_point: str) -> None:
            nonlocal reached
            reached += 1  # first: a move may itself be a gc
            for move, pick, name in [rest for at, *rest in script if at == reached]:
                self.move(move, pick, name)

        self.shop.collect(policy, between)

    @precondition(lambda self: hasattr(self, "shop"))
    @invariant()
    def what_is_needed_can_be_read(self) -> None:
        self.shop.check()

    def teardown(self) -> None:
        if not hasattr(self, "shop"):
            return
        shop = self.shop
        for key in list(shop.hands):
            shop.close(key)
        shop.check()
        shop.unstage()
        for _ in range(2):
            shop.collect(PRUNE)
        shop.check()
        rows = {row[0].hex() for row in shop.repo._history.db.rows("SELECT oid FROM object WHERE role & 1")}
        assert rows == set(shop.committed.values()), "gc left objects that nothing needs"
        assert_sound(shop.repo)
        shop.close_all()
        shutil.rmtree(self.folder)


TestGcBesideWriters = GcBesideWriters.TestCase
TestGcBesideWriters.settings = hypothesis.settings(
    max_examples=2000 if TORTURE else 20,
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=list(hypothesis.HealthCheck),
)


# -- single scenes, each with the guard that saves it, and the guard switched off ---------------------


@pytest.fixture
def shop() -> Iterator[Workshop]:
    with fast_folder() as folder:
        shop = Workshop(folder)
        yield shop
        shop.close_all()


def _garbage(shop: Workshop, *names: str) -> None:
    """Objects that are stored and that nothing names."""
    shop.open()
    for name in names:
        shop.add(shop.number, name)
    shop.finish(shop.number)
    shop.close(shop.number)


def _reuse_while_gc_runs(shop: Workshop, point: str) -> None:
    """gc has decided that `packed` is garbage; before it deletes, a writer comes, relies on it and names it."""
    _garbage(shop, "packed", "edited")

    def between(at: str) -> None:
        if at == point:
            shop.open()
            shop.add(shop.number, "packed")
            shop.add(shop.number, "chunked")
            shop.finish(shop.number)
            shop.stage(shop.number)
            shop.close(shop.number)

    shop.collect(PRUNE, between)
    shop.check()


POINTS = [
    "before the stage is read",
    "before marking",
    "after marking",
    "after deleting rows",
    "before packs are joined",
]


@pytest.mark.parametrize("point", POINTS)
def test_an_object_relied_on_while_gc_runs_is_kept(shop: Workshop, point: str) -> None:
    _reuse_while_gc_runs(shop, point)
    assert_sound_apart_from_the_stage(shop)


def assert_sound_apart_from_the_stage(shop: Workshop) -> None:
    shop.unstage()
    assert_sound(shop.repo)


def test_without_the_revival_in_the_transaction_gc_deletes_what_a_writer_relies_on(
    shop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_many = type(shop.repo._history.db).run_many

    def no_revival(self: object, sql: str, rows: object) -> None:
        sql = sql.split(" ON CONFLICT")[0].replace("INSERT INTO object", "INSERT OR IGNORE INTO object")
        if not sql.startswith("UPDATE object SET touched"):
            run_many(self, sql, rows)  # type: ignore[arg-type]

    monkeypatch.setattr(type(shop.repo._history.db), "run_many", no_revival)
    with pytest.raises((Error, AssertionError)):
        _reuse_while_gc_runs(shop, "after marking")


def test_without_marking_what_came_since_gc_deletes_what_a_writer_relies_on(
    shop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gc, "_mark_what_came_since", lambda *_: None)
    with pytest.raises((Error, AssertionError)):
        _reuse_while_gc_runs(shop, "after marking")


def _finish_then_gc_then_name(shop: Workshop) -> None:
    """A writer has stored its objects but not named them yet when gc comes."""
    shop.open()
    for name in CONTENTS:
        shop.add(shop.number, name)
    shop.finish(shop.number)
    for _ in range(2):
        shop.collect(PRUNE)
    shop.stage(shop.number)
    shop.check()


def test_what_a_writer_with_a_lease_stored_is_kept_until_it_names_it(shop: Workshop) -> None:
    _finish_then_gc_then_name(shop)


def test_without_leases_gc_deletes_what_a_writer_is_about_to_name(
    shop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leases, "oldest", lambda _db: leases.NEVER)
    with pytest.raises((Error, AssertionError)):
        _finish_then_gc_then_name(shop)


def _lose_the_lease_and_the_reused_object(shop: Workshop) -> None:
    _garbage(shop, "edited")
    shop.open()
    key = shop.number
    shop.add(key, "edited")
    shop.hands[key].writer._flush()  # its chunks are found and will not be stored again
    shop.lose_lease(key)
    shop.collect(PRUNE)
    shop.finish(key)


def test_a_writer_whose_lease_vanished_fails_whole_and_leaves_nothing(shop: Workshop) -> None:
    _lose_the_lease_and_the_reused_object(shop)
    assert_sound(shop.repo)
    assert list((shop.repo.dir / "tmp").iterdir()) == []


def test_without_the_lease_check_a_late_writer_names_objects_that_are_gone(
    shop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Lease, "check", lambda _self: None)
    monkeypatch.setattr(Writer, "_check_still_there", lambda _self: None)
    with pytest.raises(pytest.fail.Exception):  # the finish that must raise does not
        _lose_the_lease_and_the_reused_object(shop)
    assert not shop.repo.upkeep.fsck().ok


def test_a_writer_that_lost_its_lease_does_not_take_away_the_next_ones(shop: Workshop) -> None:
    """An id is free again once its row is gone; found by the state machine."""
    shop.open()
    late = shop.number
    shop.lose_lease(late)
    shop.open()
    shop.close(late)
    shop.add(shop.number, "packed")
    shop.finish(shop.number)
    shop.stage(shop.number)
    shop.check()


def test_a_pack_made_again_while_gc_deletes_the_old_one_of_the_same_records_is_kept(shop: Workshop) -> None:
    """The same objects in the same order make the same pack: the name must not be the one gc is about to delete."""
    _garbage(shop, "packed", "packed2")

    def between(at: str) -> None:
        if at == "after packs are joined":
            shop.open()
            shop.add(shop.number, "packed")
            shop.add(shop.number, "packed2")
            shop.finish(shop.number)
            shop.stage(shop.number)
            shop.close(shop.number)

    shop.collect(PRUNE, between)
    shop.check()


def test_gc_marks_the_objects_of_a_commit_that_gets_a_branch_while_it_runs(shop: Workshop) -> None:
    """With an expiring reflog a commit can be unreachable when gc marks and named when it deletes."""
    repo = shop.repo
    put(shop.root, "a.bin", CONTENTS["packed"])
    repo.add(shop.root / "a.bin")
    first = repo.commit("first")
    put(shop.root, "a.bin", CONTENTS["packed2"])
    repo.add(shop.root / "a.bin")
    lost = repo.commit("lost")
    repo.reset(first.oid, "hard")
    repo.commit("next", allow_empty=True)
    for table in ("operation", "headlog"):
        repo._local.db.run(f"DELETE FROM {table}")
    policy = gc.Policy(grace_hours=0, reflog_expire="0")

    def between(at: str) -> None:
        if at == "after marking":
            with ml.open(shop.root) as other:
                other.branches.create("found", at=lost.oid)

    shop.collect(policy, between)
    if repo._history.db.row("SELECT 1 FROM ref WHERE name = 'found'"):
        assert repo.read(shop.root / "a.bin", "found") == CONTENTS["packed2"]
    assert_sound(repo)


def test_gc_keeps_the_tree_of_a_memory_commit_that_gets_a_branch_while_it_runs(shop: Workshop) -> None:
    commits = [shop.repo.write({f"memories/bot/{n}": b"%d" % n}, "m") for n in range(6)]

    def between(at: str) -> None:
        if at == "after marking":
            with ml.open(shop.root) as other:
                other.branches.create("back", at=commits[2].oid)

    shop.collect(PRUNE, between)
    assert_sound(shop.repo)
    assert shop.repo.show("back", lane="memory").commit.oid == commits[2].oid


def test_a_purge_between_finding_a_chunk_and_naming_it_fails_the_write_whole(shop: Workshop) -> None:
    """A chunk has no tombstone of its own; the write that relied on it must notice that it is gone."""
    _garbage(shop, "edited")
    edited = shop.repo._history.db.row("SELECT oid FROM object WHERE form = 4")
    assert edited is not None
    shop.open()
    hand = shop.hands[shop.number]
    hand.add("chunked")
    hand.writer._flush()
    shop.repo.upkeep.purge(edited[0].hex(), reason="test")
    with pytest.raises(Unavailable):
        hand.writer.finish()
    assert_sound(shop.repo)


# -- verbs under a gc that prunes at the worst moment -------------------------------------------------


def _prune_at_every_step(root: Path, verb: Callable[[Repo], object]) -> int:
    """Run a verb with a whole gc --prune by another Repo before each step at which no lock is held."""
    runs = 0
    for number in range(1, 400):
        with fast_folder() as folder:
            copy = snapshot_of(root, folder / "repo")
            reached = _prune_once(copy, verb, number)
            if not reached:
                return runs
            runs += 1
    raise AssertionError("the verb never ends")


def _prune_once(root: Path, verb: Callable[[Repo], object], number: int) -> bool:
    """True when the verb has so many moments at which another process could take the lock; gc runs at that one."""
    seen, pruned = 0, False
    with ml.open(root) as repo, ml.open(root) as other, pytest.MonkeyPatch.context() as patch:

        def moment() -> None:
            nonlocal seen, pruned
            seen += 1
            if seen == number:
                pruned = True
                with hooked(None):
                    gc.collect(other._look(), PRUNE)

        def hook(name: str) -> None:
            if name not in LOCKED_STEPS and not repo._history.db._local.writing:
                moment()

        for db in (repo._history.db, repo._local.db):
            patch.setattr(db, "_file_lock", _before_locking(db._file_lock, repo, moment))
        with hooked(hook):
            verb(repo)
        assert_sound(repo)
        if verb is not _part:
            _undo_brings_it_back(repo)
    return pruned


LOCKED_STEPS = {"sql", "commit", "committed", "checkpoint", "vacuum"}


def _before_locking(lock: Callable[[], object], repo: Repo, moment: Callable[[], None]) -> Callable[[], object]:
    def wrapped() -> object:
        if not repo._history.db._local.writing:
            moment()
        return lock()

    return wrapped


def _undo_brings_it_back(repo: Repo) -> None:
    repo.undo()
    assert_sound(repo)


@pytest.fixture(scope="module")
def busy_repo() -> Iterator[Path]:
    """A repo with two branches that differ in text that merges, staged and unstaged work."""
    with fast_folder() as folder:
        root = folder / "repo"
        repo = init(root)
        put(root, "text.txt", "".join(f"line {n}\n" for n in range(40)))
        put(root, "data.csv", "name,size\na,1\n")
        repo.add(root / "text.txt", root / "data.csv")
        repo.commit("base")
        repo.branches.create("side")
        put(root, "text.txt", "first\n" + "".join(f"line {n}\n" for n in range(40)))
        repo.add(root / "text.txt")
        repo.commit("ours")
        repo.switch("side")
        put(root, "text.txt", "".join(f"line {n}\n" for n in range(40)) + "last\n")
        repo.add(root / "text.txt")
        repo.commit("theirs")
        repo.switch("main")
        repo.close()
        yield root


def _commit(repo: Repo) -> None:
    put(repo.root, "new.csv", "a,b\n1,2\n")
    repo.add(repo.root / "new.csv")
    repo.commit("new", metrics={"m": 1}, params={"p": 2})


def _stash(repo: Repo) -> None:
    put(repo.root, "data.csv", "name,size\nmine,2\n")
    put(repo.root, "untracked.txt", "mine too\n")
    repo.stash.push(include_untracked=True)


def _reset_hard(repo: Repo) -> None:
    put(repo.root, "data.csv", "name,size\nmine,2\n")
    repo.reset("HEAD", "hard")


def _add_over_staged(repo: Repo) -> None:
    put(repo.root, "data.csv", "name,size\nfirst,2\n")
    repo.add(repo.root / "data.csv")
    put(repo.root, "data.csv", "name,size\nsecond,2\n")
    repo.add(repo.root / "data.csv")


def _restore(repo: Repo) -> None:
    put(repo.root, "data.csv", "name,size\nmine,2\n")
    repo.restore(repo.root / "data.csv")


def _remove(repo: Repo) -> None:
    put(repo.root, "data.csv", "name,size\nmine,2\n")
    repo.rm(repo.root / "data.csv", force=True)


def _move(repo: Repo) -> None:
    put(repo.root, "data.csv", "name,size\nmine,2\n")
    repo.mv(repo.root / "text.txt", repo.root / "data.csv", force=True)


def _pop(repo: Repo) -> None:
    _stash(repo)
    repo.stash.pop()


def _conclude(repo: Repo) -> None:
    put(repo.root, "text.txt", "another\n")
    repo.add(repo.root / "text.txt")
    repo.commit("another")
    assert repo.merge("side").conflicts
    repo.pending_merge.choose("ours")
    repo.commit("joined", metrics={"m": 3})


def _switch_forced(repo: Repo) -> None:
    put(repo.root, "data.csv", "name,size\nmine,2\n")
    repo.switch("side", force=True)


def _part(repo: Repo) -> None:
    file = put(repo.root, "made-elsewhere", noise(9000, "part"))
    os.utime(file, (1, 1))  # a part may be older than the lease it is stored under
    with repo._history.db.write():
        repo._history.objects.write_part(file)
    oid = hashlib.sha256(noise(9000, "part")).hexdigest()
    if not repo._history.objects.find_missing([oid]):
        assert repo.objects.read(oid) == noise(9000, "part")


VERBS: dict[str, Callable[[Repo], object]] = {
    "commit": _commit,
    "stash": _stash,
    "reset --hard": _reset_hard,
    "add over what is staged": _add_over_staged,
    "restore": _restore,
    "rm -f": _remove,
    "mv -f": _move,
    "stash pop": _pop,
    "switch -f": _switch_forced,
    "commit of a waiting merge": _conclude,
    "merge": lambda repo: repo.merge("side"),
    "revert": lambda repo: repo.revert("HEAD"),
    "revert -n": lambda repo: repo.revert("HEAD~1", no_commit=True),
    "cherry-pick": lambda repo: repo.cherry_pick("side"),
    "storing a part": _part,
}


@pytest.mark.parametrize("verb", VERBS)
def test_a_prune_at_any_moment_of_a_verb_takes_nothing_it_needs(verb: str, busy_repo: Path) -> None:
    runs = _prune_at_every_step(busy_repo, VERBS[verb])
    assert runs >= (1 if verb == "storing a part" else 4)


@pytest.mark.parametrize("verb", ["stash", "merge", "add over what is staged"])
def test_without_leases_a_prune_takes_what_a_verb_needs(
    verb: str, busy_repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leases, "oldest", lambda _db: leases.NEVER)
    with pytest.raises((Error, AssertionError)):
        _prune_at_every_step(busy_repo, VERBS[verb])


@pytest.mark.parametrize("verb", ["reset --hard", "restore", "stash"])
def test_without_a_lease_held_to_the_end_a_prune_takes_what_undo_needs(
    verb: str, busy_repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lease of the store alone ends before it is written down what undo needs."""
    monkeypatch.setattr(Keeping, "take", lambda _self: None)
    with pytest.raises((Error, AssertionError)):
        _prune_at_every_step(busy_repo, VERBS[verb])


def test_a_verb_that_stores_nothing_and_lets_go_of_nothing_takes_no_lease(
    busy_repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[str] = []
    original = Lease.__init__
    monkeypatch.setattr(Lease, "__init__", lambda self, db, what: (taken.append(what), original(self, db, what))[1])
    with fast_folder() as folder, ml.open(snapshot_of(busy_repo, folder / "repo")) as repo:
        repo.switch("side")
        repo.undo()
        repo.rm(repo.root / "data.csv")
        assert taken == []
        repo.undo()  # the removal leaves the stage
        assert taken == ["undo"]


# -- real processes -----------------------------------------------------------------------------------

_WRITER = """
import sys, pathlib, random, time
import memlake as ml
from memlake.errors import Conflict, Nothing
root, me, seconds = pathlib.Path(sys.argv[1]), sys.argv[2], float(sys.argv[3])
repo, chance, count = ml.open(root), random.Random(me), 0
pool = [chance.randbytes(chance.choice([40, 5000, 30000])) for _ in range(6)]
end = time.monotonic() + seconds
while time.monotonic() < end:
    count += 1
    kind = chance.random()
    if kind < 0.4:
        content = chance.choice(pool)
        commit = repo.write({f"memories/{me}/{count % 5}": content + str(count).encode()}, "m")
        print("memory", commit.oid, count % 5, (content + str(count).encode()).hex()[:64], flush=True)
        continue
    file = root / me / str(count % 5)
    file.parent.mkdir(exist_ok=True)
    content = chance.choice(pool) + (b"" if kind < 0.8 else chance.randbytes(20))
    file.write_bytes(content)
    repo.add(file)
    if kind < 0.6:
        try:
            repo.restore(file, staged=True) if repo.head else repo.restore(file, staged=True)
        except ml.errors.NotFound:
            pass  # another process committed what was staged, or it was never in a commit
        continue
    try:
        commit = repo.commit("files of " + me)
        print("file", commit.oid, f"files/{me}/{count % 5}", content.hex()[:64], flush=True)
    except (Nothing, Conflict):
        pass  # the four share one stage: another one committed it first
repo.close()
"""

_COLLECTOR = """
import sys, time
import memlake as ml
repo, count, end = ml.open(sys.argv[1]), 0, time.monotonic() + float(sys.argv[2])
while time.monotonic() < end:
    repo.upkeep.gc(prune=True)
    count += 1
print(count)
repo.close()
"""


def _beside_a_collector(root: Path, seconds: float) -> tuple[int, int]:
    """Four writers and one looping gc --prune; (commits acknowledged, runs of gc). Everything is checked afterwards."""
    init(root).close()
    common = {"stdout": -1, "stderr": -1}
    writers = [python("-c", _WRITER, str(root), f"w{n}", str(seconds), **common) for n in range(4)]
    collector = python("-c", _COLLECTOR, str(root), str(seconds), **common)
    told = [process.communicate(timeout=seconds + 280) for process in writers]
    runs, failed = collector.communicate(timeout=280)
    for (_, errors), process in zip([*told, (runs, failed)], [*writers, collector], strict=True):
        assert process.returncode == 0, errors
    acknowledged = [line.split(" ", 3) for out, _ in told for line in out.splitlines()]
    with ml.open(root) as repo:
        assert_sound(repo)
        for kind, oid, where, start in acknowledged:
            commit = repo.show(oid, lane="memory" if kind == "memory" else "work").commit
            new = {change.path: change.new for change in repo.show(commit).changes}
            entries = [entry for path, entry in new.items() if entry and path.endswith(where)]
            if kind == "memory":
                assert repo.objects.read(entries[0].oid).hex()[:64] == start
            for entry in filter(None, new.values()):
                repo.objects.read(entry.oid)
    return len(acknowledged), int(runs)


def test_four_writers_beside_a_looping_prune_lose_nothing(tally: Callable[..., None]) -> None:
    for seconds in (3, 9, 27):  # a busy machine gets less done; losing is never allowed
        with fast_folder() as folder:
            acknowledged, runs = _beside_a_collector(folder / "repo", seconds)
        tally(commits=acknowledged, gc_runs=runs)
        if acknowledged > 20 and runs > 5:
            break
    assert acknowledged > 20
    assert runs > 5


@pytest.mark.torture
def test_four_writers_beside_a_looping_prune_lose_nothing_for_a_long_time(tally: Callable[..., None]) -> None:
    with fast_folder() as folder:
        acknowledged, runs = _beside_a_collector(folder / "repo", 600)
    tally(commits=acknowledged, gc_runs=runs)
