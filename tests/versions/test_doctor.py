"""doctor: each fault of what is stored is found, has a cure, and makes the exit code 1."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import memlake as ml
from memlake.cli.main import main
from memlake.memories.memories import Draft
from memlake.reports import Check


@pytest.fixture
def root(here: Path) -> Path:
    with ml.init() as repo:
        repo.config_set("embedding.provider", "none")
    with ml.open(here) as repo:
        for name in "abcdefgh":
            (here / name).write_text(f"{name}\n" * 900)
        (here / "big").write_bytes(os.urandom(3 << 20))
        repo.add(all=True)
        repo.commit("all")
        repo.memories().store(Draft("tea"))
        (repo.dir / "part").write_bytes(b"rows" * 100)
        repo._history.objects.write_part(repo.dir / "part")
        repo.checkpoint()
    return here


def _damage(path: Path, at: int) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        file.write(b"\xa5" * 4096)


def _files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


FAULTS: dict[str, tuple[str, Callable[[Path], object]]] = {
    "repo.db with noise in it": ("repo.db", lambda at: _damage(at / "repo.db", 8192)),
    "local.db with noise in it": ("local.db", lambda at: _damage(at / "local.db", 4096)),
    "the index with noise in it": ("index", lambda at: _damage(next((at / "index").glob("*/index.db")), 8192)),
    "a pack that is gone": ("packs", lambda at: [path.unlink() for path in _files(at / "packs")]),
    "a pack cut short": ("packs", lambda at: [os.truncate(path, 100) for path in _files(at / "packs")]),
    "a part that is gone": ("parts", lambda at: [path.unlink() for path in _files(at / "parts")]),
}


def _ailing(root: Path) -> list[Check]:
    with ml.open(root) as repo:
        return [check for check in repo.doctor() if not check.ok and check.name != "space"]


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_named_with_a_cure_and_the_exit_code_is_1(
    fault: str, root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _ailing(root) == []
    name, harm = FAULTS[fault]
    harm(root / ".memlake")
    found = _ailing(root)
    assert name in [check.name for check in found] and all(check.cure for check in found)
    assert main(["doctor"]) == 1 and f"bad  {name}" in capsys.readouterr().out


def test_the_cure_of_a_damaged_local_db_works_when_pasted(root: Path) -> None:
    _damage(root / ".memlake" / "local.db", 4096)
    cure = next(check.cure for check in _ailing(root) if check.name == "local.db")
    subprocess.run(cure.splitlines()[0].removeprefix("Set it aside with: "), shell=True, check=True)
    with pytest.warns(UserWarning, match="local.db was lost"):
        assert _ailing(root) == []
    with ml.open(root) as repo:
        assert repo.status().clean and repo.fsck(full=True).ok


def _cat(capfdbinary: pytest.CaptureFixture[bytes], *line: str) -> tuple[int, bytes, str]:
    code = main(list(line))
    out, err = capfdbinary.readouterr()
    return code, out, err.decode()


@pytest.mark.parametrize("lost", ["a pack", "half of a pack", "the row of a chunk"])
def test_cat_of_a_file_that_is_not_whole_writes_nothing_and_says_why(
    root: Path, lost: str, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    """The last chunk is the one that is missing: the first ones could have been written."""
    with ml.open(root) as repo:
        pieces = repo._history.objects.pieces(repo.entry("big").oid)
        if lost == "the row of a chunk":
            with repo._history.db.write():
                repo._history.db.run("DELETE FROM object WHERE oid = ?", (pieces[-1][0],))
    for pack in _files(root / ".memlake" / "packs"):
        if lost == "a pack":
            pack.unlink()
        elif lost == "half of a pack":
            os.truncate(pack, pack.stat().st_size // 2)
    capfdbinary.readouterr()
    code, out, err = _cat(capfdbinary, "cat", "big")
    assert (code, out) == (128, b"") and "memlake fsck" in err
    assert main(["fsck"]) == 1  # the advice
    capfdbinary.readouterr()
    (root / "big").unlink()
    code, _, err = _cat(capfdbinary, "restore", "big")
    assert code == 128 and not (root / "big").exists() and "Nothing was written" in err
