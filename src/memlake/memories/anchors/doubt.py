"""Memories in doubt: what they rest on changed. Which they are and why, and what settles it.

What two memories say against each other is a contradiction and another matter (`review.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress

from memlake.errors import InvalidInput, NotFound, Nothing
from memlake.memories import search, store
from memlake.memories.anchors import standing, take_anchors, take_files
from memlake.memories.anchors.anchor import CHANGED, FILE, FRESH, GONE, IN_DOUBT, MEMORY, Anchor, Standing, join_anchors
from memlake.memories.anchors.anchored_files import read_then
from memlake.memories.anchors.standing import Moment, Standings
from memlake.memories.context import MemoryContext
from memlake.memories.record import Memory
from memlake.memories.search import Query
from memlake.named_tuple import NamedTuple
from memlake.versions.checkout import rev
from memlake.versions.history.times import parse_time
from memlake.versions.text import unified
from memlake.versions.text.lines import find_text, split_lines

EPISODE = "episode"
_ALL = 100_000  # memories, where a list has no end of its own
_PASSES = 2  # what changed and is in doubt itself is taken again twice


class Doubt(NamedTuple):
    """A memory in doubt, and what became of each thing that it rests on."""

    memory: Memory
    standings: tuple[Standing, ...]

    @property
    def causes(self) -> tuple[str, ...]:
        """Why it is in doubt, a sentence for each reason."""
        return tuple(one.sentence for one in self.standings if one.word in IN_DOUBT)

    @property
    def is_inherited(self) -> bool:
        """Whether it only rests on what is in doubt."""
        return all(one.inherited for one in self.standings if one.word in IN_DOUBT)


class Settled(NamedTuple):
    """A memory that is anchored to what there is now, and what it does not rest on any more because that is gone."""

    memory: Memory
    dropped: tuple[str, ...]


class UseChange(NamedTuple):
    """What changed of something that a memory rests on: as lines of a diff, or a sentence why there is none."""

    standing: Standing
    lines: tuple[str, ...] = ()
    note: str = ""


def describe_moment(context: MemoryContext, as_of: str | None = None) -> Moment:
    """The moment that memories are judged at: now, or when a revision or a time was."""
    place, formats, here = context.place, context.formats, context.here
    lane = search.find_commit_as_of(context, as_of) if as_of else None
    if as_of is None or lane is None:
        follows = context.settings.memory_follow_git
        return standing.describe_now(here, context.branch, place, formats, follows=follows)
    time = lane.time
    if not _is_rev(context, as_of):
        time = parse_time(as_of)
    return standing.describe_then(here, context.branch, place, formats, (lane, time))


def _is_rev(context: MemoryContext, text: str) -> bool:
    with suppress(NotFound, InvalidInput):
        return rev.find(context.here, text, "memory") is not None
    return False


def judge(context: MemoryContext, memories: Iterable[Memory], as_of: str | None = None) -> Standings:
    """What became of what each of these memories rests on."""
    return standing.judge(describe_moment(context, as_of), memories)


def list_doubts(context: MemoryContext, project: str | None = None) -> list[Doubt]:
    """Everything in doubt: what rests on a change itself first, then what rests on that; of one project, if given.

    An episode tells what happened once, which no change makes false.
    """
    asked = Query(limit=_ALL, anchored=True, project=context.choose_projects(project))
    memories = [memory for memory in search.list_memories(context, asked) if memory.memory_type != EPISODE]
    return sorted(find_doubts(context, memories), key=lambda one: one.is_inherited)


def find_doubts(context: MemoryContext, memories: Sequence[Memory]) -> list[Doubt]:
    """Those of some memories, all of which rest on something, that are in doubt."""
    judged = judge(context, memories) if memories else {}
    found = (Doubt(memory, tuple(judged[memory.memory_id])) for memory in memories)
    return [one for one in found if one.causes]


def anchor_again(context: MemoryContext, memory: Memory) -> Memory:
    """A memory that was said anew, anchored to what it rests on as that is now. What is gone is left out."""
    moment = describe_moment(context)
    for _ in range(_PASSES):
        judged = standing.judge(moment, [memory]).get(memory.memory_id, ())
        taken = [take_anchors.take_again(context, moment, one) for one in judged]
        memory = memory._replace(uses=join_anchors((), [anchor for anchor in taken if anchor is not None]))
    return memory


def take(context: MemoryContext, texts: Sequence[str]) -> tuple[Anchor, ...]:
    """Anchors of what a user names."""
    return take_anchors.take_all(context, describe_moment(context), texts)


def settle(context: MemoryContext, memory_ids: Sequence[str]) -> list[Settled]:
    """Say of memories that they are true all the same: they are anchored to what there is now, in one commit."""
    memories = [store.get(context, memory_id) for memory_id in dict.fromkeys(memory_ids)]
    judged = judge(context, memories)
    for memory in memories:
        if all(one.word == FRESH for one in judged.get(memory.memory_id, ())):
            raise Nothing(
                f"memory {memory.memory_id} is not in doubt. Nothing was changed.",
                hint="See what is with: memlake doubt",
            )
    changes = [(memory, anchor_again(context, memory)) for memory in memories]
    what = memories[0].memory_id if len(memories) == 1 else f"of {len(memories)} memories"
    store.replace_many(context, changes, f"settle doubt {what}")
    gone = ({one.anchor.name for one in judged[memory.memory_id] if one.word == GONE} for memory in memories)
    return [Settled(new, tuple(sorted(names))) for (_, new), names in zip(changes, gone, strict=True)]


# -- what changed -----------------------------------------------------------------------------


def list_changes(context: MemoryContext, doubt: Doubt) -> Iterator[UseChange]:
    """What changed of what a memory rests on."""
    moment = describe_moment(context)
    for one in doubt.standings:
        if one.word == CHANGED:
            yield _compare(moment, one)


def _compare(moment: Moment, one: Standing) -> UseChange:
    anchor = one.anchor
    if anchor.kind == MEMORY and not one.inherited:
        entry = moment.history.entries(moment.lane, [anchor.path])[anchor.path]
        texts = [standing.find_memory(moment.history, oid) for oid in (anchor.oid, entry.oid)]
        old, new = (memory.content + "\n" if memory else None for memory in texts)
    elif anchor.kind == FILE:
        then, now = read_then(moment.history, moment.place.root, anchor), moment.ours.read(one.path)
        old, new = (None if data is None else find_text(data) for data in (then, now))
        if old and new and anchor.lines:
            again = take_files.follow_lines(then, now or b"", anchor.lines)
            old, new = ("".join(split_lines(text)[a - 1 : b]) for text, (a, b) in ((old, anchor.lines), (new, again)))
    else:
        return UseChange(one, note=one.sentence)
    if old is None or new is None:
        return UseChange(one, note=f"What {anchor.name} was then is not stored here, so there is no diff.")
    return UseChange(one, tuple(unified.format_hunks(split_lines(old), split_lines(new))))
