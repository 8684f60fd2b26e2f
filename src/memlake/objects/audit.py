"""Checking stored objects: rows against bytes, bytes against hashes, packs against their footers. Reads only."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from memlake.errors import Corrupt, Error, NotFound
from memlake.objects import tables
from memlake.objects.chunks import decode_list
from memlake.objects.deltas import lineage
from memlake.objects.packs import (
    AWAY,
    CHUNKED,
    COPIED,
    DELTA,
    DEPTH,
    INLINE,
    INLINE_ZSTD,
    PACKED,
    PACKED_ZSTD,
    PART,
    expand,
    read_footer,
)
from memlake.objects.store import Objects, part_name

_BLOCK = 8 << 20
Finding = tuple[bytes, str, str]  # oid, kind, detail


def check_objects(objects: Objects, *, full: bool) -> tuple[int, list[Finding]]:
    """(how many were checked, what is wrong). `full` also reads every byte of packs and parts."""
    findings: list[Finding] = []
    count = 0
    for oid, size, form, links, data in tables.scan_objects(objects.db):
        count += 1
        problem = _find_row_problem(objects, oid, size, form, data)
        if problem:
            findings.append((oid, *problem))
        if links:
            lost = objects.find_missing(links[at : at + 32].hex() for at in range(0, len(links), 32))
            lost -= objects.find_purged(lost)
            findings += [(bytes.fromhex(link), "missing", f"object {oid.hex()[:10]} links to it") for link in lost]
    findings.extend(_find_pack_problems(objects))
    if full:
        findings.extend(_find_content_problems(objects, {finding[0] for finding in findings}))
    return count, findings


def _find_row_problem(objects: Objects, oid: bytes, size: int, form: int, data: bytes | None) -> tuple[str, str] | None:
    try:
        if form in (INLINE, INLINE_ZSTD):
            content = data or b"" if form == INLINE else expand(data or b"", size)
            if hashlib.sha256(content).digest() != oid or len(content) != size:
                return "damaged", "its bytes do not match its hash"
        elif form == CHUNKED:
            chunks = decode_list(oid, data or b"")
            if sum(length for _, length in chunks) != size:
                return "damaged", "its chunks do not add up to its size"
            if lost := objects.find_missing(chunk.hex() for chunk, _ in chunks):
                return "missing", f"{len(lost)} of its chunks are not there"
        elif form == PART and objects.parts.size(part_name(oid)) != size:
            return "damaged", "its part has another size"
        elif form == DELTA:
            if objects.find_missing([bytes(data or b"").hex()]):
                return "missing", "what it rests on is not there"
            if len(list(lineage(objects.db, oid))) > DEPTH + 1:
                return "damaged", "it rests on too many others, or on itself"
        elif form not in (PACKED, PACKED_ZSTD, PART, AWAY):
            return "damaged", f"its row says form {form}, which does not exist"
    except NotFound:
        return "missing", "its part is not there"
    except Corrupt as error:
        return "damaged", error.message
    return None


def _find_pack_problems(objects: Objects) -> Iterator[Finding]:
    """Packs that are missing or damaged, and rows that do not agree with the footer of their pack."""
    for id, name, size, log in tables.list_packs(objects.db):
        rows = [(oid, *row) for oid, _, *row in tables.list_packed(objects.db, [id])]
        try:
            footer = {record.oid: record[:5] for record in read_footer(objects.packs, name).records}
            if (stored := objects.packs.size(name)) != size:
                raise Corrupt(f"The index records {size} bytes, but the file has {stored}.")
        except (NotFound, Corrupt) as error:
            kind = "missing" if isinstance(error, NotFound) else "damaged"
            needed = [row for row in rows if row[1] not in COPIED]
            yield from ((row[0], kind, f"its pack {name[:10]}: {error.message}") for row in needed)
            if not needed and (rows or log):  # else all that it held was stored again elsewhere
                what = "It holds only what a rescue needs, and gc writes that again if the pack is gone."
                yield bytes.fromhex(name), kind, f"pack {name[:10]}: {error.message} {what}"
            continue
        yield from (
            (row[0], "damaged", f"its row does not agree with pack {name[:10]}")
            for row in rows
            if footer.get(row[0]) != (row[0], COPIED.get(row[1], row[1]), *row[2:])
        )
    yield from ((oid, "missing", "its pack is not in the directory") for oid in tables.list_without_pack(objects.db))


def _find_content_problems(objects: Objects, reported: set[bytes]) -> Iterator[Finding]:
    for oid, form, size in tables.scan_outside(objects.db):
        rests = lineage(objects.db, oid) if form == DELTA else ()
        if oid not in reported and not tables.list_away(objects.db, rests):
            try:
                if form == PART:
                    _check_part(objects, oid, size)
                else:
                    objects.read(oid.hex())
            except Error as error:
                yield oid, "damaged", error.message
    yield from _find_copy_problems(objects, reported)
    for oid, _ in tables.scan_chunk_lists(objects.db):
        if oid not in reported:
            yield from _find_whole_problems(objects, oid)


def _check_part(objects: Objects, oid: bytes, size: int) -> None:
    """Hash a part in blocks, because it may be larger than memory."""
    digest, name = hashlib.sha256(), part_name(oid)
    for at in range(0, size, _BLOCK):
        digest.update(objects.parts.get(name, at, min(_BLOCK, size - at)))
    if digest.digest() != oid:
        raise Corrupt(f"the bytes of part {oid.hex()[:10]} do not match its hash.")


def _find_copy_problems(objects: Objects, reported: set[bytes]) -> Iterator[Finding]:
    """Copies in packs, from which a repo can be rescued, that are not the same as their rows."""
    for oid, name, start, length, data in tables.scan_copies(objects.db):
        if oid in reported or bytes.fromhex(name) in reported:
            continue
        try:
            is_same = length == len(data) and objects.packs.get(name, start, length) == data
        except (NotFound, Corrupt):  # also if others need the pack, and it was reported already
            is_same = False
        if not is_same:
            yield oid, "damaged", "its copy in a pack is not what its row has"
    for name in tables.list_log_packs(objects.db):
        for record in () if bytes.fromhex(name) in reported else read_footer(objects.packs, name).records:
            data = objects.packs.get(name, record.start, record.length)
            try:
                content = expand(data, record.size) if record.form == PACKED_ZSTD else data
            except Corrupt:
                content = b""
            if hashlib.sha256(content).digest() != record.oid:
                yield record.oid, "damaged", f"the log segment in pack {name[:10]} does not match its hash"


def _find_whole_problems(objects: Objects, oid: bytes) -> Iterator[Finding]:
    whole = hashlib.sha256()
    try:
        with objects.open(oid.hex()) as stream:
            while block := stream.read(1 << 20):
                whole.update(block)
    except Error as error:
        yield oid, "damaged", error.message
        return
    if whole.digest() != oid:
        yield oid, "damaged", "its chunks are sound but do not make up this object"
