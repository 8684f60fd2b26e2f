"""What gc keeps for datasets, and how fsck names what of them is damaged: on real repos."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import memlake
from memlake.repo import Repo


@pytest.fixture
def repo(here: Path) -> Iterator[Repo]:
    with memlake.init(here) as found:
        yield found


def slow(x: int) -> int:
    time.sleep(0.002)
    with open("calls", "a", encoding="utf-8") as file:  # a list would be part of what the function is
        file.write(".")
    return x * 2


def calls() -> int:
    return len(Path("calls").read_text(encoding="utf-8"))


def parts(repo: Repo) -> list[Path]:
    return [path for path in (repo.dir / "parts").rglob("*") if path.is_file()]


def test_gc_keeps_the_parts_that_are_only_recalled(repo: Repo) -> None:
    def answer() -> list[int]:
        chain = repo.datasets().read_values(x=list(range(20))).map(y=slow)
        return [int(y) for y in chain.persist().to_values("y")]

    first, before = answer(), calls()
    assert before >= 20 and parts(repo), "the work was done, and left parts no version names"
    repo.upkeep.gc(prune=True)
    assert answer() == first and calls() == before, "answered from memory after gc"


def test_gc_lets_go_of_parts_that_nothing_recalls(repo: Repo) -> None:
    repo.datasets().read_values(x=list(range(20))).map(y=slow).persist()
    repo.close()
    (repo.dir / "datasets.db").unlink()
    with memlake.open(repo.root) as again:
        again.upkeep.gc(prune=True)
        assert parts(again) == []


def test_gc_of_a_repo_without_datasets_makes_no_datasets_db(repo: Repo) -> None:
    repo.upkeep.gc(prune=True)
    assert not (repo.dir / "datasets.db").exists()


def test_fsck_names_the_version_of_a_damaged_part(repo: Repo) -> None:
    datasets = repo.datasets()
    kept = datasets.read_values(x=[1, 2, 3]).save("whole").record
    datasets.read_values(x=[4, 5, 6]).save("pets")
    datasets.read_dataset("pets").mutate(y=memlake.C("x") * 2).save("more")
    assert kept is not None and repo.upkeep.fsck(full=True).ok
    (part,) = [family.oid for family in datasets.context.frame(datasets.context.find("pets")).families()]
    file = repo.dir / "parts" / str(part)[:2] / str(part)
    file.chmod(0o644)
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    named = {problem.path for problem in repo.upkeep.fsck(full=True).problems}
    assert named == {"datasets/pets/1.0.0", "datasets/more/1.0.0"}
