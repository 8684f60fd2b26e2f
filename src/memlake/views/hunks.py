"""Lines that differ, in colour and word by word. Knows texts and a style; no path, no record, no repo."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from memlake.versions.text import unified, word_diff
from memlake.versions.text.lines import opcodes
from memlake.versions.text.segments import Segment
from memlake.views.style import Style

_COLORS = {"+": "added", "-": "removed", "@": "hunk"}
_MANY = 100  # replaced lines beyond which nobody compares them one with one
_LONG = 2000  # characters of a line, likewise
# What stands before and after a piece of text that stayed, went or came, and what ends a line.
_MARKS = {
    "plain": ({" ": ("", ""), "-": ("[-", "-]"), "+": ("{+", "+}")}, "\n"),
    "color": ({" ": ("", ""), "-": ("", ""), "+": ("", "")}, "\n"),
    "porcelain": ({" ": (" ", "\n"), "-": ("-", "\n"), "+": ("+", "\n")}, "~\n"),
}


def color_lines(style: Style, lines: Iterable[str]) -> Iterator[str]:
    """The lines of a unified diff, made harmless for a terminal; in colour, also the words that differ are marked."""
    went: list[str] = []
    came: list[str] = []
    for line in lines:
        text = style.clean(line)
        mark = text[:1]
        if not style.color:
            yield text
        elif mark == "-" and not came:
            went.append(text)
        elif mark == "+":
            came.append(text)
        else:
            yield from _paint_block(style, went, came)
            went, came = ([text], []) if mark == "-" else ([], [])
            if mark != "-":
                yield style.paint(text, _COLORS[mark]) if mark in _COLORS else text
    yield from _paint_block(style, went, came)


def _paint_block(style: Style, went: Sequence[str], came: Sequence[str]) -> Iterator[str]:
    """Removed lines and the added ones that took their place."""
    pairs = zip(went, came, strict=True) if len(went) == len(came) <= _MANY else ()
    middles = [_find_middle(old, new) for old, new in pairs]
    for side, (lines, mark) in enumerate(((went, "-"), (came, "+"))):
        color = _COLORS[mark]
        for place, line in enumerate(lines):
            middle = middles[place] if middles else None
            if middle is None:
                yield style.paint(line, color)
                continue
            start, end = middle[0] + 1, middle[1 + side] + 1
            parts = ((line[:start], color), (line[start:end], f"{color}-word"), (line[end:], color))
            yield "".join(style.paint(text, name) for text, name in parts)


def _find_middle(old: str, new: str) -> tuple[int, int, int] | None:
    return word_diff.find_middle(old[1:], new[1:]) if max(len(old), len(new)) <= _LONG else None


def word_lines(style: Style, mode: str, segment: Segment) -> Iterator[str]:
    """Hunks with the words that differ inside their lines: `plain`, `color` or `porcelain`, as git writes them."""
    a, b, *skipped = segment
    for group in unified.group_hunks(opcodes(a, b)):
        yield style.paint(unified.format_head(group, (skipped[0], skipped[1])), "hunk")
        text: list[str] = []
        for tag, i1, i2, j1, j2 in group:
            if tag == "equal":
                lines = (style.clean(line.removesuffix("\n")) for line in a[i1:i2])
                text += (f" {line}\n~\n" if mode == "porcelain" else f"{line}\n" for line in lines)
            else:
                text += (_mark_piece(style, mode, piece) for piece in word_diff.list_pieces(a[i1:i2], b[j1:j2]))
        yield from "".join(text).removesuffix("\n").split("\n")


def _mark_piece(style: Style, mode: str, piece: word_diff.Piece) -> str:
    """Each line of a piece between its marks."""
    marks, newline = _MARKS[mode]
    before, after = marks[piece[0]]
    marked = []
    for line in piece[1].split("\n"):
        # A newline of `after` ends the line of porcelain, and stands outside the colour.
        said = f"{before}{style.clean(line)}{after.rstrip(chr(10))}"
        said = style.paint(said, _COLORS[piece[0]]) if piece[0] in _COLORS else said
        marked.append(f"{said}{after[len(after.rstrip(chr(10))) :]}" if line else "")
    return newline.join(marked)
