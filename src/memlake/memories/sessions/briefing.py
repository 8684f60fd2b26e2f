"""What an agent is told unasked: when its session begins, and at a prompt. Knows neither doors nor how it is shown.

Nothing is better than something unrelated, what a session knows is not told again, and what a person said comes before
an agent's words for it. Loaded by hooks, so it must stay light.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice

from memlake.memories.answers import recalls
from memlake.memories.answers.recalls import Candidate, Recall
from memlake.memories.record import SUMMARY, Memory
from memlake.memories.sessions import relevance
from memlake.memories.sessions.hook_search import Narrow
from memlake.memories.sessions.relevance import NOTHING, Asked, Likeness
from memlake.named_tuple import NamedTuple

PREFERENCE, EPISODE = "preference", "episode"
CONTACTS, PREFERENCES = "contacts", "preferences"
_STANDING = 60  # rules and preferences that a session's start looks at
_PERSONAL = 10  # preferences of the person that stand beside those of a project
_SUMMARIES = 12  # of the last sessions, of which one is told
_LOOKED = 60  # memories that a prompt is held against ...
_MOST = 3  # ... and that it brings
_NOTED = 20  # memories that a record names beside those that were told
_QUESTION = 1000  # characters of a prompt that its record keeps
_ASKED = 4000  # characters of a prompt that are looked at

Measure = Callable[[Memory, Mapping[str, str]], int]  # the room that a memory takes, and why any is in doubt


class Session(NamedTuple):
    """Who is told: a session of an agent, of which no name says that nothing is known, and the event that tells it."""

    name: str
    agent: str
    event: str


class Briefing(NamedTuple):
    """What is told, in order, why it is in doubt, and what became of everything that was looked at."""

    memories: list[Memory]
    candidates: list[Candidate]
    changed: Mapping[str, str] = {}


NO_BRIEFING = Briefing([], [])


def is_personal(memory: Memory) -> bool:
    return memory.category == PREFERENCES or memory.memory_type == PREFERENCE


def is_by_person(memory: Memory) -> bool:
    """Whether a person said it: in a prompt, or as themselves at a command line and not in an agent's name."""
    kind = memory.source.partition(":")[0]
    return kind in ("", "person") and (not memory.agent_id or memory.client not in ("", "cli"))


# -- when a session begins --------------------------------------------------------------------


def brief_start(
    narrow: Narrow | None, personal: Narrow | None, session: Session, room: int, measure: Measure
) -> Briefing:
    """Where the last session stopped, what stands of the rules of the project, and what the person prefers.

    A sub-agent, which has one thing to do, is not told where anybody stopped.
    """
    stands = _list_standing(narrow) if narrow else []
    last = _list_summaries(narrow, session.name)[:1] if narrow and session.event != "subagent-start" else []
    mine = [*filter(is_personal, personal.newest(_PERSONAL, **_PREFERRED))] if personal else []
    stands = sorted(stands, key=lambda memory: not is_by_person(memory))
    kept = list(_leave_out_echoes(stands, [*mine, *stands]))
    ordered = list({one.memory_id: one for one in (*last, *mine, *kept)}.values())
    changed = narrow.find_changed(ordered) if narrow else {}
    known = _list_known(narrow, session)
    return _fit(ordered, known, room, lambda memory: measure(memory, changed))._replace(changed=changed)


_PREFERRED = {"categories": (PREFERENCES,), "types": (PREFERENCE,)}


def _list_standing(narrow: Narrow) -> list[Memory]:
    """What the setting names of the project's memories, and preferences however they are filed; the newest first."""
    names = tuple(name for part in narrow.settings.hook_categories.split(",") if (name := part.strip()))
    marks = {} if "*" in names else {"categories": names, "types": (PREFERENCE,)}
    return [one for one in narrow.newest(_STANDING, **marks) if one.memory_type not in (SUMMARY, EPISODE)]


def _list_summaries(narrow: Narrow, session: str) -> list[Memory]:
    """What other sessions left, the newest first, one of each."""
    found = (one for one in narrow.newest(_SUMMARIES, types=(SUMMARY,)) if not session or one.session_id != session)
    return list({one.session_id or one.memory_id: one for one in reversed(list(found))}.values())[::-1]


def _list_known(narrow: Narrow | None, session: Session) -> set[str]:
    return narrow.recalls.list_told(session.name) if narrow and session.name else set()


def _leave_out_echoes(memories: Iterable[Memory], told: Sequence[Memory]) -> Iterator[Memory]:
    """Without an agent's words for what a person said, if that is told or known."""
    said, weigh = [memory.content for memory in told if is_by_person(memory)], relevance.weigh_by({}, 0)
    for memory in memories:
        if is_by_person(memory) or not any(relevance.restates(memory.content, one, weigh) for one in said):
            yield memory


