"""Bits that flip in what is derived: noticed, and made again. Moments that were asked about do not pile up."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import memlake as ml
from memlake.index import rows, segments
from memlake.index.embedding_store import Embeddings
from memlake.index.index import DAMAGED
from memlake.memories.memories import Draft, Memories
from memlake.memories.search import Query
from tests.memories.conftest import opened


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A repo of 3000 memories, most of them in a segment."""
    with opened(tmp_path) as repo:
        memories = repo.memories()
        memories.store_many([Draft(f"fact {n} about word{n}") for n in range(2500)])
        memories.shared.index.fold()
        memories.store_many([Draft(f"late fact {n} about late{n}") for n in range(20)])
        memories.shared.index.db.checkpoint()
    return tmp_path


def segment(root: Path) -> Path:
    return next((root / ".memlake" / "index").glob("*/*.seg"))


def flip(file: Path, at: int) -> None:
    data = bytearray(file.read_bytes())
    data[at] ^= 1
    file.write_bytes(data)


def found(root: Path, word: str) -> tuple[list[str], tuple[str, ...]]:
    with ml.open(root) as repo:
        hits = repo.memories().search(Query(word, limit=1))
        return [hit["content"] for hit in hits], hits.notes


# -- segments -----------------------------------------------------------------------------------


def test_one_flipped_bit_of_a_small_segment_is_noticed_on_opening(root: Path) -> None:
    file = segment(root)
    for at in (file.stat().st_size // 3, file.stat().st_size - 70):
        flip(segment(root), at)
        assert found(root, "word1234") == (["fact 1234 about word1234"], (DAMAGED,))
        assert found(root, "word1234")[1] == ()
        with ml.open(root) as repo:
            repo.memories().shared.index.fold()


def test_a_flipped_bit_of_a_large_segment_is_found_and_mended_by_fsck(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segments, "SMALL", 0)
    with ml.open(root) as repo:
        assert repo.upkeep.fsck().ok
    flip(segment(root), segment(root).stat().st_size // 2)
    with ml.open(root) as repo:
        (problem,) = repo.upkeep.fsck().problems
        assert problem.kind == "index" and "made again" in problem.detail
        assert repo.upkeep.fsck().ok
    assert found(root, "word1234") == (["fact 1234 about word1234"], ())


def test_segments_are_checked_before_they_are_merged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segments, "SMALL", 0)
    with opened(tmp_path) as repo:
        memories = repo.memories()
        for n in range(3):
            memories.store(Draft(f"fact {n} about word{n}"))
            memories.shared.index.fold()
    flip(segment(tmp_path), segment(tmp_path).stat().st_size // 2)
    with ml.open(tmp_path) as repo:
        memories = repo.memories()
        memories.store(Draft("fact 3 about word3"))
        assert memories.shared.index._folding.acquire(timeout=0)
        memories.shared.index._fold()  # the fourth: all are merged
        assert memories.shared.index.notice == DAMAGED
        assert {hit["content"] for hit in memories.search(Query("fact"))} == {
            f"fact {n} about word{n}" for n in range(4)
        }


# -- rows -----------------------------------------------------------------------------------------


def hidden(memories: Memories) -> None:
    memories.shared.index.db.run("UPDATE row SET to_seq = 1 WHERE id = (SELECT max(id) FROM row)")


def of_other_words(memories: Memories) -> None:
    memories.shared.index.db.run("UPDATE fresh SET terms = zeroblob(length(terms)) WHERE row = 2510")


def shown_again(memories: Memories) -> None:
    gone = memories.list_memories(Query(limit=1))[0]
    memories.delete(gone.memory_id)
    with memories.shared.index.db.write():
        memories.shared.index.db.run("UPDATE row SET to_seq = ? WHERE id = 2520", (rows.NEVER,))
        memories.shared.index.db.run("DELETE FROM ended")


@pytest.mark.parametrize("harm", [hidden, of_other_words, shown_again])
def test_fsck_finds_rows_that_are_not_what_the_history_says(root: Path, harm: Callable[[Memories], None]) -> None:
    with ml.open(root) as repo:
        harm(repo.memories())
    with ml.open(root) as repo:
        (problem,) = repo.upkeep.fsck().problems
        assert problem.kind == "index" and repo.upkeep.fsck().ok


def test_fsck_is_content_with_fields_in_any_order(tmp_path: Path) -> None:
    with opened(tmp_path) as repo:
        repo.memories().store(Draft("tea", metadata={"b": 1, "a": 2}, tags=["y", "x"]))
        assert repo.upkeep.fsck().ok


# -- vectors.db -----------------------------------------------------------------------------------


def vector(seed: int) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    made = np.random.default_rng(seed).normal(size=8).astype(np.float32)
    return made / np.linalg.norm(made)


@pytest.mark.parametrize("harm", ["garbage", "flipped", "cut"])
def test_damaged_kept_vectors_are_begun_anew(tmp_path: Path, harm: str) -> None:
    file = tmp_path / "vectors.db"
    first = Embeddings(file)
    first.keep("m", {f"text {n}": vector(n) for n in range(500)}, {}, None)
    first.close()
    data = file.read_bytes()
    broken = {"garbage": b"nothing" * 3000, "cut": data[: len(data) // 2], "flipped": data[:4096] + b"\xff" * 4096}
    file.write_bytes(broken[harm])
    again = Embeddings(file)
    again.keep("m", {"new": vector(7)}, {b"object": "new"}, None)
    assert np.allclose(again.find("m", ["new"])["new"], vector(7), atol=1e-3)
    again.erase_objects([b"object"], b"purge")
    assert again.find("m", ["new", "text 3"]).keys() <= {"text 3"}
    again.close()


def test_a_kept_vector_with_a_flipped_bit_is_not_known(tmp_path: Path) -> None:
    file = tmp_path / "vectors.db"
    kept = Embeddings(file)
    kept.keep("m", {"one": vector(1), "two": vector(2)}, {}, None)
    (half,) = kept._db.row("SELECT half FROM vector")
    kept.close()
    data = file.read_bytes()
    at = data.index(half)
    file.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
    again = Embeddings(file)
    assert again.find("m", ["one", "two"]) == {}, "its page has a checksum; the file is begun anew"
    again.close()


# -- moments --------------------------------------------------------------------------------------


def test_moments_of_another_branch_do_not_pile_up(tmp_path: Path) -> None:
    with opened(tmp_path) as repo:
        memories = repo.memories()
        memories.store(Draft("the trunk"))
        memories.create_branch("draft")
        draft = memories.on("draft")
        for n in range(rows.MOMENTS + 5):
            draft.store(Draft(f"tea {n}"))
        assert len(draft.search(Query("tea", limit=100))) == rows.MOMENTS + 5
        commits = [commit.oid for commit in draft.log(rows.MOMENTS + 5)][::-1]
        for number, oid in enumerate(commits, 1):
            assert len(draft.search(Query("tea", limit=100, as_of=oid))) == number
        draft.search(Query("tea", as_of=commits[-4]))
        db = memories.shared.index.db
        named = {name for (name,) in db.rows("SELECT branch FROM overlay")}
        assert len(named) <= rows.MOMENTS + 1 and "draft" in named
        assert len(draft.search(Query("tea", limit=100, as_of=commits[0]))) == 1
