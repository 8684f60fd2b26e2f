"""Power cuts: the disk image is copied while a process writes, and the copy is what a cut would have left."""

from __future__ import annotations

import contextlib
import random
import shutil
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

import memlake as ml
from memlake.errors import Error
from tests.reliability import ground
from tests.reliability.ground import Verb, build, init, python
from tests.reliability.test_crash import crash_everywhere

CUTS = 60

_WRITER = """
import sys, pathlib, random, itertools
import memlake as ml
{patch}
root = pathlib.Path(sys.argv[1])
repo, chance = ml.open(root), random.Random(4)
for n in itertools.count():
    if n % 4:
        commit = repo.write({{f"memories/bot/{{n % 50}}": b"%d" % n}}, "m")
    else:
        (root / f"file{{n % 12}}.bin").write_bytes(chance.randbytes(20000))
        repo.add(root / f"file{{n % 12}}.bin")
        commit = repo.commit("file")
    if n % 40 == 39:
        repo.gc(prune=True)
    print(commit.oid, commit.lane, flush=True)
"""

# Every verb that writes working files, in turn, on files that are never edited by hand.
_SWITCHER = """
import sys, pathlib, random, itertools
import memlake as ml
{patch}
root = pathlib.Path(sys.argv[1])
repo, chance = ml.open(root), random.Random(4)
for branch in ("main", "other"):
    for n in range(30):
        (root / f"file{{n}}.bin").write_bytes(chance.randbytes(chance.choice([100, 9000, 70000])))
    repo.add(all=True)
    commit = repo.commit(branch)
    if branch == "main":
        repo.switch("other", create=True)
for n in itertools.count():
    repo.switch(("main", "other")[n % 2])
    repo.rm(root / "file0.bin")
    repo.mv(root / "file1.bin", root / "moved.bin")
    repo.undo()
    repo.undo()
    print(commit.oid, commit.lane, flush=True)
"""

_UNFLUSHED = """
import contextlib
from memlake.objects.db import Database
from memlake.versions import checkout
checkout._flush = lambda root: None
Database.durably = lambda self: contextlib.nullcontext()
"""

_NORMAL = """
from memlake.objects import db
original = db.Database._open
def relaxed(self):
    connection = original(self)
    connection.execute("PRAGMA synchronous=NORMAL")
    return connection
db.Database._open = relaxed
"""


def _run(*command: str | Path) -> None:
    done = subprocess.run([str(part) for part in command], check=False, capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"{command[0]} does not work here: {done.stderr.strip()[:120]}")


@contextlib.contextmanager
def mounted(image: Path, at: Path) -> Iterator[Path]:
    at.mkdir(exist_ok=True)
    _run("mount", "-o", "loop", image, at)
    try:
        yield at
    finally:
        subprocess.run(["umount", "-l", str(at)], check=True)


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Path]:
    """A file system with reflinks, where an image of any size is copied in an instant."""
    for tool in ("mkfs.ext4", "mkfs.xfs", "mount"):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed")
    image = tmp_path / "bench.img"
    with image.open("wb") as file:
        file.truncate(1200 << 20)
    _run("mkfs.xfs", "-q", image)
    with mounted(image, tmp_path / "bench") as bench:
        yield bench


def cut_power(bench: Path, script: str, cuts: int, *, files: bool = False) -> Counter[str]:
    """How often a commit that was acknowledged before the cut was lost, or anything was damaged."""
    disk = bench / "disk.img"
    with disk.open("wb") as file:
        file.truncate(96 << 20)
    _run("mkfs.ext4", "-q", "-F", disk)
    outcome: Counter[str] = Counter()
    chance = random.Random(1)
    with mounted(disk, bench / "live") as live:
        init(live / "repo").close()
        subprocess.run(["sync", "-f", str(live)], check=True)
        writer = python("-c", script, str(live / "repo"), stdout=subprocess.PIPE)
        acknowledged: list[tuple[str, ...]] = []
        reader = threading.Thread(target=_listen, args=(writer, acknowledged), daemon=True)
        reader.start()
        try:
            for _ in range(cuts):
                time.sleep(chance.uniform(0.02, 0.15))
                before = list(acknowledged)
                _run("cp", "--reflink=always", disk, bench / "cut.img")
                outcome["cuts"] += 1
                outcome.update(_examine(bench, before, files=files and len(before) > 1))
                assert writer.poll() is None, "the writer stopped"
        finally:
            writer.kill()
            writer.wait()
    outcome["acknowledged"] = len(acknowledged)
    return outcome