def _fit(memories: Iterable[Memory], known: set[str], room: int, measure: Callable[[Memory], int]) -> Briefing:
    """Those that are new to the session and that there is room for; a long one does not keep out those after it."""
    chosen, candidates = list[Memory](), list[Candidate]()
    for memory in memories:
        gate = recalls.KNOWN if memory.memory_id in known else recalls.TOLD
        if gate == recalls.TOLD and (size := measure(memory)) > room:
            gate = recalls.BUDGET
        elif gate == recalls.TOLD:
            room -= size
            chosen.append(memory)
        candidates.append(Candidate(memory.memory_id, "", 1.0, {}, gate))
    return Briefing(chosen, candidates)


# -- at a prompt ------------------------------------------------------------------------------


def brief_prompt(text: str, narrow: Narrow | None, personal: Narrow | None, session: Session) -> Briefing:
    """The few memories that a prompt is about, of those that its session neither wrote nor was told."""
    asked = relevance.read_prompt(text[:_ASKED])
    known = _list_known(narrow, session)
    if relevance.asks_where_we_stopped(text, asked):
        last = _list_summaries(narrow, session.name)[:1] if narrow else []
        new = [one for one in last if one.memory_id not in known]
        return Briefing(new, [_note(one, NOTHING, recalls.TOLD if one in new else recalls.KNOWN) for one in last])
    if not asked.meant:
        return NO_BRIEFING
    judged = [*_judge(asked, narrow, known, session)] if narrow else []
    judged += [one for one in _judge(asked, personal, known, session) if is_personal(one[0])] if personal else []
    briefing = _choose(judged)
    return briefing._replace(changed=narrow.find_changed(briefing.memories) if narrow else {})


class _Judged(NamedTuple):
    memory: Memory
    likeness: Likeness
    gate: str

    @property
    def aside(self) -> bool:
        """Whether it holds words of everything, or was said in passing."""
        return self.memory.memory_type in (SUMMARY, EPISODE)


def _judge(asked: Asked, narrow: Narrow, known: set[str], session: Session) -> Iterator[_Judged]:
    """What shares words with a prompt, and which gate it does not pass. Of a summary, the matter that is nearest."""
    found = narrow.search(asked.meant, _LOOKED)
    weigh = relevance.weigh_by(found.counts, found.total)
    said = [one.content for one in found.memories if is_by_person(one)]
    for memory in found.memories:
        matters = _list_matters(memory.content) if memory.memory_type == SUMMARY else [memory.content]
        compared = [(relevance.compare(asked, text, weigh), text) for text in matters]
        likeness, text = max(compared, key=lambda one: one[0].weight)
        judged = _Judged(memory._replace(content=text), likeness, recalls.TOLD)
        if not relevance.is_about(asked, likeness, category=memory.category, aside=judged.aside):
            yield judged._replace(gate=recalls.FLOOR)
        elif memory.memory_id in known:
            yield judged._replace(gate=recalls.KNOWN)
        elif session.name and memory.session_id == session.name:
            yield judged._replace(gate=recalls.OWN)
        elif not is_by_person(memory) and any(relevance.restates(text, one, weigh) for one in said):
            yield judged._replace(gate=recalls.ECHO)
        else:
            yield judged


def _list_matters(summary: str) -> list[str]:
    return [matter for line in summary.splitlines() for matter in line.split("; ") if matter.strip()] or [summary]


def _choose(judged: Sequence[_Judged]) -> Briefing:
    """What a person said first, then what agents noted, the nearest first.

    What was said in passing is told, and only the newest of it, if nothing was stored of the matter on purpose.
    """
    stored = [one for one in judged if not one.aside and (one.gate != recalls.FLOOR or len(one.likeness.words) > 1)]
    passed = [one for one in judged if one.gate == recalls.TOLD and not one.aside]
    passed.sort(key=lambda one: (not is_by_person(one.memory), -one.likeness.weight))
    if not stored:
        aside = (one for one in judged if one.gate == recalls.TOLD)
        passed = sorted(aside, key=lambda one: one.memory.created_at)[-1:]
    told = passed[:_MOST]
    rest = [one._replace(gate=recalls.RANK) if one.gate == recalls.TOLD else one for one in judged if one not in told]
    near = sorted(rest, key=lambda one: -one.likeness.weight)
    candidates = [_note(one.memory, one.likeness, one.gate) for one in (*told, *islice(near, _NOTED))]
    return Briefing([one.memory for one in told], candidates)


def _note(memory: Memory, likeness: Likeness, gate: str) -> Candidate:
    arms = {"weight": likeness.weight, "prompt": likeness.of_prompt, "memory": likeness.of_memory}
    shown = {name: round(value, 3) for name, value in arms.items() if value}
    return Candidate(memory.memory_id, "", round(max(likeness.of_prompt, likeness.of_memory), 3), shown, gate)


# -- the record -------------------------------------------------------------------------------


def note(narrow: Narrow, briefing: Briefing, session: Session, question: str, tokens: int) -> None:
    """Keep a record of what was told and what was kept back, by which the session is not told it again."""
    objects = narrow.name_objects()
    candidates = tuple(one._replace(oid=objects.get(one.memory_id, "")) for one in briefing.candidates)
    recall = Recall(
        session.event, question[:_QUESTION], session.name, session.agent, narrow.place.project, narrow.branch,
        narrow.head, "words", {}, tokens, candidates,
    )  # fmt: skip
    narrow.recalls.note(recall)
