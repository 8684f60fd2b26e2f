"""metrics: what commits record, as rows with differences; the commits of a line, or several lines side by side.

Reads only. How a table looks is for views to say.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from memlake.collector import pause_gc
from memlake.errors import InvalidInput, NotFound
from memlake.named_tuple import NamedTuple
from memlake.records import Commit
from memlake.reports import Measurement
from memlake.versions import conditions
from memlake.versions.checkout import rev
from memlake.versions.checkout.context import Checkout
from memlake.versions.checkout.ignore import translate_glob
from memlake.versions.conditions import Fact, is_number
from memlake.versions.history import facts, refs
from memlake.versions.history.bases import merge_bases
from memlake.versions.history.facts import Said

_WILD = frozenset("*?[")
_NAMED = 8  # names that a message lists


class Query(NamedTuple):
    revs: tuple[str, ...] = ()
    where: str | None = None
    sort: str | None = None
    reverse: bool = False
    limit: int | None = None


def list_measurements(here: Checkout, query: Query) -> list[Measurement]:
    """One row a commit, newest first; with several revs or a pattern of branches, one row a rev."""
    condition = conditions.parse(query.where, bare="metrics") if query.where is not None else None
    key = conditions.parse_fact(query.sort, bare="metrics") if query.sort is not None else None
    revs = query.revs or ("HEAD",)
    is_compared = len(revs) > 1 or _is_pattern(revs[0])
    with pause_gc():
        rows = _compare_revs(here, revs) if is_compared else _follow_line(here, revs[0])
    if condition is not None:
        for comparison in condition.comparisons:
            _check_known(rows, comparison.fact)
        rows = [row for row in rows if condition.holds(_facts_of(row))]
    if key is not None:
        rows = _sort_rows(rows, _check_known(rows, key) if rows else key)
    if query.reverse:
        rows.reverse()
    if (query.limit or 0) < 0:
        raise InvalidInput(f"limit {query.limit} is a count, and cannot be negative.")
    return rows[: query.limit]


def _facts_of(row: Measurement) -> Mapping[str, Mapping[str, Any]]:
    return {"metrics": row.metrics, "params": row.params}


def _check_known(rows: Sequence[Measurement], fact: Fact) -> Fact:
    """The fact, if a row has it: a name that no commit records is a mistake, not an empty answer."""
    if any(fact.name in _facts_of(row)[fact.room] for row in rows):
        return fact
    names = dict.fromkeys(name for row in rows for name in _facts_of(row)[fact.room])
    listed = ", ".join([*names][:_NAMED]) + (" ..." if len(names) > _NAMED else "")
    they = "They record" if len(rows) > 1 else "It records"
    raise NotFound(
        f"none of these {len(rows):,} commits records {fact}."
        if len(rows) > 1
        else f"the commit does not record {fact}.",
        hint=f"{they} {fact.room} called: {listed}" if names else f"Nothing is recorded of {fact.room} there.",
    )


def _sort_rows(rows: Iterable[Measurement], key: Fact) -> list[Measurement]:
    """The largest first: numbers, then texts, then those without a value."""

    def rank(row: Measurement) -> tuple[int, Any]:
        value = _facts_of(row)[key.room].get(key.name)
        return (2, value) if is_number(value) else (0, 0) if value is None else (1, str(value))

    return sorted(rows, key=rank, reverse=True)


# -- the commits of a line


def _follow_line(here: Checkout, text: str) -> list[Measurement]:
    history = here.history
    tips, hidden = _find_ends(here, text)
    recorded = list(facts.scan_facts(history, [tip.seq for tip in tips], [commit.seq for commit in hidden]))
    # What the line recorded up to each commit, by name; made from the oldest on.
    known: dict[int, Mapping[str, Any]] = {commit.seq: _metrics_before(here, commit) for commit in hidden}
    rows: list[Measurement] = []
    for seq, first, said in reversed(recorded):
        before = known.get(first, {}) if first is not None else {}
        known[seq] = before
        if said is not None:
            own = said.facts.get("metrics", {})
            known[seq] = own if own.keys() >= before.keys() else {**before, **own}
            rows.append(_make_row(said, _find_deltas(own, before)))
    rows.reverse()
    return rows


def _find_ends(here: Checkout, text: str) -> tuple[list[Commit], list[Commit]]:
    parts = rev.split_range(text)
    if parts is None:
        return [rev.resolve(here, text)], []
    a, b = rev.resolve(here, parts[0]), rev.resolve(here, parts[2])
    return ([b], [a]) if parts[1] == ".." else ([a, b], merge_bases(here.history, a, b))


def _metrics_before(here: Checkout, commit: Commit) -> Mapping[str, Any]:
    found = facts.find_last_recorded(here.history, commit)
    return found.facts["metrics"] if found else {}


def _find_deltas(own: Mapping[str, Any], before: Mapping[str, Any]) -> dict[str, float]:
    """What changed of the numbers both have; without the last digits, which are only those of floats."""
    numbers = [(name, before[name], new) for name, new in own.items() if name in before] if before else []
    return {name: round(new - old, 12) for name, old, new in numbers if is_number(old) and is_number(new)}


def _make_row(said: Said, deltas: Mapping[str, float]) -> Measurement:
    metrics, params = said.facts.get("metrics", {}), said.facts.get("params", {})
    return Measurement(said.oid, "", said.time, said.author, said.subject, metrics, params, deltas)


# -- lines side by side


def _is_pattern(text: str) -> bool:
    return not _WILD.isdisjoint(text)


def _compare_revs(here: Checkout, revs: Sequence[str]) -> list[Measurement]:
    rows: list[Measurement] = []
    for name in dict.fromkeys(name for text in revs for name in _expand(here, text)):
        commit = rev.resolve(here, name)
        said = facts.find_last_recorded(here.history, commit) or Said(
            commit.oid, commit.author, commit.time, commit.subject, commit.generation, {}
        )
        row = _make_row(said, {})
        deltas = _find_deltas(row.metrics, rows[0].metrics if rows else {})
        rows.append(row._replace(rev=name, deltas=deltas, behind=commit.generation - said.generation))
    return rows


def _expand(here: Checkout, text: str) -> list[str]:
    """The branches a pattern means, or the rev as it is."""
    if rev.split_range(text) is not None:
        raise InvalidInput(
            f"the range {text!r} is many commits, and cannot be compared with other revs.",
            hint="Name the range alone, or only revs and branch patterns.",
        )
    if not _is_pattern(text):
        return [text]
    pattern = re.compile(translate_glob(text, crossing=True) or "(?!)", re.DOTALL)
    names = [one.name for one in refs.branches(here.history.db, None) if one.work and pattern.fullmatch(one.name)]
    if not names:
        raise NotFound(f"no branch with commits is called like {text!r}.", hint="See the branches with: memlake branch")
    return names
