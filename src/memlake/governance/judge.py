"""Judging: what the rules of a branch, or a preference that was typed, say of a merge or a promotion. Reads only.

A value that is not recorded, or was recorded before the path last changed, is never guessed: what is required fails,
and what is preferred stays a conflict.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from memlake.errors import Denied, pasted
from memlake.governance.policy import Preference, Rule, read_rules
from memlake.named_tuple import NamedTuple
from memlake.records import Commit, Conflict, count, short
from memlake.versions.conditions import ROOMS, Comparison, Facts, is_number
from memlake.versions.history.bases import merge_bases
from memlake.versions.history.commits import History
from memlake.versions.history.facts import Measured, flatten_values, read_facts, read_path_facts
from memlake.versions.kinds import kind_at
from memlake.versions.paths import plain
from memlake.versions.verbs.merge import Case, Verdict


def judge_merge(history: History, case: Case, prefer: Preference | None = None) -> Verdict:
    """Refuse the merge if a rule says so; choose for conflicts that a rule, or what was typed, can decide."""
    rules = read_rules(history, case.ours, "merge", case.branch)
    preferring = [rule for rule in rules if rule.prefer]
    named = () if prefer else [rule for rule in preferring if rule.paths]
    conflicts = (*case.conflicts, *_find_joined(history, case, named))
    decided = [
        _decide(history, case, conflict, _find_rule(conflict.path, preferring, prefer)) for conflict in conflicts
    ]
    reasons = {one.conflict.path: one.reason for one in decided if one.reason}
    conflicts, inside = tuple(one.conflict for one in decided), {one.conflict.path for one in decided if one.inside}
    coming = [path for path in case.edits if path not in {one.path for one in conflicts}]
    coming += [one.path for one in conflicts if one.choice not in (None, "ours") or one.path in inside]
    for rule in rules:
        if rule.require is not None:
            _check_merge(history, case, rule, coming)
    return Verdict(conflicts, reasons, inside)


def _find_joined(history: History, case: Case, rules: Sequence[Rule]) -> Iterator[Conflict]:
    """Paths that both sides changed and the merge joined, where a rule names them: the joined text was never scored."""
    if not rules or case.ours is None:
        return
    known = {conflict.path for conflict in case.conflicts}
    paths = [path for path in case.edits if path not in known and any(rule.is_about_path(path) for rule in rules)]
    base = next(iter(merge_bases(history, case.ours, case.theirs)), None)
    old, ours, theirs = (history.entries(commit, paths) for commit in (base, case.ours, case.theirs))
    for path in paths:
        sides = old.get(path), ours.get(path), theirs.get(path)
        if sides[1] and sides[2] and len({*sides}) == 3 and case.edits[path] not in sides:
            yield Conflict(path, *sides)


def _check_merge(history: History, case: Case, rule: Rule, coming: Iterable[str]) -> None:
    """Without paths a merge is judged by what the commit itself records, with them by what counts for each path."""
    if not rule.paths:
        _check(rule, read_facts(history, case.theirs), case.facts, Judged("merge", case.name, case.name))
        return
    for path in coming:
        if rule.is_about_path(path) and history.entries(case.theirs, [path]):
            _check(
                rule, read_path_values(history, case.theirs, path), case.facts, Judged("merge", case.name, plain(path))
            )


class Judged(NamedTuple):
    """What is judged, for the message: the verb, the rev it comes from, and what exactly."""

    verb: str
    name: str
    what: str


def _check(rule: Rule, recorded: Facts, given: Facts, judged: Judged) -> None:
    facts = {room: {**recorded.get(room, {}), **flatten_values(given.get(room, {}))} for room in ROOMS}
    failing = rule.require.find_failing(facts) if rule.require else None
    if failing is not None:
        raise Denied(
            f"rule {rule.id!r} of {rule.source} refuses this {judged.verb}: {_tell(failing, facts, judged)}."
            f"{' ' + rule.message if rule.message else ''}\nNothing was changed.",
            hint=f"See what is recorded: memlake metrics {pasted(judged.name)}",
        )


def _tell(failing: Comparison, facts: Facts, judged: Judged) -> str:
    value = failing.fact.find(facts)
    found = (
        f"{failing.fact} is not recorded for {judged.what} since it last changed"
        if value is None
        else f"{failing.fact} of {judged.what} is {value!r:.80}"
    )
    return f"{found}, and it requires {failing}"


def read_path_values(history: History, head: Commit, path: str) -> dict[str, dict[str, Any]]:
    """The values that count for a path, by room and name."""
    found = read_path_facts(history, head, path)
    return {room: {name: one.value for name, one in values.items()} for room, values in found.items()}


class Shipment(NamedTuple):
    """Paths that are to be promoted, with what counts for each: from where, to which branch, and the head of that."""

    source: str
    target: str
    head: Commit | None
    paths: Mapping[str, Facts]


def judge_promotion(history: History, shipment: Shipment) -> None:
    """Refuse a promotion if a rule of the target is about one of its paths, and that is not good enough."""
    for rule in read_rules(history, shipment.head, "promote", shipment.target):
        for path, facts in shipment.paths.items():
            if rule.is_about_path(path):
                _check(rule, facts, {}, Judged("promotion", shipment.source, plain(path)))


# -- which side is better -----------------------------------------------------------------------


class _Decided(NamedTuple):
    """A conflict with a choice, and why; or as it is, and why not."""

    conflict: Conflict
    reason: str = ""
    inside: bool = False  # the choice is for its open places alone


class _Chosen(NamedTuple):
    """What decides a path, and by whose word: that of a rule, or of whoever typed it."""

    prefer: Preference
    by: str = ""
    takes_whole: bool = False  # a rule that names paths wants what was scored


def _find_rule(path: str, rules: Iterable[Rule], typed: Preference | None) -> _Chosen | None:
    """Of several rules the first one decides. What is typed goes before it, but not below its margin."""
    rule = next((rule for rule in rules if rule.is_about_path(path)), None)
    ruled = rule.prefer if rule else None
    if rule is None or ruled is None:
        return _Chosen(typed) if typed else None
    if typed is None:
        return _Chosen(ruled, f" (rule {rule.id})", bool(rule.paths))
    if (typed.fact, typed.lower) != (ruled.fact, ruled.lower):
        return _Chosen(typed, f" (--prefer, instead of rule {rule.id})")
    if ruled.margin > typed.margin:
        return _Chosen(ruled, f" (the margin is that of rule {rule.id})")
    return _Chosen(typed)


def _decide(history: History, case: Case, conflict: Conflict, chosen: _Chosen | None) -> _Decided:
    if chosen is None or conflict.choice is not None or kind_at(conflict.path).lane != "work":
        return _Decided(conflict)
    name, fact = plain(conflict.path), chosen.prefer.fact
    if case.ours is None or conflict.ours is None or conflict.theirs is None:
        return _Decided(conflict, f"{name}: undecided, because one side does not have it")
    sides = [
        read_path_facts(history, head, conflict.path)[fact.room].get(fact.name) for head in (case.ours, case.theirs)
    ]
    choice, why = _compare(chosen.prefer, *sides)
    if choice is None:
        return _Decided(conflict, f"{name}: undecided, because {why}{chosen.by}")
    places = 0 if chosen.takes_whole else case.places.get(conflict.path, 0)
    at = f" at {count(places, 'place')} that both changed" if places else ""
    return _Decided(conflict._replace(choice=choice), f"{name}: {choice}{at}, because {why}{chosen.by}", bool(places))


def _compare(prefer: Preference, ours: Measured | None, theirs: Measured | None) -> tuple[str | None, str]:
    fact = prefer.fact
    if ours is None or theirs is None:
        return None, f"{'theirs' if ours else 'ours'} does not record {fact} since it last changed"
    for side, value in (("ours", ours.value), ("theirs", theirs.value)):
        if not is_number(value):
            return None, f"{fact} of {side} is {value!r:.80}, which is not a number"
    values = (
        f"{fact} is {ours.value} in ours ({short(ours.commit.oid)}) and {theirs.value} in theirs "
        f"({short(theirs.commit.oid)})"
    )
    better = round(theirs.value - ours.value, 12) * (-1 if prefer.lower else 1)
    if abs(better) <= prefer.margin:
        return None, f"{values}, which is {'within the margin of ' + str(prefer.margin) if better else 'the same'}"
    return ("theirs" if better > 0 else "ours"), values + (", and lower is better" if prefer.lower else "")
