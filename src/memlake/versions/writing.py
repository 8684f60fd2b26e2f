"""Writing records at any path, and rm and mv of working files."""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from memlake.config import check_author
from memlake.errors import Conflict, InvalidInput, NotFound
from memlake.objects import layout
from memlake.objects.writer import Writer, is_large
from memlake.records import Author, Change, Commit, Entry, Lane, Staged
from memlake.versions import checkout, journal, refs, stage, worktree
from memlake.versions.codec import KIND_OF_ROOM, lane_of
from memlake.versions.here import Here
from memlake.versions.history import Draft, Planned
from memlake.versions.journal import Rename
from memlake.versions.local import Tracked
from memlake.versions.operations import operation, save_dirty
from memlake.versions.paths import FILES, check, check_file, check_together, file_path, matches, parents
from memlake.versions.record import prepare, record
from memlake.versions.verb import Verb

INLINE = 64 << 10


# -- records at any path ----------------------------------------------------------------------


class Request(NamedTuple):
    changes: Mapping[str, bytes | Entry | None]
    message: str
    branch: str | None
    author: Author
    expects: Mapping[str, Entry | None] | None = None


@dataclass
class Group:
    """Writes of a transaction, waiting."""

    message: str
    requests: list[Request] = field(default_factory=list)


def write(here: Here, request: Request, group: Group | None) -> Commit:
    """One commit of one lane. Inside a transaction it only joins the group."""
    lanes = {lane_of(check(path)) for path in request.changes}
    if len(lanes) != 1:
        raise InvalidInput(
            "one write is one commit of one lane; these paths belong to both (or there are none).",
            hint="Write them apart, or use: with repo.transaction(...)",
        )
    if group is not None:
        group.requests.append(request)
        return _pending(request, lanes.pop())
    with _stored_first(here, [request]) as ready:
        return _write(here, request, lanes.pop(), ready[0])


def encoded(changes: Mapping[str, bytes | str | Entry | None]) -> dict[str, bytes | Entry | None]:
    """Text as the bytes that are kept."""
    try:
        return {path: content.encode() if isinstance(content, str) else content for path, content in changes.items()}
    except UnicodeEncodeError as error:
        raise InvalidInput(f"a text cannot be kept as UTF-8: {error}. Nothing was changed.") from error


def _pending(request: Request, lane: Lane) -> Commit:
    return Commit("", lane, "", (), None, request.author, layout.now(), request.message, None)


def write_group(here: Here, group: Group) -> None:
    """All writes of a transaction: one commit a lane and branch, all of them or none."""
    merged: dict[tuple[str, Lane], Request] = {}
    for request in group.requests:
        branch = request.branch or _branch(here)
        lane = lane_of(next(iter(request.changes)))
        old = merged.get((branch, lane), Request({}, group.message, branch, request.author))
        changes = {**old.changes, **request.changes}
        expects = {**(old.expects or {}), **(request.expects or {})} or None
        merged[branch, lane] = Request(changes, group.message, branch, request.author, expects)
    with _stored_first(here, merged.values()) as ready, here.history.db.write():
        for ((_, lane), request), planned in zip(merged.items(), ready, strict=True):
            _write(here, request, lane, planned)


@contextlib.contextmanager
def _stored_first(here: Here, requests: Iterable[Request]) -> Iterator[list[Planned | None]]:
    """Large files are stored, and large trees planned, before the lock is taken. Yields the plan of each request.

    Records of other kinds may have to be erased one day: they are never packed or chunked, whatever their size.
    """
    requests = list(requests)
    contents = {
        content
        for request in requests
        for path, content in request.changes.items()
        if isinstance(content, bytes) and len(content) > INLINE and path.startswith(FILES)
    }
    with Writer(here.history.objects, "write") if contents else contextlib.nullcontext() as writer:
        if writer is not None:
            for content in contents:
                _add(writer, content)
            writer.finish()
        yield [_plan_first(here, request) for request in requests]


def _plan_first(here: Here, request: Request) -> Planned | None:
    given = {path: entry for path, entry in request.changes.items() if not isinstance(entry, bytes)}
    if len(given) < len(request.changes):
        return None
    return prepare(here.history, request.branch or _branch(here), lane_of(next(iter(given))), given)


def _add(writer: Writer, content: bytes) -> None:
    if is_large(len(content)):
        writer.add_stream(io.BytesIO(content), len(content))
    else:
        writer.add(content)


