"""memlake run and memlake runs: params reach the script, its exit code comes back, answers become datasets."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Run

Process = Callable[..., "subprocess.CompletedProcess[bytes]"]
SCRIPT = """
import sys
import memlake as ml
rate = ml.param("rate", 0.5)
ml.read_values(x=[1, 2]).mutate(y=ml.C("x") * rate).save("scaled")
ml.metrics.set("loss", rate / 2)
ml.read_dataset("scaled").show()
print("args", sys.argv[1:])
raise SystemExit(3)
"""


@pytest.fixture
def script(run: Run, tmp_path: Path) -> Path:
    run("init")
    (tmp_path / "train.py").write_text(SCRIPT)
    return tmp_path / "train.py"


def test_run_sets_params_passes_the_exit_code_on_and_tells_what_came_of_it(
    script: Path, process: Process, run: Run
) -> None:
    done = process("run", "train.py", "-p", "rate=0.25", "--", "--fast", "-p", cwd=script.parent)
    assert done.returncode == 3
    assert b"args ['--fast', '-p']" in done.stdout
    assert done.stderr.decode().splitlines() == ["saved  scaled@1.0.0: 2 rows", "metric loss = 0.125"]
    again = process("run", "train.py", "-p", "rate=0.25", cwd=script.parent)
    assert again.stderr.decode().splitlines() == ["reused scaled@1.0.0: 2 rows", "metric loss = 0.125"]


def test_run_takes_params_from_a_file_and_the_command_line_wins(script: Path, process: Process) -> None:
    (script.parent / "p.json").write_text('{"rate": 4}')
    done = process("run", "train.py", "--params", "p.json", cwd=script.parent)
    assert b"metric loss = 2.0" in done.stderr
    done = process("run", "train.py", "--params", "p.json", "-p", "rate=1", cwd=script.parent)
    assert b"metric loss = 0.5" in done.stderr


def test_run_passes_a_signal_on_as_a_shell_does(script: Path, process: Process) -> None:
    (script.parent / "die.py").write_text("import os, signal; os.kill(os.getpid(), signal.SIGTERM)")
    assert process("run", "die.py", cwd=script.parent).returncode == 128 + 15


def test_run_says_what_is_wrong_before_it_runs_anything(script: Path, run: Run) -> None:
    assert "no file 'none.py'" in run("run", "none.py", code=128).err
    assert "no file 'p.toml'" in run("run", "train.py", "--params", "p.toml", code=128).err
    assert "NAME=VALUE" in run("run", "train.py", "-p", "rate", code=2).err
    assert run("runs").out == ""


def test_runs_are_listed_shown_and_promoted(script: Path, process: Process, run: Run) -> None:
    process("run", "train.py", cwd=script.parent)
    listed = run("runs")
    assert "show" in listed.out and "2 rows" in listed.out and "train.py: dataset scaled@1.0.0" in listed.out
    [one] = run("runs", "--json").json["runs"]
    assert (one["number"], one["action"], one["rows"], one["kept"]) == (1, "show", 2, "")
    assert one["date"] and one["provenance"]["source"] == SCRIPT
    shown = run("runs", "show", "1").out
    assert "param   rate = 0.5 (default)" in shown and "raise SystemExit(3)" in shown
    assert run("runs", "show", "1", "--json").json["run"]["number"] == 1
    assert run("runs", "promote", "1", "kept").out == "saved kept@1.0.0: 2 rows\n"
    assert run("runs", "promote", "1", "again", "--json").json["dataset"]["name"] == "again"
    assert "no run 7" in run("runs", "promote", "7", "kept", code=128).err


def test_no_runs_is_said_and_no_error(script: Path, run: Run) -> None:
    assert "There are no runs here" in run("runs").err
    assert run("runs", "--json").json["runs"] == []


def test_a_param_that_nothing_asked_for_is_said(script: Path, process: Process) -> None:
    (script.parent / "ok.py").write_text(SCRIPT.replace("raise SystemExit(3)", ""))
    done = process("run", "ok.py", "-p", "rtae=1", "-p", "rate=2", cwd=script.parent)
    warned = [line for line in done.stderr.decode().splitlines() if line.startswith("warning")]
    assert warned == ["warning: the script never asked for param rtae, so it had no effect. Did you mean rate?"]


def test_params_of_a_file_that_nothing_asked_for_are_said_once(script: Path, process: Process) -> None:
    (script.parent / "ok.py").write_text(SCRIPT.replace("raise SystemExit(3)", 'ml.param("train", {})'))
    (script.parent / "p.toml").write_text("rtae = 1\nrate = 2\ndepth = 3\n[train]\nepochs = 4\n")
    done = process("run", "ok.py", "--params", "p.toml", "-p", "more=1", cwd=script.parent)
    assert [line for line in done.stderr.decode().splitlines() if line.startswith("warning")] == [
        "warning: the script never asked for param more, so it had no effect.",
        "warning: nothing asked for these params of p.toml: rtae (did you mean rate?), depth. They had no effect.",
    ]


def test_a_file_of_params_for_a_script_that_asks_for_none_is_said(script: Path, process: Process) -> None:
    (script.parent / "ok.py").write_text("print(1)")
    (script.parent / "p.toml").write_text("rate = 2\n")
    done = process("run", "ok.py", "--params", "p.toml", cwd=script.parent)
    assert done.stderr.decode() == "warning: the script never asked for a param, so p.toml had no effect.\n"


def test_a_version_left_for_one_with_the_params_of_this_run_is_not_told(script: Path, process: Process) -> None:
    script.write_text(
        "import memlake as ml\nml.read_values(x=[1]).save('early')\nml.read_values(x=[2]).save('other')\n"
        "ml.param('rate', 0.1)\n"
    )
    for rate, word, version in [("0.1", "saved ", "1.0.0"), ("0.5", "saved ", "1.0.1"), ("0.5", "reused", "1.0.1")]:
        told = process("run", script.name, "-p", f"rate={rate}", cwd=script.parent).stderr.decode().splitlines()
        assert told == [f"{word} {name}@{version}: 1 row" for name in ("early", "other")]
