"""Embedders behind HTTP, in libraries and for tests: what they ask, what they accept, what they say when it fails."""

from __future__ import annotations

import socket
import subprocess
import sys
import types
from typing import Any

import numpy as np
import pytest

from memlake.defaults import Settings
from memlake.errors import Denied, InvalidInput, Unavailable
from memlake.memories.embedders import PROVIDERS, Embedder, check_embedder, describe_missing, open_embedder
from memlake.memories.embedders.http import choose_pause
from tests.memories.conftest import FakeService

SECRET = "sk-very-secret-0123456789"
KEYS = {"openai": "OPENAI_API_KEY", "cohere": "COHERE_API_KEY"}
PATHS = {"openai": "/embeddings", "cohere": "/v2/embed", "ollama": "/api/embed"}
SERVICES = sorted(PATHS)


def rows_of(texts: list[str]) -> list[list[float]]:
    return [[float(len(text)), 1.0, 2.0] for text in texts]


def shaped(provider: str, rows: Any) -> Any:
    """Vectors as this service writes them; OpenAI's in any order, with their numbers."""
    if provider == "openai":
        return {"data": [{"index": number, "embedding": row} for number, row in reversed(list(enumerate(rows)))]}
    return {"embeddings": {"float": rows} if provider == "cohere" else rows}


def good(provider: str) -> Any:
    return lambda question: shaped(provider, rows_of(question.get("input") or question["texts"]))


def opened(provider: str, service: FakeService | None, **settings: Any) -> Embedder:
    url = settings.pop("url", service.url if service else "")
    found = open_embedder(provider, Settings(embedding_url=url, **settings))
    assert found is not None
    return found


@pytest.fixture(autouse=True)
def _keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in KEYS.values():
        monkeypatch.setenv(name, SECRET)


# -- services that answer


@pytest.mark.parametrize("provider", SERVICES)
def test_a_service_gives_unit_rows_in_the_order_of_the_texts(provider: str, service: FakeService) -> None:
    service.answers(good(provider))
    embedder = opened(provider, service)
    rows = embedder.embed(["a", "bbbb", "cc"])
    assert rows.dtype == np.float32 and rows.shape == (3, 3) and embedder.dimension == 3
    assert np.allclose(np.linalg.norm(rows, axis=1), 1)
    assert np.allclose(rows[:, 0] / rows[:, 1], [1, 4, 2])
    path, headers, _ = service.asked[0]
    assert path == PATHS[provider]
    assert headers.get("Authorization") == (f"Bearer {SECRET}" if provider in KEYS else None)


@pytest.mark.parametrize("provider", SERVICES)
def test_texts_are_sent_in_batches_of_the_size_set(provider: str, service: FakeService) -> None:
    service.answers(good(provider))
    rows = opened(provider, service, embedding_batch_size=2).embed(["a", "bb", "ccc", "dddd", "eeeee"])
    assert len(service.asked) == 3 and np.allclose(rows[:, 0] / rows[:, 1], [1, 2, 3, 4, 5])


def test_the_model_comes_from_the_name_then_the_setting_then_the_provider(service: FakeService) -> None:
    service.answers(good("openai"))
    for name, setting in (("openai:mine", "other"), ("openai", "other"), ("openai", "")):
        opened(name, service, embedding_model=setting).embed(["x"])
    assert [question["model"] for _, _, question in service.asked] == ["mine", "other", "text-embedding-3-small"]
    assert opened("ollama:all:latest", service).name == "ollama:all:latest"


def test_cohere_is_told_whether_a_text_is_kept_or_searched_with(service: FakeService) -> None:
    service.answers(good("cohere"))
    embedder = opened("cohere", service)
    embedder.embed(["kept"])
    embedder.embed_query("looked for")
    assert [question["input_type"] for _, _, question in service.asked] == ["search_document", "search_query"]


