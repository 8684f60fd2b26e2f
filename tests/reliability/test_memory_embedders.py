"""Embedders that raise, hang or lie: words are found, the queue keeps its rows, and a good one fills them later."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import memlake as ml
from memlake import config
from memlake.index import rows
from memlake.memories import resources
from memlake.memories.memories import Draft, Memories
from memlake.memories.search import Query
from tests.reliability.ground import fast_folder
from tests.reliability.memory_ground import (
    FAULTS,
    Faulty,
    embedded_by,
    everything,
    index_folder,
    made,
    store_numbered,
    text_of,
    wait_until,
)

COUNT = 40


@pytest.fixture
def root() -> Iterator[Path]:
    with fast_folder() as folder:
        yield made(folder / "repo", "test")


def embed_all(memories: Memories) -> None:
    while memories.embed_pending():
        pass


@pytest.fixture
def _no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    """What failed is tried again at once."""
    monkeypatch.setattr("memlake.memories.embed._LONGEST_PAUSE", 0.01)
    given_back = rows.return_pending
    monkeypatch.setattr(
        rows, "return_pending", lambda db, ids, _after, *, failed: given_back(db, ids, 0, failed=failed)
    )


# -- embedders that fail --------------------------------------------------------------------------------


@pytest.mark.usefixtures("_no_pause")
@pytest.mark.parametrize("fault", FAULTS)
def test_words_are_found_while_the_embedder_is_broken_and_vectors_follow_when_it_is_not(fault: str, root: Path) -> None:
    broken = Faulty(FAULTS[fault])
    with embedded_by(test=broken), ml.open(root) as repo:
        memories = repo.memories()
        stored = store_numbered(memories, range(COUNT))
        hits = memories.search(Query(text_of(7)))
        assert (hits[0]["content"], hits.mode) == (text_of(7), "keyword")
        assert len(hits.notes) == 1 and hits.notes[0].startswith("Searched by words only: the embedder test-64")
        assert wait_until(lambda: broken.asked > 30), "the worker gave up"
        assert not any(memories.has_vector(memory_id) for memory_id in stored)
        assert len(waiting_rows(memories)) == COUNT
        broken.fault = None
        memories.shared.worker.close()
        rows.retry_failed(memories.shared.index.db)
        embed_all(memories)
        assert all(memories.has_vector(memory_id) for memory_id in stored)
        hits = memories.search(Query(text_of(7)))
        assert (hits[0]["content"], hits.mode, hits.notes) == (text_of(7), "hybrid", ())


def waiting_rows(memories: Memories) -> list[int]:
    return [row for (row,) in memories.shared.index.db.rows("SELECT row FROM pending")]


@pytest.mark.usefixtures("_no_pause")
def test_rows_that_a_broken_embedder_used_up_wait_again_for_the_next_process(root: Path) -> None:
    with embedded_by(test=Faulty(FAULTS["raising"])), ml.open(root) as repo:
        memories = repo.memories()
        store_numbered(memories, range(3))
        memories.shared.worker.close()
        while rows.has_pending(memories.shared.index.db):
            with pytest.raises(RuntimeError):
                memories.embed_pending()
        assert memories.wait(0), "nobody waits for what was set aside"
        assert len(waiting_rows(memories)) == 3
    with ml.open(root) as repo:
        assert repo.memories().wait(20)
        assert all(repo.memories().has_vector(memory_id) for memory_id in everything(repo.memories()))


@pytest.mark.usefixtures("_no_pause")
def test_one_text_that_breaks_the_embedder_keeps_no_other_from_its_vector(root: Path) -> None:
    class Picky(Faulty):
        def embed(self, texts: object) -> object:
            if any("poison" in text for text in texts):  # type: ignore[attr-defined]
                raise RuntimeError("cannot bear it")
            return super().embed(texts)  # type: ignore[arg-type]

    with embedded_by(test=Picky()), ml.open(root) as repo:
        memories = repo.memories()
        poison = memories.store(Draft("poison"))
        stored = store_numbered(memories, range(COUNT))
        assert wait_until(lambda: all(memories.has_vector(memory_id) for memory_id in stored))
        assert wait_until(lambda: not rows.has_pending(memories.shared.index.db))
        assert not memories.has_vector(poison.memory_id)
        assert memories.search(Query("poison", mode="keyword"))[0]["content"] == "poison"


def test_a_hanging_embedder_delays_no_store_no_word_and_one_search(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resources, "PATIENCE", 0.3)
    let_go = threading.Event()

    def hang(rows: object) -> object:
        let_go.wait(250)  # longer than a test may take
        return rows

    hanging = Faulty(hang)
    with embedded_by(test=hanging), ml.open(root) as repo:
        memories = repo.memories()
        stored = store_numbered(memories, range(COUNT))
        assert wait_until(lambda: hanging.asked)
        memories.store(Draft("stored while it hangs"))
        assert memories.search(Query("hangs", mode="keyword"))[0]["content"] == "stored while it hangs"
        first, second = (memories.search(Query("hangs")) for _ in range(2))
        assert "did not answer within 0.3 s" in first.notes[0]
        assert "an earlier search" in second.notes[0]
        assert [hits.mode for hits in (first, second)] == ["keyword"] * 2
        let_go.set()
        assert memories.wait(20)
        assert all(memories.has_vector(memory_id) for memory_id in stored)
        assert wait_until(lambda: memories.search(Query("hangs")).mode == "hybrid")


def test_a_model_that_is_not_installed_yet_embeds_what_was_stored_before_it_was(root: Path) -> None:
    with embedded_by(), ml.open(root) as repo:
        store_numbered(repo.memories(), range(COUNT))
        assert repo.memories().wait(1)
        time.sleep(0.2)  # the worker looks at the queue
    with ml.open(root) as repo:
        memories = repo.memories()
        assert memories.wait(20)
        assert all(memories.has_vector(memory_id) for memory_id in everything(memories))


def test_a_setting_that_names_no_provider_leaves_words_and_says_so(root: Path) -> None:
    with ml.open(root) as repo:
        repo.memories().store(Draft("tea"))
        config.set_value(repo.dir, "embedding.provider", "nonesuch", repo_id=lambda: repo._id)
    with ml.open(root) as repo:
        repo.memories().store(Draft("more tea"))
        hits = repo.memories().search(Query("tea"))
        assert len(hits) == 2
        assert hits.mode == "keyword"
        assert "nonesuch" in hits.notes[0]


# -- another model --------------------------------------------------------------------------------------


def vector_folders(root: Path) -> list[str]:
    return sorted(folder.name for folder in (index_folder(root) / "vectors").iterdir())


def test_old_vectors_serve_until_the_new_ones_are_complete_and_are_then_removed(root: Path) -> None:
    old, new = Faulty(name="old"), Faulty(name="new")
    with embedded_by(test=old, next=new):
        with ml.open(root) as repo:
            stored = store_numbered(repo.memories(), range(COUNT))
            assert repo.memories().wait(20)
            config.set_value(repo.dir, "embedding.provider", "next", repo_id=lambda: repo._id)
        with ml.open(root) as repo:
            memories = repo.memories()
            memories.shared.worker.close()
            asked = old.asked
            hits = memories.search(Query(text_of(7), mode="semantic"))
            assert (hits.mode, old.asked - asked) == ("semantic", 1)
            assert hits[0]["content"] == text_of(7)
            assert memories.embed_pending() == 32
            assert memories.search(Query(text_of(7))).mode == "hybrid"
            assert old.asked == asked + 2, "the old model serves until the last row is done"
            assert len(vector_folders(root)) == 2
            assert memories.embed_pending() == COUNT - 32
            asked = new.asked
            assert memories.search(Query(text_of(7), mode="semantic"))[0]["content"] == text_of(7)
            assert (old.asked, new.asked) == (old.asked, asked + 1)
            assert [name[:3] for name in vector_folders(root)] == ["new"]
            assert memories.shared.embeddings.find("old", list(stored.values())) == {}
            assert all(memories.has_vector(memory_id) for memory_id in stored)


def test_files_of_an_old_model_that_a_crash_left_are_removed_by_the_next_process(root: Path) -> None:
    with embedded_by(test=Faulty(name="old"), next=Faulty(name="new")):
        with ml.open(root) as repo:
            store_numbered(repo.memories(), range(3))
            assert repo.memories().wait(20)
            left = vector_folders(root)[0]
            shutil.copytree(index_folder(root) / "vectors" / left, root / "left")
            config.set_value(repo.dir, "embedding.provider", "next", repo_id=lambda: repo._id)
        with ml.open(root) as repo:
            assert repo.memories().wait(20)
        shutil.copytree(root / "left", index_folder(root) / "vectors" / left, dirs_exist_ok=True)
        with ml.open(root) as repo:
            repo.memories().search(Query("note1"))
            assert [name[:3] for name in vector_folders(root)] == ["new"]


def test_a_model_of_the_same_name_and_another_length_is_another_model(root: Path) -> None:
    class Short(Faulty):
        dimension = 32

        def embed(self, texts: object) -> object:
            return super().embed(texts)[:, :32]  # type: ignore[arg-type]

    with embedded_by(test=Faulty()), ml.open(root) as repo:
        stored = store_numbered(repo.memories(), range(COUNT))
        assert repo.memories().wait(20)
    with embedded_by(test=Short()), ml.open(root) as repo:
        memories = repo.memories()
        hits = memories.search(Query(text_of(7)))
        assert (hits[0]["content"], hits.mode) == (text_of(7), "keyword")
        memories.store(Draft("one more"))
        assert wait_until(lambda: all(memories.has_vector(memory_id) for memory_id in stored))
        assert memories.wait(20)
        assert memories.search(Query(text_of(7))).mode == "hybrid"
        assert [name.rsplit("-", 1)[1] for name in vector_folders(root)] == ["32"]


# -- each safeguard switched off ------------------------------------------------------------------------


@pytest.mark.usefixtures("_no_pause")
def test_without_checking_what_an_embedder_says_wrong_vectors_are_kept(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.reliability.memory_ground.check_embedder", lambda embedder: embedder)
    with pytest.raises(AssertionError):
        test_words_are_found_while_the_embedder_is_broken_and_vectors_follow_when_it_is_not("of wrong dimensions", root)
