"""init, add, rm, mv: the verbs that change what the next commit holds."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import click

from memlake import config, projects
from memlake import init as make_repo
from memlake.cli.arguments import QUIET, complete_with, open_screen_only, verb
from memlake.cli.screen import Progress, Screen
from memlake.cli.suggest import exit_with
from memlake.config import FOLDER, read_settings
from memlake.errors import Conflict, Error, InvalidInput, NotFound, pasted
from memlake.records import Change
from memlake.repo import Repo, open_narrow, open_repo
from memlake.views import paths, words
from memlake.views.status import list_untracked

_COUNTED = 1000  # memories of the personal repo that `init` counts


@verb(opens=open_screen_only, shared=[QUIET])
@click.argument("folder", default=".")
@click.option(
    "-b", "--initial-branch", "branch", metavar="NAME", help="The name of the first branch; main unless configured."
)
@click.option("--bare", is_flag=True, help="Make a repo without a working folder, for servers.")
def init(screen: Screen, /, *, folder: str, branch: str | None, bare: bool, quiet: bool) -> None:
    """Make a repo in this folder, or in FOLDER. Running it again changes nothing."""
    existed = config.repo_folder(Path(folder)).is_dir()
    with make_repo(folder, branch=branch or read_settings(None).init_branch, bare=bare) as repo:
        what = f"{'Reinitialized existing' if existed else 'Initialized empty'}{' bare' if bare else ''}"
        if not quiet:
            screen.line(f"{what} memlake repo in {screen.clean(str(repo.dir))}{os.sep}")
            _tell_personal(screen, str(repo.root))


def _tell_personal(screen: Screen, root: str) -> None:
    """Say what the personal repo holds for this project, because from now on it is not used here."""
    personal = config.personal_folder()
    if not (personal / FOLDER).is_dir() or os.path.realpath(personal) == root:
        return
    with suppress(Error), open_repo(personal) as repo:  # a repo that cannot be read must not spoil a new one
        place = projects.find_place(root)
        count = open_narrow(repo).count_of(place.names, _COUNTED) if place != projects.NOWHERE else 0
        if count:
            here, there, name = (screen.clean(shlex.quote(text)) for text in (root, str(personal), root))
            screen.note(
                f"Your personal repo has {words.count(count, 'memory', 'memories')} of this project. To copy them here:"
            )
            screen.note(f"  memlake -C {there} memory export --project {name} | memlake -C {here} memory import -")


@verb()
@click.argument("given", nargs=-1, metavar="[PATH]...", shell_complete=complete_with("path"))
@click.option("-A", "--all", "everything", is_flag=True, help="Stage everything: new, changed and deleted files.")
@click.option("-u", "--update", is_flag=True, help="Only files that are already tracked.")
@click.option("-f", "--force", is_flag=True, help="Also stage ignored files.")
@click.option("-n", "--dry-run", is_flag=True, help="Say what would be staged, and stage nothing.")
@click.option("-v", "--verbose", is_flag=True, help="Name each path.")
def add(repo: Repo, screen: Screen, /, *, given: tuple[str, ...], dry_run: bool, verbose: bool, **how: bool) -> None:
    """Stage files and folders for the next commit."""
    if not given and not (how["everything"] or how["update"]):
        screen.note("Nothing specified, nothing added.\nhint: To add everything here, run: memlake add .")
        return
    if dry_run:
        screen.lines(_would_add(repo, given, tracked_only=how["update"]))
        return
    progress = Progress("adding", width=shutil.get_terminal_size().columns) if sys.stderr.isatty() else None
    try:
        staged = repo.add(*given, all=how["everything"], update=how["update"], force=how["force"], progress=progress)
    finally:
        if progress:
            progress.close()
    if verbose:
        screen.lines(map(_describe, staged.changes))
    for warning in staged.warnings:
        screen.warn(warning)


def _would_add(repo: Repo, given: tuple[str, ...], *, tracked_only: bool) -> Iterator[str]:
    """What `add` would do, judged by `status`. Ignored files are not named."""
    for text in given:
        state = repo.status(text)
        if not (os.path.lexists(text) or state.unstaged or state.untracked):
            raise NotFound(f"'{text}' does not match any file.")
    status = repo.status(*given)
    lines = {change.path: _describe(change) for change in status.unstaged}
    lines |= {path: f"add '{paths.display(path)}'" for path in ([] if tracked_only else list_untracked(status))}
    yield from (lines[path] for path in sorted(lines))


def _describe(change: Change) -> str:
    return f"{'add' if change.new else 'remove'} '{paths.display(change.path)}'"


@verb()
@click.argument("given", nargs=-1, required=True, metavar="PATH...", shell_complete=complete_with("path"))
@click.option("--cached", is_flag=True, help="Keep the working files and only stop tracking them.")
@click.option("-f", "--force", is_flag=True, help="Also remove files with uncommitted changes.")
@click.option("-r", "recursive", is_flag=True, help="Allow whole folders.")
@click.option("-n", "--dry-run", is_flag=True, help="Say what would be removed, and remove nothing.")
@click.option("-q", "--quiet", is_flag=True, help="Do not name the files.")
def rm(repo: Repo, screen: Screen, /, *, given: tuple[str, ...], recursive: bool, quiet: bool, **how: bool) -> None:
    """Remove files from this folder and from the next commit."""
    for path in given:
        if not recursive and os.path.isdir(path) and not os.path.islink(path):
            raise InvalidInput(
                f"'{path}' is a folder. Nothing was removed.",
                hint=f"To remove it with everything in it: memlake rm -r {pasted(path)}",
            )
    staged = repo.rm(*given, cached=how["cached"], force=how["force"], dry_run=how["dry_run"])
    if not quiet:
        screen.lines(f"rm '{paths.display(change.path)}'" for change in staged.changes)
    for warning in staged.warnings:
        screen.warn(warning)


@verb()
@click.argument("sources", nargs=-1, required=True, metavar="SOURCE...", shell_complete=complete_with("path"))
@click.argument("target", metavar="TARGET", shell_complete=complete_with("path"))
@click.option("-f", "--force", is_flag=True, help="Overwrite a file at TARGET.")
@click.option("-n", "--dry-run", is_flag=True, help="Say what would be moved, and move nothing.")
@click.option("-v", "--verbose", is_flag=True, help="Name each move.")
def mv(repo: Repo, screen: Screen, /, *, sources: tuple[str, ...], target: str, verbose: bool, **how: bool) -> None:
    """Move or rename a file or folder. With several sources, TARGET must be a folder."""
    if len(sources) > 1 and not os.path.isdir(target):
        raise InvalidInput(
            f"'{target}' is not a folder, so several files cannot be moved into it. Nothing was changed."
        )
    into = os.path.isdir(target)
    if target.endswith("/") and not into and not os.path.isdir(sources[0]):
        raise InvalidInput(
            f"there is no folder '{target}' here. Nothing was changed.",
            hint=f"Make it first: mkdir -p {pasted(target)}",
        )
    for source in sources:
        with exit_with(128, Conflict):
            staged = repo.mv(source, target, force=how["force"], dry_run=how["dry_run"])
        if verbose or how["dry_run"]:
            final = os.path.join(target, os.path.basename(source.rstrip("/"))) if into else target
            screen.line(f"Renaming {screen.clean(source)} to {screen.clean(final)}")
        for warning in staged.warnings:
            screen.warn(warning)
