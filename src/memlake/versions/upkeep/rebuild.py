"""Standing again: HEAD found anew where local.db was lost, or names a branch or commit that is gone. Touches no file.

repo.db is durable and local.db is not, so after a power cut HEAD may be older than the branches. repo.db keeps what
HEAD said last (`meta.head`), which is where a checkout without a HEAD of its own goes.
"""

from __future__ import annotations

import warnings
from itertools import islice

from memlake.errors import Unavailable
from memlake.objects import tables as object_tables
from memlake.objects.locks import LONG
from memlake.records import short
from memlake.versions.checkout import journal, update
from memlake.versions.checkout.context import Checkout, find_problem, is_behind, read_head, read_stamp
from memlake.versions.checkout.local import NOT_HERE, Local, Tracked
from memlake.versions.history import refs
from memlake.versions.history.commits import History
from memlake.versions.paths import FILES
from memlake.versions.verbs import undo

_GROUP = 4000
_GONE = "The stage, the list for undo and HEAD's log before this moment are lost; commits and files are not."
_OVERTAKEN = "What you staged last may be lost, and the list for undo is; commits and files are not."


def begin(history: History, local: Local, branch: str) -> None:
    """Give a new repo its first branch, and stand on it; in an old one this changes nothing.

    A local.db may be older than repo.db where that was lost and made again: `stand_again` sees to it.
    """
    if _is_unbegun(history):
        with history.db.write():
            if _is_unbegun(history):  # another process may have begun it meanwhile
                nothing: refs.Heads = {"work": None, "memory": None}
                refs.create(history, branch, nothing, action="init", who="")
                object_tables.write_fact(history.db, "head", branch)
        if local.is_new:
            local.set_state(head=branch, base=None)


def _is_unbegun(history: History) -> bool:
    return not refs.branches(history.db, None) and read_head(history.db) is None


def stand_first(here: Checkout, branch: str) -> None:
    """Stand where HEAD was last, in a checkout made just now beside a history that was there: nothing is to be said."""
    history, local = here.history, here.local
    head = _choose_head(history, None, branch, kept=False)
    commit = _find_commit(history, head)
    with local.db.write():
        _track(history, local, commit)
        local.set_state(head=head, tokens=read_stamp(history.db).token)
        local.log_head(None, commit, None if head.startswith("@") else head, "rescue", "")


def stand_again(here: Checkout, branch: str) -> Local:
    """Make HEAD name what exists, and say what was assumed. Where nothing can be written it is assumed all the same.

    Returns the checkout as it is to be used from now on: with that assumption, until HEAD can be written.
    """
    history, local = here.history, here.local
    try:
        with local.verb(LONG):  # a verb that is at work may be about to move HEAD itself
            begin(history, local, branch)  # an `init` that was interrupted left no branch
            problem = find_problem(history, local)
            if problem is not None:
                _stand(here, problem, branch)
    except Unavailable:
        head = _choose_head(history, local.base, branch, kept=local.base is not None)
        return Local(local.db, local.root, {local.state("head"): head})
    return local


def _stand(here: Checkout, problem: str, branch: str) -> None:
    history, local, base = here.history, here.local, here.local.base
    behind = not local.is_new and is_behind(history, local)
    with local.db.write():
        if behind:
            _catch_up(here)
        kept = not local.is_new and (local.base is None or history.has(local.base))
        head = _choose_head(history, local.base, branch, kept=kept, behind=behind)
        commit = _find_commit(history, head)
        if not kept:
            _track(history, local, commit)
        if behind or not kept:
            undo.note(here, "lost", f"everything before this, because {problem}", [])
        local.set_state(head=head, tokens=read_stamp(history.db).token)
        local.log_head(base, commit, None if head.startswith("@") else head, f"found again: {problem}", "")
    lost = _GONE if not kept else _OVERTAKEN if behind else "Nothing was lost."
    warnings.warn(_say(problem, head, commit, lost), stacklevel=6)


def _catch_up(here: Checkout) -> None:
    """Take in what a power cut took from local.db: a plan's end, and commits since. What they committed is not staged.

    A verb that came later has left its token, so a plan that still stands was carried out; and a verb that writes files
    syncs local.db first, so of those it has not heard of the files are as the last one found them.
    """
    history, local, stamp = here.history, here.local, read_stamp(here.history.db)
    plan = journal.find(local)
    if plan is not None and not plan.token and (plan.goal.commit is None or history.has(plan.goal.commit)):
        target = refs.commit_of(history, plan.goal.commit)
        update.finish(local, None, plan, update.target_changes(history, local, target), {})
    local.set_state(journal=None)
    local.clear_doing()
    if stamp.files is not None and history.has(stamp.files):
        changes = update.target_changes(history, local, history.get(stamp.files))
        local.put(Tracked(change.path.removeprefix(FILES), change.new, None, True) for change in changes)
        local.set_state(base=stamp.files)


def _choose_head(history: History, base: str | None, branch: str, *, kept: bool, behind: bool = False) -> str:
    """The branch that HEAD was last on, if it has what the files reflect; else, detached, the commit they reflect.

    `behind`: what the last verbs did is known from repo.db, HEAD among it, and that branch may be ahead of the files.
    """
    last = read_head(history.db)
    names = [found.name for found in refs.branches(history.db, None)]
    if behind and last in names:
        return str(last)
    named = [name for name in (last, branch, *names) if name in names]
    first = named[0] if named else branch  # without any branch, an `init` was interrupted
    if kept:
        fitting = [name for name in named if refs.get(history.db, name or "")["work"] == base]
        # Without a commit there is nothing to be detached at.
        return fitting[0] if fitting and (fitting[0] == last or base is None) else f"@{base}" if base else first
    if last is not None and last.startswith("@") and history.has(last[1:]):
        return last
    return first


def _find_commit(history: History, head: str) -> str | None:
    return head[1:] if head.startswith("@") else (refs.find(history.db, head) or {"work": None})["work"]


def _track(history: History, local: Local, commit: str | None) -> None:
    """What is tracked, as the commit has it: the next status compares it with the files that are there."""
    for table in ("file", "conflict"):
        local.db.run(f"DELETE FROM {table}")
    files = iter(history.scan(history.get(commit), FILES) if commit else ())
    while group := list(islice(files, _GROUP)):
        away = history.objects.find_away(entry.oid for _, entry in group)
        local.put(
            Tracked(path.removeprefix(FILES), entry, NOT_HERE if entry.oid in away else None, True)
            for path, entry in group
        )
    local.set_state(base=commit, doing=None, journal=None)


def _say(problem: str, head: str, commit: str | None, lost: str) -> str:
    where = f"at commit {short(commit or '')}, on no branch" if head.startswith("@") else f"on branch {head!r}"
    next_step = "See it with: memlake status. To stand elsewhere: memlake switch BRANCH"
    return f"{problem}, so this checkout now stands {where}. {lost} {next_step}"
