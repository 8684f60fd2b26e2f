"""The facts of a repo: what a stranger wrote in their place is named, with advice that works."""

from __future__ import annotations

import subprocess
import uuid
from pathlib import Path

import pytest

import memlake as ml
from memlake.cli.main import main
from memlake.errors import Corrupt
from memlake.objects import layout
from memlake.versions.checkout.context import read_head
from tests.reliability.ground import forged


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "repo"
    with ml.init(root) as repo:
        (root / "a.txt").write_text("1\n")
        repo.add(all=True)
        repo.commit("one")
        repo.upkeep.gc()
    return root


def plant(root: Path, key: str, value: object) -> None:
    with forged(root / ".memlake/repo.db") as database:
        database.execute("INSERT OR REPLACE INTO meta VALUES(?, ?)", (key, value))


def do_all(root: Path) -> None:
    """What reads every fact, one after the other."""
    with ml.open(root) as repo:
        repo.status()
        read_head(repo._history.db)
        (root / "b.txt").write_text("2\n")
        repo.add(all=True)
        repo.commit("two")
        repo.upkeep.gc()


@pytest.mark.parametrize(
    ("key", "value"),
    [
        *((key, value) for key in ("clock", "seq", "delta_seq", "log_seq") for value in ("x", b"x", -1, 1 << 62, 0.5)),
        *(("checkout", value) for value in ("a b c {", "a b c " + "[" * 100_000, "a b c 7", "a b c [7]", b"\xff", 7)),
        *(("gc_clock", value) for value in ("x", "x y z", "1 2", "9" * 5000 + " 1 x", b"\xff", 7)),
        ("head", b"\xff"),
    ],
)
def test_a_fact_that_memlake_does_not_write_is_named(root: Path, key: str, value: object) -> None:
    plant(root, key, value)
    with pytest.raises(Corrupt, match=f"as '{key}', which memlake does not write") as caught:
        do_all(root)
    assert "memlake rescue" in caught.value.hint


def test_the_advice_about_a_wrong_fact_saves_the_history(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(root, "checkout", "a b c {")
    with pytest.raises(Corrupt) as caught:
        ml.open(root)
    monkeypatch.chdir(tmp_path)
    command = caught.value.hint.partition("memlake rescue ")[2].split()
    assert main(["rescue", *command]) == 0
    with ml.open(tmp_path / "rescued") as repo:
        assert repo.read("a.txt") == b"1\n"


def test_a_head_that_is_no_text_is_named_and_the_advice_finds_it_again(root: Path) -> None:
    with forged(root / ".memlake/local.db") as database:
        database.execute("UPDATE state SET value = ? WHERE key = 'head'", (b"\xff\xfe",))
    with pytest.raises(Corrupt, match="as 'head', which memlake does not write") as caught, ml.open(root) as repo:
        repo.status()
    command = caught.value.hint.splitlines()[0].partition(": ")[2]
    subprocess.run(command, shell=True, check=True)
    with pytest.warns(UserWarning, match="now stands on branch 'main'"), ml.open(root) as repo:
        assert repo.branches.current == "main"


def test_a_salt_that_an_id_was_not_made_with_is_told_from_the_one_it_was(root: Path) -> None:
    with ml.open(root) as repo:
        id, salt = repo._id, repo._history.salt
    assert layout.is_salt_of(id, salt) and uuid.UUID(id).version == 7
    assert not layout.is_salt_of(id, bytes(16)) and not layout.is_salt_of(layout.new_id(), salt)
    assert layout.new_repo_id(salt) != layout.new_repo_id(salt)
