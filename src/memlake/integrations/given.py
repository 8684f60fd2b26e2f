"""What somebody gives to be read: a file, a folder, a zip or a stream, within bounds. Knows no format.

Whatever comes from elsewhere may be made to harm: an archive that unpacks to a thousand times its size, names that lead
out of it, links, lines without an end. So nothing is unpacked to disk, no link is followed, and all that is held in
memory at once has a limit.
"""

from __future__ import annotations

import codecs
import json
import os
import re
import stat
import zipfile
from collections.abc import Iterator
from datetime import datetime, timezone
from functools import cached_property
from pathlib import Path
from typing import IO, Any

from memlake.errors import InvalidInput, NotFound

LONGEST = 64 << 20  # bytes of one line, or of one member of a JSON list
LARGEST = 256 << 20  # bytes of a file that has to be read whole
NOTE = 16 << 20  # bytes of a text file of a folder
MOST = 200_000  # files of a folder or an archive
DEEPEST = 40  # folders inside each other
HEAD = 64 << 10  # bytes by which a format is told
_CHUNK = 1 << 20
_RATIO, _UNSUSPECTED = 200, 16 << 20  # how much smaller an archive may make what has more bytes than this
_SKIPPED = {"node_modules", "__pycache__", "site-packages", "venv", "dist", "target"}
_SHOWN = (".claude", ".cursor", ".github", ".codex", ".gemini")  # hidden folders in which notes for agents lie
_TOKEN = re.compile(r'"((?:[^"\\]|\\.)*+)"|[{}\[\]:]')
AnyPath = str | os.PathLike[str]


