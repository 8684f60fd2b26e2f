"""Which embedder sees a text: the one configured now. And what a search says while vectors are not there yet."""

from __future__ import annotations

from pathlib import Path

import pytest

import memlake as ml
from memlake.errors import InvalidInput
from memlake.memories.memories import Draft
from memlake.memories.search import Query

from .conftest import FakeService, opened


@pytest.fixture
def served(tmp_path: Path, service: FakeService) -> Path:
    """A repo whose memories have their vectors from a service; its address stays configured."""
    service.answers(lambda asked: {"embeddings": [[float(len(text)), 1.0, 2.0] for text in asked["input"]]})
    root = tmp_path / "repo"
    with opened(root, "ollama") as repo:
        repo.config.set("embedding.url", service.url)
    with ml.open(root) as repo:
        repo.memories().store_many([Draft("Lena mends clocks"), Draft("Tea is hot")])
        assert repo.memories().wait(20) and service.asked
    service.asked.clear()
    return root


@pytest.mark.parametrize("provider", ["none", "test"])
def test_no_text_goes_to_a_service_that_is_configured_no_longer(
    provider: str, served: Path, service: FakeService
) -> None:
    with ml.open(served) as repo:
        repo.config.set("embedding.provider", provider)
    with ml.open(served) as repo:
        memories = repo.memories()
        memories.shared.worker.close()  # nothing has a vector by the new one yet
        assert memories.search(Query("clocks"))[0]["content"] == "Lena mends clocks"
        memories.remember(Draft("Lena repairs clocks"))
    with ml.open(served) as repo:
        assert repo.memories().wait(20)
        assert len(repo.memories().search(Query("clocks"))) == 2
    assert service.asked == []


def test_the_service_configured_now_serves_its_old_vectors_while_its_model_changes(
    served: Path, service: FakeService
) -> None:
    with ml.open(served) as repo:
        repo.config.set("embedding.provider", "ollama:nomic-embed-text")  # by name now: another to be embedded by
    with ml.open(served) as repo:
        repo.memories().shared.worker.close()
        assert repo.memories().search(Query("clocks")).mode == "hybrid"
    assert len(service.asked) == 1


def test_a_search_says_what_still_waits_for_its_vector(tmp_path: Path) -> None:
    with opened(tmp_path / "repo", "test") as repo:
        memories = repo.memories()
        memories.shared.worker.close()
        memories.store(Draft("tea is hot"))
        said = ("1 memory waits for its vector: found by words alone until then.",)
        assert memories.search(Query("tea")).notes == said
        assert memories.search(Query("tea", mode="keyword")).notes == ()
        assert memories.embed_pending() == 1
        assert memories.search(Query("tea")).notes == ()


@pytest.mark.parametrize(
    ("key", "bad"),
    [
        ("embedding.provider", "bogus"),
        ("embedding.provider", ""),
        ("embedding.url", "not a url"),
        ("embedding.url", "http://host:port"),
        ("embedding.url", "ftp://host"),
        ("embedding.url", "http://me:secret@host"),
    ],
)
def test_what_no_embedder_can_be_opened_with_is_refused_when_it_is_set(repo: ml.Repo, key: str, bad: str) -> None:
    before = repo.config.get(key)
    with pytest.raises(InvalidInput, match=f"{key} was not changed") as caught:
        repo.config.set(key, bad)
    assert "secret" not in caught.value.message and repo.config.get(key) == before


@pytest.mark.parametrize(
    ("key", "good"),
    [
        ("embedding.provider", "openai:text-embedding-3-large"),
        ("embedding.provider", "sentence-transformers"),  # its model may follow in embedding.model
        ("embedding.url", "localhost:11434"),
        ("embedding.url", "https://[::1]:8080/v1"),
    ],
)
def test_what_an_embedder_can_be_opened_with_is_taken_and_taken_out(repo: ml.Repo, key: str, good: str) -> None:
    repo.config.set(key, good)
    assert repo.config.get(key) == good
    repo.config.set(key, None)
    assert repo.config.get(key) != good
