"""lineage as a command: told as a tree, as JSON, and drawn to a file."""

from __future__ import annotations

from pathlib import Path

import memlake as ml
from tests.cli.conftest import Run


def test_lineage_is_told_drawn_and_written(run: Run, tmp_path: Path) -> None:
    run("init")
    (tmp_path / "raw.csv").write_text("x")
    run("add", "."), run("commit", "-m", "data")
    (tmp_path / "model.pt").write_text("w")
    run("add", "."), run("commit", "-m", "train", "--uses", "raw.csv", "--param", "lr=0.1")
    lines = run("lineage", "model.pt", "--up", code=0).lines
    assert lines[0].startswith("model.pt  (commit ") and lines[1] == "made from"
    assert lines[2].startswith("├── raw.csv  (file ") and lines[3].startswith("└── lr=0.1  (params of commit ")
    told = run("lineage", "model.pt", "--json").json["lineage"]
    assert [node["kind"] for node in told["nodes"]] == ["checkpoint", "file", "params"]
    assert "3 nodes and 2 edges to l.svg" in run("lineage", "model.pt", "--plot", "l.svg").err
    assert (tmp_path / "l.svg").read_text().startswith("<svg")
    assert run("lineage", "model.pt", "--format", "mermaid").out.startswith("flowchart LR")
    assert "Nothing was written" in run("lineage", "model.pt", "--plot", "l.png", code=2).err
    assert "'nosuch' is not a file of HEAD" in run("lineage", "nosuch", code=128).err


def test_a_lineage_is_not_drawn_over_a_file_of_the_repo_or_of_words(run: Run, tmp_path: Path) -> None:
    run("init")
    (tmp_path / "raw.svg").write_text("x")
    run("add", "."), run("commit", "-m", "data")
    with ml.open(tmp_path) as repo:
        repo.datasets().read_values(x=[1]).save("d")
    (tmp_path / "raw.svg").write_text("not committed")
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "link.svg").symlink_to("raw.svg")
    (tmp_path / "words.svg").symlink_to("notes.txt")
    for line in (("lineage", "raw.svg"), ("dataset", "lineage", "d")):
        for target in ("raw.svg", "link.svg"):
            assert f"{target} is tracked in this repo" in run(*line, "--plot", target, code=128).err
        for target in ("notes.txt", "words.svg"):
            assert f"{target} exists and is not a picture" in run(*line, "--plot", target, code=128).err
        for _ in range(2):
            assert "edges to new.svg" in run(*line, "--plot", "new.svg").err
    assert (tmp_path / "raw.svg").read_text() == "not committed" and (tmp_path / "notes.txt").read_text() == "mine"


def test_lineage_of_rows_is_text_or_json(run: Run, tmp_path: Path) -> None:
    run("init")
    (tmp_path / "raw.csv").write_text("id,x\n1,2\n2,3\n")
    run("add", "."), run("commit", "-m", "data")
    with ml.open(tmp_path) as repo:
        repo.datasets().read_csv("raw.csv").filter(ml.C("x") > 2).save("d")
    assert run("lineage", "d", "--where", "id = 2").lines == [
        "d@1.0.0: 1 row", "row 1  (id=2, x=3)", "└── raw.csv: row 2"
    ]  # fmt: skip
    told = run("lineage", "d", "--rows", "--json").json["lineage"]
    assert told["rows"][0]["steps"][0]["rows"] == [2]
    assert "leave out" in run("lineage", "d", "--rows", "--plot", "x.svg", code=2).err
