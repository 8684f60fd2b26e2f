"""Anchors of files, of lines and of tensors in them, as they are now. Light: a hook takes them, too. Runs no git."""

from __future__ import annotations

import os
from collections.abc import Iterable
from hashlib import sha1, sha256

from memlake import projects
from memlake.errors import InvalidInput
from memlake.memories.anchors.anchor import FILE, MOST, TENSOR, Anchor
from memlake.memories.anchors.anchored_files import find_offset, read_pieces
from memlake.memories.anchors.standing import Moment
from memlake.projects import Place
from memlake.versions.checkout.local import Local
from memlake.versions.paths import file_problem
from memlake.versions.text import spans
from memlake.versions.text.lines import LARGEST, find_text, opcodes, split_lines
from memlake.versions.text.spans import Lines, Span, Text

NOTHING = "Nothing was stored."
FORMS = "Write it as PATH, PATH:10-40, MODEL#TENSOR, DATASET@VERSION, or the id of a memory or a commit."


def take_files(moment: Moment, local: Local, paths: Iterable[str]) -> tuple[Anchor, ...]:
    """Anchors of whole files that were at hand: what is no file, or not of the project, is left out."""
    found = (find_path(moment.place, path) for path in dict.fromkeys(paths))
    known = [path for path in dict.fromkeys(found) if path and not file_problem(path)][:MOST]
    taken = ((path, moment.gits.read(path)) for path in known)
    return tuple(_take_whole(moment, local, path, data) for path, data in taken if data is not None)


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


def take_file(moment: Moment, local: Local, path: str) -> Anchor:
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


def take_lines(moment: Moment, local: Local, path: str, lines: Lines) -> Anchor:
    _check_path(path)
    data = moment.gits.read(path)
    if data is None or find_text(data) is None:
        raise InvalidInput(f"{path!r} is not a text, so it does not have lines. {NOTHING}", hint=f"Name it as {path}")
    count = Text(data).count
    if not 1 <= lines[0] <= lines[1] <= count:
        raise InvalidInput(f"{path!r} has {count} lines, and lines {lines[0]}-{lines[1]} were named. {NOTHING}")
    span = spans.measure(data, lines)
    if not span.length:
        raise InvalidInput(f"lines {lines[0]}-{lines[1]} of {path!r} are empty. {NOTHING}", hint="Name others.")
    return _take_whole(moment, local, path, data)._replace(lines=lines, span=span)


def take_tensor(moment: Moment, local: Local, path: str, part: str) -> Anchor:
    _check_path(path)
    files, size = moment.gits, moment.gits.find_size(path) or 0
    digest = moment.formats.digest_part(path, size, lambda: files.open(path), part)
    if not digest:
        why = f"has no tensor {part!r}" if digest is not None else "is not a file of tensors that memlake can read"
        raise InvalidInput(f"{path!r} {why}. {NOTHING}", hint=FORMS)
    whole = take_file(moment, local, path)
    return whole._replace(kind=TENSOR, part=part, span=Span(digest, 0))


def _check_path(path: str) -> None:
    if problem := file_problem(path):
        raise InvalidInput(f"{path!r} cannot be used: {problem}. {NOTHING}")


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
