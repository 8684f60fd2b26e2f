"""This checkout's own state in local.db: HEAD, what is tracked, the stage, a waiting merge. Touches no working file."""

from __future__ import annotations

import contextlib
import json
import os
import stat as modes
import struct
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from memlake.errors import Corrupt
from memlake.objects.db import Database, FileLock, Row
from memlake.objects.layout import now
from memlake.records import Change, Conflict, Entry
from memlake.versions.codec import maybe_bytes, maybe_entry
from memlake.versions.paths import FILES, matches, scope

_STAT = struct.Struct("<qqqQI")
_FILE = "SELECT path, entry, stat, racy, staged, old, about, mark FROM file"
_FINE, _COARSE = 20_000_000, 2_000_000_000  # ns within which a second change may leave the same mtime


class Tracked(NamedTuple):
    """One row of what is tracked; `path` is without `files/`."""

    path: str
    entry: Entry | None
    stat: bytes | None = None
    racy: bool = False
    staged: bool = False
    old: Entry | None = None
    about: str | None = None


@dataclass
class UnderWay:
    """The verb that is being done: `state` gives what undo will need, as far as it is known; `id` once it is kept."""

    verb: str
    detail: str
    state: Callable[[], dict[str, Any]]
    id: int | None = None


class Local:
    def __init__(self, db: Database) -> None:
        self.db = db
        self.under_way: UnderWay | None = None
        # What a verb that stages first found before: the stage, and the conflicts that staging resolves.
        self.found: tuple[list[Tracked], tuple[Conflict, ...]] | None = None
        self._verb = FileLock(db.path.with_name("checkout.lock"), self._tell_waiting)

    def verb(self, patience: float | None = None) -> contextlib.AbstractContextManager[None]:
        """Held by a verb that changes the stage or the files: two of them in one checkout take turns."""
        return self._verb.held(patience)

    def note_verb(self, text: str) -> None:
        """Say to those who wait for it what the verb under way is."""
        self._verb.note(text[:100])

    def holder(self) -> str | None:
        """Another one at work in this checkout, as `process 12 (switch main)`; None when there is none."""
        found = self._verb.holder()
        if found is None:
            return None
        pid, _, verb = found.partition(" ")
        return f"process {pid or '?'}" + (f" ({verb})" if verb else "")

    def _tell_waiting(self) -> None:
        if holder := self.holder():
            sys.stderr.write(f"memlake: waiting for {holder}\n")

    # -- HEAD ---------------------------------------------------------------------------------

    @property
    def is_new(self) -> bool:
        """Nothing was ever written: it was made just now, or lost and made again."""
        return self.db.row("SELECT 1 FROM state") is None

    def state(self, key: str) -> str | None:
        row = self.db.row("SELECT value, mark FROM state WHERE key = ?", (key,))
        return None if row is None else _sound(key, (key, row[0]), row[1])[1]

    def check(self) -> None:
        """Raise when a row is not what was written; for fsck, which looks at the others by their meaning."""
        for key, value, found in self.db.rows("SELECT key, value, mark FROM state"):
            _sound(key, (key, value), found)
        self.under("")
        self.conflicts()

    def set_state(self, **values: str | None) -> None:
        with self.db.write():
            for key, value in values.items():
                if value is None:
                    self.db.run("DELETE FROM state WHERE key = ?", (key,))
                else:
                    self.db.run("INSERT OR REPLACE INTO state VALUES(?, ?, ?)", (key, value, mark(key, value)))

    def json_state(self, key: str) -> Any:
        text = self.state(key)
        return None if text is None else json.loads(text)

    @property
    def branch(self) -> str | None:
        """The branch HEAD names, None when detached."""
        head = self._head()
        return None if head.startswith("@") else head

    @property
    def detached(self) -> str | None:
        """The commit HEAD names directly, None when on a branch."""
        head = self._head()
        return head[1:] if head.startswith("@") else None

    def _head(self) -> str:
        head = self.state("head")
        if head is None:
            raise Corrupt("local.db does not say where HEAD is.", hint="Set it with: memlake switch main")
        return head

    @property
    def base(self) -> str | None:
        """The commit that tracked files without the stage reflect."""
        return self.state("base")

    def log_head(self, old: str | None, new: str | None, branch: str | None, action: str, who: str) -> None:
        with self.db.write():
            sql = "INSERT INTO headlog(old, new, branch, time, action, who) VALUES(?, ?, ?, ?, ?, ?)"
            self.db.run(sql, (old, new, branch, now(), action, who))

    def head_moves(self) -> Iterator[tuple[str | None, str | None, str | None, int, str, str]]:
        yield from self.db.each("SELECT old, new, branch, time, action, who FROM headlog ORDER BY id DESC")

    # -- tracked files ------------------------------------------------------------------------

    def stats(self) -> list[tuple[str, bytes | None, int, bytes | None]]:
        """(path, stat, racy, entry) of everything tracked and not removed: the cheap form, for status."""
        return self.db.rows("SELECT path, stat, racy, entry FROM file WHERE entry IS NOT NULL")

    def paths(self) -> list[str]:
        return [row[0] for row in self.db.rows("SELECT path FROM file WHERE entry IS NOT NULL")]

    def tracked(self, paths: Iterable[str]) -> dict[str, Tracked]:
        return {row[0]: _tracked(row) for row in self.db.rows_in(f"{_FILE} WHERE path IN carray(?1)", paths)}

    def under(self, folder: str) -> dict[str, Tracked]:
        """Everything tracked at or below a folder, or matched by a pattern; "" is all."""
        if (inside := scope(folder)) is not folder:
            return {path: row for path, row in self.under(inside).items() if matches(path, (folder,))}
        if folder:
            rows = self.db.rows(f"{_FILE} WHERE path = ?1 OR (path >= ?1 || '/' AND path < ?1 || '0')", (folder,))
        else:
            rows = self.db.rows(_FILE)
        return {row[0]: _tracked(row) for row in rows}

    def staged(self) -> dict[str, Tracked]:
        return {row[0]: _tracked(row) for row in self.db.rows(f"{_FILE} WHERE staged = 1")}

    def staged_changes(self) -> tuple[Change, ...]:
        rows = sorted(self.staged().values(), key=lambda row: row.path)
        return tuple(Change(FILES + row.path, row.old, row.entry) for row in rows)

    def put(self, rows: Iterable[Tracked]) -> None:
        """Write rows; one that is neither there nor staged is forgotten."""
        with self.db.write():
            given = list(rows)
            keep = [row for row in given if row.entry is not None or row.staged]
            drop = [row for row in given if row.entry is None and not row.staged]
            self.db.run_many("INSERT OR REPLACE INTO file VALUES(?, ?, ?, ?, ?, ?, ?, ?)", map(_row, keep))
            self.db.run_in("DELETE FROM file WHERE path IN carray(?1)", [row.path for row in drop])

    def set_stats(self, stats: Mapping[str, tuple[bytes | None, bool]]) -> None:
        with self.db.write():
            rows = [(stat, racy, path) for path, (stat, racy) in stats.items()]
            self.db.run_many("UPDATE file SET stat = ?, racy = ? WHERE path = ?", rows)

    def committed(self, base: str, staged: Iterable[Tracked]) -> None:
        """The content of these rows of the stage is now what base has."""
        with self.db.write():
            self.put(row._replace(staged=False, old=None, about=None) for row in staged)
            self.set_state(base=base)

    # -- a waiting merge ----------------------------------------------------------------------

    def conflicts(self) -> tuple[Conflict, ...]:
        rows = self.db.rows("SELECT path, base, ours, theirs, choice, chosen, mark FROM conflict ORDER BY path")
        return tuple(
            Conflict(path, maybe_entry(base), maybe_entry(ours), maybe_entry(theirs), choice, maybe_entry(chosen))
            for path, base, ours, theirs, choice, chosen in (_sound(row[0], row[:6], row[6]) for row in rows)
        )

    def put_conflicts(self, conflicts: Iterable[Conflict]) -> None:
        with self.db.write():
            rows = [
                (
                    c.path,
                    maybe_bytes(c.base),
                    maybe_bytes(c.ours),
                    maybe_bytes(c.theirs),
                    c.choice,
                    maybe_bytes(c.chosen),
                )
                for c in conflicts
            ]
            sql = "INSERT OR REPLACE INTO conflict VALUES(?, ?, ?, ?, ?, ?, ?)"
            self.db.run_many(sql, [(*row, mark(*row)) for row in rows])

    def clear_doing(self) -> None:
        with self.db.write():
            self.db.run("DELETE FROM conflict")
            self.set_state(doing=None)


