"""Memories brought in and taken out as items: our own export, and storing what somebody read. Knows no other format.

`load_items(memories, items)` brings them in; `write_items(list_items(memories), stream)` takes them out. Both hold a
few at a time. Bringing the same in twice stores nothing new.
"""

from __future__ import annotations

import contextlib
import io
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import IO, Any

from memlake.errors import Denied, Error, InvalidInput, Purged
from memlake.memories import record, redact, search, store, timeline
from memlake.memories.anchors.anchor import encode_anchors
from memlake.memories.context import MemoryContext
from memlake.memories.forgotten import Beside, Forgotten, KeptOut
from memlake.memories.import_records import Earlier, Item, Planned
from memlake.memories.index_sync import ROOM
from memlake.memories.memories import Memories
from memlake.memories.record import Memory, State
from memlake.named_tuple import NamedTuple
from memlake.objects.leases import Lease

BATCH = 256  # memories a commit
NAMED = 20  # problems and warnings that are told in full; of the rest their number


class Report(NamedTuple):
    """What an import did."""

    stored: int = 0
    known: int = 0
    skipped: int = 0
    problems: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    updated: int = 0  # with a newer text
    conflicts: int = 0  # kept beside ours, whose text is another
    users: tuple[str, ...] = ()  # whose memories they are
    forgotten: int = 0  # of ours, because they were forgotten there
    kept_out: int = 0  # because they were forgotten here
    states: int = 0  # values of agents' state that are another one now


class Source(Iterator[Item]):
    """Items that somebody reads one by one. A bad one stops it, or is counted in `skipped`.

    What comes beside them (forgotten memories, state) is in `forgotten` and `states` when all were read.
    """

    def __init__(self, name: str, *, skip_bad: bool) -> None:
        self.name, self.skip_bad = name, skip_bad
        self.skipped, self.problems = 0, list[str]()
        self.forgotten, self.states = list[Forgotten](), list[State]()

    def skip(self, problem: str, error: type[InvalidInput | Denied]) -> None:
        """Count a problem, or raise it if nothing may be skipped."""
        if not self.skip_bad:
            raise error(
                problem,
                hint="Mend it and import again (what is there is not stored twice), or skip what is bad: --skip-bad "
                "(in Python skip_bad=True).",
            )
        self.skipped += 1
        if len(self.problems) < NAMED:
            self.problems.append(problem)


def load_items(memories: Memories, items: Iterable[Item], *, dry_run: bool = False) -> Report:
    """Store items in batches, a commit each, with the ids and times they have; `dry_run` only counts them.

    A text that differs from ours replaces it where it follows from ours; else both are kept, and contradict each other.
    """
    counts, users = Counter[str](), set[str]()
    warnings = _Warnings()
    source, kept_out = iter(items), KeptOut(memories.context)
    while True:
        secrets: dict[str, list[str]] = {}
        try:
            batch = list(islice(_guard_items(source, memories.context.settings.memory_secrets, secrets), BATCH))
        except (InvalidInput, Denied) as error:
            raise _say_stored(error, counts, dry_run=dry_run) from None
        if not batch:
            break
        for part in _split_by_id(kept_out.filter(batch)):
            planned = memories.plan_import(part) if dry_run else _store_part(memories, part)
            warnings.add((item.memory for item in planned.all), secrets)
            counts.update(stored=len(planned.new), updated=len(planned.newer), conflicts=len(planned.differing))
            counts.update(known=len(part) - len(planned.all))
        users |= {user for item in batch if (user := item.memory.user_id)}
    skipped, problems = (source.skipped, source.problems) if isinstance(source, Source) else (0, [])
    beside = Beside(tuple(source.forgotten), tuple(source.states)) if isinstance(source, Source) else Beside()
    done = memories.import_beside(beside, dry_run=dry_run)
    return Report(
        counts["stored"], counts["known"], skipped, tuple(problems), warnings.list_all(), counts["updated"],
        counts["conflicts"], tuple(sorted(users)), done.forgotten, kept_out.count, done.states,
    )  # fmt: skip


def _say_stored(error: InvalidInput | Denied, counts: Counter[str], *, dry_run: bool) -> Error:
    """The same error with what an import had done when it came to it."""
    if dry_run or error.message.endswith(("Nothing was read.", "Nothing was stored.")):
        return error
    done = counts.total() - counts["known"]
    said = f"The {done:,} memories before it were stored." if done else "Nothing was stored."
    return type(error)(f"{error.message} {said}", hint=error.hint)


def _split_by_id(batch: Sequence[Item]) -> Iterator[list[Item]]:
    """Split a batch into parts in which no id comes twice: a second text is held against the first one."""
    parts: list[dict[str, Item]] = []
    for item in batch:
        at = next((part for part in parts if item.memory.memory_id not in part), None)
        if at is None:
            parts.append(at := {})
        at[item.memory.memory_id] = item
    return (list(part.values()) for part in parts)


