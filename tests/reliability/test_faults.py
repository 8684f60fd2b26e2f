"""I/O errors, a full disk, too few files: the operation fails whole with a named error, and the repo stays readable."""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import apsw
import pytest

import memlake as ml
from memlake.errors import Corrupt, Error, Unavailable
from memlake.objects.db import Database
from memlake.repo import Repo
from tests.reliability.ground import (
    TORTURE,
    assert_sound,
    fast_folder,
    hooked,
    in_child,
    init,
    noise,
    put,
    snapshot_of,
    steps_of,
)
from tests.reliability.test_crash import VERBS, Verb, _build, _commits, _differences, _prepared, look

SQL_STEPS = {"sql", "commit", "checkpoint", "vacuum"}
NAMES = sorted(VERBS)


@pytest.fixture(scope="module")
def template() -> Iterator[Path]:
    with fast_folder() as folder:
        root = folder / "repo"
        with init(root) as repo:
            _build(repo, root)
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


def fail_everywhere(template: Path, verb: Verb, codes: tuple[int, ...]) -> int:
    """Fail each step once; returns how often the verb was made to fail."""
    failed = 0
    with fast_folder() as folder:
        ready = _prepared(template, verb, folder / "ready")
        before, committed = look(ready), _commits(ready)
        done = snapshot_of(ready, folder / "done")
        with ml.open(done) as repo:
            count = len(steps_of(lambda: verb.do(repo)))
        after = look(done)
        for number in range(1, count + 1):
            for code in codes if TORTURE else codes[number % len(codes) :][:1]:
                copy = snapshot_of(ready, folder / "copy")
                try:
                    failed += _fail_once(copy, verb, (number, code))
                    seen = look(copy)
                    if verb.whole and seen not in (before, after):
                        raise AssertionError(_differences(seen, before, after))
                    _still_works(copy, verb, committed)
                except AssertionError as error:
                    raise AssertionError(f"{errno.errorcode[code]} at step {number} of {count}: {error}") from error
                shutil.rmtree(copy)
    return failed


def _fail_once(root: Path, verb: Verb, at: tuple[int, int]) -> int:
    with ml.open(root) as repo:
        try:
            with hooked(fail_at(*at)):
                verb.do(repo)
        except Unavailable as error:
            assert error.message
            return 1
        except BaseException as error:
            raise AssertionError(f"failed with {type(error).__name__}, not Unavailable: {error}") from error
    return 0


def _still_works(root: Path, verb: Verb, committed: set[str]) -> None:
    with ml.open(root) as repo:
        assert_sound(repo)
        for oid in committed:
            repo.commit_at(oid)
        try:
            verb.do(repo)
        except Error as error:  # done already, or half done in a way the verb says clearly
            assert not isinstance(error, (Unavailable, Corrupt)), error
        repo.status()
        assert_sound(repo)


@pytest.mark.parametrize("name", NAMES)
def test_an_error_at_any_step_fails_the_verb_whole(name: str, template: Path) -> None:
    failed = fail_everywhere(template, VERBS[name], (errno.EIO, errno.ENOSPC))
    print(f"{name}: failed {failed} times, whole each time", file=sys.stderr)
    assert failed > 1


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
