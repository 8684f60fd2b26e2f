"""Recall tests: golden questions that a repo keeps, and how the answers of two branches differ. Reads only.

tests/recall.toml, a file of the repo:

    [[question]]
    ask = "what language for commits"
    expect = ["Chinese"]        # each is in one of the first hits: an id, the end of one, or words of its text
    within = 5                  # of so many hits
    never = ["English"]         # none of these is among them

    [[question]]
    ask = "who painted the mona lisa"
    nothing = true              # nothing may be told
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from memlake.errors import InvalidInput
from memlake.memories import search
from memlake.memories.answers.recalls import Recalls
from memlake.memories.context import MemoryContext
from memlake.memories.search import EVERYONE, Hit, Query
from memlake.named_tuple import NamedTuple

FILE = "tests/recall.toml"
WITHIN = 5
_KEYS = ("ask", "expect", "never", "within", "nothing", "agent", "category", "project")
_ID = re.compile(r"[0-9a-f]{6}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class Question(NamedTuple):
    """A question, and what its answer must be; without expectations it is only compared."""

    ask: str
    expect: tuple[str, ...] = ()
    never: tuple[str, ...] = ()
    within: int = WITHIN
    nothing: bool = False
    agent: str = EVERYONE
    category: str | None = None
    project: str | None = None


class Answer(NamedTuple):
    """One hit of an answer."""

    memory_id: str
    content: str
    score: float


class Tested(NamedTuple):
    """What a golden question found, and what is wrong with that; nothing if it passes."""

    question: Question
    answers: tuple[Answer, ...]
    problems: tuple[str, ...]


class ChangedAnswer(NamedTuple):
    """A question whose answers differ: those that only one side gives, and whether the rest stand in another order."""

    ask: str
    lost: tuple[Answer, ...]
    gained: tuple[Answer, ...]
    changed: tuple[tuple[Answer, Answer], ...]  # the same memory with another text
    moved: bool


# -- golden questions -------------------------------------------------------------------------


def parse_questions(text: str, where: str) -> list[Question]:
    """The questions of a file, or an error that names the one that is wrong."""
    try:
        found = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InvalidInput(f"{where} is not TOML: {error}. Nothing was tested.") from error
    listed = found.pop("question", [])
    if found or not isinstance(listed, list):
        name = next(iter(found), "question")
        raise InvalidInput(f"{where}: {name!r} is not known; it holds [[question]] tables. Nothing was tested.")
    return [_parse_question(fields, f"{where}, question {at}") for at, fields in enumerate(listed, 1)]


def _parse_question(fields: object, where: str) -> Question:
    if not isinstance(fields, dict) or not isinstance(fields.get("ask"), str) or not fields["ask"].strip():
        raise InvalidInput(f'{where} does not have an "ask" with some text. Nothing was tested.')
    if unknown := fields.keys() - set(_KEYS):
        raise InvalidInput(f"{where}: {min(unknown)!r} is not known; {', '.join(_KEYS)} are. Nothing was tested.")
    texts = {name: _parse_texts(fields.get(name, []), f"{where}: {name!r}") for name in ("expect", "never")}
    within, nothing = fields.get("within", WITHIN), fields.get("nothing", False)
    if type(within) is not int or within < 1 or type(nothing) is not bool:
        raise InvalidInput(
            f'{where}: "within" is a whole number of at least 1, "nothing" true or false. Nothing was tested.'
        )
    if not (texts["expect"] or texts["never"] or nothing):
        raise InvalidInput(
            f'{where} says nothing of its answer: give "expect", "never" or "nothing". Nothing was tested.'
        )
    more = {name: str(fields[name]) for name in ("agent", "category", "project") if name in fields}
    return Question(fields["ask"], within=within, nothing=nothing, **texts, **more)  # type: ignore[arg-type]


def _parse_texts(value: object, where: str) -> tuple[str, ...]:
    listed = [value] if isinstance(value, str) else value
    if not isinstance(listed, list) or not all(isinstance(one, str) and one.strip() for one in listed):
        raise InvalidInput(f"{where} is a text or a list of texts. Nothing was tested.")
    return tuple(listed)


def test(context: MemoryContext, questions: Iterable[Question]) -> Iterator[Tested]:
    """Ask each question, and hold the answer against what it must be."""
    for question in questions:
        answers = ask(context, question)
        yield Tested(question, answers, tuple(_find_problems(question, answers)))


def _find_problems(question: Question, answers: Sequence[Answer]) -> Iterator[str]:
    if question.nothing and answers:
        yield f"nothing should be found, but {answers[0].content[:60]!r} was, with a score of {answers[0].score:.2f}"
    for text in question.expect:
        if not any(_matches(text, answer) for answer in answers):
            yield f"{text!r} is not among the first {question.within}"
    for text in question.never:
        place = next((at for at, answer in enumerate(answers, 1) if _matches(text, answer)), 0)
        if place:
            yield f"{text!r} is at rank {place}"


def _matches(text: str, answer: Answer) -> bool:
    """Whether a hit is the memory with this id, or says these words."""
    is_id = _ID.fullmatch(text) is not None and answer.memory_id.endswith(text)
    return is_id or text.casefold() in answer.content.casefold()


# -- two sides --------------------------------------------------------------------------------


def list_recorded(records: Recalls, most: int) -> list[Question]:
    """The questions that were asked last, each once; those of hooks, too."""
    asked: dict[str, Question] = {}
    for recall in records.scan():
        if recall.question.strip() and recall.question not in asked:
            asked[recall.question] = Question(recall.question, agent=_read_agent(recall.asked))
            if len(asked) == most:
                break
    return list(asked.values())


def _read_agent(asked: Mapping[str, Any]) -> str:
    agent = asked.get("agent_id", EVERYONE)
    return agent if isinstance(agent, str) else EVERYONE


def compare(old: MemoryContext, new: MemoryContext, questions: Iterable[Question]) -> Iterator[ChangedAnswer]:
    """The questions that two sides answer differently, in what is told or in its order."""
    for question in questions:
        before, after = ask(old, question), ask(new, question)
        if [one[:2] for one in before] != [one[:2] for one in after]:  # another score alone tells nobody anything
            was, now = ({one.memory_id: one for one in answers} for answers in (before, after))
            both = [key for key in was if key in now]
            yield ChangedAnswer(
                question.ask,
                tuple(one for key, one in was.items() if key not in now),
                tuple(one for key, one in now.items() if key not in was),
                tuple((was[key], now[key]) for key in both if was[key].content != now[key].content),
                both != [key for key in now if key in was],
            )


def ask(context: MemoryContext, question: Question) -> tuple[Answer, ...]:
    """The first hits. Nothing is counted as read."""
    query = Query(
        question.ask, question.within, agent_id=question.agent, category=question.category, project=question.project
    )
    return tuple(_describe(hit) for hit in search.search(context, query))


def _describe(hit: Hit) -> Answer:
    return Answer(hit["memory_id"], hit["content"], hit["similarity_score"])
