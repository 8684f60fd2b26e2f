"""This checkout's own state in local.db: HEAD, what is tracked, the stage, a waiting merge. Touches no working file."""

from __future__ import annotations

import contextlib
import json
import os
import stat as modes
import struct
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from memlake.errors import Corrupt, pasted
from memlake.named_tuple import NamedTuple
from memlake.objects.db import Database, Row
from memlake.objects.layout import now
from memlake.objects.locks import FileLock
from memlake.records import Change, Conflict, Entry
from memlake.versions.checkout.pending import Pending, decode
from memlake.versions.paths import FILES, file_path, find_unwritable, list_unwritable, matches, scope, unwritable
from memlake.versions.trees.codec import maybe_bytes, maybe_entry

MADE_AGAIN = "With .memlake/local.db moved away, HEAD and what is tracked are found again; the stage and undo are not."
KEPT = 200  # operations
_GROUP = 4000
MERGED = "merged"  # the choice of a waiting path on which the sides did not disagree
NOT_HERE = b""  # in place of a stat: the file was not written, because its content is at a remote only
_STAT = struct.Struct("<qqqQI")
_FILE = "SELECT path, entry, stat, racy, staged, old, about FROM file"
_PUT = """
INSERT INTO file(path, entry, stat, racy, staged, old, about) VALUES(?, ?, ?, ?, ?, ?, ?)
ON CONFLICT(path) DO UPDATE SET entry = excluded.entry, racy = excluded.racy, staged = excluded.staged,
  stat = coalesce(excluded.stat, iif(stat = x'', stat, NULL)), old = excluded.old, about = excluded.about"""
_HEAD_MOVES = """
SELECT nullif(lower(hex(coalesce(old, (SELECT new FROM headlog WHERE id < h.id ORDER BY id DESC LIMIT 1)))), ''),
  nullif(lower(hex(new)), ''), branch, time, action, who FROM headlog AS h ORDER BY id DESC"""
_FINE, _COARSE = 20_000_000, 2_000_000_000  # ns within which a second change may leave the same mtime


def advise_set_aside(folder: str | Path) -> str:
    """The cure for a damaged local.db in this .memlake folder: without it, the repo makes a new one."""
    at = pasted(folder)
    return (
        f"Set it aside with: mkdir -p {at}/aside && mv {at}/local.db* {at}/aside\n"
        "HEAD and what is tracked are found again. Only the stage and the list for undo are lost."
    )


class Tracked(NamedTuple):
    """One row of what is tracked; `path` is without `files/`."""

    path: str
    entry: Entry | None
    stat: bytes | None = None
    racy: bool = False
    staged: bool = False
    old: Entry | None = None
    about: str | None = None