def test_the_address_comes_from_the_setting_then_the_environment(service: FakeService, monkeypatch: Any) -> None:
    service.answers(good("ollama"))
    monkeypatch.setenv("OLLAMA_HOST", service.url.removeprefix("http://"))
    opened("ollama", None).embed(["x"])
    monkeypatch.setenv("OPENAI_BASE_URL", service.url + "/v1/")
    service.replies = []
    opened("openai", service.answers(good("openai")), url="").embed(["x"])
    assert [path for path, _, _ in service.asked] == ["/api/embed", "/v1/embeddings"]


def test_blank_texts_are_not_sent_and_have_no_vector(service: FakeService) -> None:
    service.answers(good("openai"))
    embedder = opened("openai", service)
    rows = embedder.embed(["", "word", " \n"])
    assert np.isnan(rows[[0, 2]]).all() and np.isfinite(rows[1]).all()
    assert embedder.embed_query("  ") is None
    assert [question["input"] for _, _, question in service.asked] == [["word"]]


# -- services that fail


@pytest.mark.parametrize("status", [401, 403])
@pytest.mark.parametrize("provider", sorted(KEYS))
def test_a_refused_key_is_named_by_its_variable_and_never_shown(
    provider: str, status: int, service: FakeService
) -> None:
    service.answers({"error": f"Incorrect API key provided: {SECRET}"}, status)
    with pytest.raises(Denied) as caught:
        opened(provider, service).embed(["x"])
    assert KEYS[provider] in caught.value.hint and "refused the key" in caught.value.message
    assert SECRET not in str(caught.value) and len(service.asked) == 1


def test_a_key_that_is_missing_is_said_to_be_missing(service: FakeService, monkeypatch: Any) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")
    service.answers({}, 401)
    with pytest.raises(Denied, match="there is none in OPENAI_API_KEY"):
        opened("openai", service).embed(["x"])


def test_a_key_with_a_line_break_is_refused_before_http_could_print_it(monkeypatch: Any) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very\nsecret")
    with pytest.raises(InvalidInput, match="OPENAI_API_KEY") as caught:
        opened("openai", None)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("status", [400, 404, 500])
def test_what_a_service_says_is_passed_on_without_the_key(status: int, service: FakeService) -> None:
    service.answers({"error": f"no, {SECRET} \nmay not"}, status)
    with pytest.raises((InvalidInput, Unavailable), match=f"{status}.*may not") as caught:
        opened("openai", service).embed_query("x")
    assert SECRET not in str(caught.value)
    assert isinstance(caught.value, InvalidInput) == (status == 400)


def test_a_busy_service_is_asked_again_after_the_time_it_names(service: FakeService, naps: list[float]) -> None:
    service.answers({}, 429, Retry_After="7").answers({}, 500).answers(good("openai"))
    assert opened("openai", service).embed(["x"]).shape == (1, 3)
    assert len(service.asked) == 3 and naps[0] == 7 and choose_pause(1, 0) <= naps[1] <= choose_pause(1, 1)


def test_a_service_that_stays_busy_is_given_up_after_four_tries(service: FakeService, naps: list[float]) -> None:
    service.answers({"error": "overloaded"}, 503)
    with pytest.raises(Unavailable, match=r"503.*overloaded"):
        opened("openai", service).embed(["x"])
    assert len(service.asked) == 4 and len(naps) == 3


def test_a_service_that_asks_for_minutes_is_not_waited_for(service: FakeService, naps: list[float]) -> None:
    service.answers({}, 429, Retry_After="3600")
    with pytest.raises(Unavailable, match="429"):
        opened("openai", service).embed(["x"])
    assert len(service.asked) == 1 and not naps


def test_a_query_is_asked_once_because_a_search_does_not_wait(service: FakeService, naps: list[float]) -> None:
    service.answers({}, 500).answers(good("openai"))
    with pytest.raises(Unavailable):
        opened("openai", service).embed_query("x")
    assert len(service.asked) == 1 and not naps


@pytest.mark.parametrize("how", ["hang", "drip"])
def test_a_service_that_hangs_or_drips_is_left_after_the_timeout(how: str, service: FakeService) -> None:
    service.answers(how, Content_Length="100000")
    with pytest.raises(Unavailable, match=r"did not answer within 0\.3 s") as caught:
        opened("ollama", service, embedding_timeout=0.3).embed(["x"])
    assert "embedding.timeout" in caught.value.hint


