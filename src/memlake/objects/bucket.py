"""A bucket as a place for sealed files, and which place a location names. Leaves requests to object_store.py."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from memlake.errors import AlreadyExists, NotFound, Unavailable
from memlake.objects import disk
from memlake.objects.object_store import Connection
from memlake.objects.places import (
    NAME,
    Folder,
    Pieces,
    Place,
    Ranges,
    check_name,
    check_ranges,
    check_size,
    sync_file,
    sync_folders,
    too_short,
)

WHOLE = 16 << 20  # goes in one conditional put, of which obstore holds two copies; what is larger goes in parts
_PART, _PARTS, _SENDERS = 8 << 20, 9000, 2
_GAP = 1 << 20  # ranges no further apart are one request; not less, or obstore joins them itself
_ATTEMPTS = 3


def open_place(location: str | Path) -> Place:
    """A folder for a path or a file:// URL, a bucket for any other URL."""
    text = str(location)
    if "://" not in text:
        return Folder(Path(location))
    if text.startswith("file://"):
        return Folder(Path(unquote(urlsplit(text).path)))
    return Bucket(text)


def count_puts(size: int) -> int:
    """Requests that storing a file of this size takes: parts have a beginning and an end, and are looked at then."""
    parts = -(-size // max(_PART, -(-size // _PARTS)))
    return 1 if size <= WHOLE else parts + 4


class Bucket(Connection):
    """An object store: s3://bucket/prefix, gs://, az://, and file:///, memory:/// for trials.

    Options are obstore's (endpoint, region, access_key_id, timeout, retry_config ...); the rest comes from the usual
    environment variables of the store. Give the bucket a lifecycle rule that removes incomplete multipart uploads,
    because a process killed in a large put leaves one.
    """

    def put(self, name: str, file: Path) -> None:
        check_name(name)
        with disk.named_errors(f"reading {file}"):
            size = os.stat(file).st_size
        if size > WHOLE and self._is_stored(name, size):
            return self._sync(name)
        failed: Unavailable | None = None
        for _attempt in range(_ATTEMPTS):
            try:
                if self._send(name, file, size):
                    return self._sync(name)
            except Unavailable as error:
                failed = error
            # A put whose answer was lost may be done, and one in parts may have met another writer's.
            if self._is_stored(name, size):
                return self._sync(name)
        raise failed or Unavailable(f"{name} was deleted from {self.url} while being stored.", hint="Run it again.")

    def get(self, name: str, start: int, length: int) -> bytes:
        return self.get_ranges(name, [(start, length)])[0]

    def get_ranges(self, name: str, ranges: Ranges) -> Pieces:
        check_name(name)
        check_ranges(ranges)
        spans = _join(ranges)
        if not spans:
            self.size(name)
            return [b"" for _ in ranges]
        with self.request(name):
            # Joined here and not by obstore, which panics when a range it joined begins past the end.
            starts, ends = [start for start, _ in spans], [end for _, end in spans]
            read = self.obstore.get_ranges(self.store, name, starts=starts, ends=ends)
        views = {start: memoryview(data) for start, data in zip(starts, read, strict=True)}
        return [_cut(name, views, start, length) for start, length in ranges]

    def size(self, name: str) -> int:
        with self.request(check_name(name)):
            return int(self.obstore.head(self.store, name)["size"])

    def list(self, prefix: str = "") -> Iterator[tuple[str, int, float]]:
        check_name(prefix + "x")
        return self._walk(prefix)

    def claim(self) -> None:
        return

    def is_empty(self) -> bool:
        held = 0
        with self.request(self.url, missing="bucket"):
            held = sum(len(page) for page in islice(self.obstore.list(self.store, chunk_size=1), 1))
        return held == 0

    def __str__(self) -> str:
        return self.url

    def delete(self, name: str) -> None:
        with contextlib.suppress(NotFound), self.request(check_name(name)):
            self.obstore.delete(self.store, name)

    def local_path(self, name: str) -> Path | None:
        check_name(name)
        if self.scheme != "file":
            return None
        path = Path(self.store.prefix or "/") / name
        return path if path.is_file() else None

    def _send(self, name: str, file: Path, size: int) -> bool:
        """Send the file; whether it is certain that the store has it as it is, so that nobody need look.

        A small file goes in one request with If-None-Match, which the store refuses if the name is taken. A large one
        goes in parts, which cannot be conditional everywhere, so the caller has looked before.
        """
        once: dict[str, Any] = {"mode": "create", "use_multipart": False}
        parts: dict[str, Any] = {"chunk_size": max(_PART, -(-size // _PARTS)), "max_concurrency": _SENDERS}
        with contextlib.suppress(AlreadyExists), self.request(name, missing="bucket"):
            self.obstore.put(self.store, name, file, **(once if size <= WHOLE else parts))
            return size <= WHOLE
        return False

    def _is_stored(self, name: str, size: int) -> bool:
        with contextlib.suppress(NotFound):
            check_size(name, size, self.size(name))
            return True
        return False

    def _sync(self, name: str) -> None:
        """Make a local file durable, because obstore leaves it in the page cache."""
        if path := self.local_path(name):
            with disk.named_errors(f"storing {path}"):
                sync_file(path)
                sync_folders(path.parent, Path(self.store.prefix or "/"))

    def _walk(self, prefix: str) -> Iterator[tuple[str, int, float]]:
        with self.request(prefix or self.url, missing="bucket"):
            # A store lists whole folders only, so the rest of the prefix is checked here.
            for page in self.obstore.list(self.store, prefix.rpartition("/")[0] or None):
                for meta in page:
                    if meta["path"].startswith(prefix) and NAME.fullmatch(meta["path"]):
                        yield meta["path"], meta["size"], meta["last_modified"].timestamp()


def _join(ranges: Ranges) -> list[tuple[int, int]]:
    """The (start, end) spans that cover the ranges, neighbours joined."""
    spans: list[tuple[int, int]] = []
    for start, length in sorted(ranges):
        if not length:
            continue
        if spans and start - spans[-1][1] <= _GAP:
            spans[-1] = (spans[-1][0], max(spans[-1][1], start + length))
        else:
            spans.append((start, start + length))
    return spans


def _cut(name: str, views: dict[int, memoryview], start: int, length: int) -> bytes:
    if not length:
        return b""
    first = max(begin for begin in views if begin <= start)
    piece = bytes(views[first][start - first : start - first + length])
    if len(piece) != length:
        raise too_short(name, start, length)
    return piece
