"""grep: lines that match, in working files or in any commit. Reads only, a block at a time, so size does not matter.

The pattern is Python's. Its matcher has no bound: a pattern such as `(a+)+$` can take for ever on one line, and only ^C
ends it. Plain text (`fixed`) is always fast.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from typing import IO

from memlake.named_tuple import NamedTuple
from memlake.records import Entry
from memlake.reports import Match
from memlake.versions.checkout import worktree
from memlake.versions.checkout.context import Checkout
from memlake.versions.history.log import compile_pattern
from memlake.versions.kinds import kind_at
from memlake.versions.paths import FILES, matches, scope
from memlake.versions.verbs import show

_BLOCK = 1 << 20
_LONGEST = 64 << 20  # bytes of a line that are looked at as one; a longer one is cut there
_HEAD = 8000  # bytes in which a NUL makes a file binary, as in git


class Sought(NamedTuple):
    """A text or regular expression, and how it is to be taken."""

    pattern: str
    ignore_case: bool = False
    word: bool = False
    fixed: bool = False


class Where(NamedTuple):
    """The commit (None: the tracked working files), the tree paths, and the lane where no path names a room."""

    rev: str | None = None
    paths: tuple[str, ...] = ()
    lane: str | None = None  # None: files alone; "work", "memory" or "all": every room of it


class _Finder(NamedTuple):
    pattern: re.Pattern[str]
    plain: bytes  # a line without it cannot match; b"": it may

    def find(self, line: bytes) -> bool:
        return self.pattern.search(line.decode("utf-8", "surrogateescape")) is not None


def grep(here: Checkout, sought: Sought, where: Where) -> Iterator[Match]:
    """Every matching line in order of paths; of a binary file one match, without its text."""
    finder = _compile(sought)
    if where.lane is not None:
        show.check_lane(where.lane)
    for path, source in _list_sources(here, where):
        with source as file:
            yield from _search(finder, path, file)


def _compile(sought: Sought) -> _Finder:
    text = re.escape(sought.pattern) if sought.fixed else sought.pattern
    pattern = compile_pattern(text, re.IGNORECASE if sought.ignore_case else 0)
    assert pattern is not None
    if sought.word:
        pattern = compile_pattern(rf"(?<!\w)(?:{pattern.pattern})(?!\w)", pattern.flags & ~re.UNICODE)
        assert pattern is not None
    plain = "" if sought.ignore_case or not sought.fixed else sought.pattern
    return _Finder(pattern, plain.encode("utf-8", "surrogateescape"))


# -- what is searched -----------------------------------------------------------------------------


def _list_sources(here: Checkout, where: Where) -> Iterator[tuple[str, contextlib.AbstractContextManager[IO[bytes]]]]:
    rooms = any(not want.startswith(FILES) and scope(want) != FILES[:-1] for want in where.paths)
    if where.rev is None and where.lane is None and not rooms:
        yield from _list_working(here, where.paths)
        return
    name = where.rev or "HEAD"
    listed = show.list_paths(here, name, where.paths) if where.paths else show.list_state(here, name, "")
    for path, entry in listed:
        lane = kind_at(path).lane
        is_meant = where.paths or path.startswith(FILES) if where.lane is None else where.lane in (lane, "all")
        if is_meant and entry.kind != "link":
            yield path, _open_stored(here, path, entry)


def _list_working(
    here: Checkout, paths: tuple[str, ...]
) -> Iterator[tuple[str, contextlib.AbstractContextManager[IO[bytes]]]]:
    for name in here.local.paths():
        path = FILES + name
        if (not paths or matches(path, paths)) and worktree.is_file(here.root, name):
            yield path, os.fdopen(worktree.open_file(here.root, name), "rb")


@contextlib.contextmanager
def _open_stored(here: Checkout, path: str, entry: Entry) -> Iterator[IO[bytes]]:
    kind, objects = kind_at(path), here.history.objects
    if words := kind.words or kind.text:
        import io

        yield io.BytesIO(words(objects.read(entry.oid)))
        return
    with objects.open(entry.oid) as source:
        yield source


# -- one file -------------------------------------------------------------------------------------


def _search(finder: _Finder, path: str, source: IO[bytes]) -> Iterator[Match]:
    number, is_binary = 0, None
    for block in _read_blocks(source):
        if is_binary is None:
            is_binary = b"\0" in block[:_HEAD]
        if finder.plain and finder.plain not in block:
            number += block.count(b"\n")
            continue
        for line in block.removesuffix(b"\n").split(b"\n"):
            number += 1
            if finder.plain in line and finder.find(line):
                if is_binary:
                    yield Match(path, 0, "")
                    return
                yield Match(path, number, line.decode("utf-8", "surrogateescape").removesuffix("\r"))


def _read_blocks(source: IO[bytes]) -> Iterator[bytes]:
    """The file in pieces that end with a line, as far as lines are no longer than _LONGEST."""
    rest: list[bytes] = []
    held = 0
    while block := source.read(_BLOCK):
        cut = block.rfind(b"\n") + 1
        if not cut and held < _LONGEST:
            rest.append(block)
            held += len(block)
            continue
        yield b"".join((*rest, block[:cut]))
        rest, held = [block[cut:]], len(block) - cut
    if any(rest):
        yield b"".join(rest)
