"""How verbs take their arguments: the open repo, `REV... [--] PATH...`, shared options, completion. Shows nothing."""

from __future__ import annotations

import functools
import importlib
import os
import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

import click

from memlake import config, projects
from memlake import open as open_repo
from memlake.cli.screen import Screen, open_screen
from memlake.cli.suggest import rev_hint
from memlake.errors import InvalidInput, NotFound, Usage
from memlake.records import Lane
from memlake.repo import Repo
from memlake.views import paths

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

P = ParamSpec("P")
R = TypeVar("R")
_AFTER = "memlake.after"
_COUNT = re.compile(r"-[0-9]+")


# -- the repo and the screen


def screen(settings: config.Settings | None = None) -> Screen:
    given = click.get_current_context().find_root().params
    return open_screen(given.get("color") or "auto", pager=given.get("pager", True), settings=settings)


def pass_repo(verb: Callable[Concatenate[Repo, Screen, P], R]) -> Callable[P, R]:
    """Calls `verb` with the repo found from here and the screen its settings ask for; closes the repo after it."""

    @functools.wraps(verb)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        with open_repo() as repo:
            return verb(repo, screen(repo.settings), *args, **kwargs)

    return call


def pass_screen(verb: Callable[Concatenate[Screen, P], R]) -> Callable[P, R]:
    """Calls `verb`, which needs no repo, with the screen."""

    @functools.wraps(verb)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        return verb(screen(), *args, **kwargs)

    return call


class Number(click.IntRange):
    """A whole number of at least `min`. Click would say that 'x' is not a valid integer range."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        try:
            return int(super().convert(value, param, ctx))
        except click.BadParameter:
            self.fail(f"'{value}' is not possible; give a whole number, {self.min} or more.", param, ctx)


json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")


def _project(_ctx: click.Context, _param: click.Parameter, folder: str | None) -> str | None:
    return folder if folder is None or folder == "*" else projects.find_project(folder)


project_option = click.option(
    "--project",
    metavar="FOLDER",
    callback=_project,
    help="Of the project FOLDER is in (* for all): personal memories record theirs.",
)


# -- revisions and paths


class SplitCommand(click.Command):
    """A command that keeps what follows `--` apart as paths, and reads `-5` as `-n 5` where it has `-n`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if "--" in args:
            cut = args.index("--")
            ctx.meta[_AFTER] = tuple(args[cut + 1 :])
            args = args[:cut]
        if any("-n" in param.opts for param in self.params):
            # What follows an option is its value: `-n -5` is told as a wrong number, not as another -n.
            args = [
                f"-n{arg[1:]}" if _COUNT.fullmatch(arg) and last not in ("-n", "--max-count") else arg
                for last, arg in zip(["", *args], args, strict=False)
            ]
        return super().parse_args(ctx, args)


def after_dashes() -> tuple[str, ...] | None:
    """What followed `--`; None when there was none."""
    found: tuple[str, ...] | None = click.get_current_context().meta.get(_AFTER)
    return found


def split(repo: Repo, words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Typed words as (revisions, paths): revisions come first; a word that could be both must be told by `--`."""
    after = after_dashes()
    if after is not None:
        return list(words), list(after)
    revs: list[str] = []
    for index, word in enumerate(words):
        if not is_rev(repo, word):
            rest = list(words[index:])
            _check_paths(repo, rest)
            return revs, rest
        if os.path.lexists(word):
            raise InvalidInput(f"'{word}' is both a revision and a file.", hint=_dashes_hint())
        revs.append(word)
    return revs, []


def is_rev(repo: Repo, word: str) -> bool:
    """Whether a word names a commit, or a range between two, on either lane; `^REV` leaves one out."""
    ends = [end for end in word.replace("...", "..").split("..") if end] if ".." in word else [word.removeprefix("^")]
    return bool(ends) and all(_names_commit(repo, end, "work") or _names_commit(repo, end, "memory") for end in ends)


def _names_commit(repo: Repo, word: str, lane: Lane) -> bool:
    try:
        repo.commit_at(word, lane)
    except (NotFound, InvalidInput):
        return False
    return True


def is_whole_kind(word: str) -> bool:
    """Whether a typed path is a kind's name alone (`memories`), and so all of that kind."""
    name = word.rstrip("/")
    return paths.is_kind(name) and "/" not in name and not os.path.lexists(name)


def _check_paths(repo: Repo, words: Iterable[str]) -> None:
    for word in words:
        if not (os.path.lexists(word) or paths.is_kind(word) or paths.is_pattern(word) or _tracked(repo, word)):
            _check_born(repo, word)
            hint = f"{rev_hint(repo, word)}\n{_dashes_hint()}".strip()
            raise NotFound(f"'{word}' is neither a revision nor a path here.", hint=hint)


def _check_born(repo: Repo, word: str) -> None:
    """A rev counted from a branch without commits is refused as that, not as a path."""
    if repo.head is None and re.split(r"[~^]|(?<=.)@|\.\.", word, maxsplit=1)[0] in ("HEAD", "@", repo.branch_name):
        repo.commit_at(word)


def _tracked(repo: Repo, word: str) -> bool:
    """Whether HEAD has it although the working folder has not."""
    return repo.head is not None and next(repo.ls(paths=[word]), None) is not None


def _dashes_hint() -> str:
    return f"Put `--` between revisions and paths: {click.get_current_context().command_path} [REV...] -- [PATH...]"


def one_rev(revs: Sequence[str], default: str = "HEAD") -> str:
    """The single revision a verb takes."""
    if len(revs) > 1:
        raise Usage(f"one revision at a time; got {', '.join(repr(rev) for rev in revs)}.")
    return revs[0] if revs else default


# -- completion


Completer = Callable[[click.Context, click.Parameter, str], "list[CompletionItem]"]
_LISTS = ("delete", "listing", "act")  # options with which every name is one that exists


def completing(*kinds: str, then: str = "") -> Completer:
    """A completer of the kinds `completion.offers` knows; `then` is what follows a first name that may be new."""

    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        with suppress(OSError):
            for folder in ctx.find_root().params.get("folders") or ():
                os.chdir(folder)
        later = then and ctx.params.get(param.name or "") and not any(ctx.params.get(name) for name in _LISTS)
        wanted = ("path",) if "path" in kinds and _AFTER in ctx.meta else (then,) if later else kinds
        # By name, as verbs are: no command but the shell's own question pays for it.
        found: list[CompletionItem] = importlib.import_module("memlake.cli.completion").offers(wanted, incomplete)
        return found

    return complete
