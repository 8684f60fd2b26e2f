"""log, show, diff, ls and cat on the paths of datasets: they read well, and no JSON comes out unasked."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import memlake
from memlake.dataset import kind
from tests.cli.conftest import Run
from tests.dataset.telling import put


@pytest.fixture
def pets(repo: Path) -> Path:
    with memlake.open(repo) as found:
        datasets = found.datasets()
        datasets.read_values(id=[1, 2, 3], breed=["pug", "beagle", "boxer"]).save("pets")
        put(datasets, "pets", metrics={"accuracy": 0.5}, provenance={"source": "a = 1\nb = 2\n"})
    return repo


def test_a_version_that_was_saved_is_one_line(run: Run, pets: Path) -> None:
    shown = run("show", "HEAD~1").lines
    assert shown[-1] == "datasets/pets/1.0.0 added: 3 rows, 2 columns" and "{" not in "".join(shown)
    assert run("log", "-p", "-1", "HEAD~1").lines[-1] == shown[-1]


def test_of_a_record_that_was_edited_the_facts_that_changed_are_shown(run: Run, pets: Path) -> None:
    lines = run("show").lines
    assert "datasets/pets/1.0.0 changed: 3 rows, 2 columns" in lines
    assert (
        "+metrics.accuracy: 0.5" in lines
        and "+    b = 2" in lines
        and not any(line[1:].startswith('{"') for line in lines)
    )
    same = run("diff", "HEAD~1:datasets/pets/1.0.0", "HEAD:datasets/pets/1.0.0").lines
    assert "+metrics.accuracy: 0.5" in same


def test_counts_are_rows_and_columns(run: Run, pets: Path) -> None:
    assert run("show", "--stat", "HEAD~1").lines[-2:] == [" datasets/pets/1.0.0 | 3 rows, 2 columns", " 1 path changed"]
    assert "3 rows, 2 columns" in run("ls", "-l", "datasets/").out


def test_a_deleted_version_is_called_so(run: Run, pets: Path) -> None:
    run("dataset", "rm", "pets")
    assert "datasets/pets/1.0.0 changed: 3 rows, 2 columns (deleted)" in run("show").lines
    assert any(line.startswith("+deleted.time: 20") for line in run("show").lines)


def test_a_version_that_was_moved_goes_and_comes(run: Run, pets: Path) -> None:
    run("dataset", "mv", "pets", "dogs")
    lines = run("show").lines
    assert "datasets/dogs/1.0.0 added: 3 rows, 2 columns" in lines
    assert "datasets/pets/1.0.0 removed: 3 rows, 2 columns" in lines


def test_cat_tells_a_fact_a_line_and_json_has_the_record(run: Run, pets: Path) -> None:
    lines = run("cat", "datasets/pets/1.0.0").lines
    assert {"rows: 3", "columns.breed: str", "metrics.accuracy: 0.5", "    a = 1"} <= set(lines)
    assert not any(line.startswith("schema") for line in lines)
    assert run("show", "HEAD:datasets/pets/1.0.0").lines == lines
    assert json.loads(run("cat", "datasets/pets/1.0.0", "--json").json["content"])["rows"] == 3


@pytest.mark.parametrize("path", ["datasets/", "datasets/pets", "datasets/pets/", "datasets/pets/1.0.0", "datasets/*"])
def test_log_takes_datasets_with_and_without_a_slash(run: Run, pets: Path, path: str) -> None:
    (pets / "a").write_text("a", encoding="utf-8")
    run("add", "a")
    run("commit", "-m", "a file")
    assert len(run("log", "--oneline", "--", path).lines) == 2


def test_a_folder_called_datasets_is_still_a_folder(run: Run, pets: Path) -> None:
    (pets / "datasets").mkdir()
    (pets / "datasets" / "x.csv").write_text("a", encoding="utf-8")
    run("add", "-A")
    run("commit", "-m", "a folder")
    assert [line.split(" ", 1)[1] for line in run("log", "--oneline", "--", "datasets/").lines] == ["a folder"]


def test_a_damaged_record_is_shown_as_what_it_is() -> None:
    assert kind.text(b"{broken") == b"{broken" and "cannot be read" in kind.brief(b"[]")


# -- merges ----------------------------------------------------------------------------------------


@pytest.fixture
def fork(repo: Path) -> Path:
    """main and x both saved pets@1.0.1, with other rows; HEAD is on main."""
    with memlake.open(repo) as found:
        found.datasets().read_values(id=[1]).save("pets")
        found.branches.create("x")
        for branch, number in (("main", 2), ("x", 3)):
            found.datasets(branch).read_values(id=[number]).save("pets")
    return repo


def test_a_merge_says_which_version_has_another_number_here(run: Run, fork: Path) -> None:
    lines = run("merge", "x").lines
    assert lines[1:] == [
        " datasets/pets/1.0.2 | 1 row, 1 column", " 1 path changed", "pets@1.0.1 of branch x is pets@1.0.2 here."
    ]  # fmt: skip
    run("undo")
    assert run("cherry-pick", "x").lines[-1] == "pets@1.0.1 of branch x is pets@1.0.2 here."


def test_a_merge_that_waits_shows_the_field_that_both_changed(run: Run, fork: Path) -> None:
    with memlake.open(fork) as found:
        for branch, words in (("main", "ours"), ("x", "theirs")):
            put(found.datasets(branch), "pets@1.0.0", description=words)
    said = run("merge", "x", code=1).err
    assert "datasets/pets/1.0.0  (description)\n" in said
    assert 'ours:   {"description": "ours"}\n    theirs: {"description": "theirs"}\n' in said
    run("merge", "--theirs", "datasets/pets/1.0.0")
    assert run("merge", "--continue").lines[-1] == "pets@1.0.1 of branch x is pets@1.0.2 here."
    assert "theirs" in run("dataset", "show", "pets@1.0.0").out
