"""gc: what nothing needs any more, found by marking from every root, removed in two phases. Leaves bytes to L1.

Roots: refs, the reflog, HEAD and its log, the stage, a waiting merge, undo, what the caller names, objects touched
since the grace period or since the oldest live lease began. Phase one condemns what is not marked; phase two deletes
what was condemned a grace period ago and still is not. Everything that became visible after the marking began is kept:
it is marked again, from what is new, inside the transaction that deletes.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterable, Iterator
from itertools import chain

from memlake.errors import NotFound, Purged
from memlake.named_tuple import NamedTuple
from memlake.objects import leases
from memlake.objects import tables as object_tables
from memlake.objects.deltas import pair_chunks, store_deltas, try_deltas
from memlake.objects.layout import now, read_number, tick
from memlake.objects.strays import find_old_strays
from memlake.objects.sweep import Marks, compact, count_files, list_joinable, sweep_files, sweep_rows
from memlake.reports import GcReport
from memlake.versions import tables
from memlake.versions.checkout import journal
from memlake.versions.checkout.context import Checkout
from memlake.versions.history import thin
from memlake.versions.history.commits import History, keeps_tree
from memlake.versions.paths import FILES
from memlake.versions.trees import codec, tree
from memlake.versions.upkeep.log_packs import list_joinable_logs, write_logs
from memlake.versions.verbs.undo import conflict_objects, kept_objects

_HOUR = 3_600_000_000
_BATCH = 4000


class Policy(NamedTuple):
    dry_run: bool = False
    grace_hours: float = 24
    reflog_expire: str = "never"

    @property
    def expired_before(self) -> int:
        """Moves of refs older than this are forgotten: none, unless it was asked for."""
        return 0 if self.reflog_expire == "never" else now() - int(self.reflog_expire) * 24 * _HOUR


class Moment(NamedTuple):
    """When the marking began: what is newer counts as needed."""

    tick: int
    seq: int
    node: int
    object: int
    reflog: int


class Dead(NamedTuple):
    """Rows of history that nothing needs, and their bytes."""

    commits: list[int]
    nodes: list[int]
    freed: dict[str, int]

    def add_to(self, report: GcReport) -> GcReport:
        freed = {**report.freed, **self.freed}
        return report._replace(nodes=len(self.nodes), commits=len(self.commits), bytes=sum(freed.values()), freed=freed)


class _Trial(Exception):
    """A dry run is the very same transaction taken back, so that what it tells is what a run would do."""

    def __init__(self, report: GcReport) -> None:
        super().__init__()
        self.report = report


def collect(here: Checkout, policy: Policy, also: Iterable[str] = ()) -> GcReport:
    """Remove what no root reaches. `also` are objects that something beside the history relies on."""
    history, db = here.history, here.history.db
    history.objects.packs.claim()
    with db.write():
        leases.drop_dead(db)
        if not policy.dry_run:
            policy = _mind_jump(history, policy)
            tables.expire_moves(db, policy.expired_before)
        moment = Moment(tick(db), *tables.list_newest_ids(db))
        known = _list_packs(history)
        spare_from = min(now() - int(policy.grace_hours * _HOUR), leases.oldest(db), moment.tick)
    # The stage is read before history: what a commit takes from the stage meanwhile is then seen on either side.
    local_objects, local_commits = _local_roots(here)
    with db.snapshot():
        commits = _mark_commits(history, moment, local_commits, policy)
        objects = Marks(moment.object)
        objects.mark(db, _objects_of(history, commits, moment))
        objects.mark(db, (bytes.fromhex(oid) for oid in chain(local_objects, also)))
        objects.mark(db, object_tables.scan_touched(db, spare_from))
        nodes = _mark_nodes(history, commits, moment)
    swap = None
    if policy.dry_run:
        swap = try_deltas(history.objects, _chains(history, moment, commits), objects.__contains__)
    try:
        with db.write():
            if _moved_onto_garbage(here, commits, moment):
                return GcReport(policy.dry_run, 0, 0, 0, 0, 0, 0, 0, 0)
            _mark_what_came_since(history, objects, nodes, moment)
            dead = _delete_history(here, commits, nodes, moment)
            report = dead.add_to(sweep_rows(db, objects, moment.tick, policy.grace_hours))
            if swap is not None:
                raise _Trial(_try_files(history, report, policy, swap))
    except _Trial as trial:
        return trial.report
    history.forget()
    deltas = store_deltas(history.objects, _chains(history, moment, commits))
    with db.write():
        object_tables.write_fact(db, "delta_seq", moment.seq)
    report = sweep_files(history.objects, report, policy.grace_hours)._replace(deltas=deltas)
    joined = write_logs(history)  # so late that it copies only what stays
    report = _name_packs(report, known, joined)
    compact(db)
    for local in here.local.databases:
        if not local.is_busy():  # a verb of this checkout is not held up for it
            compact(local)
    return report


def _try_files(history: History, report: GcReport, policy: Policy, swap: Callable[[], int]) -> GcReport:
    """What a run would do to files, found by doing it to the rows. Inside the transaction that is taken back."""
    objects, known = history.objects, _list_packs(history)
    deltas = swap()
    report = count_files(report, list_joinable(objects), find_old_strays(objects, policy.grace_hours))
    return _name_packs(report, known, list_joinable_logs(history.db))._replace(dry_run=True, deltas=deltas)


def _list_packs(history: History) -> set[str]:
    return {f"packs/{name}" for name in object_tables.list_pack_names(history.db)}


def _name_packs(report: GcReport, known: set[str], logs: Iterable[str]) -> GcReport:
    """Count and name the packs that went, logs too, and not those that the run itself had made before."""
    names = [*report.names[: report.packs], *(f"packs/{name}" for name in logs)]
    packs = [name for name in names if name in known]
    return report._replace(packs=len(packs), names=(*packs, *report.names[report.packs :]))


def _mind_jump(history: History, policy: Policy) -> Policy:
    """Where the clock was set forward since the last run, no period is over because of that."""
    jump = leases.measure_jump(history.db)
    if jump < _HOUR:
        return policy
    warnings.warn(
        f"the clock was set forward by {jump // _HOUR} h since the last gc. Grace periods begin anew, and no move of a "
        "branch is forgotten in this run.",
        stacklevel=4,
    )
    moment = tick(history.db)
    object_tables.redate_condemned(history.db, moment)
    object_tables.redate_strays(history.db, moment)
    return policy._replace(reflog_expire="never")


def _chains(history: History, moment: Moment, commits: bytearray) -> list[list[bytes]]:
    """The versions, oldest first, that files and their chunks had since the last run: what deltas are made of."""
    chains: dict[str | bytes, dict[bytes, None]] = {}  # by path; of chunks, by the newest
    since = read_number(history.db, "delta_seq")
    for seq, data in tables.scan_work_commits(history.db, after=since, upto=moment.seq):
        if not commits[seq]:  # in a dry run it is still there
            continue
        with contextlib.suppress(NotFound, Purged):  # a list of changes that was purged
            for path, old, new in changes_in(history, data):
                if path.startswith(FILES) and old is not None and new is not None and old[:32] != new[:32]:
                    _append(chains.setdefault(path, {}), old[:32], new[:32])
                    for chunk, newer in pair_chunks(history.objects, old[:32], new[:32]):
                        chain = chains.pop(chunk, {})
                        _append(chain, chunk, newer)
                        chains[newer] = chain
    return [list(chain) for chain in chains.values()]


def _append(chain: dict[bytes, None], *oids: bytes) -> None:
    for oid in oids:
        chain.pop(oid, None)  # what comes back is the newest again
        chain[oid] = None


def _local_roots(here: Checkout) -> tuple[set[str], set[str]]:
    local = here.local
    objects = {entry.oid for row in local.list_staged().values() for entry in (row.entry, row.old) if entry is not None}
    objects |= set(conflict_objects(local.list_waiting()))
    objects |= set(kept_objects(here))
    commits = {oid for old, new, *_ in local.head_moves() for oid in (old, new) if oid}
    if pending := local.find_pending():
        commits |= {oid for oid in (pending.theirs, pending.theirs_memory, pending.target) if oid}
        commits |= pending.rebase.commits if pending.rebase else set()
    commits |= {oid for oid in (local.base, local.detached) if oid}
    plan = journal.find(local)
    if plan is not None:
        commits |= {plan.goal.commit} if plan.goal.commit else set()
        entries = [e for change in plan.writes for e in (change.old, change.new)] + [row.entry for row in plan.rows]
        objects |= set(conflict_objects(plan.conflicts))
        objects |= {entry.oid for entry in entries if entry is not None}
    return objects, commits


# -- commits --------------------------------------------------------------------------------------


def _mark_commits(history: History, moment: Moment, local: set[str], policy: Policy) -> bytearray:
    """One byte a seq: 1 when the commit is reachable. Parents have smaller seqs, so one pass downwards is enough."""
    marks = bytearray(moment.seq + 1)
    db = history.db
    roots = tables.list_heads(db) + [bytes.fromhex(oid) for oid in local]
    for seq in tables.list_seqs(db, roots):
        _set(marks, seq)
    for old, new in tables.scan_kept_moves(db, policy.expired_before):
        _set(marks, old)
        _set(marks, new)
    for seq, p1, p2, other in tables.scan_ancestry(db):
        if seq <= moment.seq and marks[seq]:
            for behind in (p1, p2, other):
                _set(marks, behind)
    return marks


def _set(marks: bytearray, seq: int | None) -> None:
    if seq is not None and seq < len(marks):
        marks[seq] = 1


def _objects_of(history: History, commits: bytearray, moment: Moment) -> Iterator[bytes]:
    """Every object a reachable commit names: what its changes brought, and what its meta names."""
    for seq, data in tables.scan_commits(history.db, upto=moment.seq):
        if commits[seq]:
            yield from objects_in(history, data)


def objects_in(history: History, data: bytes) -> Iterator[bytes]:
    for _, old, new in changes_in(history, data):
        # The old side too: a commit cherry-picked or rebased onto a pruned line may be the only one to name it.
        if old is not None:
            yield old[:32]
        if new is not None:
            yield new[:32]
    yield from codec.unpack(data)[9].values()


def changes_in(history: History, data: bytes) -> list[tuple[str, bytes | None, bytes | None]]:
    """The plain changes of a commit's bytes."""
    fields = codec.unpack(data)
    changes, meta = fields[8], fields[9]
    if changes is None and "changes" in meta:
        changes = codec.unpack(history.objects.read(meta["changes"].hex()))
    return changes or []


