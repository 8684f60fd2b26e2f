"""Memories from other programs' files and from our own export, and back out. Knows files and formats, not the index.

`load(memories, read("export.json"))` brings them in; `write(kept(memories), stream)` takes them out. Both hold a few
at a time, but for the one document mem0 writes. Bringing the same in twice stores nothing new.
"""

from __future__ import annotations

import codecs
import contextlib
import io
import json
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import IO, Any, NamedTuple

from memlake.errors import Denied, InvalidInput, NotFound, Purged
from memlake.memories import foreign, items, record, secrets
from memlake.memories.following import ROOM
from memlake.memories.foreign import Raw
from memlake.memories.importing import Planned
from memlake.memories.items import Earlier, Item
from memlake.memories.memories import Memories
from memlake.memories.record import Memory
from memlake.objects import disk
from memlake.objects.leases import Lease

FORMATS = ("jsonl", "mem0", "server-memory", "basic-memory", "hatidata")
BATCH = 256  # memories a commit
NAMED = 20  # problems and warnings that are told in full; of the rest their number
# The first line of one JSON document that is spread over many.
_DOCUMENT = re.compile(rb'\{(?:\s*"(?:results|memories)"\s*:.*)?')
AnyPath = str | os.PathLike[str]


class Report(NamedTuple):
    """What an import did."""

    stored: int = 0
    known: int = 0
    skipped: int = 0
    problems: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    updated: int = 0  # with a newer text
    in_doubt: int = 0  # kept beside ours, whose text is another
    users: tuple[str, ...] = ()  # whose memories they are by their metadata, as mem0 tells users apart


# -- reading ----------------------------------------------------------------------------------


class Reading(Iterator[Item]):
    """Items of a source, one by one. What cannot be read stops it, or is counted in `skipped`."""

    def __init__(self, raws: Iterator[Raw], name: str, form: str, *, skip_bad: bool) -> None:
        self.name, self.format, self.skip_bad = name, form, skip_bad
        self.skipped, self.problems = 0, list[str]()
        self._raws = raws

    def __next__(self) -> Item:
        with disk.named_errors(f"reading {self.name}"):
            for raw in self._raws:
                problem = raw.problem
                if not problem:
                    try:
                        return self._built(raw)
                    except InvalidInput as error:
                        problem = error.message.removesuffix(" Nothing was stored.")
                self.skip(f"{self.name}, {raw.where}: {problem}", InvalidInput)
        raise StopIteration

    def _built(self, raw: Raw) -> Item:
        fields = raw.fields
        if self.format != "jsonl" and not fields.get("source"):
            fields = {**fields, "source": self.format}
        return items.build(fields, self.format)

    def skip(self, problem: str, error: type[InvalidInput | Denied]) -> None:
        if not self.skip_bad:
            raise error(
                f"{problem} What stood before it may be stored already.",
                hint="Mend it and import again (what is there is not stored twice), or skip what is bad: --skip-bad "
                "(in Python skip_bad=True).",
            )
        self.skipped += 1
        if len(self.problems) < NAMED:
            self.problems.append(problem)


def read(source: AnyPath | IO[Any], *, format: str = "auto", skip_bad: bool = False) -> Reading:  # noqa: A002
    """The memories in a file, a folder or an open stream."""
    if format not in ("auto", *FORMATS):
        raise InvalidInput(f"{format!r} is not a format; one of auto, {', '.join(FORMATS)} is.")
    path = Path(source) if isinstance(source, str | os.PathLike) else None
    name = str(path) if path is not None else str(getattr(source, "name", "the stream"))
    if path is not None and not path.exists():
        raise NotFound(f"{name} does not exist. Nothing was read.")
    lines = iter(()) if path is not None and path.is_dir() else _lines(source)
    with disk.named_errors(f"reading {name}"):
        form, lines = (format, lines) if format != "auto" else _detect(path, lines, name)
    return Reading(_raws(form, path, lines, name), name, form, skip_bad=skip_bad)


