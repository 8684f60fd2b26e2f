"""why, why-not, recalls, recall-diff, recall-test: what was told and why, and whether answers are as they should be."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import click

from memlake import memories as parts
from memlake.cli.arguments import JSON, Number, project_option
from memlake.cli.memory.options import agents_option, id_argument, memory_verb
from memlake.cli.screen import Screen
from memlake.errors import InvalidInput, NotFound, Nothing
from memlake.views import words
from memlake.views.memory import change_lines, recall_lines, shorten_text, told_line
from memlake.views.words import clean

if TYPE_CHECKING:
    from memlake.memories.answers.recall_tests import Question, Tested
    from memlake.memories.memories import Memories


@memory_verb(shared=[JSON])
@id_argument
@click.option("--session", metavar="NAME", help="Only what this session was told.")
@click.option("-n", "--limit", type=Number(1), metavar="N", default=10, show_default=True, help="At most N.")
def why(memories: Memories, screen: Screen, /, *, memory_id: str, session: str | None, limit: int) -> None:
    """Show when a memory was told, to whom, in answer to what, and what each part of the search gave it."""
    full = memories.full_id(memory_id)
    found = memories.why(full, session)
    if screen.as_json:
        shapes = [{**parts.why.shape(one.recall), "place": one.place, "of": one.of} for one in found]
        screen.json({"memory_id": full, "told": shapes})
        return
    with screen.pages():
        screen.lines(line for one in found[:limit] for line in told_line(screen, one))
    if not found:
        screen.note("There is no record of it being told here." + (f" (session {session})" if session else ""))
        screen.note(f"To see what keeps it back: memlake why-not {memory_id} QUESTION")
    elif len(found) > limit:
        screen.note(f"{len(found) - limit} older records are not shown; -n shows more.")


@memory_verb("why-not", shared=[JSON])
@id_argument
@click.argument("question")
@click.option("--session", metavar="NAME", help="Whether this session was told already.")
@click.option("-n", "--limit", type=Number(1), metavar="N", default=10, show_default=True, help="Of N hits.")
@click.option("--min-score", type=click.FloatRange(0, 1), help="As for recall.")
@click.option("--max-tokens", type=Number(1), metavar="N", help="As for recall.")
@agents_option
@project_option
def why_not(
    memories: Memories, screen: Screen, /, *, memory_id: str, question: str, agents: tuple[str, ...], **given: Any
) -> None:
    """Show what keeps a memory from being told in answer to QUESTION: the first gate it does not pass."""
    full, session, budget = memories.full_id(memory_id), given.pop("session"), given.pop("max_tokens")
    query = parts.search.Query(question, agent_id=agents or "*", **given)
    gates = memories.why_not(full, query, session=session or "", max_tokens=budget)
    if screen.as_json:
        screen.json({"memory_id": full, "question": question, "gates": gates})
        return
    screen.lines(f"{screen.paint(f'{gate.name}:', 'bold')} {clean(gate.says)}" for gate in gates)
    if not gates:
        screen.line("Nothing keeps it back: it is told in answer to this.")


@memory_verb("recalls", shared=[JSON])
@click.argument("number", required=False, type=Number(1))
@click.option("--session", metavar="NAME", help="Only what this session was told.")
@click.option("-n", "--limit", type=Number(1), metavar="N", default=20, show_default=True, help="At most N.")
def list_recalls(memories: Memories, screen: Screen, /, *, number: int | None, session: str | None, limit: int) -> None:
    """List what was told on this machine, newest first; with NUMBER show one record, word for word."""
    records = memories.shared.recalls
    if number is not None:
        recall = records.get(number)
        told = {one.memory_id: one for one in parts.why.read_told(memories.context, recall)}
        texts = {memory_id: memory.content for memory_id, memory in told.items()}
        screen.show({"recall": {**parts.why.shape(recall), "texts": texts}}, recall_lines(screen, recall, texts))
        return
    found = [recall for recall, _ in zip(records.scan(session=session), range(limit), strict=False)]
    lines = (
        f"{recall.number:>6}  {words.stamp(recall.time)}  {recall.surface:<13} {len(recall.told):>3} told  "
        f"{shorten_text(recall.question) or '-'}"
        for recall in found
    )
    screen.show({"recalls": [parts.why.shape(recall) for recall in found]}, lines)
    if not found and not screen.as_json:
        screen.note("Nothing was told yet." if session is None else f"There are no records of session {session!r}.")


# -- whether answers are as they should be ----------------------------------------------------


@memory_verb("recall-diff", shared=[JSON])
@click.argument("sides", metavar="A..B")
@click.option("--models", is_flag=True, help="A and B are embedding providers, such as local..none, not branches.")
@click.option("--questions", "file", metavar="FILE", help=f"Golden questions; {parts.recall_tests.FILE} by itself.")
@click.option(
    "-n", "--limit", type=Number(0), metavar="N", default=1000, show_default=True,
    help="At most N recorded questions.",
)  # fmt: skip
def recall_diff(
    memories: Memories, screen: Screen, /, *, sides: str, models: bool, file: str | None, limit: int
) -> None:
    """Ask recorded and golden questions on two branches or with two models, and show whose answers differ."""
    old, dots, new = sides.partition("..")
    if not (old and dots and new) or new.startswith("."):
        what = "models" if models else "branches"
        raise InvalidInput(f"{sides!r} does not name two {what}. Nothing was asked.", hint="Write them as main..draft.")
    questions = [*_read_questions(memories, file, must=file is not None)]
    known = {question.ask for question in questions}
    recorded = parts.recall_tests.list_recorded(memories.shared.recalls, limit) if limit else []
    questions += [question for question in recorded if question.ask not in known]
    if not questions:
        raise Nothing(
            "no question was recorded yet, and there are no golden ones. Nothing was compared.",
            hint=f"Ask something with `memlake recall`, or write questions into {parts.recall_tests.FILE}.",
        )
    with ExitStack() as stack:
        both = [stack.enter_context(memories.with_model(name)) if models else memories.on(name) for name in (old, new)]
        changes = list(parts.recall_tests.compare(both[0].context, both[1].context, questions))
    screen.show(
        {"old": old, "new": new, "questions": len(questions), "changes": changes},
        (line for change in changes for line in change_lines(screen, change)),
    )
    if not screen.as_json:
        is_one = len(changes) == 1
        asked = words.count(len(questions), "question")
        screen.note(f"{len(changes)} of {asked} {'is' if is_one else 'are'} answered differently.")


@memory_verb("recall-test", shared=[JSON])
@click.argument("file", required=False)
def recall_test(memories: Memories, screen: Screen, /, *, file: str | None) -> int:
    """Ask the golden questions of FILE, else of tests/recall.toml. Exit code 1 if an answer is not as it says.

    \b
    [[question]]
    ask = "what language for commits"
    expect = ["Chinese"]   # words of a memory, or its id
    within = 3             # among the first three; 5 unless you say
    never = ["English"]    # or: nothing = true
    """
    results = list(parts.recall_tests.test(memories.context, _read_questions(memories, file, must=True)))
    failed = [result for result in results if result.problems]
    if screen.as_json:
        screen.json({"questions": len(results), "failed": failed})
    else:
        screen.lines(line for result in failed for line in _result_lines(screen, result))
        screen.line(f"{len(results) - len(failed)} passed, {len(failed)} failed")
    return 1 if failed else 0


def _result_lines(screen: Screen, result: Tested) -> Iterator[str]:
    yield f"{screen.paint('failed', 'removed')}  {clean(result.question.ask)}"
    yield from (f"    {clean(problem)}" for problem in result.problems)


def _read_questions(memories: Memories, file: str | None, *, must: bool) -> Sequence[Question]:
    """The golden questions of a file, or of the usual one of the working folder."""
    path = os.path.join(memories.context.here.root, parts.recall_tests.FILE) if file is None else file
    try:
        with open(path, encoding="utf-8") as stream:
            text = stream.read()
    except FileNotFoundError as error:
        if not must:
            return ()
        raise NotFound(
            f"there are no golden questions: {path} does not exist. Nothing was tested.",
            hint="What such a file holds: memlake help recall-test",
        ) from error
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"{path} cannot be read: {error}. Nothing was tested.") from error
    return parts.recall_tests.parse_questions(text, str(path))
