"""Frozen records of what a verb found or did: plain data, apart from records.py so that quick verbs load faster."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from memlake.records import Change, Commit, Conflict


@dataclass(frozen=True, slots=True)
class About:
    """What `add` noted of a file beside its content. `schema` is a tuple of (column, type)."""

    media: str
    size: int
    time: int
    creator: str
    schema: tuple[tuple[str, str], ...] = ()
    rows: int | None = None


@dataclass(frozen=True, slots=True)
class Merged:
    """How a merge, revert or cherry-pick ended. `conflicts` not empty means it is waiting for choices."""

    commit: str | None
    fast_forward: bool = False
    up_to_date: bool = False
    changes: tuple[Change, ...] = ()
    conflicts: tuple[Conflict, ...] = ()


@dataclass(frozen=True, slots=True)
class BlameLine:
    """One line (or, for what is not text, the whole path as line 0) and the commit that wrote it."""

    line: int
    text: str
    commit: Commit


@dataclass(frozen=True, slots=True)
class Stash:
    index: int
    oid: str
    message: str
    time: int


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing fsck found wrong. `kind` is damaged, missing, dangling, index, file or database."""

    kind: str
    oid: str
    path: str
    detail: str


@dataclass(frozen=True, slots=True)
class FsckReport:
    problems: tuple[Problem, ...]
    purged: tuple[str, ...]
    checked: Mapping[str, int]

    @property
    def ok(self) -> bool:
        return not self.problems


@dataclass(frozen=True, slots=True)
class GcReport:
    """What gc removed (or would remove): rows and bytes by what they were."""

    dry_run: bool
    condemned: int
    revived: int
    objects: int
    nodes: int
    commits: int
    packs: int
    files: int
    bytes: int


@dataclass(frozen=True, slots=True)
class PurgeReport:
    purged: tuple[str, ...]
    bytes: int
    packs_rewritten: int
    paths: tuple[str, ...]
    seq: int
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Operation:
    """One verb done in this checkout, as `undo` sees it."""

    id: int
    verb: str
    detail: str
    time: int
    undone: bool = False


@dataclass(frozen=True, slots=True)
class Check:
    """One thing doctor looked at; `cure` is what to do when it is not ok."""

    name: str
    ok: bool
    detail: str
    cure: str = ""


@dataclass(frozen=True, slots=True)
class Usage:
    """What costs what, in bytes: by room of the repo, and the largest paths of HEAD."""

    rooms: Mapping[str, int]
    total: int
    logical: int
    largest: tuple[tuple[str, int], ...]
    details: Mapping[str, Any] = field(default_factory=dict)
