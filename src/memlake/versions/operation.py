"""A verb under way in this checkout: what it found, which refs it moved, its lease. Handed from function to function.

A Repo is shared by threads, so nothing of a verb is kept where another one's functions would find it. Touches no file.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Sequence
from typing import Any

import msgpack
import zstandard

from memlake.named_tuple import NamedTuple
from memlake.objects.leases import Keeping
from memlake.objects.packs import RATIO
from memlake.records import Conflict, Entry
from memlake.versions.checkout.local import Tracked
from memlake.versions.history.refs import Moves
from memlake.versions.trees.codec import as_hex, from_hex

_HEX = re.compile(r"(?:[0-9a-f]{2}){32,}")
_SMALL = 1 << 20  # bytes that any operation may unpack to


class Before:
    """The state a verb found, and what it does that HEAD and the stage do not show.

    Not a dataclass, and nor is Verb: loading `dataclasses` takes longer than all that `status` does in a small repo.
    """

    def __init__(self, head: str, base: str | None, *, staged: list[Tracked], doing: str | None) -> None:
        self.head, self.base, self.staged, self.doing = head, base, staged, doing
        self.conflicts: tuple[Conflict, ...] = ()
        self.touches_files = False
        self.saved: dict[str, Entry | None] = {}
        self.left: dict[str, Entry | None] = {}  # uncommitted content the verb put into files
        self.refs: Moves = []
        self.notes: dict[str, str] = {}  # of tags, where the verb may have removed one
        self.commit: str | None = None  # the stage was exactly this commit's changes: not written down twice
        # Of a verb that only wrote memories: (branch, commit) of each write.
        self.memory: list[tuple[str, str]] | None = None
        self.bisect: str | None = None  # of a verb of a bisect: what stood there, as JSON


class Found(NamedTuple):
    """What a verb that stages first found before it did: the stage, and the conflicts that staging resolves."""

    staged: list[Tracked]
    conflicts: tuple[Conflict, ...]


class Kept(NamedTuple):
    """A verb as undo finds it: its name, what it was about, the state before it."""

    verb: str
    detail: str
    before: Before


class Verb:
    """One verb from its first change to its last; `id` is that of its operation, once it is written down.

    `kept` is what was written down of it: what has not changed since is not written again.
    """

    def __init__(self, name: str, detail: str, *, before: Before, lease: Keeping) -> None:
        self.name, self.detail, self.before, self.lease = name, detail, before, lease
        self.id: int | None = None
        self.changed = True  # False: it has done nothing that undo could take back, so it is no operation
        self.kept: tuple[str, str, bytes] | None = None

    @property
    def moved(self) -> Moves:
        """Where refs note what they move for this verb."""
        return self.before.refs


# -- as JSON ------------------------------------------------------------------------------------


def as_json(before: Before) -> dict[str, Any]:
    staged = [] if before.commit else [[r.path, as_hex(r.entry), as_hex(r.old), r.about] for r in before.staged]
    return {
        "head": before.head,
        "base": before.base,
        "staged": staged,
        "doing": before.doing,
        "conflicts": conflicts_as_json(before.conflicts),
        "files": before.touches_files,
        "saved": {path: as_hex(entry) for path, entry in before.saved.items()},
        "left": {path: as_hex(entry) for path, entry in before.left.items()},
        "refs": before.refs,
        "notes": before.notes,
        "commit": before.commit,
        "memory": before.memory,
        "bisect": before.bisect,
    }


def from_json(data: dict[str, Any]) -> Before:
    staged = [
        Tracked(path, from_hex(entry), None, True, True, from_hex(old), about)
        for path, entry, old, about in data["staged"]
    ]
    before = Before(data["head"], data["base"], staged=staged, doing=data["doing"])
    before.conflicts = conflicts_from_json(data.get("conflicts", ()))
    before.touches_files = data["files"]
    before.saved, before.left = (
        {path: from_hex(text) for path, text in data.get(key, {}).items()} for key in ("saved", "left")
    )
    before.refs = [tuple(move) for move in data["refs"]]
    before.notes = data.get("notes", {})
    before.commit = data["commit"]
    if (memory := data.get("memory")) is not None:
        before.memory = [(branch, oid) for branch, oid in memory]
    before.bisect = data.get("bisect")
    return before


def pack_state(state: dict[str, Any]) -> bytes:
    """A state as local.db keeps it: msgpack of its values in order, hashes and entries as bytes, those at the end left
    out when they are empty; then its CRC-32, or, where that is shorter, all in a zstd frame with its own checksum."""
    values = [_as_bytes(state.get(key)) or None for key in _KEYS]
    while values[-1] is None:
        values.pop()
    data: bytes = msgpack.packb(values)
    packed = zstandard.ZstdCompressor(write_checksum=True).compress(data)
    return min(data + zlib.crc32(data).to_bytes(4, "little"), packed, key=len)


def unpack_state(data: bytes) -> Before:
    """What `pack_state` packed; ValueError and its like where it is none."""
    if data.startswith(zstandard.FRAME_HEADER):
        if zstandard.frame_content_size(data) > max(_SMALL, len(data) * RATIO):
            raise ValueError("it would unpack to far more than memlake keeps")
        values = msgpack.unpackb(zstandard.decompress(data))
    elif zlib.crc32(data[:-4]).to_bytes(4, "little") == data[-4:]:
        values = msgpack.unpackb(data[:-4])
    else:
        raise ValueError("its checksum does not fit")
    stored = {key: _as_text(value) for key, value in zip(_KEYS, values, strict=False) if value is not None}
    return from_json(_NOTHING | stored)


def _as_bytes(value: Any) -> Any:
    if isinstance(value, str):
        return bytes.fromhex(value) if _HEX.fullmatch(value) else value
    if isinstance(value, dict):
        return {key: _as_bytes(inner) for key, inner in value.items()}
    return [_as_bytes(inner) for inner in value] if isinstance(value, (list, tuple)) else value


def _as_text(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, dict):
        return {key: _as_text(inner) for key, inner in value.items()}
    return [_as_text(inner) for inner in value] if isinstance(value, list) else value


def conflicts_as_json(conflicts: Iterable[Conflict]) -> list[list[Any]]:
    """Each as a row; what was chosen for single places stands in those alone that have such."""
    return [
        [
            *(c.path, *map(as_hex, (c.base, c.ours, c.theirs)), c.choice, as_hex(c.chosen), as_hex(c.written)),
            *([[list(pair) for pair in c.places.items()]] if c.places else []),
        ]
        for c in conflicts
    ]


def conflicts_from_json(rows: Iterable[Sequence[Any]]) -> tuple[Conflict, ...]:
    return tuple(_read_conflict(*row) for row in rows)


def _read_conflict(path: str, *values: Any) -> Conflict:
    base, ours, theirs, choice, chosen, written, *places = values
    sides = from_hex(base), from_hex(ours), from_hex(theirs)
    return Conflict(path, *sides, choice, from_hex(chosen), from_hex(written), dict(*places))


_NOTHING = as_json(Before("", None, staged=[], doing=None))
_KEYS = tuple(_NOTHING)
