"""Values set in the text of a document: what is not set stays as it is written, comments, quotes and layout.

YAML and JSON are edited where a value stands, which the parser of YAML tells for both; TOML by tomlkit. Nothing is
trusted: what was written is read again and has to say exactly what was asked for, with every comment still there.
"""

from __future__ import annotations

import copy
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from memlake.collector import pause_gc
from memlake.contents.content import Unreadable
from memlake.contents.documents import find_name, is_same, parse, text_of
from memlake.named_tuple import NamedTuple
from memlake.versions.text.lines import opcodes, split_lines

_TOML_TOKEN = re.compile(
    r'''"""(?:\\.|[^\\])*?"{3,5}|'{3}.*?'{3,5}|"(?:\\.|[^"\\\n])*"|'[^'\n]*'|\#[^\r\n]*''', re.DOTALL
)


class Written(NamedTuple):
    """A document as it is written, and what it says."""

    text: str
    value: Any


class Task(NamedTuple):
    """The value that a document is to have, and the sides of a merge: where its values are written."""

    kind: str  # "json", "yaml" or "toml"
    value: Any
    base: Written
    ours: Written
    theirs: Written


class _CannotEdit(Exception):
    """The text is written in a way that is not edited here."""


def rewrite(text: str, task: Task) -> str | None:
    """The text with the values of a task; None if it cannot be made to say exactly them."""
    try:
        value = task.ours.value if text == task.ours.text else parse(task.kind, text.encode(), "")
        start, is_said = text, is_same(value, task.value)
        if not is_said:
            edit = _edit_toml if task.kind == "toml" else _edit_nodes
            text = edit(text, value, task)
        text = _carry_comments(text, task)
        if not (is_said and text == start) and not is_same(parse(task.kind, text.encode(), ""), task.value):
            return None
        _refuse_repeated(text, task.kind)
    except (_CannotEdit, Unreadable, RecursionError, LookupError, ValueError, TypeError, AttributeError):
        return None  # a parser, or a layout that is not foreseen here: whoever asked has another way
    return text


def _refuse_repeated(text: str, kind: str) -> None:
    """A key that stands twice in a mapping: joined lines can make that, and readers take either."""
    if kind == "json":
        json.loads(text, object_pairs_hook=_check_pairs)
    nodes, seen = [_compose(text, kind)] if kind == "yaml" else [], set[int]()
    while nodes:
        node = nodes.pop()
        if node.id == "scalar" or id(node) in seen:
            continue
        seen.add(id(node))
        if node.id == "mapping":
            _check_pairs([((key.tag, key.value), None) for key, _ in node.value if key.id == "scalar"])
        nodes += node.value if node.id == "sequence" else [one for pair in node.value for one in pair]


def _check_pairs(pairs: list[tuple[Any, Any]]) -> None:
    if len({key for key, _ in pairs}) < len(pairs):
        raise _CannotEdit


# -- YAML and JSON ----------------------------------------------------------------------------------


class _Spot(NamedTuple):
    """A value, and where it is written."""

    text: str
    node: Any
    value: Any
    in_flow: bool
    key: str = ""  # as it is written
    begin: int = 0  # of its entry: its key, or its dash

    @property
    def start(self) -> int:
        return int(self.node.start_mark.index)

    @property
    def end(self) -> int:
        return _find_end(self.node, self.text)

    @property
    def is_inline(self) -> bool:
        """Whether it is written in one line, or in brackets."""
        if self.node.id == "scalar":
            return self.start < self.end and self.node.style not in ("|", ">") and "\n" not in self.written
        return bool(self.node.flow_style)

    @property
    def written(self) -> str:
        return self.text[self.start : self.end]

    @property
    def column(self) -> int:
        return self.begin - (self.text.rfind("\n", 0, self.begin) + 1)

    @property
    def is_first_in_line(self) -> bool:
        return not self.text[self.begin - self.column : self.begin].strip()

    @property
    def line_end(self) -> int:
        return self.text.find("\n", self.end) + 1 or len(self.text)


