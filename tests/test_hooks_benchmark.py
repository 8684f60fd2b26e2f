"""The written sessions of benchmarks/sessions and their scorer: figures of a play whose figures are known."""

from __future__ import annotations

import copy
import importlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"


@pytest.fixture(scope="module")
def bench() -> Iterator[Any]:
    """benchmarks/hooks.py, whose modules import each other by their plain names."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(BENCHMARKS))
        yield importlib.import_module("hooks")
    for name in ("hooks", "hooks_driver", "hooks_sessions"):
        sys.modules.pop(name, None)


PERSON = [{"id": "me1", "by": "person", "category": "preferences", "content": "Answers are short."}]
TINY: dict[str, Any] = {
    "project": "tiny",
    "remote": "git@example.org:a/tiny.git",
    "instructions": {"CLAUDE.md": "Use uv.\n"},
    "before": [
        {"id": "b1", "by": "person", "category": "conventions", "content": "Scripts are run with npm."},
        {
            "id": "b2",
            "by": "agent",
            "category": "project-notes",
            "content": "The port of the tiny server is 8000.",
            "must": ["8000"],
        },
    ],
    "sessions": [
        {
            "id": "s1",
            "day": 1,
            "client": "claude",
            "start": ["me1", "b1"],
            "summary": {"asked": ["port"], "done": ["pnpm"], "open": ["docs"]},
            "turns": [
                {"user": "which port?", "assistant": "8000.", "relevant": ["b2"], "secrets": ["hunter-77"]},
                {
                    "user": "no, use pnpm, and never push on Fridays",
                    "assistant": "pnpm it is. The docs are open.",
                    "files": ["src/a.py"],
                    "relevant": ["b1"],
                    "keep": [
                        {"id": "k1", "kind": "correction", "must": ["pnpm"], "replaces": "b1"},
                        {"id": "k2", "kind": "rule", "must": ["push", "Friday|周五"], "not": ["pnpm"]},
                        {"id": "k3", "kind": "fact", "must": ["docs", "open"]},
                    ],
                },
            ],
        },
        {
            "id": "s2",
            "day": 2,
            "client": "codex",
            "start": ["me1", "k1", "k2", "s1"],
            "summary": {"asked": ["stop"], "done": ["docs"], "open": []},
            "turns": [
                {
                    "user": "where did we stop?",
                    "assistant": "The docs.",
                    "answer": ["docs", "pnpm"],
                    "relevant": ["s1"],
                },
                {"user": "thanks", "assistant": "Bye."},
            ],
        },
    ],
}


def memory(number: int, content: str, kind: str = "fact", session: str = "") -> dict[str, Any]:
    identifier = f"{number:08d}-0000-7000-8000-{number:012d}"
    return {
        "memory_id": identifier,
        "content": content,
        "memory_type": kind,
        "session_id": session,
        "created_at": f"{number:04d}",
    }


ME, NPM, PORT = (
    memory(1, "Answers are short."),
    memory(2, "Scripts are run with npm."),
    memory(3, "The port of the tiny server is 8000."),
)
PNPM = memory(4, "Use pnpm.", session="tiny-s1")
ECHO = memory(5, "I use pnpm now.", "episode", "tiny-s1")
FRIDAY = memory(6, "I never push on Fridays, as you say.", "episode", "tiny-s1")
AGAIN = memory(10, "As I said, 8000 it is.", "episode", "tiny-s2")
DONE = memory(7, "Asked for the port. Done: pnpm. Open: docs.", "summary", "tiny-s1")
BYE = memory(8, "Bye.", "episode", "tiny-s2")
ELSEWHERE = memory(9, "The port of the other server is 9000.")


def play(bench: Any) -> Any:
    """Two sessions as bad hooks would have it."""
    driver = bench.driver
    seeded = {
        ME["memory_id"]: ("", "me1", ME["content"]),
        ELSEWHERE["memory_id"]: ("other", "b1", ELSEWHERE["content"]),
    }
    seeded |= {one["memory_id"]: ("tiny", label, one["content"]) for label, one in (("b1", NPM), ("b2", PORT))}
    told = [
        driver.Told("tiny", "s1", 0, "x" * 40, (ME, NPM)),
        driver.Told("tiny", "s1", 1, "x" * 80, (PORT, ELSEWHERE)),  # one of another project
        driver.Told("tiny", "s1", 2, "npm hunter-77", (NPM,)),  # relevant, told at the start already, with a secret
        driver.Told("tiny", "s2", 0, "x" * 80, (ME, NPM)),  # npm is no longer so
        driver.Told("tiny", "s2", 1, "Open: docs. Done: PNPM", (DONE,)),
        driver.Told("tiny", "s2", 2, "something", ()),
    ]
    first = (ME, NPM, PORT, PNPM, ECHO, FRIDAY, DONE)
    return driver.Played(
        seeded, told, [driver.Ended("tiny", "s1", first), driver.Ended("tiny", "s2", (*first, BYE, AGAIN))]
    )


def test_figures_of_a_known_play_are_as_counted_by_hand(bench: Any) -> None:
    other = {**TINY, "project": "other", "sessions": [], "before": []}
    scorer = bench.Scorer([TINY, other], play(bench))
    assert scorer.score() == {
        "relevant among told": 6 / 9,  # not: the other project's port, npm in s2, a text without a memory
        "- of it at the start": 3 / 4,
        "- of it at prompts": 3 / 5,
        "told at prompts": 5,
        "relevant that was told": 3 / 3,
        "out of date among told": 1 / 9,
        "repeats among told": 1 / 9,
        "from another project": 1,
        "rules kept": 1 / 2,  # Fridays stand in an episode alone
        "- in whatever memory": 2 / 2,
        "memories kept": 6,
        "junk among kept": 3 / 6,  # the second pnpm, Bye, and the port once more
        "- of it restatements": 2,
        "sessions with a summary": 1 / 2,
        "words of the summaries": 3 / 5,
        "where did we stop, answered": 1,
        "- words of the answers": 1,
        "secrets kept or told": 1,
        "tokens at the start, mean": 15,
        "tokens at the start, most": 20,
        "tokens at a prompt, mean": (80 + 13 + 22 + 9) / 4 / 4,
    }
    assert "tiny: k2 is not kept: ['push', 'Friday|周五']" in scorer.misses
    assert "kept, and junk: Bye." in scorer.misses


def test_hooks_that_tell_and_keep_nothing_are_not_praised_for_it(bench: Any) -> None:
    nothing = bench.driver.Played(ended=[bench.driver.Ended("tiny", one["id"], ()) for one in TINY["sessions"]])
    figures = bench.Scorer([TINY], nothing).score()
    assert not any(figures.values())


def test_a_loop_is_seen_to_grow(bench: Any) -> None:
    figures = bench.score_loop(TINY, play(bench))
    assert figures["memories kept"] == 6 and figures["- of them summaries"] == 1
    assert figures["restatements kept"] == 2
    assert figures["characters kept at the end"] == sum(
        len(one["content"]) for one in (PNPM, ECHO, FRIDAY, DONE, BYE, AGAIN)
    )
    assert figures["longest memory, characters"] == len(DONE["content"])


@pytest.mark.parametrize("case", ["project", "personal"])
def test_sessions_are_played_through_the_real_hooks(bench: Any, case: str, tmp_path: Path) -> None:
    """The convention is told at the start, and the other project's is not."""
    driver = bench.driver
    other = {**TINY, "project": "other", "remote": "git@example.org:a/other.git", "sessions": []}
    other["before"] = [{"id": "b1", "by": "person", "category": "conventions", "content": "Scripts are run with yarn."}]
    folder = driver.clear(tmp_path / "work")
    with driver.own_home(folder):
        played = driver.play([TINY, other], PERSON, case, folder)
    scorer = bench.Scorer([TINY, other], played)
    start = next(told for told in played.told if told.turn == 0)
    labels = set[str]().union(*(scorer.find_labels("tiny", one) for one in start.memories))
    assert {"me1", "b1"} <= labels and "yarn" not in start.text
    assert [ended.session for ended in played.ended] == ["s1", "s2"]
    assert played.troubles == [] and (folder / "tiny/src/a.py").exists()
    rows = [json.loads(line) for line in (folder / "tiny-s1.jsonl").read_text().splitlines()]
    assert [row["type"] for row in rows] == ["user", "assistant", "user", "assistant", "user", "assistant"]


