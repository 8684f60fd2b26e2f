"""Laws of joining YAML, TOML and JSON as people write them, over random documents with comments and odd layouts."""

from __future__ import annotations

import io
import json
import re
from collections import Counter
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from memlake.contents import documents, merge_documents
from memlake.contents.content import Content, Unreadable
from memlake.contents.documents import is_same
from memlake.contents.merged import Merged, MergeHow

FORMATS = ("yaml", "toml", "json")
Lines = list[str]
scalars = st.sampled_from(
    [True, 0, 1, 17, 1.5, "", "x", "a b", "no # comment", "it's", 'say "so"', "ü", "1", "- a", "a: b"]
)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.sampled_from("abcd"), inner, max_size=3)),
    max_leaves=6,
)
maps = st.dictionaries(st.sampled_from(["a", "b", "c", "lr", "x y", "name"]), values, max_size=5)


class Writer:
    """Writes a document as a person might: comments, either kind of quotes, brackets here and lines there."""

    def __init__(self, data: st.DataObject, kind: str) -> None:
        self.data, self.kind, self.count = data, kind, 0

    def flip(self) -> bool:
        return bool(self.data.draw(st.booleans()))

    def comment(self) -> str:
        self.count += 1
        return f"# note {self.count}"

    def write(self, value: dict[str, Any]) -> str:
        if self.kind == "json":
            indent = self.data.draw(st.sampled_from([None, 2, "\t"]))
            return json.dumps(value, indent=indent, ensure_ascii=False) + self.data.draw(
                st.sampled_from(["", "\n", "\n\n"])
            )
        if not value:
            return f"{self.comment()}\n" + ("{}\n" if self.kind == "yaml" else "")
        text = "\n".join(self.yaml(value, 0) if self.kind == "yaml" else self.toml(value))
        return text + "\n" if self.flip() else text

    def scalar(self, value: Any) -> str:
        if isinstance(value, str) and re.fullmatch(r"[a-z]+( [a-z]+)*", value) and value not in ("no",) and self.flip():
            return value
        if isinstance(value, str) and "'" not in value and self.flip():
            return f"'{value}'"
        return json.dumps(value, ensure_ascii=False)

    def yaml(self, value: Any, indent: int) -> Lines:
        lines, pad = Lines(), " " * indent
        for key in value if isinstance(value, dict) else range(len(value)):
            if self.flip():
                lines.append(f"{pad}{self.comment()}")
            item, first = (
                value[key],
                f"{pad}{json.dumps(key) if ' ' in str(key) else key}:" if isinstance(value, dict) else f"{pad}-",
            )
            if isinstance(item, dict | list) and item and self.flip():
                lines += [first, *self.yaml(item, indent + 2)]
            else:
                written = json.dumps(item, ensure_ascii=False) if isinstance(item, dict | list) else self.scalar(item)
                lines.append(f"{first} {written}" + (f"  {self.comment()}" if self.flip() else ""))
        return lines

    def toml(self, value: dict[str, Any], path: tuple[str, ...] = ()) -> Lines:
        lines, tables = Lines(), []
        for key, item in value.items():
            if isinstance(item, dict) and self.flip():
                tables.append(key)
                continue
            if self.flip():
                lines.append(self.comment())
            lines.append(f"{json.dumps(key)} = {self.inline(item)}" + (f" {self.comment()}" if self.flip() else ""))
        for key in tables:
            inner = (*path, key)
            lines += ["", f"[{'.'.join(map(json.dumps, inner))}]", *self.toml(value[key], inner)]
        return lines

    def inline(self, value: Any) -> str:
        if isinstance(value, dict):
            return "{" + ", ".join(f"{key} = {self.inline(item)}" for key, item in value.items()) + "}"
        if isinstance(value, list):
            return "[" + ", ".join(map(self.inline, value)) + "]"
        return json.dumps(value, ensure_ascii=False)


def make(text: str, kind: str) -> Content:
    data = text.encode()
    return Content(f"files/x.{kind}", len(data), lambda: io.BytesIO(data))


def read(data: bytes | None, kind: str) -> Any:
    assert data is not None
    return documents.parse(kind, data, "x")


def edit(text: str, kind: str, data: st.DataObject) -> str:
    """A few lines changed as by hand; what is not a document any more is what it was."""
    lines = text.split("\n")
    for _ in range(data.draw(st.integers(0, 3))):
        at = data.draw(st.integers(0, len(lines) - 1))
        what = data.draw(st.sampled_from(["drop", "value", "comment", "add"]))
        if what == "drop":
            lines[at : at + 1] = []
        elif what == "value":
            lines[at] = re.sub(
                r"\b(1|0|17|true|x)\b", lambda _: str(data.draw(st.integers(100, 105))), lines[at], count=1
            )
        elif what == "add":
            mark = {"yaml": ":", "toml": " =", "json": ":"}[kind]
            key, value = data.draw(st.sampled_from(["new", "more"])), data.draw(st.integers(0, 3))
            pad = re.match(r"[ \t]*", lines[at])
            lines.insert(at, f'{pad[0] if pad else ""}"{key}"{mark} {value}' + ("," if kind == "json" else ""))
        elif kind != "json":
            lines.insert(at, f"# added {data.draw(st.integers(0, 99))}")
        lines = lines or [""]
    changed = "\n".join(lines)
    try:
        is_document = isinstance(read(changed.encode(), kind), dict)
    except Unreadable:
        is_document = False
    return changed if is_document else text


def merge(kind: str, base: str, ours: str, theirs: str, how: MergeHow) -> Merged | None:
    try:
        return merge_documents.merge(*(make(text, kind) for text in (base, ours, theirs)), how)
    except Unreadable:
        return None


