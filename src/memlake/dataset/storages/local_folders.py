"""Local folders as storages: listing, opening and writing files in place. Their bytes are never copied."""

from __future__ import annotations

import difflib
import hashlib
import os
import shutil
import stat
import time
import uuid
from collections.abc import Iterator
from io import BufferedReader, BytesIO
from pathlib import Path
from typing import BinaryIO, cast

import pyarrow as pa
import pyarrow.compute as pc

from memlake.config import FOLDER
from memlake.dataset.storages.listing_columns import ROWS, LeftOut, Listed, batch_of
from memlake.dataset.storages.location import Location, local_root
from memlake.dataset.storages.patterns import compile_pattern
from memlake.dataset.storages.remote_file import Named, changed_error, missing_error
from memlake.errors import Denied, Error, InvalidInput, NotFound, Unavailable
from memlake.named_tuple import NamedTuple
from memlake.objects import disk
from memlake.versions.checkout.local import is_racy

Files = Iterator[tuple[str, os.DirEntry[str]]]


def list_folder(location: Location, *, depth: int | None) -> Iterator[pa.RecordBatch]:
    """Every file below the folder in order of paths; `depth` folders deep at most, None is all."""
    top = f"{local_root(location.source)}/{location.prefix}"
    if not location.pattern and not location.prefix.endswith("/") and os.path.isfile(top):
        facts = _Facts([], [], [], [], [])
        facts.add(location.prefix, os.stat(top))
        yield facts.batch(location.source)
        return
    _check_folder(top)
    pattern = compile_pattern(location.pattern) if location.pattern else None
    left_out = LeftOut(top)
    files = _Walk(left_out, depth if pattern is None else pattern.depth).files(top, location.prefix)
    if pattern is not None:
        start = len(location.prefix)
        files = ((path, entry) for path, entry in files if pattern.regex.fullmatch(path, start))
    yield from _batches(location.source, files, left_out)
    left_out.warn()


