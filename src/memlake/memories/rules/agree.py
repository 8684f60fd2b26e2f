"""The merge rules for memories that agree: the same, one inside the other, two that add up; and the last word."""

from __future__ import annotations

import re

from memlake.memories.rules import lexicon
from memlake.memories.rules.pairs import Pair, Verdict
from memlake.memories.rules.phrases import Phrase, content, stem
from memlake.memories.rules.sentences import Frame, find_frame
from memlake.memories.rules.uses import find_used

MOST_PARTS = 4  # a merged memory of more parts mixes too much; the new one is kept beside it instead
MOST_UNLIKE = 2  # ... under a key as wide as `User preference`, of parts that share no word
LONGEST_PART = 200
GENERIC = frozenset(map(stem, lexicon.GENERIC))
LIGHT = frozenset(map(stem, lexicon.LIGHT))
BEING = frozenset({"is", "am", "are", "was", "were", "has", "have", "had"})
USER = re.compile(r"(?:(?:the )?user\b(?!')|I\b(?!')):?\s*", re.IGNORECASE)


def judge_same(pair: Pair) -> Verdict | None:
    """The same words of meaning in the same order, in the order of the passive, or as a compound of two."""
    old, new = _compound(pair.old), _compound(pair.new)
    alike = pair.old.active_stems == pair.new.active_stems or (old == new and old is not None)
    if not pair.old.bag or not alike or pair.apart or pair.values_differ:
        return None
    return Verdict("skip", "same-meaning", "It says the same in other words.")


def _compound(phrase: Phrase) -> tuple[tuple[str, ...], frozenset[str]] | None:
    """Who is or has what, in two words of any order: `is allergic to nuts`, `has a nut allergy`. Not who does what."""
    at = next((at for at, word in enumerate(phrase.words) if word in BEING), len(phrase.words))
    who, what = tuple(content(phrase.words[:at])), tuple(content(phrase.words[at + 1 :]))
    doing = any(word.endswith("ing") for word in phrase.words[at + 1 :])
    return (who, frozenset(what)) if len(what) == 2 and not doing and not phrase.names else None


def judge_contained(pair: Pair) -> Verdict | None:
    """All that one says is in the other, in order; not for what is denied, which entails the other way round."""
    if (
        len(pair.shared_stems) < 2
        or max(pair.inside) < 1.0
        or min(pair.inside) == 1.0
        or pair.apart
        or pair.old.denials
    ):
        return None
    if pair.inside[1] == 1.0 and _in_order(pair.new.active_stems, pair.old.active_stems):
        return Verdict("skip", "subset", "The old one says all of it, and more.")
    if pair.inside[0] == 1.0 and _in_order(pair.old.active_stems, pair.new.active_stems):
        return Verdict("replace", "superset", "It says all that the old one does, and more.")
    return None


def _in_order(small: tuple[str, ...], large: tuple[str, ...]) -> bool:
    left = iter(large)
    return all(word in left for word in small)


def judge_close(pair: Pair) -> Verdict | None:
    """Vectors almost alike, most words shared, nothing that tells them apart."""
    if pair.cosine is None or pair.cosine < 0.93 or min(pair.inside) < 0.6 or pair.apart or pair.values_differ:
        return None
    return Verdict("skip", "close", "It means the same, by its vector and most of its words.")


def judge_complementary(pair: Pair) -> Verdict | None:
    """Two short facts about the user with a topic in common, neither against the other."""
    old, new = (_of_user(phrase) for phrase in (pair.old, pair.new))
    if not old or not new or pair.apart:
        return None
    if _changes(pair.old) or _changes(pair.new):
        return None
    topic = (Phrase(old).bag & Phrase(new).bag) - LIGHT
    if not topic or len(split_members(old)) >= MOST_PARTS or _same_verb_other_name(pair):
        return None
    return Verdict(
        "merge",
        "complementary",
        "They add to each other on one subject.",
        f"User: {'; '.join(split_members(old))}; {new}",
    )


def _changes(phrase: Phrase) -> bool:
    """What has one value at a time stays a memory of its own, or its next value would not find it."""
    frame = find_frame(phrase)
    return find_used(phrase) is not None or (frame is not None and frame.shape == "state")


def _of_user(phrase: Phrase) -> str:
    """What a single short sentence says of the user, without saying `user`."""
    said = USER.match(phrase.text)
    fits = said and len(phrase.sentences) == 1 and len(phrase.text) <= LONGEST_PART
    return phrase.text[said.end() :].strip().rstrip(".") if said and fits else ""


def _same_verb_other_name(pair: Pair) -> bool:
    """`met Alice` and `met Bob` are an event each."""
    old, new = pair.only
    return pair.old.stems[:1] == pair.new.stems[:1] and bool(pair.old.names & old and pair.new.names & new)


def collect_values(pair: Pair, old: Frame, new: Frame) -> Verdict:
    """The same key collects values: `User preference: a; b`."""
    had, came = split_members(old.value.text), split_members(new.value.text)
    known, given = [Phrase(one).bag for one in had], [Phrase(one).bag for one in came]
    fresh = [one for one, bag in zip(came, given, strict=True) if bag not in known]
    if not fresh:
        return Verdict("skip", "collected", "Every value it lists is there already.")
    if all(bag in given for bag in known):
        return Verdict("replace", "collected", "It lists all that was there, and more.")
    heap = new.key <= GENERIC and not old.value.bag & new.value.bag
    if len(had) + len(fresh) > (MOST_UNLIKE if heap else MOST_PARTS):
        return Verdict("coexist", "collected-apart", "One key, but together they would mix too much.")
    return Verdict(
        "merge", "collected", "Both add values under one key.", "; ".join([pair.old.text.rstrip(" .;"), *fresh])
    )


def split_members(text: str) -> list[str]:
    return [one.strip().rstrip(".") for one in text.split(";") if one.strip()]


def judge_related(pair: Pair) -> Verdict:
    """The last word: together or apart, never destroyed."""
    if (pair.cosine or 0.0) >= 0.5 or pair.overlap >= 0.2 or max(pair.inside) >= 0.3:
        return Verdict("coexist", "related", "They speak of the same things; both may hold.")
    return Verdict("add", "unrelated", "They share too little to be about the same thing.")
