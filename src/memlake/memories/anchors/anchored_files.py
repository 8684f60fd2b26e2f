"""Files that memories rest on, as they are at one moment: in a folder, in a commit of ours, in a commit of git.

Each is read once. Nothing outside of the folder is read, whatever a record names, and a hook never runs git.
"""

from __future__ import annotations

import io
import os
import stat as modes
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import suppress
from hashlib import sha1, sha256
from itertools import islice
from typing import BinaryIO

from memlake import config
from memlake.errors import Error, NotFound, Purged
from memlake.memories.anchors.anchor import Anchor
from memlake.named_tuple import NamedTuple
from memlake.records import Commit, Entry
from memlake.versions.checkout import worktree
from memlake.versions.checkout.ignore import Ignore
from memlake.versions.checkout.local import Local
from memlake.versions.history.commits import History
from memlake.versions.paths import FILES
from memlake.versions.text import spans
from memlake.versions.text.spans import Lines, Text

LARGEST = 64 << 20  # bytes of a file that is read to see whether it changed
_PIECE = 1 << 20
_LISTED = 20_000  # files of a folder among which a renamed one is looked for
_READ = 400  # of them that are read for a passage
_LEAST = 40  # characters of a passage that is looked for in other files: `return None` stands in many
_ASK_FROM = 256 << 10  # bytes from which the index of tracked files is asked instead of reading
_ALIKE = 0.5  # of its lines, that a file of another name has to have to be the same file
_SECONDS = 20.0
_SLACK = 2_000_000  # microseconds that clocks of files may be behind ours
_RENAMES = 8  # names that a file had one after the other, as far as they are followed

Place = tuple[str, Lines | None]  # where something is now: a path, and of a passage its lines
Known = tuple[int, int]  # size, and when it was last changed in microseconds


class Offset(NamedTuple):
    """How paths of a project lie to those of a checkout: one may be inside of the other; None where neither is."""

    below: str | None = ""  # the checkout is in this folder of the project
    above: str = ""  # the project is in this folder of the checkout

    def to_ours(self, path: str) -> str | None:
        """The path that a file of the project has in the checkout, if it can be one of its files."""
        if self.below is None or not path.startswith(self.below):
            return None
        return f"{self.above}{path.removeprefix(self.below)}"

    def to_project(self, path: str) -> str | None:
        """The path that a file of the checkout has in the project."""
        if self.below is None or not path.startswith(self.above):
            return None
        return f"{self.below}{path.removeprefix(self.above)}"


def find_offset(project: str, checkout: str) -> Offset:
    """How a project's folder lies to a checkout's; both are real paths."""
    if project == checkout:
        return Offset()
    if checkout.startswith(project + os.sep):
        return Offset(below=os.path.relpath(checkout, project) + "/")
    return (
        Offset(above=os.path.relpath(project, checkout) + "/")
        if project.startswith(checkout + os.sep)
        else Offset(None)
    )


