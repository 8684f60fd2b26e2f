"""Many writer processes at once: no update is lost, no lock shows as an error, and none of them starves."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import memlake as ml
from memlake.errors import Conflict
from memlake.records import Entry
from tests.reliability.ground import TORTURE, assert_sound, fast_folder, init, python

SECONDS = 60.0 if TORTURE else 2.5
WRITERS = (2, 8, 32) if TORTURE else (2, 8)
# On busy cores a process may wait for seconds: then only a longer run can tell whether a writer starves.
LONGER = (1, 3, 8)

# A counter that every writer raises by reading it and writing it back, and a memory of its own.
_MEMORIES = """
import json, sys, time
import memlake as ml
from memlake.errors import Conflict, Nothing
{patch}
root, me, begin, seconds = sys.argv[1], sys.argv[2], float(sys.argv[3]), float(sys.argv[4])
repo, done, raised, longest = ml.open(root), 0, 0, 0.0
time.sleep(max(0, begin - time.time()))
end = time.monotonic() + seconds
while time.monotonic() < end:
    started = time.monotonic()
    repo.write({{f"memories/{{me}}/{{done}}": f"{{me}} {{done}}".encode()}}, "own")
    longest = max(longest, time.monotonic() - started)
    done += 1
    if done % 4 == 0:
        entries = dict(repo.ls(prefix="memories/counter"))
        entry = entries["memories/counter"]
        value = int(repo.objects.read(entry.oid)) + 1
        try:
            repo.write({{"memories/counter": str(value).encode()}}, "raise", expects={{"memories/counter": entry}})
            raised += 1
        except (Conflict, Nothing):
            pass  # Nothing: only where the check is switched off
print(json.dumps([done, raised, longest]))
repo.close()
"""

_FILES = """
import json, pathlib, sys, time
import memlake as ml
from memlake.errors import Nothing
root, me, begin, seconds = pathlib.Path(sys.argv[1]), sys.argv[2], float(sys.argv[3]), float(sys.argv[4])
repo, done, longest = ml.open(root), 0, 0.0
time.sleep(max(0, begin - time.time()))
end = time.monotonic() + seconds
while time.monotonic() < end:
    started = time.monotonic()
    file = root / f"{me}-{done % 20}.txt"
    file.write_text(f"{me} {done}")
    repo.add(file)
    try:
        repo.commit(f"{me} {done}")
    except Nothing:
        pass  # the stage is shared: another process has committed it along with its own
    longest = max(longest, time.monotonic() - started)
    done += 1
