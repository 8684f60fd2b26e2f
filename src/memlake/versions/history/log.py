"""Walking history: log with its filters, and blame. Reads only."""

from __future__ import annotations

import heapq
import re
import warnings
from collections.abc import Callable, Iterable, Iterator

from memlake.errors import InvalidInput, Purged, pasted
from memlake.named_tuple import NamedTuple
from memlake.records import Commit, Entry
from memlake.reports import BlameLine
from memlake.versions.conditions import Condition
from memlake.versions.history.bases import reachable
from memlake.versions.history.commits import History
from memlake.versions.history.facts import read_facts
from memlake.versions.history.renames import Candidates, find_renamed
from memlake.versions.paths import matches, plain, scope
from memlake.versions.text.lines import find_object_text, match_lines, split_lines

_PIECE = 1 << 20
_LARGEST = 4 << 20  # bytes whose lines blame compares


class Filter(NamedTuple):
    """Which commits a log shows."""

    paths: tuple[str, ...] = ()
    since: int | None = None
    until: int | None = None
    author: re.Pattern[str] | None = None
    grep: re.Pattern[str] | None = None
    first_parent: bool = False
    text: str | None = None
    follow: bool = False
    where: Condition | None = None


def compile_pattern(text: str | re.Pattern[str] | None, flags: int = 0) -> re.Pattern[str] | None:
    """A text as a regular expression in which ^ and $ are the ends of lines; None for None."""
    if text is None or isinstance(text, re.Pattern):
        return text
    try:
        return re.compile(text, re.MULTILINE | flags)
    except (re.error, RecursionError, OverflowError) as error:
        raise InvalidInput(
            f"{text!r} is not a regular expression: {error}.",
            hint="To look for plain text, use -F; in Python, re.escape(TEXT).",
        ) from error


def walk(
    history: History, tips: Iterable[Commit], hidden: Iterable[Commit] = (), *, first_parent: bool = False
) -> Iterator[Commit]:
    """Commits behind the tips, newest first; a child always comes before its parents."""
    out = reachable(history, [commit.seq for commit in hidden]) if hidden else set()
    seen = {commit.seq for commit in tips} - out
    queue = [-seq for seq in seen]
    heapq.heapify(queue)
    while queue:
        commit = history.at(-heapq.heappop(queue))
        yield commit
        parents = history.parents([commit.seq])[commit.seq][1]
        for parent in parents[:1] if first_parent else parents:
            if parent not in seen and parent not in out:
                seen.add(parent)
                heapq.heappush(queue, -parent)


def log(history: History, tips: Iterable[Commit], hidden: Iterable[Commit], wanted: Filter) -> Iterator[Commit]:
    unknown = {one.fact for one in wanted.where.comparisons} if wanted.where else set()
    for commit in walk(history, tips, hidden, first_parent=wanted.first_parent):
        if unknown and commit.meta:
            facts = read_facts(history, commit)
            unknown = {fact for fact in unknown if fact.find(facts) is None}
        if _shows(history, commit, wanted):
            yield commit
        if wanted.follow:
            wanted = wanted._replace(paths=_find_old_names(history, commit, wanted.paths))
    if unknown:
        warnings.warn(f"none of these commits records {' or '.join(map(str, unknown))}.", stacklevel=2)


def _shows(history: History, commit: Commit, wanted: Filter) -> bool:
    return (
        (wanted.since is None or commit.time >= wanted.since)
        and (wanted.until is None or commit.time <= wanted.until)
        and (wanted.author is None or wanted.author.search(str(commit.author)) is not None)
        and (wanted.grep is None or wanted.grep.search(commit.message) is not None)
        and (wanted.where is None or wanted.where.holds(read_facts(history, commit)))
        and (not wanted.paths or _touches(history, commit, wanted.paths))
        and (wanted.text is None or _changes_text(history, commit, wanted))
    )


def _find_old_names(history: History, commit: Commit, paths: tuple[str, ...]) -> tuple[str, ...]:
    """What the paths were called before a commit: a path it added was renamed if it removed the same content."""
    changes = history.changes(commit)
    gone = {change.old: change.path for change in changes if change.old and not change.new and change.old.size}
    came = {change.path: gone[change.new] for change in changes if not change.old and change.new in gone}
    return tuple(came.get(path, path) for path in paths)


