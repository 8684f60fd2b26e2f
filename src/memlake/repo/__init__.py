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
    from memlake.repo import rebuild

__all__ = [
    "Repo",
    "init",
    "list_rebase",
    "note_written",
    "open_damaged",
    "open_for_memories",
    "open_narrow",
    "open_personal",
    "open_repo",
    "read_abouts",
    "read_repo_id",
    "rebuild",
    "rescue",
    "set_setting",
]
__getattr__ = lazy(__name__, {"rebuild": f"{__name__}.rebuild"})
