"""What a hook of a coding agent needs of memories: a quick look, and a record put down. No numpy, no model.

It finds by words alone, and leaves an index that is far behind to whoever comes with more time.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from memlake import memories as later  # what only some events need
from memlake import projects
from memlake.defaults import Settings
from memlake.errors import NotFound, Purged
from memlake.index import rows
from memlake.index.light_search import Found, Glance, Seen
from memlake.index.rows import Shown
from memlake.index.terms import mark
from memlake.memories import index_sync, record
from memlake.memories.anchors.anchor import IN_DOUBT, Anchor, Formats
from memlake.memories.answers.recalls import Recalls
from memlake.memories.kind import memory_path, write_entry
from memlake.memories.record import SUMMARY, Memory, Past
from memlake.named_tuple import NamedTuple
from memlake.objects import layout
from memlake.projects import Place
from memlake.records import Author, Commit, Entry
from memlake.versions.checkout.context import Checkout
from memlake.versions.history import refs
from memlake.versions.verbs import write
from memlake.versions.verbs.write import Request

if TYPE_CHECKING:
    from memlake.memories.anchors.standing import Moment
    from memlake.memories.sessions.coding_session import CodingSession

_BEHIND = 64  # commits the index may be behind for it to be brought up here
_RUNNING = 12  # sessions of which is known what was asked and done
_SILENT = 3_600_000_000  # microseconds after which a session that says nothing is taken for dead


class Matches(NamedTuple):
    """Memories, best first, in how many of all each word is, and how many all are."""

    memories: list[Memory]
    counts: Mapping[str, int] = {}
    total: int = 0


class Narrow:
    """The memories of a branch, for a moment."""

    def __init__(
        self,
        here: Checkout,
        folder: Path,
        settings: Settings,
        branch: str,
        *,
        place: Place,
        fork: Callable[[], str] | None = None,
        read_rows: Callable[[bytes], str] = lambda _: "",
    ) -> None:
        self._here, self.settings, self.branch, self.place = here, settings, branch, place
        self._fork, self._formats = fork, Formats(read_rows=read_rows)
        self._org = settings.memory_org
        self._known: dict[bytes, Memory] = {}  # by oid, of what was looked at
        self._folder = folder / "index"
        self.recalls = Recalls(folder, settings.memory_recalls)

    def search(self, words: Sequence[str], most: int) -> Matches:
        """Memories of this project and of none that have one of some stems, those with the rarest first."""
        found = Found([])

        def find(glance: Glance, shown: Shown) -> list[Seen]:
            nonlocal found
            found = glance.search(
                words, shown, most=most, now=layout.now(), fits=self._fits, within=self._project_marks()
            )
            return found.rows

        return Matches(self._look(find), found.counts, found.total)

    def newest(self, most: int, *, categories: tuple[str, ...] = (), types: tuple[str, ...] = ()) -> list[Memory]:
        """The newest of this project and of none, only those of some categories or types where these are given."""
        marks = [*(mark("category", name) for name in categories), *(mark("type", name) for name in types)]
        return self._look(
            lambda at, shown: at.newest(
                marks, shown, most=most, now=layout.now(), fits=self._fits, within=self._project_marks()
            )
        )

    def count_of(self, names: Sequence[str], most: int) -> int:
        """How many memories belong to the project of these names, up to a number; also to another one than ours."""
        marks = [mark("project", name) for name in names]
        return len(self._look(lambda at, shown: at.newest(marks, shown, most=most, now=layout.now())))

    def find(self, agent_id: str, memory_id: str) -> Memory | None:
        """A memory of the branch by whose it is and its id, without the index."""
        entry = self._entry(memory_path(self._here.history, agent_id, memory_id))
        return None if entry is None else record.decode(self._here.history.objects.read(entry.oid))

    def put(self, new: Sequence[Memory], message: str, *, agent: str, gone: Sequence[Memory] = ()) -> None:
        """Store memories as of this project, new ones and new values of old ones, and remove others, in one commit.

        What has an id that is taken is a new value of that memory; one whose text changes becomes its history, a
        summary excepted, which grows with its session. Raises Conflict if one of them was changed meanwhile.
        """
        if self._fork is not None:
            self.branch, self._fork = self._fork(), None
        history, place = self._here.history, projects.claim(self.place)
        changes: dict[str, bytes | Entry | None] = {}
        expects: dict[str, Entry | None] = {}
        with history.db.write():
            for memory in new:
                path = memory_path(history, memory.agent_id, memory.memory_id)
                expects[path] = entry = self._entry(path)
                changes[path] = write_entry(history, self._place(memory, place, entry))
            for memory in gone:
                path = memory_path(history, memory.agent_id, memory.memory_id)
                if (entry := self._entry(path)) is not None:
                    changes[path], expects[path] = None, entry
            if changes:
                write.write(self._here, Request(changes, message, self.branch, Author(agent or "hook"), expects), None)

    def _place(self, memory: Memory, place: Place, entry: Entry | None) -> Memory:
        """A memory as it is written over what stands at its path, or as of this project where nothing does."""
        if entry is None:
            return record.put_in_place(memory, place)._replace(org_id="local" if self._org == "*" else self._org)
        old = record.decode(self._here.history.objects.read(entry.oid))
        keeps = old.content == memory.content or memory.memory_type == SUMMARY
        past = old.history if keeps else (*old.history, Past(entry.oid, memory.updated_at))
        return memory._replace(
            created_at=old.created_at, history=past, project=old.project, area=old.area, package=old.package,
            own=old.own, org_id=old.org_id,
        )  # fmt: skip

    def _entry(self, path: str) -> Entry | None:
        return self._here.history.entries(self._head(self.branch), [path]).get(path)

    def list_expired(self) -> list[Memory]:
        """Memories of this project and of none that are past the end they were given."""
        return self._look(lambda at, shown: at.list_expired(shown, now=layout.now(), fits=self._fits))

    def forget(self, memories: Sequence[Memory], message: str) -> tuple[str, str]:
        """Remove memories from the branch in one commit; returns the branch and the commit."""
        paths = [memory_path(self._here.history, memory.agent_id, memory.memory_id) for memory in memories]
        made = write.write(self._here, Request(dict.fromkeys(paths), message, self.branch, self._here.author), None)
        return self.branch, made.oid

    # -- what memories rest on ----------------------------------------------------------------

    def find_changed(self, memories: Sequence[Memory]) -> dict[str, str]:
        """Why some of these memories are in doubt, by their ids. Large files and tensors are not looked at."""
        if not any(memory.uses for memory in memories):
            return {}
        judged = later.standing.judge(self._now(), memories)
        doubtful = {id: [one.sentence for one in each if one.word in IN_DOUBT] for id, each in judged.items()}
        return {id: "; ".join(sentences) for id, sentences in doubtful.items() if sentences}

    def anchor_files(self, paths: Iterable[str]) -> tuple[Anchor, ...]:
        """Anchors of the files that a turn touched, for what is kept of it; what is not of the project is left out."""
        return later.take_files.take_files(self._now(), self._here.local, paths)

    def _now(self) -> Moment:
        follows = self.settings.memory_follow_git
        return later.standing.describe_now(
            self._here, self.branch, self.place, self._formats, follows=follows, quick=True
        )

    # -- sessions that run --------------------------------------------------------------------

    def read_session(self, key: str) -> CodingSession:
        """What is known of a session that runs; a new one if nothing is."""
        return later.coding_session.decode(self._running().get(key, "{}"))

    def edit_session(self, key: str, change: Callable[[CodingSession], CodingSession]) -> CodingSession:
        """Change what is known of a session, while no other process can; the last ones that were heard of are kept."""
        with self._here.local.db.write():
            known = self._running()
            session = change(later.coding_session.decode(known.pop(key, "{}")))
            known[key] = later.coding_session.encode(session._replace(project=self.place.project, at=layout.now()))
            self._here.local.set_state(sessions=json.dumps(dict(list(known.items())[-_RUNNING:])))
        return session

    def list_left(self) -> list[str]:
        """Sessions of this project whose program died: something was stated in them, and then nothing for an hour."""
        long_ago, names = layout.now() - _SILENT, self.place.same
        known = (
            (key, later.coding_session.decode(text)) for key, text in self._running().items() if '"noted": [[' in text
        )
        return [key for key, one in known if one.noted and one.at < long_ago and one.project in names]

    def _running(self) -> dict[str, str]:
        found = self._here.local.json_state("sessions")
        return {str(key): str(text) for key, text in found.items()} if isinstance(found, dict) else {}

    # -- reading ------------------------------------------------------------------------------

    def name_objects(self) -> dict[str, str]:
        """The object of each memory that was looked at, by its id."""
        return {memory.memory_id: oid.hex() for oid, memory in self._known.items()}

    @property
    def head(self) -> str:
        """The newest commit of memories that is seen here; empty before the first."""
        head = self._head(self.branch)
        return head.oid if head else ""

    def _look(self, find: Callable[[Glance, Shown], list[Seen]]) -> list[Memory]:
        """What is found in the index, brought up; nothing when it is too far behind to do that in time."""
        glance = Glance(self._folder)
        try:
            if self._is_far_behind(glance):
                return []
            return self._read(find(glance, index_sync.find_shown(self._here.history, glance, self.branch)))
        finally:
            glance.close()

    def _is_far_behind(self, glance: Glance) -> bool:
        history = self._here.history
        head = self._head(index_sync.find_trunk(history, glance, self.branch))
        seen = rows.read_meta(glance.db, "head")
        last = history.get(seen.hex()) if isinstance(seen, bytes) else None
        return head is not None and head.generation - (last.generation if last else 0) > _BEHIND

    def _project_marks(self) -> list[str]:
        """The marks of what `_fits` lets through: the index tells them without reading a memory."""
        return [mark("project", name) for name in self.place.seen]

    def _fits(self, seen: Seen) -> bool:
        """Whether a memory is of an organisation and a project that are seen here: nothing crosses unasked."""
        return any(
            self._org in ("*", memory.org_id) and record.is_of(memory, self.place.seen) for memory in self._read([seen])
        )

    def _read(self, found: list[Seen]) -> list[Memory]:
        for one in found:
            if one.oid not in self._known:
                with contextlib.suppress(Purged, NotFound):
                    self._known[one.oid] = record.decode(self._here.history.objects.read(one.oid.hex()))
        return [self._known[one.oid] for one in found if one.oid in self._known]

    def _head(self, branch: str) -> Commit | None:
        heads = refs.find(self._here.history.db, branch)
        return refs.commit_of(self._here.history, heads["memory"]) if heads else None
