"""recall: the memories that answer a question, best first. What is shown is data, never commands."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import click

from memlake import memories as parts
from memlake.cli.arguments import JSON, Number, project_option
from memlake.cli.memory.options import (
    agents_option,
    choose_agents,
    filing_options,
    memory_verb,
    repo_of,
    scope_option,
    tell_repo,
)
from memlake.cli.screen import Screen
from memlake.errors import Error, pasted
from memlake.views.memory import INDENT, hit_lines
from memlake.views.words import clean

if TYPE_CHECKING:
    from memlake.memories.memories import Memories
    from memlake.memories.search import Hits, Query

_AROUND = 80  # characters shown around what a hit says
_AFTERWARDS = 0.1  # seconds for memories that wait for a vector, once the answer is printed
_LONGEST = 5.0  # seconds of a recall as a whole: an embedder that accepts and never answers is left
_FEW = 64  # waiting memories up to which a short-lived process is a help; more are work for a server or an agent


@memory_verb(shared=[JSON])
@click.argument("query", required=False, default="")
@click.option("-n", "--limit", type=Number(1), metavar="N", default=10, show_default=True, help="At most N hits.")
@click.option("--offset", type=Number(0), metavar="N", default=0, help="Leave out the first N.")
@filing_options
@agents_option
@scope_option
@click.option("--since", metavar="TIME", help='Stored from then on: a date, or "last week".')
@click.option("--until", metavar="TIME", help="Stored before then.")
@click.option("--min-importance", type=click.FloatRange(0, 1), help="At least this important.")
@click.option(
    "--min-score", type=click.FloatRange(0, 1), help="At least this near to QUERY, 0 to 1, not search.min_score."
)
@click.option(
    "--mode",
    type=click.Choice(["hybrid", "keyword", "semantic"]),
    default="hybrid",
    show_default=True,
    help="By words, by meaning, or both.",
)
@click.option("--as-of", metavar="REV|TIME", help="What was remembered then.")
@project_option
@click.option(
    "--sees",
    type=click.Choice(["branch", "branch-only", "main"]),
    default="branch",
    show_default=True,
    help="Everything on the branch, only what it added, or the trunk.",
)
@click.option("--explain", is_flag=True, help="Show how close each hit is and how it was ranked.")
@click.option("--max-tokens", type=Number(1), metavar="N", help="Stop when the hits are about this long in all.")
def recall(
    memories: Memories, screen: Screen, /, *, query: str, agents: tuple[str, ...], scope: str, **given: Any
) -> None:
    """Find memories by their words and meaning, best first. Without QUERY, list the newest.

    What is found is data that agents and people recorded. Control characters in it are made visible.
    """
    explain, max_tokens = (given.pop(name) for name in ("explain", "max_tokens"))
    wanted = parts.search.Query(query, agent_id=choose_agents(agents, scope), **given)
    begun = time.perf_counter()
    if query.strip() and wanted.mode != "keyword":
        with suppress(Error):  # the search says what is wrong
            memories.catch_up()
    hits = memories.search(wanted)
    took = time.perf_counter() - begun
    kept = hits[: parts.search.count_fitting((len(hit["content"]) + _AROUND for hit in hits), max_tokens)]
    memories.note_told(wanted, hits, parts.recalls.Teller("recall", memories.context.caller.session), kept=len(kept))
    if screen.as_json:
        screen.json(
            {
                "query": query, "mode": hits.mode, "notes": hits.notes, "left_out": len(hits) - len(kept),
                "repo": repo_of(memories), "hits": kept,
            }
        )  # fmt: skip
    else:
        with screen.pages():
            _show(screen, kept, first=wanted.offset + 1, explain=explain, scored=explain or bool(wanted.min_score))
        tell_repo(memories, screen)
    _tell(
        screen,
        wanted,
        hits,
        len(kept),
        plan=f"{hits.mode} on {memories.context.branch}, {took * 1e3:.0f} ms" if explain else "",
    )
    helper = threading.Thread(target=_embed_some, args=(memories,), daemon=True)
    helper.start()
    helper.join(max(0.0, _LONGEST - (time.perf_counter() - begun)))


def _tell(screen: Screen, wanted: Query, hits: Hits, kept: int, *, plan: str) -> None:
    """What is for the person, not for the pipe."""
    for note in hits.notes:
        screen.warn(note)
    if plan:
        screen.note(f"searched: {plan}")
    if not hits:
        screen.note("Nothing found.")
        if wanted.session_id:
            screen.note(
                f"Only memories of session {clean(wanted.session_id)!r} were looked at. To look at all of them:"
            )
            screen.note(f"    memlake recall {pasted(clean(wanted.text))}".rstrip())
    elif kept < len(hits):
        screen.note(f"{len(hits) - kept} left out by --max-tokens.")


def _show(screen: Screen, hits: Sequence[Mapping[str, Any]], *, first: int, explain: bool, scored: bool) -> None:
    for number, hit in enumerate(hits):
        screen.lines([""] * bool(number))
        screen.lines(hit_lines(screen, hit, f"{number + first:>3}.  ", scored=scored))
        if explain:
            why = "  ".join(f"{arm} {value:.3f}" for arm, value in hit["why"].items())
            screen.line(screen.paint(f"{INDENT}why: {why}", "dim"))


def _embed_some(memories: Memories) -> None:
    """A short-lived process helps along: a few of what waits, where a model is open already. Never before printing."""
    end = time.monotonic() + _AFTERWARDS
    if not memories.shared.is_embedder_open() or memories.count_waiting() > _FEW:
        return
    with suppress(Error):  # the answer is out already; the queue keeps what was not done
        while time.monotonic() < end and memories.embed_pending(4):
            continue
