"""Batches: what one push adds to a remote, as bytes that travel. Pure: no store.

file  = MLBATCH1 | zstd frame of msgpack [1, repo id, token, lane, commits, objects, lists, packs, parts, moves, purges,
                                          signatures]
name  = SHA-256 of the file, in hex

Tree nodes do not travel, because a commit carries its changes and its root, and replaying them proves the tree. Small
objects lie in the batch itself, without their oids, which are the hashes of what is there. Of a pack there is its
footer, which says what it holds and is proven by its name. Signatures are empty until commits are
signed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import msgpack
import zstandard

from memlake.errors import Corrupt
from memlake.named_tuple import NamedTuple
from memlake.objects.packs import Footer, decode_footer
from memlake.versions.trees.codec import LANES

MAGIC = b"MLBATCH1"
LARGEST = 192 << 20  # bytes that one batch unpacks to
_ROOT_END = 37  # of a commit: the array of 11, the format, the lane and the root; then its parents
_ONE_PARENT = b"\x91\xc4\x20"
_FORMAT = 1


class Small(NamedTuple):
    """An object whose content travels in the batch."""

    content: bytes
    role: int
    links: bytes | None


class ChunkList(NamedTuple):
    """An object in chunks. The chunks lie in packs."""

    oid: bytes
    size: int
    role: int
    links: bytes | None
    data: bytes


class Pack(NamedTuple):
    """A pack that lies beside the batch, with its footer as it is in the file."""

    name: str
    size: int
    footer: bytes

    def read(self) -> Footer:
        return decode_footer(self.name, self.footer)


class Part(NamedTuple):
    """An object that is a file of its own beside the batch."""

    oid: bytes
    size: int
    role: int
    links: bytes | None


class RefMove(NamedTuple):
    """What a push did to a ref, for whoever asks later."""

    kind: int
    name: str
    lane: int
    old: bytes | None
    new: bytes | None
    time: int
    action: str
    who: str


class Batch(NamedTuple):
    repo: bytes
    token: bytes
    lane: int  # 0 work, 1 memory: so that one can be had without the other
    commits: Sequence[bytes] = ()  # parents first
    objects: Sequence[Small] = ()
    lists: Sequence[ChunkList] = ()
    packs: Sequence[Pack] = ()
    parts: Sequence[Part] = ()
    moves: Sequence[RefMove] = ()
    purges: Sequence[bytes] = ()
    signatures: Sequence[tuple[bytes, bytes]] = ()  # commit, signature


def encode_batch(batch: Batch) -> bytes:
    fields = [
        _FORMAT, batch.repo, batch.token, batch.lane, _shorten(batch.commits), batch.objects, batch.lists, batch.packs,
        batch.parts, batch.moves, batch.purges, batch.signatures,
    ]  # fmt: skip
    return MAGIC + zstandard.ZstdCompressor(level=6).compress(msgpack.packb(fields))


def name_of(data: bytes) -> str:
    """The name under which these bytes are stored."""
    return hashlib.sha256(data).hexdigest()


def decode_batch(name: str, data: bytes, repo: bytes) -> Batch:
    """A batch that somebody sent, every value of it of its type, or Corrupt. What it says is not checked yet."""
    if name_of(data) != name:
        raise Corrupt(f"log/{name[:10]} does not match its name.")
    if not data.startswith(MAGIC):
        raise Corrupt(f"log/{name[:10]} is not a batch.")
    try:
        size = zstandard.frame_content_size(data[len(MAGIC) :])
        if not 0 <= size <= LARGEST:
            raise Corrupt(f"log/{name[:10]} claims to unpack to {size:,} bytes; at most {LARGEST:,} are read.")
        raw = zstandard.ZstdDecompressor().decompress(data[len(MAGIC) :], max_output_size=size)
        fields = msgpack.unpackb(raw, strict_map_key=True)
        batch = _read(name, fields)
    except (zstandard.ZstdError, ValueError, TypeError, IndexError, RecursionError, msgpack.UnpackException) as error:
        raise Corrupt(f"log/{name[:10]} cannot be read: {error}.") from error
    if batch.repo != repo:
        raise Corrupt(f"log/{name[:10]} belongs to another repo, {batch.repo.hex()}.")
    return batch


def _read(name: str, fields: list[Any]) -> Batch:
    if type(fields) is not list or len(fields) != 12 or fields[0] != _FORMAT:
        raise Corrupt(f"log/{name[:10]} has a format that this memlake does not read.")
    _, repo, token, lane, commits, *lists = fields
    small, chunked, packs, parts, moves, purges, signatures = lists
    batch = Batch(
        repo,
        token,
        lane,
        _lengthen(commits),
        [Small(*row) for row in small],
        [ChunkList(*row) for row in chunked],
        [Pack(*row) for row in packs],
        [Part(*row) for row in parts],
        [RefMove(*row) for row in moves],
        purges,
        [tuple(row) for row in signatures],
    )
    if type(repo) is not bytes or type(token) is not bytes or lane not in range(len(LANES)) or not _is_sound(batch):
        raise Corrupt(f"log/{name[:10]} has values of the wrong types.")
    return batch


def _is_sound(batch: Batch) -> bool:
    return (
        all(type(one.content) is bytes and _are_facts(0, one.role, one.links) for one in batch.objects)
        and all(
            _is_oid(one.oid) and type(one.data) is bytes and _are_facts(one.size, one.role, one.links)
            for one in batch.lists
        )
        and all(_is_oid(one.oid) and _are_facts(one.size, one.role, one.links) for one in batch.parts)
        and all(type(one.name) is str and type(one.footer) is bytes and type(one.size) is int for one in batch.packs)
        and all(type(purge) is bytes for purge in batch.purges)
    )


def _is_oid(value: object) -> bool:
    return type(value) is bytes and len(value) == 32


def _are_facts(size: object, role: object, links: object) -> bool:
    is_linked = links is None or (type(links) is bytes and len(links) % 32 == 0)
    return type(size) is int and 0 <= size < 1 << 62 and role in (1, 2, 3) and is_linked


def _shorten(commits: Sequence[bytes]) -> list[list[Any]]:
    """Commits without the oid of their parent where that is the one before: a quarter of a small commit."""
    before, rows = b"", list[list[Any]]()
    for data in commits:
        is_next = data[_ROOT_END : _ROOT_END + 35] == _ONE_PARENT + before
        rows.append([1, data[: _ROOT_END + 3] + data[_ROOT_END + 35 :]] if is_next else [0, data])
        before = hashlib.sha256(data).digest()
    return rows


def _lengthen(rows: Sequence[Sequence[Any]]) -> list[bytes]:
    before, commits = b"", list[bytes]()
    for is_next, short in rows:
        if type(short) is not bytes:
            raise TypeError("a commit is not bytes")
        data = short[: _ROOT_END + 3] + before + short[_ROOT_END + 3 :] if is_next else short
        commits.append(data)
        before = hashlib.sha256(data).digest()
    return commits
