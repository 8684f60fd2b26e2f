"""Erasing is real: no copy of purged rows stays in what datasets keep beside the object store."""

from __future__ import annotations

import itertools
import random
import time
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from memlake.dataset.datasets import Datasets
from memlake.dataset.expressions.columns import C
from memlake.dataset.expressions.functions import func
from memlake.dataset.lineage import runs
from memlake.dataset.memo.results import KEY
from memlake.errors import Conflict, NotFound, Purged
from memlake.repo import Repo, init

SECRET = "the-words-nobody-may-find-again"


def said(folder: Path, secret: bytes = SECRET.encode()) -> list[str]:
    found = (file for file in folder.rglob("*") if file.is_file() and secret in file.read_bytes())
    return [str(file.relative_to(folder)) for file in found]


def parts_of(repo: Repo, spec: str) -> list[str]:
    ground = repo.datasets().context
    return [str(family.oid) for family in ground.frame(ground.find(spec)).families()]


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    return init(tmp_path)


def test_a_purged_part_leaves_no_copy_of_its_rows(repo: Repo) -> None:
    ds = repo.datasets()
    made = ds.read_values(text=[SECRET] * 3).map(same=lambda text: text).save("words")
    assert made.to_list("same") == [(SECRET,)] * 3
    assert said(repo.dir), "else there is nothing to erase"
    repo.upkeep.purge(*parts_of(repo, "words"), reason="asked for")
    repo.upkeep.checkpoint()
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
    repo.upkeep.purge(*parts_of(repo, "v"), reason="asked for")
    assert not (repo.dir / "index" / "columns").exists()


def test_work_goes_on_after_a_purge(repo: Repo) -> None:
    ds = repo.datasets()
    ds.read_values(text=[SECRET]).save("words")
    ds.read_values(x=[1, 2]).map(y=lambda x: x * 2).save("numbers")
    repo.upkeep.purge(*parts_of(repo, "words"), reason="asked for")
    again = repo.datasets().read_values(x=[1, 2]).map(y=lambda x: x * 2).save("numbers")
    assert (again.reused, again.to_list("y")) == (True, [(2,), (4,)])


def purged(repo: Repo, spec: str, **how: bool) -> None:
    repo.datasets().purge(spec, "leak", **how)
    repo.upkeep.checkpoint()


def test_a_purged_version_takes_its_rows_and_every_edit_of_its_record(repo: Repo) -> None:
    ds = repo.datasets()
    made = ds.read_values(text=[SECRET] * 3).save("sec", description=SECRET)
    ds.read_values(text=[SECRET] * 3).save("sec", description="harmless")
    ds.move_dataset("sec", "sac")
    assert made.version is not None
    purged(repo, "sac@1.0.0")
    assert said(repo.dir) == [] and not [file for file in (repo.dir / "parts").rglob("*") if file.is_file()]
    assert repo.upkeep.fsck(full=True).problems == ()


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
    assert (made.name, made.version) == ("sec", "1.0.1")
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
    assert said(repo.dir) == [] and list(ds.all()) == []
    with pytest.raises(Purged):
        ds.read_dataset("child@1.0.0")


def test_a_record_named_by_its_object_takes_its_rows_too(repo: Repo) -> None:
    repo.datasets().read_values(text=[SECRET]).save("sec")
    ((_, entry),) = repo.ls("HEAD", "datasets/sec/1.0.0")
    repo.upkeep.purge(entry.oid, reason="leak")
    repo.upkeep.checkpoint()
    assert said(repo.dir) == []


# -- versions made from a purged one --------------------------------------------------------------

NOISE = [random.Random(i).randbytes(48) for i in range(1000)]  # no compression hides it


def kept_rows(ds: Datasets, *names: str) -> None:
    """One dataset made from the other by a selection, which is small enough to be a copy."""
    ds.read_values(s=NOISE, x=range(1000)).save(names[0])
    for old, new in itertools.pairwise(names):
        ds.read_dataset(old).filter(C("x") % 2 == 0).save(new)


def test_versions_made_from_a_purged_one_are_named_first(repo: Repo) -> None:
    ds = repo.datasets()
    kept_rows(ds, "a", "b", "c")
    assert not set(parts_of(repo, "a")) & set(parts_of(repo, "b")), "else the parts would tell"
    with pytest.raises(Conflict, match=r"rows of a@1\.0\.0 may be rows of b@1\.0\.0, c@1\.0\.0 too\. Nothing") as met:
        purged(repo, "a")
    assert "--with-others" in met.value.hint and "--leave-derived" in met.value.hint
    assert [one.spec for one in ds.all()] == ["a@1.0.0", "b@1.0.0", "c@1.0.0"]
    assert ds.read_dataset("a").to_values("s") == NOISE


def test_a_purge_with_others_erases_what_was_made_from_it(repo: Repo) -> None:
    ds = repo.datasets()
    kept_rows(ds, "a", "b", "c")
    ds.read_values(x=[1]).save("other")
    purged(repo, "a", with_others=True)
    assert [one.spec for one in ds.all()] == ["other@1.0.0"]
    assert said(repo.dir, NOISE[0]) == [] and repo.upkeep.fsck(full=True).problems == ()


