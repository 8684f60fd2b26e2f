"""Odd command lines and odd repos: whatever is typed, the answer is a few words and a code, never a traceback."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import click
import pytest

from memlake.cli import commands as door
from memlake.cli.commands import VERBS
from tests.cli.conftest import Ran, Run

LINES = 300
CODES = {0, 1, 2, 5, 128}
_WORDS = """
-- - -1 --1 --x -x --help --json nan 1e9 \\ %s {0} $HOME `id` = x= * [ ' " CON C:\\x s3://x 2026-13-45 yesterday dead
a a/ a/b data data/ / .. ../.. . .memlake .memlake/repo.db dangling loop loop/x files/ memories memories/x/y HEAD.lock
@ @{ HEAD^99 HEAD~-1 HEAD^{tree} HEAD: HEAD:a:b : ... a..b HEAD.. ^HEAD stash@{0} stash@{x} main HEAD é 日本
"""
_NINES = "9" * 20
ODD = (
    *_WORDS.split(),
    *("", "\0", "a\0b", "x" * 300, "x" * 5000, "a/" * 2048, "\ud800", "\udcff", "\u202e", "\n", "a\nb", "0" * 64),
    *(_NINES, f"-{_NINES}", f"HEAD@{{{_NINES}}}", f"HEAD~{_NINES}"),
)
_LINES = """
status|add -A|add new|commit -am x|rm a|mv a b|restore a|cat a|ls|log|show|diff|blame a|reflog|tag t|branch b
checkout HEAD~1|merge main~1|revert HEAD|reset --hard HEAD~1|stash|undo|ops|du|gc --prune|fsck|doctor
backup out.tar|config --list|config user.name X
"""
VERB_LINES = _LINES.strip().replace("\n", "|").split("|")


def answered(ran: Ran, what: object) -> None:
    assert ran.code in CODES, (what, ran)
    assert ran.err or ran.code in (0, 1, 5), what
    assert "Traceback" not in ran.err and "fatal: unexpected" not in ran.err, f"{what}: {ran.err}"


def words_of(verb: str) -> list[str]:
    """The options of a verb, and the verbs below it."""
    command = door.memlake.get_command(None, verb)  # type: ignore[arg-type]
    assert command is not None
    inner = list(command.commands) if isinstance(command, click.Group) else []
    return [name for param in command.params if isinstance(param, click.Option) for name in param.opts] + inner


@pytest.mark.parametrize("seed", range(3))
def test_whatever_is_typed_is_answered_in_a_few_words(
    run: Run, story: dict[str, str], repo: Path, tmp_path_factory: pytest.TempPathFactory, seed: int
) -> None:
    os.symlink("nowhere", "dangling")
    os.symlink("loop", "loop")
    chance = random.Random(seed)
    for number in range(LINES // 3):
        if number % 10 == 0:  # what one line broke must not hide what the next would
            here = tmp_path_factory.mktemp("odd") / "repo"
            shutil.copytree(repo, here, symlinks=True)
            os.chdir(here)
        verb = chance.choice(sorted(set(VERBS) - {"init"}))  # which would make a repo of `/` or of what is above
        known = words_of(verb) or [""]
        line = [verb, *(chance.choice(known if chance.random() < 0.4 else ODD) for _ in range(chance.randrange(5)))]
        answered(run(*line, code=None), line)


def _is_folder(path: Path) -> None:
    shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    path.mkdir()


def _is_file(path: Path) -> None:
    shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    path.write_bytes(b"\xff\xfe= no such thing" * 500)


BROKEN: dict[str, Callable[[Path], object]] = {
    "without repo.db": lambda root: (root / ".memlake/repo.db").unlink(),
    "with a folder as repo.db": lambda root: _is_folder(root / ".memlake/repo.db"),
    "with a folder as local.db": lambda root: _is_folder(root / ".memlake/local.db"),
    "with garbage as local.db": lambda root: _is_file(root / ".memlake/local.db"),
    "with garbage as repo.db": lambda root: _is_file(root / ".memlake/repo.db"),
    "with a file as .memlake": lambda root: _is_file(root / ".memlake"),
    "with garbage as config": lambda root: _is_file(root / ".memlake/config.toml"),
    "with a folder as config": lambda root: _is_folder(root / ".memlake/config.toml"),
    "with a file as packs": lambda root: _is_file(root / ".memlake/packs"),
    "without tmp": lambda root: shutil.rmtree(root / ".memlake/tmp"),
    "with a folder as its lock": lambda root: _is_folder(root / ".memlake/repo.db.lock"),
    "with a folder in the place of a file": lambda root: _is_folder(root / "a"),
    "with a file in the place of a folder": lambda root: _is_file(root / "data"),
    "with garbage as ignore file": lambda root: _is_file(root / ".memlakeignore"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_repo_in_a_bad_state_is_answered_in_a_few_words(
    run: Run, story: dict[str, str], repo: Path, tmp_path_factory: pytest.TempPathFactory, name: str
) -> None:
    broken = tmp_path_factory.mktemp("broken") / "repo"
    (repo / "new").write_text("n")
    for line in VERB_LINES:
        shutil.rmtree(broken, ignore_errors=True)
        shutil.copytree(repo, broken)
        os.chdir(broken)
        BROKEN[name](broken)
        answered(run(*line.split(), code=None), f"{line} in a repo {name}")
        os.chdir(repo)


def test_a_folder_that_may_not_be_written_is_answered_in_a_few_words(
    run: Run, story: dict[str, str], repo: Path
) -> None:
    for folder, _, _ in os.walk(repo):  # root writes all the same, and is answered all the same
        os.chmod(folder, 0o555)
    try:
        for line in VERB_LINES:
            answered(run(*line.split(), code=None), line)
    finally:
        for folder, _, _ in os.walk(repo):
            os.chmod(folder, 0o755)


def test_a_name_no_file_can_have_is_refused_where_a_folder_or_file_is_named(run: Run, repo: Path) -> None:
    for name in ("", "a\0b", "\ud800"):
        for verb in ("init", "backup"):
            assert "cannot be the name of a file" in run(verb, name, code=128).err
    assert run("-C", "a\0b", "status", code=128).err.startswith("fatal: cannot change to")
