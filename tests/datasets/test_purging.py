"""Erasing is real: no copy of purged rows stays in what datasets keep beside the object store."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from memlake.datasets.expressions.expressions import C
from memlake.datasets.expressions.functions import func
from memlake.errors import Conflict, Purged
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


def purged(repo: Repo, spec: str, **how: bool) -> None:
    repo.datasets().purge(spec, "leak", **how)
    repo.checkpoint()


def test_a_purged_version_takes_its_rows_and_every_edit_of_its_record(repo: Repo) -> None:
    ds = repo.datasets()
    made = ds.read_values(text=[SECRET] * 3).save("sec", description=SECRET)
    ds.read_values(text=[SECRET] * 3).save("sec", description="harmless")
    ds.move_dataset("sec", "sac")
    assert made.version is not None
    purged(repo, "sac@1.0.0")
    assert said(repo.dir) == [] and not [file for file in (repo.dir / "parts").rglob("*") if file.is_file()]
    assert repo.fsck(full=True).problems == ()


def test_after_a_purge_all_else_is_listed_saved_and_read(repo: Repo) -> None:
    ds = repo.datasets()
    ds.read_values(x=[1, 2]).save("other").map(y=lambda x: x).save("child")
    ds.read_values(text=[SECRET]).save("sec")
    purged(repo, "sec")
    assert [one.spec for one in ds.all()] == ["child@1.0.0", "other@1.0.0"]
    assert "other@1.0.0" in ds.lineage("child").to_text()
    with pytest.raises(Purged, match=r"'sec'.*leak"):
        ds.read_dataset("sec@1.0.0")
    made = ds.read_values(text=["clean"]).save("sec")
    assert made.version is not None and made.version.spec == "sec@1.0.1"
    assert ds.read_dataset("sec").to_list() == [("clean",)]
    assert ds.move_dataset("sec", "sac") == ["sac@1.0.1"]
    assert ds.delete_dataset("sac") == ["sac@1.0.1"]


def test_rows_that_others_share_are_erased_only_when_that_is_said(repo: Repo) -> None:
    ds = repo.datasets()
    ds.read_values(text=[SECRET], n=[1]).save("sec")
    ds.read_dataset("sec").map(m=lambda n: n).save("child")
    with pytest.raises(Conflict, match=r"rows of sec@1\.0\.0 are rows of child@1\.0\.0 too\. Nothing was erased"):
        purged(repo, "sec")
    assert ds.read_dataset("sec").count() == 1
    purged(repo, "sec", with_others=True)
    assert said(repo.dir) == []
    assert [one.spec for one in ds.all()] == ["child@1.0.0"]
    with pytest.raises(Purged):
        ds.read_dataset("child").to_list("text")


def test_a_record_named_by_its_object_takes_its_rows_too(repo: Repo) -> None:
    repo.datasets().read_values(text=[SECRET]).save("sec")
    ((_, entry),) = repo.ls("HEAD", "datasets/sec/1.0.0")
    repo.purge(entry.oid, reason="leak")
    repo.checkpoint()
    assert said(repo.dir) == []
