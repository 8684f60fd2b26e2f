"""Which memories name a file, a dataset, a commit or another memory: what they say of that rests on it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from memlake.memories import record
from memlake.memories.anchors.anchor import COMMIT, FILE, TENSOR
from memlake.memories.kind import MEMORY
from memlake.memories.record import Memory
from memlake.named_tuple import NamedTuple
from memlake.records import Commit
from memlake.versions.history.commits import History
from memlake.versions.lineage.graph import Graph

_SHOWN = 60  # characters of a memory that name it
Find = Callable[[Iterable[str]], Mapping[str, str]]  # texts -> the nodes of those that name something


class Seen(NamedTuple):
    """Whose memories are seen: those of an organisation (None: all), and of some projects (None: all)."""

    org: str | None
    projects: tuple[str, ...] | None


def add_memories(graph: Graph, history: History, commit: Commit, *, seen: Seen, find: Find) -> None:
    """A memory rests on what its source or its metadata name, word for word; its content is not searched for names."""
    memories = list(_read_memories(history, commit, seen))
    ids = {memory.memory_id: _add_memory(graph, memory) for memory in memories}
    names = {memory.memory_id: dict.fromkeys(list_named(memory)) for memory in memories}
    known = {**find(dict.fromkeys(name for each in names.values() for name in each)), **ids}
    for memory in memories:
        for name in names[memory.memory_id]:
            if name in known:
                graph.add_edge(known[name], ids[memory.memory_id])


def find_naming(
    history: History, commit: Commit, names: Iterable[str], *, seen: Seen
) -> Mapping[str, Sequence[tuple[str, str]]]:
    """For each name the memories, as (id, text), that have it as source, in their metadata, or as words of their text.

    A name counts where it stands by itself: `data.csv` is not named by `old-data.csv` or by `data.csv.gz`.
    """
    wanted = set(names)
    listed = sorted(map(re.escape, wanted), key=len, reverse=True)
    words = re.compile(rf"(?<![\w./\\-])(?:\./)?({'|'.join(listed)})(?![\w/\\-]|\.\w)") if listed else None
    found: dict[str, list[tuple[str, str]]] = {}
    for memory in _read_memories(history, commit, seen) if words else ():
        texts = (match[1] for match in words.finditer(memory.content)) if words else ()
        for name in dict.fromkeys([*(name for name in list_named(memory) if name in wanted), *texts]):
            found.setdefault(name, []).append((memory.memory_id, _cut_text(memory)))
    return found


def _read_memories(history: History, commit: Commit, seen: Seen) -> Iterator[Memory]:
    for _, entry in history.scan(commit, MEMORY.folder):
        memory = record.decode(history.objects.read(entry.oid))
        if seen.org in (None, memory.org_id) and (seen.projects is None or record.is_of(memory, seen.projects)):
            yield memory


def memory_id(id: str) -> str:
    """The node of a memory."""
    return f"{MEMORY.name}:{id}"


def _cut_text(memory: Memory) -> str:
    text = " ".join(memory.content.split())
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."


def _add_memory(graph: Graph, memory: Memory) -> str:
    by = f" of {memory.agent_id}" if memory.agent_id else ""
    return graph.add_node(
        memory_id(memory.memory_id), MEMORY.name, _cut_text(memory), f"{memory.memory_type} {memory.memory_id[-6:]}{by}"
    )


def list_named(memory: Memory) -> Iterator[str]:
    """What a memory rests on by its own word, then its source and what its metadata say: it may name something else."""
    for use in memory.uses:
        yield use.path if use.kind in (FILE, TENSOR) else use.oid if use.kind == COMMIT else use.name
    if origin := record.cut_kind(memory.source):
        yield origin
    yield from _list_texts(memory.metadata)


def _list_texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for one in value.values():
            yield from _list_texts(one)
    elif isinstance(value, list | tuple):
        for one in value:
            yield from _list_texts(one)
