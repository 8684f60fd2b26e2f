"""trust: let the settings of a repo act that name programs, addresses and places, or take that back."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from memlake import config
from memlake.cli.arguments import json_option, pass_screen
from memlake.cli.screen import Screen
from memlake.errors import Corrupt, Nothing, Usage
from memlake.repo import read_repo_id
from memlake.views import words


@click.command()
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@click.option("-l", "--list", "listing", is_flag=True, help="Every repo that you trust, and the settings you allowed.")
@click.option("--revoke", is_flag=True, help="Trust this repo no longer.")
@json_option
@pass_screen
def trust(screen: Screen, /, *, yes: bool, listing: bool, revoke: bool, as_json: bool) -> None:
    """Show which settings of this repo would run programs or reach other places, and allow them.

    A repo that somebody sent you may name a pager, an editor, a service that is sent your memories, or a folder for
    its packs. memlake ignores such settings of a repo until you trust it. Your trust is kept in your own settings
    folder and ends when .memlake/config.toml changes, except by your own `memlake config`.
    """
    if listing and (revoke or yes):
        raise Usage("--list shows what you trust; it takes neither --yes nor --revoke.")
    if listing:
        _list(screen, as_json=as_json)
        return
    folder = config.repo_folder(config.get_repo())
    repo_id = read_repo_id(folder)
    if not repo_id:
        raise Corrupt(
            f"{folder / 'repo.db'} has no repository id, so it cannot be trusted. Nothing was changed.",
            hint="Look at it with: memlake fsck",
        )
    if revoke:
        _revoke(screen, folder, repo_id)
    else:
        _trust(screen, folder, repo_id, yes=yes)


def _list(screen: Screen, *, as_json: bool) -> None:
    grants = config.list_grants()
    if as_json:
        screen.json({"trusted": grants})
        return
    for grant in grants:
        screen.line(f"{screen.clean(grant.folder)}  ({', '.join(map(screen.clean, grant.keys))})")
    if not grants:
        screen.note("You trust no repo.")


def _revoke(screen: Screen, folder: Path, repo_id: str) -> None:
    if not config.revoke_grant(folder, repo_id):
        raise Nothing(f"you did not trust {folder.parent}. Nothing was changed.")
    screen.line(f"Trust {screen.clean(str(folder.parent))} no longer: its settings that act are ignored.")


def _trust(screen: Screen, folder: Path, repo_id: str, *, yes: bool) -> None:
    request = config.read_request(folder, lambda: repo_id)
    if not request.acting:
        raise Nothing(f"{folder / config.FILE} has no settings that act. There is nothing to trust.")
    if request.granted:
        screen.line(f"You trust {screen.clean(str(folder.parent))} already. Nothing was changed.")
        return
    screen.line(f"{screen.clean(str(folder / config.FILE))} asks that memlake")
    for key, value in request.acting.items():
        screen.line(f"  {config.describe_acting(key)}:")
        shown = words.quoted(value) or '""'
        screen.line(f"    {key} = {shown}")  # one line, whatever it holds
    if not yes and not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise Usage(
            "nobody is here to be asked whether you trust this. Nothing was changed.",
            hint=f"If you do: {config.trust_command(folder.parent)} --yes",
        )
    if not yes and not click.confirm("Do you trust this?"):
        raise Nothing("not trusted. Nothing was changed.")
    config.grant_request(folder, repo_id, request)
    screen.line(f"Trusted {words.count(len(request.acting), 'setting')}. To take it back: memlake trust --revoke")
