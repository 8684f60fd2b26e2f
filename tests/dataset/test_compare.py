"""Two versions side by side: how far the vectors of a column moved."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import memlake as ml
from memlake.views.dataset import diff_lines
from tests.contents.test_embeddings import Plain


def test_vectors_of_a_version_are_compared_by_the_key(tmp_path: Path) -> None:
    matrix = np.random.default_rng(0).standard_normal((30, 12))
    ids = [f"e{number}" for number in range(30)]
    with ml.init(tmp_path) as repo:
        datasets = repo.datasets()
        datasets.read_values(id=ids, emb=[row.tolist() for row in matrix], size=[1] * 30).save("pets")
        matrix[4] = -matrix[4]
        datasets.read_values(id=ids[1:], emb=[row.tolist() for row in matrix[1:]], size=[2] * 29).save("pets")
        found = datasets.differences("pets@1.0.0", "pets", on=["id"])
        (vectors,) = found.vectors
        assert (vectors.column, vectors.ids_from, vectors.moved, vectors.removed_ids) == ("emb", "id", 1, ("e0",))
        assert vectors.most_moved[0].id == "e4" and found.to_dict()["vectors"] == found.vectors
        assert datasets.differences("pets@1.0.0", "pets").vectors == (), "nothing says which vector is which"


def test_the_door_shows_them(tmp_path: Path) -> None:
    with ml.init(tmp_path) as repo:
        datasets = repo.datasets()
        for sign in (1.0, -1.0):
            datasets.read_values(id=["a", "b"], emb=[[sign] * 9, [1.0] * 8 + [2.0]]).save("pets")
        lines = list(diff_lines(Plain(), datasets.differences("pets@1.0.0", "pets", on=["id"])))
    assert "vectors in column emb: 2 vectors: 1 moved, 1 unchanged (matched by id)" in lines