# -- nodes ----------------------------------------------------------------------------------------


def _kept_roots(history: History, commits: bytearray) -> Iterator[bytes]:
    """Roots that keep their nodes: all of the work lane; of the memory lane heads and the first of each window."""
    db = history.db
    heads = tables.list_memory_heads(db)
    for seq, oid, lane, generation, below, data in tables.scan_generations(db):
        kept = lane == 0 or oid in heads or keeps_tree(generation, below)
        if seq < len(commits) and commits[seq] and kept:
            yield thin.root_of(data)


def _mark_nodes(history: History, commits: bytearray, moment: Moment) -> bytearray:
    """One byte a node id: 1 when a kept tree needs it."""
    marks, newer = bytearray(moment.node + 1), set[int]()
    waiting: set[bytes] = set()
    for root in _kept_roots(history, commits):
        waiting.add(root)
        if len(waiting) >= _BATCH:
            waiting = _mark_level(history, waiting, marks, newer)
    _mark_down(history, waiting, marks, newer)
    return marks


def _mark_down(history: History, oids: set[bytes], marks: bytearray, newer: set[int]) -> None:
    while oids:
        oids = _mark_level(history, oids, marks, newer)


def _mark_level(history: History, oids: set[bytes], marks: bytearray, newer: set[int]) -> set[bytes]:
    """Mark some nodes; returns their children still to do. Nodes newer than the marks are only walked through."""
    below: set[bytes] = set()
    for id, data in history.nodes.find_stored(oids).values():
        if id in newer if id >= len(marks) else marks[id]:
            continue
        if id < len(marks):
            marks[id] = 1
        else:
            newer.add(id)
        node = tree.decode(data)
        if node.level:
            below.update(node.values)
    return below