def test_a_purge_leaves_what_was_made_from_it_when_told_to(repo: Repo) -> None:
    ds = repo.datasets()
    kept_rows(ds, "a", "b")
    purged(repo, "a", leave_derived=True)
    assert [one.spec for one in ds.all()] == ["b@1.0.0"] and ds.read_dataset("b").to_values("s") == NOISE[::2]
    assert said(repo.dir, NOISE[1]) == [], "what only a held is gone all the same"


def test_shared_parts_are_not_left_with_what_was_made_from_it(repo: Repo) -> None:
    repo.datasets().read_values(s=NOISE, x=range(1000)).save("a").map(y=lambda x: x).save("b")
    with pytest.raises(Conflict, match=r"are rows of b@1\.0\.0"):
        purged(repo, "a", leave_derived=True)


def test_what_was_made_is_found_when_renamed_in_a_branch_or_only_in_history(repo: Repo) -> None:
    ds = repo.datasets()
    ds.read_values(s=NOISE, x=range(1000)).save("a")
    ds.move_dataset("a", "first")
    repo.branches.create("side")
    repo.datasets("side").read_dataset("first").filter(C("x") == 0).save("elsewhere")
    ds.read_dataset("first").filter(C("x") == 2).save("undone")
    repo.undo()
    with pytest.raises(Conflict, match=r"elsewhere@1\.0\.0, undone@1\.0\.0"):
        purged(repo, "first")
    purged(repo, "first", with_others=True)
    assert said(repo.dir, NOISE[0]) == said(repo.dir, NOISE[2]) == []


def test_nothing_remembered_of_work_over_purged_rows_is_left(repo: Repo) -> None:
    ds = repo.datasets()
    ds.read_values(s=NOISE).save("a")
    ds.read_dataset("a").map(t=lambda s: time.sleep(1e-4) or s + b"!").persist()  # a shard, a plan, rows
    assert len(ds.read_dataset("a").limit(3).to_list()) == 3  # a run
    runs.wait()
    ds.context.recall.keep_piece("ab" * 16, np.zeros(1, KEY), pa.table({"s": NOISE[:1]}), np.zeros(1, np.uint8))
    ds.context.recall._db.checkpoint()
    assert {found.partition("/")[0] for found in said(repo.dir, NOISE[0])} == {"parts", "runs", "datasets.db"}
    assert len(said(repo.dir / "parts", NOISE[0] + b"!")) == 1
    purged(repo, "a")
    assert said(repo.dir, NOISE[0]) == [] and not [file for file in (repo.dir / "parts").rglob("*") if file.is_file()]


def test_work_over_purged_rows_may_be_done_again_over_others(repo: Repo) -> None:
    ds = repo.datasets()
    work = ds.read_values(x=[1, 2]).map(y=lambda x: x * 2)
    work.persist()
    ds.read_values(s=NOISE).save("a")
    purged(repo, "a")
    assert work.save("b").to_values("y") == [2, 4], "what was only remembered has no tombstone"


def test_a_run_that_is_being_noted_is_erased_too(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    ds = repo.datasets()
    ds.read_values(s=NOISE).save("a")
    real = runs._write
    monkeypatch.setattr(runs, "_write", lambda *told: (time.sleep(0.3), real(*told)))
    ds.read_dataset("a").to_list()
    purged(repo, "a")
    runs.wait()
    assert said(repo.dir, NOISE[0]) == []


def test_a_part_that_no_row_names_is_erased_too(repo: Repo) -> None:
    repo.datasets().read_values(s=NOISE).save("a")
    stray = repo.dir / "parts" / "ab" / ("ab" * 32)
    stray.parent.mkdir(exist_ok=True)
    stray.write_bytes(NOISE[0])
    purged(repo, "a")
    assert said(repo.dir, NOISE[0]) == []


def test_a_dataset_of_which_nothing_is_left_says_when_and_why(repo: Repo) -> None:
    ds = repo.datasets()
    ds.read_values(s=["a"]).save("tx")
    ds.read_values(s=["b"]).save("tx")
    purged(repo, "tx@1.0.0")
    ds.delete_dataset("tx")
    day = f"{datetime.now(UTC):%Y-%m-%d} "
    with pytest.raises(NotFound, match="'tx' has no version that can be read") as met:
        ds.read_dataset("tx")
    assert f"1.0.0 (purged on {day}" in met.value.hint and "UTC: leak), 1.0.1 (deleted on " + day in met.value.hint


def test_what_was_made_from_purged_rows_can_be_made_from_cleaned_ones(repo: Repo) -> None:
    ds = repo.datasets()

    def made(secret: str) -> list[tuple[int]]:
        ds.read_values(s=[secret] * 9, x=range(9)).save("a")
        ds.read_dataset("a").map(y=lambda x: x * 2).save("b")
        ds.read_dataset("b").group_by(rows=func.count()).save("d")
        return ds.read_dataset("b").group_by(n=func.sum("y")).save("c").to_list()

    ds.read_values(n=[72]).save("like-c")
    before = made(SECRET)
    purged(repo, "a", with_others=True)
    assert [one.spec for one in ds.all()] == ["like-c@1.0.0"] and ds.read_dataset("like-c").to_values("n") == [72]
    assert made("clean") == before and repo.upkeep.fsck(full=True).problems == ()
