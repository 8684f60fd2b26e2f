"""The stage: add, rm and mv. `add` reads working files and changes only the stage; rm and mv change the files too.

Whole or not at all: every path is checked and read before the first row of the stage changes.
"""

from __future__ import annotations

import os
import stat as modes
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

from memlake.errors import Conflict as ConflictError
from memlake.errors import Ignored, InvalidInput, NotFound
from memlake.named_tuple import NamedTuple
from memlake.objects.layout import now
from memlake.objects.store import Objects
from memlake.objects.writer import Writer
from memlake.records import Author, Change, Conflict, Entry, Staged
from memlake.versions.checkout import describe, journal, status, update, worktree
from memlake.versions.checkout.context import Checkout
from memlake.versions.checkout.ignore import ALWAYS, Ignore, NoRules
from memlake.versions.checkout.journal import Rename
from memlake.versions.checkout.local import NOT_HERE, Local, Tracked, pack_stat
from memlake.versions.history import file_notes
from memlake.versions.operation import Verb
from memlake.versions.paths import (
    FILES,
    REFUSED,
    Glob,
    check_file,
    check_together,
    file_path,
    file_problems,
    matches,
    parents,
    refuse,
)
from memlake.versions.text.merge3 import find_marker
from memlake.versions.verbs.undo import operation, save_dirty

Progress = Callable[[int, int, str], None]
_TABLES = (describe.CSV, describe.TSV, describe.JSONL, describe.PARQUET)


class Adding(NamedTuple):
    """What one `add` is asked to do. `paths` are relative to the root; "" is everything."""

    paths: Sequence[str]
    force: bool = False
    tracked_only: bool = False
    warn_secrets: bool = True
    progress: Progress | None = None


def add(objects: Objects, local: Local, root: str, author: Author, asked: Adding) -> Staged:
    """Stage working files: new, changed and removed ones at or below the given paths."""
    rows = {path: row for given in asked.paths for path, row in local.under(given).items()}
    finder = _Finder(root, asked, rows)
    finder.run()
    found = finder.found
    # Tracked files in whose place a folder stands now: adding what is in the folder removes them.
    replaced = local.find_tracked({folder for path in found.keys() - rows.keys() for folder in parents(path)})
    rows.update(replaced)
    absent = [row for path, row in rows.items() if row.entry is not None and path not in found]
    never = _find_never_here(objects, local, absent)
    gone = [
        row
        for row in absent
        # The last: a file stands now where the path has a folder.
        if row.path not in never or row.path in replaced or any(folder in found for folder in parents(row.path))
    ]
    changed = [
        (path, stat)
        for path, stat in found.items()
        if (row := rows.get(path)) is None or row.entry is None or row.racy or row.stat != pack_stat(stat)
    ]
    _refuse_marked(local, root, asked, dict(changed))
    new = [path for path, _ in changed if path not in rows]
    links = [path for path, stat in changed if modes.S_ISLNK(stat.st_mode)]
    names, led = list(file_problems(new)), dict(worktree.link_problems(root, links))
    # Links that cannot be kept and were only met on the way hold no data, so the rest goes on without them. Not one
    # that was named, and not one in the place of something tracked, whose removal would be staged.
    tracked = {*rows, *(folder for row in absent for folder in parents(row.path))}
    out = {path: why for path, why in led.items() if path not in asked.paths and path not in tracked}
    refused = [(path, why) for path, why in led.items() if path not in out]
    hint = f"{REFUSED}\n{worktree.LINK_HINT}" if names and refused else worktree.LINK_HINT if refused else ""
    refuse([*names, *refused], hint=hint)
    changed = [(path, stat) for path, stat in changed if path not in out]
    new = [path for path in new if path not in out]
    if new:
        removed = {row.path for row in gone}
        check_together(new, (path for path in local.paths() if path not in removed))
    warnings = [*worktree.tell_left_out(out), *_warn_nested(local, root, new)]
    removals = [row_without(row) for row in gone]
    if not changed:
        return _write_stage(local, asked, rows, removals, warnings)
    with Writer(objects, "add") as writer:
        seen = _read_all(root, writer, changed, asked.progress)
        writer.finish()
        by, unresolved = str(author), _find_unresolved(local, asked)
        seen = [(path, one) for path, one in seen if path not in unresolved or one.entry != unresolved[path]]
        staged = [_make_row(rows.get(path), path, root, one, by) for path, one in seen]
        warnings += _warn_secrets(root, seen) if asked.warn_secrets else []
        return _write_stage(local, asked, rows, staged + removals, warnings)


