"""Anchors: what a memory rests on and how that was when it was said. Records and their shapes. Pure.

A file is named by its path below the folder of its project, so that an anchor holds in every clone and worktree.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, BinaryIO

from memlake.named_tuple import NamedTuple
from memlake.versions.paths import file_problem
from memlake.versions.text.spans import Lines, Span

FILE, TENSOR, DATASET, MEMORY, COMMIT = KINDS = ("file", "tensor", "dataset", "memory", "commit")
MOST = 64  # of a memory
FRESH, MOVED, CHANGED, GONE, UNKNOWN = STANDINGS = ("fresh", "moved", "changed", "gone", "unknown")
IN_DOUBT = (CHANGED, GONE)
_ORDER = (GONE, CHANGED, UNKNOWN, MOVED, FRESH)  # which one says what a memory with several anchors is
_SHORT = 6  # characters of the end of a memory's id that may stand for it
_GIT = 40  # digits of an object id of git; ours have 64


class Anchor(NamedTuple):
    """One thing that a memory rests on: its kind and path, its object id, and of a passage its lines and its hash.

    The id is ours, or git's where git alone tracks a file. `settled` (of a memory): it was in doubt, and what rests on
    it was found true all the same; that holds until it says something else.
    """

    kind: str
    path: str = ""
    oid: str = ""
    size: int = 0
    lines: Lines | None = None
    part: str = ""  # of a file of tensors
    span: Span | None = None
    settled: bool = False
    sketch: str = ""  # a few lines of the file, by which it is known again under another name

    @property
    def is_of_git(self) -> bool:
        return len(self.oid) == _GIT

    @property
    def name(self) -> str:
        """The anchor as a user types it."""
        if self.kind == DATASET:
            return "@".join(self.path.partition("/")[2].rsplit("/", 1))
        if self.kind == MEMORY:
            return self.path.rpartition("/")[2]
        if self.kind == COMMIT:
            return self.oid[:12]
        first, last = self.lines or (0, 0)
        lines = f":{first}" if first == last else f":{first}-{last}"
        return f"{self.path}{lines if self.lines else ''}{f'#{self.part}' if self.part else ''}"

    @property
    def key(self) -> tuple[str, str, str, Lines | None]:
        """What it is of, whatever that looks like."""
        return self.kind, self.path or self.oid, self.part, self.lines


class Standing(NamedTuple):
    """What became of something that a memory rests on: a word, the anchor, and where that is now or why it is so."""

    word: str
    anchor: Anchor
    now: str = ""
    why: str = ""
    inherited: bool = False  # it is as it was, and in doubt itself
    path: str = ""  # of the file that it is in now

    @property
    def sentence(self) -> str:
        name = f"memory {self.anchor.name[-_SHORT:]}" if self.anchor.kind == MEMORY else self.anchor.name
        return f"{name} {self.why or self._describe()}"

    def _describe(self) -> str:
        return {MOVED: f"is now {self.now}", CHANGED: "changed"}.get(self.word, f"is {self.word}")


class Formats(NamedTuple):
    """What other rooms know of contents: the hash of a part of a file of tensors, and which rows a version holds.

    `digest_part(path, size, open, part)` is None for a file that cannot be read so, empty where it has no such part;
    `read_rows(record)` is the identity of the rows, empty for a version that was deleted.
    """

    digest_part: Callable[[str, int, Callable[[], BinaryIO], str], str | None] = lambda *_: None
    read_rows: Callable[[bytes], str] = lambda _: ""


NO_FORMATS = Formats()


def choose_word(standings: Iterable[Standing]) -> str:
    """What a memory with these anchors is; empty for one that names nothing it rests on."""
    words = {one.word for one in standings}
    return next((word for word in _ORDER if word in words), "")


def join_anchors(old: Sequence[Anchor], new: Sequence[Anchor]) -> tuple[Anchor, ...]:
    """Both, the newer one where they are of the same thing."""
    return tuple({anchor.key: anchor for anchor in (*old, *new)}.values())[:MOST]


def encode_anchors(anchors: Sequence[Anchor]) -> list[dict[str, Any]]:
    """As a record has them: without what is empty."""
    return [
        {name: list(value) if isinstance(value, tuple) else value for name, value in anchor._asdict().items() if value}
        for anchor in anchors
    ]


def decode_anchors(shapes: Sequence[Mapping[str, Any]]) -> tuple[Anchor, ...]:
    """ValueError, TypeError or KeyError for what is not an anchor: a record may come from a stranger."""
    return tuple(_decode_anchor(dict(shape)) for shape in shapes)


def _decode_anchor(shape: dict[str, Any]) -> Anchor:
    lines, span = shape.pop("lines", None), shape.pop("span", None)
    anchor = Anchor(**shape)
    first, last = lines or (1, 1)
    int(anchor.sketch or "0", 16)
    texts = (anchor.path, anchor.oid, anchor.part, anchor.sketch)
    is_plain = anchor.kind in KINDS and all(isinstance(text, str) for text in texts) and isinstance(anchor.size, int)
    if not is_plain or not isinstance(first, int) or not isinstance(last, int) or not 1 <= first <= last:
        raise ValueError(f"{shape!r} is not an anchor")
    if anchor.kind in (FILE, TENSOR) and (problem := file_problem(anchor.path)):
        raise ValueError(f"an anchor at {anchor.path!r}: {problem}")
    return anchor._replace(lines=(first, last) if lines else None, span=Span(*span) if span else None)
