"""The parts that memories of one repo share in a process: index, kept vectors, embedder, counters. Opened when used."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from memlake import memories as later  # embedders, where there are any
from memlake.defaults import Settings
from memlake.errors import Damaged, Error, Unavailable
from memlake.index import rows
from memlake.index.embedding_store import Embeddings
from memlake.index.index import Index
from memlake.memories import embed
from memlake.memories.access_counts import Access
from memlake.memories.answers.recalls import Recalls
from memlake.memories.context import describe_spare, spare_index
from memlake.memories.embed import Sources, Worker
from memlake.objects.forks import Mutex
from memlake.versions import tables
from memlake.versions.checkout.local import Local
from memlake.versions.history.commits import History

if TYPE_CHECKING:
    from memlake.memories.embedders import Embedder
    from memlake.memories.rerankers import Reranker

Answer = TypeVar("Answer")
PATIENCE = 5.0  # seconds; the local model is loaded in one


class Shared:
    """One of them serves every branch and thread of a process."""

    def __init__(self, folder: Path, history: History, local: Local, settings: Settings) -> None:
        self._folder, self._settings = folder, settings
        self.embeddings = Embeddings(folder / "vectors.db")
        self._spare = contextlib.ExitStack()  # an index for this process, where the disk has no room for one
        self.index = self._open_index(folder / "index", history)
        self.access = Access(local, settings.access_flush_seconds)
        self.recalls = Recalls(folder, settings.memory_recalls)
        sources = Sources(history, self.index, self.embeddings, self.embedder)
        self.sources = sources
        self.worker = Worker(sources, size=settings.embedding_batch_size, seconds=settings.embedding_flush_seconds)
        self._lock = Mutex()
        self._embedders: dict[str, Embedder | None] = {}
        self._told: object = None  # the generation of the index that knows which model is wanted
        self._embedding = Asker(settings.embedding_timeout)
        self._reranking = Asker(settings.reranker_timeout)

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
                index.renew(index.edition)
        except Unavailable as full:
            index = self._spare.enter_context(spare_index())
            index.notice = describe_spare(full)
        return index

    # -- vectors ------------------------------------------------------------------------------

    @property
    def provider_spec(self) -> str:
        """The embedder that is configured, as provider or provider:model."""
        model = self._settings.embedding_model
        return f"{self._settings.embedding_provider}:{model}" if model else self._settings.embedding_provider

    def embedder(self, spec: str | None = None) -> Embedder | None:
        """An embedder, opened once; the configured one without a name."""
        name = spec or self.provider_spec
        with self._lock:
            if name not in self._embedders:
                self._embedders[name] = later.embedders.open_embedder(name, self._settings)
            found = self._embedders[name]
            if found is not None and name == self.provider_spec and self._told != self.index.edition:
                embed.want_model(self.sources, found.name, name)
                self._told = self.index.edition
            return found

    def is_embedder_open(self) -> bool:
        """Whether the configured embedder was used already and owes no answer: using it again costs no start."""
        return self._embedders.get(self.provider_spec) is not None and not self._embedding.is_late()

    def embeds_here(self) -> bool:
        """Whether what is configured embeds on this machine, and asks no service."""
        return self.provider_spec != "none" and later.embedders.is_on_this_machine(self.provider_spec)

    def vector_of(self, text: str) -> tuple[str, Any] | None:
        """The vector of a query by the model whose vectors serve now; None when there is none, or it cannot read it."""
        if self.provider_spec == "none":
            return None
        wanted = self.embedder()
        spec = embed.update_serving(self.index)
        embedder = wanted if spec in ("", self.provider_spec) or not self._may_be_asked(spec) else self.embedder(spec)
        if embedder is None:
            return None
        vector = self._embedding.ask(f"the embedder {embedder.name}", lambda: embedder.embed_query(text))
        return None if vector is None else (embedder.name, vector)

    def _may_be_asked(self, spec: str) -> bool:
        """Whether an embedder that is configured no longer may see a query: text goes to no service but today's.

        The index names it, and a stranger may have written that: no library loads a model from there.
        """
        provider = spec.partition(":")[0]
        is_service = not later.embedders.is_on_this_machine(spec)
        return spec in ("local", "test") or (is_service and provider == self.provider_spec.partition(":")[0])

    # -- the order of the first hits ----------------------------------------------------------

    @property
    def rerank(self) -> Callable[[str, Sequence[str]], list[float]] | None:
        """What gives each text a number beside a question, if a reranker is configured."""
        return None if self._settings.reranker_provider == "none" else self._rerank

    def _rerank(self, question: str, texts: Sequence[str]) -> list[float]:
        """A number for each text by the reranker that is configured; an Error, whatever it did."""
        reranker = self._reranker
        return self._reranking.ask(f"the reranker {reranker.name}", lambda: reranker.score(question, texts))

    @cached_property
    def _reranker(self) -> Reranker:
        return later.rerankers.open_reranker(self._settings)

    def wake(self) -> None:
        """Rows may wait for vectors. Says nothing of an index that cannot be read: the next search does."""
        with contextlib.suppress(Error):
            self._wake()

    def _wake(self) -> None:
        if self.provider_spec != "none" and rows.has_pending(self.index.db):
            self.worker.wake()

    def read_counts(self, keys: Sequence[bytes]) -> Mapping[bytes, int]:
        return {key: count for key, (count, _) in self.access.read(keys).items()}

    def close(self) -> None:
        with self._spare as parts:  # all of them, whatever one of them raises; the last first
            for close in (
                self.embeddings.close, self.index.close, self.sources.give_back, self.access.close, self.recalls.close,
            ):  # fmt: skip
                parts.callback(close)
            parts.callback(self.worker.close)


class Asker:
    """Asks whoever may be slow in a thread of its own: a search waits a moment, and no longer.

    While one question hangs, others are not waited for at all.
    """

    def __init__(self, seconds: float = PATIENCE) -> None:
        self._seconds = min(seconds, PATIENCE)
        self._late: _Question[Any] | None = None

    def is_late(self) -> bool:
        """Whether an answer is still owed that nobody waits for."""
        return self._late is not None and self._late.is_alive()

    def ask(self, who: str, work: Callable[[], Answer]) -> Answer:
        """What the work gives; an Error, whatever it did."""
        if self.is_late():
            raise Unavailable(f"{who} still has not answered an earlier search.")
        question = _Question(who, work)
        question.start()
        question.join(self._seconds)
        if question.is_alive():
            self._late = question
            raise Unavailable(f"{who} did not answer within {self._seconds:g} s.")
        if question.problem is not None:
            raise question.problem
        return question.answers[0]


class _Question(threading.Thread, Generic[Answer]):
    def __init__(self, who: str, work: Callable[[], Answer]) -> None:
        super().__init__(name="memlake-query", daemon=True)
        self._who, self._work = who, work
        self.answers: list[Answer] = []
        self.problem: Error | None = None

    def run(self) -> None:
        try:
            self.answers.append(self._work())
        except Error as error:
            self.problem = error
        except Exception as error:  # noqa: BLE001  a search must outlive whatever an embedder or a reranker does
            self.problem = Unavailable(f"{self._who} failed: {type(error).__name__}: {error}")
