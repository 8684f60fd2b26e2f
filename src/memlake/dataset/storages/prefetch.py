"""Opening a file of any storage, through the cache if there is one, and reading files before they are asked for."""

from __future__ import annotations

import contextlib
import tempfile
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import BinaryIO, TypeVar

from memlake.dataset.storages import buckets, cache, web
from memlake.dataset.storages.access import access_of
from memlake.dataset.storages.local_folders import open_local
from memlake.dataset.storages.location import BUCKETS, WEB
from memlake.dataset.storages.remote_file import Known, Named, Remote, open_remote
from memlake.errors import Error, InvalidInput

F = TypeVar("F", bound=Named)


def open_file(file: Named) -> BinaryIO:
    """The bytes that were listed, seekable: of a local file in place, of a remote one as they are needed.

    Of a file that changed since it was listed this is a Conflict, never other bytes.
    """
    if file.source.startswith("file:"):
        return open_local(file)
    folder = cache.in_use()
    if folder and file.etag and (found := cache.find_cached(_known(file), folder)):
        return found
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
    raise InvalidInput(f"{file.source!r} is no storage that can be read.", hint="Make a File by read_storage.")


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
                cache.forget(_known(file), own)


def _in_turn(files: Iterable[F], n: int, readers: ThreadPoolExecutor) -> Iterator[F]:
    waiting: deque[tuple[F, Future[None]]] = deque()
    try:
        for file in files:
            waiting.append((file, readers.submit(_fetch, file)))
            if len(waiting) > n:
                yield _ready(*waiting.popleft())
        while waiting:
            yield _ready(*waiting.popleft())
    finally:
        for _, future in waiting:
            future.cancel()


def _ready(file: F, future: Future[None]) -> F:
    future.result()
    return file


def _fetch(file: Named) -> None:
    if not file.source.startswith("file:"):
        with contextlib.suppress(Error):
            open_file(file).close()


def _known(file: Named) -> Known:
    return Known(file.source, file.path, file.size, file.version, file.etag)