def _find_end(node: Any, text: str) -> int:
    """Where a value ends; collections without brackets are said to end where the next one begins."""
    while node.id != "scalar" and not node.flow_style:
        last = node.value[-1]
        node = last[1] if node.id == "mapping" else last
    end = int(node.end_mark.index)
    if node.id == "scalar" and node.style in ("|", ">"):
        end = len(text[:end].rstrip("\n"))
    return end


def _compose(text: str, kind: str) -> Any:
    import yaml  # slow to load

    try:
        with pause_gc():
            loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
            node = yaml.compose(text.replace("\t", " ") if kind == "json" else text, Loader=loader)
    except yaml.YAMLError as error:
        raise _CannotEdit from error
    if node is None:
        raise _CannotEdit
    return node


def _open_spot(written: Written, kind: str) -> _Spot:
    return _Spot(written.text, _compose(written.text, kind), written.value, kind == "json")


def _list_spots(spot: _Spot) -> list[_Spot]:
    """The values of a mapping or a list, in their order."""
    node, text = spot.node, spot.text
    if not isinstance(spot.value, Mapping | list) or len(node.value) != len(spot.value):
        raise _CannotEdit  # a key that stands twice, or <<
    in_flow = spot.in_flow or bool(node.flow_style)
    if isinstance(spot.value, list):
        spots = [_Spot(text, inner, value, in_flow) for inner, value in zip(node.value, spot.value, strict=True)]
        if in_flow:
            return [one._replace(begin=one.start) for one in spots]
        dashes = [text.rindex("-", 0, one.start if one.start < one.end else one.start + 1) for one in spots]
        return [one._replace(begin=dash) for one, dash in zip(spots, dashes, strict=True)]
    return [
        _Spot(text, inner, value, in_flow, text[key.start_mark.index : key.end_mark.index], key.start_mark.index)
        for (key, inner), value in zip(node.value, spot.value.values(), strict=True)
    ]


def _edit_nodes(text: str, value: Any, task: Task) -> str:
    sources = [_open_spot(side, task.kind) for side in (task.theirs, task.ours)]
    editor = _Editor(task.kind, text, task.theirs.text)
    if not editor.change(_open_spot(Written(text, value), task.kind), task.value, sources):
        same = (source.text for source in sources if is_same(source.value, task.value))
        return next(same, "") or editor.dump(task.value)
    for start, end, new in sorted(editor.changes, key=lambda change: change[:2], reverse=True):
        text = text[:start] + new + text[end:]
    return text


