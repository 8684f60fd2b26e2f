"""Servers that tests talk to: S3 by moto, a proxy before it that does to requests what networks do to them, Azurite for
Azure, and for Google moto behind what counts generations."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import hmac
import http.client
import logging
import socket
import socketserver
import subprocess
import threading
import time
import urllib.request
import uuid
from collections.abc import Callable
from email.utils import formatdate
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote

import pytest
from moto.core import DEFAULT_ACCOUNT_ID
from moto.s3.models import s3_backends
from moto.server import ThreadedMotoServer

logging.getLogger("werkzeug").setLevel(logging.ERROR)

KEYS = {"AWS_ACCESS_KEY_ID": "AKIAEXAMPLE", "AWS_SECRET_ACCESS_KEY": "example-secret", "AWS_REGION": "us-east-1"}
DROP, LOSE, CUT, DELAY, TWICE = "drop", "lose", "cut", "delay", "twice"
AZURITE = Path(__file__).resolve().parents[1] / "build" / "clients" / "node_modules" / ".bin" / "azurite-blob"
ACCOUNT = "devstoreaccount1"
ACCOUNT_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="  # everybody's
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


class Google(FaultProxy):
    """Google's XML protocol, which is that of S3 but for its conditions: each state of an object has a number.

    `gcp-storage-emulator` would not do: it has no HEAD, list and DELETE of that protocol, gives no tags, and stores
    whatever the condition is.
    """

    def __init__(self, port: int) -> None:
        super().__init__(port)
        self._generations: dict[str, int] = {}
        self._turn, self._made = threading.Lock(), 0

    def make_bucket(self) -> str:
        name = f"b{uuid.uuid4().hex}"
        s3_backends[DEFAULT_ACCOUNT_ID]["aws"].create_bucket(name, "us-east-1")
        return name

    def _forward(
        self, upstream: http.client.HTTPConnection, request: tuple[str, str, dict[str, str], bytes]
    ) -> tuple[int, list[tuple[str, str]], bytes]:
        method, path, headers, body = request
        key, _, query = path.partition("?")
        wanted = headers.pop("x-goog-if-generation-match", None)
        headers["authorization"] = (
            f"AWS4-HMAC-SHA256 Credential={KEYS['AWS_ACCESS_KEY_ID']}/20260101/us-east-1/s3/aws4_request"
        )
        with self._turn:
            if wanted is not None and int(wanted) != self._generations.get(key, 0):
                return 412, [], b"<Error><Code>PreconditionFailed</Code></Error>"
            status, answered, data = super()._forward(upstream, (method, path, headers, body))
            if method == "DELETE" and not query:
                self._generations.pop(key, None)
            elif status == 200 and ((method == "PUT" and not query) or (method == "POST" and "uploadId" in query)):
                self._made += 1
                self._generations[key] = self._made
            number = ("x-goog-generation", str(self._generations.get(key, 0)))
            return status, [*answered, number], data


class Azurite:
    """A server of Azure's protocol with everybody's account."""

    def __init__(self, folder: Path) -> None:
        if not AZURITE.exists():
            pytest.skip("azurite is not installed; npm install --prefix build/clients brings it")
        port = free_port()
        told = ["--silent", "--disableTelemetry", "--skipApiVersionCheck", "--inMemoryPersistence"]
        command = [str(AZURITE), *told, "--blobHost", "127.0.0.1", "--blobPort", str(port)]
        with (folder / "log").open("w") as log:
            self._process = subprocess.Popen(command, cwd=folder, stdout=log, stderr=subprocess.STDOUT)
        self.endpoint = f"http://127.0.0.1:{port}/{ACCOUNT}"
        self.environment = {
            "AZURE_STORAGE_CONNECTION_STRING": f"DefaultEndpointsProtocol=http;AccountName={ACCOUNT};"
            f"AccountKey={ACCOUNT_KEY};BlobEndpoint={self.endpoint};"
        }
        self.options = {"account_name": ACCOUNT, "account_key": ACCOUNT_KEY, "endpoint_url": self.endpoint}
        for _ in range(300):
            assert self._process.poll() is None, "azurite ended"
            with socket.socket() as asked:
                if asked.connect_ex(("127.0.0.1", port)) == 0:
                    return
            time.sleep(0.1)
        raise AssertionError("azurite does not answer")

    def make_container(self) -> str:
        name = f"b{uuid.uuid4().hex}"
        headers = {"x-ms-date": formatdate(usegmt=True), "x-ms-version": "2021-08-06"}
        lines = [f"{key}:{value}" for key, value in headers.items()]
        text = "\n".join(["PUT", *[""] * 11, *lines, f"/{ACCOUNT}/{ACCOUNT}/{name}", "restype:container"])
        sign = hmac.new(base64.b64decode(ACCOUNT_KEY), text.encode(), hashlib.sha256).digest()
        headers["Authorization"] = f"SharedKey {ACCOUNT}:{base64.b64encode(sign).decode()}"
        asked = urllib.request.Request(f"{self.endpoint}/{name}?restype=container", method="PUT", headers=headers)
        with urllib.request.urlopen(asked) as answer:
            assert answer.status == 201
        return name

    def close(self) -> None:
        self._process.kill()
        self._process.wait()


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])
