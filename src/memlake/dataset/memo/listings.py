"""Listings of storages: versioned like anything else, so that what did not change is not computed again.

A listing is made anew each time it is asked for, unless the caller is content with the last. Files that are as they
were stay in the fragments they were in; gone or changed ones leave their fragment's selection, new ones come behind.
So what was computed and stored for a fragment stays good; who needs the order of paths asks for it with order_by.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from memlake import config
from memlake.dataset import feedback, storages
from memlake.dataset.context import DatasetContext
from memlake.dataset.parts import parquet
from memlake.dataset.parts.frames import KEEP, Fragment, Frame, Kept
from memlake.dataset.types import arrow
from memlake.dataset.types.files import AudioFile, File, ImageFile, TextFile, VideoFile
from memlake.errors import InvalidInput, Unavailable
from memlake.named_tuple import NamedTuple
from memlake.objects.layout import now, read_id

_MANY = 8  # fragments of changes after which a listing is written anew


class Asked(NamedTuple):
    uris: tuple[str, ...]
    kind: str = "binary"
    column: str = "file"
    recursive: bool = True
    access: storages.Access = storages.Access()
    update: bool = True

    @property
    def name(self) -> str:
        return "\n".join((*self.uris, self.kind, self.column, "deep" if self.recursive else "flat"))


KINDS = {"binary": File, "text": TextFile, "image": ImageFile, "audio": AudioFile, "video": VideoFile}


def field(asked: Asked) -> pa.Field:
    """The column of a listing."""
    if asked.kind not in KINDS:
        raise InvalidInput(f"type is {asked.kind!r}; it takes one of {', '.join(KINDS)}.")
    return arrow.field_of(asked.column, KINDS[asked.kind])


def absolute_uris(uris: Sequence[Any]) -> tuple[str, ...]:
    """Storages as they are named in history: local ones by their whole path."""
    if not uris:
        raise InvalidInput("read_storage names no storage.")
    return tuple(str(uri) if "://" in str(uri) else os.path.abspath(os.path.expanduser(uri)) for uri in uris)


def list_storage(context: DatasetContext, asked: Asked) -> Frame:
    for uri in asked.uris if asked.access != storages.Access() else ():
        storages.ACCESS[storages.split(uri)[0]] = asked.access
    last = context.recall.listing(asked.name)
    if last is not None and not asked.update:
        told = f"using the listing of {_ago(now() - last[1])} ago: {last[0].rows:,} files. update=True lists again."
        feedback.warn(told)
        return last[0]
    begun = time.perf_counter()
    one = field(asked)
    found = _list_files(asked, one)
    frame = _extend(context, last[0], found, one) if last is not None else None
    if frame is None:
        schema = pa.schema([one])
        frame = Frame(schema, tuple(parquet.fragments([found], schema)))
    try:
        sealed = context.parts.seal(frame)
    except Unavailable:  # a full or read-only disk: it is listed again the next time
        return frame
    access = storages.describe(asked.access) if asked.access != storages.Access() else {}
    context.recall.keep_listing(asked.name, sealed, time.perf_counter() - begun, access)
    if access.get("client_config"):
        with contextlib.suppress(Unavailable):  # a home that is read-only: the next process has to be told again
            config.note_address(context.folder, _repo_id(context), _address(asked.name, access))
    return sealed


def reach(context: DatasetContext) -> None:
    """Storages that this user listed in another process are reached as they were then, secrets apart.

    The repo may come from a stranger, and an address in it would be sent the user's requests and files.
    """
    for name, told in context.recall.accesses().items():
        if told.get("client_config") and not config.is_own_address(_repo_id(context), _address(name, told)):
            continue
        access = storages.Access(**told)
        if access.anon and config.outside("AWS_ACCESS_KEY_ID"):  # who has keys now is no longer nobody
            access = access._replace(anon=None)
        for uri in name.split("\n")[:-3] if access != storages.Access() else ():
            storages.ACCESS.setdefault(storages.split(uri)[0], access)


def _repo_id(context: DatasetContext) -> str:
    return read_id(context.parts.objects.db)


def _address(name: str, access: dict[str, Any]) -> str:
    return json.dumps([name, access], sort_keys=True)


def _ago(microseconds: int) -> str:
    seconds = microseconds // 1_000_000
    for name, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= length:
            return f"{seconds // length} {name}"
    return f"{seconds} s"


def _list_files(asked: Asked, field: pa.Field) -> pa.Table:
    batches: list[pa.RecordBatch] = []
    for uri in asked.uris:
        found = list(storages.list_files(uri, access=asked.access, recursive=asked.recursive))
        if not found and storages.is_pattern(uri):
            feedback.warn(f"the pattern {uri} matches no file.")
        batches += found
    if not batches:
        return pa.schema([field]).empty_table()
    table = pa.Table.from_batches(batches).combine_chunks()
    arrays = [table.column(one.name).combine_chunks().cast(one.type) for one in field.type]
    return pa.Table.from_arrays(
        [pa.StructArray.from_arrays(arrays, fields=list(field.type))], schema=pa.schema([field])
    )


def _extend(context: DatasetContext, old: Frame, new: pa.Table, field: pa.Field) -> Frame | None:
    """The old fragments without what is gone, and what is new behind them; None when that would be a patchwork."""
    if len(old.fragments) > _MANY + new.num_rows // 200_000:
        return None
    fresh = _identity(new.column(0))
    fragments: list[Fragment] = []
    known: set[Any] = set()
    here = set(fresh)
    for fragment in old.fragments:
        table = context.parts.table(fragment.families[0], [field.name])
        keys = _identity(table.column(0))
        kept = np.ones(len(keys), bool) if fragment.kept is None else _mask(context, fragment)
        kept = kept & np.fromiter((key in here for key in keys), bool, len(keys))
        known.update(key for key, keep in zip(keys, kept, strict=True) if keep)
        if kept.all():
            fragments.append(fragment._replace(kept=None))
        elif kept.any():
            selection = parquet.make_family(pa.table({KEEP: pa.array(kept)}))
            same = fragment.kept is not None and fragment.kept.family.marks == selection.marks
            fragments.append(fragment if same else fragment._replace(kept=Kept(int(kept.sum()), selection)))
    more = np.fromiter((key not in known for key in fresh), bool, len(fresh))
    schema = pa.schema([field])
    if more.any():
        fragments += parquet.fragments([new.filter(pa.array(more))], schema)
    return Frame(schema, tuple(fragments))


def _mask(context: DatasetContext, fragment: Fragment) -> np.ndarray[Any, Any]:
    assert fragment.kept is not None
    return np.asarray(context.parts.table(fragment.kept.family, [KEEP]).column(KEEP).to_numpy())


def _identity(column: pa.ChunkedArray) -> list[Any]:
    """What makes a file the one it was: its name and its etag."""
    array = column.combine_chunks()
    fields = [pc.struct_field(array, name).to_pylist() for name in ("source", "path", "etag", "version")]
    return list(zip(*fields, strict=True))
