"""`memlake dataset` as a person types it, on real repos."""

from __future__ import annotations

import csv
import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import memlake
from memlake.dataset import export
from memlake.dataset.parts import parquet
from tests.cli.conftest import Run
from tests.dataset.telling import put

Process = Callable[..., "subprocess.CompletedProcess[bytes]"]


@pytest.fixture
def pets(repo: Path) -> Path:
    """pets 1.0.0 and 1.0.1 (a row changed, one gone, two new), with metrics; photos of three files."""
    with memlake.open(repo) as found:
        datasets = found.datasets()
        datasets.read_values(id=[1, 2, 3], breed=["pug", "beagle", "boxer"]).save("pets", description="all dogs")
        datasets.read_values(id=[1, 3, 4, 5], breed=["pug", "BOXER", "corgi", "husky"]).save("pets")
        for number, value in (("1.0.0", 0.5), ("1.0.1", 0.75)):
            told = {"source": "print('made')\n", "source_kind": "script", "author": "Ada", "plan": ["values", "save"]}
            put(datasets, f"pets@{number}", metrics={"accuracy": value}, provenance=told)
        put(datasets, "pets", params={"lr": {"value": 0.1, "type": "float"}})
        (repo / "photos").mkdir()
        for name in "abc":
            (repo / "photos" / f"{name}.jpg").write_text(name, encoding="utf-8")
        datasets.read_storage(str(repo / "photos")).save("photos")
    return repo


# -- looking


def test_without_a_verb_the_datasets_are_listed(run: Run, pets: Path) -> None:
    lines = run("dataset").lines
    assert [line.split()[:3] for line in lines] == [
        ["name", "version", "rows"], ["pets", "1.0.1", "4"], ["photos", "1.0.0", "3"],
    ]  # fmt: skip
    assert run("dataset", "ls").lines == lines


def test_ls_as_json_has_the_record_and_not_the_code(run: Run, pets: Path) -> None:
    one, _ = run("dataset", "ls", "--json").json["datasets"]
    assert (one["name"], one["version"], one["rows"]) == ("pets", "1.0.1", 4)
    assert one["schema"] == {"id": "int", "breed": "str"} and "provenance" not in one


def test_an_empty_repo_says_how_to_make_one(run: Run, repo: Path) -> None:
    done = run("dataset")
    assert done.out == "" and "There are no datasets" in done.err


def test_show_tells_the_record_on_one_screen(run: Run, pets: Path) -> None:
    shown = run("dataset", "show", "pets@1.0.0")
    assert shown.lines[0] == "dataset pets@1.0.0" and len(shown.lines) < 24
    for text in ("Author:      Ada", "Metrics:     accuracy=0.5", "Description: all dogs", "    breed: str"):
        assert text in shown.lines
    assert "1.0.1 beside this one" in shown.out
    assert run("dataset", "show", "pets", "--json").json["dataset"]["provenance"]["source_kind"] == "script"


def test_what_provenance_does_not_tell_is_a_dash(run: Run, pets: Path) -> None:
    with memlake.open(pets) as found:
        put(found.datasets(), "photos", provenance={})
    assert "Code:        -" in run("dataset", "show", "photos").lines


@pytest.mark.parametrize(
    ("spec", "version"),
    [("pets", "1.0.1"), ("pets@1.0.0", "1.0.0"), ("pets@>=1,<1.0.1", "1.0.0"), ("pets@main", "1.0.1")],
)
def test_a_name_may_say_which_version(run: Run, pets: Path, spec: str, version: str) -> None:
    assert run("dataset", "show", spec, "--json").json["dataset"]["version"] == version


def test_a_wrong_name_is_told_the_right_one(run: Run, pets: Path) -> None:
    done = run("dataset", "show", "pet", code=None)
    assert done.code and "Did you mean 'pets'?" in done.err


