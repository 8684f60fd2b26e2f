"""diff: what it tells of the insides of files, as lines and as JSON."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from tests.cli.conftest import Run

OLD = "id,name,price\n1,cat,3\n2,dog,4\n3,cow,5\n"
NEW = "id,name,price,legs\n1,cat,3.5,4\n2,dog,4,4\n4,hen,1,2\n"


@pytest.fixture
def pets(repo: Path, run: Run) -> Path:
    """A committed table with edits that are not staged."""
    (repo / "pets.csv").write_text(OLD)
    run("add", "pets.csv")
    run("commit", "-m", "one")
    (repo / "pets.csv").write_text(NEW)
    return repo / "pets.csv"


def test_a_table_is_told_by_columns_rows_and_cells(pets: Path, run: Run) -> None:
    assert run("diff").lines[2:] == [
        "column + legs: string",
        "3 rows: 1 added, 1 removed, 1 changed (matched by id, which is unique on both sides)",
        "changed cells: price 1",
        "  ~ id=1: price 3 -> 3.5",
        "  + id=4 name=hen price=1 legs=2",
        "  - id=3 name=cow price=5",
    ]
    assert run("diff", "--text").lines[2:5] == ["--- a/pets.csv", "+++ b/pets.csv", "@@ -1,4 +1,4 @@"]
    assert run("diff", "--rows", "0").lines[-1] == "changed cells: price 1"


def test_the_key_that_is_given_is_used(pets: Path, run: Run) -> None:
    assert "(matched by name)" in run("diff", "--key", "name").out
    assert run("diff", "--key", "nome", code=2).err.startswith("error: rows cannot be matched by 'nome', which is not")


def test_json_holds_the_record_of_the_diff(pets: Path, run: Run) -> None:
    inside = run("diff", "--json").json["changes"][0]["inside"]
    assert (inside["type"], inside["note"], inside["record"]["cells"]) == ("table", "", {"price": 1})
    assert inside["record"]["rows"][0] == {
        "status": "M",
        "row": {"id": "1"},
        "cells": {"price": ["3", "3.5"]},
    }


def test_a_table_that_is_only_written_differently_is_said_to_be_the_same(pets: Path, run: Run) -> None:
    pets.write_text(OLD.replace("cat", '"cat"'))
    assert run("diff").lines[2:4] == [
        "note: it holds the same table, and is only written differently",
        "--- a/pets.csv",
    ]


def test_what_is_not_a_table_is_compared_by_lines_and_that_is_said(pets: Path, run: Run) -> None:
    pets.write_text("id,name\n1,2,3\n")
    lines = run("diff").lines
    assert lines[2].startswith("note: pets.csv cannot be read as a table: CSV parse error")
    assert "+1,2,3" in lines


def test_stored_parquet_is_compared_between_commits(repo: Path, run: Run) -> None:
    for number in (1, 2):
        pq.write_table(pa.table({"id": range(5000), "x": [number] * 5000}), repo / "t.parquet", row_group_size=1000)
        run("add", "t.parquet")
        run("commit", "-m", f"commit {number}")
    assert run("diff", "HEAD~1", "HEAD", "-n", "1").lines[2:] == [
        "5,000 rows: 5,000 changed (matched by id, which is unique on both sides)",
        "changed cells: x 5,000",
        "  ~ id=0: x 1 -> 2",
        "  ... and 4,999 more",
    ]
    assert run("show", "--stat").lines[-2] == " t.parquet | 5,000 rows: 5,000 changed"


def test_a_table_without_a_key_is_compared_as_whole_rows(pets: Path, run: Run) -> None:
    pets.write_text("id,name,price\n1,cat,3\n1,cat,3\n")
    assert run("diff").lines[2:] == [
        "3 -> 2 rows: 1 added, 2 removed (compared as whole rows, in any order)",
        "  + id=1 name=cat price=3",
        "  - id=2 name=dog price=4",
        "  - id=3 name=cow price=5",
    ]
    pets.write_text("")
    assert run("diff").lines[2:4] == ["column - id: string", "column - name: string"]


def test_json_has_words_for_every_value(repo: Path, run: Run) -> None:
    for number in (1.0, float("nan")):
        table = pa.table({"id": [1], "v": [number], "day": pa.array([1], pa.date32()), "raw": [b"\x00"]})
        pq.write_table(
            table.append_column("when", pa.array([int(number == 1)], pa.timestamp("us"))), repo / "t.parquet"
        )
        run("add", "t.parquet")
        run("commit", "-m", "one")
    (change,) = run("diff", "HEAD~1", "HEAD", "--json").json["changes"]
    assert change["inside"]["record"]["rows"][0]["cells"]["v"] == [1.0, "NaN"]


def test_the_ids_of_vectors_are_taken_from_the_commit_of_each_side(repo: Path, run: Run) -> None:
    matrix, ids = np.eye(20, 9, dtype="f4") + 1, [f"e{number}" for number in range(20)]
    np.save(repo / "v.npy", matrix)
    (repo / "v.ids.txt").write_text("\n".join(ids) + "\n")
    run("add", ".")
    run("commit", "-m", "one")
    np.save(repo / "v.npy", matrix[::-1][1:])
    (repo / "v.ids.txt").write_text("\n".join(ids[::-1][1:]) + "\n")
    said = "20 -> 19 vectors: 1 removed, 19 unchanged (matched by v.ids.txt)"
    assert run("diff", "v.npy").lines[2:] == [said, "  - e19"]
    run("commit", "-am", "two")
    for line in (["HEAD~1", "HEAD"], ["HEAD~1..HEAD"], ["HEAD~1:v.npy", "HEAD:v.npy"], ["HEAD~1"]):
        assert said in run("diff", *line).lines, line
    assert said in run("show", "HEAD").lines
    assert said in run("diff", "HEAD~1...HEAD", "v.npy").lines


def test_a_plot_is_drawn_of_the_one_file_that_differs(pets: Path, repo: Path, run: Run) -> None:
    np.save(repo / "v.npy", np.eye(20, 9, dtype="f4") + 1)
    run("add", "v.npy")
    np.save(repo / "v.npy", np.eye(20, 9, dtype="f4") + 2)
    assert run("diff", "--plot", "p.svg", "v.npy").lines[2].startswith("20 vectors: 20 moved")
    assert (repo / "p.svg").read_bytes().startswith(b"<?xml")
    for line, said in (
        (("p.svg",), "a plot shows one file, but 2 differ: pets.csv, v.npy"),
        (("p.svg", "pets.csv"), "pets.csv cannot be drawn, because no column of vectors differs in it"),
        (("p.gif", "v.npy"), "a plot is written as .svg or .png, not as 'p.gif'"),
    ):
        assert said in run("diff", "--plot", *line, code=128).err
    (repo / "a.txt").write_text("one")
    run("add", "a.txt")
    (repo / "a.txt").write_text("two")
    assert (
        "a.txt cannot be drawn: memlake draws embeddings and images"
        in run("diff", "--plot", "p.svg", "a.txt", code=128).err
    )
    run("diff", "--plot", "p.svg", "--cached", "--", "pets.csv", code=1)


def test_a_plot_replaces_neither_a_tracked_file_nor_one_that_is_compared(repo: Path, run: Run) -> None:
    (repo / "sub").mkdir()
    for name in ("i.png", "sub/j.png"):
        Image.new("RGB", (8, 8), "red").save(repo / name)
    run("add", ".")
    for name in ("i.png", "sub/j.png", "own.png"):
        Image.new("RGB", (8, 8), "blue").save(repo / name)
    (repo / "link.png").symlink_to("sub/j.png")
    blue = (repo / "i.png").read_bytes()
    for target in ("i.png", "sub/j.png", "sub/../i.png", str(repo / "i.png"), "link.png"):
        said = run("diff", "--plot", target, "i.png", code=128).err
        assert "is tracked in this repo, and the plot would replace it. Nothing was written." in said, target
        assert "Name another file" in said
    assert "own.png is compared here" in run("diff", ":i.png", "own.png", "--plot", "own.png", code=128).err
    assert {(repo / name).read_bytes() for name in ("i.png", "sub/j.png", "own.png")} == {blue}
    run("diff", "--plot", "own.png", "i.png")
    assert (repo / "own.png").read_bytes() != blue


def test_a_key_that_no_table_has_is_refused_with_the_columns_that_exist(
    run: Run, repo: Path, keep: Callable[..., str]
) -> None:
    keep("base", **{"a.csv": "name,price\ntea,1\nmilk,2\n", "b.csv": "other,price\n1,1\n2,2\n", "p.json": "[1]\n"})
    for name in ("a.csv", "b.csv"):
        (repo / name).write_text((repo / name).read_text().replace("2\n", "3\n"))
    (repo / "p.json").write_text("[2]\n")
    told = run("diff", "--key", "nmae", "a.csv", code=2)
    assert (
        "cannot be matched by 'nmae'" in told.err
        and "Did you mean 'name'? Columns of both are name, price." in told.err
    )
    assert "cannot be matched by 'nmae'" in run("diff", "--key", "nmae", "--json", code=2).err
    assert "cannot be matched by 'nmae'" in run("diff", "--key", "nmae", code=2).err
    some = run("diff", "--key", "name")  # one table has it
    assert "matched by name" in some.out and "note: rows cannot be matched by 'name'" in some.out
    assert run("diff", "--key", "nmae", "p.json").out
