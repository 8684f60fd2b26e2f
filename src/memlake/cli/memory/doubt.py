"""doubt: memories whose foundation changed, why, and what settles it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from memlake.cli.arguments import JSON, project_option
from memlake.cli.memory.options import complete_memories, memory_verb, tell_bounds
from memlake.cli.screen import Screen
from memlake.errors import Usage
from memlake.views import words
from memlake.views.memory import change_of_use_lines, doubt_lines, doubt_shape, shorten_memory
from memlake.views.words import clean

if TYPE_CHECKING:
    from memlake.memories.memories import Memories


@memory_verb(shared=[JSON])
@click.argument("memory_ids", nargs=-1, metavar="[ID]...", shell_complete=complete_memories("id"))
@click.option("--settle", is_flag=True, help="Say that these are true all the same: they rest on what there is now.")
@click.option("--diff", is_flag=True, help="Show what changed of what each rests on.")
@project_option
def doubt(
    memories: Memories, screen: Screen, /, *, memory_ids: tuple[str, ...], settle: bool, diff: bool, project: str | None
) -> None:
    """List memories that rest on something that changed, through however many other memories, and say why.

    A memory rests on what `remember --uses` named. --settle keeps one as it is, `memlake memory update ID --uses` names
    something else, `memlake memory forget ID` removes it. `memlake undo` takes back either.
    """
    named = [memories.full_id(one) for one in memory_ids]
    if settle:
        if not named:
            raise Usage("say which memories to settle. Nothing was changed.", hint="Like: memlake doubt --settle ID")
        _settle(memories, screen, named)
        return
    doubts = [one for one in memories.doubts(project=project) if not named or one.memory.memory_id in named]
    if screen.as_json:
        screen.json({"doubts": [doubt_shape(one) for one in doubts]})
        return
    with screen.pages():
        for one in doubts:
            screen.lines(doubt_lines(screen, one))
            for change in memories.list_changes(one) if diff else ():
                screen.lines(change_of_use_lines(screen, change))
    if doubts:
        how = "" if diff else " To see what changed: memlake doubt --diff"
        screen.note(f"{words.count(len(doubts), 'memory', 'memories')} in doubt.{how}")
        first = doubts[0].memory.memory_id
        screen.note(f"If one is true all the same: memlake doubt --settle {first}")
    else:
        screen.note("Nothing is in doubt.")
    tell_bounds(memories, screen, project, done="listed")


def _settle(memories: Memories, screen: Screen, named: list[str]) -> None:
    settled = memories.settle(*named)
    if screen.as_json:
        screen.json({"settled": [{"memory": memories.fields(one.memory), "dropped": one.dropped} for one in settled]})
        return
    for one in settled:
        screen.line(f"Settled {one.memory.memory_id}: {shorten_memory(one.memory)}")
        for name in one.dropped:
            screen.note(f"It does not rest on {clean(name)} any more, because that is gone.")