def test_an_address_where_nobody_listens_is_unreachable() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(Unavailable, match=r"ollama at 127\.0\.0\.1:\d+ cannot be reached: .*refused"):
            opened("ollama", None, url=url).embed(["x"])


@pytest.mark.parametrize("status", [302, 307])
def test_a_redirect_is_not_followed_so_the_key_stays(status: int, service: FakeService) -> None:
    other = FakeService().answers(good("openai"))
    service.answers({}, status, Location=other.url + "/embeddings")
    with pytest.raises(Unavailable, match=str(status)):
        opened("openai", service).embed(["x"])
    other.stop()
    assert other.asked == []


@pytest.mark.parametrize(
    "body", [b"<html>hello</html>", b"\xff\xfe", b"", b'{"data": [{"index": 0, "embedding": [NaN]}]}']
)
def test_an_answer_that_is_no_json_is_unavailable(body: bytes, service: FakeService) -> None:
    service.answers(body)
    with pytest.raises(Unavailable, match=r"openai at .* not JSON"):
        opened("openai", service).embed(["x"])


@pytest.mark.parametrize("provider", SERVICES)
@pytest.mark.parametrize(
    ("answer", "says"),
    [
        ({}, "shape"),
        ([], "shape"),
        ("text", "shape"),
        ([[1.0, 2.0]], "1 vectors for 2 texts"),
        ([[1.0, 2.0], [1.0]], "shape"),
        ([[1.0, None], [1.0, 2.0]], "NaN|shape"),
        ([["a", "b"], ["c", "d"]], "shape"),
        ([[1.0, 1e300], [1.0, 2.0]], "infinity"),
        ([[0.0, 0.0], [1.0, 2.0]], "zeros"),
        ([[], []], "dimensions"),
    ],
)
def test_vectors_that_cannot_be_right_are_refused(provider: str, answer: Any, says: str, service: FakeService) -> None:
    service.answers(shaped(provider, answer) if isinstance(answer, list) and answer else answer)
    with pytest.raises(Unavailable, match=says) as caught:
        opened(provider, service).embed(["x", "y"])
    assert provider in caught.value.message and caught.value.hint


def test_a_service_that_changes_its_dimension_is_refused(service: FakeService) -> None:
    service.answers(shaped("ollama", [[1.0, 2.0]])).answers(shaped("ollama", [[1.0, 2.0, 3.0]]))
    embedder = opened("ollama", service)
    embedder.embed(["x"])
    with pytest.raises(Unavailable, match="3 dimensions where 2 were expected"):
        embedder.embed_query("x")


@pytest.mark.parametrize(
    "url", ["ftp://host", "https://", "file:///etc/hunter2", "https://me:hunter2@host", "http://[::1"]
)
def test_an_address_that_cannot_be_used_is_refused_when_opened_and_not_shown(url: str) -> None:
    with pytest.raises(InvalidInput, match="openai") as caught:
        opened("openai", None, url=url)
    assert "hunter2" not in str(caught.value)


# -- the check itself


class Fixed:
    name, dimension = "fixed", 2

    def __init__(self, rows: Any) -> None:
        self.rows = np.array(rows, np.float32)

    def embed(self, texts: Any) -> Any:
        return self.rows

    def embed_query(self, text: str) -> Any:
        return self.rows[0]


def test_a_row_of_nan_means_unreadable_and_a_single_nan_means_broken() -> None:
    rows = check_embedder(Fixed([[np.nan, np.nan], [3, 4]])).embed(["x", "y"])
    assert np.isnan(rows[0]).all() and np.allclose(rows[1], [0.6, 0.8])
    for wrong in ([[np.nan, 1], [3, 4]], [[np.inf, 1], [3, 4]]):
        with pytest.raises(Unavailable, match="fixed returned a vector with NaN"):
            check_embedder(Fixed(wrong)).embed(["x", "y"])