class Files:
    """What each kind of place has in common."""

    def __init__(self, most: int = LARGEST) -> None:
        self._most = most
        self._data: dict[str, bytes | None] = {}
        self._oids: dict[tuple[str, bool], str | None] = {}
        self._texts: dict[str, Text | None] = {}
        self._kin: dict[str, list[str]] = {}  # paths by suffix
        self._renamed: dict[tuple[str, str, int], str | None] = {}
        self._listed: Mapping[str, Known] | None = None

    def find_size(self, path: str) -> int | None:
        """The size of a file; None if there is none."""
        raise NotImplementedError

    def open(self, path: str) -> BinaryIO:
        raise NotImplementedError

    def _list(self) -> Mapping[str, Known]:
        raise NotImplementedError

    def find_oid(self, path: str, *, of_git: bool) -> str | None:
        """The id of a file's content, ours or git's; None if there is no such file or if it is too large to read."""
        if (path, of_git) not in self._oids:
            self._oids[path, of_git] = self._hash(path, of_git)
        return self._oids[path, of_git]

    def _hash(self, path: str, of_git: bool) -> str | None:
        data = self.read(path)
        return None if data is None else name_content(data, of_git=of_git)

    def read(self, path: str) -> bytes | None:
        """The content of a file; None if there is no such file or if it is too large to read."""
        if path not in self._data:
            size = self.find_size(path)
            data = None
            if size is not None and size <= self._most:
                with suppress(OSError, Error), self.open(path) as stream:
                    data = stream.read()
            self._data[path] = data
        return self._data[path]

    def read_text(self, path: str) -> Text | None:
        """The lines of a file; None if there is no such file or if it is too large to read."""
        if path not in self._texts:
            data = self.read(path)
            self._texts[path] = None if data is None else Text(data)
        return self._texts[path]

    def find_passage(self, path: str, anchor: Anchor) -> Lines | None:
        """The lines of a file that a passage is now."""
        text = self.read_text(path)
        if text is None or anchor.span is None or anchor.lines is None:
            return None
        return spans.find(text, anchor.span, anchor.lines)

    def has_same_text(self, path: str, anchor: Anchor) -> bool:
        """Whether only whitespace differs in a file."""
        data = self.read(path)
        return data is not None and anchor.span is not None and spans.measure(data) == anchor.span

    def find_elsewhere(self, anchor: Anchor, since: int) -> Place | None:
        """Where a passage was moved to: the one other file that holds it now and changed since then."""
        if anchor.span is None or anchor.lines is None or anchor.span.length < _LEAST:
            return None
        found = []
        for path in self.list_kin(anchor, since):
            text = self.read_text(path)
            if text is not None and anchor.span.first in text.hashes and (lines := self.find_passage(path, anchor)):
                found.append((path, lines))
        # A copy that somebody made before editing the file does not hold the passage for it.
        places = [place for place in found if self.find_oid(place[0], of_git=anchor.is_of_git) != anchor.oid]
        return places[0] if len(places) == 1 else None

    def find_renamed(self, anchor: Anchor, since: int) -> str | None:
        """The file that one which is gone is now: of the same content, else the one with most of its lines."""
        key = anchor.path, anchor.oid, since
        if key not in self._renamed:
            self._renamed[key] = self._find_same(anchor, since) or self._find_alike(anchor, since)
        return self._renamed[key]

    def _find_same(self, anchor: Anchor, since: int) -> str | None:
        for path, (size, changed) in self._read_list().items():
            is_candidate = size == anchor.size and changed >= since - _SLACK
            if is_candidate and self.find_oid(path, of_git=anchor.is_of_git) == anchor.oid:
                return path
        return None

    def _find_alike(self, anchor: Anchor, since: int) -> str | None:
        lines, best, most = spans.read_sketch(anchor.sketch), None, 0
        for path in self.list_kin(anchor, since) if lines else ():
            text = self.read_text(path)
            kept = len(lines & text.hashes) if text is not None else 0
            if kept > most:
                best, most = path, kept
        return best if most >= _ALIKE * len(lines) else None

    def list_kin(self, anchor: Anchor, since: int) -> list[str]:
        """Other files of the same suffix that changed since a time; those of the same name first, and not too many."""
        listed = self._read_list()
        if not self._kin:
            for path in listed:
                self._kin.setdefault(_suffix(path), []).append(path)
        kin = [path for path in self._kin.get(_suffix(anchor.path), ()) if listed[path][1] >= since - _SLACK]
        kin.sort(key=lambda path: _name(path) != _name(anchor.path))
        return [path for path in kin if path != anchor.path][:_READ]

    def _read_list(self) -> Mapping[str, Known]:
        if self._listed is None:
            self._listed = self._list()
        return self._listed


class FolderFiles(Files):
    """Files of a working folder. Git is run for a file that is gone, and only if this `asks_git`."""

    def __init__(self, root: str, local: Local, offset: Offset, most: int = LARGEST, *, asks_git: bool = False) -> None:
        super().__init__(most)
        self._root, self._local, self._offset, self._asks_git = root, local, offset, asks_git
        self._stats = worktree.Stats(root)

    def find_stat(self, path: str) -> os.stat_result | None:
        stat = self._stats.find(path)
        return stat if stat is not None and modes.S_ISREG(stat.st_mode) else None

    def find_size(self, path: str) -> int | None:
        stat = self.find_stat(path)
        return None if stat is None else stat.st_size

    def open(self, path: str) -> BinaryIO:
        return os.fdopen(worktree.open_file(self._root, path), "rb")

    def _hash(self, path: str, of_git: bool) -> str | None:
        stat = self.find_stat(path)
        if stat is not None and stat.st_size >= _ASK_FROM and not of_git and (ours := self._offset.to_ours(path)):
            with suppress(Error):
                if oid := self._local.find_unchanged({ours: stat}).get(ours):
                    return oid
        if stat is not None and stat.st_size > self._most:
            return None
        return super()._hash(path, of_git)

    def _find_alike(self, anchor: Anchor, since: int) -> str | None:
        """Of a file that git tracks also one with none of its lines: git knows of the rename before the edit."""
        found = super()._find_alike(anchor, since)
        if found is None and self._asks_git and anchor.is_of_git:
            path = find_git_rename(self._root, anchor.path, since)
            found = path if path is not None and self.find_size(path) is not None else None
        return found

    def _list(self) -> Mapping[str, Known]:
        files = dict[str, Known]()
        with suppress(OSError, Error):
            for path, entry in islice(worktree.walk(self._root, "", Ignore(self._root)), _LISTED):
                stat = entry.stat(follow_symlinks=False)
                files[path] = stat.st_size, max(stat.st_mtime_ns, stat.st_ctime_ns) // 1000
        return files


