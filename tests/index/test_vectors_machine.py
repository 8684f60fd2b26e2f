"""The vector index against a dict: any order of appends, erasures, compactions and openings, by any process."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from memlake.index import binary_vectors, vector_file
from memlake.index.vectors import Allow, Flat
from tests.reliability.ground import fast_folder

D = 20
ROWS = st.lists(st.integers(0, 200), unique=True, max_size=60)


def vector(row: int) -> np.ndarray:
    return np.random.default_rng(row).standard_normal(D).astype(np.float32)


def unit(row: int) -> np.ndarray:
    """What the index keeps of a row's vector: a unit vector in float16."""
    return (vector(row) / np.linalg.norm(vector(row))).astype(np.float16).astype(np.float32)


class Machine(RuleBasedStateMachine):
    """Two openings of one index take turns, so each must notice what the other wrote."""

    exact = True

    @initialize()
    def start(self) -> None:
        self.place = contextlib.ExitStack()
        self.folder = self.place.enter_context(fast_folder()) / "vectors"
        self.openings = [Flat(self.folder, "m", D), Flat(self.folder, "m", D)]
        self.model: dict[int, np.ndarray] = {}
        self.erased: set[int] = set()
        self.turn = 0

    def teardown(self) -> None:
        if hasattr(self, "folder"):
            self.place.close()

    @property
    def index(self) -> Flat:
        self.turn += 1
        return self.openings[self.turn % 2]

    @rule(rows=ROWS)
    def append(self, rows: list[int]) -> None:
        self.index.append(np.array(rows, np.int64), np.array([vector(row) for row in rows]).reshape(-1, D))
        self.model |= {row: unit(row) for row in rows if row not in self.erased}

    @rule(rows=ROWS)
    def forget(self, rows: list[int]) -> None:
        self.index.forget(rows)
        self.erased |= self.model.keys() & set(rows)
        self.model = {row: known for row, known in self.model.items() if row not in rows}

    @rule(step=st.integers(2, 9))
    def compact(self, step: int) -> None:
        self.index.compact(lambda rows: rows % step > 0)
        self.model = {row: known for row, known in self.model.items() if row % step}
        self.erased = set()

    @rule()
    def reopen(self) -> None:
        self.openings.reverse()
        self.openings[0] = Flat(self.folder, "m", D)

    @rule(query=st.integers(300, 400), k=st.integers(1, 300), step=st.integers(1, 9), as_ids=st.booleans())
    def search(self, query: int, k: int, step: int, *, as_ids: bool) -> None:
        allowed = sorted(row for row in self.model if row % step == 0)
        allow: Allow = np.arange(0, 201, step) if as_ids else lambda rows: rows % step == 0
        rows, cosine = self.index.search(vector(query), k, allow=allow if step > 1 else None)
        expected = self._cosines(query, allowed)
        assert len(rows) == min(k, len(allowed)) == len(set(rows.tolist()))
        found = dict(zip(allowed, expected, strict=True))
        np.testing.assert_allclose(cosine, [found[row] for row in rows.tolist()], atol=1e-4)
        if self.exact:
            np.testing.assert_allclose(cosine, np.sort(expected)[::-1][:k], atol=1e-4)

    def _cosines(self, query: int, rows: list[int]) -> np.ndarray:
        known = np.array([self.model[row] for row in rows]).reshape(-1, D)
        return known @ (vector(query) / np.linalg.norm(vector(query)))

    @invariant()
    def agrees(self) -> None:
        if not hasattr(self, "folder"):
            return
        every = np.arange(-1, 202)
        assert self.index.count == len(self.model)
        assert set(every[self.index.has(every)].tolist()) == set(self.model)
        scores = self.index.scores(vector(500), every)
        assert set(every[~np.isnan(scores)].tolist()) == set(self.model)
        np.testing.assert_allclose(scores[~np.isnan(scores)], self._cosines(500, sorted(self.model)), atol=1e-4)
        self.index.verify()


class ByBits(Machine):
    """With so few candidates that bits decide: a neighbour may be missed, a score or a filter may not be wrong."""

    exact = False


@pytest.mark.parametrize(("machine", "rescore"), [(Machine, 1000), (ByBits, 8)])
def test_it_agrees_with_a_dict(machine: type[Machine], rescore: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vector_file, "BLOCK", 16)
    monkeypatch.setattr(binary_vectors, "RESCORE", rescore)
    many = settings(stateful_step_count=25, suppress_health_check=list(HealthCheck))
    run_state_machine_as_test(machine, settings=many)
