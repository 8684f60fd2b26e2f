"""From what a user types to anchors: `src/api.py:10-40`, `pets@1.0.2`, `models/x.ckpt#layer.3`, a memory, a commit.

And the same things taken again as they are now, for a memory that somebody found true although they changed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from memlake.errors import InvalidInput, NotFound
from memlake.memories import store
from memlake.memories.anchors.anchor import (
    CHANGED,
    COMMIT,
    DATASET,
    FRESH,
    GONE,
    MEMORY,
    MOST,
    UNKNOWN,
    Anchor,
    Standing,
    join_anchors,
)
from memlake.memories.anchors.anchored_files import read_then
from memlake.memories.anchors.standing import Moment, number_version
from memlake.memories.anchors.take_files import (
    FORMS,
    NOTHING,
    find_path,
    follow_lines,
    take_file,
    take_lines,
    take_tensor,
)
from memlake.memories.context import MemoryContext
from memlake.memories.kind import memory_path
from memlake.versions.checkout import rev
from memlake.versions.kinds import ROOMS
from memlake.versions.paths import file_problem

_LINES = re.compile(r"(?P<path>.+):(?P<first>\d{1,9})(?:-(?P<last>\d{1,9}))?", re.DOTALL)


def take_all(context: MemoryContext, moment: Moment, texts: Sequence[str]) -> tuple[Anchor, ...]:
    """What a memory is said to rest on, as it is now."""
    if isinstance(texts, str) or not all(isinstance(text, str) for text in texts):
        raise InvalidInput(f"uses is a list of texts, not {str(texts)[:40]!r}. {NOTHING}", hint=FORMS)
    if len(texts) > MOST:
        raise InvalidInput(f"a memory rests on at most {MOST} things, not {len(texts)}. {NOTHING}")
    return join_anchors((), [_take(context, moment, text) for text in texts])


def take_again(context: MemoryContext, moment: Moment, standing: Standing) -> Anchor | None:
    """The thing as it is now; None if it is gone."""
    anchor = standing.anchor
    if standing.word in (FRESH, UNKNOWN):
        return anchor
    if standing.word == GONE:
        return None
    if standing.inherited:
        return _take_memory(context, anchor.name)._replace(settled=True)
    lines = anchor.lines
    if lines and standing.word == CHANGED:
        then, now = read_then(moment.history, moment.place.root, anchor), moment.gits.read(standing.path)
        lines = follow_lines(then, now or b"", lines)
        return _take(context, moment, anchor._replace(path=standing.path, lines=lines).name)
    return _take(context, moment, standing.now or anchor.name)


def _take(context: MemoryContext, moment: Moment, text: str) -> Anchor:
    """What a text names, tried in this order: a file, lines or a tensor of one, a dataset, a memory, a commit."""
    local, place = context.here.local, moment.place
    if path := find_path(place, text):
        return take_file(moment, local, path)
    if (match := _LINES.fullmatch(text)) and (path := find_path(place, match["path"])):
        first = int(match["first"])
        return take_lines(moment, local, path, (first, int(match["last"] or first)))
    name, mark, part = text.partition("#")
    if mark and part and (path := find_path(place, name)):
        return take_tensor(moment, local, path, part)
    if anchor := _find_version(moment, text):
        return anchor
    try:
        return _take_memory(context, text)
    except (NotFound, InvalidInput) as error:
        commit = rev.find(context.here, text)
        if commit is None and "memories have an id" in error.message:
            raise
    if commit is not None:
        return Anchor(COMMIT, oid=commit.oid)
    below = f" below {place.root}" if place.root else ""
    raise InvalidInput(f"{text[:200]!r} is not a file{below}, a dataset, a memory or a commit. {NOTHING}", hint=FORMS)


# -- what is no file --------------------------------------------------------------------------


def _find_version(moment: Moment, text: str) -> Anchor | None:
    """A version of a dataset; of one that is named without it the newest."""
    room = next(kind.folder for kind in ROOMS.values() if kind.name == DATASET)
    name, _, version = text.partition("@")
    if not name or moment.work is None or file_problem(name):
        return None
    entries = dict(moment.history.scan(moment.work, f"{room}{name}/"))
    held = [path for path in entries if moment.formats.read_rows(moment.history.objects.read(entries[path].oid))]
    if not held:
        return None
    path = f"{room}{name}/{version}" if version else max(held, key=number_version)
    if path not in held:
        listed = ", ".join(path.rpartition("/")[2] for path in sorted(held, key=number_version))
        raise InvalidInput(f"dataset {name!r} has no version {version!r}. {NOTHING}", hint=f"It has: {listed}")
    return Anchor(DATASET, path, entries[path].oid)


def _take_memory(context: MemoryContext, text: str) -> Anchor:
    memory = store.get(context, store.find_full_id(context, text))
    path = memory_path(context.here.history, memory.agent_id, memory.memory_id)
    entry = context.entry(path)
    if entry is None:
        raise NotFound(f"there is no memory {memory.memory_id} on branch {context.branch!r}.")
    return Anchor(MEMORY, path, entry.oid)
