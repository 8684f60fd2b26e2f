"""How verbs about datasets take their arguments: the open datasets, names, values as people read them, completion."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar

import click

from memlake import config
from memlake.cli.arguments import completing, screen
from memlake.cli.screen import Screen
from memlake.repo import open_personal, open_repo
from memlake.views.words import clean

if TYPE_CHECKING:
    from memlake.dataset.datasets import Datasets

P = ParamSpec("P")
R = TypeVar("R")


def pass_datasets(verb: Callable[Concatenate[Datasets, Screen, P], R]) -> Callable[P, R]:
    """Calls `verb` with the datasets of the repo here, or of the personal one, and the screen."""

    @functools.wraps(verb)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        found = config.find_repo()
        is_personal = found is None and config.personal_folder().is_dir()
        with open_personal() if found is None else open_repo(found) as repo:
            shown = screen(repo.settings)
            if is_personal:
                shown.note(f"No repo here: this is your personal one, {clean(str(repo.root))}")
            return verb(repo.datasets(), shown, *args, **kwargs)

    return call


name_argument = click.argument("name", metavar="NAME[@VERSION]", shell_complete=completing("dataset"))
