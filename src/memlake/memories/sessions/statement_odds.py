"""How likely a sentence states something that holds beyond this turn, by what it is made of. Pure.

People say what is to hold in more ways than rules list (`tabs, not spaces`, `hotfixes go straight to main`). So what a
sentence is made of is weighed beside what the rules say of it: its words, how it begins, the kinds of its words. The
weights are learnt from invented sentences by `benchmarks/train_statements.py` and stand in `statement_odds.txt`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path

from memlake.memories.sessions import prompts
from memlake.memories.sessions.cues import chinese as zh
from memlake.memories.sessions.cues import english as en
from memlake.memories.sessions.prompts import Sentence

_WEIGHTS = Path(__file__).with_name("statement_odds.txt")
_KINDS = {
    "order": en.ORDERS, "passing": en.PASSING_ORDERS, "using": en.USING, "held": en.HELD, "pronoun": en.PRONOUNS,
    "group": en.GROUPS, "must": en.MUST, "copula": en.COPULAS, "bug": en.BUGS, "unit": en.UNITS, "limit": en.LIMITS,
    "number": en.NUMBERS, "every": en.EVERY, "work": en.WORK, "manner": en.MANNER, "here": en.AT_HAND,
    "describing": en.DESCRIBING, "condition": en.CONDITIONS, "ask": en.ASKING, "finding": en.FINDING,
    "placed": en.PLACED, "forbid": en.FORBIDDING, "lead": en.LEADS | en.LEADS_APART,
}  # fmt: skip
_FIRST = 5  # words of a clause whose kinds are looked at in order


def judge(sentence: Sentence, ruled: str) -> float:
    """From 0 to 1; `ruled`: the kind that the rules say it is, empty for none."""
    weights = _read_weights()
    total = weights[""] + sum(weights.get(feature, 0.0) for feature in set(list_features(sentence, ruled)))
    return 1 / (1 + math.exp(-max(-30.0, min(30.0, total))))


@cache
def _read_weights() -> dict[str, float]:
    """By feature; that of all sentences has an empty name."""
    lines = _WEIGHTS.read_text(encoding="utf-8").split("\n")
    return {name: float(weight) for name, _, weight in (line.rpartition("\t") for line in lines) if weight}


def list_features(sentence: Sentence, ruled: str) -> Iterator[str]:
    """What a sentence is made of, by name."""
    yield f"ruled:{bool(ruled)}"
    yield f"asked:{prompts.is_question(sentence)}"
    yield from _list_chinese(sentence.masked) if sentence.is_cjk else _list_english(sentence)


def _list_chinese(text: str) -> Iterator[str]:
    plain = "".join("#" if sign.isdigit() else sign.lower() for sign in text if not sign.isspace()).strip("。.!！")  # noqa: RUF001
    for size in (1, 2, 3):
        yield from (plain[at : at + size] for at in range(len(plain) - size + 1))
        yield f"first:{plain[:size]}"
        yield f"last:{plain[-size:]}"
    yield f"long:{min(len(plain) // 8, 5)}"
    for name in ("MOMENTARY", "MAYBE", "IDLE", "LASTING", "LIMIT", "BUGS", "FORBID", "OUGHT", "WORK", "CHOSE"):
        if any(cue in text for cue in getattr(zh, name)):
            yield f"zh:{name}"


def _list_english(sentence: Sentence) -> Iterator[str]:
    clauses = list(sentence.list_clauses())
    padded = sentence.padded
    yield f"long:{min(len(sentence.words) // 4, 5)}"
    yield f"clauses:{min(len(clauses), 4)}"
    yield f"momentary:{any(cue in padded for cue in en.MOMENTARY)}"
    yield f"unsure:{any(cue in padded for cue in en.UNSURE)}"
    yield f"corrects:{sentence.corrects}"
    low = [_shape(word.text, word.low) for word in sentence.words]
    yield from low
    yield from (f"{one} {two}" for one, two in pairwise(low))
    yield f"begins:{' '.join(low[:1])}"
    yield f"begins:{' '.join(low[:2])}"
    yield f"ends:{low[-1] if low else ''}"
    for clause in clauses:
        yield from _list_kinds([_shape(word.text, word.low) for word in clause])


def _list_kinds(low: Sequence[str]) -> Iterator[str]:
    """How a clause begins, by the kinds of its words: `no` + several, several + `are`."""
    kinds = [_kind(word) for word in low[:_FIRST]]
    yield f"clause:{low[0]}"
    yield f"kinds:{kinds[0]}"
    yield f"kinds:{' '.join(kinds[:2])}"
    yield f"kinds:{' '.join(kinds[:3])}"
    for name, words in _KINDS.items():
        if any(word in words for word in low):
            yield f"has:{name}"


def _kind(word: str) -> str:
    if word in ("#", "file", "quoted", ","):
        return word
    named = next((name for name, words in _KINDS.items() if word in words), "")
    return named or (
        "ing" if word.endswith("ing") else "ed" if word.endswith("ed") else "s" if _is_plural(word) else ""
    )


def _is_plural(word: str) -> bool:
    return len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is"))


def _shape(text: str, low: str) -> str:
    """A word as it is weighed: numbers alike, and names of code and files."""
    if text[:1] in "\"'`“「":
        return "quoted"
    if low[:1].isdigit():
        return "#"
    inner = text.strip(".,;:!?")
    coded = any(sign in inner for sign in "_/\\()=<>") or (inner[1:] != inner[1:].lower() and not inner.isupper())
    return "file" if coded or ("." in inner and len(inner) > 3) else low
