"""Index: one generation of derived files, opened, brought up to date and searched. Knows docs, not memories.

`.memlake/index/CURRENT` names the generation. A damaged one is left behind and a new one is filled from the history.
"""

from __future__ import annotations

import contextlib
import re
import threading
import weakref
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path

import numpy as np

from memlake.errors import Damaged, Error, InvalidInput
from memlake.index import generations, rank, rows, segments, terms
from memlake.index.embedding_store import Embeddings
from memlake.index.generations import Derived, sound
from memlake.index.rank import USUAL, Arms, Boosts, Facts, Lookup, Scored, Words
from memlake.index.rows import Filter, Shown
from memlake.index.segments import Array
from memlake.index.vector_file import Header, read_header
from memlake.index.vectors import Flat, Probe
from memlake.index.view import AnyBlock, View
from memlake.named_tuple import NamedTuple
from memlake.nofollow import make_folder
from memlake.objects import disk, layout
from memlake.objects.forks import Latch, Mutex

DAMAGED = "The index was damaged; it was made again from the history."
MISSING = "The index was missing; it was made again from the history."
SAME = 0.99  # cosine of two vectors of one text; kept as float16 they may differ a little


class IndexQuery(NamedTuple):
    """One search: words, a filter, what is shown, a vector if there is one, and how many rows are wanted."""

    text: str
    limits: Filter = Filter()
    shown: Shown = Shown()
    vector: Array | None = None
    model: str = ""
    span: tuple[float, float] = USUAL  # which cosines of the model tell what is near
    boosts: Boosts = Boosts()
    access: Callable[[Sequence[bytes]], Mapping[bytes, int]] | None = None
    most: int = 100
    by_words: bool = True

    @property
    def candidates(self) -> int:
        """How many rows each arm hands to the ranking."""
        return max(100, 2 * self.most)


class Found(NamedTuple):
    """One row that was found: the record's key and object, and its score."""

    key: bytes
    oid: bytes
    scored: Scored


