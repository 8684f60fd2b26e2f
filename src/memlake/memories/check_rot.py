"""Measuring what is rotten in our memories, or in those that an import is about to bring; leaving it out of an import.

`rot` finds it in texts; here memories become texts with a place, and findings become lines that hold no secret.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache

from memlake import secrets
from memlake.memories import record, redact, search, verdicts
from memlake.memories.context import MemoryContext
from memlake.memories.import_records import Item
from memlake.memories.record import Memory
from memlake.memories.rot.find_rot import find_rot
from memlake.memories.rot.passages import (
    AGENT,
    HERE,
    INSTRUCTION,
    KINDS,
    PERSON,
    TURN,
    UNKNOWN,
    Finding,
    Passage,
    Project,
)
from memlake.memories.search import EVERYONE, Query
from memlake.memories.transfer import Source
from memlake.named_tuple import NamedTuple

_ALL = 1 << 31
_OF_TURNS = ("episode", "summary")  # types of what an agent said as it worked, which never stands above a memory
_READ, _SHOWN = 2000, 160  # characters that are looked through for secrets, and that are shown


class Line(NamedTuple):
    """A text that a finding is about: its id, where it stands, and its beginning without secrets."""

    memory_id: str
    where: str
    text: str


class RotLine(NamedTuple):
    """One thing that is wrong: with which text, why, and which stands instead, if one does."""

    kind: str
    memory_id: str
    where: str
    text: str
    why: str
    other: Line | None = None


class RotReport(NamedTuple):
    """What was found in how many texts; `problems` are those that could not be read."""

    checked: int
    counts: Mapping[str, int]
    lines: tuple[RotLine, ...]
    skipped: int = 0
    problems: tuple[str, ...] = ()


class Rest(Source):
    """What is left of a source when something was left out of it."""

    def __init__(self, source: Source, items: Iterable[Item]) -> None:
        super().__init__(source.name, skip_bad=source.skip_bad)
        self.skipped, self.problems, self._items = source.skipped, source.problems, iter(items)
        self.forgotten, self.states = source.forgotten, source.states

    def __next__(self) -> Item:
        return next(self._items)


def check_memories(
    context: MemoryContext, instructions: Iterable[Item] = (), *, project: str | None = None
) -> RotReport:
    """What is rotten in the memories of the branch."""
    memories = _list_memories(context, context.choose_projects(project))[::-1]  # the oldest first
    passages = [_make_passage(context, memory, at, _name_source(memory)) for at, memory in enumerate(memories)]
    findings = find_rot([*passages, *_fix(context, instructions, len(passages))], _find_project(context))
    return _report(len(passages), findings)


def check_items(context: MemoryContext, items: Iterable[Item], instructions: Iterable[Item] = ()) -> RotReport:
    """What is rotten in memories that were read from elsewhere, as they would be here."""
    passages = list(_read_passages(context, items))
    findings = find_rot([*passages, *_fix(context, instructions, len(passages))], _find_project(context))
    report = _report(len(passages), findings)
    return (
        report._replace(skipped=items.skipped, problems=tuple(items.problems)) if isinstance(items, Source) else report
    )


def split_items(context: MemoryContext, source: Source, instructions: Iterable[Item] = ()) -> tuple[Rest, RotReport]:
    """The items of a source without what is rotten in them or repeats what is here, and what was left out and why."""
    items = list(source)
    passages = list(_read_passages(context, items))
    fixed = [*_fix(context, instructions, len(passages)), *_list_ours(context, passages)]
    dropped = [finding for finding in find_rot([*passages, *fixed], _find_project(context)) if finding.drops]
    gone = {finding.passage.number for finding in dropped}
    rest = Rest(source, [item for at, item in enumerate(items) if at not in gone])
    return rest, _report(len(items), dropped)._replace(skipped=source.skipped, problems=tuple(source.problems))


# -- memories become passages -----------------------------------------------------------------


def _list_memories(context: MemoryContext, projects: Sequence[str] | None) -> list[Memory]:
    return search.list_memories(context, Query(limit=_ALL, agent_id=EVERYONE, project=projects))


def _list_ours(context: MemoryContext, theirs: Sequence[Passage]) -> Iterator[Passage]:
    """What is here beside the same ids: an import compares those by their history."""
    ids = {one.key for one in theirs}
    ours = (memory for memory in _list_memories(context, None) if memory.memory_id not in ids)
    yield from (_make_passage(context, memory, -1, _name_source(memory))._replace(fixed=HERE) for memory in ours)


def _read_passages(context: MemoryContext, items: Iterable[Item]) -> Iterator[Passage]:
    for at, item in enumerate(items):
        memory = item.memory if item.is_placed else item.memory._replace(project=context.place.project)
        if not memory.org_id:
            memory = memory._replace(org_id=context.org or "local")
        passage = _make_passage(context, memory, at, item.where)
        yield passage if item.is_dated else passage._replace(time=0)


def _fix(context: MemoryContext, instructions: Iterable[Item], number: int) -> Iterator[Passage]:
    """Points of instruction files, which hold for all of the project: as they are read, and without their heading."""
    for item in instructions:
        memory = item.memory._replace(project=context.place.project)
        point = _make_passage(context, memory, number, item.where)._replace(fixed=INSTRUCTION)
        yield point
        if said := memory.content.partition(": ")[2]:
            yield point._replace(content=said)


def _make_passage(context: MemoryContext, memory: Memory, number: int, where: str) -> Passage:
    place = context.place
    is_here = record.is_of(memory, place.same)
    project = place.project if is_here else memory.project
    return Passage(
        number,
        memory.memory_id,
        where,
        memory.content,
        redact.join_filing(memory) if memory.metadata or memory.tags else "",
        project,
        (memory.org_id, project, memory.user_id, memory.package),
        memory.area if is_here and place.root else None,
        _find_voice(memory),
        memory.updated_at,
        verdicts.describe_filing(memory),
        memory.related[0] if memory.review and memory.related else "",
    )


def _name_source(memory: Memory) -> str:
    return ", ".join(part for part in (memory.agent_id, memory.source) if part)


def _find_voice(memory: Memory) -> str:
    if not memory.agent_id or memory.source.partition(":")[0] == "person":
        return PERSON
    return TURN if memory.memory_type in _OF_TURNS else AGENT


def _find_project(context: MemoryContext) -> Project:
    """How the files of this project are looked for; nowhere if we are in none."""
    root = context.place.root
    if not root:
        return UNKNOWN
    return Project(cache(lambda path: os.path.lexists(os.path.join(root, path))))


# -- findings become lines --------------------------------------------------------------------


def _report(checked: int, findings: Sequence[Finding]) -> RotReport:
    counts = Counter(finding.kind for finding in findings)
    return RotReport(checked, {kind: counts[kind] for kind in KINDS}, tuple(map(_make_line, findings)))


def _make_line(finding: Finding) -> RotLine:
    one, other = finding.passage, finding.other
    shown = None if other is None else Line(other.key, other.where, _shorten(other.content))
    return RotLine(finding.kind, one.key, one.where, _shorten(one.content), secrets.mask(finding.why), shown)


def _shorten(text: str) -> str:
    line = " ".join(secrets.mask(text[:_READ]).split())
    return line if len(line) <= _SHOWN else f"{line[: _SHOWN - 1]}…"
