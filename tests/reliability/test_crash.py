"""kill -9 just before every step of every verb: the repo opens without repair, and nothing acknowledged is lost."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

import memlake as ml
from memlake.objects.writer import Writer
from memlake.versions.checkout import journal
from tests.reliability.ground import (
    EVERY,
    KILLED,
    TORTURE,
    VERBS,
    Trial,
    Verb,
    View,
    branched_repo,
    committed_files,
    die_at,
    differences,
    fast_folder,
    look,
    put,
    python,
    snapshot_of,
    steps_of,
    steps_to_try,
    trial_of,
    working_files,
)


@pytest.fixture(scope="module")
def template() -> Iterator[Path]:
    with branched_repo() as root:
        yield root


def _check_after_crash(root: Path, trial: Trial) -> None:
    seen, verb = look(root), trial.verb
    trial.assert_before_or_after(seen)
    _mine_is_not_lost(root, trial.before)
    with ml.open(root) as repo:
        report = repo.upkeep.fsck(full=True)
        assert report.ok, report.problems
        for oid in trial.committed:
            commit = repo.show(oid).commit
            for change in repo.show(commit).changes:
                if change.new is not None and change.new.oid not in report.purged:
                    repo.objects.read(change.new.oid)
        for branch in repo.branches:
            if not report.purged:
                committed_files(repo, branch.name)
    if verb.whole and verb.back and seen == trial.after:
        with ml.open(root) as repo:
            getattr(repo, verb.back)()
        back = look(root)
        same = back == trial.before  # apart: pytest would compare all of it line by line, for minutes
        assert same, f"{verb.back} gave {differences(back, trial.before, trial.after)}"


def _mine_is_not_lost(root: Path, before: View) -> None:
    """Every uncommitted text is in the files still, or in an object that the stage, a stash or undo knows."""
    files = working_files(root)
    for name, content in before.files:
        if content.startswith(b"mine") and content not in files.values():
            with ml.open(root) as repo:
                found = repo._history.db.rows("SELECT oid FROM object WHERE size = ?", (len(content),))
                assert any(repo.objects.read(row[0].hex()) == content for row in found), f"{name} is lost"


def crash_everywhere(template: Path, verb: Verb, some: Callable[[int], range] | None = None) -> int:
    """Kill before each step, or before `some` of so many; returns how many crashes were survived."""
    with trial_of(template, verb) as trial:
        numbers = some(trial.steps) if some else range(1, trial.steps + 1)
        for number in numbers:
            copy = trial.fresh()
            die_at(copy, number, verb.do)
            try:
                _check_after_crash(copy, trial)
            except Exception as error:
                raise AssertionError(f"killed before step {number} of {trial.steps}: {error}") from error
        return len(numbers)


@pytest.mark.parametrize("name", VERBS)
def test_a_kill_before_any_step_leaves_the_state_before_or_after(
    name: str, template: Path, tally: Callable[..., None]
) -> None:
    survived = crash_everywhere(template, VERBS[name], partial(steps_to_try, name))
    tally(kills=survived)
    assert survived > 3 // EVERY


# -- each safeguard switched off ----------------------------------------------------------------------


def test_without_the_journal_a_crash_leaves_neither_the_state_before_nor_after(
    template: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "begin", lambda _local, _plan, **_: None)
    names = ("commit", "switch", "rm", "merge", "reset --hard", "undo of a switch", "mv", "restore", "stash pop")
    for name in names if TORTURE else names[:3]:
        with pytest.raises(AssertionError, match="killed before step"):
            crash_everywhere(template, VERBS[name])


def test_without_what_the_plan_says_of_it_a_verb_finished_by_a_resume_cannot_be_undone(
    template: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "keep_found", lambda *_: None)
    names = ("commit", "switch", "rm", "merge", "reset --hard", "undo of a switch", "mv", "restore")
    for name in names if TORTURE else names[:3]:
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
    with fast_folder() as folder, ml.open(snapshot_of(template, folder / "repo")) as repo:
        VERBS[name].prepare(repo)
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


def test_a_commit_acknowledged_before_a_kill_is_there(template: Path, tally: Callable[..., None]) -> None:
    """A process writes memories and files and says so; it is killed at a random moment, again and again."""
    with fast_folder() as folder:
        root = snapshot_of(template, folder / "repo")
        acknowledged: list[tuple[str, str]] = []
        for seed in range(200 if TORTURE else 8):
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
                    commit = repo.show(oid, lane=lane).commit  # type: ignore[arg-type]
                    for change in repo.show(commit).changes:
                        assert change.new is None or repo.objects.read(change.new.oid)
        with ml.open(root) as repo:
            repo.status()
            assert repo.upkeep.fsck(full=True).problems == ()
            reachable = {c.oid for lane in ("work", "memory") for c in repo.log(lane=lane)}
        assert {oid for oid, _ in acknowledged} <= reachable
        tally(kills=seed + 1, acknowledged_commits=len(acknowledged))
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
def test_a_kill_at_a_system_call_leaves_the_state_before_or_after(
    verb: str, calls: str, template: Path, tally: Callable[..., None]
) -> None:
    arguments = {"add": ["add", "-A"], "commit": ["commit", "-m", "new"], "switch": ["switch", "side"]}[verb]
    killed = 0
    with trial_of(template, VERBS[verb], lambda root: _traced(root, arguments, calls, 0)) as trial:
        for number in range(1, 400) if TORTURE else (1, 4):
            copy = trial.fresh()
            status = _traced(copy, arguments, calls, number)
            assert status in (0, KILLED, 128 + signal.SIGKILL)
            _check_after_crash(copy, trial)
            if status == 0:
                break
            killed += 1
    tally(kills_at_system_calls=killed)
    if not (verb == "switch" and calls.startswith("link")) and not (verb == "commit" and "link" in calls):
        assert killed


def _traced(root: Path, arguments: list[str], calls: str, number: int) -> int:
    """Run the command line under strace, killed at the n-th of these calls; 0 is never."""
    assert STRACE is not None
    inject = [f"--inject={calls}:signal=SIGKILL:when={number}"] if number else []
    command = [STRACE, "-f", "-qq", "-o", "/dev/null", f"--trace={calls}", *inject, sys.executable, "-m", "memlake.cli"]
    found = subprocess.run([*command, *arguments], cwd=root, check=False, capture_output=True, env=dict(os.environ))
    return found.returncode