# -- deleting -------------------------------------------------------------------------------------


def _mark_what_came_since(history: History, objects: Marks, nodes: bytearray, moment: Moment) -> None:
    """Under the lock: what was written or relied on while we marked stays, with all it needs."""
    db = history.db
    roots: set[bytes] = set()
    for _, data in tables.scan_commits(db, after=moment.seq):
        roots.add(thin.root_of(data))
        objects.mark(db, objects_in(history, data))
    # So does a new ref: the trees of its commits are kept, which need not have been so when we marked.
    roots.update(map(thin.root_of, tables.list_head_commits(db)))
    # A new tree may use an old node that no older tree needed: going back to an earlier state does.
    _mark_down(history, roots, nodes, set())
    objects.mark(db, object_tables.scan_touched(db, moment.tick))


def _dead_rows(history: History, commits: bytearray, nodes: bytearray, moment: Moment) -> Dead:
    rows = tables.scan_commit_sizes(history.db, upto=moment.seq)
    dead_commits = {seq: size for seq, size in rows if not commits[seq]}
    rows = tables.scan_node_sizes(history.db, upto=moment.node)
    dead_nodes = {id: size for id, size in rows if not nodes[id]}
    freed = {"nodes": sum(dead_nodes.values()), "commits": sum(dead_commits.values())}
    return Dead(list(dead_commits), list(dead_nodes), freed)


def _moved_onto_garbage(here: Checkout, commits: bytearray, moment: Moment) -> bool:
    """Whether something named a commit meanwhile that nothing named when we marked: then all waits for the next run."""
    db = here.history.db
    local = [bytes.fromhex(oid) for oid in _local_roots(here)[1]]
    named = tables.list_new_targets(db, moment.reflog)
    named += tables.list_seqs(db, local)
    named += tables.list_new_parents(db, moment.seq)
    return any(seq <= moment.seq and not commits[seq] for seq in named)


def _delete_history(here: Checkout, commits: bytearray, nodes: bytearray, moment: Moment) -> Dead:
    """Unreachable commits and unneeded nodes."""
    db = here.history.db
    dead = _dead_rows(here.history, commits, nodes, moment)
    for batch in _chunks(dead.nodes):
        tables.delete_nodes(db, batch)
    for batch in _chunks(dead.commits):
        tables.delete_commits(db, batch)
    return dead


def _chunks(ids: list[int]) -> Iterable[list[int]]:
    return (ids[at : at + 10_000] for at in range(0, len(ids), 10_000))