class Local:
    def __init__(self, db: Database, root: str, assumed: Mapping[str | None, str] | None = None) -> None:
        """`assumed` maps a HEAD that names nothing to what to take it for while it cannot be mended (a full disk)."""
        self.db, self.root, self._assumed = db, root, assumed or {}
        db.cure = advise_set_aside(db.path.parent)
        self._verb = FileLock(db.path.with_name("checkout.lock"), self._tell_waiting)

    @property
    def databases(self) -> tuple[Database, ...]:
        return (self.db,)

    def verb(self, patience: float | None = None) -> contextlib.AbstractContextManager[None]:
        """Held by a verb that changes the stage or the files, so that two of them in one checkout take turns."""
        return self._verb.held(patience)

    def ref_verb(self) -> contextlib.AbstractContextManager[None]:
        """Held by a verb that only moves refs, which a bare repo can do, too. It may have to move HEAD along."""
        return self.verb()

    def note_verb(self, text: str) -> None:
        """Tell those who wait which verb is under way."""
        self._verb.note(text[:100])

    def holder(self) -> str | None:
        """Another process at work in this checkout, as `process 12 (switch main)`; None if there is none."""
        note = self._verb.holder()
        if note is None:
            return None
        pid, _, verb = note.partition(" ")
        return f"process {pid or '?'}" + (f" ({verb})" if verb else "")

    def _tell_waiting(self) -> None:
        if holder := self.holder():
            sys.stderr.write(f"memlake: waiting for {holder}\n")

    # -- HEAD ---------------------------------------------------------------------------------

    @property
    def is_new(self) -> bool:
        """Whether nothing was ever written, because local.db was made just now, or lost and made again."""
        return self.db.row("SELECT 1 FROM state") is None

    def state(self, key: str) -> str | None:
        row = self.db.row("SELECT value FROM state WHERE key = ?", (key,))
        if row is not None and not isinstance(row[0], str | None):
            raise Corrupt(
                f"{self.db.path} has {row[0]!r:.100} as {key!r}, which memlake does not write. Nothing was changed.",
                hint=advise_set_aside(self.db.path.parent),
            )
        return None if row is None else row[0]

    def check(self) -> None:
        """Raise if a row is not what memlake writes; for fsck, which checks the other tables by their meaning."""
        self.db.rows("SELECT key, value FROM state")
        self.under("")
        self.conflicts()
        self.find_pending()
        self.read_answers()

    def set_state(self, **values: str | None) -> None:
        with self.db.write():
            for key, value in values.items():
                if value is None:
                    self.db.run("DELETE FROM state WHERE key = ?", (key,))
                else:
                    self.db.run("INSERT OR REPLACE INTO state VALUES(?, ?)", (key, value))

    def json_state(self, key: str) -> Any:
        text = self.state(key)
        with as_written(key):
            return None if text is None else json.loads(text)

    def find_pending(self) -> Pending | None:
        """What waits for choices: a merge, revert, cherry-pick or stash."""
        text = self.state("doing")
        with as_written("doing"):
            return None if text is None else decode(text)

    @property
    def branch(self) -> str | None:
        """The branch HEAD names, None when detached."""
        head = self._head()
        return None if head.startswith("@") else head

    @property
    def checked_out(self) -> str | None:
        """The branch whose files are in the working folder."""
        return self.branch

    @property
    def detached(self) -> str | None:
        """The commit HEAD names directly, None when on a branch."""
        head = self._head()
        return head[1:] if head.startswith("@") else None

    def _head(self) -> str:
        head = self.state("head")
        head = self._assumed.get(head, head)
        if head is None:
            raise Corrupt("local.db does not say where HEAD is.", hint="See where it can be with: memlake branch")
        return head

    @property
    def base(self) -> str | None:
        """The commit that tracked files without the stage reflect."""
        return self.state("base")

    def log_head(self, old: str | None, new: str | None, branch: str | None, action: str, who: str) -> None:
        before, after = (bytes.fromhex(oid or "") for oid in (old, new))
        with self.db.write():
            last = self.db.row("SELECT new FROM headlog ORDER BY id DESC LIMIT 1")
            sql = "INSERT INTO headlog(old, new, branch, time, action, who) VALUES(?, ?, ?, ?, ?, ?)"
            self.db.run(sql, (None if last == (before,) else before, after, branch, now(), action, who))

    def head_moves(self) -> Iterator[tuple[str | None, str | None, str | None, int, str, str]]:
        """Moves of HEAD, newest first, as (old, new, branch, time, action, who)."""
        yield from self.db.each(_HEAD_MOVES)

    # -- tracked files ------------------------------------------------------------------------

    def stats(self) -> dict[str, bytes | None]:
        """The stat of everything tracked and not removed, in order of paths; None for a file that must be read.

        Hot: `status` needs the other columns only for files that changed, and reads those rows then.
        """
        rows = self.db.rows(
            "SELECT path, iif(racy AND stat != x'', NULL, stat) FROM file WHERE entry IS NOT NULL ORDER BY path"
        )
        _check_paths(row[0] for row in rows)
        return dict(rows)

    def paths(self) -> list[str]:
        return list(self.stats())

    def count_away(self) -> int:
        """How many files are not in the working folder, because their content is at a remote only."""
        row = self.db.row("SELECT count(*) FROM file WHERE stat = x'' AND entry IS NOT NULL")
        return row[0] if row else 0

    def find_tracked(self, paths: Iterable[str]) -> dict[str, Tracked]:
        """The rows of those of these paths that are tracked."""
        return _decode_rows(self.db.rows_in(f"{_FILE} WHERE path IN carray(?1)", paths))

    def find_unchanged(self, stats: Mapping[str, os.stat_result]) -> dict[str, str]:
        """The oids of those of these files that are tracked and hold what they held when they were read."""
        rows = self.find_tracked(path for path in stats if not unwritable(path)) if stats else {}
        return {
            path: row.entry.oid
            for path, row in rows.items()
            if row.entry is not None and not row.racy and row.stat == pack_stat(stats[path])
        }

    def under(self, folder: str) -> dict[str, Tracked]:
        """Everything tracked at or below a folder, or matched by a pattern; "" is all."""
        if (inside := scope(folder)) is not folder:
            return {path: row for path, row in self.under(inside).items() if matches(path, (folder,))}
        if folder:
            rows = self.db.rows(f"{_FILE} WHERE path = ?1 OR (path >= ?1 || '/' AND path < ?1 || '0')", (folder,))
        else:
            rows = self.db.rows(_FILE)
        return _decode_rows(rows)

    def list_staged(self) -> dict[str, Tracked]:
        return _decode_rows(self.db.rows(f"{_FILE} WHERE staged = 1"))

    def staged_changes(self) -> tuple[Change, ...]:
        rows = sorted(self.list_staged().values(), key=lambda row: row.path)
        return tuple(Change(FILES + row.path, row.old, row.entry) for row in rows)

    def put(self, rows: Iterable[Tracked]) -> None:
        """Write rows, and forget those that hold nothing and are not staged.

        The mark of a file that is not here stays until a stat takes its place: other content of it is not here either.
        """
        rest = iter(rows)
        with self.db.write():
            while group := list(islice(rest, _GROUP)):
                # A path of history at which no file may be written here is not tracked either.
                unwritable = list_unwritable(row.path for row in group)
                group = [row for row in group if row.path not in unwritable]
                keep = [
                    (r.path, maybe_bytes(r.entry), r.stat, int(r.racy), int(r.staged), maybe_bytes(r.old), r.about)
                    for r in group
                    if r.entry is not None or r.staged
                ]
                self.db.run_many(_PUT, keep)
                drop = [r.path for r in group if r.entry is None and not r.staged]
                self.db.run_in("DELETE FROM file WHERE path IN carray(?1)", drop)

    def unstage(self, rows: Iterable[Tracked]) -> tuple[Change, ...]:
        """Put the stage of some rows back to what base has; working files are not touched."""
        staged = [row for row in rows if row.staged]
        # The stat belonged to the staged content, not to the old, so the next status must read the file.
        self.put(Tracked(row.path, row.old, None, True) for row in staged)
        return tuple(Change(FILES + row.path, row.entry, row.old) for row in staged)

    def set_stats(self, stats: Mapping[str, tuple[bytes | None, bool]]) -> None:
        with self.db.write():
            rows = [(stat, racy, path) for path, (stat, racy) in stats.items()]
            self.db.run_many("UPDATE file SET stat = ?, racy = ? WHERE path = ?", rows)

    def mark_committed(self, base: str, staged: Iterable[Tracked]) -> None:
        """Note that these rows of the stage are committed, so that base has their content now."""
        with self.db.write():
            self.put(row._replace(staged=False, old=None, about=None) for row in staged)
            self.set_state(base=base)

    # -- a waiting merge ----------------------------------------------------------------------

    def conflicts(self) -> tuple[Conflict, ...]:
        """The waiting paths that both sides changed, with the choices made."""
        return tuple(conflict for conflict in self.list_waiting() if conflict.choice != MERGED)

    def list_waiting(self) -> tuple[Conflict, ...]:
        """Every waiting path. If one is MERGED, `ours` is what was tracked and `chosen` what it became."""
        rows = self.db.rows("SELECT path, base, ours, theirs, choice, chosen, written FROM conflict ORDER BY path")
        _check_paths(file_path(row[0]) for row in rows if row[0].startswith(FILES))
        conflicts, places = [], self._read_places() if rows else {}
        for path, *sides, choice, chosen, written in rows:
            base, ours, theirs = map(maybe_entry, sides)
            chosen, written = maybe_entry(chosen), maybe_entry(written)
            conflicts.append(Conflict(path, base, ours, theirs, choice, chosen, written, places.get(path, {})))
        return tuple(conflicts)

    def _read_places(self) -> dict[str, dict[str, str]]:
        """The sides chosen for single places, by path."""
        places = self.json_state("places") or {}
        with as_written("places"):
            return {path: {str(place): str(side) for place, side in sides.items()} for path, sides in places.items()}

    def put_conflicts(self, conflicts: Iterable[Conflict]) -> None:
        conflicts = list(conflicts)
        if not conflicts:
            return
        with self.db.write():
            rows, places = [], self._read_places()
            chosen_now = places | {c.path: dict(c.places) for c in conflicts}
            if any(chosen_now.values()) or places:
                self.set_state(places=json.dumps({path: sides for path, sides in chosen_now.items() if sides}))
            for c in conflicts:
                base, ours, theirs, chosen, written = map(maybe_bytes, (c.base, c.ours, c.theirs, c.chosen, c.written))
                rows.append((c.path, base, ours, theirs, c.choice, chosen, written))
            self.db.run_many("INSERT OR REPLACE INTO conflict VALUES(?, ?, ?, ?, ?, ?, ?)", rows)

    def clear_doing(self) -> None:
        with self.db.write():
            self.db.run("DELETE FROM conflict")
            self.set_state(doing=None, places=None)

    def read_answers(self) -> list[list[str]]:
        """How conflicts were settled before, oldest first: [a hash of the conflict, a hash of its path, the side]."""
        answers = self.json_state("answers") or []
        with as_written("answers"):
            return [[str(part) for part in (key, path, side)] for key, path, side in answers]

    def write_answers(self, answers: Sequence[Sequence[str]]) -> None:
        self.set_state(answers=json.dumps(answers) if answers else None)

    # -- operations, and what was read ----------------------------------------------------------

    def write_operation(self, values: tuple[str, str, bytes], id: int | None = None) -> int:
        """Keep a verb, its detail and the state before it; only the last KEPT of them stay."""
        with self.db.write():
            sql = "INSERT OR REPLACE INTO operation(id, time, verb, detail, before) VALUES(?, ?, ?, ?, ?)"
            self.db.run(sql, (id, now(), *values))
            if id is None:
                id = self.db.last_id()
                self.db.run("DELETE FROM operation WHERE id <= ?", (id - KEPT,))
        return id

    def list_operations(self, limit: int = -1, *, undone: bool = True) -> list[Row]:
        """(id, verb, detail, time, undone, before), newest first; without `undone` those that were not taken back."""
        sql = "SELECT id, verb, detail, time, undone, before FROM operation WHERE undone <= ? ORDER BY id DESC LIMIT ?"
        return self.db.rows(sql, (undone, limit))

    def forget_content(self, oids: set[str]) -> None:
        """Neither the stage nor an undo may bring purged objects back."""
        with self.db.write():
            self.unstage([r for r in self.list_staged().values() if r.entry is not None and r.entry.oid in oids])
            self.db.run("DELETE FROM operation")
            self.set_state(answers=None)
        self.db.checkpoint()

    def add_reads(self, rows: Sequence[tuple[Any, ...]]) -> None:
        """Add to the counters of memories that were read: (key, times, last time)."""
        sql = (
            "INSERT INTO access VALUES(?, ?, ?) ON CONFLICT(key) DO UPDATE SET "
            "count = count + excluded.count, last = max(last, excluded.last)"
        )
        with self.db.write():
            self.db.run_many(sql, rows)

    def read_counts(self, keys: Iterable[bytes]) -> list[Row]:
        return self.db.rows_in("SELECT key, count, last FROM access WHERE key IN carray(?1)", keys)

    def forget_reads(self, keys: Iterable[bytes]) -> None:
        with self.db.write():
            self.db.run_in("DELETE FROM access WHERE key IN carray(?1)", keys)