def _write(here: Here, request: Request, lane: Lane, ready: Planned | None) -> Commit:
    branch = request.branch or _branch(here)
    with here.history.db.write():
        here.history.objects.adopt(c.oid for c in request.changes.values() if isinstance(c, Entry))
        edits = {path: _entry(here, path, content) for path, content in request.changes.items()}
        if lane == "work":
            _check_beside(here, edits, branch)
        draft = Draft(lane, edits, request.author, request.message, layout.now(), {})
        # Exactly what the caller read: also when another has written the very same, his was not built upon.
        expects = None if request.expects is None else {path: (entry,) for path, entry in request.expects.items()}
        return record(here.history, draft, branch=branch, expects=expects, ready=ready)


def _check_beside(here: Here, edits: Mapping[str, Entry | None], branch: str) -> None:
    """Refuse what cannot be checked out together with what the branch keeps, as `add` does."""
    head = refs.commit_of(here.history, refs.get(here.history.db, branch)["work"])
    clash = here.history.find_clash(head, edits)
    if clash:
        raise InvalidInput(
            f"{clash[0]!r} and {clash[1]!r} cannot both exist: one is a folder of the other. Nothing was changed.",
            hint="Remove one of them in the same write.",
        )
    added = [path for path, entry in edits.items() if entry is not None and path.startswith(FILES)]
    held = here.history.entries(head, added)
    new = [file_path(path) for path in added if path not in held]
    if new:
        kept = (path for path, _ in here.history.scan(head, FILES) if edits.get(path, True) is not None)
        check_together(new, map(file_path, kept))


def _branch(here: Here) -> str:
    branch = here.local.branch
    if branch is None:
        raise InvalidInput(
            "HEAD is detached, so there is no branch to write to.",
            hint=f"Name one with branch=..., or switch to one: {refs.advise_switch(here.history.db)}",
        )
    return branch


def _entry(here: Here, path: str, content: bytes | Entry | None) -> Entry | None:
    if content is None or isinstance(content, Entry):
        return content
    kind = KIND_OF_ROOM[path.split("/", 1)[0]]
    return Entry(here.history.objects.write(content), kind, len(content))


def author_of(given: Author | str | None) -> Author | None:
    """`Name <email>` or an Author."""
    if given is None or isinstance(given, Author):
        return check_author(given) if given else None
    name, bracket, rest = given.partition("<")
    email = rest.strip().removesuffix(">").strip() if bracket else ""
    return check_author(Author(name.strip() or email, email))


# -- rm and mv --------------------------------------------------------------------------------


class Removing(NamedTuple):
    cached: bool = False
    force: bool = False
    dry_run: bool = False


def remove(here: Here, paths: Sequence[str], how: Removing) -> Staged:
    """Stop tracking paths, and remove the working files unless `cached`. Unsaved work stops it."""
    rows: dict[str, Tracked] = {}
    met = _conflict_rows(here)
    for path in paths:
        found = {p: row for p, row in here.local.under(path).items() if row.entry is not None}
        found |= {p: row for p, row in met.items() if p not in found and matches(p, (path,))}
        if not found:
            raise NotFound(
                f"path {path!r} matches nothing that is tracked. Nothing was changed.",
                hint="See what is tracked with: memlake ls",
            )
        rows.update(found)
    if not how.force:
        _refuse_unsaved(here, rows, how.cached)
    removed = Staged(tuple(Change(FILES + row.path, row.entry, None) for row in rows.values()))
    if how.dry_run:
        return removed
    with operation(here, "rm", " ".join(paths[:5]), files=not how.cached) as verb:
        staged = [stage.removed(row) for row in rows.values()]
        gone: list[Change] = []
        if not how.cached:
            edited = tuple(Change(FILES + path, None, None) for path in _edited(here, rows))
            verb.before.saved = save_dirty(here, verb, edited)
            gone = checkout.replacing(removed.changes, verb.before.saved)
        plan = journal.staying(here.local, here.who, gone, staged)
        plan = plan._replace(conflicts=stage.settled(here.local, dict.fromkeys(rows)))
        checkout.carry_out(here, verb, plan)
    return removed


def _conflict_rows(here: Here) -> dict[str, Tracked]:
    """Files that only a waiting merge put there, as if they were staged: removing one is a choice, too."""
    met = {file_path(one.path): one.written for one in here.local.conflicts() if one.choice is None and one.written}
    return {path: Tracked(path, entry, None, True, True) for path, entry in met.items()}


