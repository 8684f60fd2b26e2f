"""What the reliability tests stand on: repos on a fast disk, and child processes that die."""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import apsw
import pytest

import memlake as ml
from memlake.objects import disk
from memlake.objects.db import with_checksums
from memlake.repo import Repo

TORTURE = bool(os.environ.get("MEMLAKE_TORTURE"))
EVERY = 1 if TORTURE else 16  # a sweep over the steps of a verb tries every sixteenth in CI
SHARED_MEMORY = Path("/dev/shm")
KILLED = -signal.SIGKILL


@contextlib.contextmanager
def fast_folder() -> Iterator[Path]:
    """A folder in memory where there is one: what is tested here is the order of steps, not the disk."""
    at = SHARED_MEMORY if os.access(SHARED_MEMORY, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="memlake-", dir=at) as folder:
        yield Path(folder).resolve()


def noise(size: int, seed: object) -> bytes:
    """Bytes that do not compress, the same for the same seed."""
    return random.Random(str(seed)).randbytes(size)


def put(root: Path, name: str, content: bytes | str) -> Path:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def working_files(root: Path) -> dict[str, bytes]:
    """Every working file and its content; a link as its target."""
    found = {}
    for folder, folders, names in os.walk(root):
        folders[:] = [name for name in folders if name != ".memlake"]
        for name in names:
            path = Path(folder, name)
            content = os.fsencode(os.readlink(path)) if path.is_symlink() else path.read_bytes()
            found[str(path.relative_to(root))] = content
    return found


@contextlib.contextmanager
def forged(database: Path) -> Iterator[apsw.Connection]:
    """A database to be changed as somebody would who knows how to make the checksums of its pages fit."""
    connection = apsw.Connection(str(database), vfs=with_checksums())
    try:
        with connection:
            yield connection
    finally:
        connection.close()


def snapshot_of(folder: Path, to: Path) -> Path:
    """A copy of a repo with its working files, as a template for many runs."""
    shutil.copytree(folder, to, symlinks=True)
    return to


def committed_files(repo: Repo, rev: str = "HEAD") -> dict[str, bytes]:
    return {
        path.removeprefix("files/"): repo.objects.read(entry.oid)
        for path, entry in repo.ls(rev)
        if path.startswith("files/")
    }


# -- children ---------------------------------------------------------------------------------------


def in_child(work: Callable[[], None]) -> int:
    """Run something in a forked child; returns its exit status as subprocess does (negative: the signal)."""
    pid = os.fork()
    if pid == 0:
        status = 70
        try:
            work()
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    _, status = os.waitpid(pid, 0)
    return os.waitstatus_to_exitcode(status)


def kill_at(number: int) -> Callable[[str], None]:
    """A fault hook that kills this process just before its step of this number, counted from 1."""
    seen = 0

    def hook(_name: str) -> None:
        nonlocal seen
        seen += 1
        if seen == number:
            os.kill(os.getpid(), signal.SIGKILL)

    return hook


@contextlib.contextmanager
def hooked(hook: Callable[[str], None] | None) -> Iterator[None]:
    before, disk.hook = disk.hook, hook
    try:
        yield
    finally:
        disk.hook = before


def steps_of(work: Callable[[], object]) -> list[str]:
    """The names of the disk steps some work takes."""
    names: list[str] = []
    with hooked(names.append):
        work()
    return names


def python(*arguments: str, **options: object) -> subprocess.Popen[str]:
    """This interpreter as a new process, without any shim in between."""
    return subprocess.Popen([sys.executable, *arguments], text=True, **options)  # type: ignore[call-overload, no-any-return]


@contextlib.contextmanager
def mounted(at: Path, options: str) -> Iterator[Path]:
    """A tmpfs of a chosen size; skips where none can be mounted."""
    at.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(at)]
    if shutil.which("mount") is None or subprocess.run(command, check=False, capture_output=True).returncode:
        pytest.skip("a tmpfs cannot be mounted here")
    try:
        yield at
    finally:
        subprocess.run(["umount", "-l", str(at)], check=True)


