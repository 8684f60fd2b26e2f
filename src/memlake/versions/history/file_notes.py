"""What `add` notes about a file beside its content, and the object of a commit that holds these notes. Pure.

    note = media TAB time TAB creator [TAB rows TAB schema as JSON];  object = one line a path: path TAB note, sorted

A path cannot hold a tab or a line end, nor can a creator. Ten thousand files cost a join, not ten thousand encodings.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

from memlake.reports import About

Schema = tuple[tuple[str, str], ...]


def make(media: str, time: int, creator: str, schema: Schema = (), rows: int | None = None) -> str:
    note = f"{media}\t{time}\t{' '.join(creator.split())}"
    if not schema:
        return note
    return f"{note}\t{'' if rows is None else rows}\t{json.dumps(schema, separators=(',', ':'))}"


def encode(notes: Iterable[tuple[str, str]]) -> bytes:
    """(path, note) of each file, as the object a commit names."""
    return "".join(sorted(f"{path}\t{note}\n" for path, note in notes)).encode()


def decode(data: bytes) -> Mapping[str, str]:
    """path -> note."""
    return dict(line.split("\t", 1) for line in data.decode().split("\n") if "\t" in line)


def parse(note: str, size: int) -> About:
    media, time, creator, *more = note.split("\t")
    if not more:
        return About(media, size, int(time), creator)
    schema = tuple((column, kind) for column, kind in json.loads(more[1]))
    return About(media, size, int(time), creator, schema, int(more[0]) if more[0] else None)


def has_schema(note: str) -> bool:
    return note.count("\t") > 2
