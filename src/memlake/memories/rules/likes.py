"""The merge rules for likes and dislikes: what is liked no longer, differently, or for one more reason."""

from __future__ import annotations

import re

from memlake.memories.rules.agree import MOST_PARTS, split_members
from memlake.memories.rules.lexicon import LANGUAGES, LIKED_KINDS
from memlake.memories.rules.pairs import Pair, Verdict
from memlake.memories.rules.phrases import Phrase, find_opposites, stem
from memlake.memories.rules.sentences import OVER, WHERE, Frame, head_noun, split_items

TAILED = re.compile(r"(?P<what>[\w ]+?) (?P<how>in|with|without|under|below|over|as|on|at|from|by|for) ")
RETOLD = 2  # words of meaning that a reason takes up from the one before
KIND_OF_LIKED = {stem(name): group.split()[0] for group in LIKED_KINDS for name in group.split()}


def judge_preference(pair: Pair) -> Verdict | None:
    """Both say what the same subject likes or dislikes."""
    if pair.frames is None:
        return None
    old, new = pair.frames
    if not old.shape == new.shape == "preference" or old.key != new.key:
        return None
    if old.positive and new.positive and (_refuses(new, old) or _refuses(old, new)):
        return Verdict("conflict", "preference-turned", "One says outright that the other's is not liked.")
    if not _same_thing(old.value, new.value) and not _rivals(old.value, new.value):
        shared = old.value.bag & new.value.bag
        return Verdict(
            "coexist" if shared else "add", "preference-other", "Both say what is liked, of different things."
        )
    elsewhere = _elsewhere(old.value.text, new.value.text) and "now" not in pair.new.words
    if old.value.situations != new.value.situations or elsewhere:
        return Verdict("coexist", "other-situation", "Both say what is liked, each for its own situation.")
    return _opposite(old, new) if old.positive != new.positive else _alike(pair, old, new)


def _opposite(old: Frame, new: Frame) -> Verdict:
    if old.value.bag <= new.value.bag or new.value.bag <= old.value.bag:
        return Verdict("conflict", "preference-turned", "What was liked is disliked, or the other way.")
    if _rivals(old.value, new.value):
        return Verdict("coexist", "preference-rival", "To like one and not its rival is no contradiction.")
    return Verdict("conflict", "preference-changed", "The same kind of thing is liked in one form and not in another.")


def _alike(pair: Pair, old: Frame, new: Frame) -> Verdict | None:
    before, after = old.value.bag, new.value.bag
    if _turned_over(old.value.text, new.value.text):
        return Verdict("conflict", "preference-turned", "What came second is now preferred.")
    if after == before:
        return _reasons(pair, old, new)
    if after < before and WHERE.search(old.value.text.lower()) and not WHERE.search(new.value.text.lower()):
        return Verdict("coexist", "other-situation", "One is liked there, the other anywhere.")
    if after < before:
        return None  # the old one says all of it: containment decides
    if before < after and _list_grew(old.value.text, new.value.text):
        if _retold(pair, old, new):
            return Verdict(
                "conflict", "preference-retold", "The list of what is liked grew, and the reason is told anew."
            )
        return Verdict("replace", "preference-list", "The list of what is liked grew.")
    if _tails_add(old.value.text, new.value.text):
        return None  # of the same thing, and they add up
    if before < after:
        return Verdict("conflict", "preference-narrowed", "It is narrower: to like a part is not to like the whole.")
    return Verdict("conflict", "preference-changed", "The same kind of thing is liked, in another form.")


def _reasons(pair: Pair, old: Frame, new: Frame) -> Verdict | None:
    """The same liking: what follows it are reasons, and reasons add up."""
    had, came = _after(pair.old, old), _after(pair.new, new)
    known, given = Phrase(had).bag, Phrase(came).bag
    if known <= given or given <= known:
        return None
    if _retold(pair, old, new):
        return Verdict("conflict", "preference-retold", "The same liking, and its reason told anew.")
    if len(split_members(had)) >= MOST_PARTS:
        return Verdict("coexist", "preference-reason", "The same liking, with reasons enough.")
    liking = pair.old.text[: len(pair.old.text) - len(had)].rstrip(" .:;,")
    return Verdict(
        "merge", "preference-reason", "The same liking, for another reason.", f"{liking}: {had.rstrip('.')}; {came}"
    )


def _retold(pair: Pair, old: Frame, new: Frame) -> bool:
    """Both give a reason, and the new one takes up the old one's words beside what is liked."""
    liked = old.value.bag | new.value.bag
    known, given = (Phrase(_after(phrase, frame)).bag - liked for phrase, frame in ((pair.old, old), (pair.new, new)))
    return len(known & given) >= RETOLD


def _after(phrase: Phrase, frame: Frame) -> str:
    return phrase.text.partition(frame.value.text)[2].lstrip(" .:;,")


def _refuses(one: Frame, other: Frame) -> bool:
    """`tea, not coffee` against `coffee`."""
    same = one.value.situations == other.value.situations
    return same and one.denied is not None and bool(one.denied.bag) and one.denied.bag <= other.value.bag


def _same_thing(old: Phrase, new: Phrase) -> bool:
    """What one is about is in the other: `rye bread`, `bread with seeds`; not `red bike`, `red car`.

    A kind with several names is one when a word beside it is the same: `self-help books`, `practical self-help guides`.
    """
    was, came = head_noun(old.text), head_noun(new.text)
    if was in new.bag or came in old.bag:
        return True
    return bool(old.bag & new.bag) and KIND_OF_LIKED.get(was, was) == KIND_OF_LIKED.get(came, came)


def _rivals(old: Phrase, new: Phrase) -> bool:
    """`tabs`, `spaces`."""
    return bool(find_opposites(old.bag - new.bag, new.bag - old.bag))


def _elsewhere(old: str, new: str) -> bool:
    """`seats on planes`, `seats on trains`; but `messages in Chinese`, `in English` are two ways to write them all."""
    was, comes = WHERE.search(old.lower()), WHERE.search(new.lower())
    if not was or not comes:
        return False
    languages = all(LANGUAGES & set(Phrase(found["where"]).words) for found in (was, comes))
    return not languages and Phrase(was["where"]).bag.isdisjoint(Phrase(comes["where"]).bag)


def _tails_add(old: str, new: str) -> bool:
    """`names in English`, `names without abbreviations`: each says something else of the same thing."""
    was, came = TAILED.match(old), TAILED.match(new)
    return bool(was and came and was["what"].lower() == came["what"].lower() and was["how"] != came["how"])


def _list_grew(old: str, new: str) -> bool:
    had, has = split_items(old), split_items(new)
    return len(has) > len(had) and all(one in has for one in had)


def _turned_over(old: str, new: str) -> bool:
    """`email over phone`, `phone over email`."""
    sides = [[Phrase(side).bag for side in OVER.split(text, maxsplit=1)] for text in (old, new)]
    return len(sides[0]) == len(sides[1]) == 2 and bool(sides[0][0] & sides[1][1] or sides[0][1] & sides[1][0])
