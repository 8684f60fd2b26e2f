"""Notes in Markdown: their frontmatter and points; observations, relations and prose as basic-memory has them. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from memlake.named_tuple import NamedTuple

_OBSERVATION = re.compile(r"\s*[-*+]\s+\[(?P<category>[^\[\]()]{1,80})\]\s+(?P<text>\S.*)")
_NO_CATEGORY = re.compile(r"\s*(?:[xX]|\W|[\d:.,\s-]*:[\d:.,\s-]*)\s*")  # a task, or the time of a spoken line
_RELATION = re.compile(  # a kind of several words is quoted: else it is a sentence with a link in it
    r"""\s*[-*+]\s+(?:"(?P<double>[^"]+)"|'(?P<single>[^']+)'|(?P<word>[^\s\[\]]+))?\s*"""
    r"\[\[(?P<target>[^\[\]]+)\]\]\s*(?:\((?P<context>[^()]*)\))?\s*"
)
_CONTEXT = re.compile(r"\s*\((?P<context>[^()]*)\)\s*$")
_TAG = re.compile(r"(?:^|\s)#([^\s#,()]+)")
_FENCE = re.compile(r"\s*(```|~~~)")
_HEADING = re.compile(r"\s*#{1,6}\s")
_FIELD = re.compile(r"([A-Za-z_][\w -]*):\s*(.*)")
_FRONT, _OPENED = 16 << 10, 200  # characters of frontmatter that its parser sees, and brackets in them
_TOO_DEEP = re.compile(r"(?:[-?]\s){50}|&|^\s{400}", re.MULTILINE)  # nested beyond any use, or names that multiply
_POINT = re.compile(r"(?P<indent>\s*)(?:[-*+]|\d{1,3}[.)])\s+(?P<text>\S.*)")
_TITLE = re.compile(r"\s*(?P<marks>#{1,6})\s+(?P<text>.+?)\s*#*\s*")
_COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
_IMPORT = re.compile(r"\s*@\S+\s*")  # another file that is to be read too


class Note(NamedTuple):
    """A note taken apart. Lines are numbered as in its file."""

    front: dict[str, Any]
    lines: tuple[tuple[int, str], ...]


def parse(text: str) -> Note:
    lines = text.removeprefix("\ufeff").splitlines()
    start = 0
    if lines and lines[0].strip() == "---":
        ends = [at for at, line in enumerate(lines[1:], 1) if line.strip() in ("---", "...")]
        start = ends[0] + 1 if ends else 0
    front = _read_front(lines[1 : start - 1]) if start else {}
    return Note(front, tuple(enumerate(lines[start:], start + 1)))


def _read_front(lines: list[str]) -> dict[str, Any]:
    """Frontmatter as YAML in which every value is text; what is no YAML, or too deep for its parser, line by line."""
    text = "\n".join(lines)
    if len(text) <= _FRONT and text.count("[") + text.count("{") <= _OPENED and not _TOO_DEEP.search(text):
        import yaml  # slow to load

        try:
            found = yaml.load(text, getattr(yaml, "CBaseLoader", yaml.BaseLoader))
        except (yaml.YAMLError, ValueError, RecursionError):
            found = None
        if isinstance(found, dict) and all(isinstance(name, str) for name in found):
            return {name: value for name, value in found.items() if value not in ("", [], None)}
    return _read_plain(lines)


def _read_plain(lines: list[str]) -> dict[str, Any]:
    """The part of YAML that notes use: `name: value`, `name: [a, b]`, and lists of `- value` lines."""
    found: dict[str, Any] = {}
    name = ""
    for line in lines:
        item = re.match(r"\s*-\s+(.*)", line)
        field = _FIELD.fullmatch(line.rstrip())
        if item and name:
            found[name] = [*(found[name] if isinstance(found[name], list) else []), _bare(item[1])]
        elif field:
            name = field[1].strip()
            found[name] = _value(field[2].strip())
    return {name: value for name, value in found.items() if value not in ("", [], None)}


def _value(text: str) -> str | list[str]:
    if text.startswith("[") and text.endswith("]"):
        return [part for part in map(_bare, text[1:-1].split(",")) if part]
    return _bare(text)


