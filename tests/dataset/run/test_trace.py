"""Which rows each row came from, step by step; `tests/properties/test_row_lineage.py` tries random chains."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from memlake import C, func
from memlake.dataset.datasets import Datasets
from tests.properties import traced_plans


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Datasets]:
    monkeypatch.chdir(tmp_path)
    with traced_plans.open_tables(tmp_path) as tables:
        yield tables


def tell(data: Datasets, spec: str, where: str | None = None, **how: bool) -> list[str]:
    return data.row_lineage(spec, where, **how).to_text().splitlines()


def test_a_row_is_followed_through_versions_to_its_file(data: Datasets) -> None:
    Path("pets.csv").write_text("id,age\n1,3\n2,5\n3,9\n")
    data.read_csv("pets.csv").filter(C("age") > 3).save("old")
    data.read_dataset("old").map(twice=lambda age: age * 2).order_by("twice", descending=True).save("ranked")
    assert tell(data, "ranked", "id = 2") == [
        "ranked@1.0.0: 1 row", "row 2  (id=2, age=5, twice=10)", "└── old@1.0.0: row 1", "    └── pets.csv: row 2"
    ]  # fmt: skip


def test_an_aggregate_says_how_many_rows_and_lists_them_on_request(data: Datasets) -> None:
    data.read_values(k=[1, 1, 2]).save("d")
    data.read_dataset("d").group_by("k", n=func.count()).save("g")
    assert "└── d@1.0.0: 2 rows" in tell(data, "g", "k = 1")
    assert "└── d@1.0.0: rows 1, 2" in tell(data, "g", "k = 1", rows=True)
    (step,) = data.row_lineage("g", "k = 1").to_json()["rows"][0]["steps"]
    assert step["number"] == 2 and "rows" not in step
    (step,) = data.row_lineage("g", "k = 1", rows=True).to_json()["rows"][0]["steps"]
    assert step["rows"] == [1, 2]


def test_rows_of_a_group_that_many_rows_join_are_kept_once(data: Datasets) -> None:
    """As a list in each row of the result they would be a million numbers."""
    rows = data.read_values(id=list(range(1000))).mutate(k=C("id") * 0)
    rows.merge(rows.group_by("k", n=func.count()), on="k").save("j")
    told = data.context.frame(data.get("j")).trace
    assert told is not None and sum(family.size for family in told.families()) < 20_000
    assert tell(data, "j", "id = 5")[2] == "└── values (1,000 rows): 1,000 rows"


def test_a_random_step_is_not_guessed(data: Datasets) -> None:
    data.read_values(x=[1, 2]).mutate(r=func.rand()).save("d")
    assert "mutate r draws random values" in tell(data, "d")[2]
    data.read_values(x=list(range(99))).shuffle().limit(3).save("s")  # but a shuffle knows the number it drew
    rows = data.row_lineage("s").rows
    assert [row.steps[0].rows for row in rows] == [(row.values["x"] + 1,) for row in rows]


def test_a_window_is_said_to_look_at_other_rows(data: Datasets) -> None:
    over = func.window(partition_by="x", order_by="x")
    data.read_values(x=[1, 2]).mutate(n=func.row_number().over(over)).save("w")
    assert tell(data, "w", "x = 2")[2:] == [
        "├── values (2 rows): row 2", "└── mutate n looks at other rows too, which are not listed"
    ]  # fmt: skip


def test_rows_that_failed_are_not_counted(data: Datasets) -> None:
    chain = data.read_values(x=[0, 1, 2]).settings(on_error="skip")
    with pytest.warns(UserWarning, match="failed on 1 row"):
        chain.map(y=lambda x: 1 / x, output=float).save("d")
    assert [row.steps[0].rows for row in data.row_lineage("d").rows] == [(2,), (3,)]


def test_files_of_a_storage_are_named(data: Datasets, tmp_path: Path) -> None:
    folder = tmp_path / "photos"
    folder.mkdir()
    for name in ("a.txt", "b.txt"):
        (folder / name).write_text(name)
    data.read_storage(str(folder)).map(n=lambda file: len(file.path)).save("photos")
    data.read_dataset("photos").group_by(n=func.count()).save("all")
    assert [row.steps[0].name for row in data.row_lineage("photos").rows] == [
        f"file://{folder}/a.txt", f"file://{folder}/b.txt"
    ]  # fmt: skip
    assert len(data.row_lineage("all").rows[0].steps[0].steps) == 2


def test_work_that_is_recalled_keeps_its_trace(data: Datasets) -> None:
    data.read_csv("a.csv").map(y=lambda x: x + 1).filter(C("y") > 40).save("one")
    data.read_csv("a.csv").map(y=lambda x: x + 1).filter(C("y") > 40).save("two")
    assert tell(data, "one")[1:] == tell(data, "two")[1:]


def test_what_rests_on_a_row_is_found_in_all_versions(data: Datasets) -> None:
    data.read_values(id=[1, 2, 3]).save("d")
    data.read_dataset("d").filter(C("id") > 1).save("late")
    data.read_dataset("late").group_by(n=func.count()).save("count")
    assert tell(data, "d", "id = 3", up=False) == [
        "d@1.0.0: 1 row", "used by", "└── late@1.0.0: row 2", "    └── count@1.0.0: row 1"
    ]  # fmt: skip
    assert tell(data, "d", "id = 1", up=False) == ["d@1.0.0: 1 row", "nothing is known of what rests on it"]


def test_a_version_whose_parent_is_gone_names_its_rows(data: Datasets) -> None:
    data.read_values(id=[1, 2]).save("d")
    data.read_dataset("d").filter(C("id") > 1).save("e")
    data.purge("d", "test", leave_derived=True)
    assert tell(data, "e")[2] == "└── d@1.0.0: row 2  (no longer here)"


def test_two_versions_from_the_same_places_share_no_part(data: Datasets) -> None:
    """Else a purge of one would take their traces for rows of both."""
    for name in ("p", "q"):
        data.read_values(id=[1, 2, ord(name)]).save(name)
        data.read_dataset(name).filter(C("id") != 2).save(f"{name}_kept")
    data.purge("p_kept", "test")
    assert tell(data, "q_kept")[2] == "└── q@1.0.0: row 1"