def _listen(writer: subprocess.Popen[str], acknowledged: list[tuple[str, ...]]) -> None:
    assert writer.stdout is not None
    acknowledged.extend(tuple(line.split()) for line in writer.stdout if line.endswith("\n"))


def _examine(bench: Path, acknowledged: list[tuple[str, ...]], *, files: bool) -> Counter[str]:
    """`files`: nobody but memlake wrote them, so they are what they were or what they were to be, or a mixture."""
    found: Counter[str] = Counter()
    with mounted(bench / "cut.img", bench / "after") as after:
        try:
            with ml.open(after / "repo") as repo:
                known = {row[0].hex() for row in repo._history.db.rows("SELECT oid FROM history")}
                found["lost"] += any(oid not in known for oid, _ in acknowledged)
                found["damaged"] += not repo.fsck(full=True).ok
                status = repo.status() if files else None  # also finishes what was interrupted
                found["mixed"] += bool(status and (status.unstaged or status.untracked))
                for oid, lane in acknowledged[-20:]:
                    if oid in known:
                        for change in repo.changes(repo.commit_at(oid, lane=lane)):  # type: ignore[arg-type]
                            assert change.new is None or repo.read_object(change.new.oid)
        except Error as error:
            print(error, file=sys.stderr)
            found["damaged"] += 1
    return found


@pytest.mark.torture
def test_a_power_cut_leaves_working_files_before_or_after_a_verb(bench: Path) -> None:
    outcome = cut_power(bench, _SWITCHER.format(patch=""), CUTS, files=True)
    print(f"working files: {dict(outcome)}", file=sys.stderr)
    assert outcome["mixed"] == 0
    assert outcome["damaged"] == 0
    assert outcome["acknowledged"] > 5


@pytest.mark.torture
def test_without_flushing_a_power_cut_leaves_a_mixture_of_working_files(bench: Path) -> None:
    outcome = cut_power(bench, _SWITCHER.format(patch=_UNFLUSHED), CUTS, files=True)
    print(f"working files, not flushed: {dict(outcome)}", file=sys.stderr)
    assert outcome["mixed"] > 0


@pytest.mark.torture
def test_a_power_cut_loses_no_acknowledged_commit(bench: Path) -> None:
    outcome = cut_power(bench, _WRITER.format(patch=""), CUTS)
    print(f"synchronous=FULL: {dict(outcome)}", file=sys.stderr)
    assert outcome["lost"] == 0
    assert outcome["damaged"] == 0
    assert outcome["acknowledged"] > CUTS


@pytest.mark.torture
def test_with_relaxed_syncing_a_power_cut_loses_acknowledged_commits(bench: Path) -> None:
    outcome = cut_power(bench, _WRITER.format(patch=_NORMAL), CUTS)
    print(f"synchronous=NORMAL: {dict(outcome)}", file=sys.stderr)
    assert outcome["lost"] > 0


@pytest.mark.torture
def test_a_kill_while_blocks_are_shared_leaves_the_state_before_or_after(
    bench: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a file system with reflinks a checkout shares blocks with the packs."""
    monkeypatch.setattr(ground, "SHARED_MEMORY", bench)
    root = bench / "template"
    with init(root) as repo:
        build(repo, root)
    with_large = Verb(
        lambda r: r.switch("side"), lambda r: (r.rm(r.root / "large.bin"), r.commit("without the large file"))
    )
    survived = crash_everywhere(root, with_large)
    print(f"{survived} kills survived on XFS", file=sys.stderr)
    with ml.open(root) as repo:
        steps = ground.steps_of(lambda: (with_large.prepare(repo), with_large.do(repo)))
    assert "clone" in steps
