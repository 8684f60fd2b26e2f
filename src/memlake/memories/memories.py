"""Memories: the verbs over what agents remember on one branch. Wires; each verb's work is in its own file."""

from __future__ import annotations

import contextlib
import dataclasses
import tempfile
import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memlake import memories as later  # what only some verbs need: a recall would pay 40 ms for all of it
from memlake import projects
from memlake.errors import Conflict, Denied, InvalidInput
from memlake.memories import branch_expiry, embed, record
from memlake.memories import search as memory_search
from memlake.memories import store as memory_store
from memlake.memories.answers.recalls import Teller
from memlake.memories.context import MemoryContext
from memlake.memories.record import Caller, Memory, Outcome, State, Updated
from memlake.memories.resources import Shared
from memlake.memories.search import EVERYONE, Hits, Query
from memlake.named_tuple import NamedTuple
from memlake.objects import layout
from memlake.projects import NOWHERE
from memlake.records import Commit
from memlake.records import Conflict as Met
from memlake.reports import PurgeReport
from memlake.versions.history import refs

if TYPE_CHECKING:
    from memlake.memories.anchors.doubt import Doubt, Settled, UseChange
    from memlake.memories.answers.why import Gate, Told
    from memlake.memories.branches import MemoryBranch, MergedBranch
    from memlake.memories.check_rot import RotReport
    from memlake.memories.forgotten import Beside, Done
    from memlake.memories.import_records import Item, Planned
    from memlake.memories.revert import Choice, Taken
    from memlake.memories.review import Contradiction, Decided
    from memlake.memories.state import SetState
    from memlake.memories.stats import Stats
    from memlake.memories.timeline import Difference, Origin, Version
    from memlake.memories.upkeep import Age, Readers, Rule, Suggestion
    from memlake.memories.verdicts import Judge


_BATCH = 32  # memories that get their vectors at once
_TRIES = 10  # each is lost only to another process that changed the same memory


class Draft(NamedTuple):
    """A memory to be stored, as a caller gives it."""

    content: str
    agent_id: str = ""
    session_id: str | None = None
    org_id: str | None = None  # None: the organisation that is seen here
    memory_type: str = "fact"
    category: str | None = None
    tags: Sequence[str] | None = None
    metadata: Mapping[str, Any] | None = None
    importance: float = 0.5
    source: str | None = None
    created_at: str | int | None = None
    expires_at: str | int | datetime | None = None  # "never" or None for never
    project: str | None = None  # None: the one we are in
    user_id: str | None = None  # whom it is about, where an agent serves many people
    uses: Sequence[str] | None = None  # what it rests on: src/api.py:10-40, pets@1.0.2, a memory, a commit


