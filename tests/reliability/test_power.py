"""Power cuts: the disk image is copied while a process writes, and the copy is what a cut would have left."""

from __future__ import annotations

import contextlib
import gc
import os
import random
import shutil
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

import memlake as ml
from memlake import config
from memlake.errors import Error
from memlake.memories.memories import Draft
from memlake.memories.search import Query
from memlake.repo import Repo
from tests.reliability import ground
from tests.reliability.ground import Verb, build, init, put, python
from tests.reliability.test_crash import crash_everywhere

CUTS = int(os.environ.get("MEMLAKE_CUTS", "60"))

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
        repo.upkeep.gc(prune=True)
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
from memlake.versions.checkout import update as checkout
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


# Branches come and go under HEAD, and every kind of thing is written, forgotten and purged beside it.
_BRANCHER = """
import sys, pathlib, itertools
import memlake as ml
{patch}
root = pathlib.Path(sys.argv[1])
repo = ml.open(root)
memories, data = repo.memories(), repo.datasets()
(root / "begin.txt").write_text("begin")
repo.add(all=True)
repo.commit("begin")
for n in itertools.count():
    repo.switch(f"side{{n}}", create=True)
    if n % 3 == 0:
        (root / "side.txt").write_text(f"{{n}}")
        repo.add(all=True)
        commit = repo.commit("on a side branch")
        print(commit.oid, "work", flush=True)
    repo.switch("main")
    repo.branches.delete(f"side{{n}}", force=True)
    memories.set_state("agent", "turn", n)
    data.read_values(n=[n]).save("turns")
    for commit in (next(repo.log(lane="memory")), next(repo.log())):
        print(commit.oid, commit.lane, flush=True)
"""


def _run(*command: str | Path) -> None:
    done = subprocess.run([str(part) for part in command], check=False, capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"{command[0]} does not work here: {done.stderr.strip()[:120]}")


