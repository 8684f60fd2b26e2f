"""Two edits of one JSON, YAML or TOML file joined value by value, in the text of ours.

Lines are joined first, because that keeps what people wrote beside the values. Where lines clash, or what they join to
does not say what the values join to, the values are set in the text (`document_text`). What was written is read again
before it is taken; a text that cannot be made waits for a person.
"""

from __future__ import annotations

import copy
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from memlake.contents import document_text
from memlake.contents.content import Content, Unreadable
from memlake.contents.documents import ABSENT, Path, find_format, find_name, is_same, parse, path_text, text_of
from memlake.contents.merged import InnerConflict, Merged, MergeHow
from memlake.versions.text.lines import opcodes
from memlake.versions.text.merge3 import join_text

_LARGEST = {"json": 2 << 20, "yaml": 1 << 20, "toml": 256 << 10}  # bytes whose text is edited: it takes seconds
_FILE = "."  # the place that is all of a file


def merge(base: Content, ours: Content, theirs: Content, how: MergeHow) -> Merged:
    """Ours with what they changed; a value that both changed differently is a conflict of that value."""
    kind, sides = find_format(ours), [side.read_whole() for side in (base, ours, theirs)]
    if sides[0] in sides[1:] or sides[1] == sides[2]:
        return Merged(sides[2] if sides[0] == sides[1] else sides[1])
    values = [parse(kind, data, ours.path) for data in sides]
    if not base.size and type(values[1]) is type(values[2]) and isinstance(values[1], Mapping | list):
        values[0] = type(values[1])()  # both added it
    joining = _Joining(how)
    joining.join((), *values)
    if kind == "json" and all(write_json(data, []) == data for data in sides):
        return Merged(write_json(sides[1], joining.edits), tuple(joining.conflicts))
    if max(map(len, sides)) > _LARGEST[kind]:
        raise Unreadable(f"{ours.path} is too large to be joined by its values, so it is merged by lines")
    texts = [data.decode("utf-8-sig") for data in sides]
    if kind == "yaml" and any(map(_holds_several, texts)):
        raise Unreadable(f"{ours.path} holds several documents, so it is merged by lines")
    was, mine, other = texts
    lines, clashes = (
        join_text(was, mine, other, MergeHow(strategy="ours"))[0],
        join_text(was, mine, other, MergeHow())[1],
    )
    written = [document_text.Written(text, value) for text, value in zip(texts, values, strict=True)]
    task = document_text.Task(kind, _set_values(values[1], joining.edits), *written)
    for start in dict.fromkeys((lines or "", texts[1])):
        if (text := document_text.rewrite(start, task)) is not None:
            mark = "\ufeff" if sides[1].startswith(b"\xef\xbb\xbf") else ""
            return Merged((mark + text).encode(), tuple(joining.conflicts))
    if clashes:
        raise Unreadable(f"the values of {ours.path} cannot be set in its text, so it is merged by lines")
    return _leave_whole(sides, how)


def _holds_several(text: str) -> bool:
    """Whether a file of YAML has a second document: a line of dashes behind another, or behind some content."""
    marks = [found.start() for found in re.finditer(r"^---(?:\s|$)", text, re.MULTILINE)]
    return len(marks) > 1 or bool(marks and re.search(r"^[^\s%#]", text[: marks[0]], re.MULTILINE))


def _leave_whole(sides: Sequence[bytes], how: MergeHow) -> Merged:
    """Lines join to what no side means, and values cannot be joined in this text: all of the file is one place."""
    side = how.find_side(_FILE)
    if side in ("ours", "theirs"):
        return Merged(sides[2] if side == "theirs" else sides[1])
    was, mine, other = (f"{len(data):,} bytes" for data in sides)
    exact = hashlib.sha256(b"".join(hashlib.sha256(data).digest() for data in sides)).hexdigest()
    notes = ("its lines join, but not to what both sides say by its values",)
    return Merged(sides[1], (InnerConflict(_FILE, was, mine, other, {"path": _FILE}, exact),), notes)


