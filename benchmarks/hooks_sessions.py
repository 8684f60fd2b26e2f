"""Written sessions of coding agents: reads the files of `sessions/` and finds the mistakes in them. Runs nothing.

`sessions/README.md` says what a file holds and how it is labelled.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "sessions"
RULES = ("rule", "preference", "decision", "correction")  # what a person states; a `fact` may be kept and need not be
KINDS = (*RULES, "fact")
LOOP = "loop"  # the project whose sessions ask the same again and again, scored by itself
Project = dict[str, Any]


def read(names: Sequence[Path]) -> tuple[list[dict[str, Any]], list[Project]]:
    """The memories of the person, who is the same in all projects, and the projects of these files."""
    person = json.loads((FOLDER / "person.json").read_text(encoding="utf-8"))["before"]
    files = [json.loads(name.read_text(encoding="utf-8")) for name in names if name.name != "person.json"]
    return person, sorted(files, key=lambda project: str(project["project"]))


def list_turns(session: dict[str, Any]) -> list[dict[str, Any]]:
    return list(session["turns"]) * int(session.get("repeat", 1))


def list_kept(project: Project) -> Iterator[tuple[str, dict[str, Any]]]:
    """What is worth keeping, each with the session that says it, in order."""
    for session in project["sessions"]:
        for turn in session["turns"]:
            yield from ((session["id"], item) for item in turn.get("keep", ()))


def says(text: str, words: Sequence[str]) -> list[bool]:
    """For each of these whether the text has it: `a|b` is one or the other, upper and lower case are the same.

    A word may go on ("refund" is in "refunds") but not begin within another, and a number ends where its digits do.
    """
    plain = fold(text)
    return [any(re.search(_pattern(one), plain) for one in word.split("|")) for word in words]


def _pattern(word: str) -> str:
    plain = fold(word)
    before = r"(?<![a-z0-9])" if re.match("[a-z0-9]", plain) else ""
    return before + re.escape(plain) + (r"(?![0-9])" if plain[-1:].isdigit() else "")


def fold(text: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def matches(content: str, item: dict[str, Any]) -> bool:
    """Whether a stored text is this item: all that it must say, and nothing that it must not."""
    return all(says(content, item["must"])) and not any(says(content, item.get("not", ())))


def check(project: Project, person: Sequence[dict[str, Any]]) -> list[str]:
    """What is wrong with a file, one line each: ids that nobody made, words that nobody said, kinds that are none."""
    found, known = [], {one["id"] for one in (*person, *project["before"])}
    if len(known) < len(person) + len(project["before"]):
        found.append("two memories of `before` have one id")
    days = [session["day"] for session in project["sessions"]]
    if days != sorted(days):
        found.append("sessions are not in the order of their days")
    for session in project["sessions"]:
        where = f"{project['project']} {session['id']}"
        found += [
            f"{where}: start names {one}, which does not exist by then" for one in session["start"] if one not in known
        ]
        told = []
        for number, turn in enumerate(session["turns"], 1):
            text = f"{turn['user']}\n{turn['assistant']}"
            told.append(text)
            for one in turn.get("relevant", ()):
                if one not in known:
                    found.append(f"{where}, turn {number}: relevant names {one}, which no earlier session made")
            for item in turn.get("keep", ()):
                found += [f"{where}, {item['id']}: {problem}" for problem in _check_item(item, text, known)]
        words = session["summary"]
        for part in ("asked", "done", "open"):
            missing = [
                word for word, there in zip(words[part], says("\n".join(told), words[part]), strict=True) if not there
            ]
            found += [f"{where}: nobody says {word!r}, which the summary has under {part}" for word in missing]
        known |= {item["id"] for turn in session["turns"] for item in turn.get("keep", ())} | {session["id"]}
    return found


def _check_item(item: dict[str, Any], text: str, known: set[str]) -> Iterator[str]:
    if item["kind"] not in KINDS:
        yield f"{item['kind']} is none of {', '.join(KINDS)}"
    if item["id"] in known:
        yield "the id is taken"
    if not item["must"]:
        yield "it must say nothing, so every text would be it"
    if "replaces" in item and item["replaces"] not in known:
        yield f"it replaces {item['replaces']}, which does not exist by then"
    yield from (
        f"nobody says {word!r}" for word, there in zip(item["must"], says(text, item["must"]), strict=True) if not there
    )