class _Facts(NamedTuple):
    """What is known of a run of files, in plain numbers: a stat result a file would hold ten times as much."""

    paths: list[str]
    sizes: list[int]
    times: list[int]
    inodes: list[int]
    touched: list[int]

    def add(self, path: str, stat: os.stat_result) -> None:
        self.paths.append(path)
        self.sizes.append(stat.st_size)
        self.times.append(stat.st_mtime_ns)
        self.inodes.append(stat.st_ino)
        self.touched.append(stat.st_ctime_ns)

    def batch(self, source: str) -> pa.RecordBatch:
        columns = zip(self[1:], (pa.int64(), pa.int64(), pa.uint64(), pa.int64()), strict=True)
        sizes, times, inodes, touched = (pa.array(each, kind).cast(pa.string()) for each, kind in columns)
        inodes = pc.binary_join_element_wise(inodes, touched, ".")
        etags = pc.binary_join_element_wise(times, sizes, inodes, "-")
        return batch_of(source, Listed(self.paths, self.sizes, etags, [time // 1000 for time in self.times]))


def _batches(source: str, files: Files, left_out: LeftOut) -> Iterator[pa.RecordBatch]:
    facts = _Facts([], [], [], [], [])
    for path, entry in files:
        try:
            state = entry.stat()
        except OSError as error:
            left_out.add(_why(error), path)
            continue
        if not stat.S_ISREG(state.st_mode):
            continue
        facts.add(path, state)
        if len(facts.paths) == ROWS:
            yield facts.batch(source)
            facts = _Facts([], [], [], [], [])
    if facts.paths:
        yield facts.batch(source)


def etag_of(facts: os.stat_result) -> str:
    """What changes when a file is written or replaced, without reading it.

    Nobody can set back the last of it, so that a file is another after chmod or a new link to it, too: what was in it
    before is not known, and to run for one file too many is better than an answer for what it was.
    """
    return f"{facts.st_mtime_ns}-{facts.st_size}-{facts.st_ino}.{facts.st_ctime_ns}"


class _Walk:
    """One walk over a folder. Links are followed, but not to a folder the walk is in already."""

    def __init__(self, left_out: LeftOut, depth: int | None) -> None:
        self._left_out = left_out
        self._depth = depth

    def files(self, top: str, prefix: str) -> Files:
        """A stack, not recursion: folders may be nested deeper than Python's calls."""
        stack = [(prefix, self._entries(top, prefix))]
        above = [_identity(os.stat(top))]
        while stack:
            prefix, entries = stack[-1]
            for name, entry in entries:
                if name[-1] != "/":
                    yield prefix + name, entry
                elif self._enters(entry, prefix + name, above):
                    stack.append((prefix + name, self._entries(entry.path, prefix + name)))
                    break
            else:
                stack.pop()
                above.pop()

    def _entries(self, folder: str, prefix: str) -> Files:
        """Sorted with the slash of a folder in its name, so that the paths of the whole walk come in order."""
        by_name: dict[str, os.DirEntry[str]] = {}
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    name = entry.name
                    if entry.is_dir(follow_symlinks=False) or (entry.is_symlink() and os.path.isdir(entry.path)):
                        name += "/"
                    if name.isascii() or self._is_text(name, prefix):
                        by_name[name] = entry
        except OSError as error:
            self._left_out.add(_why(error), prefix)
        return ((name, by_name[name]) for name in sorted(by_name))

    def _is_text(self, name: str, prefix: str) -> bool:
        try:
            name.encode()
        except UnicodeEncodeError:
            self._left_out.add("with a name that is not UTF-8", prefix + name)
            return False
        return True

    def _enters(self, entry: os.DirEntry[str], path: str, above: list[tuple[int, int]]) -> bool:
        if entry.name == FOLDER or (self._depth is not None and len(above) > self._depth):
            return False
        try:
            here = _identity(entry.stat())
        except OSError as error:
            self._left_out.add(_why(error), path)
            return False
        if here in above:
            self._left_out.add("linked back to a folder above", path)
            return False
        above.append(here)
        return True


def _identity(facts: os.stat_result) -> tuple[int, int]:
    return facts.st_dev, facts.st_ino


def _why(error: OSError) -> str:
    if isinstance(error, FileNotFoundError):
        return "gone, or linked to nothing"
    return "not readable" if isinstance(error, PermissionError) else f"not readable: {error.strerror}"


def _check_folder(top: str) -> None:
    if os.path.isdir(top):
        if not os.access(top, os.R_OK | os.X_OK):
            raise Denied(f"the folder {top} may not be read.", hint="Check who owns it (ls -ld).")
        return
    if os.path.exists(top):
        raise InvalidInput(f"{top} is not a folder or file that can be listed.")
    raise NotFound(f"there is no {top.rstrip('/')}.", hint=_nearest(top.rstrip("/")))


def _nearest(path: str) -> str:
    """The name that was probably meant, in the deepest folder of the path that exists."""
    while not os.path.isdir(path):
        path, name = os.path.split(path)
    try:
        close = difflib.get_close_matches(name, os.listdir(path), n=1)
    except OSError:
        close = []
    return f"Did you mean {os.path.join(path, close[0])}?" if close else f"{path} exists, but does not have {name!r}."


def local_path(file: Named) -> str:
    """Where a local file is; never outside the folder its source names."""
    if ".." in file.path.split("/") or file.path.startswith("/") or "\0" in file.path:
        what = f"{file.path!r} leads out of {file.source}; it was not opened."
        raise InvalidInput(what, hint="A path is relative to its source, without '..'.")
    return f"{local_root(file.source)}/{file.path}"


def open_local(file: Named) -> BinaryIO:
    path = local_path(file)
    try:
        number = os.open(path, os.O_RDONLY)
        try:
            # By number: its `name` must not say where the file lies, or an answer might hang on that unseen
            stream = open(number, "rb")  # noqa: SIM115 (given to the caller)
        except OSError:
            os.close(number)
            raise
    except FileNotFoundError:
        raise missing_error(file) from None
    except PermissionError:
        raise Denied(f"{path} may not be read.", hint="Check who owns it (ls -l).") from None
    except OSError as error:
        raise Unavailable(f"{path} cannot be read: {error.strerror}.") from error
    # By time and size alone: a copy that kept both (rsync -t, cp -p) has another inode and the same bytes.
    if file.etag and file.etag.rpartition("-")[0] != etag_of(os.fstat(stream.fileno())).rpartition("-")[0]:
        stream.close()
        raise changed_error(file)
    return stream


def hash_unchanged(file: Named) -> tuple[str, bool] | None:
    """The SHA-256 of a file that is the one that was listed, and whether it is so for good; None if it is another.

    A file that was written just now may be written once more without another time.
    """
    try:
        stream = open_local(file)
    except Error:
        return None
    with stream:
        before, clock = os.fstat(stream.fileno()), time.time_ns()
        if etag_of(before) != file.etag:
            return None
        try:
            digest = hashlib.file_digest(cast(BufferedReader, stream), "sha256")
        except OSError:
            return None
        is_same = etag_of(os.fstat(stream.fileno())) == file.etag
        return (digest.hexdigest(), not is_racy(before, clock)) if is_same else None


def write_local(location: Location, data: bytes | BinaryIO) -> None:
    """Under another name first: a reader meets the old bytes or the new ones, never a part."""
    path = Path(local_root(location.source), location.prefix)
    temporary = path.with_name(f".{path.name[:100]}.{uuid.uuid4().hex}.tmp")
    with disk.named_errors(f"writing {path}"):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with open(temporary, "xb") as into:
                shutil.copyfileobj(BytesIO(data) if isinstance(data, bytes) else data, into, 1 << 20)
            disk.rename(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)
