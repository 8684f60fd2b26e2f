"""Index: one generation of derived files, opened, brought up to date and searched. Knows docs, not memories.

`.memlake/index/CURRENT` names the generation. A damaged one is left behind and a new one is filled from the history.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from memlake.errors import Corrupt
from memlake.index import arms, erase, fold, generations, rank, rows, terms
from memlake.index.arms import Array
from memlake.index.rank import Arms, Boosts, Facts, Scored
from memlake.index.scope import Filter, Shown
from memlake.index.vectorfile import read_header
from memlake.index.vectors import Flat
from memlake.index.view import AnyBlock, Moment, View
from memlake.objects import layout
from memlake.objects.db import Database

_SPREAD = 50  # rows whose neighbours are looked at


class Asked(NamedTuple):
    """One search: words, a filter, what is shown, a vector if there is one, and how many rows are wanted."""

    text: str
    wanted: Filter = Filter()
    shown: Shown = Shown()
    vector: Array | None = None
    model: str = ""
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
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._open()
        self._folding = threading.Lock()
        self._vectors: dict[str, Flat] = {}

    def _open(self) -> None:
        self.generation = generations.current(self.folder)
        self.db = Database(self.generation / "index.db", schema=[generations.SCHEMA], durable=False)
        self._view = View(self.db, self.generation)

    def renew(self) -> None:
        """Leave a damaged generation behind and begin a new, empty one; the history fills it."""
        self.db.close()
        generations.begin(self.folder)
        self._vectors.clear()
        self._open()
        generations.drop_old(self.folder)

    # -- searching ----------------------------------------------------------------------------

    def search(self, asked: Asked) -> list[Found]:
        """The best rows in order, best first, at most `asked.most`."""
        moment = self._view.now()
        masks = {block.first: self._view.may(moment, block, asked.shown, asked.wanted) for block in moment.all}
        words, grams = self._by_words(moment, asked, masks) if asked.by_words else ({}, {})
        found = self._filled(Arms(words, grams, self._by_vectors(asked, moment, masks)), asked)
        fused = rank.fuse(found)
        gained = _neighbours(fused, moment, masks)
        ordered = rank.order(found, fused, gained, self._factors({*fused, *gained}, moment, asked))[: asked.most]
        return self._named(ordered)

    def _by_words(
        self, moment: Moment, asked: Asked, masks: Mapping[int, Array]
    ) -> tuple[dict[int, float], dict[int, float]]:
        """Scores by exact words, and by words of similar spelling for those that nobody wrote."""
        words = {terms.hash_of(word): word for word in terms.query_words(asked.text)}
        exact = arms.weights(moment.all, dict.fromkeys(words, 1.0))  # type: ignore[arg-type]
        like: dict[int, float] = {}
        for code, word in words.items():
            if code not in exact:
                like.update(rows.similar(self.db, word))
        similar = arms.weights(moment.all, like)  # type: ignore[arg-type]
        most = asked.candidates
        return _gather(moment, exact, masks, most), _gather(moment, similar, masks, most)

    def _by_vectors(self, asked: Asked, moment: Moment, masks: Mapping[int, Array]) -> dict[int, float]:
        if asked.vector is None:
            return {}
        vectors = self.vectors(asked.model, len(asked.vector))
        if not vectors.count:
            return {}
        # Rows count from 1; a row newer than this moment is beyond the last, and may not be found.
        may = np.concatenate([np.zeros(1, bool), *(masks[block.first] for block in moment.all), np.zeros(1, bool)])
        found, cosine = vectors.search(
            asked.vector, asked.candidates, allow=lambda ids: may[np.minimum(ids, len(may) - 1)]
        )
        return dict(zip(found.tolist(), cosine.tolist(), strict=True))

    def _filled(self, arms: Arms, asked: Asked) -> Arms:
        """The same with a cosine for the rows that only words found: an arm may not miss what another has."""
        rest = [row for row in {*arms.words, *arms.grams} if row not in arms.vectors]
        if not arms.vectors or not rest or asked.vector is None:
            return arms
        cosine = self.vectors(asked.model, len(asked.vector)).scores(asked.vector, np.array(rest, np.int64))
        known = {row: float(value) for row, value in zip(rest, cosine, strict=True) if value > 0}
        return arms._replace(vectors={**arms.vectors, **known})

    # -- vectors ------------------------------------------------------------------------------

    def vectors(self, model: str, dimension: int) -> Flat:
        """The vectors of one model."""
        if model not in self._vectors:
            name = re.sub(r"[^A-Za-z0-9.-]+", "-", model)[:60] + f"-{terms.hash_of(model):x}"[:9]
            folder = self.generation / "vectors" / name
            folder.mkdir(parents=True, exist_ok=True)
            self._vectors[model] = Flat(folder, model, dimension)
        return self._vectors[model]

    def _opened(self, folder: Path) -> Flat:
        """Vectors by their folder, of whichever model."""
        found = read_header(folder)
        if found is None:
            raise Corrupt(
                f"the vectors in {folder.name} have no header.", hint="They are made again from the memories."
            )
        return self.vectors(found[1].model, found[1].dimension)

    def has_vectors(self, model: str) -> bool:
        return model in self._vectors and self._vectors[model].count > 0

    def has_vector(self, key: bytes, model: str) -> bool:
        """Whether the newest row of a record has its vector."""
        row = self.db.row("SELECT max(id) FROM row WHERE key = ?", (key,))
        folders = (self.generation / "vectors").glob("*") if row and row[0] and model else ()
        known = [found[1] for found in map(read_header, folders) if found is not None and found[1].model == model]
        return any(self.vectors(model, head.dimension).has(np.array([row[0]], np.int64))[0] for head in known if row)

    def add_vectors(self, model: str, ids: Array, vectors: Array) -> None:
        """Keep the vectors of rows. Rows that have one keep it."""
        with self.db.write():  # one appender at a time
            self.vectors(model, vectors.shape[1]).append(ids, vectors)
            rows.stamp(self.db)

    def _factors(self, ids: set[int], moment: Moment, asked: Asked) -> dict[int, float]:
        """How much importance, age and use lift each row."""
        if not any(asked.boosts):
            return {}
        read = self._accesses(ids, asked) if asked.access and asked.boosts.access else {}
        now, facts = layout.now(), {}
        for row in ids:
            block = _block_of(moment.all, row)
            assert block is not None
            columns, at = block.columns, row - block.first
            known = Facts(float(columns["importance"][at]), int(columns["created"][at]), read.get(row, 0))
            facts[row] = rank.boost(known, asked.boosts, now)
        return facts

    def _accesses(self, ids: set[int], asked: Asked) -> dict[int, int]:
        keys: dict[int, bytes] = dict(self.db.rows_in("SELECT id, key FROM row WHERE id IN carray(?1)", ids))
        counts = asked.access(list(keys.values())) if asked.access else {}
        return {row: counts.get(key, 0) for row, key in keys.items()}

    def _named(self, ordered: Sequence[Scored]) -> list[Found]:
        sql = "SELECT id, key, oid FROM row WHERE id IN carray(?1)"
        known = {row: (key, oid) for row, key, oid in self.db.rows_in(sql, [scored.row for scored in ordered])}
        return [Found(*known[scored.row], scored) for scored in ordered if scored.row in known]

    def listed(self, asked: Asked) -> list[Found]:
        """Rows that pass the filter, newest first: for lists, and for a search without words."""
        moment = self._view.now()
        parts = []
        for block in moment.all:
            at = np.flatnonzero(self._view.may(moment, block, asked.shown, asked.wanted))
            parts.append(np.stack([block.columns["created"][at], at + block.first]))
        both = np.concatenate(parts, axis=1) if parts else np.zeros((2, 0), np.int64)
        newest = np.lexsort(both[::-1])[::-1][: asked.most]
        return self._named([Scored(int(row), 0.0) for row in both[1][newest]])

    def count(self) -> int:
        """All rows, shown or not."""
        return self._view.now().count

    def find(self, key: bytes, shown: Shown) -> bytes | None:
        """The oid of one record as a branch shows it."""
        moment = self._view.now()
        for row, oid in self.db.rows("SELECT id, oid FROM row WHERE key = ? ORDER BY id DESC", (key,)):
            block = _block_of(moment.all, row)
            if block is not None and self._view.may(moment, block, shown, Filter())[row - block.first]:
                return bytes(oid)
        return None

    # -- keeping ------------------------------------------------------------------------------

    def fold_soon(self) -> None:
        """Fold in the background when it is due."""
        if fold.is_due(self.db) and self._folding.acquire(blocking=False):
            threading.Thread(target=self._fold, name="memlake-fold", daemon=True).start()

    def _fold(self) -> None:
        try:
            fold.fold(self.db, self.generation)
        finally:
            self._folding.release()

    def erase(self, ids: Sequence[int]) -> None:
        """Leave nothing of rows: words, vectors, places."""
        erase.erase(self.db, self.generation, ids)
        for folder in (self.generation / "vectors").glob("*"):
            self._opened(folder).forget(np.array(ids, np.int64))

    def fold(self) -> bool:
        return fold.fold(self.db, self.generation)

    def close(self) -> None:
        with self._folding:
            self.db.close()


def _gather(moment: Moment, worth: Mapping[int, float], masks: Mapping[int, Array], most: int) -> dict[int, float]:
    """The best rows of all blocks with their scores."""
    scores: dict[int, float] = {}
    for block in moment.all if worth else ():
        found, gained = arms.score(block, worth, masks[block.first], most)  # type: ignore[arg-type]
        scores.update(zip(found.tolist(), gained.tolist(), strict=True))
    return dict(sorted(scores.items(), key=lambda item: -item[1])[:most])


def _neighbours(fused: Mapping[int, float], moment: Moment, masks: Mapping[int, Array]) -> dict[int, float]:
    """Shares for rows that stand beside the best ones in the same session."""
    near = []
    for row in sorted(fused, key=lambda row: -fused[row])[:_SPREAD]:
        block = _block_of(moment.all, row)
        assert block is not None
        beside = arms.neighbours(block, row, masks[block.first], len(rank.NEAR))  # type: ignore[arg-type]
        near += [(row, other, distance) for other, distance in beside]
    return rank.share(fused, near)


def _block_of(blocks: Sequence[AnyBlock], row: int) -> AnyBlock | None:
    return next((block for block in blocks if block.first <= row < block.first + block.count), None)
