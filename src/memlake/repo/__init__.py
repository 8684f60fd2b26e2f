"""L4: Repo. Opens the parts of a repo and wires them; one short method per verb. Formats nothing, decides nothing."""

from memlake.repo.find import init, open_damaged, open_for_memories, open_personal, open_repo, rescue
from memlake.repo.for_doors import list_rebase, note_written, open_narrow, read_abouts
from memlake.repo.repo import Repo
from memlake.repo.settings import read_repo_id, set_setting

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
    "rescue",
    "set_setting",
]
