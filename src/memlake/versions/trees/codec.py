"""The canonical bytes of entries, changes and commits. Pure: no store.

entry  = oid (32) + kind (1) + mode (1) + size, little-endian without trailing zero bytes
commit = msgpack [1, lane, root, [parent, ...], other | nil, [name, email], time, message,
                  [[path, old | nil, new | nil], ...] | nil, {name: oid, ...} sorted, generation]
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import msgpack

from memlake.errors import Corrupt
from memlake.records import Author, Change, Commit, Entry, Lane
from memlake.versions.kinds import CODES, NAMES

LANES: tuple[Lane, ...] = ("work", "memory")
CHANGES_INLINE = 64 << 10
_EARLIEST, _LATEST = -62_000_000_000_000_000, 253_000_000_000_000_000  # in any time zone, years that a calendar has


def encode_entry(entry: Entry) -> bytes:
    size = entry.size.to_bytes((entry.size.bit_length() + 7) // 8, "little")
    return bytes.fromhex(entry.oid) + bytes((CODES[entry.kind], entry.mode)) + size


def decode_entry(data: bytes) -> Entry:
    try:
        return Entry(data[:32].hex(), NAMES[data[32]], int.from_bytes(data[34:], "little"), data[33])
    except (LookupError, TypeError, AttributeError) as error:
        raise Corrupt("stored bytes are not an entry of a tree.", hint="Run memlake fsck.") from error


def maybe_entry(data: bytes | None) -> Entry | None:
    return None if data is None else decode_entry(data)


def maybe_bytes(entry: Entry | None) -> bytes | None:
    return None if entry is None else encode_entry(entry)


def as_hex(entry: Entry | None) -> str | None:
    """An entry as hex, for the JSON that local.db keeps."""
    return None if entry is None else encode_entry(entry).hex()


def from_hex(text: str | None) -> Entry | None:
    return None if text is None else decode_entry(bytes.fromhex(text))


def encode_changes(changes: Sequence[Change]) -> list[list[Any]]:
    return [[c.path, maybe_bytes(c.old), maybe_bytes(c.new)] for c in changes]


def decode_changes(rows: Sequence[Sequence[Any]]) -> tuple[Change, ...]:
    try:
        return tuple(Change(path, maybe_entry(old), maybe_entry(new)) for path, old, new in rows)
    except (ValueError, TypeError) as error:
        raise Corrupt("a list of changes cannot be read.", hint="Run memlake fsck.") from error


def encode_commit(commit: Commit) -> bytes:
    """Canonical bytes, without `oid` and `seq`. If `changes` is None, meta names the object that has them."""
    return msgpack.packb(  # type: ignore[no-any-return]
        [
            1,
            LANES.index(commit.lane),
            bytes.fromhex(commit.root),
            [bytes.fromhex(parent) for parent in commit.parents],
            commit.other and bytes.fromhex(commit.other),
            [commit.author.name, commit.author.email],
            commit.time,
            commit.message,
            None if commit.changes is None else encode_changes(commit.changes),
            {name: bytes.fromhex(commit.meta[name]) for name in sorted(commit.meta)},
            commit.generation,
        ]
    )


def decode_commit(data: bytes, seq: int = 0) -> Commit:
    try:
        _, lane, root, parents, other, author, time, message, changes, meta, generation = msgpack.unpackb(data)
        return Commit(
            oid=hashlib.sha256(data).hexdigest(),
            lane=LANES[lane],
            root=root.hex(),
            parents=tuple(parent.hex() for parent in parents),
            other=other and other.hex(),
            author=Author(*author),
            time=time,
            message=message,
            changes=None if changes is None else decode_changes(changes),
            meta={name: oid.hex() for name, oid in meta.items()},
            generation=generation,
            seq=seq,
        )
    except (ValueError, TypeError, IndexError, AttributeError, msgpack.UnpackException) as error:
        raise Corrupt(f"commit {seq} (in order) cannot be read.", hint="Run memlake fsck.") from error


def is_sound(commit: Commit) -> bool:
    """Whether every value of a decoded commit is one that memlake writes: a stranger may have made it."""
    oids = (commit.root, *commit.parents, *(() if commit.other is None else (commit.other,)), *commit.meta.values())
    changes = commit.changes or ()
    paths = (change.path for change in changes)
    sizes = (entry.size for change in changes for entry in (change.old, change.new) if entry is not None)
    return (
        all(type(oid) is str and len(oid) == 64 for oid in oids)
        and all(type(text) is str for text in (*commit.author, commit.message, *commit.meta, *paths))
        and type(commit.time) is type(commit.generation) is int
        and is_time(commit.time)
        and all(size < 1 << 63 for size in sizes)
        and (commit.changes is not None or "changes" in commit.meta)
    )


def is_time(time: int) -> bool:
    return _EARLIEST <= time <= _LATEST


def unpack(data: bytes) -> Any:
    """The plain fields of canonical bytes, for passes over many commits where records would cost too much."""
    try:
        return msgpack.unpackb(data)
    except (ValueError, TypeError, msgpack.UnpackException) as error:
        raise Corrupt("stored bytes cannot be read.", hint="Run memlake fsck.") from error
