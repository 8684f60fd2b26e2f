"""Storages: places outside the repo whose files are listed and read: folders, buckets, the web. Knows no datasets."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

import pyarrow as pa

from memlake.datasets.storages.access import ACCESS, USUAL, Access, access_of, describe
from memlake.datasets.storages.buckets import list_bucket
from memlake.datasets.storages.columns import SCHEMA
from memlake.datasets.storages.folders import list_folder
from memlake.datasets.storages.location import BUCKETS, locate

__all__ = ["ACCESS", "SCHEMA", "Access", "describe", "list_files", "list_many", "split"]

Uri = str | os.PathLike[str]


def split(uri: Uri) -> tuple[str, str]:
    """`data/pets/` as ("file:///abs/data", "pets/"), `s3://b/x/*.jpg` as ("s3://b", "x/*.jpg")."""
    found = locate(uri)
    return found.source, found.prefix + found.pattern


def list_files(uri: Uri, *, access: Access = USUAL, recursive: bool = True) -> Iterator[pa.RecordBatch]:
    """The files of a storage, in order of their paths, in batches of SCHEMA."""
    found = locate(uri)
    depth = None if recursive else 0
    if found.scheme in BUCKETS:
        return list_bucket(found, access_of(found.source, access), depth=depth)
    return list_folder(found, depth=depth)


def list_many(uris: Iterable[Uri], *, access: Access = USUAL, recursive: bool = True) -> Iterator[pa.RecordBatch]:
    for uri in uris:
        yield from list_files(uri, access=access, recursive=recursive)
