"""Bundles: what a push would send, in one file. It is a remote that is read and never written.

A bundle of a range takes the commits of its left side for granted: `needs` in its root names them.
"""

from __future__ import annotations

import io
import os
import tarfile
import uuid
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from memlake.errors import AlreadyExists, Corrupt, NotFound, Nothing
from memlake.named_tuple import NamedTuple
from memlake.objects import disk
from memlake.objects import tables as object_tables
from memlake.objects.chunks import decode_list
from memlake.objects.leases import Lease
from memlake.objects.packs import PACKED, PACKED_ZSTD
from memlake.records import Commit
from memlake.versions.history.commits import History
from memlake.versions.sync import receive
from memlake.versions.sync.batch import Pack
from memlake.versions.sync.collect import Sending, collect, list_new_commits, open_scratch
from memlake.versions.sync.fetch import check_needs
from memlake.versions.sync.remote import Remote
from memlake.versions.sync.root import RefKey, Root, Target, encode_root
from memlake.versions.sync.upload import list_files

_BLOCK = 8 << 20


class Bundled(NamedTuple):
    """What a bundle holds, as it was made or found."""

    file: str
    size: int
    refs: Mapping[str, str]  # branch or tag -> commit
    needs: tuple[str, ...]  # commits that whoever takes it in must have
    commits: int
    objects: int = 0


def create(history: History, file: Path, refs: Mapping[RefKey, Target], known: Sequence[Commit]) -> Bundled:
    """Write `file` with these refs and all they need but what is behind the known commits."""
    if os.path.lexists(file):
        raise AlreadyExists(f"{file} exists already. Nothing was written.", hint="Choose another name.")
    if not file.parent.is_dir():
        raise NotFound(f"there is no folder {file.parent}. Nothing was written.")
    lease = Lease(history.db, "bundle")  # gc must not join a pack while it is copied
    try:
        with open_scratch(history.objects) as folder:
            sendings, commits = _collect(history, refs, known, folder)
            if not commits:
                raise Nothing("there are no commits in that range, so there is nothing to bundle.")
            return _write(history, file, _describe(history, refs, known, sendings), sendings)
    finally:
        lease.close()


def _collect(
    history: History, refs: Mapping[RefKey, Target], known: Sequence[Commit], folder: Path
) -> tuple[list[Sending], int]:
    held, count = _list_held(history, known), 0
    sendings = []
    for code, lane in enumerate(("work", "memory")):
        heads = [bytes.fromhex(oid) for target in refs.values() if (oid := getattr(target, lane))]
        seqs = list_new_commits(history, heads, [bytes.fromhex(one.oid) for one in known if one.lane == lane])
        sendings.append(collect(history, seqs, code, lambda oids: held & set(oids), folder))
        count += len(seqs)
    return sendings, count


def _list_held(history: History, known: Iterable[Commit]) -> set[bytes]:
    """What the trees of these commits hold, with the chunks of it: whoever has the commits has that."""
    held = {bytes.fromhex(entry.oid) for commit in known for _, entry in history.scan(commit)}
    for oid, data in object_tables.list_chunk_lists(history.db, held):
        held |= {chunk for chunk, _ in decode_list(oid, data)}
    return held


def _describe(
    history: History, refs: Mapping[RefKey, Target], known: Sequence[Commit], sendings: Sequence[Sending]
) -> Root:
    batches = [batch for sending in sendings for batch in sending.batches]
    log, packs = tuple(batch.file for batch in batches), tuple(pack for batch in batches for pack in batch.packs)
    purges = tuple(oid.hex() for _, _, oid in object_tables.list_purges(history.db))
    head = next((name for kind, name in refs if kind == 0), "main")
    needs = tuple(commit.oid for commit in known)
    return Root(
        history.objects.repo, history.salt.hex(), 1, os.urandom(16).hex(), head, refs, log, packs, purges, {}, needs
    )


def _write(history: History, file: Path, root: Root, sendings: Sequence[Sending]) -> Bundled:
    unfinished = file.with_name(f"{file.name}.{os.urandom(4).hex()}.partial")
    objects = 0
    try:
        with disk.named_errors(f"writing {file}"), open(unfinished, "xb") as stream:
            with tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as archive:
                _add(archive, "root", encode_root(root))
                for _, data, oid in object_tables.list_purges(history.db):
                    _add(archive, f"purges/{oid.hex()}", data)
                for sending in sendings:
                    for batch in sending.batches:
                        _add(archive, f"log/{batch.file.name}", batch.read())
                        objects += batch.objects
                    for name, _, make in list_files(history.objects, [sending]):
                        made = make()
                        try:
                            archive.add(made, arcname=name, recursive=False, filter=_anonymous)
                        finally:
                            made.unlink(missing_ok=True)
            stream.flush()
            os.fsync(stream.fileno())
        disk.rename(unfinished, file)
        disk.fsync_dir(file.resolve().parent)
    finally:
        unfinished.unlink(missing_ok=True)
    return _report(file, root, objects)


def _add(archive: tarfile.TarFile, name: str, data: bytes) -> None:
    info = tarfile.TarInfo(name)
    info.size = len(data)
    archive.addfile(info, io.BytesIO(data))


def _anonymous(info: tarfile.TarInfo) -> tarfile.TarInfo:
    """Without whose file it was, and when: the same content makes the same bytes."""
    info.uid = info.gid = 0
    info.uname = info.gname = ""
    info.mtime, info.mode = 0, 0o644
    return info


def _report(file: Path, root: Root, objects: int) -> Bundled:
    refs = {name: target.work or target.memory or "" for (_, name), target in root.refs.items()}
    return Bundled(str(file), file.stat().st_size, refs, root.needs, sum(one.commits for one in root.log), objects)


def verify(history: History | None, remote: Remote) -> Bundled:
    """Whether every file of a bundle is whole and every record matches its hash; with a history, whether it fits."""
    root = remote.get_root().root
    if history is not None:
        check_needs(history, remote, root)
    batches = [receive.read_batch(remote, file, uuid.UUID(root.repo).bytes) for file in root.log]
    listed, found, objects = {pack.name: pack.size for pack in root.packs}, set[str](), 0
    for batch in batches:
        objects += len(batch.objects) + len(batch.lists) + len(batch.parts)
        for pack in batch.packs:
            found.add(pack.name)
            objects += _verify_pack(remote, pack.name, listed.get(pack.name, -1), pack)
        for part in batch.parts:
            remote.get_bytes(part.path, part.size)
    if lost := listed.keys() - found:
        raise Corrupt(f"{remote.url} lists pack {min(lost)[:10]}, of which no batch tells.")
    return _report(Path(remote.url), root, objects)


def _verify_pack(remote: Remote, name: str, size: int, pack: Pack) -> int:
    if pack.size != size or remote.place.size(f"packs/{name}") != size:
        raise Corrupt(f"pack {name[:10]} of {remote.url} is cut short.")
    records = pack.read().records
    for record in records:
        if record.form in (PACKED, PACKED_ZSTD):
            receive.check_record(record, remote.place.get(f"packs/{name}", record.start, record.length))
    return len(records)
