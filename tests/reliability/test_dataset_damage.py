"""What is remembered and what is stored, damaged in every way: rows are right, or it is said which are not."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import memlake as ml
from memlake.dataset.chain import Chain
from memlake.dataset.datasets import Datasets
from memlake.dataset.parts import sums
from memlake.errors import Corrupt, NotFound, Unavailable
from memlake.repo import Repo
from tests.reliability.dataset_ground import Rows, build, look, numbers, rows_of, slow
from tests.reliability.ground import TORTURE, assert_sound, fast_folder, init, noise, python, snapshot_of

FLIPS = 3000 if TORTURE else 40


@pytest.fixture(scope="module")
def template() -> Iterator[Path]:
    with fast_folder() as folder:
        root = build(folder / "repo")
        again(root)
        yield root


@pytest.fixture
def root(template: Path) -> Iterator[Path]:
    with fast_folder() as folder:
        yield snapshot_of(template, folder / "repo")


def again(root: Path) -> Rows:
    """Work over everything that can be recalled: a plan, shards, rows, a listing; what it came to."""
    with ml.open(root) as repo:
        data = repo.datasets()
        listed = data.read_storage(root.with_name("files")) if root.with_name("files").exists() else None
        return {
            "map": numbers(data, 10).map(y=slow).to_records(),
            "other rows": numbers(data, 25).map(y=slow).to_records(),
            "gen": numbers(data, 5).gen(z=lambda x: [x, x]).to_records(),
            "persisted": numbers(data, 10).map(y=slow).filter(ml.C("y") > 30).persist().to_records(),
            "listed": [{"path": file.path} for file in listed.to_values("file")] if listed else [],
        }


def remembered(root: Path) -> Path:
    return root / ".memlake" / "datasets.db"


# -- datasets.db ---------------------------------------------------------------------------------------


def _truncate(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def _clear(path: Path) -> None:
    os.truncate(path, 0)


def _overwrite(path: Path) -> None:
    path.write_bytes(noise(path.stat().st_size, "db"))


def _head(path: Path) -> None:
    with path.open("r+b") as file:
        file.write(b"no database")


LOSSES = {"deleted": Path.unlink, "cut": _truncate, "empty": _clear, "noise": _overwrite, "another head": _head}


@pytest.mark.parametrize("loss", LOSSES)
def test_whatever_happens_to_what_is_remembered_the_rows_are_right(root: Path, loss: str) -> None:
    wanted, before = again(root), look(root)
    LOSSES[loss](remembered(root))
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        assert again(root) == wanted
    damaged = loss not in ("deleted", "empty")
    assert [str(one.message) for one in said if "datasets.db is damaged" in str(one.message)][:1] or not damaged
    assert (remembered(root).with_name("datasets.db.damaged").exists()) == damaged
    assert look(root) == before
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert again(root) == wanted, "it is remembered again"


def test_what_is_remembered_may_vanish_while_it_is_used(root: Path) -> None:
    wanted = again(root)
    with ml.open(root) as repo:
        numbers(repo.datasets()).map(y=slow).count()
        remembered(root).unlink()
        assert numbers(repo.datasets(), 10).map(y=slow).to_records() == wanted["map"]
    assert again(root) == wanted


def flip_everywhere(root: Path) -> int:
    """Flip single bits of datasets.db; returns in how many cases it was damage that SQLite saw."""
    with ml.open(root) as repo:
        assert repo.datasets().context.recall.parts()
    wanted, sound, seen = again(root), remembered(root).read_bytes(), 0
    chance = random.Random(7)
    used = [at for at in range(len(sound)) if sound[at]]  # free space tells nothing
    for _ in range(FLIPS):
        at, bit = chance.choice(used), 1 << chance.randrange(8)
        data = bytearray(sound)
        data[at] ^= bit
        for log in ("-wal", "-shm"):
            remembered(root).with_name(f"datasets.db{log}").unlink(missing_ok=True)
        remembered(root).write_bytes(data)
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            assert again(root) == wanted, f"bit {bit} of byte {at}"
        seen += any("damaged" in str(one.message) for one in said)
    return seen


def test_a_flipped_bit_in_what_is_remembered_never_changes_a_row(root: Path, tally: Callable[..., None]) -> None:
    tally(flips=FLIPS, seen_by_sqlite=flip_everywhere(root))


def test_without_the_checksums_of_pages_a_flipped_bit_changes_rows(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memlake.objects.db.with_checksums", lambda: "unix")
    monkeypatch.setattr("tests.reliability.test_dataset_damage.FLIPS", 4000)
    with pytest.raises(Exception):  # noqa: B017  rows that differ, or text that cannot be read
        flip_everywhere(root)


_HOLD = """
import sys, time, apsw
held = apsw.Connection(sys.argv[1])
held.execute("PRAGMA locking_mode=EXCLUSIVE")
held.execute("BEGIN EXCLUSIVE; CREATE TABLE IF NOT EXISTS mine(a); INSERT INTO mine VALUES(1)")
print("held", flush=True)
time.sleep(600)
"""


def test_a_database_that_another_holds_stops_no_work(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memlake.dataset.memo.results.PATIENCE", 0.2)
    wanted = again(root)
    with python("-c", _HOLD, str(remembered(root)), stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None and holder.stdout.readline() == "held\n"
        assert again(root) == wanted  # with the holder alive: nobody waited for it
        with ml.open(root) as repo:
            numbers(repo.datasets(), 70).map(y=slow).save("held")
        holder.kill()
    assert "held@1.0.0" in look(root)


# -- parts ---------------------------------------------------------------------------------------------


def part_of(repo: Repo, spec: str) -> Path:
    ground = repo.datasets().context
    return Path(ground.parts.path(next(iter(ground.frame(ground.find(spec)).families()))))


def _flip_page(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[100] ^= 4
    path.write_bytes(data)


HURTS: dict[str, Callable[[Path], object]] = {
    "missing": Path.unlink,
    "cut": _truncate,
    "empty": _clear,
    "noise": _overwrite,
    "a flipped bit": _flip_page,
}
READS: dict[str, Callable[[Datasets], object]] = {
    "rows": lambda d: d.read_dataset("big").to_pandas(),
    "map": lambda d: d.read_dataset("big").map(z=lambda x: x + 1).to_records(),
    "query": lambda d: d.read_dataset("big").group_by("x", n=ml.func.count()).to_records(),
    "save": lambda d: d.read_dataset("big").map(z=lambda x: x + 2).save("other"),
}


BOTH = [(hurt, read) for hurt in HURTS for read in READS]


@pytest.mark.parametrize(("hurt", "read"), BOTH)
def test_a_part_that_is_lost_is_told_by_the_dataset_it_is_of(root: Path, hurt: str, read: str) -> None:
    with ml.open(root) as repo:
        big(repo.datasets()).save("big")
        before = rows_of(repo)
        HURTS[hurt](part_of(repo, "big"))
    with ml.open(root) as repo:
        with pytest.raises(Corrupt, match=r"big@1\.0\.0 cannot be read: 1 of its parts .*\n.*fsck --full") as told:
            READS[read](repo.datasets())
        assert "Nothing was changed" in told.value.message
        assert not repo.upkeep.fsck(full=True).ok
        assert {s: rows for s, rows in before.items() if s != "big@1.0.0"} == {
            one.spec: repo.datasets().read_dataset(one.spec).to_records()
            for one in repo.datasets().all()
            if one.name != "big"
        }, "nothing else is affected"
        big(repo.datasets()).settings(recompute=True).save("big")
        assert rows_of(repo) == before, "healed by making equal rows again"
        assert_sound(repo)


def big(data: Datasets) -> Chain:
    return data.read_values(x=[n * 7919 % 10007 for n in range(5000)])


@pytest.mark.parametrize("hurt", HURTS)
def test_a_part_that_was_only_remembered_is_made_again(tmp_path: Path, hurt: str) -> None:
    with init(tmp_path / "repo") as repo:
        chain = numbers(repo.datasets()).map(y=slow).gen(z=lambda y: [y, -y])
        wanted = chain.to_records()
    files = [path for path in (tmp_path / "repo/.memlake/parts").rglob("*") if path.is_file()]
    assert files, "nothing was remembered"
    for path in files:
        HURTS[hurt](path)
    with init(tmp_path / "repo") as repo:
        assert numbers(repo.datasets()).map(y=slow).gen(z=lambda y: [y, -y]).to_records() == wanted
        numbers(repo.datasets()).map(y=slow).gen(z=lambda y: [y, -y]).save("kept")
        assert repo.datasets().read_dataset("kept").to_records() == wanted
        assert_sound(repo)


def _flipped(repo: Repo, places: Iterator[int]) -> tuple[int, int]:
    """Reads of a dataset with one bit flipped, by SQL and as rows: how many were wrong, and how many refused."""
    data, path = repo.datasets(), part_of(repo, "big")
    sound, wanted = path.read_bytes(), big(data).order_by("x").to_values("x")
    wrong = refused = 0
    for at in places:
        flipped = bytearray(sound)
        flipped[at % len(sound)] ^= 1 << at % 8
        path.write_bytes(flipped)
        for read in (data.read_dataset("big").order_by("x"), data.read_dataset("big")):
            try:
                wrong += sorted(read.to_values("x")) != wanted
            except (Corrupt, Unavailable):
                refused += 1
    return wrong, refused


def _places() -> Iterator[int]:
    return iter(range(0, 20_000, 7 if TORTURE else 149))


def test_a_flipped_bit_anywhere_in_a_part_never_changes_an_answer(root: Path) -> None:
    with ml.open(root) as repo:
        big(repo.datasets()).save("big")
        wrong, refused = _flipped(repo, _places())
    assert wrong == 0 and refused > 200


def test_without_the_sums_of_pages_a_flipped_bit_is_read(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sums, "check", lambda *_: None)
    with ml.open(root) as repo:
        big(repo.datasets()).save("big")
        assert _flipped(repo, _places())[0]


def test_a_manifest_that_is_gone_is_said(root: Path) -> None:
    with ml.open(root) as repo:
        found = repo.datasets().context.find("numbers")
        with repo._history.db.write():
            repo._history.db.run("DELETE FROM object WHERE oid = ?", (bytes.fromhex(found.manifest),))
        with pytest.raises((NotFound, Corrupt), match=r"numbers@1\.0\.1"):
            repo.datasets().read_dataset("numbers").count()
        assert repo.datasets().read_dataset("some").count()


def test_a_version_is_read_whole_although_its_neighbour_is_lost(root: Path) -> None:
    shutil.rmtree(root / ".memlake" / "index", ignore_errors=True)
    with ml.open(root) as repo:
        part_of(repo, "numbers@1.0.0").unlink()
        assert repo.datasets().read_dataset("numbers@1.0.1").count() == 40
