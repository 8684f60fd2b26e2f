"""memory: what is remembered, one by one: ls, show, history, diff, log, stats. The other verbs have their own files."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from memlake import memories as parts
from memlake.cli import tendings, transfers, words
from memlake.cli.arguments import json_option, project_option
from memlake.cli.recalls import hit_lines, id_shown, wrapped
from memlake.cli.remembering import (
    completing_memories,
    filing_options,
    id_argument,
    pass_memories,
    scope_options,
    tell_bounds,
)
from memlake.cli.screen import Screen
from memlake.cli.words import clean
from memlake.records import short

if TYPE_CHECKING:
    from memlake.memories.counting import Stats
    from memlake.memories.memories import Memories
    from memlake.memories.timeline import Difference, Version

_MARKS = {"A": "+", "D": "-"}


@click.group()
def memory() -> None:
    """Look at memories one by one, change, forget and restore them. The last six characters of an ID will do."""


for _verb in (*tendings.VERBS, *transfers.VERBS):
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
    whose = parts.searching.asked_projects(memories.ground, project)
    found = memories.listed(parts.searching.Query(agent_id=agents or "*", project=whose, **given))
    shapes = [parts.searching.fields(one) for one in found]
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
            screen.line(f"{name + ':':<15} {_field(value)}".rstrip())
    screen.line()
    screen.lines(f"    {line}" for line in wrapped(found["content"], screen.width - 4))


def _field(value: Any) -> str:
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        text = ", ".join(value)
    elif isinstance(value, dict | list):
        import json

        text = json.dumps(value, ensure_ascii=False)
    else:
        text = "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
    return clean(text).replace("\n", " ")


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
            screen.lines(_version_lines(screen, version))
            screen.lines(_end_lines(screen, version, later))


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
        value = parts.searching.iso(one.value) if one.field == "expires_at" else _field(one.value)
        screen.lines([head, *(f"    {line}" for line in wrapped(f"{one.field}: {value}", screen.width - 4))])


def _end_lines(screen: Screen, version: Version, later: Version | None) -> Iterator[str]:
    """A memory that was forgotten or purged, as an event of its own; of a purge, once for all values."""
    word = {"forgotten": "forgot", "purged": "purged"}.get(version.ended)
    if word is None or version.until is None or (word == "purged" and later is not None):
        return
    yield f"{screen.paint(f'{word:<10}', 'removed')} {words.stamp(version.until)}  {clean(version.ended_by)}"
    yield f"    {screen.paint(clean(version.reason), 'dim')}"


def _version_lines(screen: Screen, version: Version) -> list[str]:
    until = f" until {words.stamp(version.until)}" if version.until and version.ended == "replaced" else ""
    head = f"{screen.paint(short(version.oid), 'id')} {words.stamp(version.time)}{until}  {clean(version.author)}"
    said = "(purged)" if version.content is None else version.content
    return [
        head,
        f"    {screen.paint(clean(version.message), 'dim')}",
        *(f"    {line}" for line in wrapped(said, screen.width - 4)),
    ]


@memory.command()
@click.argument("old", metavar="REV|TIME")
@click.argument("new", metavar="[REV|TIME]", required=False)
@scope_options
@json_option
@pass_memories
def diff(memories: Memories, screen: Screen, /, *, old: str, new: str | None, as_json: bool) -> None:
    """Show which memories differ between two moments, or between one and now."""
    found = memories.diff(old, new)
    if as_json:
        screen.json({"differences": found})
        return
    with screen.pages():
        for one in found:
            screen.lines(_difference_lines(screen, one))


def _difference_lines(screen: Screen, one: Difference) -> list[str]:
    lines = [f"{_MARKS.get(one.status, '~')} {id_shown(screen, one.memory_id)}"]
    sides = (("-", "removed", one.old), ("+", "added", one.new))
    for mark, style, text in sides:
        if text is not None:
            lines += [screen.paint(f"  {mark} {line}", style) for line in wrapped(text, screen.width - 4)]
    return lines


@memory.command()
@click.option("-n", "--max-count", "limit", type=click.IntRange(1), default=20, show_default=True, help="At most N.")
@scope_options
@json_option
@pass_memories
def log(memories: Memories, screen: Screen, /, *, limit: int, as_json: bool) -> None:
    """Show the newest changes of memory: who, when, what."""
    commits = memories.log(limit)
    if as_json:
        screen.json({"commits": [one._replace(changes=()) for one in commits]})
        return
    with screen.pages():
        for one in commits:
            oid = screen.paint(short(one.oid), "id")
            screen.line(f"{oid} {words.stamp(one.time)} {clean(one.author.name)}: {clean(one.subject)}")


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
    screen.lines(_index_lines(found))
    tell_bounds(memories, screen, project, verbed="counted", verbs="counts")


def _index_lines(found: Stats) -> list[str]:
    if found.model == "none":
        vectors = "none: found by words alone"
    else:
        vectors = f"by {found.model}; {found.waiting:,} wait" if found.waiting else f"by {found.model}; none waits"
    return [
        f"vectors     {vectors}",
        f"index       {words.size(found.index_bytes)}",
        f"in doubt    {found.in_doubt:,}" + ("  (memlake memory conflicts)" if found.in_doubt else ""),
        f"stale       {found.stale:,}" + ("  (memlake memory stale)" if found.stale else ""),
    ]
