"""A second order of the first hits, by what they say: how much of a question they and their neighbours answer.

The index finds by words and vectors; here the first of what it found are compared as turns of conversations: a long
turn tells more than a short one, a question less than the answer after it, somebody else is seldom the person that was
asked about, and who asks when wants a time. Pure: takes what the index found and texts, returns an order. Eleven
weights, learnt by `benchmarks/train_order.py`, are all it knows.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence

import numpy as np

from memlake.index.index import Found
from memlake.index.rank import LOOKED, Evidence
from memlake.index.segments import Array

FEATURES = ("rank", "own", "whole", "around", "before", "meaning", "length", "other", "asks", "answers", "when")
WEIGHTS = np.array((4.3, 0.8, 2.0, 2.8, -0.85, 0.5, 0.72, -0.6, -0.5, 1.6, 1.4))
_MIDDLE = 7.0  # a sum of weights that is taken for 0.5
_WORD = 5.5  # bytes of UTF-8 that a word takes, its space counted in: two characters of Chinese count as one
_LONGEST = math.log(50)  # words from which more say no more
_USUAL = math.log(20)  # a memory of no session: neither long nor short
_SPEAKER = re.compile("([^\\s:\uff1a][^:\uff1a\\n]{0,39})[:\uff1a]")
_WHEN = re.compile(
    r"^\s*(when|since when|how long|what (time|day|date|year|month))\b|什么时候|何时|几点|几号|哪(一)?[天年]|多久",
    re.IGNORECASE,
)
_TIME = re.compile(
    r"\d|\b(yesterday|today|tonight|tomorrow|last|next|ago|week|weekend|month|year|morning|night|day|"
    r"monday|tuesday|wednesday|thursday|friday|saturday|sunday|january|february|march|april|may|june|july|august|"
    r"september|october|november|december)\b|[昨今明][天晚年]|[年月日]|星期|周[一二三四五六日末]",
    re.IGNORECASE,
)
_NONE = Evidence(0.0)


def reorder(question: str, found: Sequence[Found], texts: Mapping[int, str], most: int) -> list[Found]:
    """The first `most` of what was found, by all that is known of them. `texts` are those of rows of a session."""
    looked, rest = found[:LOOKED], found[LOOKED:most]
    if not looked or looked[0].scored.evidence is None:
        return list(found[:most])
    sums = measure(question, looked, texts) @ WEIGHTS - _MIDDLE
    scores = (1 / (1 + np.exp(-sums))).tolist()
    order = sorted(range(len(looked)), key=lambda place: -scores[place])[:most]
    first = [looked[at]._replace(scored=looked[at].scored._replace(score=scores[at])) for at in order]
    if rest:  # they stay behind: their scores are below the last of these
        share = min(scores) / looked[-1].scored.score
        rest = [one._replace(scored=one.scored._replace(score=one.scored.score * share)) for one in rest]
    return [*first, *rest]


def measure(question: str, found: Sequence[Found], texts: Mapping[int, str]) -> Array:
    """One row of FEATURES for each that was found, which are in the order of the index."""
    scored = [one.scored for one in found]
    best, nearest = scored[0].score or 1.0, max(one.vectors for one in scored)
    speakers = {row: _read_speaker(text) for row, text in texts.items()}
    named = {name for name in set(speakers.values()) if name and _is_named(name, question)}
    wants_time = _WHEN.search(question) is not None
    table = np.zeros((len(scored), len(FEATURES)))
    for place, one in enumerate(scored):
        known = one.evidence or _NONE
        text = texts.get(one.row)
        table[place] = (
            one.score / best,
            known.own,
            known.own**2,
            known.around,
            known.before,
            max(0.0, 2 * one.vectors / nearest - 1) if nearest > 0 else 0.0,
            _measure_length(text) if text is not None and known.in_session else _USUAL,
            bool(named) and text is not None and speakers[one.row] not in named,
            text is not None and _asks(text),
            known.before if _asks(texts.get(known.previous, "")) else 0.0,
            wants_time and text is not None and _TIME.search(text) is not None,
        )
    return table


def _measure_length(text: str) -> float:
    return min(math.log(1 + len(text.encode("utf-8", "replace")) / _WORD), _LONGEST)


def _asks(text: str) -> bool:
    return "?" in text or "\uff1f" in text


def _read_speaker(text: str) -> str:
    """Who says it, where a text begins as turns of conversations do: `Ada: I play the cello`."""
    said = _SPEAKER.match(text)
    return said[1].strip().casefold() if said else ""


def _is_named(name: str, question: str) -> bool:
    if not name.isascii():  # Chinese and others have no gaps between words
        return name in question.casefold()
    return re.search(rf"\b{re.escape(name)}\b", question, re.IGNORECASE) is not None
