"""JSON, YAML and TOML by structure: what differs, and what two edits join to, with laws over random edits."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memlake.contents import documents, merge_documents
from memlake.contents.content import Content, Unreadable
from memlake.contents.documents import ValueChange
from memlake.contents.explain import How, explain
from memlake.contents.merged import InnerConflict, Merged, MergeHow
from tests.torture import examples

OPEN = MergeHow()


def make(text: str, suffix: str = "json") -> Content:
    data = text.encode()
    return Content(f"files/x.{suffix}", len(data), lambda: io.BytesIO(data))


def changes(old: str, new: str, suffix: str = "json") -> list[tuple[str, str]]:
    found = documents.diff(make(old, suffix), make(new, suffix), How(limit=None))
    assert len(found.values) == found.added + found.removed + found.changed
    return [(value.status, value.path) for value in found.values]


def merge(base: Any, ours: Any, theirs: Any, how: MergeHow = OPEN) -> Merged:
    return merge_documents.merge(*(make(json.dumps(side)) for side in (base, ours, theirs)), how)


def test_values_that_differ_are_named_by_their_path() -> None:
    old = '{"lr": 0.1, "layers": [{"size": 8}, {"size": 16}], "old": true, "x y": 1}'
    new = '{"lr": 0.01, "layers": [{"size": 8}, {"size": 32}, {"size": 4}], "new": null, "x y": 1.0}'
    assert changes(old, new) == [
        ("M", "lr"),
        ("M", "layers[1].size"),
        ("A", "layers[2]"),
        ("A", "new"),
        ("M", '["x y"]'),
        ("D", "old"),
    ]


def test_items_with_a_name_are_compared_by_it_in_any_order() -> None:
    old, new = '[{"id": 1, "v": 1}, {"id": 2, "v": 2}]', '[{"id": 2, "v": 3}, {"id": 1, "v": 1}]'
    assert changes(old, new) == [("M", "[0].v")]


@pytest.mark.parametrize(
    ("old", "new", "moved", "told"),
    [
        ('["a", "b", "c"]', '["c", "a", "b"]', 1, []),
        ('["a", "b", "c"]', '["c", "x", "a"]', 1, [("D", "[1]"), ("A", "[1]")]),
        ('{"t": [1, 1, 2, 3]}', '{"t": [3, 1, 2]}', 1, [("D", "t[1]")]),
        ('[{"id": 1, "v": 1}, {"id": 2, "v": 2}]', '[{"id": 2, "v": 3}, {"id": 1, "v": 1}]', 1, [("M", "[0].v")]),
        ('[{"id": 1}, {"id": 2}]', '[{"id": 2}, {"id": 1}]', 1, []),
        ('["a", "b"]', '["a", "b", "c"]', 0, [("A", "[2]")]),
    ],
)
def test_items_that_moved_are_said_to_have_moved(old: str, new: str, moved: int, told: list[tuple[str, str]]) -> None:
    found = documents.diff(make(old), make(new), How(limit=None))
    assert found.moved == moved and not found.is_empty
    assert [(value.status, value.path) for value in found.values] == told
    assert bool(moved) == any("in another place of" in note for note in found.notes)


@pytest.mark.parametrize(
    ("suffix", "old", "new", "expected"),
    [
        ("yaml", "a: 1\nb: [1, 2]\n", "b: [1, 2, 3] # more\na: '1'\n", [("A", "b[2]"), ("M", "a")]),
        ("toml", "[m]\nx = 1979-05-27\n", "[m]\nx = 1979-05-28\n", [("M", "m.x")]),
        ("json", "", "{}", [("M", ".")]),
        ("json", "NaN", " NaN ", []),
    ],
)
def test_every_format_is_compared_by_value(suffix: str, old: str, new: str, expected: list[tuple[str, str]]) -> None:
    assert changes(old, new, suffix) == expected


@pytest.mark.parametrize(
    ("suffix", "text", "said"),
    [
        ("json", '{"a": ', "cannot be read as JSON"),
        ("json", "[" * 100_000, "nested too deeply|cannot be read as JSON"),
        ("yaml", "a: [1\n", "cannot be read as YAML"),
        ("yaml", "a: !!python/object/apply:os.system [true]\n", "cannot be read as YAML"),
        ("toml", "a = \n", "cannot be read as TOML"),
    ],
)
def test_what_cannot_be_read_is_said_in_words(suffix: str, text: str, said: str) -> None:
    with pytest.raises(Unreadable, match=said):
        documents.summarize(make(text, suffix))


def test_yaml_that_names_more_values_than_memory_holds_is_refused() -> None:
    lines = ["a0: &a0 [x,x,x,x,x,x,x,x,x,x]"]
    lines += [f"a{n}: &a{n} [{','.join(f'*a{n - 1}' for _ in range(10))}]" for n in range(1, 9)]
    with pytest.raises(Unreadable, match="more than 1,000,000 values"):
        documents.summarize(make("\n".join(lines), "yaml"))


def test_edits_of_different_values_are_both_kept_in_our_order_and_layout() -> None:
    base, ours = (
        '{\n    "a": 1,\n    "b": {\n        "c": 2\n    }\n}\n',
        '{\n    "b": {\n        "c": 3\n    },\n    "a": 1\n}\n',
    )
    merged = merge_documents.merge(make(base), make(ours), make(base.replace('"a": 1', '"a": 9')), MergeHow())
    assert merged.data == ours.replace('"a": 1', '"a": 9').encode()


@pytest.mark.parametrize(
    ("suffix", "form"),
    [
        ("yaml", "a: {} # why\nb: {}\n"),
        ("toml", "a = {} # why\nb = {}\n"),
        ("toml", "[t]\na = {} # why\nb = {}\n"),
        ("yaml", "- {{a: {},   b: {}}}\n"),
        ("json", '{{"a": {}, "f": 0.10000000000000000001, "b": {}}}'),
        ("json", '{{\r\n  "a": {},\r\n  "b": {}\r\n}}\r\n'),
        ("json", '{{"a": {},   "b": {}}}'),
    ],
)
def test_a_value_is_set_where_it_stands_and_the_rest_stays_as_it_is_written(suffix: str, form: str) -> None:
    sides = (make(form.format(*values), suffix) for values in ((1, 1), (2, 1), (1, 2)))
    assert merge_documents.merge(*sides, MergeHow()) == Merged(form.format(2, 2).encode())


def test_a_text_in_which_a_key_stands_twice_is_left_to_the_merge_of_lines() -> None:
    form = '{{"a": {}, "k": 1, "k": 2, "b": {}}}'
    sides = (make(form.format(*values)) for values in ((1, 1), (2, 1), (1, 2)))
    with pytest.raises(Unreadable, match="merged by lines"):
        merge_documents.merge(*sides, MergeHow())


def test_each_side_is_read_once() -> None:
    sides = [make(json.dumps({"a": number, "b": 2})) for number in (1, 1, 3)]
    merge_documents.merge(*sides, MergeHow())
    assert [side.bytes_read for side in sides] == [side.size for side in sides]
    old, new = make("a: 1 # x\n", "yaml"), make("a: 2\n", "yaml")
    documents.diff(old, new, How())
    assert (old.bytes_read, new.bytes_read) == (old.size, new.size)


def test_a_document_too_large_to_be_looked_into_is_not_read() -> None:
    large = Content("files/x.json", 50 << 20, lambda: pytest.fail("it was read"))
    with pytest.raises(Unreadable, match="has 52,428,800 bytes, and JSON is looked into up to 33,554,432"):
        documents.diff(large, large, How())


def test_a_document_nested_too_deeply_is_told_in_words() -> None:
    sides = [make("[" * 700 + f"{number}" + "]" * 700) for number in (1, 2)]
    found = explain(*sides, How())
    assert found is not None and found.record is None and "nested too deeply" in found.note


@pytest.mark.parametrize(("old", "new"), [('[{"a": 1}]', '[{"a": 1.0}]'), ('{"a": [1]}', '{"a": [true]}')])
def test_values_of_another_type_differ_however_quickly_one_looks(old: str, new: str) -> None:
    assert [status for status, _ in changes(old, new)] == ["M"]


def test_a_changed_comment_is_noted() -> None:
    found = documents.diff(make("a: 1 # keep\nb: 1\n", "yaml"), make("a: 1\nb: 2\n", "yaml"), How())
    assert found.notes == ("comments differ, too: --text shows them",)


def test_the_same_value_changed_twice_is_a_conflict_of_that_value() -> None:
    found = merge({"a": 1, "b": [1, 2]}, {"a": 2, "b": [1, 2, 3]}, {"a": 3, "b": [0, 1, 2]})
    assert found == Merged(b'{"a": 2, "b": [0, 1, 2, 3]}', (InnerConflict("a", 1, 2, 3, {"path": "a"}),))


def test_a_place_is_settled_by_its_choice_and_all_others_by_the_strategy() -> None:
    sides = ({"a": 1, "b": 1, "c": [1]}, {"a": 2, "b": 2, "c": [2]}, {"a": 3, "b": 3, "c": [3]})
    assert [one.place for one in merge(*sides).conflicts] == ["a", "b", "c"]
    one = merge(*sides, MergeHow(choices={"a": "theirs"}))
    assert (one.data, len(one.conflicts)) == (b'{"a": 3, "b": 2, "c": [2]}', 2)
    assert merge(*sides, MergeHow(choices={"a": "ours"}, strategy="theirs")) == Merged(b'{"a": 2, "b": 3, "c": [3]}')
    assert merge(*sides, MergeHow(strategy="latest", latest="theirs")) == Merged(json.dumps(sides[2]).encode())
    assert len(merge(*sides, MergeHow(strategy="latest")).conflicts) == 3  # nobody can say which is the latest
    both = merge(*sides, MergeHow(strategy="union"))
    assert (both.data, [one.place for one in both.conflicts]) == (b'{"a": 2, "b": 2, "c": [2, 3]}', ["a", "b"])


def test_a_value_of_a_named_item_is_a_place_of_its_own() -> None:
    sides = [[{"id": 17, "v": [v]}, {"id": "17", "v": [v]}] for v in (1, 2, 3)]
    found = merge(*sides)
    assert [one.place for one in found.conflicts] == ["[id=17].v", '[id="17"].v']
    assert found.conflicts[0].where == {"id": 17, "path": "[id=17].v"}
    chosen = merge(*sides, MergeHow(choices={'[id="17"].v': "theirs", "[id=17].v": "ours"}))
    assert chosen == Merged(json.dumps([sides[1][0], sides[2][1]]).encode())


def test_an_item_that_one_removed_and_the_other_edited_is_there_only_if_the_edit_is_chosen() -> None:
    kept = {"id": 2}
    sides = ([{"id": 1, "v": 1}, kept], [kept], [{"id": 1, "v": 2}, kept])
    assert merge(*sides).conflicts == (
        InnerConflict("[id=1]", {"id": 1, "v": 1}, None, {"id": 1, "v": 2}, {"id": 1, "path": "[id=1]"}),
    )
    assert json.loads(merge(*sides, MergeHow(strategy="ours")).data or b"") == [kept]
    assert json.loads(merge(*sides, MergeHow(strategy="theirs")).data or b"") == [kept, {"id": 1, "v": 2}]


def test_both_sides_append_to_a_list_and_all_items_are_there() -> None:
    assert merge([1], [1, 2], [1, 3]).data == b"[1, 2, 3]"
    items = merge([{"id": 1}], [{"id": 1, "v": 1}, {"id": 2}], [{"id": 1}, {"id": 3}]).data
    assert json.loads(items or b"") == [{"id": 1, "v": 1}, {"id": 2}, {"id": 3}]


values = st.recursive(
    st.sampled_from([None, True, 0, 1, 1.0, "", "x"]),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.sampled_from("abcd"), inner, max_size=4)),
    max_leaves=12,
)


def test_a_new_order_of_named_items_is_a_difference() -> None:
    old = [{"id": number, "v": number} for number in range(5)]
    assert documents.diff(make(json.dumps(old)), make(json.dumps(old[::-1])), How()).moved == 4


@settings(max_examples=examples(100), deadline=None)
@given(values, values)
def test_a_diff_is_empty_exactly_where_values_are_the_same(a: Any, b: Any) -> None:
    found = documents.diff(make(json.dumps(a)), make(json.dumps(b)), How())
    assert found.is_empty == documents.is_same(a, b)


@settings(max_examples=examples(100), deadline=None)
@given(values, values, values)
def test_a_merge_keeps_the_laws(base: Any, ours: Any, theirs: Any) -> None:
    assert json.loads(merge(base, ours, base).data or b"") == ours  # an ancestor changes nothing
    assert json.loads(merge(base, base, theirs).data or b"") == theirs
    assert json.loads(merge(base, ours, ours).data or b"") == ours
    here, there = merge(base, ours, theirs), merge(base, theirs, ours)
    assert {one.place for one in here.conflicts} == {one.place for one in there.conflicts}


@settings(max_examples=examples(100), deadline=None)
@given(st.dictionaries(st.sampled_from("abcdefgh"), values), st.data())
def test_edits_of_different_keys_always_merge(base: dict[str, Any], data: st.DataObject) -> None:
    ours, theirs, expected = dict(base), dict(base), dict(base)
    for side, keys in ((ours, "abcd"), (theirs, "efgh")):
        for key in data.draw(st.sets(st.sampled_from(keys))):
            side[key] = expected[key] = data.draw(values)
    assert json.loads(merge(base, ours, theirs).data or b"") == expected


def test_a_change_is_told_with_both_values() -> None:
    found = documents.diff(make('{"a": 1}'), make('{"a": [2]}'), How())
    assert found.values == (ValueChange("M", "a", 1, [2]),)
