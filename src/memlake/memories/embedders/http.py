"""One JSON question over HTTP, for services that embed: deadlines, another try when busy, and no key in any message.

Knows statuses and headers, not what is asked. urllib is enough for a POST, and imported late: it takes 40 ms.
"""

from __future__ import annotations

import json
import random
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn
from urllib.parse import urlsplit

from memlake.errors import Denied, Error, InvalidInput, Unavailable, pasted

if TYPE_CHECKING:
    from http.client import HTTPResponse

BUSY = (408, 429, 500, 502, 503, 504)
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 60.0  # seconds before another try
LONGEST_WAIT = 20.0  # a service that asks for more is asked again by whoever keeps the queue
LARGEST = 64 * 1024 * 1024
LOOPBACK = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a service is, and what it may be told."""

    provider: str
    url: str
    key_name: str = ""  # the environment's name for the key: safe to show
    key: str = field(default="", repr=False)
    timeout: float = 30.0
    settings: str = "embedding"  # the room of the settings that name it, for hints
    lost: str = "Nothing was embedded."  # what did not happen where it fails

    def __post_init__(self) -> None:
        try:
            parts = urlsplit("" if any(map(str.isspace, self.url)) else self.url)
            _ = parts.port
        except ValueError:  # a bracket that does not close, a port that is no number
            parts = urlsplit("")
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise InvalidInput(f"{self.settings}.url takes an address as https://host/..., for {self.provider}.")
        if "@" in parts.netloc:
            raise InvalidInput(f"the address of {self.provider} has a name or password in it. It was not used.")
        if not (self.key.isascii() and self.key.isprintable()):  # http.client would print such a key in its error
            raise InvalidInput(f"{self.key_name} has a character in it that no key has. It was not sent.")

    @property
    def host(self) -> str:
        return urlsplit(self.url).netloc

    @property
    def sends_key(self) -> bool:
        """Whether the key goes there: over plain http:// everybody on the way could read it."""
        parts = urlsplit(self.url)
        return bool(self.key) and (parts.scheme == "https" or parts.hostname in LOOPBACK)


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    retry_after: str
    body: bytes


def ask(endpoint: Endpoint, path: str, question: dict[str, Any], *, tries: int) -> Any:
    """The JSON a service answers with; a busy one is asked up to `tries` times, an unreachable one once."""
    for attempt in range(tries):
        answer = _send(endpoint, path, json.dumps(question).encode())
        asked = float(answer.retry_after) if answer.retry_after.isdecimal() else 0.0
        pause = max(asked, choose_pause(attempt, random.random()))
        if answer.status not in BUSY or attempt == tries - 1 or pause > LONGEST_WAIT:
            break
        time.sleep(pause)
    if answer.status != 200:
        raise _make_error(endpoint, answer)
    return _parse_body(endpoint, answer.body)


def choose_pause(attempt: int, luck: float) -> float:
    """Seconds before the try after `attempt` failures: doubling to a minute, half of it left to `luck` (0 to 1).

    Without luck, everyone who was turned away together comes back together.
    """
    return min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** min(attempt, 16)) * (1 + luck) / 2


def _send(endpoint: Endpoint, path: str, body: bytes) -> Answer:
    """One exchange, within the timeout as a whole: a service that drips bytes is cut off too."""
    from http.client import HTTPException
    from urllib.error import HTTPError, URLError
    from urllib.request import Request

    headers = {"Content-Type": "application/json", "User-Agent": "memlake"}
    if endpoint.sends_key:
        headers["Authorization"] = f"Bearer {endpoint.key}"
    end = time.monotonic() + endpoint.timeout
    request = Request(endpoint.url.rstrip("/") + path, body, headers)
    try:
        with _opener(endpoint).open(request, timeout=endpoint.timeout) as response:
            return Answer(response.status, "", _read(response, end))
    except HTTPError as error:
        with error:
            return Answer(error.code, error.headers.get("Retry-After", ""), error.read(4096))
    except TimeoutError:
        raise _silent(endpoint) from None
    except URLError as error:
        if isinstance(error.reason, TimeoutError):
            raise _silent(endpoint) from None
        raise _unreachable(endpoint, str(error.reason)) from None
    except (OSError, HTTPException) as error:
        raise _unreachable(endpoint, str(error) or type(error).__name__) from None


