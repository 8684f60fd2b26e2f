"""Giving memories their vectors, behind the writes: in batches, again after failures, across restarts.

A memory is found by its words as soon as it is stored. Its vector comes later, from whichever process is open. When the
model is changed, the vectors of the old one serve until the new ones are all there, where no other service is asked.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from memlake.errors import Damaged, Error, NotFound, Purged, Unavailable
from memlake.index import rows
from memlake.index.embedding_store import Embeddings
from memlake.index.generations import Derived
from memlake.index.index import Index
from memlake.memories import record
from memlake.objects.forks import Mutex
from memlake.versions.history.commits import History

if TYPE_CHECKING:
    from memlake.memories.embedders import Embedder

Array = np.ndarray[Any, Any]
_FIRST_PAUSE, _LONGEST_PAUSE = 0.4, 45.0  # seconds before the queue is tried again after a failure
_PATIENCE = 5.0  # seconds for the worker to finish what it writes, or one step of a model in this process
_MOMENT = 0.2  # ... and for a service to answer; after that its rows are given back, and its answer is dropped


@dataclass(frozen=True, slots=True)
class Sources:
    """What embedding needs: records, the index, known vectors, and the embedder, opened when first used."""

    history: History
    index: Index
    embeddings: Embeddings
    open: Callable[[], Embedder | None]
    away: threading.Event = field(default_factory=threading.Event)  # set while a service has the word
    taken: list[tuple[Derived, list[int]]] = field(default_factory=list)  # rows that are being embedded

    @contextlib.contextmanager
    def note_away(self, embedder: Embedder) -> Iterator[None]:
        """Time that is the embedder's. One in this process comes back soon; a service may be down."""
        if not read_step(embedder):
            self.away.set()
        try:
            yield
        finally:
            self.away.clear()

    def give_back(self) -> None:
        """Let others have what was taken and is not done, at once: this process is leaving it."""
        for db, ids in tuple(self.taken):
            with contextlib.suppress(Error):
                rows.return_pending(db, ids, 0, failed=False)


def read_step(embedder: Embedder) -> int:
    """How many texts a model in this process embeds at once; 0 of a service."""
    return int(getattr(embedder, "step", 0))


def embed_some(sources: Sources, most: int = 32, *, in_steps: bool = False) -> int:
    """Embed one batch of what waits; returns how many rows left the queue. On a failure they are put back.

    `in_steps`: no more than the model does at once, for a caller that may be told to stop.
    """
    embedder = sources.open()
    if embedder is None:  # the model is not installed: rows wait for it
        return 0
    most = min(most, read_step(embedder) or most) if in_steps else most
    sources.index.refresh()
    db, seen = sources.index.db, sources.index.edition  # the rows taken from one database are given back to the same
    taken = rows.claim_pending(db, most)
    if not taken:
        return 0
    ids = [row for row, _ in taken]
    sources.taken.append((db, ids))
    try:
        purged = sources.embeddings.read_purge_cursor()  # before the texts are read
        texts = _read_texts(sources.history, {oid for _, oid in taken})
        vectors = _embed_texts(sources, embedder, texts, purged)
        kept = {row: vectors[texts[oid]] for row, oid in taken if texts.get(oid) in vectors}
        if kept:
            ids_of, stacked = np.array(list(kept), np.int64), np.stack(list(kept.values()))
            sources.index.add_vectors(embedder.name, ids_of, stacked, of=db)
    except BaseException as error:
        # Rows that cannot be given back are free again when the time they were taken for is over.
        with contextlib.suppress(Error):
            if isinstance(error, Damaged):
                sources.index.renew(seen)
            rows.return_pending(db, ids, 1, failed=not isinstance(error, Unavailable | Damaged))
        raise
    finally:
        sources.taken.remove((db, ids))
    rows.finish_pending(db, ids)
    drop_other_models(sources, embedder.name)
    return len(ids)


def _read_texts(history: History, oids: Iterable[bytes]) -> dict[bytes, str]:
    """The text of each object that still is there."""
    texts = {}
    for oid in oids:
        with contextlib.suppress(Purged, NotFound):
            texts[oid] = record.indexed_text(record.decode(history.objects.read(oid.hex())))
    return texts


def _embed_texts(
    sources: Sources, embedder: Embedder, texts: Mapping[bytes, str], purged: bytes | None
) -> dict[str, Array]:
    """Vectors of texts: known ones from vectors.db, the others from the embedder. Unreadable texts have none.

    `purged` is the last purge that vectors.db had followed before the texts were read.
    """
    each = list(dict.fromkeys(texts.values()))
    known = _drop_other_lengths(sources.embeddings.find(embedder.name, each), embedder.dimension)
    missing = [text for text in each if text not in known]
    fresh: dict[str, Array] = {}
    if missing:
        with sources.note_away(embedder):
            embedded = embedder.embed(missing)
        made = dict(zip(missing, embedded, strict=True))
        fresh = {text: vector for text, vector in made.items() if np.isfinite(vector).all()}
    sources.embeddings.keep(embedder.name, fresh, texts, purged)
    return _drop_other_lengths(known | fresh, embedder.dimension)


