"""English clauses that set a bound: `at most 9 a cart`, `keep them 90 days`, `nothing below 48 px`. Pure.

A bound has a number, and a word that makes the number one that is to be kept to. What tells how it was (`it took at
most 3 seconds`) or asks for an answer of some size (`show me at most 5`) sets none.
"""

from __future__ import annotations

from collections.abc import Sequence

from memlake.memories.sessions.cues import english as en


def is_bound(low: Sequence[str], *, passing: bool) -> bool:
    """Whether a clause sets a bound. `passing`: it is for this moment."""
    numbers = [at for at, word in enumerate(low) if has_number(word)]
    if not numbers or passing:
        return False
    return _is_given(low, numbers) or _is_named(low, numbers) or _is_kept_to(low, numbers)


def has_number(word: str) -> bool:
    return word[:1].isdigit() or word in en.NUMBERS


def has_comparison(words: Sequence[str]) -> bool:
    """`older than 12 h`, `below 200`: a number with a word that holds something against it."""
    return any(word in en.COMPARING for word in words) and any(map(has_number, words))


def _is_measured(low: Sequence[str], numbers: Sequence[int], units: frozenset[str] = en.UNITS) -> bool:
    return any(units & set(low[at + 1 : at + 3]) for at in numbers)


def _is_given(low: Sequence[str], numbers: Sequence[int]) -> bool:
    """`give guests 2 days`, `keep them 90 days`, `drop tickets after 30 days`, `cap it at 5`."""
    if low[0] in ("give", "allow", "grant"):
        return _is_measured(low, numbers) and low[1] not in en.PRONOUNS | {"me", "us"}
    if low[0] in en.KEEPING and len(low) > 3:
        return _is_measured(low, numbers, en.UNITS if low[1] not in en.HELD else en.LONG_UNITS)
    if low[0] in en.DROPPING and "after" in low:
        return _is_measured(low, numbers)
    if low[0] in en.LIMIT_FIRST:
        return numbers[0] < len(low) - 1 and low[0] != "limit"
    if low[0] not in en.BOUNDING or len(low) < 3:
        return False
    replaced = "instead" in low and bool({"per", "a", "an"} & set(low[numbers[0] :]))
    return replaced or low[0] in en.LIMITS or any(word in en.LIMITS for word in low)


def _is_named(low: Sequence[str], numbers: Sequence[int]) -> bool:
    """`the timeout is 30 s`."""
    named = [at for at, word in enumerate(low) if word in en.LIMIT_NAMES]
    is_at = next((at for at, word in enumerate(low) if word in ("is", "are", "be", "to")), 0)
    return bool(named) and named[0] < is_at < numbers[-1] and low[0] not in en.PRONOUNS


def _is_kept_to(low: Sequence[str], numbers: Sequence[int]) -> bool:
    """`two pauses per year is the max`, `only with 200 samples or more`, `4 attempts per label`."""
    if en.DESCRIBING & set(low) or en.BUGS & set(low) or low[0] in en.ANSWER_ORDERS | {"i", "you", "it", "we"}:
        return False
    said = f" {' '.join(low)} "
    if any(cue in said for cue in en.BOUNDS):
        return len(low) > 3
    if low[0] in ("nothing", "nobody", "no", "only", "never"):
        return has_comparison(low)
    rate = {"per", "each"} & set(low[numbers[0] + 1 : numbers[0] + 5])
    return numbers[0] == 0 and bool(rate) and low[1] not in ("per", "each") and not en.COPULAS - {"uses"} & set(low)
