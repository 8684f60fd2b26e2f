"""Where sealed files lie: one contract, a local folder and a bucket. Knows names and bytes, not what they hold.

A name is derived from the content it stands for, so a name that exists with the same size is the same
file: storing it again succeeds, and nothing is ever overwritten.
"""

from __future__ import annotations

import contextlib
import errno
import importlib
import os
import re
import stat
import threading
import time
import uuid
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, ClassVar, Protocol
from urllib.parse import unquote, urlsplit

from memlake.errors import AlreadyExists, Conflict, Corrupt, Denied, Error, InvalidInput, NotFound, Unavailable
from memlake.objects import disk

Ranges = Sequence[tuple[int, int]]  # (start, length)
Pieces = list[bytes]  # the classes below have a method called list

_NAME = re.compile(r"[a-z0-9._-]+(/[a-z0-9._-]+)*")


class Place(Protocol):
    """Put whole, get ranges, list, delete. Safe to use from many threads."""

    def put(self, name: str, file: Path) -> None:
        """Store a whole local file; it is durable on return. Conflict if the name has another size.

        The file is given away: a folder moves it, a bucket leaves it. Remove it if it is still there.
        """

    def get(self, name: str, start: int, length: int) -> bytes:
        """Exactly these bytes. NotFound without the name, Corrupt where the file is shorter."""

    def get_ranges(self, name: str, ranges: Ranges) -> Pieces:
        """Several (start, length) ranges of one file, in the order asked, in few calls."""

    def size(self, name: str) -> int:
        """The size in bytes, or NotFound."""

    def list(self, prefix: str = "") -> Iterator[tuple[str, int, float]]:
        """(name, size, time stored in seconds) of every name that begins with the prefix, in any order."""

    def delete(self, name: str) -> None:
        """Remove a name for good; a missing one is fine."""

    def local_path(self, name: str) -> Path | None:
        """The file, when it lies on this machine."""


def open_place(location: str | Path) -> Place:
    """A folder for a path or a file:// URL, a bucket for any other URL."""
    text = str(location)
    if "://" not in text:
        return Folder(Path(location))
    if text.startswith("file://"):
        return Folder(Path(unquote(urlsplit(text).path)))
    return Bucket(text)


def _check_name(name: str) -> str:
    if not _NAME.fullmatch(name) or not {".", ".."}.isdisjoint(name.split("/")):
        cure = "Use a-z, 0-9, dot, dash and underscore, with / between parts; no '..' and no leading /."
        raise InvalidInput(f"{name!r} cannot be a stored name.", hint=cure)
    return name


def _check_ranges(ranges: Ranges) -> None:
    if any(start < 0 or length < 0 for start, length in ranges):
        raise InvalidInput("a range cannot be negative.")


def _check_size(name: str, ours: int, stored: int) -> None:
    if ours != stored:
        what = f"{name} is already stored with {stored} bytes; the new file has {ours}. The stored one was kept."
        raise Conflict(what, hint="One of them is damaged or misnamed: run memlake fsck --full.")


def _short(name: str, start: int, length: int) -> Corrupt:
    what = f"{name} is shorter than it must be: bytes {start} to {start + length} are missing."
    return Corrupt(what, hint="Run memlake fsck --full.")


class _Open:
    """A file open for reading. Whoever still holds it may read; the last one to let go closes it."""

    def __init__(self, path: str) -> None:
        self.fd = os.open(path, os.O_RDONLY)
        found = os.fstat(self.fd)
        self.identity = (found.st_dev, found.st_ino)

    def __del__(self, close: Any = os.close) -> None:
        with contextlib.suppress(AttributeError, OSError):  # AttributeError: os.open failed in __init__
            close(self.fd)


