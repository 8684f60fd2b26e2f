"""What `memlake run` records of its outputs: each leads back to its script, params and inputs, and is made again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import SOURCE, Run

Keep = Callable[..., str]
PREPARE = """
import csv
rows = [row for row in csv.reader(open("raw.csv"))][1:]
open("clean.txt", "w").write(" ".join(row[0] for row in rows))
"""
TRAIN = """
import sys
import memlake as ml
lr = ml.param("lr", 0.5)
total = sum(map(int, open("clean.txt").read().split()))
ml.metrics.set("accuracy", lr / 2)
open("model.txt", "w").write(f"{total * lr} {sys.argv[1:]}")
"""


@pytest.fixture
def stages(repo: Path, keep: Keep, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PYTHONPATH", str(SOURCE))
    (repo / "raw.csv").write_text("x\n1\n2\n")
    keep("base", **{"prepare.py": PREPARE, "train.py": TRAIN, "raw.csv": "x\n1\n2\n", "other.txt": "o"})
    return repo


def commit(run: Run, message: str = "made") -> None:
    run("add", "-A")
    run("commit", "-m", message)


def arrows(run: Run, *args: str) -> set[tuple[str, str]]:
    found = run("lineage", *args, "--json").json["lineage"]
    names = {node["id"]: node["name"] for node in found["nodes"]}
    return {(names[edge["source"]], names[edge["target"]]) for edge in found["edges"]}


def test_each_output_leads_back_to_its_own_script_params_and_inputs(run: Run, stages: Path) -> None:
    run("run", "prepare.py", "train.py", "-p", "lr=0.25")
    commit(run)
    made = {("raw.csv", "clean.txt"), ("prepare.py", "clean.txt")}
    of_model = {("clean.txt", "model.txt"), ("train.py", "model.txt"), ("lr=0.25", "model.txt")}
    measured = {("model.txt", "accuracy=0.125")}
    assert arrows(run, "model.txt", "--up") == made | of_model
    assert arrows(run, "clean.txt", "--up") == made, "what the other script read and was given is not this one's"
    assert arrows(run, "raw.csv", "--down") == {("raw.csv", "clean.txt"), ("clean.txt", "model.txt")} | measured
    assert ("prepare.py", "commit") in {(a, b.split()[0]) for a, b in arrows(run, "HEAD")}
    assert "Made:   clean.txt by prepare.py" in run("show").out
    assert [one["wrote"][0]["path"] for one in run("show", "--json").json["commits"][0]["runs"]] == [
        "files/clean.txt", "files/model.txt"
    ]  # fmt: skip


def test_an_output_is_made_again_with_the_params_arguments_and_inputs_it_had(run: Run, stages: Path) -> None:
    run("run", "prepare.py", "train.py", "-p", "lr=0.25", "--", "--fast")
    commit(run)
    (stages / "raw.csv").write_text("x\n5\n")
    (stages / "train.py").write_text("raise SystemExit(1)")
    commit(run, "other things")
    assert "can be rebuilt" in run("rebuild", "model.txt", "--check").out
    assert "was made by train.py --fast" in run("trust", "--program", "model.txt", "--yes").out
    assert run("rebuild", "model.txt").out == "model.txt is the same when it is made again.\n"


def test_what_was_edited_after_the_run_was_not_made_by_it(run: Run, stages: Path) -> None:
    run("run", "prepare.py", "train.py")
    (stages / "model.txt").write_text("by hand")
    commit(run)
    assert arrows(run, "model.txt") == set() and arrows(run, "clean.txt", "--up")
    assert "does not say which program" in run("rebuild", "model.txt", code=128).err


def test_a_script_that_was_edited_after_the_run_is_not_taken_for_the_one_that_ran(run: Run, stages: Path) -> None:
    (stages / "train.py").write_text(f"{TRAIN}\n# tried")
    run("run", "prepare.py", "train.py")
    (stages / "train.py").write_text(f"{TRAIN}\n# committed")
    commit(run)
    [script] = [
        one for one in run("lineage", "model.txt", "--json").json["lineage"]["nodes"] if one["name"] == "train.py"
    ]
    assert script["about"].startswith("file "), "not the content that was committed"
    assert "train.py was never committed" in run("rebuild", "model.txt", "--check", code=1).out


def test_what_was_never_committed_on_the_way_leads_on_to_what_it_was_made_of(run: Run, stages: Path) -> None:
    (stages / ".memlakeignore").write_text("clean.txt\n")
    run("run", "prepare.py", "train.py")
    (stages / "raw.csv").write_text("x\n9\n")
    run("run", "prepare.py")  # writes another clean.txt, of which the model knows nothing
    run("restore", "raw.csv")
    commit(run)
    up = {("prepare.py", "clean.txt"), ("raw.csv", "clean.txt"), ("train.py", "model.txt"), ("clean.txt", "model.txt")}
    assert arrows(run, "model.txt", "--up") == up | {("lr=0.5", "model.txt")}
    assert "clean.txt was never committed" in run("rebuild", "model.txt", "--check", code=1).out


def test_amending_keeps_what_is_known_of_the_files(run: Run, stages: Path) -> None:
    run("run", "prepare.py")
    commit(run)
    run("run", "train.py")
    run("add", "-A")
    run("commit", "--amend", "--no-edit")
    assert {("raw.csv", "clean.txt"), ("clean.txt", "model.txt")} <= arrows(run, "model.txt", "--up")


def test_a_version_counts_as_it_was_when_the_script_read_it(run: Run, stages: Path) -> None:
    (stages / "rows.py").write_text(
        "import memlake as ml\nml.read_csv('raw.csv').save('pets')\nrows = ml.read_dataset('pets').count()\n"
        "open('count.txt', 'w').write(str(rows))\nml.read_values(y=[1]).save('pets')\n"
    )
    run("run", "rows.py")
    commit(run)
    assert arrows(run, "count.txt", "--up") >= {("pets@1.0.0", "count.txt"), ("raw.csv", "pets@1.0.0")}
    assert ("pets@2.0.0", "count.txt") not in arrows(run, "count.txt", "--up")
    run("dataset", "rm", "pets@1.0.0")
    run("trust", "--program", "count.txt", "--yes")
    assert "is the same" in run("rebuild", "count.txt").out


def test_rows_that_a_script_made_itself_lead_to_the_files_it_had_opened(
    run: Run, stages: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYTEST_CURRENT_TEST")  # or the script is taken for a test
    (stages / "rows.py").write_text(
        "import csv, memlake as ml\nrows = [int(row['x']) for row in csv.DictReader(open('raw.csv'))]\n"
        "ml.read_values(x=rows).save('pets')\nopen('other.txt').read()\nml.read_csv('raw.csv').save('read')\n"
    )
    run("run", "rows.py")
    assert ("raw.csv", "pets@1.0.0") in arrows(run, "pets", "--up")
    assert "other.txt" not in run("lineage", "pets", "--up").out, "it was opened after the save"
    assert "prepare.py" not in run("lineage", "read", "--up").out
    (stages / "raw.csv").write_text("x\n7\n")
    commit(run)
    assert "can be rebuilt" in run("rebuild", "pets", "--check").out
    run("trust", "--program", "pets", "--yes")
    assert "is the same" in run("rebuild", "pets").out


def test_one_of_many_outputs_stays_the_input_of_the_next_script(run: Run, stages: Path) -> None:
    (stages / "split.py").write_text(
        "text = open('raw.csv').read()\nfor n in range(20):\n    open(f'part{n}', 'w').write(f'{n} {text}')\n"
    )
    (stages / "last.py").write_text("open('end.txt', 'w').write(open('part7').read())")
    run("run", "split.py")
    commit(run)
    run("run", "last.py")
    commit(run)
    assert arrows(run, "end.txt", "--up") == {
        ("last.py", "end.txt"), ("part7", "end.txt"), ("raw.csv", "part7"), ("split.py", "part7")
    }  # fmt: skip
    assert ("raw.csv", "19 files") in arrows(run, "raw.csv", "--down")


def test_of_many_inputs_the_one_that_is_asked_for_is_found(run: Run, stages: Path) -> None:
    (stages / "data").mkdir()
    for n in range(20):
        (stages / f"data/{n}").write_text(str(n))
    (stages / "join.py").write_text(
        "open('all.txt', 'w').write(''.join(open(f'data/{n}').read() for n in range(20)))"
    )  # fmt: skip
    commit(run)
    run("run", "join.py")
    commit(run)
    assert arrows(run, "all.txt", "--up") == {("20 files", "all.txt"), ("join.py", "all.txt")}
    assert arrows(run, "data/3", "--down") == {("data/3", "all.txt")}
    (stages / "data/3").write_text("other")
    commit(run)
    run("trust", "--program", "all.txt", "--yes")
    assert "is the same" in run("rebuild", "all.txt").out


def test_a_file_of_another_branch_leads_to_the_datasets_of_that_branch(run: Run, stages: Path) -> None:
    (stages / "rows.py").write_text(
        "import memlake as ml\nn = ml.param('n', 0)\nml.read_csv('raw.csv').limit(n).save('few')\n"
        "open('count.txt', 'w').write(str(ml.read_dataset('few').count()))\n"
    )
    commit(run)
    run("run", "rows.py", "--grid", "n=1,2", "--branch", "try/{n}")
    run("switch", "try/1")
    for name in ("try/2:count.txt", "try/1:count.txt"):
        assert {("raw.csv", "few@1.0.0"), ("few@1.0.0", "count.txt")} <= arrows(run, name, "--up")
    [few] = [
        one for one in run("lineage", "try/2:count.txt", "--json").json["lineage"]["nodes"] if one["kind"] == "dataset"
    ]
    assert few["about"].startswith("2 rows"), "not the version with that number on this branch"


def test_a_promoted_file_leads_back_to_where_it_was_made(run: Run, stages: Path) -> None:
    run("branch", "production")
    run("run", "prepare.py", "train.py")
    commit(run)
    run("promote", "model.txt", "--from", "main", "--to", "production")
    assert {("clean.txt", "model.txt"), ("raw.csv", "clean.txt")} <= arrows(run, "production:model.txt", "--up")
    assert "can be rebuilt" in run("rebuild", "production:model.txt", "--check").out


def test_a_secret_argument_is_not_recorded(run: Run, stages: Path) -> None:
    secret = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    run("run", "prepare.py", "--", f"--token={secret}")
    commit(run)
    assert secret not in run("show", "--json").out
    assert "a secret among its arguments" in run("rebuild", "clean.txt", "--check", code=1).out


def test_a_file_too_large_to_be_hashed_is_told_by_size_and_time(
    run: Run, stages: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memlake.repo.stages._HASHED", 0)
    (stages / "raw.csv").write_text("x\n4\n")  # not as it is tracked, so its hash is not known without reading it
    run("run", "prepare.py")
    commit(run)
    assert arrows(run, "clean.txt", "--up") == {("raw.csv", "clean.txt"), ("prepare.py", "clean.txt")}
    assert "can be rebuilt" in run("rebuild", "clean.txt", "--check").out


def test_a_param_is_told_to_be_unused_only_if_no_script_asked_for_it(run: Run, stages: Path) -> None:
    assert "warning" not in run("run", "prepare.py", "train.py", "-p", "lr=1").err
    told = run("run", "prepare.py", "train.py", "-p", "lrr=1").err
    assert "never asked for param lrr" in told and "Did you mean lr?" in told
    again = ("run", "prepare.py", "train.py", "-p", "lr=1", "--if-changed")
    run(*again)
    assert "warning" not in run(*again).err, "also if the script that asks for it is skipped"
