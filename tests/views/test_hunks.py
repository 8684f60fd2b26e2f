"""Lines that differ, in colour."""

from __future__ import annotations

from memlake.cli.screen import Screen
from memlake.versions.text.segments import Segment
from memlake.views.hunks import color_lines, word_lines

SCREEN = Screen(color=True)


def test_words_that_differ_in_lines_that_are_alike_are_marked() -> None:
    old, new = color_lines(SCREEN, ["-learning_rate = 0.1  # slow", "+learning_rate = 0.01  # slow"])
    assert old == "\x1b[31m-learning_rate = 0.\x1b[0m\x1b[7;31m1\x1b[0m\x1b[31m  # slow\x1b[0m"
    assert new == "\x1b[32m+learning_rate = 0.\x1b[0m\x1b[7;32m01\x1b[0m\x1b[32m  # slow\x1b[0m"


def test_lines_that_are_not_alike_or_not_in_pairs_are_painted_whole() -> None:
    for lines in (["-one", "+two"], ["-a b c", "+a b d", "+more"], ["+a", " b", "-c"]):
        assert not any("\x1b[7;" in line for line in color_lines(SCREEN, lines))
        assert list(color_lines(Screen(), lines)) == lines


def test_nothing_in_a_text_acts_on_the_terminal() -> None:
    lines = [
        *color_lines(SCREEN, ["-a b \x1b[2J", "+a c \x1b[2J"]),
        *word_lines(SCREEN, "plain", Segment(["a\x1b[2J\n"], ["b\n"])),
    ]
    assert "\x1b[2J" not in "".join(lines)
