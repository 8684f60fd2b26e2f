"""Errors, full and read-only disks: a save fails whole with a named error, and what was done before is kept."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import memlake as ml
from memlake.dataset.parts import parquet
from memlake.errors import Unavailable
from tests.reliability.dataset_ground import Rows, build, leftovers, look, numbers, rows_of, slow
from tests.reliability.ground import TORTURE, assert_sound, fast_folder, hooked, init, noise, snapshot_of, steps_of
from tests.reliability.test_dataset_crash import VERBS, Verb
from tests.reliability.test_faults import fail_at
from tests.reliability.test_memory_disk import mounted, read_only

__all__ = ["read_only"]
FAILS = 1000 if TORTURE else 6  # of each verb


@pytest.fixture(scope="module")
def template() -> Iterator[Path]:
    with fast_folder() as folder:
        yield build(folder / "repo")


# -- an error at every step -----------------------------------------------------------------------------


def fail_everywhere(template: Path, name: str) -> int:
    verb, told = VERBS[name], 0
    with fast_folder() as folder:
        shutil.copytree(template.with_name("files"), folder / "files")
        before = look(template)
        done = snapshot_of(template, folder / "done")
        with ml.open(done) as repo:
            steps = steps_of(lambda: verb.do(repo.datasets()))
        after, every = look(done), -(-len(steps) // FAILS)
        for number in range(1 + sum(name.encode()) % every, len(steps) + 1, every):
            code = (errno.ENOSPC, errno.EIO)[number % 2]
            copy = snapshot_of(template, folder / "copy")
            try:
                told += _fail_once(copy, verb, (number, code), (before, after))
            except AssertionError as error:
                what = f"{errno.errorcode[code]} at step {number} of {len(steps)}, {steps[number - 1]}"
                raise AssertionError(f"{what}: {error}") from error
            shutil.rmtree(copy)
    return told


def _fail_once(root: Path, verb: Verb, at: tuple[int, int], views: tuple[Rows, Rows]) -> bool:
    before, after = views
    with ml.open(root) as repo:
        problem: BaseException | None = None
        try:
            with hooked(fail_at(*at)):
                verb.do(repo.datasets())
        except (Unavailable, OSError) as error:
            problem = error
        assert problem is None or isinstance(problem, Unavailable), f"not named: {problem!r}"
        assert rows_of(repo) == (before if problem else after), f"said {problem}"
        assert_sound(repo)
        if problem:
            verb.do(repo.datasets())
        assert rows_of(repo) == after
        repo.upkeep.gc(prune=True)
        assert leftovers(root) == []
    return problem is not None


@pytest.mark.parametrize("name", VERBS)
def test_an_error_at_any_step_is_told_only_of_what_was_not_done(
    name: str, template: Path, tally: Callable[..., None]
) -> None:
    tally(errors=fail_everywhere(template, name))


# -- a disk that is full --------------------------------------------------------------------------------


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    with mounted(tmp_path / "disk", "size=12m,nr_inodes=800") as at:
        yield at


def _fill(folder: Path, leave: int) -> Path:
    """Use up the disk until it refuses, then give some bytes back: what it says is free is not always to be had."""
    filler = folder / "filler"
    with filler.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while file.write(bytes(4096)):
            pass
    os.truncate(filler, max(0, filler.stat().st_size - leave))
    return filler


def _texts(first: int) -> list[str]:
    return [noise(800, first + n).hex() for n in range(200)]


def dear(text: str) -> str:
    import time

    time.sleep(0.0003)
    return text[::-1]


@pytest.mark.parametrize("leave", [0, 16 << 10, 100 << 10, 300 << 10])
def test_a_disk_that_fills_up_while_saving_loses_no_version(small_disk: Path, leave: int) -> None:
    with init(small_disk / "repo") as repo:
        data = repo.datasets()
        data.read_values(text=_texts(0)).map(back=dear).save("kept")
        before = rows_of(repo)
        filler = _fill(small_disk, leave)
        refused = []
        for number in range(1, 12):
            try:
                data.read_values(text=_texts(number * 1000)).map(back=dear).save("more")
            except Unavailable as error:
                refused.append(error.message)
        assert refused, "the disk was never full"
        assert [m for m in refused if "full" not in m and "No space" not in m] == []
        assert rows_of(repo)["kept@1.0.0"] == before["kept@1.0.0"]
        filler.unlink()
        for path in leftovers(small_disk / "repo"):
            assert not path.startswith("family-"), "what could not be written was left behind"
        assert_sound(repo)
        saved = len(repo.datasets().versions("more")) if "more@1.0.0" in rows_of(repo) else 0
        data.read_values(text=_texts(99)).map(back=dear).save("more")
        assert len(data.versions("more")) == saved + 1
        assert data.read_dataset("more").to_values("back") == [text[::-1] for text in _texts(99)]


def test_a_function_goes_on_when_nothing_can_be_remembered(small_disk: Path) -> None:
    with init(small_disk / "repo") as repo:
        data = repo.datasets()
        data.read_values(x=[1]).map(y=slow).to_list()
        filler = _fill(small_disk, 0)
        assert data.read_values(x=list(range(50))).map(y=slow).to_values("y") == [2 * n for n in range(50)]
        filler.unlink()
        assert data.read_values(x=list(range(50))).map(y=slow).to_values("y") == [2 * n for n in range(50)]


# -- a folder that cannot be written --------------------------------------------------------------------


def test_datasets_are_read_in_a_folder_that_cannot_be_written(
    tmp_path: Path, read_only: Callable[[Path], None]
) -> None:
    root = build(tmp_path / "disk" / "repo")
    with ml.open(root) as repo:
        repo.upkeep.checkpoint()
        before = rows_of(repo)
    read_only(root)
    with ml.open(root) as repo:
        data = repo.datasets()
        assert rows_of(repo) == before
        assert data.read_dataset("numbers").filter(ml.C("x") > 20).sum("x") == sum(range(21, 50))
        assert data.read_dataset("numbers").group_by("x", n=ml.func.count()).count() == 40
        assert data.read_dataset("numbers").map(z=lambda x: x + 1).to_values("z") == list(range(11, 51))
        assert numbers(data).map(y=slow).to_values("y") == [2 * n for n in range(40)]
        assert data.read_storage(tmp_path).count() == 5
        with pytest.raises(Unavailable, match=r"(?i)read-only|written"):
            numbers(data, 700).map(y=slow).save("new")
        with pytest.raises(Unavailable, match=r"(?i)read-only|written"):
            data.read_dataset("numbers").filter(ml.C("x") > 30).save("new")
        assert rows_of(repo) == before


def test_a_part_that_is_cut_short_by_the_disk_is_never_stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(table: object, file: Path, **_: object) -> None:
        file.write_bytes(b"PAR1 half")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(file))

    with init(tmp_path / "repo") as repo:
        with monkeypatch.context() as patch:
            patch.setattr(parquet, "_write", fails)
            with pytest.raises(Unavailable, match=r"(?s)No space left.*Nothing was saved.*Free some space"):
                numbers(repo.datasets()).save("new")
        assert leftovers(tmp_path / "repo") == []
        numbers(repo.datasets()).save("new")
        assert_sound(repo)
