"""Storages: places outside the repo whose files are listed and read: folders, buckets, the web. Knows no datasets."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import BinaryIO

import pyarrow as pa

from memlake.dataset.storages import buckets, web
from memlake.dataset.storages.access import ACCESS, USUAL, Access, access_of, describe
from memlake.dataset.storages.cache import use
from memlake.dataset.storages.listing_columns import SCHEMA
from memlake.dataset.storages.local_folders import etag_of, list_folder, local_path, write_local
from memlake.dataset.storages.location import BUCKETS, WEB, Location, locate, path_of
from memlake.dataset.storages.prefetch import open_file, prefetch, reach
from memlake.dataset.storages.remote_file import Known, Named
from memlake.errors import InvalidInput, NotFound

__all__ = [
    "ACCESS",
    "SCHEMA",
    "Access",
    "describe",
    "etag_of",
    "exists",
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


def split(uri: Uri) -> tuple[str, str]:
    """`data/pets/` as ("file:///abs/data", "pets/"), `s3://b/x/*.jpg` as ("s3://b", "x/*.jpg")."""
    found = locate(uri)
    return found.source, found.prefix + found.pattern


def is_pattern(uri: Uri) -> bool:
    """Whether it has a wildcard in it that is no part of a name that is there."""
    return bool(locate(uri).pattern)


def list_files(uri: Uri, *, access: Access = USUAL, recursive: bool = True) -> Iterator[pa.RecordBatch]:
    """The files of a storage, in order of their paths, in batches of SCHEMA."""
    return _listed(locate(uri), access, recursive=recursive)


def list_many(uris: Iterable[Uri], *, access: Access = USUAL, recursive: bool = True) -> Iterator[pa.RecordBatch]:
    """One storage after the other; web addresses that follow each other are asked for together."""
    for is_web, some in groupby(map(locate, uris), lambda one: one.scheme in WEB):
        if is_web:
            yield from web.list_urls(list(some), access)
        else:
            for one in some:
                yield from _listed(one, access, recursive=recursive)


def _listed(found: Location, access: Access, *, recursive: bool) -> Iterator[pa.RecordBatch]:
    if found.scheme in WEB:
        return web.list_urls([found], access)
    depth = None if recursive else 0
    if found.scheme in BUCKETS:
        return buckets.list_bucket(found, access_of(found.source, access), depth=depth)
    return list_folder(found, depth=depth)


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
    found = locate(uri)
    if found.pattern or not found.prefix or found.prefix.endswith("/"):
        raise InvalidInput(f"{os.fspath(uri)!r} is not the name of a file; nothing was written.")
    if found.scheme in WEB:
        raise InvalidInput(f"{found.source} cannot be written to.", hint="Write to a folder or a bucket.")
    if found.scheme in BUCKETS:
        buckets.write_object(found, data, access_of(found.source))
    else:
        write_local(found, data)
