"""Files as a kind whose merge looks inside: two edits of one table or document are joined where its type can do it.

Loaded whenever a repo is opened, so it loads no type before files meet.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from memlake import contents, versions
from memlake.records import Entry, MergeHow
from memlake.versions.kinds import BUILT_IN

if TYPE_CHECKING:
    from memlake.versions.history.merge_trees import Making


def _merge_file(making: Making, path: str, old: Entry | None, ours: Entry, theirs: Entry) -> Entry | None:
    """By the type of the file if it has a merge of its own, else line by line."""
    merged = contents.explain.merge_inside(making, path, (old, ours, theirs), MergeHow()) if old is not None else None
    if old is None or merged is None:
        return versions.merge_trees.merge_files(making, old, ours, theirs)
    if merged.data is None or merged.conflicts:
        return None
    mode = theirs.mode if ours.mode == old.mode else ours.mode
    return Entry(making.add(merged.data), "file", len(merged.data), mode)


FILE = next(kind for kind in BUILT_IN if kind.name == "file")._replace(merge=_merge_file)
