"""Saves: which version they make, what a name means when it is read, and what they leave as it was."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

import memlake as ml
from memlake.dataset import save
from memlake.dataset.chain import Chain
from memlake.dataset.datasets import Datasets
from memlake.dataset.lineage import process_facts
from memlake.errors import Conflict
from memlake.repo import Repo

C = ml.C


@pytest.fixture
def repo(tmp_path: Path) -> Iterator[Repo]:
    with ml.init(tmp_path) as opened:
        yield opened


@pytest.fixture
def ds(repo: Repo) -> Datasets:
    return repo.datasets()


def saved(ds: Datasets, number: int, **how: object) -> Chain:
    return ds.read_values(x=[number]).save("pets", **how)  # type: ignore[arg-type]


def told(chain: Chain) -> str:
    assert chain.version is not None
    return chain.version


def test_the_version_of_a_chain_is_what_read_dataset_takes(ds: Datasets) -> None:
    first, second = saved(ds, 1), saved(ds, 2)
    assert (first.name, first.version, second.version) == ("pets", "1.0.0", "1.0.1")
    assert ds.read_dataset("pets", first.version).to_values("x") == [1]
    assert ds.read_values(x=[1]).version is None


# -- numbers ---------------------------------------------------------------------------------------


def test_versions_count_up_by_patch_minor_major_or_as_told(ds: Datasets) -> None:
    made = [
        saved(ds, 1),
        saved(ds, 2),
        saved(ds, 3, update_version="minor"),
        saved(ds, 4, update_version="major"),
        saved(ds, 5, version="7.1.0"),
        saved(ds, 6),
    ]
    assert [told(one) for one in made] == ["1.0.0", "1.0.1", "1.1.0", "2.0.0", "7.1.0", "7.1.1"]
    assert [one.version for one in ds.versions("pets")] == [told(one) for one in made]


def test_the_same_rows_are_not_stored_twice_and_it_says_so(ds: Datasets, repo: Repo) -> None:
    first = saved(ds, 1)
    head = repo.head
    again = saved(ds, 1)
    assert (first.reused, again.reused, told(again)) == (False, True, "1.0.0")
    assert repo.head == head
    assert saved(ds, 2).reused is False
    assert saved(ds, 1).reused is False  # the newest is another by now


def test_a_version_asked_for_by_number_is_reused_when_it_holds_the_same_rows(ds: Datasets) -> None:
    assert saved(ds, 1, version="3.0.0").reused is False
    assert saved(ds, 1, version="3.0.0").reused is True
    with pytest.raises(ml.errors.AlreadyExists, match=r"pets@3\.0\.0 exists already"):
        saved(ds, 2, version="3.0.0")
    assert [one.version for one in ds.versions("pets")] == ["3.0.0"]


def test_a_bump_that_is_asked_for_is_made_of_the_same_rows_too(ds: Datasets) -> None:
    saved(ds, 1)
    assert told(saved(ds, 1, update_version="minor")) == "1.1.0"
    assert len({one.content for one in ds.versions("pets")}) == len({one.manifest for one in ds.versions("pets")}) == 1


def test_descriptions_attrs_and_tags_apply_without_a_new_version(ds: Datasets) -> None:
    saved(ds, 1, description="old", attrs=["a"], tags=["t"])
    again = saved(ds, 1, description="new", attrs=["b", "c"])
    assert again.record is not None
    assert again.reused
    assert (again.record.description, again.record.attrs, again.record.tags) == ("new", ("b", "c"), ("t",))
    assert saved(ds, 1, attrs=[]).record.attrs == ()  # type: ignore[union-attr]
    assert len(ds.versions("pets")) == 1


def test_attrs_go_on_to_the_next_version_unless_others_are_given(ds: Datasets) -> None:
    saved(ds, 1, attrs=["a"], description="first")
    second, third = saved(ds, 2).record, saved(ds, 3, attrs=[]).record
    assert second is not None
    assert third is not None
    assert (second.attrs, second.description, third.attrs) == (("a",), "", ())


def test_the_class_of_values_is_part_of_what_is_saved(ds: Datasets, tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "a.txt").write_text("a")
    assert ds.read_storage(tmp_path / "d").save("files").reused is False
    assert ds.read_storage(tmp_path / "d", type="text").save("files").reused is False


# -- names -----------------------------------------------------------------------------------------


def test_a_name_means_the_newest_a_number_a_range_or_a_place_in_history(ds: Datasets, repo: Repo) -> None:
    saved(ds, 1)
    commit = repo.head
    moment = datetime.now(UTC).isoformat()
    time.sleep(0.01)
    repo.branches.create("old")
    saved(ds, 2, update_version="minor")
    saved(ds, 3, version="2.0.0")
    specs = {
        "pets": 3,
        "pets@1.0.0": 1,
        "pets@v1.1.0": 2,
        "pets@1": 2,
        "pets@1.0": 1,
        "pets@>=1,<2": 2,
        "pets@^1.0": 2,
        "pets@<1.1": 1,
        "pets@!=2.0.0": 2,
        "pets@old": 1,
        "pets@main": 3,
        "pets@main~2": 1,
        f"pets@{commit}": 1,
    }
    assert {spec: ds.read_dataset(spec).to_values("x") for spec in specs} == {s: [x] for s, x in specs.items()}
    assert ds.read_dataset("pets", version=1).to_values("x") == [2]
    assert ds.read_dataset("pets", version=">=2").to_values("x") == [3]
    assert ds.read_dataset("pets", as_of=moment).to_values("x") == [1]
    assert ds.read_dataset("pets", branch="old").to_values("x") == [1]


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ("pets@9", "no version 9"),
        ("pets@", "does not name a version"),
        ("pest", "mean 'pets'"),
        ("pets@nowhere", "nowhere"),
        ("pets@>=3", "It has: 1.0.0"),
    ],
)
def test_a_name_that_means_nothing_says_what_is_there(ds: Datasets, spec: str, says: str) -> None:
    saved(ds, 1)
    with pytest.raises(ml.Error) as caught:
        ds.read_dataset(spec)
    assert says in str(caught.value)


def test_deleted_versions_are_passed_over_kept_counted_and_restored(ds: Datasets) -> None:
    saved(ds, 1)
    saved(ds, 2)
    assert ds.delete_dataset("pets@1.0.1") == ["pets@1.0.1"]
    assert ds.read_dataset("pets").to_values("x") == [1]
    with pytest.raises(ml.errors.NotFound):
        ds.read_dataset("pets@1.0.1")
    assert told(saved(ds, 2)) == "1.0.2"  # a number is never used twice
    with pytest.raises(ml.errors.InvalidInput, match=r"2 versions\. Nothing was deleted"):
        ds.delete_dataset("pets")
    assert ds.delete_dataset("pets", all_versions=True) == ["pets@1.0.0", "pets@1.0.2"]
    assert ds.all() == []
    assert ds.restore_dataset("pets@1.0.0") == ["pets@1.0.0"]
    assert ds.restore_dataset("pets") == ["pets@1.0.1", "pets@1.0.2"]
    assert ds.read_dataset("pets@1.0.1").to_values("x") == [2]
    with pytest.raises(ml.errors.Nothing):
        ds.restore_dataset("pets")


def test_a_dataset_moves_with_all_versions_in_one_commit(ds: Datasets, repo: Repo) -> None:
    saved(ds, 1)
    saved(ds, 2)
    ds.read_values(x=[9]).save("taken")
    with pytest.raises(ml.errors.AlreadyExists, match="taken"):
        ds.move_dataset("pets", "taken")
    before = len(list(repo.log()))
    assert ds.move_dataset("pets", "team.cats") == ["team.cats@1.0.0", "team.cats@1.0.1"]
    assert len(list(repo.log())) == before + 1
    assert ds.read_dataset("team.cats@1.0.0").to_values("x") == [1]
    with pytest.raises(ml.errors.NotFound):
        ds.read_dataset("pets")


def test_namespaces_are_free_and_nothing_has_to_be_made_first(ds: Datasets) -> None:
    ds.read_values(x=[1]).save("a.b.c")
    made = ds.read_values(x=[2]).settings(namespace="team").save("pets")
    assert made.name == "team.pets"
    assert [one.name for one in ds.all()] == ["a.b.c", "team.pets"]


# -- what a save leaves as it was ------------------------------------------------------------------


def test_a_save_is_one_commit_and_leaves_stage_and_files_alone(ds: Datasets, repo: Repo, tmp_path: Path) -> None:
    saved(ds, 0)
    (tmp_path / "staged.txt").write_text("staged")
    (tmp_path / "loose.txt").write_text("loose")
    repo.add("staged.txt")
    before = repo.status()
    commits = len(list(repo.log()))
    saved(ds, 1)
    assert len(list(repo.log())) == commits + 1
    assert repo.status()._replace(head=before.head) == before
    assert (tmp_path / "loose.txt").read_text() == "loose"
    repo.commit("the staged file")
    assert repo.read("files/staged.txt") == b"staged"
    assert ds.read_dataset("pets").to_values("x") == [1]


def test_a_save_on_a_named_branch_is_not_seen_on_the_other(ds: Datasets, repo: Repo) -> None:
    saved(ds, 1)
    repo.branches.create("side")
    side = repo.datasets("side")
    side.read_values(x=[2]).save("pets")
    assert (side.read_dataset("pets").to_values("x"), ds.read_dataset("pets").to_values("x")) == ([2], [1])


def test_saves_in_a_transaction_are_one_commit_and_see_each_other(ds: Datasets, repo: Repo) -> None:
    saved(ds, 0)
    commits = len(list(repo.log()))
    with repo.transaction("several"):
        assert told(saved(ds, 1)) == "1.0.1"
        assert told(saved(ds, 2)) == "1.0.2"
        assert saved(ds, 2, description="edited").reused
        assert ds.read_dataset("pets").to_values("x") == [2]
    assert len(list(repo.log())) == commits + 1
    assert [(one.version, one.description) for one in ds.versions("pets")][1:] == [("1.0.1", ""), ("1.0.2", "edited")]


def test_a_transaction_that_fails_leaves_no_version(ds: Datasets, repo: Repo) -> None:
    def fail() -> None:
        with repo.transaction("both"):
            saved(ds, 2)
            raise ZeroDivisionError

    saved(ds, 1)
    with pytest.raises(ZeroDivisionError):
        fail()
    assert [one.version for one in ds.versions("pets")] == ["1.0.0"]


def test_derived_datasets_store_only_what_is_new(ds: Datasets) -> None:
    texts = [random.Random(i).randbytes(20).hex() for i in range(50_000)]
    whole = ds.read_values(x=range(50_000), s=texts).save("whole").record
    kept = ds.read_dataset("whole").filter(C("x") % 2 == 0).save("kept").record
    more = ds.read_dataset("whole").map(y=lambda x: x + 1).save("more").record
    assert whole is not None
    assert kept is not None
    assert more is not None
    one, two, three = (ds.context.frame(version).fragments[0] for version in (whole, kept, more))
    assert two.families == one.families
    assert two.kept is not None
    assert three.families[:-1] == one.families
    assert three.families[-1].columns == ("y",)


def test_equal_rows_in_other_fragments_are_no_new_version(repo: Repo) -> None:
    ds = repo.datasets()
    noise = [random.Random(i).randbytes(20).hex() for i in range(20_000)]  # too much to be copied by a filter
    first = ds.read_values(x=list(range(20_000)), s=noise).save("whole")
    kept = ds.read_dataset("whole").filter(C("x") < 15_000).save("some")
    assert any(fragment.kept for fragment in ds.context.frame(ds.context.find("some")).fragments)
    copied = ds.read_arrow(kept.to_arrow()).save("some")
    assert (copied.reused, copied.version) == (True, "1.0.0")
    other = ds.read_arrow(kept.to_arrow().slice(1)).union(ds.read_arrow(first.to_arrow().slice(19_999))).save("some")
    assert other.reused is False


# -- taking back, and configurations --------------------------------------------------------------


def test_undo_of_a_save_takes_its_metrics_and_params_along(ds: Datasets, repo: Repo) -> None:
    saved(ds, 1)
    process_facts.forget()
    saved(ds, 2)
    for number in range(3):
        ml.metrics.set("accuracy", number)
    ml.param("rate", 0.5)
    process_facts.forget()
    repo.undo()
    assert [one.version for one in ds.versions("pets")] == ["1.0.0"]
    repo.redo()
    assert (ds.get("pets").version, ds.get("pets").metrics, ds.get("pets").params) == (
        "1.0.1", {"accuracy": 2}, {"rate": 0.5},
    )  # fmt: skip
    repo.undo()
    repo.undo()
    assert ds.all() == []


def test_a_number_that_was_taken_back_is_not_given_to_other_rows(ds: Datasets, repo: Repo) -> None:
    ds.read_values(x=[1]).save("pets")
    ds.read_values(x=[2]).save("pets")
    repo.undo()
    repo.undo()
    assert ds.read_values(x=[5]).save("pets").version == "1.0.2", "1.0.0 and 1.0.1 said something else"
    repo.undo()
    assert ds.read_values(x=[5]).save("pets").version == "1.0.2", "the same rows get the number that they had"
    assert ds.read_values(x=[3]).save("pets").version == "1.0.3"
    assert ds.read_values(x=[3]).save("other").version == "1.0.0"
    assert ds.read_values(x=[4]).save("pets", version="1.0.0").version == "1.0.0", "who names a number means it"


def test_a_number_is_free_where_it_was_not_taken_back(ds: Datasets, repo: Repo) -> None:
    ds.read_values(x=[0]).save("pets")
    repo.branches.create("other")
    ds.read_values(x=[1]).save("pets")
    repo.undo()
    repo.switch("other")
    assert ds.read_values(x=[2]).save("pets").version == "1.0.1", "branches number by themselves"
    repo.switch("main")
    assert ds.read_values(x=[2]).save("pets", update_version="minor").version == "1.1.0"


def test_undo_of_a_save_refuses_where_another_edited_it(ds: Datasets, repo: Repo) -> None:
    saved(ds, 1)
    with ml.open(repo.root) as other:
        save.edit(other.datasets().context, ds.get("pets"), {"description": "theirs"}, undoable=True)
        other._local.db.run("DELETE FROM operation WHERE verb = 'edit'")  # as if from another checkout
    with pytest.raises(Conflict, match="changed again"):
        repo.undo()


def test_each_configuration_stands_also_when_the_rows_are_the_same(ds: Datasets) -> None:
    for rate in (0.1, 0.3, 0.3):
        process_facts.forget()
        process_facts.tell_param("lr", {"value": rate, "type": "float", "from": "command line"})
        made = saved(ds, 1)
        ml.metrics.set("acc", rate * 2)
    process_facts.forget()
    assert made.reused is True
    assert [(one["version"], one["params"]["lr"], one["metrics"]["acc"]) for one in ds.compare("pets")] == [
        ("1.0.0", 0.1, 0.2), ("1.0.1", 0.3, 0.6),
    ]  # fmt: skip
    assert len({one.manifest for one in ds.versions("pets")}) == 1


# -- names that mislead ----------------------------------------------------------------------------


def test_a_branch_whose_name_looks_like_a_version_is_found(ds: Datasets, repo: Repo) -> None:
    saved(ds, 1)
    repo.branches.create("v2")
    saved(repo.datasets("v2"), 7)
    saved(ds, 3, version="3.0.0")
    assert ds.read_dataset("pets@v2").to_list() == [(7,)]
    assert ds.read_dataset("pets@v3").to_list() == [(3,)]
    with pytest.raises(ml.errors.NotFound, match="has no version v4"):
        ds.read_dataset("pets@v4")


def test_what_looks_like_a_number_is_a_version_then_a_branch_then_a_tag(ds: Datasets, repo: Repo) -> None:
    saved(ds, 1)
    repo.tags.create("v2")
    repo.tags.create("v3")
    saved(ds, 2)
    assert told(ds.read_dataset("pets@v2")) == told(ds.read_dataset("pets", "v2")) == "1.0.0"
    repo.branches.create("v2")
    assert told(ds.read_dataset("pets@v2")) == "1.0.1"
    saved(ds, 3, update_version="major")
    assert told(ds.read_dataset("pets@v2")) == "2.0.0" and told(ds.read_dataset("pets@v3")) == "1.0.0"
    with pytest.raises(ml.errors.NotFound, match="no version v4"):
        ds.read_dataset("pets@v4")


def test_an_id_of_digits_alone_is_a_commit_where_no_version_has_that_number(ds: Datasets, repo: Repo) -> None:
    saved(ds, 1)
    commits = (repo.write({"files/n": str(number)}, "next").oid for number in range(1000))
    digits = next(oid[:7] for oid in commits if oid[:7].isdigit())  # about one in thirty is
    saved(ds, 2)
    assert told(ds.read_dataset(f"pets@{digits}")) == "1.0.0"
    saved(ds, 3, version=digits)
    assert told(ds.read_dataset(f"pets@{digits}")) == f"{int(digits)}.0.0"


def test_a_time_before_a_dataset_is_said_to_be_too_early(ds: Datasets, repo: Repo) -> None:
    repo.write({"files/a.txt": b"a"}, "first")
    saved(ds, 1)
    head = f"{repo.head}~1"
    with pytest.raises(ml.errors.NotFound, match="there is no dataset 'pets' at ") as told:
        ds.read_dataset(f"pets@{head}")
    assert told.value.hint is not None
    assert "pets@1.0.0 was saved on 20" in told.value.hint and "Did you mean" not in told.value.hint


def test_a_column_with_a_dot_in_its_name_is_refused_where_it_is_made(ds: Datasets) -> None:
    with pytest.raises(ml.errors.InvalidInput, match=r"'a\.b' cannot be the name of a column"):
        ds.read_values(x=[1]).map(**{"a.b": lambda x: x})
