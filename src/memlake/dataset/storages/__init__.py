"""Storages: folders, buckets and web addresses outside the repo, whose files are listed, opened and written.

The scheme of an address decides which module does the work. Knows no datasets.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import groupby
from pathlib import Path
from typing import BinaryIO, TypeVar

import pyarrow as pa

from memlake.dataset.storages import buckets, cache, web
from memlake.dataset.storages.access import ACCESS, USUAL, Access, access_of, describe
from memlake.dataset.storages.cache import use
from memlake.dataset.storages.listing_columns import SCHEMA
from memlake.dataset.storages.local_folders import (
    etag_of,
    hash_unchanged,
    list_folder,
    local_path,
    open_local,
    write_local,
)
from memlake.dataset.storages.location import BUCKETS, WEB, locate, path_of
from memlake.dataset.storages.remote_file import Known, Named, Remote, open_remote
from memlake.errors import Error, InvalidInput, NotFound

__all__ = [
    "ACCESS",
    "SCHEMA",
    "Access",
    "Known",
    "describe",
    "etag_of",
    "exists",
    "hash_unchanged",
    "is_pattern",
    "list_files",
    "list_many",
    "local_path",
    "open_file",
    "path_of",
    "prefetch",
    "split",
    "use",
    "write_file",
]

Uri = str | os.PathLike[str]
F = TypeVar("F", bound=Named)


def split(uri: Uri) -> tuple[str, str]:
    """`data/pets/` as ("file:///abs/data", "pets/"), `s3://b/x/*.jpg` as ("s3://b", "x/*.jpg")."""
    location = locate(uri)
    return location.source, location.prefix + location.pattern


def is_pattern(uri: Uri) -> bool:
    """Whether it has a wildcard; a name that exists is meant itself, whatever characters it has."""
    return bool(locate(uri).pattern)


def list_files(uri: Uri, *, access: Access = USUAL, recursive: bool = True) -> Iterator[pa.RecordBatch]:
    """The files of a storage, in order of their paths, in batches of SCHEMA."""
    return list_many([uri], access=access, recursive=recursive)


def list_many(uris: Iterable[Uri], *, access: Access = USUAL, recursive: bool = True) -> Iterator[pa.RecordBatch]:
    """One storage after the other; web addresses that follow each other are asked for together."""
    depth = None if recursive else 0
    for is_web, locations in groupby(map(locate, uris), lambda one: one.scheme in WEB):
        if is_web:
            yield from web.list_urls(list(locations), access)
            continue
        for location in locations:
            if location.scheme in BUCKETS:
                yield from buckets.list_bucket(location, access_of(location.source, access), depth=depth)
            else:
                yield from list_folder(location, depth=depth)


# -- files -----------------------------------------------------------------------------------------


def exists(file: Named) -> bool:
    """Whether something is there now, whatever it was when it was listed."""
    if file.source.startswith("file:"):
        return os.path.isfile(local_path(file))
    try:
        reach(Known(file.source, file.path, 0, file.version, ""))
    except NotFound:
        return False
    return True


def write_file(uri: Uri, data: bytes | BinaryIO) -> None:
    """Make or replace one file whole, in a folder or a bucket."""
    location = locate(uri)
    if location.pattern or not location.prefix or location.prefix.endswith("/"):
        raise InvalidInput(f"{os.fspath(uri)!r} is not the name of a file; nothing was written.")
    if location.scheme in WEB:
        raise InvalidInput(f"{location.source} cannot be written to.", hint="Write to a folder or a bucket.")
    if location.scheme in BUCKETS:
        buckets.write_object(location, data, access_of(location.source))
    else:
        write_local(location, data)


def open_file(file: Named) -> BinaryIO:
    """The bytes that were listed, seekable: of a local file in place, of a remote one as they are needed.

    Of a file that changed since it was listed this is a Conflict, never other bytes.
    """
    if file.source.startswith("file:"):
        return open_local(file)
    folder = cache.in_use()
    if folder and file.etag and (cached := cache.find_cached(_as_listed(file), folder)):
        return cached
    remote = reach(file)
    if not folder:
        return open_remote(remote)
    return (None if file.etag else cache.find_cached(remote.file, folder)) or cache.keep(remote, folder)


def reach(file: Named) -> Remote:
    scheme, access = file.source.partition(":")[0], access_of(file.source)
    if scheme in BUCKETS:
        return buckets.reach(file, access)
    if scheme in WEB:
        return web.reach(file, access)
    raise InvalidInput(f"{file.source!r} is not a storage that can be read.", hint="Get Files from read_storage(...).")


def prefetch(files: Iterable[F], n: int) -> Iterator[F]:
    """The same files in the same order, each when its bytes are here; up to `n` more are being read meanwhile.

    They go to the cache in use, or to a folder of their own that is removed at the end. What cannot be read is
    given all the same: opening it says why.
    """
    with contextlib.ExitStack() as stack:
        own = None
        if cache.in_use() is None:
            own = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="memlake-")))
            cache.use(own)
            stack.callback(cache.use, None)
        readers = stack.enter_context(ThreadPoolExecutor(max(n, 1)))
        for file in _in_turn(files, n, readers):
            yield file
            if own:
                cache.forget(_as_listed(file), own)


def _in_turn(files: Iterable[F], n: int, readers: ThreadPoolExecutor) -> Iterator[F]:
    def fetch(file: F) -> None:
        if not file.source.startswith("file:"):
            with contextlib.suppress(Error):
                open_file(file).close()

    waiting: deque[tuple[F, Future[None]]] = deque()
    try:
        for file in files:
            waiting.append((file, readers.submit(fetch, file)))
            if len(waiting) > n:
                waiting[0][1].result()
                yield waiting.popleft()[0]
        while waiting:
            waiting[0][1].result()
            yield waiting.popleft()[0]
    finally:
        for _, future in waiting:
            future.cancel()


def _as_listed(file: Named) -> Known:
    return Known(file.source, file.path, file.size, file.version, file.etag)
