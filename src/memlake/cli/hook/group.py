"""hook: the events of a coding agent as it calls us, and the block of its settings that makes it call."""

from __future__ import annotations

import json
import re
import shlex
import sys
from pathlib import Path
from typing import Any

import click

from memlake import config, dotfiles, programs, projects
from memlake.cli.hook import events
from memlake.cli.hook.log_file import log
from memlake.dotfiles import Change, Plan
from memlake.errors import InvalidInput, Nothing
from memlake.programs import HOOKED, Hooks

_HELP = {
    "session-start": "Print where the last session stopped and the rules that stand (settings hook.*) as context.",
    "prompt": "Print the few memories that a prompt is about as context, mostly none; note what it states.",
    "pre-compact": "Store what the session stated, and its summary, before the context is cut.",
    "stop": "Store the rules and decisions that the person stated, and the summary of the session.",
    "session-end": "Store what is left of a session.",
    "subagent-start": "Print the rules that stand for a sub-agent.",
    "subagent-stop": "Add what a sub-agent reported to the summary of its session.",
}
_OURS = re.compile(r"memlake(\.cli)? hook [a-z-]+")
_PLUGIN = Path(__file__).with_name("opencode.js")
_PROGRAM = 'const PROGRAM = ["memlake"]'  # the line of the plugin that says how we are started
_client = click.option(
    "--client", type=click.Choice(list(HOOKED)), default="claude", show_default=True, help="Which agent."
)
_scope = click.option(
    "--scope",
    type=click.Choice(programs.SCOPES),
    default="project",
    show_default=True,
    help="For this project, or for all your projects.",
)
_dry_run = click.option("-n", "--dry-run", is_flag=True, help="Print the new file, and write nothing.")


class _Events(click.Group):
    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        """An event that we do not know must not be an error to an agent that gives it, but to a person who types it."""
        if self.get_command(ctx, args[0]) is None and "--client" in args and not sys.stdin.isatty():
            log(args[0], "this event is not known, so nothing was told or kept.")
            ctx.exit(0)
        return super().resolve_command(ctx, args)


@click.group(cls=_Events)
def hook() -> None:
    """Bring memories into a coding agent, and store what it says. An event reads JSON and always exits with 0."""


def _add_event(event: str) -> None:
    # An agent takes exit code 2 for a veto, so an unknown option must not be an error here.
    @hook.command(event, help=_HELP[event], context_settings={"ignore_unknown_options": True, "allow_extra_args": True})
    @click.option("--client", default="claude", show_default=True, metavar="NAME", help="Which agent calls.")
    def answer(client: str) -> None:
        events.run(event, client)


for _event in events.EVENTS:
    _add_event(_event)


@hook.command()
@_client
@_scope
@_dry_run
def install(client: str, scope: str, dry_run: bool) -> None:
    """Add the hooks to the settings of an agent. The rest of them stays. Running it again changes nothing."""
    hooks = HOOKED[client]
    plan = _plan_install(client, scope)
    if dry_run:
        click.echo(f"{plan.path} would be:\n{plan.new}", nl=False)
    elif not plan.changes:
        click.echo(f"{plan.path} already has the hooks. Nothing was changed.")
    else:
        kept = dotfiles.write(plan)
        click.echo(f"Added the hooks to {plan.path}" + (f" (before: {kept.name})" if kept else ""))
        dotfiles.warn_if_missing(_command(scope)[0])
        click.echo(f"Next: {hooks.then} Errors are written to .memlake/hooks.log.")
        if scope == "project" and (place := projects.describe_place()):
            click.echo(place)


@hook.command()
@_client
@_scope
def uninstall(client: str, scope: str) -> None:
    """Remove the hooks from the settings of an agent. The rest of them stays."""
    path = _file(client, scope)
    if HOOKED[client].form == "plugin":
        plan = dotfiles.plan_text(path, "")
        _check_ours(plan)
    else:
        plan = dotfiles.plan(path, remove_hooks(HOOKED[client], path))
    if plan.old is None or not plan.changes:
        raise Nothing(f"{path} does not have the hooks. Nothing was changed.")
    kept = None
    if path.stem == "memlake" and plan.new.strip() in ("", "{}"):
        dotfiles.remove(path)
    else:
        kept = dotfiles.write(plan)
    click.echo(f"Removed the hooks from {path}" + (f" (before: {kept.name})" if kept else ""))


def _file(client: str, scope: str) -> Path:
    return programs.find_file(client, HOOKED[client].files, scope, config.find_repo() or Path.cwd())


def _command(scope: str) -> list[str]:
    """How an agent starts us. A team commits a project's file, so nothing of this machine stands in it."""
    return [sys.executable, "-m", "memlake.cli"] if scope == "user" else ["memlake"]


def _plan_install(client: str, scope: str) -> Plan:
    path = _file(client, scope)
    if HOOKED[client].form != "plugin":
        return dotfiles.plan(path, add_hooks(client, path, shlex.join(_command(scope))))
    text = _PLUGIN.read_text(encoding="utf-8")
    plan = dotfiles.plan_text(path, text.replace(_PROGRAM, f"const PROGRAM = {json.dumps(_command(scope))}"))
    _check_ours(plan)
    return plan


def _check_ours(plan: Plan) -> None:
    if plan.old and _PLUGIN.read_text(encoding="utf-8").split("\n")[0] != plan.old.split("\n")[0]:
        raise InvalidInput(f"{plan.path} is not the plugin of memlake. It was not changed.")


def add_hooks(client: str, path: Path, program: str) -> Change:
    """The change that adds one hook for each event, in place of an older one of ours."""
    hooks = HOOKED[client]

    def change(document: Any) -> None:
        if hooks.form == "commands":
            document.setdefault("version", 1)
        table = dotfiles.section(document, "hooks", path)
        for event, name in hooks.events.items():
            command = {"type": "command", "command": f"{program} hook {event} --client {client}", **hooks.timeout}
            matcher = {"matcher": hooks.matchers[event]} if event in hooks.matchers else {}
            entry = command if hooks.form == "commands" else {**matcher, "hooks": [command]}
            entries = _entries(table, name, path)
            if entry not in entries:
                table[name] = [*_others(entries), entry]

    return change


def remove_hooks(hooks: Hooks, path: Path) -> Change:
    def change(document: Any) -> None:
        table = document.get("hooks", {})
        there = {name: _entries(table, name, path) for name in hooks.events.values() if name in table}
        ours = {name: _others(entries) for name, entries in there.items() if _others(entries) != entries}
        table.update(ours)
        for name in (name for name, rest in ours.items() if not rest):
            del table[name]
        if ours and not table:
            del document["hooks"]
            if hooks.form == "commands" and document == {"version": 1}:
                document.clear()

    return change


def _entries(table: Any, name: str, path: Path) -> list[Any]:
    entries = table.get(name, [])
    if not isinstance(entries, list):
        raise InvalidInput(f"{path} has `hooks.{name}`, which is not a list. It was not changed.")
    return entries


def _is_ours(hook: Any) -> bool:
    return isinstance(hook, dict) and bool(_OURS.search(str(hook.get("command", ""))))


def _others(entries: list[Any]) -> list[Any]:
    """Entries, hooks and groups of them, without hooks of ours; a group that only held ours is gone."""
    kept = []
    for entry in entries:
        hooks = entry.get("hooks") if isinstance(entry, dict) else None
        if not isinstance(hooks, list):
            kept += [] if _is_ours(entry) else [entry]
            continue
        rest = [hook for hook in hooks if not _is_ours(hook)]
        if rest or not hooks:
            kept.append(entry if rest == hooks else {**entry, "hooks": rest})
    return kept