class _OpenFiles:
    """The files one process has open, the least recently used closed first."""

    def __init__(self, limit: int) -> None:
        self.pid = os.getpid()
        self.limit = limit
        self._lock = threading.Lock()
        self._files: OrderedDict[str, _Open] = OrderedDict()

    def get(self, path: str, found: os.stat_result) -> _Open:
        with self._lock:
            held = self._files.get(path)
            # While we hold it open its inode number cannot be given to another file, so equal means the same.
            if held is not None and held.identity == (found.st_dev, found.st_ino):
                self._files.move_to_end(path)
                return held
        opened = _Open(path)
        with self._lock:
            self._files[path] = opened
            self._files.move_to_end(path)
            while len(self._files) > self.limit:
                self._files.popitem(last=False)
        return opened

    def drop(self, path: str) -> None:
        with self._lock:
            self._files.pop(path, None)


class Folder:
    """A folder of this machine. A file is moved in whole, under its final name, or not at all."""

    def __init__(self, root: Path, *, open_files: int = 64) -> None:
        self.root = Path(root)
        self._open_files = _OpenFiles(open_files)

    def put(self, name: str, file: Path) -> None:
        target = self._path(name)
        with disk.named_errors(f"storing {name} in {self.root}"):
            size = os.stat(file).st_size
            _make_folder(target.parent)
            _sync_file(file)
            try:
                _move(file, target)
            except FileExistsError:
                _check_size(name, size, os.stat(target).st_size)
            # Also when the name was there: whoever made it may not have come this far yet.
            _sync_folders(target.parent, self.root)
            # Last: until the name is durable, a crash must leave the file under its old one.
            _unlink(file)

    def get(self, name: str, start: int, length: int) -> bytes:
        return self.get_ranges(name, [(start, length)])[0]

    def get_ranges(self, name: str, ranges: Ranges) -> Pieces:
        _check_ranges(ranges)
        path = os.path.join(self.root, _check_name(name))  # many times faster than a Path
        with disk.named_errors(f"reading {name} in {self.root}"):
            held = self._here().get(path, self._stat(path, name))
            return [_read(held.fd, name, start, length) for start, length in ranges]

    def size(self, name: str) -> int:
        with disk.named_errors(f"looking for {name} in {self.root}"):
            return self._stat(self._path(name), name).st_size

    def list(self, prefix: str = "") -> Iterator[tuple[str, int, float]]:
        _check_name(prefix + "x")  # a prefix is whatever a name may begin with
        return self._walk(prefix.rpartition("/")[0], prefix)

    def delete(self, name: str) -> None:
        path = self._path(name)
        self._here().drop(str(path))
        with disk.named_errors(f"deleting {name} in {self.root}"):
            if _unlink(path):
                disk.fsync_dir(path.parent)

    def local_path(self, name: str) -> Path | None:
        path = self._path(name)
        return path if path.is_file() else None

    def _path(self, name: str) -> Path:
        return self.root / _check_name(name)

    def _stat(self, path: str | Path, name: str) -> os.stat_result:
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            found = os.stat(path)
            if stat.S_ISREG(found.st_mode):
                return found
        raise NotFound(f"{self.root} has no {name}.")

    def _here(self) -> _OpenFiles:
        # A child of fork gets its own: the parent's lock may have been held by a thread that is not here.
        if self._open_files.pid != os.getpid():
            self._open_files = _OpenFiles(self._open_files.limit)
        return self._open_files

    def _walk(self, folder: str, prefix: str) -> Iterator[tuple[str, int, float]]:
        with disk.named_errors(f"listing {self.root / folder}"):
            try:
                entries = sorted(os.scandir(self.root / folder), key=lambda entry: entry.name)
            except (FileNotFoundError, NotADirectoryError):
                return
        for entry in entries:
            name = f"{folder}/{entry.name}" if folder else entry.name
            if not name.startswith(prefix) or not _NAME.fullmatch(name):
                continue  # the latter is what a crash left of a copy
            if entry.is_dir(follow_symlinks=False):
                yield from self._walk(name, prefix)
            elif entry.is_file():
                with contextlib.suppress(FileNotFoundError):
                    found = entry.stat()
                    yield name, found.st_size, found.st_mtime