class Given:
    """A file, a folder, a zip or a stream."""

    def __init__(self, source: AnyPath | IO[Any]) -> None:
        self.path = Path(source) if isinstance(source, str | os.PathLike) else None
        self.name = str(self.path) if self.path is not None else str(getattr(source, "name", "the stream"))
        self.kind = "stream" if self.path is None else self._find_kind(self.path)
        self._stream = None if isinstance(source, str | os.PathLike) else _read_stream(source)

    def _find_kind(self, path: Path) -> str:
        if not path.exists():
            raise NotFound(f"{self.name} does not exist. Nothing was read.")
        if path.is_dir():
            return "folder"
        if not stat.S_ISREG(path.stat().st_mode):
            raise InvalidInput(f"{self.name} is neither a file nor a folder. Nothing was read.")
        with open(path, "rb") as opened:
            return "zip" if opened.read(4) in (b"PK\x03\x04", b"PK\x05\x06") else "file"

    # -- files of a folder or an archive ------------------------------------------------------

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The files of a folder or an archive, by their names inside it, in order."""
        found = self._list_folder() if self.kind == "folder" else self._list_zip() if self.kind == "zip" else ()
        names = list[str]()
        for name in found:
            names.append(name)
            if len(names) > MOST:
                raise InvalidInput(f"{self.name} holds more than {MOST:,} files. Nothing was read.")
        return tuple(sorted(names))

    def _list_folder(self) -> Iterator[str]:
        assert self.path is not None
        for here, folders, files in os.walk(self.path):  # follows no links
            at = os.path.relpath(here, self.path)
            depth = 0 if at == "." else at.count(os.sep) + 1
            kept = [one for one in folders if (not one.startswith(".") or one in _SHOWN) and one not in _SKIPPED]
            folders[:] = sorted(kept) if depth < DEEPEST else []
            for file in files:
                if stat.S_ISREG(os.lstat(os.path.join(here, file)).st_mode):
                    yield file if at == "." else f"{at.replace(os.sep, '/')}/{file}"

    @cached_property
    def _zip(self) -> zipfile.ZipFile:
        try:
            return zipfile.ZipFile(self.path or "")
        except (zipfile.BadZipFile, ValueError, NotImplementedError) as error:
            raise InvalidInput(f"{self.name} is a damaged archive: {error}. Nothing was read.") from None

    def _list_zip(self) -> Iterator[str]:
        for info in self._zip.infolist():
            name = info.filename
            if name.startswith(("/", "\\")) or ":" in name[:2] or ".." in re.split(r"[/\\]", name):
                raise InvalidInput(f"{self.name} is no honest archive: its file {name[:80]!r} leads out of it.")
            if info.file_size > max(_UNSUSPECTED, _RATIO * info.compress_size):
                told = f"{info.compress_size:,} bytes would unpack to {info.file_size:,}"
                raise InvalidInput(f"{self.name} is no honest archive: in {name[:80]!r}, {told}. Nothing was read.")
            if not info.is_dir():
                yield name

    def find_time(self, name: str = "") -> datetime:
        """When a file was changed last; of a stream, now."""
        if self.kind == "zip":
            year, month, day, hour, minute, second = self._zip.getinfo(name).date_time
            try:
                return datetime(year, month, day, hour, minute, min(second, 59), tzinfo=timezone.utc)
            except ValueError:  # no day of any calendar; many write zeros
                return datetime(1980, 1, 1, tzinfo=timezone.utc)
        if self.path is None:
            return datetime.now(timezone.utc)
        file = self.path / name if name else self.path
        return datetime.fromtimestamp(int(file.stat().st_mtime), timezone.utc)

    # -- bytes --------------------------------------------------------------------------------

    def chunks(self, name: str = "") -> Iterator[bytes]:
        """The bytes of a file, of one in a folder or archive, or of the stream."""
        if self._stream is not None:
            yield from self._stream
            return
        with self._open(name) as opened:
            while chunk := self._take(opened, _CHUNK):
                yield chunk

    def _open(self, name: str) -> IO[bytes]:
        assert self.path is not None
        if self.kind != "zip":
            return open(os.path.join(self.path, name) if name else self.path, "rb")
        try:
            return self._zip.open(name)
        except (zipfile.BadZipFile, NotImplementedError, RuntimeError) as error:  # a password, an unknown method
            raise InvalidInput(f"{self.name}: {name} cannot be unpacked: {error}. Nothing was read.") from None

    def _take(self, opened: IO[bytes], most: int) -> bytes:
        try:
            return opened.read(most)
        except (zipfile.BadZipFile, zipfile.zlib.error, EOFError) as error:  # type: ignore[attr-defined]
            raise InvalidInput(f"{self.name} is a damaged archive: {error}.") from None

    def read(self, name: str = "", most: int = LARGEST) -> bytes:
        """All of a file, which has at most so many bytes."""
        parts, size = list[bytes](), 0
        for chunk in self.chunks(name):
            parts.append(chunk)
            size += len(chunk)
            if size > most:
                raise InvalidInput(
                    f"{self.label(name)} has more than {most >> 20} MiB, which is too much to read at once."
                )
        return b"".join(parts)

    def head(self, name: str = "") -> bytes:
        """The first bytes, which `chunks` gives again."""
        if self._stream is None:
            with self._open(name) as opened:
                return self._take(opened, HEAD)
        parts, size = list[bytes](), 0
        while size < HEAD and (chunk := next(self._stream, b"")):
            parts.append(chunk)
            size += len(chunk)
        self._stream = _chain(parts, self._stream)
        return b"".join(parts)[:HEAD]

    def label(self, name: str) -> str:
        """A file as messages name it."""
        return f"{self.name}: {name}" if name else self.name

    def lines(self, name: str = "") -> Iterator[bytes]:
        """Lines as bytes, so that a line that is not UTF-8 can be named; of one that never ends the beginning."""
        rest = b""
        is_cut = False
        for chunk in self.chunks(name):
            first, *more = chunk.split(b"\n")
            rest = rest if is_cut else rest + first
            for line in more:
                yield rest
                rest, is_cut = line, False
            if len(rest) > LONGEST:
                rest, is_cut = rest[: LONGEST + 1], True
        if rest:
            yield rest

    # -- JSON ---------------------------------------------------------------------------------

    def read_json(self, name: str = "") -> Any:
        """The one JSON document that a file is."""
        found = list(self.list_json(name, whole=True))
        return found[0] if found else None

    def list_json(self, name: str = "", *, whole: bool = False) -> Iterator[Any]:
        """The members of a JSON list one after the other, each when it is reached; of another document, itself."""
        text, most = _Text(self.chunks(name), self.label(name)), LARGEST if whole else LONGEST
        if whole or text.peek() != "[":
            yield text.decode(LARGEST)
            text.finish()
            return
        text.skip()
        while text.peek() != "]":
            yield text.decode(most)
            if text.peek() == ",":
                text.skip()
            elif text.peek() != "]":
                raise text.wrong("a list goes on without a comma")
        text.skip()
        text.finish()


class _Text:
    """JSON text that is read as far as it is needed."""

    def __init__(self, chunks: Iterator[bytes], name: str) -> None:
        self._chunks, self._name = chunks, name
        self._utf8 = codecs.getincrementaldecoder("utf-8-sig")()
        self._buffer, self._at, self._before = "", 0, 0
        self._json = json.JSONDecoder()

    def _more(self) -> bool:
        chunk = next(self._chunks, None)
        if chunk is None:
            return False
        try:
            text = self._utf8.decode(chunk)
        except UnicodeDecodeError as error:
            raise InvalidInput(f"{self._name} is not UTF-8 ({error.object[error.start]:#04x}).") from None
        self._before += self._at
        self._buffer, self._at = self._buffer[self._at :] + text, 0
        return True

    def peek(self) -> str:
        """The next character that is no space; "" at the end."""
        while True:
            while self._at < len(self._buffer) and self._buffer[self._at] in " \t\r\n":
                self._at += 1
            if self._at < len(self._buffer):
                return self._buffer[self._at]
            if not self._more():
                return ""

    def skip(self) -> None:
        self._at += 1

    def decode(self, most: int) -> Any:
        """The next value. One that is not whole yet is tried again when there is twice as much of it, or no more."""
        self.peek()
        tried, is_over = -1, False
        while True:
            size = len(self._buffer) - self._at
            if size > 2 * tried or is_over:
                try:
                    value, self._at = self._json.raw_decode(self._buffer, self._at)
                    return value
                except json.JSONDecodeError as error:
                    if is_over:
                        raise self.wrong(f"{error.msg} at character {self._before + error.pos + 1:,}") from None
                except (ValueError, RecursionError) as error:
                    raise InvalidInput(f"{self._name} is not JSON that can be read: {error}.") from None
                tried = size
            if size > most:
                raise InvalidInput(f"{self._name}: one entry has more than {most >> 20} MiB, or it is not JSON.")
            is_over = not self._more()

    def wrong(self, what: str) -> InvalidInput:
        return InvalidInput(f"{self._name} is not JSON: {what}.")

    def finish(self) -> None:
        if self.peek():
            raise self.wrong(f"more follows at character {self._before + self._at + 1:,}")


def _read_stream(source: IO[Any]) -> Iterator[bytes]:
    while chunk := source.read(_CHUNK):
        yield chunk.encode("utf-8", "surrogatepass") if isinstance(chunk, str) else chunk


def _chain(parts: list[bytes], rest: Iterator[bytes]) -> Iterator[bytes]:
    yield from parts
    yield from rest


def list_keys(head: bytes) -> tuple[str, frozenset[str]]:
    """How a JSON document begins, `{`, `[` or `"`, and the keys of its first object as far as the first bytes show."""
    text = head.decode("utf-8", "replace").lstrip("\ufeff \t\r\n")
    keys, last, depth, top = set[str](), "", 0, -1
    for match in _TOKEN.finditer(text):
        token = match[0]
        if token in "{[":
            depth += 1
            top = depth if token == "{" and top < 0 else top
        elif token in "}]":
            if depth == top:
                break
            depth -= 1
        elif token == ":":
            if depth == top:
                keys.add(last)
        else:
            last = match[1]
    return text[:1], frozenset(keys)
