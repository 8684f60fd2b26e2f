"""kill -9 just before every step of every verb: the repo opens without repair, and nothing acknowledged is lost."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import memlake as ml
from memlake.objects.writer import Writer
from memlake.repo import Repo
from memlake.versions import journal
from tests.reliability.ground import (
    KILLED,
    TORTURE,
    committed_files,
    fast_folder,
    hooked,
    in_child,
    init,
    kill_at,
    noise,
    put,
    python,
    snapshot_of,
    steps_of,
    working_files,
)

pytestmark = [pytest.mark.torture] if TORTURE else []  # under `make torture` everything here runs, longer

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


def look(root: Path) -> View:
    """Opens the repo as anyone would and looks at it; this also resumes what was interrupted."""
    with ml.open(root) as repo:
        status = repo.status()
        assert status.doing is None
        return View(
            heads=tuple((b.name, _tree(repo, b.work), b.memory and "memory") for b in repo.branches()),
            head=_tree(repo, repo.head),
            branch=repo.branch_name,
            staged=tuple((c.path, c.new and c.new.oid) for c in status.staged),
            files=tuple(sorted(working_files(root).items())),
            stashes=len(repo.stash_list()),
            clean=not status.unstaged,
        )


def _tree(repo: Repo, oid: str | None) -> str | None:
    """A commit by its content and depth: its own oid holds the time, which differs from run to run."""
    if oid is None:
        return None
    commit = repo.commit_at(oid)
    return f"{commit.root} {commit.generation} {commit.message}"


@pytest.fixture(scope="module")
def template() -> Iterator[Path]:
    """main and side have diverged, ahead is ahead of main."""
    with fast_folder() as folder:
        root = folder / "repo"
        with init(root) as repo:
            _build(repo, root)
        yield root


def _build(repo: Repo, root: Path) -> None:
    put(root, "text.txt", TEXT)
    put(root, "folder/inner.txt", "inner\n")
    put(root, "packed.bin", noise(30_000, "packed"))
    put(root, "large.bin", noise(1_050_000, "large"))
    repo.add(all=True)
    repo.commit("base")
    repo.branch("side")
    repo.branch("ahead")
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
    repo.reset_paths(repo.root / "junk.bin")
    (repo.root / "junk.bin").unlink()
    repo._local.db.run("DELETE FROM operation")


@dataclass(frozen=True)
class Verb:
    do: Callable[[Repo], object]
    prepare: Callable[[Repo], object] = lambda _repo: None
    whole: bool = True  # after a crash the repo looks exactly as before or as after
    back: str = "undo"  # the verb that takes it back, also when only a resume finished it


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
    "switch": Verb(lambda r: r.switch("side"), lambda r: put(r.root, "untracked.txt", "mine")),
    "switch -c": Verb(lambda r: r.switch("fresh", create=True, at="ahead")),
    "reset --hard": Verb(lambda r: r.reset("side", "hard"), lambda r: _dirty(r.root)),
    "reset --hard, nothing but dirt": Verb(lambda r: r.reset("HEAD", "hard"), lambda r: _dirty(r.root)),
    "reset": Verb(lambda r: r.reset("HEAD~1"), lambda r: (_dirty(r.root), r.add(r.root / "text.txt"))),
    "revert": Verb(lambda r: r.revert("HEAD")),
    "gc --prune": Verb(lambda r: r.gc(prune=True), _unreachable, back=""),
    "purge": Verb(lambda r: r.purge(_packed_oid(r), reason="test"), back=""),
    "stash": Verb(lambda r: r.stash_push(include_untracked=True), lambda r: _dirty(r.root)),
    "stash pop": Verb(lambda r: r.stash_pop(), lambda r: (_dirty(r.root), r.stash_push(include_untracked=True))),
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
    "stash apply": Verb(lambda r: r.stash_apply(), lambda r: (_dirty(r.root), r.stash_push())),
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
        lambda r: r.mv(r.root / "folder", r.root / "new/place"), lambda r: put(r.root, "folder/mine", "mine")
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
    "branch and tag": Verb(lambda r: (r.branch("b2"), r.tag("t2"), r.delete_branch("b2")), whole=False),
}  # fmt: skip


def _prepared(template: Path, verb: Verb, at: Path) -> Path:
    snapshot_of(template, at)
    with ml.open(at) as repo:
        verb.prepare(repo)
    return at


def _die_at(root: Path, verb: Verb, number: int) -> int:
    """Do the verb in a child that dies before step `number`."""

    def work() -> None:
        with ml.open(root) as repo, hooked(kill_at(number)):
            verb.do(repo)

    return in_child(work)


def _check_after_crash(root: Path, before: View, after: View, committed: set[str], verb: Verb) -> None:
    seen = look(root)
    if verb.whole and seen not in (before, after):
        raise AssertionError(_differences(seen, before, after))
    _mine_is_not_lost(root, before)
    with ml.open(root) as repo:
        report = repo.fsck(full=True)
        assert report.ok, report.problems
        for oid in committed:
            commit = repo.commit_at(oid)
            for change in repo.changes(commit):
                if change.new is not None and change.new.oid not in report.purged:
                    repo.read_object(change.new.oid)
        for branch in repo.branches():
            if not report.purged:
                committed_files(repo, branch.name)
    if verb.whole and verb.back and seen == after:
        with ml.open(root) as repo:
            getattr(repo, verb.back)()
        assert look(root) == before, f"{verb.back} gave {_differences(look(root), before, after)}"


def _mine_is_not_lost(root: Path, before: View) -> None:
    """Every uncommitted text is in the files still, or in an object that the stage, a stash or undo knows."""
    files = working_files(root)
    for name, content in before.files:
        if content.startswith(b"mine") and content not in files.values():
            with ml.open(root) as repo:
                found = repo._history.db.rows("SELECT oid FROM object WHERE size = ?", (len(content),))
                assert any(repo.read_object(row[0].hex()) == content for row in found), f"{name} is lost"


def _differences(seen: View, before: View, after: View) -> str:
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


def _commits(root: Path) -> set[str]:
    with ml.open(root) as repo:
        return {row[0].hex() for row in repo._history.db.rows("SELECT oid FROM history")}


def crash_everywhere(template: Path, verb: Verb, every: int = 1) -> int:
    """Kill before each step (or every n-th); returns how many crashes were survived."""
    with fast_folder() as folder:
        ready = _prepared(template, verb, folder / "ready")
        before, committed = look(ready), _commits(ready)
        done = snapshot_of(ready, folder / "done")
        with ml.open(done) as repo:
            count = len(steps_of(lambda: verb.do(repo)))
        after = look(done)
        for number in range(1, count + 1, every):
            copy = snapshot_of(ready, folder / "copy")
            assert _die_at(copy, verb, number) == KILLED, f"step {number} was not reached"
            try:
                _check_after_crash(copy, before, after, committed, verb)
            except Exception as error:
                raise AssertionError(f"killed before step {number} of {count}: {error}") from error
            shutil.rmtree(copy)
        return len(range(1, count + 1, every))


@pytest.mark.parametrize("name", VERBS)
def test_a_kill_before_any_step_leaves_the_state_before_or_after(name: str, template: Path) -> None:
    survived = crash_everywhere(template, VERBS[name])
    print(f"{name}: {survived} kills survived", file=sys.stderr)
    assert survived > 3


# -- each safeguard switched off ----------------------------------------------------------------------


def test_without_the_journal_a_crash_leaves_neither_the_state_before_nor_after(
    template: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "begin", lambda _local, _plan, **_: None)
    for name in ("commit", "switch", "merge", "reset --hard", "undo of a switch", "rm", "mv", "restore", "stash pop"):
        with pytest.raises(AssertionError, match="killed before step"):
            crash_everywhere(template, VERBS[name])


def test_without_what_the_plan_says_of_it_a_verb_finished_by_a_resume_cannot_be_undone(
    template: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "keep_found", lambda *_: None)
    for name in ("commit", "switch", "merge", "reset --hard", "undo of a switch"):
        with pytest.raises(AssertionError, match="killed before step"):
            crash_everywhere(template, VERBS[name])


def test_with_rows_before_packs_a_crash_leaves_rows_that_name_nothing(
    template: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def rows_first(self: Writer) -> None:
        self._flush()
        self._seal()
        self._write_rows()
        for sealed in self._sealed:
            self._objects.packs.put(sealed.name, sealed.path)
        self._sealed.clear()

    monkeypatch.setattr(Writer, "finish", rows_first)
    monkeypatch.setattr(Writer, "_check_still_there", lambda _self: None)
    with pytest.raises(AssertionError, match="killed before step"):
        crash_everywhere(template, VERBS["add"])


# -- before it is said to be done, it is on the disk ----------------------------------------------------

FILE_STEPS = {"create", "symlink", "clone", "rename", "unlink", "rmdir", "write"}
WRITES_FILES = [name for name in VERBS if name.startswith(("switch", "merge", "reset --", "undo", "stash", "r", "mv"))]
WRITES_FILES = [name for name in WRITES_FILES if name not in ("reset", "rm --cached", "undo of a commit")]


@pytest.mark.parametrize("name", WRITES_FILES)
def test_working_files_are_flushed_after_the_last_is_written_and_before_it_is_written_down(
    name: str, template: Path
) -> None:
    with fast_folder() as folder:
        ready = _prepared(template, VERBS[name], folder / "ready")
        with ml.open(ready) as repo:
            steps = steps_of(lambda: VERBS[name].do(repo))
    last = max(at for at, step in enumerate(steps) if step in FILE_STEPS)
    assert "syncfs" in steps[last:]
    assert "committed" in steps[last + steps[last:].index("syncfs") :]


def test_files_of_others_that_a_commit_brings_along_are_flushed(template: Path) -> None:
    with fast_folder() as folder, ml.open(snapshot_of(template, folder / "repo")) as repo:
        repo.write({"files/theirs.txt": b"theirs"}, "another's", branch="main")
        put(repo.root, "text.txt", "mine\n")
        repo.add(repo.root / "text.txt")
        steps = steps_of(lambda: repo.commit("mine"))
        assert (repo.root / "theirs.txt").exists()
    assert "syncfs" in steps[steps.index("create") :]


# -- acknowledged commits -----------------------------------------------------------------------------


def test_a_commit_acknowledged_before_a_kill_is_there(template: Path) -> None:
    """A process writes memories and files and says so; it is killed at a random moment, again and again."""
    with fast_folder() as folder:
        root = snapshot_of(template, folder / "repo")
        acknowledged: list[tuple[str, str]] = []
        for seed in range(200 if TORTURE else 12):
            child = python("-c", _SAYER, str(root), str(seed), stdout=subprocess.PIPE)
            assert child.stdout is not None
            lines = [child.stdout.readline() for _ in range(seed % 5 + 2)]
            time.sleep(seed % 7 / 1000)
            child.kill()
            lines += child.stdout.readlines()
            child.wait()
            acknowledged += [tuple(line.split()) for line in lines if line.endswith("\n")]  # type: ignore[misc]
            with ml.open(root) as repo:
                for oid, lane in acknowledged:
                    commit = repo.commit_at(oid, lane=lane)  # type: ignore[arg-type]
                    for change in repo.changes(commit):
                        assert change.new is None or repo.read_object(change.new.oid)
        with ml.open(root) as repo:
            repo.status()
            assert repo.fsck(full=True).problems == ()
            reachable = {c.oid for lane in ("work", "memory") for c in repo.log(lane=lane)}
        assert {oid for oid, _ in acknowledged} <= reachable
        print(f"{len(acknowledged)} acknowledged commits", file=sys.stderr)
        assert len(acknowledged) > 20


_SAYER = """
import sys, pathlib, random
import memlake as ml
root, chance = pathlib.Path(sys.argv[1]), random.Random(sys.argv[2])
repo = ml.open(root)
for n in range(1000):
    if n % 3:
        commit = repo.write({f"memories/bot/{sys.argv[2]}/{n}": chance.randbytes(50)}, "m")
    else:
        (root / "by-child.bin").write_bytes(chance.randbytes(20000))
        repo.add(root / "by-child.bin")
        commit = repo.commit("by the child")
    sys.stdout.write(f"{commit.oid} {commit.lane}\\n")
    sys.stdout.flush()
