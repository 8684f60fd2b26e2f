"""Unified diffs of text. Pure: bytes and lines in, lines out; knows no path, no record and no colour."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

LARGEST = 1 << 20  # bytes a side; a longer text is compared by size and id alone
_MANY = 20_000  # lines that differ a side; beyond, matching them takes minutes and tells nobody anything
_CONTEXT = 3

Opcode = tuple[str, int, int, int, int]


def find_text(data: bytes) -> str | None:
    """The text of a file, or None when it is not UTF-8 text."""
    if b"\0" in data[:8000]:
        return None
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return None


def split_lines(text: str) -> list[str]:
    """Lines with their ends; only a newline ends one, so that joining them gives the text back."""
    lines = text.split("\n")
    last = lines.pop()
    return [f"{line}\n" for line in lines] + ([last] if last else [])


def opcodes(a: Sequence[str], b: Sequence[str]) -> list[Opcode]:
    """What turns `a` into `b`. Equal ends are cut off first: most edits are small and their files are not."""
    head = _common(a, b)
    tail = _common(a[head:][::-1], b[head:][::-1])
    inner_a, inner_b = a[head : len(a) - tail], b[head : len(b) - tail]
    found: list[Opcode] = [("equal", 0, head, 0, head)] if head else []
    for tag, i1, i2, j1, j2 in _matched(inner_a, inner_b):
        found.append((tag, i1 + head, i2 + head, j1 + head, j2 + head))
    if tail:
        found.append(("equal", len(a) - tail, len(a), len(b) - tail, len(b)))
    return found


def _common(a: Sequence[str], b: Sequence[str]) -> int:
    length = 0
    for x, y in zip(a, b, strict=False):
        if x != y:
            break
        length += 1
    return length


def _matched(a: Sequence[str], b: Sequence[str]) -> list[Opcode]:
    if not a and not b:
        return []
    if not a or not b or len(a) > _MANY or len(b) > _MANY:
        return [("delete" if not b else "insert" if not a else "replace", 0, len(a), 0, len(b))]
    from difflib import SequenceMatcher  # only a diff pays for it

    return [(*code,) for code in SequenceMatcher(None, a, b, autojunk=len(b) > 1000).get_opcodes()]


def counts(a: Sequence[str], b: Sequence[str]) -> tuple[int, int]:
    """How many lines were (added, removed)."""
    changed = [code for code in opcodes(a, b) if code[0] != "equal"]
    return sum(code[4] - code[3] for code in changed), sum(code[2] - code[1] for code in changed)


def _grouped(codes: list[Opcode]) -> Iterator[list[Opcode]]:
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


def hunks(a: Sequence[str], b: Sequence[str]) -> Iterator[str]:
    """The lines of a unified diff from the first `@@` on, without line ends."""
    for group in _grouped(opcodes(a, b)):
        yield f"@@ -{_span(group[0][1], group[-1][2])} +{_span(group[0][3], group[-1][4])} @@"
        for tag, i1, i2, j1, j2 in group:
            if tag == "equal":
                yield from _marked(" ", a[i1:i2])
            else:
                yield from _marked("-", a[i1:i2])
                yield from _marked("+", b[j1:j2])


def _marked(mark: str, lines: Sequence[str]) -> Iterator[str]:
    for line in lines:
        if line.endswith("\n"):
            yield mark + line[:-1]
        else:
            yield mark + line
            yield "\\ No newline at end of file"