def _bare(text: str) -> str:
    text = text.strip()
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'" else text


def facts(note: Note, title: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """Line and fields of each thing a note says: observations and relations, then its prose as one."""
    prose: list[tuple[int, str]] = []
    fenced = False
    for number, line in note.lines:
        fenced ^= _FENCE.match(line) is not None
        said = None if fenced else (_relation(line, title) or _observation(line, title))
        if said is None:
            prose.append((number, line))
        else:
            yield number, said
    text = "\n".join(line for _, line in prose).strip()
    if any(line.strip() and not _HEADING.match(line) for _, line in prose):
        first = next(number for number, line in prose if line.strip())
        yield first, {"content": describe_entity(title, text), "memory_type": "context"}


def _observation(line: str, title: str) -> dict[str, Any] | None:
    match = _OBSERVATION.fullmatch(line.rstrip())
    if match is None or _NO_CATEGORY.fullmatch(match["category"]):
        return None
    text, context = match["text"], _CONTEXT.search(match["text"])
    text = text[: context.start()] if context else text
    bare = _TAG.sub("", text).strip() or text
    more = {"context": context["context"]} if context and context["context"] else {}
    return {
        "content": describe_entity(title, bare),
        "category": match["category"].strip(),
        "tags": _TAG.findall(text),
        "metadata": more,
    }


def _relation(line: str, title: str) -> dict[str, Any] | None:
    match = _RELATION.fullmatch(line)
    if match is None:
        return None
    kind = match["double"] or match["single"] or match["word"] or "links to"
    more = {"relation": kind, "to": match["target"]} | ({"context": match["context"]} if match["context"] else {})
    return {"content": describe_relation(title, kind, match["target"]), "metadata": more}


def describe_entity(name: str, text: str) -> str:
    """A sentence that says whom it is about: alone, "likes tea" is of no use."""
    return text if name.casefold() in text.casefold() else f"{name}: {text}"


def describe_relation(one: str, kind: str, other: str) -> str:
    return " ".join((one, kind.replace("_", " ").strip(), other))


# -- the points of a text ---------------------------------------------------------------------


def list_points(lines: Iterable[tuple[int, str]], file: str = "") -> Iterator[tuple[int, str]]:
    """Each point of a list and each paragraph, with its line and heading; what is below a point belongs to it.

    A heading that only names the file (`# Memory` in MEMORY.md) is none, and a point without a word says nothing.
    """
    names = ("", file.casefold(), file.casefold().removesuffix(".md"))
    for number, heading, text in _split_points(lines):
        if re.search(r"\w", text):
            yield number, text if heading.casefold() in names else describe_entity(heading, text)


def _split_points(lines: Iterable[tuple[int, str]]) -> Iterator[tuple[int, str, str]]:
    heading, start, point = "", 0, list[str]()
    is_listed = is_fenced = False
    for number, line in _without_comments(lines):
        title = None if is_fenced else _TITLE.fullmatch(line)
        match = None if is_fenced else _POINT.fullmatch(line)
        is_new = bool(match and (not match["indent"] or not is_listed))
        is_over = title is not None or is_new or (not is_fenced and not line.strip() and not is_listed)
        is_prose = bool(line[:1].strip()) and match is None and _FENCE.match(line) is None
        is_over = is_over or (not is_fenced and is_listed and is_prose)
        if is_over and point:
            yield start, heading, "\n".join(point).strip()
            point = []
        if title:
            heading, is_listed = title["text"], False
            continue
        is_fenced ^= _FENCE.match(line) is not None
        if not point:
            if not line.strip() or (not is_fenced and _IMPORT.fullmatch(line)):
                continue
            start, is_listed = number, bool(match)
        point.append(match["text"] if match and is_new else line.rstrip())
    if point:
        yield start, heading, "\n".join(point).strip()


def _without_comments(lines: Iterable[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    listed = list(lines)
    text = _COMMENT.sub(lambda match: "\n" * match[0].count("\n"), "\n".join(line for _, line in listed))
    return zip((number for number, _ in listed), text.split("\n"), strict=True)
