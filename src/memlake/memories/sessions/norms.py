"""English clauses that bind whoever works here without a word such as `always`: by what they are about. Pure.

A norm is about things of a kind (`write docstrings in Google style`), about whoever does something (`nobody merges
without a review`), or about a case that comes up again (`if a test is flaky, mark it`); an order for this moment is
about what is at hand (`write a test for it`).
"""

from __future__ import annotations

from collections.abc import Sequence

from memlake.memories.sessions import bounds
from memlake.memories.sessions.cues import english as en


def is_norm(low: Sequence[str], front: str) -> bool:
    """Whether a clause is a norm by what it is about. `front`: the clause before it that says when or where."""
    return (
        _is_about_work(low)
        or _is_about_nobody(low)
        or _is_about_each(low)
        or is_case(low, front)
        or _is_ratio(low)
        or _is_placed(low)
        or (low[0] == "leave" and low[-1] == "alone" and len(low) > 2)
        or (low[0] == "better" and low[1] in en.ORDERS and "than" in low)
        or (low[0] in en.PREFERRING and len(low) > 2 and low[1] not in en.HELD and bool({"over", "to"} & set(low)))
    )


def _is_about_work(low: Sequence[str]) -> bool:
    """`write docstrings in Google style`, `I want commits in the form ...`: how a thing of the daily work is to be."""
    start = 2 if tuple(low[:2]) in (("i", "want"), ("we", "want")) else 1 if low[0] in en.ORDERS else 0
    if not start or low[0] in en.FINDING:
        return False
    things = [at for at, word in enumerate(low[start : start + 4], start) if word in en.WORK]
    if things and en.STYLE & set(low[things[0] + 1 :]):
        return not {"it", "this", "that"} & set(low)
    if not things or en.HELD & set(low[start : things[0] + 1]) or {"a", "an", "some", "more"} & set(low[start:]):
        return False
    after = low[things[0] + 1 :]
    return len(after) > 1 and after[0] in en.MANNER and not en.AT_HAND & set(after)


def _is_about_nobody(low: Sequence[str]) -> bool:
    """`nothing goes to production without a review`, `only Nadia may approve releases`."""
    if low[0] in ("nothing", "nobody", "no", "noone"):
        return "without" in low or "unless" in low or "before" in low
    return low[0] == "only" and bool({"may", "can", "must", "should"} & set(low[2:5]))


def _is_about_each(low: Sequence[str]) -> bool:
    """`every PR gets a changelog line`; not `every request fails`."""
    gets = en.GETTING & set(low[2:5]) or ("has" in low[2:4] and "own" in low)
    return low[0] in ("every", "each") and bool(gets) and not en.BUGS & set(low)


def is_case(low: Sequence[str], front: str) -> bool:
    """`if a test is flaky, mark it`, `before you delete anything, ask me`: a case that will come up again."""
    words = front.split()
    if not words and "we" in low[3:-1] and low[0] in en.CASES:  # `if it is older than 12 h we send nothing`
        at = low.index("we", 3)
        words, low = list(low[:at]), low[at:]
    if not words or words[0] not in en.CASES:
        return False
    if bounds.has_comparison(words) and low[0] == "we" and low[1:2] and low[1] in en.ORDERS | en.HABITS:
        return True
    if low[0] not in en.ORDERS | {"just"}:
        return False
    return bool(en.ANY & set(words[1:]) or (words[1:2] == ["in"] and "doubt" in words))


def _is_placed(low: Sequence[str]) -> bool:
    """`test files go next to the code`, `images belong in assets/`."""
    at = next((at for at, word in enumerate(low) if word in en.PLACING), 0)
    return 0 < at < 4 and low[at - 1].endswith("s") and low[0] not in en.HELD | {"let's", "lets"} and len(low) > at + 2


def _is_ratio(low: Sequence[str]) -> bool:
    """`one migration per PR`, `one file a module`."""
    return low[0] in ("one", "a", "two", "max", "maximum") and "per" in low[2:5] and 3 < len(low) < 9
