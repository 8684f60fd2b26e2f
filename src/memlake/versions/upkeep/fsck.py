"""fsck: everything stored is what its hash says, everything named is there, and every table agrees with every other.

Reads only. Each problem names the object and, where one is known, the path. What was purged is told apart from what
is missing.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable, Iterator
from pathlib import Path

from memlake.errors import Error
from memlake.objects import tables as object_tables
from memlake.objects.audit import check_objects
from memlake.objects.layout import read_number
from memlake.objects.purge import PurgeRecord, decode_purge
from memlake.records import Entry
from memlake.reports import FsckReport, Problem
from memlake.versions import tables
from memlake.versions.checkout.context import Checkout
from memlake.versions.checkout.local import KEPT
from memlake.versions.history import refs
from memlake.versions.history.commits import keeps_tree
from memlake.versions.history.thin import root_of
from memlake.versions.paths import FILES, file_path, unwritable
from memlake.versions.trees import codec, tree
from memlake.versions.trees.nodes import key_of
from memlake.versions.upkeep.gc import objects_in
from memlake.versions.verbs.undo import kept_objects, operations

_BATCH = 4000
# What a damaged row does to code that trusts its types: SQLite hands out whatever the flipped header says.
_UNREADABLE = (TypeError, ValueError, KeyError, IndexError, AttributeError, OverflowError, struct.error)


def check(here: Checkout, *, full: bool) -> FsckReport:
    found = _Findings(here, full)
    with here.history.db.snapshot():
        found.run()
    return FsckReport(tuple(found.problems), tuple(sorted(found.purged)), found.counts)


class _Findings:
    def __init__(self, here: Checkout, full: bool) -> None:
        self._here, self._history, self._db, self._full = here, here.history, here.history.db, full
        self.problems: list[Problem] = []
        self.purged: set[str] = set()
        self.counts: dict[str, int] = {}

    def run(self) -> None:
        for db in self._here.databases:
            for text in [*db.integrity(full=self._full), *log_damage(db.path)]:
                self._add("database", "", db.path.name, text)
        for step in (self._nodes, self._commits, self._objects, self._refs, self._reflog, self._local):
            try:
                step()
            except Error as error:
                self._add("database", "", step.__name__.strip("_"), error.message)
            except _UNREADABLE as error:
                self._add("database", "", step.__name__.strip("_"), f"a row cannot be understood: {error}")

    def _add(self, kind: str, oid: str, path: str, detail: str) -> None:
        self.problems.append(Problem(kind, oid, path, detail))

    # -- nodes ----------------------------------------------------------------------------------

    def _nodes(self) -> None:
        """Every node is its hash, and the children of every node are there."""
        self._keys: set[int] = {key_of(tree.EMPTY)}
        self._children: dict[int, list[int]] = {}
        self._loose: set[int] = set()  # those thinning may remove
        count = 0
        for id, key, keep, data in tables.scan_nodes(self._db):
            count += 1
            oid = tree.oid_of(data)
            if key_of(oid) != key:
                self._add("damaged", f"{key & (1 << 64) - 1:016x}", "", f"tree node {id} does not match its hash")
                continue
            self._keys.add(key)
            if not keep:
                self._loose.add(key)
            node = tree.decode(data)
            if node.level:
                self._children[key] = [key_of(child) for child in node.values]
        for key in {child for children in self._children.values() for child in children} - self._keys:
            self._add("missing", f"{key & (1 << 64) - 1:016x}", "", "a tree node that another one needs")
        self.counts["nodes"] = count

    def _check_kept(self, roots: set[int]) -> None:
        """No node that a commit of files needs may be left to thinning."""
        seen, waiting = set(roots), list(roots)
        while waiting:
            fresh = [child for child in self._children.get(waiting.pop(), ()) if child not in seen]
            seen.update(fresh)
            waiting += fresh
        for key in seen & self._loose:
            detail = "a tree node of files that is marked as one of memories, which are thinned"
            self._add("damaged", f"{key & (1 << 64) - 1:016x}", "", detail)

    # -- commits --------------------------------------------------------------------------------

    def _commits(self) -> None:
        """Every commit is its hash, its parents are there and older, its tree is there or can be rebuilt."""
        seqs: dict[bytes, int] = {}
        count = 0
        of_files: set[int] = set()
        generations: dict[int | None, int] = {}
        heads = tables.list_memory_heads(self._db)
        for seq, oid, lane, p1, p2, other, generation, data in tables.scan_commit_rows(self._db):
            count += 1
            seqs[oid[:12]] = seq
            if hashlib.sha256(data).digest() != oid:
                self._add("damaged", oid.hex(), "", f"commit {seq} does not match its hash")
                continue
            fields = codec.unpack(data)
            named = [*fields[3], None, None][:2]
            expected = [None if parent is None else seqs.get(parent[:12]) for parent in (*named, fields[4])]
            # Only parents must be there: the other lane need not have come along.
            if any(want is None for want, name in zip(expected, named, strict=False) if name is not None):
                self._add("missing", oid.hex(), "", f"commit {seq} names a commit that is not there before it")
            elif expected != [p1, p2, other] or fields[10] != generation or fields[1] != lane:
                self._add("damaged", oid.hex(), "", f"the row of commit {seq} does not agree with the commit")
            if lane == 0:
                of_files.add(key_of(root_of(data)))
            generations[seq] = generation
            needed = lane == 0 or oid in heads or keeps_tree(generation, generations.get(p1, 0))
            if needed and key_of(root_of(data)) not in self._keys:
                self._add("missing", root_of(data).hex(), "", f"the tree of commit {oid.hex()[:10]}")
        self.counts["commits"] = count
        self._check_kept(of_files)
        if read_number(self._db, "seq") < max(seqs.values(), default=0):
            self._add("database", "", "meta", "the sequence counter is behind the commits")

    # -- objects --------------------------------------------------------------------------------

    def _objects(self) -> None:
        """Every object is its hash, and every object a commit names is there or was purged."""
        bad: dict[bytes, tuple[str, str]] = {}
        self.counts["objects"], found = check_objects(self._history.objects, full=self._full)
        if away := (object_tables.count_away(self._db) or (0,))[0]:
            self.counts["objects at a remote only"] = away
        for digest, kind, detail in found:
            bad[digest] = (kind, detail)
        tombs = {row[0] for row in object_tables.list_tombstones(self._db)}
        self._purges()
        self.purged = {digest.hex() for digest in tombs}
        for digest in self._absent():
            if digest not in tombs:
                bad[digest] = ("missing", "no such object")
        paths = self._paths_of(set(bad)) if bad else {}
        for digest, (kind, detail) in sorted(bad.items()):
            for path in paths.get(digest) or [""]:
                self._add(kind, digest.hex(), path, detail)

    def _purges(self) -> None:
        """Every record of a purge is its hash, and every tombstone says what the record it names says."""
        records: dict[bytes, tuple[int, PurgeRecord]] = {}
        for seq, data, oid in object_tables.list_purges(self._db):
            if hashlib.sha256(data).digest() == oid:
                records[oid] = (seq, decode_purge(data))
            else:
                self._add("damaged", oid.hex(), "", f"the record of purge {seq} does not match its hash")
        for oid, purge, *said in object_tables.list_tombstones(self._db):
            seq, record = records.get(purge, (None, None))
            if record is None or oid.hex() not in record.oids or said != [seq, record.time, record.reason, record.who]:
                self._add("damaged", oid.hex(), "", "its tombstone does not agree with the record of its purge")

    def _absent(self) -> Iterator[bytes]:
        for batch in self._batches():
            yield from batch - object_tables.list_present(self._db, batch)

    def _batches(self) -> Iterator[set[bytes]]:
        batch: set[bytes] = set()
        for _, data in tables.scan_commits(self._db):
            try:
                batch.update(objects_in(self._history, data))
            except Error:
                continue  # reported by its own pass
            if len(batch) >= _BATCH:
                yield batch
                batch = set()
        if batch:
            yield batch

    def _paths_of(self, digests: set[bytes]) -> dict[bytes, list[str]]:
        """Where bad objects are known to people: by the paths of what is made of them or needs them."""
        owners = self._owners(digests)
        paths: dict[bytes, set[str]] = {}
        for seq, data in tables.scan_commits(self._db):
            try:
                changes = self._history.changes(codec.decode_commit(data, seq))
            except Error:
                continue
            for change in changes:
                for entry in (change.old, change.new):
                    for digest in owners.get(bytes.fromhex(entry.oid), ()) if entry else ():
                        paths.setdefault(digest, set()).add(change.path)
        return {digest: sorted(found) for digest, found in paths.items()}

    def _owners(self, digests: set[bytes]) -> dict[bytes, set[bytes]]:
        """Objects that lead to bad ones: by their chunks, or by links (a dataset version to its manifest, to parts)."""
        owners: dict[bytes, set[bytes]] = {digest: {digest} for digest in digests}
        for oid, data in object_tables.scan_chunk_lists(self._db):
            for at in range(32, len(data), 36):
                if data[at : at + 32] in digests:
                    owners.setdefault(oid, set()).add(data[at : at + 32])
        linked = {oid: _cut(links) for oid, links in object_tables.scan_links(self._db)}
        grown = True
        while grown:
            grown = False
            for oid, links in linked.items():
                found = set[bytes]().union(*(owners.get(link, ()) for link in links))
                if not found <= owners.get(oid, set()):
                    owners.setdefault(oid, set()).update(found)
                    grown = True
        return owners

    # -- names ----------------------------------------------------------------------------------

    def _refs(self) -> None:
        """Every ref names a commit of the right lane, and is where its reflog says it went last."""
        last = {(kind, name, lane): new for kind, name, lane, new, _ in tables.list_last_moves(self._db)}
        seen: set[tuple[int, str, int]] = set()
        for kind, name, *heads, _ in tables.list_all_refs(self._db):
            for lane, oid in enumerate(heads):
                seen.add((kind, name, lane))
                if oid is not None or last.get((kind, name, lane)) is not None:
                    self._ref(name, lane, oid, last.get((kind, name, lane)))
        for (kind, name, lane), new in last.items():
            if new is not None and (kind, name, lane) not in seen:
                self._add("dangling", "", name, "the reflog knows this ref, but it is gone without a trace")
        self.counts["refs"] = len(seen)

    def _ref(self, name: str, lane: int, oid: bytes | None, last: int | None) -> None:
        if oid is None:
            self._add("damaged", "", name, "names nothing, but its reflog says that it does")
            return
        row = tables.find_lane(self._db, oid)
        if row is None:
            self._add("dangling", oid.hex(), name, "names a commit that is not there")
        elif row[1] != lane:
            self._add("dangling", oid.hex(), name, "names a commit of the other lane")
        elif last is not None and row[0] != last:
            self._add("damaged", oid.hex(), name, "is not where its reflog says")

    def _reflog(self) -> None:
        """The rows chain: an altered one, or one taken out, shows."""
        before: int | None = None
        count = 0
        for id, mark, *fields in tables.scan_moves(self._db):
            # The oldest row may follow expired ones: it is taken as it is.
            if (before is not None or id == 1) and refs.chain_mark(before or 0, tuple(fields)) != mark:
                self._add("damaged", "", fields[1], f"reflog row {id} was altered, or one before it is missing")
            before, count = mark, count + 1
        self.counts["reflog"] = count

    def _local(self) -> None:
        """HEAD and the stage name things that are there, and what is tracked is base with the stage applied."""
        local = self._here.local
        local.check()
        _ = (*kept_objects(self._here), *operations(self._here, KEPT), *local.head_moves())  # each read is a check
        if local.branch is not None and refs.find(self._db, local.branch) is None:
            self._add("dangling", "", "HEAD", f"names branch {local.branch!r}, which is not there")
        base = self._here.base()
        rows = local.under("")
        needed = {row.entry.oid: path for path, row in rows.items() if row.staged and row.entry is not None}
        for oid in self._history.objects.find_missing(needed):
            if oid not in self.purged:
                self._add("missing", oid, FILES + needed[oid], "staged, but its content is not there")
        tracked = {FILES + path: row.old if row.staged else row.entry for path, row in rows.items()}
        held: dict[str, Entry | None] = dict(self._history.scan(base, FILES))
        for path in sorted({*held, *tracked}):
            if held.get(path) != tracked.get(path) and not unwritable(file_path(path)):
                self._add("index", "", path, "local.db does not agree with the commit that is checked out")
        self.counts["tracked"] = len(rows)


def _cut(links: bytes) -> list[bytes]:
    return [links[at : at + 32] for at in range(0, len(links), 32)]


# -- the write-ahead log ----------------------------------------------------------------------------


def log_damage(path: Path) -> Iterable[str]:
    """Frames of a write-ahead log that belong to it but fail their checksum: SQLite drops them without a word."""
    file = path.with_name(path.name + "-wal")
    try:
        data = file.read_bytes()
    except OSError:
        return
    if len(data) < 32:
        return
    magic, _, page, _, salt1, salt2, want1, want2 = struct.unpack(">8I", data[:32])
    if magic & ~1 != 0x377F0682:
        yield f"the write-ahead log {file.name} is damaged: its header cannot be read"
        return
    order = ">" if magic & 1 else "<"
    sums = _checksum(data[:24], (0, 0), order)
    if sums != (want1, want2):
        yield f"the write-ahead log {file.name} is damaged: its header fails its checksum"
        return
    for number, at in enumerate(range(32, len(data) - 24 - page + 1, 24 + page), 1):
        head = struct.unpack(">6I", data[at : at + 24])
        if head[2] != salt1 and head[3] != salt2:
            return  # what an earlier use of the file left behind; it had other salts, both of them
        sums = _checksum(data[at : at + 8], sums, order)
        sums = _checksum(data[at + 24 : at + 24 + page], sums, order)
        if (*head[2:4], *sums) != (salt1, salt2, *head[4:6]):
            if not _has_commit(data, range(at, len(data) - 24 - page + 1, 24 + page), (salt1, salt2)):
                return  # what a transaction left that was taken back, as on a full disk: nobody was told it is there
            yield f"the write-ahead log {file.name} is damaged from frame {number} on: commits in it may be lost"
            return


def _has_commit(data: bytes, frames: range, salts: tuple[int, int]) -> bool:
    """Whether one of these frames ends a transaction: it then says how many pages the database has."""
    heads = (struct.unpack(">4I", data[at : at + 16]) for at in frames)
    return any(size and (head == salts[0] or other == salts[1]) for _, size, head, other in heads)


def _checksum(data: bytes, sums: tuple[int, int], order: str) -> tuple[int, int]:
    a, b = sums
    words = struct.unpack(f"{order}{len(data) // 4}I", data)
    for at in range(0, len(words), 2):
        a = (a + words[at] + b) & 0xFFFFFFFF
        b = (b + words[at + 1] + a) & 0xFFFFFFFF
    return a, b