def comments(text: str, kind: str) -> Counter[str]:
    return Counter(re.findall(r"# (?:note|added) \d+", text)) if kind != "json" else Counter()


@pytest.mark.parametrize("kind", FORMATS)
@settings(max_examples=200, deadline=None)
@given(data=st.data(), value=maps)
def test_what_is_joined_says_what_the_values_join_to_and_keeps_every_comment(
    kind: str, data: st.DataObject, value: dict[str, Any]
) -> None:
    base = Writer(data, kind).write(value)
    assert is_same(read(base.encode(), kind), value)
    ours, theirs = edit(base, kind, data), edit(base, kind, data)
    found = merge(kind, base, ours, theirs, MergeHow())
    if found is None:
        return  # by lines, which has markers where the edits touch
    said = read(found.data, kind)
    sides = [read(text.encode(), kind) for text in (base, ours, theirs)]
    expected = merge_documents._Joining(MergeHow())
    expected.join((), *sides)
    if [one.place for one in found.conflicts] == ["."]:
        assert found.data == ours.encode()
        return
    assert is_same(said, merge_documents._set_values(sides[1], expected.edits))
    text = (found.data or b"").decode()
    before, mine, other, held = (comments(one, kind) for one in (base, ours, theirs, text))
    assert not (mine - before) - held, "a comment of ours is lost"
    assert not (before & mine & other) - held, "a comment that nobody touched is lost"
    lines = {line.partition(" #")[0].strip() for line in text.split("\n")}
    told = [line for line in theirs.split("\n") if line.partition(" #")[0].strip() not in lines]
    gone = comments(
        "\n".join(line for line in told if not line.strip().startswith("#")), kind
    )  # beside what is not taken
    assert not ((other - before) - held) - gone or found.conflicts, "a comment of theirs is lost"


@pytest.mark.parametrize("kind", FORMATS)
@settings(max_examples=100, deadline=None)
@given(data=st.data(), value=maps)
def test_one_edit_alone_is_taken_as_it_was_written(kind: str, data: st.DataObject, value: dict[str, Any]) -> None:
    base = Writer(data, kind).write(value)
    other = edit(base, kind, data)
    for ours, theirs in ((base, other), (other, base), (other, other)):
        found = merge(kind, base, ours, theirs, MergeHow())
        assert found is None or found == Merged(other.encode())


@pytest.mark.parametrize("kind", FORMATS)
@settings(max_examples=100, deadline=None)
@given(data=st.data(), value=maps, side=st.sampled_from(["ours", "theirs", "union"]))
def test_what_a_strategy_makes_can_be_read(kind: str, data: st.DataObject, value: dict[str, Any], side: str) -> None:
    base = Writer(data, kind).write(value)
    ours, theirs = edit(base, kind, data), edit(base, kind, data)
    found = merge(kind, base, ours, theirs, MergeHow(strategy=side))
    if found is not None:
        assert isinstance(read(found.data, kind), dict)
        assert side == "union" or not found.conflicts


@pytest.mark.parametrize("kind", FORMATS)
def test_most_edits_of_two_neighbouring_values_are_joined(kind: str) -> None:
    base = {"yaml": "a: 1 # A\nb: 2 # B\n", "toml": "a = 1 # A\nb = 2 # B\n", "json": '{\n\t"a": 1,\n\t"b": 2\n}\n'}[
        kind
    ]
    found = merge(kind, base, base.replace("1", "5"), base.replace("2", "6").replace("# B", "# their B"), MergeHow())
    expected = base.replace("1", "5").replace("2", "6").replace("# B", "# their B")
    assert found == Merged(expected.encode())


def test_yaml_is_not_made_to_hold_a_key_twice() -> None:
    base = "a: 1\nb: 2\nc: 3\nd: 4\n"
    found = merge("yaml", base, "x: 1\n" + base, base + "x: 1\n", MergeHow())
    assert found is not None and Counter(re.findall(r"^x", (found.data or b"").decode(), re.MULTILINE)) == {"x": 1}
    assert yaml.safe_load(found.data or b"") == {"a": 1, "b": 2, "c": 3, "d": 4, "x": 1}


def test_lines_that_join_to_what_nobody_says_wait_as_a_whole() -> None:
    base = "d: &d\n  k: 1\n\n\na:\n  <<: *d\n  z: 1\n"
    ours, theirs = base.replace("k: 1", "k: 2"), base.replace("z: 1", "z: 5\n  k: 9")
    found = merge("yaml", base, ours, theirs, MergeHow())  # as lines it would say k: 9, which ours did not want
    assert found is not None and found.data == ours.encode()
    assert [one.place for one in found.conflicts] == ["."] and found.notes
    assert merge("yaml", base, ours, theirs, MergeHow(choices={".": "theirs"})) == Merged(theirs.encode())
    assert merge("yaml", base, ours, theirs, MergeHow(strategy="ours")) == Merged(ours.encode())


def test_several_documents_in_one_file_are_merged_by_lines() -> None:
    base = "a: 1\n---\na: 2\n"
    assert merge("yaml", base, base.replace("1", "3"), base.replace("2", "4"), MergeHow()) is None
    one = "---\na: 1\nb: 2\n"
    found = merge("yaml", one, one.replace("1", "3"), one.replace("2", "4"), MergeHow())
    assert found == Merged(b"---\na: 3\nb: 4\n")


def test_merge_keys_of_yaml_are_no_obstacle_to_lines() -> None:
    base = "d: &d\n  k: 1\na:\n  <<: *d\n  z: 1\nb: 1\nc: 1\n"
    found = merge("yaml", base, base.replace("k: 1", "k: 2"), base.replace("c: 1", "c: 2"), MergeHow())
    assert found == Merged(base.replace("k: 1", "k: 2").replace("c: 1", "c: 2").encode())