class _Joining:
    """What to set in ours, and what nobody can decide but a person. `inside` is the place of what is joined."""

    def __init__(self, how: MergeHow, inside: str = "", where: Mapping[str, Any] = MappingProxyType({})) -> None:
        self.how, self.inside, self.where = how, inside, where
        self.edits: list[tuple[Path, Any]] = []
        self.conflicts: list[InnerConflict] = []

    def join(self, path: Path, base: Any, ours: Any, theirs: Any) -> None:
        if is_same(ours, theirs) or is_same(base, theirs):
            return
        if is_same(base, ours):
            self.edits.append((path, theirs))
        elif all(isinstance(side, Mapping) for side in (ours, theirs, {} if base is ABSENT else base)):
            base = {} if base is ABSENT else base
            for key in dict.fromkeys((*ours, *theirs, *base)):
                self.join((*path, key), *(side.get(key, ABSENT) for side in (base, ours, theirs)))
        elif all(isinstance(side, list) for side in (base, ours, theirs)):
            self._join_lists(path, base, ours, theirs)
        else:
            self._settle(path, base, ours, theirs)

    def _join_lists(self, path: Path, base: list[Any], ours: list[Any], theirs: list[Any]) -> None:
        """Lists whose items have names item by item; other lists where the two edits do not touch each other."""
        name = find_name(base, ours, theirs)
        if name is None:
            merged = _merge_plain(base, ours, theirs)
            if merged is not None:
                self.edits.append((path, merged))
            elif len(base) == len(ours) == len(theirs) and all(isinstance(one, Mapping) for one in (*ours, *theirs)):
                for number, items in enumerate(zip(base, ours, theirs, strict=True)):
                    self.join((*path, number), *items)
            else:
                self._settle(path, base, ours, theirs)
            return
        sides = [{text_of(item[name]): item for item in items} for items in (base, ours, theirs)]
        result = []
        for text in dict.fromkeys((*sides[1], *sides[2])):
            found = [side.get(text, ABSENT) for side in sides]
            place = self._place(path)
            value = next(item[name] for item in found if item is not ABSENT)
            inner = _Joining(self.how, f"{'' if place == '.' else place}[{name}={text}]", {name: value})
            inner.join((), *found)
            self.conflicts += inner.conflicts
            item = _set_values(found[1], inner.edits)
            result += [item] if item is not ABSENT else []
        self.edits.append((path, result))

    def _settle(self, path: Path, *sides: Any) -> None:
        """By what was chosen for the place; ours stays while it is open."""
        place, (base, ours, theirs) = self._place(path), sides
        side = self.how.find_side(place)
        both = _unite(base, ours, theirs) if side == "union" else None
        if side == "theirs":
            self.edits.append((path, theirs))
        elif both is not None:
            self.edits.append((path, both))
        elif side != "ours":
            base, ours, theirs = (None if value is ABSENT else value for value in sides)
            self.conflicts.append(InnerConflict(place, base, ours, theirs, {**self.where, "path": place}))

    def _place(self, path: Path) -> str:
        text = path_text(path)
        return text if not self.inside else f"{self.inside}{_below(text)}"


def _unite(base: Any, ours: Any, theirs: Any) -> Any:
    """Both of two lists or of two objects without a key in common; None where that has no meaning."""
    if isinstance(ours, Mapping) and isinstance(theirs, Mapping):
        clash = any(not is_same(ours[key], theirs[key]) for key in ours.keys() & theirs.keys())
        return None if clash else {**ours, **theirs}
    if not (isinstance(ours, list) and isinstance(theirs, list)):
        return None
    known = {text_of(item) for item in (*ours, *(base if isinstance(base, list) else ()))}
    return [*ours, *(item for item in theirs if text_of(item) not in known)]


def _below(place: str) -> str:
    """A place inside an item, behind the name of the item."""
    return "" if place == "." else place if place.startswith("[") else f".{place}"


def _merge_plain(base: list[Any], ours: list[Any], theirs: list[Any]) -> list[Any] | None:
    """What both did to a list, or None where they did it at the same place."""
    spans = []
    for side in (ours, theirs):
        codes = opcodes([*map(text_of, base)], [*map(text_of, side)])
        spans += [(i1, i2, side[j1:j2]) for tag, i1, i2, j1, j2 in codes if tag != "equal"]
    spans.sort(key=lambda span: span[:2])
    result, at = [], 0
    for number, (start, stop, items) in enumerate(spans):
        if number and start <= spans[number - 1][1] and not (start == stop == spans[number - 1][0] == len(base)):
            if spans[number - 1][:2] == (start, stop) and is_same(spans[number - 1][2], items):
                continue
            return None
        result += base[at:start] + items
        at = stop
    return result + base[at:]


def _set_values(value: Any, edits: Sequence[tuple[Path, Any]]) -> Any:
    """A copy of a value with some values inside it set or taken away."""
    value = copy.deepcopy(value) if edits else value
    for path, item in edits:
        if not path:
            value = item
        else:
            _set(value, path, item)
    return value


def _set(document: Any, path: Path, item: Any) -> None:
    for step in path[:-1]:
        document = document[step]
    if item is ABSENT:
        del document[path[-1]]
    else:
        document[path[-1]] = item


def write_json(data: bytes, edits: Sequence[tuple[Path, Any]]) -> bytes:
    """A JSON file with some values set, in the layout it has; without edits as it would be written anew."""
    text = data.decode("utf-8-sig")
    try:
        value = _set_values(json.loads(text), edits)
    except (ValueError, RecursionError) as error:
        raise Unreadable(f"it cannot be read as JSON: {error}") from error
    line = next((line for line in text.splitlines()[1:] if line[:1].isspace()), "")
    indent = line[: len(line) - len(line.lstrip())] or None
    separators = None if indent or '": ' in text or ", " in text else (",", ":")
    written = json.dumps(value, indent=indent, separators=separators, ensure_ascii=text.isascii())
    return (written + text[len(text.rstrip()) :]).encode()
