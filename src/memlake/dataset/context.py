"""What every verb of datasets needs: the history, the branch, the parts and the memo of past work."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from memlake.dataset.memo.results import Memo
from memlake.dataset.parts import frames, version_record
from memlake.dataset.parts.frames import Frame
from memlake.dataset.parts.parquet import Parts
from memlake.dataset.parts.version_record import Version
from memlake.dataset.storages.cache import LIMIT
from memlake.dataset.types import names
from memlake.dataset.types.names import ROOM, Semver
from memlake.errors import Corrupt, InvalidInput, NeedsCheckout, NotFound, Purged, Unavailable
from memlake.objects import tables as object_tables
from memlake.records import Author, Commit, Entry
from memlake.versions.checkout import attributes, rev
from memlake.versions.checkout.bare import NoCheckout
from memlake.versions.checkout.context import Checkout
from memlake.versions.history import refs
from memlake.versions.verbs import undo
from memlake.versions.verbs import write as write_records
from memlake.versions.verbs.write import Group, Request

_ID = 7  # digits from which a number that no version has may be the id of a commit: `pets@2027` is a slip
Changes = Mapping[str, bytes | Entry | None]


@dataclass(frozen=True, slots=True)
class DatasetContext:
    here: Checkout
    folder: Path  # .memlake
    parts: Parts
    recall: Memo
    named_branch: str | None = None  # None: whichever branch is checked out
    group: Callable[[], Group | None] = lambda: None
    cache_limit: int = LIMIT  # bytes of remote files that are kept

    @property
    def cache(self) -> tuple[Path, int]:
        """Where bytes of remote files are kept, and how many."""
        return self.folder / "cache", self.cache_limit

    @property
    def branch(self) -> str:
        name = self.named_branch or self.here.local.branch
        if name is None:
            raise InvalidInput(
                "HEAD is detached, so there is no branch to save to.",
                hint=f"Switch to one: {refs.advise_switch(self.here.history.db)}",
            )
        return name

    def find_tracked(self, stats: Mapping[str, os.stat_result]) -> dict[str, str]:
        """The hashes of those of these files, by their whole paths, that the working folder has as they were read."""
        if isinstance(self.here.local, NoCheckout):
            return {}
        root = f"{self.here.root}/"
        inside = {path.removeprefix(root): state for path, state in stats.items() if path.startswith(root)}
        return {root + path: oid for path, oid in self.here.local.find_unchanged(inside).items()}

    def fix_branch(self) -> DatasetContext:
        """The same, fixed to the branch of now: another process may switch while a verb reads and writes."""
        return replace(self, named_branch=self.branch)

    def head(self) -> Commit | None:
        """The commit that is read unless a version names another."""
        if self.named_branch is None:
            return self.here.head()
        return refs.commit_of(self.here.history, refs.get(self.here.history.db, self.named_branch)["work"])

    def head_of_branch(self) -> Commit | None:
        """The commit that the next save builds on."""
        return refs.commit_of(self.here.history, refs.get(self.here.history.db, self.branch)["work"])

    def write(
        self,
        changes: Changes,
        message: str,
        *,
        author: Author | None = None,
        expects: Mapping[str, Entry | None] | None = None,
        undoable: bool = True,
    ) -> Commit:
        """One commit of the work lane; files and the stage are not touched. `undo` knows it, unless told not to."""
        # Of pending paths the transaction itself knows what it found when it first wrote.
        pending = self._pending_changes()
        expected = {path: entry for path, entry in (expects or {}).items() if path not in pending}
        request = Request(changes, message, self.branch, author or self.here.author, expected or None)
        commit = write_records.write(self.here, request, self.group())
        if undoable:
            self.note(message, commit)
        return commit

    def note(self, message: str, commit: Commit) -> None:
        """Let undo know a commit. After it: what is done is done, also where that cannot be written down any more."""
        if self.group() is None:
            verb, _, detail = message.partition(" ")
            with contextlib.suppress(Unavailable):
                undo.note(self.here, verb, detail, [(self.branch, commit.oid)])

    def note_more(self, path: str, commit: Commit) -> None:
        """A commit that belongs to the save of this path: undo takes it back with that."""
        if self.group() is None:
            with contextlib.suppress(Unavailable):
                undo.note_more(self.here, path, (self.branch, commit.oid))

    def list_undone(self, name: str) -> Iterator[Version]:
        """Versions of a dataset that were saved to this branch and taken back, as far as this checkout's undo knows."""
        history, prefix = self.here.history, f"{ROOM}{name}/"
        for oid in undo.list_undone(self.here, "save", self.branch, f"{name}@"):
            if history.has(oid):
                found = (change for change in history.changes(history.get(oid)) if change.path.startswith(prefix))
                versions = (self.read_kept(change.new) for change in found if change.old is None and change.new)
                yield from (version for version in versions if version is not None)

    def _pending_changes(self) -> Changes:
        """What an open transaction will write to this branch."""
        group = self.group()
        requests = [request for request in group.requests if request.branch == self.branch] if group else ()
        return {path: entry for request in requests for path, entry in request.changes.items()}

    # -- versions -----------------------------------------------------------------------------

    def entries(self, name: str, commit: Commit | None) -> dict[Semver, Entry]:
        """The versions of a dataset; at the head of the branch also those an open transaction will write."""
        pending = self._pending_changes()
        return self._read_entries(name, commit, pending if pending and commit == self.head_of_branch() else {})

    def entries_now(self, name: str) -> dict[Semver, Entry]:
        """The same at the head of the branch, which others may move while one looks."""
        return self._read_entries(name, self.head_of_branch(), self._pending_changes())

    def _read_entries(self, name: str, commit: Commit | None, pending: Changes) -> dict[Semver, Entry]:
        prefix = f"{ROOM}{name}/"
        entries: dict[str, bytes | Entry | None] = dict(self.here.history.scan(commit, prefix)) if commit else {}
        entries |= {path: entry for path, entry in pending.items() if path.startswith(prefix)}
        return {
            names.parse_version(path.removeprefix(prefix)): entry
            for path, entry in entries.items()
            if isinstance(entry, Entry)
        }

    def all(self, commit: Commit | None = None, *, deleted: bool = False) -> Iterator[Version]:
        """Every version of every dataset, by name and number."""
        commit = commit or self.head()
        entries = self.here.history.scan(commit, ROOM) if commit else ()
        versions = [version for _, entry in entries if (version := self.read_kept(entry)) is not None]
        yield from sorted((v for v in versions if deleted or not v.deleted), key=lambda v: (v.name, v.semver))

    def read(self, entry: Entry) -> Version:
        return version_record.decode(self.here.history.objects.read(entry.oid))

    def read_kept(self, entry: Entry) -> Version | None:
        """None for one that was purged: its path stays, so that its number is not given again."""
        try:
            return self.read(entry)
        except Purged:
            return None

    def frame(self, version: Version) -> Frame:
        try:
            data = self.here.history.objects.read(version.manifest)
        except (NotFound, Corrupt) as error:
            raise Corrupt(
                f"{version.spec} cannot be read: its list of parts is missing or damaged. Nothing was changed.",
                hint="See what else is affected with: memlake fsck --full\nRestore a backup if you have one.",
            ) from error
        return frames.decode_manifest(version.schema, data)

    def find_declared_key(self, name: str) -> tuple[str, ...]:
        """The columns that tell the rows of a dataset apart, as `.memlakeattributes` says: `datasets/pets key=id`."""
        history = self.here.history
        try:
            said = attributes.read_working_attributes(Path(self.here.root))
        except NeedsCheckout:
            said = attributes.read_attributes(history, history.root(self.head()))
        return said.find_key(ROOM + name)

    def find(self, spec: str, version: str | int | None = None, as_of: str | None = None) -> Version:
        """The version a user means: the newest, a number, a range, one at a branch, tag, commit or time.

        What looks like a number is one first; where no version has it, it is a branch, a tag, a commit, in this order.
        """
        name, after = names.split_spec(spec)
        wanted = str(version) if version is not None else after
        numbers = wanted if wanted and names.is_version(wanted) else ""
        if as_of is not None:
            commit = rev.find(self.here, f"{self.branch}@{{{as_of}}}")
        else:
            commit = rev.resolve(self.here, wanted) if wanted and not numbers else self.head()
        entries = self.entries(names.check_name(name), commit)
        if newest := self._find_newest(entries, numbers):
            return newest
        for number in names.match_versions(numbers, entries) if numbers else ():
            try:
                self.read(entries[number])
            except Purged as error:
                raise Purged(f"a version of {name!r} that you asked for is gone: {error.message}") from error
        named = self._find_named(numbers) if numbers and as_of is None else None
        if named is not None and (newest := self._find_newest(self.entries(name, named))):
            return newest
        raise self._missing_error(name, numbers or (as_of or wanted or ""), entries)

    def _find_newest(self, entries: Mapping[Semver, Entry], numbers: str = "") -> Version | None:
        """The newest that is there to be read, of all or of those that a spec admits."""
        for number in reversed(names.match_versions(numbers, entries) if numbers else sorted(entries)):
            version = self.read_kept(entries[number])
            if version is not None and not version.deleted:
                return version
        return None

    def _find_named(self, word: str) -> Commit | None:
        """The branch, tag or commit of a name that looks like a version's number, as `v2` and `20261116` do."""
        for kind in (refs.BRANCH, refs.TAG):
            heads = refs.find(self.here.history.db, word, kind)
            if heads is not None and heads["work"]:
                return refs.commit_of(self.here.history, heads["work"])
        return rev.find(self.here, word) if word.isdigit() and len(word) >= _ID else None

    def _missing_error(self, name: str, asked: str, there: Mapping[Semver, Entry]) -> NotFound:
        if there:
            listed = ", ".join(f"{number}{self._describe_fate(there[number])}" for number in sorted(there))
            return NotFound(
                f"dataset {name!r} has no version {asked or 'that can be read'}.", hint=f"It has: {listed}."
            )
        now = list(self.all())
        known = sorted({v.name for v in now})
        if name in known:
            first = next(v for v in now if v.name == name)
            hint = f"{first.spec} was saved on {_day(first.created)}."
            return NotFound(f"there is no dataset {name!r} at {asked!r}.", hint=hint)
        near = names.find_nearest(name, known)
        hint = f"Did you mean {near!r}?" if near else f"There are: {', '.join(known[:10]) or 'none yet'}."
        return NotFound(f"there is no dataset {name!r} on branch {self.here.local.branch!r}.", hint=hint)

    def _describe_fate(self, entry: Entry) -> str:
        """What keeps a version from being read, behind its number."""
        version = self.read_kept(entry)
        if version is not None:
            return f" (deleted on {_day(version.deleted['time'])})" if version.deleted else ""
        tombstone = object_tables.find_tombstone(self.here.history.db, bytes.fromhex(entry.oid))
        time, reason, _ = tombstone or (0, "", "")
        return f" (purged on {_day(time)}: {reason})"


def _day(time: int) -> str:
    return f"{datetime.fromtimestamp(time / 1e6, UTC):%Y-%m-%d %H:%M} UTC"