class CommitFiles(Files):
    """Files of a commit of ours. Which of them changed since when is not looked up: all may have."""

    def __init__(self, history: History, commit: Commit | None, offset: Offset) -> None:
        super().__init__()
        self._history, self._commit, self._offset = history, commit, offset
        self._entries: dict[str, Entry | None] = {}

    def _find_entry(self, path: str) -> Entry | None:
        if path not in self._entries:
            ours = self._offset.to_ours(path)
            found = self._history.entries(self._commit, [FILES + ours]) if ours and self._commit else {}
            entry = found.get(f"{FILES}{ours}")
            self._entries[path] = entry if entry is not None and entry.kind == "file" else None
        return self._entries[path]

    def find_size(self, path: str) -> int | None:
        entry = self._find_entry(path)
        return None if entry is None else entry.size

    def open(self, path: str) -> BinaryIO:
        entry = self._find_entry(path)
        if entry is None:
            raise NotFound(f"there is no file {path!r} in the commit.")
        return self._history.objects.open(entry.oid)

    def _hash(self, path: str, of_git: bool) -> str | None:
        entry = self._find_entry(path)
        return super()._hash(path, of_git) if of_git or entry is None else entry.oid

    def _list(self) -> Mapping[str, Known]:
        listed = {}
        for ours, entry in self._history.scan(self._commit, FILES) if self._commit else ():
            if entry.kind == "file" and (path := self._offset.to_project(ours.removeprefix(FILES))):
                self._entries[path] = entry
                listed[path] = entry.size, 1 << 62
        return listed


class GitFiles(Files):
    """Files of the commit of git that was checked out at a time, as far as git can say. Runs git."""

    def __init__(self, root: str, time: int) -> None:
        super().__init__()
        self._root = root
        before = f"--before=@{time // 1_000_000}"
        self._commit = (_run_git(root, "rev-list", "-1", "--first-parent", before, "HEAD") or b"").strip().decode()
        self._blobs: dict[str, tuple[str, int]] | None = None

    def _read_tree(self) -> dict[str, tuple[str, int]]:
        if self._blobs is None:
            self._blobs = {}
            listed = _run_git(self._root, "ls-tree", "-rlz", "--full-tree", self._commit) if self._commit else None
            for line in (listed or b"").split(b"\0"):
                facts, _, path = line.partition(b"\t")
                mode, kind, oid, size = (*facts.split(), b"", b"", b"", b"")[:4]
                if kind == b"blob" and mode != b"120000":
                    self._blobs[os.fsdecode(path)] = oid.decode(), int(size)
        return self._blobs

    def find_size(self, path: str) -> int | None:
        return self._read_tree().get(path, (None, None))[1]

    def open(self, path: str) -> BinaryIO:
        return io.BytesIO(read_git_blob(self._root, self._read_tree()[path][0]) or b"")

    def _hash(self, path: str, of_git: bool) -> str | None:
        blobs = self._read_tree()
        return super()._hash(path, of_git) if not of_git or path not in blobs else blobs[path][0]

    def _list(self) -> Mapping[str, Known]:
        return {path: (size, 1 << 62) for path, (_, size) in self._read_tree().items()}


def name_content(data: bytes, *, of_git: bool) -> str:
    """The id of a content: ours, or that of a blob of git."""
    return (
        sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest() if of_git else sha256(data).hexdigest()
    )


def _run_git(root: str, *arguments: str) -> bytes | None:
    """What git prints; None if it cannot do that."""
    command = ["git", "-C", root, "--no-optional-locks", "--literal-pathspecs", *arguments]
    with suppress(OSError, subprocess.SubprocessError):
        return subprocess.run(
            command, env=config.plain_environment(), capture_output=True, timeout=_SECONDS, check=True
        ).stdout
    return None


def read_git_blob(root: str, oid: str) -> bytes | None:
    """An object of git, if it has that. Runs git."""
    return _run_git(root, "cat-file", "blob", oid)


def find_git_rename(root: str, path: str, since: int) -> str | None:
    """The name that git's index or its commits since a time gave a file that is gone. Runs git."""
    shown = ("-M", "--diff-filter=R", "--name-status", "--relative", "-z")
    staged = _list_renames(_run_git(root, "diff-index", "--cached", *shown, "HEAD"))
    first, after = path, f"--since=@{(since - _SLACK) // 1_000_000}"
    for _ in range(_RENAMES):
        # The last commit that touched the old name removed it; what that one added is the new one.
        commit = (_run_git(root, "rev-list", "-1", after, "HEAD", "--", path) or b"").strip().decode()
        shows = _run_git(root, "diff-tree", "-r", "--no-commit-id", *shown, commit) if commit else None
        renamed = staged.get(path) or _list_renames(shows).get(path)
        if renamed is None:
            break
        path = renamed
    return path if path != first else None


def _list_renames(shown: bytes | None) -> dict[str, str]:
    """Old and new names out of `--name-status -z`."""
    parts = [os.fsdecode(part) for part in (shown or b"").split(b"\0")]
    return dict(zip(parts[1::3], parts[2::3], strict=False))


def read_then(history: History, root: str, anchor: Anchor) -> bytes | None:
    """What a file held when it was anchored, if it was stored then: by us or by git. Runs git."""
    if anchor.is_of_git:
        return read_git_blob(root, anchor.oid)
    with suppress(NotFound, Purged):
        return history.objects.read(anchor.oid)
    return None


def read_pieces(stream: BinaryIO) -> Iterator[bytes]:
    while piece := stream.read(_PIECE):
        yield piece


def _name(path: str) -> str:
    return path.rpartition("/")[2]


def _suffix(path: str) -> str:
    return os.path.splitext(path)[1]
