"""Wildcards in the URI of a storage: where its folder ends and its pattern begins, and what the pattern matches.

`*` and `?` stay inside one folder, `**` crosses folders (`**/` may be none), `[ab]` is one of these, `{a,b}` either.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_MARK = re.compile(r"[*?\[{]")
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


def compiled(pattern: str) -> Pattern:
    each = expand(pattern)
    depth = None if any("**" in one for one in each) else max(one.count("/") for one in each)
    return Pattern(re.compile("|".join(map(_translated, each)), re.DOTALL), depth)


def expand(text: str) -> list[str]:
    """`a{b,c}d` as `abd` and `acd`; braces may hold braces; one that is never closed is itself."""
    start = text.find("{")
    end = _closing(text, start)
    if start < 0 or end < 0:
        return [text]
    choices = _cut_at_commas(text[start + 1 : end])
    if len(choices) == 1:  # `{x}` is no choice: it means itself, as in a shell
        return [text[: end + 1] + rest for rest in expand(text[end + 1 :])]
    return [text[:start] + one for choice in choices for one in expand(choice + text[end + 1 :])]


def _closing(text: str, start: int) -> int:
    depth = 0
    for at in range(max(start, 0), len(text)):
        depth += (text[at] == "{") - (text[at] == "}")
        if depth == 0 and text[at] == "}":
            return at
    return -1


def _cut_at_commas(text: str) -> list[str]:
    parts, depth = [""], 0
    for letter in text:
        depth += (letter == "{") - (letter == "}")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return parts


def _translated(pattern: str) -> str:
    return "".join(_meaning(piece) for piece in _PIECE.findall(pattern))


def _meaning(piece: str) -> str:
    fixed = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}.get(piece)
    if fixed is not None:
        return fixed
    if piece[0] == "[" and len(piece) > 2:
        inside = piece[1:-1].replace("\\", r"\\").replace("[", r"\[")
        return f"[^/{inside[1:]}]" if inside[0] == "!" else f"[{inside}]"
    return re.escape(piece)
