"""BM25: what a word is worth, and how much of it a row gets. Plain arithmetic, for hooks that load no numpy too."""

from __future__ import annotations

import math
from typing import Any

_K1, _B = 0.9, 0.4  # BM25's two numbers, as most engines tuned on many collections have them
TOP = _K1 + 1  # the most that a word gives, as a share of what it is worth
# Words of a memory that is neither long nor short. The mean of all would change while rows come, and with it the order
# of hits: a score made today would not compare with one made a year ago, nor a grown index with one made again.
_USUAL = 32.0


def score_count(count: Any, length: Any) -> Any:
    """How much of TOP, 0 to 1, a word gives that a row of so many words has so often; numbers, or arrays of them."""
    return count / (count + _K1 * (1 - _B + _B * length / _USUAL))


def weigh_word(found: int, total: int) -> float:
    """What a word is worth that so many rows of all have: rare ones more."""
    return math.log(1 + (total - found + 0.5) / (found + 0.5))
