"""state: what an agent keeps under keys, as JSON values."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import click

from memlake.cli.arguments import json_option
from memlake.cli.memory.arguments import completing_memories, json_or_text, pass_memories, scope_options
from memlake.cli.memory.review import ask_to_erase
from memlake.cli.screen import Screen
from memlake.errors import InvalidInput, NotFound, Usage
from memlake.views import words
from memlake.views.words import clean

if TYPE_CHECKING:
    from memlake.memories.memories import Memories

_agent = click.option(
    "--agent",
    default="",
    metavar="NAME",
    shell_complete=completing_memories("agent"),
    help="Whose; nobody's unless given.",
)


@click.group()
def state() -> None:
    """Read and change what agents keep under keys."""


@state.command("get")
@click.argument("key")
@_agent
@scope_options
@json_option
@pass_memories
def get_state(memories: Memories, screen: Screen, /, *, key: str, agent: str, as_json: bool) -> None:
    """Print the value under KEY: text as it is, anything else as JSON."""
    found = memories.find_state(agent, key)
    if found is None:
        raise NotFound(
            f"nothing is kept under {clean(key)!r}{_whose(agent)}.", hint="See the keys with: memlake state ls"
        )
    if as_json:
        screen.json({"state": found})
    else:
        screen.line(_text(screen, found.value))


def _whose(agent: str) -> str:
    return f" by {clean(agent)}" if agent else ""


def _text(screen: Screen, value: object) -> str:
    return screen.clean(value) if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


@state.command("set")
@click.argument("key")
@click.argument("value")
@click.option("--json", "as_json", is_flag=True, help="VALUE must be JSON; else what is not JSON is text.")
@_agent
@scope_options
@pass_memories
def set_state(memories: Memories, screen: Screen, /, *, key: str, value: str, as_json: bool, agent: str) -> None:
    """Keep VALUE (- for standard input) under KEY. JSON is kept as what it says, anything else as text."""
    text = sys.stdin.read().removesuffix("\n") if value == "-" else value
    for warning in memories.set_state(agent, key, _strict(text) if as_json else json_or_text(text)).warnings:
        screen.warn(warning)


def _strict(text: str) -> object:
    try:
        found: object = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"the value is not JSON: {error}. Nothing was stored.") from None
    return found


@state.command("ls")
@click.option("--agent", metavar="NAME", shell_complete=completing_memories("agent"), help="Only this agent's.")
@scope_options
@json_option
@pass_memories
def list_states(memories: Memories, screen: Screen, /, *, agent: str | None, as_json: bool) -> None:
    """List what is kept."""
    found = sorted(memories.states(agent), key=lambda one: (one.agent_id, one.key))
    if as_json:
        screen.json({"states": found})
        return
    for one in found:
        value = clean(json.dumps(one.value, ensure_ascii=False))
        who = clean(one.agent_id).replace("\n", " ") or "-"
        screen.line(f"{who}  {clean(one.key)} = {value}  ({words.stamp(one.updated_at)})")
    if not found:
        screen.note("Nothing is kept.")


@state.command("rm")
@click.argument("key")
@_agent
@click.option("--purge", is_flag=True, help="Erase every value it ever had for good; needs --reason.")
@click.option("--reason", help="Why; kept on the tombstone.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@scope_options
@pass_memories
def remove_state(memories: Memories, screen: Screen, /, *, key: str, agent: str, purge: bool, **how: Any) -> None:
    """Forget what is kept under KEY; with --purge, erase it for good."""
    if purge:
        _purge(memories, screen, agent, key, **how)
        return
    if not memories.remove_state(agent, key):
        raise NotFound(f"nothing is kept under {clean(key)!r}{_whose(agent)}. Nothing was changed.")


def _purge(memories: Memories, screen: Screen, agent: str, key: str, *, reason: str | None, yes: bool) -> None:
    if not reason:
        raise Usage("--purge needs --reason, which stays on the tombstone. Nothing was erased.")
    if not yes:
        ask_to_erase(f"Erase every value of {clean(key)!r}{_whose(agent)} for good?")
    report = memories.purge_state(agent, key, reason)
    screen.line(f"Erased {clean(key)}: {words.count(len(report.purged), 'object')}, {words.size(report.bytes)}.")
    screen.lines(clean(note) for note in report.notes)
