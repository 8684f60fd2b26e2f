"""Putting uncommitted work aside and taking it back. A stash is a commit that only an internal ref names."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Mapping, Sequence

from memlake.errors import NotFound, Nothing, Purged
from memlake.named_tuple import NamedTuple
from memlake.objects.layout import now
from memlake.records import Change, Commit, Entry, Merged, short
from memlake.reports import Stash
from memlake.versions.checkout import journal, rev, status, update, worktree
from memlake.versions.checkout.context import Checkout
from memlake.versions.checkout.ignore import Ignore
from memlake.versions.checkout.local import Tracked
from memlake.versions.checkout.pending import STASH, Pending
from memlake.versions.history import refs
from memlake.versions.history.commits import Draft
from memlake.versions.operation import Verb
from memlake.versions.paths import FILES, file_path
from memlake.versions.text.merge3 import Names
from memlake.versions.trees.codec import as_hex
from memlake.versions.verbs import merge_to_stage
from memlake.versions.verbs.branch import refuse_waiting
from memlake.versions.verbs.merge import Given, try_merge
from memlake.versions.verbs.undo import operation, save_dirty

_PREFIX = "stash/"


def push(here: Checkout, message: str, include_untracked: bool, paths: Sequence[str] = ()) -> Stash:
    """Keep uncommitted changes (of some paths) in a stash and put the files back to HEAD."""
    refuse_waiting(here, "stash")
    # The work was done on top of base; the branch may have moved since.
    head = here.base()
    if head is None:
        raise Nothing("there is no commit yet to put work aside from.", hint="Make a first commit.")
    found = _collect_work(here, include_untracked, paths)
    text = message or f"WIP on {here.local.branch or short(head.oid)}: {short(head.oid)} {head.subject}"
    with operation(here, "stash", text, files=True) as verb:
        edits = _save_work(here, verb, found)
        held = here.history.entries(head, edits)
        back = [Change(path, entry, held.get(path)) for path, entry in sorted(edits.items())]
        update.refuse_in_the_way(here.root, back, "stash")
        ready = update.check_bytes(here, back)
        verb.before.saved = {path.removeprefix(FILES): entry for path, entry in edits.items()}
        rows = [Tracked(change.path.removeprefix(FILES), change.new, None, True) for change in back]
        plan = journal.plan_in_place(here.local, here.who, back, rows)._replace(token=journal.new_token())
        with journal.move_history(here, verb, plan):
            draft = Draft("work", edits, here.author, text, now(), _write_facts(here, found))
            commit = here.history.append(draft, (head,), here.head("memory"))
            heads: refs.Heads = {"work": commit.oid, "memory": None}
            name, action = f"{_PREFIX}{_next_number(here):06d}", f"stash: {text}"
            refs.create(here.history, name, heads, kind=refs.INTERNAL, action=action, who=here.who, moved=verb.moved)
        update.carry_out(here, verb, plan, ready)
    return Stash(0, commit.oid, text, commit.time)


class _Work(NamedTuple):
    """What there is to put aside."""

    unstaged: tuple[Change, ...]
    staged: Mapping[str, Tracked]
    untracked: tuple[str, ...]


def _collect_work(here: Checkout, include_untracked: bool, paths: Sequence[str]) -> _Work:
    unstaged, untracked = status.compare(here)
    extra = tuple(_expand_folders(here, untracked)) if include_untracked else ()
    out = dict(worktree.link_problems(here.root, (path for path in extra if os.path.islink(f"{here.root}/{path}"))))
    for text in worktree.tell_left_out(out):
        warnings.warn(text, stacklevel=2)
    extra = tuple(path for path in extra if path not in out)
    for path in paths:
        if not here.local.under(path) and not any(_is_within(one, [path]) for one in extra):
            raise NotFound(
                f"path {path!r} matches nothing that is tracked. Nothing was changed.",
                hint="Add -u to put untracked files aside, too."
                if untracked
                else "See what is tracked with: memlake ls",
            )
    found = _Work(
        tuple(change for change in unstaged if _is_within(file_path(change.path), paths)),
        {path: row for path, row in here.local.list_staged().items() if _is_within(path, paths)},
        tuple(path for path in extra if _is_within(path, paths)),
    )
    if not any(found):
        raise Nothing(
            "there is nothing to stash: no uncommitted changes.",
            hint="Add -u to include untracked files." if untracked and not include_untracked else "",
        )
    return found


def _is_within(path: str, paths: Sequence[str]) -> bool:
    return not paths or any(not one or path == one or path.startswith(f"{one}/") for one in paths)


def _write_facts(here: Checkout, found: _Work) -> dict[str, str]:
    """What taking it back needs beside the content: which files were untracked, and what exactly was staged."""
    write, meta = here.history.objects.write, {}
    if found.untracked:
        meta["untracked"] = write(json.dumps(sorted(found.untracked)).encode())
    if found.staged:
        entries = {path: as_hex(row.entry) for path, row in sorted(found.staged.items())}
        links = [row.entry.oid for row in found.staged.values() if row.entry is not None]
        meta["staged"] = write(json.dumps(entries).encode(), links=links)
    return meta


def _save_work(here: Checkout, verb: Verb, found: _Work) -> dict[str, Entry | None]:
    edits: dict[str, Entry | None] = {FILES + row.path: row.entry for row in found.staged.values()}
    # A file the stage removed may still lie there, and putting HEAD's back would overwrite it.
    left = [path.removeprefix(FILES) for path, entry in edits.items() if entry is None]
    left = [path for path in left if worktree.find_stat(here.root, path) is not None]
    dirty = (*found.unstaged, *(Change(FILES + path, None, None) for path in (*found.untracked, *left)))
    edits.update((FILES + path, entry) for path, entry in save_dirty(here, verb, dirty).items())
    return edits


def _expand_folders(here: Checkout, untracked: tuple[str, ...]) -> list[str]:
    found = []
    for path in untracked:
        if path.endswith("/"):
            ignore = Ignore(here.root)
            for part in path[:-1].split("/"):
                ignore = ignore.enter(part)
            found += [inner for inner, _ in worktree.walk(here.root, path[:-1], ignore)]
        else:
            found.append(path)
    return found


def _next_number(here: Checkout) -> int:
    names = rev.list_stashes(here)
    return int(names[0][0].removeprefix(_PREFIX)) + 1 if names else 1


def stashes(here: Checkout) -> list[Stash]:
    commits = [here.history.get(oid) for _, oid in rev.list_stashes(here)]
    return [Stash(index, commit.oid, commit.message, commit.time) for index, commit in enumerate(commits)]


def _get_stash(here: Checkout, index: int) -> tuple[str, Commit]:
    names = rev.list_stashes(here)
    if not 0 <= index < len(names):
        raise rev.describe_unknown(here, f"stash@{{{index}}}")
    return names[index][0], here.history.get(names[index][1])


def apply(here: Checkout, index: int, *, staged: bool = False, drop: bool = False, with_base: bool = False) -> Merged:
    """Join a stash's changes with the files as they are; uncommitted work in its paths stops it.

    Conflicts wait as those of a merge do, and the stash is kept. `staged` also sets the stage to what it was.
    A path whose content was purged is left out and named, and the stash is kept.
    """
    said = "stash pop" if drop else "stash apply"
    refuse_waiting(here, said)
    name, commit = _get_stash(here, index)
    lost = _find_purged(here, commit, staged=staged)
    if lost and all(change.path in lost for change in here.history.changes(commit)):
        raise Purged(
            f"all that stash@{{{index}}} holds was purged, so there is nothing to apply. Nothing was changed, and the "
            "stash is kept.",
            hint=f"Forget it with: memlake stash drop {index}",
        )
    pending = Pending(
        STASH,
        commit.subject,
        Names("files as they were", "stash", with_base),
        said,
        target=commit.oid,
        parent=commit.parents[0],
        commit=False,
        with_stage=staged,
        lost=tuple(lost),
        drop=None if lost or not drop else name,
    )
    merged = try_merge(here, pending, Given())
    if lost:
        listed = "\n".join(f"  {file_path(path)}" for path in lost)
        warnings.warn(f"not applied, because their content was purged:\n{listed}\nThe stash is kept.", stacklevel=2)
    return merged._replace(lost=tuple(lost))


def _find_purged(here: Checkout, commit: Commit, *, staged: bool) -> list[str]:
    """Tree paths of a stash that cannot be taken back; with `staged` also where only what was staged was purged."""
    entries = [(change.path, change.new) for change in here.history.changes(commit)]
    if staged:
        entries += merge_to_stage.read_staged(here, commit).items()
    erased = here.history.objects.find_purged(entry.oid for _, entry in entries if entry is not None)
    return sorted({path for path, entry in entries if entry is not None and entry.oid in erased})


def drop(here: Checkout, index: int) -> Stash:
    name, commit = _get_stash(here, index)
    with operation(here, "stash drop", commit.subject) as verb, here.history.db.write():
        action = "stash: dropped"
        refs.delete(here.history, name, kind=refs.INTERNAL, action=action, who=here.who, moved=verb.moved)
    return Stash(index, commit.oid, commit.message, commit.time)


def clear(here: Checkout) -> list[Stash]:
    """Forget every stash."""
    gone = stashes(here)
    if gone:
        with operation(here, "stash clear", f"{len(gone)} of them") as verb, here.history.db.write():
            for name, _ in rev.list_stashes(here):
                action = "stash: cleared"
                refs.delete(here.history, name, kind=refs.INTERNAL, action=action, who=here.who, moved=verb.moved)
    return gone
