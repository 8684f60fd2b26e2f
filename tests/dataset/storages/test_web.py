"""Web addresses: real requests to a small server that ranges, redirects, refuses, and breaks off."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from memlake.dataset import storages
from memlake.dataset.storages import Access, remote_file, web
from memlake.errors import Conflict, Denied, InvalidInput, NotFound, Unavailable
from tests.dataset.storages.conftest import Named, files, rows
from tests.dataset.storages.faults import Answer, Request, Server

BODY = bytes(range(256)) * 4096
TIME = "Tue, 14 Nov 2023 22:13:20 GMT"


class Site:
    """What the server answers with; a test changes it."""

    def __init__(self) -> None:
        self.body, self.etag, self.ranges, self.head, self.length = BODY, '"v1"', True, 200, True

    def respond(self, request: Request) -> Answer:
        if request.path.startswith("/missing"):
            return 404, {}, b""
        if request.command == "HEAD" and self.head != 200:
            return self.head, {}, b""
        headers = {"Last-Modified": TIME} | ({"ETag": self.etag} if self.etag else {})
        span = request.headers.get("Range")
        if span and self.ranges:
            start, end = (int(number) for number in span.removeprefix("bytes=").split("-"))
            part = self.body[start : end + 1]
            return 206, headers | {"Content-Range": f"bytes {start}-{end}/{len(self.body)}"}, part
        if not self.length:
            return 200, headers | {"Connection": "close", "Transfer-Encoding": "chunked"}, _chunked(self.body)
        if request.command == "HEAD":
            return 200, headers | {"Content-Length": str(len(self.body))}, b""
        return 200, headers, self.body


def _chunked(body: bytes) -> bytes:
    return b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)


@pytest.fixture
def site() -> Site:
    return Site()


@pytest.fixture
def server(site: Site, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setattr(web.time, "sleep", lambda _: None)
    monkeypatch.setattr(remote_file, "WHOLE", 1 << 16)
    started = Server(site.respond)
    yield started
    started.close()


def read(file: Named) -> bytes:
    with storages.open_file(file) as found:
        return found.read()


def test_a_url_is_one_file_with_its_facts(server: Server) -> None:
    (row,) = rows(f"{server.url}/data/cat%20one.jpg?size=2#top")
    assert row["source"] == server.url and row["path"] == "data/cat%20one.jpg?size=2"
    assert (row["size"], row["etag"]) == (len(BODY), "v1")
    assert row["last_modified"] == datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)
    assert storages.split(f"{server.url}/a/b") == (server.url, "a/b")


def test_many_urls_are_one_listing_in_their_order(server: Server) -> None:
    urls = [f"{server.url}/{number}" for number in (3, 1, 2)]
    (batch,) = storages.list_many(urls)
    assert batch["path"].to_pylist() == ["3", "1", "2"]
    with pytest.raises(NotFound, match=rf"there is no {server.url}/missing"):
        list(storages.list_many([*urls, f"{server.url}/missing"]))


def test_a_url_is_read_by_ranges(server: Server) -> None:
    (file,) = files(f"{server.url}/a")
    with storages.open_file(file) as found:
        assert found.seek(1000) and found.read(10) == BODY[1000:1010]
    assert server.seen[-1][2]["Range"].startswith("bytes=1000-")
    assert read(file) == BODY and read(file._replace(etag="", size=0)) == BODY


@pytest.mark.parametrize(
    "so", [{"ranges": False}, {"head": 405}, {"head": 403}, {"length": False}, {"etag": ""}, {"etag": 'W/"v1"'}]
)
def test_servers_that_know_less_are_read_all_the_same(server: Server, site: Site, so: dict[str, Any]) -> None:
    vars(site).update(so)
    (file,) = files(f"{server.url}/a")
    assert file.size == len(BODY) and read(file) == BODY


def test_a_server_that_knows_neither_lengths_nor_ranges_is_read_whole(server: Server, site: Site) -> None:
    site.ranges = site.length = False
    (file,) = files(f"{server.url}/a")
    assert file.size == len(BODY) and read(file) == BODY


@pytest.mark.parametrize("so", [{"etag": '"v2"'}, {"body": BODY[:-1]}, {"body": BODY[:-1], "ranges": False}])
def test_a_url_that_changed_since_it_was_listed_is_a_conflict(server: Server, site: Site, so: dict[str, Any]) -> None:
    (file,) = files(f"{server.url}/a")
    vars(site).update(so)
    with pytest.raises(Conflict, match="not what it was"):
        read(file)


def test_a_busy_server_and_a_broken_line_are_asked_again(server: Server) -> None:
    server.fail = [503, 429]
    (file,) = files(f"{server.url}/a")
    server.fail, server.cut = [500], 2
    assert read(file) == BODY and server.cut == 0


def test_a_server_that_stays_busy_is_unavailable_after_some_tries(server: Server) -> None:
    server.fail = [503] * 50
    with pytest.raises(Unavailable, match=r"answered with status 503(.|\n)*Wait"):
        files(f"{server.url}/a?signature=hush")
    assert len(server.seen) == 5


def test_a_host_that_is_not_there_is_unavailable(server: Server) -> None:
    server.close()
    with pytest.raises(Unavailable, match=r"cannot be reached \(ConnectionRefusedError\)"):
        files(f"{server.url}/a")


def test_a_refusal_says_how_to_send_a_token_and_not_the_query(server: Server, site: Site) -> None:
    server.fail = [401]
    with pytest.raises(Denied, match="Authorization") as told:
        files(f"{server.url}/a?signature=hush")
    assert "hush" not in str(told.value)


def test_headers_are_sent_but_not_to_where_a_server_points(server: Server, site: Site) -> None:
    other = Server(site.respond)
    server.respond = lambda request: (302, {"Location": f"{other.url}/there"}, b"")
    secret = Access(client_config={"headers": {"Authorization": "Bearer hush", "X-Key": "hush"}})
    (file,) = files(f"{server.url}/a", access=secret)
    assert file.source == server.url and server.seen[0][2]["Authorization"] == "Bearer hush"
    assert other.seen and not [headers for _, _, headers in other.seen if "hush" in str(headers)]
    other.close()


def test_a_redirect_on_the_same_server_keeps_the_headers(server: Server, site: Site) -> None:
    moved = (302, {"Location": "/b"}, b"")
    server.respond = lambda request: moved if request.path == "/a" else site.respond(request)
    files(f"{server.url}/a", access=Access(client_config={"headers": {"Authorization": "Bearer hush"}}))
    assert [(command, headers.get("Authorization")) for command, _, headers in server.seen] == [
        ("HEAD", "Bearer hush"),
        ("HEAD", "Bearer hush"),
    ]


def test_whether_a_url_is_there_can_be_asked(server: Server) -> None:
    assert storages.exists(Named(server.url, "a")) and not storages.exists(Named(server.url, "missing"))


def test_a_source_that_is_none_is_refused() -> None:
    with pytest.raises(InvalidInput, match="not a storage that can be read"):
        storages.open_file(Named("ftp://host", "a"))
