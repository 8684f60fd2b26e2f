"""What commits say beside their content, for many commits at once: metrics and params with flat names. Reads only."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

from memlake.errors import Corrupt, Purged
from memlake.named_tuple import NamedTuple
from memlake.objects.db import Row
from memlake.records import Author, Commit
from memlake.versions import tables
from memlake.versions.conditions import ROOMS, Facts
from memlake.versions.history.commits import History
from memlake.versions.trees import codec

_MARKS = tuple(room.encode() for room in ROOMS)
_BLOCK = 4096  # commits whose facts are read together
_JSON = json.JSONDecoder()
_DEEP = 50  # tables inside tables, as a person nests them


class Said(NamedTuple):
    """A commit without its content, for passes over many: what people see of it, and its facts."""

    oid: str
    author: Author
    time: int
    subject: str
    generation: int
    facts: Facts


class Recorded(NamedTuple):
    """A commit by its number and that of its first parent, with what it says; None if it records nothing."""

    seq: int
    first: int | None
    said: Said | None


def read_facts(history: History, commit: Commit) -> Facts:
    """What one commit records."""
    oids = {room: commit.meta[room] for room in ROOMS if room in commit.meta}
    values = _read_values(history, oids.values()) if oids else {}
    return {room: values[oid] for room, oid in oids.items() if oid in values}


def scan_facts(history: History, tips: Iterable[int], hidden: Iterable[int] = ()) -> Iterator[Recorded]:
    """Every commit behind the tips and not behind the hidden ones, newest first."""
    out = {seq for seq, *_ in tables.scan_behind(history.db, hidden)}
    yield from _read_blocks(history, (row for row in tables.scan_behind(history.db, tips) if row[0] not in out))


def find_last_recorded(history: History, start: Commit) -> Said | None:
    """The newest commit on the line of first parents that records a metric; the start itself may be it."""
    rows = tables.scan_first_parents(history.db, start.seq)
    recorded = (one.said for row in rows if _may_record(row) for one in _read_blocks(history, iter([row])))
    return next((said for said in recorded if said is not None and said.facts.get("metrics")), None)


# -- of one path --------------------------------------------------------------------------------


class Measured(NamedTuple):
    """The value of a fact that counts for a path, and the commit that records it."""

    value: Any
    commit: Commit


def scan_path(history: History, head: Commit, path: str) -> Iterator[Commit]:
    """Commits that have a path as the head has it, newest first; the last one is the one that changed it.

    Where a merge took the path from its second parent, the line goes on there.
    """
    wanted = history.entries(head, [path]).get(path)
    commit: Commit | None = head if wanted is not None else None
    while commit is not None:
        yield commit
        parents = [history.get(oid) for oid in commit.parents]
        if parents and all(change.path != path for change in history.changes(commit)):
            commit = parents[0]
        else:
            same = (parent for parent in parents[1:] if history.entries(parent, [path]).get(path) == wanted)
            commit = next(same, None)


def read_path_facts(history: History, head: Commit, path: str) -> dict[str, dict[str, Measured]]:
    """The facts that count for a path as the head has it, by room and name.

    Those of the commit that last changed it. What a later commit without changes records was measured again. If the
    commit of the path records nothing of a room, what any later one does counts: the path was measured with it. What
    was recorded before the path changed says nothing about it.
    """
    of_last: dict[tuple[str, str], Measured] = {}
    again: dict[tuple[str, str], Measured] = {}
    later: dict[tuple[str, str], Measured] = {}
    for commit in scan_path(history, head, path):
        facts = read_facts(history, commit)
        of_last = {(room, name): Measured(value, commit) for room in facts for name, value in facts[room].items()}
        later = of_last | later
        if of_last and not history.changes(commit):
            again = of_last | again
    found: dict[str, dict[str, Measured]] = {room: {} for room in ROOMS}
    told = {room for room, _ in of_last}
    later = {key: measured for key, measured in later.items() if key[0] not in told}
    for (room, name), measured in (later | of_last | again).items():
        found[room][name] = measured
    return found


# -- reading ------------------------------------------------------------------------------------


def _may_record(row: Row) -> bool:
    data = row[3]
    return _MARKS[0] in data or _MARKS[1] in data  # cheaper than decoding, and most commits record nothing


def _read_blocks(history: History, rows: Iterator[Row]) -> Iterator[Recorded]:
    authors: dict[tuple[Any, ...], Author] = {}  # few people write many commits
    while block := list(islice(rows, _BLOCK)):
        fields = {row[0]: found for row in block if _may_record(row) and (found := _unpack(row))}
        values = _read_values(history, (oid for _, oids in fields.values() for oid in oids.values()))
        for seq, oid, first, _ in block:
            if seq not in fields:
                yield Recorded(seq, first, None)
                continue
            (author, time, message, generation), oids = fields[seq]
            facts = {room: values[one] for room, one in oids.items() if one in values}
            who = authors.get(name := tuple(author)) or authors.setdefault(name, Author(*author))
            yield Recorded(seq, first, Said(oid.hex(), who, time, message.partition("\n")[0], generation, facts))


def _unpack(row: Row) -> tuple[tuple[Any, ...], dict[str, str]] | None:
    """What a commit says of itself and the oids of its facts; None if it has none. Its changes are not decoded."""
    seq, oid, _, data = row
    if hashlib.sha256(data).digest() != oid:
        raise Corrupt(f"commit {oid.hex()} is damaged: its bytes do not match its hash.", hint="Run memlake fsck.")
    try:
        _, _, _, _, _, author, time, message, _, meta, generation = codec.unpack(data)
        oids = {room: meta[room].hex() for room in ROOMS if room in meta}
    except (ValueError, TypeError, AttributeError) as error:
        raise Corrupt(f"commit {seq} (in order) cannot be read.", hint="Run memlake fsck.") from error
    return ((author, time, message, generation), oids) if oids else None


def _read_values(history: History, oids: Iterable[str]) -> dict[str, Mapping[str, Any]]:
    """The values of facts by their oids; what was purged is left out."""
    wanted = set(oids)
    if not wanted:
        return {}
    try:
        return _decode_all(dict(history.objects.read_many(wanted)))
    except Purged:
        kept = wanted - history.objects.find_purged(wanted)
        return _decode_all(dict(history.objects.read_many(kept)))


def _decode_all(texts: Mapping[str, bytes]) -> dict[str, Mapping[str, Any]]:
    """Facts by their oids, parsed as one text, which is thrice as quick.

    Between two stands a number that nobody knows before, so no text can pass for two, nor two for one.
    """
    mark = int.from_bytes(os.urandom(7), "big")
    try:
        values = json.loads(b"[" + (b",%d," % mark).join(texts.values()) + b"]")
    except (ValueError, RecursionError):
        values = []
    if len(values) != 2 * len(texts) - 1 or values[1::2] != [mark] * (len(texts) - 1):
        return {oid: _decode_values(oid, data) for oid, data in texts.items()}  # which says what is wrong with one
    return {
        oid: flatten_values(value) if isinstance(value, dict) else {}
        for oid, value in zip(texts, values[::2], strict=True)
    }


def _decode_values(oid: str, data: bytes) -> Mapping[str, Any]:
    try:
        text = data.decode()
        values, end = _JSON.raw_decode(text)  # what we wrote begins with its first character; `loads` looks for more
    except (ValueError, RecursionError) as error:
        raise Corrupt(f"the facts in object {oid} are not JSON.", hint="Run memlake fsck.") from error
    return flatten_values(values) if isinstance(values, dict) and end == len(text) else {}


def flatten_values(values: Mapping[str, Any]) -> Mapping[str, Any]:
    """`{"test": {"f1": 0.9}}` as `{"test.f1": 0.9}`."""
    is_flat = dict not in map(type, values.values())
    return values if is_flat else dict(_flatten(values, "", 0))


def _flatten(table: Mapping[str, Any], prefix: str, depth: int) -> Iterator[tuple[str, Any]]:
    for name, value in table.items():
        if isinstance(value, dict) and depth < _DEEP:
            yield from _flatten(value, f"{prefix}{name}.", depth + 1)
        else:
            yield prefix + name, value
