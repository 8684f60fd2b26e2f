"""How verbs take their arguments: the open repo, `REV... [--] PATH...`, shared options, completion. Shows nothing."""

from __future__ import annotations

import functools
import importlib
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import TYPE_CHECKING, Any

import click

from memlake import config
from memlake import open as open_repo
from memlake.cli.screen import Screen, open_screen
from memlake.cli.suggest import rev_hint
from memlake.defaults import Settings
from memlake.errors import InvalidInput, NotFound, Nothing, Usage
from memlake.records import Lane
from memlake.repo import Repo, open_personal
from memlake.views import paths
from memlake.views.words import clean

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from memlake.dataset.datasets import Datasets

_AFTER = "memlake.after"
_COUNT = re.compile(r"-[0-9]+")


# -- verbs


Opener = Callable[[dict[str, Any]], AbstractContextManager[tuple[Any, ...]]]
JSON = click.Option(["--json", "as_json"], is_flag=True, help="Print one JSON document.")
QUIET = click.Option(["-q", "--quiet"], is_flag=True, help="Print nothing.")


def screen(settings: Settings | None = None) -> Screen:
    """Standard output as the options and the settings want it."""
    ctx = click.get_current_context()
    general = ctx.find_root().params
    as_json = bool(ctx.params.get(str(JSON.name)))
    return open_screen(
        general.get("color") or "auto", pager=general.get("pager", True), as_json=as_json, settings=settings
    )


@contextmanager
def open_here(_given: dict[str, Any]) -> Iterator[tuple[Repo, Screen]]:
    """The repo found from here, closed after the verb."""
    with open_repo() as repo:
        yield repo, screen(repo.config.in_force)


@contextmanager
def open_datasets(given: dict[str, Any]) -> Iterator[tuple[Datasets, Screen]]:
    """The datasets of the repo here, or else of the personal one."""
    with open_datasets_repo(given) as (repo, out):
        yield repo.datasets(), out


@contextmanager
def open_datasets_repo(_given: dict[str, Any]) -> Iterator[tuple[Repo, Screen]]:
    """The repo here, or else the personal one."""
    root = config.find_repo()
    is_personal = root is None and config.personal_folder().is_dir()
    with open_personal() if root is None else open_repo(root) as repo:
        out = screen(repo.config.in_force)
        if is_personal:
            out.note(f"There is no repo here, so this is about your personal one: {clean(str(repo.root))}")
        yield repo, out


@contextmanager
def open_screen_only(_given: dict[str, Any]) -> Iterator[tuple[Screen]]:
    """For a verb that needs no repo."""
    yield (screen(),)


def verb(
    name: str | None = None,
    *,
    opens: Opener = open_here,
    group: click.Group | None = None,
    cls: type[click.Command] = click.Command,
    shared: Sequence[click.Option] = (),
) -> Callable[[Callable[..., Any]], click.Command]:
    """Make a function a command that is called with what `opens` opens, and then its own arguments and options.

    `shared` options come last in its help. The screen knows about --json, so a verb is not given it.
    """

    def make(function: Callable[..., Any]) -> click.Command:
        @functools.wraps(function)
        def call(**given: Any) -> Any:
            given.pop(str(JSON.name), None)
            with opens(given) as opened:
                return function(*opened, **given)

        command: click.Command = (group or click).command(name, cls=cls)(call)
        command.params.extend(shared)
        return command

    return make


def confirm_erase(question: str) -> None:
    """Ask the person; what is erased does not come back."""
    if not sys.stdin.isatty():
        raise Usage(
            "purge cannot be undone, and there is no terminal to ask for confirmation. Nothing was erased.",
            hint="If you are sure, add --yes.",
        )
    if not click.confirm(question, err=True):
        raise Nothing("nothing was erased.")


