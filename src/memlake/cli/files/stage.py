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
from memlake.cli.arguments import completing, pass_repo, pass_screen
from memlake.cli.exit_codes import exiting
from memlake.cli.progress import Progress
from memlake.cli.screen import Screen
from memlake.config import FOLDER, read_settings
from memlake.errors import Conflict, Error, InvalidInput, NotFound, pasted
from memlake.records import Change, Staged
from memlake.repo import Repo, open_narrow, open_repo
from memlake.views import paths, words
from memlake.views.status import list_untracked

_COUNTED = 1000  # memories of the personal repo that `init` counts


@click.command()
@click.argument("folder", default=".")
@click.option("-b", "--initial-branch", "branch", metavar="NAME", help="The first branch; main unless configured.")
@click.option("--bare", is_flag=True, help="History without a working folder, for servers.")
@click.option("-q", "--quiet", is_flag=True, help="Print nothing.")
@pass_screen
def init(screen: Screen, /, *, folder: str, branch: str | None, bare: bool, quiet: bool) -> None:
    """Make a repo in this folder, or in FOLDER. Running it again changes nothing."""
    existed = config.repo_folder(Path(folder)).is_dir()
    with make_repo(folder, branch=branch or read_settings(None).init_branch, bare=bare) as repo:
        what = f"{'Reinitialized existing' if existed else 'Initialized empty'}{' bare' if bare else ''}"
        if not quiet:
            screen.line(f"{what} memlake repo in {screen.clean(str(repo.dir))}{os.sep}")
            _tell_personal(screen, str(repo.root))


def _tell_personal(screen: Screen, root: str) -> None:
    """Say what the personal repo holds of this project: from now on it is not looked at here."""
    personal = config.personal_folder()
    if not (personal / FOLDER).is_dir() or os.path.realpath(personal) == root:
        return
    with suppress(Error), open_repo(personal) as repo:  # a repo that cannot be read must not spoil a new one
        project = projects.find_project(root)
        count = open_narrow(repo).count_of(project, _COUNTED) if project else 0
        if count:
            here, there, told = (screen.clean(shlex.quote(text)) for text in (root, str(personal), project))
            screen.note(
                f"Your personal repo holds {words.count(count, 'memory', 'memories')} of this project. Bring them:"
            )
            screen.note(f"  memlake -C {there} memory export --project {told} | memlake -C {here} memory import -")


@click.command()
@click.argument("given", nargs=-1, metavar="[PATH]...", shell_complete=completing("path"))
@click.option("-A", "--all", "everything", is_flag=True, help="Everything: new, changed and deleted files.")
@click.option("-u", "--update", is_flag=True, help="Only files that are tracked already.")
@click.option("-f", "--force", is_flag=True, help="Ignored files too.")
@click.option("-n", "--dry-run", is_flag=True, help="Say what would be staged, and stage nothing.")
@click.option("-v", "--verbose", is_flag=True, help="Name each path.")
@pass_repo
def add(repo: Repo, screen: Screen, /, *, given: tuple[str, ...], dry_run: bool, verbose: bool, **how: bool) -> None:
    """Stage files and folders for the next commit."""
    if not given and not (how["everything"] or how["update"]):
        screen.note("Nothing specified, nothing added.\nhint: Maybe you wanted to say `memlake add .`?")
        return
    if dry_run:
        screen.lines(_would_add(repo, given, tracked_only=how["update"]))
        return
    staged = _add(repo, given, how)
    if verbose:
        screen.lines(_named(change) for change in staged.changes)
    for warning in staged.warnings:
        screen.warn(warning)


def _add(repo: Repo, given: tuple[str, ...], how: dict[str, bool]) -> Staged:
    progress = Progress("adding", width=shutil.get_terminal_size().columns) if sys.stderr.isatty() else None
    try:
        return repo.add(*given, all=how["everything"], update=how["update"], force=how["force"], progress=progress)
    finally:
        if progress:
            progress.close()


def _would_add(repo: Repo, given: tuple[str, ...], *, tracked_only: bool) -> Iterator[str]:
    """What `add` would do by what `status` says; ignored files are not named."""
    for text in given:
        one = repo.status(text)
        if not (os.path.lexists(text) or one.unstaged or one.untracked):
            raise NotFound(f"'{text}' matches no file.")
    status = repo.status(*given)
    lines = {change.path: _named(change) for change in status.unstaged}
    lines |= {path: f"add '{paths.shown(path)}'" for path in ([] if tracked_only else list_untracked(status))}
    yield from (lines[path] for path in sorted(lines))


def _named(change: Change) -> str:
    return f"{'add' if change.new else 'remove'} '{paths.shown(change.path)}'"


@click.command()
@click.argument("given", nargs=-1, required=True, metavar="PATH...", shell_complete=completing("path"))
@click.option("--cached", is_flag=True, help="Keep the working files; only stop tracking them.")
@click.option("-f", "--force", is_flag=True, help="Even files with changes that no commit has.")
@click.option("-r", "recursive", is_flag=True, help="Allow whole folders.")
@click.option("-n", "--dry-run", is_flag=True, help="Say what would be removed, and remove nothing.")
@click.option("-q", "--quiet", is_flag=True, help="Do not name the files.")
@pass_repo
def rm(repo: Repo, screen: Screen, /, *, given: tuple[str, ...], recursive: bool, quiet: bool, **how: bool) -> None:
    """Remove files here and from the next commit."""
    for path in given:
        if not recursive and os.path.isdir(path) and not os.path.islink(path):
            raise InvalidInput(
                f"'{path}' is a folder; not removed.", hint=f"Remove it with all it holds: memlake rm -r {pasted(path)}"
            )
    staged = repo.rm(*given, cached=how["cached"], force=how["force"], dry_run=how["dry_run"])
    if not quiet:
        screen.lines(f"rm '{paths.shown(change.path)}'" for change in staged.changes)
    for warning in staged.warnings:
        screen.warn(warning)


@click.command()
@click.argument("sources", nargs=-1, required=True, metavar="SOURCE...", shell_complete=completing("path"))
@click.argument("target", metavar="TARGET", shell_complete=completing("path"))
@click.option("-f", "--force", is_flag=True, help="Overwrite a file at TARGET.")
@click.option("-n", "--dry-run", is_flag=True, help="Say what would be moved, and move nothing.")
@click.option("-v", "--verbose", is_flag=True, help="Name each move.")
@pass_repo
def mv(repo: Repo, screen: Screen, /, *, sources: tuple[str, ...], target: str, verbose: bool, **how: bool) -> None:
    """Move or rename a file or folder; with several, TARGET must be a folder."""
    if len(sources) > 1 and not os.path.isdir(target):
        raise InvalidInput(f"'{target}' is not a folder; several files can only be moved into one.")
    into = os.path.isdir(target)
    if target.endswith("/") and not into and not os.path.isdir(sources[0]):
        raise InvalidInput(
            f"'{target}' is no folder here. Nothing was changed.", hint=f"Make it first: mkdir -p {pasted(target)}"
        )
    for source in sources:
        with exiting(128, Conflict):
            staged = repo.mv(source, target, force=how["force"], dry_run=how["dry_run"])
        if verbose or how["dry_run"]:
            final = os.path.join(target, os.path.basename(source.rstrip("/"))) if into else target
            screen.line(f"Renaming {screen.clean(source)} to {screen.clean(final)}")
        for warning in staged.warnings:
            screen.warn(warning)