def _find_never_here(objects: Objects, local: Local, absent: list[Tracked]) -> set[str]:
    """Files that were never here, so nobody removed them: they go by `rm`, or when something takes their place."""
    oids = {row.path: row.entry.oid for row in absent if row.entry is not None and not row.stat}
    lost = objects.find_purged(oids.values()) | objects.find_away(oids.values())
    return status.find_never_here(local, oids, lost) | {row.path for row in absent if row.stat == NOT_HERE}


def _warn_secrets(root: str, seen: list[tuple[str, worktree.Seen]]) -> list[str]:
    typed = partial(worktree.path_as_typed, root)
    return [text for path, one in seen if (text := describe.secret_warning(path, one.head, typed))]


def _warn_nested(local: Local, root: str, new: list[str]) -> list[str]:
    """A warning for each folder that is a repo of its own and comes in for the first time."""
    folders = sorted({folder for path in new for folder in parents(path)})
    found = (
        (folder, name) for folder in folders for name in sorted(ALWAYS) if os.path.lexists(f"{root}/{folder}/{name}")
    )
    return [
        f"{folder}/ is a {name[1:]} repo of its own; its files come in without its history. "
        "To leave it out, list it in .memlakeignore"
        for folder, name in dict(found).items()
        if not local.under(folder)
    ]


class _Finder:
    """Collects the working files an `add` means, with their stats."""

    def __init__(self, root: str, asked: Adding, rows: dict[str, Tracked]) -> None:
        self._root, self._asked, self._rows = root, asked, rows
        self._ignore = Ignore(root)
        self.found: dict[str, os.stat_result] = {}

    def run(self) -> None:
        for path in self._asked.paths:
            if isinstance(path, Glob):
                self._find_matching(path)
            else:
                self._one(path)
        # What is tracked stays tracked, also where an ignore rule came later.
        for path in self._rows.keys() - self.found.keys():
            if self._is_tracked(path) and (stat := worktree.find_stat(self._root, path)) is not None:
                self.found[path] = stat

    def _one(self, path: str) -> None:
        if path and not self._any_tracked(path):
            check_file(path)
        full = f"{self._root}/{path}" if path else self._root
        if os.path.isdir(full) and not os.path.islink(full):
            self._find_below(path)
        elif os.path.lexists(full) and self._asked.tracked_only and not self._any_tracked(path):
            return
        elif os.path.lexists(full):
            self._refuse_ignored(path, is_dir=False)
            _refuse_special(path, os.lstat(full))
            self.found[path] = os.lstat(full)
        elif not self._any_tracked(path):
            raise _no_file(path)

    def _find_matching(self, glob: Glob) -> None:
        if os.path.isdir(f"{self._root}/{glob.folder}"):
            self._find_below(glob.folder, glob)
        if not any(matches(path, (glob,)) for path in (*self.found, *self._rows)):
            raise _no_file(glob)

    def _find_below(self, folder: str, wanted: str = "") -> None:
        scope = NoRules() if self._asked.force else self._ignore
        for part in folder.split("/") if folder else ():
            scope = scope.enter(part)
        if folder:
            self._refuse_ignored(folder, is_dir=True)
        for path, entry in worktree.walk(self._root, folder, scope):
            if (self._asked.tracked_only and not self._is_tracked(path)) or (wanted and not matches(path, (wanted,))):
                continue
            self.found[path] = entry.stat(follow_symlinks=False)

    def _refuse_ignored(self, path: str, *, is_dir: bool) -> None:
        if self._asked.force or self._any_tracked(path):
            return
        if why := self._ignore.why(path, is_dir):
            raise Ignored(
                f"path {path!r} is ignored ({why}). Nothing was staged.",
                hint=f"Stage it all the same with: memlake add -f {worktree.path_as_typed(self._root, path)}",
            )

    def _is_tracked(self, path: str) -> bool:
        """Not what the stage removed with `rm --cached`, though its file may still be here."""
        return path in self._rows and self._rows[path].entry is not None

    def _any_tracked(self, path: str) -> bool:
        return path in self._rows or any(other.startswith(path + "/") for other in self._rows)


def _no_file(path: str) -> NotFound:
    return NotFound(
        f"path {str(path)!r} matches no file. Nothing was staged.",
        hint="Check the spelling; paths are relative to the folder you are in.",
    )


def _refuse_special(path: str, found: os.stat_result) -> None:
    if not (modes.S_ISREG(found.st_mode) or modes.S_ISLNK(found.st_mode)):
        raise InvalidInput(f"{path!r} is neither a file nor a link and cannot be kept. Nothing was staged.")


def _read_all(
    root: str, writer: Writer, changed: list[tuple[str, os.stat_result]], progress: Progress | None
) -> list[tuple[str, worktree.Seen]]:
    total, done, seen = sum(stat.st_size for _, stat in changed), 0, []
    for path, stat in changed:
        tell = None
        if progress:
            progress(done, total, path)
            tell = partial(lambda before, path, size: progress(before + size, total, path), done, path)
        seen.append((path, worktree.read(root, path, writer, known=stat, progress=tell)))
        done += stat.st_size
    if progress:
        progress(total, total, "")
    return seen


