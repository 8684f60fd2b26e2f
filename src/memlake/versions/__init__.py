"""L2: history. Trees, commits, refs, checkouts, verbs, upkeep. Knows paths and oids, not what they hold.

A verb's module is imported when it is first used (`versions.gc.collect`): `memlake status` must not pay for gc.
"""

from typing import TYPE_CHECKING

from memlake._lazy import lazy

if TYPE_CHECKING:
    from memlake.versions.checkout import attributes, bare, globs, rev, run_notes, scratch, status, update, worktree
    from memlake.versions.history import log, merge_trees, refs
    from memlake.versions.lineage import commit_facts, graph
    from memlake.versions.sync import archive, bundle, drop, fetch, mirror, partial, push, receive, remote, remote_gc
    from memlake.versions.upkeep import backup, doctor, fsck, gc, purge, rebuild, rescue
    from memlake.versions.verbs import (
        bisect,
        branch,
        clean,
        commit,
        diff,
        grep,
        merge,
        metrics,
        nearest_tag,
        promote,
        rebase,
        resolve,
        show,
        stage,
        stash,
        undo,
        usage,
        write,
    )

_ROOMS = {
    "checkout": ("attributes", "bare", "globs", "rev", "run_notes", "scratch", "status", "update", "worktree"),
    "history": ("log", "merge_trees", "refs"),
    "lineage": ("commit_facts", "graph"),
    "sync": ("archive", "bundle", "drop", "fetch", "mirror", "partial", "push", "receive", "remote", "remote_gc"),
    "upkeep": ("backup", "doctor", "fsck", "gc", "purge", "rebuild", "rescue"),
    "verbs": (
        "bisect", "branch", "clean", "commit", "diff", "grep", "merge", "metrics", "nearest_tag", "promote", "rebase",
        "resolve", "show", "stage", "stash", "undo", "usage", "write",
    ),
}  # fmt: skip
__all__ = [
    "archive", "attributes", "backup", "bare", "bisect", "branch", "bundle", "clean", "commit", "commit_facts", "diff",
    "doctor", "drop", "fetch", "fsck", "gc", "globs", "graph", "grep", "log", "merge", "merge_trees", "metrics",
    "mirror", "nearest_tag", "partial", "promote", "purge", "push", "rebase", "rebuild", "receive", "refs",
    "remote", "remote_gc", "rescue", "resolve", "rev", "run_notes", "scratch", "show", "stage", "stash", "status",
    "undo", "update", "usage", "worktree", "write",
]  # fmt: skip
__getattr__ = lazy(__name__, {name: f"{__name__}.{room}.{name}" for room, names in _ROOMS.items() for name in names})
