"""commit: the message from the command line, a file or an editor; metrics and params; what was committed."""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import click

from memlake import config
from memlake.cli.arguments import QUIET, complete_with, verb
from memlake.cli.screen import Screen
from memlake.cli.suggest import exit_with
from memlake.errors import InvalidInput, NotFound, Nothing, Usage
from memlake.named_tuple import NamedTuple
from memlake.records import Author, Commit, short
from memlake.repo import Repo
from memlake.views import changes
from memlake.views.status import long_lines

_AUTHOR = re.compile(r"\s*(?P<name>[^<>]*?)\s*<(?P<email>[^<>]*)>\s*")


class Options(NamedTuple):
    """The options of `commit`."""

    messages: tuple[str, ...]
    message_file: str | None
    everything: bool
    amend: bool
    no_edit: bool
    allow_empty: bool
    author: str | None
    uses: tuple[str, ...]
    quiet: bool
    paths: tuple[str, ...]


def fact_options(verb: Callable[..., None]) -> Callable[..., None]:
    """The options of what a commit says beside its content; `read_facts` reads them."""
    for option in (
        click.option("--params-file", metavar="FILE", help="Params from a JSON or TOML file."),
        click.option("--metrics-file", metavar="FILE", help="Metrics from a JSON or TOML file."),
        click.option(
            "--param", "params", multiple=True, metavar="NAME=VALUE", help="A parameter that produced this commit."
        ),
        click.option("--metric", "metrics", multiple=True, metavar="NAME=NUMBER", help="A score of this commit."),
    ):
        verb = option(verb)
    return verb


@verb(shared=[QUIET])
@click.argument("paths", nargs=-1, metavar="[PATH]...", shell_complete=complete_with("path"))
@click.option("-m", "--message", "messages", multiple=True, help="The message. Repeat it for more paragraphs.")
@click.option("-F", "--file", "message_file", metavar="FILE", help="Read the message from FILE (- for standard input).")
@click.option("-a", "--all", "everything", is_flag=True, help="Stage every tracked file first.")
@click.option("--amend", is_flag=True, help="Replace the last commit.")
@click.option("--no-edit", is_flag=True, help="With --amend, keep the message.")
@click.option("--allow-empty", is_flag=True, help="Commit even if nothing changed.")
@click.option("--author", metavar="'NAME <EMAIL>'", help="Commit in the name of someone else.")
@click.option(
    "--uses", multiple=True, metavar="PATH[@REV]", shell_complete=complete_with("path"), help="What this was made from."
)
@fact_options
def commit(repo: Repo, screen: Screen, /, **options: Any) -> None:
    """Commit what is staged, or with PATHs only those files, as they are now."""
    wanted = Options(**{name: options[name] for name in Options._fields})
    if wanted.paths and wanted.everything:
        raise Usage("-a commits every tracked file, so it does not take paths.")
    message = _message(repo, wanted)
    if message is not None and not message.strip():
        raise Nothing("the message is empty. Nothing was committed.", hint="Give one with -m 'MESSAGE'.")
    with exit_with(1, NotFound):
        made = repo.commit(
            message,
            paths=wanted.paths,
            all=wanted.everything,
            amend=wanted.amend,
            allow_empty=wanted.allow_empty,
            author=parse_author(wanted.author) if wanted.author else None,
            uses=list(wanted.uses),
            **read_facts(options),
        )
    if not wanted.quiet:
        screen.lines(made_lines(repo, screen, made))


def made_lines(repo: Repo, screen: Screen, made: Commit) -> list[str]:
    """`[main 1a2b3c4d5e] subject`, and how many files it changed."""
    where = screen.clean(repo.branches.current) if repo.branches.current else "detached HEAD"
    root = "" if made.parents else " (root-commit)"
    rows = changes.rows(repo.show(made).changes)
    return [f"[{where}{root} {short(made.oid)}] {screen.clean(made.subject)}", f" {changes.summary(rows)}"]


# -- the message


def _message(repo: Repo, wanted: Options) -> str | None:
    """The message given or written; None keeps the one there is, of the commit being amended or of a waiting merge."""
    if wanted.messages or wanted.message_file:
        return given_message(wanted.messages, wanted.message_file)
    old = repo.show("HEAD").commit.message if wanted.amend else ""
    if wanted.amend and (wanted.no_edit or not can_edit(repo)):
        return None
    if not wanted.amend and repo.status().doing:
        return None
    return write_message(repo, old)


