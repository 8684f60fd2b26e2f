"""From what a user types to anchors: `src/api.py:10-40`, `pets@1.0.2`, `models/x.ckpt#layer.3`, a memory, a commit.

And the same things taken again as they are now, for a memory that somebody found true although they changed.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from hashlib import sha1, sha256

from memlake import projects
from memlake.errors import InvalidInput, NotFound
from memlake.memories import anchors, store
from memlake.memories.anchored_files import find_offset, read_pieces, read_then
from memlake.memories.anchors import COMMIT, DATASET, FILE, GONE, MEMORY, MOST, TENSOR, Anchor, Standing
from memlake.memories.context import MemoryContext
from memlake.memories.kind import memory_path
from memlake.memories.standing import Moment, number_version
from memlake.projects import Place
from memlake.versions.checkout import rev
from memlake.versions.checkout.local import Local
from memlake.versions.kinds import ROOMS
from memlake.versions.paths import file_problem
from memlake.versions.text import spans
from memlake.versions.text.lines import LARGEST, find_text, opcodes, split_lines
from memlake.versions.text.spans import Lines, Span, Text

_LINES = re.compile(r"(?P<path>.+):(?P<first>\d{1,9})(?:-(?P<last>\d{1,9}))?", re.DOTALL)
_NOTHING = "Nothing was stored."
_FORMS = "Write it as PATH, PATH:10-40, MODEL#TENSOR, DATASET@VERSION, or the id of a memory or a commit."


def take_all(context: MemoryContext, moment: Moment, texts: Sequence[str]) -> tuple[Anchor, ...]:
    """What a memory is said to rest on, as it is now."""
    if isinstance(texts, str) or not all(isinstance(text, str) for text in texts):
        raise InvalidInput(f"uses is a list of texts, not {str(texts)[:40]!r}. {_NOTHING}", hint=_FORMS)
    if len(texts) > MOST:
        raise InvalidInput(f"a memory rests on at most {MOST} things, not {len(texts)}. {_NOTHING}")
    return anchors.join_anchors((), [_take(context, moment, text) for text in texts])


def take_files(moment: Moment, local: Local, paths: Iterable[str]) -> tuple[Anchor, ...]:
    """Anchors of whole files that were at hand: what is no file, or not of the project, is left out."""
    found = (find_path(moment.place, path) for path in dict.fromkeys(paths))
    known = [path for path in dict.fromkeys(found) if path and not file_problem(path)][:MOST]
    taken = ((path, moment.gits.read(path)) for path in known)
    return tuple(_take_whole(moment, local, path, data) for path, data in taken if data is not None)


def take_again(context: MemoryContext, moment: Moment, standing: Standing) -> Anchor | None:
    """The thing as it is now; None if it is gone."""
    anchor = standing.anchor
    if standing.word in (anchors.FRESH, anchors.UNKNOWN):
        return anchor
    if standing.word == GONE:
        return None
    if standing.inherited:
        return _take_memory(context, anchor.name)._replace(settled=True)
    lines = anchor.lines
    if lines and standing.word == anchors.CHANGED:
        then, now = read_then(moment.history, moment.place.root, anchor), moment.gits.read(standing.path)
        lines = follow_lines(then, now or b"", lines)
        return _take(context, moment, anchor._replace(path=standing.path, lines=lines).name)
    return _take(context, moment, standing.now or anchor.name)


def _take(context: MemoryContext, moment: Moment, text: str) -> Anchor:
    """What a text names, tried in this order: a file, lines or a tensor of one, a dataset, a memory, a commit."""
    local, place = context.here.local, moment.place
    if path := find_path(place, text):
        return _take_file(moment, local, path)
    if (match := _LINES.fullmatch(text)) and (path := find_path(place, match["path"])):
        first = int(match["first"])
        return _take_lines(moment, local, path, (first, int(match["last"] or first)))
    name, mark, part = text.partition("#")
    if mark and part and (path := find_path(place, name)):
        return _take_tensor(moment, local, path, part)
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
    raise InvalidInput(f"{text[:200]!r} is not a file{below}, a dataset, a memory or a commit. {_NOTHING}", hint=_FORMS)


# -- files ------------------------------------------------------------------------------------


def find_path(place: Place, text: str) -> str:
    """The path of a file below a project's folder, as typed from here or from there; "" if there is none."""
    if not text or "\0" in text or not place.root:
        return ""
    for start in (os.getcwd(), place.root):
        folder, name = os.path.split(os.path.join(start, text))
        file = os.path.join(os.path.realpath(folder), name)
        file = file if not os.path.islink(file) else os.path.realpath(file)
        if file.startswith(place.root + os.sep) and os.path.isfile(file):
            return os.path.relpath(file, place.root).replace(os.sep, "/")
    return ""