def test_preview_and_schema(run: Run, pets: Path) -> None:
    assert run("dataset", "preview", "pets", "-n", "2").lines == ["id  breed", "--  -----", " 1  pug", " 3  BOXER"]
    assert run("dataset", "preview", "pets", "-n", "1", "--json").json["rows"] == [{"id": 1, "breed": "pug"}]
    assert run("dataset", "schema", "pets").lines == ["id: int", "breed: str"]
    rows = run("dataset", "preview", "photos", "--json").json["rows"]
    assert [row["file"]["path"] for row in rows] == ["photos/a.jpg", "photos/b.jpg", "photos/c.jpg"]


def test_looking_leaves_no_commit(run: Run, pets: Path) -> None:
    before = run("log", "--oneline").out
    for verb in ("ls", "show", "preview", "schema", "versions", "source", "metrics", "lineage", "diff"):
        run("dataset", verb, *(() if verb == "ls" else ("pets",)))
    assert run("log", "--oneline").out == before


def test_source_prints_the_code_alone(run: Run, pets: Path) -> None:
    assert run("dataset", "source", "pets").out == "print('made')\n"
    with memlake.open(pets) as found:
        put(found.datasets(), "photos", provenance={})
    assert "no code was recorded" in run("dataset", "source", "photos", code=None).err


def test_metrics_stand_beside_each_other(run: Run, pets: Path) -> None:
    head, first, second = run("dataset", "metrics", "pets").lines
    assert head.split()[2:] == ["accuracy", "lr", "(param)"]
    assert first.split()[0] == "1.0.0" and first.split()[-2:] == ["0.5", "-"]
    assert second.split()[-2:] == ["0.75", "0.1"]


# -- diff


@pytest.mark.parametrize(
    "given", [("pets@1.0.0", "pets@1.0.1"), ("pets", "1.0.0", "1.0.1"), ("pets", "1.0.0"), ("pets",)]
)
def test_diff_takes_two_versions_in_every_way_of_naming_them(run: Run, pets: Path, given: tuple[str, ...]) -> None:
    found = run("dataset", "diff", *given, "--json").json["diff"]
    assert (found["old"], found["new"]) == ("pets@1.0.0", "pets@1.0.1")
    record = found["inside"]["record"]
    assert [record[key] for key in ("added", "removed", "changed")] == [2, 1, 1]
    assert record["key"] == {"columns": ["id"], "origin": "found"}


def test_diff_by_a_key_tells_changed_rows(run: Run, pets: Path) -> None:
    lines = run("dataset", "diff", "pets", "--key", "id").lines
    assert lines[:4] == [
        "pets@1.0.0 -> pets@1.0.1",
        "3 -> 4 rows: 2 added, 1 removed, 1 changed (matched by id)",
        "changed cells: breed 1",
        "  ~ id=3: breed boxer -> BOXER",
    ]
    assert "  - id=2 breed=beagle" in lines
    assert lines[-4].split() == ["metrics", "1.0.0", "1.0.1"] and lines[-3].split() == ["accuracy", "0.5", "0.75"]
    assert run("dataset", "diff", "pets", "--stat").lines == [
        "pets@1.0.0 -> pets@1.0.1 | 3 -> 4 rows: 2 added, 1 removed, 1 changed"
    ]


def test_diff_counts_a_row_that_is_there_twice_as_two(run: Run, pets: Path) -> None:
    with memlake.open(pets) as found:
        for ids in ([7, 7, 8], [7, 8, 8]):
            found.datasets().read_values(id=ids).save("twice")
    rows = run("dataset", "diff", "twice", "--json").json["diff"]["inside"]["record"]["rows"]
    assert [(one["status"], one["row"]) for one in rows] == [("A", {"id": 8}), ("D", {"id": 7})]


def test_diff_of_files_goes_by_their_path(run: Run, pets: Path) -> None:
    (pets / "photos" / "a.jpg").write_text("longer", encoding="utf-8")
    (pets / "photos" / "b.jpg").unlink()
    with memlake.open(pets) as found:
        found.datasets().read_storage(str(pets / "photos")).save("photos")
    lines = run("dataset", "diff", "photos").lines
    assert any("1 removed, 1 changed (matched by file.path, which is unique" in line for line in lines)
    assert "  - file=photos/b.jpg" in lines
    assert any("file.path=photos/a.jpg: file {size 1 -> 6" in line for line in lines)