class _Warnings:
    """Warnings about secrets, the first few in full."""

    def __init__(self) -> None:
        self.texts, self.more = list[str](), 0

    def add(self, new: Iterable[Memory], secrets: Mapping[str, Iterable[str]]) -> None:
        """Note what was found in memories that are new; nothing was done with the others."""
        for memory in new:
            for warning in dict.fromkeys(secrets.get(memory.memory_id, ())):
                if len(self.texts) < NAMED:
                    self.texts.append(f"memory {memory.memory_id}: {warning}")
                else:
                    self.more += 1

    def list_all(self) -> tuple[str, ...]:
        return (*self.texts, *([f"{self.more} more memories look like they hold secrets."] if self.more else []))


def _guard_items(source: Iterator[Item], how: str, secrets: dict[str, list[str]]) -> Iterator[Item]:
    """Yield items as they may be stored, and put the warnings about each into `secrets`."""
    for item in source:
        memory_id, warnings, guarded = item.memory.memory_id, list[str](), list[Memory]()
        try:
            for memory in (item.memory, *(earlier.memory for earlier in item.past)):
                clean, more = redact.guard_memory(memory, how)
                guarded.append(clean)
                warnings += more
        except Denied as error:
            problem = f"memory {memory_id}: {error.message.removesuffix(' Nothing was stored.')}"
            if not isinstance(source, Source):
                raise Denied(problem, hint=error.hint) from None
            source.skip(problem, Denied)
            continue
        if warnings:
            secrets[memory_id] = warnings
        past = (Earlier(clean, old.until) for clean, old in zip(guarded[1:], item.past, strict=True))
        yield item._replace(memory=guarded[0], past=tuple(past))


def _store_part(memories: Memories, part: Sequence[Item]) -> Planned:
    """Write one commit. Earlier texts are written ahead of it, under a lease, so that gc leaves them alone."""
    with contextlib.ExitStack() as stack:
        if any(item.past for item in part):
            stack.callback(Lease(memories.context.here.history.db, "import").close)
        return memories.import_many(part)


def list_items(memories: Memories, projects: Sequence[str] | None = None) -> Iterator[Item]:
    """Yield every memory of the branch that is seen here, with its earlier texts, in the order of the tree.

    `projects` narrows it to some projects. What was purged is left out.
    """
    history = memories.context.here.history
    store.update_index(memories.context)  # it knows who wrote what
    for _, entry in history.scan(memories.context.head(), ROOM):
        with contextlib.suppress(Purged):
            memory = record.decode(history.objects.read(entry.oid))
            if not memories.context.shows(memory, projects):
                continue
            earlier = []
            for past in memory.history:
                with contextlib.suppress(Purged):
                    old = record.decode(history.objects.read(past.oid))
                    earlier.append(Earlier(_name_author(memories.context, old, past.oid), past.until))
            yield Item(_name_author(memories.context, memory, entry.oid), tuple(earlier))


def _name_author(context: MemoryContext, memory: Memory, oid: str) -> Memory:
    """A value as it travels: without the links of its history, and with who wrote it, if that is not its agent."""
    author = timeline.find_author(context, memory, oid)
    return memory._replace(history=(), author=author if author != memory.agent_id else "")


def write_items(items: Iterable[Item], stream: IO[Any], *, format: str = "jsonl") -> int:  # noqa: A002
    """Write items to a text or binary stream, one line each; return how many."""
    if format != "jsonl":
        raise InvalidInput(f"memories are written as jsonl, not as {format!r}. Nothing was written.")
    is_text, count = isinstance(stream, io.TextIOBase), 0
    for item in items:
        fields = _plain_fields(item.memory)
        if item.past:
            fields["history"] = [{**_plain_fields(old.memory), "until": search.iso(old.until)} for old in item.past]
        try:
            data = f"{json.dumps(fields, ensure_ascii=False)}\n".encode()
        except UnicodeEncodeError:  # half of a character that JSON can only say in ASCII
            data = f"{json.dumps(fields)}\n".encode()
        stream.write(data.decode() if is_text else data)
        count += 1
    return count


def write_beside(beside: Beside, stream: IO[bytes]) -> None:
    """Write what was forgotten, and state, as lines beside the memories."""
    for gone in beside.forgotten:
        name = {"state": gone.key, "forgotten": True} if gone.key else {"forgotten": gone.memory_id}
        about = {"agent_id": gone.agent_id, "org_id": gone.org_id, "updated_at": search.iso(gone.updated_at)}
        stream.write(f"{json.dumps({**name, **about})}\n".encode())
    for one in beside.states:
        about = {"agent_id": one.agent_id, "org_id": one.org_id, "updated_at": search.iso(one.updated_at)}
        stream.write(f"{json.dumps({'state': one.key, 'value': one.value, **about})}\n".encode())


def _plain_fields(memory: Memory) -> dict[str, Any]:
    fields = {
        **search.fields(memory),
        "related": list(memory.related),
        "review": memory.review,
        "author": memory.author,
    }
    for name in ("created_at", "updated_at", "expires_at"):
        if fields[name]:
            fields[name] = search.iso(getattr(memory, name))
    fields["uses"] = encode_anchors(memory.uses)
    kept = {name: value for name, value in fields.items() if value not in ("", None, [], {}) and name != "own"}
    return {**kept, "project": memory.project} | ({"package": memory.package} if memory.package else {})
