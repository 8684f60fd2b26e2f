"""memory: what is remembered, one by one: ls, show, history, diff, log, stats. The other verbs have their own files."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import click

from memlake import memories as parts
from memlake.cli.arguments import json_option, project_option
from memlake.cli.memory import review, transfer
from memlake.cli.memory.arguments import (
    completing_memories,
    filing_options,
    id_argument,
    pass_memories,
    scope_options,
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


for _verb in (*review.VERBS, *transfer.VERBS):
    memory.add_command(_verb)


@memory.command("ls")
@click.option("-n", "--limit", type=click.IntRange(1), default=20, show_default=True, help="At most N.")
@click.option("--offset", type=click.IntRange(0), default=0, help="Leave out the first N.")
@filing_options
@click.option(
    "--agent",
    "agents",
    multiple=True,
    metavar="NAME",
    shell_complete=completing_memories("agent"),
    help="Whose; again for more.",
)
@click.option("--since", metavar="TIME", help="Stored from then on.")
@click.option("--until", metavar="TIME", help="Stored before then.")
@click.option("--as-of", metavar="REV|TIME", help="What was remembered then.")
@project_option
@scope_options
@click.option("-q", "--quiet", is_flag=True, help="Print the ids and nothing else.")
@json_option
@pass_memories
def list_memories(
    memories: Memories, screen: Screen, /, *, agents: tuple[str, ...], as_json: bool, quiet: bool, **given: Any
) -> None:
    """List memories, newest first."""
    project = given.pop("project")
    whose = parts.search.choose_projects(memories.ground, project)
    found = memories.list_memories(parts.search.Query(agent_id=agents or "*", project=whose, **given))
    shapes = [parts.search.fields(one) for one in found]
    if as_json:
        screen.json({"memories": shapes})
        return
    if quiet:
        screen.lines(shape["memory_id"] for shape in shapes)
        return
    with screen.pages():
        for shape in shapes:
            screen.lines(hit_lines(screen, shape))
    if not shapes:
        screen.note("No memories.")
    tell_bounds(memories, screen, project, verbed="listed", verbs="lists")


@memory.command()
@id_argument
@scope_options
@json_option
@pass_memories
def show(memories: Memories, screen: Screen, /, *, memory_id: str, as_json: bool) -> None:
    """Show all fields of a memory."""
    found = memories.fields(memories.get(memories.full_id(memory_id)))
    if as_json:
        screen.json({"memory": found})
        return
    for name, value in found.items():
        if name != "content":
            screen.line(f"{name + ':':<15} {field_text(value)}".rstrip())
    screen.line()
    screen.lines(f"    {line}" for line in wrap_text(found["content"], screen.width - 4))


@memory.command()
@id_argument
@scope_options
@json_option
@pass_memories
def history(memories: Memories, screen: Screen, /, *, memory_id: str, as_json: bool) -> None:
    """Show every value a memory had and when it was forgotten, oldest first, with who did it, when and why."""
    versions = memories.history(memories.full_id(memory_id))
    if as_json:
        screen.json({"versions": versions})
        return
    with screen.pages():
        for version, later in itertools.zip_longest(versions, versions[1:]):
            screen.lines(version_lines(screen, version))
            screen.lines(end_lines(screen, version, later))


@memory.command()
@id_argument
@scope_options
@json_option
@pass_memories
def blame(memories: Memories, screen: Screen, /, *, memory_id: str, as_json: bool) -> None:
    """Show which commit each field of a memory has its value from: who gave it, and when."""
    origins = memories.blame(memories.full_id(memory_id))
    if as_json:
        screen.json({"fields": origins})
        return
    for one in origins:
        head = f"{screen.paint(short(one.commit), 'id')} {words.stamp(one.time)} {clean(one.author)}"
        value = parts.search.iso(one.value) if one.field == "expires_at" else field_text(one.value)
        screen.lines([head, *(f"    {line}" for line in wrap_text(f"{one.field}: {value}", screen.width - 4))])


@memory.command()
@click.argument("old", metavar="REV|TIME")
@click.argument("new", metavar="[REV|TIME]", required=False)
@project_option
@scope_options
@json_option
@pass_memories
def diff(
    memories: Memories, screen: Screen, /, *, old: str, new: str | None, project: str | None, as_json: bool
) -> None:
    """Show which memories differ between two moments, or between one and now."""
    found = memories.diff(old, new, project=project)
    if as_json:
        screen.json({"differences": found})
        return
    with screen.pages():
        for one in found:
            screen.lines(difference_lines(screen, one))
    tell_bounds(memories, screen, project, verbed="compared", verbs="compares")


@memory.command()
@click.option("-n", "--max-count", "limit", type=click.IntRange(1), default=20, show_default=True, help="At most N.")
@project_option
@scope_options
@json_option
@pass_memories
def log(memories: Memories, screen: Screen, /, *, limit: int, project: str | None, as_json: bool) -> None:
    """Show the newest changes of memory: who, when, what."""
    commits = memories.log(limit, project=project)
    if as_json:
        screen.json({"commits": [one._replace(changes=()) for one in commits]})
        return
    with screen.pages():
        for one in commits:
            oid = screen.paint(short(one.oid), "id")
            screen.line(f"{oid} {words.stamp(one.time)} {clean(one.author.name)}: {clean(one.subject)}")
    tell_bounds(memories, screen, project, verbed="listed", verbs="lists")


@memory.command()
@project_option
@scope_options
@json_option
@pass_memories
def stats(memories: Memories, screen: Screen, /, *, project: str | None, as_json: bool) -> None:
    """Count memories by agent, type and category, and say what the index holds."""
    found = memories.stats(project)
    if as_json:
        screen.json({"stats": found})
        return
    screen.line(f"{words.count(found.memories, 'memory', 'memories')} on {clean(memories.ground.branch)}")
    for title, part in (("agent", found.agents), ("type", found.types), ("category", found.categories)):
        screen.lines(
            f"  {title:<9} {clean(name).replace(chr(10), ' ') or '(none)':<24} {count:>9,}"
            for name, count in part.items()
        )
    screen.lines(index_lines(found))
    tell_bounds(memories, screen, project, verbed="counted", verbs="counts")
