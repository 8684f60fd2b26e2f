"""Branches of memory: a place to try things, to be merged or discarded; moves no checkout and touches no file.

A branch may be given a time to live. Once it is over the branch is discarded by whoever looks next; what it held stays
reachable by the reflog, as with any branch.
"""

from __future__ import annotations

from collections.abc import Sequence

from memlake.errors import Conflict, InvalidInput, NotFound
from memlake.memories import branch_expiry, conflicts, record, remember, store
from memlake.memories.context import MemoryContext
from memlake.memories.record import Memory
from memlake.named_tuple import NamedTuple
from memlake.objects import layout
from memlake.records import Commit, Entry
from memlake.records import Conflict as Met
from memlake.versions import tables
from memlake.versions.history import merge_trees as trees
from memlake.versions.history import refs
from memlake.versions.history.bases import is_ancestor
from memlake.versions.history.commits import Draft

STRATEGIES = ("branch_wins", "main_wins", "ask")


class MemoryBranch(NamedTuple):
    """A branch as agents see it; `expires_at` is 0 for never."""

    name: str
    head: str | None
    description: str = ""
    created_at: int = 0
    expires_at: int = 0


class MergedBranch(NamedTuple):
    """What a merge brought: the commit, how many memories changed, and which met a change on both sides."""

    commit: str | None
    changed: int
    met: tuple[str, ...] = ()


def create_branch(
    context: MemoryContext, name: str, *, ttl_seconds: float | None = None, description: str = ""
) -> MemoryBranch:
    """A new branch at where this one is."""
    note, history = branch_expiry.make_note(ttl_seconds, description), context.here.history
    with history.db.write():
        heads = refs.get(history.db, context.branch)
        refs.create(history, name, heads, action=f"branch from {context.branch}", who=context.author.name, note=note)
    return MemoryBranch(name, heads["memory"], **branch_expiry.read_note(note))


def check_name(name: str) -> str:
    """A name that can be looked for."""
    if name != record.whole(name):
        raise NotFound(f"there is no branch {name!r}. Nothing was changed.")
    return name


def list_branches(context: MemoryContext) -> list[MemoryBranch]:
    """All branches; those whose time is over are discarded first."""
    branch_expiry.sweep(context.here)
    rows = tables.list_refs(context.here.history.db, refs.BRANCH)
    return [
        MemoryBranch(name, head.hex() if head else None, **branch_expiry.read_note(note))
        for name, _, head, note in rows
    ]


def discard_branch(context: MemoryContext, name: str) -> None:
    """Remove a branch. What it held stays reachable by its reflog."""
    if name == context.branch:
        raise InvalidInput(f"branch {name!r} is the one in use. Nothing was changed.", hint="Use another first.")
    with context.here.history.db.write():
        refs.delete(context.here.history, check_name(name), action="discarded", who=context.author.name)


def merge_branch(context: MemoryContext, name: str, strategy: str = "branch_wins") -> MergedBranch:
    """Bring the memories and state of a branch into this one, in one commit.

    Where both changed the same memory, `branch_wins` takes the branch's, `main_wins` keeps ours (the other's text
    becomes part of its history), and `ask` changes nothing and shows both.
    """
    if strategy not in STRATEGIES:
        raise InvalidInput(f"strategy is one of {', '.join(STRATEGIES)}, not {strategy!r}. Nothing was merged.")
    history = context.here.history
    branch_expiry.check(context.here, check_name(name))
    noted = _find_contradictions(context, name)
    with history.db.write():
        ours, theirs = context.head(), refs.commit_of(history, refs.get(history.db, name)["memory"])
        if theirs is None or (ours is not None and is_ancestor(history, theirs, ours)):
            return MergedBranch(None, 0)
        outcome = trees.merge_commits(history, ours, theirs)
        met = tuple(conflict.path.rsplit("/", 1)[1] for conflict in outcome.conflicts)
        if met and strategy == "ask":
            raise _describe_conflicts(context, name, outcome.conflicts)
        choice = "theirs" if strategy == "branch_wins" else "ours"
        chosen = tuple(conflict._replace(choice=choice) for conflict in outcome.conflicts)
        edits = {**remember.apply_notes(context, outcome.edits, noted), **trees.apply_choices(history, chosen)}
        made = _append_merge(context, name, (ours, theirs), edits)
    store.update_index(context)
    return MergedBranch(made.oid, len(edits), met)


def _find_contradictions(context: MemoryContext, name: str) -> dict[str, tuple[str, Memory]]:
    """What would come and speaks against ours; looked for before the merge holds the lock, since it may ask a model."""
    history, ours = context.here.history, context.head()
    theirs = refs.commit_of(history, refs.get(history.db, name)["memory"])
    if ours is None or theirs is None or is_ancestor(history, theirs, ours) or is_ancestor(history, ours, theirs):
        return {}  # what came after ours was held against it when it was remembered
    return remember.find_contradictions(context, trees.merge_commits(history, ours, theirs).edits)


def _describe_conflicts(context: MemoryContext, name: str, met: Sequence[Met]) -> Conflict:
    told = "\n".join(
        f"{both.name}: ours {_text(both.ours)}; theirs {_text(both.theirs)}"
        for both in (conflicts.describe_sides(context.here.history, one) for one in met[:5])
        if both is not None
    )
    return Conflict(
        f"merge of {name!r} stopped: {len(met)} memories or values changed on both sides. Nothing was changed.\n{told}",
        hint="Merge again with strategy branch_wins or main_wins; the text that loses is kept in metadata.history.",
    )


def _text(said: str | None) -> str:
    return "forgot it" if said is None else repr(said[:200])


def _append_merge(
    context: MemoryContext, name: str, sides: tuple[Commit | None, Commit], edits: dict[str, Entry | None]
) -> Commit:
    history, (ours, theirs) = context.here.history, sides
    draft = Draft("memory", edits, context.author, f"merge branch {name}", layout.now(), {})
    work = refs.commit_of(history, refs.get(history.db, context.branch)["work"])
    made = theirs if ours is None else history.append(draft, (ours, theirs), work)
    refs.move(history, context.branch, "memory", ours, made, action=f"merge {name}", who=context.author.name)
    return made