def _take_file(moment: Moment, local: Local, path: str) -> Anchor:
    _check_path(path)
    data = moment.gits.read(path)
    return _take_large(moment, local, path) if data is None else _take_whole(moment, local, path, data)


def _take_whole(moment: Moment, local: Local, path: str, data: bytes) -> Anchor:
    is_text = len(data) <= LARGEST and find_text(data) is not None
    span = spans.measure(data) if is_text else None
    whole = Anchor(FILE, path, _name_file(moment, local, path), len(data), span=span if span and span.length else None)
    return whole._replace(sketch=spans.sketch(data)) if is_text else whole


def _take_large(moment: Moment, local: Local, path: str) -> Anchor:
    """One that is too large to be held in memory."""
    size, of_git = moment.gits.find_size(path) or 0, _is_of_git(moment, local, path)
    digest = sha1(b"blob %d\0" % size, usedforsecurity=False) if of_git else sha256()
    with moment.gits.open(path) as stream:
        for piece in read_pieces(stream):
            digest.update(piece)
    return Anchor(FILE, path, digest.hexdigest(), size)


def _take_lines(moment: Moment, local: Local, path: str, lines: Lines) -> Anchor:
    _check_path(path)
    data = moment.gits.read(path)
    if data is None or find_text(data) is None:
        raise InvalidInput(f"{path!r} is not a text, so it does not have lines. {_NOTHING}", hint=f"Name it as {path}")
    count = Text(data).count
    if not 1 <= lines[0] <= lines[1] <= count:
        raise InvalidInput(f"{path!r} has {count} lines, and lines {lines[0]}-{lines[1]} were named. {_NOTHING}")
    span = spans.measure(data, lines)
    if not span.length:
        raise InvalidInput(f"lines {lines[0]}-{lines[1]} of {path!r} are empty. {_NOTHING}", hint="Name others.")
    return _take_whole(moment, local, path, data)._replace(lines=lines, span=span)


def _take_tensor(moment: Moment, local: Local, path: str, part: str) -> Anchor:
    _check_path(path)
    files, size = moment.gits, moment.gits.find_size(path) or 0
    digest = moment.formats.digest_part(path, size, lambda: files.open(path), part)
    if not digest:
        why = f"has no tensor {part!r}" if digest is not None else "is not a file of tensors that memlake can read"
        raise InvalidInput(f"{path!r} {why}. {_NOTHING}", hint=_FORMS)
    whole = _take_file(moment, local, path)
    return whole._replace(kind=TENSOR, part=part, span=Span(digest, 0))


def _check_path(path: str) -> None:
    if problem := file_problem(path):
        raise InvalidInput(f"{path!r} cannot be used: {problem}. {_NOTHING}")


def _name_file(moment: Moment, local: Local, path: str) -> str:
    return moment.gits.find_oid(path, of_git=_is_of_git(moment, local, path)) or ""


def _is_of_git(moment: Moment, local: Local, path: str) -> bool:
    """Whether git alone tracks a file, or may."""
    ours = find_offset(moment.place.root, local.root).to_ours(path)
    is_tracked = ours is not None and bool(local.find_tracked([ours]))
    return not is_tracked and projects.find_git_tree(moment.place.root) is not None


def follow_lines(then: bytes | None, now: bytes, lines: Lines) -> Lines:
    """Where lines that were edited are now; where nobody knows what they were, at the same place."""
    old, new = (find_text(data) for data in (then or b"", now))
    first, last = lines[0] - 1, lines[1]
    if old and new:
        for name, a, b, c, d in opcodes(split_lines(old), split_lines(new)):
            if a <= lines[0] - 1 < b:
                first = c + (lines[0] - 1 - a) * (name == "equal")
            if a < lines[1] <= b:
                last = c + (lines[1] - a) if name == "equal" else d
    count = Text(now).count
    first = min(first, count - 1)
    return first + 1, min(max(last, first + 1), count)


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
        raise InvalidInput(f"dataset {name!r} has no version {version!r}. {_NOTHING}", hint=f"It has: {listed}")
    return Anchor(DATASET, path, entries[path].oid)


def _take_memory(context: MemoryContext, text: str) -> Anchor:
    memory = store.get(context, store.find_full_id(context, text))
    path = memory_path(context.here.history, memory.agent_id, memory.memory_id)
    entry = context.entry(path)
    if entry is None:
        raise NotFound(f"there is no memory {memory.memory_id} on branch {context.branch!r}.")
    return Anchor(MEMORY, path, entry.oid)
