"""memory: what is remembered, one by one: ls, show, history, diff, log, stats. The other verbs have their own files."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import click

from memlake import memories as parts
from memlake.cli.arguments import JSON, Number, project_option
from memlake.cli.memory import review, rot, transfer
from memlake.cli.memory.options import (
    agents_option,
    choose_agents,
    filing_options,
    id_argument,
    memory_verb,
    scope_option,
    tell_bounds,
)
from memlake.cli.screen import Screen
from memlake.records import short
from memlake.views import words
from memlake.views.memory import (
    difference_lines,
    end_lines,
    field_text,
    hit_lines,
    index_lines,
    version_lines,
    wrap_text,
)
from memlake.views.words import clean

if TYPE_CHECKING:
    from memlake.memories.memories import Memories


@click.group()
def memory() -> None:
    """Look at memories one by one, change, forget and restore them. The last six characters of an ID will do."""


for _verb in (*review.VERBS, *rot.VERBS, *transfer.VERBS):
    memory.add_command(_verb)


@memory_verb("ls", group=memory, shared=[JSON])
@click.option("-n", "--limit", type=Number(1), metavar="N", default=20, show_default=True, help="At most N.")
@click.option("--offset", type=Number(0), metavar="N", default=0, help="Leave out the first N.")
@filing_options
@agents_option
@scope_option
@click.option("--since", metavar="TIME", help="Stored from then on.")
@click.option("--until", metavar="TIME", help="Stored before then.")
@click.option("--as-of", metavar="REV|TIME", help="What was remembered then.")
@project_option
@click.option("-q", "--quiet", is_flag=True, help="Print only the ids.")
def list_memories(
    memories: Memories,
    screen: Screen,
    /,
    *,
    agents: tuple[str, ...],
    scope: str,
    quiet: bool,
    project: str | None,
    **filters: Any,
) -> None:
    """List memories, newest first."""
    whose = memories.context.choose_projects(project)
    listed = memories.list_memories(parts.search.Query(agent_id=choose_agents(agents, scope), project=whose, **filters))
    shapes = [parts.search.fields(one) for one in listed]
    if quiet and not screen.as_json:
        screen.lines(shape["memory_id"] for shape in shapes)
        return
    screen.show({"memories": shapes}, (line for shape in shapes for line in hit_lines(screen, shape)))
    if not shapes and not screen.as_json:
        screen.note("There are no memories.")
    tell_bounds(memories, screen, project, done="listed")


@memory_verb(group=memory, shared=[JSON])
@id_argument
def show(memories: Memories, screen: Screen, /, *, memory_id: str) -> None:
    """Show all fields of a memory."""
    fields = memories.fields(memories.get(memories.full_id(memory_id)))
    lines = [f"{name + ':':<15} {field_text(value)}".rstrip() for name, value in fields.items() if name != "content"]
    text = (f"    {line}" for line in wrap_text(fields["content"], screen.width - 4))
    screen.show({"memory": fields}, (*lines, "", *text), pages=False)


@memory_verb(group=memory, shared=[JSON])
@id_argument
def history(memories: Memories, screen: Screen, /, *, memory_id: str) -> None:
    """Show every value a memory had and when it was forgotten, oldest first, with who did it, when and why."""
    versions = memories.history(memories.full_id(memory_id))
    pairs = itertools.zip_longest(versions, versions[1:])
    lines = (
        line
        for version, later in pairs
        for line in (*version_lines(screen, version), *end_lines(screen, version, later))
    )
    screen.show({"versions": versions}, lines)


@memory_verb(group=memory, shared=[JSON])
@id_argument
def blame(memories: Memories, screen: Screen, /, *, memory_id: str) -> None:
    """Show which commit each field of a memory has its value from, who made it and when."""
    origins = memories.blame(memories.full_id(memory_id))
    if screen.as_json:
        screen.json({"fields": origins})
        return
    for one in origins:
        head = f"{screen.paint(short(one.commit), 'id')} {words.stamp(one.time)} {clean(one.author)}"
        value = parts.search.iso(one.value) if one.field == "expires_at" else field_text(one.value)
        screen.lines([head, *(f"    {line}" for line in wrap_text(f"{one.field}: {value}", screen.width - 4))])


@memory_verb(group=memory, shared=[JSON])
@click.argument("old", metavar="REV|TIME")
@click.argument("new", metavar="[REV|TIME]", required=False)
@project_option
def diff(memories: Memories, screen: Screen, /, *, old: str, new: str | None, project: str | None) -> None:
    """Show which memories differ between two moments, or between one and now."""
    differences = memories.diff(old, new, project=project)
    lines = (line for one in differences for line in difference_lines(screen, one))
    screen.show({"differences": differences}, lines)
    tell_bounds(memories, screen, project, done="compared")


@memory_verb(group=memory, shared=[JSON])
@click.option(
    "-n", "--max-count", "limit", type=Number(1), metavar="N", default=20, show_default=True, help="At most N."
)
@project_option
def log(memories: Memories, screen: Screen, /, *, limit: int, project: str | None) -> None:
    """Show the newest changes of memory: who, when, what."""
    commits = memories.log(limit, project=project)
    lines = (
        f"{screen.paint(short(one.oid), 'id')} {words.stamp(one.time)} {clean(one.author.name)}: {clean(one.subject)}"
        for one in commits
    )
    screen.show({"commits": [one._replace(changes=()) for one in commits]}, lines)
    tell_bounds(memories, screen, project, done="listed")


@memory_verb(group=memory, shared=[JSON])
@project_option
def stats(memories: Memories, screen: Screen, /, *, project: str | None) -> None:
    """Count memories by agent, type and category, and show the state of the index."""
    counts = memories.stats(project)
    if screen.as_json:
        screen.json({"stats": counts})
        return
    screen.line(f"{words.count(counts.memories, 'memory', 'memories')} on {clean(memories.context.branch)}")
    for title, part in (("agent", counts.agents), ("type", counts.types), ("category", counts.categories)):
        screen.lines(
            f"  {title:<9} {clean(name).replace(chr(10), ' ') or '(none)':<24} {count:>9,}"
            for name, count in part.items()
        )
    screen.lines(index_lines(counts))
    tell_bounds(memories, screen, project, done="counted")
