"""Push: what we have and a remote lacks, stored there, and its refs moved. Files first, then one swap of the root.

A push that dies leaves files that no root names; the next one finds them there. Of two pushers to different branches
the second joins its lists with those of the first; to the same branch it is refused. A swap whose answer was lost is
looked up by the last batch, which has a token of its own: nothing is guessed.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import uuid
from array import array
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import groupby
from pathlib import Path

from memlake.errors import Conflict, Error, NotFound, Unavailable, pasted
from memlake.named_tuple import NamedTuple
from memlake.objects import disk
from memlake.objects.bucket import count_puts
from memlake.objects.layout import now
from memlake.objects.leases import Lease
from memlake.objects.purge import PurgeRecord, decode_purge
from memlake.objects.swap import Moved
from memlake.records import Lane, short
from memlake.versions import tables
from memlake.versions.history import refs
from memlake.versions.history.bases import is_ancestor
from memlake.versions.history.commits import History
from memlake.versions.sync.batch import Batch, RefMove, decode_batch
from memlake.versions.sync.collect import KeptBatch, Sending, collect, keep_batch, list_new_commits, open_scratch
from memlake.versions.sync.fetch import Link, RefChange, check_repo, list_tracked, look_again, obey_purges, track
from memlake.versions.sync.join import join
from memlake.versions.sync.join import plan as plan_joins
from memlake.versions.sync.purges import Erased, list_unsent, send_purges
from memlake.versions.sync.remote import TRIES, Progress, State
from memlake.versions.sync.root import RefKey, Root, Target, doom, mark_of
from memlake.versions.sync.upload import Upload
from memlake.versions.trees.codec import LANES
from memlake.versions.upkeep.gc import changes_in

_HOUR = 3_600_000_000
_MANY_WAIT = 500  # condemned files, from which on they wait for an hour: each makes the root 90 bytes larger
_AT_ONCE = 4000  # commits that are read at once to be described
_JOINED = 1 << 20  # bytes up to which moves of refs go into the last batch; they need one of their own beyond
Obey = Callable[[PurgeRecord], object]


class Request(NamedTuple):
    """What a person asks for: refs to send as (kind, name), refs to delete there, and how far to insist."""

    remote: str
    refs: Sequence[RefKey]
    delete: Sequence[RefKey] = ()
    memories: bool = True
    force: bool = False
    lease: Mapping[str, str | None] | None = None  # branch -> the commit that must be there still
    grace_hours: float = 24  # for which files stay that are not listed any more


class Pushed(NamedTuple):
    remote: str
    url: str
    changes: tuple[RefChange, ...] = ()
    commits: int = 0
    objects: int = 0
    size: int = 0  # bytes that went, or would go
    files: int = 0  # files that were stored
    is_first: bool = False
    rooms: Mapping[str, int] = {}
    erased: Erased = Erased()  # what was purged here and is erased there now
    purged: tuple[PurgeRecord, ...] = ()  # what was purged there and is erased here now
    results: int = 0  # answers of functions that went
    requests: int = 0  # of a bucket, that these files take, the root with its copy, and what is asked before

    @property
    def up_to_date(self) -> bool:
        return not (self.changes or self.erased.records or self.results)


class _Work(NamedTuple):
    """One attempt: the root it starts from, what it sends, the refs it leaves."""

    before: State | None
    sendings: Sequence[Sending]
    changes: Sequence[RefChange]
    seqs: Sequence[int]


def push(
    history: History, link: Link, request: Request, obey: Obey, progress: Progress | None = None, *,
    dry_run: bool = False, who: str = "",
) -> Pushed:  # fmt: skip
    """Send refs and all they need. What was purged there is erased here by `obey`, and what was purged here there; that
    comes first."""
    upload, purged = Upload(history.objects, link.remote, progress), list[PurgeRecord]()

    def erase(record: PurgeRecord) -> None:
        obey(record)
        purged.append(record)

    lease = Lease(history.db, "push")  # gc must not join a pack while it is sent
    try:
        erased = _erase(history, link, erase, dry_run=dry_run)
        for attempt in link.remote.attempts():
            with open_scratch(history.objects) as folder:
                work = _prepare(history, link, request, erase, None if dry_run else folder)
                done = _describe(history, link, work)._replace(erased=erased, purged=tuple(purged))
                if not work.changes:
                    return done._replace(files=0)
                if dry_run:
                    return done
                batches = _finish_batches(history, work, folder, who)
                upload.send(work.sendings, batches)
                before, over = _join(history, link, work, upload, request.grace_hours)
                after = _next_root(history, work, before, batches, upload.stored | over)
                state = _swap(link, work, after, batches)
                if state is not None:
                    _note(history, link, state, work, batches)
                    _clean_up(history, link, state, obey, is_first=done.is_first)
                    return done._replace(files=len(upload.stored) + 1)
            disk.step(f"push lost a race ({attempt})")
    finally:
        with contextlib.suppress(Exception):
            lease.close()
    raise Unavailable(
        f"{link.remote.url} was changed by others {TRIES} times while this was being pushed. What was sent is kept "
        "there.",
        hint=f"Run it again: memlake push {pasted(link.remote.name)}",
    )


def _erase(history: History, link: Link, obey: Obey, *, dry_run: bool) -> Erased:
    """Erase there what was purged here. Nothing is asked of the remote if it is known to have the records."""
    unsent = list_unsent(history, link.mirror.root())
    if dry_run:
        return Erased(tuple(map(decode_purge, unsent.values())) if link.mirror.root() else ())
    return send_purges(history, link, obey) if unsent else Erased()


def _clean_up(history: History, link: Link, state: State, obey: Obey, *, is_first: bool) -> None:
    """Tell a new remote what may never come back, and delete what attempts before this one left there."""
    if is_first and list_unsent(history, state.root):
        send_purges(history, link, obey)
    with contextlib.suppress(Error):  # the push is done; the next one or a gc deletes them
        link.remote.delete_doomed(state)


def _prepare(history: History, link: Link, request: Request, obey: Obey, folder: Path | None) -> _Work:
    """What is to be done, with its batches in `folder`. Without one it is a trial, which changes nothing."""
    remote, dry_run = link.remote, folder is None
    state = remote.load()
    if state is None:
        remote.check_never_used(link.mirror.root())
        remote.check_unused()
    else:
        check_repo(history, remote, state.root, link.mirror.root())
        obey_purges(history, remote, state.root, obey, dry_run=dry_run)
        if not dry_run:
            state = remote.delete_doomed(state)
        if link.mirror.is_outdated(state.root):
            look_again(link, state.root)  # what lay in files that are gone cannot be taken for granted
    there = state.root.refs if state else {}
    changes = [change for key in request.refs if (change := _plan_ref(history, request, there, key))]
    for key in request.delete:
        if key not in there:
            raise NotFound(f"{remote.url} has no {_word(key)} {key[1]!r}. Nothing was changed.")
        changes.append(RefChange(*key, there[key], None))
    sendings, seqs = list[Sending](), list[int]()
    for lane, code in (("work", 0), ("memory", 1)):
        heads = [bytes.fromhex(oid) for change in changes if change.new and (oid := getattr(change.new, lane))]
        known = [bytes.fromhex(oid) for target in there.values() if (oid := getattr(target, lane))]
        new = list_new_commits(history, heads, known)
        sent = [sending.oids for sending in sendings]

        def has(oids: Sequence[bytes], code: int = code, sent: Sequence[AbstractSet[bytes]] = sent) -> set[bytes]:
            return link.mirror.list_held(oids, code).union(*(set(oids) & known for known in sent))

        sendings.append(collect(history, new, code, has, folder, sweeps=state.root.sweeps if state else 0))
        seqs += new
    sendings = [one._replace(oids=frozenset()) for one in sendings]  # of a million objects they take 110 MB
    return _Work(state, sendings, changes, seqs)


def _plan_ref(history: History, request: Request, there: Mapping[RefKey, Target], key: RefKey) -> RefChange | None:
    """What becomes of one ref of the remote; None if it is there already. Refuses what would lose commits of others."""
    kind, name = key
    held = refs.find(history.db, name, kind)
    if held is None:
        what = "tag" if kind == refs.TAG else "branch"
        raise NotFound(f"there is no {what} {name!r} here. Nothing was sent.", hint=f"See them with: memlake {what}")
    old = there.get(key)
    note = tables.find_ref(history.db, kind, name)
    memory = held["memory"] if request.memories else old.memory if old else None
    new = Target(held["work"], memory, note[2].hex() if kind == refs.TAG and note and note[2] else None)
    if old is not None and kind == refs.BRANCH:
        new = _join_lanes(history, request, name, old, new)
    elif old is not None and old.work != new.work and not request.force:
        raise Conflict(
            f"tag {name!r} names another commit at {request.remote}. Nothing was sent.",
            hint=f"To replace it there: memlake push --force {pasted(request.remote)} {pasted(name)}",
        )
    if new == old or not (new.work or new.memory):
        return None
    return RefChange(kind, name, old, new)


def _join_lanes(history: History, request: Request, name: str, old: Target, new: Target) -> Target:
    """Each lane moves forward only, unless it was forced; a lane that is ahead there alone stays as it is."""
    heads = []
    for lane in LANES:
        theirs, ours = getattr(old, lane), getattr(new, lane)
        if theirs == ours or ours is None or _is_forced(request, name, theirs, lane):
            heads.append(theirs if ours is None else ours)
        elif _is_behind(history, theirs, ours):
            heads.append(ours)
        elif _is_behind(history, ours, theirs):
            heads.append(theirs)
        else:
            raise _refuse_diverged(history, name, lane, theirs, request.remote)
    return Target(*heads)


def _is_forced(request: Request, name: str, theirs: str | None, lane: Lane) -> bool:
    if request.lease is not None and lane == "work":
        if name in request.lease and request.lease[name] != theirs:
            raise Conflict(
                f"{name!r} at {request.remote} is at {short(theirs or 'none')} and not at "
                f"{short(request.lease[name] or 'none')}, because somebody pushed meanwhile. Nothing was sent.",
                hint="See what came with: memlake fetch",
            )
        return name in request.lease
    return request.force and lane == "work"


def _is_behind(history: History, old: str | None, new: str | None) -> bool:
    if old is None:
        return True
    if new is None or not (history.has(old) and history.has(new)):
        return False
    return is_ancestor(history, history.get(old), history.get(new))


def _refuse_diverged(history: History, name: str, lane: Lane, theirs: str, remote: str) -> Conflict:
    what = "memories" if lane == "memory" else "commits"
    why = "that you do not have" if not history.has(theirs) else "that yours does not include"
    return Conflict(
        f"branch {name!r} at {remote} has {what} {why} ({short(theirs)}). Nothing was sent.",
        hint=f"Join them first: memlake pull {pasted(remote)} && memlake push {pasted(remote)}",
    )


def _word(key: RefKey) -> str:
    return "tag" if key[0] == refs.TAG else "branch"


# -- batches and root --------------------------------------------------------------------------------


def _finish_batches(history: History, work: _Work, folder: Path, who: str) -> list[KeptBatch]:
    """All batches. The last one says which refs moved, and has a token, so that its name is of this push."""
    batches = [batch for sending in work.sendings for batch in sending.batches]
    moves = [
        RefMove(change.kind, change.name, code, _raw(change.old, lane), _raw(change.new, lane), now(), "push", who)
        for change in work.changes
        for code, lane in enumerate(LANES)
        if _raw(change.old, lane) != _raw(change.new, lane)
    ]
    repo = uuid.UUID(history.objects.repo).bytes
    last, objects = Batch(repo, b"", 0), 0
    if batches and batches[-1].file.size < _JOINED:
        kept = batches.pop()
        last, objects = decode_batch(kept.file.name, kept.read(), repo), kept.objects
    return [*batches, keep_batch(last._replace(token=os.urandom(16), moves=moves), folder)._replace(objects=objects)]


def _raw(target: Target | None, lane: Lane) -> bytes | None:
    oid = getattr(target, lane) if target else None
    return bytes.fromhex(oid) if oid else None


def _join(
    history: History, link: Link, work: _Work, upload: Upload, grace_hours: float
) -> tuple[Root | None, AbstractSet[str]]:
    """The root from which this push goes on, with batches joined if there are many, and what may be deleted then."""
    root, over = work.before.root if work.before else None, set[str]()
    if root is not None and any(plan_joins(root.log, lane) for lane in (0, 1)):
        with contextlib.suppress(Error):  # nothing rests on it; who fetches is told what is wrong with a file
            root = join(history.objects, link, root, upload.put)
            hours = min(grace_hours, 1) if len(root.condemned) > _MANY_WAIT else grace_hours
            upto = now() - int(hours * _HOUR)
            over = {path for path, time in root.condemned.items() if time <= upto}
    return root, over


def _next_root(
    history: History, work: _Work, before: Root | None, batches: Sequence[KeptBatch], stored: AbstractSet[str]
) -> Root:
    """The root after this push. What attempts before this one stored and nobody lists is doomed: it may be purged.

    `stored` has that, and what was condemned long ago.
    """
    changed: dict[RefKey, Target] = {}
    gone = {(change.kind, change.name) for change in work.changes if change.new is None}
    for change in work.changes:
        if change.new is not None:
            changed[change.kind, change.name] = change.new
    log, packs = [batch.file for batch in batches], [pack for batch in batches for pack in batch.packs]
    names = {pack.name for pack in packs}
    if before is None:
        branch = next((name for kind, name in changed if kind == refs.BRANCH), "main")
        return Root(
            history.objects.repo, history.salt.hex(), 1, batches[-1].token.hex(), branch, changed, tuple(log),
            tuple(packs),
        )  # fmt: skip
    kept = tuple(file for file in before.log if file.name not in {one.name for one in log})
    root = before._replace(
        generation=before.generation + 1,
        token=batches[-1].token.hex(),
        refs={key: target for key, target in {**before.refs, **changed}.items() if key not in gone},
        log=(*kept, *log),
        packs=(*(pack for pack in before.packs if pack.name not in names), *packs),
    )
    root = root._replace(head=root.default_branch())
    listed = root.paths() | {part.path for batch in batches for part in batch.parts}
    condemned = {path: time for path, time in before.condemned.items() if path not in listed}
    left = {path for path in stored if not path.startswith("parts/")}  # batches tell of parts, perhaps those of others
    return doom(root._replace(condemned=condemned), left - root.paths())


def _swap(link: Link, work: _Work, root: Root, batches: Sequence[KeptBatch]) -> State | None:
    """The new state, or None if somebody else was faster. A lost answer is looked up."""
    try:
        return link.remote.swap(root, work.before)
    except Moved:
        return _find_own(link, batches)  # a retry after a lost answer finds our own root in its way
    except Unavailable as error:
        state = None
        with contextlib.suppress(Error):
            state = _find_own(link, batches)
        if state is None:
            raise Unavailable(
                f"{error.message} Whether the push arrived is not known.",
                hint=f"Run it again, which does no harm: memlake push {pasted(link.remote.name)}",
            ) from error
        return state


def _find_own(link: Link, batches: Sequence[KeptBatch]) -> State | None:
    state, last = link.remote.load(), batches[-1]
    name = last.file.name
    if state is not None and (
        state.root.token == last.token.hex()
        or any(file.name == name or mark_of(name) in file.joined for file in state.root.log)
    ):
        return state
    return None


def _note(history: History, link: Link, state: State, work: _Work, batches: Sequence[KeptBatch]) -> None:
    """Remember what the remote has now: our batches, and where its branches are."""
    repo = uuid.UUID(history.objects.repo).bytes
    link.remote.keep_copy(state, history.objects.tmp)
    known = link.mirror.list_taken() | {f"log/{batch.file.name}" for batch in batches}
    is_complete = all(f"log/{file.name}" in known for file in state.root.log)
    with link.mirror.learning(state.root, state.data, state.tag if is_complete else None) as learn:
        for kept in batches:
            batch = decode_batch(kept.file.name, kept.read(), repo)
            oids = [hashlib.sha256(one.content).digest() for one in batch.objects]
            learn(kept.file.name, kept.file.size, batch, oids)
            del batch  # before the next one is read
    tracked = list_tracked(history, link.remote.name)
    with history.db.write():
        for change in work.changes:
            if change.kind == refs.BRANCH:
                new = state.root.refs.get((refs.BRANCH, change.name))
                have = new if new is None else Target(_here(history, new.work), _here(history, new.memory))
                old = tracked.get(change.name)
                if old != have:
                    name = f"{link.remote.name}/{change.name}"
                    track(history, name, old, have, action=f"push {link.remote.name}")


def _here(history: History, oid: str | None) -> str | None:
    return oid if oid is not None and history.has(oid) else None


def _count_files(work: _Work) -> int:
    """The files that a push makes: packs, parts and batches, of which one names the refs, and the root."""
    batches = sum(len(sending.batches) for sending in work.sendings)
    return sum(len(sending.packs) + len(sending.parts) for sending in work.sendings) + max(batches, 1) + 1


def _describe(history: History, link: Link, work: _Work) -> Pushed:
    objects = sum(batch.objects for sending in work.sendings for batch in sending.batches)
    rooms = _count_paths(history, work.seqs) if work.before is None else {}
    return Pushed(
        link.remote.name, link.remote.url, tuple(work.changes), len(work.seqs), objects,
        sum(sending.size for sending in work.sendings), files=_count_files(work), is_first=work.before is None,
        rooms=rooms, requests=_count_requests(work) if link.remote.is_bucket else 0,
    )  # fmt: skip


def _count_requests(work: _Work) -> int:
    files = [pack.size for sending in work.sendings for pack in sending.packs]
    files += [part.size for sending in work.sendings for part in sending.parts]
    looks = len(files) if len(files) > 1 else 0  # whether each is there already
    batches = [batch.file.size for sending in work.sendings for batch in sending.batches] or [0]
    is_first = work.before is None  # then the place must be empty
    return 1 + is_first + looks + sum(map(count_puts, [*files, *batches])) + 1 + count_puts(0)


def _count_paths(history: History, seqs: Sequence[int]) -> dict[str, int]:
    """How many paths of each room some commits have written. A path is known by its hash: a million would be 200 MB."""
    rooms: dict[str, array[int]] = {}
    for at in range(0, len(seqs), _AT_ONCE):
        for _, data in tables.list_commit_data(history.db, seqs[at : at + _AT_ONCE]):
            for path, _, new in changes_in(history, data):
                if new is not None:
                    rooms.setdefault(path.split("/", 1)[0], array("q")).append(hash(path))
    return {room: sum(1 for _ in groupby(sorted(paths))) for room, paths in sorted(rooms.items())}
