"""Archive: the data of old commits leaves for a file at a remote, comes back, or is brought to be read.

The file is stored, listed in the root, and read back whole before a row lets go of its data. So a crash leaves a file
that nobody lists, one that nobody reads, or a copy here that is not needed; the next run makes the same file.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path

from memlake import nofollow
from memlake.errors import Conflict, Corrupt, Error, NotFound, Unavailable
from memlake.named_tuple import NamedTuple
from memlake.objects import disk
from memlake.objects.db import Database, advise_rescue
from memlake.objects.leases import Lease
from memlake.objects.swap import Moved
from memlake.records import count
from memlake.versions import tables
from memlake.versions.history import archive
from memlake.versions.history.archive import ArchiveFile, Archives
from memlake.versions.history.commits import History
from memlake.versions.sync.fetch import Link, check_repo
from memlake.versions.sync.partial import Links
from memlake.versions.sync.remote import TRIES, Remote
from memlake.versions.trees import codec
from memlake.versions.upkeep.log_packs import write_logs

_GROUP = 4096


class Archived(NamedTuple):
    """What went into an archive, or came back: commits, the bytes of their data, and the file at the remote."""

    remote: str = ""
    commits: int = 0
    bytes: int = 0
    file: ArchiveFile | None = None


def archive_commits(
    history: History, link: Link, before: int, *, dry_run: bool = False, keep: bool = False
) -> Archived:
    """Move the data of commits from before a time, in microseconds, that a remote has into one file there.

    Commits that a ref names stay. `keep`: a copy of the file stays here, which is smaller than the data was.
    """
    remote = link.remote
    state = remote.get_root(link.mirror.root())
    check_repo(history, remote, state.root, link.mirror.root())
    heads = [bytes.fromhex(oid) for target in state.root.refs.values() for oid in (target.work, target.memory) if oid]
    seqs, size = _find_old(history, heads, before)
    if dry_run or not seqs:
        return Archived(remote.name, len(seqs), size)
    lease = Lease(history.db, "archive")
    scratch = history.objects.tmp / f"{os.urandom(16).hex()}.pack"
    try:
        write_logs(history)  # packs have them as well: should the remote be lost, `rescue` finds them there
        oids = bytearray()
        file = archive.write_archive(scratch, history.objects.repo, _read_commits(history, seqs, oids))
        copy = archive.copy_of(history.db, file)
        _store(link, file, scratch)
        disk.step("archive stored")
        _list_in_root(history, link, file)
        disk.step("archive listed")
        _download(remote, file, copy)  # read back: what a row lets go of is there
        _let_go(history, oids, file)
        disk.step("archive noted")
        if not keep:
            copy.unlink(missing_ok=True)
    finally:
        scratch.unlink(missing_ok=True)
        lease.close()
    history.forget()
    return Archived(remote.name, len(seqs), size, file)


def _find_old(history: History, heads: Sequence[bytes], before: int) -> tuple[list[int], int]:
    """The commits of before a time behind these, parents first, and the bytes of their data."""
    known, seqs, size = tables.list_to_archive(history.db, heads), list[int](), 0
    for at in range(0, len(known), _GROUP):
        group = known[at : at + _GROUP]
        old = {seq: len(data) for seq, data in tables.list_commit_data(history.db, group) if _time_of(data) < before}
        seqs += [seq for seq in group if seq in old]
        size += sum(old.values())
    return seqs, size


def _time_of(data: bytes) -> int:
    time: int = codec.unpack(data)[6]
    return time


def _read_commits(history: History, seqs: Sequence[int], oids: bytearray) -> Iterator[bytes]:
    """The data of commits in the order of these numbers. Notes their oids, one behind the other."""
    for at in range(0, len(seqs), _GROUP):
        group = seqs[at : at + _GROUP]
        found: dict[int, bytes] = dict(tables.list_commit_data(history.db, group))
        for data in filter(None, map(found.get, group)):  # a gc may have removed one since
            oids += hashlib.sha256(data).digest()
            yield data


def _store(link: Link, file: ArchiveFile, scratch: Path) -> None:
    with contextlib.suppress(NotFound):
        if link.remote.place.size(f"archives/{file.name}") == file.size:
            return
    link.remote.place.put(f"archives/{file.name}", scratch)


def _list_in_root(history: History, link: Link, file: ArchiveFile) -> None:
    """Have the root of a remote list an archive, so that a gc there keeps it."""
    remote = link.remote
    for _ in remote.attempts():
        state = remote.get_root(link.mirror.root())
        check_repo(history, remote, state.root, link.mirror.root())
        if file in state.root.archives:
            return
        path = f"archives/{file.name}"
        if path in state.root.doomed:  # somebody is deleting it, so it cannot be relied on
            raise Conflict(f"{path[:20]} is being deleted at {remote.url}. Nothing was moved.", hint="Run it again.")
        root = state.root._replace(
            generation=state.root.generation + 1,
            token=os.urandom(16).hex(),
            archives=(*state.root.archives, file),
            condemned={name: time for name, time in state.root.condemned.items() if name != path},
        )
        with contextlib.suppress(Moved):
            remote.keep_copy(remote.swap(root, state), history.objects.tmp)
            return
    raise Unavailable(
        f"{remote.url} was changed by others {TRIES} times while an archive was being listed there. Nothing was moved.",
        hint="Run it again, which does no harm.",
    )


def _let_go(history: History, oids: bytearray, file: ArchiveFile) -> None:
    """Let the rows of commits say where in the archive their data lies."""
    rows = ((archive.place_of(file.name, at // 32), bytes(oids[at : at + 32])) for at in range(0, len(oids), 32))
    with history.db.write():
        archive.note_archive(history.db, file)
        tables.replace_data(history.db, rows)
    history.db.vacuum()  # no later commit would fill the pages that are half empty now


# -- reading and bringing back -----------------------------------------------------------------------


def bring_archive(db: Database, links: Links, file: ArchiveFile) -> None:
    """Have the file of an archive here, from the first remote that has it."""
    failed, corrupt = list[str](), False
    for opened in links:
        try:
            with opened as link:
                link.remote.place.size(f"archives/{file.name}")
                what = count(file.commits, "archived commit")
                warnings.warn(f"reading {what} from {link.remote.name} ({file.size:,} bytes)", stacklevel=2)
                return _download(link.remote, file, archive.copy_of(db, file))
        except Error as error:
            corrupt |= isinstance(error, Corrupt)
            failed.append(error.message)
    why = "\n".join(f"  {line}" for line in failed) or "  no remote is known here"
    raise (Corrupt if corrupt else Unavailable)(
        f"the data of {count(file.commits, 'old commit')} lies in an archive that could not be read:\n{why}\n"
        "Nothing was changed.",
        hint="When the remote can be reached, run it again. To have all of it here: memlake archive --back\n"
        f"If it is lost for good, packs have it, too: {advise_rescue(db.path)}",
    )


def _download(remote: Remote, file: ArchiveFile, path: Path) -> None:
    part = path.with_name(f"{file.name}.{os.urandom(4).hex()}~")
    nofollow.make_folder(path.parent)
    try:
        remote.download(f"archives/{file.name}", file.size, part)
        with part.open("rb") as stream:
            if hashlib.file_digest(stream, "sha256").hexdigest() != file.name:
                raise Corrupt(f"archives/{file.name[:10]} in {remote.url} does not match its name.")
        disk.rename(part, path)
    finally:
        part.unlink(missing_ok=True)


def bring_back(history: History, archives: Archives) -> Archived:
    """Have the data of all archived commits in their rows again. The files at remotes stay, as others may use them."""
    rows, files, size = tables.list_archived(history.db), archive.list_archives(history.db), 0
    archives.have_all()

    def read() -> Iterator[tuple[bytes, bytes]]:
        nonlocal size
        for _, oid, row in rows:
            data = archives.read(row)
            if hashlib.sha256(data).digest() != oid:
                raise Corrupt(f"an archive has other data for commit {oid.hex()[:10]}. Nothing was changed.")
            size += len(data)
            yield data, oid

    with history.db.write():
        tables.replace_data(history.db, read())
        for file in files:
            archive.forget_archive(history.db, file)
    archives.close()
    for file in files:
        archive.copy_of(history.db, file).unlink(missing_ok=True)
    return Archived(commits=len(rows), bytes=size)


def drop_copies(history: History, archives: Archives, links: Links) -> Archived:
    """Remove the copies of archives that lie here, if remotes have all of them."""
    here = [file for file in archive.list_archives(history.db) if archive.copy_of(history.db, file).exists()]
    lone = set(here)
    for opened in links:
        if lone:
            with opened as link:
                state = link.remote.load()
                lone -= set(state.root.archives if state else ())
    if lone:
        name = min(lone).name[:10]
        raise Conflict(
            f"no remote has archive {name}, of which a copy lies here. Nothing was removed.",
            hint="Keep what it holds here: memlake archive --back",
        )
    archives.close()
    for file in here:
        archive.copy_of(history.db, file).unlink(missing_ok=True)
    return Archived(commits=sum(file.commits for file in here), bytes=sum(file.size for file in here))
