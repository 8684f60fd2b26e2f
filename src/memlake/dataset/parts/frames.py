"""Frames: where the rows of a version lie. Fragments of rows, each made of families of columns and the rows it keeps.

A family is a plain Parquet file of some columns of a fragment, or a table still in memory. `kept` is one more such
file with one column of booleans: a filter stores only that. Families of a fragment have the same number of rows in the
same order; a later one overrides an earlier one's column of the same name.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from memlake.dataset.parts import column_hashes
from memlake.dataset.types.field_metadata import is_unknown
from memlake.errors import Corrupt
from memlake.named_tuple import NamedTuple

ROWS = 262_144  # of a fragment, at most
KEEP = "keep"  # the one column of a selection


class Family(NamedTuple):
    """Some columns of a fragment. `oid` is None while they are only in memory; `marks` hash what each column says.

    `footer` is a hash of where the file says its columns are, which no sum inside it covers.
    """

    columns: tuple[str, ...]
    marks: tuple[str, ...]
    size: int
    oid: str | None = None
    table: pa.Table | None = None
    footer: str = ""

    def mark_of(self, column: str) -> str:
        return self.marks[self.columns.index(column)]


class Kept(NamedTuple):
    """Which rows of a fragment are in: how many, and the family of booleans that says which."""

    rows: int
    family: Family


class Fragment(NamedTuple):
    rows: int
    families: tuple[Family, ...]
    kept: Kept | None = None

    @property
    def visible(self) -> int:
        return self.rows if self.kept is None else self.kept.rows

    def home(self, column: str) -> Family:
        """The family a column is read from: the last that has it."""
        family: Family
        for family in reversed(self.families):
            if column in family.columns:
                return family
        raise Corrupt(f"column {column!r} is in no family of its fragment.", hint="Run memlake fsck.")

    def list_homes(self, columns: Sequence[str]) -> Mapping[int, Sequence[str]]:
        """Which family each column is read from: index of the family -> its columns."""
        homes: dict[int, list[str]] = {}
        for name in columns:
            family = self.home(name)
            homes.setdefault(next(i for i, one in enumerate(self.families) if one is family), []).append(name)
        return homes or ({0: list(self.families[0].columns[:1])} if not columns else homes)

    def mark(self, columns: Iterable[str]) -> str:
        """What these columns say in the rows that are kept."""
        kept = self.kept.family.marks[0] if self.kept else ""
        return column_hashes.of(self.rows, kept, *((name, self.home(name).mark_of(name)) for name in columns))


class Trace(NamedTuple):
    """Which rows of the sources each row of a version came from; or `why` nobody can tell.

    A source is told by `kind` and `name`, and more where there is more to tell. Its rows are in column `from_<number>`
    of the fragments: places counted from 0, or names of files, one or a list of them. With `same` there is no column,
    because row n came from row n. A source of kind "group" is one of the groups that an aggregate made on the way, and
    `groups[source["group"]]` says in the same columns which rows were in each, so that no row lists them again.
    """

    sources: tuple[Mapping[str, Any], ...] = ()
    fragments: tuple[Fragment, ...] = ()
    groups: tuple[tuple[Fragment, ...], ...] = ()
    why: str = ""
    notes: tuple[str, ...] = ()  # of steps that look at other rows too

    def families(self) -> Iterator[Family]:
        return (family for fragments in (self.fragments, *self.groups) for one in fragments for family in one.families)

    def convert(self, change: Callable[[Fragment], Fragment]) -> Trace:
        """The same with other fragments."""
        groups = tuple(tuple(map(change, each)) for each in self.groups)
        return self._replace(fragments=tuple(map(change, self.fragments)), groups=groups)

    def encode(self) -> dict[str, Any]:
        fragments, *groups = ([_encode_fragment(one) for one in each] for each in (self.fragments, *self.groups))
        sources = [dict(one) for one in self.sources]
        told = {"why": self.why, "notes": list(self.notes)}
        return {"sources": sources, "fragments": fragments, "groups": groups, **told}


class Frame(NamedTuple):
    schema: pa.Schema
    fragments: tuple[Fragment, ...]
    trace: Trace | None = None  # of a version, or of a plan that was run to be kept

    @property
    def rows(self) -> int:
        return sum(fragment.visible for fragment in self.fragments)

    @property
    def size(self) -> int:
        """Bytes of its rows; what tells where they came from is not counted."""
        return sum(family.size for fragment in self.fragments for family in _families_of(fragment))

    def families(self) -> Iterator[Family]:
        for fragment in self.fragments:
            yield from _families_of(fragment)
        if self.trace is not None:
            yield from self.trace.families()

    def content(self) -> str:
        """The identity of the rows: their schema and values, not the bytes a writer happened to produce."""
        shape = [
            (
                field.name,
                column_hashes.type_text(field.type),
                ((field.metadata or {}).get(b"memlake.class") or b"").decode(),
            )
            for field in self.schema
        ]
        return column_hashes.of(
            shape, *(fragment.mark(self.schema.names) for fragment in self.fragments if fragment.visible)
        )

    def select(self, schema: pa.Schema) -> Frame:
        """The same rows with fewer columns: families nobody reads any more are left out."""
        fragments = []
        for fragment in self.fragments:
            homes = {id(fragment.home(name)) for name in schema.names}
            families = tuple(family for family in fragment.families if id(family) in homes)
            fragments.append(fragment._replace(families=families or fragment.families[:1]))
        return Frame(schema, tuple(fragments))

    def settle_types(self) -> Frame:
        """The same rows; a column of which no row told the type is one of nothing, for good."""
        fields = [one.with_metadata(None) if is_unknown(one) else one for one in self.schema]
        return Frame(pa.schema(fields), self.fragments)

    def encode(self) -> dict[str, Any]:
        trace = {"trace": self.trace.encode()} if self.trace is not None else {}
        return {"fragments": [_encode_fragment(fragment) for fragment in self.fragments if fragment.visible], **trace}


def decode(schema: pa.Schema, data: Mapping[str, Any]) -> Frame:
    told = data.get("trace")
    trace = _decode_trace(told) if told is not None else None
    return Frame(schema, tuple(_decode_fragment(row) for row in data["fragments"]), trace)


def _families_of(fragment: Fragment) -> Iterator[Family]:
    yield from fragment.families
    if fragment.kept:
        yield fragment.kept.family


def _decode_trace(told: Mapping[str, Any]) -> Trace:
    sources = tuple({**one, "kind": str(one["kind"]), "name": str(one["name"])} for one in told["sources"])
    fragments, *groups = (tuple(map(_decode_fragment, each)) for each in (told["fragments"], *told["groups"]))
    return Trace(sources, fragments, tuple(groups), str(told["why"]), tuple(map(str, told["notes"])))


def encode_schema(schema: pa.Schema) -> str:
    return bytes(schema.serialize()).hex()


def decode_schema(text: str) -> pa.Schema:
    return pa.ipc.read_schema(pa.py_buffer(bytes.fromhex(text)))


def encode_manifest(frame: Frame) -> bytes:
    return json.dumps({"format": 1, **frame.encode()}, separators=(",", ":")).encode()


def _encode_fragment(fragment: Fragment) -> dict[str, Any]:
    out: dict[str, Any] = {"rows": fragment.rows, "families": [encode_family(family) for family in fragment.families]}
    if fragment.kept:
        out["kept"] = {"rows": fragment.kept.rows, **encode_family(fragment.kept.family)}
    return out


def encode_family(family: Family) -> dict[str, Any]:
    return {
        "part": family.oid,
        "bytes": family.size,
        "footer": family.footer,
        "columns": dict(zip(family.columns, family.marks, strict=True)),
    }


def _decode_fragment(data: Mapping[str, Any]) -> Fragment:
    kept = data.get("kept")
    rows, visible = data["rows"], kept["rows"] if kept else data["rows"]
    # Memory is asked for by these counts, so a stranger's manifest may not say any number.
    if type(rows) is not int or type(visible) is not int or not 0 <= visible <= rows <= ROWS:
        raise ValueError(f"a fragment of {rows!r} rows, {visible!r} of them kept, where {ROWS} are the most")
    return Fragment(
        rows,
        tuple(decode_family(row) for row in data["families"]),
        Kept(kept["rows"], decode_family(kept)) if kept else None,
    )


def decode_family(data: Mapping[str, Any]) -> Family:
    columns = data["columns"]
    if len(data["part"]) != 64 or type(data["bytes"]) is not int:
        raise ValueError(f"{data['part']!r:.80} of {data['bytes']!r} bytes is no part")
    return Family(tuple(columns), tuple(columns.values()), data["bytes"], data["part"], footer=data["footer"])


def decode_manifest(schema: pa.Schema, data: bytes) -> Frame:
    try:
        return decode(schema, json.loads(data))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise Corrupt(f"the manifest of a dataset cannot be read: {error}.", hint="Run memlake fsck.") from error