def assert_sound(repo: Repo) -> None:
    report = repo.upkeep.fsck(full=True)
    assert report.ok, report.problems


def init(root: Path) -> Repo:
    root.mkdir(parents=True, exist_ok=True)
    return ml.init(root)


class NotReached(AssertionError):
    """The work was over before the step it was to be killed at."""


def die_at(root: Path, number: int, do: Callable[[Repo], object]) -> None:
    """Do something with a repo in a child that is killed just before its step of this number."""

    def work() -> None:
        with ml.open(root) as repo, hooked(kill_at(number)):
            do(repo)

    if in_child(work) != KILLED:
        raise NotReached(f"step {number} was not reached")


# -- verbs, and a repo to try them on ---------------------------------------------------------------

TEXT = "".join(f"line {n}\n" for n in range(60))


@dataclass(frozen=True)
class View:
    """What a person sees of a repo: history, branches, the stage, the files, what waits."""

    heads: tuple[object, ...]
    head: str | None
    branch: str | None
    staged: tuple[object, ...]
    files: tuple[tuple[str, bytes], ...]
    stashes: int
    clean: bool
    waits: tuple[object, ...]


def look(root: Path) -> View:
    """Opens the repo as anyone would and looks at it; this also resumes what was interrupted."""
    with ml.open(root) as repo:
        status = repo.status()
        return View(
            heads=tuple((b.name, _tree(repo, b.work), b.memory and "memory") for b in repo.branches),
            head=_tree(repo, repo.head),
            branch=repo.branches.current,
            staged=tuple((c.path, c.new and c.new.oid) for c in status.staged),
            files=tuple(sorted(working_files(root).items())),
            stashes=len(repo.stash.entries()),
            clean=not status.unstaged,
            waits=(status.doing, *status.conflicts),
        )


def _tree(repo: Repo, oid: str | None) -> str | None:
    """A commit by its content and depth: its own oid holds the time, which differs from run to run."""
    if oid is None:
        return None
    commit = repo.show(oid).commit
    return f"{commit.root} {commit.generation} {commit.message}"


@contextlib.contextmanager
def branched_repo() -> Iterator[Path]:
    """A repo in which main and side have diverged and ahead is ahead of main: what verbs are tried on."""
    with fast_folder() as folder:
        root = folder / "repo"
        with init(root) as repo:
            build(repo, root)
        yield root


def build(repo: Repo, root: Path) -> None:
    put(root, "text.txt", TEXT)
    put(root, "folder/inner.txt", "inner\n")
    put(root, "packed.bin", noise(30_000, "packed"))
    put(root, "large.bin", noise(1_050_000, "large"))
    repo.add(all=True)
    repo.commit("base")
    repo.branches.create("side")
    repo.branches.create("ahead")
    put(root, "text.txt", "ours\n" + TEXT)
    repo.add(root / "text.txt")
    repo.commit("ours")
    repo.switch("side")
    put(root, "text.txt", TEXT + "theirs\n")
    put(root, "only-side.txt", "side\n")
    (root / "folder/inner.txt").unlink()
    put(root, "folder2/a", "a")
    repo.add(all=True)
    repo.commit("theirs")
    repo.switch("main")
    repo.switch("ahead")
    repo.reset("main", "hard")
    put(root, "next.bin", noise(40_000, "next"))
    put(root, "packed.bin", noise(31_000, "packed, edited"))
    repo.add(all=True)
    repo.commit("further")
    repo.switch("main")


def _nearly_a_window(repo: Repo) -> None:
    """Memories up to just before a thinning."""
    with repo._history.db.write():
        for number in range(254):
            repo.write({f"memories/bot/{number % 9}": b"memory %d" % number}, "m")


# -- what is done -----------------------------------------------------------------------------------


def _dirty(root: Path) -> None:
    """Uncommitted work of every kind."""
    put(root, "text.txt", "mine, uncommitted\n")
    put(root, "untracked.txt", "mine, untracked\n")


