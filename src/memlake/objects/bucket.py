"""A bucket as a place for sealed files, and which place a location names. The only module that loads obstore."""

from __future__ import annotations

import contextlib
import importlib
import os
import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import unquote, urlsplit

from memlake.errors import AlreadyExists, Corrupt, Denied, Error, InvalidInput, NotFound, Unavailable
from memlake.objects import disk
from memlake.objects.places import (
    NAME,
    Folder,
    Pieces,
    Place,
    Ranges,
    check_name,
    check_ranges,
    check_size,
    sync_file,
    sync_folders,
    too_short,
)

WHOLE = 68 << 20  # a sealed pack and its footer go in one conditional put; what is larger goes in parts
_PART, _PARTS, _SENDERS = 8 << 20, 9000, 4
_GAP = 1 << 20  # ranges no further apart are one request; not less, or obstore joins them itself
_ATTEMPTS = 3
_SCHEMES = ("s3", "gs", "az", "file", "memory")
_CLIENT_OPTION = re.compile(r"(allow|pool|proxy|randomize|root|user)_\w+|\w*timeout|default_(headers|content_type)")
_RETRY = {"max_retries": 5, "retry_timeout": timedelta(seconds=60)}


def open_place(location: str | Path) -> Place:
    """A folder for a path or a file:// URL, a bucket for any other URL."""
    text = str(location)
    if "://" not in text:
        return Folder(Path(location))
    if text.startswith("file://"):
        return Folder(Path(unquote(urlsplit(text).path)))
    return Bucket(text)


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
        check_name(name)
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
        check_name(name)
        check_ranges(ranges)
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
        with self._asking(check_name(name)):
            return int(self._obstore.head(self._store, name)["size"])

    def list(self, prefix: str = "") -> Iterator[tuple[str, int, float]]:
        check_name(prefix + "x")
        return self._walk(prefix)

    def delete(self, name: str) -> None:
        with contextlib.suppress(NotFound), self._asking(check_name(name)):
            self._obstore.delete(self._store, name)

    def local_path(self, name: str) -> Path | None:
        check_name(name)
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
            check_size(name, size, self.size(name))
            return True
        return False

    def _sync(self, name: str) -> None:
        """obstore leaves a local file in the page cache."""
        if path := self.local_path(name):
            with disk.named_errors(f"storing {path}"):
                sync_file(path)
                sync_folders(path.parent, Path(self._store.prefix or "/"))

    def _walk(self, prefix: str) -> Iterator[tuple[str, int, float]]:
        with self._asking(prefix or self.url, missing="bucket"):
            # A store lists whole folders only, so the rest of the prefix is compared here.
            for page in self._obstore.list(self._store, prefix.rpartition("/")[0] or None):
                for meta in page:
                    if meta["path"].startswith(prefix) and NAME.fullmatch(meta["path"]):
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
        raise too_short(name, start, length)
    return piece
