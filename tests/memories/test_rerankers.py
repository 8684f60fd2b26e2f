"""Rerankers: whoever reads the first hits may order them, and no failure of theirs is one of the search."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import memlake as ml
from memlake.defaults import Settings
from memlake.errors import InvalidInput, Unavailable
from memlake.memories import rerankers
from memlake.memories.memories import Draft
from memlake.memories.search import Hits, Query

from .conftest import FakeService, opened

TEXTS = ("The api listens on port 8001", "The api port of the old staging server", "An api, a port, a long story")
LONGEST_FIRST = "def score(question, texts):\n    return [len(text) for text in texts]\n"


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path / "my_reranker.py"
    sys.modules.pop("my_reranker", None)


def search(folder: Path, **settings: str) -> Hits:
    with opened(folder / "repo") as repo:
        repo.memories().store_many([Draft(text) for text in TEXTS])
        for key, value in settings.items():
            repo.config.set(key.replace("_", ".", 1), value)
    with ml.open(folder / "repo") as repo:
        return repo.memories().search(Query("api port"))


def texts_of(hits: Hits) -> list[str]:
    return [hit["content"] for hit in hits]


def check_longest_first(hits: Hits) -> None:
    assert texts_of(hits) == sorted(TEXTS, key=len, reverse=True)
    for shown in ([hit["similarity_score"] for hit in hits], [hit["why"]["rank"] for hit in hits]):
        assert shown == sorted(shown, reverse=True)


def test_a_python_function_orders_the_first_hits(tmp_path: Path, module: Path) -> None:
    module.write_text(LONGEST_FIRST)
    hits = search(tmp_path, reranker_provider="python", reranker_model="my_reranker:score")
    check_longest_first(hits)
    assert [hit["why"]["reranker"] for hit in hits] == sorted(map(len, TEXTS), reverse=True)


def test_a_program_orders_the_first_hits(tmp_path: Path) -> None:
    code = "import json, sys; print([len(text) for text in json.load(sys.stdin)['documents']])"
    check_longest_first(search(tmp_path, reranker_provider=f'command:{sys.executable} -c "{code}"'))


def test_a_service_orders_the_first_hits(tmp_path: Path, service: FakeService, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMLAKE_RERANKER_KEY", "k-123")
    service.answers(
        lambda asked: {
            "results": [{"index": at, "relevance_score": len(text)} for at, text in enumerate(asked["documents"])][::-1]
        }
    )
    check_longest_first(search(tmp_path, reranker_provider="http:tiny", reranker_url=f"{service.url}/v1"))
    ((path, headers, asked),) = service.asked
    assert (path, headers["Authorization"]) == ("/v1/rerank", "Bearer k-123")
    assert (asked["model"], asked["query"], asked["top_n"]) == ("tiny", "api port", len(TEXTS))


@pytest.mark.parametrize(
    ("code", "note"),
    [
        ("def score(question, texts):\n    raise RuntimeError('out of memory')\n", "RuntimeError: out of memory"),
        ("def score(question, texts):\n    return [1.0]\n", "1 numbers for 3 texts"),
        ("def score(question, texts):\n    return [float('nan')] * len(texts)\n", "a number that is not finite"),
        ("def score(question, texts):\n    return 'high'\n", "not a list of numbers"),
        ("import nothing_like_that\n", "could not be loaded"),
        ("score = None\n", "TypeError"),
    ],
    ids=["raises", "too few", "not finite", "no numbers", "no module", "no function"],
)
def test_one_that_fails_leaves_the_order_and_a_note(tmp_path: Path, module: Path, code: str, note: str) -> None:
    usual = texts_of(search(tmp_path / "usual"))
    module.write_text(code)
    hits = search(tmp_path, reranker_provider="python:my_reranker:score")
    assert texts_of(hits) == usual
    assert any(note in said for said in hits.notes), hits.notes


def test_one_that_does_not_answer_in_time_is_left(tmp_path: Path, service: FakeService) -> None:
    service.answers("hang")
    usual = texts_of(search(tmp_path / "usual"))
    hits = search(tmp_path, reranker_provider="http", reranker_url=service.url, reranker_timeout="0.1")
    assert texts_of(hits) == usual
    assert any("did not answer within 0.1 s" in said for said in hits.notes), hits.notes


def test_a_function_that_hangs_is_waited_for_once(tmp_path: Path, module: Path) -> None:
    module.write_text("import threading\nend = threading.Event()\ndef score(question, texts):\n    end.wait(30)\n")
    with opened(tmp_path / "repo") as repo:
        repo.memories().store_many([Draft(text) for text in TEXTS])
        repo.config.set("reranker.provider", "python:my_reranker:score")
        repo.config.set("reranker.timeout", "0.1")
    with ml.open(tmp_path / "repo") as repo:
        notes = [repo.memories().search(Query("api port")).notes for _ in range(2)]
    end: threading.Event = sys.modules["my_reranker"].end
    end.set()
    assert "did not answer within 0.1 s" in notes[0][0] and "still has not answered" in notes[1][0]


def test_nobody_is_asked_where_there_is_nothing_to_order_or_to_decide(tmp_path: Path, module: Path) -> None:
    module.write_text(
        "asked = []\ndef score(question, texts):\n    asked.append(question)\n    return [0] * len(texts)\n"
    )
    with opened(tmp_path / "repo") as repo:
        repo.config.set("reranker.provider", "python:my_reranker:score")
    with ml.open(tmp_path / "repo") as repo:
        memories = repo.memories()
        for text in TEXTS:
            memories.remember(Draft(text))
        memories.search(Query(""))
        memories.search(Query("who painted the mona lisa"))
    assert "my_reranker" not in sys.modules


@pytest.mark.parametrize("name", ["python", "command", "sentence-transformers"])
def test_one_that_needs_to_know_what_to_use_says_so(name: str) -> None:
    with pytest.raises(InvalidInput, match="needs to know what to use"):
        rerankers.open_reranker(Settings(reranker_provider=name))


def test_an_unknown_one_is_refused_when_it_is_set(repo: ml.Repo) -> None:
    with pytest.raises(InvalidInput, match='there is no reranker "colbert"'):
        repo.config.set("reranker.provider", "colbert")
    assert repo.config.get("reranker.provider") == "none"


def test_a_program_that_ends_badly_says_how() -> None:
    reranker = rerankers.open_reranker(Settings(reranker_provider=f"command:{sys.executable} -c 'raise SystemExit(3)'"))
    with pytest.raises(Unavailable, match="it ended with 3"):
        reranker.score("q", ["a"])


def test_what_a_strangers_repo_configures_is_not_run(tmp_path: Path, module: Path) -> None:
    module.write_text(LONGEST_FIRST)
    usual = texts_of(search(tmp_path / "usual"))
    search(tmp_path)  # makes the repo
    with open(tmp_path / "repo" / ".memlake" / "config.toml", "a") as file:
        file.write('[reranker]\nprovider = "python:my_reranker:score"\n')
    with ml.open(tmp_path / "repo") as repo:
        assert texts_of(repo.memories().search(Query("api port"))) == usual
    assert "my_reranker" not in sys.modules
