"""Revs: what a person types (`HEAD~2`, `main@{yesterday}`, `ab12cd`), and the commit it names. Reads only."""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Iterator
from itertools import islice, pairwise

from memlake.errors import InvalidInput, NotFound, pasted
from memlake.records import Commit, Lane, Move, count, when
from memlake.versions import tables
from memlake.versions.checkout.context import Checkout
from memlake.versions.history import refs
from memlake.versions.history.times import parse_time

_STEP = re.compile(r"([~^])(\d*)|@\{([^}]*)\}")
_HEX = re.compile(r"[0-9a-f]{4,64}$")
SWITCHED, RENAMED = "switch: moving to ", "branch: renamed "  # how the log of HEAD tells them
RANGE = re.compile(r"(?P<a>.*?)(?P<dots>\.{2,3})(?P<b>.*)$")


def resolve(here: Checkout, text: str, lane: Lane = "work") -> Commit:
    """The commit that a rev names on a lane; the error for an unknown one suggests similar names."""
    if not text:
        raise InvalidInput("an empty string is not a rev.", hint="Write HEAD for the commit you are on.")
    commit = find(here, text, lane)
    if commit is None:
        raise describe_unknown(here, text)
    return commit


def find(here: Checkout, text: str, lane: Lane = "work") -> Commit | None:
    """The commit that a rev names on a lane; None if there is none."""
    start = _STEP.search(text)
    name, steps = (text[: start.start()], text[start.start() :]) if start else (text, "")
    if steps.startswith("@{"):
        current, steps = _at(here, name, lane, steps)
    else:
        current = _find_named(here, name, lane)
    while steps:
        match = _STEP.match(steps)
        if match is None or match[1] is None:
            raise InvalidInput(
                f"rev {text!r} cannot be read at {steps!r}.",
                hint="Write it as HEAD~2, main^2, main@{1} or a commit id.",
            )
        if current is None:
            return None
        current = _step(here, text, current, match[1], match[2])
        steps = steps[match.end() :]
    return current


def split_range(text: str) -> tuple[str, str, str] | None:
    """("A", "..", "B") for a range; an empty side is HEAD."""
    # Dots inside @{...} are part of a time.
    match = RANGE.match(re.sub(r"@\{[^}]*\}", lambda time: time[0].replace(".", " "), text))
    return None if match is None else (match["a"] or "HEAD", match["dots"], match["b"] or "HEAD")


def _step(here: Checkout, text: str, commit: Commit, sign: str, number: str) -> Commit:
    steps = int(number) if number else 1
    if sign == "^":
        if steps == 0:
            return commit
        if len(commit.parents) < steps:
            raise NotFound(
                f"rev {text!r} does not exist: commit {commit.oid[:10]} has {count(len(commit.parents), 'parent')}.",
                hint="See: memlake log --graph --oneline",
            )
        return here.history.get(commit.parents[steps - 1])
    for done in range(steps):
        if not commit.parents:
            raise NotFound(
                f"rev {text!r} does not exist: only {count(done, 'commit')} can be counted back from there.",
                hint="See: memlake log --oneline",
            )
        commit = here.history.get(commit.parents[0])
    return commit


def _find_named(here: Checkout, name: str, lane: Lane) -> Commit | None:
    history = here.history
    if name in ("HEAD", "@", ""):
        return here.head(lane)
    if name == "MERGE_HEAD":
        pending = here.local.find_pending()
        return history.get(pending.theirs) if pending and pending.theirs else None
    if name == "ORIG_HEAD":
        return next((history.get(old) for old, new, *_ in here.local.head_moves() if old and old != new), None)
    if name == "stash":
        return _find_stash(here, 0)
    for kind, start in ((refs.BRANCH, "refs/heads/"), (refs.TAG, "refs/tags/"), (refs.REMOTE, "refs/remotes/")):
        heads = refs.find(history.db, name.removeprefix(start), kind)
        if heads is not None:
            return refs.commit_of(history, heads[lane])
    if not _HEX.match(name.lower()):
        return None
    oids = history.starting_with(name.lower())
    if len(oids) > 1:
        listed = ", ".join(oid[: len(name) + 4] for oid in oids)
        raise InvalidInput(f"id {name!r} is ambiguous: {listed}.", hint="Write a few more of its characters.")
    return history.get(oids[0]) if oids else None