def given_message(parts: Sequence[str], file: str | None) -> str:
    """What -m (again for another paragraph) or -F says, empty without either."""
    if parts and file:
        raise Usage("-m and -F both give a message, so use only one of them.")
    return read_text(file) if file else "\n\n".join(parts)


def can_edit(repo: Repo) -> bool:
    """Whether someone can be asked: at a terminal, or when an editor was named for memlake."""
    asked = bool(config.variable("EDITOR"))
    return asked or (sys.stdin.isatty() and sys.stdout.isatty() and bool(config.editor(repo.config.in_force)))


def write_message(repo: Repo, text: str = "", *, about: str = "the changes to be committed") -> str:
    """What the person wrote in the editor, without the lines that begin with #."""
    if not can_edit(repo):
        raise Nothing("there is no message. Nothing was done.", hint="Give one with -m 'MESSAGE'.")
    note = [f"Please write a message for {about}. Lines that start with '#' are", "left out. An empty message stops."]
    state = long_lines(repo.status(), Screen(), "")
    comment = "\n".join(f"# {line}".rstrip() for line in (*note, "", *state))
    written = click.edit(f"{text}\n{comment}\n", editor=config.editor(repo.config.in_force), require_save=False)
    lines = [line.rstrip() for line in (written or "").splitlines() if not line.startswith("#")]
    message = "\n".join(lines).strip()
    if not message:
        raise Nothing("the message is empty. Nothing was done.")
    return message


def read_text(file: str) -> str:
    """What a file holds, or standard input for `-`."""
    try:
        if file == "-":
            return sys.stdin.read().rstrip() if sys.stdin else ""
        with open(file, encoding="utf-8") as stream:
            return stream.read().rstrip()
    except OSError as error:
        raise NotFound(f"'{file}' cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise InvalidInput(f"'{file}' is not UTF-8 text.") from error
    except ValueError as error:
        raise InvalidInput(f"{file!r} cannot be the name of a file: {error}.") from error


# -- author, metrics, params


def parse_author(text: str) -> Author:
    """`Name <email>`; git's form, so that a forgotten bracket is not taken for a name."""
    match = _AUTHOR.fullmatch(text)
    if match is None or not match["name"]:
        raise InvalidInput(
            f"'{text}' is not an author.", hint="Write 'Name <email>', for example 'Ada <ada@example.org>'."
        )
    return Author(match["name"], match["email"])


def read_facts(options: Mapping[str, Any]) -> dict[str, Any]:
    """The metrics and params that `fact_options` were given, None where there are none."""
    return {
        "metrics": _parse_facts(options["metrics_file"], options["metrics"], "--metric"),
        "params": _parse_facts(options["params_file"], options["params"], "--param"),
    }


def _parse_facts(file: str | None, pairs: Sequence[str], option: str) -> dict[str, Any] | None:
    """The values of a file, and over them those of the line, which gives each name once."""
    given: dict[str, Any] = {}
    for pair in pairs:
        name, mark, text = pair.partition("=")
        if not mark or not name:
            raise Usage(f"{option} takes NAME={'NUMBER' if option == '--metric' else 'VALUE'}, not '{pair}'.")
        value = parse_value(text)
        if name in given:
            raise Usage(f"{option} gives {name} twice, as {given[name]} and as {value}. Give it once.")
        if option == "--metric" and not _is_measured(value):
            raise Usage(f"{option} {name}={text} is not a number, and a metric is one (or true or false).")
        given[name] = value
    return {**(read_table(file) if file else {}), **given} or None


def _is_measured(value: object) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)


def parse_value(text: str) -> Any:
    """A number, true, false or null as such; anything else is text."""
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return value if isinstance(value, bool | int | float | None) else text


def read_table(file: str) -> Mapping[str, Any]:
    """A JSON or TOML file that holds one table."""
    text = read_text(file)
    try:
        table = _parse_toml(text) if file.endswith(".toml") else json.loads(text)
    except ValueError as error:
        raise InvalidInput(f"'{file}' is not valid {'TOML' if file.endswith('.toml') else 'JSON'}: {error}") from error
    if not isinstance(table, dict):
        raise InvalidInput(f"'{file}' holds {type(table).__name__}, not a table of names and values.")
    return table


def _parse_toml(text: str) -> dict[str, Any]:
    import tomllib

    return tomllib.loads(text)
