"""The merge rules for memories that agree: the same, one inside the other, two that add up; and the last word."""

from __future__ import annotations

import re

from memlake.memories.rules import lexicon
from memlake.memories.rules.pairs import Pair, Verdict
from memlake.memories.rules.phrases import Phrase, common, content, stem
from memlake.memories.rules.sentences import Frame, find_frame
from memlake.memories.rules.subjects import (
    ADVERBS,
    Told,
    find_told,
    is_known,
    is_user,
    same_subject,
    take_subject,
    write_told,
)
from memlake.memories.rules.uses import find_used

MOST_PARTS = 4  # a merged memory of more parts mixes too much; the new one is kept beside it instead
MOST_UNLIKE = 2  # ... under a key as wide as `User preference`, of parts that share no word
LONGEST_PART = 200
GENERIC = frozenset(map(stem, lexicon.GENERIC))
PERSON = re.compile(r"[A-Z][a-z]+(?: [A-Z][a-z]+)?")
LIGHT = frozenset(map(stem, lexicon.LIGHT))
BEING = frozenset({"is", "am", "are", "was", "were", "has", "have", "had"})
# What one does again and again: the day, the time of day or the meal it goes with.
ROUTINE = re.compile(
    r"\b(?:every|each|daily|weekly|monthly|usually|regularly|nightly)\b"
    r"|\b(?:mon|tues|wednes|thurs|fri|satur|sun)days\b|\bat \d{1,2}(?::\d\d)? ?(?:am|pm)?\b"
    r"|\b(?:on|in the|at|before|after|over) (?:(?:mon|tues|wednes|thurs|fri|satur|sun)days?|mornings?|afternoons?"
    r"|evenings?|night|noon|weekends?|bed|sleep|work|school|breakfast|lunch|dinner)\b"
    "|习惯|每天|每周|每週|每晚|每月|早上|上午|中午|下午|晚上|睡前|饭后|飯後|周末|週末|平时|平時"
)


def judge_same(pair: Pair) -> Verdict | None:
    """The same words of meaning in the same order, in the order of the passive, or as a compound of two."""
    if not pair.old.bag or pair.old.bag != pair.new.bag or pair.apart or pair.values_differ:
        return None
    in_order = pair.old.active_stems == pair.new.active_stems and not pair.misplaced and not pair.other_doings
    compound = _compound(pair.old)
    if in_order or _turned(pair.old, pair.new) or (compound is not None and compound == _compound(pair.new)):
        return Verdict("skip", "same-meaning", "It says the same in other words.")
    return None


def _turned(old: Phrase, new: Phrase) -> bool:
    """`Ines is the user's manager`, `User's manager is Ines`: the sides of `is` change places where one is definite."""
    sides = [_sides(phrase.words) for phrase in (old, new)]
    return sides[0] is not None and sides[1] is not None and sides[0] == sides[1][::-1]


