"""JSON, YAML and TOML by their structure: which values differ, and two edits of one JSON file joined value by value.

A file is only written anew if nothing but its values can get lost: if all three sides are JSON as we would write it
ourselves. Comments, odd numbers and layouts of one's own stay with the merge of lines.
"""

from __future__ import annotations

import copy
import json
import marshal
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from memlake.contents.content import Content, Unreadable
from memlake.contents.explain import How
from memlake.contents.merged import InnerConflict, Merged, MergeHow
from memlake.named_tuple import NamedTuple
from memlake.versions.text.lines import opcodes

Path = tuple[str | int, ...]
# Bytes of a document that is looked into: it is read whole, and these take a second or two.
_LARGEST = {"json": 32 << 20, "yaml": 4 << 20, "toml": 4 << 20}
_VALUES = 1_000_000  # a few lines of YAML can name more than any memory holds
_QUICK = 3  # levels at which equal parts are found without looking at their values one by one
_NAMES = ("id", "key", "name", "uuid")  # fields by which the items of a list are known
_COMMENT = re.compile(r"(?:^|\s)#.*$", re.MULTILINE)  # and what looks like one inside a text: it only makes a note
_ABSENT: Any = type("Absent", (), {"__repr__": lambda _: "absent"})()


class ValueChange(NamedTuple):
    """A value that was added ("A"), removed ("D") or changed ("M"), and where: `model.layers[3].size`."""

    status: str
    path: str
    old: Any
    new: Any


class DocumentDiff(NamedTuple):
    """What differs between two documents. `values` are the first that differ, in the order of the new document."""

    format: str
    added: int
    removed: int
    changed: int
    values: tuple[ValueChange, ...]
    notes: tuple[str, ...] = ()

    @property
    def is_empty(self) -> bool:
        return not (self.added or self.removed or self.changed)


class DocumentSummary(NamedTuple):
    """What a document is: its format, what stands at its top, and how many values it holds."""

    format: str
    top: str
    values: int


def summarize(content: Content) -> DocumentSummary:
    value = read_document(content)
    if isinstance(value, Mapping):
        top = f"{len(value):,} keys: {', '.join(list(map(str, value))[:10])}"
    else:
        top = f"{len(value):,} items" if isinstance(value, list) else type(value).__name__
    return DocumentSummary(_find_format(content), top, sum(1 for _ in _walk(value)))


def diff(old: Content, new: Content, how: How) -> DocumentDiff:
    counts, told = {"A": 0, "D": 0, "M": 0}, []
    for status, path, before, after in _compare((), read_document(old), read_document(new)):
        counts[status] += 1
        if how.limit is None or counts[status] <= how.limit:
            values = (None if one is _ABSENT else one for one in (before, after))
            told.append(ValueChange(status, path_text(path), *values))
    has_comments = _find_format(new) != "json" and _list_comments(old) != _list_comments(new)
    notes = ("comments differ, too: --text shows them",) if has_comments else ()
    return DocumentDiff(_find_format(new), counts["A"], counts["D"], counts["M"], tuple(told), notes)


def _list_comments(content: Content) -> list[str]:
    return _COMMENT.findall(content.read_whole().decode("utf-8", "replace"))


def merge(base: Content, ours: Content, theirs: Content, how: MergeHow) -> Merged:
    """Ours with what they changed; a value that both changed differently is a conflict of that value."""
    for content in (base, ours, theirs):
        if _find_format(content) != "json" or write_json(content.read_whole(), []) != content.read_whole():
            raise Unreadable(f"{content.path} is not written as JSON would be written anew, so it is merged by lines")
    joining = _Joining(how)
    joining.join((), *map(read_document, (base, ours, theirs)))
    return Merged(write_json(ours.read_whole(), joining.edits), tuple(joining.conflicts))


