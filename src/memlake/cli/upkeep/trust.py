"""trust: allow the settings of a repo that name programs, addresses and places, or take that back."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from memlake import config
from memlake import open as open_repo
from memlake.cli.arguments import JSON, open_screen_only, verb
from memlake.cli.screen import Screen
from memlake.errors import Corrupt, Nothing, Usage, pasted
from memlake.records import short
from memlake.repo import read_repo_id, rebuild
from memlake.trust import list_grants
from memlake.trust import revoke as revoke_grants
from memlake.views import words


@verb(opens=open_screen_only, shared=[JSON])
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@click.option("-l", "--list", "listing", is_flag=True, help="List every repo you trust and the settings you allowed.")
@click.option("--revoke", is_flag=True, help="Stop trusting this repo.")
@click.option(
    "--program",
    metavar="DATASET[@VERSION]|PATH",
    help="Show the program that made it, and let rebuild run it.",
)
def trust(screen: Screen, /, *, yes: bool, listing: bool, revoke: bool, program: str | None) -> None:
    """Show which settings of this repo would run programs or reach other places, and allow them.

    A repo that somebody sent you may name a pager, an editor, a service that receives your memories, or a folder for
    its packs. memlake ignores such settings until you trust the repo. Your trust is stored in your own settings folder
    and ends when .memlake/config.toml changes, unless you change it yourself with `memlake config`.

    A program that made a dataset or a file is recorded in the repo. `memlake rebuild` runs it only after you allowed
    it with --program, which covers this text of the program and the files of the commit it ran over, and no other.
    """
    if listing and (revoke or yes):
        raise Usage("--list only shows what you trust; it cannot be combined with --yes or --revoke.")
    if program is not None and (listing or revoke):
        raise Usage("--program allows one program; it cannot be combined with --list or --revoke.")
    if listing:
        grants = [*config.list_grants(), *list_grants(rebuild.programs_home())]
        lines = (f"{screen.clean(one.folder)}  ({', '.join(map(screen.clean, one.keys))})" for one in grants)
        screen.show({"trusted": grants}, lines, pages=False)
        if not grants and not screen.as_json:
            screen.note("You do not trust any repo.")
        return
    if program is not None:
        _trust_program(screen, program, yes=yes)
        return
    folder = config.repo_folder(config.get_repo())
    repo_id = read_repo_id(folder)
    if not repo_id:
        raise Corrupt(
            f"{folder / 'repo.db'} has no repository id, so it cannot be trusted. Nothing was changed.",
            hint="Check it with: memlake fsck",
        )
    if revoke:
        _revoke(screen, folder, repo_id)
    else:
        _trust(screen, folder, repo_id, yes=yes)


def _revoke(screen: Screen, folder: Path, repo_id: str) -> None:
    programs = revoke_grants(rebuild.programs_home(), repo_id, str(config.repo_root(folder)))
    if not config.revoke_grant(folder, repo_id) and not programs:
        raise Nothing(f"you did not trust {folder.parent}. Nothing was changed.")
    screen.line(f"You no longer trust {screen.clean(str(folder.parent))}, so its settings that act are ignored.")


def _trust_program(screen: Screen, thing: str, *, yes: bool) -> None:
    with open_repo() as repo:
        recipe = rebuild.read_program(repo, thing)
        command = " ".join([recipe.name, *recipe.arguments])
        screen.line(f"{screen.clean(recipe.of)} was made by {screen.clean(command)}:")
        screen.lines(f"  {screen.clean(line)}" for line in recipe.text.splitlines())
        screen.line(f"It would run over the files of commit {short(recipe.commit.oid)}, and may import them.")
        _ask(yes, f"If you do, run: memlake trust --program {pasted(thing)} --yes")
        rebuild.trust_program(repo, recipe)
    screen.line(f"Trusted. Run it with: memlake rebuild {pasted(thing)}")


def _ask(yes: bool, hint: str) -> None:
    """Ask whether to trust what was shown; without a terminal say how to."""
    if not yes and not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise Usage(
            "there is no terminal to ask whether you trust this. Nothing was changed.",
            hint=hint,
        )
    if not yes and not click.confirm("Do you trust this?"):
        raise Nothing("not trusted. Nothing was changed.")


def _trust(screen: Screen, folder: Path, repo_id: str, *, yes: bool) -> None:
    request = config.read_request(folder, lambda: repo_id)
    if not request.acting:
        raise Nothing(f"{folder / config.FILE} has no settings that act, so there is nothing to trust.")
    if request.granted:
        screen.line(f"You already trust {screen.clean(str(folder.parent))}. Nothing was changed.")
        return
    screen.line(f"{screen.clean(str(folder / config.FILE))} asks memlake to do this:")
    for key, value in request.acting.items():
        screen.line(f"  {config.describe_acting(key)}:")
        shown = words.quote(value) or '""'
        screen.line(f"    {key} = {shown}")  # one line, whatever it holds
    _ask(yes, f"If you do, run: {config.trust_command(folder.parent)} --yes")
    config.grant_request(folder, repo_id, request)
    screen.line(f"Trusted {words.count(len(request.acting), 'setting')}. To take it back: memlake trust --revoke")
