"""The vector index: rows found by the cosine of their vectors. Knows row ids and numbers, nothing of memories or SQL.

`Flat` compares sign bits of all rows, then scores the nearest ones exactly. The newest rows, less than a block, have
no bits yet and are always scored exactly. One process at a time may change it (the caller holds a lock); any number
read meanwhile, and see a change at their next search.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from memlake.errors import InvalidInput
from memlake.index import binary_vectors, vector_file
from memlake.index.binary_vectors import Floats, Mask, Rows
from memlake.index.vector_file import Header, View
from memlake.objects import disk

Choose = Callable[[Rows], Mask]
Allow = Choose | Rows  # a mask for row ids, or the allowed row ids themselves

LISTED = 0.2  # up to this share of the rows, their bits are picked out; beyond, all bits are read in order
Result = TypeVar("Result")


@dataclass(frozen=True, eq=False)
class Found:
    """Rows found, best first, and how: `exact`, `bits of allowed rows`, `all bits, masked` or `all bits`."""

    rows: Rows
    cosine: Floats
    plan: str
    allowed: int
    scored: int


@dataclass(frozen=True, eq=False)
class Scope:
    """The slots a search may return: these, or those of a mask, or all."""

    size: int
    slots: Rows | None = None
    mask: Mask | None = None


class Flat:
    def __init__(self, folder: Path, model: str, dimension: int) -> None:
        if dimension < 1:
            raise InvalidInput(f"vectors of {dimension} dimensions cannot be. Nothing was changed.")
        self.folder = folder
        first = vector_file.make_number()
        self._empty = Header(
            model, dimension, vector_file.BLOCK, data=first, bits=first, rescore=binary_vectors.RESCORE
        )
        self._known: View | None = None

    # -- reading

    @property
    def count(self) -> int:
        view = self._view()
        return view.header.count - len(view.gone)

    @property
    def last_count(self) -> int:
        """As `count`, when the files were last looked at."""
        return self._known.header.count - len(self._known.gone) if self._known else 0

    @property
    def erased_count(self) -> int:
        """Slots that hold nothing any more until `compact`."""
        return len(self._view().gone)

    @property
    def rescore(self) -> int:
        """Candidates by bits that are scored exactly, as last measured."""
        return self._view().header.rescore

    def has(self, rows: npt.ArrayLike) -> Mask:
        view = self._view()
        slots = view.find(_check_ids(rows))
        return (slots >= 0) & ~np.isin(slots, view.gone)

    def scores(self, query: npt.ArrayLike, rows: npt.ArrayLike) -> Floats:
        """The cosine of given rows; NaN where there is no vector."""
        ids = _check_ids(rows)
        return self.ask(query, lambda probe: probe.score(ids))

    def search(self, query: npt.ArrayLike, k: int, *, allow: Allow | None = None) -> tuple[Rows, Floats]:
        found = self.explain(query, k, allow=allow)
        return found.rows, found.cosine

    def explain(self, query: npt.ArrayLike, k: int, *, allow: Allow | None = None) -> Found:
        """As `search`, with the plan it took."""
        if k < 1:
            raise InvalidInput(f"k is {k}; at least one row must be asked for. Nothing was changed.")
        return self.ask(query, lambda probe: probe.search(k, allow))

    def ask(self, query: npt.ArrayLike, work: Callable[[Probe], Result]) -> Result:
        """Several questions about one vector, all answered from the same state of the files."""
        unit: Floats = binary_vectors.units(np.asarray(query)[None], self._empty.dimension, what="query")[0]
        return self._steadily(lambda view: work(Probe(view, unit)))

    def verify(self) -> None:
        """Read everything and compare checksums; raises Corrupt."""
        header, wrong = self._steadily(lambda view: (view.header, vector_file.find_damaged(view)))
        if wrong:
            raise vector_file.make_damage_error(self.folder, header, wrong)

    def _view(self) -> View:
        known = self._known
        if (
            known is None
            or vector_file.read_stamp(self.folder) != known.stamp
            or not vector_file.is_mapped(self.folder, known)
        ):
            self._known = known = vector_file.read_view(self.folder, self._empty, known)
        return known

    def _steadily(self, work: Callable[[View], Result]) -> Result:
        """Work on what is there, again if rows were erased meanwhile: their bytes may have changed under it.

        Erasing says so in the header before it touches a byte, so looking once more afterwards is enough.
        """
        view = self._view()
        while True:
            result, before = work(view), view
            view = self._view()
            if (view.header.data, view.header.gone) == (before.header.data, before.header.gone):
                return result

    # -- changing

    def append(self, rows: npt.ArrayLike, vectors: npt.ArrayLike) -> None:
        """Add rows, on disk when this returns. Rows that are there or were erased are left as they are."""
        ids = _check_ids(rows)
        units = binary_vectors.units(vectors, self._empty.dimension)
        if len(ids) != len(units) or len(np.unique(ids)) != len(ids):
            raise InvalidInput(f"{len(units)} vectors need as many different rows, got {len(ids)}. Nothing was added.")
        with disk.named_errors(f"adding vectors to {self.folder}"):
            view = self._prepare_to_write()
            new = view.find(ids) < 0
            if new.any():
                self._append_rows(view, ids[new], units[new])

    def _append_rows(self, view: View, rows: Rows, units: Floats) -> None:
        before = view.header
        last = view.rows[-1] if before.count else np.iinfo(np.int64).min
        ascending = before.ascending and bool(rows[0] > last) and bool((np.diff(rows) > 0).all())
        with vector_file.Writer(self.folder, before) as writer:
            writer.add(rows, units.astype(np.float16))
            header = writer.finish(ascending=ascending)
        if header.blocks.bit_length() > before.blocks.bit_length():  # as often as the rows double
            header = _fit_header(self.folder, header)
        vector_file.sweep(self.folder, vector_file.publish(self.folder, header))

    def forget(self, rows: npt.ArrayLike) -> None:
        """Erase the vectors of rows from the files. After a crash in the middle, the next change finishes it."""
        with disk.named_errors(f"erasing vectors from {self.folder}"):
            view = self._prepare_to_write()
            slots = view.live(view.find(_check_ids(rows)))
            header = view.header
            if len(slots):
                gone = np.union1d(view.gone, slots)
                marked = replace(header, gone=gone.tobytes(), erasing=np.unique(slots).tobytes())
                header = vector_file.publish(self.folder, marked)
            self._erase(header)

    def _erase(self, header: Header) -> None:
        if header.serial and (cleaned := vector_file.erase(self.folder, header)) != header:
            vector_file.publish(self.folder, cleaned)

    def compact(self, keep: Choose) -> None:
        """Write the kept rows to new files, in order and without the erased ones, and switch to them."""
        with disk.named_errors(f"compacting {self.folder}"):
            view = self._prepare_to_write()
            mask = _make_mask(view, keep)
            slots = np.flatnonzero(mask) if view.order is None else view.order[mask[view.order]]
            header = _fit_header(self.folder, self._copy_rows(view, slots))
            vector_file.sweep(self.folder, vector_file.publish(self.folder, header))

    def _copy_rows(self, view: View, slots: Rows) -> Header:
        old = view.header
        start = replace(self._empty, serial=old.serial, data=old.next_number, bits=old.next_number, mean=old.mean)
        with vector_file.Writer(self.folder, start) as writer:
            for first in range(0, len(slots), start.block):
                piece = slots[first : first + start.block]
                writer.add(view.rows[piece], view.vectors[piece])
            return writer.finish(ascending=True)

    def _prepare_to_write(self) -> View:
        """What is there, after finishing or removing what a process that died had begun."""
        if not self.folder.is_dir():
            disk.mkdir(self.folder)
        view = self._view()
        vector_file.sweep(self.folder, view.header)
        if view.header.erasing:
            self._erase(view.header)
        return self._view()


def _check_ids(rows: npt.ArrayLike) -> Rows:
    given = np.asarray(rows)
    if given.ndim != 1 or (given.size and given.dtype.kind not in "iu"):
        raise InvalidInput(f"row ids are a list of integers, not {given.dtype} of shape {given.shape}.")
    return given.astype(np.int64)


def _fit_header(folder: Path, header: Header) -> Header:
    """Measure how many candidates are needed; where it is many, subtract the mean before taking signs if that helps."""
    if not header.blocks:
        return header
    view = vector_file.map_files(folder, header)
    rescore = _count_needed(view)
    if rescore > binary_vectors.RESCORE:
        centred = vector_file.write_bits(folder, view, binary_vectors.mean_of(view.vectors))
        with_mean = _count_needed(vector_file.map_files(folder, centred))
        header, rescore = (centred, with_mean) if with_mean < rescore else (header, rescore)
    return replace(header, rescore=rescore)


def _count_needed(view: View) -> int:
    sealed = view.header.blocks * view.header.block
    return binary_vectors.candidates_needed(view.vectors[:sealed], view.bits, view.mean)


def _make_mask(view: View, choose: Choose) -> Mask:
    mask = np.array(choose(view.rows), np.bool_)
    if mask.shape != view.rows.shape:
        raise InvalidInput(f"a filter of {len(view.rows)} rows answered with an array of shape {mask.shape}.")
    mask[view.gone] = False
    return mask


# -- searching


class Probe:
    """One query held against one state of the files."""

    def __init__(self, view: View, unit: Floats) -> None:
        self._view, self._unit = view, unit

    @property
    def count(self) -> int:
        return self._view.header.count - len(self._view.gone)

    def score(self, rows: Rows) -> Floats:
        """The cosine of given rows; NaN where there is no vector."""
        view = self._view
        slots = view.find(rows)
        known = (slots >= 0) & ~np.isin(slots, view.gone) if len(view.gone) else slots >= 0
        cosine, found = np.full(len(rows), np.nan, np.float32), slots[known]
        if (found[1:] > found[:-1]).all():  # as nearly always: rows ascend, and so do their slots
            cosine[known] = binary_vectors.dots(view.vectors, found, self._unit).clip(-1, 1)
        else:
            once, places = np.unique(found, return_inverse=True)
            cosine[known] = binary_vectors.dots(view.vectors, once, self._unit)[places].clip(-1, 1)
        return cosine

    def search(self, k: int, allow: Allow | None) -> Found:
        """The k allowed rows with the highest cosine."""
        view, scope = self._view, self._find_scope(allow)
        sealed, limit = view.header.blocks * view.header.block, max(view.header.rescore, 10 * k)
        if scope.size <= 2 * limit:  # reading these whole costs less than finding out which half to read
            plan, slots = "exact", scope.slots
            if slots is None:
                slots = np.arange(view.header.count) if scope.mask is None else np.flatnonzero(scope.mask)
        else:
            plan, slots = self._find_candidates(scope, sealed, limit)
        split = int(slots.searchsorted(sealed))
        old, new = slots[:split], slots[split:]
        cosine = binary_vectors.dots(view.vectors, old, self._unit)
        if 4 * len(new) < len(view.vectors) - sealed:
            newest = binary_vectors.dots(view.vectors, new, self._unit)
        else:
            newest = binary_vectors.dots_widened(view.newest, self._unit)[new - sealed]
        cosine = np.concatenate([cosine, newest])
        rows = view.rows[slots]
        top = binary_vectors.best(cosine, rows, k)
        return Found(rows[top], cosine[top].clip(-1, 1), plan, scope.size, len(slots))

    def _find_scope(self, allow: Allow | None) -> Scope:
        """The allowed slots as a list where they are few, else as a mask."""
        view, count = self._view, self._view.header.count
        if allow is None and not len(view.gone):
            return Scope(count)
        if allow is None or callable(allow):
            mask = _make_mask(view, allow or (lambda rows: np.ones(len(rows), np.bool_)))
            size = int(np.count_nonzero(mask))
            return Scope(size, np.flatnonzero(mask)) if size <= LISTED * count else Scope(size, mask=mask)
        slots = view.live(view.find(_check_ids(allow)))
        slots = slots if bool((slots[1:] > slots[:-1]).all()) else np.unique(slots)
        if len(slots) <= LISTED * count:
            return Scope(len(slots), slots)
        mask = np.zeros(count, np.bool_)
        mask[slots] = True
        return Scope(len(slots), mask=mask)

    def _find_candidates(self, scope: Scope, sealed: int, limit: int) -> tuple[str, Rows]:
        """The plan, and the slots to score: the nearest by bits, and all that have none yet."""
        view, furthest = self._view, 64 * self._view.bits.shape[1]
        bits = binary_vectors.query_bits(self._unit, view.mean)
        if scope.slots is not None:
            split = int(scope.slots.searchsorted(sealed))
            listed, newest = scope.slots[:split], scope.slots[split:]
            near = listed[binary_vectors.nearest(binary_vectors.distances_of(view.bits, listed, bits), limit, furthest)]
            return "bits of allowed rows", np.concatenate([near, newest])
        distances = binary_vectors.distances(view.bits, bits)
        newest = np.arange(sealed, view.header.count)
        if scope.mask is not None:
            binary_vectors.hide_others(distances, scope.mask[:sealed])
            newest = newest[scope.mask[sealed:]]
        plan = "all bits" if scope.mask is None else "all bits, masked"
        return plan, np.concatenate([binary_vectors.nearest(distances, limit, furthest), newest])
