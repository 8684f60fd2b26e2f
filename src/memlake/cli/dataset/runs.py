"""run and runs: a script with its params, and chains that ended in an answer instead of a save."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import click

from memlake import config
from memlake.cli.arguments import SplitCommand, after_dashes, json_option, pass_screen
from memlake.cli.dataset.arguments import pass_datasets
from memlake.cli.screen import Screen
from memlake.dataset import feedback
from memlake.errors import NotFound, Usage
from memlake.views import words
from memlake.views.dataset_versions import run_line, run_lines

if TYPE_CHECKING:
    from memlake.dataset.datasets import Datasets


# -- running a script ------------------------------------------------------------------------------


@click.command(cls=SplitCommand)
@click.argument("script", type=click.Path())
@click.option("-p", "--param", "given", multiple=True, metavar="NAME=VALUE", help="Set a param of the script.")
@click.option("--params", "file", metavar="FILE", type=click.Path(), help="Params from a TOML or JSON file.")
@pass_screen
def run(screen: Screen, /, *, script: str, given: tuple[str, ...], file: str | None) -> int:
    """Run a Python script with params, as `ml.param(NAME)` gives them. What follows `--` are its own arguments.

    Its exit code is passed on. At the end stands what it saved and measured.
    """
    for path in (script, *([file] if file else [])):
        if not os.path.isfile(path):
            raise NotFound(f"there is no file {words.clean(path)!r}. Nothing was run.")
    with tempfile.TemporaryDirectory() as folder:
        report = os.path.join(folder, "report")
        command = [sys.executable, script, *(after_dashes() or ())]
        params = _params(given)
        code = _wait(subprocess.Popen(command, env=_environment(params, file, report)))
        told = _read(report)
        for line in [*_told(told), *(_unasked(params, file, told) if code == 0 else ())]:
            screen.note(words.clean(line))
    return code


def _params(given: Sequence[str]) -> dict[str, str]:
    for one in given:
        if "=" not in one or one.startswith("="):
            raise Usage(f"-p takes NAME=VALUE, not {words.clean(one)!r}. Nothing was run.", hint="Like: -p rate=0.01")
    return {name: value for name, _, value in (one.partition("=") for one in given)}


def _environment(params: dict[str, str], file: str | None, report: str) -> dict[str, str]:
    """As ours, with the params: they reach the workers of the script too."""
    made = {**config.environment(), "MEMLAKE_RUN_REPORT": report}
    made |= {"MEMLAKE_RUN_PARAMS": json.dumps(params)} if params else {}
    return made | ({"MEMLAKE_PARAMS_FILE": os.path.abspath(file)} if file else {})


def _wait(process: subprocess.Popen[bytes]) -> int:
    """Until the script ends; ^C is its to answer, for it got the signal too."""
    while True:
        with suppress(KeyboardInterrupt):
            code = process.wait()
            return code if code >= 0 else 128 - code  # as a shell tells of a signal


def _read(report: str) -> list[dict[str, Any]]:
    try:
        with open(report, encoding="utf-8") as file:
            return [json.loads(line) for line in file]
    except FileNotFoundError:  # it saved nothing
        return []


def _unasked(given: Iterable[str], file: str | None, lines: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Params that were given and nothing asked for: mostly they are misspelled."""
    asked = list(dict.fromkeys(one["param"] for one in lines if "param" in one))
    for name in feedback.find_unused(given, asked):
        near = feedback.find_nearest(name, asked)
        yield f"warning: nothing asked for param {name}; it had no effect." + (f" Did you mean {near}?" if near else "")
    offered = {one["offered"]: one["names"] for one in lines if "offered" in one}
    for path, names in offered.items():
        yield from feedback.warn_unused(path, names, asked)
    if file and not asked:
        yield f"warning: nothing asked for a param; {file} had no effect."


def _told(lines: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Each version once, as it was last, but for those left for one with params of this run; then the metrics."""
    saved: dict[str, dict[str, Any]] = {}
    for one in lines:
        saved.pop(one.get("left", ""), None)
        if "saved" in one:
            saved[one["saved"]] = {**one, "new": one["new"] or saved.get(one["saved"], one)["new"]}
    for spec, one in saved.items():
        yield f"{'saved ' if one['new'] else 'reused'} {spec}: {words.count(one['rows'], 'row')}"
    for name, value in {one["metric"]: one["value"] for one in lines if "metric" in one}.items():
        yield f"metric {name} = {value}"


# -- answers of before -----------------------------------------------------------------------------


@click.group(invoke_without_command=True)
@click.option("-n", "--max-count", "limit", type=click.IntRange(1), default=20, help="At most N runs.")
@json_option
@click.pass_context
def runs(ctx: click.Context, /, *, limit: int, as_json: bool) -> None:
    """List chains that ended in an answer (show, to_...) instead of a save, newest first."""
    if ctx.invoked_subcommand is None:
        _list(limit=limit, as_json=as_json)


@pass_datasets
def _list(datasets: Datasets, screen: Screen, /, *, limit: int, as_json: bool) -> None:
    found = datasets.runs()[:limit]
    if as_json:
        screen.json({"runs": found})
        return
    with screen.pages():
        screen.lines(run_line(screen, one) for one in found)
    if not found:
        screen.note("No run is remembered here: a chain that ends in show or to_... leaves one.")


@runs.command("show")
@click.argument("number", type=int)
@json_option
@pass_datasets
def show_run(datasets: Datasets, screen: Screen, /, *, number: int, as_json: bool) -> None:
    """Show a run: its steps, its program, and whether its rows are kept."""
    found = datasets.run_of(number)
    if as_json:
        screen.json({"run": found})
        return
    with screen.pages():
        screen.lines(map(screen.clean, run_lines(found)))


@runs.command()
@click.argument("number", type=int)
@click.argument("name")
@json_option
@pass_datasets
def promote(datasets: Datasets, screen: Screen, /, *, number: int, name: str, as_json: bool) -> None:
    """Keep the rows of run NUMBER as dataset NAME, with the provenance they have."""
    made = datasets.promote(number, name).record
    assert made is not None
    if as_json:
        screen.json({"dataset": made.to_dict()})
    else:
        screen.line(f"saved {screen.clean(made.spec)}: {words.count(made.rows, 'row')}")
