"""state: what an agent keeps under keys, as JSON values."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import click

from memlake.cli.arguments import JSON, confirm_erase
from memlake.cli.memory.options import complete_memories, json_or_text, memory_verb
from memlake.cli.screen import Screen
from memlake.errors import InvalidInput, NotFound, Usage
from memlake.views import words
from memlake.views.words import clean

if TYPE_CHECKING:
    from memlake.memories.memories import Memories

_agent = click.option(
    "--agent", default="", metavar="NAME", shell_complete=complete_memories("agent"),
    help="The agent that owns it; nobody's unless given.",
)  # fmt: skip


@click.group()
def state() -> None:
    """Read and change what agents keep under keys."""


@memory_verb("get", group=state, shared=[JSON])
@click.argument("key")
@_agent
def get_state(memories: Memories, screen: Screen, /, *, key: str, agent: str) -> None:
    """Print the value under KEY: text as it is, anything else as JSON."""
    state = memories.find_state(agent, key)
    if state is None:
        raise NotFound(
            f"nothing is kept under {clean(key)!r}{_whose(agent)}.", hint="See the keys with: memlake state ls"
        )
    value = state.value
    text = screen.clean(value) if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    screen.show({"state": state}, [text], pages=False)


def _whose(agent: str) -> str:
    return f" by {clean(agent)}" if agent else ""


@memory_verb("set", group=state)
@click.argument("key")
@click.argument("value")
@click.option("--json", "as_json", is_flag=True, help="Refuse a VALUE that is not JSON. Without it, that is text.")
@_agent
def set_state(memories: Memories, screen: Screen, /, *, key: str, value: str, agent: str) -> None:
    """Keep VALUE (- for standard input) under KEY. JSON is stored as JSON, anything else as text."""
    text = sys.stdin.read().removesuffix("\n") if value == "-" else value
    for warning in memories.set_state(agent, key, _parse_json(text) if screen.as_json else json_or_text(text)).warnings:
        screen.warn(warning)


def _parse_json(text: str) -> object:
    try:
        value: object = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"the value is not JSON: {error}. Nothing was stored.") from None
    return value


@memory_verb("ls", group=state, shared=[JSON])
@click.option("--agent", metavar="NAME", shell_complete=complete_memories("agent"), help="Only this agent's.")
def list_states(memories: Memories, screen: Screen, /, *, agent: str | None) -> None:
    """List what is kept, by agent and key."""
    states = sorted(memories.states(agent), key=lambda one: (one.agent_id, one.key))
    if screen.as_json:
        screen.json({"states": states})
        return
    for one in states:
        value = clean(json.dumps(one.value, ensure_ascii=False))
        who = clean(one.agent_id).replace("\n", " ") or "-"
        screen.line(f"{who}  {clean(one.key)} = {value}  ({words.stamp(one.updated_at)})")
    if not states:
        screen.note("Nothing is kept.")


@memory_verb("rm", group=state)
@click.argument("key")
@_agent
@click.option("--purge", is_flag=True, help="Erase every value it ever had for good. Needs --reason.")
@click.option("--reason", help="Why. It is kept on the tombstone.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
def remove_state(memories: Memories, screen: Screen, /, *, key: str, agent: str, purge: bool, **how: Any) -> None:
    """Forget what is kept under KEY; with --purge, erase it for good."""
    if purge:
        _purge(memories, screen, agent, key, **how)
        return
    if not memories.remove_state(agent, key):
        raise NotFound(f"nothing is kept under {clean(key)!r}{_whose(agent)}. Nothing was changed.")


def _purge(memories: Memories, screen: Screen, agent: str, key: str, *, reason: str | None, yes: bool) -> None:
    if not reason:
        raise Usage("--purge needs --reason, which is kept on the tombstone. Nothing was erased.")
    if not yes:
        confirm_erase(f"Erase every value of {clean(key)!r}{_whose(agent)} for good?")
    report = memories.purge_state(agent, key, reason)
    screen.line(f"Erased {clean(key)}: {words.count(len(report.purged), 'object')}, {words.size(report.bytes)}.")
    screen.lines(clean(note) for note in report.notes)
