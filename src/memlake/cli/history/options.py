"""Options that diff, log and show share: in which form changes are shown, and how a commit is written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from memlake.cli.arguments import Number
from memlake.cli.screen import Screen
from memlake.views.commit_text import DATE_HELP, FORMAT_HELP, date_style
from memlake.views.patches import Detail

Command = TypeVar("Command", bound=Callable[..., Any])
_WORDS = click.Choice(["plain", "color", "porcelain", "none"])


def detail_options(default: str) -> Callable[[Command], Command]:
    """In which form changes are shown; `default` is the one without an option, "patch" or none ("")."""
    also = "; the default" if default == "patch" else ""
    rows = ("-n", "--rows") if default == "patch" else ("--rows",)  # -n of log counts commits
    options = (
        click.option("--stat", "form", flag_value="stat", help="Show how much changed in each file."),
        click.option("--numstat", "form", flag_value="numstat", help="Show counts of lines and paths, for scripts."),
        click.option("--shortstat", "form", flag_value="shortstat", help="Show only the last line of --stat."),
        click.option("--name-status", "form", flag_value="name-status", help="Show the paths and how they changed."),
        click.option("--name-only", "form", flag_value="name-only", help="Show only the paths that changed."),
        click.option("-p", "--patch", "form", flag_value="patch", help=f"Show the changes themselves{also}."),
        click.option("-s", "--no-patch", "form", flag_value="none", help="Show no changes."),
        click.option("-z", "nul", is_flag=True, help="End names and numbers with NUL, and quote nothing."),
        click.option(
            "--word-diff", "words", is_flag=False, flag_value="plain", type=_WORDS,
            help="Show which words of the lines differ; plain if you do not say how. Implies --text.",
        ),
        click.option("--color-words", "words", flag_value="color", help="The same as --word-diff=color."),
        click.option(
            "--key", multiple=True, metavar="COLUMN", help="Match rows of a table by this column. Repeat it for more."
        ),
        click.option(
            *rows, type=Number(0), metavar="N", default=10, show_default=True,
            help="Show N rows of each kind.",
        ),
        click.option("--text", "as_text", is_flag=True, help="Compare tables line by line, too."),
    )  # fmt: skip
    return lambda command: _add(command, *options)


def commit_options(command: Command) -> Command:
    """How a commit is written."""
    return _add(
        command,
        click.option("--oneline", is_flag=True, help="One line per commit."),
        click.option("--format", "--pretty", "pretty", metavar="FORMAT", help=FORMAT_HELP),
        click.option("--date", metavar="STYLE", default="default", callback=date_style, help=DATE_HELP),
    )


def _add(command: Command, *options: Callable[[Command], Command]) -> Command:
    for option in reversed(options):
        command = option(command)
    return command


def take_detail(screen: Screen, how: dict[str, Any], default: str) -> Detail:
    """What the options of `detail_options` ask for, taken out of `how`."""
    form, words = how.pop("form") or default, how.pop("words") or "none"
    as_text = how.pop("as_text") or words != "none"
    if words == "color":
        screen.color = True  # without colours nobody could tell the words apart
    return Detail(
        form="" if form == "none" else form,
        words="" if words == "none" else words,
        nul=how.pop("nul"),
        inside=not as_text,
        key=how.pop("key"),
        limit=how.pop("rows"),
    )
