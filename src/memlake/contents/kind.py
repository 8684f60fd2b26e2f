"""Files as a kind whose merge looks inside: two edits of one table or document are joined where its type can do it.

Loaded whenever a repo is opened, so it loads no type before files meet.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from memlake import contents, versions
from memlake.records import Entry, MergeHow
from memlake.versions.kinds import BUILT_IN, Joined

if TYPE_CHECKING:
    from memlake.versions.history.merge_trees import Making
    from memlake.versions.kinds import Three


def _merge_file(making: Making, path: str, sides: Three, how: MergeHow) -> Joined | None:
    """By the type of the file if it has a merge of its own, else line by line."""
    old, ours, theirs = sides
    merged = None
    if old is not None and not how.by_lines:
        merged = contents.explain.merge_inside(making, path, (old, ours, theirs), how)
    if old is None or merged is None or (merged.data is None and not merged.conflicts):
        why = next(iter(merged.notes), "") if merged else ""
        return _merge_lines(making, path, sides, how) or (Joined(None, why=why) if why else None)
    if merged.data is None:
        return Joined(None, merged.conflicts, notes=merged.notes)
    mode = theirs.mode if ours.mode == old.mode else ours.mode
    entry = Entry(making.add(merged.data), "file", len(merged.data), mode)
    beside = {
        name: Entry(making.add(data), "file", len(data), one.mode if (one := making.find_beside(1, name)) else 0)
        for name, data in merged.beside.items()
    }
    return Joined(entry, merged.conflicts, notes=merged.notes, beside=beside)


def _merge_lines(making: Making, path: str, sides: Three, how: MergeHow) -> Joined | None:
    """By lines; a document of which they would make what is none waits, unless somebody wants lines whatever it is."""
    joined = versions.merge_trees.merge_files(making, sides, how)
    if joined is None or joined.entry is None or how.by_lines:
        return joined
    if not (broken := contents.explain.find_broken(making, path, (*sides[1:], joined.entry))):
        return joined
    is_open = versions.merge_trees.merge_files(making, sides, MergeHow())
    return is_open if is_open and is_open.conflicts else Joined(None, why=broken)


FILE = next(kind for kind in BUILT_IN if kind.name == "file")._replace(merge=_merge_file)
