"""Keys of rows by what is in their files, so that work over a file is known again in another folder and machine.

The keys by which work is known at once are of a file's source, etag and time, and cost nothing. These are asked where
those know nothing, and made where an answer was dear enough to pay for reading the file. Knows no functions.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from memlake.dataset import storages
from memlake.dataset.memo.results import KEY, Memo
from memlake.dataset.parts import column_hashes
from memlake.dataset.plan.nodes import Call
from memlake.dataset.run.call_work import is_file, read_column
from memlake.dataset.types import files
from memlake.named_tuple import NamedTuple

Array = np.ndarray[Any, Any]
BYTES, PATH, PLACE = 0, 1, 2  # what an answer hangs on: the bytes of the files, their paths as well, or more than that
_SPEED, _OPEN = 5e8, 5e-5  # bytes a second that are hashed, and seconds that a row's key costs beside that
FindTracked = Callable[[Mapping[str, os.stat_result]], Mapping[str, str]]


def level_of(looked: frozenset[str]) -> int:
    return PLACE if files.PLACE in looked else PATH if files.PATH in looked else BYTES


class Keys(NamedTuple):
    """For each row, two keys; which one is meant depends on whether the function looks at paths."""

    known: Array  # rows all of whose files are known by their bytes
    by_bytes: Array
    by_path: Array


class FileKeys:
    """Of the rows of one call that reads files."""

    def __init__(self, call: Call, schema: pa.Schema, function: str, make_keys: Callable[[pa.Table], Array]) -> None:
        self.function = column_hashes.of("files", function)
        self._paths, self._schema = tuple(dict.fromkeys((*call.binds.values(), *call.by))), schema
        self._make_keys = make_keys

    def read(
        self, table: pa.Table, recall: Memo, find_tracked: FindTracked, *, worth: float, after: bool
    ) -> Keys | None:
        """Keys of these rows; None if they cost more than `worth` seconds. So do files that would have to be read.

        `after` the function ran, a file that is not now the one that was listed has none, because it might have
        changed while the function read it.
        """
        if len(table) * _OPEN > worth:
            return None
        known = np.ones(len(table), bool)
        with_bytes, with_path = [], []
        for path in self._paths:
            field, array = read_column(table, self._schema, path)
            if not is_file(field):
                with_bytes.append(array)
                with_path.append(array)
                continue
            oids = _Hashes(array, recall).read(find_tracked, worth, after=after)
            known &= np.fromiter((oid is not None for oid in oids), bool, len(table))
            said = [pa.array(oids, pa.string()), *(pc.struct_field(array, one) for one in ("version", "is_latest"))]
            with_bytes.append(pa.StructArray.from_arrays(said, ["bytes", "version", "is_latest"]))
            said.append(pc.struct_field(array, "path"))
            with_path.append(pa.StructArray.from_arrays(said, ["bytes", "version", "is_latest", "path"]))
        names = [f"c{i}" for i in range(len(self._paths))]
        by_bytes, by_path = (self._make_keys(pa.Table.from_arrays(each, names)) for each in (with_bytes, with_path))
        return Keys(known, by_bytes, by_path)


def find(call: Call, schema: pa.Schema, function: str, make_keys: Callable[[pa.Table], Array]) -> FileKeys | None:
    """None for a call that reads no files."""
    if call.binds and any(is_file(schema.field(name)) for name in call.columns):
        return FileKeys(call, schema, function, make_keys)
    return None


class _Hashes:
    """Of the files of a column: the SHA-256 of each that is local and can be had for the time that it is worth."""

    def __init__(self, column: pa.StructArray, recall: Memo) -> None:
        values = (pc.struct_field(column, name).to_pylist() for name in ("source", "path", "size", "version", "etag"))
        self._files = [storages.Known(*row) if row[0] and row[4] else None for row in zip(*values, strict=True)]
        self._recall = recall

    def read(self, find_tracked: FindTracked, worth: float, *, after: bool) -> Sequence[str | None]:
        local = {i: one for i, one in enumerate(self._files) if one is not None and one.source.startswith("file:")}
        stats: dict[int, os.stat_result] = {}
        for i, one in tuple(local.items()) if after else ():
            state = _stat(one)
            if state is None or storages.etag_of(state) != one.etag:
                del local[i]
            else:
                stats[i] = state
        keys = {i: _key(one) for i, one in local.items()}
        remembered = self._recall.find_contents(keys.values())
        oids = {i: remembered[key].hex() for i, key in keys.items() if key in remembered}
        lasting = self._find_tracked(find_tracked, {i: one for i, one in local.items() if i not in oids}, stats)
        rest = [i for i in local if i not in oids and i not in lasting]
        if sum(local[i].size for i in rest) / _SPEED <= worth:
            for i in rest:
                oid, is_lasting = storages.hash_unchanged(local[i]) or ("", False)
                if oid and is_lasting:
                    lasting[i] = oid
                elif oid and not after:  # what is asked for now are these bytes, whatever comes after them
                    oids[i] = oid
        self._recall.keep_contents({keys[i]: bytes.fromhex(oid) for i, oid in lasting.items()})
        oids |= lasting
        return [oids.get(i) for i in range(len(self._files))]

    def _find_tracked(
        self, find_tracked: FindTracked, rest: Mapping[int, storages.Known], stats: Mapping[int, os.stat_result]
    ) -> dict[int, str]:
        """Those that the working folder has as they were read into the repo: their hashes are known there."""
        paths, now = dict[str, int](), dict[str, os.stat_result]()
        for i, one in rest.items():
            state = stats.get(i) or _stat(one)
            if state is not None and storages.etag_of(state) == one.etag:
                path = storages.local_path(one)
                paths[path], now[path] = i, state
        return {paths[path]: oid for path, oid in find_tracked(now).items()}


def _stat(file: storages.Known) -> os.stat_result | None:
    try:
        return os.stat(storages.local_path(file))
    except (OSError, ValueError):
        return None


def _key(file: storages.Known) -> bytes:
    words = "\0".join((file.source, file.path, file.etag, file.version))
    return hashlib.blake2b(words.encode(), digest_size=KEY.itemsize).digest()
