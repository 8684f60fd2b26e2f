"""memory check: what is rotten in our memories or in another program's. And how verbs read what that program keeps."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from memlake import integrations
from memlake.cli.arguments import JSON, project_option
from memlake.cli.memory.options import memory_verb, tell_bounds
from memlake.cli.screen import Screen
from memlake.views.rot import rot_lines, verdict_lines

if TYPE_CHECKING:
    from memlake.integrations.read_memories import Reading
    from memlake.memories.import_records import Item
    from memlake.memories.memories import Memories

format_option = click.option(
    "--format",
    "form",
    type=click.Choice(("auto", *integrations.FORMAT_NAMES)),
    default="auto",
    show_default=True,
    help="The format of what is read.",
)


def read_items(file: str, form: str, *, skip_bad: bool) -> Reading:
    """The memories in a file or a folder that somebody names, - for standard input."""
    source = sys.stdin.buffer if file == "-" else file
    return integrations.read_memories.read_memories(source, format=form, skip_bad=skip_bad)


def list_instructions(memories: Memories, reading: Reading | None = None) -> list[Item]:
    """The points of the project's instruction files, which do not repeat themselves when they are what is read."""
    if reading is not None and reading.format == "instructions":
        return []
    return integrations.read_memories.read_instructions(memories.context.place.root)


@memory_verb("check", shared=[JSON])
@click.argument("path", required=False)
@format_option
@project_option
def check_memories(memories: Memories, screen: Screen, /, *, path: str | None, form: str, project: str | None) -> int:
    """Measure what is rotten in the memories here, or in those of another program at PATH. Changes nothing.

    It finds duplicates, near duplicates and contradictions; what agents said again and again or got by a recall; what
    CLAUDE.md, AGENTS.md and the like say already; secrets; texts that give orders to their reader; files that do
    not exist; and texts that say nothing, such as thanks. PATH may be whatever `memory import` reads. The exit code is
    1 if something is found.
    """
    reading = None if path is None else read_items(path, form, skip_bad=True)
    report = memories.check(reading, list_instructions(memories, reading), project=project)
    lines = (*rot_lines(screen, report), *verdict_lines(report))
    screen.show({"ok": not report.lines, "rot": report}, lines)
    if reading is None:
        tell_bounds(memories, screen, project, done="checked")
    return int(bool(report.lines))


VERBS = (check_memories,)
