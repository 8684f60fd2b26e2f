"""Full and read-only disks: a named error or an index that follows later, and nothing that was stored is lost."""

from __future__ import annotations

import contextlib
import errno
import io
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import memlake as ml
from memlake import config
from memlake.cli.hook.events import EVENTS
from memlake.cli.main import main
from memlake.errors import Unavailable
from memlake.index import segments
from memlake.memories.memories import Draft, Memories
from memlake.memories.search import Query
from memlake.objects.db import Database
from memlake.versions.upkeep.fsck import log_damage
from tests.reliability.ground import TORTURE, assert_sound, fast_folder, hooked, mounted, noise, snapshot_of, steps_of
from tests.reliability.memory_ground import (
    assert_equals_a_rebuilt_index,
    everything,
    found_by_own_word,
    in_history,
    made,
    store_numbered,
    text_of,
    words,
)
from tests.reliability.test_faults import _fill, fail_at
from tests.reliability.test_memory_crash import VERBS, quiet, template

__all__ = ["template"]
FAILS = 1000 if TORTURE else 5  # of each verb
NAMES = ["store", "store many", "replace by a decision", "delete", "follow", "fold", "fold and merge", "embed"]


# -- an error at every step -----------------------------------------------------------------------------


def fail_everywhere(template: Path, name: str) -> int:
    """Fail steps of a verb; returns how often it was told so. What was stored is there in any case."""
    verb, told = VERBS[name], 0
    with fast_folder() as folder:
        ready = snapshot_of(template, folder / "ready")
        with ml.open(ready) as repo:
            verb.prepare(quiet(repo))
        done = snapshot_of(ready, folder / "done")
        with ml.open(done) as repo:
            memories = quiet(repo)
            before = len(in_history(repo))
            count = len(steps_of(lambda: verb.do(memories)))
            after = len(in_history(repo))
        every = -(-count // FAILS)
        for number in range(1 + sum(name.encode()) % every, count + 1, every):
            code = (errno.ENOSPC, errno.EIO)[number % 2]
            copy = snapshot_of(ready, folder / "copy")
            try:
                told += _fail_once(copy, verb.do, (number, code), (before, after))
            except AssertionError as error:
                raise AssertionError(f"{errno.errorcode[code]} at step {number} of {count}: {error}") from error
            shutil.rmtree(copy)
    return told


def _fail_once(root: Path, do: Callable[[Memories], object], at: tuple[int, int], sizes: tuple[int, int]) -> bool:
    with ml.open(root) as repo:
        memories, problem = quiet(repo), None
        try:
            with hooked(fail_at(*at)):
                do(memories)
        except (Unavailable, OSError) as error:
            problem = error
        assert problem is None or isinstance(problem, Unavailable), f"not named: {problem!r}"
        failed = problem is not None
        size = len(in_history(repo))
        assert size in sizes
        assert failed or size == sizes[1], "it was not done, and said nothing"
        assert not failed or size == sizes[0], "it was done, and said it was not: trying again would double it"
        assert set(everything(memories)) == in_history(repo)
        assert_sound(repo)
    with ml.open(root) as repo:
        found_by_own_word(quiet(repo), {i: c for i, c in everything(repo.memories()).items() if c.startswith("note")})
    return failed


@pytest.mark.parametrize("name", NAMES)
def test_an_error_at_any_step_is_told_only_of_what_was_not_done(
    name: str, template: Path, tally: Callable[..., None]
) -> None:
    tally(errors=fail_everywhere(template, name))


# -- a disk that is full --------------------------------------------------------------------------------


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    with mounted(tmp_path / "disk", "size=10m,nr_inodes=600") as at:
        yield at


@pytest.mark.parametrize("leave", [32 << 10, 64 << 10, 200 << 10])
def test_a_disk_that_fills_up_while_storing_folding_and_embedding_loses_nothing(
    small_disk: Path, leave: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segments, "FRESH", 16)
    root = made(small_disk / "repo", "test")
    with ml.open(root) as repo:
        memories = quiet(repo)
        stored = store_numbered(memories, range(30))
        filler = _fill(small_disk, leave)
        refused = []
        for number in range(30, 130):
            try:
                made_one = memories.store(Draft(f"{text_of(number)} {noise(600, number).hex()}"))
                stored[made_one.memory_id] = made_one.content
            except Unavailable as error:
                refused.append(error.message)
            for work in (memories.embed_pending, memories.shared.index.fold):
                with contextlib.suppress(Unavailable, OSError):
                    work()
        assert refused, "the disk was never full"
        assert [message for message in refused if "full" not in message and "No space" not in message] == []
        # What was acknowledged is readable while the disk is full, also where the index could not follow.
        newest = dict(list(stored.items())[-2:])
        found_by_own_word(memories, newest)
        assert everything(memories) == stored
        filler.unlink()
        assert everything(memories) == stored
        found_by_own_word(memories, stored)
        memories.store(Draft("room again"))
        with memories.shared.index.db.write():
            memories.shared.index.db.run(
                "UPDATE pending SET claimed = 0"
            )  # what could not be given back is held a while
        while memories.embed_pending():
            pass
        assert all(memories.has_vector(memory_id) for memory_id in stored)
        assert_sound(repo)
    assert_equals_a_rebuilt_index(root, [text_of(n) for n in range(20)])


def _fill_up(disk: Path) -> Path:
    """Leave no room at all, also where a file system keeps some for small files."""
    return _fill(disk, 4 << 10)


def test_a_full_disk_is_what_an_import_a_remember_and_a_backup_say(
    small_disk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    root = made(small_disk / "repo")
    monkeypatch.chdir(root)
    given = tmp_path / "many.jsonl"
    given.write_text("".join(json.dumps({"content": f"{text_of(n)} {noise(600, n).hex()}"}) + "\n" for n in range(40)))
    filler = _fill_up(small_disk)
    for line in (["memory", "import", str(given)], ["remember", "tea"], ["backup", str(small_disk / "copy.tar")]):
        assert main(line) == 128
        told = capsys.readouterr().err
        assert "disk is full" in told and "fsck" not in told and "unexpected" not in told, told
    filler.unlink()
    assert main(["memory", "import", str(given)]) == 0 and main(["backup", str(small_disk / "copy.tar")]) == 0
    assert main(["fsck", "--full"]) == 0


def test_on_a_full_disk_memories_are_found_without_an_index_and_that_is_said(small_disk: Path) -> None:
    root = made(small_disk / "repo")
    with ml.open(root) as repo:
        stored = store_numbered(quiet(repo), range(5))
    shutil.rmtree(root / ".memlake" / "index")
    _fill(small_disk, 0)
    with ml.open(root) as repo:
        memories = repo.memories()
        hits = words(memories, text_of(3))
        assert hits[0]["content"] == text_of(3)
        assert any("without the index" in note for note in hits.notes), hits.notes
        assert everything(memories) == stored


def test_an_index_that_cannot_follow_is_said_and_what_was_stored_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = made(tmp_path / "repo")
    with ml.open(root) as repo:
        memories = quiet(repo)
        stored = store_numbered(memories, range(10))
        real, index = memories.shared.index.db.write, memories.shared.index.db
        monkeypatch.setattr(index, "write", lambda: (_ for _ in ()).throw(Unavailable("the disk is full: index.db.")))
        added = memories.store(Draft("a late arrival"))
        hits = words(memories, "arrival")
        assert [hit["memory_id"] for hit in hits] == [added.memory_id]
        assert any("without the index" in note for note in hits.notes), hits.notes
        assert everything(memories) == {**stored, added.memory_id: added.content}
        assert memories.get(added.memory_id).content == "a late arrival"
        monkeypatch.setattr(index, "write", real)
        assert {*words(memories, "arrival").notes}.isdisjoint(hits.notes)


def test_what_a_transaction_left_that_was_taken_back_is_no_damage_of_the_log(tmp_path: Path) -> None:
    (tmp_path / "schema.sql").write_text("CREATE TABLE t(a);")
    db = Database(tmp_path / "x.db", schema=[tmp_path / "schema.sql"])
    db._connection().execute("PRAGMA cache_size=2")  # pages of an open transaction go to the log early
    with contextlib.suppress(Unavailable), db.write():
        db.run_many("INSERT INTO t VALUES(?)", [(noise(3000, n),) for n in range(100)])
        raise Unavailable("the disk is full")
    with db.write():
        db.run("INSERT INTO t VALUES(1)")
    assert list(log_damage(db.path)) == []
    log = bytearray((tmp_path / "x.db-wal").read_bytes())
    log[32 + 24 + 100] ^= 1  # in a page that was committed
    (tmp_path / "x.db-wal").write_bytes(log)
    assert "damaged from frame 1 on" in next(iter(log_damage(db.path)))
    db.close()


# -- a folder that cannot be written --------------------------------------------------------------------


@pytest.fixture
def read_only(tmp_path: Path) -> Iterator[Callable[[Path], None]]:
    """Mount a small disk, and make it read-only when asked to."""
    at = tmp_path / "disk"
    with mounted(at, "size=20m"):
        yield lambda _root: subprocess.run(["mount", "-o", "remount,ro", str(at)], check=True)


def test_what_is_indexed_is_found_in_a_folder_that_cannot_be_written(
    tmp_path: Path, read_only: Callable[[Path], None]
) -> None:
    root = made(tmp_path / "disk" / "repo", "test")
    with ml.open(root) as repo:
        stored = store_numbered(repo.memories(), range(20))
        assert repo.memories().wait(20)
        repo.upkeep.checkpoint()
    read_only(root)
    with ml.open(root) as repo:
        memories = repo.memories()
        assert memories.search(Query(text_of(7)))[0]["content"] == text_of(7)
        assert everything(memories) == stored
        with pytest.raises(Unavailable):
            memories.store(Draft("not to be stored"))
        assert everything(memories) == stored


def test_what_is_not_indexed_in_a_folder_that_cannot_be_written_is_found_and_that_is_said(
    tmp_path: Path, read_only: Callable[[Path], None]
) -> None:
    root = made(tmp_path / "disk" / "repo")
    with ml.open(root) as repo:
        store_numbered(repo.memories(), range(20))
        repo.upkeep.checkpoint()
    shutil.rmtree(root / ".memlake" / "index")
    read_only(root)
    with ml.open(root) as repo:
        hits = words(repo.memories(), text_of(7))
    assert hits[0]["content"] == text_of(7) and any("Read-only" in note for note in hits.notes), hits.notes


SAID = "I moved the staging cluster of the shop to Frankfurt."


def test_hooks_end_well_in_a_folder_that_cannot_be_written(
    tmp_path: Path,
    read_only: Callable[[Path], None],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    root = made(tmp_path / "disk" / "repo")
    monkeypatch.chdir(root)
    assert main(["remember", "Ada plays the cello", "--personal"]) == 0
    with ml.open(root) as repo:
        repo.upkeep.checkpoint()
    read_only(root)
    given = json.dumps({"session_id": "s", "prompt": "from now on squash", "last_assistant_message": SAID})
    capsys.readouterr()
    for event in EVENTS:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(given.encode())))
        assert main(["hook", event, "--client", "gemini"]) == 0
    assert capsys.readouterr() == ("", "") and not (root / ".memlake/hooks.log").exists()
    log = (config.personal_folder() / ".memlake/hooks.log").read_text()
    assert " session-start: " in log and " stop: " in log


# -- each safeguard switched off ------------------------------------------------------------------------


def test_without_letting_the_index_follow_later_a_stored_memory_is_said_not_to_be(
    template: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from memlake.memories import store

    monkeypatch.setattr(store, "update_index", lambda ground, known=None: store._follow(ground, known or {}))
    monkeypatch.setattr("tests.reliability.test_memory_disk.FAILS", 1000)
    with pytest.raises(AssertionError, match="would double it"):
        fail_everywhere(template, "store")


def test_as_root_or_not_the_counts_of_what_was_read_never_fail_a_close(tmp_path: Path) -> None:
    root = made(tmp_path / "repo")
    repo = ml.open(root)
    repo.memories().store(Draft("tea"))
    words(repo.memories(), "tea")
    os.rename(root / ".memlake", root / "elsewhere")
    repo.close()
