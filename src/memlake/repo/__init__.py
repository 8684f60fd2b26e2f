"""L4: Repo. Opens the parts of a repo and wires them; one short method per verb. Formats nothing, decides nothing.

What `repo.stash` and its like give is imported when it is first used: `memlake status` must not pay for it.
"""

from typing import TYPE_CHECKING

from memlake._lazy import lazy
from memlake.repo.find import init, open_damaged, open_for_memories, open_personal, open_repo, rescue
from memlake.repo.for_doors import (
    clean_up,
    list_rebase,
    merge_finished,
    note_written,
    open_narrow,
    read_about,
    read_abouts,
    tree_path,
)
from memlake.repo.repo import Repo
from memlake.repo.settings import read_repo_id, set_setting

if TYPE_CHECKING:
    from memlake.repo import (
        bisect,
        credentials,
        diff,
        formats,
        git_branches,
        lineage,
        merge,
        promotions,
        rebuild,
        refs,
        remotes,
        results,
        show,
        stash,
        stored_objects,
        summarize,
        sync,
        tiers,
        upkeep,
    )
    from memlake.repo.sync import clone, make_clone, verify_bundle

_LATER = (
    "bisect", "credentials", "diff", "formats", "git_branches", "lineage", "merge", "promotions", "rebuild", "refs",
    "remotes", "results", "show", "stash", "stored_objects", "summarize", "sync", "tiers", "upkeep",
)  # fmt: skip
__all__ = [
    "Repo", "bisect", "clean_up", "clone", "credentials", "diff", "formats", "git_branches", "init", "lineage",
    "list_rebase", "make_clone", "merge", "merge_finished", "note_written", "open_damaged", "open_for_memories",
    "open_narrow", "open_personal", "open_repo", "promotions", "read_about", "read_abouts", "read_repo_id", "rebuild",
    "refs", "remotes", "rescue", "results", "set_setting", "show", "stash", "stored_objects", "summarize", "sync",
    "tiers", "tree_path", "upkeep", "verify_bundle",
]  # fmt: skip
__getattr__ = lazy(
    __name__,
    {name: f"{__name__}.{name}" for name in _LATER}
    | {name: f"{__name__}.sync:{name}" for name in ("clone", "make_clone", "verify_bundle")},
)