def test_diff_tells_columns_that_came_went_and_changed(run: Run, pets: Path) -> None:
    with memlake.open(pets) as found:
        found.datasets().read_values(id=["1"], age=[3]).save("pets")
    lines = run("dataset", "diff", "pets").lines
    assert {"column ~ id: int -> str", "column - breed: str", "column + age: int"} <= set(lines)
    assert any(line.startswith("4 -> 1 row: 3 removed (matched by id, ") for line in lines)


def test_a_key_that_is_not_there_is_refused_and_one_that_is_declared_is_taken(run: Run, pets: Path) -> None:
    refused = run("dataset", "diff", "pets", "--key", "id,bred", code=2).err
    assert "'bred', which is not a column of both sides" in refused and "Columns of both are id, breed" in refused
    (pets / ".memlakeattributes").write_text("datasets/pets key=breed\n", encoding="utf-8")
    assert "(matched by breed, as .memlakeattributes says)" in run("dataset", "diff", "pets").out
    (pets / ".memlakeattributes").write_text("datasets/pets key=gone\n", encoding="utf-8")
    lines = run("dataset", "diff", "pets").lines
    assert any("(matched by id, which is unique" in line for line in lines)
    assert any(line.startswith("note: the declared key names 'gone'") for line in lines)


# -- deleting and renaming


def test_merge_joins_two_versions_by_key_and_cell(run: Run, repo: Path) -> None:
    with memlake.open(repo) as found:
        datasets = found.datasets()
        datasets.read_values(id=[1, 2], v=["a", "b"]).save("pets")
        datasets.read_values(id=[1, 2], v=["A", "b"]).save("pets")
        datasets.read_values(id=[1, 3], v=["a", "c"]).save("pets")
    assert run("dataset", "merge", "pets@1.0.1", "pets@1.0.2").lines == [
        "Merged pets@1.0.1 and pets@1.0.2 over pets@1.0.0, matched by id.",
        "Saved as pets@1.0.3: 2 rows.",
    ]
    assert run("dataset", "preview", "pets").lines[2:] == [" 1  A", " 3  c"]
    shape = run("dataset", "merge", "pets@1.0.1", "pets@1.0.2", "--json").json["merged"]
    assert (shape["version"], shape["base"], shape["key"], shape["reused"]) == (
        "pets@1.0.3", "pets@1.0.0", ["id"], True,
    )  # fmt: skip


def test_rm_asks_which_version_and_restore_brings_it_back(run: Run, pets: Path) -> None:
    refused = run("dataset", "rm", "pets", code=2)
    assert "Nothing was deleted" in refused.err and "--all" in refused.err
    assert run("dataset", "rm", "pets@1.0.1").lines == ["Deleted pets@1.0.1"]
    assert [one["version"] for one in run("dataset", "versions", "pets", "--json").json["versions"]] == ["1.0.0"]
    assert "(deleted)" in run("dataset", "versions", "pets", "--all").out
    assert run("dataset", "restore", "pets").lines == ["Restored pets@1.0.1"]
    assert run("dataset", "rm", "pets", "--all").lines == ["Deleted pets@1.0.0", "Deleted pets@1.0.1"]
    assert "pets" not in run("dataset", "ls").out and "pets" in run("dataset", "ls", "--all").out


def test_mv_renames_every_version(run: Run, pets: Path) -> None:
    assert run("dataset", "mv", "pets", "team.dogs").lines == ["Moved to team.dogs@1.0.0", "Moved to team.dogs@1.0.1"]
    assert "pets" not in run("dataset", "ls").out


# -- export


def test_export_to_one_file_is_plain_parquet(run: Run, pets: Path) -> None:
    assert run("dataset", "export", "pets", "out/pets.parquet").out.startswith(
        "Wrote pets@1.0.1 to out/pets.parquet: 4 rows"
    )
    assert pq.read_table("out/pets.parquet").to_pydict()["id"] == [1, 3, 4, 5]