def test_what_is_told_is_known_by_its_id_or_else_by_how_it_begins(bench: Any) -> None:
    find = bench.driver.find_named
    assert find(f"- use it [{PNPM['memory_id'][-12:]}]", [PNPM, NPM]) == [PNPM]
    assert find(f"Scripts are run with npm. (no: {PNPM['memory_id']})", [PNPM, NPM]) == [PNPM]
    assert find("- scripts are  run with NPM.", [PNPM, NPM]) == [NPM]
    assert find("nothing of ours", [PNPM, NPM]) == []


def test_a_context_is_read_from_any_form_of_answer(bench: Any) -> None:
    read = bench.driver.read_context
    assert read('{"hookSpecificOutput": {"additionalContext": "a"}}') == "a"
    assert read('{"additionalContext": "b", "systemMessage": "c"}') == "b"
    assert read("plain text\n") == "plain text" and read("") == ""


@pytest.mark.parametrize(
    ("text", "word", "there"),
    [
        ("Five Refunds", "refund", True), ("a prefund", "refund", False), ("50 of them", "5|five", False),
        ("5 of them", "5|five", True), ("以后都用中文", "中文|Chinese", True), ("nothing", "5|five", False),
    ],
)  # fmt: skip
def test_words_are_found_as_they_are_meant(bench: Any, text: str, word: str, there: bool) -> None:
    assert bench.says(text, [word]) == [there]


