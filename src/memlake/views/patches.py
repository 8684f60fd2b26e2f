"""What changed inside paths, as patches. Asks a Repo for content; knows no command."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING

from memlake import contents as insides
from memlake.errors import InvalidInput, Purged
from memlake.named_tuple import NamedTuple
from memlake.records import Change, Conflict, Entry, short
from memlake.repo import Repo
from memlake.repo.diff import Diff
from memlake.versions.kinds import kind_at
from memlake.versions.text import unified
from memlake.versions.text.lines import LARGEST, find_text, split_lines
from memlake.versions.text.segments import Segment, list_segments
from memlake.views import contents, hunks, paths, words
from memlake.views.changes import Row
from memlake.views.status import conflict_kind, side_lines
from memlake.views.style import Style

if TYPE_CHECKING:
    from memlake.contents.explain import Explanation

Read = Callable[[str, Entry], bytes]
_HEAD = 8000  # bytes by which git tells text from other files
_LONG = 100_000  # characters of a line that nobody reads
LARGEST_SHOWN = 32 << 20  # bytes of a text that is compared line by line
_DONE = {"A": "added", "D": "removed", "R": "renamed"}


# -- content


def reader(repo: Repo, *, worktree: bool) -> Read:
    """Reads the new side of a row: the working file, or the stored object."""

    def read(path: str, entry: Entry) -> bytes:
        if worktree and path.startswith(paths.FILES):
            file = os.path.join(repo.root, path.removeprefix(paths.FILES))
            if not entry.oid or os.path.lexists(file):  # else its content is at a remote only, and so unchanged
                return repo.read(file, None)
        return repo.objects.read(entry.oid)

    return read


def find_texts(view: View, row: Row) -> list[Segment] | None:
    """Where the texts of a row differ; None if a side is not text, too large to be compared by lines, or purged."""
    size = _largest(row)
    try:
        if size > LARGEST_SHOWN or (size > LARGEST and not view.begins_as_text(row)):
            return None
        old = _readable(row.path, view.read_old(row.path, row.old)) if row.old else b""
        new = _readable(row.path, view.read_new(row.path, row.new)) if row.new else b""
    except Purged:
        return None
    old_text, new_text = find_text(old), find_text(new)
    return None if old_text is None or new_text is None else list_segments(old_text, new_text)


def _largest(row: Row) -> int:
    return max(row.old.size if row.old else 0, row.new.size if row.new else 0)


def _readable(path: str, data: bytes) -> bytes:
    text = kind_at(path).text
    return text(data) if text else data


class View(NamedTuple):
    """What rendering needs beside the rows: the style, how to read each side, and what cannot be read any more."""

    style: Style
    read_old: Read
    read_new: Read
    is_purged: Callable[[str], bool]
    explain: Callable[[Row], Explanation | None]  # what differs inside a file of a type that memlake knows
    words: str = ""  # how words that differ are shown: plain, color, porcelain; empty: by lines
    cuts: bool = False  # whether a patch of endless lines is left out, unless --text asks for it
    begins_as_text: Callable[[Row], bool] = lambda _: True  # by a few bytes, before a large file is read whole
    explain_bytes: Callable[[Row], Explanation | None] = lambda _: None  # which ranges differ, of any file
    is_away: Callable[[str], bool] = lambda _: False  # whether content is at a remote only
    bring: Callable[[Sequence[str]], None] = lambda _: None  # what will be read and is at a remote only, in one go


class Detail(NamedTuple):
    """How changes are shown: in which form, and how closely files are looked at."""

    form: str = "patch"  # or stat, numstat, shortstat, name-status, name-only; empty: not at all
    words: str = ""
    nul: bool = False  # a NUL after every name and number, and names as they are
    inside: bool = True
    key: tuple[str, ...] = ()  # the columns that tell the rows of a table apart
    limit: int | None = 10  # of what differs inside a file, how much of each kind
    sides: tuple[str, str] = (
        "",
        "HEAD",
    )  # the revs compared, as `Diff` has them; on the right "" is the working folder

    @property
    def has_nul(self) -> bool:
        """Whether this form is written with NULs; a patch and a picture of bars are for people."""
        return self.nul and self.form in ("numstat", "name-status", "name-only")


PATCH = Detail()


def open_view(repo: Repo, style: Style, detail: Detail = PATCH, *, rows: Sequence[Row] = ()) -> View:
    """How to read what changed in this repo. A key that no table of `rows` has is refused."""
    diff, worktree = Diff.of(repo, (), detail.sides), not detail.sides[1]
    keyless = {row.path for row in rows if detail.key and row.old and row.new and _is_table(row.path)}

    def explain(row: Row, *, as_bytes: bool = False) -> Explanation | None:
        if not detail.inside:
            return None
        change = Change(row.path, row.old, row.new)
        try:
            return diff.explain(change, key=detail.key, limit=detail.limit, as_bytes=as_bytes)
        except Purged:
            return None
        except InvalidInput as error:  # a key that this table does not have; the next one may
            keyless.discard(row.path)
            if rows and not keyless:
                raise
            return insides.explain.Explanation("table", None, error.message)

    sides = reader(repo, worktree=False), reader(repo, worktree=worktree)

    def is_text(row: Row) -> bool:
        stored = [row.old] if worktree and row.path.startswith(paths.FILES) else [row.old, row.new]
        return all(begins_as_text(repo, entry.oid) for entry in stored if entry is not None)

    explain_bytes = functools.partial(explain, as_bytes=True)
    view = View(style, *sides, repo.objects.is_purged, explain, detail.words, detail.inside, is_text, explain_bytes)
    return view._replace(is_away=repo.objects.is_away, bring=repo.objects.bring)


def bring_texts(view: View, listed: Sequence[Row]) -> None:
    """Have here what patches of these rows will read."""
    sides = (entry for row in listed if _largest(row) <= LARGEST_SHOWN for entry in (row.old, row.new))
    view.bring([entry.oid for entry in sides if entry is not None and entry.oid])


def _is_table(path: str) -> bool:
    kind = insides.file_types.find_type(path)
    return kind is not None and kind.name == "table"


def begins_as_text(repo: Repo, oid: str) -> bool:
    """Whether an object is text by its first bytes, as git tells it."""
    with repo.objects.open(oid) as stream:
        return find_text(stream.read(_HEAD), is_head=True) is not None


# -- patches


def patch(view: View, row: Row) -> Iterator[str]:
    """One row as a unified diff with extended headers, coloured; another kind of thing is a new thing."""
    if row.status == "T":
        yield from patch(view, Row("D", row.path, row.old, None))
        yield from patch(view, Row("A", row.path, None, row.new))
        return
    if brief := kind_at(row.path).brief:
        yield from _record_patch(view, row, brief)
        return
    source = words.quote(_label("a", row.source or row.path))
    target = words.quote(_label("b", row.path))
    yield from (view.style.paint(line, "bold") for line in _headers(row, source, target))
    if row.status == "R" or has_same_content(row):
        return
    explanation = view.explain(row)
    if row.old is None or row.new is None:
        yield from filter(None, [contents.summary_text(explanation.record) if explanation else None])
    elif explanation is not None and explanation.record is not None and not explanation.record.is_empty:
        yield from contents.explained_lines(view.style, explanation)
        return
    elif explanation is not None:
        same = f"it holds the same {explanation.type}, and is only written differently"
        for note in (explanation.note or same, *getattr(explanation.record, "notes", ())):
            yield f"note: {words.clean(note)}"
    texts = find_texts(view, row)
    if texts is None:
        yield _closed_line(view, row)
        if (ranges := view.explain_bytes(row)) is not None:
            yield from contents.explained_lines(view.style, ranges)
        return
    if view.cuts and (longest := max((len(line) for one in texts for line in chain(*one[:2])), default=0)) > _LONG:
        yield f"note: a line of {paths.display(row.path)} has {longest:,} characters; --text shows the patch anyway"
        added, removed = count_lines(texts)
        yield f"{words.count(added, 'line')} added, {words.count(removed, 'line')} removed"
        return
    lines = _hunk_lines(view, texts)
    first = next(lines, None)
    if first is None:
        return
    yield view.style.paint(f"--- {source if row.old else '/dev/null'}", "bold")
    yield view.style.paint(f"+++ {target if row.new else '/dev/null'}", "bold")
    yield from chain([first], lines)


def _hunk_lines(view: View, texts: Sequence[Segment]) -> Iterator[str]:
    for segment in texts:
        if view.words:
            yield from hunks.word_lines(view.style, view.words, segment)
        else:
            old, new, *skipped = segment
            lines = unified.format_hunks(old, new, (skipped[0], skipped[1]))
            yield from hunks.color_lines(view.style, lines)


def _record_patch(view: View, row: Row, brief: Callable[[bytes], str]) -> Iterator[str]:
    """A record that came or went is a line; of one that was edited, the facts that changed."""
    name = words.quote(row.path) if row.source is None else f"{words.quote(row.source)} => {words.quote(row.path)}"
    yield view.style.paint(f"{name} {_DONE.get(row.status, 'changed')}: {describe(view, row, brief)}", "bold")
    texts = find_texts(view, row) if row.old and row.new else None
    if texts is not None:
        yield from _hunk_lines(view, texts)


def count_lines(texts: Sequence[Segment]) -> tuple[int, int]:
    """How many lines were (added, removed)."""
    counts = [unified.count_changes(segment.old, segment.new) for segment in texts]
    return sum(added for added, _ in counts), sum(removed for _, removed in counts)


def describe(view: View, row: Row, brief: Callable[[bytes], str]) -> str:
    """A record of a kind with a text of its own, in a line."""
    read, entry = (view.read_new, row.new) if row.new else (view.read_old, row.old)
    try:
        return brief(read(row.path, entry)) if entry else "nothing"
    except Purged:
        return "purged"


def _label(side: str, path: str) -> str:
    return f"{side}/{path.removeprefix(paths.FILES)}"


def has_same_content(row: Row) -> bool:
    return row.old is not None and row.new is not None and row.old.oid == row.new.oid


def _headers(row: Row, source: str, target: str) -> Iterator[str]:
    yield f"diff --git {source} {target}"
    if row.source and row.status == "R":
        yield from (
            "similarity index 100%",
            f"rename from {paths.display(row.source)}",
            f"rename to {paths.display(row.path)}",
        )
        return
    if row.old is None:
        yield f"new file mode {_mode(row.new)}"
    elif row.new is None:
        yield f"deleted file mode {_mode(row.old)}"
    elif _mode(row.old) != _mode(row.new):
        yield from (f"old mode {_mode(row.old)}", f"new mode {_mode(row.new)}")
    if not has_same_content(row):
        yield f"index {_id(row.old)}..{_id(row.new)}"


def _mode(entry: Entry | None) -> str:
    if entry is None:
        return "000000"
    return "120000" if entry.kind == "link" else "100755" if entry.mode else "100644"


def _id(entry: Entry | None) -> str:
    return short(entry.oid) if entry and entry.oid else "0" * 10


def _closed_line(view: View, row: Row) -> str:
    """What is said of content that cannot be shown line by line."""
    old, new = _weight(view, row.old), _weight(view, row.new)
    size = _largest(row)
    kind = "Purged" if is_purged(view, row) else "Large" if size > LARGEST_SHOWN else "Binary"
    also = f" (compared line by line up to {words.size(LARGEST_SHOWN)})" if kind == "Large" else ""
    return f"{kind} file {paths.display(row.path)}: {old} -> {new}{also}"


def is_purged(view: View, row: Row) -> bool:
    # A working file whose size tells that it differs was not read, and has no oid.
    return any(entry and entry.oid and view.is_purged(entry.oid) for entry in (row.old, row.new))


def _weight(view: View, entry: Entry | None) -> str:
    if entry is None:
        return "nothing"
    purged = ", purged" if entry.oid and view.is_purged(entry.oid) else ""
    return f"{words.size(entry.size)} ({short(entry.oid)}{purged})"


# -- paths in conflict


_UNMERGED = {"stat": " {} | Unmerged", "numstat": "0\t0\t{}", "name-status": "U\t{}", "name-only": "{}"}


def unmerged_lines(repo: Repo, style: Style, conflict: Conflict, detail: Detail) -> Iterator[str]:
    """Our side, and what the working file holds now: with both sides between markers, until it is edited."""
    name = paths.bare(conflict.path) if detail.has_nul else paths.display(conflict.path)
    if detail.form != "patch":
        if detail.form in _UNMERGED:
            yield _UNMERGED[detail.form].format(name)
        return
    yield style.paint(f"* Unmerged path {name} ({conflict_kind(conflict).rstrip(':')})", "bold")
    if (both := repo.pending_merge.sides(conflict)) is not None:
        yield from side_lines(both)
        return
    if conflict.ours is None or not conflict.path.startswith(paths.FILES):
        return
    file = repo.root / paths.bare(conflict.path)
    ours = find_text(repo.objects.read(conflict.ours.oid)) if conflict.ours.size <= LARGEST else None
    text = find_text(repo.read(file, None)) if file.is_file() and file.stat().st_size <= LARGEST else None
    if ours is not None and text is not None:
        yield style.paint(f"--- ours/{name}", "bold")
        yield style.paint(f"+++ {name}", "bold")
        yield from hunks.color_lines(style, unified.format_hunks(split_lines(ours), split_lines(text)))
