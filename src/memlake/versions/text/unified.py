"""Unified diffs of text. Pure: lines in, lines out; knows no path, no record and no colour."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from memlake.versions.text.lines import Opcode, opcodes

_CONTEXT = 3


def count_changes(a: Sequence[str], b: Sequence[str]) -> tuple[int, int]:
    """How many lines were (added, removed)."""
    changed = [code for code in opcodes(a, b) if code[0] != "equal"]
    return sum(code[4] - code[3] for code in changed), sum(code[2] - code[1] for code in changed)


def group_hunks(codes: list[Opcode]) -> Iterator[list[Opcode]]:
    """Hunks: changes with up to three equal lines around them; changes close to each other share one."""
    group: list[Opcode] = []
    for tag, i1, i2, j1, j2 in codes:
        if tag == "equal":
            if group and i2 - i1 > 2 * _CONTEXT:
                yield [*group, (tag, i1, i1 + _CONTEXT, j1, j1 + _CONTEXT)]
                group = []
            if not group:
                skip = max(0, i2 - i1 - _CONTEXT)
                i1, j1 = i1 + skip, j1 + skip
        group.append((tag, i1, i2, j1, j2))
    if any(code[0] != "equal" for code in group):
        tag, i1, i2, j1, j2 = group[-1]
        if tag == "equal":
            group[-1] = (tag, i1, min(i2, i1 + _CONTEXT), j1, min(j2, j1 + _CONTEXT))
        yield group


def _span(start: int, stop: int) -> str:
    """A range as the format writes it: from 1, and one line earlier when it is empty."""
    length = stop - start
    if length == 1:
        return str(start + 1)
    return f"{start + 1 if length else start},{length}"


def format_head(group: list[Opcode], skipped: tuple[int, int] = (0, 0)) -> str:
    """The first line of a hunk of texts before which so many lines stand on each side."""
    (_, i, _, j, _), (_, _, i_end, _, j_end) = group[0], group[-1]
    old, new = skipped
    return f"@@ -{_span(i + old, i_end + old)} +{_span(j + new, j_end + new)} @@"


def format_hunks(a: Sequence[str], b: Sequence[str], skipped: tuple[int, int] = (0, 0)) -> Iterator[str]:
    """The lines of a unified diff from the first `@@` on, without line ends."""
    for group in group_hunks(opcodes(a, b)):
        yield format_head(group, skipped)
        for tag, i1, i2, j1, j2 in group:
            if tag == "equal":
                yield from _prefix_lines(" ", a[i1:i2])
            else:
                yield from _prefix_lines("-", a[i1:i2])
                yield from _prefix_lines("+", b[j1:j2])


def _prefix_lines(mark: str, lines: Sequence[str]) -> Iterator[str]:
    for line in lines:
        if line.endswith("\n"):
            yield mark + line[:-1]
        else:
            yield mark + line
            yield "\\ No newline at end of file"