def pack_stat(found: os.stat_result) -> bytes:
    return _STAT.pack(found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino, found.st_mode)


def is_racy(found: os.stat_result, clock_ns: int) -> bool:
    """Whether a file read just now could still change without its stat changing (git's racy-clean rule)."""
    slack = _COARSE if found.st_mtime_ns % 1_000_000_000 == 0 else _FINE
    return max(found.st_mtime_ns, found.st_ctime_ns) > clock_ns - slack


def mode_of(found: os.stat_result) -> int:
    return 1 if modes.S_ISREG(found.st_mode) and found.st_mode & 0o100 else 0


def mark(*values: object) -> int:
    """The checksum of a row: one bit that flipped in it shows."""
    return zlib.crc32(repr(values).encode())


def _sound(what: object, values: Row, found: object) -> Row:
    if mark(*values) != found:
        raise Corrupt(
            f"local.db is damaged: what it says of {what!r} is not what was written. Nothing was changed.",
            hint="See what else is with memlake fsck. With .memlake/local.db moved away, HEAD and what is tracked are "
            "found again; the stage and undo are not.",
        )
    return values


def _tracked(row: Row) -> Tracked:
    path, entry, stat, racy, staged, old, about, found = row
    _sound(path, (path, entry, staged, old, about), found)
    return Tracked(path, maybe_entry(entry), stat, bool(racy), bool(staged), maybe_entry(old), about)


def _row(row: Tracked) -> tuple[Any, ...]:
    entry, old, staged = maybe_bytes(row.entry), maybe_bytes(row.old), int(row.staged)
    # Without the stat: a cache, which is set apart and where any doubt is settled by reading the file.
    said = mark(row.path, entry, staged, old, row.about)
    return (row.path, entry, row.stat, int(row.racy), staged, old, row.about, said)
