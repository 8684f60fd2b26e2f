"""Lineage over real repos: what provenance and `--uses` recorded, walked both ways, by column, and drawn."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import memlake
from memlake.dataset.datasets import Datasets
from memlake.errors import NotFound
from memlake.repo import Repo
from memlake.versions.lineage.graph import Lineage
from tests.dataset.telling import put

BUCKET = "s3://bucket/pets/"


@pytest.fixture
def repo(here: Path) -> Iterator[Repo]:
    with memlake.init(here) as found:
        yield found


@pytest.fixture
def datasets(repo: Repo) -> Datasets:
    """photos in a bucket -> pets (x, breed) -> embeddings (x, breed, emb) -> best (emb), which reads pets too."""
    found = repo.datasets()
    found.read_values(x=[1, 2, 3], breed=["a", "b", "c"]).save("pets")
    tell(found, "pets", storages=[{"uri": BUCKET, "content": "c", "files": 1234}],
         functions=[{"name": "breed_of", "fingerprint": "ab" * 32, "source": "..."}],
         columns={"x": [[BUCKET, "file"]], "breed": [[BUCKET, "file"]]})  # fmt: skip
    found.read_dataset("pets").mutate(emb=memlake.C("x") * 2).save("embeddings")
    made = {"x": [["pets@1.0.0", "x"]], "breed": [["pets@1.0.0", "breed"]], "emb": [["pets@1.0.0", "x"]]}
    embed = {"name": "embed", "fingerprint": "cd" * 32}
    tell(found, "embeddings", parents=[parent(found, "pets")], functions=[embed], columns=made)
    found.read_dataset("embeddings").select("emb", "breed").save("best")
    tell(found, "best", parents=[parent(found, "embeddings"), parent(found, "pets")],
         columns={"emb": [["embeddings@1.0.0", "emb"]], "breed": [["pets@1.0.0", "breed"]]})  # fmt: skip
    return found


def tell(datasets: Datasets, name: str, **provenance: Any) -> None:
    """Exactly this provenance, in the shapes a save records."""
    put(datasets, name, provenance=provenance)


def parent(datasets: Datasets, name: str) -> dict[str, str]:
    one = datasets.get(name)
    return {"spec": one.spec, "name": one.name, "version": one.version, "content": one.content}


def names(found: Lineage) -> set[str]:
    return {node.name for node in found.nodes.values()}


def arrows(found: Lineage) -> set[tuple[str, str]]:
    return {(found.nodes[edge.source].name, found.nodes[edge.target].name) for edge in found.edges}


def test_upstream_reaches_the_storage_and_the_code(datasets: Datasets) -> None:
    found = datasets.lineage("embeddings", down=False)
    assert arrows(found) == {
        (BUCKET, "pets@1.0.0"),
        ("breed_of()", "pets@1.0.0"),
        ("pets@1.0.0", "embeddings@1.0.0"),
        ("embed()", "embeddings@1.0.0"),
    }
    assert found.nodes[f"storage:{BUCKET}"].about == "1,234 files"


def test_downstream_has_what_was_made_and_not_what_else_that_read(datasets: Datasets) -> None:
    found = datasets.lineage("pets", up=False)
    assert names(found) == {"pets@1.0.0", "embeddings@1.0.0", "best@1.0.0"}
    assert ("embed()", "embeddings@1.0.0") not in arrows(found)


def test_depth_stops_after_so_many_steps(datasets: Datasets) -> None:
    assert names(datasets.lineage("best", depth=1)) == {"best@1.0.0", "embeddings@1.0.0", "pets@1.0.0"}


def test_a_column_is_followed_where_the_plan_knew_it(datasets: Datasets) -> None:
    breed = datasets.lineage("best", column="breed")
    assert arrows(breed) == {("pets@1.0.0", "best@1.0.0"), (BUCKET, "pets@1.0.0"), ("breed_of()", "pets@1.0.0")}
    emb = datasets.lineage("best", column="emb", down=False)
    assert ("embed()", "embeddings@1.0.0") in arrows(emb) and ("pets@1.0.0", "best@1.0.0") not in arrows(emb)
    down = datasets.lineage("pets", column="x", up=False)
    assert {edge.columns for edge in down.edges} == {(("x", "x"), ("x", "emb")), (("emb", "emb"),)}


def test_behind_a_step_that_knew_no_columns_all_of_them_are_followed(datasets: Datasets) -> None:
    tell(datasets, "embeddings", parents=[parent(datasets, "pets")])
    assert (BUCKET, "pets@1.0.0") in arrows(datasets.lineage("best", column="emb"))


def test_an_unknown_column_is_refused_by_name(datasets: Datasets) -> None:
    with pytest.raises(NotFound, match="no column 'colour'"):
        datasets.lineage("pets", column="colour")


def test_a_renamed_parent_is_found_by_its_content(datasets: Datasets) -> None:
    datasets.move_dataset("pets", "animals")
    assert ("animals@1.0.0", "embeddings@1.0.0") in arrows(datasets.lineage("embeddings"))
    datasets.move_dataset("embeddings", "vectors")
    assert {("animals@1.0.0", "vectors@1.0.0"), ("vectors@1.0.0", "best@1.0.0")} <= arrows(datasets.lineage("best"))


def test_a_deleted_parent_stays_in_the_picture_and_is_called_so(datasets: Datasets) -> None:
    datasets.delete_dataset("pets")
    assert datasets.lineage("embeddings").nodes["dataset:pets@1.0.0"].about.endswith("deleted")


def test_a_parent_that_was_never_here_is_drawn_as_gone(datasets: Datasets) -> None:
    gone = {"spec": "raw@2.0.0", "name": "raw", "version": "2.0.0", "content": "?"}
    tell(datasets, "pets", parents=[gone])
    assert datasets.lineage("pets").nodes["dataset:raw@2.0.0"].about == "no longer here"


def test_files_declared_by_uses_are_drawn_to_the_end(repo: Repo, datasets: Datasets, here: Path) -> None:
    for name, uses in (("model.bin", ["datasets/best/1.0.0"]), ("report.html", ["model.bin"])):
        (here / name).write_text(name, encoding="utf-8")
        repo.add(name)
        repo.commit(name, uses=uses)
    found = arrows(datasets.lineage("pets"))
    assert {("best@1.0.0", "model.bin"), ("model.bin", "report.html")} <= found


def test_a_file_of_the_repo_that_was_read_is_the_one_its_commits_tell_of(repo: Repo, here: Path) -> None:
    for name, uses in (("raw.txt", []), ("labels.csv", ["raw.txt"])):
        (here / name).write_text(f"{name}\n1\n", encoding="utf-8")
        repo.add(name)
        repo.commit(name, uses=uses)
    datasets = repo.datasets()
    chain = datasets.read_csv("labels.csv")
    assert arrows(chain.lineage()) == {("labels.csv", "this chain"), ("raw.txt", "labels.csv")}
    chain.save("labels")
    found = arrows(datasets.lineage("labels"))
    assert {("labels.csv", "labels@1.0.0"), ("raw.txt", "labels.csv")} <= found and len(found) <= 3


def test_what_saves_record_themselves_is_walked_by_column(repo: Repo, here: Path) -> None:
    """No provenance put in by hand: a storage, a function, a join and values, as a script would write it."""
    (here / "photos").mkdir()
    for name in "ab":
        (here / "photos" / f"{name}.jpg").write_text(name, encoding="utf-8")

    def stem(file: memlake.File) -> str:
        return file.path[-5]

    datasets = repo.datasets()
    datasets.read_storage("photos").map(name=stem).save("photos")
    ages = datasets.read_values(name=["a", "b"], age=[3, 4])
    joined = datasets.read_dataset("photos").merge(ages, on="name")
    joined.save("aged")
    storage = next(name for name in names(datasets.lineage("aged")) if name.endswith("/photos"))
    age = arrows(datasets.lineage("aged", column="age", down=False))
    assert age and not any("photos" in source for source, _ in age)
    path = arrows(datasets.lineage("aged", column="file", down=False))
    assert {("photos@1.0.0", "aged@1.0.0"), (storage, "photos@1.0.0")} <= path
    assert ("stem()", "photos@1.0.0") not in path and ("stem()", "photos@1.0.0") in arrows(datasets.lineage("photos"))
    assert arrows(joined.lineage(column="age")) and not any(
        "photos" in s for s, _ in arrows(joined.lineage(column="age"))
    )


def test_many_files_of_rows_are_drawn_as_one(repo: Repo, here: Path) -> None:
    (here / "rows").mkdir()
    for number in range(12):
        (here / "rows" / f"{number:02}.csv").write_text("x\n1\n", encoding="utf-8")
    repo.datasets().read_csv("rows").save("rows")
    (one,) = [node for node in repo.datasets().lineage("rows").nodes.values() if node.kind == "file"]
    assert one.about == "12 files"


def test_a_chain_that_was_not_saved_tells_what_it_reads_and_calls(datasets: Datasets) -> None:
    def doubled(x: int) -> int:
        return x * 2

    chain = datasets.read_dataset("pets").map(y=doubled)
    found = arrows(chain.lineage())
    assert {("pets@1.0.0", "this chain"), ("doubled()", "this chain"), (BUCKET, "pets@1.0.0")} <= found
    assert datasets.read_dataset("pets").lineage().root == "dataset:pets@1.0.0"


def test_a_version_that_recorded_nothing_says_so(repo: Repo) -> None:
    repo.datasets().read_values(x=[1]).save("bare")
    tell(repo.datasets(), "bare", parents=None, storages=None, origins=None, functions=None, source=None, columns=None)
    assert "nothing is known" in str(repo.datasets().lineage("bare"))


# -- drawn


def test_the_tree_says_each_thing_once(datasets: Datasets) -> None:
    lines = datasets.lineage("best").to_text().splitlines()
    assert lines[0] == "best@1.0.0  (3 rows, 2 columns)"
    assert lines[1:3] == ["made from", "├── embeddings@1.0.0  (3 rows, 3 columns)  [emb]"]
    assert sum(BUCKET in line for line in lines) == 1
    assert lines[-1] == "└── pets@1.0.0  (3 rows, 2 columns)  [breed]  (see above)"


def test_json_names_every_end_of_every_edge(datasets: Datasets) -> None:
    told = datasets.lineage("pets").to_json()
    ids = {node["id"] for node in told["nodes"]}
    assert told["root"] in ids and all({edge["source"], edge["target"]} <= ids for edge in told["edges"])


def test_a_storage_has_the_files_that_the_version_was_made_of(repo: Repo, tmp_path: Path) -> None:
    folder = tmp_path / "photos"
    folder.mkdir()
    for name in "abc":
        (folder / name).write_text(name, encoding="utf-8")
    data = repo.datasets()
    data.read_storage(str(folder)).save("l")
    for file in folder.iterdir():
        file.unlink()
    data.read_storage(str(folder)).save("l")
    told = [
        [node.about for node in data.lineage(spec).nodes.values() if node.kind == "storage"]
        for spec in ("l@1.0.0", "l@1.0.1")
    ]
    assert told == [["3 files"], ["0 files"]]
