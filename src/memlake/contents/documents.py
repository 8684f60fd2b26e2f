"""JSON, YAML and TOML by their structure: what they hold, and which values differ."""

from __future__ import annotations

import json
import marshal
import re
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any

from memlake.collector import pause_gc
from memlake.contents.content import Content, Unreadable
from memlake.contents.explain import How
from memlake.named_tuple import NamedTuple
from memlake.records import count
from memlake.versions.text.lines import opcodes

Path = tuple[Any, ...]  # keys, which YAML has of any type, and numbers of items
# Bytes of a document that is looked into: it is read whole, and these take a second or two.
_LARGEST = {"json": 32 << 20, "yaml": 4 << 20, "toml": 4 << 20}
_VALUES = 1_000_000  # a few lines of YAML can name more than any memory holds
_MOVED = "R"  # of a list: how many of its items have another place
_QUICK = 3  # levels at which equal parts are found without looking at their values one by one
_NAMES = ("id", "key", "name", "uuid")  # fields by which the items of a list are known
_COMMENT = re.compile(r"(?:^|\s)#.*$", re.MULTILINE)  # and what looks like one inside a text: it only makes a note
ABSENT: Any = type("Absent", (), {"__repr__": lambda _: "absent"})()


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
    moved: int = 0  # items that stand in another place of their list

    @property
    def is_empty(self) -> bool:
        return not (self.added or self.removed or self.changed or self.moved)


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
    return DocumentSummary(find_format(content), top, sum(1 for _ in _walk(value)))


def diff(old: Content, new: Content, how: How) -> DocumentDiff:
    counts, told, moves = {"A": 0, "D": 0, "M": 0}, list[ValueChange](), list[tuple[int, str]]()
    with pause_gc():
        found = list(_compare((), read_document(old), read_document(new)))
    for status, path, before, after in found:
        if status == _MOVED:
            moves.append((before, path_text(path)))
            continue
        counts[status] += 1
        if how.limit is None or counts[status] <= how.limit:
            values = (None if one is ABSENT else one for one in (before, after))
            told.append(ValueChange(status, path_text(path), *values))
    has_comments = find_format(new) != "json" and _list_comments(old) != _list_comments(new)
    notes = [
        f"{count(number, 'item stands', 'items stand')} in another place of {'the list' if path == '.' else path}"
        for number, path in moves[: how.limit]
    ]
    notes += ["comments differ, too: --text shows them"] if has_comments else []
    moved = sum(number for number, _ in moves)
    return DocumentDiff(find_format(new), counts["A"], counts["D"], counts["M"], tuple(told), tuple(notes), moved)


def _list_comments(content: Content) -> list[str]:
    return _COMMENT.findall(content.read_whole().decode("utf-8", "replace"))


def path_text(path: Path) -> str:
    """A path as people write it."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        elif isinstance(step, str) and step.replace("_", "").replace("-", "").isalnum():
            text += f".{step}" if text else step
        else:
            text += f"[{text_of(step)}]"
    return text or "."


# -- reading ------------------------------------------------------------------------------------


def find_format(content: Content) -> str:
    return {"yml": "yaml", "yaml": "yaml", "toml": "toml"}.get(content.suffix, "json")


def read_document(content: Content) -> Any:
    """A document as Python has it."""
    if content.size > _LARGEST[(kind := find_format(content))]:
        most = _LARGEST[kind]
        raise Unreadable(f"{content.path} has {content.size:,} bytes, and {kind.upper()} is looked into up to {most:,}")
    return parse(kind, content.read_whole(), content.path)


def check(content: Content) -> None:
    read_document(content)


def parse(kind: str, data: bytes, path: str) -> Any:
    """The value of a document; `path` is for words alone. Raises Unreadable."""
    try:
        with pause_gc():
            value = _READERS[kind](data)
        if kind == "yaml" and b"*" in data:  # only names of values can make more of them than there are bytes
            for number, _ in enumerate(_walk(value)):
                if number > _VALUES:
                    raise Unreadable(f"{path} names more than {_VALUES:,} values")
    except Unreadable:
        raise
    except RecursionError as error:
        raise Unreadable(f"{path} is nested too deeply to be read as {kind.upper()}") from error
    except Exception as error:  # the parsers raise errors of many classes; none of them is about us
        said = " ".join(str(error).split())[:200]
        raise Unreadable(f"{path} cannot be read as {kind.upper()}: {said}") from error
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
            yield from _compare((*path, str(key)), old.get(key, ABSENT), new.get(key, ABSENT))
    elif isinstance(old, list) and isinstance(new, list):
        yield from _compare_lists(path, old, new)
    elif old is ABSENT:
        yield "A", path, old, new
    elif new is ABSENT:
        yield "D", path, old, new
    elif not is_same(old, new):
        yield "M", path, old, new


def _compare_lists(path: Path, old: list[Any], new: list[Any]) -> Iterator[tuple[str, Path, Any, Any]]:
    """By the field that names the items where there is one; else by what is equal in both, in order.

    An item that went here and came there has moved.
    """
    name = find_name(old, new)
    before, after = ([text_of(item[name] if name else item) for item in items] for items in (old, new))
    codes = [code for code in opcodes(before, after) if name or code[0] != "equal"]
    gone, came = (
        Counter(label for tag, *ends in codes if tag != "equal" for label in labels[ends[at] : ends[at + 1]])
        for at, labels in ((0, before), (2, after))
    )
    both = gone & came
    if both:
        yield _MOVED, path, both.total(), None
    if name is not None:
        items = dict(zip(before, old, strict=True))
        for number, item in enumerate(new):
            yield from _compare((*path, number), items.pop(after[number], ABSENT), item)
        numbers = {label: number for number, label in enumerate(before)}
        for label, item in items.items():
            yield from _compare((*path, numbers[label]), item, ABSENT)
        return
    left = both.copy(), both.copy()
    for _, i1, i2, j1, j2 in codes:
        olds = [place for place in range(i1, i2) if not _take(left[0], before[place])]
        news = [place for place in range(j1, j2) if not _take(left[1], after[place])]
        for was, now in zip_longest(olds, news):
            sides = (ABSENT if was is None else old[was]), (ABSENT if now is None else new[now])
            yield from _compare((*path, was if now is None else now), *sides)


def _take(counts: Counter[str], label: str) -> bool:
    if not counts[label]:
        return False
    counts[label] -= 1
    return True


def find_name(*lists: Sequence[Any]) -> str | None:
    """The field that every item of these lists has, and no two of one list have alike."""
    if not all(lists) or not all(isinstance(item, Mapping) for items in lists for item in items):
        return None
    for name in _NAMES:
        if all(name in item for items in lists for item in items):
            texts = [[text_of(item[name]) for item in items] for items in lists]
            if all(len(set(some)) == len(some) for some in texts):
                return name
    return None


def text_of(value: Any) -> str:
    """A value as a text that only a value that is the same has."""
    try:
        return json.dumps(value, sort_keys=True, ensure_ascii=False, default=_tell_type)
    except TypeError:  # YAML has keys that are no texts
        return repr(value)


def _tell_type(value: Any) -> str:
    return f"{type(value).__name__} {value}"  # a date is not the text that looks like it