def _unreachable(repo: Repo) -> None:
    put(repo.root, "junk.bin", noise(50_000, "junk"))
    repo.add(repo.root / "junk.bin")
    repo.restore(repo.root / "junk.bin", staged=True)
    (repo.root / "junk.bin").unlink()
    repo._local.db.run("DELETE FROM operation")


@dataclass(frozen=True)
class Verb:
    do: Callable[[Repo], object]
    prepare: Callable[[Repo], object] = lambda _repo: None
    whole: bool = True  # after a crash the repo looks exactly as before or as after
    back: str = "undo"  # the verb that takes it back, also when only a resume finished it


def _clash(repo: Repo) -> None:
    """Ours changes the very line that `side` changes, too."""
    put(repo.root, "text.txt", f"ours\n{TEXT}clash\n")
    repo.add(repo.root / "text.txt")
    repo.commit("clash")
    put(repo.root, "untracked.txt", "mine")


def _wait(repo: Repo) -> None:
    _clash(repo)
    repo.merge("side")
    put(repo.root, "text.txt", "mine, resolved\n")


def _wait_inside(repo: Repo) -> None:
    """A merge waits for two values of one file."""
    for branch, values in (("main", (1, 1)), ("theirs", (2, 2)), ("main", (3, 3))):
        repo.switch(branch, create=branch == "theirs")
        put(repo.root, "p.json", json.dumps(dict(zip("ab", values, strict=True))))
        repo.add(repo.root / "p.json")
        repo.commit(f"values {values}")
    put(repo.root, "untracked.txt", "mine")
    repo.merge("theirs")


def _resolve(repo: Repo, *places: str) -> None:
    for place in places:
        repo.pending_merge.resolve("theirs", repo.root / "p.json", place=place)


def _rebase(repo: Repo) -> None:
    _clash(repo)
    repo.rebase("side")
    put(repo.root, "text.txt", "mine, resolved\n")


def _packed_oid(repo: Repo) -> str:
    return next(e.oid for p, e in repo.ls() if p == "files/packed.bin")


