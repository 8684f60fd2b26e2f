"""Results: answers of functions that travel to and from remotes that are trusted for it. Off unless a person says so.

A file of results is a head, whose hash is its name, and the parts it brings:

    head = MLRESLT1 | zstd frame of msgpack [1, repo id, shards, parts]
    shards = [[key, function, family, rows, seconds, fields, row keys], ...]      as in datasets.db
    parts = [[oid, size, whether it lies behind the head], ...]       the others are there because a version has them

Only the head and the parts that are wanted are read. Nobody can tell whether an answer is right without calling the
function, so bytes are checked and the rest is trusted, and a remote that is not trusted is not even asked.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import uuid
from collections.abc import Callable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, Any

import msgpack
import zstandard

from memlake import dataset, nofollow
from memlake.dataset import feedback
from memlake.dataset.memo.results import Shard
from memlake.errors import Corrupt, Error, NotFound, Purged
from memlake.named_tuple import NamedTuple
from memlake.objects import disk
from memlake.objects import tables as object_tables
from memlake.objects.leases import Lease
from memlake.objects.packs import PART
from memlake.objects.store import part_name
from memlake.objects.swap import Moved
from memlake.repo.remotes import KNOWN
from memlake.versions.sync.batch import part_path
from memlake.versions.sync.root import ResultFile, Root

if TYPE_CHECKING:
    from memlake.repo.repo import Repo
    from memlake.versions.sync.fetch import Link
    from memlake.versions.sync.remote import State

MAGIC = b"MLRESLT1"
FORMAT = 1
_KEY = 16  # bytes of a key
_LARGEST = 64 << 20  # bytes of a file that may have more than one answer, and of any head
_BLOCK = 4 << 20
_TRIES = 20


class Part(NamedTuple):
    oid: bytes
    size: int
    is_here: bool  # behind the head


def share(act: Callable[[Repo, Link], int], repo: Repo, link: Link) -> int:
    """Send or take results after the push or fetch, which is done: what goes wrong here is said, and no more."""
    try:
        return act(repo, link)
    except Error as error:
        text = error.message.removesuffix(" Nothing was changed.")
        feedback.warn(f"results of functions were not shared with {link.remote.name}: {text} The rest is done.")
        return 0


# -- sending -------------------------------------------------------------------------------------------


def send(repo: Repo, link: Link) -> int:
    """Store the answers there that the remote lacks; returns how many. Asks nothing if it is known to have all."""
    root = link.mirror.root()
    if root is None or not (repo.dir / dataset.RECALL).exists() or not _list_new(repo, link, root):
        return 0
    stored, sweeps = dict[str, ResultFile](), 0
    lease = Lease(repo._history.db, "push")
    try:
        for _ in range(_TRIES):
            state = link.remote.load()
            if state is None or not _obeys(repo, state.root):
                return 0  # what was purged there comes first: the next fetch or push sees to it
            state = link.remote.delete_doomed(state)  # before anything is listed
            if state.root.sweeps != sweeps:
                stored, sweeps = {}, state.root.sweeps  # what we stored may have been deleted
            _take(repo, link, state.root)
            shards = _list_new(repo, link, state.root)
            files = [(_store(repo, link, group, stored), group) for group in _group(repo, shards)]
            if not files or _swap(repo, link, state, [file for file, _ in files]):
                for file, group in files:
                    _note(link, file, [shard.key for shard in group])
                return len(shards)
            disk.step("sending results lost a race")
    finally:
        with contextlib.suppress(Error):
            lease.close()
    return 0  # others were faster each time: the next push sends them


def count_unsent(repo: Repo, link: Link) -> int:
    """How many answers a push would send, as far as is known here."""
    if not (repo.dir / dataset.RECALL).exists():
        return 0
    root = link.mirror.root()
    return len(_list_new(repo, link, root) if root else repo._rows().recall.list_shards())


def _obeys(repo: Repo, root: Root) -> bool:
    known = {oid.hex() for _, _, oid in object_tables.list_purges(repo._history.db)}
    return known >= set(root.purges)


def _list_new(repo: Repo, link: Link, root: Root) -> list[Shard]:
    known = set[bytes]()
    for file in root.results:
        known |= _read_keys(link, file) or set()
    return [shard for shard in repo._rows().recall.list_shards() if shard.key not in known]


def _group(repo: Repo, shards: Sequence[Shard]) -> Iterator[list[Shard]]:
    """Answers cut into files that are not too large."""
    group, size = list[Shard](), 0
    sizes = repo._history.objects.sizes(shard.part for shard in shards)
    for shard in shards:
        more = sizes.get(shard.part, 0) + len(shard.fields) + len(shard.row_keys or b"") + 200
        if group and size + more > _LARGEST:
            yield group
            group, size = [], 0
        group.append(shard)
        size += more
    if group:
        yield group


def _store(repo: Repo, link: Link, shards: Sequence[Shard], stored: dict[str, ResultFile]) -> ResultFile:
    """Write a file of results and store it, unless an attempt before this one did."""
    objects = repo._history.objects
    oids = list(dict.fromkeys(bytes.fromhex(shard.part) for shard in shards))
    held = link.mirror.list_held(oids, 0)
    parts = [Part(oid, objects.size(oid.hex()), oid not in held) for oid in oids]
    head = encode_head(objects.repo, shards, parts)
    name = hashlib.sha256(head).hexdigest()
    if name not in stored:
        file = objects.tmp / f"{os.urandom(16).hex()}.pack"
        with disk.named_errors(f"writing {file}"):
            with open(nofollow.open_file(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL), "wb") as stream:
                stream.write(head)
                for part in (part for part in parts if part.is_here):
                    for at in range(0, part.size, _BLOCK):
                        stream.write(objects.parts.get(part_name(part.oid), at, min(_BLOCK, part.size - at)))
            size = file.stat().st_size
        try:
            link.remote.place.put(f"results/{name}", file)
        finally:
            file.unlink(missing_ok=True)
        stored[name] = ResultFile(name, size, len(head))
    return stored[name]


def _swap(repo: Repo, link: Link, state: State, files: Sequence[ResultFile]) -> bool:
    disk.step("results are stored and not listed")
    names = {file.name for file in files}
    root = state.root._replace(
        generation=state.root.generation + 1,
        token=os.urandom(16).hex(),
        results=(*(file for file in state.root.results if file.name not in names), *files),
    )
    try:
        swapped = link.remote.swap(root, state)
    except Moved:
        return False
    link.remote.keep_copy(swapped, repo._history.objects.tmp)
    with link.mirror.learning(root, swapped.data, swapped.tag if link.mirror.tag() == state.tag else None):
        pass
    return True


# -- taking --------------------------------------------------------------------------------------------


def take(repo: Repo, link: Link) -> int:
    """What the root that was read last lists."""
    return _take(repo, link, link.mirror.root())


def _take(repo: Repo, link: Link, root: Root | None) -> int:
    """Remember the answers that a remote has and we lack; returns how many. What is damaged is left out, and said."""
    taken = 0
    for file in root.results if root else ():
        if _read_keys(link, file) is None:
            shards, parts = list[Shard](), list[Part]()
            with _leaving_out():
                data = link.remote.get_bytes(f"results/{file.name}", _check_head(file))
                shards, parts = decode_head(data, repo._id)
            taken += _keep(repo, link, file, shards, parts)
            _note(link, file, [shard.key for shard in shards])
    return taken


@contextlib.contextmanager
def _leaving_out() -> Iterator[None]:
    """Go on without what is gone or damaged: it is computed where it is needed."""
    try:
        yield
    except (NotFound, Purged):
        pass
    except Corrupt as error:
        text = error.message.removesuffix(" Nothing was changed.")
        feedback.warn(f"{text} That result is left out, and the function is called again where it is needed.")


def _check_head(file: ResultFile) -> int:
    if not len(MAGIC) < file.head <= min(file.size, _LARGEST):
        raise Corrupt(f"results/{file.name[:10]} has a head of {file.head:,} bytes, which it cannot have.")
    return file.head


def _keep(repo: Repo, link: Link, file: ResultFile, shards: Sequence[Shard], parts: Sequence[Part]) -> int:
    """Bring the parts of answers that we lack, and remember those whose parts came and are what they say."""
    memo, objects = repo._rows().recall, repo._history.objects
    fresh = [shard for shard in shards if not memo.has_shard(shard.key)]
    wanted = {shard.part for shard in fresh}
    wanted -= objects.find_purged(wanted)
    lacking, at, taken = objects.find_missing(wanted), file.head, 0
    lease = Lease(repo._history.db, "fetch")
    try:
        for part in parts:
            is_wanted = part.oid.hex() in lacking and (link.wanted.below is None or part.size < link.wanted.below)
            if is_wanted:
                where = (f"results/{file.name}", at) if part.is_here else (_find_part(link, part.oid), 0)
                with _leaving_out():
                    _bring(repo, link, part, *where)
            at += part.size if part.is_here else 0
        there = wanted - objects.find_missing(wanted)
        for shard in fresh:
            if shard.part in there:
                with _leaving_out():
                    memo.keep_shard(shard)
                    taken += 1
    finally:
        with contextlib.suppress(Error):
            lease.close()
    return taken


def _find_part(link: Link, oid: bytes) -> str:
    """Where a part lies there that a version has, too."""
    sweeps = next((held.start for held in link.mirror.find([oid]) if held.form == PART), 0)
    return part_path(oid, sweeps)


def _bring(repo: Repo, link: Link, part: Part, name: str, start: int) -> None:
    """One part, from inside a file of results or from its own, compared with its hash before it gets its place."""
    objects, digest = repo._history.objects, hashlib.sha256()
    file = objects.tmp / f"{os.urandom(16).hex()}.pack"
    try:
        with (
            disk.named_errors(f"writing {file}"),
            open(nofollow.open_file(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL), "wb") as stream,
        ):
            for at in range(0, part.size, _BLOCK):
                data = link.remote.place.get(name, start + at, min(_BLOCK, part.size - at))
                digest.update(data)
                stream.write(data)
        if digest.digest() != part.oid:
            raise Corrupt(f"part {part.oid.hex()[:10]} of {name[:18]} in {link.remote.url} does not match its hash.")
        objects.write_part(file)
    finally:
        file.unlink(missing_ok=True)


# -- what is known of the files there ------------------------------------------------------------------


def _read_keys(link: Link, file: ResultFile) -> AbstractSet[bytes] | None:
    """The keys in a file of results that was looked into; None for one that was not."""
    try:
        data = (link.folder / KNOWN / file.name).read_bytes()
    except FileNotFoundError:
        return None
    return {data[at : at + _KEY] for at in range(0, len(data), _KEY)}


def _note(link: Link, file: ResultFile, keys: Sequence[bytes]) -> None:
    nofollow.make_folder(link.folder / KNOWN)
    disk.write_file(link.folder / KNOWN / f"{file.name}~", b"".join(keys))
    disk.rename(link.folder / KNOWN / f"{file.name}~", link.folder / KNOWN / file.name)


# -- the head ------------------------------------------------------------------------------------------


def encode_head(repo_id: str, shards: Sequence[Shard], parts: Sequence[Part]) -> bytes:
    fields = [FORMAT, uuid.UUID(repo_id).bytes, [list(shard) for shard in shards], [list(part) for part in parts]]
    return MAGIC + zstandard.ZstdCompressor(level=6).compress(msgpack.packb(fields))


def decode_head(data: bytes, repo_id: str) -> tuple[list[Shard], list[Part]]:
    """What somebody sent, every value of it of its type, or Corrupt."""
    try:
        if not data.startswith(MAGIC):
            raise ValueError("it is not a file of results")
        size = zstandard.frame_content_size(data[len(MAGIC) :])
        if not 0 <= size <= _LARGEST:
            raise ValueError(f"its head claims to unpack to {size:,} bytes; at most {_LARGEST:,} are read")
        raw = zstandard.ZstdDecompressor().decompress(data[len(MAGIC) :], max_output_size=size)
        format_, repo, rows, brought = msgpack.unpackb(raw, strict_map_key=True)
        if format_ != FORMAT or repo != uuid.UUID(repo_id).bytes:
            raise ValueError("it has another format or belongs to another repo")
        shards, parts = [Shard(*row) for row in rows], [Part(*row) for row in brought]
        for part in parts:
            _check_types(part, (bytes, int, bool))
            if len(part.oid) != 32 or part.size < 0:
                raise ValueError("one of its parts is none")
        for shard in shards:
            _check_types(shard, (bytes, bytes, bytes, int, float, bytes, (bytes, type(None))))
            if len(shard.key) != _KEY or len(bytes.fromhex(shard.part)) != 32:
                raise ValueError("one of its keys is none")
    except (zstandard.ZstdError, ValueError, TypeError, KeyError, RecursionError, msgpack.UnpackException) as error:
        raise Corrupt(f"a file of results cannot be read: {error}.") from error
    return shards, parts


def _check_types(row: Sequence[Any], types: Sequence[Any]) -> None:
    for value, kind in zip(row, types, strict=True):
        if not (isinstance(value, kind) and isinstance(value, bool) <= (kind is bool)):
            raise ValueError(f"{value!r:.80} is of the wrong type")
