"""The commit verb for files: from the stage to a commit, with what was noted, used, measured. Moves HEAD's branch."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from memlake.errors import Conflict, InvalidInput, NotFound, Nothing, pasted
from memlake.named_tuple import NamedTuple
from memlake.objects.layout import now
from memlake.records import Author, Change, Commit, Entry
from memlake.versions.checkout import journal, rev, run_notes, update, worktree
from memlake.versions.checkout.context import Checkout
from memlake.versions.checkout.journal import Goal, Plan
from memlake.versions.checkout.local import Tracked
from memlake.versions.history import file_notes, refs
from memlake.versions.history.append import amend_draft, prepare, record, record_on, write_facts
from memlake.versions.history.commits import Draft, Planned
from memlake.versions.kinds import is_typed, kind_at
from memlake.versions.operation import Found, Verb
from memlake.versions.paths import FILES, check, plain, tree_path
from memlake.versions.verbs.branch import refuse_waiting
from memlake.versions.verbs.merge import Conclusion, Given, conclude_pending
from memlake.versions.verbs.undo import operation


class Saying(NamedTuple):
    """What a commit says beside its content."""

    message: str | None
    author: Author | None = None
    uses: Sequence[str] = ()
    metrics: Mapping[str, Any] | None = None
    params: Mapping[str, Any] | None = None
    amend: bool = False
    allow_empty: bool = False
    only: Sequence[str] = ()  # paths; what else is staged stays staged


def commit(here: Checkout, saying: Saying, given: Given) -> Commit:
    """Commit the stage, or conclude what waits. `given` is from the verb that staged first, and for a merge."""
    waits = here.local.state("doing") is not None and not saying.amend
    return commit_waiting(here, saying, given) if waits else commit_stage(here, saying, given.found)


def commit_stage(here: Checkout, saying: Saying, found: Found | None) -> Commit:
    refuse_waiting(here, "commit")
    head, everything = here.head(), here.local.list_staged()
    staged = {path: row for path, row in everything.items() if _is_meant(path, saying.only)}
    if saying.amend and head is None:
        raise Nothing("there is no commit to amend yet.", hint="Make the first one without --amend.")
    if saying.amend and head is not None and here.local.base != head.oid:
        raise Conflict(
            "the branch moved since your files were checked out: amend would rewrite a commit you have not seen. "
            "Nothing was changed.",
            hint=f"Catch up first: memlake switch {pasted(here.local.branch or '-')}",
        )
    message = _choose_message(saying, head)
    if not staged and not saying.amend and not saying.allow_empty:
        raise Nothing("nothing to commit: nothing is staged.", hint="Stage what changed with: memlake add -A")
    ready = prepare(here.history, here.local.branch, "work", _edits_of(staged))
    name, subject = "commit --amend" if saying.amend else "commit", message.split("\n", 1)[0]
    with operation(here, name, subject, staged=everything.values(), found=found) as verb:
        before = verb.before
        goal = Goal(None, here.local.branch or "@", f"commit: {message.splitlines()[0]}", here.who)
        whole = bool(staged) and not saying.amend and before.staged == list(staged.values())
        before.commit = journal.MADE if whole else None
        with journal.move_history(here, verb, Plan(goal, journal.new_token())) as moved:
            # The facts and the commit that names them in one transaction: gc must not come between.
            draft = _make_draft(here, saying, message, staged)
            _refuse_clash(here, draft.edits)
            commit = (
                _amend_head(here, verb, head, draft, allow_empty=saying.allow_empty)
                if saying.amend and head
                else _append_commit(here, verb, draft, staged, ready=ready, allow_empty=saying.allow_empty)
            )
            moved.commit = commit.oid
            if here.local.base == (head.oid if head else None):  # else files of others have yet to be written
                moved.files = commit.oid
        before.commit = commit.oid if whole else None
        _settle_stage(here, verb, head, commit, staged)
    return commit


def _refuse_clash(here: Checkout, edits: Mapping[str, Entry | None]) -> None:
    """A tree with a file and a folder of one name cannot be checked out. `add` sees to it; this is where it counts."""
    if clash := here.history.find_clash(here.head(), edits):
        file, inner = map(plain, clash)
        raise InvalidInput(
            f"{file!r} and {inner!r} cannot both be committed: a file and a folder of one name. Nothing was committed; "
            "your stage and files are unchanged.",
            hint=f"Commit both together: memlake commit -m MESSAGE {worktree.path_as_typed(here.root, file)}",
        )


def _is_meant(path: str, only: Sequence[str]) -> bool:
    return not only or any(given in ("", path) or path.startswith(given + "/") for given in only)


def check_known(here: Checkout, paths: Sequence[str]) -> None:
    """A commit of some paths alone: each is tracked, and no merge waits, which is committed whole."""
    if here.local.state("doing") is not None:
        raise InvalidInput("a merge is waiting, and is committed whole. Nothing was committed.", hint="Name no paths.")
    for path in paths:
        if not here.local.under(path):
            is_new = worktree.find_stat(here.root, path) is not None
            raise NotFound(
                f"path {path!r} matches nothing that is tracked. Nothing was committed.",
                hint=f"Stage a new file first: memlake add {worktree.path_as_typed(here.root, path)}"
                if is_new
                else "See what is tracked with: memlake ls",
            )


def commit_waiting(here: Checkout, saying: Saying, given: Given) -> Commit:
    """`commit` while a merge, revert or cherry-pick waits concludes it, with all that is said beside it."""
    if (pending := here.local.find_pending()) and (not pending.commit or pending.rebase):
        refuse_waiting(here, "commit")  # it ends in the stage or the files, or goes on with other commits
    done = conclude_pending(here, Conclusion(saying.message, saying.author, _collect_facts(here, saying), given))
    return here.history.get(done.commit or "")


def _choose_message(saying: Saying, head: Commit | None) -> str:
    if saying.message is None and saying.amend and head is not None:
        return head.message
    message = (saying.message or "").strip()
    if not message:
        raise InvalidInput(
            "a commit needs a message. Nothing was committed.", hint='Give one with: memlake commit -m "what and why"'
        )
    return message


def _make_draft(here: Checkout, saying: Saying, message: str, staged: Mapping[str, Tracked]) -> Draft:
    edits = _edits_of(staged)
    made = run_notes.find_makers(here.local, staged)
    if made and saying.amend and (head := here.head()) is not None and (oid := head.meta.get(run_notes.FACT)):
        made = [*json.loads(here.history.objects.read(oid)), *made]
    meta = write_facts(here.history.objects, {**_collect_facts(here, saying), run_notes.FACT: made})
    if noted := [(row.path, row.about) for row in staged.values() if row.about]:
        meta["about"] = here.history.objects.write(file_notes.encode(noted))
    return Draft("work", edits, saying.author or here.author, message, now(), meta)


def _edits_of(staged: Mapping[str, Tracked]) -> dict[str, Entry | None]:
    return {tree_path(row.path): row.entry for row in staged.values()}


def _collect_facts(here: Checkout, saying: Saying) -> dict[str, Any]:
    return {
        "uses": [resolve_use(here, text) for text in saying.uses],
        "metrics": dict(saying.metrics or {}),
        "params": dict(saying.params or {}),
    }


def resolve_use(here: Checkout, text: str) -> dict[str, str | None]:
    """`PATH[@REV]` a file was made from: the path, the commit and the object it was then."""
    path, at, name = text.rpartition("@")
    if not at:
        path, name = text, "HEAD"
    room, slash, _ = path.partition("/")
    full = path if slash and (is_typed(room) or room == "files") else tree_path(path)
    check(full)
    staged = here.local.find_tracked([full.removeprefix(FILES)]).get(full.removeprefix(FILES)) if not at else None
    if staged is not None and staged.staged and staged.entry is not None:
        return {"path": full, "commit": None, "oid": staged.entry.oid}
    commit = rev.find(here, name, kind_at(full).lane)
    entry = here.history.entries(commit, [full]).get(full) if commit else None
    if commit is None or entry is None:
        raise InvalidInput(
            f"--uses {text}: {path!r} is not in {name}. Nothing was committed.",
            hint=f"Check the path; see what is there with: memlake ls {pasted(name)}",
        )
    return {"path": full, "commit": commit.oid, "oid": entry.oid}


def _append_commit(
    here: Checkout, verb: Verb, draft: Draft, staged: Mapping[str, Tracked], *, ready: Planned | None, allow_empty: bool
) -> Commit:
    branch, head = here.local.branch, here.head()
    if branch is None:
        if head is None:
            raise InvalidInput(
                "HEAD names no commit.", hint=f"Switch to a branch: {refs.advise_switch(here.history.db)}"
            )
        return record_on(here.history, draft, (head,), branch=None, head=head, action="commit", moved=verb.moved)
    # A file that another has committed just as we have it is no conflict.
    expects = {tree_path(row.path): (row.old, row.entry) for row in staged.values()}
    return record(
        here.history, draft, branch=branch, expects=expects, allow_empty=allow_empty, moved=verb.moved, ready=ready
    )


def _amend_head(here: Checkout, verb: Verb, head: Commit, draft: Draft, *, allow_empty: bool) -> Commit:
    parents = tuple(here.history.get(oid) for oid in head.parents)
    full = amend_draft(here.history, head, draft)
    planned = here.history.plan(parents[0], full.edits) if parents else None
    # A merge says something also where its tree is that of its first parent; git keeps it, too.
    if draft.edits and not allow_empty and len(parents) == 1 and planned is not None and not planned.changes:
        raise Nothing(
            "with what is staged this commit would change nothing. Nothing was changed.",
            hint="Keep it all the same with: memlake commit --amend --allow-empty\n"
            "Or take the commit back: memlake reset --soft HEAD~1",
        )
    if here.local.branch is not None and here.head() != head:
        raise Conflict("the branch moved while this was being done. Nothing was changed.", hint="Run it again.")
    return record_on(
        here.history,
        full,
        parents,
        branch=here.local.branch,
        head=head,
        action=f"commit (amend): {draft.message.splitlines()[0]}",
        moved=verb.moved,
        ready=planned,
    )


def _settle_stage(
    here: Checkout, verb: Verb, head: Commit | None, commit: Commit, staged: Mapping[str, Tracked]
) -> None:
    """The stage is history now. Files that others committed since our base come along, unless we have edits in them."""
    others = [c for c in here.history.diff(here.base(), commit, FILES) if c.path.removeprefix(FILES) not in staged]
    rows = _bring_along(here, verb, others) if others else []
    branch = here.local.branch
    with here.local.db.write():
        here.local.put(rows)
        here.local.mark_committed(commit.oid, staged.values())
        here.local.set_state(journal=None)
        if branch is None:
            here.local.set_state(head=f"@{commit.oid}")
        here.local.log_head(head.oid if head else None, commit.oid, branch, f"commit: {commit.subject}", here.who)
        journal.keep(here.local, verb)


def _bring_along(here: Checkout, verb: Verb, others: list[Change]) -> list[Tracked]:
    """Write other people's files where that loses nothing; where we have edits they stay, and status shows them."""
    unsafe = set(update.unsafe_paths(here.local, here.root, others))
    safe = [change for change in others if change.path.removeprefix(FILES) not in unsafe]
    journal.fasten(here, verb)
    with update.goes_on_later():
        written = update.write_files(here.history.objects, here.root, safe)
    update.tell_unwritten("bringing along what others committed", written)
    rows = []
    for change in others:
        path = change.path.removeprefix(FILES)
        stat, racy = written.stats.get(path, (None, True))
        rows.append(Tracked(path, change.new, stat, racy))
    return rows