VERBS: dict[str, Verb] = {
    "add": Verb(
        lambda r: r.add(all=True),
        lambda r: (_dirty(r.root), put(r.root, "new.bin", noise(1_200_000, "n")), put(r.root, "b", noise(20_000, 2))),
        back="",  # the stage is one transaction, and needs no plan
    ),
    "commit": Verb(lambda r: r.commit("new"), lambda r: (_dirty(r.root), r.add(r.root / "text.txt"))),
    "commit --amend": Verb(
        lambda r: r.commit("amended", amend=True), lambda r: (_dirty(r.root), r.add(r.root / "text.txt"))
    ),
    "merge that fast-forwards": Verb(lambda r: r.merge("ahead"), lambda r: put(r.root, "untracked.txt", "mine")),
    "merge": Verb(lambda r: r.merge("side"), lambda r: put(r.root, "untracked.txt", "mine")),
    "merge that waits": Verb(lambda r: r.merge("side"), _clash),
    "merge --theirs over an edited file": Verb(lambda r: r.pending_merge.choose("theirs"), _wait),
    "merge --abort over an edited file": Verb(lambda r: r.pending_merge.abort(), _wait),
    "conclusion of a merge": Verb(
        lambda r: r.pending_merge.conclude(), lambda r: (_wait(r), r.add(r.root / "text.txt"))
    ),
    "undo of a merge that waits": Verb(lambda r: r.undo(), _wait, back="redo"),
    "switch": Verb(lambda r: r.switch("side"), lambda r: put(r.root, "untracked.txt", "mine")),
    "switch -c": Verb(lambda r: r.switch("fresh", create=True, at="ahead")),
    "reset --hard": Verb(lambda r: r.reset("side", "hard"), lambda r: _dirty(r.root)),
    "reset --hard, nothing but dirt": Verb(lambda r: r.reset("HEAD", "hard"), lambda r: _dirty(r.root)),
    "reset": Verb(lambda r: r.reset("HEAD~1"), lambda r: (_dirty(r.root), r.add(r.root / "text.txt"))),
    "revert": Verb(lambda r: r.revert("HEAD")),
    "gc --prune": Verb(lambda r: r.upkeep.gc(prune=True), _unreachable, back=""),
    "purge": Verb(lambda r: r.upkeep.purge(_packed_oid(r), reason="test"), back=""),
    "stash": Verb(lambda r: r.stash.push(include_untracked=True), lambda r: _dirty(r.root)),
    "stash pop": Verb(lambda r: r.stash.pop(), lambda r: (_dirty(r.root), r.stash.push(include_untracked=True))),
    "revert -n": Verb(lambda r: r.revert("HEAD", no_commit=True)),
    "undo of a switch": Verb(lambda r: r.undo(), lambda r: r.switch("side"), back="redo"),
    "undo of a commit": Verb(
        lambda r: r.undo(), lambda r: (_dirty(r.root), r.add(r.root / "text.txt"), r.commit("new")), back="redo"
    ),
    "undo of a reset --hard": Verb(
        lambda r: r.undo(), lambda r: (_dirty(r.root), r.reset("side", "hard")), back="redo"
    ),
    "undo of a merge": Verb(lambda r: r.undo(), lambda r: r.merge("side"), back="redo"),
    "redo of a merge": Verb(lambda r: r.redo(), lambda r: (r.merge("side"), r.undo())),
    "stash apply": Verb(lambda r: r.stash.apply(), lambda r: (_dirty(r.root), r.stash.push())),
    "undo of a restore": Verb(
        lambda r: r.undo(), lambda r: (_dirty(r.root), r.restore(r.root / "text.txt")), back="redo"
    ),
    "rm": Verb(lambda r: r.rm(r.root / "packed.bin", r.root / "folder")),
    "rm -f of edited files": Verb(
        lambda r: r.rm(r.root / "text.txt", r.root / "packed.bin", force=True), lambda r: _dirty(r.root)
    ),
    "rm --cached": Verb(lambda r: r.rm(r.root / "packed.bin", cached=True)),
    "mv": Verb(lambda r: r.mv(r.root / "packed.bin", r.root / "moved.bin")),
    "mv of a folder with untracked files": Verb(
        lambda r: r.mv(r.root / "folder", r.root / "new/place"), lambda r: put(r.root, "folder/mine", "mine"),
        back="",  # undo leaves what is not tracked where it was moved to
    ),
    "mv -f over a file": Verb(
        lambda r: r.mv(r.root / "text.txt", r.root / "packed.bin", force=True), lambda r: _dirty(r.root)
    ),
    "restore": Verb(lambda r: r.restore(r.root / "text.txt"), lambda r: _dirty(r.root)),
    "restore --staged --worktree": Verb(
        lambda r: r.restore(r.root, staged=True, worktree=True),
        lambda r: (_dirty(r.root), put(r.root, "packed.bin", "mine"), r.add(r.root / "packed.bin")),
    ),
    "restore from a commit": Verb(lambda r: r.restore(r.root, source="side"), lambda r: _dirty(r.root)),
    "memory write at the end of a window": Verb(
        lambda r: [r.write({"memories/bot/x": b"%d" % n}, "x") for n in (1, 2, 3)], _nearly_a_window, whole=False
    ),
    "branch and tag": Verb(
        lambda r: (r.branches.create("b2"), r.tags.create("t2"), r.branches.delete("b2")), whole=False
    ),
    "promote to the branch we are on": Verb(
        lambda r: r.promotions.create(r.root / "text.txt", r.root / "only-side.txt", source="side", to="main"),
        lambda r: put(r.root, "untracked.txt", "mine"),
    ),
    "promote to another branch": Verb(
        lambda r: r.promotions.create(r.root / "text.txt", source="main", to="side"), lambda r: _dirty(r.root),
        back="",  # one transaction of repo.db, as `branch` and `tag`
    ),
    "promote --undo": Verb(
        lambda r: r.promotions.undo("main"), lambda r: r.promotions.create(r.root / "folder2", source="side", to="main")
    ),
    "rebase": Verb(lambda r: r.rebase("side"), lambda r: put(r.root, "untracked.txt", "mine")),
    "rebase that waits": Verb(lambda r: r.rebase("side"), _clash),
    "rebase --abort over an edited file": Verb(lambda r: r.pending_merge.abort(), _rebase),
    "rebase --skip": Verb(lambda r: r.pending_merge.skip(), _rebase),
    "conclusion of a rebase": Verb(
        lambda r: r.pending_merge.conclude(), lambda r: (_rebase(r), r.add(r.root / "text.txt")), back=""
    ),
    "clean": Verb(
        lambda r: r.clean(folders=True),
        lambda r: (_dirty(r.root), put(r.root, "new/mine", "mine, new"), put(r.root, "folder/mine", "mine, beside")),
    ),
    "merge -X": Verb(lambda r: r.merge("side", strategy="theirs"), _clash),
    "merge --squash": Verb(lambda r: r.merge("side", squash=True), lambda r: put(r.root, "untracked.txt", "mine")),
    "resolve of a place": Verb(lambda r: _resolve(r, "a"), _wait_inside),
    "resolve of the last place": Verb(lambda r: _resolve(r, "b"), lambda r: (_wait_inside(r), _resolve(r, "a"))),
    "resolve of a place again": Verb(
        lambda r: _resolve(r, "a"), lambda r: (_wait_inside(r), r.pending_merge.resolve("ours"))
    ),
    "undo of a resolve": Verb(lambda r: r.undo(), lambda r: (_wait_inside(r), _resolve(r, "a", "b")), back="redo"),
    "restore --merge after a resolve": Verb(
        lambda r: r.pending_merge.mark(r.root / "p.json"), lambda r: (_wait_inside(r), _resolve(r, "a", "b"))
    ),
    "conclusion of a merge after a resolve": Verb(
        lambda r: r.pending_merge.conclude(), lambda r: (_wait_inside(r), _resolve(r, "a", "b"))
    ),
}  # fmt: skip


