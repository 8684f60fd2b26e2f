"""remote: which places a repo is shared with."""

from __future__ import annotations

import sys

import click

from memlake.cli.arguments import JSON, verb
from memlake.cli.screen import Screen
from memlake.repo import Repo
from memlake.views.sync import remote_gc_lines, remote_lines

_ENDPOINT = click.option("--endpoint", default="", metavar="URL", help="Where a bucket is, if not at its cloud.")
_REGION = click.option("--region", default="", help="The region of a bucket.")
_RESULTS = click.option("--results", is_flag=True, help="Trust and send what functions answered.")


@click.group(invoke_without_command=True)
@click.option("-v", "--verbose", is_flag=True, help="Show addresses, too.")
@click.pass_context
def remote(ctx: click.Context, /, *, verbose: bool) -> None:
    """List the places this repo is shared with; add, rename and remove them."""
    if ctx.invoked_subcommand is None:
        ctx.invoke(list_remotes, verbose=verbose)


@verb("list", group=remote, shared=[JSON])
@click.option("-v", "--verbose", is_flag=True, help="Show addresses, too.")
def list_remotes(repo: Repo, screen: Screen, /, *, verbose: bool) -> None:
    """List the remotes."""
    known = list(repo.remotes)
    screen.show({"remotes": known}, remote_lines(screen, known, verbose=verbose), pages=False)


@verb(group=remote)
@click.argument("name")
@click.argument("url")
@_ENDPOINT
@_REGION
@_RESULTS
def add(repo: Repo, screen: Screen, /, *, name: str, url: str, endpoint: str, region: str, results: bool) -> None:
    """Know the place at URL by NAME: a folder, file://, s3://, gs:// or az://."""
    made = repo.remotes.add(name, url, endpoint=endpoint, region=region, results=results)
    screen.note(f"Added remote {made.name}: {screen.clean(made.url)}")


@verb("set-url", group=remote)
@click.argument("name")
@click.argument("url")
@click.option("--endpoint", metavar="URL", help="Where a bucket is; as before unless given, and '' for its cloud.")
@click.option("--region", help="The region of a bucket; as before unless given.")
def set_url(repo: Repo, screen: Screen, /, *, name: str, url: str, endpoint: str | None, region: str | None) -> None:
    """Give a remote another address."""
    made = repo.remotes.set_url(name, url, endpoint=endpoint, region=region)
    screen.note(f"Remote {made.name} is now {screen.clean(made.url)}")


@verb(group=remote)
@click.argument("name")
@click.argument("state", type=click.Choice(["on", "off"]))
def results(repo: Repo, screen: Screen, /, *, name: str, state: str) -> None:
    """Share what functions answered with a remote, on or off: push sends it, pull takes it.

    Work that was done elsewhere is then not done again here. Nobody can check an answer without calling the function,
    so whoever may write to the remote is trusted.
    """
    made = repo.remotes.trust_results(name, state == "on")
    then = "go with the next push and come with the next pull" if made.results else "stay here and there"
    screen.note(f"Results of functions {then}: {made.name}")


@verb(group=remote)
@click.argument("name")
def login(repo: Repo, screen: Screen, /, *, name: str) -> None:
    """Keep the key of a bucket in the keyring of this system.

    Asks for the key id (Azure: the account) and the secret, or reads them from two lines of standard input. They are
    used where the environment has none. This needs: pip install 'memlake[keyring]'
    """
    repo.remotes.get(name)
    if sys.stdin.isatty():
        key, secret = click.prompt("Key id", err=True), click.prompt("Secret", hide_input=True, err=True)
    else:
        key, secret = sys.stdin.readline(), sys.stdin.readline()
    repo.remotes.login(name, key.strip(), secret.strip())
    screen.note(f"The keyring has the key for {screen.clean(repo.remotes.get(name).url)}")


@verb(group=remote)
@click.argument("name")
def logout(repo: Repo, screen: Screen, /, *, name: str) -> None:
    """Remove the key of a bucket from the keyring of this system."""
    repo.remotes.logout(name)
    screen.note(f"The keyring has no key for remote {name} any more.")


@verb(group=remote)
@click.argument("old")
@click.argument("new")
def rename(repo: Repo, _screen: Screen, /, *, old: str, new: str) -> None:
    """Rename a remote, and the branches that follow it."""
    repo.remotes.rename(old, new)


@verb(group=remote)
@click.argument("name")
def remove(repo: Repo, _screen: Screen, /, *, name: str) -> None:
    """Forget a remote, and the branches that follow it. Nothing there is touched."""
    repo.remotes.remove(name)


@verb(group=remote)
@click.argument("name", required=False)
def refresh(repo: Repo, _screen: Screen, /, *, name: str | None) -> None:
    """Forget what is known of a remote, so that the next fetch asks for all of it."""
    repo.remotes.refresh(repo.remotes.get(name).name)


@verb(group=remote, shared=[JSON])
@click.argument("name", required=False)
@click.option("-n", "--dry-run", is_flag=True, help="Say what no branch or tag there needs, and change nothing.")
@click.option("--prune", is_flag=True, help="Do not wait for the grace period.")
def gc(repo: Repo, screen: Screen, /, *, name: str | None, dry_run: bool, prune: bool) -> None:
    """Remove from a remote what none of its branches and tags needs any more.

    The first run condemns files; one that runs a grace period later (gc.grace_hours) deletes them.
    """
    done = repo.remotes.gc(name, dry_run=dry_run, prune=prune)
    screen.show({"gc": done}, remote_gc_lines(screen, done), pages=False)