class Index:
    def __init__(self, folder: Path, embeddings: Embeddings | None = None) -> None:
        self.folder = folder
        self.erasables = (self, embeddings) if embeddings is not None else (self,)  # where purged objects are erased
        self.notice = ""  # that the index was made again, whoever found the damage: one search says it, once
        self._folding = Latch()  # held by the thread that folds
        self._changing = Mutex()
        self._closed = False
        self._left: list[weakref.ref[Derived]] = []
        self._open()

    # -- generations --------------------------------------------------------------------------

    def _open(self) -> None:
        self.edition: object = None
        self.generation, begun = generations.open_current(self.folder)
        self.notice = MISSING if begun else self.notice
        self._db = Derived(self.generation / "index.db", schema=[generations.SCHEMA], durable=False)
        self._view = View(self._db, self.generation)
        self._vectors: dict[tuple[str, int], Flat] = {}
        rows.forget_learnt(self.db)
        with contextlib.suppress(Error):  # a damaged one is found out by whoever reads it
            self.db.row("SELECT 1 FROM meta")
        self.edition = generations.read_edition(self.folder, self.generation)

    @property
    def db(self) -> Derived:
        """The database in use. A transaction that this thread began in an older one goes on there: otherwise it would
        wait for itself, because the lock is held by the one and the statement run in the other."""
        left = (known() for known in self._left)
        return next((db for db in left if db is not None and db.is_writing), self._db)

    def refresh(self) -> None:
        """Go over to the generation in use: another process may have made the index again, or somebody deleted it."""
        if not self._is_current():
            with self._changing:
                if self._closed:
                    raise InvalidInput(f"the index in {self.folder} was closed.", hint="Open the repo again.")
                # Whoever held the lock may have gone over already. To open the same generation once more would tell
                # those who read it that it was made again, and they would leave a sound one behind as damaged.
                if self._is_current():
                    return
                # The old one is let go of, not closed: its files are, when the last thread that uses it is done.
                self._left = [known for known in (*self._left, weakref.ref(self._db)) if known() is not None]
                self._open()

    def _is_current(self) -> bool:
        """Whether the generation in use is open here; it has no edition while it is being opened."""
        return self.edition is not None and self.edition == generations.read_edition(self.folder, self.generation)

    def renew(self, seen: object) -> None:
        """Leave a damaged generation (the one whose edition was `seen`) for a new one, which the history fills."""
        with self._changing:
            self.refresh()
            if self.edition != seen:  # another thread or process has done it
                return
            with generations.take_turn(self.folder, wait=True):
                if generations.read_edition(self.folder, self.generation) == seen:
                    generations.begin_generation(self.folder)
                    generations.drop_old(self.folder)
            self.refresh()
            self.notice = DAMAGED

    def take_notice(self) -> str:
        if not self.notice:  # as nearly always; the lock may be held for long
            return ""
        with self._changing:
            notice, self.notice = self.notice, ""
        return notice

    def _check_unchanged(self, seen: object) -> None:
        """Numbers of rows read from one generation mean nothing in another."""
        if seen != self.edition:
            raise Damaged("the index was made again while it was read.", hint="Try again.")

    # -- searching ----------------------------------------------------------------------------

    def search(self, query: IndexQuery) -> list[Found]:
        """The best rows in order, best first, at most `query.most`."""
        seen = self.edition
        with sound("the index"):
            found = self._search(query)
        self._check_unchanged(seen)
        return found

    def _search(self, query: IndexQuery) -> list[Found]:
        moment = self._view.now()
        blocks = moment.all
        masks = [self._view.find_allowed(moment, block, query.shown, query.limits) for block in blocks]
        words = self._find_words(blocks, masks, query)

        def rank_with(probe: Probe | None) -> list[Scored]:
            arms = self._gather_arms(masks, query, words, probe)
            candidates = rank.add_neighbours(blocks, masks, arms)
            factors = self._compute_factors(blocks, candidates.rows, query)
            ordered = rank.order(arms, candidates, factors, query.most)
            nearness = rank.stretch(_find_cosines(ordered, probe), query.span)
            return rank.add_evidence(ordered, words, nearness, blocks, masks)

        if query.vector is None:
            return self._read_found(rank_with(None))
        return self._read_found(self.vectors(query.model, len(query.vector)).ask(query.vector, rank_with))

    def _find_words(self, blocks: Sequence[AnyBlock], masks: Sequence[Array], query: IndexQuery) -> Words:
        """Scores by exact words, and by words of similar spelling for those that nobody wrote."""
        text = query.text if query.by_words else ""
        characters = {terms.hash_term(character) for character in terms.query_characters(text)}
        words = {terms.hash_term(word): word for word in (*terms.query_words(text), *terms.query_characters(text))}
        lookup = Lookup(blocks, list(words))
        exact = lookup.weigh(dict.fromkeys(words, 1.0))
        like: dict[int, float] = {}
        for code, word in words.items():
            if code not in exact:
                like.update(rows.find_similar(self.db, word))
        lookup.add([code for code in like if code not in words])
        similar, most = lookup.weigh(like), query.candidates
        # A word that nobody wrote is worth no more than one that a single row has.
        rarest = terms.weigh_word(1, sum(block.count for block in blocks))
        everything = sum(exact.values(), 0.0) + (len(words) - len(exact)) * rarest
        sure = {code: worth * (rank.HALF if code in characters else 1) for code, worth in exact.items()}
        return Words(
            lookup.score_rows(exact, masks, most),
            lookup.score_rows(similar, masks, most),
            lookup,
            {**similar, **exact},
            everything,
            {**lookup.weigh({code: share**rank.SPELT for code, share in like.items()}), **sure},
            min(everything, rank.ENOUGH * rarest),
        )

    def _gather_arms(self, masks: Sequence[Array], query: IndexQuery, words: Words, probe: Probe | None) -> Arms:
        if probe is None or query.vector is None:
            return rank.gather_arms(words.exact, words.similar, rank.NO_GAINS)
        if not probe.count:
            self._check_present(self.vectors(query.model, len(query.vector)))
            return rank.gather_arms(words.exact, words.similar, rank.NO_GAINS)
        # Rows count from 1; a row newer than this moment is beyond the last, and may not be found.
        allowed = np.concatenate([np.zeros(1, bool), *masks, np.zeros(1, bool)])
        near = probe.search(query.candidates, lambda ids: allowed.take(ids, mode="clip"))
        arms = rank.gather_arms(words.exact, words.similar, (near.rows, near.cosine))
        # An arm may not miss what another has: rows that only words found get their cosine too.
        rest = np.flatnonzero(arms.waiting)
        if len(rest):
            cosine = probe.score(arms.rows[rest])
            arms.vectors[rest] = np.where(cosine > 0, cosine, 0.0)
            arms.waiting[rest] = np.isnan(cosine)
        return arms

    # -- vectors ------------------------------------------------------------------------------

    def vectors(self, model: str, dimension: int) -> Flat:
        """The vectors of one model."""
        key = (model, dimension)  # a service may give a model of the same name another length
        if key not in self._vectors:
            name = re.sub(r"[^A-Za-z0-9.-]+", "-", model)[:60] + f"-{terms.hash_term(model):x}"[:9] + f"-{dimension}"
            folder = self.generation / "vectors" / name
            with disk.named_errors(f"making {folder}"):
                make_folder(folder)
            self._vectors[key] = Flat(folder, model, dimension)
        return self._vectors[key]

    def _read_headers(self) -> dict[Path, Header]:
        """The vectors there are, by folder."""
        found = {folder: read_header(folder) for folder in (self.generation / "vectors").glob("*")}
        return {folder: one[1] for folder, one in found.items() if one is not None}

    def models(self) -> set[str]:
        """The models that have vectors here."""
        return {header.model for header in self._read_headers().values()}

    def drop_vectors(self, but: str) -> None:
        """Remove the vectors of other models."""
        self._remove_folders([folder for folder, header in self._read_headers().items() if header.model != but])

    def _remove_folders(self, folders: Sequence[Path]) -> None:
        with self.db.write():
            self.db.run_in("DELETE FROM meta WHERE key IN carray(?1)", [f"vectors {folder.name}" for folder in folders])
        for folder in folders:
            disk.remove_tree(folder)

    def _open_folder(self, folder: Path) -> Flat:
        """Vectors by their folder, of whichever model."""
        found = read_header(folder)
        if found is None:
            raise Damaged(
                f"the vectors in {folder.name} have no header.", hint="They are made again from the memories."
            )
        return self.vectors(found[1].model, found[1].dimension)

    def has_vectors(self, model: str, dimension: int) -> bool:
        """Whether the last search with this model had vectors to compare with."""
        return (model, dimension) in self._vectors and self._vectors[model, dimension].last_count > 0

    def has_vector(self, key: bytes, model: str) -> bool:
        """Whether the newest row of a record has its vector."""
        row = self.db.row("SELECT max(id) FROM row WHERE key = ?", (key,))
        known = [h for h in self._read_headers().values() if h.model == model] if row and row[0] and model else []
        return any(self.vectors(model, head.dimension).has(np.array([row[0]], np.int64))[0] for head in known if row)

    def add_vectors(self, model: str, ids: Array, vectors: Array, *, of: Derived) -> None:
        """Keep the vectors of rows of a database. Rows that have one keep it; those that were purged get none."""
        with self._changing:
            if of is not self.db:
                raise Damaged("the index was made again while rows were embedded.", hint="They wait in the new one.")
            with of.write():  # one appender at a time
                there = {row for (row,) in of.rows_in("SELECT id FROM row WHERE id IN carray(?1)", ids.tolist())}
                if not there:
                    return
                mask = np.array([row in there for row in ids.tolist()], bool)
                ids, vectors = ids[mask], vectors[mask]
                known = self.vectors(model, vectors.shape[1])
                self._check_present(known)
                _check_same(known, ids, vectors)
                known.append(ids, vectors)
                rows.set_meta(of, **{f"vectors {known.folder.name}": 1})
                others = self._find_other_lengths(model, vectors.shape[1])
                if others:
                    rows.requeue_all(of)
                rows.raise_stamp(of)
            self._remove_folders(others)

    def _check_present(self, vectors: Flat) -> None:
        """Rows that had their vectors do not wait for them: where the files are gone, everything is made again."""
        if (
            read_header(vectors.folder) is None
            and rows.read_meta(self.db, f"vectors {vectors.folder.name}") is not None
        ):
            raise Damaged(f"the vectors in {vectors.folder.name} are gone.", hint="They are made again.")

    def _find_other_lengths(self, model: str, dimension: int) -> list[Path]:
        """Vectors of another length are of another model, whatever its name: every row needs a new one."""
        return [f for f, head in self._read_headers().items() if head.model == model and head.dimension != dimension]

    def _compute_factors(self, blocks: Sequence[AnyBlock], ids: Array, query: IndexQuery) -> Array:
        """How much importance, age and use lift each row, by their ascending ids."""
        factors = np.ones(len(ids))
        if not any(query.boosts):
            return factors
        used = np.zeros(len(ids), np.int64)
        if query.access and query.boosts.access:
            sql, listed = "SELECT id, key FROM row WHERE id IN carray(?1)", ids.tolist()
            keys: dict[int, bytes] = dict(self.db.rows_in(sql, listed))
            counts = query.access(list(keys.values()))
            if counts:
                used[:] = [counts.get(keys.get(row, b""), 0) for row in listed]
        now = layout.now()
        for _, block, span in rank.split_by_block(blocks, ids):
            at = ids[span] - block.first
            facts = Facts(block.columns["importance"][at], block.columns["created"][at], used[span])
            factors[span] = rank.boost(facts, query.boosts, now)
        return factors

    def _read_found(self, ordered: Sequence[Scored]) -> list[Found]:
        sql = "SELECT id, key, oid FROM row WHERE id IN carray(?1)"
        known = {row: (key, oid) for row, key, oid in self.db.rows_in(sql, [scored.row for scored in ordered])}
        return [Found(*known[scored.row], scored) for scored in ordered if scored.row in known]

    def list_rows(self, query: IndexQuery) -> list[Found]:
        """Rows that pass the filter, newest first: for lists, and for a search without words."""
        seen = self.edition
        with sound("the index"):
            moment = self._view.now()
            parts = [np.zeros((2, 0), np.int64)]
            for block in moment.all:
                at = np.flatnonzero(self._view.find_allowed(moment, block, query.shown, query.limits))
                parts.append(np.stack([block.columns["created"][at], at + block.first]))
            both = np.concatenate(parts, axis=1)
            newest = np.lexsort(both[::-1])[::-1][: query.most]
            listed = self._read_found([Scored(row, 0.0) for row in both[1][newest].tolist()])
        self._check_unchanged(seen)
        return listed

    def count(self) -> int:
        """All rows, shown or not."""
        return self._view.now().count

    def find(self, key: bytes, shown: Shown) -> bytes | None:
        """The oid of one record as a branch shows it."""
        moment = self._view.now()
        for row, oid in self.db.rows("SELECT id, oid FROM row WHERE key = ? ORDER BY id DESC", (key,)):
            block = next((block for block in moment.all if block.first <= row < block.first + block.count), None)
            if block is not None and self._view.find_allowed(moment, block, shown, Filter())[row - block.first]:
                return bytes(oid)
        return None

    # -- keeping ------------------------------------------------------------------------------

    def fold_soon(self) -> None:
        """Fold in the background when it is due."""
        if segments.is_fold_due(self.db) and self._folding.acquire(timeout=0):
            threading.Thread(target=self._fold, name="memlake-fold", daemon=True).start()

    def _fold(self) -> None:
        seen = self.edition
        try:
            with contextlib.suppress(Error):  # nobody waits for a fold; a full disk is met by the next reader
                try:
                    with sound("a segment"):
                        segments.fold(self.db, self.generation)
                except Damaged:  # no reader may meet it: what a flipped bit hides is missed by nobody
                    self.renew(seen)
        finally:
            self._folding.release()

    def read_purge_cursor(self) -> bytes | None:
        """The last purge that was followed here."""
        seen = rows.read_meta(self.db, "purged")
        return seen if isinstance(seen, bytes) else None

    def erase_objects(self, oids: Collection[bytes], purge: bytes) -> None:
        """Leave nothing of the rows of purged objects: words, vectors, places. Then `purge` is the last one seen.

        Where another process still reads the log, which has pages as they were, that is left to a later call.
        """
        with self._changing, disk.named_errors(f"erasing from {self.folder}"):
            with self.db.write():  # waits for whoever read such an object before it was purged, and adds its row now
                ids = self._find_rows(oids)
            if ids:
                self._erase(oids)
            with generations.take_turn(self.folder, wait=True):
                generations.drop_old(self.folder)
            if self.db.checkpoint():
                with self.db.write():
                    rows.set_meta(self.db, purged=purge)

    def _find_rows(self, oids: Collection[bytes]) -> list[int]:
        return [row for (row,) in self.db.rows_in("SELECT id FROM row WHERE oid IN carray(?1)", oids)]

    def _erase(self, oids: Collection[bytes]) -> None:
        """In one transaction, so that nobody adds a vector to a row that goes. A crash leaves the rows: it is done
        again by them."""
        with generations.take_turn(self.generation, wait=True), self.db.write():
            ids = self._find_rows(oids)
            for folder in (self.generation / "vectors").glob("*"):
                if read_header(folder) is not None or rows.read_meta(self.db, f"vectors {folder.name}") is not None:
                    self._open_folder(folder).forget(np.array(ids, np.int64))
            segments.erase_rows(self.db, self.generation, ids)

    def fold(self) -> bool:
        return segments.fold(self.db, self.generation)

    def close(self) -> None:
        with self._folding, self._changing:
            self._closed = True
            self._db.close()
            self._view, self._vectors = View(self._db, self.generation), {}  # with what they have mapped


def _check_same(known: Flat, ids: Array, vectors: Array) -> None:
    """Rows that wait and have a vector got it before a crash, from the same text: or index.db lost rows since."""
    held = known.has(ids)
    for row, vector in zip(ids[held], vectors[held], strict=True):
        if known.scores(vector, row[None])[0] < SAME:
            raise Damaged(f"the vector of row {row} is one of another text: index.db is older than it.")


def _find_cosines(ordered: Sequence[Scored], probe: Probe | None) -> Array:
    """The cosine of each row; NaN where it has no vector."""
    cosines = np.array([one.vectors or np.nan for one in ordered])
    rest = np.flatnonzero(np.isnan(cosines))
    if probe is not None and probe.count and len(rest):  # found by words or neighbours, and not alike or not embedded
        rows = np.array([ordered[place].row for place in rest.tolist()], np.int64)
        rest = rest[np.argsort(rows)]
        cosines[rest] = probe.score(np.sort(rows))
    return cosines