def pack_stat(stat: os.stat_result) -> bytes:
    return _STAT.pack(stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino, stat.st_mode)


def unpack_size_and_time(stat: bytes | None) -> tuple[int, int] | None:
    """The size and the mtime in ns that a stat of a row has."""
    return _STAT.unpack(stat)[:2] if stat else None


def is_racy(stat: os.stat_result, clock_ns: int) -> bool:
    """Whether a file read just now could still change without its stat changing (git's racy-clean rule)."""
    return _is_racy(stat.st_mtime_ns, stat.st_ctime_ns, clock_ns)


def is_packed_racy(stat: bytes, clock_ns: int) -> bool:
    """As `is_racy`, of a stat that was packed."""
    _, mtime, ctime, _, _ = _STAT.unpack(stat)
    return _is_racy(mtime, ctime, clock_ns)


def _is_racy(mtime: int, ctime: int, clock_ns: int) -> bool:
    slack = _COARSE if mtime % 1_000_000_000 == 0 else _FINE
    return max(mtime, ctime) > clock_ns - slack


def mode_of(stat: os.stat_result) -> int:
    return 1 if modes.S_ISREG(stat.st_mode) and stat.st_mode & 0o100 else 0


@contextlib.contextmanager
def as_written(what: str) -> Iterator[None]:
    """Turn errors in reading JSON that a verb left into Corrupt, because somebody else may have written it."""
    try:
        yield
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise Corrupt(
            f"what local.db holds as {what!r} is not what memlake writes: {error}. Nothing was changed.",
            hint=advise_set_aside(".memlake"),
        ) from error


def _check_paths(paths: Iterable[str]) -> None:
    """Refuse a path that leads out of the working folder. memlake writes none, but somebody else may have."""
    try:
        path = find_unwritable(paths)
    except TypeError as error:  # a flipped bit can make SQLite hand out any type
        raise Corrupt("local.db is damaged: a path is not text.", hint=advise_set_aside(".memlake")) from error
    if path is not None:
        raise Corrupt(
            f"local.db names {path!r}, which cannot be a working file: {unwritable(path)}. Nothing was changed.",
            hint=MADE_AGAIN,
        )


def _decode_rows(rows: Sequence[Row]) -> dict[str, Tracked]:
    _check_paths(row[0] for row in rows)
    return {
        path: Tracked(path, maybe_entry(entry), stat, bool(racy), bool(staged), maybe_entry(old), about)
        for path, entry, stat, racy, staged, old, about in rows
    }
