"""show: files, and what those that came or went are, in a line."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from memlake import open as open_repo
from memlake.cli.history.show import _show_one
from memlake.cli.screen import Screen
from memlake.contents.content import Content
from memlake.contents.explain import describe
from memlake.views.commit_text import Look
from tests.cli.conftest import Run, Write

CELLS = [{"cell_type": "code", "source": "1", "metadata": {}, "outputs": [], "execution_count": None}]
NOTEBOOK = {"cells": CELLS, "metadata": {"kernelspec": {"language": "python"}}, "nbformat": 4, "nbformat_minor": 5}


@pytest.fixture
def files(repo: Path, run: Run, write: Write) -> Path:
    pq.write_table(pa.table({"id": range(5), "x": [0.5] * 5}), repo / "t.parquet")
    np.savez(repo / "w.npz", a=np.zeros((3, 4), "f4"), b=np.ones(3, "f4"))
    write("t.csv", "id,name\n1,a\n2,b\n")
    write("c.json", json.dumps({"lr": 0.1, "layers": [1, 2]}))
    write("n.ipynb", json.dumps(NOTEBOOK))
    write("bad.json", "{")
    run("add", "-A")
    run("commit", "-m", "one")
    return repo


def test_files_that_came_or_went_are_told_in_a_line(files: Path, run: Run) -> None:
    said = run("show", "--format=").lines
    for line in (
        "parquet table: 5 rows, 2 columns: id (int64), x (double)",
        "csv table: 2 rows, 2 columns: id, name",
        "npz checkpoint: 2 tensors, 15 parameters (F32)",
        "json document: 2 keys: lr, layers",
        "python notebook: 1 code cell",
    ):
        assert line in said
    assert "csv table: 2 rows, 2 columns: id, name" not in run("show", "--text").lines
    assert " w.npz     | new npz checkpoint: 2 tensors, 15 parameters (F32)" in run("show", "--stat").lines
    run("rm", "t.parquet")
    assert run("diff", "--cached", "--stat").lines[0].startswith(" t.parquet | removed parquet table: 5 rows")
    inside = run("diff", "--cached", "--json").json["changes"][0]["inside"]
    assert (inside["type"], inside["record"]["rows"]) == ("table", 5)
    shown = run("show", "HEAD:t.parquet", "--json").json["files"][0]
    assert shown["inside"]["record"]["columns"] == [["id", "int64"], ["x", "double"]]


def test_on_a_terminal_bytes_are_not_printed_where_a_line_tells_more(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with open_repo(files) as repo:
        screen = Screen(on_terminal=True)
        for word in ("HEAD:t.parquet", "HEAD:t.csv"):
            _show_one(repo, screen, word, Look(), "work")
    out = capsys.readouterr().out
    assert "parquet table: 5 rows" in out and "memlake cat HEAD:t.parquet > FILE" in out
    assert "id,name\n1,a\n" in out and "PAR1" not in out


def test_a_file_that_would_have_to_be_read_whole_is_told_only_up_to_a_size() -> None:
    assert describe(Content("files/t.csv", 9 << 20, lambda: pytest.fail("it was read"))) is None
