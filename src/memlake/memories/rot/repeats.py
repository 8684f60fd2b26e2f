"""What is said more than once, contradicted, or said already by the project's instruction files.

Texts are read in the order in which they were said. Of two that say the same one stands, and later ones are held
against that alone, so that whatever is left out, one of them stays.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence

from memlake.memories.rot.nearness import Neighbours
from memlake.memories.rot.passages import (
    CONTRADICTION,
    DUPLICATE,
    HERE,
    INSTRUCTION,
    LOOP,
    NEAR,
    PERSON,
    TURN,
    Finding,
    Passage,
)
from memlake.memories.rules import Context, Decision, decide

_READ = 2000  # characters up to which the rules of language read a text; a page is compared by its words
_SAME_PAGE = 0.9  # the overlap of words from which two pages are one
_ECHO = 0.6  # the overlap from which a turn that holds a memory adds nothing to it
_LOOP = 3  # times that agents say the same


def find_repeats(passages: Sequence[Passage]) -> Iterator[Finding]:
    return _Reader(passages).read()


class _Reader:
    """The texts that stand so far, by what they say; and how often agents have said each again."""

    def __init__(self, passages: Sequence[Passage]) -> None:
        # What is fixed comes first: it stands, whatever was said before it.
        self.passages = sorted(
            passages, key=lambda one: (one.fixed != INSTRUCTION, not one.fixed, one.time, one.number)
        )
        self.near = Neighbours((one.content, one.project) for one in self.passages)
        self.same: dict[tuple[object, str], int] = {}
        self.gone: set[int] = set()
        self.said = Counter[int]()

    def read(self) -> Iterator[Finding]:
        for at, new in enumerate(self.passages):
            findings = [] if new.fixed else list(self._compare(at, new))
            yield from findings
            if not any(finding.passage is new and finding.kind != CONTRADICTION for finding in findings):
                scope: object = new.project if new.fixed == INSTRUCTION else new.scope
                self.same[scope, _fold(new.content)] = at
                self.near.add(at)
        yield from self._list_known()

    def _compare(self, at: int, new: Passage) -> Iterator[Finding]:
        text = _fold(new.content)
        same = next((self.same[key] for key in ((new.project, text), (new.scope, text)) if key in self.same), None)
        if same is not None and same not in self.gone:
            yield self._note_again(new, same, DUPLICATE, "It says the same.")
            return
        near = self.near.find(at, accepts=lambda other: other not in self.gone and _may_meet(self.passages[other], new))
        met = list[tuple[int, Decision]]()
        for other in near:
            met.append((other, self._decide(other, at)))
            if met[-1][1] in {"skip", "conflict"}:  # of what they say one text stands, so no other has it
                break
        held = next((one for one in met if one[1] == "skip"), None) or self._find_echo(at, met)
        if held is not None:
            yield self._note_again(new, held[0], NEAR, held[1].why)
            return
        for other, decision in met:
            if (finding := _weigh(self.passages[other], new, decision)) is not None:
                yield finding
                if finding.passage is not new:
                    self.gone.add(other)

    def _decide(self, other: int, at: int) -> Decision:
        old, new = self.passages[other], self.passages[at]
        if max(len(old.content), len(new.content)) <= _READ:
            return decide(old.content, new.content, Context(None, old.filing, new.filing))
        if self.near.overlap(other, at) >= _SAME_PAGE:
            return Decision("skip", rule="same-page", why="Nearly all of its words are there.")
        return Decision("add")

    def _find_echo(self, at: int, met: Sequence[tuple[int, Decision]]) -> tuple[int, Decision] | None:
        """What an agent said that holds an earlier memory, and little more: the memory stands, not its echo."""
        if self.passages[at].voice != TURN:
            return None
        return next(
            ((o, verdict) for o, verdict in met if verdict == "replace" and self.near.overlap(o, at) >= _ECHO), None
        )

    def _note_again(self, new: Passage, stands: int, kind: str, why: str) -> Finding:
        old = self.passages[stands]
        self.said[stands] += new.voice != PERSON
        if old.fixed == INSTRUCTION:
            kind = INSTRUCTION
        elif new.voice == TURN:
            kind = LOOP
        elif new.voice != PERSON and self.said[stands] + (old.voice != PERSON) >= _LOOP:
            kind, why = LOOP, f"Agents have said it {self.said[stands] + (old.voice != PERSON)} times. {why}"
        return Finding(kind, new, why, old)

    def _list_known(self) -> Iterator[Finding]:
        """Contradictions that were noted when a memory came, and that the rules of language do not see."""
        stands = {one.key: one for at, one in enumerate(self.passages) if at not in self.gone and not one.fixed}
        for one in stands.values():
            if one.against in stands:
                yield Finding(CONTRADICTION, one, "It was noted when it came.", stands[one.against], drops=False)


def _may_meet(old: Passage, new: Passage) -> bool:
    return old.project == new.project if old.fixed == INSTRUCTION else old.scope == new.scope


def _weigh(old: Passage, new: Passage, decision: Decision) -> Finding | None:
    """What a new text means for one that stands: it holds that, or speaks against it."""
    if decision == "conflict":
        if old.fixed == INSTRUCTION:
            return Finding(CONTRADICTION, new, f"An instruction file says otherwise. {decision.why}", old, drops=False)
        if old.fixed == HERE:
            return Finding(CONTRADICTION, new, decision.why, old) if new.time < old.time else None
        return Finding(CONTRADICTION, old, decision.why, new, drops=not decision.is_unsure)
    is_echo = new.voice == TURN and old.voice != TURN
    if decision != "replace" or old.fixed or is_echo:
        return None
    return Finding(NEAR, old, decision.why, new)


def _fold(text: str) -> str:
    return re.sub(r"\s+", " ", unicodedata.normalize("NFKC", text)).strip(" .!。").casefold()
