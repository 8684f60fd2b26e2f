"""Verbs of `memory` that change memories: update, forget, restore, purge, conflicts, resolve, stale, evict."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from memlake import memories as parts
from memlake.cli.arguments import json_option, project_option
from memlake.cli.memory.arguments import (
    agent_option,
    completing_memories,
    draft,
    filing_options,
    id_argument,
    pass_memories,
    scope_options,
    tell_bounds,
)
from memlake.cli.screen import Screen
from memlake.errors import Nothing, Usage
from memlake.views import words
from memlake.views.memory import (
    advise_resolve,
    age_line,
    age_shape,
    decided_lines,
    doubt_lines,
    doubt_shape,
    shorten_memory,
)
from memlake.views.words import clean

if TYPE_CHECKING:
    from memlake.memories.forget import Forgotten
    from memlake.memories.memories import Memories
    from memlake.memories.review import Age, Decided, Doubt, Rule

F = TypeVar("F", bound=Callable[..., Any])


@click.command()
@id_argument
@click.argument("text", required=False)
@filing_options
@click.option("--importance", type=click.FloatRange(0, 1), help="0 to 1.")
@click.option(
    "--expires", "expires_at", metavar="TIME", help='When it ends: "tomorrow", "in 3 days", 2h, 2030-01-31; or never.'
)
@scope_options
@json_option
@pass_memories
def update(
    memories: Memories, screen: Screen, /, *, memory_id: str, text: str | None, as_json: bool, **given: Any
) -> None:
    """Change what a memory says (TEXT) or how it is filed. Its earlier content stays in its history."""
    old = memories.get(memories.full_id(memory_id))
    changed = {name: value for name, value in given.items() if value is not None and value not in ((), {})}
    changed |= {"content": text} if text is not None else {}
    if not changed:
        raise Usage("say what to change: TEXT, or an option such as --category. Nothing was changed.")
    made = memories.update(old.memory_id, draft(**{"content": old.content, **changed}), changed=changed)
    if as_json:
        screen.json({"memory": memories.fields(made), "warnings": made.warnings})
    else:
        screen.line(f"Updated {made.memory_id}: {shorten_memory(made)}")
    for warning in () if as_json else made.warnings:
        screen.warn(warning)


@click.command()
@click.argument("memory_ids", nargs=-1, metavar="[ID]...", shell_complete=completing_memories("id"))
@click.option("--session", "session_id", metavar="NAME", help="Instead, what this session wrote.")
@click.option(
    "--agent", "agent_id", metavar="NAME", shell_complete=completing_memories("agent"), help="Instead, what it wrote."
)
@click.option("--since", metavar="TIME", help="Instead, what was written from then on; with --agent or --session both.")
@click.option("-n", "--dry-run", is_flag=True, help="List what would go, and forget nothing.")
@scope_options
@pass_memories
def forget(
    memories: Memories, screen: Screen, /, *, memory_ids: tuple[str, ...], dry_run: bool, **whose: str | None
) -> None:
    """Remove memories from the branch. `memlake memory restore` brings them back.

    With --session, --agent or --since: take back all that was written so, in one step that `memlake undo` takes back.
    What it had overwritten stands again.
    """
    choice = parts.forget.Choice(**whose)
    by_choice = choice != parts.forget.Choice()
    if by_choice == bool(memory_ids):
        raise Usage("name memories by ID, or say --session, --agent or --since. Nothing was forgotten.")
    if by_choice:
        _show_forgotten(screen, memories.forget_written(choice, dry_run=dry_run), dry_run=dry_run)
        return
    found = [memories.get(memories.full_id(given)) for given in memory_ids]  # all are there, or none goes
    for memory in found:
        if not dry_run:
            memories.delete(memory.memory_id)
        screen.line(f"{'Would forget' if dry_run else 'Forgot'} {memory.memory_id}: {shorten_memory(memory)}")


def _show_forgotten(screen: Screen, gone: Sequence[Forgotten], *, dry_run: bool) -> None:
    forgot, restored = ("Would forget", "Would restore") if dry_run else ("Forgot", "Restored")
    for one in gone:
        about = f"{one.memory.memory_id}: {shorten_memory(one.restored or one.memory)}"
        screen.line(
            f"{restored} {about} (it said: {shorten_memory(one.memory)})" if one.restored else f"{forgot} {about}"
        )
    screen.note(f"{words.count(len(gone), 'memory', 'memories')} in all." if gone else "There is nothing to forget.")


@click.command()
@id_argument
@click.option("--at", metavar="REV|TIME|VERSION", help="The value it had then; unless given, the one before.")
@scope_options
@pass_memories
def restore(memories: Memories, screen: Screen, /, *, memory_id: str, at: str | None) -> None:
    """Bring back a memory that was forgotten, or a value it had."""
    made = memories.restore(memories.full_id(memory_id), at)
    screen.line(f"Restored {made.memory_id}: {shorten_memory(made)}")


@click.command()
@id_argument
@click.option("--reason", required=True, help="Why; kept on the tombstone.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@scope_options
@json_option
@pass_memories
def purge(memories: Memories, screen: Screen, /, *, memory_id: str, reason: str, yes: bool, as_json: bool) -> None:
    """Erase every version of a memory for good: its bytes, its vectors, its words in the index. Cannot be undone."""
    full = memories.full_id(memory_id)
    if not yes:
        ask_to_erase(f"Erase every version of memory {full} for good?")
    report = memories.purge(full, reason)
    if as_json:
        screen.json({"report": report})
    else:
        screen.line(f"Erased memory {full}: {words.count(len(report.purged), 'object')}, {words.size(report.bytes)}.")
        screen.lines(clean(note) for note in report.notes)


def ask_to_erase(question: str) -> None:
    if not sys.stdin.isatty():
        raise Usage(
            "purge cannot ask here, and it cannot be undone. Nothing was erased.", hint="Say --yes if you mean it."
        )
    if not click.confirm(question, err=True):
        raise Nothing("nothing was erased.")


@click.command()
@click.option("--decided", is_flag=True, help="Instead, what new memories changed by themselves, newest first.")
@click.option("-n", "--limit", type=click.IntRange(1), default=20, show_default=True, help="At most N with --decided.")
@agent_option
@project_option
@scope_options
@json_option
@pass_memories
def conflicts(
    memories: Memories, screen: Screen, /, *, decided: bool, limit: int, agent: str | None, as_json: bool, **given: Any
) -> None:
    """List memories that may contradict another: both were kept, and you may say which stands."""
    whose, project = "*" if agent is None else agent, given["project"]
    if decided:
        _show_decided(screen, memories.list_decided(whose, limit, project=project), as_json=as_json)
    else:
        _show_doubts(screen, memories.conflicts(whose, project=project), as_json=as_json)
    if not as_json:
        tell_bounds(memories, screen, project, verbed="listed", verbs="lists")


def _show_decided(screen: Screen, found: Sequence[Decided], *, as_json: bool) -> None:
    if as_json:
        screen.json({"decided": found})
        return
    for one in found:
        screen.lines(decided_lines(screen, one))
    screen.note("Take one back with its line." if found else "Nothing was changed by a new memory.")


def _show_doubts(screen: Screen, found: Sequence[Doubt], *, as_json: bool) -> None:
    if as_json:
        screen.json({"conflicts": [doubt_shape(one) for one in found]})
        return
    for one in found:
        screen.lines(doubt_lines(screen, one))
    screen.note(advise_resolve(found) if found else "Nothing is in doubt.")


@click.command()
@id_argument
@click.option(
    "--keep", type=click.Choice(["new", "old", "both", "ours", "theirs"]), required=True,
    help="Which of the two stands; ours or theirs of a merge.",
)  # fmt: skip
@scope_options
@pass_memories
def resolve(memories: Memories, screen: Screen, /, *, memory_id: str, keep: str) -> None:
    """Settle a conflict: the new memory stands, the old one, or both; of a merge that waits, ours or theirs.

    What a memory said on the side that was not kept stays in its history.
    """
    full, waited = memories.full_id(memory_id), len(memories.list_unmerged())
    made = memories.resolve(full, keep)
    screen.line(
        f"Kept {keep}: {made.memory_id} {shorten_memory(made)}" if made else f"Kept {keep}: {full} stays forgotten."
    )
    left = len(memories.list_unmerged())
    if keep == "both" and left < waited:
        screen.note("Theirs stands beside it with an id of its own once the merge is finished.")
    if left:
        screen.note(f"{words.count(left, 'memory', 'memories')} left: memlake memory conflicts")
    elif waited:
        screen.note("No memory is left to choose; finish with: memlake merge --continue")


def _rule_options(verb: F) -> F:
    """What counts as stale."""
    rule = (
        click.option("--days", type=click.FloatRange(0), default=90.0, show_default=True, help="Unchanged so long."),
        click.option(
            "--max-importance", type=click.FloatRange(0, 1), default=0.5, show_default=True, help="No more important."
        ),
        click.option("--max-access", type=click.IntRange(0), default=0, show_default=True, help="Read no more often."),
        agent_option,
        project_option,
    )  # fmt: skip
    for option in reversed(rule):
        verb = option(verb)
    return verb


def _rule(given: dict[str, Any]) -> Rule:
    agent = given.pop("agent")
    return parts.review.Rule(agent_id="*" if agent is None else agent, **given)


@click.command()
@_rule_options
@scope_options
@json_option
@pass_memories
def stale(memories: Memories, screen: Screen, /, *, as_json: bool, **given: Any) -> None:
    """List memories that are old, not important and not read, the least useful first."""
    rule = _rule(given)
    _show(screen, memories.stale(rule), as_json=as_json, none="Nothing is stale.")
    if not as_json:
        tell_bounds(memories, screen, given["project"], verbed="listed", verbs="lists")


@click.command()
@_rule_options
@click.option("-n", "--dry-run", is_flag=True, help="List what would go, and forget nothing.")
@scope_options
@json_option
@pass_memories
def evict(memories: Memories, screen: Screen, /, *, dry_run: bool, as_json: bool, **given: Any) -> None:
    """Forget what is stale, and what has expired. It can be restored."""
    rule = _rule(given)
    gone = memories.evict(rule, dry_run=dry_run)
    _show(screen, gone, as_json=as_json, none="Nothing is stale or expired.")
    if gone and not as_json:
        screen.note(f"{'Would forget' if dry_run else 'Forgot'} {words.count(len(gone), 'memory', 'memories')}.")
    if not as_json:
        tell_bounds(memories, screen, given["project"], verbed="forgotten", verbs="forgets those of")


def _show(screen: Screen, found: Sequence[Age], *, as_json: bool, none: str) -> None:
    if as_json:
        screen.json({"memories": [age_shape(age) for age in found]})
        return
    screen.lines(age_line(screen, age) for age in found)
    if not found:
        screen.note(none)


@click.command()
@scope_options
@pass_memories
def embed(memories: Memories, screen: Screen, /) -> None:
    """Make the vectors that memories wait for, here and now. Hooks store without, and leave them to others."""
    if memories.shared.provider_spec == "none":
        raise Nothing("there is no model (embedding.provider is none), so memories are found by words alone.")
    waited, made = parts.search.count_waiting(memories.ground), 0
    while made < waited and (some := memories.embed_pending()):
        made += some
    left = parts.search.count_waiting(memories.ground)
    screen.line(
        f"Made {words.count(made, 'vector')}; {left:,} wait." if left else f"Made {words.count(made, 'vector')}."
    )


VERBS = (update, forget, restore, purge, conflicts, resolve, stale, evict, embed)
