"""memlake run with several stages: what makes one run again, and a grid of params with a branch for each."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

import memlake as ml
from tests.cli.conftest import Run

Keep = Callable[..., str]
PREPARE = """
import os, helper
rows = [int(n) for f in sorted(os.listdir("data")) for n in open(f"data/{f}").read().split()]
open("clean.txt", "w").write(" ".join(str(helper.scale(n)) for n in rows))
"""
TRAIN = """
import json, os, sys
lr = float(json.loads(os.environ.get("MEMLAKE_RUN_PARAMS", "{}")).get("lr", 1))
with open(os.environ["MEMLAKE_RUN_REPORT"], "a") as report:  # as ml.param and ml.metrics tell
    print(json.dumps({"param": "lr"}), file=report)
    print(json.dumps({"metric": "accuracy", "value": lr * 2}), file=report)
total = sum(map(int, open("clean.txt").read().split()))
if lr < 0:
    open("clean.txt", "w").write("spoiled")
    sys.exit(3)
open("model.txt", "w").write(f"{total * lr}")
"""


@pytest.fixture
def stages(repo: Path, keep: Keep, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "")
    keep("base", **{
        "prepare.py": PREPARE, "train.py": TRAIN, "helper.py": "def scale(n):\n    return n * 2\n", "data__a": "1 2",
    })  # fmt: skip
    return repo


def ran(run: Run, *more: str) -> list[str]:
    """The scripts that were not skipped."""
    told = run("run", "prepare.py", "train.py", "--if-changed", *more).err.splitlines()
    return [line.split()[1].rstrip(":") for line in told if line.startswith("running ")]


def test_a_stage_runs_again_only_if_something_it_touched_changed(run: Run, stages: Path) -> None:
    both = ["prepare.py", "train.py"]
    assert ran(run) == both and ran(run) == []
    (stages / "unrelated").write_text("x")
    os.utime(stages / "data/a")
    assert ran(run) == [], "neither another file nor a new time of the same content counts"
    (stages / "helper.py").write_text(
        "def scale(n):\n    return n * 3  # another size, because Python tells old bytecode by size and second\n"
    )
    assert ran(run) == both, "a module that it imports"
    (stages / "data/b").write_text("5")
    assert ran(run) == both and (stages / "model.txt").read_text() == "24.0", "a new file in a folder that it lists"
    (stages / "model.txt").unlink()
    assert ran(run) == ["train.py"], "what it wrote"
    assert ran(run, "-p", "lr=0.5") == ["train.py"], "a param, for the stage that asks for it"
    (stages / "train.py").write_text(TRAIN + "\n# changed")
    assert ran(run, "-p", "lr=0.5") == ["train.py"] and ran(run, "-p", "lr=0.5") == []


def test_a_stage_that_fails_stops_the_others_and_is_not_skipped_later(run: Run, stages: Path) -> None:
    (stages / "prepare.py").write_text("raise SystemExit(4)")
    for _ in range(2):
        told = run("run", "prepare.py", "train.py", "--if-changed", code=4)
        assert "running prepare.py" in told.err and "train.py" not in told.err


def test_datasets_that_a_stage_reads_count(run: Run, stages: Path) -> None:
    (stages / "one.py").write_text("import memlake as ml\nml.read_csv('t.csv').save('t')\n")
    (stages / "two.py").write_text("import memlake as ml\nprint(ml.read_dataset('t').count())\n")
    (stages / "t.csv").write_text("x\n1\n")

    def again() -> list[str]:
        told = run("run", "one.py", "two.py", "--if-changed").err.splitlines()
        return [line.split()[1].rstrip(":") for line in told if line.startswith("running ")]

    assert again() == ["one.py", "two.py"] and again() == []
    (stages / "t.csv").write_text("x\n1\n2\n")
    assert again() == ["one.py", "two.py"]


def test_several_scripts_run_in_order_without_a_repo_too(run: Run, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("open('log', 'a').write('a')")
    (tmp_path / "b.py").write_text("open('log', 'a').write('b')")
    run("run", "a.py", "b.py")
    assert (tmp_path / "log").read_text() == "ab"


def test_each_combination_gets_a_branch_with_its_params_and_metrics(run: Run, stages: Path) -> None:
    told = run("run", "prepare.py", "train.py", "--grid", "lr=0.1,2", "--branch", "hp/{n}")
    assert [line.split()[0] for line in told.lines] == ["hp/1", "hp/2"]
    assert run("status", "--porcelain").out == "" and run("rev-parse", "--abbrev-ref", "HEAD").lines == ["main"]
    assert run("cat", "hp/2:model.txt").out == "12.0" and not (stages / "model.txt").exists()
    rows = run("metrics", "hp/*", "--sort", "accuracy", "--json").json["commits"]
    assert [(row["rev"], row["metrics"], row["params"]) for row in rows] == [
        ("hp/2", {"accuracy": 4.0}, {"lr": 2}),
        ("hp/1", {"accuracy": 0.2}, {"lr": 0.1}),
    ]


def test_a_combination_that_fails_leaves_no_branch_and_clean_files(run: Run, stages: Path, keep: Keep) -> None:
    (stages / "clean.txt").write_text("1 2")
    keep("clean")
    run("run", "train.py", "--grid", "lr=-1,1", "--branch", "hp/{lr}", code=3)
    names = [branch["name"] for branch in run("branch", "--json").json["branches"]]
    assert names == ["hp/1", "main"] and (stages / "clean.txt").read_text() == "1 2"


@pytest.mark.parametrize(
    ("given", "code", "said"),
    [
        (["--grid", "lr"], 2, "NAME=V1,V2"),
        (["--grid", "lr=1,2", "--branch", "same"], 2, "one name"),
        (["--grid", "lr=1,2", "--branch", "a..{n}"], 128, "a..1"),
        (["--grid", "lr=1", "--branch", "main"], 128, "exists already"),
    ],
)
def test_a_grid_that_makes_no_sense_runs_nothing(
    run: Run, stages: Path, given: list[str], code: int, said: str
) -> None:
    told = run("run", "prepare.py", *given, code=code)
    assert said in told.err and not (stages / "clean.txt").exists()


def test_uncommitted_work_is_not_carried_into_branches(run: Run, stages: Path) -> None:
    (stages / "helper.py").write_text("mine")
    told = run("run", "train.py", "--grid", "lr=1", "--branch", "hp/{n}", code=1)
    assert "not committed" in told.err and (stages / "helper.py").read_text() == "mine"


def test_untracked_files_are_not_carried_into_branches(run: Run, stages: Path) -> None:
    (stages / "prepare.py").write_text("open('log.txt', 'a').write('more')")
    run("commit", "-a", "-m", "a log")
    (stages / "log.txt").write_text("precious")
    grid = ("run", "prepare.py", "--grid", "lr=1.0,3.0", "--branch", "hp/{n}")
    told = run(*grid, code=1)
    assert "log.txt" in told.err and "Nothing was run" in told.err
    assert (stages / "log.txt").read_text() == "precious"
    assert [branch["name"] for branch in run("branch", "--json").json["branches"]] == ["main"]
    (stages / ".memlakeignore").write_text("log.txt\n")
    run("add", ".memlakeignore")
    run("commit", "-m", "ignore the log")
    run(*grid)
    assert (stages / "log.txt").read_text() == "preciousmoremore", "an ignored file stays where it is"


def test_what_later_stages_write_into_a_listed_folder_is_no_change(run: Run, stages: Path) -> None:
    (stages / "prepare.py").write_text(
        "import glob\nopen('out/all', 'w').write(' '.join(sorted(glob.glob('out/*.csv') + glob.glob('*'))))\n"
    )
    (stages / "train.py").write_text("open('out/model', 'w').write(open('out/all').read()); open('top', 'w')\n")
    (stages / "out").mkdir()
    (stages / "out/1.csv").write_text("1")
    assert ran(run) == ["prepare.py", "train.py"] and ran(run) == []
    (stages / "out/2.csv").write_text("2")
    assert ran(run) == ["prepare.py", "train.py"] and ran(run) == [], "now that they were there before it ran, too"
    (stages / "out/1.csv").unlink()
    assert ran(run) == ["prepare.py", "train.py"]


def test_what_an_earlier_stage_writes_into_a_listed_folder_counts(run: Run, stages: Path) -> None:
    (stages / "prepare.py").write_text("n = open('data/a').read()\nopen(f'data/made{n}', 'w').write('1')\n")
    (stages / "train.py").write_text("import os\nopen('names', 'w').write(str(sorted(os.listdir('data'))))\n")
    assert ran(run) == ["prepare.py", "train.py"] and ran(run) == []
    (stages / "data/a").write_text("9")
    assert ran(run) == ["prepare.py", "train.py"] and "made9" in (stages / "names").read_text()


def test_a_file_that_a_later_stage_goes_on_writing_is_no_change(run: Run, stages: Path) -> None:
    (stages / "prepare.py").write_text("open('log', 'w').write('one ')\n")
    (stages / "train.py").write_text("open('log', 'a').write('two')\n")
    assert ran(run) == ["prepare.py", "train.py"] and ran(run) == []
    (stages / "log").write_text("three")
    assert ran(run) == ["prepare.py", "train.py"] and (stages / "log").read_text() == "one two"


def test_one_undo_takes_back_a_grid_and_redo_brings_it_again(run: Run, stages: Path, keep: Keep) -> None:
    keep("before", note="1")
    grid = ("run", "prepare.py", "train.py", "--grid", "lr=0.1,2,-1", "--branch", "hp/{n}")
    run(*grid, code=3)
    listed = run("branch", "--json").json["branches"]
    assert [branch["name"] for branch in listed] == ["hp/1", "hp/2", "main"]
    assert "run --branch hp/{n}" in run("undo").out
    assert [branch["name"] for branch in run("branch", "--json").json["branches"]] == ["main"]
    run("redo")
    assert run("branch", "--json").json["branches"] == listed and run("cat", "hp/2:model.txt").out == "12.0"
    run("undo")
    assert "before" in run("undo").out, "then what was done before the grid"


def test_a_grid_on_whose_branch_others_wrote_since_is_not_undone(run: Run, stages: Path) -> None:
    run("run", "prepare.py", "--grid", "lr=1,2", "--branch", "hp/{n}")
    with ml.open(stages) as repo:
        repo.write({"files/note": b"1"}, "more", branch="hp/2")
    assert "'hp/2' moved since; undo would lose that. Nothing was changed." in run("undo", code=1).err
    assert [branch["name"] for branch in run("branch", "--json").json["branches"]] == ["hp/1", "hp/2", "main"]
