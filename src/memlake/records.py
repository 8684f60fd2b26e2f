"""Frozen records that cross layers. Plain data: no I/O, no store, no formatting for a door.

An oid is the SHA-256 of content as 64 hex characters, a str everywhere above the database.
A time is whole microseconds since 1970 UTC.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timezone
from types import MappingProxyType
from typing import Any, Literal

from memlake.named_tuple import NamedTuple

Lane = Literal["work", "memory"]


def count(number: int, noun: str, many: str = "") -> str:
    """`1 file`, `3 files`."""
    return f"{number:,} {noun if number == 1 else many or noun + 's'}"


def short(oid: str | None) -> str:
    """The first ten characters of an oid, as people see it."""
    return oid[:10] if oid else "-"


def when(time: int) -> datetime:
    """A record's time as a datetime in the local zone."""
    return datetime.fromtimestamp(time / 1e6, timezone.utc).astimezone()


def iso(time: int) -> str:
    """A record's time for machines: ISO 8601 in UTC."""
    return datetime.fromtimestamp(time / 1e6, timezone.utc).isoformat(timespec="microseconds").replace("+00:00", "Z")


class Entry(NamedTuple):
    """What a path holds: the object, what kind of thing it is, its size, its mode (1 = executable)."""

    oid: str
    kind: str = "file"
    size: int = 0
    mode: int = 0

    def __repr__(self) -> str:
        return f"Entry({self.kind} {short(self.oid)}, {self.size} B{', executable' if self.mode else ''})"


class Change(NamedTuple):
    """One path that differs: `old` is None when added, `new` is None when removed."""

    path: str
    old: Entry | None
    new: Entry | None

    @property
    def status(self) -> str:
        """A added, D deleted, M modified, T another kind of thing."""
        if self.old is None:
            return "A"
        if self.new is None:
            return "D"
        return "M" if self.old.kind == self.new.kind else "T"

    def __repr__(self) -> str:
        return f"Change({self.status} {self.path})"


class Conflict(NamedTuple):
    """One path changed differently on both sides since `base`; `choice` is what was chosen, if anything.

    `choice` is "ours", "theirs", "both" (of a memory) or "file" (what `add` or `rm` staged for it, in `chosen`).
    `written` is what was put into the working file: of two texts both, with markers. None where it stayed as it was.
    `places` are the sides chosen for single places inside a file.
    """

    path: str
    base: Entry | None
    ours: Entry | None
    theirs: Entry | None
    choice: str | None = None
    chosen: Entry | None = None
    written: Entry | None = None
    places: Mapping[str, str] = MappingProxyType({})

    @property
    def status(self) -> str:
        """git's two letters, ours first: UU both modified, AA both added, UD deleted by them, UA added by them."""
        if self.base is None:
            return "AA" if self.ours and self.theirs else "AU" if self.ours else "UA"
        if self.ours is None:
            return "DU" if self.theirs else "DD"
        return "UU" if self.theirs else "UD"


class InnerConflict(NamedTuple):
    """A place inside a file that both sides changed differently; None stands for what a side does not have.

    `place` names it and is unique in its file: `model.lr`, `cell 3`, `id=17: price`. `where` says by which names and
    values people may pick it: `{"id": 17, "column": "price"}`, `{"cell": 3}`. Where the sides are only described,
    `exact` is a hash of what they are.
    """

    place: str
    base: Any
    ours: Any
    theirs: Any
    where: Mapping[str, Any] = MappingProxyType({})
    exact: str = ""


class MergeHow(NamedTuple):
    """How to settle places inside a file that both sides changed: one by one, or all that are left by a strategy.

    A side is "ours", "theirs", "union" (both, where that has a meaning), "latest", or of vectors "mean". Which side is
    the latest is said by whoever knows commits.
    """

    key: tuple[str, ...] = ()  # the columns that tell rows apart; none: they are looked for
    choices: Mapping[str, str] = MappingProxyType({})  # place -> side
    strategy: str = ""  # for all places without a choice
    latest: str = ""  # the side that "latest" means, "ours" or "theirs"; none: nobody can say
    by_lines: bool = False  # as text, whatever the type of the file

    def find_side(self, place: str) -> str:
        """What is chosen for a place: "ours", "theirs", "union", "mean", or "" while it is open."""
        side = self.choices.get(place, self.strategy)
        return self.latest if side == "latest" else side


class Author(NamedTuple):
    name: str
    email: str = ""

    def __str__(self) -> str:
        return f"{self.name} <{self.email}>" if self.email else self.name


