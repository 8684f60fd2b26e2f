"""The parts that memories of one repo share in a process: index, kept vectors, embedder, counters. Opened when used."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memlake import memories as later  # embedders, where there are any
from memlake.config import Settings
from memlake.errors import Damaged, Error, Unavailable
from memlake.index import rows
from memlake.index.embedding_store import Embeddings
from memlake.index.index import Index
from memlake.memories import embed
from memlake.memories.access_counts import Access
from memlake.memories.embed import Sources, Worker
from memlake.memories.query_vector import Asker
from memlake.objects import disk
from memlake.objects.forks import Mutex
from memlake.versions import tables
from memlake.versions.checkout.local import Local
from memlake.versions.history.commits import History

if TYPE_CHECKING:
    from memlake.memories.embedders import Embedder


class Shared:
    """One of them serves every branch and thread of a process."""

    def __init__(self, folder: Path, history: History, local: Local, settings: Settings) -> None:
        self._folder, self._settings = folder, settings
        self.embeddings = Embeddings(folder / "vectors.db")
        self._spare = contextlib.ExitStack()  # an index for this process, where the disk has no room for one
        self.index = self._open_index(folder / "index", history)
        self.access = Access(local, settings.access_flush_seconds)
        sources = Sources(history, self.index, self.embeddings, self.embedder)
        self.sources = sources
        self.worker = Worker(sources, size=settings.embedding_batch_size, seconds=settings.embedding_flush_seconds)
        self._lock = Mutex()
        self._embedders: dict[str, Embedder | None] = {}
        self._told: object = None  # the generation of the index that knows which model is wanted
        self._asker = Asker(settings.embedding_timeout)

    def _open_index(self, folder: Path, history: History) -> Index:
        """The index, made anew when it cannot be read: it loses nothing. On a full disk it is made elsewhere."""
        try:
            index = Index(folder, self.embeddings)
            if not tables.has_memory(history.db):
                index.notice = ""  # nothing was ever remembered here: nothing is missing
            try:
                rows.read_meta(index.db, "head")
                index.count()
            except Damaged:
                index.renew(index.mark)
        except Unavailable as full:
            index = self._spare.enter_context(spare_index())
            index.notice = describe_spare(full)
        return index

    # -- vectors ------------------------------------------------------------------------------

    @property
    def wanted(self) -> str:
        """The embedder that is configured, as provider or provider:model."""
        model = self._settings.embedding_model
        return f"{self._settings.embedding_provider}:{model}" if model else self._settings.embedding_provider

    def embedder(self, spec: str | None = None) -> Embedder | None:
        """An embedder, opened once; the configured one without a name."""
        name = spec or self.wanted
        with self._lock:
            if name not in self._embedders:
                self._embedders[name] = later.embedders.open_embedder(name, self._settings)
            found = self._embedders[name]
            if found is not None and name == self.wanted and self._told != self.index.mark:
                embed.want_model(self.sources, found.name, name)
                self._told = self.index.mark
            return found

    def is_embedder_open(self) -> bool:
        """Whether the configured embedder was used already and owes no answer: using it again costs no start."""
        return self._embedders.get(self.wanted) is not None and not self._asker.is_late()

    def embeds_here(self) -> bool:
        """Whether what is configured embeds on this machine, and asks no service."""
        return self.wanted != "none" and later.embedders.is_on_this_machine(self.wanted)

    def vector_of(self, text: str) -> tuple[str, Any] | None:
        """The vector of a query by the model whose vectors serve now; None when there is none, or it cannot read it."""
        if self.wanted == "none":
            return None
        wanted = self.embedder()
        spec = embed.update_serving(self.index)
        embedder = wanted if spec in ("", self.wanted) or not self._may_be_asked(spec) else self.embedder(spec)
        vector = self._asker.ask(embedder, text) if embedder is not None else None
        return None if embedder is None or vector is None else (embedder.name, vector)

    def _may_be_asked(self, spec: str) -> bool:
        """Whether an embedder that is configured no longer may see a query: text goes to no service but today's.

        The index names it, and a stranger may have written that: no library loads a model from there.
        """
        provider = spec.partition(":")[0]
        is_service = not later.embedders.is_on_this_machine(spec)
        return spec in ("local", "test") or (is_service and provider == self.wanted.partition(":")[0])

    def wake(self) -> None:
        """Rows may wait for vectors. Says nothing of an index that cannot be read: the next search does."""
        with contextlib.suppress(Error):
            self._wake()

    def _wake(self) -> None:
        if self.wanted != "none" and rows.has_pending(self.index.db):
            self.worker.wake()

    def read_counts(self, keys: Sequence[bytes]) -> Mapping[bytes, int]:
        return {key: count for key, (count, _) in self.access.read(keys).items()}

    def close(self) -> None:
        with self._spare as parts:  # all of them, whatever one of them raises; the last first
            for close in (self.embeddings.close, self.index.close, self.sources.give_back, self.access.close):
                parts.callback(close)
            parts.callback(self.worker.close)


@contextlib.contextmanager
def spare_index() -> Iterator[Index]:
    """An empty index in memory, or where there is no such place in the folder for temporary files."""
    with disk.spare_folder() as folder:
        index = Index(folder / "index")
        try:
            yield index
        finally:
            index.close()


def describe_spare(full: Unavailable) -> str:
    return f"{full.message} So this was looked up without the index: slower, and by words alone."
