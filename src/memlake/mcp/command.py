"""The verb `mcp`: runs the server over stdio, and sets clients up to start it. The SDK is loaded only to serve."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import click

from memlake import config, dotfiles, programs, projects
from memlake.dotfiles import Plan
from memlake.errors import Nothing, Unavailable
from memlake.mcp import install as entries
from memlake.mcp.install import PROFILE, PROFILES
from memlake.programs import SERVED

_SDK = ("mcp", "mcp_types", "anyio")
_client = click.option("--client", "name", type=click.Choice(list(SERVED)), required=True, help="Which client.")
_scope = click.option(
    "--scope", type=click.Choice(programs.SCOPES), help="For this project (the default), or for all your projects."
)
_dry_run = click.option("-n", "--dry-run", is_flag=True, help="Print the new file, and write nothing.")


@click.group(invoke_without_command=True)
@click.option(
    "--profile",
    type=click.Choice(list(PROFILES)),
    default="memory",
    show_default=True,
    help="Which tools to offer. " + "; ".join(f"{name}: {says}" for name, says in PROFILES.items()) + ".",
)
@click.option("--agent-id", default="", metavar="NAME", help="Who remembers; unless given, the name of the client.")
@click.option("--session-id", metavar="NAME", help="The session memories belong to.")
@click.option("--org-id", metavar="NAME", help="The organisation they belong to; memory.org unless given.")
@click.option("--user-id", metavar="NAME", help="The user the agent serves: memories are about them, or about nobody.")
@click.option("--branch", metavar="NAME", help="The branch to work on; fixed while the server runs.")
@click.pass_context
def mcp(ctx: click.Context, /, profile: str, branch: str | None, **who: Any) -> None:
    """Serve memories to an agent over MCP, on standard input and output, until the client goes away."""
    if ctx.invoked_subcommand is None:
        _check_streams()
        server, workspace = _load("server"), _load("workspace")
        server.run(workspace.Desk(None, branch), workspace.Who(**who), profile)


def _check_streams() -> None:
    try:
        sys.stdin.fileno(), sys.stdout.fileno()
    except (AttributeError, OSError, ValueError):
        raise Unavailable(
            "the server needs standard input and output, and one of them is closed.",
            hint="Let a client start it: memlake mcp install --client claude",
        ) from None


def _load(module: str) -> Any:
    """A module of the server, by its name: the SDK behind it takes a second that `install` and `--help` do not have."""
    try:
        return importlib.import_module(f"memlake.mcp.{module}")
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] not in _SDK:
            raise
        raise Unavailable(
            "the MCP server needs the package `mcp`, which is not installed.",
            hint=f"{sys.executable} -m pip install 'memlake[mcp]'",
        ) from error


@mcp.command()
@_client
@_scope
@click.option(
    "--profile", type=click.Choice(list(PROFILES)), default=PROFILE, show_default=True, help="Which tools to offer."
)
@_dry_run
def install(name: str, scope: str | None, profile: str, dry_run: bool) -> None:
    """Add the server to the settings file of a client. The rest of the file stays. Running it again changes nothing."""
    server, root = SERVED[name], config.find_repo()
    path = programs.find_file(name, server.files, scope, root or Path.cwd())
    command = entries.command_of(server, scope, root, profile)
    plan = dotfiles.plan(path, entries.add_server(server, command, path))
    if dry_run:
        click.echo(f"{path} would be:\n{plan.new}", nl=False)
        return
    if not plan.changes:
        click.echo(f"{path} already has memlake. Nothing was changed.")
        return
    click.echo(_write(plan, "Added memlake to"))
    dotfiles.warn_if_missing(command[0])
    click.echo(f"Next: {server.then}")
    if scope != "user" and "project" in server.files and (place := projects.describe_place()):
        click.echo(place)


@mcp.command()
@_client
@_scope
@_dry_run
def uninstall(name: str, scope: str | None, dry_run: bool) -> None:
    """Remove memlake from the settings file of a client. The rest of the file stays."""
    server = SERVED[name]
    path = programs.find_file(name, server.files, scope, config.find_repo() or Path.cwd())
    plan = dotfiles.plan(path, entries.remove_server(server, path))
    if plan.old is None or not plan.changes:
        raise Nothing(f"{path} does not have memlake. Nothing was changed.")
    if dry_run:
        click.echo(f"{path} would be:\n{plan.new}", nl=False)
        return
    click.echo(_write(plan, "Removed memlake from"))


def _write(plan: Plan, what: str) -> str:
    kept = dotfiles.write(plan)
    return f"{what} {plan.path}" + (f" (before: {kept.name})" if kept else "")
