"""clean and ls-files: what of the working folder is tracked, and removing what is not."""

from __future__ import annotations

import click

from memlake.cli.arguments import JSON, SplitCommand, after_dashes, complete_with, verb
from memlake.cli.screen import Screen
from memlake.cli.suggest import exit_with
from memlake.errors import NotFound, Usage
from memlake.records import Entry
from memlake.repo import Repo
from memlake.views import json_shapes, paths

_MODES = {("file", 0): "100644", ("file", 1): "100755", ("link", 0): "120000"}


@verb(cls=SplitCommand, shared=[JSON])
@click.argument("given", nargs=-1, metavar="[PATH]...", shell_complete=complete_with("path"))
@click.option("-n", "--dry-run", is_flag=True, help="Say what would be removed, and remove nothing.")
@click.option("-f", "--force", is_flag=True, help="Remove; without it or -n nothing is done.")
@click.option("-d", "folders", is_flag=True, help="Also what is in folders without a tracked file.")
@click.option(
    "-x", "ignored", is_flag=True, help="Also ignored files. They are not stored: undo cannot bring them back."
)
@click.option("-q", "--quiet", is_flag=True, help="Do not name the files.")
def clean(repo: Repo, screen: Screen, /, *, given: tuple[str, ...], force: bool, quiet: bool, **how: bool) -> None:
    """Remove files that are not tracked. `memlake undo` brings them back, unless they were ignored.

    Another repo inside this one is left alone, and folders go only when they become empty.
    """
    if not (force or how["dry_run"]):
        raise Usage(
            "clean removes files, so it needs -f, or -n to see which. Nothing was removed.",
            hint="See what would go: memlake clean -n -d",
        )
    cleaned = repo.clean(*given, *(after_dashes() or ()), **how)
    base, verb_ = paths.here(repo.root), "Would remove" if how["dry_run"] else "Removing"
    if screen.as_json:
        screen.json({"dry_run": how["dry_run"], **cleaned._asdict()})
        return
    if not quiet:
        files = [(path, "") for path in cleaned.removed] + [(path, " (ignored)") for path in cleaned.ignored]
        screen.lines(f"{verb_} {paths.display(paths.FILES + path, base)}{note}" for path, note in files)
    for path, why in cleaned.left.items():
        screen.note(f"Left alone: {paths.display(paths.FILES + path, base)}, because {why}.")


@verb("ls-files", cls=SplitCommand, shared=[JSON])
@click.argument("given", nargs=-1, metavar="[PATH]...", shell_complete=complete_with("path"))
@click.option("-c", "--cached", is_flag=True, help="List tracked files; the default.")
@click.option("-m", "--modified", is_flag=True, help="List tracked files that were changed or deleted.")
@click.option("-d", "--deleted", is_flag=True, help="List tracked files that were deleted.")
@click.option("-o", "--others", is_flag=True, help="List files that are neither tracked nor ignored.")
@click.option("-u", "--unmerged", is_flag=True, help="List files in conflict.")
@click.option("-s", "--stage", "long_form", is_flag=True, help="Also show the mode and the id of tracked files.")
@click.option("--error-unmatch", "strict", is_flag=True, help="Exit with 1 if a PATH is not among them.")
@click.option("-z", "zero", is_flag=True, help="End lines with a NUL byte, and do not quote paths.")
def ls_files(repo: Repo, screen: Screen, /, *, given: tuple[str, ...], **how: bool) -> None:
    """List the files of this checkout, one a line, for scripts. `memlake ls` lists those of a commit."""
    base, wanted = paths.here(repo.root), [*given, *(after_dashes() or ())]
    for word in wanted if how["strict"] else ():
        if not _collect(repo, [word], how):
            with exit_with(1, NotFound):
                raise NotFound(f"path '{word}' is not among the files that were asked for.")
    files = _collect(repo, wanted or ["."], how)
    if screen.as_json:
        shapes = ({"path": path, **(json_shapes.plain(entry) if entry else {})} for path, entry in files)
        screen.lines(json_shapes.stream("files", shapes))
        return
    with screen.pages():
        for path, entry in files:
            about = f"{_MODES[entry.kind, entry.mode]} {entry.oid} 0\t" if entry and how["long_form"] else ""
            name = f"{paths.bare(path, base)}\0" if how["zero"] else f"{paths.display(path, base)}\n"
            screen.write(about + name)


def _collect(repo: Repo, wanted: list[str], how: dict[str, bool]) -> list[tuple[str, Entry | None]]:
    """Tree paths, each once and in order, with what the stage has of those that are tracked."""
    found: dict[str, Entry | None] = {}
    special = any(how[name] for name in ("modified", "deleted", "others", "unmerged"))
    staged = dict(repo.ls(":", paths=wanted)) if not how["others"] or how["cached"] else {}
    if how["cached"] or not special:
        found |= staged
    state = repo.status(*wanted) if special else None
    if state is not None:
        changed = [change for change in state.unstaged if how["modified"] or (how["deleted"] and change.new is None)]
        found |= {change.path: change.old for change in changed} if how["modified"] or how["deleted"] else {}
        found |= {one.path: one.ours for one in state.conflicts if how["unmerged"] and one.choice is None}
    if how["others"]:
        found |= {paths.FILES + path: None for path in repo.clean(*wanted, folders=True, dry_run=True).removed}
    return sorted(found.items())
