"""remember: one fact, kept; says what became of it and why."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from memlake.cli.arguments import json_option
from memlake.cli.memory.arguments import (
    agent_option,
    draft,
    filing_options,
    pass_memories,
    personal_option,
    quiet_option,
    repo_of,
    scope_options,
    tell_repo,
)
from memlake.cli.screen import Screen
from memlake.errors import Usage
from memlake.views import words
from memlake.views.words import clean

if TYPE_CHECKING:
    from memlake.memories.memories import Memories
    from memlake.memories.record import Outcome

_DONE = {
    "add": "Remembered",
    "skip": "Known already",
    "replace": "Replaced an old one",
    "conflict": "Corrected an old one",
    "merge": "Joined to an old one",
    "coexist": "Remembered beside an old one",
}


@click.command()
@click.argument("text", required=False)
@filing_options
@click.option("--importance", type=click.FloatRange(0, 1), help="0 to 1; 0.5 unless given.")
@agent_option
@click.option(
    "--expires", "expires_at", metavar="TIME", help='When it ends: "tomorrow", "in 3 days", 2h, 2030-01-31; or never.'
)
@click.option(
    "--on-conflict",
    type=click.Choice(["decide", "add", "ask"]),
    default="decide",
    show_default=True,
    help="Where it meets an old one: decide, add as it is, or keep both and ask.",
)
@click.option("-n", "--dry-run", is_flag=True, help="Say what would become of it, and store nothing.")
@personal_option
@scope_options
@quiet_option
@json_option
@pass_memories
def remember(memories: Memories, screen: Screen, /, *, text: str | None, on_conflict: str, **given: Any) -> None:
    """Remember TEXT (standard input when it is - or missing): one fact in one clear sentence.

    What is known already is skipped; a correction replaces the old value, which stays in its history.
    """
    dry_run, quiet, as_json = (given.pop(name) for name in ("dry_run", "quiet", "as_json"))
    content = _read() if text in (None, "-") else str(text)
    asked = draft(content, agent_id=given.pop("agent"), **given)
    done = memories.remember(asked, on_conflict, dry_run=dry_run)
    if as_json:
        screen.json({**done._asdict(), "dry_run": dry_run, "repo": repo_of(memories)})
    elif quiet:
        screen.line(done.memory_id)
    else:
        screen.line(_told(done, dry_run=dry_run))
        if asked.expires_at and not dry_run:
            ends = memories.get(done.memory_id).expires_at
            screen.note(f"It ends {words.stamp(ends)}." if ends else "It never ends.")
        tell_repo(memories, screen)
    for warning in () if as_json else done.warnings:
        screen.warn(warning)


def _read() -> str:
    if sys.stdin.isatty():
        raise Usage("say what to remember.", hint='For example: memlake remember "The user prefers tabs."')
    return sys.stdin.buffer.read().decode("utf-8", "surrogateescape").removesuffix("\n")


def _told(done: Outcome, *, dry_run: bool) -> str:
    """The decision, why, and the id of the memory that stands now."""
    why = clean(" ".join(done.why.split())).rstrip(".")
    said = f"{_DONE[done.decision]} ({done.decision}: {why})."
    if dry_run:
        said = f"Would be: {said[0].lower()}{said[1:]}"
        return f"{said} {done.memory_id}" if done.memory_id == done.other_id else said
    return f"{said}{_doubt(done) if done.review else ''} {done.memory_id}"


def _doubt(done: Outcome) -> str:
    if done.memory_id == done.other_id:
        return f" Not certain: `memlake memory restore {done.memory_id}` takes it back."
    return " Not certain: `memlake memory conflicts` lists both."
