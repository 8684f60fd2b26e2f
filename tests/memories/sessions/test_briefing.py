"""What a session starts with and what a prompt brings, chosen from real memories; how it is shown is the hook's."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import memlake as ml
from memlake.memories.memories import Draft
from memlake.memories.record import SUMMARY, Caller
from memlake.memories.sessions import briefing
from memlake.memories.sessions.briefing import Briefing, Session
from memlake.repo import open_narrow
from tests.memories.conftest import opened

PERSON, AGENT = Caller("cli", "shell:1", "person"), Caller("codex", "run:1", "agent")


@pytest.fixture
def repo(tmp_path: Path) -> Iterator[ml.Repo]:
    with opened(tmp_path / "repo") as made:
        yield made


def keep(repo: ml.Repo, text: str, category: str = "conventions", *, by: Caller = PERSON, kind: str = "fact") -> str:
    memories = repo.memories().called_by(by)
    agent = "" if by.source == "person" else by.client
    return memories.store(Draft(text, agent_id=agent, category=category, memory_type=kind)).memory_id


def summarise(repo: ml.Repo, text: str, session: str) -> str:
    caller = Caller("codex", session, "agent")
    return keep(repo, text, "project-notes", by=caller, kind=SUMMARY)


def start(repo: ml.Repo, session: str = "now", room: int = 10_000, event: str = "session-start") -> Briefing:
    narrow = open_narrow(repo)
    return briefing.brief_start(
        narrow, None, Session(session, "codex", event), room, lambda memory, _: len(memory.content)
    )


def ask(repo: ml.Repo, prompt: str, session: str = "now") -> Briefing:
    return briefing.brief_prompt(prompt, open_narrow(repo), None, Session(session, "codex", "prompt"))


def texts(told: Briefing) -> list[str]:
    return [memory.content for memory in told.memories]


def note(repo: ml.Repo, told: Briefing, session: str = "now") -> None:
    narrow = open_narrow(repo)
    briefing.note(narrow, told, Session(session, "codex", "session-start"), "", 0)
    narrow.recalls.close()


def gates(told: Briefing) -> dict[str, str]:
    return {one.memory_id: one.gate for one in told.candidates}


def test_a_session_starts_with_where_the_last_one_stopped_and_the_rules(repo: ml.Repo) -> None:
    summarise(repo, "Done: the parser", "first")
    keep(repo, "Names are in snake case")
    keep(repo, "Amounts are cents", by=AGENT)
    keep(repo, "The sandbox costs 3 francs", "learnings")
    keep(repo, "Let us stay with Redis", "decisions")
    summarise(repo, "Open: the printer. Done: the lexer", "second")
    rules = ["Let us stay with Redis", "Names are in snake case", "Amounts are cents"]
    assert texts(start(repo)) == ["Open: the printer. Done: the lexer", *rules]
    assert texts(start(repo, "second")) == ["Done: the parser", *rules], "not its own"
    assert texts(start(repo, event="subagent-start")) == rules


def test_what_there_is_no_room_for_waits_and_what_is_short_still_fits(repo: ml.Repo) -> None:
    short = keep(repo, "Indent with tabs")
    long = keep(repo, "Names are in snake case" + " of some length" * 10)
    told = start(repo, room=60)
    assert texts(told) == ["Indent with tabs"] and gates(told) == {long: "budget", short: "told"}


def test_an_agents_words_for_what_a_person_said_are_left_out(repo: ml.Repo) -> None:
    keep(repo, "Noted that invoices are numbered by year", by=AGENT)
    keep(repo, "Invoices are numbered by year and never reused")
    keep(repo, "Reports are drawn as SVG", by=AGENT)
    assert texts(start(repo)) == ["Invoices are numbered by year and never reused", "Reports are drawn as SVG"]


def test_where_we_stopped_is_told_once_and_only_if_the_start_did_not(repo: ml.Repo) -> None:
    summarise(repo, "Open: the printer", "first")
    asked = "morning, where did we stop?"
    assert texts(ask(repo, asked)) == texts(ask(repo, "昨天做到哪里了?")) == ["Open: the printer"]
    note(repo, start(repo))
    told = ask(repo, asked)
    assert texts(told) == [] and set(gates(told).values()) == {"told already"}
    assert texts(ask(repo, asked, "other")) == ["Open: the printer"]


def test_of_a_summary_a_prompt_brings_the_matter_and_only_if_nothing_else_is_known_of_it(repo: ml.Repo) -> None:
    summarise(repo, "Open: the printer jams on tracing paper\nDone: the lexer reads hex numbers; colours", "first")
    assert texts(ask(repo, "does the lexer know hex numbers?")) == ["Done: the lexer reads hex numbers"]
    rule = keep(repo, "The lexer must read hex numbers in either case")
    assert texts(ask(repo, "does the lexer know hex numbers?")) == ["The lexer must read hex numbers in either case"]
    note(repo, start(repo))
    told = ask(repo, "does the lexer know hex numbers?")
    assert texts(told) == [] and gates(told)[rule] == "told already"


def test_what_the_session_said_itself_is_not_told_to_it(repo: ml.Repo) -> None:
    own = Caller("codex", "now", "agent")
    mine = keep(repo, "The lexer must read hex numbers", "learnings", by=own)
    told = ask(repo, "which hex numbers does the lexer read?")
    assert texts(told) == [] and gates(told) == {mine: "own session"}
    assert len(texts(ask(repo, "which hex numbers does the lexer read?", "other"))) == 1
