"""gc of a remote: what none of its refs reaches. Needs no leases, because all is decided by the swap of its root.

Phase one swaps a root that no longer lists the garbage and condemns its files, with the time. Phase two, a grace period
later, dooms and deletes them; whoever began to read before phase one is done by then. A push whose swap comes second
looks at the new root: it lists a condemned file again, or sends anew what is gone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet

from memlake.errors import Error, Unavailable, pasted
from memlake.named_tuple import NamedTuple
from memlake.objects.chunks import decode_list
from memlake.objects.layout import now
from memlake.objects.packs import CHUNKED, DELTA, LOG, PART
from memlake.objects.swap import Moved
from memlake.versions.history.commits import History
from memlake.versions.sync.batch import Batch
from memlake.versions.sync.fetch import Link, Obey, check_repo, obey_purges
from memlake.versions.sync.remote import TRIES
from memlake.versions.sync.rewrite import Rewriter, list_links, oid_of, read_bases, read_there, strip
from memlake.versions.sync.root import Root, doom, is_path
from memlake.versions.trees import codec

_HOUR = 3_600_000_000


class GarbageFile(NamedTuple):
    """A file of a remote that no ref of it needs, and since when that is known."""

    path: str
    size: int
    since: int


class RemoteGc(NamedTuple):
    """What a gc of a remote did, or would do."""

    remote: str
    url: str
    dry_run: bool
    condemned: tuple[GarbageFile, ...] = ()  # wait for the grace period
    deleted: tuple[GarbageFile, ...] = ()
    commits: int = 0  # that no ref reaches
    paths: tuple[str, ...] = ()  # that only those commits hold in these versions
    branches: tuple[str, ...] = ()  # that once named those commits
    newest: int | None = None  # when the last of those commits was made


class Policy(NamedTuple):
    dry_run: bool = False
    grace_hours: float = 24


class _Live(NamedTuple):
    """What the refs of a remote need."""

    commits: set[bytes]
    objects: set[bytes]
    packs: set[str]


def collect(history: History, link: Link, policy: Policy, obey: Obey) -> RemoteGc:
    """Condemn what no ref of the remote reaches, and delete what was condemned a grace period ago."""
    remote, left = link.remote, set[str]()
    for _ in remote.attempts():
        state = remote.get_root(link.mirror.root())
        check_repo(history, remote, state.root, link.mirror.root())
        obey_purges(history, remote, state.root, obey, dry_run=policy.dry_run)
        if not policy.dry_run:
            state = remote.delete_doomed(state)
        rewriter = Rewriter(history.objects, link, state.root)
        live = _find_live(history, link, rewriter, state.root)
        report = _describe(link, rewriter, live, policy)
        garbage, kept_parts = _strip_batches(rewriter, live, dry_run=policy.dry_run)
        garbage |= {f"packs/{pack.name}" for pack in state.root.packs if pack.name not in live.packs}
        rewriter.gone_packs |= {pack.name for pack in state.root.packs if pack.name not in live.packs}
        sizes = {path: size for path, size in _list_files(link) if path not in kept_parts}
        listed = state.root.paths() | rewriter.stored
        garbage |= {path for path in sizes if path not in listed}  # left by a push that died
        moment = now()  # once: a clock that is set back meanwhile must not save what is to go at once
        since = {path: min(state.root.condemned.get(path, moment), moment) for path in garbage & sizes.keys()}
        over = {path for path, time in since.items() if time <= moment - int(policy.grace_hours * _HOUR)}
        files = [GarbageFile(path, sizes[path], time) for path, time in sorted(since.items())]
        report = report._replace(
            condemned=tuple(file for file in files if file.path not in over),
            deleted=tuple(file for file in files if file.path in over),
        )
        condemned = {path: time for path, time in since.items() if path not in over}
        root = rewriter.next_root(state.root)._replace(condemned=condemned)
        if policy.dry_run or doom(root, over) == state.root:
            return report
        try:
            rewriter.swap(root, state, over | left)
        except Moved:
            left |= rewriter.stored
            continue
        return report
    raise Unavailable(
        f"{remote.url} was changed by others {TRIES} times while its garbage was looked for. Nothing was deleted.",
        hint=f"Run it again: memlake remote gc {pasted(remote.name)}",
    )


def _list_files(link: Link) -> Iterator[tuple[str, int]]:
    for folder in ("log/", "packs/", "parts/", "archives/"):
        yield from ((path, size) for path, size, _ in link.remote.place.list(folder) if is_path(path))


def _strip_batches(rewriter: Rewriter, live: _Live, *, dry_run: bool) -> tuple[set[str], set[str]]:
    """Rewrite batches without what is not needed. Returns paths that are garbage then, and of parts that stay."""
    garbage, kept, dead = set[str](), set[str](), set[str]()
    for file, batch in rewriter.read():
        unneeded = {oid for oid in _list_own(batch) if oid not in live.objects}
        gone = {pack.name: () for pack in batch.packs if pack.name not in live.packs}
        stripped = strip(batch, unneeded, gone)
        stripped = stripped._replace(commits=[data for data in batch.commits if oid_of(data) in live.commits])
        kept |= {part.path for part in stripped.parts}
        dead |= {part.path for part in batch.parts}
        if unneeded or gone or len(stripped.commits) < len(batch.commits):
            garbage.add(f"log/{file.name}")
            if not dry_run:
                rewriter.replace([file], stripped)
    return garbage | (dead - kept), kept


def _list_own(batch: Batch) -> Iterator[bytes]:
    """The objects that a batch holds or tells of, but for those in packs."""
    yield from (oid_of(one.content) for one in batch.objects)
    yield from (one.oid for one in batch.lists)
    yield from (one.oid for one in batch.parts)


# -- what is needed ----------------------------------------------------------------------------------


def _find_live(history: History, link: Link, rewriter: Rewriter, root: Root) -> _Live:
    """Commits behind the refs and all they need. Of a pack that stays all counts, as whoever pushes relies on it."""
    parents = {oid_of(data): [*codec.unpack(data)[3]] for _, batch in rewriter.read() for data in batch.commits}
    heads = [bytes.fromhex(oid) for target in root.refs.values() for oid in (target.work, target.memory) if oid]
    commits = _walk(heads, parents) & parents.keys()
    objects = set[bytes]()
    for _, batch in rewriter.read():
        for data in batch.commits:
            if oid_of(data) in commits:
                objects |= _list_named(history, link, rewriter, data)
    needs, packs = _list_needs(link, rewriter, root)
    live = set[str]()
    while True:
        objects = _walk(objects, needs)
        more = {name for name, held in packs.items() if name not in live and not held.isdisjoint(objects)}
        if not more:
            return _Live(commits, objects, live)
        live |= more
        for name in more:
            objects |= packs[name]


def _walk(begin: Iterable[bytes], edges: Mapping[bytes, Iterable[bytes]]) -> set[bytes]:
    found, waiting = set[bytes](), list(begin)
    while waiting:
        oid = waiting.pop()
        if oid not in found:
            found.add(oid)
            waiting.extend(edges.get(oid, ()))
    return found


def _list_named(history: History, link: Link, rewriter: Rewriter, data: bytes) -> set[bytes]:
    """The objects that a commit names: what it brought, and its notes."""
    fields = codec.unpack(data)
    changes, meta = fields[8], fields[9]
    if changes is None and "changes" in meta:
        changes = codec.unpack(_read(history, link, rewriter, meta["changes"]) or b"\x90")
    return {*meta.values(), *(new[:32] for _, _, new in changes or () if new is not None)}


def _read(history: History, link: Link, rewriter: Rewriter, oid: bytes) -> bytes | None:
    """A list of changes, ours or from there; None if it was purged."""
    if history.objects.find_purged([oid.hex()]):
        return None
    try:
        return history.objects.read(oid.hex())
    except Error:
        return read_there(link, rewriter.read, oid)


def _list_needs(link: Link, rewriter: Rewriter, root: Root) -> tuple[dict[bytes, list[bytes]], dict[str, set[bytes]]]:
    """What each object needs that needs any: links, chunks, the base of a delta. And what each pack holds."""
    needs: dict[bytes, list[bytes]] = {}
    packs: dict[str, set[bytes]] = {}
    listed = {pack.name for pack in root.packs}

    def add(oid: bytes, more: Iterable[bytes]) -> None:
        if found := list(more):
            needs.setdefault(oid, []).extend(found)

    for _, batch in rewriter.read():
        for small in batch.objects:
            add(oid_of(small.content), list_links(small.links))
        for one in batch.lists:
            add(one.oid, [*list_links(one.links), *(chunk for chunk, _ in decode_list(one.oid, one.data))])
        for part in batch.parts:
            add(part.oid, list_links(part.links))
        for pack in (pack for pack in batch.packs if pack.name in listed and pack.name not in packs):
            records = [r for r in pack.read().records if r.role != LOG and r.form not in (CHUNKED, PART)]
            packs[pack.name] = {record.oid for record in records}
            for record in records:
                add(record.oid, list_links(record.links))
            deltas = [record for record in records if record.form == DELTA]
            for record, base in zip(deltas, read_bases(link, pack, deltas), strict=True):
                add(record.oid, [base])
    return needs, packs


# -- what is told ------------------------------------------------------------------------------------


def _describe(link: Link, rewriter: Rewriter, live: _Live, policy: Policy) -> RemoteGc:
    """Which paths and branches the commits held that no ref reaches."""
    paths, branches, times, dead = set[str](), set[str](), list[int](), set[bytes]()
    moved: list[tuple[str, bytes | None]] = []
    for _, batch in rewriter.read():
        moved += [(move.name, oid) for move in batch.moves for oid in (move.old, move.new)]
        for data in batch.commits:
            if oid_of(data) not in live.commits:
                dead.add(oid_of(data))
                fields = codec.unpack(data)
                times.append(fields[6])
                paths |= {path for path, _, new in fields[8] or () if _is_gone(new, live.objects)}
    branches = {name for name, oid in moved if oid in dead}
    return RemoteGc(
        link.remote.name, link.remote.url, policy.dry_run, commits=len(dead), paths=tuple(sorted(paths)),
        branches=tuple(sorted(branches)), newest=max(times, default=None),
    )  # fmt: skip


def _is_gone(new: bytes | None, objects: AbstractSet[bytes]) -> bool:
    return new is not None and new[:32] not in objects
