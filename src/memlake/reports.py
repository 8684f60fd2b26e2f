"""Frozen records of what a verb found or did: plain data, apart from records.py so that quick verbs load faster."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from memlake.named_tuple import NamedTuple
from memlake.records import Author, Change, Commit, Entry


class About(NamedTuple):
    """What `add` noted of a file beside its content. `schema` is a tuple of (column, type)."""

    media: str
    size: int
    time: int
    creator: str
    schema: tuple[tuple[str, str], ...] = ()
    rows: int | None = None


class BlameLine(NamedTuple):
    """One line (or, for what is not text, the whole path as line 0) and the commit that wrote it."""

    line: int
    text: str
    commit: Commit


class Match(NamedTuple):
    """One line that `grep` found; of a binary file only that it matches, as line 0."""

    path: str
    line: int
    text: str


class Described(NamedTuple):
    """A commit by the nearest tag before it, and how many commits lie between."""

    tag: str
    ahead: int
    commit: str


class Tested(NamedTuple):
    """A commit that a bisect looked at: good, bad or skip, and how that is known (recorded, run, said)."""

    commit: str
    verdict: str
    how: str


class Bisected(NamedTuple):
    """The first bad commit, or None where commits that could not be tested leave several suspects."""

    commit: str | None
    suspects: tuple[str, ...]
    tested: tuple[Tested, ...]
    runs: int


class Cleaned(NamedTuple):
    """What `clean` removed, or would remove: files that undo brings back, ignored ones that it does not, and what was
    left alone, with the reason."""

    removed: tuple[str, ...]
    ignored: tuple[str, ...] = ()
    left: Mapping[str, str] = MappingProxyType({})


class Stash(NamedTuple):
    number: int
    oid: str
    message: str
    time: int


class Place(NamedTuple):
    """One thing that a waiting merge needs a choice for: a path, or a place inside a file.

    `place` is "" for a path as a whole. Of a file that is decided as a whole the sides are its entries, of a memory or
    state value what they say, of a place the values there; None stands for what a side does not have. `where` are the
    names and values a place is picked by. `choice` is the side that was chosen, "file" for what `add` staged.
    """

    path: str
    kind: str
    place: str
    base: Any
    ours: Any
    theirs: Any
    where: Mapping[str, Any] = MappingProxyType({})
    choice: str | None = None
    status: str = "UU"
    why: str = ""  # a file is decided as a whole, where its type says so


class Problem(NamedTuple):
    """One thing fsck found wrong. `kind` is damaged, missing, dangling, index, file or database."""

    kind: str
    oid: str
    path: str
    detail: str


class FsckReport(NamedTuple):
    problems: tuple[Problem, ...]
    purged: tuple[str, ...]
    checked: Mapping[str, int]

    @property
    def ok(self) -> bool:
        return not self.problems

    def blame_index(self, why: str) -> FsckReport:
        """This report, with a problem of the index beside the others."""
        return self._replace(problems=(*self.problems, Problem("index", "", "", why)))


class GcReport(NamedTuple):
    """What gc removed (or would remove): how many of each kind, and the bytes, in all and by kind in `freed`."""

    dry_run: bool
    condemned: int
    revived: int
    objects: int
    nodes: int
    commits: int
    packs: int
    files: int
    bytes: int
    freed: Mapping[str, int] = MappingProxyType({})
    names: tuple[str, ...] = ()  # of the packs, which new ones replace, and of the files
    deltas: int = 0  # older versions now stored as what differs from a newer one
    notes: tuple[str, ...] = ()


class Unnamed(NamedTuple):
    """An object that no commit names any more; `media` is guessed from its first bytes, "" when it cannot be read."""

    oid: str
    size: int
    media: str


class Rescued(NamedTuple):
    """What was made again from packs; `unnamed` objects have no commit any more, `lost` says what could not be."""

    packs: int
    objects: int
    commits: int
    refs: int
    unnamed: tuple[Unnamed, ...]
    lost: tuple[str, ...]


class PurgeReport(NamedTuple):
    purged: tuple[str, ...]
    bytes: int
    packs_rewritten: int
    paths: tuple[str, ...]
    seq: int
    notes: tuple[str, ...] = ()


class Operation(NamedTuple):
    """One verb done in this checkout, as `undo` sees it."""

    id: int
    verb: str
    detail: str
    time: int
    undone: bool = False


class Check(NamedTuple):
    """One thing doctor looked at; `cure` is what to do when it is not ok."""

    name: str
    ok: bool
    detail: str
    cure: str = ""


class Usage(NamedTuple):
    """What costs what, in bytes: by room of the repo, and the largest paths of HEAD."""

    rooms: Mapping[str, int]
    total: int
    logical: int
    largest: tuple[tuple[str, int], ...]
    details: Mapping[str, Any] = MappingProxyType({})


class Measurement(NamedTuple):
    """What a commit records, with flat names (`test.f1`); `deltas` are to what its line recorded before.

    `rev` is the name it was asked for by, where several are compared: then `deltas` are to the first of them, and the
    values may be those of an earlier commit of the line, `behind` commits ago.
    """

    commit: str
    rev: str
    time: int
    author: Author
    subject: str
    metrics: Mapping[str, Any] = MappingProxyType({})
    params: Mapping[str, Any] = MappingProxyType({})
    deltas: Mapping[str, float] = MappingProxyType({})
    behind: int = 0


class Promoted(NamedTuple):
    """What a promotion did: the commit on the target, and what it changed there; `back` is the one it took back."""

    commit: str
    source: str
    target: str
    changes: tuple[Change, ...]
    metrics: Mapping[str, Any] = MappingProxyType({})
    back: str = ""


class Other(NamedTuple):
    """What a branch has instead at a path: the commit that last changed it there, and what counts for it."""

    rev: str
    commit: str
    time: int
    subject: str
    metrics: Mapping[str, Any] = MappingProxyType({})


class Running(NamedTuple):
    """A path that was promoted to a branch, as it is there: since which commit, and what its source has instead.

    `source` is empty where another commit than a promotion changed it since.
    """

    branch: str
    path: str
    commit: str
    time: int
    author: Author
    subject: str
    source: str
    metrics: Mapping[str, Any] = MappingProxyType({})
    other: Other | None = None

    @property
    def has_newer(self) -> bool:
        return self.other is not None and self.other.time > self.time


class Measured(NamedTuple):
    """What was measured on both sides, and by how much each number differs."""

    old: Mapping[str, Any] = MappingProxyType({})
    new: Mapping[str, Any] = MappingProxyType({})
    deltas: Mapping[str, float] = MappingProxyType({})


class Touched(NamedTuple):
    """A thing that was made from what changed: which one from the old content, which one from the new."""

    kind: str  # checkpoint, dataset, prompt, file ...
    name: str
    old: str  # a commit or a version; empty if none is known
    new: str
    metrics: Measured


class PathSummary(NamedTuple):
    """A path that changed: what differs inside, what was measured of it, what rests on it, which memories name it."""

    status: str
    path: str
    old: Entry | None = None
    new: Entry | None = None
    inside: Any = None  # the Explanation of the change
    metrics: Measured = Measured()
    touches: tuple[Touched, ...] = ()
    memories: tuple[str, ...] = ()


class DiffSummary(NamedTuple):
    """A diff and what it touches. `metrics` are those recorded last on each side."""

    old: str  # the rev; empty for the stage or the working files
    new: str
    paths: tuple[PathSummary, ...]
    metrics: Measured


class Rebuilt(NamedTuple):
    """What came of making a thing again. `same` is None if it was not tried, and `missing` says what it would need.

    Else `why` it is not the same, and the `first` row that differs or what differs `inside` a file; `packages` are
    (name, version then, version now) of those that changed, `output` is what a program printed that failed.
    """

    of: str
    same: bool | None
    why: str = ""
    first: Mapping[str, Any] | None = None
    inside: Any = None
    packages: tuple[tuple[str, str, str], ...] = ()
    missing: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    output: str = ""