def path_text(path: Path) -> str:
    """A path as people write it."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        elif step.replace("_", "").replace("-", "").isalnum():
            text += f".{step}" if text else step
        else:
            text += f"[{json.dumps(step, ensure_ascii=False)}]"
    return text or "."


# -- reading ------------------------------------------------------------------------------------


def _find_format(content: Content) -> str:
    return {"yml": "yaml", "yaml": "yaml", "toml": "toml"}.get(content.suffix, "json")


def read_document(content: Content) -> Any:
    """A document as Python has it."""
    kind = _find_format(content)
    if content.size > _LARGEST[kind]:
        most = _LARGEST[kind]
        raise Unreadable(f"{content.path} has {content.size:,} bytes, and {kind.upper()} is looked into up to {most:,}")
    try:
        data = content.read_whole()
        value = _READERS[kind](data)
        if kind == "yaml" and b"*" in data:  # only names of values can make more of them than there are bytes
            for number, _ in enumerate(_walk(value)):
                if number > _VALUES:
                    raise Unreadable(f"{content.path} names more than {_VALUES:,} values")
    except Unreadable:
        raise
    except RecursionError as error:
        raise Unreadable(f"{content.path} is nested too deeply to be read as {kind.upper()}") from error
    except Exception as error:  # the parsers raise errors of many classes; none of them is about us
        said = " ".join(str(error).split())[:200]
        raise Unreadable(f"{content.path} cannot be read as {kind.upper()}: {said}") from error
    return value


def _read_yaml(data: bytes) -> Any:
    """All documents of the file; of one, that one. Tags that name types of a program are refused."""
    import yaml  # slow to load

    documents = list(yaml.load_all(data, getattr(yaml, "CSafeLoader", yaml.SafeLoader)))
    return documents[0] if len(documents) == 1 else documents


_READERS: dict[str, Callable[[bytes], Any]] = {
    "json": lambda data: json.loads(data.decode("utf-8-sig")) if data.strip() else None,
    "toml": lambda data: tomllib.loads(data.decode("utf-8-sig")),
    "yaml": _read_yaml,
}


def _walk(value: Any) -> Iterator[Any]:
    yield value
    items = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
    for item in items:
        yield from _walk(item)


# -- comparing ----------------------------------------------------------------------------------


def is_same(a: Any, b: Any) -> bool:
    """Whether two values are the same as written: 1 is not 1.0 and not true; NaN is NaN."""
    if a is b:
        return True
    if type(a) is not type(b):
        return False
    if isinstance(a, Mapping):
        return a.keys() == b.keys() and all(is_same(a[key], b[key]) for key in a)
    if isinstance(a, list):
        return len(a) == len(b) and all(map(is_same, a, b))
    return bool(a == b) or (a != a and b != b)  # noqa: PLR0124  (NaN)


def _has_same_dump(old: Any, new: Any) -> bool:
    """Whether two containers are the same, by one quick look; False means only that one must look closer."""
    try:
        return marshal.dumps(old, 2) == marshal.dumps(new, 2)  # 2: as values, not by who refers to them
    except ValueError:  # a date, or nested too deeply
        return False


def _compare(path: Path, old: Any, new: Any) -> Iterator[tuple[str, Path, Any, Any]]:
    if len(path) <= _QUICK and isinstance(old, Mapping | list) and type(old) is type(new) and _has_same_dump(old, new):
        return
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in dict.fromkeys((*new, *old)):
            yield from _compare((*path, str(key)), old.get(key, _ABSENT), new.get(key, _ABSENT))
    elif isinstance(old, list) and isinstance(new, list):
        yield from _compare_lists(path, old, new)
    elif old is _ABSENT:
        yield "A", path, old, new
    elif new is _ABSENT:
        yield "D", path, old, new
    elif not is_same(old, new):
        yield "M", path, old, new


def _compare_lists(path: Path, old: list[Any], new: list[Any]) -> Iterator[tuple[str, Path, Any, Any]]:
    """By the field that names the items where there is one; else by what is equal in both, in order."""
    if (name := _find_name(old, new)) is not None:
        before = {_text(item[name]): item for item in old}
        for number, item in enumerate(new):
            yield from _compare((*path, number), before.pop(_text(item[name]), _ABSENT), item)
        numbers = {_text(item[name]): number for number, item in enumerate(old)}
        for text, item in before.items():
            yield from _compare((*path, numbers[text]), item, _ABSENT)
        return
    for tag, i1, i2, j1, j2 in opcodes([*map(_text, old)], [*map(_text, new)]):
        if tag == "equal":
            continue
        for place in range(max(i2 - i1, j2 - j1)):
            before_item = old[i1 + place] if i1 + place < i2 else _ABSENT
            after_item = new[j1 + place] if j1 + place < j2 else _ABSENT
            yield from _compare((*path, (j1 if after_item is not _ABSENT else i1) + place), before_item, after_item)


def _find_name(*lists: Sequence[Any]) -> str | None:
    """The field that every item of these lists has, and no two of one list have alike."""
    if not all(lists) or not all(isinstance(item, Mapping) for items in lists for item in items):
        return None
    for name in _NAMES:
        if all(name in item for items in lists for item in items):
            texts = [[_text(item[name]) for item in items] for items in lists]
            if all(len(set(some)) == len(some) for some in texts):
                return name
    return None


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False, default=str)


# -- merging ------------------------------------------------------------------------------------


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
        elif all(isinstance(side, Mapping) for side in (base, ours, theirs)):
            for key in dict.fromkeys((*ours, *theirs, *base)):
                self.join((*path, key), *(side.get(key, _ABSENT) for side in (base, ours, theirs)))
        elif all(isinstance(side, list) for side in (base, ours, theirs)):
            self._join_lists(path, base, ours, theirs)
        else:
            self._settle(path, base, ours, theirs)

    def _join_lists(self, path: Path, base: list[Any], ours: list[Any], theirs: list[Any]) -> None:
        """Lists whose items have names item by item; other lists where the two edits do not touch each other."""
        name = _find_name(base, ours, theirs)
        if name is None:
            merged = _merge_plain(base, ours, theirs)
            if merged is None:
                self._settle(path, base, ours, theirs)
            else:
                self.edits.append((path, merged))
            return
        sides = [{_text(item[name]): item for item in items} for items in (base, ours, theirs)]
        result = []
        for text in dict.fromkeys((*sides[1], *sides[2])):
            found = [side.get(text, _ABSENT) for side in sides]
            place = self._place(path)
            inner = _Joining(self.how, f"{'' if place == '.' else place}[{name}={text}]", {name: json.loads(text)})
            inner.join((), *found)
            self.conflicts += inner.conflicts
            item = _set_values(found[1], inner.edits)
            result += [item] if item is not _ABSENT else []
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
            base, ours, theirs = (None if value is _ABSENT else value for value in sides)
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
    known = {_text(item) for item in (*ours, *(base if isinstance(base, list) else ()))}
    return [*ours, *(item for item in theirs if _text(item) not in known)]


def _below(place: str) -> str:
    """A place inside an item, behind the name of the item."""
    return "" if place == "." else place if place.startswith("[") else f".{place}"


def _merge_plain(base: list[Any], ours: list[Any], theirs: list[Any]) -> list[Any] | None:
    """What both did to a list, or None where they did it at the same place."""
    spans = []
    for side in (ours, theirs):
        codes = opcodes([*map(_text, base)], [*map(_text, side)])
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
    if item is _ABSENT:
        del document[path[-1]]
    else:
        document[path[-1]] = item


# -- writing ------------------------------------------------------------------------------------


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
