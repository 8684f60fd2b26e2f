"""Receive: files of a remote brought here, checked. Writes no row.

Each file is checked against its name and each record against its hash before it gets its place. A failure leaves files
that no row names, and a second run finds them.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import msgpack

from memlake.errors import Corrupt, NotFound
from memlake.named_tuple import NamedTuple
from memlake.objects import tables
from memlake.objects.chunks import decode_list
from memlake.objects.packs import (
    CHUNKED,
    DELTA,
    LARGEST,
    LIMIT,
    LOG,
    MAGIC,
    OBJECT,
    PACKED,
    PACKED_ZSTD,
    PART,
    PackWriter,
    Record,
    Sealed,
    decode_footer,
    expand,
    read_footer_bytes,
    spans,
)
from memlake.objects.places import Folder
from memlake.objects.store import Objects, part_name
from memlake.versions.sync.batch import MOST, Batch, Pack, Part, decode_batch, open_flat, read_rows
from memlake.versions.sync.remote import Meter, Progress, Remote, in_parallel
from memlake.versions.sync.root import LogFile, Root

Row = TypeVar("Row")
_LARGEST_BATCH = 96 << 20  # bytes of a batch as it is stored
_FORMS = (PACKED, PACKED_ZSTD, DELTA)
_MOSTLY = 0.5  # the share of a pack from which on it comes whole


class Wanted(NamedTuple):
    """What of a remote is wanted here: which lanes, and objects below which size (None: all of them)."""

    memories: bool = True
    below: int | None = None


class Plan(NamedTuple):
    """What is to be brought: packs whole, records of others, parts; and what stays away, by oid."""

    whole: Sequence[Pack]
    single: Mapping[str, Sequence[Record]]
    parts: Sequence[Part]
    away: frozenset[bytes]  # of lists and parts
    partial: frozenset[str]  # packs of which objects stay there

    @property
    def size(self) -> int:
        single = sum(record.length for records in self.single.values() for record in records)
        return sum(pack.size for pack in self.whole) + single + sum(part.size for part in self.parts)

    @property
    def requests(self) -> int:
        """How many it takes of a bucket to bring them."""
        sizes = [pack.size for pack in self.whole] + [part.size for part in self.parts]
        return sum(map(Remote.count_gets, sizes)) + sum(1 for records in self.single.values() for _ in spans(records))


def read_batches(remote: Remote, files: Iterable[LogFile], repo: str, folder: Path) -> Iterator[tuple[LogFile, Batch]]:
    """Batches in the order of the root. They come in parallel and stay in `folder` until all of them are taken in."""
    wanted = list(files)

    def bring(file: LogFile) -> None:
        _check_batch_size(remote, file)
        remote.download(f"log/{file.name}", file.size, folder / file.name)

    for _ in in_parallel(bring, wanted):
        pass
    for file in wanted:
        try:
            batch = decode_batch(file.name, (folder / file.name).read_bytes(), uuid.UUID(repo).bytes)
            if batch.lane != file.lane:
                raise Corrupt(f"log/{file.name[:10]} is of another lane than the root says.")
            yield file, batch
            del batch  # before the next one is read
        except Corrupt as error:
            (folder / file.name).unlink(missing_ok=True)  # it may have been damaged here
            raise Corrupt(f"{remote.url}: {error.message} Nothing was changed.") from error


def read_batch(remote: Remote, file: LogFile, repo: bytes) -> Batch:
    """One batch, read where it lies."""
    _check_batch_size(remote, file)
    return decode_batch(file.name, remote.place.get(f"log/{file.name}", 0, file.size), repo)


def _check_batch_size(remote: Remote, file: LogFile) -> None:
    if file.size > _LARGEST_BATCH:
        raise Corrupt(f"log/{file.name[:10]} of {remote.url} has {file.size:,} bytes, which is too many.")


def plan(
    objects: Objects,
    files: Sequence[LogFile],
    read: Callable[[Sequence[LogFile]], Iterable[tuple[LogFile, Batch]]],
    root: Root,
    wanted: Wanted,
) -> Plan:
    """What of the packs and parts is lacking here and wanted. Checks every footer against its name and its pack.

    Batches that have packs or parts are read twice, because a million objects of which none is wanted must not fill
    the memory. Memories lie in batches that have neither.
    """
    listed, below = {file.name: file.size for file in root.packs}, wanted.below
    chunks, away = set[bytes](), set[bytes]()
    again = list[LogFile]()
    for file, batch in read(files):
        again += [file] if batch.packs or batch.parts else []
        purged = objects.find_purged(one.oid.hex() for one in batch.lists)
        for one in batch.lists:
            pieces = decode_list(one.oid, one.data, one.size)
            if one.oid.hex() in purged or (below is not None and one.size >= below):
                away.add(one.oid)
            else:
                chunks.update(chunk for chunk, _ in pieces)
        del batch
    whole, single, partial = list[Pack](), dict[str, list[Record]](), set[str]()
    parts: dict[bytes, Part] = {}  # two pushers may both have sent one, and it comes once
    for _, batch in read(again):
        for pack in (pack for pack in batch.packs if pack.name in listed):
            records = _read_records(objects, pack, listed[pack.name])
            # What memories are, and what has other objects in it, is no content of a file.
            limit = None if batch.lane == 1 else below
            near = [one for one in records if one.oid in chunks or _is_near(one, limit)]
            lacking = {record.oid for record in near}
            lacking -= tables.list_present(objects.db, lacking)
            # A pack that holds what was erased here does not come whole.
            lacking -= {row[0] for row in tables.list_tombstones_of(objects.db, lacking)}
            wants = [record for record in near if record.oid in lacking]
            if wants and sum(record.length for record in wants) >= _MOSTLY * pack.size and len(wants) == len(records):
                whole.append(pack._replace(footer=b""))
            elif wants:
                single[pack.name] = wants
            if len(near) < len(records):
                partial.add(pack.name)
        for part in batch.parts:
            if below is not None and part.size >= below:
                away.add(part.oid)
            elif objects.find_missing([part.oid.hex()]) and not objects.find_purged([part.oid.hex()]):
                parts[part.oid] = part
    return Plan(whole, single, tuple(parts.values()), frozenset(away), frozenset(partial))


def _is_near(record: Record, limit: int | None) -> bool:
    """Whether it is an object, and not a mere chunk, that comes by itself. One that has others in it always does."""
    return record.role & OBJECT > 0 and (limit is None or record.links is not None or record.size < limit)


def _read_records(objects: Objects, pack: Pack, size: int) -> list[Record]:
    """The records of a pack that are objects or chunks, each within the file and behind the one before."""
    try:
        reader = open_flat(pack.footer)
        reader.read_array_header(), reader.unpack(), reader.unpack(), read_rows(reader, 7, MOST)
    except (ValueError, msgpack.UnpackException) as error:
        raise Corrupt(f"the footer of pack {pack.name[:10]} makes no sense: {error}. Nothing was changed.") from error
    footer = pack.read()
    if footer.repo != objects.repo:
        raise Corrupt(f"pack {pack.name[:10]} belongs to another repo, {footer.repo}. Nothing was changed.")
    records = sorted(
        (record for record in footer.records if record.role != LOG and record.form not in (CHUNKED, PART)),
        key=lambda record: record.start,
    )
    end = len(MAGIC)
    for record in records:
        least, most = (32, LARGEST) if record.form == DELTA else (0, LIMIT)
        is_known = record.form in _FORMS and record.role in (1, 2, 3) and len(record.links or b"") % 32 == 0
        inside = record.start >= end and record.length >= least and 0 <= record.size <= most
        end = record.start + record.length
        if not (is_known and inside) or len(record.oid) != 32 or pack.size != size:
            raise Corrupt(f"pack {pack.name[:10]} says of itself what cannot be. Nothing was changed.")
    if end > size - len(pack.footer) - 16:
        raise Corrupt(f"pack {pack.name[:10]} says of itself what cannot be. Nothing was changed.")
    return records


# -- bringing files ---------------------------------------------------------------------------------


def bring(objects: Objects, remote: Remote, planned: Plan, progress: Progress | None = None) -> list[Sealed]:
    """Bring packs and parts here, checked; returns new packs that were made of single records."""
    meter = Meter(progress, planned.size, "content")

    def work(file: Pack | Part) -> None:
        if isinstance(file, Pack):
            _bring_pack(objects, remote, file, meter)
        else:
            bring_part(objects, remote, (file.oid, file.size, file.path), meter)

    files: list[Pack | Part] = [*planned.whole, *planned.parts]
    for _ in in_parallel(work, files, at_once=4):
        pass
    return bring_records(objects, remote, planned.single, meter)


def _bring_pack(objects: Objects, remote: Remote, pack: Pack, meter: Meter) -> None:
    """A whole pack into its place, every record of it checked. One that is there was checked, or is checked now."""
    file = objects.tmp / f"{hashlib.sha256(pack.name.encode()).hexdigest()[:32]}.pack"
    if not _is_here(objects, pack):
        remote.download(f"packs/{pack.name}", pack.size, file, meter)
        try:
            _check_pack(pack, file)
        except Corrupt as error:
            file.unlink(missing_ok=True)
            raise Corrupt(f"{remote.url}: {error.message} Nothing was changed.") from error
        objects.packs.put(pack.name, file)
        file.unlink(missing_ok=True)


def _is_here(objects: Objects, pack: Pack) -> bool:
    try:
        return objects.packs.size(pack.name) == pack.size
    except NotFound:
        return False


def _check_pack(pack: Pack, file: Path) -> None:
    place = Folder(file.parent)
    footer = read_footer_bytes(place, file.name)
    if hashlib.sha256(footer).hexdigest() != pack.name:
        raise Corrupt(f"pack {pack.name[:10]} has another footer than its batch says.")
    records = [record for record in decode_footer(pack.name, footer).records if record.form in (PACKED, PACKED_ZSTD)]
    for group in spans(records):
        payloads = place.get_ranges(file.name, [(record.start, record.length) for record in group])
        for record, payload in zip(group, payloads, strict=True):
            check_record(record, payload)


def check_record(record: Record, payload: bytes) -> bytes:
    """The content of a record, checked against its hash."""
    content = expand(payload, record.size) if record.form == PACKED_ZSTD else payload
    if len(content) != record.size or hashlib.sha256(content).digest() != record.oid:
        raise Corrupt(f"object {record.oid.hex()[:10]} does not match its hash.")
    check_links(record.oid, content, record.links)
    return content


def check_links(oid: bytes, content: bytes, links: bytes | None) -> None:
    """Whether what an object is said to need is named in it. Whoever sent it could keep alive what they like."""
    for at in range(0, len(links or b""), 32):
        link = (links or b"")[at : at + 32]
        if link not in content and link.hex().encode() not in content:
            raise Corrupt(f"object {oid.hex()[:10]} links to what its content does not name.")


def bring_part(objects: Objects, remote: Remote, part: tuple[bytes, int, str], meter: Meter | None = None) -> None:
    """A part, by its oid, its size and where it lies there, into its place."""
    oid, size, path = part
    file = objects.tmp / f"{oid.hex()[:32]}.part"
    remote.download(path, size, file, meter)
    with file.open("rb") as stream:
        if hashlib.file_digest(stream, "sha256").digest() != oid:
            file.unlink(missing_ok=True)
            raise Corrupt(f"{remote.url}: {path} does not match its hash. Nothing was changed.")
    objects.parts.put(part_name(oid), file)
    file.unlink(missing_ok=True)


def bring_records(
    objects: Objects, remote: Remote, single: Mapping[str, Sequence[Record]], meter: Meter | None = None
) -> list[Sealed]:
    """Records of packs that do not come whole, checked and stored in packs of our own; returns those."""
    made: list[Sealed] = []
    writer: PackWriter | None = None

    def read(job: tuple[str, list[Record]]) -> list[bytes]:
        name, group = job
        return remote.place.get_ranges(f"packs/{name}", [(record.start, record.length) for record in group])

    jobs = [(name, group) for name, records in single.items() for group in spans(records)]
    try:
        for (_, group), payloads in in_parallel(read, jobs):
            for record, payload in zip(group, payloads, strict=True):
                if record.form != DELTA:
                    check_record(record, payload)
                writer = writer or PackWriter(objects.tmp, objects.repo)
                writer.copy(record, payload)
            if meter:
                meter(sum(map(len, payloads)))
            if writer is not None and writer.is_full:
                sealed, writer = writer.deliver(objects.packs), None
                made.append(sealed)
        if writer is not None:
            sealed, writer = writer.deliver(objects.packs), None
            made.append(sealed)
    finally:
        if writer is not None:
            writer.abandon()
    return made
