"""What commits, paths and listings hold: log, ls, cat, about, and both sides of a conflict. Reads only."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Self

from memlake.errors import InvalidInput, NotFound, pasted
from memlake.named_tuple import NamedTuple
from memlake.records import Commit, Conflict, Entry, Lane
from memlake.reports import About
from memlake.versions import conditions, tables
from memlake.versions.checkout import describe, rev, worktree
from memlake.versions.checkout.context import Checkout
from memlake.versions.history import file_notes, refs
from memlake.versions.history import log as walking
from memlake.versions.history.bases import merge_bases
from memlake.versions.history.times import parse_time
from memlake.versions.kinds import is_typed, kind_at
from memlake.versions.paths import FILES, check, check_text, matches, plain, scope
from memlake.versions.text.lines import LARGEST, find_text
from memlake.versions.text.merge3 import find_marker
from memlake.versions.trees.codec import LANES, decode_commit

_MARKED = 4 * LARGEST  # bytes of a text with both sides, each of which is read up to LARGEST
_SIDES = {":1": "base", ":2": "ours", ":3": "theirs"}  # as git names the sides of a path in conflict


class LogQuery(NamedTuple):
    rev: str | tuple[str, ...] = "HEAD"
    lane: str = "work"
    paths: tuple[str, ...] = ()
    limit: int | None = None
    skip: int = 0
    since: str | None = None
    until: str | None = None
    author: str | re.Pattern[str] | None = None
    grep: str | re.Pattern[str] | None = None
    first_parent: bool = False
    all: bool = False
    text: str | None = None
    follow: bool = False
    reverse: bool = False
    where: str | None = None


def tree_path_of(root: Path, text: str) -> str:
    """The path of a room in full (`datasets/x`; `files/x` when there is no such folder), else a working file.

    `datasets/` is all of that room, unless a folder here is called so.
    """
    room, slash, rest = text.partition("/")
    if slash and is_typed(room):
        if rest.strip("/"):
            return check(text.rstrip("/"))
        if not (root / room).exists():
            return room
    if slash and room == "files" and not (root / "files").exists():
        return check(text)
    file = worktree.relative(root, text)
    return FILES + check_text(file) if file else FILES[:-1]


# -- log ------------------------------------------------------------------------------------------


def log(here: Checkout, query: LogQuery) -> Iterator[Commit]:
    if query.follow and len(query.paths) != 1:
        raise InvalidInput(f"follow takes exactly one path; got {len(query.paths)}.")
    tips, hidden = _find_range(here, query)
    wanted = walking.Filter(
        query.paths,
        parse_time(query.since) if query.since else None,
        parse_time(query.until) if query.until else None,
        walking.compile_pattern(query.author),
        walking.compile_pattern(query.grep),
        query.first_parent,
        query.text,
        query.follow,
        conditions.parse(query.where) if query.where is not None else None,
    )
    found = walking.log(here.history, tips, hidden, wanted)
    if query.skip < 0 or (query.limit or 0) < 0:
        raise InvalidInput(f"limit {query.limit} and skip {query.skip} are counts; neither can be negative.")
    stop = sys.maxsize if query.limit is None else query.skip + query.limit
    shown = islice(found, min(query.skip, sys.maxsize), min(stop, sys.maxsize))
    return reversed(list(shown)) if query.reverse else shown


def _find_range(here: Checkout, query: LogQuery) -> tuple[list[Commit], list[Commit]]:
    check_lane(query.lane)
    lanes: tuple[Lane, ...] = LANES if query.lane == "all" else (query.lane,)  # type: ignore[assignment]
    tips: list[Commit] = []
    hidden: list[Commit] = []
    if query.all:
        tips = [c for c in (here.history.get(oid) for oid in _list_named_heads(here)) if c.lane in lanes]
    for text in (query.rev,) if isinstance(query.rev, str) else query.rev:
        for lane in lanes:
            shown, out = _find_tips(here, text, lane, strict=len(lanes) == 1)
            tips += shown
            hidden += out
    return list({c.seq: c for c in tips}.values()), hidden


def check_lane(lane: str) -> None:
    if lane not in (*LANES, "all"):
        raise InvalidInput(f"there is no lane {lane!r}.", hint="Lanes are work, memory, or all for both.")


def _list_named_heads(here: Checkout) -> list[str]:
    rows = tables.list_all_refs(here.history.db)
    return sorted({oid.hex() for kind, _, *heads, _ in rows if kind != refs.INTERNAL for oid in heads if oid})


def _find_tips(here: Checkout, text: str, lane: Lane, *, strict: bool) -> tuple[list[Commit], list[Commit]]:
    parts = rev.split_range(text)
    if parts is not None:
        a, b = rev.resolve(here, parts[0], lane), rev.resolve(here, parts[2], lane)
        return ([b], [a]) if parts[1] == ".." else ([a, b], merge_bases(here.history, a, b))
    if text.startswith("^"):
        return [], [rev.resolve(here, text[1:], lane)]
    found = rev.find(here, text, lane)
    if found is None and (strict or lane == "work") and not (lane == "memory" and rev.find(here, text, "work")):
        raise rev.describe_unknown(here, text)
    return ([found] if found else []), []


# -- one path -------------------------------------------------------------------------------------


def commit_for(here: Checkout, path: str, name: str) -> Commit:
    return rev.resolve(here, name, kind_at(path).lane)


def entry_at(here: Checkout, path: str, name: str) -> Entry:
    if name == ":":  # the stage, as git writes it in `:path`
        row = here.local.find_tracked([path.removeprefix(FILES)]).get(path.removeprefix(FILES))
        found = row.entry if row is not None else None
    elif name in _SIDES:
        found = getattr(conflict_at(here, path), _SIDES[name])
    else:
        found = here.history.entries(commit_for(here, path, name), [path]).get(path)
    if found is None and name in _SIDES:
        raise NotFound(f"{path.removeprefix(FILES)!r} has no {_SIDES[name]} side.", hint="See: memlake status")
    if found is None:
        place = "the stage" if name == ":" else name
        raise NotFound(
            f"{plain(path)!r} is not a file in {place}.", hint=f"See what is there with: memlake ls {pasted(name)}"
        )
    return found


def conflict_at(here: Checkout, path: str) -> Conflict:
    found = next((conflict for conflict in here.local.conflicts() if conflict.path == path), None)
    if found is None:
        raise NotFound(f"{path.removeprefix(FILES)!r} is not in conflict.", hint="See what is: memlake status")
    return found


def conflict_text(here: Checkout, path: str) -> str | None:
    """Both sides of a conflict in one text, between markers; None where a side is missing or no text."""
    conflict, pending = conflict_at(here, path), here.local.find_pending()
    written = conflict.written
    if conflict.ours is None or conflict.theirs is None or written is None or written.size > _MARKED or pending is None:
        return None
    text = find_text(here.history.objects.read(written.oid))
    return text if text is not None and find_marker(text, pending.names) is not None else None


def working_bytes(root: Path, given: str) -> bytes:
    try:
        return worktree.read_bytes(str(root), worktree.relative(root, given))
    except FileNotFoundError:
        raise NotFound(f"file {given!r} does not exist.") from None


def versions_of(here: Checkout, path: str) -> list[str]:
    found: dict[str, None] = {}
    row = here.local.find_tracked([path.removeprefix(FILES)]).get(path.removeprefix(FILES))
    entries = [row.entry, row.old] if row is not None else []
    for seq, data in tables.scan_commits(here.history.db):
        for change in here.history.changes(decode_commit(data, seq)):
            if change.path == path:
                entries += [change.old, change.new]
    for entry in entries:
        if entry is not None:
            found[entry.oid] = None
    return [oid for oid in found if not here.history.objects.find_missing([oid])]


def ever_at(here: Checkout, prefix: str) -> dict[str, set[str]]:
    """Every object that each path of a room ever was, in any commit, reachable or not."""
    found: dict[str, set[str]] = {}
    for seq, data in tables.scan_commits(here.history.db):
        for change in here.history.changes(decode_commit(data, seq)):
            if change.path.startswith(prefix):
                found.setdefault(change.path, set()).update(e.oid for e in (change.old, change.new) if e is not None)
    return found


def list_state(here: Checkout, name: str, prefix: str) -> Iterator[tuple[str, Entry]]:
    """Paths of a state, in order: of both lanes, unless the prefix names a room; of ":", the stage, files alone."""
    if name == ":":
        rows = here.local.under("")
        staged = ((FILES + path, row.entry) for path, row in sorted(rows.items()) if row.entry is not None)
        yield from ((path, entry) for path, entry in staged if path.startswith(prefix))
        return
    for lane in LANES:
        commit = rev.find(here, name, lane)
        if commit is None and lane == "work" and rev.find(here, name, "memory") is None:
            raise rev.describe_unknown(here, name)
        if commit is not None and commit.lane == lane:
            yield from here.history.scan(commit, prefix)


class Listing:
    """What `ls` gives: an iterator of (path, entry), in order, that shows what it holds when it is printed."""

    def __init__(self, read: Callable[[], Iterator[tuple[str, Entry]]]) -> None:
        self._read, self._items = read, read()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> tuple[str, Entry]:
        return next(self._items)

    def __repr__(self) -> str:
        first = [path for path, _ in islice(self._read(), 11)]
        return f"Listing({', '.join(first[:10])}{', ...' if len(first) > 10 else ''})"


def list_paths(here: Checkout, name: str, wanted: Sequence[str]) -> Iterator[tuple[str, Entry]]:
    """What a state holds at, below or matched by some tree paths, each once."""
    for number, want in enumerate(wanted):
        for path, entry in list_state(here, name, scope(want)):
            if matches(path, (want,)) and not matches(path, wanted[:number]):
                yield path, entry


def fact(here: Checkout, name: str, oid: str) -> Any:
    """A fact a commit names, decoded."""
    data = here.history.objects.read(oid)
    return dict(file_notes.decode(data)) if name == "about" else json.loads(data)


def about(here: Checkout, path: str, name: str) -> About:
    """What was noted when this content of a path was added; what came by another way has its media type alone."""
    entry = entry_at(here, path, name)
    noted = _staged_note(here, path, entry) if name == ":" else dict(abouts(here, name, {path: entry})).get(path)
    if noted is not None:
        return noted
    with here.history.objects.open(entry.oid) as source:
        media = "inode/symlink" if entry.kind == "link" else describe.media_type(path, source.read(4096))
    return About(media, entry.size, 0, "")


def _staged_note(here: Checkout, path: str, entry: Entry) -> About | None:
    row = here.local.find_tracked([path.removeprefix(FILES)]).get(path.removeprefix(FILES))
    return file_notes.parse(row.about, entry.size) if row is not None and row.about else None


def abouts(here: Checkout, name: str, wanted: Mapping[str, Entry]) -> Iterator[tuple[str, About]]:
    """What was noted of many files, in one walk over history that ends when all are found."""
    missing = dict(wanted)
    for commit in walking.walk(here.history, [rev.resolve(here, name)]):
        if not missing:
            return
        oid = commit.meta.get("about")
        noted = (
            file_notes.decode(here.history.objects.read(oid))
            if oid and not here.history.objects.find_missing([oid])
            else {}
        )
        for change in here.history.changes(commit) if noted else ():
            note = noted.get(change.path.removeprefix(FILES))
            if note is not None and change.new is not None and missing.get(change.path) == change.new:
                yield change.path, file_notes.parse(note, missing.pop(change.path).size)