def _opener(endpoint: Endpoint) -> Any:
    """Follows no redirect, which would take the key to another host; asks no proxy for this machine itself."""
    from urllib.request import HTTPRedirectHandler, ProxyHandler, build_opener

    class Stay(HTTPRedirectHandler):
        def redirect_request(self, *_: Any) -> None:
            return None

    own = urlsplit(endpoint.url).hostname in LOOPBACK
    return build_opener(Stay, *([ProxyHandler({})] if own else []))


def _read(response: HTTPResponse, end: float) -> bytes:
    found = bytearray()
    while piece := response.read1(65536):
        found += piece
        if time.monotonic() > end:
            raise TimeoutError
        if len(found) > LARGEST:
            raise OSError(f"an answer of more than {LARGEST >> 20} MB")
    return bytes(found)


def _parse_body(endpoint: Endpoint, body: bytes) -> Any:
    def refuse(word: str) -> NoReturn:
        raise ValueError(word)

    try:
        return json.loads(body, parse_constant=refuse)
    except ValueError:  # not JSON, not UTF-8, or with NaN in it
        shown = _quote_body(endpoint, body)
        raise Unavailable(
            f"{endpoint.provider} at {endpoint.host} answered with something that is not JSON: {shown}",
            hint=f"Check `{endpoint.settings}.url`: it is the address before /embeddings or /chat.",
        ) from None


# -- what went wrong, in words that hold no key


def _silent(endpoint: Endpoint) -> Unavailable:
    return Unavailable(
        f"{endpoint.provider} at {endpoint.host} did not answer within {endpoint.timeout:g} s. {endpoint.lost}",
        hint=f"Wait longer: memlake config {pasted(f'{endpoint.settings}.timeout')} {endpoint.timeout * 2:g}",
    )


def _unreachable(endpoint: Endpoint, why: str) -> Unavailable:
    return Unavailable(
        f"{endpoint.provider} at {endpoint.host} cannot be reached: {_quote_body(endpoint, why.encode())} "
        f"{endpoint.lost}",
        hint=f"Check that it runs, and `{endpoint.settings}.url`.",
    )


def _make_error(endpoint: Endpoint, answer: Answer) -> Error:
    who = f"{endpoint.provider} at {endpoint.host}"
    if answer.status in (401, 403) and endpoint.key and not endpoint.sends_key:
        return Denied(
            f"{who} wants a key ({answer.status}). {endpoint.key_name} was not sent, because anybody on the way could "
            f"read it over plain http://. {endpoint.lost}",
            hint=f"Set `{endpoint.settings}.url` to an address that begins with https://, or to one of this machine.",
        )
    if answer.status in (401, 403):  # its text may repeat the key
        state = "refused the key of" if endpoint.key else "wants a key, and there is none in"
        key = endpoint.key_name or "the address"
        return Denied(f"{who} {state} {key} ({answer.status}). {endpoint.lost}", hint=f"Set {key}.")
    said = f"{who} answered {answer.status}: {_quote_body(endpoint, answer.body)} {endpoint.lost}"
    if answer.status in (400, 413, 422):
        return InvalidInput(said, hint=f"Check `{endpoint.settings}.model`, or the length of the texts.")
    if answer.status in BUSY:
        return Unavailable(said, hint="It will be asked again later.")
    return Unavailable(said, hint=f"Check `{endpoint.settings}.url` and `{endpoint.settings}.model`.")


def _quote_body(endpoint: Endpoint, body: bytes) -> str:
    """The start of what a service said, on one line, without the key."""
    text = body[:4096].decode("utf-8", "replace")
    text = text.replace(endpoint.key, "***") if endpoint.key else text
    text = " ".join("".join(char if char.isprintable() else " " for char in text).split())
    return (text[:200].rstrip(".") or "nothing") + "."
