"""gc, du, backup, rescue: what the repo costs, a copy of it, and making it again from its packs."""

from __future__ import annotations

import click

from memlake.cli.arguments import JSON, open_screen_only, verb
from memlake.cli.screen import Screen
from memlake.repo import Repo
from memlake.repo import rescue as rescue_repo
from memlake.views import words
from memlake.views.upkeep import gc_lines, rescue_lines, usage_lines


@verb(shared=[JSON])
@click.option("-n", "--dry-run", is_flag=True, help="Say what would be removed, and remove nothing.")
@click.option("--prune", is_flag=True, help="Do not wait for the grace period.")
def gc(repo: Repo, screen: Screen, /, *, dry_run: bool, prune: bool) -> None:
    """Remove what no branch, tag, reflog, stash or running writer needs any more."""
    report = repo.upkeep.gc(dry_run=dry_run, prune=prune)
    screen.show({"report": report}, gc_lines(report), pages=False)


@verb(shared=[JSON])
def du(repo: Repo, screen: Screen, /) -> None:
    """Show how many bytes the repo takes, by what they are for, and the largest paths of HEAD."""
    usage = repo.upkeep.du()
    screen.show({"usage": usage}, usage_lines(usage), pages=False)


@verb()
@click.argument("file")
def backup(repo: Repo, screen: Screen, /, *, file: str) -> None:
    """Copy the repo as it is at this moment into FILE, a tar archive. Others may go on working.

    To restore it, unpack it in an empty folder and write the files out:

    \b
      mkdir restored && tar -xf FILE -C restored
      memlake -C restored reset --hard

    To keep what was staged, run `memlake -C restored restore .` instead of the reset. Other uncommitted work is not in
    the backup. Settings that name a program, an address or a place are left out, and the output lists them.
    """
    size = repo.upkeep.backup(file)
    screen.line(f"Wrote {words.size(size)} to {words.quote(file)}")


@verb(opens=open_screen_only, shared=[JSON])
@click.argument("packs", nargs=-1, required=True)
@click.option("--into", default=".", metavar="FOLDER", help="Where to make the repo; here unless given.")
def rescue(screen: Screen, /, *, packs: tuple[str, ...], into: str) -> None:
    """Make a repo again from its packs alone, after repo.db was lost.

    PACKS are .memlake folders, folders of packs, or URLs of buckets. Everything that was there at the last gc comes
    back: branches, tags, commits, files, memories and datasets. What came later is lost with repo.db, except the
    content of larger files, which is listed by id because its path is not known. Then write the files out:

    \b
      memlake reset --hard
    """
    rescued = rescue_repo(packs, into)
    screen.show({"report": rescued}, rescue_lines(screen, rescued, into), pages=False)
