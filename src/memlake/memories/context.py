"""What the verbs of memories stand on: the history, the index, the branch that was fixed when the repo was opened.

`heals` and `reads` make work over the index outlive its damage: it is done again on one made from the history.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Concatenate, ParamSpec, TypeVar

from memlake import projects
from memlake.defaults import Settings
from memlake.errors import Damaged, Error, Unavailable
from memlake.index.index import Index
from memlake.memories import branch_expiry, record
from memlake.memories.anchors.anchor import NO_FORMATS, Formats
from memlake.memories.record import NOBODY, Caller, Memory
from memlake.objects import disk
from memlake.projects import Place
from memlake.records import Author, Commit, Entry
from memlake.reports import PurgeReport
from memlake.versions.checkout.context import Checkout
from memlake.versions.history import refs
from memlake.versions.verbs import write as write_records
from memlake.versions.verbs.write import Group, Request


def agent_author(name: str) -> Author:
    """An agent as it may stand in a commit."""
    plain = "".join(char for char in record.whole(name) if ord(char) >= 32 and char not in "<>\x7f")
    return Author(plain or "agent")


@dataclass(frozen=True, slots=True)
class MemoryContext:
    here: Checkout
    index: Index
    branch: str
    settings: Settings
    group: Callable[[], Group | None] = lambda: None
    vector_of: Callable[[str], tuple[str, Any] | None] = lambda _: None  # the model and vector of a query
    rerank: Callable[[str, Sequence[str]], list[float]] | None = None  # a number for each text, if somebody gives one
    read_counts: Callable[[Sequence[bytes]], Mapping[bytes, int]] = lambda _: {}
    written: list[tuple[str, str]] | None = None  # (branch, commit) of each write, where somebody wants to know
    agent: str = ""  # who works here and signs what is written, if it is not a person
    caller: Caller = NOBODY
    org: str | None = None  # whose memories and state are seen; None for everybody's
    found: Place = projects.NOWHERE  # the project we were in when this was opened
    fork: Callable[[], str] | None = None  # makes the branch that is written, where that is not there yet
    formats: Formats = NO_FORMATS  # how what memories rest on is read, where another room knows
    note_holders: Callable[[PurgeReport], PurgeReport] = lambda report: report  # which remotes still have it
    notes: tuple[str, ...] = ()  # what this one call is to say beside its result

    @property
    def author(self) -> Author:
        """Who a commit is by: the agent that works here, else the person."""
        return agent_author(self.agent) if self.agent else self.here.author

    def sees(self, org_id: str) -> bool:
        """Whether what belongs to an organisation is seen here."""
        return self.org is None or self.org == org_id

    @property
    def place(self) -> Place:
        """The project we are in, by all the names it has by now."""
        return projects.refresh(self.found)

    def list_same(self, memory: Memory) -> tuple[str, ...]:
        """The names of the project a memory belongs to."""
        place = self.place
        return place.same if record.is_of(memory, place.same) else (memory.project,)

    def choose_projects(self, asked: str | None) -> tuple[str, ...] | None:
        """The projects that are meant, by their names: the one asked for, by name or folder; all of them (None) for
        "*"; unless asked, this one and none.
        """
        if asked is None:
            return self.place.seen
        names, place = projects.find_names(asked), self.place
        return None if asked == "*" else place.same if names[0] in place.names else names

    def may_meet(self, old: Memory, new: Memory) -> bool:
        """Whether a new memory may say something about an old one: never across organisations, users or projects."""
        whose = (old.org_id, old.user_id) == (new.org_id, new.user_id)
        return whose and record.is_of(old, self.list_same(new))

    def shows(self, memory: Memory, names: Sequence[str] | None) -> bool:
        """Whether somebody who asks for projects of these names (None: all of them) may see a memory here."""
        return self.sees(memory.org_id) and (names is None or record.is_of(memory, names))

    def sign_checkout(self) -> Checkout:
        """The checkout, whose commits are then signed by whoever works here."""
        return self.here._replace(identity=lambda: self.author)

    def write(
        self,
        changes: Mapping[str, bytes | Entry | None],
        message: str,
        author: Author,
        *,
        expects: Mapping[str, Entry | None] | None = None,
    ) -> Commit:
        """One commit of the memory lane on the branch that was fixed; files and the stage are not touched."""
        branch_expiry.check(self.here, self.branch)
        request = Request(changes, message, self.branch, author, expects)
        group = self.group()
        made = write_records.write(self.here, request, group)
        if group is None and self.written is not None:
            self.written.append((self.branch, made.oid))
        return made

    def head(self) -> Commit | None:
        branch_expiry.check(self.here, self.branch)
        return refs.commit_of(self.here.history, refs.get(self.here.history.db, self.branch)["memory"])

    def entry(self, path: str) -> Entry | None:
        """What the branch holds at a path now."""
        return self.here.history.entries(self.head(), [path]).get(path)


# -- an index that is damaged, or has no room -------------------------------------------------

Given = ParamSpec("Given")
Result = TypeVar("Result")
Work = Callable[Concatenate[MemoryContext, Given], Result]


def heals(work: Work[Given, Result]) -> Work[Given, Result]:
    """Work that reads the index, done again on a new one where that turns out to be damaged, deleted or replaced."""

    @functools.wraps(work)
    def run(context: MemoryContext, /, *args: Given.args, **named: Given.kwargs) -> Result:
        context.index.refresh()
        seen = context.index.edition
        try:
            return work(context, *args, **named)
        except Error as error:
            context.index.refresh()
            if isinstance(error, Damaged):
                context.index.renew(seen)
            if context.index.edition == seen:
                raise
        return work(context, *args, **named)

    return run


def reads(work: Work[Given, Result]) -> Work[Given, Result]:
    """As `heals`. Where the index cannot be brought up to the history, as on a full disk, one is made for this once.

    What was acknowledged must be readable, and a full disk has no room for the newest rows of the index.
    """
    healed = heals(work)

    @functools.wraps(work)
    def run(context: MemoryContext, /, *args: Given.args, **named: Given.kwargs) -> Result:
        try:
            return healed(context, *args, **named)
        except Unavailable as full:
            try:
                with spare_index() as index:
                    notes = (describe_spare(full),)
                    return work(replace(context, index=index, notes=notes), *args, **named)
            except (Unavailable, OSError):
                raise full from None

    return run


@contextlib.contextmanager
def spare_index() -> Iterator[Index]:
    """An empty index in memory, or where there is no such place in the folder for temporary files."""
    with disk.spare_folder() as folder:
        index = Index(folder / "index")
        try:
            yield index
        finally:
            index.close()


def describe_spare(full: Unavailable) -> str:
    return f"{full.message} So this was looked up without the index: slower, and by words alone."
