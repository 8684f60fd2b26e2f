"""Servers that tests talk to: S3 by moto, and a proxy before it that does to requests what networks do to them."""

from __future__ import annotations

import contextlib
import http.client
import logging
import socket
import socketserver
import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple
from urllib.parse import unquote

from moto.core import DEFAULT_ACCOUNT_ID
from moto.s3.models import s3_backends
from moto.server import ThreadedMotoServer

logging.getLogger("werkzeug").setLevel(logging.ERROR)

KEYS = {"AWS_ACCESS_KEY_ID": "AKIAEXAMPLE", "AWS_SECRET_ACCESS_KEY": "example-secret", "AWS_REGION": "us-east-1"}
DROP, LOSE, CUT, DELAY, TWICE = "drop", "lose", "cut", "delay", "twice"
FAULTS = (DROP, LOSE, CUT, DELAY, TWICE, "500", "503", "500 done")


class Seen(NamedTuple):
    """A request as the proxy saw it, and what it did to it."""

    method: str
    path: str
    sent: int  # bytes of its body
    fault: str


class Bucket:
    """A bucket of the server in this process, looked at without any request."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._held = s3_backends[DEFAULT_ACCOUNT_ID]["aws"].buckets[name]

    def files(self) -> dict[str, bytes]:
        return {str(key): self._held.keys[key].value for key in list(self._held.keys)}

    def get(self, key: str) -> bytes:
        value: bytes = self._held.keys[key].value
        return value

    def size(self, key: str) -> int | None:
        found = self._held.keys.get(key)
        return None if found is None else int(found.contentsize)

    def put(self, key: str, data: bytes) -> None:
        s3_backends[DEFAULT_ACCOUNT_ID]["aws"].put_object(self.name, key, data)


class FaultProxy:
    """Stands before a server. `fault` is asked for each request, by its number from 1, method and path.

    It lets one conditional put in at a time, because moto compares and stores without a lock.
    """

    def __init__(self, port: int) -> None:
        self.port, self.seen = port, list[Seen]()
        self.fault: Callable[[int, str, str], str] | None = None
        self.delay = 0.02
        self.deny = ("", b"")  # a method that is refused with 403, and the body of the answer
        self._one, self._count = threading.Lock(), threading.Lock()
        proxy = self

        class Handler(socketserver.StreamRequestHandler):
            disable_nagle_algorithm = True

            def handle(self) -> None:
                with contextlib.suppress(OSError, http.client.HTTPException):
                    proxy._serve(self.rfile, self.wfile)

        class Listener(socketserver.ThreadingTCPServer):
            daemon_threads, allow_reuse_address, request_queue_size = True, True, 64

        self._listener = Listener(("127.0.0.1", 0), Handler)
        self.endpoint = f"http://127.0.0.1:{self._listener.server_address[1]}"
        threading.Thread(target=self._listener.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def close(self) -> None:
        self._listener.shutdown()
        self._listener.server_close()

    def forget(self) -> None:
        """Begin to count anew, without faults."""
        self.fault, self.seen, self.deny = None, [], ("", b"")

    def bytes_to(self, folder: str) -> int:
        """Bytes of the bodies that were sent to files of a folder."""
        return sum(one.sent for one in self.seen if f"/{folder}/" in one.path and one.method == "PUT")

    def _serve(self, source: Any, sink: Any) -> None:
        upstream = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            while line := source.readline(65536):
                method, path, _ = line.decode("latin-1").split(" ", 2)
                headers = dict(iter(lambda: _read_header(source), ("", "")))
                length = int(headers.get("content-length") or 0)
                body = source.read(length)
                if len(body) < length:  # whoever sent it is gone
                    return
                if not self._answer(upstream, (method, path, headers, body), sink):
                    return
        finally:
            upstream.close()

    def _answer(
        self, upstream: http.client.HTTPConnection, request: tuple[str, str, dict[str, str], bytes], sink: Any
    ) -> bool:
        """Whether the connection goes on."""
        method, path, _, body = request
        path = unquote(path)
        with self._count:
            seen = self.seen
            fault = self.fault(len(seen) + 1, method, path) if self.fault else ""
            seen.append(Seen(method, path, len(body), fault))
        if fault == DROP:
            return False
        if self.deny[0] == method:
            return _send(sink, 403, [], self.deny[1])
        if fault in ("500", "503"):
            return _send(sink, int(fault), [], b"")
        if fault == DELAY:
            time.sleep(self.delay)
        status, headers, data = self._forward(upstream, request)
        if fault == TWICE:
            status, headers, data = self._forward(upstream, request)
        if fault == LOSE:
            return False
        if fault == "500 done":
            return _send(sink, 500, [], b"")
        return _send(sink, status, headers, data, is_head=method == "HEAD", cut=fault == CUT)

    def _forward(
        self, upstream: http.client.HTTPConnection, request: tuple[str, str, dict[str, str], bytes]
    ) -> tuple[int, list[tuple[str, str]], bytes]:
        method, path, headers, body = request
        is_conditional = method == "PUT" and bool({"if-match", "if-none-match"} & headers.keys())
        with self._one if is_conditional else contextlib.nullcontext():
            upstream.request(method, path, body, headers)
            response = upstream.getresponse()
            return response.status, response.getheaders(), response.read()


def _read_header(source: Any) -> tuple[str, str]:
    key, _, value = source.readline(65536).decode("latin-1").rstrip("\r\n").partition(":")
    return key.lower(), value.strip()


def _send(
    sink: Any, status: int, headers: list[tuple[str, str]], data: bytes, *, is_head: bool = False, cut: bool = False
) -> bool:
    kept = {key.lower(): value for key, value in headers if key.lower() not in ("connection", "transfer-encoding")}
    if not is_head:
        kept["content-length"] = str(len(data))
    lines = "".join(f"{key}: {value}\r\n" for key, value in kept.items())
    answer = f"HTTP/1.1 {status} {http.client.responses[status]}\r\n{lines}\r\n".encode("latin-1") + data
    sink.write(answer[: len(answer) - max(len(data) // 2, 8)] if cut else answer)
    sink.flush()
    return not cut


class S3:
    """A server, a proxy before it, and what makes buckets."""

    def __init__(self) -> None:
        self._moto = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
        self._moto.start()
        self.port = int(self._moto.get_host_and_port()[1])
        self.proxy, self._made = FaultProxy(self.port), 0

    def make_bucket(self) -> Bucket:
        self._made += 1
        name = f"bucket-{self._made}"
        s3_backends[DEFAULT_ACCOUNT_ID]["aws"].create_bucket(name, "us-east-1")
        return Bucket(name)

    def close(self) -> None:
        self.proxy.close()
        self._moto.stop()


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])