class _Editor:
    """Collects what to write where, as (start, end, text)."""

    def __init__(self, kind: str, text: str, theirs: str) -> None:
        self.kind, self.text = kind, text
        self.newline = "\r\n" if "\r\n" in text else "\n"
        self.their_lines = Counter(line.strip() for line in split_lines(theirs))
        self.changes: list[tuple[int, int, str]] = []

    def dump(self, value: Any) -> str:
        """A value in one line."""
        if self.kind == "json":
            return json.dumps(value, ensure_ascii=self.text.isascii())
        import yaml  # slow to load

        text: str = yaml.safe_dump(value, default_flow_style=True, width=1 << 30, allow_unicode=True, sort_keys=False)
        return text.removesuffix("\n").removesuffix("\n...")

    def change(self, spot: _Spot, value: Any, sources: Sequence[_Spot]) -> bool:
        """Set what differs inside of a value; False if all of it has to be written anew."""
        if is_same(spot.value, value):
            return True
        if not (spot.value and value):
            return False
        if isinstance(spot.value, Mapping) and isinstance(value, Mapping):
            self._change_mapping(spot, value, [one for one in sources if isinstance(one.value, Mapping)])
        elif isinstance(spot.value, list) and isinstance(value, list):
            self._change_list(spot, value, [one for one in sources if isinstance(one.value, list)])
        else:
            return False
        return True

    def _change_mapping(self, spot: _Spot, value: Mapping[Any, Any], sources: Sequence[_Spot]) -> None:
        spots = _list_spots(spot)
        known = [dict(zip(source.value, _list_spots(source), strict=True)) for source in sources]
        self._remove(spots, [key not in value for key in spot.value])
        for key, inner in zip(spot.value, spots, strict=True):
            if key in value:
                self._set(inner, value[key], [source[key] for source in known if key in source])
        for key in value:
            if key not in spot.value:
                source = self._find_same([source[key] for source in known if key in source], value[key])
                self._insert(spots, len(spots), self._write_entry(source, spots[0], value[key], self.dump(key)))

    def _change_list(self, spot: _Spot, value: list[Any], sources: Sequence[_Spot]) -> None:
        spots = _list_spots(spot)
        written = [inner for source in sources for inner in _list_spots(source)]
        name = find_name(spot.value, value)
        labels = [[text_of(item[name] if name else item) for item in items] for items in (spot.value, value)]
        removed = [False] * len(spots)
        for tag, i1, i2, j1, j2 in opcodes(*labels):
            both = min(i2 - i1, j2 - j1)
            for i, j in zip(range(i1, i1 + both), range(j1, j1 + both), strict=True):
                near = [one for one in written if name and isinstance(one.value, Mapping)]
                near = [one for one in near if text_of(one.value.get(name)) == labels[1][j]]
                self._set(spots[i], value[j], near or [one for one in written if is_same(one.value, value[j])])
            if tag == "equal":
                continue
            for i in range(i1 + both, i2):
                removed[i] = True
            for j in range(j1 + both, j2):
                source = self._find_same(written, value[j])
                self._insert(spots, i1 + both, self._write_entry(source, spots[0], value[j], ""))
        self._remove(spots, removed)

    def _set(self, spot: _Spot, value: Any, sources: Sequence[_Spot]) -> None:
        if self.change(spot, value, sources):
            return
        source = self._find_same(sources, value)
        if spot.is_inline and (source is None or source.is_inline) and spot.in_flow <= (source or spot).in_flow:
            self.changes.append((spot.start, spot.end, source.written if source else self.dump(value)))
        else:
            entry = self._write_entry(source, spot, value, spot.key)
            self.changes.append((spot.begin, spot.end, entry))

    def _find_same(self, sources: Sequence[_Spot], value: Any) -> _Spot | None:
        return next((one for one in sources if is_same(one.value, value)), None)

    def _write_entry(self, source: _Spot | None, like: _Spot, value: Any, key: str) -> str:
        """An entry of a mapping or a list as its source has it, as far to the right as those beside it."""
        if source is None or (like.in_flow and not source.in_flow) or (like.key == "") != (source.key == ""):
            between = ": " if like.key else "" if like.in_flow else "- "
            return f"{key}{between}{self.dump(value)}"
        shift = like.column - source.column
        if like.in_flow:  # the lines of what is in brackets stand as far as the line that it begins in
            shift = _find_indent(like) - _find_indent(source)
        first, *more = split_lines(source.text[source.begin : source.end])
        moved = [" " * shift + line if line.strip() else line for line in more]
        if shift < 0:
            moved = [line[min(-shift, len(line) - len(line.lstrip(" \t"))) :] for line in more]
        return "".join((first, *moved)).replace("\r\n", "\n").replace("\n", self.newline)

    def _insert(self, spots: Sequence[_Spot], number: int, entry: str) -> None:
        """Write an entry behind as many of those that are there."""
        first = spots[0]
        if first.in_flow:
            gap = self.text[spots[-2].end : spots[-1].begin] if len(spots) > 1 else ""
            if not re.fullmatch(r"\s*,\s*", gap):
                lead = re.search(r"\n[ \t]*$", self.text[: first.begin])
                gap = f",{self.newline[:-1]}{lead[0]}" if lead else ", " if ", " in self.text else ","
            at = spots[number - 1].end if number else first.begin
            self.changes.append((at, at, gap + entry if number else entry + gap))
        elif number:
            at = spots[number - 1].line_end
            ended = self.text[:at].endswith("\n")
            entry = " " * first.column + entry
            self.changes.append((at, at, entry + self.newline if ended else self.newline + entry))
        else:
            self.changes.append((first.begin, first.begin, entry + self.newline + " " * first.column))

    def _remove(self, spots: Sequence[_Spot], removed: Sequence[bool]) -> None:
        last = max((number for number, gone in enumerate(removed) if not gone), default=-1)
        for number, spot in enumerate(spots):
            if not removed[number]:
                continue
            if last < 0:
                raise _CannotEdit
            if spot.in_flow:
                if number < last:
                    self.changes.append((spot.begin, spots[number + 1].begin, ""))
                elif number == last + 1:
                    self.changes.append((spots[last].end, spots[-1].end, ""))
            elif spot.is_first_in_line:
                self.changes.append((self._find_top(spot), spot.line_end, ""))
            elif removed[number + 1]:
                raise _CannotEdit
            else:
                self.changes.append((spot.begin, spots[number + 1].begin, ""))

    def _find_top(self, spot: _Spot) -> int:
        """Where an entry begins, with the comments above it that they do not have either."""
        top = spot.begin - spot.column
        while top:
            above = self.text.rfind("\n", 0, top - 1) + 1
            line = self.text[above:top].strip()
            if not line.startswith("#") or line in self.their_lines:
                break
            top = above
        return top