def _changes_text(history: History, commit: Commit, wanted: Filter) -> bool:
    """Whether a path contains the text more or less often than before. A merge only repeats what its sides did."""
    needle = (wanted.text or "").encode()
    if len(commit.parents) > 1 and not wanted.first_parent:
        return False
    changes = [c for c in history.changes(commit) if not wanted.paths or matches(c.path, wanted.paths)]
    gone, came = {c.old for c in changes if not c.new}, {c.new for c in changes if not c.old}
    return any(
        _count_bytes(history, change.old, needle) != _count_bytes(history, change.new, needle)
        for change in changes
        if (change.old or change.new) not in gone & came  # only renamed
    )


def _count_bytes(history: History, entry: Entry | None, needle: bytes) -> int:
    """How often an object contains some bytes. Reads it in pieces, because it may be larger than memory."""
    if entry is None or not needle:
        return 0
    count, rest = 0, b""
    try:
        with history.objects.open(entry.oid) as source:
            while piece := source.read(_PIECE):
                *ended, rest = (rest + piece).split(needle)
                count += len(ended)
                rest = rest[1 - len(needle) :] if len(needle) > 1 else b""
    except Purged:
        return 0
    return count


def _touches(history: History, commit: Commit, paths: tuple[str, ...]) -> bool:
    if not any(matches(change.path, paths) for change in history.changes(commit)):
        return False
    # A merge that only took the other side's version says nothing new about the path.
    return all(
        any(matches(c.path, (path,)) for path in paths for c in history.diff(history.get(parent), commit, scope(path)))
        for parent in commit.parents[1:]
    )


# -- blame --------------------------------------------------------------------------------------


Place = tuple[int, str]  # the seq of a commit, and what the file is called there
# Line in a version -> its lines in the version asked for; two, if both sides of a merge moved one line.
Lines = dict[int, list[int]]


def blame(history: History, start: Commit, path: str, typed: Callable[[str], str] = pasted) -> list[BlameLine]:
    """Which commit wrote each line of a path, also under names it had before. `typed` writes a path for a command."""
    entry = history.entries(start, [path])[path]
    text = find_object_text(history.objects.read, entry, _LARGEST)
    if text is None:
        why = "is not text" if entry.size <= _LARGEST else f"is larger than {_LARGEST >> 20} MiB"
        raise InvalidInput(
            f"{plain(path)!r} {why}, so its lines cannot be told apart.",
            hint=f"See the commits that changed it: memlake log -- {typed(plain(path))}",
        )
    lines = split_lines(text)
    owner: dict[int, Commit] = {}
    waiting: dict[Place, Lines] = {(start.seq, path): {n: [n] for n in range(len(lines))}}
    while waiting:
        place = max(waiting)
        commit, mine = history.at(place[0]), waiting.pop(place)
        for before, passed in _pass_on(history, commit, place[1], mine):
            theirs = waiting.setdefault(before, {})
            for line, finals in passed.items():
                theirs[line] = theirs.get(line, []) + finals
        owner.update((final, commit) for finals in mine.values() for final in finals)
    return [BlameLine(n + 1, line.rstrip("\r\n"), owner[n]) for n, line in enumerate(lines)]


def _pass_on(history: History, commit: Commit, path: str, mine: Lines) -> Iterator[tuple[Place, Lines]]:
    """Lines a commit has from its parents; they are taken out of `mine`."""
    if len(commit.parents) == 1 and all(change.path != path for change in history.changes(commit)):
        yield (history.seq(commit.parents[0]), path), dict(mine)
        mine.clear()
        return
    entry = history.entries(commit, [path])[path]
    for oid in commit.parents:
        parent = history.get(oid)
        name, before = path, history.entries(parent, [path]).get(path)
        if before is None and mine:
            changes = history.changes(commit) if oid == commit.parents[0] else history.diff(parent, commit)
            removed = Candidates((c.path, c.old) for c in changes if c.old is not None and c.new is None)
            name, before = find_renamed(history.objects.read, path, entry, removed, bring=history.objects.bring) or (
                path,
                None,
            )
        if before is None or not mine:
            continue
        yield (parent.seq, name), _take_same(history, before, entry, mine)


def _take_same(history: History, before: Entry, after: Entry, mine: Lines) -> Lines:
    """Lines that a version has from the one before it; they are taken out of `mine`."""
    if before.oid == after.oid:
        taken = dict(mine)
        mine.clear()
        return taken
    old, new = _read_lines(history, before), _read_lines(history, after)
    if old is None or new is None:
        return {}
    blocks = match_lines(old, new)
    return {a + k: mine.pop(b + k) for a, b, size in blocks for k in range(size) if b + k in mine}


def _read_lines(history: History, entry: Entry) -> list[str] | None:
    """The lines of a version; None if it is not text, too large or purged."""
    try:
        text = find_object_text(history.objects.read, entry, _LARGEST)
    except Purged:
        return None
    return None if text is None else split_lines(text)
