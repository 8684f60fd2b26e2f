"""Files of the project that a text names and that are no more. Knows how paths are written; asks whether one is there.

Only what is surely meant as a path of this project counts: relative, with an ending, and in a folder that exists. Who
names `lib/x.py` of another project, or one that is yet to be written in a new folder, says nothing wrong.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterator

from memlake.memories.rot.passages import Passage

_READ, _MOST = 256 << 10, 50  # characters of a text, and paths in it, that are looked at
_PATH = re.compile(
    r"(?<![\w./:@~\\$%{<*#?=&-])(?:\./)?[\w.-]{1,64}(?:/[\w.-]{1,64}){1,12}+(?![\w/*<{}>?=&%$#])", re.ASCII
)
_ENDS = re.compile(r"\.[A-Za-z][A-Za-z0-9]{0,7}$")
_HOST = re.compile(r"[\w-]+(?:\.[\w-]+)+")  # `github.com/ada/shop.git`, `example.org/a.html`
_SENTENCE = re.compile(r"\n|(?<=[.!?])\s")
_GONE = re.compile(
    r"\b(?:removed|deleted|renamed|moved|replaced|no longer|used to|gone|formerly|dropped|was called|split into)\b"
    r"|删除|移除|重命名|已移",
    re.IGNORECASE,
)


def list_paths(text: str) -> list[str]:
    """The paths a text names, each once, as they would be below a project's root; not those it says are gone."""
    seen = dict[str, None]()
    for sentence in _SENTENCE.split(text[:_READ]):
        if _PATH.search(sentence) and not _GONE.search(_PATH.sub("", sentence)):
            found = (posixpath.normpath(match[0].rstrip(".-")) for match in _PATH.finditer(sentence))
            seen |= {path: None for path in found if _ENDS.search(path) and not path.startswith("..")}
        if len(seen) >= _MOST:
            break
    return list(seen)[:_MOST]


def find_dead(passage: Passage, has_path: Callable[[str], bool]) -> tuple[list[str], bool]:
    """The paths of a passage that do not exist, and whether it names no other."""
    if passage.area is None:
        return [], False
    named = list_paths(passage.content)
    dead = [path for path in named if _is_dead(path, passage.area, has_path)]
    return dead, len(dead) == len(named)


def _is_dead(path: str, area: str, has_path: Callable[[str], bool]) -> bool:
    """Whether a path was of this project and is no more. One that may be of another is not."""
    roots = ["", *_list_above(area)]
    if any(has_path(posixpath.join(root, path)) for root in roots):
        return False
    first = path.partition("/")[0]
    if _HOST.fullmatch(first):
        return False
    return any(has_path(posixpath.join(root, first)) for root in roots)


def _list_above(area: str) -> Iterator[str]:
    while area:
        yield area
        area = posixpath.dirname(area)
