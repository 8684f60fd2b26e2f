"""Notebooks by cell: sources are compared line by line, outputs are counted, two edits are joined."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memlake.contents import notebooks
from memlake.contents.content import Content, Unreadable
from memlake.contents.explain import How
from memlake.contents.merged import MergeHow
from tests.torture import examples


def make(*sources: str, ids: tuple[str, ...] = (), outputs: str = "") -> Content:
    cells: list[dict[str, Any]] = [
        {"cell_type": "code", "source": source.splitlines(keepends=True), "outputs": [outputs], "execution_count": 1}
        for source in sources
    ]
    for cell, name in zip(cells, ids, strict=False):
        cell["id"] = name
    data = json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}, indent=1).encode() + b"\n"
    return Content("files/n.ipynb", len(data), lambda: io.BytesIO(data))


def sources(merged: notebooks.Merged) -> list[str]:
    assert merged.data is not None, merged.conflicts
    return ["".join(cell["source"]) for cell in json.loads(merged.data)["cells"]]


def test_cells_are_told_by_their_source_and_outputs_are_counted() -> None:
    old, new = make("import x", "a\nb\n", "last"), make("import x", "a\nc\n", "last", "more", outputs="ran")
    found = notebooks.diff(old, new, How())
    assert [(cell.status, cell.number, cell.patch) for cell in found.cells] == [
        ("M", 2, ("@@ -1,2 +1,2 @@", " a", "-b", "+c")),
        ("A", 4, ("@@ -0,0 +1 @@", "+more", "\\ No newline at end of file")),
    ]
    assert found.outputs_changed == 2


def test_a_cell_that_moved_is_known_by_its_id() -> None:
    old, new = make("one", "two", ids=("a", "b")), make("two", "one!", ids=("b", "a"))
    assert [(cell.status, cell.number) for cell in notebooks.diff(old, new, How()).cells] == [("M", 2)]


def test_edits_of_different_cells_and_of_different_lines_are_joined() -> None:
    base = make("a\nb\nc\nd\n", "two", "three")
    ours, theirs = make("A\nb\nc\nd\n", "two", "three"), make("a\nb\nc\nD\n", "two", "three!", "four")
    merged = notebooks.merge(base, ours, theirs, MergeHow())
    assert sources(merged) == ["A\nb\nc\nD\n", "two", "three!", "four"]
    assert json.loads(merged.data or b"")["cells"][0]["outputs"] == []  # nobody ran what was joined


def test_outputs_of_a_run_that_only_they_made_are_theirs() -> None:
    merged = notebooks.merge(make("a", outputs="old"), make("a", outputs="old"), make("a", outputs="new"), MergeHow())
    assert json.loads(merged.data or b"")["cells"][0]["outputs"] == ["new"]


def test_the_same_line_edited_twice_is_a_conflict_of_that_cell() -> None:
    found = notebooks.merge(make("a", "b"), make("a", "c"), make("a", "d"), MergeHow())
    assert sources(found) == ["a", "c"]  # ours while it is open
    assert [(one.place, one.ours, one.theirs) for one in found.conflicts] == [("cell 2", "c", "d")]


def test_a_cell_removed_by_one_and_edited_by_the_other_is_a_conflict() -> None:
    base = make("a", "b", ids=("1", "2"))
    found = notebooks.merge(base, make("a", ids=("1",)), make("a", "B", ids=("1", "2")), MergeHow())
    assert [(one.place, one.ours, one.theirs) for one in found.conflicts] == [("removed cell 2", None, "B")]


def test_a_cell_is_settled_by_a_side_or_both_are_kept() -> None:
    sides = make("a", "b", "x"), make("A", "c", "x"), make("a", "d", "X")
    assert sources(notebooks.merge(*sides, MergeHow())) == ["A", "c", "X"]  # ours while it is open
    assert sources(notebooks.merge(*sides, MergeHow(choices={"cell 2": "theirs"}))) == ["A", "d", "X"]
    both = notebooks.merge(*sides, MergeHow(strategy="union"))
    assert (sources(both), both.conflicts) == (["A", "c", "d", "X"], ())


def test_a_removed_cell_comes_back_where_it_stood_if_their_edit_is_chosen() -> None:
    ids = ("1", "2", "3")
    sides = make("a", "b", "c", ids=ids), make("a", "c", ids=("1", "3")), make("a", "B", "c", ids=ids)
    assert sources(notebooks.merge(*sides, MergeHow(strategy="ours"))) == ["a", "c"]
    assert sources(notebooks.merge(*sides, MergeHow(strategy="theirs"))) == ["a", "B", "c"]


def test_what_is_not_a_notebook_is_said() -> None:
    data = b'{"cells": 1}'
    with pytest.raises(Unreadable, match="has no list of cells"):
        notebooks.summarize(Content("files/n.ipynb", len(data), lambda: io.BytesIO(data)))


cells_of = st.lists(st.sampled_from(["a", "b\n", "c\nd\n", ""]), max_size=5)


@settings(max_examples=examples(80), deadline=None)
@given(cells_of, cells_of)
def test_an_ancestor_changes_nothing(base: list[str], ours: list[str]) -> None:
    def name(cells: list[str]) -> Content:
        return make(*cells, ids=tuple(f"{place}" for place in range(len(cells))))

    assert sources(notebooks.merge(name(base), name(ours), name(base), MergeHow())) == ours
    assert sources(notebooks.merge(name(base), name(base), name(ours), MergeHow())) == ours
    assert sources(notebooks.merge(name(base), name(ours), name(ours), MergeHow())) == ours
