"""Large texts as the places where they differ."""

from __future__ import annotations

import random

import pytest

from memlake.versions.text import segments, unified
from memlake.versions.text.lines import split_lines
from memlake.versions.text.segments import Segment, list_segments

WORDS = [f"word{number}" for number in range(400)]


def make_lines(seed: int, number: int) -> list[str]:
    chance = random.Random(seed)
    return [f"{place if place % 3 else ''} {' '.join(chance.choices(WORDS, k=4))}\n" for place in range(number)]


def edit_lines(lines: list[str], seed: int, edits: int) -> list[str]:
    chance, edited = random.Random(seed), list(lines)
    for _ in range(edits):
        at, size = chance.randrange(len(edited)), chance.choice((1, 1, 2, 30, 400))
        kind = chance.choice("idm")
        edited[at : at + (0 if kind == "i" else size)] = make_lines(chance.randrange(10**6), 0 if kind == "d" else size)
    return edited


def apply_segments(a: str, found: list[Segment]) -> str:
    """The new text, from the old one and the segments alone; checks that line numbers and lines fit."""
    lines, out, at = split_lines(a), [], 0
    for segment in found:
        assert segment.old_skipped >= at
        out += lines[at : segment.old_skipped]
        assert segment.new_skipped == len(out)
        at = segment.old_skipped + len(segment.old)
        assert lines[segment.old_skipped : at] == segment.old
        out += segment.new
    return "".join([*out, *lines[at:]])


@pytest.mark.parametrize("seed", range(12))
def test_segments_hold_all_that_differs_and_little_else(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segments, "LARGEST", 1000)
    lines = make_lines(seed, 6000)
    edited = edit_lines(lines, seed + 100, (0, 1, 3, 12)[seed % 4])
    a, b = "".join(lines), "".join(edited)
    b = b.removesuffix("\n") if seed % 3 else b
    found = list_segments(a, b)
    assert apply_segments(a, found) == b
    whole = unified.count_changes(split_lines(a), split_lines(b))
    parts = [unified.count_changes(one.old, one.new) for one in found]
    assert tuple(map(sum, zip(*parts, strict=True))) == whole or (not parts and whole == (0, 0))
    assert [*unified.format_hunks(split_lines(a), split_lines(b))] == [
        line for one in found for line in unified.format_hunks(one.old, one.new, one[2:])
    ]
    assert sum(len(one.old) for one in found) < 6000 or seed % 4 == 3


@pytest.mark.parametrize(("a", "b"), [
    ("0\n1\n" * 2000, "1\n0\n" * 2000), ("", "x\n" * 3000), ("x\n" * 3000, ""), ("a" * 9000, "a" * 9001),
    ("same\n" * 3000, "same\n" * 3000), ("x" * 9000 + "\n" + "y\n" * 9, "z\n" + "x" * 9000 + "\n" + "y\n" * 9),
])  # fmt: skip
def test_texts_without_a_place_to_come_together_are_one_segment(
    a: str, b: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segments, "LARGEST", 1000)
    found = list_segments(a, b)
    assert apply_segments(a, found) == b
    assert len(found) == (a != b)