def _raws(form: str, path: Path | None, lines: Iterator[bytes], name: str) -> Iterator[Raw]:
    wants_folder = form == "basic-memory"
    if (path is not None and path.is_dir()) != wants_folder or (path is None and form == "hatidata"):
        raise InvalidInput(f"{form} is a {'folder of notes' if wants_folder else 'file'}; {name} is none.")
    if path is not None and form in ("basic-memory", "hatidata"):
        return foreign.basic_memory(path) if wants_folder else foreign.hatidata(path)
    reader = {"jsonl": foreign.lines_of, "server-memory": foreign.server_memory, "mem0": foreign.mem0}[form]
    return _naming(reader(lines), name)


def _naming(raws: Iterator[Raw], name: str) -> Iterator[Raw]:
    """What is wrong with a whole file is said with its name."""
    try:
        yield from raws
    except InvalidInput as error:
        raise InvalidInput(f"{name}: {error.message}", hint=error.hint) from None


def _lines(source: AnyPath | IO[Any]) -> Iterator[bytes]:
    """Lines as bytes, so that a line that is not UTF-8 can be named."""
    if isinstance(source, str | os.PathLike):
        with open(source, "rb") as opened:
            yield from opened
    else:
        yield from (line.encode("utf-8", "surrogatepass") if isinstance(line, str) else line for line in source)


# -- which format -----------------------------------------------------------------------------


def _detect(path: Path | None, lines: Iterator[bytes], name: str) -> tuple[str, Iterator[bytes]]:
    """The format by what is in it, and the lines again from the first."""
    if path is not None and path.is_dir():
        if next(foreign.markdown(path), None) is None:
            raise InvalidInput(f"{name} is a folder without Markdown notes. Nothing was read.")
        return "basic-memory", lines
    if path is not None and _is_duckdb(path):
        return "hatidata", lines
    seen = list[bytes]()
    for line in lines:
        seen.append(line)
        if line.removeprefix(codecs.BOM_UTF8).strip():
            break
    again = chain(seen, lines)
    head = seen[-1].removeprefix(codecs.BOM_UTF8).strip() if seen else b""
    return _by_first_line(head, name), again


def _is_duckdb(path: Path) -> bool:
    with open(path, "rb") as opened:
        return opened.read(12)[8:] == b"DUCK"


def _by_first_line(head: bytes, name: str) -> str:
    if head.startswith(b"["):
        return "mem0"
    try:
        first = json.loads(head.decode("utf-8", "replace") or "{}")
    except (ValueError, RecursionError):
        if _DOCUMENT.fullmatch(head):
            return "mem0"
        first = {} if head.startswith(b"{") else None
    if not isinstance(first, dict):
        raise InvalidInput(
            f"{name} is in no format memlake knows: it starts with {head[:20].decode('utf-8', 'replace')!r}. "
            "Nothing was read.",
            hint=f"Name its format: one of {', '.join(FORMATS)}.",
        )
    if first.get("type") in ("entity", "relation") and not first.keys() & {"content", "text", "memory"}:
        return "server-memory"
    if isinstance(first.get("memory"), str) and first.keys() & {"hash", "user_id", "categories"}:
        return "mem0"  # one of its memories a line
    return "mem0" if any(isinstance(first.get(key), list) for key in ("results", "memories")) else "jsonl"


# -- bringing in ------------------------------------------------------------------------------


def load(memories: Memories, given: Iterable[Item]) -> Report:
    """Store items in batches, a commit each, with the ids and times they have.

    A text that differs from ours replaces it where it follows from ours; else both are kept, and it is in doubt.
    """
    counts = Counter[str]()
    users = set[str]()
    warnings = _Warnings(memories.ground.settings.memory_secrets)
    source = iter(given)
    while True:
        told: dict[str, list[str]] = {}
        batch = list(islice(_allowed(source, warnings.how, told), BATCH))
        if not batch:
            break
        for part in _of_one_id_each(batch):
            planned = _stored(memories, part)
            warnings.add((item.memory for item in planned.all), told)
            counts.update(stored=len(planned.new), updated=len(planned.newer), in_doubt=len(planned.differing))
            counts.update(known=len(part) - len(planned.all))
        users |= {str(user) for item in batch if (user := item.memory.metadata.get("user_id"))}
    skipped, problems = (source.skipped, source.problems) if isinstance(source, Reading) else (0, [])
    return Report(
        counts["stored"], counts["known"], skipped, tuple(problems), warnings.all(), counts["updated"],
        counts["in_doubt"], tuple(sorted(users)),
    )  # fmt: skip


