"""hook: the events of a coding agent as it calls us, and the block of its settings that makes it call."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path
from typing import Any

import click

from memlake import config, dotfiles, projects
from memlake.cli.hook import events
from memlake.dotfiles import Change
from memlake.errors import InvalidInput, Nothing

_CLIENTS = {
    "claude": (".claude/settings.json", ("session-start", "prompt", "pre-compact", "stop", "session-end")),
    "codex": (".codex/hooks.json", ("session-start", "prompt", "stop")),
}
_NAMES = {
    "session-start": "SessionStart",
    "prompt": "UserPromptSubmit",
    "pre-compact": "PreCompact",
    "stop": "Stop",
    "session-end": "SessionEnd",
}
_HELP = {
    "session-start": "Print the newest preferences, conventions and learnings (setting hook.categories) as context.",
    "prompt": "Print the memories that a prompt is about as context.",
    "pre-compact": "Store the agent's last message before its context is cut.",
    "stop": "Store the agent's last message as an episode of its session.",
    "session-end": "Store the agent's last message, unless `stop` did.",
}
_OURS = re.compile(r"memlake(\.cli)? hook [a-z-]+")
_client = click.option(
    "--client", type=click.Choice(list(_CLIENTS)), default="claude", show_default=True, help="Which agent."
)
_scope = click.option(
    "--scope",
    type=click.Choice(["project", "user"]),
    default="project",
    show_default=True,
    help="For this project, or for all your projects.",
)
_dry_run = click.option("-n", "--dry-run", is_flag=True, help="Print the new file, and write nothing.")


@click.group()
def hook() -> None:
    """Bring memories into a coding agent, and store what it says. An event reads JSON and always exits with 0."""


def _add_event(event: str) -> None:
    # An agent takes exit code 2 for a veto, so an unknown option must not be an error here.
    @hook.command(event, help=_HELP[event], context_settings={"ignore_unknown_options": True, "allow_extra_args": True})
    @click.option("--client", default="claude", show_default=True, metavar="NAME", help="Which agent calls.")
    def answer(client: str) -> None:
        events.run(event, client)


for _event in _NAMES:
    _add_event(_event)


@hook.command()
@_client
@_scope
@_dry_run
def install(client: str, scope: str, dry_run: bool) -> None:
    """Add the hooks to the settings file of an agent. The rest of the file stays. Running it again changes nothing."""
    path = _file(client, scope)
    program = shlex.quote(sys.executable) + " -m memlake.cli" if scope == "user" else "memlake"
    plan = dotfiles.plan(path, add_hooks(client, path, program))
    if dry_run:
        click.echo(f"{path} would be:\n{plan.new}", nl=False)
    elif not plan.changes:
        click.echo(f"{path} already has the hooks. Nothing was changed.")
    else:
        kept = dotfiles.write(plan)
        click.echo(f"Added the hooks to {path}" + (f" (before: {kept.name})" if kept else ""))
        dotfiles.warn_if_missing(shlex.split(program)[0])
        click.echo(f"Next: start `{client}` here. Errors are written to .memlake/hooks.log.")
        if scope == "project" and (place := projects.describe_place()):
            click.echo(place)


@hook.command()
@_client
@_scope
def uninstall(client: str, scope: str) -> None:
    """Remove the hooks from the settings file of an agent. The rest of the file stays."""
    path = _file(client, scope)
    plan = dotfiles.plan(path, remove_hooks(path))
    if plan.old is None or not plan.changes:
        raise Nothing(f"{path} does not have the hooks. Nothing was changed.")
    kept = dotfiles.write(plan)
    click.echo(f"Removed the hooks from {path}" + (f" (before: {kept.name})" if kept else ""))


def _file(client: str, scope: str) -> Path:
    folder = Path.home() if scope == "user" else config.find_repo() or Path.cwd()
    return folder / _CLIENTS[client][0]


def add_hooks(client: str, path: Path, program: str) -> Change:
    """The change that adds one hook for each event, in place of an older one of ours.

    In a project's file, which a team commits, `program` is just `memlake`; in the user's it is this interpreter.
    """

    def change(document: Any) -> None:
        table = dotfiles.section(document, "hooks", path)
        for event in _CLIENTS[client][1]:
            command = f"{program} hook {event} --client {client}"
            group = {"hooks": [{"type": "command", "command": command, "timeout": 10}]}
            groups = _groups(table, _NAMES[event], path)
            if group not in groups:
                table[_NAMES[event]] = [*_others(groups), group]

    return change


def remove_hooks(path: Path) -> Change:
    def change(document: Any) -> None:
        table = document.get("hooks", {})
        there = {name: _groups(table, name, path) for name in _NAMES.values() if name in table}
        ours = {name: _others(groups) for name, groups in there.items() if _others(groups) != groups}
        table.update(ours)
        for name in (name for name, rest in ours.items() if not rest):
            del table[name]
        if ours and not table:
            del document["hooks"]

    return change


def _groups(table: Any, name: str, path: Path) -> list[Any]:
    groups = table.get(name, [])
    if not isinstance(groups, list):
        raise InvalidInput(f"{path} has `hooks.{name}`, which is not a list. It was not changed.")
    return groups


def _others(groups: list[Any]) -> list[Any]:
    """Groups without hooks of ours; one that only held ours is gone."""
    kept = []
    for group in groups:
        hooks = group.get("hooks") if isinstance(group, dict) else None
        if not isinstance(hooks, list):
            kept.append(group)
            continue
        rest = [one for one in hooks if not (isinstance(one, dict) and _OURS.search(str(one.get("command", ""))))]
        if rest or not hooks:
            kept.append(group if rest == hooks else {**group, "hooks": rest})
    return kept