def _find_indent(spot: _Spot) -> int:
    line = spot.text[spot.begin - spot.column : spot.begin + 1]
    return len(line) - len(line.lstrip(" \t"))


# -- TOML -------------------------------------------------------------------------------------------


def _edit_toml(text: str, value: Any, task: Task) -> str:
    import tomlkit  # slow to load

    document = tomlkit.parse(text)
    _set_toml(document, value, task.value, [tomlkit.parse(side.text) for side in (task.theirs, task.ours)])
    return tomlkit.dumps(document)


def _set_toml(table: Any, old: Any, new: Any, sources: Sequence[Any]) -> None:
    """Set what differs between two values of a table or an array in it; of the sources, what is written already."""
    if isinstance(new, Mapping):
        for key in [key for key in old if key not in new]:
            del table[key]
        for key, item in new.items():
            inner = [source[key] for source in sources if isinstance(source, Mapping) and key in source]
            if key not in old or not _enter_toml(table[key], old[key], item, inner):
                table[key] = _find_item(inner, item, bare=key in old)
        return
    name = find_name(old, new)
    labels = [[text_of(item[name] if name else item) for item in items] for items in (old, new)]
    written = [item for source in sources if isinstance(source, list) for item in source]
    for tag, i1, i2, j1, j2 in reversed([*opcodes(*labels)]):
        both = min(i2 - i1, j2 - j1)
        if tag != "equal":
            for _ in range(i1 + both, i2):
                del table[i1 + both]
            for j in reversed(range(j1 + both, j2)):
                table.insert(i1 + both, _find_item(written, new[j]))
        for i, j in zip(range(i1, i1 + both), range(j1, j1 + both), strict=True):
            near = [one for one in written if name and isinstance(one, Mapping) and one.get(name) == new[j][name]]
            if not _enter_toml(table[i], old[i], new[j], near):
                table[i] = _find_item(written, new[j], bare=True)


def _enter_toml(item: Any, old: Any, new: Any, sources: Sequence[Any]) -> bool:
    """Set what differs inside; False if the item has to be replaced."""
    if is_same(old, new):
        return True
    if not (isinstance(old, dict | list) and type(old) is type(new) and old and new):
        return False
    _set_toml(item, old, new, sources)
    return True


def _find_item(sources: Sequence[Any], value: Any, *, bare: bool = False) -> Any:
    """A value as one of the sources writes it; `bare` without the comment behind it, which belongs to what is there."""
    import tomlkit  # slow to load

    item = next((one for one in sources if hasattr(one, "unwrap") and is_same(one.unwrap(), value)), None)
    item = tomlkit.item(value) if item is None else copy.deepcopy(item)
    if bare and not isinstance(value, Mapping):
        item.trivia.comment = item.trivia.comment_ws = ""
    return item


