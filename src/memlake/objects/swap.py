"""Compare-and-set of one small file: the one name of a remote that changes. Knows no format of it.

A folder holds a lock while it compares and renames; a bucket is asked to store only if the file is still the one that
was read (If-Match, or If-None-Match where there was none). Clocks are not asked.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Protocol, runtime_checkable

from memlake import nofollow
from memlake.errors import AlreadyExists, Conflict, Corrupt, NotFound
from memlake.named_tuple import NamedTuple
from memlake.objects import disk
from memlake.objects.bucket import Bucket
from memlake.objects.locks import FileLock
from memlake.objects.object_store import NoBucket
from memlake.objects.places import Folder, Place, sync_folders

LARGEST = 16 << 20  # bytes; what a stranger put there must not fill the memory


class Loaded(NamedTuple):
    """The file as it was read, and the tag by which it is known again."""

    data: bytes
    tag: str


class Moved(Conflict):
    """The file is not the one that was read any more. Nothing was stored."""


@runtime_checkable
class Swap(Protocol):
    """The one file of a remote that is replaced. Safe between processes and machines."""

    def load(self, known: str | None = None) -> Loaded | None:
        """The file; None if there is none. With the tag of a known one, raises Same if it has not changed."""

    def swap(self, data: bytes, tag: str | None) -> str:
        """Replace the file that has this tag (None: there must be none); returns the new tag, or raises Moved.

        Another error says nothing of whether it was replaced: whoever asked must read it again to know.
        """


class Same(Exception):
    """The file has the tag that was given."""


class FolderSwap:
    """A file in a folder, replaced by rename under a lock. Its tag is its hash."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder, self._path = folder, folder / name
        self._lock: FileLock | None = None

    def load(self, known: str | None = None) -> Loaded | None:
        with disk.named_errors(f"reading {self._path}"):
            try:
                fd = nofollow.open_file(self._path)
            except (FileNotFoundError, NotADirectoryError):
                return None
            with open(fd, "rb") as stream:
                _check_length(os.fstat(fd).st_size, str(self._path))
                data = stream.read(LARGEST + 1)
        _check_length(len(data), str(self._path))
        tag = hashlib.sha256(data).hexdigest()
        if tag == known:
            raise Same
        return Loaded(data, tag)

    def swap(self, data: bytes, tag: str | None) -> str:
        with disk.named_errors(f"writing {self._path}"):
            nofollow.make_folder(self._folder)
            self._lock = self._lock or FileLock(self._path.with_name(f"{self._path.name}.lock"))
            with self._lock.held():
                held = self.load()
                if (held and held.tag) != tag:
                    raise Moved(f"{self._path} was changed by somebody else.")
                new = self._path.with_name(f"~{os.urandom(16).hex()}")
                try:
                    disk.write_file(new, data)
                    disk.rename(new, self._path)
                finally:
                    new.unlink(missing_ok=True)
                sync_folders(self._folder, self._folder)
        return hashlib.sha256(data).hexdigest()


class BucketSwap:
    """An object of a bucket, replaced by a conditional put. Its tag is what the store calls this state of it."""

    def __init__(self, bucket: Bucket, name: str) -> None:
        self._bucket, self._name = bucket, name

    def load(self, known: str | None = None) -> Loaded | None:
        bucket, options = self._bucket, {}
        if known is not None:
            options = {"if_none_match": _split(known).get("e_tag", "")}
        try:
            with bucket.request(self._name):
                try:
                    found = bucket.obstore.get(bucket.store, self._name, options=options)
                    _check_length(found.meta["size"], f"{self._name} in {bucket.url}")
                    data, meta = bytes(found.bytes()), found.meta
                except bucket.obstore.exceptions.NotModifiedError:
                    raise Same from None
        except NoBucket:
            raise
        except NotFound:
            return None
        return Loaded(data, _join(meta))

    def swap(self, data: bytes, tag: str | None) -> str:
        bucket, mode = self._bucket, "create" if tag is None else _split(tag)
        try:
            with bucket.request(self._name, missing="bucket"):
                done = bucket.obstore.put(bucket.store, self._name, data, mode=mode, use_multipart=False)
        except AlreadyExists as error:
            raise Moved(f"{self._name} in {bucket.url} was changed by somebody else.") from error
        return _join(done)


def open_swap(place: Place, name: str) -> Swap:
    """The file of this name beside the sealed files of a place; some places are both."""
    if isinstance(place, Swap):
        return place
    if isinstance(place, Folder):
        return FolderSwap(place.root, name)
    assert isinstance(place, Bucket)
    return BucketSwap(place, name)


def _check_length(length: int, what: str) -> None:
    if length > LARGEST:
        raise Corrupt(f"{what} has {length:,} bytes; at most {LARGEST:,} are read. Nothing was changed.")


def _join(meta: object) -> str:
    """What a store tells of a state: the tag of its content, and of Google's the number of the state."""
    found = dict(meta)  # type: ignore[call-overload]
    return f"{found.get('e_tag') or ''}\n{found.get('version') or ''}"


def _split(tag: str) -> dict[str, str]:
    e_tag, _, version = tag.partition("\n")
    return {name: value for name, value in (("e_tag", e_tag), ("version", version)) if value}
