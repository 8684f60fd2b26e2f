"""Wildcards in the URI of a storage: where its folder ends and its pattern begins, and what the pattern matches.

`*` and `?` stay inside one folder, `**` crosses folders (`**/` may be none), `[ab]` is one of these, `{a,b}` either.
`{1..3}` is a range as in bash: `{01..10}` with zeros, `{3..1}` downwards, `{a..e}` of letters, `{0..10..5}` in steps.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator

from memlake.errors import InvalidInput
from memlake.named_tuple import NamedTuple

_MARK = re.compile(r"[*?\[{]")
_RANGE = re.compile(r"(?:(-?\d+)\.\.(-?\d+)|([A-Za-z])\.\.([A-Za-z]))(?:\.\.(-?\d+))?")
_MOST = 10_000  # names that the braces of one pattern stand for: each is compared with every file
_PIECE = re.compile(r"\*\*/|\*\*|\*|\?|\[!?\]?[^\]]*\]|[^*?\[]+|\[")


class Pattern(NamedTuple):
    """`depth`: how many folders below the starting one can hold a match; None is any number."""

    regex: re.Pattern[str]
    depth: int | None


def has_wildcard(text: str) -> bool:
    return _MARK.search(text) is not None


def divide(text: str) -> tuple[str, str]:
    """The folder before the first wildcard, with its slash, and the pattern that begins after it."""
    mark = _MARK.search(text)
    cut = text.rfind("/", 0, mark.start()) + 1 if mark else len(text)
    return text[:cut], text[cut:]


def compile_pattern(pattern: str) -> Pattern:
    each = expand(pattern)
    depth = None if any("**" in one for one in each) else max(one.count("/") for one in each)
    regexes = ("".join(map(_translate, _PIECE.findall(one))) for one in each)
    return Pattern(re.compile("|".join(regexes), re.DOTALL), depth)


def expand(text: str) -> list[str]:
    """`a{b,c}d` as `abd` and `acd`; braces may hold braces; one that is never closed is itself."""
    names = list(itertools.islice(_expand_braces(text), _MOST + 1))
    if len(names) > _MOST:
        raise InvalidInput(
            f"the braces of {text!r} stand for more than {_MOST:,} names. Nothing was listed.",
            hint="Use * or ?, or several patterns in a list.",
        )
    return names


def _expand_braces(text: str) -> Iterator[str]:
    start = text.find("{")
    end = _find_closing(text, start)
    if start < 0 or end < 0:
        yield text
        return
    inside, rest = text[start + 1 : end], text[end + 1 :]
    several, depth = [""], 0
    for letter in inside:
        depth += (letter == "{") - (letter == "}")
        if letter == "," and depth == 0:
            several.append("")
        else:
            several[-1] += letter
    choices = several if len(several) > 1 else _expand_range(inside)
    if choices is None:  # `{x}` is no choice: it means itself, as in a shell
        yield from (text[: end + 1] + one for one in _expand_braces(rest))
        return
    for choice in choices:
        yield from (text[:start] + one for one in _expand_braces(choice + rest))


def _expand_range(text: str) -> Iterable[str] | None:
    """The names of `1..3`, or of another range; None where it is none."""
    match = _RANGE.fullmatch(text)
    if match is None:
        return None
    first, last, a, z, step = match.groups()
    start, end = (ord(a), ord(z)) if a else (int(first), int(last))
    by = max(abs(int(step or 1)), 1)
    numbers = range(start, end + 1, by) if start <= end else range(start, end - 1, -by)
    if a:
        return map(chr, numbers)
    padded = any(re.match(r"-?0\d", one) for one in (first, last))
    width = max(len(first), len(last)) if padded else 0
    return (f"{number:0{width}d}" for number in numbers)


def _find_closing(text: str, start: int) -> int:
    depth = 0
    for at in range(max(start, 0), len(text)):
        depth += (text[at] == "{") - (text[at] == "}")
        if depth == 0 and text[at] == "}":
            return at
    return -1


def _translate(piece: str) -> str:
    """A piece of a pattern as a regular expression."""
    fixed = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}.get(piece)
    if fixed is not None:
        return fixed
    if piece[0] == "[" and len(piece) > 2:
        inside = piece[1:-1].replace("\\", r"\\").replace("[", r"\[")
        return f"[^/{inside[1:]}]" if inside[0] == "!" else f"[{inside}]"
    return re.escape(piece)
