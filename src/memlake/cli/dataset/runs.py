"""run and runs: a script with its params, and chains that ended in an answer instead of a save."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from memlake import config
from memlake import open as open_repo
from memlake.cli.arguments import JSON, Number, SplitCommand, after_dashes, open_datasets, open_screen_only, verb
from memlake.cli.dataset.grid import Runner, expand_grid
from memlake.cli.screen import Screen
from memlake.dataset.lineage import opened_files
from memlake.errors import Error, NotFound, Usage
from memlake.repo.stages import Seen, Stage, parse_seen
from memlake.views import words
from memlake.views.dataset import run_line, run_lines

if TYPE_CHECKING:
    from memlake.dataset.datasets import Datasets


# -- running a script


@verb(opens=open_screen_only, cls=SplitCommand)
@click.argument("scripts", nargs=-1, required=True, metavar="SCRIPT...")
@click.option("-p", "--param", "given", multiple=True, metavar="NAME=VALUE", help="Set a param of the scripts.")
@click.option("--params", "file", metavar="FILE", type=click.Path(), help="Params from a TOML or JSON file.")
@click.option("--if-changed", is_flag=True, help="Skip a script if nothing it read or wrote last time has changed.")
@click.option("--grid", multiple=True, metavar="NAME=V1,V2,...", help="Run once for every combination of these values.")
@click.option("--branch", "pattern", metavar="PATTERN", help="Run each combination on a branch of its own: 'hp/{n}'.")
def run(screen: Screen, /, *, scripts: tuple[str, ...], given: tuple[str, ...], **how: Any) -> int:
    """Run Python scripts in order, with params, which they read with `ml.param(NAME)`.

    What follows `--` are arguments of each script. At the end, the output lists what a script saved and measured. The
    first script that fails stops the others, and the exit code is its own.

    In a repo, a commit of what a script wrote records the script, its params and what it read, for `memlake lineage`
    and `memlake rebuild`. What Python and memlake open is seen; other native code is not.

    With --if-changed, a script is skipped if its source, the files and datasets it read and wrote, its params and its
    arguments are as they were when it last ended well.

    With --branch, what a combination wrote is committed on its branch with its params and metrics, for
    `memlake metrics 'hp/*'`. {n} is its number, and {NAME} the value of a param. Nothing runs while files are
    changed or untracked.
    """
    file = how["file"]
    for path in (*scripts, *([file] if file else [])):
        config.real_name(path)
        if not os.path.isfile(path):
            raise NotFound(f"there is no file {words.clean(path)!r}. Nothing was run.")
    params, combinations = _params(given), expand_grid(how["grid"])
    stages = [
        [Stage(script, after_dashes() or (), {**params, **one}, file) for script in scripts] for one in combinations
    ]
    with contextlib.ExitStack() as stack:
        repo = None
        try:
            repo = stack.enter_context(open_repo())
        except Error:
            if how["pattern"] is not None or how["if_changed"]:
                raise
        runner = Runner(repo, screen, _run_stage, if_changed=how["if_changed"])
        if how["pattern"] is None:
            return next((code for row in stages if (code := runner.run(row))), 0)
        return runner.run_on_branches(stages, combinations, how["pattern"])


def _run_stage(screen: Screen, stage: Stage, watch: bool) -> tuple[int, Seen]:
    """Run one script; returns its exit code, and if it is watched what it touched."""
    with tempfile.TemporaryDirectory() as folder:
        report, log = os.path.join(folder, "report"), Path(folder, "opened")
        command = [sys.executable, stage.script, *stage.arguments]
        environment = _environment(dict(stage.params), stage.params_file, report)
        if watch:
            (Path(folder) / "sitecustomize.py").write_text(opened_files.HOOK, encoding="utf-8")
            found = os.pathsep.join(part for part in (folder, environment.get("PYTHONPATH", "")) if part)
            environment |= {"PYTHONPATH": found, "MEMLAKE_RUN_OPENED": str(log)}
        code = _wait(subprocess.Popen(command, env=environment))
        lines = _read_report(report)
        for line in _result_lines(lines):
            screen.note(words.clean(line))
        return code, parse_seen(stage, opened_files.read_opened(log), lines)


def _params(given: Sequence[str]) -> dict[str, str]:
    for one in given:
        if "=" not in one or one.startswith("="):
            message = f"-p takes NAME=VALUE, not {words.clean(one)!r}. Nothing was run."
            raise Usage(message, hint="For example: -p rate=0.01")
    return {name: value for name, _, value in (one.partition("=") for one in given)}


def _environment(params: dict[str, str], file: str | None, report: str) -> dict[str, str]:
    """As ours, with the params: they reach the workers of the script too."""
    made = {**config.environment(), "MEMLAKE_RUN_REPORT": report}
    made |= {"MEMLAKE_RUN_PARAMS": json.dumps(params)} if params else {}
    return made | ({"MEMLAKE_PARAMS_FILE": os.path.abspath(file)} if file else {})


def _wait(process: subprocess.Popen[bytes]) -> int:
    """Waits until the script ends. It answers ^C itself, because it got the signal too."""
    while True:
        with contextlib.suppress(KeyboardInterrupt):
            code = process.wait()
            return code if code >= 0 else 128 - code  # as a shell tells of a signal


def _read_report(report: str) -> list[dict[str, Any]]:
    try:
        with open(report, encoding="utf-8") as file:
            return [json.loads(line) for line in file]
    except FileNotFoundError:  # it saved nothing
        return []


def _result_lines(lines: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Each version once, as it was last, without those that a version with this run's params replaced; then metrics."""
    saved: dict[str, dict[str, Any]] = {}
    for one in lines:
        saved.pop(one.get("left", ""), None)
        if "saved" in one:
            saved[one["saved"]] = {**one, "new": one["new"] or saved.get(one["saved"], one)["new"]}
    for spec, one in saved.items():
        yield f"{'saved ' if one['new'] else 'reused'} {spec}: {words.count(one['rows'], 'row')}"
    for name, value in {one["metric"]: one["value"] for one in lines if "metric" in one}.items():
        yield f"metric {name} = {value}"


