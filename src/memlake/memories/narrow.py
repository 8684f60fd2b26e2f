"""What a hook of a coding agent needs of memories: a quick look, and a record put down. No numpy, no model.

It finds by words alone, and leaves an index that is far behind to whoever comes with more time.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from memlake.config import Settings
from memlake.errors import NotFound, Purged
from memlake.index import rows
from memlake.index.glance import Glance, Seen
from memlake.index.scope import Shown
from memlake.index.terms import mark
from memlake.memories import following, record
from memlake.memories.paths import memory_path
from memlake.memories.record import Memory
from memlake.objects import layout
from memlake.records import Author, Commit
from memlake.versions import refs, writing
from memlake.versions.here import Here
from memlake.versions.writing import Request

_BEHIND = 64  # commits the index may be behind for it to be brought up here
_RECENT = 20  # commits looked at for the same thing said just before


class Narrow:
    """The memories of the branch that is checked out, for a moment."""

    def __init__(self, here: Here, folder: Path, settings: Settings) -> None:
        self._here, self.settings = here, settings
        self.branch = here.local.branch or settings.init_branch
        self._folder = folder / "index"

    def search(self, text: str, most: int) -> list[Memory]:
        """Memories that have enough of some words, best first."""
        return self._look(lambda glance, shown: glance.search(text, shown, most=most, now=layout.now()))

    def newest(self, most: int, *, categories: tuple[str, ...] = (), types: tuple[str, ...] = ()) -> list[Memory]:
        """The newest memories, only those of some categories or types where these are given."""
        marks = [*(mark("category", name) for name in categories), *(mark("type", name) for name in types)]
        return self._look(lambda glance, shown: glance.newest(marks, shown, most=most, now=layout.now()))

    def deposit(self, memory: Memory) -> bool:
        """Store a memory as it is, in one commit; False when the same was said in its session just before."""
        history = self._here.history
        if any(self._says(commit, memory) for commit in self._recent()):
            return False
        path = memory_path(history, memory.agent_id, memory.memory_id)
        request = Request(
            {path: record.encode(memory)}, f"store memory {memory.memory_id}", self.branch, _author(memory)
        )
        writing.write(self._here, request, None)
        return True

    # -- reading ------------------------------------------------------------------------------

    def _look(self, find: Callable[[Glance, Shown], list[Seen]]) -> list[Memory]:
        """What is found in the index, brought up; nothing when it is too far behind to do that in time."""
        glance = Glance(self._folder)
        try:
            if self._is_far_behind(glance):
                return []
            return self._read(find(glance, following.shown(self._here.history, glance, self.branch)))
        finally:
            glance.close()

    def _is_far_behind(self, glance: Glance) -> bool:
        history = self._here.history
        head = self._head(following.trunk(history, glance, self.branch))
        seen = rows.meta(glance.db, "head")
        last = history.get(seen.hex()) if isinstance(seen, bytes) else None
        return head is not None and head.generation - (last.generation if last else 0) > _BEHIND

    def _read(self, found: list[Seen]) -> list[Memory]:
        memories = []
        for one in found:
            try:
                memories.append(record.decode(self._here.history.objects.read(one.oid.hex())))
            except (Purged, NotFound):
                continue
        return memories

    # -- what was said just before ------------------------------------------------------------

    def _head(self, branch: str) -> Commit | None:
        heads = refs.find(self._here.history.db, branch)
        return refs.commit_of(self._here.history, heads["memory"]) if heads else None

    def _recent(self) -> list[Commit]:
        commits, current = list[Commit](), self._head(self.branch)
        while current is not None and len(commits) < _RECENT:
            commits.append(current)
            current = self._here.history.get(current.parents[0]) if current.parents else None
        return commits

    def _says(self, commit: Commit, memory: Memory) -> bool:
        for change in self._here.history.changes(commit)[:1]:
            if change.new is None or not change.path.startswith(following.ROOM):
                continue
            for said in self._read([Seen(b"", bytes.fromhex(change.new.oid), 0)]):
                if (said.session_id, said.content) == (memory.session_id, memory.content):
                    return True
        return False


def _author(memory: Memory) -> Author:
    return Author(memory.agent_id or "hook")