def _make_row(row: Tracked | None, path: str, root: str, seen: worktree.Seen, author: str) -> Tracked:
    old = None if row is None else row.old if row.staged else row.entry
    if seen.entry == old:
        return Tracked(path, old, seen.stat, seen.racy)
    if row is not None and row.entry == seen.entry:
        return row._replace(stat=seen.stat, racy=seen.racy)
    return Tracked(path, seen.entry, seen.stat, seen.racy, True, old, _note_file(path, root, seen, author))


def _note_file(path: str, root: str, seen: worktree.Seen, author: str) -> str:
    """What is noted beside the content; the schema is read from the file, which was just checked to be stable."""
    media = "inode/symlink" if seen.entry.kind == "link" else describe.media_type(path, seen.head)
    if seen.entry.kind == "file" and media in _TABLES:
        return file_notes.make(media, now(), author, *describe.schema(f"{root}/{path}", media))
    return file_notes.make(media, now(), author)


def _write_stage(
    local: Local, asked: Adding, rows: Mapping[str, Tracked], made: list[Tracked], warnings: list[str]
) -> Staged:
    # A file named as it is was chosen, too; one only met on the way, unchanged, was not.
    met = {one.path[len(FILES) :] for one in local.conflicts() if one.choice is None}
    entries = {path: rows[path].entry for path in asked.paths if path in rows}
    for row in made:
        if row.path not in rows or rows[row.path].entry != row.entry or row.path in met:
            entries[row.path] = row.entry
    with local.db.write():
        local.put(made)
        local.put_conflicts(settle_conflicts(local, entries))
    changes = [Change(FILES + row.path, row.old, row.entry) for row in made if row.staged or row.entry is None]
    return Staged(tuple(sorted(changes, key=lambda change: change.path)), tuple(warnings))


def _refuse_marked(local: Local, root: str, asked: Adding, paths: Iterable[str]) -> None:
    """A file that still has the markers of a conflict is not resolved; `force` takes it all the same."""
    pending = local.find_pending()
    if pending is None or asked.force:
        return
    met = {one.path[len(FILES) :] for one in local.conflicts() if one.written and one.choice is None}
    for path in sorted(met.intersection(paths)):
        text = worktree.find_small_text(root, path)
        line = find_marker(text, pending.names) if text else None
        if line is not None:
            name = worktree.path_as_typed(root, path)
            raise ConflictError(
                f"{path!r} still has a conflict marker in line {line}. Nothing was staged.",
                hint=f"Edit it until the markers are gone, then: memlake add {name}\n"
                f"Or take one side whole: memlake merge --ours {name}, or --theirs {name}\n"
                f"If the line belongs there: memlake add -f {name}",
            )


def _find_unresolved(local: Local, asked: Adding) -> dict[str, Entry | None]:
    """What the files of open conflicts hold when nobody has edited them: meeting one on the way chooses nothing."""
    met = ((one.path[len(FILES) :], one) for one in local.conflicts() if one.choice is None)
    return {path: one.written or one.ours for path, one in met if path not in asked.paths}


def row_without(row: Tracked) -> Tracked:
    """A row as it is when its path is removed by the stage; one only the stage knew is forgotten."""
    old = row.old if row.staged else row.entry
    return Tracked(row.path, None, staged=old is not None, old=old)


def settle_conflicts(local: Local, entries: Mapping[str, Entry | None]) -> list[Conflict]:
    """Staging a path of a waiting merge is how its conflict is resolved by hand."""
    return [
        c._replace(choice="file", chosen=entries[c.path[len(FILES) :]], places={})
        for c in local.conflicts()
        if c.path.startswith(FILES) and c.path[len(FILES) :] in entries
    ]


def put_entry(row: Tracked | None, path: str, entry: Entry | None) -> Tracked:
    """A row that stages an entry taken from history."""
    old = None if row is None else row.old if row.staged else row.entry
    return Tracked(path, entry, None, True, entry != old, old if entry != old else None)


# -- rm and mv


class Removing(NamedTuple):
    cached: bool = False
    force: bool = False
    dry_run: bool = False


def remove(here: Checkout, paths: Sequence[str], how: Removing) -> Staged:
    """Stop tracking paths, and remove the working files unless `cached`. Unsaved work stops it."""
    rows: dict[str, Tracked] = {}
    met = _find_conflict_rows(here)
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
        staged = [row_without(row) for row in rows.values()]
        gone: list[Change] = []
        if not how.cached:
            edited = tuple(Change(FILES + path, None, None) for path in _find_edited(here, rows))
            verb.before.saved = save_dirty(here, verb, edited)
            gone = update.with_held_content(removed.changes, verb.before.saved)
        plan = journal.plan_in_place(here.local, here.who, gone, staged)
        plan = plan._replace(conflicts=settle_conflicts(here.local, dict.fromkeys(rows)))
        update.carry_out(here, verb, plan)
    return removed


