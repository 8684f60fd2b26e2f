"""What doors need beside the verbs of Repo: functions of a repo that nobody else calls."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from memlake import memories, projects, versions
from memlake import repo as later
from memlake.dataset.kind import read_rows
from memlake.objects import layout
from memlake.records import Entry
from memlake.repo.open import AnyPath
from memlake.repo.repo import Repo

if TYPE_CHECKING:
    from memlake.memories.sessions.hook_search import Narrow
    from memlake.reports import About
    from memlake.versions.checkout.pending import Step


def tree_path(repo: Repo, given: AnyPath) -> str:
    """The tree path a user's path means: `datasets/x` and other rooms in full, anything else a file."""
    return repo._tree_path(given)


def read_about(repo: Repo, path: AnyPath, rev: str) -> About:
    """`repo.show(rev).about`, also of the stage and of the sides of a conflict."""
    return versions.show.about(repo._look(), repo._tree_path(path), rev)


def read_abouts(repo: Repo, rev: str, entries: Mapping[str, Entry]) -> dict[str, About]:
    """`repo.show(rev).about` for many tree paths, in one walk over history."""
    return dict(versions.show.abouts(repo._look(), rev, entries))


def open_narrow(repo: Repo, *, everywhere: bool = False) -> Narrow:
    """The little of memories that hooks need, without the weight of an index that is opened whole.

    Of a repo of many projects those of this one and of none are seen; with `everywhere` only those of none.
    """
    place = projects.NOWHERE if everywhere else repo._place()
    fork = repo._fork(repo._find_followed())
    return memories.hook_search.Narrow(
        repo._look(), repo.dir, repo._settings, repo._memory_branch(), place=place, fork=fork, read_rows=read_rows
    )


def merge_finished(repo: Repo) -> list[str]:
    """Where memories follow git: merge those of branches that git has merged since; returns the names of these."""
    return [] if repo._find_followed() is None else later.git_branches.merge_finished(repo)


def clean_up(repo: Repo, *, silent: bool = False) -> str:
    """Once a day what `memory.cleanup` says of memories that have expired: forget them, or say that they have.

    Returns what a person should be told; empty if there is nothing to tell. `silent`: nobody is there to be told.
    """
    how, today = repo.config.in_force.memory_cleanup, time.strftime("%Y-%m-%d", time.gmtime(layout.now() // 1_000_000))
    local, done = repo._look().local, f"{today} {how}"  # another setting counts at once
    if how == "off" or (silent and how == "propose"):
        return ""
    if not (repo.dir / "index").exists() or local.state("cleanup") == done:
        return ""
    local.set_state(cleanup=done)
    narrow = open_narrow(repo)
    expired = narrow.list_expired()
    count = f"{len(expired):,} {'memory' if len(expired) == 1 else 'memories'}"
    if not expired:
        return ""
    if how == "propose":
        return f"{count} expired. See what may go: memlake memory evict --dry-run"
    note_written(repo, "cleanup", f"{count} that expired", [narrow.forget(expired, f"forget {count} that expired")])
    return f"Forgot {count} that expired, as memory.cleanup says. Bring them back with: memlake undo"


def list_rebase(repo: Repo, upstream: str, branch: str | None = None, *, onto: str | None = None) -> Sequence[Step]:
    """What `repo.rebase` would do, a step for each commit, for a person to edit."""
    return versions.rebase.plan_steps(repo._look(), versions.rebase.Asked(upstream, branch, onto)).todo


def note_written(repo: Repo, verb: str, detail: str, written: Sequence[tuple[str, str]]) -> None:
    """Let `undo` know what a verb wrote to the memory lane, as (branch, commit); not of what was taken back."""
    if kept := [(branch, oid) for branch, oid in written if repo._history.has(oid)]:
        versions.undo.note(repo._look(), verb, detail, kept)