class Memories:
    def __init__(self, context: MemoryContext, shared: Shared) -> None:
        self.context, self.shared = context, shared

    def recording_to(self, written: list[tuple[str, str]]) -> Memories:
        """A view that adds (branch, commit) of each write to a list, for `Repo.note_written`."""
        return Memories(dataclasses.replace(self.context, written=written), self.shared)

    def as_agent(self, agent_id: str, org_id: str | None = None) -> Memories:
        """A view of these memories that acts as `agent_id`: it signs commits, and sees what its organisation may see.

        `org_id` "*" sees every organisation.
        """
        org = self.context.org if org_id is None else None if org_id == EVERYONE else org_id
        return Memories(dataclasses.replace(self.context, agent=agent_id, org=org), self.shared)

    def called_by(self, caller: Caller) -> Memories:
        """A view whose writes say which program, session and source they came from, where a draft does not."""
        return Memories(dataclasses.replace(self.context, caller=caller), self.shared)

    def of_no_project(self) -> Memories:
        """A view for what holds everywhere: in a repo of many projects, what it stores belongs to none of them."""
        return Memories(dataclasses.replace(self.context, found=NOWHERE), self.shared)

    # -- writing ------------------------------------------------------------------------------

    def _begin(self) -> None:
        """Before a write: where memories follow git, the branch that is checked out there begins with it."""
        if self.context.fork is not None:
            self.context = dataclasses.replace(self.context, branch=self.context.fork(), fork=None)

    def store(self, draft: Draft) -> Outcome:
        """Store a memory as it is, in one commit."""
        return self.store_many([draft])[0]

    def store_many(self, drafts: Sequence[Draft]) -> list[Outcome]:
        """Store memories as they are, all in one commit."""
        self._check_enabled()
        self._begin()
        prepared = [prepare(draft, self.context) for draft in drafts]
        if prepared:
            memories = [new.memory for new in prepared]
            is_one = len(memories) == 1
            message = f"store memory {memories[0].memory_id}" if is_one else f"store {len(memories)} memories"
            memory_store.write_memories(self.context, memories, message, by=memories[0].agent_id)
            self.shared.wake()
        return [record.describe_added(new.memory)._replace(warnings=new.warnings) for new in prepared]

    def remember(
        self, draft: Draft, on_conflict: str = "decide", *, dry_run: bool = False, judge: Judge | None = None
    ) -> Outcome:
        """Store a memory, or let it skip, replace, correct or join one that is there; says which, and why."""
        self._check_enabled()
        if not dry_run:
            self._begin()
        new = prepare(draft, self.context)
        done = later.remember.remember(self.context, new.memory, way=on_conflict, dry_run=dry_run, judge=judge)
        self.shared.wake()
        return done._replace(warnings=(*new.warnings, *done.warnings))

    def import_many(self, items: Sequence[Item]) -> Planned:
        """Store ready-made memories, each of another id, in one commit: new ones, newer texts, and contradictions."""
        self._check_enabled()
        self._begin()
        for attempt in range(_TRIES):
            planned = later.import_records.plan(self.context, items)
            try:
                later.import_records.carry_out(self.context, planned, len(planned.all))
                break
            except Conflict:  # somebody changed one of ours meanwhile: look again
                if attempt == _TRIES - 1:
                    raise
        if planned.all:
            self.shared.wake()
        return planned

    def import_beside(self, beside: Beside, *, dry_run: bool = False) -> Done:
        """What comes beside memories: forget what was forgotten elsewhere, and take the newer state, in one commit."""
        if not dry_run:
            self._begin()
        return later.forgotten.apply_beside(self.context, beside, dry_run=dry_run)

    def plan_import(self, items: Sequence[Item]) -> Planned:
        """What `import_many` would do."""
        return later.import_records.plan(self.context, items)

    def update(self, memory_id: str, draft: Draft, *, changed: Collection[str]) -> Updated:
        """Change some fields of a memory (named in `changed`); its earlier content stays in its history."""
        self._check_enabled()
        self._begin()
        old = self.get(memory_id)
        new = _check_draft(draft._replace(agent_id=old.agent_id), self.context)
        if "content" in changed:  # a value belongs to who said it, so that it can be taken back
            changed = {*changed, "session_id", "source", "client"}
        given = Memory("", "")._replace(**{name: getattr(new, name) for name in changed})  # what stays is not looked at
        clean, warnings = later.redact.guard_memory(given, self.context.settings.memory_secrets)
        fields = {name: getattr(clean, name) for name in changed}
        changed_memory = old._replace(**fields)
        if old.uses and "content" in changed and "uses" not in changed:
            changed_memory = later.doubt.anchor_again(self.context, changed_memory)
        made = memory_store.replace(self.context, old, changed_memory, f"update memory {memory_id}")
        self.shared.wake()
        return record.make_updated(made, warnings)

    def delete(self, memory_id: str, *, purge: bool | None = None, reason: str = "deleted") -> PurgeReport | None:
        """Forget a memory, so that `restore` brings it back, or erase it for good: as the setting memory.delete says.

        Forgetting is the default, because agents delete what they should not have.
        """
        if purge or (purge is None and self.context.settings.memory_delete == "purge"):
            return self.purge(memory_id, reason)
        self._begin()
        memory_store.delete(self.context, self.get(memory_id))
        return None

    def revert(self, choice: Choice, *, dry_run: bool = False) -> Taken:
        """Take back what a session, an agent, a source or a time wrote, in one commit; what it replaced stands."""
        if not dry_run:
            self._begin()
        taken = later.revert.revert(self.context, self.shared.recalls, choice, dry_run=dry_run)
        self.shared.wake()
        return taken

    def purge(self, memory_id: str, reason: str) -> PurgeReport:
        """Erase every version of a memory for good."""
        report = later.forget.purge(self.context, self.shared.access, memory_id, reason=reason)
        self.shared.recalls.forget([memory_id])
        self._forget_written()
        return report

    def follow(self) -> None:
        """Bring the index up to the history, and erase from it what was purged."""
        later.forget.follow(self.context)

    def purge_state(self, agent_id: str, key: str, reason: str) -> PurgeReport:
        """Erase every value a key ever had for good."""
        report = later.state.purge_state(self.context, agent_id, key, reason)
        self._forget_written()
        return report

    def _forget_written(self) -> None:
        if self.context.written is not None:
            self.context.written.clear()  # what is erased cannot be brought back by undo

    def restore(self, memory_id: str, at: str | None = None) -> Memory:
        self._begin()
        made = later.timeline.restore(self.context, memory_id, at)
        self.shared.wake()
        return made

    # -- reading ------------------------------------------------------------------------------

    def search(self, query: Query) -> Hits:
        self._check_enabled()
        hits = memory_search.search(self.context, query)
        self.shared.access.note(uuid.UUID(hit["memory_id"]).bytes for hit in hits)
        self.shared.wake()
        return hits

    def note_told(self, query: Query, hits: Hits, teller: Teller, *, kept: int | None = None) -> None:
        """Keep a record of what a door told somebody: of these hits the first `kept`, the rest did not fit."""
        self.shared.recalls.note(later.why.describe_recall(self.context, query, hits, teller, kept))

    def why(self, memory_id: str, session: str | None = None) -> list[Told]:
        """Every record of when a memory was told, newest first."""
        return later.why.list_told(self.shared.recalls, record.check_id(memory_id), session)

    def why_not(self, memory_id: str, query: Query, *, session: str = "", max_tokens: int | None = None) -> list[Gate]:
        """What keeps a memory from being told in answer to a question; nothing where it is told."""
        asker = later.why.Asker(session, max_tokens)
        return later.why.find_gates(self.context, self.shared.recalls, record.check_id(memory_id), query, asker)

    def get(self, memory_id: str) -> Memory:
        return memory_store.get(self.context, record.check_id(memory_id))

    def full_id(self, part: str) -> str:
        """The id of the memory, here or gone, whose id ends or begins so."""
        return memory_store.find_full_id(self.context, part)

    def list_memories(self, query: Query) -> list[Memory]:
        return memory_search.list_memories(self.context, query)

    def history(self, memory_id: str) -> list[Version]:
        return later.timeline.list_versions(self.context, memory_id)

    def blame(self, memory_id: str) -> list[Origin]:
        """Which commit each field of a memory has its present value from."""
        return later.timeline.blame(self.context, record.check_id(memory_id))

    def diff(self, a: str, b: str | None = None, *, project: str | None = None) -> list[Difference]:
        return list(later.timeline.list_differences(self.context, a, b, project=project))

    def log(self, limit: int = 20, *, project: str | None = None) -> list[Commit]:
        if limit < 1:
            raise InvalidInput(f"limit is a whole number of at least 1, not {limit!r}. Nothing was read.")
        return list(later.timeline.list_commits(self.context, limit, self.context.choose_projects(project)))

    def fields(self, memory: Memory) -> dict[str, Any]:
        """A memory as a mapping, with what only the index and the counters know."""
        return memory_search.full_fields(self.context, memory, self.shared.access, self.has_vector(memory.memory_id))

    def has_vector(self, memory_id: str) -> bool:
        """Whether the memory's embedding is there."""
        return memory_search.has_vector(self.context, memory_id, embed.read_model(self.shared.index))

    # -- keeping in order ---------------------------------------------------------------------

    def conflicts(self, agent_id: str | Sequence[str] = EVERYONE, *, project: str | None = None) -> list[Contradiction]:
        return list(later.review.list_contradictions(self.context, agent_id, project=project))

    def list_decided(self, agent_id: str = EVERYONE, limit: int = 20, *, project: str | None = None) -> list[Decided]:
        """What new memories changed by themselves, newest first; `restore` takes one back."""
        return later.review.list_decided(self.context, agent_id, limit, project=project)

    def resolve(self, memory_id: str, keep: str) -> Memory | None:
        self._begin()
        return later.review.resolve(self.context, memory_id, keep)

    def doubts(self, *, project: str | None = None) -> list[Doubt]:
        """Memories that rest, through however many others, on something that changed."""
        return later.doubt.list_doubts(self.context, project)

    def settle(self, *memory_ids: str) -> list[Settled]:
        """Say of memories in doubt that they are true all the same: they are anchored to what there is now."""
        self._begin()
        return later.doubt.settle(self.context, [record.check_id(one) for one in memory_ids])

    def list_changes(self, doubt: Doubt) -> list[UseChange]:
        """What changed of what a memory rests on, as diffs where what it was is stored."""
        return list(later.doubt.list_changes(self.context, doubt))

    def list_unmerged(self) -> list[Met]:
        """What a merge in this checkout waits for: memories without a choice."""
        return later.conflicts.list_waiting(self.context)

    def check(
        self, items: Iterable[Item] | None = None, instructions: Iterable[Item] = (), *, project: str | None = None
    ) -> RotReport:
        """What is rotten in the memories here, or in items that were read from elsewhere. Changes nothing.

        `instructions` are the points of the project's instruction files.
        """
        if items is None:
            return later.check_rot.check_memories(self.context, instructions, project=project)
        return later.check_rot.check_items(self.context, items, instructions)

    def stale(self, rule: Rule) -> list[Age]:
        return later.upkeep.list_stale(self.context, self._readers(), rule)

    def evict(self, rule: Rule, *, dry_run: bool = False) -> list[Age]:
        if not dry_run:
            self._begin()
        return later.upkeep.evict(self.context, self._readers(), rule, dry_run=dry_run)

    def suggest_importance(self, rule: Rule) -> list[Suggestion]:
        """Memories that matter more or less than they say, by who was told them. Changes nothing."""
        return later.upkeep.suggest(self.context, self._readers(), rule)

    def apply_importance(self, suggestions: Sequence[Suggestion]) -> None:
        """Do what was suggested, in one commit."""
        self._begin()
        later.upkeep.apply(self.context, suggestions)

    def _readers(self) -> Readers:
        return later.upkeep.Readers(self.shared.access, self.shared.recalls)

    def stats(self, project: str | None = None) -> Stats:
        """The memories of the branch in figures; of one project ("*": all), as `Rule` takes it."""
        model = self.shared.provider_spec if self.shared.embedder() is not None else "none"
        stale = len(self.stale(later.upkeep.Rule(project=project)))
        found = later.stats.stats(self.context, model, self.context.choose_projects(project))
        conflicts, in_doubt = len(self.conflicts(project=project)), len(self.doubts(project=project))
        return found._replace(conflicts=conflicts, in_doubt=in_doubt, stale=stale)

    # -- branches -----------------------------------------------------------------------------

    def on(self, branch: str) -> Memories:
        """The memories of another branch."""
        branch_expiry.check(self.context.here, later.branches.check_name(branch))
        refs.get(self.context.here.history.db, branch)
        return Memories(dataclasses.replace(self.context, branch=branch, fork=None), self.shared)

    @contextlib.contextmanager
    def with_model(self, provider: str) -> Iterator[Memories]:
        """The same memories searched with another embedder, "none" for none: in an index of its own, for as long."""
        settings = self.context.settings.replace(embedding_provider=provider, embedding_model="")
        with tempfile.TemporaryDirectory(prefix="memlake-") as folder:
            shared = type(self.shared)(Path(folder), self.context.here.history, self.context.here.local, settings)
            try:
                context = dataclasses.replace(
                    self.context, index=shared.index, settings=settings, vector_of=shared.vector_of
                )
                other = Memories(context, shared)
                other.follow()
                while other.embed_pending():
                    pass
                yield other
            finally:
                shared.close()

    def create_branch(self, name: str, *, ttl_seconds: float | None = None, description: str = "") -> MemoryBranch:
        return later.branches.create_branch(self.context, name, ttl_seconds=ttl_seconds, description=description)

    def branches(self) -> list[MemoryBranch]:
        return later.branches.list_branches(self.context)

    def merge_branch(self, name: str, strategy: str = "branch_wins") -> MergedBranch:
        self._begin()
        merged = later.branches.merge_branch(self.context, name, strategy)
        self.shared.wake()
        return merged

    def discard_branch(self, name: str) -> None:
        later.branches.discard_branch(self.context, name)

    # -- state --------------------------------------------------------------------------------

    def set_state(self, agent_id: str, key: str, value: Any) -> SetState:
        self._begin()
        return later.state.set_state(self.context, agent_id, key, value)

    def find_state(self, agent_id: str, key: str) -> State | None:
        return later.state.find_state(self.context, agent_id, key)

    def states(self, agent_id: str | None = None) -> list[State]:
        return list(later.state.list_states(self.context, agent_id))

    def remove_state(self, agent_id: str, key: str) -> bool:
        self._begin()
        return later.state.remove_state(self.context, agent_id, key)

    # -- vectors ------------------------------------------------------------------------------

    def embed_pending(self, most: int = _BATCH) -> int:
        """Embed one batch of what waits, here and now; returns how many."""
        return embed.embed_some(self.shared.sources, most) if self.shared.embedder() is not None else 0

    def catch_up(self) -> None:
        """Before a search: give the few that wait their vectors, where no service is asked. More are left to others."""
        if self.shared.embeds_here() and 0 < memory_search.count_waiting(self.context) <= _BATCH:
            self.embed_pending()

    def count_waiting(self) -> int:
        """How many memories wait for their vector."""
        return embed.count_waiting(self.shared.index)

    def wait(self, seconds: float) -> bool:
        """Wait until every memory has its vector; False when that takes longer."""
        return not self._embeds() or embed.wait_until_empty(self.shared.index, seconds)

    def wait_for(self, memory_id: str, seconds: float) -> bool:
        """Wait until one memory has its vector, or will never have one; False when that takes longer."""
        return not self._embeds() or embed.wait_for(self.shared.index, memory_id, seconds)

    def _embeds(self) -> bool:
        """Whether there is an embedder, at work on what waits; opening another model makes every row wait."""
        has_embedder = self.shared.embedder() is not None
        self.shared.wake()
        return has_embedder

    def _check_enabled(self) -> None:
        if not self.context.settings.memory_enabled:
            raise Denied(
                "memories are switched off in this repo.",
                hint="Switch them on with: memlake config memory.enabled true",
            )