def _at(here: Checkout, name: str, lane: Lane, steps: str) -> tuple[Commit | None, str]:
    """`name@{...}`: a number counts moves back, a time means where it was then, -n is an earlier branch."""
    match = _STEP.match(steps)
    assert match is not None
    asked, rest = match[3], steps[match.end() :]
    if name == "stash":
        return _find_stash(here, int(asked) if asked.isdigit() else 0), rest
    if re.fullmatch(r"-\d+", asked) and name in ("", "HEAD", "@"):
        return _find_named(here, previous_branch(here, int(asked[1:])), lane), rest
    name = name or here.local.branch or "HEAD"  # `@{1}` counts moves of the branch we are on
    moves = head_log(here) if name in ("HEAD", "@") else refs.reflog(here.history, known_branch(here, name), lane)
    shown = name or "HEAD"
    oid = _nth(moves, int(asked), shown) if asked.isdigit() else _then(moves, parse_time(asked), shown)
    return refs.commit_of(here.history, oid), rest


def known_branch(here: Checkout, name: str) -> str:
    if refs.find(here.history.db, name) is None and next(refs.reflog(here.history, name), None) is None:
        raise describe_unknown(here, name)
    return name


def _nth(moves: Iterator[Move], index: int, shown: str) -> str | None:
    taken = list(islice(moves, min(index + 1, sys.maxsize)))
    if not taken:
        return None
    if len(taken) == index + 1:
        return taken[-1].new
    if taken and len(taken) == index and taken[-1].old:
        return taken[-1].old
    raise NotFound(
        f"{shown}@{{{index}}} does not exist: the reflog of {shown!r} has {len(taken)} entries.",
        hint=f"See them with: memlake reflog {pasted(shown)}",
    )


def _then(moves: Iterator[Move], time: int, shown: str) -> str | None:
    """Where a ref was at a time, or at the beginning of its log if that is later. None for a lane without a log."""
    oldest = None
    for move in moves:
        if move.time <= time:
            return move.new
        oldest = move
    if oldest is None:
        return None
    since = when(oldest.time).strftime("%Y-%m-%d %H:%M:%S %z")
    warnings.warn(f"the reflog of {shown!r} only goes back to {since}; this is what it was then.", stacklevel=2)
    return oldest.old or oldest.new


def head_log(here: Checkout) -> Iterator[Move]:
    """Moves of HEAD, newest first."""
    for index, (old, new, _, time, action, who) in enumerate(here.local.head_moves()):
        yield Move("HEAD", "work", index, old, new, time, action, who)


def previous_branch(here: Checkout, back: int = 1) -> str:
    """The branch (or commit) that HEAD was on `back` switches ago. A rename does not count; a switch to itself does."""
    moves = ((branch, new, action) for _, new, branch, _, action, _ in here.local.head_moves())
    for (branch, _, action), (before, commit, _) in pairwise(moves):
        again = branch is not None and action.startswith(SWITCHED)
        if (branch != before and not action.startswith(RENAMED)) or again:
            back -= 1
            if back == 0:
                return before or commit or ""
    raise NotFound("there is no earlier branch to go back to.", hint="See the branches with: memlake branch")


def _find_stash(here: Checkout, index: int) -> Commit | None:
    stashes = list_stashes(here)
    return here.history.get(stashes[index][1]) if index < len(stashes) else None


def list_stashes(here: Checkout) -> list[tuple[str, str]]:
    """The name and the commit of each stash, newest first."""
    rows = tables.list_refs(here.history.db, refs.INTERNAL)
    return [(name, work.hex()) for name, work, *_ in reversed(rows) if name.startswith("stash/")]


def describe_unknown(here: Checkout, text: str) -> NotFound:
    """The error for a rev that names nothing."""
    if re.fullmatch(r"stash(@\{\d+\})?", text):
        number = len(list_stashes(here))
        what = f"there is no {text}; there are {number}." if number else "there is no stash."
        return NotFound(what, hint="See them with: memlake stash list")
    names = [name for kind, name, *_ in tables.list_all_refs(here.history.db) if kind != refs.INTERNAL]
    import difflib  # only for a mistake

    near = difflib.get_close_matches(text, names, 2)
    name = re.split(r"[~^]|@\{|(?<=.)@|\.\.", text, maxsplit=1)[0] if here.head() is None else text
    if name in ("HEAD", "@") and here.head() is not None:
        return NotFound(f"{text!r} names no commit yet: the memory lane of branch {here.local.branch!r} is empty.")
    if name in ("HEAD", "@") or (here.head() is None and name == here.local.branch):
        return NotFound(
            f"{text!r} names no commit yet: branch {here.local.branch!r} has no commits.",
            hint='Make the first one with: memlake add . && memlake commit -m "first"',
        )
    hint = (
        f"Did you mean {' or '.join(repr(n) for n in near)}?"
        if near
        else "See: memlake branch, memlake tag, memlake log --oneline"
    )
    return NotFound(f"unknown rev {text!r}: there is no branch, tag or commit id like that.", hint=hint)
