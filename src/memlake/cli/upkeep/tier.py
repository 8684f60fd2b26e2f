"""tier: packs and parts that nobody has read for long, in a colder place."""

from __future__ import annotations

import click

from memlake.cli.arguments import JSON, verb
from memlake.cli.screen import Screen
from memlake.repo import Repo
from memlake.views import words
from memlake.views.upkeep import tier_lines


@click.group()
def tier() -> None:
    """Move packs and parts that nobody has read for long to a colder place; they come back when they are read."""


@verb("set", group=tier, shared=[JSON])
@click.argument("name", type=click.Choice(["cold"]))
@click.argument("url")
@click.option("--when", default="unread > 90d", show_default=True, help="Which files move.")
@click.option("--endpoint", default="", metavar="URL", help="Where a bucket is, if not at its cloud.")
@click.option("--region", default="", help="The region of a bucket.")
def set_tier(repo: Repo, screen: Screen, /, *, name: str, url: str, when: str, endpoint: str, region: str) -> None:  # noqa: ARG001
    """Let files move to the folder or bucket at URL, which must be empty, at the next gc."""
    made = repo.upkeep.tiers.set(url, when, endpoint=endpoint, region=region)
    lines = [f"Files not read for more than {words.count(made.days, 'day')} move to {screen.clean(made.url)}."]
    screen.show({"tier": made}, lines, pages=False)


@verb(group=tier)
def unset(repo: Repo, screen: Screen, /) -> None:
    """Bring everything back, and forget the colder place."""
    screen.line(f"Brought back {words.count(repo.upkeep.tiers.unset(), 'file')}.")


@verb(group=tier, shared=[JSON])
def status(repo: Repo, screen: Screen, /) -> None:
    """Show what lies here and what in the colder place."""
    found = repo.upkeep.tiers.status()
    screen.show({"tier": found}, tier_lines(found), pages=False)


@verb(group=tier, shared=[JSON])
@click.option("-n", "--dry-run", is_flag=True, help="Say what would move, and move nothing.")
def move(repo: Repo, screen: Screen, /, *, dry_run: bool) -> None:
    """Move what the rule names now; gc does this, too."""
    moved = repo.upkeep.tiers.move(dry_run=dry_run)
    lines = [f"{'Would move' if dry_run else 'Moved'} {words.count(moved.files, 'file')}, {words.size(moved.bytes)}."]
    screen.show({"moved": moved}, lines, pages=False)
