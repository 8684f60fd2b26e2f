"""Sizes, times and stored text as people read them."""

from __future__ import annotations

import time

import pytest

from memlake.views import words


@pytest.fixture
def berlin(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TZ", "CET-1")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (1536, "1.5 KiB"), (5 << 30, "5.0 GiB"), (3 << 50, "3.0 PiB")],
)
def test_sizes_have_a_binary_unit(number: int, text: str) -> None:
    assert words.size(number) == text


def test_counts_agree_with_their_noun() -> None:
    assert words.count(1, "file") == "1 file"
    assert words.count(2000, "file") == "2,000 files"


@pytest.mark.usefixtures("berlin")
def test_dates_are_in_the_local_zone_and_in_english() -> None:
    assert words.date(1_794_810_240_000_000) == "Mon Nov 16 07:24:00 2026 +0100"
    assert words.stamp(1_794_810_240_000_000) == "2026-11-16 07:24:00 +0100"
    assert words.iso(1_794_810_240_000_001) == "2026-11-16T06:24:00.000001Z"


@pytest.mark.parametrize(
    ("passed", "text"), [(0, "0 seconds ago"), (61, "1 minute ago"), (7300, "2 hours ago"), (8 * 86400, "1 week ago")]
)
def test_ages_are_rounded_down(passed: int, text: str) -> None:
    assert words.ago(0, now=passed) == text


def test_text_that_drives_a_terminal_becomes_visible() -> None:
    assert words.clean("a\x1b[31mred\x07") == "a\\x1b[31mred\\x07"
    assert words.clean("evil\u202etxt.exe") == "evil\\u202etxt.exe"
    assert words.clean("line\x9b") == "line\\x9b"
    assert words.clean("tabs\tand\nlines, größe, 日本, 🙂") == "tabs\tand\nlines, größe, 日本, 🙂"


def test_paths_that_would_break_a_line_are_quoted_as_c_does() -> None:
    assert words.quote("plain name/größe") == "plain name/größe"
    assert words.quote('a"b\\c') == '"a\\"b\\\\c"'
    assert words.quote("a\nb\x1b") == '"a\\nb\\033"'
    assert words.quote("\u202e") == '"\\342\\200\\256"'
    assert words.quote("\udcff") == '"\\377"', "a byte that is no text"