# -- comments ---------------------------------------------------------------------------------------


def _find_comments(text: str, kind: str) -> dict[int, tuple[int, str]]:
    """The comments of a text by their line, from 0: the column where each begins, and what it says."""
    lines = [0, *(match.end() for match in re.finditer("\n", text))]
    found, at = dict[int, tuple[int, str]](), 0
    for start in _find_hashes(text, kind):
        while at + 1 < len(lines) and lines[at + 1] <= start:
            at += 1
        found[at] = (start - lines[at], text[start:].partition("\n")[0].rstrip())
    return found


def _find_hashes(text: str, kind: str) -> Iterator[int]:
    """Where comments begin."""
    if kind == "json":
        return
    if kind == "toml":
        yield from (match.start() for match in _TOML_TOKEN.finditer(text) if match[0].startswith("#"))
        return
    import yaml  # slow to load

    at = 0
    for token in yaml.scan(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
        yield from (match.start() + at for match in re.finditer(r"#[^\n]*", text[at : token.start_mark.index]))
        at = max(at, token.end_mark.index)


def _carry_comments(text: str, task: Task) -> str:
    """The text with the comments that they added and it lacks; refuses if one that it should have is lost."""
    texts = (text, task.base.text, task.theirs.text, task.ours.text)
    if task.kind == "json" or not _may_lack_comments(*texts):
        return text
    found = [_find_comments(one, task.kind) for one in texts]
    here, _, theirs, _ = found
    held, before, other, own = (Counter(said for _, said in comments.values()) for comments in found)
    missing = (other - before) - (held - before)
    codes, their_codes = (_split_code(one, comments) for one, comments in ((text, here), (task.theirs.text, theirs)))
    lines, places = split_lines(text), dict[int, int]()
    for tag, i1, i2, j1, _ in opcodes(codes, their_codes):
        places |= dict(zip(range(j1, j1 + i2 - i1), range(i1, i2), strict=True)) if tag == "equal" else {}
    for number, (column, said) in sorted(theirs.items(), reverse=True):
        if not missing[said]:
            continue
        if not their_codes[number]:
            below = (places[j] for j in range(number, len(their_codes)) if their_codes[j] and j in places)
            at = next(below, len(lines))
        elif (at := places.get(number, -1)) < 0:
            continue  # its value is not taken, so nothing is said of it
        missing[said] -= 1
        end = "\r\n" if "\r\n" in text else "\n"
        if their_codes[number] and (at not in here or (before[here[at][1]] and not other[here[at][1]])):
            code = lines[at][: here[at][0]] if at in here else lines[at].rstrip("\r\n")
            lines[at] = f"{code.rstrip()}{_find_gap(task.theirs.text, number, column)}{said}{end}"
        else:
            if at and not lines[at - 1].endswith("\n"):
                lines[at - 1] += end
            indent = len(lines[at]) - len(lines[at].lstrip()) if their_codes[number] else column
            lines.insert(at, f"{' ' * indent}{said}{end}")
    text = "".join(lines)
    held = Counter(said for _, said in _find_comments(text, task.kind).values())
    if (own - before) - held or ((own & other & before) - held):
        raise _CannotEdit  # it would lose a comment that nobody took away
    return text


def _may_lack_comments(text: str, *sides: str) -> bool:
    """Whether a line with what may be a comment is not in the text, though no side took it away: a quick look."""
    held, base, theirs, ours = ({line.strip() for line in one.split("\n") if "#" in line} for one in (text, *sides))
    return bool(((theirs | ours) - base | base & theirs & ours) - held)


def _find_gap(text: str, number: int, column: int) -> str:
    before = split_lines(text)[number][:column]
    return before[len(before.rstrip()) :]


def _split_code(text: str, comments: Mapping[int, tuple[int, str]]) -> list[str]:
    """The lines of a text without comments."""
    lines = split_lines(text)
    return [
        line[: comments[number][0]].strip() if number in comments else line.strip() for number, line in enumerate(lines)
    ]
