"""A bucket for benchmarks, in a process of its own: moto's server, with a lock that makes its conditional puts atomic.

    python benchmarks/s3_server.py     prints the address; GET /counts tells and forgets what was asked since

Without the lock, moto compares the tag and stores in two steps, so two pushers could both win a swap.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable
from typing import Any

from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import WSGIRequestHandler, make_server


class Counted:
    """The application, with its requests and bytes counted."""

    def __init__(self) -> None:
        self._app, self._swap, self._mutex = (
            DomainDispatcherApplication(create_backend_app),
            threading.Lock(),
            threading.Lock(),
        )
        self._counts = [0, 0, 0]

    def __call__(self, environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        if environ["PATH_INFO"] == "/counts":
            with self._mutex:
                counts, self._counts = self._counts, [0, 0, 0]
            start("200 OK", [("Content-Type", "application/json")])
            return [json.dumps(counts).encode()]
        if "HTTP_IF_MATCH" in environ or "HTTP_IF_NONE_MATCH" in environ:
            with self._swap:
                answer = list(self._app(environ, start))
        else:
            answer = list(self._app(environ, start))
        with self._mutex:
            self._counts[0] += 1
            self._counts[1] += int(environ.get("CONTENT_LENGTH") or 0)
            self._counts[2] += sum(map(len, answer))
        return answer


class Quiet(WSGIRequestHandler):
    protocol_version = "HTTP/1.1"  # a connection is kept, as real stores do

    def log(self, *_: object) -> None:
        pass


if __name__ == "__main__":
    server = make_server("127.0.0.1", 0, Counted(), threaded=True, request_handler=Quiet)
    print(f"http://127.0.0.1:{server.port}", flush=True)
    server.serve_forever()