class Commit(NamedTuple):
    """One point of a lane: a whole state (`root`), where it came from, and what it changed.

    `changes` is None if the list is long; then it is the object that `meta` names "changes", and
    `repo.show(commit).changes` reads it. `meta` maps names ("about", "changes", "metrics", "params", "runs", "uses")
    to oids.
    """

    oid: str
    lane: Lane
    root: str
    parents: tuple[str, ...]
    other: str | None
    author: Author
    time: int
    message: str
    changes: tuple[Change, ...] | None
    meta: Mapping[str, str] = MappingProxyType({})
    generation: int = 1
    seq: int = 0

    @property
    def subject(self) -> str:
        return self.message.split("\n", 1)[0]

    def __repr__(self) -> str:
        made = f"{self.author.name}, {when(self.time):%Y-%m-%d %H:%M}"
        return f"Commit({short(self.oid)} {self.lane} {self.subject!r}, {made})"


class Branch(NamedTuple):
    name: str
    work: str | None
    memory: str | None
    current: bool = False

    def __repr__(self) -> str:
        return f"Branch({'*' if self.current else ''}{self.name} {short(self.work)})"


class Tag(NamedTuple):
    name: str
    work: str | None
    memory: str | None
    message: str = ""
    author: Author | None = None
    time: int = 0

    def __repr__(self) -> str:
        return f"Tag({self.name} {short(self.work)})"


class Move(NamedTuple):
    """One line of a reflog: a ref moved from `old` to `new`."""

    ref: str
    lane: Lane
    number: int
    old: str | None
    new: str | None
    time: int
    action: str
    who: str

    def __repr__(self) -> str:
        return f"Move({self.ref}@{{{self.number}}} {short(self.old)} -> {short(self.new)}: {self.action})"


class Staged(NamedTuple):
    """What one `add`, `rm` or `mv` did to the stage."""

    changes: tuple[Change, ...]
    warnings: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return (
            f"Staged({len(self.changes)} paths{', ' + str(len(self.warnings)) + ' warnings' if self.warnings else ''})"
        )


class Status(NamedTuple):
    """How the stage differs from HEAD and the working files from the stage."""

    branch: str | None
    head: str | None
    staged: tuple[Change, ...]
    unstaged: tuple[Change, ...]
    untracked: tuple[str, ...]
    conflicts: tuple[Conflict, ...] = ()
    doing: str | None = None
    behind: int = 0
    ignored: tuple[str, ...] = ()
    merged: int = 0  # paths that what waits takes over without a choice
    purged: tuple[str, ...] = ()  # tracked files that cannot be here, because their content was purged
    step: str = ""  # where a rebase waits
    bisecting: bool = False
    away: int = 0  # tracked files that are not here, because their content is at a remote only

    @property
    def clean(self) -> bool:
        return not (self.staged or self.unstaged or self.untracked or self.conflicts)

    def __repr__(self) -> str:
        where = self.branch or f"detached {short(self.head)}"
        return (
            f"Status({where}: {len(self.staged)} staged, {len(self.unstaged)} unstaged, "
            f"{len(self.untracked)} untracked, {len(self.conflicts)} conflicts)"
        )


class Merged(NamedTuple):
    """How a merge, revert, cherry-pick, rebase or stash apply ended. `conflicts`, if not empty, wait for choices.

    `changes` are those of the work lane; `remembered` counts those of the memory lane by room. `moved` names what came
    under another path than it has there: a dataset's version whose number was taken; `yielded` names what of ours has
    another path now, because the one it had is known from a push. `name` is what it came from.
    `lost` are the paths of a stash that were left out because their content was purged. Of a rebase, `rewritten` maps
    each commit to what it became, and `dropped` are those that became nothing. `reasons` say why
    conflicts were decided by metrics, or could not be. `recalled` are the places, (path, place), settled as before.
    `notes` say what somebody should know of files that were joined.
    """

    commit: str | None
    fast_forward: bool = False
    up_to_date: bool = False
    changes: tuple[Change, ...] = ()
    conflicts: tuple[Conflict, ...] = ()
    remembered: Mapping[str, int] = MappingProxyType({})
    moved: Mapping[str, str] = MappingProxyType({})
    name: str = ""
    lost: tuple[str, ...] = ()
    rewritten: Mapping[str, str] = MappingProxyType({})
    dropped: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()
    recalled: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()
    yielded: Mapping[str, str] = MappingProxyType({})