class Prepared(NamedTuple):
    """A memory ready to be stored, and what its author should know about it."""

    memory: Memory
    warnings: tuple[str, ...]


def prepare(draft: Draft, context: MemoryContext) -> Prepared:
    """A memory from a draft, checked; secrets in it warned of, left out or refused, as the setting says."""
    new = place_memory(_check_draft(draft, context), context, named=draft.project is not None)
    made, warnings = later.redact.guard_memory(new, context.settings.memory_secrets)
    unclear = later.rules.warn_vague(made.content)
    return Prepared(made, (*warnings, unclear) if unclear else warnings)


def _check_draft(draft: Draft, context: MemoryContext) -> Memory:
    now, caller = layout.now(), context.caller
    kind = caller.source or ("agent" if draft.agent_id or context.agent else "person")
    me, given = context.agent, record.check_text(draft.source, "source")
    if me and draft.agent_id not in ("", me):  # it stores this for another
        given = given or f"agent:{me}"
    created = memory_search.parse_moment(draft.created_at)
    created = now if created is None else created
    return Memory(
        layout.new_id(),
        record.check_content(draft.content),
        record.check_agent(draft.agent_id),
        record.check_text(caller.session if draft.session_id is None else draft.session_id, "session_id"),
        record.check_text(context.org or "local" if draft.org_id is None else draft.org_id, "org_id"),
        record.check_text(draft.memory_type, "memory_type") or "fact",
        record.check_text(draft.category, "category"),
        record.check_tags(draft.tags),
        record.check_metadata(draft.metadata),
        record.check_importance(draft.importance),
        record.describe_source(given, kind),
        created,
        created,
        record.check_end(draft.expires_at, now),
        project=record.check_text(draft.project, "project", longest=4096),
        user_id=record.check_text(draft.user_id, "user_id"),
        client=record.check_text(caller.client, "client"),
        uses=later.doubt.take(context, draft.uses) if draft.uses else (),
    )


def place_memory(memory: Memory, context: MemoryContext, *, named: bool) -> Memory:
    """A new memory with where it was said; one whose project was `named` belongs to that."""
    place = context.place
    if named and not record.is_of(memory, place.same):
        return memory
    return record.put_in_place(memory, place if named else projects.claim(place))