# -- chains that ended in an answer


@click.group(invoke_without_command=True)
@click.option("-n", "--max-count", "limit", type=Number(1), metavar="N", default=20, help="At most N runs.")
@click.pass_context
def runs(ctx: click.Context, /, *, limit: int, as_json: bool) -> None:  # noqa: ARG001  the screen reads it
    """List chains that ended in an answer (show, to_...) instead of a save, newest first."""
    if ctx.invoked_subcommand is not None:
        return
    with open_datasets({}) as (datasets, screen):
        listed = datasets.runs()[:limit]
        screen.show({"runs": listed}, (run_line(screen, one) for one in listed))
        if not listed and not screen.as_json:
            screen.note("There are no runs here. A chain that ends in show or to_... leaves one.")


runs.params.append(JSON)


@verb("show", opens=open_datasets, group=runs, shared=[JSON])
@click.argument("number", type=int)
def show_run(datasets: Datasets, screen: Screen, /, *, number: int) -> None:
    """Show a run: its steps, its program, and whether its rows are kept."""
    run = datasets.run_of(number)
    screen.show({"run": run}, map(screen.clean, run_lines(run)))


@verb(opens=open_datasets, group=runs, shared=[JSON])
@click.argument("number", type=int)
@click.argument("name")
def promote(datasets: Datasets, screen: Screen, /, *, number: int, name: str) -> None:
    """Keep the rows of run NUMBER as dataset NAME, with the provenance they have."""
    saved = datasets.promote(number, name).record
    assert saved is not None
    line = f"saved {screen.clean(saved.spec)}: {words.count(saved.rows, 'row')}"
    screen.show({"dataset": saved.to_dict()}, [line], pages=False)
