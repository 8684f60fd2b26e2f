"""What to do when a new memory meets an old one: rules in order, the first that speaks decides.

It knows two texts and, when given, their context; not where memories are kept. A destroyed
fact is worse than a duplicate, so a rule that is unsure keeps both.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from memlake.memories.rules import agree, disagree
from memlake.memories.rules.amounts import unify
from memlake.memories.rules.clauses import settle
from memlake.memories.rules.likes import judge_preference
from memlake.memories.rules.pairs import Pair, Verdict, part
from memlake.memories.rules.phrases import READ, plain, read_phrase
from memlake.memories.rules.sentences import split_lead_in
from memlake.memories.rules.uses import judge_change, judge_now_uses
from memlake.named_tuple import NamedTuple

# The order is part of the meaning: what is known of likings and attributes speaks before single words do.
RULES = (
    disagree.judge_other_object,
    disagree.judge_elliptic,
    judge_preference,
    judge_now_uses,
    disagree.judge_attribute,
    disagree.judge_negation,
    disagree.judge_correction,
    disagree.judge_opposite,
    disagree.judge_unspaced,
    disagree.judge_swapped,
    agree.judge_same,
    agree.judge_contained,
    agree.judge_close,
    judge_change,
    agree.judge_complementary,
)
# Said with less than certainty: a person, or a model, may know better.
UNSURE = {
    "preference-changed",
    "preference-narrowed",
    "correction",
    "correction-unsure",
    "attribute-unsure",
    "swapped-unsure",
    "negation-unsure",
    "attribute-narrowed",
    "uses-unsure",
    "fact-unsure",
    "change-unsure",
    "parts-unsure",
    "many-parts",
}


class Context(NamedTuple):
    """What is known beside the two texts: their cosine similarity, and the metadata, category and tags of each."""

    cosine: float | None = None
    old: Mapping[str, Any] = {}
    new: Mapping[str, Any] = {}


class Decision(str):
    """One of skip, replace, merge, conflict, coexist, add; with the rule that spoke and what was measured."""

    rule: str
    why: str
    scores: dict[str, float]
    text: str | None

    def __new__(cls, action: str, *, rule: str = "", why: str = "", text: str | None = None) -> Decision:
        decision = super().__new__(cls, action)
        decision.rule, decision.why, decision.text, decision.scores = rule, why, text, {}
        return decision

    @property
    def is_unsure(self) -> bool:
        """In the grey zone, where a person or a model may know better."""
        return self.rule in UNSURE


def decide(old: str, new: str, context: Context = Context()) -> Decision:  # noqa: B008  a record, never changed
    """What the new memory means for the old one."""
    before, after = plain(old), _read_plain(new) if len(new) <= READ else plain(new)
    cue, fact = split_lead_in(after[:READ])
    read = unify(before[:READ], fact)
    pair = Pair(read_phrase(before[:READ]), read_phrase(read), context.cosine, (context.old, context.new), cue)
    elsewhere = disagree.judge_other_context(pair)  # first: the same text is another fact of another user or package
    if elsewhere is None and before.split() == after.split():
        return Decision("skip", rule="same-text", why="The text is the same.")
    if elsewhere is None and max(len(before), len(after)) > READ:
        return _decision(_long(before, after), new)
    decision = _decision(elsewhere or settle(pair, _judge(pair), functools.partial(_judge_texts, cue)), new)
    decision.scores = _scores(pair)
    return decision


_read_plain = functools.lru_cache(maxsize=16)(plain)  # the new one, which is held against several


def _judge(pair: Pair) -> Verdict:
    return next((verdict for rule in RULES if (verdict := rule(pair))), None) or agree.judge_related(pair)


def _judge_texts(cue: str, old: str, new: str) -> Verdict:
    return _judge(Pair(read_phrase(old), read_phrase(new), cue=cue))


def _decision(verdict: Verdict, new: str) -> Decision:
    stands = split_lead_in(new)[1] if verdict.action in {"replace", "conflict"} else None
    return Decision(verdict.action, rule=verdict.rule, why=verdict.why, text=verdict.text or stands)


def _long(before: str, after: str) -> Verdict:
    """Pages are compared as text, which stays linear; their sentences are not read."""
    if after and after in before:
        return Verdict("skip", "long-subset", "The old text holds it whole.")
    if before and before in after:
        return Verdict("replace", "long-superset", "It holds the old text whole.")
    if part(frozenset(before[:READ].lower().split()), frozenset(after[:READ].lower().split())) < 0.5:
        return Verdict("add", "long-unrelated", "Too long to be read, and they begin differently.")
    return Verdict("coexist", "long-related", "Too long to be read, and they begin alike.")


def _scores(pair: Pair) -> dict[str, float]:
    scores = {"old_in_new": pair.inside[0], "new_in_old": pair.inside[1], "overlap": pair.overlap}
    return scores if pair.cosine is None else scores | {"cosine": pair.cosine}