def test_a_text_with_what_an_item_must_not_say_is_not_the_item(bench: Any) -> None:
    item = {"must": ["squash", "merge"], "not": ["CI"]}
    assert bench.matches("Always squash merge.", item)
    assert not bench.matches("Always squash merge. Why is CI red?", item) and not bench.matches("Always squash.", item)


def test_mistakes_in_a_file_are_found(bench: Any) -> None:
    assert bench.check(TINY, PERSON) == []
    broken = copy.deepcopy(TINY)
    first, second = broken["sessions"]
    first["turns"][0]["relevant"] = ["k1"]  # of the same session
    first["turns"][1]["keep"][0] |= {"must": ["yarn"], "replaces": "b9"}
    first["turns"][1]["keep"][1]["kind"] = "law"
    first["turns"][1]["keep"][2]["id"] = "b2"
    second["summary"]["open"], second["start"] = ["tests"], ["k7"]
    assert len(bench.check(broken, PERSON)) == 7


def test_the_written_sessions_are_without_mistakes_and_as_many_as_promised(bench: Any) -> None:
    person, projects = bench.read(sorted((BENCHMARKS / "sessions").glob("*.json")))
    assert [line for project in projects for line in bench.check(project, person)] == []
    weeks = [one for one in projects if one["project"] in ("shop", "soil", "ferry")]
    sessions = [session for project in weeks for session in project["sessions"]]
    turns = [turn for session in sessions for turn in session["turns"]]
    assert len(weeks) == 3 and len(sessions) >= 22 and len(turns) >= 210
    assert {session["day"] for session in sessions} == set(range(1, 11))
    assert sum("answer" in session["turns"][0] for session in sessions) == 10
    loop = next(one for one in projects if one["project"] == bench.LOOP)
    assert sum(len(bench.list_turns(session)) for session in loop["sessions"]) == 200


def test_hooks_keep_to_their_targets_over_a_written_project(bench: Any, tmp_path: Path) -> None:
    """The figures of docs/benchmarks.md are of three projects; this is one of them, with room for what is rounded."""
    person, projects = bench.read([bench.FOLDER / "ferry.json"])
    folder = bench.driver.clear(tmp_path / "work")
    with bench.driver.own_home(folder):
        played = bench.driver.play(projects, person, "project", folder)
    figures = bench.Scorer(projects, played).score()
    assert played.troubles == []
    floors = {
        "relevant among told": 0.9, "- of it at prompts": 0.8, "relevant that was told": 0.55, "rules kept": 0.9,
        "sessions with a summary": 1, "where did we stop, answered": 0.9,
    }  # fmt: skip
    assert {name: figures[name] for name, least in floors.items() if figures[name] < least} == {}
    most = {
        "repeats among told": 0, "out of date among told": 0, "from another project": 0, "secrets kept or told": 0,
        "junk among kept": 0.05, "tokens at the start, most": 800,
    }  # fmt: skip
    assert {name: figures[name] for name, limit in most.items() if figures[name] > limit} == {}
