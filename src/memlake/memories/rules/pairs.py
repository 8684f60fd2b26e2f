"""A pair of memories as the merge rules see it, and the verdict a rule gives."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from memlake.memories.rules import lexicon
from memlake.memories.rules.phrases import Phrase, find_opposites, stem
from memlake.memories.rules.sentences import Frame, find_frame
from memlake.named_tuple import NamedTuple

POSSESSED = re.compile(r"(?:my|our|his|her|their|(?:the )?[\w-]+'s) ([\w-]+)", re.IGNORECASE)
ABOUT_USER = re.compile(r"(?:i|my|we|our|(?:the )?users?)\b", re.IGNORECASE)


class Verdict(NamedTuple):
    """`text` is set by a rule that writes; a replacing or conflicting memory stands as given otherwise."""

    action: str
    rule: str
    why: str
    text: str | None = None


@dataclass(frozen=True)
class Pair:
    """Two memories; each figure is worked out once, when a rule first asks."""

    old: Phrase
    new: Phrase
    cosine: float | None = None
    contexts: tuple[Mapping[str, Any], Mapping[str, Any]] = field(default_factory=lambda: ({}, {}))
    cue: str = ""  # what led into the new one: `No, `, `Actually, `

    @cached_property
    def frames(self) -> tuple[Frame, Frame] | None:
        old = find_frame(self.old)
        new = find_frame(self.new) if old else None
        return (old, new) if old and new else None

    @cached_property
    def shared_stems(self) -> frozenset[str]:
        return self.old.bag & self.new.bag

    @cached_property
    def only(self) -> tuple[frozenset[str], frozenset[str]]:
        """The stems that the old one has alone, and those of the new one."""
        return self.old.bag - self.new.bag, self.new.bag - self.old.bag

    @cached_property
    def inside(self) -> tuple[float, float]:
        """How much of the old is in the new, and of the new in the old."""
        return part(self.old.bag, self.new.bag), part(self.new.bag, self.old.bag)

    @cached_property
    def overlap(self) -> float:
        return len(self.shared_stems) / max(1, len(self.old.bag | self.new.bag))

    @cached_property
    def opposites(self) -> frozenset[str]:
        """Words that one text has alone and a word of the other opposes."""
        old, new = frozenset(map(stem, self.old.words)), frozenset(map(stem, self.new.words))
        return find_opposites(old - new, new - old)

    @property
    def one_denies(self) -> bool:
        return bool(self.old.denials) != bool(self.new.denials)

    @property
    def other_situation(self) -> bool:
        """Each holds in a situation of its own, or one is an exception to the other."""
        return self.old.situations != self.new.situations

    @property
    def indefinite(self) -> bool:
        """`A man sits` and `a man runs` may be two men."""
        return any(phrase.words[:1] and phrase.words[0] in lexicon.INDEFINITE for phrase in (self.old, self.new))

    @cached_property
    def other_subject(self) -> bool:
        """One is about the user and one names another, about something its owner has, or of another number."""
        sides = ((self.old, self.new), (self.new, self.old))
        return self.other_number or any(_names_another(one, other) for one, other in sides)

    @property
    def other_number(self) -> bool:
        """`Server 7` and `server 8` are two servers, whatever is said of them."""
        old, new = self.old.number_name, self.new.number_name
        return old is not None and new is not None and old[0] == new[0] and old[1] != new[1]

    @property
    def apart(self) -> bool:
        """Something tells them apart, however alike the words: negation, opposites, situation, subject, intention."""
        return self.other_situation or self.apart_beside_situation

    @cached_property
    def apart_beside_situation(self) -> bool:
        words = frozenset(self.old.words) ^ frozenset(self.new.words)
        return bool(self.one_denies or self.opposites or self.other_subject or words & lexicon.INTENTIONS)

    @cached_property
    def moved(self) -> bool:
        """A word stands after another preposition: `from Ulm`, `to Ulm`."""
        old, new = self.old.places, self.new.places
        shared = old.keys() & new.keys()
        return any(old[word].isdisjoint(new[word]) for word in shared if {*old[word], *new[word]} != {"", "to"})

    @property
    def misplaced(self) -> bool:
        """Something is in another place, or one counts what the other counts otherwise: `one hand`, `both hands`."""
        counted, counts = self.old.quantifiers, self.new.quantifiers
        return self.moved or bool(counted and counts and counted != counts)

    @property
    def other_doings(self) -> bool:
        return bool(self.old.doings and self.new.doings) and self.old.doings != self.new.doings

    @property
    def values_differ(self) -> bool:
        """Numbers or names differ on both sides."""
        old, new = self.only
        return self.old.numbers != self.new.numbers or bool(self.old.names & old and self.new.names & new)


def part(small: frozenset[str], large: frozenset[str]) -> float:
    return len(small & large) / len(small) if small else 0.0


def _names_another(one: Phrase, other: Phrase) -> bool:
    owned = POSSESSED.match(one.text)
    if owned and stem(owned[1].lower()) not in other.bag:
        return True
    if not ABOUT_USER.match(one.text) or ABOUT_USER.match(other.text):
        return False
    return other.words[:1] in (("he",), ("she",), ("they",)) or bool(other.stems and other.stems[0] not in one.bag)
