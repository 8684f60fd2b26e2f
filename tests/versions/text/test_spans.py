"""A passage is found again where lines moved or only whitespace changed, and never where its words did."""

from __future__ import annotations

import pytest

from memlake.versions.text import spans
from memlake.versions.text.spans import Text

TEXT = b"import os\n\ndef read(path):\n    with open(path) as file:\n        return file.read()\n\nprint(read('a'))\n"


def find(after: bytes, before: bytes = TEXT, lines: tuple[int, int] = (3, 5)) -> tuple[int, int] | None:
    return spans.find(Text(after), spans.measure(before, lines), lines)


def test_a_passage_is_where_it_was_whatever_happens_below_it() -> None:
    assert find(TEXT) == (3, 5)
    assert find(TEXT.replace(b"print(read('a'))", b"print(1)\nprint(2)")) == (3, 5)


def test_lines_above_a_passage_move_it() -> None:
    assert find(b"# one\n# two\n" + TEXT) == (5, 7)
    assert find(TEXT.removeprefix(b"import os\n\n")) == (1, 3)


@pytest.mark.parametrize(
    "respaced",
    [
        TEXT.replace(b"    ", b"\t"),
        TEXT.replace(b"\n", b"\r\n"),
        TEXT.replace(b"read(path):", b"read( path ) :   "),
        TEXT.replace(b"def read(path):\n", b"def read(\n    path\n):\n\n"),
    ],
)
def test_whitespace_within_a_passage_is_no_change(respaced: bytes) -> None:
    assert find(respaced) is not None


@pytest.mark.parametrize("edit", [(b"file.read()", b"file.reads()"), (b"    with", b"    x = 1\n    with")])
def test_other_words_within_a_passage_are_a_change(edit: tuple[bytes, bytes]) -> None:
    assert find(TEXT.replace(*edit)) is None


def test_a_passage_is_whole_lines_so_that_a_part_of_another_line_is_not_it() -> None:
    assert find(b"x = 1\n", b"x = 1\n", (1, 1)) == (1, 1)
    assert find(b"max = 1\n", b"x = 1\n", (1, 1)) is None
    assert find(b"x = 10\n", b"x = 1\n", (1, 1)) is None


def test_of_two_copies_the_nearest_is_meant_and_one_that_is_missing_may_be_it() -> None:
    twice = b"return None\na\nb\nreturn None\n"
    assert find(b"new\n" + twice, twice, (4, 4)) == (5, 5)
    assert find(b"return None\na\nb\nreturn 1\n", twice, (4, 4)) is None


def test_blank_lines_are_never_the_ends_of_a_passage() -> None:
    assert find(b"\n\n\n" + TEXT.replace(b"file:\n", b"file:\n\n\n")) == (6, 10)


def test_nothing_but_whitespace_is_no_passage() -> None:
    span = spans.measure(TEXT, (2, 2))
    assert span.length == 0 and spans.find(Text(TEXT), span, (2, 2)) is None


@pytest.mark.parametrize(("data", "count"), [(b"", 0), (b"a", 1), (b"a\n", 1), (b"a\n\nb", 3)])
def test_lines_are_counted_as_an_editor_does(data: bytes, count: int) -> None:
    assert Text(data).count == count
