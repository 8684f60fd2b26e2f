"""Storing many or large objects before the lock is taken: packs first, then one transaction. Knows no path.

The order is what makes a crash harmless: lease, pack bytes, fsync, name in packs/, then the rows. Before the rows are
written there is only a file that no row names, which gc removes. The lease keeps gc from removing it too early.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterable
from types import TracebackType
from typing import Self

from memlake.errors import Corrupt, NotFound, Unavailable
from memlake.objects import packs, tables
from memlake.objects.chunks import WHOLE_BELOW, Stream, cut, encode_list
from memlake.objects.db import Row
from memlake.objects.layout import tick
from memlake.objects.leases import Lease
from memlake.objects.packs import AWAY, CHUNK, CHUNKED, OBJECT, PackWriter, Record, Sealed
from memlake.objects.store import Objects, encode_inline, refuse_purged

INLINE_BELOW = 16 << 10
INLINE_TOTAL = 256 << 10  # more small bytes than this in one go are cheaper in a pack than in rows
_BATCH = 1 << 20


class Writer:
    """Use as a context: `add` returns oids at once, `finish` makes them durable, leaving releases the lease."""

    def __init__(self, objects: Objects, what: str, lease: Lease | None = None) -> None:
        """`lease` is the caller's own, when it holds one for longer than this writer lives."""
        self._objects, self._what = objects, what
        self._lease, self._shared = lease, lease is not None
        self._pack: PackWriter | None = None
        self._sealed: list[Sealed] = []
        self._inline: dict[bytes, bytes] = {}
        self._inline_bytes = 0
        self._waiting: dict[bytes, tuple[bytes, int | None]] = {}
        self._waiting_bytes = 0
        self._written: set[bytes] = set()
        self._roles: dict[bytes, int] = {}
        self._lists: dict[bytes, tuple[int, bytes]] = {}
        self._reused: set[bytes] = set()
        self._lost: set[bytes] = set()  # objects whose row is there but whose pack is not
        self._packs_seen: dict[int, bool] = {}
        self._complete = False

    def __enter__(self) -> Self:
        self._lease = self._lease or Lease(self._objects.db, self._what)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._pack is not None:
            self._pack.abandon()
        for sealed in self._sealed:  # only what finish() did not get to
            sealed.path.unlink(missing_ok=True)
        if self._lease is not None and not self._shared:
            # On a full disk the row cannot be deleted either, and the first error is the one to report.
            with contextlib.suppress(Unavailable) if kind else contextlib.nullcontext():
                self._lease.close()

    def add(self, data: bytes) -> str:
        """Store one small object."""
        digest = hashlib.sha256(data).digest()
        self._roles[digest] = self._roles.get(digest, 0) | OBJECT
        self._add_small(digest, data)
        return digest.hex()

    def add_stream(self, stream: Stream, size: int) -> tuple[str, int]:
        """Store one object of about `size` bytes, reading it once; returns (oid, bytes read)."""
        whole, items, at = hashlib.sha256(), list[tuple[bytes, int]](), 0
        for piece in cut(stream, size):
            whole.update(piece)
            digest = hashlib.sha256(piece).digest()
            self._roles[digest] = self._roles.get(digest, 0) | CHUNK
            self._queue(digest, piece, at)
            items.append((digest, len(piece)))
            at += len(piece)
        oid = whole.digest()
        if len(items) > 1:
            self._lists[oid] = (at, encode_list(oid, items))
        elif not items:
            self._add_small(oid, b"")
        self._roles[oid] = self._roles.get(oid, 0) | OBJECT
        return oid.hex(), at

    def finish(self) -> None:
        """Seal and name the packs, then write every row in one transaction."""
        self._flush()
        self._append_lists()
        self._seal()
        for sealed in self._sealed:
            packs.hand_over(sealed, self._objects.packs)
        try:
            self._write_rows()
        except BaseException:
            # Not after a COMMIT that failed: its rows may be in the log and come back when the repo is opened again.
            if not self._complete:
                self._take_back_packs()
            raise
        self._sealed.clear()

    def _write_rows(self) -> None:
        db = self._objects.db
        with db.write():
            assert self._lease is not None
            self._lease.check()
            refuse_purged(db, self._roles)
            now = tick(db)
            for sealed in self._sealed:
                self._pack_rows(sealed, now)
            self._inline_rows(now)
            relied = self._reused | self._lists.keys()
            touched = [(now, self._roles[digest], digest) for digest in relied]
            tables.touch_roles(db, touched)
            self._check_still_there()
            self._complete = True

    def _check_still_there(self) -> None:
        """Look again at all that this write relies on. A lease keeps gc away, but not a purge of shared chunks."""
        try:
            gone = self._objects.find_missing(digest.hex() for digest in self._reused)
            for sealed in self._sealed:
                self._objects.packs.size(sealed.name)
        except NotFound:
            gone = {"a pack"}
        if gone:
            raise Unavailable(
                "data that this write relies on was removed while it was running. Nothing was changed.",
                hint="Run it again.",
            )

    def _take_back_packs(self) -> None:
        """Delete the packs of a refused write: their bytes may be just what must not be stored."""
        for sealed in self._sealed:
            if not tables.has_pack(self._objects.db, sealed.name):
                self._objects.packs.delete(sealed.name)

    # -- what waits ---------------------------------------------------------------------------

    def _add_small(self, digest: bytes, data: bytes) -> None:
        if len(data) < INLINE_BELOW and self._inline_bytes + len(data) <= INLINE_TOTAL:
            self._inline.setdefault(digest, data)
            self._inline_bytes += len(data)
            return
        for other, waiting in self._inline.items():
            self._queue(other, waiting, None)
        self._inline.clear()
        self._inline_bytes = INLINE_TOTAL + 1
        self._queue(digest, data, None)

    def _queue(self, digest: bytes, data: bytes | memoryview, at: int | None) -> None:
        if digest in self._waiting or digest in self._reused or digest in self._written:
            return
        self._waiting[digest] = (bytes(data), at)
        self._waiting_bytes += len(data)
        if self._waiting_bytes >= _BATCH:
            self._flush()

    def _flush(self) -> None:
        """Write those waiting records to the pack that are new, which one query finds out."""
        stored = self._find_stored(self._waiting)
        self._reused |= stored
        for digest, (data, at) in self._waiting.items():
            if digest not in stored:
                self._append(digest, data, at)
        self._waiting.clear()
        self._waiting_bytes = 0

    def _find_stored(self, digests: Iterable[bytes]) -> set[bytes]:
        """Those that need not be stored again. An object condemned before our lease may vanish, so it counts as new."""
        assert self._lease is not None
        states = tables.list_states(self._objects.db, digests)
        kept = {oid: pack for oid, _, pack, gone in states if gone is None or gone >= self._lease.tick}
        self._lost |= {oid for oid, pack in kept.items() if pack is not None and not self._is_there(pack)}
        self._lost |= {oid for oid, form, _, _ in states if form == AWAY}  # at a remote only: now it is here
        return kept.keys() - self._lost

    def _is_there(self, pack: int) -> bool:
        """Whether a pack still exists. Its row does not prove it, and what a lost pack held must be stored again."""
        if pack not in self._packs_seen:
            try:
                self._objects.packs.size(self._objects.pack_name(pack))
                self._packs_seen[pack] = True
            except (NotFound, Corrupt):
                self._packs_seen[pack] = False
        return self._packs_seen[pack]

    def _append(self, digest: bytes, data: bytes, at: int | None) -> None:
        pack = self._open_pack()
        pack.append(digest, data, self._roles[digest], at=at)
        self._written.add(digest)
        if pack.is_full:
            self._seal()
            assert self._lease is not None
            self._lease.renew()

    def _open_pack(self) -> PackWriter:
        if self._pack is None:
            self._pack = PackWriter(self._objects.tmp, self._objects.repo)
        return self._pack

    def _append_lists(self) -> None:
        """Store chunk lists in the pack, beside their rows, so that a pack alone tells what its chunks belong to."""
        for oid in self._lists.keys() - self._find_stored(self._lists):
            size, data = self._lists[oid]
            self._open_pack().copy(Record(oid, CHUNKED, 0, 0, size, OBJECT), data)

    def _seal(self) -> None:
        if self._pack is not None:
            self._sealed.append(self._pack.seal())
            self._pack = None

    # -- rows ---------------------------------------------------------------------------------

    def _pack_rows(self, sealed: Sealed, now: int) -> None:
        db = self._objects.db
        pack = tables.add_pack(db, sealed.name, sealed.size)
        rows = []
        for r in sealed.records:
            chunk_list = self._lists[r.oid][1] if r.form == CHUNKED else None
            rows.append((r.oid, r.size, r.form, self._roles[r.oid], pack, r.start, r.length, now, None, chunk_list))
        tables.put_objects(db, rows)
        self._heal(rows)

    def _inline_rows(self, now: int) -> None:
        self._find_stored(self._inline)  # notes those whose pack is gone
        rows = []
        for digest, data in self._inline.items():
            form, payload = encode_inline(data)
            rows.append((digest, len(data), form, self._roles[digest], None, None, None, now, None, payload))
        tables.put_objects(self._objects.db, rows)
        self._heal(rows)

    def _heal(self, rows: Iterable[Row]) -> None:
        """Point rows that named a lost pack at what was stored now."""
        healed = [
            (form, pack, start, length, data, oid)
            for oid, _, form, _, pack, start, length, _, _, data in rows
            if oid in self._lost
        ]
        tables.replace_objects(self._objects.db, healed)


def is_large(size: int) -> bool:
    """Whether an object of this size is cut into chunks."""
    return size >= WHOLE_BELOW
