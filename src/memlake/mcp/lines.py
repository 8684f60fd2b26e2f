"""Lines a client sent that are no message: each is answered, where the SDK drops it and the client waits for ever."""

from __future__ import annotations

import re
from types import TracebackType
from typing import Any, Self

import mcp_types as types
from mcp.shared.message import SessionMessage
from pydantic import ValidationError

_PARSE_ERROR, _INVALID_REQUEST = -32700, -32600
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\]:,]|[^\s{}\[\]:,"]+')
_WHY = "This line is not a message the server can read ({why}). Send JSON of at most 200 levels, whole characters, and "
_WHY += "numbers of at most 4,000 digits."


class Answering:
    """The messages of a client; what cannot be read is answered with an error and passed over."""

    def __init__(self, reading: Any, writing: Any) -> None:
        self._reading, self._writing = reading, writing

    @property
    def last_context(self) -> Any:
        return getattr(self._reading, "last_context", None)

    async def receive(self) -> Any:
        while isinstance(item := await self._reading.receive(), Exception):
            await self._writing.send(SessionMessage(describe_fault(item)))
        return item

    async def aclose(self) -> None:
        await self._reading.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        while isinstance(item := await self._reading.__anext__(), Exception):
            await self._writing.send(SessionMessage(describe_fault(item)))
        return item

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


def describe_fault(error: Exception) -> types.JSONRPCError:
    """The answer to a line that is no message, with the id of the request where the line shows one."""
    first: Any = error.errors(include_url=False)[0] if isinstance(error, ValidationError) else {}
    line, is_json = first.get("input"), first.get("type") != "json_invalid"
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
            return token[1:-1] if token.startswith('"') and token[1:-1].isascii() and "\\" not in token else None
        depth += (token in "{[") - (token in "}]")
        before = [before[1], token]
    return None
