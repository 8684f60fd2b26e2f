"""What a verb adds to an error on its way out: names close to a mistyped one, and the exit code that git has."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from memlake.errors import Error, InvalidInput, NotFound
from memlake.repo import Repo

if TYPE_CHECKING:
    import click  # only an option that does not exist needs it, and click has said so then

_WILD = frozenset("*?[")
_MEANT = {"top-k": "limit"}  # options that other programs call otherwise: an agent's parameter is top_k
_REMOVING = ("remove", "forget", "delete", "rm", "unset")  # what commands of one sense are called here or elsewhere


def close(word: str, names: Iterable[str], cutoff: float = 0.6) -> list[str]:
    """At most three names that `word` was probably meant to be, best first."""
    import difflib

    by_folded = {name.casefold(): name for name in names}
    found = difflib.get_close_matches(word.casefold(), by_folded, n=3, cutoff=cutoff)
    return [by_folded[name] for name in found]


def did_you_mean(word: str, names: Iterable[str]) -> str:
    """The hint line, or nothing when no name is close."""
    found = close(word, names)
    return f"Did you mean {' or '.join(repr(name) for name in found)}?" if found else ""


def option_hint(wrong: click.NoSuchOption) -> str:
    """The long options of the command that are near; dashes, which all of them have, make none near."""
    params = wrong.ctx.command.get_params(wrong.ctx) if wrong.ctx else []
    known = [one[2:] for param in params for one in (*param.opts, *param.secondary_opts) if one.startswith("--")]
    word = wrong.option_name.lstrip("-")
    meant = _MEANT.get(word)
    found = [meant] if meant in known else close(word, known, 0.65)
    return f"Did you mean {' or '.join(repr(f'--{name}') for name in found)}?" if found else ""


def command_hint(ctx: click.Context, word: str) -> str:
    """The command of a group that was probably meant: one of the same sense, else those that are near."""
    group = ctx.command
    names = group.list_commands(ctx) if hasattr(group, "list_commands") else []
    same = [name for name in _REMOVING if name in names] if word in _REMOVING else []
    found = same[:1] or close(word, names)
    return f"Did you mean {' or '.join(repr(f'{ctx.command_path} {name}') for name in found)}?" if found else ""


@contextmanager
def suggest_revs(repo: Repo, rev: str) -> Iterator[None]:
    """Adds a hint with close branch and tag names when `rev` is not found."""
    try:
        yield
    except (NotFound, InvalidInput) as error:
        hint = "" if "Did you mean" in error.hint else rev_hint(repo, rev)
        if not hint:
            raise
        error.hint = f"{hint}\n{error.hint}".strip()
        raise


def rev_hint(repo: Repo, rev: str) -> str:
    word = rev.rsplit("..", maxsplit=1)[-1].strip(".")
    for mark in ("~", "^", "@"):
        word = word.split(mark, 1)[0]
    if not _WILD.isdisjoint(word):
        return ""
    names = [branch.name for branch in repo.branches] + [tag.name for tag in repo.tags]
    if word in names or word == "HEAD":
        return ""  # it is there, so something else was not found
    return did_you_mean(word, names) if word else ""


@contextmanager
def exit_with(code: int, *kinds: type[Error]) -> Iterator[None]:
    """Errors of these kinds, raised inside, end the command with `code`: where git's is not the one of the error."""
    try:
        yield
    except kinds as error:
        error.exit_code = code
        raise
