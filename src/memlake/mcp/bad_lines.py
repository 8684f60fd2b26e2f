"""Lines a client sent that are no message: each is answered, where the SDK drops it and the client waits for ever."""

from __future__ import annotations

import re
from types import TracebackType
from typing import Any, Self

import mcp_types as types
from mcp.shared.message import SessionMessage
from pydantic import ValidationError

_PARSE_ERROR, _INVALID_REQUEST = -32700, -32600
# A text without an end is one token up to the end of the line: looking for its end again from each quote takes minutes.
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*+(?:"|\\?$)|[{}\[\]:,]|[^\s{}\[\]:,"]+')
_WHY = "This line is not a message the server can read ({why}). Send JSON of at most 200 levels, whole characters, and "
_WHY += "numbers of at most 4,000 digits."
_NO_ID = "{method} is a request, and its id is neither text nor a whole number. Send it again with such an id."
_NOTIFICATIONS = "notifications/"


class Answering:
    """The messages of a client; what cannot be read is answered with an error and passed over."""

    def __init__(self, reading: Any, writing: Any) -> None:
        self._reading, self._writing = reading, writing

    @property
    def last_context(self) -> Any:
        return getattr(self._reading, "last_context", None)

    async def receive(self) -> Any:
        while (fault := find_fault(item := await self._reading.receive())) is not None:
            await self._writing.send(SessionMessage(fault))
        return item

    async def aclose(self) -> None:
        await self._reading.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        while (fault := find_fault(item := await self._reading.__anext__())) is not None:
            await self._writing.send(SessionMessage(fault))
        return item

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


def find_fault(item: Any) -> types.JSONRPCError | None:
    """The answer to what is no message; None for a message."""
    if isinstance(item, Exception):
        return describe_fault(item)
    # The SDK drops an id that is neither text nor a whole number, and takes the request for a notification. All
    # notifications of MCP have one beginning, so a request is told by its method.
    message = getattr(item, "message", None)
    if not isinstance(message, types.JSONRPCNotification) or message.method.startswith(_NOTIFICATIONS):
        return None
    told = types.ErrorData(code=_INVALID_REQUEST, message=_NO_ID.format(method=message.method[:100]))
    return types.JSONRPCError(jsonrpc="2.0", id=None, error=told)


def describe_fault(error: Exception) -> types.JSONRPCError:
    """The answer to a line that is no message, with the id of the request where the line shows one."""
    wrong: list[Any] = error.errors(include_url=False) if isinstance(error, ValidationError) else []
    first: Any = wrong[0] if wrong else {}
    is_json = first.get("type") != "json_invalid"
    # What is wrong with a field shows that field alone; what the message lacks is said with the whole of it.
    whole = (one["input"] for one in wrong if one["type"] == "missing" and len(one["loc"]) == 2)
    line = next(whole, first.get("input"))
    found = line.get("id") if isinstance(line, dict) else find_id(line) if isinstance(line, str) else None
    told = types.ErrorData(
        code=_INVALID_REQUEST if is_json else _PARSE_ERROR,
        message=_WHY.format(why=str(first.get("msg") or type(error).__name__).removeprefix("Invalid JSON: ")[:100]),
    )
    return types.JSONRPCError(jsonrpc="2.0", id=found if type(found) in (int, str) else None, error=told)


def find_id(line: str) -> int | str | None:
    """The id of a request in a line that no parser takes: the value of `id` in the outermost braces."""
    depth, before = 0, ["", ""]
    for match in _TOKEN.finditer(line):
        token = match[0]
        if depth == 1 and before == ['"id"', ":"]:
            if token.isascii() and token.removeprefix("-").isdecimal() and len(token) < 20:
                return int(token)
            is_text = len(token) > 1 and token.startswith('"') and token.endswith('"')
            return token[1:-1] if is_text and token.isascii() and "\\" not in token else None
        depth += (token in "{[") - (token in "}]")
        before = [before[1], token]
    return None
