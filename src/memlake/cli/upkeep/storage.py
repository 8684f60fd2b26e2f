"""gc, du, backup, rescue: what the repo costs, a copy of it, and making it again from its packs."""

from __future__ import annotations

import click

from memlake.cli.arguments import json_option, pass_repo
from memlake.cli.screen import Screen
from memlake.repo import Repo
from memlake.repo import rescue as rescue_repo
from memlake.views import words
from memlake.views.upkeep import gc_lines, rescue_lines, usage_lines


@click.command()
@click.option("-n", "--dry-run", is_flag=True, help="Say what would go, and remove nothing.")
@click.option("--prune", is_flag=True, help="At once, without the grace period.")
@json_option
@pass_repo
def gc(repo: Repo, screen: Screen, /, *, dry_run: bool, prune: bool, as_json: bool) -> None:
    """Remove what no branch, tag, reflog, stash or running writer reaches."""
    report = repo.gc(dry_run=dry_run, prune=prune)
    if as_json:
        screen.json({"report": report})
    else:
        screen.lines(gc_lines(report))


@click.command()
@json_option
@pass_repo
def du(repo: Repo, screen: Screen, /, *, as_json: bool) -> None:
    """Show what costs how many bytes: by room of the repo, and the largest paths of HEAD."""
    usage = repo.du()
    if as_json:
        screen.json({"usage": usage})
    else:
        screen.lines(usage_lines(usage))


@click.command()
@click.argument("file")
@pass_repo
def backup(repo: Repo, screen: Screen, /, *, file: str) -> None:
    """Copy the live repo, as it is at this moment, into FILE, which is a tar file.

    To restore it, unpack it in an empty folder and let the files be written:

    \b
      mkdir restored && tar -xf FILE -C restored
      memlake -C restored reset --hard

    To keep what was staged, too: `memlake -C restored restore .` in place of the reset. Other work that was not
    committed is in no backup. Settings that name a program, an address or a place are left out of it, and said.
    """
    size = repo.backup(file)
    screen.line(f"Wrote {words.size(size)} to {screen.clean(file)}")


@click.command()
@click.argument("packs", nargs=-1, required=True)
@click.option("--into", default=".", metavar="FOLDER", help="Where the repo is made: here, unless said otherwise.")
@json_option
def rescue(packs: tuple[str, ...], into: str, as_json: bool) -> None:
    """Make a repo again from its packs alone, when repo.db is lost.

    PACKS are .memlake folders, folders of packs, or URLs of buckets. What was there at the last gc comes back:
    branches, tags, commits, files, memories and datasets. What is later is lost with repo.db, but for the content of
    larger files: it is listed by id, because which path it had is not known. Then let the files be written:

    \b
      memlake reset --hard
    """
    screen = Screen()
    rescued = rescue_repo(packs, into)
    if as_json:
        screen.json({"report": rescued})
        return
    screen.lines(rescue_lines(screen, rescued, into))