def _drop_other_lengths(vectors: dict[str, Array], dimension: int) -> dict[str, Array]:
    """Without those from when a model of this name had another length."""
    lengths = {len(vector) for vector in vectors.values()}
    right = dimension or (lengths.pop() if len(lengths) == 1 else 0)
    return {text: vector for text, vector in vectors.items() if len(vector) == right}


class Worker:
    """A thread that empties the queue: a full batch at once, a part of one after a moment, a failure after a pause."""

    def __init__(self, sources: Sources, *, size: int = 32, seconds: float = 1.0) -> None:
        self._sources, self._size, self._seconds = replace(sources, away=threading.Event(), taken=[]), size, seconds
        self._wake, self._stop = threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None
        self._lock = Mutex()
        self.problem: str | None = None

    def wake(self) -> None:
        """Something waits. Starts the thread when there is none."""
        self._wake.set()
        with self._lock:
            if (self._thread is None or not self._thread.is_alive()) and not self._stop.is_set():
                self._thread = threading.Thread(target=self._run, name="memlake-embed", daemon=True)
                self._thread.start()

    def close(self) -> None:
        """Stop after this step. What waits stays in the queue; a service that is slow or down is not waited for."""
        self._stop.set()
        self._wake.set()
        began = time.monotonic()
        while self._thread is not None and self._thread.is_alive():
            spent = time.monotonic() - began
            if spent > (_MOMENT if self._sources.away.is_set() else _PATIENCE):
                return self._sources.give_back()
            self._thread.join(0.02)
        return None

    def _run(self) -> None:
        failures = 0
        while not self._stop.is_set():
            try:
                self._gather()
                while not self._stop.is_set() and embed_some(self._sources, self._size, in_steps=True):
                    failures, self.problem = 0, None
            except Exception as error:  # noqa: BLE001  a worker must outlive whatever an embedder does
                self.problem = error.message if isinstance(error, Error) else f"{type(error).__name__}: {error}"
                self._stop.wait(min(_LONGEST_PAUSE, _FIRST_PAUSE * 2.0 ** min(failures, 16)))
                failures += 1
                continue
            self._wake.wait(30)

    def _gather(self) -> None:
        """Wait until a batch is full, or no longer than the flush interval."""
        self._wake.clear()
        end = time.monotonic() + self._seconds
        while time.monotonic() < end and not self._stop.is_set():
            if rows.count_pending(self._sources.index.db) >= self._size:
                return
            self._stop.wait(min(0.05, self._seconds))


def want_model(sources: Sources, name: str, spec: str) -> None:
    """Note which model is wanted. Where it is another one, every row waits for its vector again."""
    index = sources.index
    rows.retry_failed(index.db)
    if rows.read_meta(index.db, "wanted") == name:
        return drop_other_models(sources, name)
    with index.db.write():
        if rows.read_meta(index.db, "wanted") is not None:
            rows.requeue_all(index.db)
        else:
            rows.set_meta(index.db, serving=spec)
        rows.set_meta(index.db, wanted=name, wanted_spec=spec)
    return None


def drop_other_models(sources: Sources, name: str) -> None:
    """Once every row has its vector by the wanted model, the vectors of others serve no longer: remove them."""
    index = sources.index
    if index.models() - {name} and not rows.has_pending(index.db) and rows.read_meta(index.db, "wanted") == name:
        update_serving(index)
        index.drop_vectors(but=name)
        sources.embeddings.drop(but=name)


def update_serving(index: Index) -> str:
    """The embedder whose vectors answer searches: the old one, until the new one has done all rows."""
    now, wanted = rows.read_meta(index.db, "serving"), rows.read_meta(index.db, "wanted_spec")
    if now != wanted and wanted is not None and not rows.has_pending(index.db):
        with index.db.write():
            rows.set_meta(index.db, serving=wanted)
        now = wanted
    return str(now or "")


def read_model(index: Index) -> str:
    """The model that rows get their vectors from now; empty before the first."""
    return str(rows.read_meta(index.db, "wanted") or "")


def count_waiting(index: Index) -> int:
    return rows.count_pending(index.db)


def wait_for(index: Index, memory_id: str, seconds: float) -> bool:
    """Wait until no row of a memory is in the queue; False when one still is."""
    end = time.monotonic() + seconds
    while rows.is_pending(index.db, record.Memory(memory_id, "").key):
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def wait_until_empty(index: Index, seconds: float) -> bool:
    """Wait for the queue to be empty; False when it is not in time."""
    end = time.monotonic() + seconds
    while rows.count_pending(index.db):
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True
