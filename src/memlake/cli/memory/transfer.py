"""Verbs of `memory` that take memories out of a repo and bring them in: export, import."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING

import click

from memlake import memories as parts
from memlake.cli.arguments import JSON, project_option
from memlake.cli.memory.options import memory_verb, tell_bounds
from memlake.cli.memory.rot import format_option, list_instructions, read_items
from memlake.cli.screen import Screen
from memlake.errors import AlreadyExists, Unavailable, pasted
from memlake.views import words
from memlake.views.rot import rot_lines
from memlake.views.words import clean

if TYPE_CHECKING:
    from memlake.memories.forgotten import Beside
    from memlake.memories.import_records import Item
    from memlake.memories.memories import Memories
    from memlake.memories.transfer import Report, Source


@memory_verb("export")
@click.argument("file", default="-")
@click.option("-f", "--force", is_flag=True, help="Overwrite FILE if it exists.")
@project_option
def export_memories(memories: Memories, screen: Screen, /, *, file: str, force: bool, project: str | None) -> None:
    """Write every memory of the branch, with its earlier values, as JSON lines to FILE or standard output.

    Agents' state goes along, unless --project names a project, and so do the ids of what was forgotten (not its text).
    An import forgets that too where it has not changed since, and keeps the newer value of each state.
    """
    whose = memories.context.choose_projects(project)
    items = parts.transfer.list_items(memories, whose)
    beside = parts.forgotten.list_beside(memories.context, whose, states=project in {None, "*"})
    if file == "-":
        sys.stdout.flush()
        count = parts.transfer.write_items(items, sys.stdout.buffer)
        parts.transfer.write_beside(beside, sys.stdout.buffer)
        sys.stdout.buffer.flush()
    else:
        count = _to_file(items, beside, file, force=force)
    screen.note(f"Wrote {words.count(count, 'memory', 'memories')}{'' if file == '-' else f' to {clean(file)}'}.")
    tell_bounds(memories, screen, project, done="written")


def _to_file(items: Iterable[Item], beside: Beside, file: str, *, force: bool) -> int:
    """Whole or not at all: an old file stays until the new one is complete."""
    if os.path.lexists(file) and not force:
        raise AlreadyExists(f"'{file}' exists. Nothing was written.", hint="To overwrite it, add --force.")
    new = f"{file}.{os.getpid()}.new"
    try:
        with open(new, "xb") as stream:
            count = parts.transfer.write_items(items, stream)
            parts.transfer.write_beside(beside, stream)
        os.replace(new, file)
    except OSError as error:
        raise Unavailable(f"'{file}' could not be written: {error.strerror}. It was not changed.") from error
    finally:
        if os.path.exists(new):
            os.unlink(new)
    return count


@memory_verb("import", shared=[JSON])
@click.argument("file")
@format_option
@click.option("--skip-bad", is_flag=True, help="Leave out lines that cannot be read, and name them.")
@click.option("--clean", "cleans", is_flag=True, help="Leave out what `memory check` finds, and list it.")
@click.option("-n", "--dry-run", is_flag=True, help="Only say what would be stored and left out.")
def import_memories(
    memories: Memories, screen: Screen, /, *, file: str, form: str, skip_bad: bool, cleans: bool, dry_run: bool
) -> None:
    """Bring in memories from FILE (- for standard input): our own JSON lines, or what another program keeps.

    FILE may be a folder or a zip. It reads memory folders of Claude Code, CLAUDE.md and AGENTS.md, claude-mem, exports
    of ChatGPT, Claude and mem0, Letta agent files, the Open Knowledge Format, basic-memory notes, server-memory lines
    and HatiData files. A memory that is here already is not stored twice. If its text is newer, it replaces ours; if
    both changed, both are kept. A file of a folder or a zip that cannot be read is left out and named.

    With --clean, duplicates, contradicted texts, secrets, orders to the reader, what cannot be read and the like stay
    out; FILE is not changed, and an import without --clean brings them in later.
    """
    reading = read_items(file, form, skip_bad=skip_bad or cleans)
    items: Source = reading
    rot = None
    if cleans:
        items, rot = parts.check_rot.split_items(memories.context, reading, list_instructions(memories, reading))
    report = parts.transfer.load_items(memories, items, dry_run=dry_run)
    if screen.as_json:
        screen.json({"report": report, "dry_run": dry_run, **({"left_out": rot.lines} if rot else {})})
        return
    if rot is not None and rot.lines:
        left_out = len({(line.memory_id, line.where) for line in rot.lines})
        screen.lines(rot_lines(screen, rot))
        verb = "Would leave out" if dry_run else "Left out"
        screen.line(f"{verb} {words.count(left_out, 'memory', 'memories')}, as listed above.")
    _show_report(screen, report, "Would store" if dry_run else "Stored")
    if rot is not None and rot.lines and not dry_run:
        screen.note("To bring in what was left out, import again without --clean.")


def _show_report(screen: Screen, report: Report, verb: str) -> None:
    counted = (
        (report.updated, "updated"), (report.conflicts, "in conflict"), (report.known, "known already"),
        (report.forgotten, "forgotten"), (report.kept_out, "kept out"), (report.skipped, "left out"),
    )  # fmt: skip
    more = "".join(f", {count:,} {what}" for count, what in counted if count)
    if report.states:
        more += f", and {words.count(report.states, 'state value')} changed"
    screen.line(f"{verb} {words.count(report.stored, 'memory', 'memories')}{more}.")
    if report.conflicts:
        screen.note("Where both the file and this repo changed a memory, both texts are kept: memlake memory conflicts")
    if report.kept_out:
        screen.note("What was forgotten here stays out. To bring one back: memlake memory restore ID")
    if report.users:
        named = ", ".join(clean(user) for user in report.users[:5]) + (" ..." if len(report.users) > 5 else "")
        screen.note(f"They belong to {words.count(len(report.users), 'user')} ({named}).")
        first = pasted(clean(report.users[0]))
        screen.note(f"Search the memories of one user with: memlake recall QUERY --user {first}")
    for text in (*report.problems, *report.warnings):
        screen.warn(text)


VERBS = (export_memories, import_memories)