"""


# -- kill -9 at a system call ---------------------------------------------------------------------------

STRACE = shutil.which("strace")
CALLS = ("pwrite64", "fsync,fdatasync", "link,linkat,rename,renameat", "unlink,unlinkat")


@pytest.fixture(scope="module")
def can_trace() -> None:
    if STRACE is None:
        pytest.skip("strace is not installed")
    if subprocess.run([STRACE, "-qq", "-o", "/dev/null", "true"], check=False, capture_output=True).returncode:
        pytest.skip("strace may not trace processes here")


@pytest.mark.usefixtures("can_trace")
@pytest.mark.parametrize("calls", CALLS)
@pytest.mark.parametrize("verb", ["add", "commit", "switch"])
def test_a_kill_at_a_system_call_leaves_the_state_before_or_after(verb: str, calls: str, template: Path) -> None:
    arguments = {"add": ["add", "-A"], "commit": ["commit", "-m", "new"], "switch": ["switch", "side"]}[verb]
    with fast_folder() as folder:
        ready = _prepared(template, VERBS[verb], folder / "ready")
        before, committed = look(ready), _commits(ready)
        done = snapshot_of(ready, folder / "done")
        assert _traced(done, arguments, calls, 0) == 0
        after = look(done)
        killed = 0
        for number in range(1, 400) if TORTURE else (1, 2, 4, 7):
            copy = snapshot_of(ready, folder / "copy")
            status = _traced(copy, arguments, calls, number)
            assert status in (0, KILLED, 128 + signal.SIGKILL)
            _check_after_crash(copy, before, after, committed, VERBS[verb])
            shutil.rmtree(copy)
            if status == 0:
                break
            killed += 1
    print(f"{verb}: killed at {killed} calls of {calls}", file=sys.stderr)
    if not (verb == "switch" and calls.startswith("link")) and not (verb == "commit" and "link" in calls):
        assert killed


def _traced(root: Path, arguments: list[str], calls: str, number: int) -> int:
    """Run the command line under strace, killed at the n-th of these calls; 0 is never."""
    assert STRACE is not None
    inject = [f"--inject={calls}:signal=SIGKILL:when={number}"] if number else []
    command = [STRACE, "-f", "-qq", "-o", "/dev/null", f"--trace={calls}", *inject, sys.executable, "-m", "memlake.cli"]
    found = subprocess.run([*command, *arguments], cwd=root, check=False, capture_output=True, env=dict(os.environ))
    return found.returncode