@contextlib.contextmanager
def mounted(image: Path, at: Path, options: str = "loop") -> Iterator[Path]:
    at.mkdir(exist_ok=True)
    _run("mount", "-o", options, image, at)
    try:
        yield at
    finally:
        # Lazily for the outermost alone, whose inner disks are let go of a moment later. Of a disk that was cut,
        # nothing may be held open any more: the next cut is copied over it.
        subprocess.run(["umount", *(() if "loop," in options else ("-l",)), str(at)], check=True)


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A file system with reflinks, where an image of any size is copied in an instant.

    No model: vectors made in the background would keep the disk of a cut busy after it was examined.
    """
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "settings"))
    config.set_value(None, "embedding.provider", "none", where="user")
    for tool in ("mkfs.ext4", "mkfs.xfs", "mount"):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed")
    image = tmp_path / "bench.img"
    with image.open("wb") as file:
        file.truncate(2400 << 20)
    _run("mkfs.xfs", "-q", image)
    with mounted(image, tmp_path / "bench") as bench:
        yield bench


MAKE = {"ext4": ("mkfs.ext4", "-q", "-F"), "xfs": ("mkfs.xfs", "-q", "-f")}
# The copy has the name of the disk it was copied from, which XFS refuses to mount twice.
OPTIONS = {"ext4": "loop,noatime", "xfs": "loop,noatime,nouuid"}


class Cuts(NamedTuple):
    """What is cut: the program that writes, on which file system, and whether its working files are looked at."""

    script: str
    system: str = "ext4"
    files: bool = False
    count: int = CUTS


def cut_power(bench: Path, cuts: Cuts) -> Counter[str]:
    """How often a commit that was acknowledged before the cut was lost, or anything was damaged."""
    disk = bench / "disk.img"
    with disk.open("wb") as file:
        file.truncate(400 << 20)
    _run(*MAKE[cuts.system], disk)
    outcome: Counter[str] = Counter()
    chance = random.Random(1)
    with mounted(disk, bench / "live", OPTIONS[cuts.system]) as live:
        init(live / "repo").close()
        subprocess.run(["sync", "-f", str(live)], check=True)
        writer = python("-c", cuts.script, str(live / "repo"), stdout=subprocess.PIPE)
        acknowledged: list[tuple[str, ...]] = []
        reader = threading.Thread(target=_listen, args=(writer, acknowledged), daemon=True)
        reader.start()
        try:
            while not acknowledged:
                assert writer.poll() is None, "the writer stopped"
                time.sleep(0.01)
            for _ in range(cuts.count):
                time.sleep(chance.uniform(0.02, 0.15))
                before = list(acknowledged)
                _run("cp", "--reflink=always", disk, bench / "cut.img")
                outcome["cuts"] += 1
                outcome.update(_examine(bench, before, cuts))
                assert writer.poll() is None, "the writer stopped"
        finally:
            writer.kill()
            writer.wait()
            reader.join()
    outcome["acknowledged"] = len(acknowledged)
    return outcome


def _listen(writer: subprocess.Popen[str], acknowledged: list[tuple[str, ...]]) -> None:
    assert writer.stdout is not None
    acknowledged.extend(tuple(line.split()) for line in writer.stdout if line.endswith("\n"))


def _examine(bench: Path, acknowledged: list[tuple[str, ...]], cuts: Cuts) -> Counter[str]:
    with mounted(bench / "cut.img", bench / "after", OPTIONS[cuts.system]) as after:
        try:
            return _look(after / "repo", acknowledged, cuts)
        except Error as error:
            print(error, file=sys.stderr)
            return Counter(damaged=1)
        finally:
            gc.collect()  # packs that were read are closed with the last object that knows them


def _look(root: Path, acknowledged: list[tuple[str, ...]], cuts: Cuts) -> Counter[str]:
    """`files`: nobody but memlake wrote them, so they are what they were or what they were to be, or a mixture."""
    found: Counter[str] = Counter()
    with ml.open(root) as repo:
        known = {row[0].hex() for row in repo._history.db.rows("SELECT oid FROM history")}
        found["lost"] += any(oid not in known for oid, _ in acknowledged)
        found["damaged"] += not repo.upkeep.fsck(full=True).ok
        status = repo.status()  # also finishes what was interrupted
        looked_at = cuts.files and len(acknowledged) > 1
        found["mixed"] += bool(looked_at and (status.unstaged or status.untracked))
        for oid, lane in acknowledged[-20:]:
            if oid in known:
                for change in repo.show(oid, lane=lane).changes:  # type: ignore[arg-type]
                    assert change.new is None or repo.objects.read(change.new.oid)
        _go_on(repo)
    return found


def _go_on(repo: Repo) -> None:
    """What anybody would do next, without a repair: commit a file, remember something, find it."""
    put(repo.root, "after-the-cut.txt", "here")
    repo.add(repo.root / "after-the-cut.txt")
    repo.commit("after the cut")
    stored = repo.memories().store(Draft("the lights went out"))
    assert [hit["memory_id"] for hit in repo.memories().search(Query("lights"))][:1] == [stored.memory_id]


SYSTEMS = pytest.mark.parametrize("system", MAKE)


@pytest.mark.torture
@SYSTEMS
def test_a_power_cut_leaves_working_files_before_or_after_a_verb(
    bench: Path, system: str, tally: Callable[..., None]
) -> None:
    outcome = cut_power(bench, Cuts(_SWITCHER.format(patch=""), system, files=True))
    tally(power_cuts=outcome["cuts"], acknowledged=outcome["acknowledged"])
    assert outcome["mixed"] == 0
    assert outcome["damaged"] == 0
    assert outcome["acknowledged"] > 5


@pytest.mark.torture
def test_without_flushing_a_power_cut_leaves_a_mixture_of_working_files(
    bench: Path, tally: Callable[..., None]
) -> None:
    outcome = cut_power(bench, Cuts(_SWITCHER.format(patch=_UNFLUSHED), files=True, count=60))
    tally(power_cuts_of_controls=outcome["cuts"], mixtures_in_controls=outcome["mixed"])
    assert outcome["mixed"] > 0


@pytest.mark.torture
@SYSTEMS
@pytest.mark.parametrize("script", [_WRITER, _BRANCHER], ids=["commits and gc", "branches, memories and datasets"])
def test_a_power_cut_loses_no_acknowledged_commit(
    bench: Path, script: str, system: str, tally: Callable[..., None]
) -> None:
    outcome = cut_power(bench, Cuts(script.format(patch=""), system))
    tally(power_cuts=outcome["cuts"], acknowledged=outcome["acknowledged"])
    assert outcome["lost"] == 0
    assert outcome["damaged"] == 0
    assert outcome["acknowledged"] > CUTS


@pytest.mark.torture
def test_with_relaxed_syncing_a_power_cut_loses_acknowledged_commits(bench: Path, tally: Callable[..., None]) -> None:
    outcome = cut_power(bench, Cuts(_WRITER.format(patch=_NORMAL), count=60))
    tally(power_cuts_of_controls=outcome["cuts"], losses_in_controls=outcome["lost"])
    assert outcome["lost"] > 0


@pytest.mark.torture
def test_a_kill_while_blocks_are_shared_leaves_the_state_before_or_after(
    bench: Path, monkeypatch: pytest.MonkeyPatch, tally: Callable[..., None]
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
    tally(kills_on_xfs=survived)
    with ml.open(root) as repo:
        steps = ground.steps_of(lambda: (with_large.prepare(repo), with_large.do(repo)))
    assert "clone" in steps
