"""bundle: branches and tags with all they need, in one file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click

from memlake import config
from memlake import open as open_repo
from memlake.cli.arguments import JSON, complete_with, screen, verb
from memlake.cli.screen import Screen
from memlake.repo import Repo, verify_bundle
from memlake.views.sync import bundle_lines, fetched_lines


@click.group()
def bundle() -> None:
    """Write branches and tags with all they need into one file, check one, or take one in."""


@verb(group=bundle, shared=[JSON])
@click.argument("file")
@click.argument("revs", nargs=-1, metavar="[REV | REV..REV]...", shell_complete=complete_with("rev"))
def create(repo: Repo, screen: Screen, /, *, file: str, revs: tuple[str, ...]) -> None:
    """Write FILE with these branches, tags or ranges, or with all branches.

    A range leaves out what is behind its left side, which whoever takes it in must have. The file can be copied, sent
    or cloned from.
    """
    made = repo.remotes.bundle(file, *revs)
    screen.show({"bundle": made}, bundle_lines(screen, made, "Wrote"), pages=False)


@contextmanager
def _open_if_there(_given: dict[str, Any]) -> Iterator[tuple[Repo | None, Screen]]:
    root = config.find_repo()
    if root is None:
        yield None, screen()
        return
    with open_repo(root) as repo:
        yield repo, screen(repo.config.in_force)


@verb(group=bundle, opens=_open_if_there, shared=[JSON])
@click.argument("file")
def verify(repo: Repo | None, screen: Screen, /, *, file: str) -> None:
    """Check that FILE is whole, and that this repo has what it builds on."""
    found = verify_bundle(file, repo)
    screen.show({"bundle": found}, bundle_lines(screen, found, "Checked"), pages=False)


@verb(group=bundle, shared=[JSON])
@click.argument("file")
def unbundle(repo: Repo, screen: Screen, /, *, file: str) -> None:
    """Take in FILE as a fetch would; the branches of pets.bundle are then pets/main and so on."""
    fetched = repo.remotes.unbundle(file)
    screen.show({"fetched": fetched}, fetched_lines(screen, fetched), pages=False)
