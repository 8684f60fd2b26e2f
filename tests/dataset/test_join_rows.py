"""Two versions of a dataset as one: by key and cell, over the version that both come from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import memlake as ml
from memlake.dataset.datasets import Datasets
from memlake.errors import Conflict, InvalidInput
from memlake.repo import Repo


def save(repo: Repo, branch: str = "main", dataset: str = "pets", **columns: Any) -> str:
    chain = repo.datasets(branch).read_values(**columns).save(dataset)
    return f"{dataset}@{chain.version}"


def rows(datasets: Datasets, spec: str) -> list[dict[str, Any]]:
    return datasets.of(datasets.get(spec)).to_records()


@pytest.fixture
def fork(repo: Repo) -> Repo:
    """pets on main and x, with one edit on each side and one row appended by each."""
    save(repo, id=[1, 2, 3], name=["a", "b", "c"], legs=[4, 4, 2])
    repo.branches.create("x")
    save(repo, "main", id=[1, 2, 3, 4], name=["A", "b", "c", "d"], legs=[4, 4, 2, 0])
    save(repo, "x", id=[1, 2, 3, 5], name=["a", "b", "c", "e"], legs=[5, 4, 2, 8])
    return repo


JOINED = [
    {"id": 1, "name": "A", "legs": 5},
    {"id": 2, "name": "b", "legs": 4},
    {"id": 3, "name": "c", "legs": 2},
    {"id": 4, "name": "d", "legs": 0},
    {"id": 5, "name": "e", "legs": 8},
]


def test_versions_of_two_branches_become_one(fork: Repo) -> None:
    datasets = fork.datasets()
    joined = datasets.merge("pets", "pets@x")
    assert (joined.version.spec, joined.base and joined.base.spec, joined.key) == ("pets@1.0.2", "pets@1.0.0", ("id",))
    assert rows(datasets, "pets") == JOINED
    parents = {one["spec"] for one in joined.version.provenance["parents"]}
    assert parents == {"pets@1.0.1"}  # two versions have this number, one on each branch
    assert len(joined.version.provenance["parents"]) == 2


def test_both_versions_that_a_merge_of_branches_kept_become_one(fork: Repo) -> None:
    fork.merge("x")
    datasets = fork.datasets()
    joined = datasets.merge("pets@1.0.1", "pets@1.0.2")
    assert (joined.version.spec, joined.base and joined.base.spec) == ("pets@1.0.3", "pets@1.0.0")
    assert rows(datasets, "pets@1.0.3") == JOINED
    assert datasets.merge("pets@1.0.1", "pets@1.0.2").reused


def test_a_version_made_of_the_other_is_taken_as_it_is(fork: Repo) -> None:
    datasets = fork.datasets()
    datasets.read_dataset("pets@1.0.0").filter(ml.C.id > 1).save("pets")
    joined = datasets.merge("pets@1.0.0", "pets@1.0.2")
    assert joined.base and joined.base.spec == "pets@1.0.0"
    assert [row["id"] for row in rows(datasets, joined.version.spec)] == [2, 3]


def test_a_cell_that_both_changed_waits_and_nothing_is_saved(repo: Repo) -> None:
    save(repo, id=[1, 2], v=[1, 1])
    repo.branches.create("x")
    save(repo, "main", id=[1, 2], v=[2, 1])
    save(repo, "x", id=[1, 2], v=[3, 1])
    datasets = repo.datasets()
    with pytest.raises(Conflict, match="id=1: v: 2 here, 3 there") as told:
        datasets.merge("pets", "pets@x")
    assert "memlake dataset merge pets pets@x -X theirs" in told.value.hint
    assert len(datasets.versions("pets")) == 2
    joined = datasets.merge("pets", "pets@x", choices={"id=1: v": "theirs"})
    assert [row["v"] for row in rows(datasets, joined.version.spec)] == [3, 1]
    latest = datasets.merge("pets@1.0.1", "pets@x", strategy="latest")
    assert [row["v"] for row in rows(datasets, latest.version.spec)] == [3, 1]
    with pytest.raises(InvalidInput, match="not a side"):
        datasets.merge("pets", "pets@x", strategy="mine")


def test_rows_of_files_are_matched_by_their_path(repo: Repo, tmp_path: Path) -> None:
    for name in ("a.txt", "b.txt"):
        (tmp_path / "texts").mkdir(exist_ok=True)
        (tmp_path / "texts" / name).write_text(name)
    listed = repo.datasets().read_storage(str(tmp_path / "texts"))
    listed.mutate(label=ml.lit("x")).save("texts")
    repo.branches.create("x")
    repo.datasets("x").read_dataset("texts").mutate(label=ml.lit("y")).save("texts")
    joined = repo.datasets().merge("texts", "texts@x")
    assert joined.key == ("file.path",)
    found = rows(repo.datasets(), joined.version.spec)
    assert [row["label"] for row in found] == ["y", "y"]
    assert set(found[0]) == {"file", "label"}


@pytest.mark.parametrize(
    ("on", "said"), [(["nosuch"], "'nosuch', which is not a column"), (["name.x"], "'name.x', which is not")]
)
def test_a_key_that_is_not_there_is_refused(fork: Repo, on: list[str], said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        fork.datasets().merge("pets", "pets@x", on=on)


def test_without_a_version_before_both_the_rows_of_either_side_are_kept(repo: Repo) -> None:
    save(repo, dataset="a", id=[1, 2], v=["x", "y"])
    save(repo, dataset="b", id=[2, 3], v=["y", "z"])
    joined = repo.datasets().merge("a", "b")
    assert [row["id"] for row in rows(repo.datasets(), joined.version.spec)] == [1, 2, 3]
    assert "no earlier version" in joined.notes[-1]
