"""Vectors as points: what is drawn as moved, and that the same vectors are drawn alike."""

from __future__ import annotations

from typing import Any

import numpy as np

from memlake.rows.vector_map import VectorMap, map_vectors
from memlake.rows.vectors import Vectors, compare_vectors, match_ids

RANDOM = np.random.default_rng(0)
OLD = RANDOM.standard_normal((300, 16)).astype("f4")
IDS = [f"e{number}" for number in range(300)]
TURN = np.linalg.qr(RANDOM.standard_normal((16, 16)))[0].astype("f4")


def draw(new: Any, ids: list[str], old: Any = OLD) -> VectorMap:
    was, now = Vectors(IDS[: len(old)], old, "F32"), Vectors(ids, new, "F32")
    matches, _ = match_ids(was.ids, now.ids)
    return map_vectors(was, now, matches, compare_vectors(was, now, ids_from="ids"))


def test_what_stayed_moved_came_and_went_is_told_apart() -> None:
    new = OLD.copy()
    new[7], new[9] = -new[7], new[9] + 0.2
    found = draw(np.vstack([new[2:], OLD[:1]]), [*IDS[2:], "fresh"])
    assert (len(found.stayed), found.moved_ids, len(found.added), len(found.removed)) == (296, ("e7", "e9"), 1, 2)
    assert np.allclose(found.moved_from[0], -found.moved_to[0], atol=0.1)
    again = draw(np.vstack([new[2:], OLD[:1]]), [*IDS[2:], "fresh"])
    assert np.array_equal(found.stayed, again.stayed) and not found.is_turned


def test_after_a_rotation_only_what_moved_beside_it_is_drawn_as_moved() -> None:
    new = OLD @ TURN
    new[11] = -new[11]
    found = draw(new, IDS)
    assert found.is_turned and found.moved_ids == ("e11",) and len(found.stayed) == 299


def test_large_sets_are_sampled_and_those_that_moved_most_are_always_drawn() -> None:
    old = RANDOM.standard_normal((5000, 8)).astype("f4")
    new = old + (RANDOM.standard_normal(old.shape) * 0.01).astype("f4")
    new[4321] = -old[4321]
    ids = [str(number) for number in range(5000)]
    was, now = Vectors(ids, old, "F32"), Vectors(ids, new, "F32")
    found = map_vectors(was, now, match_ids(ids, ids)[0], compare_vectors(was, now, ids_from="ids"))
    assert len(found.moved_ids) == 300 and found.moved_ids[0] == "4321"


def test_vectors_without_a_direction_and_single_ones_are_drawn_as_far_as_they_can_be() -> None:
    old, new = OLD[:3].copy(), OLD[:3].copy()
    old[0], new[1] = 0, np.nan
    assert len(draw(new, IDS[:3], old).stayed) == 1
    assert draw(-OLD[:1], IDS[:1], OLD[:1]).moved_ids == ("e0",)