def _of_one_id_each(batch: Sequence[Item]) -> Iterator[list[Item]]:
    """A batch in parts in which no id comes twice: what an id says again is held against what it said first."""
    parts: list[dict[str, Item]] = []
    for item in batch:
        at = next((part for part in parts if item.memory.memory_id not in part), None)
        if at is None:
            parts.append(at := {})
        at[item.memory.memory_id] = item
    return (list(part.values()) for part in parts)


class _Warnings:
    """What is to be told of secrets, with the first few in full."""

    def __init__(self, how: str) -> None:
        self.how, self.told, self.more = how, list[str](), 0

    def add(self, new: Iterable[Memory], found: Mapping[str, Iterable[str]]) -> None:
        """What was found in memories, told of those that are new: nothing was done with the others."""
        for memory in new:
            for warning in dict.fromkeys(found.get(memory.memory_id, ())):
                if len(self.told) < NAMED:
                    self.told.append(f"memory {memory.memory_id}: {warning}")
                else:
                    self.more += 1

    def all(self) -> tuple[str, ...]:
        return (*self.told, *([f"{self.more} more memories look like they hold secrets."] if self.more else []))


def _allowed(source: Iterator[Item], how: str, told: dict[str, list[str]]) -> Iterator[Item]:
    """Items as they may be stored; what was found in each is put into `told`."""
    for item in source:
        try:
            found = list[str]()
            clean = _guarded(item, how, found)
        except Denied as error:
            problem = f"memory {item.memory.memory_id}: {error.message.removesuffix(' Nothing was stored.')}"
            if not isinstance(source, Reading):
                raise Denied(problem, hint=error.hint) from None
            source.skip(problem, Denied)
            continue
        if found:
            told[item.memory.memory_id] = found
        yield clean


def _guarded(item: Item, how: str, told: list[str]) -> Item:
    def clean(memory: Memory) -> Memory:
        made, warnings = secrets.guard_memory(memory, how)
        told.extend(warnings)
        return made

    return item._replace(
        memory=clean(item.memory), past=tuple(Earlier(clean(one.memory), one.until) for one in item.past)
    )


def _stored(memories: Memories, batch: Sequence[Item]) -> Planned:
    """One commit. What a memory said before is written ahead of it, under a lease, so that gc leaves it alone."""
    if not any(item.past for item in batch):
        return memories.import_many(batch)
    lease = Lease(memories.ground.here.history.db, "import")
    try:
        return memories.import_many(batch)
    finally:
        lease.close()


# -- taking out -------------------------------------------------------------------------------


def kept(memories: Memories, projects: Sequence[str] | None = None) -> Iterator[Item]:
    """Every memory of the branch that is seen, with what it said before, in the order of the tree; of some projects
    only, where they are named. What was purged is left out.
    """
    history = memories.ground.here.history
    for _, entry in history.scan(memories.ground.head(), ROOM):
        with contextlib.suppress(Purged):
            memory = record.decode(history.objects.read(entry.oid))
            if not memories.ground.sees(memory.org_id) or (projects is not None and memory.project not in projects):
                continue
            yield Item(memory._replace(history=()), tuple(_past(memories, memory)))


def _past(memories: Memories, memory: Memory) -> Iterator[Earlier]:
    for past in memory.history:
        with contextlib.suppress(Purged):
            found = record.decode(memories.ground.here.history.objects.read(past.oid))
            yield Earlier(found._replace(history=()), past.until)


def write(given: Iterable[Item], stream: IO[Any], *, format: str = "jsonl") -> int:  # noqa: A002
    """Write items to a text or binary stream, one line each; returns how many."""
    if format != "jsonl":
        raise InvalidInput(f"memories are written as jsonl, not as {format!r}. Nothing was written.")
    is_text, count = isinstance(stream, io.TextIOBase), 0
    for item in given:
        line = json.dumps(items.told(item), ensure_ascii=False)
        try:
            data = f"{line}\n".encode()
        except UnicodeEncodeError:  # half of a character that JSON can only say in ASCII
            data = f"{json.dumps(items.told(item))}\n".encode()
        stream.write(data.decode() if is_text else data)
        count += 1
    return count
