"""The merge rules for likes and dislikes: what is liked more than once, differently or no longer."""

from __future__ import annotations

from memlake.memories.frames import OVER, Frame, head_noun, items
from memlake.memories.pairs import Pair, Verdict, part
from memlake.memories.phrases import Phrase, opposed


def preference(pair: Pair) -> Verdict | None:
    """Both say what the same subject likes or dislikes."""
    if pair.frames is None:
        return None
    old, new = pair.frames
    if not old.shape == new.shape == "preference" or old.key != new.key:
        return None
    rivals = opposed(old.value.bag - new.value.bag, new.value.bag - old.value.bag)
    if not rivals and not _same_thing(old.value, new.value):
        return _apart(old.value, new.value)
    if old.value.situations != new.value.situations:
        return Verdict("coexist", "other-situation", "Both say what is liked, each for its own situation.")
    if old.positive != new.positive:
        return Verdict("conflict", "preference-turned", "What was liked is disliked, or the other way.")
    if _turned_over(old.value.text, new.value.text):
        return Verdict("conflict", "preference-turned", "What came second is now preferred.")
    return _same_direction(pair, old, new)


def _same_direction(pair: Pair, old: Frame, new: Frame) -> Verdict | None:
    before, after = old.value.bag, new.value.bag
    if after <= before:
        return None if after != before else _reasons(pair)
    if before < after and _list_grew(old.value.text, new.value.text):
        return Verdict("replace", "preference-list", "The list of what is liked grew.")
    if before < after:
        why = "What is liked became narrower: liking a part does not entail liking the whole."
        return Verdict("conflict", "preference-narrowed", why)
    return Verdict("conflict", "preference-changed", "The same kind of thing is liked, in another form.")


def _reasons(pair: Pair) -> Verdict | None:
    """The same liking: what follows it are reasons, and reasons add up."""
    old, new = (
        frozenset().union(*(Phrase(one).bag for one in phrase.sentences[1:])) for phrase in (pair.old, pair.new)
    )
    if part(new, old) == 1.0 or part(old, new) == 1.0 or not (old and new):
        return None
    joined = f"{pair.old.text.rstrip(' .')}; {' '.join(pair.new.sentences[1:])}"
    return Verdict("merge", "preference-reason", "The same liking, for another reason.", joined)


def _same_thing(old: Phrase, new: Phrase) -> bool:
    """One's head noun is in the other, or half of the shorter one's words are."""
    shared = old.bag & new.bag
    return bool(shared) and (
        head_noun(old.text) in new.bag
        or head_noun(new.text) in old.bag
        or max(part(old.bag, new.bag), part(new.bag, old.bag)) >= 0.5
    )


def _apart(old: Phrase, new: Phrase) -> Verdict:
    if old.bag & new.bag:
        return Verdict("coexist", "preference-other", "Both say what is liked, of things with a word in common.")
    return Verdict("add", "preference-other", "Both say what is liked, of different things.")


def _list_grew(old: str, new: str) -> bool:
    had, has = items(old), items(new)
    return len(has) > len(had) and all(one in has for one in had)


def _turned_over(old: str, new: str) -> bool:
    """`email over phone` became `phone over email`."""
    sides = [[Phrase(side).bag for side in OVER.split(text, maxsplit=1)] for text in (old, new)]
    return len(sides[0]) == len(sides[1]) == 2 and bool(sides[0][0] & sides[1][1] or sides[0][1] & sides[1][0])
