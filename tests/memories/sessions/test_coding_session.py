"""The record of a session that runs, and the summary made of it: extractive, bounded, the same for the same."""

from __future__ import annotations

import pytest

from memlake.memories.sessions import coding_session
from memlake.memories.sessions.coding_session import CodingSession
from memlake.memories.sessions.statements import Statement


def play(*turns: tuple[str, str], touched: bool = False) -> CodingSession:
    session = CodingSession()
    for prompt, said in turns:
        session = coding_session.end_turn(coding_session.note_prompt(session, prompt), said, touched=touched)
    return session


def test_a_summary_says_what_is_open_done_and_asked() -> None:
    session = play(
        ("add a column for points", "Added migration 0042. It still needs Marta's review."),
        ("yes, commit it", "Committed as `Add points` (3f2a91c)."),
        ("thanks", "You're welcome!"),
    )
    assert coding_session.write_summary(session) == (
        "Open: It still needs Marta's review\n"
        "Done: Added migration 0042; Committed as `Add points` (3f2a91c)\n"
        "Asked: add a column for points"
    )


def test_what_is_done_later_is_open_no_more() -> None:
    first = ("rebuild the search", "The index products_v3 has to be rebuilt.")
    assert play(first).open == ("The index products_v3 has to be rebuilt.",)
    assert play(first, ("do it", "Rebuilt the index products_v3 in 9 s.")).open == ()
    assert len(play(first, ("what is a mutex?", "A lock.")).open) == 1


def test_an_answer_to_where_did_we_stop_is_open_and_not_done() -> None:
    session = play(("where did we stop?", "The refunds were finished; the dialog is open."))
    assert (session.open, session.done) == (("the dialog is open.",), ())


@pytest.mark.parametrize(
    "said",
    [
        "Built it.\n\nOpen:\n- the German text\n- a test",
        "Built it. Open: the German text.",
        "已完成。还没做:德语文案。",
    ],
)
def test_open_matters_are_found_in_any_form(said: str) -> None:
    assert play(("build the mail", said)).open


@pytest.mark.parametrize(
    "turns",
    [(), (("hello", "Hello!"),), (("yes", "OK."), ("thanks", "Bye!")), (("谢谢", "不客气!"),), (("add a test", ""),)],
)
def test_a_session_in_which_nothing_happened_has_no_summary(turns: tuple[tuple[str, str], ...]) -> None:
    assert coding_session.write_summary(play(*turns)) == ""


def test_the_same_again_and_again_changes_nothing() -> None:
    once = play(("what is the limit?", "Five an order."), ("and of guests?", "Two days."))
    often = play(*[("what is the limit?", "Five an order."), ("and of guests?", "Two days.")] * 100)
    assert coding_session.write_summary(once) == coding_session.write_summary(often)


def test_a_long_session_keeps_its_beginning_its_work_and_its_end() -> None:
    turns = [(f"look at part {n} of the parser", f"Part {n} does something that is number {n}.") for n in range(200)]
    session = play(("write the release notes", "Wrote store/notes.md."), *turns)
    summary = coding_session.write_summary(session)
    assert "store/notes.md" in summary and "part 199" in summary and len(summary) < 2000
    assert len(coding_session.encode(session)) < 12_000


def test_a_session_is_read_as_it_was_noted_and_a_broken_one_is_new() -> None:
    session = play(("always use UTC, and move the cluster", "I moved the cluster to Bern."))
    assert session.noted == (Statement("Always use UTC, and move the cluster", "rule"),)
    assert coding_session.decode(coding_session.encode(session)) == session
    for broken in ("", "[]", "7", "{", '{"done": 3}', '{"unknown": 1}', '{"noted": [[]]}', "[" * 100_000):
        assert coding_session.decode(broken) == CodingSession()


def test_a_report_of_a_sub_agent_is_added_once() -> None:
    session = coding_session.add_report(CodingSession(), "The cache of the build is cold. Anything else?")
    assert [one.text for one in coding_session.add_report(session, "The cache of the build is cold.").done] == [
        "The cache of the build is cold."
    ]


def test_a_statement_takes_in_what_the_agent_made_of_it_only_if_it_needs_to() -> None:
    said = "Understood. create_refund raises TooManyRefunds."
    whole, part = Statement("Never use tabs", "rule"), Statement("Limit it to 5", "decision", elliptic=True)
    assert coding_session.complete(whole, said) == "Never use tabs"
    assert coding_session.complete(part, said) == "Limit it to 5 (create_refund raises TooManyRefunds)"
    assert coding_session.complete(part, "Understood, I will. Shall I go on?") == "Limit it to 5"
