"""L4: Repo. Opens the parts of a repo and wires them; one short method per verb. Formats nothing, decides nothing.

`rebuild` is imported when it is first used: it starts programs, which `memlake status` must not pay for.
"""

from typing import TYPE_CHECKING

from memlake._lazy import lazy
from memlake.repo.find import init, open_damaged, open_for_memories, open_personal, open_repo, rescue
from memlake.repo.for_doors import list_rebase, note_written, open_narrow, read_abouts
from memlake.repo.repo import Repo
from memlake.repo.settings import read_repo_id, set_setting

if TYPE_CHECKING:
    from memlake.repo import rebuild, remotes, sync, tiers
    from memlake.repo.sync import clone, make_clone, verify_bundle

__all__ = [
    "Repo",
    "clone",
    "init",
    "list_rebase",
    "make_clone",
    "note_written",
    "open_damaged",
    "open_for_memories",
    "open_narrow",
    "open_personal",
    "open_repo",
    "read_abouts",
    "read_repo_id",
    "rebuild",
    "remotes",
    "rescue",
    "set_setting",
    "sync",
    "tiers",
    "verify_bundle",
]
__getattr__ = lazy(
    __name__,
    {name: f"{__name__}.{name}" for name in ("rebuild", "remotes", "sync", "tiers")}
    | {name: f"{__name__}.sync:{name}" for name in ("clone", "make_clone", "verify_bundle")},
)
