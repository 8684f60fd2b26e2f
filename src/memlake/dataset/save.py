"""Saving: rows become a version, in one commit, with everything known about how they were made."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from typing import Any

from memlake.dataset.context import DatasetContext
from memlake.dataset.parts import frames, version_record
from memlake.dataset.parts.frames import Frame
from memlake.dataset.parts.version_record import Version
from memlake.dataset.types import names
from memlake.dataset.types.names import FIRST, Semver
from memlake.errors import AlreadyExists, Conflict, InvalidInput, Nothing, Unavailable
from memlake.named_tuple import NamedTuple
from memlake.objects.layout import now
from memlake.records import Commit, Entry, count

_TRIES = 50
_PAUSE = 0.01  # seconds
_COMPARED = 1 << 30  # bytes up to which rows kept in other fragments are compared value by value


class Wanted(NamedTuple):
    """What a user asks of a save. None means: as it was, or as usual."""

    name: str
    version: str | None = None
    update_version: str | None = None
    description: str | None = None
    attrs: Sequence[str] | None = None
    tags: Sequence[str] | None = None


class Collected(Unavailable):
    """Parts that were remembered, and that a gc took before a commit could name them."""


class Saved(NamedTuple):
    version: Version
    new: bool  # False: the newest version says the same already


def save(context: DatasetContext, wanted: Wanted, frame: Frame, facts: Mapping[str, Any]) -> Saved:
    """Commit a frame as the next version of a dataset. What the newest version holds already is not stored again."""
    context = context.fix_branch()
    sealed = context.parts.seal(frame)
    check_wanted(wanted)
    content = _choose_content(context, wanted, sealed)
    for attempt in range(_TRIES):
        try:
            with context.here.history.db.write():  # counted, named and committed in one
                saved, commit = _save_once(context, wanted, sealed, content, facts)
            if commit is not None:
                context.note(commit.message, commit)
            return saved
        except (Conflict, Nothing):  # another took the number meanwhile: count again
            time.sleep(_PAUSE * min(attempt, 10))
    raise Conflict(
        f"{wanted.name}: other processes save so fast that {_TRIES} tries got no free number. Nothing was saved."
    )


def _choose_content(context: DatasetContext, wanted: Wanted, frame: Frame) -> str:
    """What rows are known by: as the newest version is, when it holds the same rows in other fragments."""
    content = frame.content()
    entries = context.entries(wanted.name, context.head_of_branch())
    newest = context.read_kept(entries[max(entries)]) if entries else None
    if newest is None or newest.content == content or newest.rows != frame.rows or frame.size > _COMPARED:
        return content
    alike = newest.schema.equals(frame.schema, check_metadata=True)
    return newest.content if alike and context.parts.equal(context.frame(newest), frame) else content


def check_wanted(wanted: Wanted) -> None:
    if wanted.update_version is not None:
        FIRST.bump(wanted.update_version)
    if wanted.version is not None:
        names.parse_version(wanted.version)
    for texts in (wanted.attrs, wanted.tags):
        if isinstance(texts, str) or not all(isinstance(text, str) for text in texts or ()):
            raise InvalidInput("attrs and tags are lists of texts, like attrs=['team:vision'].")


def _save_once(
    context: DatasetContext, wanted: Wanted, frame: Frame, content: str, facts: Mapping[str, Any]
) -> tuple[Saved, Commit | None]:
    """What was saved, and the commit that did it, which undo is to know."""
    entries = context.entries(wanted.name, context.head_of_branch())
    newest = context.read_kept(entries[max(entries)]) if entries else None
    same = _find_same(context, wanted, entries, content)
    same = None if same is not None and is_other_config(same.params, facts.get("params", {})) else same
    if same is not None:
        return Saved(_edit_metadata(context, same, wanted, facts), False), None
    # A number that was taken back may stand in somebody's notes by now, so other rows do not get it.
    taken = [one.semver for one in context.list_undone(wanted.name) if one.content != content]
    number = _next_number(wanted, list(entries), taken)
    objects = context.here.history.objects
    links = sorted({family.oid for family in frame.families() if family.oid})
    if objects.find_missing(links):
        raise Collected(
            "what was remembered of this work was collected meanwhile. Nothing was saved.", hint="Run it again."
        )
    objects.adopt(links)
    version = Version(
        wanted.name,
        str(number),
        content,
        objects.write(frames.encode_manifest(frame), links=links),
        frame.schema,
        frame.rows,
        frame.size,
        now(),
        wanted.description or "",
        tuple(wanted.attrs if wanted.attrs is not None else newest.attrs if newest else ()),
        tuple(wanted.tags or ()),
        **facts,
    )
    commit = write(context, version, f"save {version.spec}: {count(version.rows, 'row')}", old=None, undoable=False)
    return Saved(version, True), commit


def _find_same(
    context: DatasetContext, wanted: Wanted, entries: Mapping[Semver, Entry], content: str
) -> Version | None:
    """The version that is asked for and holds these rows already. Who asks for a bump wants another."""
    number = names.parse_version(wanted.version) if wanted.version is not None else max(entries, default=None)
    if number is None or number not in entries or (wanted.update_version is not None and wanted.version is None):
        return None
    version = context.read_kept(entries[number])
    return version if version is not None and version.content == content and not version.deleted else None


def is_other_config(recorded: Mapping[str, Any], params: Mapping[str, Any]) -> bool:
    """Whether rows were made by another configuration: it gets a version of its own, which shares the rows."""
    plain = json.loads(json.dumps(dict(params), default=str))
    return any(name in recorded and recorded[name] != value for name, value in plain.items())


def _next_number(wanted: Wanted, there: Sequence[Semver], taken: Sequence[Semver]) -> Semver:
    if wanted.version is None:
        number = max(there).bump(wanted.update_version or "patch") if there else FIRST
        while number in taken:
            number = number.bump(wanted.update_version or "patch")
        return number
    number = names.parse_version(wanted.version)
    if number in there:
        raise AlreadyExists(
            f"{wanted.name}@{number} exists already. Nothing was saved.", hint="Leave out version= to get the next one."
        )
    return number


def write(
    context: DatasetContext, version: Version, message: str, *, old: Entry | None, undoable: bool = True
) -> Commit:
    """One commit of one record; Conflict when the path no longer holds `old`."""
    data = version_record.encode(version)
    oid = context.here.history.objects.write(data, links=[version.manifest])
    entry = Entry(oid, "dataset", len(data))
    return context.write({version.path: entry}, message, expects={version.path: old}, undoable=undoable)


def _edit_metadata(context: DatasetContext, newest: Version, wanted: Wanted, facts: Mapping[str, Any]) -> Version:
    """Metadata always applies, also where the rows are the ones that are there."""
    # Of how rows were made again, only the params are news
    details = facts.get("provenance", {}).get("params")
    changes = {
        "description": wanted.description,
        "attrs": tuple(wanted.attrs) if wanted.attrs is not None else None,
        "tags": tuple(wanted.tags) if wanted.tags is not None else None,
        "params": facts.get("params") or None,
        "metrics": facts.get("metrics") or None,
        "provenance": {"params": details} if details else None,
    }
    return edit(context, newest, {key: value for key, value in changes.items() if value is not None})


_MERGED = {"params", "metrics"}  # named values, each with an editor of its own: what is not named in a change stays


def edit(
    context: DatasetContext, version: Version, changes: Mapping[str, Any], message: str = "", *, undoable: bool = True
) -> Version:
    """Change what a record says of its rows. Others may edit it at the same time: theirs stays."""
    context = context.fix_branch()
    for attempt in range(_TRIES):
        entry = context.entries_now(version.name).get(version.semver)
        if entry is None:
            return version
        current = context.read(entry)
        fields = dict(changes)
        for key in _MERGED & changes.keys():
            fields[key] = {**getattr(current, key), **changes[key]}
        if "provenance" in changes:  # of which only params change
            params = {**current.provenance.get("params", {}), **changes["provenance"]["params"]}
            fields["provenance"] = {**current.provenance, "params": params}
        edited = current._replace(**fields)
        if edited == current:
            return current
        try:
            summary = message or f"edit {edited.spec}: {', '.join(changes)}"
            commit = write(context, edited, summary, old=entry, undoable=undoable)
            if not undoable:
                context.note_more(edited.path, commit)
            return edited
        except (Conflict, Nothing):
            time.sleep(_PAUSE * min(attempt, 10))
    raise Conflict(f"{version.spec} is being changed by other processes; {_TRIES} tries failed. Nothing was changed.")


def read_current(context: DatasetContext, version: Version) -> Version:
    """A version as its branch has it now."""
    entry = context.entries_now(version.name).get(version.semver)
    return version if entry is None else context.read(entry)


def merge_into(
    context: DatasetContext,
    version: Version,
    field: str,
    values: Mapping[str, Any],
    details: Mapping[str, Any] | None = None,
) -> Version:
    """Add params or metrics to what a record has; `details` of params go to its provenance."""
    changes = {field: values, **({"provenance": {"params": details}} if details else {})}
    return edit(context, version, changes, f"{field} of {version.spec}", undoable=False)


def move(context: DatasetContext, name: str, to: str) -> list[str]:
    """All versions of a dataset under another name, in one commit."""
    context = context.fix_branch()
    history = context.here.history
    with history.db.write():
        head = context.head_of_branch()
        entries = context.entries(name, head)
        if not entries:
            context.find(name)
        if context.entries(to, head):
            raise AlreadyExists(f"there is a dataset {to!r} already. Nothing was changed.")
        changes: dict[str, bytes | Entry | None] = {}
        moved: list[Semver] = []
        for number, entry in entries.items():
            changes[version_record.path_of(name, str(number))] = None
            version = context.read_kept(entry)
            if version is None:  # purged: what is not there cannot go along
                continue
            moved.append(number)
            renamed = version._replace(name=to)
            data = version_record.encode(renamed)
            changes[renamed.path] = Entry(history.objects.write(data, links=[renamed.manifest]), "dataset", len(data))
        context.write(changes, f"move dataset {name} to {to}")
    return [f"{to}@{number}" for number in sorted(moved)]
