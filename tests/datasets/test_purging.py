"""Erasing is real: no copy of purged rows stays in what datasets keep beside the object store."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from memlake.datasets.expressions import C
from memlake.datasets.functions import func
from memlake.errors import Purged
from memlake.repo import Repo, init

SECRET = "the-words-nobody-may-find-again"


def said(folder: Path) -> list[str]:
    return [str(file) for file in folder.rglob("*") if file.is_file() and SECRET.encode() in file.read_bytes()]


def parts_of(repo: Repo, spec: str) -> list[str]:
    ground = repo.datasets().ground
    return [str(family.oid) for family in ground.frame(ground.find(spec)).families()]


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    return init(tmp_path)


def test_a_purged_part_leaves_no_copy_of_its_rows(repo: Repo) -> None:
    ds = repo.datasets()
    made = ds.read_values(text=[SECRET] * 3).map(same=lambda text: text).save("words")
    assert made.to_list("same") == [(SECRET,)] * 3
    assert said(repo.dir), "else there is nothing to erase"
    repo.purge(*parts_of(repo, "words"), reason="asked for")
    repo.checkpoint()
    assert said(repo.dir) == []
    with pytest.raises(Purged):
        repo.datasets().read_dataset("words").to_list()


def test_a_purge_drops_the_matrices_of_vectors(repo: Repo) -> None:
    vectors = np.random.default_rng(0).random((2000, 256), np.float32)
    column = pa.FixedSizeListArray.from_arrays(pa.array(vectors.reshape(-1)), 256)
    repo.datasets().read_arrow(pa.table({"emb": column})).save("v")
    near = repo.datasets().read_dataset("v").mutate(d=func.cosine_distance("emb", vectors[0]))
    assert near.filter(C("d") < 1e-6).count() == 1
    assert list((repo.dir / "index" / "columns").iterdir())
    repo.purge(*parts_of(repo, "v"), reason="asked for")
    assert not (repo.dir / "index" / "columns").exists()


def test_work_goes_on_after_a_purge(repo: Repo) -> None:
    ds = repo.datasets()
    ds.read_values(text=[SECRET]).save("words")
    ds.read_values(x=[1, 2]).map(y=lambda x: x * 2).save("numbers")
    repo.purge(*parts_of(repo, "words"), reason="asked for")
    again = repo.datasets().read_values(x=[1, 2]).map(y=lambda x: x * 2).save("numbers")
    assert (again.reused, again.to_list("y")) == (True, [(2,), (4,)])
