"""Two sets of vectors: counts against a plain loop, figures against a brute force, and what a rotation is told from."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memlake.rows.vectors import EmbeddingDiff, Vectors, compare_vectors, match_places

RANDOM = np.random.default_rng(0)
COUNT, WIDTH = 400, 24
OLD = RANDOM.standard_normal((COUNT, WIDTH)).astype("f4")
IDS = [f"e{number}" for number in range(COUNT)]
TURN = np.linalg.qr(RANDOM.standard_normal((WIDTH, WIDTH)))[0].astype("f4")


def compare(new: Any, ids: list[str] | None = None, *, old: Any = OLD, limit: int | None = 10) -> EmbeddingDiff:
    before = Vectors(IDS[: len(old)], old, "F32")
    after = Vectors(IDS if ids is None else ids, new, "F32")
    return compare_vectors(before, after, ids_from="ids", limit=limit)


def cosine_distance(a: Any, b: Any) -> float:
    a, b = a.astype("f8"), b.astype("f8")
    return float(1 - a @ b / np.linalg.norm(a) / np.linalg.norm(b))


def test_equal_vectors_are_unchanged_in_any_order() -> None:
    order = RANDOM.permutation(COUNT)
    found = compare(OLD[order], [IDS[row] for row in order])
    assert found.is_empty and found.unchanged == COUNT and found.drift is None and found.notes == ()


def test_ids_that_came_went_and_moved_are_counted_and_the_farthest_is_named_first() -> None:
    new = OLD.copy()
    new[7] = -new[7]
    new[9] += 0.1
    found = compare(np.vstack([new[2:], OLD[:1]]), [*IDS[2:], "fresh"])
    assert (found.added_ids, found.removed_ids) == (("fresh",), ("e0", "e1"))
    assert (found.added, found.removed, found.moved, found.unchanged) == (1, 2, 2, COUNT - 4)
    assert [one.id for one in found.most_moved] == ["e7", "e9"]
    assert found.most_moved[0].drift == pytest.approx(2, abs=1e-6)
    assert found.most_moved[1].drift == pytest.approx(cosine_distance(OLD[9], new[9]), rel=1e-4)
    assert found.rotation is None, "most vectors stayed, so the space did"


def test_the_drift_of_all_is_described_by_quantiles_and_a_histogram() -> None:
    new = OLD + (RANDOM.standard_normal(OLD.shape) * 0.2).astype("f4")
    found = compare(new, limit=None)
    expected = np.array([cosine_distance(a, b) for a, b in zip(OLD, new, strict=True)])
    assert found.drift is not None and found.drift.vectors == sum(found.drift.counts) == COUNT
    assert found.drift.quantiles["0.5"] == pytest.approx(float(np.median(expected)), rel=1e-3)
    assert found.drift.edges[-1] == found.drift.quantiles["1"] == pytest.approx(expected.max(), rel=1e-3)
    assert len(found.most_moved) == COUNT
    assert found.rotation is not None and not found.rotation.is_reason


def test_a_rotation_of_the_space_is_told_from_entities_that_moved_beside_it() -> None:
    new = OLD @ TURN
    new[11] = -new[11]
    found = compare(new)
    assert found.rotation is not None and found.rotation.is_reason and found.rotation.residual < 1e-4
    assert found.moved == COUNT and found.most_moved[0].id == "e11"
    assert found.most_moved[0].rest == pytest.approx(2, abs=1e-4) and (found.most_moved[1].rest or 0) < 1e-6
    assert found.neighbours is not None and found.neighbours.changed < 0.2


def test_too_few_vectors_say_nothing_about_a_rotation() -> None:
    old = OLD[:12]
    assert compare(old + 1, IDS[:12], old=old).rotation is None


def test_lost_neighbours_are_counted_as_a_brute_force_counts_them() -> None:
    old, new = OLD[:90], OLD[:90] + (RANDOM.standard_normal((90, WIDTH)) * 0.5).astype("f4")
    found = compare(new, IDS[:90], old=old)
    sides = []
    for matrix in (old, new):
        units = matrix / np.linalg.norm(matrix, axis=1, keepdims=True)
        alike = units @ units.T
        np.fill_diagonal(alike, -2)
        sides.append([set(row) for row in np.argsort(-alike, axis=1)[:, :10]])
    lost = [len(a - b) for a, b in zip(*sides, strict=True)]
    assert found.neighbours is not None
    assert (found.neighbours.sample, found.neighbours.changed) == (90, pytest.approx(np.mean(lost)))
    assert found.neighbours.stable == lost.count(0)


def test_vectors_without_a_direction_are_said_and_counted_in_no_figure() -> None:
    old, new = OLD.copy(), OLD.copy()
    old[0], new[1], new[2, 3], new[4] = 0, 0, np.nan, np.inf
    new[6] *= 2
    found = compare(new, old=old)
    assert (found.moved, found.drift and found.drift.vectors) == (5, 1)
    assert found.most_moved[0].id == "e6" and found.most_moved[0].drift == pytest.approx(0, abs=1e-12)
    assert [note.split(";")[0] for note in found.notes] == [
        "the old side has 1 vectors that are all zeros",
        "the new side has 2 vectors with values that are not finite numbers (NaN or infinity)",
        "the new side has 1 vectors that are all zeros",
    ]


def test_numbers_whose_squares_do_not_fit_into_32_bits_have_a_direction() -> None:
    old = OLD * np.float32(1e25)
    new = old.copy()
    new[3] = -new[3]
    found = compare(new, old=old)
    assert found.notes == () and found.most_moved[0].drift == pytest.approx(2, abs=1e-5)


def test_another_dimension_leaves_only_neighbours_to_compare() -> None:
    found = compare(np.hstack([OLD, OLD]))
    assert (found.old_dimension, found.new_dimension, found.moved, found.drift) == (WIDTH, 2 * WIDTH, COUNT, None)
    assert found.neighbours is not None and found.neighbours.changed == 0
    assert "vectors of different lengths have no distance" in found.notes[0]


def test_rounding_to_16_bits_is_a_tiny_drift() -> None:
    found = compare(OLD.astype("f2"))
    assert found.moved > 0 and found.drift is not None and found.drift.quantiles["1"] < 1e-6
    assert found.neighbours is not None and found.neighbours.changed < 0.1


def test_a_repeated_id_is_said_and_its_vectors_meet_in_their_order() -> None:
    ids = ["a", "b", "a"]
    old, new = Vectors(ids, OLD[:3], "F32"), Vectors([*ids, "a"], OLD[[0, 1, 2, 5]], "F32")
    found = compare_vectors(old, new, ids_from="ids")
    assert (found.added, found.removed, found.unchanged) == (1, 0, 3) and "'a' occurs more than once" in found.notes[0]


def test_one_vector_and_none_are_compared() -> None:
    assert compare(-OLD[:1], IDS[:1], old=OLD[:1]).moved == 1
    assert compare(OLD[:0], [], old=OLD[:2]).removed == 2


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 30), max_size=12), st.lists(st.integers(0, 30), max_size=12))
def test_rows_without_ids_are_each_matched_at_most_once_and_in_order(old: list[int], new: list[int]) -> None:
    was, now = (np.array(side, "f4").reshape(-1, 1) for side in (old, new))
    found = match_places(was, now)
    assert list(found.old) == sorted(set(found.old)) and list(found.new) == sorted(set(found.new))
    assert sorted([*found.old, *found.removed]) == list(range(len(old)))
    assert sorted([*found.new, *found.added]) == list(range(len(new)))


def test_a_row_that_was_taken_out_of_the_middle_moves_no_other() -> None:
    found = match_places(OLD, np.delete(OLD, [5, 200], axis=0))
    assert list(found.removed) == [5, 200] and not len(found.added)
