"""Verbs of `memory` that change memories: update, forget, revert, restore, purge, conflicts, resolve, stale, evict."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from memlake import memories as parts
from memlake.cli.arguments import JSON, Number, confirm_erase, project_option
from memlake.cli.memory.options import (
    agent_option,
    complete_memories,
    draft,
    expires_option,
    filing_options,
    id_argument,
    importance_option,
    memory_verb,
    tell_bounds,
    uses_option,
)
from memlake.cli.screen import Screen
from memlake.errors import Usage
from memlake.views import words
from memlake.views.memory import (
    advise_resolve,
    age_line,
    age_shape,
    contradiction_lines,
    contradiction_shape,
    decided_lines,
    exposed_line,
    revert_lines,
    revert_shape,
    shorten_memory,
    suggestion_line,
    suggestion_shape,
)
from memlake.views.words import clean

if TYPE_CHECKING:
    from memlake.memories.memories import Memories
    from memlake.memories.upkeep import Age, Rule

F = TypeVar("F", bound=Callable[..., Any])


@memory_verb(shared=[JSON])
@id_argument
@click.argument("text", required=False)
@filing_options
@importance_option
@expires_option
@uses_option
def update(memories: Memories, screen: Screen, /, *, memory_id: str, text: str | None, **given: Any) -> None:
    """Change the text of a memory (TEXT) or how it is filed. Its earlier text stays in its history."""
    old = memories.get(memories.full_id(memory_id))
    changed = {name: value for name, value in given.items() if value is not None and value not in ((), {})}
    changed |= {"content": text} if text is not None else {}
    if not changed:
        raise Usage("say what to change, with TEXT or an option such as --category. Nothing was changed.")
    made = memories.update(old.memory_id, draft(**{"content": old.content, **changed}), changed=changed)
    if screen.as_json:
        screen.json({"memory": memories.fields(made), "warnings": made.warnings})
    else:
        screen.line(f"Updated {made.memory_id}: {shorten_memory(made)}")
    for warning in () if screen.as_json else made.warnings:
        screen.warn(warning)


@memory_verb()
@click.argument("memory_ids", nargs=-1, required=True, metavar="ID...", shell_complete=complete_memories("id"))
@click.option("-n", "--dry-run", is_flag=True, help="List what would be forgotten, and forget nothing.")
def forget(memories: Memories, screen: Screen, /, *, memory_ids: tuple[str, ...], dry_run: bool) -> None:
    """Remove memories from the branch. `memlake memory restore` brings them back."""
    named = [memories.get(memories.full_id(one)) for one in memory_ids]  # all of them exist, or none is forgotten
    for memory in named:
        if not dry_run:
            memories.delete(memory.memory_id, purge=False)
        screen.line(f"{'Would forget' if dry_run else 'Forgot'} {memory.memory_id}: {shorten_memory(memory)}")


@memory_verb(shared=[JSON])
@click.option("--session", "session_id", metavar="NAME", help="What this session wrote.")
@click.option("--agent", "agent_id", metavar="NAME", shell_complete=complete_memories("agent"), help="What it wrote.")
@click.option("--source", metavar="KIND[:WHAT]", help="What came from there: web, tool, import:mem0 ...")
@click.option("--since", metavar="TIME", help="What was written from then on; it can narrow the others.")
@click.option("--derived", is_flag=True, help="Also what was made from it: joined texts, and memories that name it.")
@click.option("-n", "--dry-run", is_flag=True, help="Say what would be taken back, and take nothing back.")
def revert(memories: Memories, screen: Screen, /, *, dry_run: bool, **whose: Any) -> None:
    """Take back what a session, an agent or a source wrote, or what was written since a time.

    What it replaced stands again, what it forgot is there again, and what it added is forgotten: in one step, which
    `memlake undo` takes back. The sessions that were told of it meanwhile are named.
    """
    choice = parts.revert.Choice(**whose)
    if choice._replace(derived=False) == parts.revert.Choice():
        raise Usage("say whose writing to take back: --session, --agent, --source or --since. Nothing was taken back.")
    taken = memories.revert(choice, dry_run=dry_run)
    if screen.as_json:
        screen.json({**revert_shape(taken), "dry_run": dry_run})
        return
    with screen.pages():
        screen.lines(line for one in taken.memories for line in revert_lines(screen, one, dry_run=dry_run))
        screen.lines(f"{'Would set' if dry_run else 'Set'} state {clean(key)!r} back" for key in taken.states)
        screen.lines(exposed_line(screen, one) for one in taken.told)
    count = len(taken.memories) + len(taken.states)
    if not count:
        more = "" if choice.derived else " What others made from those writes stays, unless you add --derived."
        screen.note(f"There is nothing to take back.{more}")
        return
    whole = words.count(count, "change")
    screen.note(
        f"{whole} in all; nothing was changed." if dry_run else f"{whole} in all. To bring them back: memlake undo"
    )
    if not taken.told:
        screen.note("By the records of this machine nobody was told of it.")


@memory_verb()
@id_argument
@click.option(
    "--at", metavar="REV|TIME|VERSION", help="The value it had then. Without it, the value before the current one."
)
def restore(memories: Memories, screen: Screen, /, *, memory_id: str, at: str | None) -> None:
    """Bring back a forgotten memory, or an earlier value of one."""
    made = memories.restore(memories.full_id(memory_id), at)
    screen.line(f"Restored {made.memory_id}: {shorten_memory(made)}")


@memory_verb(shared=[JSON])
@id_argument
@click.option("--reason", required=True, help="Why. It is kept on the tombstone.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
def purge(memories: Memories, screen: Screen, /, *, memory_id: str, reason: str, yes: bool) -> None:
    """Erase every version of a memory for good: its bytes, its vectors, its words in the index. Cannot be undone."""
    full = memories.full_id(memory_id)
    if not yes:
        confirm_erase(f"Erase every version of memory {full} for good?")
    report = memories.purge(full, reason)
    sizes = f"{words.count(len(report.purged), 'object')}, {words.size(report.bytes)}"
    screen.show({"report": report}, (f"Erased memory {full}: {sizes}.", *map(clean, report.notes)), pages=False)


@memory_verb(shared=[JSON])
@click.option("--decided", is_flag=True, help="List instead what new memories changed without asking, newest first.")
@click.option(
    "-n",
    "--limit",
    type=Number(1),
    metavar="N",
    default=20,
    show_default=True,
    help="With --decided, at most N.",
)
@agent_option
@project_option
def conflicts(
    memories: Memories, screen: Screen, /, *, decided: bool, limit: int, agent: str | None, project: str | None
) -> None:
    """List memories that may contradict each other. Both were kept, and you can say which one stands."""
    whose = "*" if agent is None else agent
    if decided:
        decisions = memories.list_decided(whose, limit, project=project)
        lines = (line for one in decisions for line in decided_lines(screen, one))
        screen.show({"decided": decisions}, lines, pages=False)
        note = "The last line of each takes it back." if decisions else "New memories changed nothing."
    else:
        contradictions = memories.conflicts(whose, project=project)
        lines = (line for one in contradictions for line in contradiction_lines(screen, one))
        screen.show({"conflicts": [contradiction_shape(one) for one in contradictions]}, lines, pages=False)
        note = advise_resolve(contradictions) if contradictions else "No memories contradict each other."
    if not screen.as_json:
        screen.note(note)
    tell_bounds(memories, screen, project, done="listed")


@memory_verb()
@id_argument
@click.option(
    "--keep", type=click.Choice(["new", "old", "both", "ours", "theirs"]), required=True,
    help="Which one stands; ours or theirs in a merge.",
)  # fmt: skip
def resolve(memories: Memories, screen: Screen, /, *, memory_id: str, keep: str) -> None:
    """Settle a conflict: keep the new memory, the old one, or both. In a waiting merge, keep ours or theirs.

    The value that was not kept stays in the history of the memory.
    """
    full, waited = memories.full_id(memory_id), len(memories.list_unmerged())
    made = memories.resolve(full, keep)
    screen.line(
        f"Kept {keep}: {made.memory_id} {shorten_memory(made)}" if made else f"Kept {keep}: {full} stays forgotten."
    )
    left = len(memories.list_unmerged())
    if keep == "both" and left < waited:
        screen.note("Once the merge is finished, theirs is stored beside it with an id of its own.")
    if left:
        screen.note(f"{words.count(left, 'memory', 'memories')} left to resolve; see: memlake memory conflicts")
    elif waited:
        screen.note("Every memory is resolved. Finish with: memlake merge --continue")


_RULE = (
    click.option("--days", type=click.FloatRange(0), default=90.0, show_default=True, help="Unchanged for so long."),
    click.option(
        "--max-importance", type=click.FloatRange(0, 1), default=0.5, show_default=True, help="At most this important."
    ),
    click.option(
        "--max-sessions",
        type=Number(0),
        metavar="N",
        default=0,
        show_default=True,
        help="Read in at most so many sessions of this machine.",
    ),
    agent_option,
    project_option,
)


def _rule_options(function: F) -> F:
    """The options that say what counts as stale."""
    for option in reversed(_RULE):
        function = option(function)
    return function


def _rule(options: dict[str, Any]) -> Rule:
    agent = options.pop("agent")
    return parts.upkeep.Rule(agent_id="*" if agent is None else agent, **options)


@memory_verb(shared=[JSON])
@_rule_options
def stale(memories: Memories, screen: Screen, /, **rule: Any) -> None:
    """List memories that are old, not important and not read, what is missed least first.

    The score is how little is lost if one goes, from 0 to 1, and the line says what it is made of.
    """
    _show_ages(screen, memories.stale(_rule(rule)), none="Nothing is stale.")
    tell_bounds(memories, screen, rule["project"], done="listed")


@memory_verb(shared=[JSON])
@_rule_options
@click.option("-n", "--dry-run", is_flag=True, help="List what would be forgotten, and forget nothing.")
def evict(memories: Memories, screen: Screen, /, *, dry_run: bool, **rule: Any) -> None:
    """Forget memories that are stale or have expired. `memlake memory restore` brings them back."""
    gone = memories.evict(_rule(rule), dry_run=dry_run)
    _show_ages(screen, gone, none="Nothing is stale or expired.")
    if gone and not screen.as_json:
        screen.note(f"{'Would forget' if dry_run else 'Forgot'} {words.count(len(gone), 'memory', 'memories')}.")
    tell_bounds(memories, screen, rule["project"], done="forgotten")


def _show_ages(screen: Screen, ages: Sequence[Age], *, none: str) -> None:
    lines = (age_line(screen, age) for age in ages)
    screen.show({"memories": [age_shape(age) for age in ages]}, lines, pages=False)
    if not ages and not screen.as_json:
        screen.note(none)


@memory_verb(shared=[JSON])
@click.option("--suggest", is_flag=True, help="List what is suggested, and change nothing.")
@click.option("--apply", is_flag=True, help="Do what is suggested. `memlake undo` takes it back.")
@agent_option
@project_option
def importance(
    memories: Memories, screen: Screen, /, *, suggest: bool, apply: bool, agent: str | None, project: str | None
) -> None:
    """Suggest another importance for memories that many sessions read, that nobody reads, or that are uncertain.

    Only --apply changes anything. `memlake memory update ID --importance 0.8` changes one.
    """
    if suggest == apply:
        raise Usage("say --suggest to list what is suggested, or --apply to do it. Nothing was changed.")
    rule = parts.upkeep.Rule(agent_id="*" if agent is None else agent, project=project)
    found = memories.suggest_importance(rule)
    if apply:
        memories.apply_importance(found)
    lines = (suggestion_line(screen, one) for one in found)
    screen.show({"memories": [suggestion_shape(one) for one in found]}, lines, pages=False)
    if not screen.as_json:
        changed = f"Changed {words.count(len(found), 'memory', 'memories')}." if apply else "Nothing was changed."
        screen.note(changed if found else "Nothing is suggested.")
    tell_bounds(memories, screen, project, done="looked at")


VERBS = (update, forget, revert, restore, purge, conflicts, resolve, stale, evict, importance)
