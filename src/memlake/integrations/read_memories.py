"""Reading memories that our export or another program wrote: which format a file has, and its items one by one.

`transfer.load_items(memories, read_memories("export.json"))` brings them in. Knows files and formats, not the index.
"""

from __future__ import annotations

import codecs
import json
import os
import re
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import IO, Any

from memlake.errors import InvalidInput, NotFound
from memlake.integrations import fields, formats
from memlake.integrations.formats import Raw
from memlake.memories.import_records import Item
from memlake.memories.transfer import Source
from memlake.objects import disk

FORMATS = ("jsonl", "mem0", "server-memory", "basic-memory", "hatidata")
# The first line of one JSON document that is spread over many.
_DOCUMENT = re.compile(rb'\{(?:\s*"(?:results|memories)"\s*:.*)?')
AnyPath = str | os.PathLike[str]


class Reading(Source):
    """Items of a file, a folder or a stream in a known format."""

    def __init__(self, raws: Iterator[Raw], name: str, form: str, *, skip_bad: bool) -> None:
        super().__init__(name, skip_bad=skip_bad)
        self.format, self._raws = form, raws

    def __next__(self) -> Item:
        with disk.named_errors(f"reading {self.name}"):
            for raw in self._raws:
                problem = raw.problem
                if not problem:
                    # Our own export says what its memories come from; of the others the format is all that is known.
                    origin = {"source": raw.fields.get("source") or self.format}
                    origin |= {} if self.format == "jsonl" else {"client": self.format}
                    try:
                        return fields.build_item({**raw.fields, **origin}, self.format)
                    except InvalidInput as error:
                        problem = error.message.removesuffix(" Nothing was stored.")
                self.skip(f"{self.name}, {raw.where}: {problem}", InvalidInput)
        raise StopIteration


def read_memories(source: AnyPath | IO[Any], *, format: str = "auto", skip_bad: bool = False) -> Reading:  # noqa: A002
    """Read the memories in a file, a folder or an open stream."""
    if format not in ("auto", *FORMATS):
        raise InvalidInput(f"{format!r} is not a format; one of auto, {', '.join(FORMATS)} is.")
    path = Path(source) if isinstance(source, str | os.PathLike) else None
    name = str(path) if path is not None else str(getattr(source, "name", "the stream"))
    if path is not None and not path.exists():
        raise NotFound(f"{name} does not exist. Nothing was read.")
    lines = iter(()) if path is not None and path.is_dir() else _read_lines(source)
    with disk.named_errors(f"reading {name}"):
        form, lines = (format, lines) if format != "auto" else _detect_format(path, lines, name)
    return Reading(_read_raws(form, path, lines, name), name, form, skip_bad=skip_bad)


def _read_raws(form: str, path: Path | None, lines: Iterator[bytes], name: str) -> Iterator[Raw]:
    wants_folder = form == "basic-memory"
    if (path is not None and path.is_dir()) != wants_folder or (path is None and form == "hatidata"):
        raise InvalidInput(f"{form} is a {'folder of notes' if wants_folder else 'file'}; {name} is none.")
    if path is not None and form in ("basic-memory", "hatidata"):
        return formats.read_basic_memory(path) if wants_folder else formats.read_hatidata(path)
    readers = {"server-memory": formats.read_server_memory, "mem0": formats.read_mem0}
    return _name_errors(readers.get(form, formats.read_json_lines)(lines), name)


def _name_errors(raws: Iterator[Raw], name: str) -> Iterator[Raw]:
    """Yield the same; an error about the whole file gets the name of the file."""
    try:
        yield from raws
    except InvalidInput as error:
        raise InvalidInput(f"{name}: {error.message}", hint=error.hint) from None


def _read_lines(source: AnyPath | IO[Any]) -> Iterator[bytes]:
    """Yield lines as bytes, so that a line that is not UTF-8 can be named."""
    if isinstance(source, str | os.PathLike):
        with open(source, "rb") as opened:
            yield from opened
    else:
        yield from (line.encode("utf-8", "surrogatepass") if isinstance(line, str) else line for line in source)


def _detect_format(path: Path | None, lines: Iterator[bytes], name: str) -> tuple[str, Iterator[bytes]]:
    """Return the format by what is in it, and the lines again from the first."""
    if path is not None and path.is_dir():
        if next(formats.list_notes(path), None) is None:
            raise InvalidInput(f"{name} is a folder without Markdown notes. Nothing was read.")
        return "basic-memory", lines
    if path is not None:
        with open(path, "rb") as opened:
            if opened.read(12)[8:] == b"DUCK":
                return "hatidata", lines
    seen = list[bytes]()
    for line in lines:
        seen.append(line)
        if line.removeprefix(codecs.BOM_UTF8).strip():
            break
    again = chain(seen, lines)
    head = seen[-1].removeprefix(codecs.BOM_UTF8).strip() if seen else b""
    return _detect_by_line(head, name), again


def _detect_by_line(head: bytes, name: str) -> str:
    if head.startswith(b"["):
        return "mem0"
    try:
        first = json.loads(head.decode("utf-8", "replace") or "{}")
    except (ValueError, RecursionError):
        if _DOCUMENT.fullmatch(head):
            return "mem0"
        first = {} if head.startswith(b"{") else None
    if not isinstance(first, dict):
        raise InvalidInput(
            f"{name} is in no format memlake knows: it starts with {head[:20].decode('utf-8', 'replace')!r}. "
            "Nothing was read.",
            hint=f"Name its format: one of {', '.join(FORMATS)}.",
        )
    if first.get("type") in ("entity", "relation") and not first.keys() & {"content", "text", "memory"}:
        return "server-memory"
    if isinstance(first.get("memory"), str) and first.keys() & {"hash", "user_id", "categories"}:
        return "mem0"  # one of its memories a line
    return "mem0" if any(isinstance(first.get(key), list) for key in ("results", "memories")) else "jsonl"
