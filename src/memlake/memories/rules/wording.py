"""Whether a memory is worth writing as it is worded: one clear fact, not a heading and not a heap.

A module of its own, because every store asks it and must not load the rules that compare two memories.
"""

from __future__ import annotations

import re

from memlake.memories.rules import lexicon
from memlake.memories.rules.clauses import split_parts
from memlake.memories.rules.phrases import READ, Phrase, plain, stem

GENERIC = frozenset(map(stem, lexicon.GENERIC))
HEAP = re.compile(r"\b(?:various|several|misc\w*|assorted|different|all|many|multiple|some)\b[^:]*:", re.IGNORECASE)
SHOWN = 60  # characters of a text that a warning quotes
MANY = 5  # facts with nothing in common


def warn_vague(content: str) -> str | None:
    """A warning for who writes it, or None when it reads like one clear fact."""
    phrase = Phrase(plain(content[:READ]))
    if all(word in GENERIC for word in phrase.content_stems):
        shown = phrase.text if len(phrase.text) <= SHOWN else f"{phrase.text[:SHOWN]}…"
        said = f'"{shown}"' if phrase.text else "An empty text"
        return f"{said} is too vague to be found or used later; say the fact itself in one sentence."
    listed = re.split("[,、;]", phrase.text.partition(":")[2])
    if HEAP.search(phrase.text) and len(listed) >= 3:
        return f"It mixes {len(listed)} unrelated facts; store each as a memory of its own."
    apart = _count_unrelated(phrase)
    return f"It mixes {apart} unrelated facts; store each as a memory of its own." if apart >= MANY else None


def _count_unrelated(phrase: Phrase) -> int:
    """How many of its parts share no word of meaning with the parts before them; 0 when they are few anyway."""
    found = list(split_parts(phrase))
    if len(found) < MANY:
        return 0
    seen: frozenset[str] = frozenset()
    apart = 0
    for one in found:
        bag = Phrase(one).bag
        apart += bool(bag) and not bag & seen
        seen |= bag
    return apart
