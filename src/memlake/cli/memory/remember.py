"""remember: stores one fact, and says what became of it and why."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from memlake.cli.arguments import JSON
from memlake.cli.memory.options import (
    agent_option,
    draft,
    expires_option,
    filing_options,
    importance_option,
    memory_verb,
    repo_of,
    tell_repo,
    uses_option,
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


@memory_verb(shared=[JSON])
@click.argument("text", required=False)
@filing_options
@importance_option
@agent_option
@expires_option
@uses_option
@click.option(
    "--on-conflict",
    type=click.Choice(["decide", "add", "ask"]),
    default="decide",
    show_default=True,
    help="If it meets an old one: decide, add it as it is, or keep both and ask.",
)
@click.option("-n", "--dry-run", is_flag=True, help="Say what would happen, and store nothing.")
@click.option(
    "--personal", is_flag=True, help="Store it in your personal repo, for every project, instead of the repo here."
)
@click.option("-q", "--quiet", is_flag=True, help="Print only the id.")
def remember(memories: Memories, screen: Screen, /, *, text: str | None, on_conflict: str, **given: Any) -> None:
    """Remember TEXT: one fact in one clear sentence. Without TEXT, or if it is -, standard input is read.

    A fact that is known already is skipped. A correction replaces the old value, which stays in the history. Whoever
    finds it later is told if what it --uses changed.
    """
    dry_run, quiet = (given.pop(name) for name in ("dry_run", "quiet"))
    content = _read() if text in (None, "-") else str(text)
    wanted = draft(content, agent_id=given.pop("agent"), **given)
    done = memories.remember(wanted, on_conflict, dry_run=dry_run)
    if screen.as_json:
        screen.json({**done._asdict(), "dry_run": dry_run, "repo": repo_of(memories)})
    elif quiet:
        screen.line(done.memory_id)
    else:
        screen.line(_describe(done, dry_run=dry_run))
        if wanted.expires_at and not dry_run:
            ends = memories.get(done.memory_id).expires_at
            screen.note(f"It ends {words.stamp(ends)}." if ends else "It never ends.")
        tell_repo(memories, screen)
    for warning in () if screen.as_json else done.warnings:
        screen.warn(warning)


def _read() -> str:
    if sys.stdin.isatty():
        raise Usage("say what to remember.", hint='For example: memlake remember "The user prefers tabs."')
    return sys.stdin.buffer.read().decode("utf-8", "surrogateescape").removesuffix("\n")


def _describe(done: Outcome, *, dry_run: bool) -> str:
    """The decision, why, and the id of the memory that stands now."""
    why = clean(" ".join(done.why.split())).rstrip(".")
    text = f"{_DONE[done.decision]} ({done.decision}: {why})."
    if dry_run:
        text = f"Would be: {text[0].lower()}{text[1:]}"
        return f"{text} {done.memory_id}" if done.memory_id == done.other_id else text
    if done.review and done.memory_id == done.other_id:
        text += f" Not certain: `memlake memory restore {done.memory_id}` takes it back."
    elif done.review:
        text += " Not certain: `memlake memory conflicts` lists both."
    return f"{text} {done.memory_id}"