print(json.dumps([done, 0, longest]))
repo.close()
"""


@dataclass(frozen=True)
class Run:
    done: list[int]
    raised: int
    longest: float
    errors: list[str]

    @property
    def fair(self) -> bool:
        return min(self.done) >= sum(self.done) / len(self.done) / 4


def run(root: Path, script: str, writers: int, seconds: float) -> Run:
    """Start the writers, wait for all, and say how each did."""
    begin = time.time() + 1.0 + writers * 0.12  # when all of them have started
    command = ("-c", script, str(root))
    children = [
        python(*command, f"w{n}", str(begin), str(seconds), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for n in range(writers)
    ]
    told = [child.communicate(timeout=seconds * 10 + 120) for child in children]
    errors = [text for child, (_, text) in zip(children, told, strict=True) if child.returncode]
    figures = [json.loads(out) for child, (out, _) in zip(children, told, strict=True) if not child.returncode]
    done, raised, longest = zip(*figures, strict=True) if figures else ((0,), (0,), (0.0,))
    return Run(list(done), sum(raised), max(longest), errors)


@contextlib.contextmanager
def repo_on_disk(tmp_path: Path | None) -> Iterator[Path]:
    with fast_folder() as folder:
        root = (tmp_path or folder) / "repo"
        with init(root) as repo:
            repo.write({"memories/counter": b"0"}, "begin")
        yield root


@pytest.mark.parametrize("writers", WRITERS)
def test_no_memory_is_lost_and_no_writer_starves(writers: int, tally: Callable[..., None]) -> None:
    assert any(_memories_are_fair(writers, SECONDS * more, tally) for more in LONGER), (
        "a writer starved, however long it ran"
    )


def _memories_are_fair(writers: int, seconds: float, tally: Callable[..., None]) -> bool:
    """Two busy cores can keep a process waiting for seconds, so a run may be repeated; losing is never allowed."""
    with repo_on_disk(None) as root:
        result = run(root, _MEMORIES.format(patch=""), writers, seconds)
        tally(commits=sum(result.done))
        assert not result.errors, result.errors[0]
        with ml.open(root) as repo:
            assert int(repo.read("memories/counter")) == result.raised
            paths = {path for path, _ in repo.ls(prefix="memories/w")}
            assert paths == {f"memories/w{n}/{k}" for n, done in enumerate(result.done) for k in range(done)}
            assert sum(1 for _ in repo.log(lane="memory")) == 1 + sum(result.done) + result.raised
            assert_sound(repo)
        return result.fair and result.raised > 0


@pytest.mark.parametrize("writers", WRITERS)
def test_no_file_is_lost_when_many_processes_add_and_commit_in_one_checkout(
    writers: int, tally: Callable[..., None]
) -> None:
    assert any(_files_are_fair(writers, SECONDS * more, tally) for more in LONGER), (
        "a writer starved, however long it ran"
    )


def _files_are_fair(writers: int, seconds: float, tally: Callable[..., None]) -> bool:
    with repo_on_disk(None) as root:
        result = run(root, _FILES, writers, seconds)
        tally(commits=sum(result.done))
        assert not result.errors, result.errors[0]
        with ml.open(root) as repo:
            status = repo.status()
            staged = {change.path for change in status.staged}
            for number, done in enumerate(result.done):
                for slot in range(min(done, 20)):
                    last = max(k for k in range(done) if k % 20 == slot)
                    path = f"files/w{number}-{slot}.txt"
                    assert path not in staged
                    assert repo.read(root / path.removeprefix("files/")) == f"w{number} {last}".encode()
            assert_sound(repo)
        return result.fair


def test_a_tree_thinned_while_it_is_read_reads_on(tmp_path: Path) -> None:
    """Another process passes the end of a window between two nodes of our scan."""
    with init(tmp_path / "repo") as repo, ml.open(tmp_path / "repo") as other:
        with repo._history.db.write():
            for number in range(250):
                repo.write({f"memories/bot/{number}": b"%d" % number}, "m")
        reading = repo.ls("HEAD" if repo.head else "main", prefix="memories/")
        found = [next(reading)]
        with other._history.db.write():
            for number in range(250, 520):
                other.write({f"memories/bot/{number}": b"%d" % number}, "m")
        repo._history.nodes._cache.clear()
        assert len([*found, *reading]) == 250


def test_a_branch_at_a_thinned_commit_is_whole_for_other_processes(tmp_path: Path) -> None:
    """A tree rebuilt only in memory is no ground to store another on."""
    with init(tmp_path / "repo") as repo:
        with repo._history.db.write():
            commits = [repo.write({f"memories/bot/{n}": b"%d" % n}, "m") for n in range(300)]
        early, next_one = (repo.show(commits[at].oid, lane="memory").commit for at in (100, 101))
        assert len(list(repo._history.scan(early))) == 101
        repo.branches.create("back", at=next_one.oid)
    with ml.open(tmp_path / "repo") as other:
        assert len(list(other._history.scan(other.show("back", lane="memory").commit))) == 102
        assert_sound(other)


# -- each safeguard switched off ----------------------------------------------------------------------

_NO_CHECK = """
from memlake.versions.history import append as record
record._check_expected = lambda *_: None
"""


def test_without_compare_and_set_updates_are_lost() -> None:
    with repo_on_disk(None) as root:
        result = run(root, _MEMORIES.format(patch=_NO_CHECK), 8, SECONDS)
        assert not result.errors, result.errors[0]
        with ml.open(root) as repo:
            assert int(repo.read("memories/counter")) < result.raised


def test_the_check_that_is_switched_off_above_is_the_one_that_refuses(tmp_path: Path) -> None:
    with init(tmp_path / "repo") as repo:
        repo.write({"memories/a": b"1"}, "one")
        stale = Entry("0" * 64, "memory", 1)
        with pytest.raises(Conflict):
            repo.write({"memories/a": b"2"}, "two", expects={"memories/a": stale})


def test_an_equal_value_written_by_another_is_still_a_lost_race(tmp_path: Path) -> None:
    """Two who read 1 and both write 2 have not both counted."""
    with init(tmp_path / "repo") as repo:
        repo.write({"memories/counter": b"1"}, "one")
        read = dict(repo.ls(prefix="memories/counter"))
        repo.write({"memories/counter": b"2"}, "mine", expects=read)
        with pytest.raises(Conflict):
            repo.write({"memories/counter": b"2", "memories/log": b"I counted"}, "yours", expects=read)


_NO_LOCK = """
import contextlib
from memlake.objects.db import Database
Database._file_lock = lambda self: contextlib.nullcontext()
"""


@pytest.mark.torture
def test_without_the_file_lock_writers_starve_or_wait_far_longer(tmp_path: Path) -> None:
    """On a real disk, where a commit waits for it: SQLite's own waiting favours who has just written."""
    with repo_on_disk(tmp_path) as root:
        fair = run(root, _MEMORIES.format(patch=""), 8, 15)
    with repo_on_disk(tmp_path / "again") as root:
        unfair = run(root, _MEMORIES.format(patch=_NO_LOCK), 8, 15)
    print(f"with: {fair.done} {fair.longest:.2f} s; without: {unfair.done} {unfair.longest:.2f} s", file=sys.stderr)
    assert fair.fair
    assert unfair.errors or not unfair.fair or unfair.longest > 3 * fair.longest
