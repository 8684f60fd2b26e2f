"""A server that stands before another, or for itself, and fails as servers do."""

from __future__ import annotations

import http.client
import http.server
import threading
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

Answer = tuple[int, dict[str, str], bytes]
Request = http.server.BaseHTTPRequestHandler


class Server:
    """Answers by `respond`; `fail` statuses come first, then `cut` answers break off midway."""

    def __init__(self, respond: Callable[[Request], Answer]) -> None:
        self.respond = respond
        self.fail: list[int] = []
        self.cut = 0
        self.seen: list[tuple[str, str, dict[str, str]]] = []
        outer = self

        class Handler(Request):
            protocol_version = "HTTP/1.1"

            def handle_any(self) -> None:
                outer.answer(self)

            do_GET = do_HEAD = do_PUT = do_POST = handle_any  # noqa: N815

            def log_message(self, *_: Any) -> None:
                pass

        self.httpd = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.httpd.server_port}"
        threading.Thread(target=self.httpd.serve_forever, daemon=True).start()

    def answer(self, request: Request) -> None:
        self.seen.append((request.command, request.path, dict(request.headers)))
        status, headers, body = (self.fail.pop(0), {}, b"") if self.fail else self.respond(request)
        request.send_response(status)
        for key, value in headers.items():
            request.send_header(key, value)
        if "Content-Length" not in headers and headers.get("Transfer-Encoding") is None:
            request.send_header("Content-Length", str(len(body)))
        request.end_headers()
        if request.command == "HEAD":
            return
        if self.cut and body:
            self.cut -= 1
            body, request.close_connection = body[: len(body) // 2], True
        request.wfile.write(body)

    def close(self) -> None:
        self.httpd.shutdown()
        self.httpd.server_close()


def before(endpoint: str) -> Callable[[Request], Answer]:
    """Passes requests on to another server."""
    host = urlsplit(endpoint).netloc

    def respond(request: Request) -> Answer:
        body = request.rfile.read(int(request.headers.get("content-length") or 0))
        upstream = http.client.HTTPConnection(host, timeout=30)
        upstream.request(request.command, request.path, body, dict(request.headers))
        answer = upstream.getresponse()
        data = answer.read()
        upstream.close()
        left = ("transfer-encoding", "connection", "date", "server", "content-length")
        headers = {key: value for key, value in answer.getheaders() if key.lower() not in left}
        if request.command == "HEAD":
            headers["Content-Length"] = answer.getheader("Content-Length") or "0"
        return answer.status, headers, data

    return respond
