"""Web addresses as storages: each URL is one file, asked for by HEAD and read by ranges."""

from __future__ import annotations

import contextlib
import http.client
import random
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import quote, urlsplit

import pyarrow as pa

from memlake.dataset.storages.access import Access, access_of
from memlake.dataset.storages.listing_columns import ROWS, Listed, batch_of
from memlake.dataset.storages.location import Location
from memlake.dataset.storages.remote_file import Known, Named, Remote, changed_error, missing_error, uri_of
from memlake.errors import Denied, Error, Unavailable
from memlake.named_tuple import NamedTuple

_ATTEMPTS, _ASKERS, _TIMEOUT = 5, 16, 30.0
_LONGEST_WAIT = 20.0
_BUSY = (408, 425, 429, 500, 502, 503, 504)
_NO_HEAD = (400, 403, 405, 501)  # what servers that do not know HEAD, or signed only GET, say to it
_OF_URLS = "%/?&=+:;,@!$'()*~[]"  # what is not text to be quoted, in a URL as it is typed
_BROKEN = (OSError, http.client.HTTPException)


class Facts(NamedTuple):
    size: int
    etag: str
    modified: int | None  # microseconds


class _Refused(Exception):
    """A status that another try will not change."""

    def __init__(self, status: int) -> None:
        self.status = status


def list_urls(locations: Sequence[Location], access: Access) -> Iterator[pa.RecordBatch]:
    """In the order given; a URL that cannot be reached is an error that names it."""
    for start in range(0, len(locations), ROWS):
        some = locations[start : start + ROWS]
        with ThreadPoolExecutor(min(_ASKERS, len(some))) as askers:
            facts = list(askers.map(lambda one: look(_as_file(one), access_of(one.source, access)), some))
        sizes, etags, times = zip(*facts, strict=True)
        yield batch_of([one.source for one in some], Listed([one.prefix for one in some], sizes, etags, times))


def _as_file(location: Location) -> Known:
    return Known(location.source, location.prefix, 0, "", "")


def look(file: Named, access: Access) -> Facts:
    """Size, etag and time of a URL: by HEAD, or where that is refused or tells no length, by GET of one byte."""
    with _translate_errors(file):
        try:
            facts = _facts(_ask(file, access, method="HEAD")[1])
        except _Refused as refused:
            if refused.status not in _NO_HEAD:
                raise
            facts = None
        if facts is None:
            facts = _facts(_ask(file, access, span=(0, 1))[1])
        if facts is None:  # a body of unknown length, made while it is sent
            body, headers = _ask(file, access)
            headers["Content-Length"] = str(len(body))
            facts = _facts(headers)
    assert facts is not None
    return facts


def reach(file: Named, access: Access) -> Remote:
    facts = look(file, access) if not file.etag else Facts(file.size, file.etag, None)
    known = Known(file.source, file.path, facts.size, file.version, facts.etag)
    return Remote(known, lambda start, end: _read(known, access, (start, end)))


def _read(file: Known, access: Access, span: tuple[int, int]) -> bytes:
    with _translate_errors(file):
        data, headers = _ask(file, access, span=span)
    facts = _facts(headers, whole=len(data) if "Content-Range" not in headers else None)
    if facts is None or (facts.size, facts.etag) != (file.size, file.etag):
        raise changed_error(file)
    part = data if "Content-Range" in headers else data[slice(*span)]  # a server that knows no ranges sends all
    if len(part) != span[1] - span[0]:
        raise changed_error(file)
    return part


def _facts(headers: http.client.HTTPMessage, *, whole: int | None = None) -> Facts | None:
    total = headers.get("Content-Range", "").rpartition("/")[2] or headers.get("Content-Length") or str(whole)
    if not total.isdecimal():
        return None
    modified = headers.get("Last-Modified", "")
    etag = headers.get("ETag", "").removeprefix("W/").strip('"') or f"{modified}-{total}"
    try:
        microseconds = int(parsedate_to_datetime(modified).timestamp()) * 1_000_000
    except ValueError:
        return Facts(int(total), etag, None)
    return Facts(int(total), etag, microseconds)


def _ask(
    file: Named, access: Access, *, method: str = "GET", span: tuple[int, int] | None = None
) -> tuple[bytes, http.client.HTTPMessage]:
    """One answer, whole; asked again with longer and longer waits while the server is busy or the line breaks."""
    url = f"{file.source}/{quote(file.path, safe=_OF_URLS)}"
    headers = {"User-Agent": "memlake", "Accept-Encoding": "identity", **access.client_config.get("headers", {})}
    if span and span[1] > span[0]:
        headers["Range"] = f"bytes={span[0]}-{span[1] - 1}"
    timeout = float(access.client_config.get("timeout", _TIMEOUT))
    for attempt in range(1, _ATTEMPTS + 1):
        wait = random.uniform(0.1, 0.2) * 2**attempt
        request = urllib.request.Request(url, headers=headers, method=method)
        try:
            with urllib.request.build_opener(_Redirects()).open(request, timeout=timeout) as answer:
                return answer.read(), answer.headers
        except urllib.error.HTTPError as error:
            error.close()
            if error.code not in _BUSY:
                raise _Refused(error.code) from None
            if attempt == _ATTEMPTS:
                raise
            retry_after = error.headers.get("Retry-After", "")
            wait = min(float(retry_after), _LONGEST_WAIT) if retry_after.isdecimal() else wait
        except _BROKEN:
            if attempt == _ATTEMPTS:
                raise
        time.sleep(wait)
    raise AssertionError("the last attempt returns or raises")


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows, but tells another server none of the headers that were given for this one."""

    def redirect_request(self, req: urllib.request.Request, *args: Any) -> urllib.request.Request | None:
        following = super().redirect_request(req, *args)
        if following is not None:
            following.method = req.get_method()
            if urlsplit(following.full_url)[:2] != urlsplit(req.full_url)[:2]:
                following.headers = {k: v for k, v in following.headers.items() if k in _HARMLESS}
        return following


_HARMLESS = ("User-agent", "Accept-encoding", "Range")


@contextlib.contextmanager
def _translate_errors(file: Named) -> Iterator[None]:
    """Errors of the wire as ours, by the address without its query."""
    try:
        yield
    except _Refused as refused:
        raise _status_error(file, refused.status) from None
    except urllib.error.HTTPError as error:
        raise _status_error(file, error.code) from None
    except _BROKEN as error:
        reason = getattr(error, "reason", None) or error
        what = f"{uri_of(file)} cannot be reached ({type(reason).__name__}); it was tried {_ATTEMPTS} times."
        raise Unavailable(what, hint="Check the network and the address, then run it again.") from None


def _status_error(file: Named, status: int) -> Error:
    if status in (404, 410):
        return missing_error(file)
    if status == 416:
        return changed_error(file)
    if status in (401, 403):
        hint = 'Give what it asks for as client_config={"headers": {"Authorization": ...}}.'
        return Denied(f"{uri_of(file)} refused access (status {status}).", hint=hint)
    hint = "Wait, then run it again." if status in _BUSY else "Check the address in a browser."
    return Unavailable(f"{uri_of(file)} answered with status {status}; nothing was read.", hint=hint)