def test_export_to_a_folder_is_cut_into_files(run: Run, pets: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet, "ROWS", 3)
    done = run("dataset", "export", "pets", "out", "--json").json["export"]
    assert done["files"] == ["out/part-00000.parquet", "out/part-00001.parquet"] and done["rows"] == 4
    assert [pq.read_metadata(file).num_rows for file in done["files"]] == [3, 1]
    assert pq.read_table("out")["breed"].to_pylist() == ["pug", "BOXER", "corgi", "husky"]


def test_export_speaks_csv_and_json_lines(run: Run, pets: Path) -> None:
    run("dataset", "export", "photos", "p.csv")
    with open("p.csv", encoding="utf-8", newline="") as file:
        assert [row["file.path"] for row in csv.DictReader(file)] == ["photos/a.jpg", "photos/b.jpg", "photos/c.jpg"]
    run("dataset", "export", "pets", "out", "--format", "jsonl")
    first = Path("out/part-00000.jsonl").read_text(encoding="utf-8").splitlines()[0]
    assert json.loads(first) == {"id": 1, "breed": "pug"}


def test_export_to_a_file_of_an_unknown_format_is_refused(run: Run, pets: Path) -> None:
    failed = run("dataset", "export", "pets", "out.xlsx", code=None)
    assert failed.code and "Nothing was written" in failed.err and "parquet, csv, jsonl" in failed.err
    assert not Path("out.xlsx").exists()
    run("dataset", "export", "pets", "out.v1")
    run("dataset", "export", "pets", "out.data", "--format", "csv")
    assert [one.name for one in Path("out.data").iterdir()] == ["part-00000.csv"]


def test_export_overwrites_only_what_an_export_wrote_and_only_when_told(run: Run, pets: Path) -> None:
    run("dataset", "export", "pets", "out")
    Path("p.csv").write_text("mine", encoding="utf-8")
    for target in ("out", "p.csv"):
        assert "Nothing was written" in run("dataset", "export", "pets@1.0.0", target, code=None).err
    assert Path("p.csv").read_text(encoding="utf-8") == "mine"
    run("dataset", "export", "pets@1.0.0", "out", "-f")
    assert pq.read_table("out").num_rows == 3
    Path("out/notes.txt").write_text("mine", encoding="utf-8")
    assert "notes.txt" in run("dataset", "export", "pets", "out", "-f", code=None).err
    assert Path("out/notes.txt").exists() and pq.read_table("out/part-00000.parquet").num_rows == 3


def test_export_of_no_rows_still_has_the_columns(run: Run, pets: Path) -> None:
    with memlake.open(pets) as found:
        found.datasets().read_dataset("pets").filter(memlake.C("id") > 99).save("none")
    run("dataset", "export", "none", "none.parquet")
    assert pq.read_schema("none.parquet").names == ["id", "breed"]