class Number(click.IntRange):
    """A whole number of at least `min`. Click would say that 'x' is not a valid integer range."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        try:
            return int(super().convert(value, param, ctx))
        except click.BadParameter:
            some = "" if self.min is None else f", {self.min} or more"
            some = some if self.max is None else f" from {self.min} to {self.max}"
            self.fail(
                f"'{value}' is not possible; give a whole number{some}.{_show_use(param, ctx, self.min)}", param, ctx
            )


def _show_use(param: click.Parameter | None, ctx: click.Context | None, number: int | float | None) -> str:
    """An example of an argument, which has no name that a message could say it by."""
    if not isinstance(param, click.Argument) or ctx is None:
        return ""
    return f" For example: {ctx.command_path} {number or 1}"


project_option = click.option(
    "--project",
    metavar="NAME",
    help="Of this project, by its name or a folder of it; * for all. Unless given, the one you are in.",
)


# -- revisions and paths


class SplitCommand(click.Command):
    """A command that keeps what follows `--` apart as paths, and reads `-5` as `-n 5` where it has `-n`.

    An option whose value may be left out takes it only after `=`, as in git: `--word-diff HEAD~1` is about HEAD~1.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if "--" in args:
            cut = args.index("--")
            ctx.meta[_AFTER] = tuple(args[cut + 1 :])
            args = args[:cut]
        bare = {name: value for param in self.params if (value := _bare_value(param)) for name in param.opts}
        args = [f"{arg}={bare[arg]}" if arg in bare else arg for arg in args]
        if any("-n" in param.opts for param in self.params):
            # What follows an option is its value: `-n -5` is told as a wrong number, not as another -n.
            args = [
                f"-n{arg[1:]}" if _COUNT.fullmatch(arg) and last not in ("-n", "--max-count") else arg
                for last, arg in zip(["", *args], args, strict=False)
            ]
        return super().parse_args(ctx, args)


def _bare_value(param: click.Parameter) -> str | None:
    """What an option stands for whose value may be left out."""
    is_bare = isinstance(param, click.Option) and not param.is_flag and isinstance(param.flag_value, str)
    return param.flag_value if isinstance(param, click.Option) and is_bare else None


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
        repo.show(word, lane)
    except (NotFound, InvalidInput):
        return False
    return True


def is_whole_kind(word: str) -> bool:
    """Whether a typed path is a kind's name alone (`memories`), and so all of that kind."""
    name = word.rstrip("/")
    return paths.is_kind(name) and "/" not in name and not os.path.lexists(name)


def _check_paths(repo: Repo, words: Iterable[str]) -> None:
    for word in words:
        if not (os.path.lexists(word) or paths.is_kind(word) or paths.is_pattern(word) or _is_tracked(repo, word)):
            _check_born(repo, word)
            hint = f"{rev_hint(repo, word)}\n{_dashes_hint()}".strip()
            raise NotFound(f"'{word}' is neither a revision nor a path here.", hint=hint)


def _check_born(repo: Repo, word: str) -> None:
    """A rev counted from a branch without commits is refused as that, not as a path."""
    start = re.split(r"[~^]|(?<=.)@|\.\.", word, maxsplit=1)[0]
    if repo.head is None and start in ("HEAD", "@", repo.branches.current):
        repo.show(word)


def _is_tracked(repo: Repo, word: str) -> bool:
    """Whether HEAD has it although the working folder has not."""
    return repo.head is not None and next(repo.ls(paths=[word]), None) is not None


def _dashes_hint() -> str:
    return f"Put `--` between revisions and paths: {click.get_current_context().command_path} [REV...] -- [PATH...]"


def one_rev(revs: Sequence[str]) -> str:
    """The single revision a verb takes, by default HEAD."""
    if len(revs) > 1:
        raise Usage(f"one revision at a time; got {', '.join(repr(rev) for rev in revs)}.")
    return revs[0] if revs else "HEAD"


# -- completion


Completer = Callable[[click.Context, click.Parameter, str], "list[CompletionItem]"]
_LISTS = ("delete", "listing", "act")  # options with which every name is one that exists


def complete_with(*kinds: str, then: str = "") -> Completer:
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
