"""Fetch: what a remote has and we lack, taken in, and the refs that follow it. Moves no branch, writes no file."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from memlake.collector import pause_gc
from memlake.errors import Corrupt, Denied, InvalidInput, NotFound, pasted
from memlake.named_tuple import NamedTuple
from memlake.objects import tables as object_tables
from memlake.objects.leases import Lease
from memlake.objects.purge import PurgeRecord, decode_purge
from memlake.objects.swap import Same
from memlake.records import Lane, short
from memlake.versions import tables
from memlake.versions.history import refs
from memlake.versions.history.commits import History
from memlake.versions.sync import receive
from memlake.versions.sync.batch import Batch
from memlake.versions.sync.mirror import Mirror
from memlake.versions.sync.receive import Wanted
from memlake.versions.sync.remote import Progress, Remote, State
from memlake.versions.sync.root import LogFile, RefKey, Root, Target
from memlake.versions.sync.take_in import Taker

_LARGEST_PURGE = 16 << 20
Obey = Callable[[PurgeRecord], object]


class Link(NamedTuple):
    """A remote as a repo knows it: where it is, what is known of it, what is wanted, the folder of its files here."""

    remote: Remote
    mirror: Mirror
    wanted: Wanted
    folder: Path


class RefChange(NamedTuple):
    """A ref of a remote that names something else now: by lane, what it named and names."""

    kind: int
    name: str
    old: Target | None
    new: Target | None


class Fetched(NamedTuple):
    remote: str
    url: str
    changes: tuple[RefChange, ...] = ()
    commits: int = 0
    objects: int = 0
    size: int = 0  # bytes that came
    purged: tuple[PurgeRecord, ...] = ()
    kept_tags: tuple[str, ...] = ()  # that name something else here
    results: int = 0  # answers of functions that came
    requests: int = 0  # to a bucket, that this takes

    @property
    def up_to_date(self) -> bool:
        return not (self.changes or self.commits or self.purged or self.results)


def fetch(
    history: History, link: Link, obey: Obey, progress: Progress | None = None, *, dry_run: bool = False
) -> Fetched:
    """Bring what is new. `obey` erases here what was purged elsewhere; it is called before anything is taken in."""
    remote, mirror = link.remote, link.mirror
    found = Fetched(remote.name, remote.url)
    try:
        state = remote.load(mirror.tag())
    except Same:
        return found
    if state is None:
        state = remote.get_root(mirror.root())  # raises
    purged: tuple[PurgeRecord, ...] = ()
    while True:
        check_repo(history, remote, state.root, mirror.root())
        check_needs(history, remote, state.root)
        purged += obey_purges(history, remote, state.root, obey, dry_run=dry_run)
        try:
            with pause_gc():
                return _take_in(history, link, state, found._replace(purged=purged), progress, dry_run=dry_run)
        except NotFound:  # a file that was joined or collected since
            newer = remote.get_root()
            if newer.root.generation <= state.root.generation:
                raise
            state = newer


def check_repo(history: History, remote: Remote, root: Root, before: Root | None) -> None:
    """Refuse a remote of another repo, and one that went back to an earlier state."""
    check_state(history.objects.repo, remote, root, before)
    if bytes.fromhex(root.salt) != history.salt:
        raise Corrupt(f"{remote.url} has the id of this repo but another salt. Nothing was changed.")


def check_state(repo: str, remote: Remote, root: Root, before: Root | None) -> None:
    """The same, where only the id of the repo is known."""
    if root.repo != repo:
        raise Denied(
            f"{remote.url} holds another repo ({root.repo}); this one is {repo}. Nothing was changed.",
            hint=f"Clone it into a folder of its own: memlake clone {pasted(remote.url)} FOLDER",
        )
    if before is not None and root.generation < before.generation:
        raise Corrupt(
            f"{remote.url} went back from state {before.generation} to {root.generation}, as after a restore of an old "
            "copy. Nothing was changed.",
            hint=f"If that was meant, forget what is known of it: memlake remote refresh {pasted(remote.name)}",
        )


def check_needs(history: History, remote: Remote, root: Root) -> None:
    """Refuse a bundle whose beginning is not here."""
    missing = [oid for oid in root.needs if not history.has(oid)]
    if missing:
        raise InvalidInput(
            f"{remote.url} begins after commit {short(missing[0])}, which is not in this repo. Nothing was changed.",
            hint=f"Ask for one of the whole history: memlake bundle create {pasted(Path(remote.url).name)}",
        )


def obey_purges(
    history: History, remote: Remote, root: Root, obey: Obey, *, dry_run: bool = False
) -> tuple[PurgeRecord, ...]:
    """Erase here what was purged elsewhere. Returns the records that were new."""
    known = {oid.hex() for _, _, oid in object_tables.list_purges(history.db)}
    records = []
    for name in root.purges:
        if name not in known:
            size = remote.place.size(f"purges/{name}")
            if size > _LARGEST_PURGE:
                raise Corrupt(f"purges/{name[:10]} of {remote.url} has {size:,} bytes, which is too many.")
            record = decode_purge(remote.get_bytes(f"purges/{name}", size))
            if record.repo != history.objects.repo:
                raise Corrupt(f"purges/{name[:10]} of {remote.url} belongs to another repo. Nothing was changed.")
            if not dry_run:
                obey(record)
            records.append(record)
    return tuple(records)


def look_again(link: Link, root: Root) -> None:
    """Learn where everything lies now, as somebody rewrote or deleted files. Takes nothing in."""
    incoming = link.folder / "incoming"

    def read(files: Sequence[LogFile]) -> Iterator[tuple[LogFile, Batch]]:
        incoming.mkdir(parents=True, exist_ok=True)
        return receive.read_batches(link.remote, files, root.repo, incoming)

    link.mirror.look_again(root, read)


def _take_in(
    history: History, link: Link, state: State, found: Fetched, progress: Progress | None, *, dry_run: bool
) -> Fetched:
    remote, mirror, wanted = link.remote, link.mirror, link.wanted
    root = state.root
    mirror.follow_joins(root)
    known = mirror.list_taken()
    files = [file for file in root.log if f"log/{file.name}" not in known and (wanted.memories or file.lane == 0)]
    incoming = link.folder / "incoming"
    incoming.mkdir(parents=True, exist_ok=True)
    lease = Lease(history.db, "fetch")
    try:

        def read(some: Sequence[LogFile]) -> Iterator[tuple[LogFile, Batch]]:
            return receive.read_batches(remote, some, root.repo, incoming)

        planned = receive.plan(history.objects, files, read, root, wanted)
        asked = 1 + len(found.purged) * 2 + planned.requests + sum(remote.count_gets(file.size) for file in files)
        found = found._replace(
            size=planned.size + sum(file.size for file in files), requests=asked if remote.is_bucket else 0
        )
        if dry_run:
            return found._replace(commits=sum(file.commits for file in files))
        made = receive.bring(history.objects, remote, planned, progress)
        with mirror.learning(root, state.data, state.tag) as learn, history.db.write():
            lease.check()
            taker = Taker(history, planned, made)
            for file, batch in read(files):
                learn(file.name, file.size, batch, taker.add(batch, memories=wanted.memories))
                del batch  # before the next one is read
            taker.finish()
            changes, kept = _track(history, remote.name, root, wanted)
        history.forget()
    finally:
        with contextlib.suppress(Exception):
            lease.close()
    for file in files:
        (incoming / file.name).unlink(missing_ok=True)
    return found._replace(commits=taker.commits, objects=taker.objects, changes=changes, kept_tags=kept)


def _track(history: History, name: str, root: Root, wanted: Wanted) -> tuple[tuple[RefChange, ...], tuple[str, ...]]:
    """Let our refs follow those of the remote. A tag that is here and names something else stays."""
    for key, target in root.refs.items():
        _check_target(history, key, target, wanted)
        if target.note:
            refs.decode_tag_note(bytes.fromhex(target.note))
    old = list_tracked(history, name)
    new = {
        branch: target if wanted.memories else target._replace(memory=None)
        for (kind, branch), target in root.refs.items()
        if kind == refs.BRANCH
    }
    changes = []
    for branch in sorted(old.keys() | new.keys()):
        before, after = old.get(branch), new.get(branch)
        if before != after:
            track(history, f"{name}/{branch}", before, after, action=f"fetch {name}")
            changes.append(RefChange(refs.BRANCH, branch, before, after))
    kept = []
    for (kind, tag), target in root.refs.items():
        if kind == refs.TAG and target.work:
            held = refs.find(history.db, tag, refs.TAG)
            if held is None:
                note = bytes.fromhex(target.note) if target.note else None
                heads: refs.Heads = {"work": target.work, "memory": target.memory if wanted.memories else None}
                refs.create(history, tag, heads, kind=refs.TAG, action=f"fetch {name}", who="", note=note)
                changes.append(RefChange(refs.TAG, tag, None, target))
            elif held["work"] != target.work:
                kept.append(tag)
    return tuple(changes), tuple(kept)


def list_tracked(history: History, remote: str) -> Mapping[str, Target]:
    """What the branches of a remote named when it was last asked."""
    start = f"{remote}/"
    return {
        name.removeprefix(start): Target(work.hex() if work else None, memory.hex() if memory else None)
        for name, work, memory, _ in tables.list_refs(history.db, refs.REMOTE)
        if name.startswith(start)
    }


def rename_tracked(history: History, old: str, new: str | None) -> None:
    """Let the refs that follow a remote have its new name; without one, forget them."""
    with history.db.write():
        for branch, target in list_tracked(history, old).items():
            track(history, f"{old}/{branch}", target, None, action=f"remote {old} renamed or removed")
            if new is not None:
                track(history, f"{new}/{branch}", None, target, action=f"remote renamed from {old}")


def track(history: History, name: str, old: Target | None, new: Target | None, *, action: str) -> None:
    """Let our ref of a remote's branch, as in `origin/main`, name what that names now. Call inside a write."""
    heads: list[refs.Heads | None] = [
        None if target is None else {"work": target.work, "memory": target.memory} for target in (old, new)
    ]
    refs.follow(history, name, *heads, action=action)


def _check_target(history: History, key: RefKey, target: Target, wanted: Wanted) -> None:
    """A ref must name commits that came with it, each of its lane."""
    lanes: tuple[tuple[Lane, str | None], ...] = (("work", target.work), ("memory", target.memory))
    for lane, oid in lanes:
        if oid is None or (lane == "memory" and not wanted.memories):
            continue
        row = tables.find_lane(history.db, bytes.fromhex(oid))
        if row is None or row[1] != (lane == "memory"):
            raise Corrupt(f"{key[1]!r} of the remote names commit {oid[:10]}, which it does not have there.")
