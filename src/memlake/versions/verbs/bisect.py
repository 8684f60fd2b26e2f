"""bisect: the commit that first went wrong, found by halving. What commits recorded is asked before anything is run.

A search reads only. Done by hand it keeps its marks in local.db, and the caller checks out what is to be tried next.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from memlake.errors import InvalidInput, NotFound, Nothing
from memlake.named_tuple import NamedTuple
from memlake.records import Commit, Lane, short
from memlake.reports import Bisected, Tested
from memlake.versions.checkout import rev
from memlake.versions.checkout.context import Checkout
from memlake.versions.checkout.local import as_written
from memlake.versions.conditions import is_number
from memlake.versions.history.bases import is_ancestor, reachable
from memlake.versions.history.commits import History
from memlake.versions.history.facts import scan_facts
from memlake.versions.verbs import branch, undo
from memlake.versions.verbs.undo import operation

VERDICTS = ("good", "bad", "skip")
_MOST = 20_000  # commits with merges among them whose ancestors are compared
_STATE = "bisect"


class Metric(NamedTuple):
    """What makes a commit bad: a number it records that is below or above a bound."""

    name: str
    below: float | None = None
    above: float | None = None

    def judge(self, metrics: Mapping[str, Any]) -> str | None:
        """good or bad; None if the commit does not record it."""
        value: Any = metrics.get(self.name)
        if not is_number(value):
            return None
        is_low = self.below is not None and value < self.below
        return "bad" if is_low or (self.above is not None and value > self.above) else "good"


class Asked(NamedTuple):
    """Between which commits is searched: after `good`, or from the first commit on, up to `bad`."""

    good: Sequence[str] = ()
    bad: str = "HEAD"
    lane: Lane = "work"
    metric: Metric | None = None


Judge = Callable[[Commit], str]  # one of VERDICTS


def search(here: Checkout, asked: Asked, judge: Judge | None) -> Bisected:
    """Find the first bad commit. `judge` is asked about commits that record nothing; without one they are skipped."""
    history = here.history
    bad = rev.resolve(here, asked.bad, asked.lane)
    goods = [_resolve_good(here, name, bad, asked) for name in asked.good]
    suspects = Suspects(history, bad, goods)
    recorded = _read_recorded(history, bad, goods, asked.metric) if asked.metric else {}
    if recorded.get(bad.seq) == "good" and asked.metric is not None:
        raise InvalidInput(
            f"{asked.bad!r} is not bad: what it records as {asked.metric.name} is within the bound. Nothing was tried.",
            hint="Name a commit that is bad with --bad.",
        )
    tested: list[Tested] = []
    while (seq := suspects.pick(recorded)) is not None:
        tested.append(Tested(history.at(seq).oid, recorded[seq], "recorded"))
        suspects.mark(seq, recorded[seq])
    if asked.metric is not None and not recorded and judge is None:
        raise NotFound(
            f"none of these {suspects.count:,} commits records {asked.metric.name}.",
            hint="Add --run COMMAND to try those that do not record it.",
        )
    while judge is not None and (seq := suspects.pick()) is not None:
        commit = history.at(seq)
        verdict = judge(commit)
        tested.append(Tested(commit.oid, verdict, "run"))
        suspects.mark(seq, verdict)
    return _conclude(history, suspects, tested)


def _resolve_good(here: Checkout, name: str, bad: Commit, asked: Asked) -> Commit:
    good = rev.resolve(here, name, asked.lane)
    if good.seq == bad.seq or not is_ancestor(here.history, good, bad):
        raise InvalidInput(
            f"{name!r} does not lie before {asked.bad!r}, so nothing between them can have gone wrong.",
            hint="See how they lie: memlake log --graph --oneline",
        )
    return good


def _read_recorded(history: History, bad: Commit, goods: Iterable[Commit], metric: Metric) -> dict[int, str]:
    rows = scan_facts(history, [bad.seq], [good.seq for good in goods])
    found = ((row.seq, metric.judge(row.said.facts.get("metrics", {}))) for row in rows if row.said is not None)
    return {seq: verdict for seq, verdict in found if verdict is not None}


def _conclude(history: History, suspects: Suspects, tested: Sequence[Tested]) -> Bisected:
    left = tuple(history.at(seq).oid for seq in suspects.list_left())
    runs = sum(one.how == "run" for one in tested)
    return Bisected(left[0] if len(left) == 1 else None, left, tuple(tested), runs)


class Suspects:
    """The commits of which one may be the first bad one: behind the bad one, and not behind a good one.

    Sets of commits are bits of whole numbers; commits in one line are counted without them.
    """

    def __init__(self, history: History, bad: Commit, goods: Sequence[Commit]) -> None:
        self._seqs = sorted(reachable(history, [bad.seq], [good.seq for good in goods]))
        self._places = {seq: place for place, seq in enumerate(self._seqs)}
        behind = {seq: parents for seq, (_, parents) in history.parents(self._seqs).items()}
        self._is_line = all(
            [self._places[parent] for parent in behind[seq] if parent in self._places] == ([place - 1] if place else [])
            for place, seq in enumerate(self._seqs)
        )
        if not self._is_line and len(self._seqs) > _MOST:
            raise InvalidInput(
                f"{len(self._seqs):,} commits with merges among them are too many to search at once.",
                hint="Name a good commit that is nearer, with --good.",
            )
        self._ancestors: list[int] = []
        for place, seq in enumerate(self._seqs if not self._is_line else ()):
            own = 1 << place
            for parent in behind[seq]:
                own |= self._ancestors[self._places[parent]] if parent in self._places else 0
            self._ancestors.append(own)
        self._left = (1 << len(self._seqs)) - 1
        self._last = len(self._seqs) - 1  # the earliest that is known to be bad
        self._skipped: set[int] = set()

    @property
    def count(self) -> int:
        return self._left.bit_count()

    def _behind(self, place: int) -> int:
        return (1 << (place + 1)) - 1 if self._is_line else self._ancestors[place]

    def _list_places(self) -> list[int]:
        if self._is_line:  # what is left of a line is one piece
            low = (self._left & -self._left).bit_length() - 1
            return list(range(low, self._left.bit_length()))
        return [place for place in range(len(self._seqs)) if self._left >> place & 1]

    def pick(self, among: Mapping[int, str] | None = None) -> int | None:
        """The commit that tells most, of those named; None if none is left to be tried."""
        total, best, found = self.count, -1, None
        for at, place in enumerate(self._list_places()):
            seq = self._seqs[place]
            if place == self._last or place in self._skipped or (among is not None and seq not in among):
                continue
            size = at + 1 if self._is_line else (self._behind(place) & self._left).bit_count()
            if min(size, total - size) > best:
                best, found = min(size, total - size), seq
        return found

    def mark(self, seq: int, verdict: str) -> None:
        place = self._places.get(seq)
        if place is None:
            return
        if verdict == "skip":
            self._skipped.add(place)
        elif verdict == "bad":
            self._left &= self._behind(place)
            self._last = place
        else:
            self._left &= ~self._behind(place)

    def list_left(self) -> list[int]:
        """The first bad commit; with those before it that were skipped, if any could be it."""
        return [self._seqs[place] for place in self._list_places()]


# -- by hand ----------------------------------------------------------------------------------------


class Marks(NamedTuple):
    """A search by hand: where HEAD was before it, and what was said of which commits, in order."""

    head: str
    said: tuple[tuple[str, str], ...] = ()  # (verdict, commit)

    def list_marked(self, verdict: str) -> list[str]:
        return [oid for word, oid in self.said if word == verdict]


def find_marks(here: Checkout) -> Marks | None:
    data = here.local.json_state(_STATE)
    if data is None:
        return None
    with as_written(_STATE):
        said = tuple((word, oid) for word, oid in data["said"])
        if not isinstance(data["head"], str) or any(word not in VERDICTS for word, _ in said):
            raise ValueError("it names no verdict")
        return Marks(data["head"], said)


def get_marks(here: Checkout) -> Marks:
    marks = find_marks(here)
    if marks is None:
        raise Nothing("no bisect is under way.", hint="Begin one with: memlake bisect start BAD GOOD")
    return marks


def write_marks(here: Checkout, marks: Marks | None) -> None:
    text = None if marks is None else json.dumps({"head": marks.head, "said": marks.said})
    here.local.set_state(**{_STATE: text})


def go_on(here: Checkout, marks: Marks, said: str) -> Bisected | None:
    """Keep what was said, and check out what is to be tried next: one operation, which undo takes back as one."""
    result, following, _ = weigh(here, marks)
    with operation(here, f"bisect {said}", files=True) as verb:
        verb.before.bisect = json.dumps(here.local.json_state(_STATE))
        if following is not None and following.oid != rev.resolve(here, "HEAD").oid:
            # Refused over uncommitted work; then nothing was said.
            branch.go(here, verb, following, branch.go_to_commit(here, following), force=False)
        write_marks(here, marks)
    return result


def end(here: Checkout) -> None:
    """Go back to where HEAD was. The search changed nothing then, so undo goes on with what was before it."""
    head = get_marks(here).head
    since = undo.find_last_id(here)
    branch.switch(here, head.removeprefix("@"), branch.Going(detach=head.startswith("@")))
    with here.local.db.write():
        undo.mark_undone(here, since)
        undo.mark_undone(here, 0, "bisect ")
        write_marks(here, None)


def add_mark(here: Checkout, marks: Marks, verdict: str, name: str) -> Marks:
    """Note what somebody says of a commit."""
    if verdict not in VERDICTS:
        raise InvalidInput(f"{verdict!r} is not a verdict.", hint=f"Say one of: {', '.join(VERDICTS)}.")
    commit = rev.resolve(here, name)
    return marks._replace(said=(*marks.said, (verdict, commit.oid)))


def weigh(here: Checkout, marks: Marks) -> tuple[Bisected | None, Commit | None, int]:
    """What the marks say: the result if there is one, else the commit to try next, and how many may be the first bad.

    (None, None, 0) while a good or a bad commit is not named yet.
    """
    history = here.history
    bads, goods = ([history.get(oid) for oid in marks.list_marked(word)] for word in ("bad", "good"))
    if not bads or not goods:
        return None, None, 0
    bad = min(bads, key=lambda commit: commit.seq)
    for good in goods:
        if not is_ancestor(history, good, bad) or good.seq == bad.seq:
            raise InvalidInput(
                f"{short(good.oid)} was said to be good, but it does not lie before {short(bad.oid)}, which was said "
                "to be bad. Nothing was changed.",
                hint="See what was said: memlake bisect log",
            )
    suspects = Suspects(history, bad, goods)
    for oid in marks.list_marked("skip"):
        suspects.mark(history.seq(oid), "skip")
    seq = suspects.pick()
    if seq is not None:
        return None, history.at(seq), suspects.count
    return _conclude(history, suspects, [Tested(oid, word, "said") for word, oid in marks.said]), None, suspects.count
