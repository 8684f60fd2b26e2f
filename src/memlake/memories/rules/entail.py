"""Whether a statement makes true what another sentence denies. Knows words and their kinds; no rule and no verdict."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator

from memlake.memories.rules import lexicon
from memlake.memories.rules.phrases import Phrase, content, stem

NONE = re.compile(r"^(?:no|there (?:is|are|was|were) no)\b|\b(?:nobody|none|no one|anyone|anybody)\b")
ANYBODY = frozenset({"anyone", "anybody", "anything"})
WORN = frozenset({"wearing", "dressed"})  # who is in a hat wears it


def entails(stated: Phrase, denied: Phrase) -> bool:
    """Every word of what is denied is in the statement, or follows from a word of it; `no a or b` denies both."""
    none_at_all = bool(NONE.search(denied.text.lower()))
    true = frozenset(_list_true(stated, none_at_all=none_at_all))
    return any(bag and bag <= true for bag in _list_denied(denied))


def _list_true(stated: Phrase, *, none_at_all: bool) -> Iterator[str]:
    """The stems a statement makes true; `there is no child` denies every boy too, `the child is not` does not."""
    yield from stated.bag
    words = [word for word in stated.words if word not in lexicon.FUNCTION_WORDS]
    yield from (stem(one + other) for one, other in itertools.pairwise(words))  # `sun shine`, `log in`
    for word in stated.bag:
        yield from NEAR.get(word, ())
        if none_at_all:
            yield from KINDS_OF.get(word, ())


def _list_denied(denied: Phrase) -> Iterator[frozenset[str]]:
    """What it denies, as stems: all it says, and with an `or` each side of it by itself."""
    words = denied.words
    yield frozenset(_list_meant(words))
    if "or" in words:
        at = words.index("or")
        start = next((i + 1 for i, word in enumerate(words[:at]) if word in lexicon.NEGATIONS), 0)
        before, after = words[:start], words[at + 1 :]
        doing = () if any(map(_is_doing, after)) else tuple(filter(_is_doing, words[start:at]))[:1]
        yield frozenset(_list_meant(words[:at]))
        yield frozenset(_list_meant((*before, *doing, *after)))


def _list_meant(words: tuple[str, ...]) -> Iterator[str]:
    for word, following in itertools.zip_longest(words, words[1:], fillvalue=""):
        if not (word in ANYBODY or word in WORN or (word in lexicon.MEASURES and following == "of")):
            yield from content((word,))


def _is_doing(word: str) -> bool:
    return word.endswith("ing")


def _near() -> dict[str, frozenset[str]]:
    groups = [frozenset(map(stem, group.split())) for group in re.split("[;\n]", lexicon.NEAR_GROUPS)]
    found: dict[str, frozenset[str]] = {}
    for group in groups:
        for word in group:
            found[word] = found.get(word, frozenset()) | group
    return found


def _kinds_of() -> dict[str, frozenset[str]]:
    found: dict[str, frozenset[str]] = {}
    for kind, members in re.findall(r"(\w+):([^:]*)(?=\s\w+:|$)", lexicon.KINDS_OF_THINGS):
        for word in members.split():
            found[stem(word)] = found.get(stem(word), frozenset()) | {stem(kind)}
    return found


NEAR, KINDS_OF = _near(), _kinds_of()
