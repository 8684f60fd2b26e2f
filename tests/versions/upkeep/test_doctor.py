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
from memlake.repo import rescue
from memlake.reports import Check


@pytest.fixture
def root(here: Path) -> Path:
    with ml.init() as repo:
        repo.config.set("embedding.provider", "none")
    with ml.open(here) as repo:
        for name in "abcdefgh":
            (here / name).write_text(f"{name}\n" * 900)
        (here / "big").write_bytes(os.urandom(3 << 20))
        repo.add(all=True)
        repo.commit("all")
        repo.memories().store(Draft("tea"))
        (repo.dir / "part").write_bytes(b"rows" * 100)
        repo._history.objects.write_part(repo.dir / "part")
        repo.upkeep.checkpoint()
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
        return [check for check in repo.upkeep.doctor() if not check.ok and check.name != "space"]


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
        assert repo.status().clean and repo.upkeep.fsck(full=True).ok


def test_the_error_of_a_damaged_local_db_names_the_cure_that_works(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _damage(root / ".memlake" / "local.db", 4096)
    assert main(["status"]) == 128
    said = capsys.readouterr().err
    assert "local.db is damaged: a page of it does not match its checksum." in said and "fsck" not in said
    cure = next(line for line in said.splitlines() if "Set it aside with: " in line)
    for _ in range(2):  # it can be pasted again when it is damaged again
        subprocess.run(cure.partition("Set it aside with: ")[2], shell=True, check=True)
        with pytest.warns(UserWarning, match="local.db was lost"), ml.open(root) as repo:
            assert repo.status().clean


@pytest.mark.parametrize("at", [0, 100, 5000])
def test_a_repo_db_that_cannot_be_opened_is_a_bad_line_of_doctor_and_fsck_does_not_advise_itself(
    at: int, root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with ml.open(root) as repo:
        repo.upkeep.gc()
    _damage(root / ".memlake" / "repo.db", at)
    assert main(["doctor"]) == 1
    out = capsys.readouterr().out
    assert "bad  repo.db " in out and "ok   local.db" in out and "memlake fsck" not in out
    assert f"save what gc packed: memlake rescue {root / '.memlake'} --into rescued" in out
    assert main(["fsck"]) == 128
    said = capsys.readouterr().err
    assert "repo.db is damaged" in said and "memlake fsck" not in said and "memlake rescue" in said
    assert rescue(root, root / "rescued").lost == ()


@pytest.mark.parametrize("name", ["repo.db", "local.db"])
def test_a_page_that_fails_its_checksum_is_said_to_do_so(
    name: str, root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with (root / ".memlake" / name).open("rb") as file:
        size = file.seek(0, 2)
    for at in range(8192 + 100, size, 4096):
        before = (root / ".memlake" / name).read_bytes()
        _damage(root / ".memlake" / name, at)
        for verb in ("doctor", "fsck"):
            main([verb])
            out, err = capsys.readouterr()
            assert "I/O error" not in out + err and "***" not in out and "does not match its checksum" in out + err
        (root / ".memlake" / name).write_bytes(before)


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
        pieces = repo._history.objects.pieces(repo.objects.at("big").oid)
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
