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
from memlake.objects.packs import NAME, Footer, decode_footer
from memlake.objects.store import part_name
from memlake.versions.paths import name_problem
from memlake.versions.sync.root import LogFile
from memlake.versions.trees.codec import LANES

MAGIC = b"MLBATCH1"
LARGEST = 192 << 20  # bytes that one batch unpacks to
MOST = 1 << 20  # rows of one batch: a few stored bytes may claim this many, each of a hundred bytes in memory
LONGEST_COMMIT = 4 << 20
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
    """An object that is a file of its own beside the batch. `sweeps`: how often files had been deleted when it came."""

    oid: bytes
    size: int
    role: int
    links: bytes | None
    sweeps: int

    @property
    def path(self) -> str:
        """Where it lies there."""
        return part_path(self.oid, self.sweeps)


def part_path(oid: bytes, sweeps: int) -> str:
    """Where a part lies at a remote. After a deletion the name is another: somebody may still be deleting the old."""
    return f"parts/{part_name(oid)}" + (f".{sweeps}" if sweeps else "")


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


def describe_file(data: bytes, batch: Batch) -> LogFile:
    """What a root says of a batch that is stored as these bytes."""
    groups = (batch.commits, batch.objects, batch.lists, batch.packs, batch.parts, batch.moves, batch.purges)
    unpacked = zstandard.frame_content_size(data[len(MAGIC) :])
    return LogFile(name_of(data), len(data), batch.lane, len(batch.commits), unpacked, sum(map(len, groups)))


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
        reader = open_flat(zstandard.ZstdDecompressor().decompress(data[len(MAGIC) :], max_output_size=size))
        batch = _read(name, reader, size)
    except (zstandard.ZstdError, ValueError, TypeError, msgpack.UnpackException) as error:
        raise Corrupt(f"log/{name[:10]} cannot be read: {error}.") from error
    if batch.repo != repo:
        raise Corrupt(f"log/{name[:10]} belongs to another repo, {batch.repo.hex()}.")
    return batch


def _read(name: str, reader: msgpack.Unpacker, size: int) -> Batch:
    """The values of a batch. They are read one by one: a list in a list could claim more memory than there is."""
    count, version = reader.read_array_header(), reader.unpack()
    if count != 12 or version != _FORMAT:
        raise Corrupt(f"log/{name[:10]} has a format that this memlake does not read.")
    repo, token, lane = reader.unpack(), reader.unpack(), reader.unpack()
    left = MOST
    groups: list[list[tuple[Any, ...]]] = []
    for width in (2, 3, 5, 3, 5, 8, 0, 2):
        groups.append(read_rows(reader, width, left))
        left -= len(groups[-1])
    if reader.tell() != size:
        raise ValueError("something follows it")
    commits, small, lists, packs, parts, moves, purges, signatures = groups
    batch = Batch(
        repo, token, lane, _lengthen(commits), [Small(*row) for row in small], [ChunkList(*row) for row in lists],
        [Pack(*row) for row in packs], [Part(*row) for row in parts], [RefMove(*row) for row in moves],
        [row[0] for row in purges], [(row[0], row[1]) for row in signatures],
    )  # fmt: skip
    if type(repo) is not bytes or type(token) is not bytes or type(lane) is not int or not _is_sound(batch):
        raise Corrupt(f"log/{name[:10]} has values of the wrong types.")
    return batch


def open_flat(data: bytes) -> msgpack.Unpacker:
    """A reader of msgpack that holds no list in what `unpack` gives."""
    reader = msgpack.Unpacker(max_array_len=0, max_map_len=0, max_buffer_size=max(len(data), 1))
    reader.feed(data)
    return reader


def read_rows(reader: msgpack.Unpacker, width: int, most: int) -> list[tuple[Any, ...]]:
    """A list of rows of plain values, each of this width; of values that are no rows, where it is 0."""
    count, unpack, head = reader.read_array_header(), reader.unpack, reader.read_array_header
    if count > most:
        raise ValueError(f"it has {count:,} rows; at most {MOST:,} are read")
    rows = []
    for _ in range(count):
        if width and head() != width:
            raise ValueError("a row of it has another width")
        rows.append(tuple([unpack() for _ in range(width or 1)]))
    return rows


def _is_sound(batch: Batch) -> bool:
    return (
        batch.lane in range(len(LANES))
        and all(type(one.content) is bytes and _are_facts(0, one.role, one.links) for one in batch.objects)
        and all(
            _is_oid(one.oid) and type(one.data) is bytes and _are_facts(one.size, one.role, one.links)
            for one in batch.lists
        )
        and all(_is_oid(one.oid) and _are_facts(one.size, one.role, one.links) for one in batch.parts)
        and all(type(one.sweeps) is int and 0 <= one.sweeps < 1 << 53 for one in batch.parts)
        and all(_is_pack(pack) for pack in batch.packs)
        and all(_is_move(move) for move in batch.moves)
        and all(type(purge) is bytes for purge in batch.purges)
        and all(_is_oid(commit) and type(signature) is bytes for commit, signature in batch.signatures)
    )


def _is_pack(pack: Pack) -> bool:
    is_named = type(pack.name) is str and NAME.fullmatch(pack.name) is not None
    return is_named and type(pack.size) is int and type(pack.footer) is bytes


def _is_move(move: RefMove) -> bool:
    is_named = move.kind in (0, 1) and type(move.name) is str and not name_problem(move.name)
    are_commits = all(oid is None or _is_oid(oid) for oid in (move.old, move.new))
    texts = (move.action, move.who)
    return is_named and are_commits and move.lane in (0, 1) and type(move.time) is int and {*map(type, texts)} == {str}


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
        if type(short) is not bytes or is_next not in ((0, 1) if before else (0,)):
            raise TypeError("a commit of it is none")
        if len(short) > LONGEST_COMMIT:
            raise ValueError(f"a commit of it has {len(short):,} bytes; at most {LONGEST_COMMIT:,} are read")
        data = short[: _ROOT_END + 3] + before + short[_ROOT_END + 3 :] if is_next else short
        commits.append(data)
        before = hashlib.sha256(data).digest()
    return commits