def test_an_export_that_fails_leaves_nothing_behind(run: Run, pets: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = export._write

    def second_fails(kind: str, batches: Any, file: Path) -> None:
        if file.name.startswith("part-00001"):
            raise OSError(28, "No space left on device")
        write(kind, batches, file)

    monkeypatch.setattr(parquet, "ROWS", 3)
    monkeypatch.setattr(export, "_write", second_fails)
    before = set(pets.iterdir())
    assert run("dataset", "export", "pets", "out", code=None).code
    assert set(pets.iterdir()) == before


# -- lineage, completion


def test_lineage_is_told_drawn_and_written(run: Run, pets: Path) -> None:
    assert run("dataset", "lineage", "pets").lines[0] == "pets@1.0.1  (4 rows, 2 columns)"
    assert run("dataset", "lineage", "pets", "--json").json["lineage"]["root"] == "dataset:pets@1.0.1"
    assert run("dataset", "lineage", "pets", "--format", "mermaid").out.startswith("flowchart LR")
    assert "edges to pets.svg" in run("dataset", "lineage", "pets", "--plot", "pets.svg").err
    assert Path("pets.svg").read_text(encoding="utf-8").startswith("<svg ")
    assert "Nothing was written" in run("dataset", "lineage", "pets", "--plot", "pets.png", code=2).err


@pytest.mark.parametrize(("typed", "offered"), [("p", {"pets", "photos"}), ("pets@", {"pets@1.0.0", "pets@1.0.1"})])
def test_names_are_completed(process: Process, run: Run, pets: Path, typed: str, offered: set[str]) -> None:
    env = {"MEMLAKE_COMPLETE": "bash_complete", "COMP_WORDS": f"memlake dataset show {typed}", "COMP_CWORD": "3"}
    done = process(env=env, cwd=pets)
    assert {line.partition(",")[2] for line in done.stdout.decode().split()} == offered


def test_completing_names_loads_no_arrow(run: Run, pets: Path, process: Process) -> None:
    done = process("dataset", "--help", cwd=pets, env={"PYTHONPROFILEIMPORTTIME": "1"})
    assert b"pyarrow" not in done.stderr


# -- erasing


@pytest.mark.parametrize(
    "words", [("purge", "datasets/pets/1.0.0"), ("purge", "pets@1.0.0"), ("dataset", "purge", "pets@1.0.0")]
)
def test_purge_erases_a_version_with_its_rows(run: Run, pets: Path, words: tuple[str, ...]) -> None:
    before = len([file for file in (pets / ".memlake" / "parts").rglob("*") if file.is_file()])
    assert "Erased" in run(*words, "--reason", "leak", "-y").out
    assert len([file for file in (pets / ".memlake" / "parts").rglob("*") if file.is_file()]) == before - 1
    assert [line.split()[:2] for line in run("dataset", "ls").lines[1:]] == [["pets", "1.0.1"], ["photos", "1.0.0"]]
    assert "purged: leak" in run("dataset", "show", "pets@1.0.0", code=128).err


@pytest.mark.parametrize("words", [("purge", "a@1.0.0"), ("dataset", "purge", "a")])
def test_purge_asks_what_is_to_happen_with_versions_made_from_it(run: Run, repo: Path, words: tuple[str, ...]) -> None:
    with memlake.open(repo) as found:
        found.datasets().read_values(x=range(9)).save("a").filter(memlake.C("x") > 4).save("b")
    told = run(*words, "--reason", "leak", "-y", code=1).err
    assert "rows of a@1.0.0 may be rows of b@1.0.0 too. Nothing was erased." in told and "--leave-derived" in told
    erased = run(*words, "--reason", "leak", "-y", "--with-others").out
    assert "b@1.0.0" in erased.replace("datasets/b/", "b@") and "b " not in run("dataset", "ls").out


def test_show_tells_what_functions_did(run: Run, repo: Path) -> None:
    with memlake.open(repo) as found:
        chain = found.datasets().read_values(x=[0, 1]).settings(on_error="skip").map(y=lambda x: 1 / x)
        with pytest.warns(UserWarning, match="failed"):
            chain.save("h")
    (line,) = [line for line in run("dataset", "show", "h").lines if line.startswith("Work:")]
    assert "2 computed, 0 recalled, 1 failed (nothing is remembered" in line


def test_a_commit_uses_a_dataset_by_its_own_name(run: Run, pets: Path) -> None:
    (pets / "model.bin").write_text("m", encoding="utf-8")
    run("add", "model.bin")
    run("commit", "-m", "model", "--uses", "pets@1.0.0", "--uses", "photos")
    assert "pets@1.0.0" in run("show").out.replace("datasets/pets/1.0.0", "pets@1.0.0")
    assert "model.bin" in run("dataset", "lineage", "pets@1.0.0").out
    assert "model.bin" in run("dataset", "lineage", "photos").out


def test_the_personal_repo_is_named_where_it_is_used(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "own"
    monkeypatch.setenv("XDG_DATA_HOME", str(home))
    outside = tmp_path / "outside"
    outside.mkdir()
    monkeypatch.chdir(outside)
    first, second = run("dataset", "ls").err, run("dataset", "ls").err
    assert "so data is kept in your personal one" in first
    assert "so this is about your personal one" in second