# -- the others


def test_none_is_no_embedder_and_an_unknown_name_lists_those_there_are() -> None:
    assert open_embedder("none", Settings()) is None and describe_missing("none") == ""
    with pytest.raises(InvalidInput, match='"opnai"') as caught:
        open_embedder("opnai", Settings())
    assert all(name in caught.value.hint for name in PROVIDERS)


def test_the_test_embedder_is_the_same_everywhere_and_knows_alike_from_unlike() -> None:
    embedder = opened("test", None)
    tea, teas, physics = embedder.embed(["I like green tea", "I like green TEAS", "quantum physics"])
    assert tea @ teas > 0.7 > 0.3 > tea @ physics
    assert embedder.name == "test-64" and tea.shape == (64,)
    assert (tea > 0.1).nonzero()[0].tolist() == [0, 2, 23, 36, 40, 55, 56, 57]  # vectors outlive versions
    assert np.array_equal(embedder.embed_query("I like green tea"), tea)


def library(name: str, **content: Any) -> types.ModuleType:
    module = types.ModuleType(name)
    vars(module).update(content)
    return module


class Encoder:
    def __init__(self, model: str) -> None:
        if model == "gone":
            raise OSError("no such folder")

    from_pretrained = classmethod(lambda cls, model: cls(model))

    def encode(self, texts: list[str]) -> Any:
        return np.array([[0, 0] if text == "???" else [3, 4] for text in texts], np.float64)


@pytest.mark.parametrize("name", ["sentence-transformers", "model2vec"])
def test_an_installed_library_is_used_and_zeros_mean_unreadable(name: str, monkeypatch: Any) -> None:
    module = name.replace("-", "_")
    monkeypatch.setitem(sys.modules, module, library(module, SentenceTransformer=Encoder, StaticModel=Encoder))
    embedder = opened(f"{name}:some/model", None)
    rows = embedder.embed(["word", "???"])
    assert embedder.name == f"{name}:some/model" and embedder.dimension == 2
    assert np.allclose(rows[0], [0.6, 0.8]) and np.isnan(rows[1]).all() and embedder.embed_query("???") is None
    with pytest.raises(Unavailable, match="gone could not be loaded: no such folder"):
        opened(f"{name}:gone", None).embed(["x"])


@pytest.mark.parametrize("name", ["sentence-transformers", "model2vec"])
def test_a_library_that_is_not_installed_is_named_with_the_command(name: str, monkeypatch: Any) -> None:
    monkeypatch.setitem(sys.modules, name.replace("-", "_"), None)
    with pytest.raises(Unavailable, match="not installed") as caught:
        opened(f"{name}:m", None).embed(["x"])
    assert f"pip install {name}" in caught.value.hint
    with pytest.raises(InvalidInput, match="needs a model"):
        open_embedder(name, Settings())


def test_without_the_data_package_local_is_none_and_says_why(monkeypatch: Any) -> None:
    monkeypatch.setitem(sys.modules, "memlake_minilm", None)
    assert open_embedder("local", Settings()) is None
    assert "make model" in describe_missing("local")


def test_opening_any_embedder_imports_nothing_heavy() -> None:
    code = (
        "import sys; from memlake.defaults import Settings; from memlake.memories.embedders import open_embedder\n"
        "for name in ('local', 'openai', 'cohere', 'ollama', 'model2vec:x', 'test', 'none'):\n"
        "    open_embedder(name, Settings())\n"
        "heavy = {'numpy', 'onnxruntime', 'urllib.request', 'http.client'} & set(sys.modules)\n"
        "sys.exit(', '.join(heavy) or None)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=250)
    assert done.returncode == 0, done.stderr


# -- waiting


def test_waits_double_up_to_a_minute_and_luck_moves_them_by_half() -> None:
    assert [choose_pause(attempt, 1) for attempt in (0, 1, 2, 3)] == [0.5, 1, 2, 4]
    assert choose_pause(7, 1) == choose_pause(10_000, 1) == 60
    assert choose_pause(3, 0) == 2
