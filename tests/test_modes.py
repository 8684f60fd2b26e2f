"""Who else can read what memlake writes: nobody in the personal repo, and elsewhere whom the umask lets."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

import memlake as ml
from memlake import config
from memlake.cli.hook import events
from memlake.memories.memories import Draft
from memlake.memories.search import Query
from memlake.repo import open_personal


@pytest.fixture(params=[0o022, 0o077], ids=["umask022", "umask077"])
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def write_everything(repo: ml.Repo, work: Path) -> None:
    """Leave a file of every kind: databases, packs, parts, index, vectors, runs, settings, log, locks."""
    repo.config.set("embedding.provider", "test")
    repo.config.set("embedding.flush_seconds", "0.01")
    repo.close()
    with ml.open(repo.root) as repo:
        memories = repo.memories()
        memories.store_many([Draft(f"fact number {number}") for number in range(3)])
        assert memories.wait(30) and memories.search(Query("fact"))
        data = repo.datasets()
        data.read_values(x=[1, 2, 3]).save("numbers")
        data.read_dataset("numbers").mutate(y=ml.C("x") + 1).to_records()
        data.read_values(v=[[0.1, 0.2], [0.3, 0.4]]).save("vectors")
        (repo.root / "big").write_bytes(os.urandom(300_000))
        repo.add(repo.root / "big")
        repo.commit("big")
        repo.upkeep.gc()
        repo.upkeep.backup(work / "copy.tar")
    events.log("prompt", "a problem")


def modes(folder: Path) -> dict[str, tuple[int, bool]]:
    found = {str(path.relative_to(folder.parent)): path.lstat().st_mode for path in (folder, *folder.rglob("*"))}
    return {name: (stat.S_IMODE(mode), stat.S_ISDIR(mode)) for name, mode in found.items()}


@pytest.mark.parametrize("umask", [0o022, 0o077, 0], indirect=True, ids=["umask022", "umask077", "umask000"])
def test_nobody_else_reads_the_personal_repo_whatever_the_umask(
    umask: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, here: Path
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    write_everything(open_personal(), tmp_path)
    found = modes(tmp_path / "data/memlake/.memlake")
    assert {"repo.db", "local.db", "packs", "parts", "index", "vectors.db", "hooks.log", "config.toml"} <= {
        Path(name).name for name in found
    }
    assert {
        name: oct(mode) for name, (mode, is_folder) in found.items() if mode != (0o700 if is_folder else 0o600)
    } == {}
    assert stat.S_IMODE((tmp_path / "data/memlake").stat().st_mode) == 0o700
    assert stat.S_IMODE((tmp_path / "copy.tar").stat().st_mode) == 0o600


def test_a_personal_repo_that_was_open_to_others_is_closed_to_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    ml.init(config.personal_folder()).close()
    (tmp_path / "memlake/.memlake").chmod(0o755)
    open_personal().close()
    assert stat.S_IMODE((tmp_path / "memlake/.memlake").stat().st_mode) == 0o700


def test_in_any_other_repo_the_umask_says_who_reads(
    umask: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "project"
    root.mkdir()
    root.chmod(0o755)
    monkeypatch.chdir(root)
    write_everything(ml.init(root), tmp_path)
    found = modes(root / ".memlake")
    wrong = {n: oct(m) for n, (m, is_folder) in found.items() if m != (0o777 if is_folder else 0o666) & ~umask}
    assert wrong == {}
    assert stat.S_IMODE((tmp_path / "copy.tar").stat().st_mode) == 0o666 & ~umask
