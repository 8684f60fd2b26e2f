"""A repo with memories, by a deterministic embedder or none; and services that answer as they are told."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

import memlake as ml
from memlake.memories.memories import Memories

Reply = tuple[int, dict[str, str], Any]


class FakeService:
    """Answers with `replies` in turn, then with the last for ever; a body may be a function of the question."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, dict[str, str], Any]] = []
        self.replies: list[Reply] = []
        self.hang = threading.Event()  # a test that hangs a request sets it at its end
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def answers(self, body: Any, status: int = 200, **headers: str) -> FakeService:
        self.replies.append((status, {name.replace("_", "-"): value for name, value in headers.items()}, body))
        return self

    def stop(self) -> None:
        self.hang.set()
        self._server.shutdown()
        self._server.server_close()

    def _handler(service) -> type[BaseHTTPRequestHandler]:  # noqa: N805
        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                question = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))) or b"{}")
                service.asked.append((self.path, dict(self.headers), question))
                at = min(len(service.asked), len(service.replies)) - 1
                status, headers, body = service.replies[at]
                if isinstance(body, Callable):
                    body = body(question)
                self._reply(status, headers, body if isinstance(body, bytes) else json.dumps(body).encode())

            do_GET = do_POST  # noqa: N815 - what a followed redirect becomes

            def _reply(self, status: int, headers: dict[str, str], body: bytes) -> None:
                if body == b'"hang"':
                    service.hang.wait(30)
                    return
                self.send_response(status)
                for name, value in {"Content-Length": str(len(body)), **headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                if body == b'"drip"':
                    while not service.hang.wait(0.05):
                        self.wfile.write(b" ")
                    return
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                pass

        return Handler


@pytest.fixture
def service() -> Iterator[FakeService]:
    made = FakeService()
    yield made
    made.stop()


@pytest.fixture
def naps(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses between tries, taken down and not slept."""
    taken: list[float] = []
    monkeypatch.setattr("memlake.memories.embedders.http.time.sleep", taken.append)
    return taken


def opened(folder: Path, provider: str = "none") -> ml.Repo:
    ml.init(folder).close()
    repo = ml.open(folder)
    repo.config.set("embedding.provider", provider)
    repo.config.set("embedding.flush_seconds", "0.05")
    repo.close()
    return ml.open(folder)


@pytest.fixture
def repo(tmp_path: Path) -> Iterator[ml.Repo]:
    with opened(tmp_path / "repo") as repo:
        yield repo


@pytest.fixture
def memories(repo: ml.Repo) -> Memories:
    return repo.memories()
