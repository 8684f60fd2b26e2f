"""Buckets as storages: s3://, gs:// and az:// through obstore."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, BinaryIO

import pyarrow as pa

from memlake.dataset.storages.access import Access, bucket_options
from memlake.dataset.storages.listing_columns import Listed, batch_of
from memlake.dataset.storages.location import Location
from memlake.dataset.storages.patterns import compile_pattern
from memlake.dataset.storages.remote_file import Known, Named, Remote, changed_error, missing_error
from memlake.errors import Corrupt, Denied, InvalidInput, NotFound
from memlake.objects.object_store import Connection

Meta = dict[str, Any]
_PAGE = 5000  # keys held at once
_ASKERS = 16
_KEYS = {
    "s3": "AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY",
    "gs": "GOOGLE_APPLICATION_CREDENTIALS",
    "az": "AZURE_STORAGE_ACCOUNT_NAME, AZURE_STORAGE_ACCOUNT_KEY",
}
_OPEN: dict[tuple[str, str], Connection] = {}


def connect(source: str, access: Access) -> Connection:
    """One connection a bucket and way of access, kept for the life of the process."""
    options = bucket_options(source.partition(":")[0], access)
    key = (source, json.dumps(options, sort_keys=True, default=str))
    if key not in _OPEN:
        _OPEN[key] = Connection(source, **options)
    return _OPEN[key]


@contextmanager
def request(bucket: Connection, name: str, *, missing: str = "name") -> Iterator[None]:
    """One request whose refusal says what a reader of data can do about it."""
    try:
        with bucket.request(name, missing=missing):
            yield
    except Denied as error:
        hint = "For a public bucket give anon=True; else give keys in client_config or the environment"
        if bucket.is_anonymous:
            hint = "It is not public: say anon=False, with keys in client_config or the environment"
        raise Denied(error.message, hint=f"{hint} ({_KEYS[bucket.scheme]}).") from None


def list_bucket(location: Location, access: Access, *, depth: int | None) -> Iterator[pa.RecordBatch]:
    bucket = connect(location.source, access)
    pattern = compile_pattern(location.pattern) if location.pattern else None
    wanted = location.prefix
    if wanted and not wanted.endswith("/"):
        if (one := find(bucket, wanted)) is not None:
            yield _batch(location.source, [one])
            return
        wanted += "/"
    flat = (depth if pattern is None else pattern.depth) == 0
    met = False
    for page in _pages(bucket, wanted, flat=flat):
        met = met or bool(page)
        files = [meta for meta in page if not pattern or pattern.regex.fullmatch(meta["path"], len(wanted))]
        if files := _without_markers(bucket, files):
            yield _batch(location.source, files)
    if wanted and not met:
        what = f"{location.source} has nothing under {wanted!r}; nothing was listed."
        raise NotFound(what, hint="Check the spelling: keys are told apart by upper and lower case.")


def _pages(bucket: Connection, prefix: str, *, flat: bool) -> Iterator[list[Meta]]:
    """obstore names a folder without its slash, and lists beside its content the marker that stands for it."""
    folder = prefix.rstrip("/") or None
    with request(bucket, prefix or "its keys", missing="bucket"):
        if flat:
            yield bucket.obstore.list_with_delimiter(bucket.store, folder)["objects"]
        else:
            yield from bucket.obstore.list(bucket.store, folder, chunk_size=_PAGE)


def _without_markers(bucket: Connection, files: list[Meta]) -> list[Meta]:
    """Without keys that end in a slash: consoles make them to show a folder.

    obstore cuts the slash off, so an empty object is a file only if there is one of that very name.
    """
    empty = [meta["path"] for meta in files if not meta["size"]]
    if not empty:
        return files
    with ThreadPoolExecutor(_ASKERS) as askers:
        heads = askers.map(lambda path: find(bucket, path), empty)
        markers = {path for path, meta in zip(empty, heads, strict=True) if meta is None}
    return [meta for meta in files if meta["path"] not in markers or meta["size"]]


def find(bucket: Connection, path: str) -> Meta | None:
    try:
        with request(bucket, path):
            meta: Meta = bucket.obstore.head(bucket.store, path)
            return meta
    except NotFound as error:
        if "no bucket" in error.message:
            raise
        return None


def _batch(source: str, files: list[Meta]) -> pa.RecordBatch:
    listed = Listed(
        [meta["path"] for meta in files],
        [meta["size"] for meta in files],
        [_bare(meta) for meta in files],
        [int(meta["last_modified"].timestamp() * 1_000_000) for meta in files],
        [meta["version"] or "" for meta in files],
    )
    return batch_of(source, listed)


def _bare(meta: Meta) -> str:
    """An etag without its quotes; a store that keeps none is told apart by time and size."""
    return (meta["e_tag"] or f"{int(meta['last_modified'].timestamp())}-{meta['size']}").strip('"')


def reach(file: Named, access: Access) -> Remote:
    """A key as bytes to read; what is not known of it is asked for."""
    if any(piece in ("", ".", "..") for piece in file.path.split("/")):
        raise InvalidInput(
            f"{file.path!r} cannot be the key of a file in {file.source}: a piece of it is empty, '.' or '..'. "
            "Nothing was read.",
            hint="Name the key as the bucket lists it.",
        )
    bucket = connect(file.source, access)
    if not file.etag:
        if (meta := find(bucket, file.path)) is None:
            raise missing_error(file)
        known = Known(file.source, file.path, meta["size"], file.version, _bare(meta))
    else:
        known = Known(file.source, file.path, file.size, file.version, file.etag)
    return Remote(known, lambda start, end: _read(bucket, known, (start, end)))


def _read(bucket: Connection, file: Known, span: tuple[int, int]) -> bytes:
    """What is compared is what the answer says of itself: not every store knows If-Match.

    obstore asks again by itself when refused, and for the rest when an answer breaks off.
    """
    options: dict[str, Any] = {"version": file.version} if file.version else {}
    if span[1] > span[0]:
        options["range"] = span
    try:
        with request(bucket, file.path):
            answer = bucket.obstore.get(bucket.store, file.path, options=options)
            if (answer.meta["size"], _bare(answer.meta)) != (file.size, file.etag):
                raise changed_error(file)
            return bytes(answer.bytes())
    except (NotFound, Corrupt) as error:
        if "no bucket" in error.message:
            raise
        raise (
            changed_error(file) if isinstance(error, Corrupt) else missing_error(file)
        ) from None  # Corrupt: it became shorter


def write_object(location: Location, data: bytes | BinaryIO, access: Access) -> None:
    bucket = connect(location.source, access)
    with request(bucket, location.prefix, missing="bucket"):
        bucket.obstore.put(bucket.store, location.prefix, data)
