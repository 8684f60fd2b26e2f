"""Kinds: what the things are that a path can hold. One record says all that verbs and views ask of a kind.

This layer knows files and links; the layers above define their own, each in its room, and `repo` hands them to History.
A record is light: its functions load what they need when they are called.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from memlake import versions
from memlake.named_tuple import NamedTuple
from memlake.records import Conflict, Entry, InnerConflict, Lane, MergeHow

if TYPE_CHECKING:
    from memlake.versions.history.commits import History
    from memlake.versions.history.merge_trees import Making, Outcome

    Edits = Mapping[str, Entry | None]
    Three = tuple[Entry | None, Entry, Entry]  # base, ours, theirs
    # One path that both sides changed: what joins them; None if nothing can.
    Driver = Callable[[Making, str, Three, MergeHow], "Joined | None"]
    # All paths of the kind at once: an outcome with conflicts among them, the trees of ours and theirs, and whether
    # names that both sides took stay theirs.
    Joiner = Callable[[History, Outcome, bytes, bytes, bool], Outcome]


class Sides(NamedTuple):
    """What is in conflict, by name, and what each side says (None: it forgot it)."""

    name: str
    ours: str | None
    theirs: str | None
    key: str = ""  # of a state value, and whose it is
    agent_id: str = ""


class Joined(NamedTuple):
    """Two edits of one path joined. With `conflicts` the entry has ours at those places, if it can have that.

    Without an entry and without conflicts they cannot be joined at all, and `why` says the reason.
    """

    entry: Entry | None
    conflicts: tuple[InnerConflict, ...] = ()
    why: str = ""
    notes: tuple[str, ...] = ()  # what somebody should know of the joined content
    beside: Mapping[str, Entry] = MappingProxyType({})  # what other paths become by that, whatever is chosen here


class Kind(NamedTuple):
    """One kind of thing. What is not given is as for bytes of which nothing is known."""

    name: str
    room: str  # the first part of its paths
    lane: Lane
    code: int  # its byte in the entries on disk: never given to another
    nouns: tuple[str, str]  # one, many
    label: Callable[[str], str] = str  # a path as people name it
    typed_in_part: bool = False  # the label is a long id, of which a few characters will do
    text: Callable[[bytes], bytes] | None = None  # the record as lines, for diff and cat
    words: Callable[[bytes], bytes] | None = None  # what somebody wrote in the record, as lines, for grep
    brief: Callable[[bytes], str] | None = None  # the record in a few words, for --stat and ls
    sides: Callable[[History, Conflict], Sides | None] | None = None  # what a conflict is about
    merge: Driver | None = None
    join: Joiner | None = None
    # What a choice means, as edits on top of ours, if the side that is not chosen is kept somehow.
    settle: Callable[[History, Conflict], Edits] | None = None
    # The edits that a merge brings, with what the kind notes on them; the first is whoever opened the history.
    arriving: Callable[[Any, Edits], dict[str, Entry | None]] | None = None
    # Advice for people, the last two by label: how to see conflicts, settle one, bring back what was before.
    to_list: str = ""
    to_settle: Callable[[str], str] | None = None
    to_restore: Callable[[str], str] | None = None

    @property
    def folder(self) -> str:
        return f"{self.room}/"


# What stands on disk is the same for all repos, so codes and rooms are known to the whole process.
CODES: dict[str, int] = {}  # by name
NAMES: dict[int, str] = {}  # by code
ROOMS: dict[str, Kind] = {}  # by room; of files and links, files


def define(kind: Kind) -> Kind:
    """Let trees be read and written that hold this kind."""
    if kind.name in CODES or kind.code in NAMES:
        raise ValueError(f"kind {kind.name!r} (code {kind.code}) is defined already.")
    CODES[kind.name], NAMES[kind.code] = kind.code, kind.name
    ROOMS.setdefault(kind.room, kind)
    return kind


def kind_at(path: str) -> Kind:
    """The kind of a tree path, by its room; of a link that of files."""
    return ROOMS[path.split("/", 1)[0]]


def is_typed(room: str) -> bool:
    """Whether a path that a person types, and that begins so, means that room and not a working file.

    `policy/merge.toml` is a file of the working folder: people edit, review and merge it as one.
    """
    return room in ROOMS and room not in ("files", "policy")


def list_rooms() -> list[str]:
    """In the order of their codes, which does not depend on which was defined first."""
    return sorted(ROOMS, key=lambda room: ROOMS[room].code)


def _merge_files(making: Making, _path: str, sides: Three, how: MergeHow) -> Joined | None:
    return versions.merge_trees.merge_files(making, sides, how)  # loaded only where files meet


BUILT_IN = tuple(
    define(kind)
    for kind in (
        Kind("file", "files", "work", 0, ("file", "files"), merge=_merge_files),
        Kind("link", "files", "work", 1, ("link", "links")),
        # Rooms that no layer gives a meaning yet. Policies are files in a working folder of that name: decision 021.
        Kind("policy", "policy", "work", 3, ("rule", "rules")),
        Kind("step", "ledger", "memory", 6, ("step", "steps")),
        Kind("turn", "conversations", "memory", 7, ("turn", "turns")),
    )
)