def _refuse_unsaved(here: Here, rows: Mapping[str, Tracked], cached: bool) -> None:
    unsaved, met = [], _conflict_rows(here)
    for path, row in rows.items():
        assert row.entry is not None
        if path in met and worktree.holds(here.root, path, met[path].entry or row.entry, None, True):
            continue
        exists = worktree.find_stat(here.root, path) is not None
        differs = exists and not worktree.holds(here.root, path, row.entry, row.stat, row.racy)
        if (differs and not cached) or (row.staged and (differs or not cached)):
            unsaved.append(path)
    if unsaved:
        raise Conflict(
            "these files have changes that are not committed:\n  "
            + "\n  ".join(unsaved[:10])
            + "\nNothing was changed.",
            hint="Keep the files and only stop tracking them with --cached, or remove them all the same with -f.",
        )


def move(here: Here, source: str, target: str, *, force: bool, dry_run: bool = False) -> Staged:
    """Rename a tracked file or folder, on disk and in the stage."""
    rows = {path: row for path, row in here.local.under(source).items() if row.entry is not None}
    if not source or not rows:
        raise NotFound(
            f"path {source!r} matches nothing that is tracked. Nothing was changed.",
            hint="See what is tracked with: memlake ls",
        )
    if source in rows and worktree.find_stat(here.root, source) is None:
        raise NotFound(f"file {source!r} is tracked, but not there to be moved. Nothing was changed.")
    full = os.path.join(here.root, target)
    if target == "" or os.path.isdir(full):
        target = f"{target}/{os.path.basename(source)}".lstrip("/")
    renamed = {path: target + path[len(source) :] for path in rows}
    if target == source or target.startswith(source + "/"):
        raise InvalidInput(f"{source!r} cannot be moved into itself. Nothing was changed.")
    _check_targets(here, renamed, force)
    moved = Staged(
        tuple(
            c
            for old, new in renamed.items()
            for c in (Change(FILES + old, rows[old].entry, None), Change(FILES + new, None, rows[old].entry))
        )
    )
    if dry_run:
        return moved
    with operation(here, "mv", f"{source} {target}", files=True) as verb:
        _save_for_undo(here, verb, rows, renamed)
        rename = Rename(source, target, os.lstat(os.path.join(here.root, source)).st_ino)
        plan = journal.staying(here.local, here.who, (), _moved_rows(here, rows, renamed))._replace(rename=rename)
        journal.begin(here.local, plan, verb=verb, lasting=True)
        checkout.renamed(here.local, here.root, rename)
        checkout.finish(here.local, verb, plan, (), {})
    return moved


def _save_for_undo(here: Here, verb: Verb, rows: Mapping[str, Tracked], renamed: Mapping[str, str]) -> None:
    """Content that is not in the stage: of files that were edited, and of what they are moved over."""
    there = here.local.tracked(renamed.values())
    over = [path for path in renamed.values() if path in there or worktree.find_stat(here.root, path) is not None]
    edited = _edited(here, rows)
    saved = save_dirty(here, verb, tuple(Change(FILES + path, None, None) for path in (*edited, *over)))
    verb.before.saved = saved
    verb.before.left = {
        new: saved.get(old, rows[old].entry) for old, new in renamed.items() if old in edited or new in over
    }


def _edited(here: Here, rows: Mapping[str, Tracked]) -> list[str]:
    """Tracked files whose content is not what the stage has."""
    return [
        path
        for path, row in rows.items()
        if row.entry is not None and not worktree.holds(here.root, path, row.entry, row.stat, row.racy)
    ]


def _check_targets(here: Here, renamed: Mapping[str, str], force: bool) -> None:
    for path in renamed.values():
        check_file(path)
        if os.path.lexists(os.path.join(here.root, path)) and not force:
            raise Conflict(
                f"{path!r} exists already. Nothing was changed.", hint="Move it away, or overwrite it with -f."
            )
        for folder in parents(path):
            if worktree.find_stat(here.root, folder) is not None:
                raise Conflict(
                    f"{folder!r} is a file, so {path!r} cannot lie in it. Nothing was changed.",
                    hint="Choose another place.",
                )
    others = [path for path in here.local.paths() if path not in renamed and path not in renamed.values()]
    check_together(renamed.values(), others)


def _moved_rows(here: Here, rows: Mapping[str, Tracked], renamed: Mapping[str, str]) -> list[Tracked]:
    there = here.local.tracked(renamed.values())
    result = [stage.removed(row) for row in rows.values()]
    for old, new in renamed.items():
        row = stage.put_entry(there.get(new), new, rows[old].entry)
        result.append(Tracked(new, row.entry, None, True, row.staged, row.old, rows[old].about))
    return result
