"""Which earlier texts are near a new one, at a bounded cost for each: by the rarest words and pairs that they share.

Every text against every other would be n², and one common word would make it so again: only the newest texts that have
a word are looked at, and only the few best of them are read.
"""

from __future__ import annotations

import itertools
import math
from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence

from memlake.index import terms

_WORDS = 300  # of a text that count
_TEXT = 8 << 10  # characters of it that are read
_RAREST, _RECENT = 12, 32  # words asked for, and texts looked at for each
_LOOKED, _BEST = 12, 3  # texts whose words are compared, and that come back
_SHORT = 12  # words of a text that says one thing; of two longer ones more must be the same
_ALIKE, _LONG_ALIKE = 1 / 3, 1 / 2  # the least share of all words that both have; `port 8080`, `port 9090`: a third
_WITHIN = 0.8  # or of the shorter one's words, where the other says more beside
_HEAD, _BEGIN_ALIKE = 6, 0.6  # or so much of their first words: a page says first what it is about
_MASK = (1 << 62) - 1


class Words:
    """The words of a text, as numbers: `bag` each once, `head` the first, `marks` all and each pair of neighbours."""

    __slots__ = ("bag", "head", "marks")

    def __init__(self, text: str, salt: int) -> None:
        stems = [one for one in terms.words(text[:_TEXT]) if not terms.says_nothing(one)][:_WORDS]
        row = [terms.hash_term(stem) ^ salt for stem in stems]
        pairs = [(a * 0x9E3779B97F4A7C15 + b) & _MASK for a, b in itertools.pairwise(row)]
        self.bag, self.head = frozenset(row), frozenset(row[:_HEAD])
        self.marks = array("q", sorted(self.bag.union(pairs)))


class Neighbours:
    """Texts that were added, to be asked for those near another. `texts` are all that will come, each of a project."""

    def __init__(self, texts: Iterable[tuple[str, str]]) -> None:
        self.words = [Words(text, terms.hash_term(project)) for text, project in texts]
        self._counts = Counter[int]()
        for words in self.words:
            self._counts.update(words.marks)
        self._having: defaultdict[int, list[int]] = defaultdict(list)

    def add(self, number: int) -> None:
        for mark in self.words[number].marks:
            if self._counts[mark] > 1:
                self._having[mark].append(number)

    def find(self, number: int, *, accepts: Callable[[int], bool]) -> Sequence[int]:
        """The nearest of the texts that were added and are accepted, the best first."""
        total, asked = len(self.words), [mark for mark in self.words[number].marks if self._counts[mark] > 1]
        asked.sort(key=lambda mark: (self._counts[mark], mark))
        scores: dict[int, float] = {}
        for mark in asked[:_RAREST]:
            worth = math.log(1 + total / self._counts[mark])
            for other in self._having.get(mark, ())[-_RECENT:]:
                scores[other] = scores.get(other, 0.0) + worth
        ranked = sorted(scores, key=lambda other: (-scores[other], -other))
        first = itertools.islice(filter(accepts, ranked), _LOOKED)
        return list(itertools.islice((other for other in first if self._is_near(number, other)), _BEST))

    def _is_near(self, one: int, other: int) -> bool:
        first, second = self.words[one].bag, self.words[other].bag
        both, shorter = len(first & second), max(1, min(len(first), len(second)))
        alike = _ALIKE if shorter <= _SHORT else _LONG_ALIKE
        if both >= _WITHIN * shorter or both >= alike * (len(first) + len(second) - both):
            return True
        heads = self.words[one].head, self.words[other].head
        return len(heads[0] & heads[1]) >= _BEGIN_ALIKE * max(2, min(map(len, heads)))

    def overlap(self, one: int, other: int) -> float:
        """How much of the words of both texts together both have."""
        first, second = self.words[one].bag, self.words[other].bag
        return len(first & second) / max(1, len(first | second))