def steps_to_try(name: str, count: int) -> range:
    """The steps of a verb that a sweep stops at, counted from 1: a share of them, begun elsewhere for each verb."""
    first = list(VERBS).index(name) % min(EVERY, max(count - 1, 1))
    return range(1 + first, count + 1, EVERY)


class Trial(NamedTuple):
    """A verb to be tried many times: a repo made ready for it, and how it looks before and after."""

    ready: Path
    verb: Verb
    steps: int
    before: View
    after: View
    committed: set[str]

    def fresh(self) -> Path:
        """A copy to try the verb in; the one before it goes."""
        copy = self.ready.with_name("copy")
        shutil.rmtree(copy, ignore_errors=True)
        return snapshot_of(self.ready, copy)

    def assert_before_or_after(self, seen: View) -> None:
        if self.verb.whole and seen not in (self.before, self.after):
            raise AssertionError(differences(seen, self.before, self.after))


@contextlib.contextmanager
def trial_of(template: Path, verb: Verb, do: Callable[[Path], object] | None = None) -> Iterator[Trial]:
    """`do` where the verb is done in another way than by a call, as on the command line."""
    with fast_folder() as folder:
        ready = snapshot_of(template, folder / "ready")
        with ml.open(ready) as repo:
            verb.prepare(repo)
            committed = {row[0].hex() for row in repo._history.db.rows("SELECT oid FROM history")}
        before = look(ready)
        done = snapshot_of(ready, folder / "done")
        steps = 0
        if do is not None:
            do(done)
        else:
            with ml.open(done) as repo:
                steps = len(steps_of(lambda: verb.do(repo)))
        yield Trial(ready, verb, steps, before, look(done), committed)


def differences(seen: View, before: View, after: View) -> str:
    lines = []
    for name in View.__dataclass_fields__:
        mine, old, new = (getattr(view, name) for view in (seen, before, after))
        if name == "files":
            mine, old, new = ({n: c[:20] for n, c in files} for files in (mine, old, new))
        state = "before" if mine == old else "after" if mine == new else "neither"
        if old != new or state == "neither":
            lines.append(
                f"{name}: {state}" + (f"\n   seen {mine}\n   old {old}\n   new {new}" if state == "neither" else "")
            )
    return "\n".join(lines)