def _read(fd: int, name: str, start: int, length: int) -> bytes:
    data = os.pread(fd, length, start)
    while len(data) < length:  # one call gives at most 2 GiB
        more = os.pread(fd, length - len(data), start + len(data))
        if not more:
            raise _short(name, start, length)
        data += more
    return data


def _move(file: Path, target: Path) -> None:
    """Give a file its final name, or raise FileExistsError. A link never replaces; a rename does."""
    try:
        disk.link(file, target)
    except OSError as error:
        if error.errno == errno.EXDEV:
            _copy_across(file, target)
        elif error.errno not in (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK):
            raise
        elif target.exists():
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target)) from None
        else:
            # A file system without hard links. Two writers may both come here, with the same content.
            disk.rename(file, target)


def _copy_across(file: Path, target: Path) -> None:
    """Copy from another file system. The '~' keeps the copy out of the names until it is complete."""
    for left in target.parent.glob("~*"):  # by a crash; a day is longer than any copy takes
        with contextlib.suppress(FileNotFoundError):
            if left.stat().st_mtime < time.time() - 86400:
                disk.unlink(left)
    copy = target.with_name(f"~{uuid.uuid4().hex}")
    fd = os.open(copy, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
    try:
        with open(fd, "wb", buffering=0), open(file, "rb", buffering=0) as source:
            while block := source.read(1 << 20):
                disk.write_all(fd, block)
            disk.fsync_file(fd)
        _move(copy, target)
    finally:
        _unlink(copy)


def _unlink(path: Path) -> bool:
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        disk.unlink(path)
        return True
    return False


def _make_folder(folder: Path) -> None:
    if folder.is_dir():
        return
    _make_folder(folder.parent)
    with contextlib.suppress(FileExistsError):
        disk.mkdir(folder)
    disk.fsync_dir(folder.parent)


def _sync_file(file: Path) -> None:
    with open(file, "rb", buffering=0) as opened:
        disk.fsync_file(opened.fileno())


def _sync_folders(folder: Path, root: Path) -> None:
    disk.fsync_dir(folder)
    if folder != root:
        _sync_folders(folder.parent, root)


WHOLE = 68 << 20  # a sealed pack and its footer go in one conditional put; what is larger goes in parts
_PART, _PARTS, _SENDERS = 8 << 20, 9000, 4
_GAP = 1 << 20  # ranges no further apart are one request; not less, or obstore joins them itself
_ATTEMPTS = 3
_SCHEMES = ("s3", "gs", "az", "file", "memory")
_CLIENT_OPTION = re.compile(r"(allow|pool|proxy|randomize|root|user)_\w+|\w*timeout|default_(headers|content_type)")
_RETRY = {"max_retries": 5, "retry_timeout": timedelta(seconds=60)}


class Bucket:
    """An object store: s3://bucket/prefix, gs://, az://, and file:///, memory:/// for trials.

    Options are obstore's (endpoint, region, access_key_id, timeout, retry_config ...); what is not given
    comes from the store's usual environment names. Give the bucket a lifecycle rule that removes
    incomplete multipart uploads: a process killed in a large put leaves one.
    """

    _runtime_pid: ClassVar[int] = 0  # the process in which obstore started its threads

    def __init__(self, url: str, **options: Any) -> None:
        parts = urlsplit(url)
        if parts.scheme not in _SCHEMES or "@" in parts.netloc or parts.query or parts.fragment:
            what = f"a bucket is named scheme://bucket/prefix and no more; the schemes are {', '.join(_SCHEMES)}."
            raise InvalidInput(what, hint="Give credentials and settings as options or in the environment.")
        self.url, self._scheme = url, parts.scheme
        self._remote = self._scheme not in ("file", "memory")
        self._obstore = _load_obstore()
        self._store = self._connect(options)

    def put(self, name: str, file: Path) -> None:
        _check_name(name)
        with disk.named_errors(f"reading {file}"):
            size = os.stat(file).st_size
        if size > WHOLE and self._is_stored(name, size):
            return self._sync(name)
        failed: Unavailable | None = None
        for _attempt in range(_ATTEMPTS):
            failed = self._send(name, file, size)
            # Always read back: a put whose answer was lost may be done, one in parts may have met another.
            if self._is_stored(name, size):
                return self._sync(name)
        raise failed or Unavailable(f"{name} was deleted from {self.url} while being stored.", hint="Run it again.")

    def get(self, name: str, start: int, length: int) -> bytes:
        return self.get_ranges(name, [(start, length)])[0]

    def get_ranges(self, name: str, ranges: Ranges) -> Pieces:
        _check_name(name)
        _check_ranges(ranges)
        spans = _join(ranges)
        if not spans:
            self.size(name)
            return [b"" for _ in ranges]
        with self._asking(name):
            # Joined here and not by obstore, which panics when a range it joined begins past the end.
            starts, ends = [start for start, _ in spans], [end for _, end in spans]
            read = self._obstore.get_ranges(self._store, name, starts=starts, ends=ends)
        views = {start: memoryview(data) for start, data in zip(starts, read, strict=True)}
        return [_cut(name, views, start, length) for start, length in ranges]

    def size(self, name: str) -> int:
        with self._asking(_check_name(name)):
            return int(self._obstore.head(self._store, name)["size"])

    def list(self, prefix: str = "") -> Iterator[tuple[str, int, float]]:
        _check_name(prefix + "x")
        return self._walk(prefix)

    def delete(self, name: str) -> None:
        with contextlib.suppress(NotFound), self._asking(_check_name(name)):
            self._obstore.delete(self._store, name)

    def local_path(self, name: str) -> Path | None:
        _check_name(name)
        if self._scheme != "file":
            return None
        path = Path(self._store.prefix or "/") / name
        return path if path.is_file() else None

    def _connect(self, options: dict[str, Any]) -> Any:
        """obstore panics on a client option that is not given as one, so those are sorted out."""
        config: dict[str, Any] = {"mkdir": True} if self._scheme == "file" else dict(options)
        if self._remote:
            # An http endpoint that someone wrote down is consent enough. It must be said here: given any client
            # option, obstore does not look at AWS_ALLOW_HTTP.
            given = {"timeout": "180s", "connect_timeout": "5s", "allow_http": self._scheme == "s3"}
            client = {key: config.pop(key) for key in options if _CLIENT_OPTION.fullmatch(key)}
            config["client_options"] = given | client | config.get("client_options", {})
            config["retry_config"] = _RETRY | config.get("retry_config", {})
        if self._scheme == "s3":
            config.setdefault("checksum_algorithm", "sha256")  # a part damaged on the way is refused
        try:
            if not options or self._remote:
                return self._obstore.store.from_url(self.url, **config)
        except (self._obstore.exceptions.BaseError, ValueError, TypeError):
            pass
        names = ", ".join(sorted(options)) or "none"  # the values may be secrets
        raise InvalidInput(f"{self.url} cannot be opened with these options: {names}.")

    def _send(self, name: str, file: Path, size: int) -> Unavailable | None:
        """Small: one request with If-None-Match, refused by the store itself if the name is taken.

        Large: a multipart upload, which cannot be conditional everywhere, so the caller looked before.
        """
        once: dict[str, Any] = {"mode": "create", "use_multipart": False}
        parts: dict[str, Any] = {"chunk_size": max(_PART, -(-size // _PARTS)), "max_concurrency": _SENDERS}
        try:
            with contextlib.suppress(AlreadyExists), self._asking(name, missing="bucket"):
                self._obstore.put(self._store, name, file, **(once if size <= WHOLE else parts))
        except Unavailable as error:
            return error
        return None

    def _is_stored(self, name: str, size: int) -> bool:
        with contextlib.suppress(NotFound):
            _check_size(name, size, self.size(name))
            return True
        return False

    def _sync(self, name: str) -> None:
        """obstore leaves a local file in the page cache."""
        if path := self.local_path(name):
            with disk.named_errors(f"storing {path}"):
                _sync_file(path)
                _sync_folders(path.parent, Path(self._store.prefix or "/"))

    def _walk(self, prefix: str) -> Iterator[tuple[str, int, float]]:
        with self._asking(prefix or self.url, missing="bucket"):
            # A store lists whole folders only, so the rest of the prefix is compared here.
            for page in self._obstore.list(self._store, prefix.rpartition("/")[0] or None):
                for meta in page:
                    if meta["path"].startswith(prefix) and _NAME.fullmatch(meta["path"]):
                        yield meta["path"], meta["size"], meta["last_modified"].timestamp()

    @contextlib.contextmanager
    def _asking(self, name: str, *, missing: str = "name") -> Iterator[None]:
        """One request. Its errors become ours without their text or cause: those may quote a secret."""
        self._check_process()
        try:
            yield
        except (FileNotFoundError, self._obstore.exceptions.BaseError) as error:
            raise self._translate(error, name, missing) from None

    def _translate(self, error: Exception, name: str, missing: str) -> Error:
        text, kinds = str(error), self._obstore.exceptions
        if isinstance(error, (kinds.AlreadyExistsError, kinds.PreconditionError)):
            return AlreadyExists(f"{self.url} has {name} already.")
        if "NoSuchBucket" in text or (isinstance(error, FileNotFoundError) and missing == "bucket"):
            return NotFound(f"there is no bucket {self.url}.", hint="Create it, or correct the URL.")
        if isinstance(error, FileNotFoundError):
            return NotFound(f"{self.url} has no {name}.")
        if "StartTooLarge" in text or "status code: 416" in text:
            return Corrupt(f"{name} in {self.url} is shorter than it must be.", hint="Run memlake fsck --full.")
        # The addresses are where a cloud keeps a machine's credentials: it was asked when none were given.
        refused = isinstance(error, (kinds.PermissionDeniedError, kinds.UnauthenticatedError))
        if refused or re.search(r"status code: 40[13]|169\.254\.169\.254|metadata\.google", text):
            cure = "Check its credentials, for example AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY."
            return Denied(f"{self.url} refused access to {name}.", hint=cure)
        what = f"{self.url} is not available ({_reason(text)}); {name} was not reached."
        return Unavailable(what, hint="Check the network and the endpoint, then run it again.")

    def _check_process(self) -> None:
        """obstore's threads do not live on in a child of fork: a request there would wait for ever."""
        if not self._remote:
            return
        Bucket._runtime_pid = Bucket._runtime_pid or os.getpid()
        if Bucket._runtime_pid != os.getpid():
            what = f"{self.url} cannot be used in a process forked from one that used a bucket."
            raise Unavailable(what, hint="Start processes with the multiprocessing method spawn or forkserver.")


def _load_obstore() -> Any:
    try:
        importlib.import_module("obstore.store")
        return importlib.import_module("obstore")
    except ImportError:
        raise Unavailable("buckets need obstore.", hint='pip install "memlake[bucket]"') from None


def _reason(text: str) -> str:
    """Why a request failed: of the text of the error, only words known to be harmless."""
    found = re.search(r"status code: \d{3}|timed ?out|connection ?refused|dns error|no space left", text, re.IGNORECASE)
    return found[0].lower() if found else "the request failed"


def _join(ranges: Ranges) -> list[tuple[int, int]]:
    """The (start, end) spans that cover the ranges, neighbours joined."""
    spans: list[tuple[int, int]] = []
    for start, length in sorted(ranges):
        if not length:
            continue
        if spans and start - spans[-1][1] <= _GAP:
            spans[-1] = (spans[-1][0], max(spans[-1][1], start + length))
        else:
            spans.append((start, start + length))
    return spans


def _cut(name: str, views: dict[int, memoryview], start: int, length: int) -> bytes:
    if not length:
        return b""
    first = max(begin for begin in views if begin <= start)
    piece = bytes(views[first][start - first : start - first + length])
    if len(piece) != length:
        raise _short(name, start, length)
    return piece