def _find_conflict_rows(here: Checkout) -> dict[str, Tracked]:
    """Files that only a waiting merge put there, as if they were staged: removing one is a choice, too."""
    met = {file_path(one.path): one.written for one in here.local.conflicts() if one.choice is None and one.written}
    return {path: Tracked(path, entry, None, True, True) for path, entry in met.items()}


def _refuse_unsaved(here: Checkout, rows: Mapping[str, Tracked], cached: bool) -> None:
    unsaved, met = [], _find_conflict_rows(here)
    for path, row in rows.items():
        assert row.entry is not None
        if path in met and worktree.holds(here.root, path, met[path].entry or row.entry, None, True):
            continue
        exists = worktree.find_stat(here.root, path) is not None
        differs = exists and not worktree.holds(here.root, path, row.entry, row.stat, row.racy)
        if (differs and not cached) or (row.staged and (differs or not cached)):
            unsaved.append(path)
    if unsaved:
        raise ConflictError(
            "these files have changes that are not committed:\n  "
            + "\n  ".join(unsaved[:10])
            + "\nNothing was changed.",
            hint="Keep the files and only stop tracking them with --cached, or remove them all the same with -f.",
        )


def move(here: Checkout, source: str, target: str, *, force: bool, dry_run: bool = False) -> Staged:
    """Rename a tracked file or folder, on disk and in the stage."""
    rows = {path: row for path, row in here.local.under(source).items() if row.entry is not None}
    if not source or not rows:
        raise NotFound(
            f"path {source!r} matches nothing that is tracked. Nothing was changed.",
            hint="See what is tracked with: memlake ls",
        )
    is_here = os.path.lexists(os.path.join(here.root, source))
    if not is_here and any(row.stat != NOT_HERE for row in rows.values()):
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
        rename = Rename(source, target, os.lstat(os.path.join(here.root, source)).st_ino) if is_here else None
        plan = journal.plan_in_place(here.local, here.who, (), _build_moved_rows(here, rows, renamed))._replace(
            rename=rename
        )
        journal.begin(here.local, plan, verb=verb, lasting=True)
        if rename is not None:
            update.rename_once(here.local, here.root, rename)
        update.finish(here.local, verb, plan, (), {})
    return moved


def _save_for_undo(here: Checkout, verb: Verb, rows: Mapping[str, Tracked], renamed: Mapping[str, str]) -> None:
    """Content that is not in the stage: of files that were edited, and of what they are moved over."""
    there = here.local.find_tracked(renamed.values())
    over = [path for path in renamed.values() if path in there or worktree.find_stat(here.root, path) is not None]
    edited = _find_edited(here, rows)
    saved = save_dirty(here, verb, tuple(Change(FILES + path, None, None) for path in (*edited, *over)))
    verb.before.saved = saved
    verb.before.left = {
        new: saved.get(old, rows[old].entry) for old, new in renamed.items() if old in edited or new in over
    }


def _find_edited(here: Checkout, rows: Mapping[str, Tracked]) -> list[str]:
    """Tracked files whose content is not what the stage has."""
    return [
        path
        for path, row in rows.items()
        if row.entry is not None and not worktree.holds(here.root, path, row.entry, row.stat, row.racy)
    ]


def _check_targets(here: Checkout, renamed: Mapping[str, str], force: bool) -> None:
    for path in renamed.values():
        check_file(path)
        if os.path.lexists(os.path.join(here.root, path)) and not force:
            raise ConflictError(
                f"{path!r} exists already. Nothing was changed.", hint="Move it away, or overwrite it with -f."
            )
        for folder in parents(path):
            if worktree.find_stat(here.root, folder) is not None:
                raise ConflictError(
                    f"{folder!r} is a file, so {path!r} cannot lie in it. Nothing was changed.",
                    hint="Choose another place.",
                )
    others = [path for path in here.local.paths() if path not in renamed and path not in renamed.values()]
    check_together(renamed.values(), others)


def _build_moved_rows(here: Checkout, rows: Mapping[str, Tracked], renamed: Mapping[str, str]) -> list[Tracked]:
    there = here.local.find_tracked(renamed.values())
    result = [row_without(row) for row in rows.values()]
    for old, new in renamed.items():
        row = put_entry(there.get(new), new, rows[old].entry)
        stat = NOT_HERE if rows[old].stat == NOT_HERE else None
        result.append(Tracked(new, row.entry, stat, True, row.staged, row.old, rows[old].about))
    return result