def _sides(words: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    at = words.index("is") if words.count("is") == 1 else 0
    before, after = words[:at], words[at + 1 :]
    definite = at and after and not {before[0], after[0]}.isdisjoint(("the", "my", "our", "user"))
    return (tuple(content(before)), tuple(content(after))) if definite else None


def _compound(phrase: Phrase) -> tuple[tuple[str, ...], frozenset[str]] | None:
    """Who is or has what, in two words of any order: `is allergic to nuts`, `has a nut allergy`. Not who does what."""
    at = next((at for at, word in enumerate(phrase.words) if word in BEING), len(phrase.words))
    who, what = tuple(content(phrase.words[:at])), tuple(content(phrase.words[at + 1 :]))
    doing = any(word.endswith("ing") for word in phrase.words[at + 1 :])
    return (who, frozenset(what)) if len(what) == 2 and not doing and not phrase.names else None


def judge_contained(pair: Pair) -> Verdict | None:
    """All that one says is in the other, in order; not for what is denied, which entails the other way round."""
    if max(pair.inside) < 1.0 or min(pair.inside) == 1.0 or pair.misplaced or pair.old.denials:
        return None
    if pair.inside[1] == 1.0 and _says_all(pair, pair.new, pair.old):
        return Verdict("skip", "subset", "The old one says all of it, and more.")
    if pair.inside[0] == 1.0 and _says_all(pair, pair.old, pair.new):
        return Verdict("replace", "superset", "It says all that the old one does, and more.")
    return None


def _says_all(pair: Pair, small: Phrase, large: Phrase) -> bool:
    if _goes_on(small, large):  # a time that has a day before it says when on that day
        return not pair.apart or (not pair.apart_beside_situation and frozenset() < small.situations < large.situations)
    if pair.apart or not (len(pair.shared_stems) > 1 or _is_member(small, large)):
        return False
    left = iter(large.active_stems)
    return small.doings <= large.doings and all(word in left for word in small.active_stems)


def _goes_on(small: Phrase, large: Phrase) -> bool:
    """`has a dog`, `has a dog named Biscuit`."""
    return len(small.words) > 2 and large.words[: len(small.words)] == small.words


def _is_member(small: Phrase, large: Phrase) -> bool:
    """`has a car`, `has a bicycle and a car`."""
    at = common(small.words, large.words)[0]
    listed = " ".join(large.words[at:]).split(" and ")
    return at > 1 and len(listed) > 1 and " ".join(small.words[at:]) in [one.removeprefix("a ") for one in listed]


def judge_close(pair: Pair) -> Verdict | None:
    """Vectors almost alike, most words shared, nothing that tells them apart."""
    if pair.cosine is None or pair.cosine < 0.93 or min(pair.inside) < 0.6 or pair.apart or pair.values_differ:
        return None
    return Verdict("skip", "close", "It means the same, by its vector and most of its words.")


def judge_complementary(pair: Pair) -> Verdict | None:
    """Two short facts about one subject, neither against the other; about the user, with a topic in common."""
    if max(len(pair.old.text), len(pair.new.text)) > LONGEST_PART or pair.old.text.endswith("?"):
        return None
    new = find_told(pair.new.text)
    if new is None or (new.subject.isascii() and not Phrase(new.subject).bag <= pair.old.bag):
        return None
    if (old := find_told(pair.old.text)) is not None:
        new = take_subject(old.subject, new)
    if old is None or not same_subject(old.subject, new.subject) or not is_known(new.subject):
        return None
    facts = (*old.facts, *new.facts)
    if len(facts) > MOST_PARTS or _opposed(old, new) or not _one_topic(pair, old, new):
        return None
    if any(_told_alike(one, other) for one in old.facts for other in new.facts):
        return Verdict("coexist", "fact-unsure", f"Both tell the same sort of thing of {new.subject}; both may hold.")
    if _repeats(old, new):
        return None
    text = write_told(Told(old.subject, facts))
    return Verdict("merge", "complementary", "They add to each other on one subject.", text)


def _told_alike(one: str, other: str) -> bool:
    """`works in the design team`, `works in the sales team`: the same verb, and another place."""
    was, came = Phrase(one).words, Phrase(other).words
    return len(was) > 1 < len(came) and was[:2] == came[:2] and was[1] in lexicon.PLACES


def _one_topic(pair: Pair, old: Told, new: Told) -> bool:
    """What is told of a thing or another person has one, but where somebody lives or works stays by itself.

    What is told of the user may be of anything.
    """
    if not is_user(new.subject):
        person = PERSON.fullmatch(new.subject) is not None and (_is_state(pair.old) or _is_state(pair.new))
        return not person and all(map(_lasts, (*old.facts, *new.facts)))
    if _changes(pair.old) or _changes(pair.new):
        return False
    if all(map(_is_routine, (*old.facts, *new.facts))):
        return not _shared_verb(old, new)
    if not new.subject.isascii():  # each character is a word here, so more than a verb must be shared
        return all(fact[:4] == new.facts[0][:4] for fact in old.facts)
    return not pair.apart and bool(_bag(old) & _bag(new) - LIGHT) and not _same_verb_other_name(pair)


def _bag(told: Told) -> frozenset[str]:
    return frozenset().union(*(Phrase(fact).bag for fact in told.facts))


def _opposed(old: Told, new: Told) -> bool:
    """One denies something of what the other tells: whether both hold is not for this rule."""
    sides = [[Phrase(fact) for fact in told.facts] for told in (old, new)]
    denied = [frozenset().union(*(one.bag for one in side if one.denials)) for side in sides]
    return bool(denied[0] & _bag(new) or denied[1] & _bag(old))


def _repeats(old: Told, new: Told) -> bool:
    """`is calm`, `is calm today`; `mends clocks`, `repairs clocks`: together they would say it twice."""
    if is_user(new.subject):  # what the user wants of one thing is told with the thing
        bags = [[Phrase(fact).bag for fact in told.facts] for told in (old, new)]
        return any(one <= other or other <= one for one in bags[0] for other in bags[1])
    bags = [[_without_verb(Phrase(fact)) for fact in told.facts] for told in (old, new)]
    return any(2 * len(one & other) >= min(len(one), len(other)) for one in bags[0] for other in bags[1])


def _without_verb(fact: Phrase) -> frozenset[str]:
    return frozenset(content(fact.words[1:])) or fact.bag


def _lasts(fact: str) -> bool:
    """A property or habit; not what happens at the moment (`is running`) and not an event (`met Kim`)."""
    words = [word for word in Phrase(fact).words if word not in ADVERBS] or [""]
    if words[0] in BEING:
        return not words[-1 if len(words) == 1 else 1].endswith("ing")
    return words[0] not in lexicon.PAST and not words[0].endswith("ed")


def _is_routine(fact: str) -> bool:
    return ROUTINE.search(fact.lower()) is not None and _lasts(fact)


def _shared_verb(old: Told, new: Told) -> bool:
    """`drinks tea in the evening` and `drinks coffee in the morning` are two choices, each a memory of its own."""
    bare = [[ROUTINE.sub("", fact).strip() for fact in told.facts] for told in (old, new)]
    first = [{next(Phrase(fact).content_stems, "") for fact in facts} for facts in bare]
    return not first[0].isdisjoint(first[1])


def _changes(phrase: Phrase) -> bool:
    """What has one value at a time stays a memory of its own, or its next value would not find it."""
    return find_used(phrase) is not None or _is_state(phrase)


def _is_state(phrase: Phrase) -> bool:
    """`lives in Lisbon`, `works at Acme`; with what a thing works it may work with several."""
    frame = find_frame(phrase)
    return frame is not None and frame.shape == "state" and find_used(phrase) is None


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
