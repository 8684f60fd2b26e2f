"""Memories of several facts: a verdict on the whole must hold for a part, and the parts it does not touch stay."""

from __future__ import annotations

import re
from collections.abc import Callable

from memlake.memories.rules.pairs import Pair, Verdict
from memlake.memories.rules.phrases import Phrase
from memlake.memories.rules.subjects import Told, find_told, name_fact, same_subject, write_told

MOST = 12  # parts compared with parts; a memory of more is kept beside the other
KEPT = frozenset({"coexist", "add", "merge"})
BACKWARD = frozenset({"it", "its", "they", "their", "this", "these", "that", "those"})
Judge = Callable[[str, str], Verdict]


def settle(pair: Pair, verdict: Verdict, judge: Judge) -> Verdict:
    """The verdict as it is for single facts; for several, checked part by part."""
    old, new = split_parts(pair.old), split_parts(pair.new)
    if len(old) > 1 == len(new) and verdict.action in KEPT and verdict.rule != "other-context":
        return _settle_part(pair, verdict, judge)
    if (
        len(old) == len(new) == 1
        or verdict.action in KEPT
        or verdict.rule in {"same-meaning", "collected", "preference-retold"}
    ):
        return verdict
    if max(len(old), len(new)) > MOST:
        return Verdict("coexist", "many-parts", "Too many facts in one memory to tell which of them it touches.")
    if verdict.action == "skip":
        return verdict if _all_in(new, old, judge) else _keep_both(verdict)
    if verdict.action == "replace":
        return verdict if _all_in(old, new, judge) else _keep_both(verdict)
    return _conflict(pair, verdict, judge)


def split_parts(phrase: Phrase) -> list[str]:
    """Its sentences; `Anna paints; speaks Dutch` as `Anna paints` and `Anna speaks Dutch`, `User: a; b` likewise."""
    told = find_told(phrase.text) if re.search("[;\uff1b]", phrase.text) else None
    return [name_fact(told.subject, fact) for fact in told.facts] if told else list(phrase.sentences) or [phrase.text]


def _settle_part(pair: Pair, verdict: Verdict, judge: Judge) -> Verdict:
    """What the new memory means for one of the facts that were merged; the others stay as they are."""
    told, new = find_told(pair.old.text), find_told(pair.new.text)
    if told is None or len(told.facts) == 1 or len(told.facts) > MOST:
        return verdict
    said = [judge(name_fact(told.subject, fact), pair.new.text) for fact in told.facts]
    at = next((at for at, one in enumerate(said) if one.action in {"skip", "conflict", "replace"}), None)
    if at is None or (said[at].action != "skip" and (new is None or not same_subject(told.subject, new.subject))):
        return verdict
    if said[at].action == "skip":
        return said[at]
    stands = find_told(said[at].text or pair.new.text) or new
    assert stands is not None
    facts = (*told.facts[:at], *stands.facts, *told.facts[at + 1 :])
    return said[at]._replace(text=write_told(Told(told.subject, facts)))


def _all_in(small: list[str], large: list[str], judge: Judge) -> bool:
    return all(any(one == other or judge(other, one).action == "skip" for other in large) for one in small)


def _keep_both(verdict: Verdict) -> Verdict:
    return Verdict("coexist", "parts-unsure", f"As a whole ({verdict.rule}), but no single part says so.")


def _conflict(pair: Pair, verdict: Verdict, judge: Judge) -> Verdict:
    """The new one wins over the parts it contradicts; the others stay in the text."""
    old, new = split_parts(pair.old), split_parts(pair.new)
    judged = [_judge_part(one, pair.new.text, new, judge) for one in old]
    if "conflict" not in judged:
        return _keep_both(verdict)
    about = pair.frames[0].value.bag if pair.frames and verdict.rule.startswith("preference") else frozenset()
    kept = [one for one, said in zip(old, judged, strict=True) if said in KEPT and not _needs_lost_part(one, about)]
    return verdict._replace(text=_join_parts(pair.old.text, kept, verdict.text or pair.new.text)) if kept else verdict


def _judge_part(one: str, whole: str, new: list[str], judge: Judge) -> str:
    """What the new memory means for one part; words gathered from several of its sentences contradict nothing."""
    said = judge(one, whole)
    if said.rule not in {"negation", "opposite"} or any(judge(one, other).action == "conflict" for other in new):
        return said.action
    return "coexist"


def _needs_lost_part(part: str, about: frozenset[str]) -> bool:
    """It only makes sense after the part that is gone: `It keeps me calm`, or the reason for a liking."""
    phrase = Phrase(part)
    first = phrase.words[0] if phrase.words else ""
    return first in BACKWARD or bool(about and (first == "i" or phrase.bag & about))


def _join_parts(old: str, kept: list[str], new: str) -> str:
    subject, colon, listed = old.partition(":")
    if "\n" in old:
        return "\n".join([new, *kept])
    if colon and ";" in listed:
        return f"{subject}: {'; '.join(one.removeprefix(f'{subject} ') for one in (*kept, new))}"
    return " ".join([new if new.endswith((".", "!", "?", "。")) else f"{new}.", *kept])
