"""Files that hold one matrix of floats, a vector in each row, and the ids of the rows: read, and written again.

The ids are an array or a note in the same file, or a file beside it: for `vectors.npy` one called `vectors.ids.txt`, or
`ids.txt` if it has as many ids as there are vectors; with an id on each line, or as `.json`, `.csv` or `.npy`. Without
any, rows are told apart by their place.
"""

from __future__ import annotations

import contextlib
import csv
import io
import json
import struct
import zipfile
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from memlake.contents.content import Content, Unreadable
from memlake.contents.merge_documents import write_json
from memlake.contents.tensors import Archive, Array, Tensor, decode, encode, open_archive
from memlake.named_tuple import NamedTuple
from memlake.rows.vectors import Vectors

_FLOATS = frozenset({"F64", "F32", "F16", "BF16"})
_WHOLE = frozenset({"I64", "I32", "I16", "U64", "U32", "U16", "U8", "I8"})
_ID_NAMES = frozenset({"id", "ids", "key", "keys", "name", "names", "label", "labels", "index"})
_MODEL_NAMES = ("model", "model_name", "embedding_model")
_ROWS, _WIDTH = 16, 8  # a matrix without ids that is smaller is not taken for embeddings
_LARGEST = 4 << 30  # bytes of a matrix; a larger one is compared block by block, as a checkpoint
_IDS = 256 << 20  # bytes of a file of ids
_IDS_SUFFIXES = ("txt", "json", "csv", "npy")
ROW_NUMBERS = "the number of the row"


class Layout(NamedTuple):
    """Where a file has its matrix and its ids: in `ids`, an array of the same file, in `listed`, or in `ids_file`."""

    archive: Archive
    name: str
    ids: str = ""
    listed: Sequence[Any] | None = None
    ids_file: Content | None = None
    model: str = ""

    @property
    def matrix(self) -> Tensor:
        return self.archive.tensors[self.name]

    @property
    def ids_from(self) -> str:
        if self.ids_file is not None:
            return self.ids_file.path.rsplit("/", 1)[-1]
        if self.ids:
            return f"the array {self.ids}"
        return "the metadata" if self.listed is not None else ROW_NUMBERS


def find_layout(content: Content) -> Layout | None:
    archive = open_archive(content)
    matrices = [name for name, tensor in archive.tensors.items() if len(tensor.shape) == 2]
    if len(matrices) != 1 or archive.tensors[matrices[0]].dtype not in _FLOATS:
        return None
    layout = Layout(archive, matrices[0], model=_find_model(archive))
    rows, width = layout.matrix.shape
    if layout.matrix.size > _LARGEST or width < 2:
        return None
    for name, tensor in archive.tensors.items():
        is_list = tensor.shape == (rows,) and (tensor.is_text or tensor.dtype in _WHOLE)
        if is_list and name.lower() in _ID_NAMES and not layout.ids:
            layout = layout._replace(ids=name)
        elif name != layout.name and not _is_note(name, tensor):
            return None  # it holds more than vectors
    if not layout.ids:
        layout = layout._replace(listed=_find_listed(archive))
    if not layout.ids and layout.listed is None:
        layout = layout._replace(ids_file=_find_ids_file(content, rows))
    if layout.ids_from == ROW_NUMBERS and (rows < _ROWS or width < _WIDTH):
        return None
    return layout


def _is_note(name: str, tensor: Tensor) -> bool:
    return name in _MODEL_NAMES and tensor.shape == () and tensor.is_text


def _find_model(archive: Archive) -> str:
    for name in _MODEL_NAMES:
        if name in archive.metadata:
            return str(archive.metadata[name])
        if name in archive.tensors and _is_note(name, archive.tensors[name]):
            return str(archive.tensors[name].read_array())
    return ""


def _find_listed(archive: Archive) -> Sequence[Any] | None:
    """The ids in the metadata of safetensors, whose values are texts: a list as JSON."""
    try:
        listed = json.loads(archive.metadata["ids"])
    except (KeyError, TypeError, ValueError, RecursionError):
        return None
    return listed if isinstance(listed, list) else None


def _find_ids_file(content: Content, rows: int) -> Content | None:
    """One named after the file, or after nothing: that may be of another file in the folder, or of none."""
    stem = content.path.rpartition(".")[0]
    for suffix in _IDS_SUFFIXES:
        if (found := content.find_beside(f"{stem}.ids.{suffix}")) is not None:
            return found
    folder = content.path.rpartition("/")[0]
    for suffix in _IDS_SUFFIXES:
        found = content.find_beside(f"{folder}/ids.{suffix}".removeprefix("/"))
        if found is not None and found.path != content.path:
            with contextlib.suppress(Unreadable):
                return found if len(parse_ids(found)) == rows else None
    return None


def read_vectors(content: Content, layout: Layout) -> Vectors:
    return Vectors(read_ids(content, layout), layout.matrix.read_array(), layout.matrix.dtype, layout.model)


def read_ids(content: Content, layout: Layout) -> list[str]:
    """The ids of the rows in their order, as text."""
    rows = layout.matrix.shape[0]
    if layout.ids:
        names = layout.archive.tensors[layout.ids].read_array().tolist()
        return [name.decode("utf-8", "replace") if isinstance(name, bytes) else str(name) for name in names]
    listed = layout.listed
    if layout.ids_file is not None:
        listed = parse_ids(layout.ids_file)
    if listed is None:
        return [str(row) for row in range(rows)]
    if len(listed) != rows:
        raise Unreadable(f"{layout.ids_from} has {len(listed):,} ids, but {content.path} has {rows:,} vectors")
    return [str(name) for name in listed]


def parse_ids(content: Content) -> list[Any]:
    if content.size > _IDS:
        raise Unreadable(f"{content.path} takes {content.size:,} bytes, which is too much for a list of ids")
    try:
        with content:
            if content.suffix == "npy":
                return _parse_array(content)
            text = content.read_whole().decode("utf-8-sig")
        if content.suffix == "csv":
            rows, column, first = _parse_csv(text)
            return [row[column] for row in rows[first:]]
        if content.suffix != "json":
            return text.splitlines()
        listed = json.loads(text)
    except (UnicodeError, ValueError, RecursionError, IndexError, csv.Error) as error:
        raise Unreadable(f"{content.path} cannot be read as a list of ids: {error}") from error
    if not isinstance(listed, list) or any(isinstance(name, list | dict) for name in listed):
        raise Unreadable(f"{content.path} is not a list of ids")
    return listed


def _parse_array(content: Content) -> list[Any]:
    (tensor,) = open_archive(content).tensors.values()
    if len(tensor.shape) != 1 or not (tensor.is_text or tensor.dtype in _WHOLE):
        raise ValueError("it is not one row of texts or whole numbers")
    names: list[Any] = tensor.read_array().tolist()
    return [name.decode("utf-8", "replace") if isinstance(name, bytes) else name for name in names]


def _parse_csv(text: str) -> tuple[list[list[str]], int, int]:
    """The rows, the column of the ids, and the first row that is not a header."""
    rows = [row for row in csv.reader(io.StringIO(text, newline="")) if row]
    header = [name.strip().lower() for name in rows[0]] if rows else []
    column = next((place for place, name in enumerate(header) if name in _ID_NAMES), None)
    return rows, column or 0, 0 if column is None else 1


def get_layout(content: Content) -> Layout:
    layout = find_layout(content)
    if layout is None:
        raise Unreadable(f"{content.path} does not hold one matrix of vectors")
    return layout


# -- writing ------------------------------------------------------------------------------------


def write_vectors(ours: Content, layout: Layout, ids: Sequence[str], matrix: Array) -> bytes:
    """Other vectors in the format of a file: its names, types, order and notes stay, and the same input gives the same
    bytes.
    """
    arrays = {name: tensor for name, tensor in layout.archive.tensors.items() if name not in (layout.name, layout.ids)}
    if layout.archive.format == "safetensors":
        return _write_safetensors(ours, layout, ids, matrix)
    members = {name: _to_npy(tensor.read_array(), is_fortran=False) for name, tensor in arrays.items()}
    members[layout.name] = _to_npy(matrix, is_fortran=layout.matrix.strides is not None)
    if layout.archive.format == "npy":
        return members[layout.name]
    members[layout.ids] = _to_npy(_to_id_array(layout, ids), is_fortran=False)
    out = io.BytesIO()
    with zipfile.ZipFile(ours.open()) as old, zipfile.ZipFile(out, "w") as archive:
        kind = old.infolist()[0].compress_type
        for name in layout.archive.tensors:
            archive.writestr(zipfile.ZipInfo(f"{name}.npy"), members[name], kind)  # dated 1980, always
    return out.getvalue()


def write_ids(file: Content, ids: Sequence[str]) -> bytes:
    """Other ids in the format of a file of ids."""
    listed = parse_ids(file)
    names = [*map(_to_listed(listed), ids)]
    if file.suffix == "npy":
        return _to_npy(np.array(names, "<i8" if names and type(names[0]) is int else "U"), is_fortran=False)
    data = file.read_whole()
    if file.suffix == "json":
        return write_json(data, [((), names)])
    end = "\r\n" if b"\r\n" in data else "\n"
    lines = [*map(str, names)]
    if file.suffix == "csv":
        rows, _, first = _parse_csv(data.decode("utf-8-sig"))
        if any(len(row) > 1 for row in rows):
            raise Unreadable(
                f"{file.path} has more columns than that of the ids, so it cannot be joined with its vectors"
            )
        out = io.StringIO()
        csv.writer(out, lineterminator=end).writerows([*rows[:first], *([name] for name in lines)])
        return out.getvalue().encode()
    text = end.join(lines) + (end if data.endswith(b"\n") or not data else "")
    return text.encode()


def _to_npy(array: Array, *, is_fortran: bool) -> bytes:
    out = io.BytesIO()
    laid_out = np.asfortranarray(array) if is_fortran else np.ascontiguousarray(array).reshape(array.shape)
    np.lib.format.write_array(out, laid_out, allow_pickle=False)
    return out.getvalue()


def _to_id_array(layout: Layout, ids: Sequence[str]) -> Array:
    """Ids in the type that the file has for them; texts as wide as the longest."""
    tensor = layout.archive.tensors[layout.ids]
    try:
        if not tensor.is_text:
            return np.array([int(name) for name in ids], decode(tensor.dtype, b"").dtype)
        return np.array([name.encode() for name in ids], "S") if tensor.dtype[1] == "S" else np.array(ids, "U")
    except (ValueError, OverflowError) as error:
        raise Unreadable(f"the array {layout.ids} cannot hold an id of the other side: {error}") from error


def _write_safetensors(ours: Content, layout: Layout, ids: Sequence[str], matrix: Array) -> bytes:
    (length,) = struct.unpack("<Q", ours.read(8))
    header, parts, at = json.loads(ours.read(length, 8)), list[bytes](), 0
    for name, facts in header.items():
        if name == "__metadata__":
            if layout.listed is not None:
                facts["ids"] = json.dumps([*map(_to_listed(layout.listed), ids)], ensure_ascii=False)
            continue
        tensor = layout.archive.tensors[name]
        data = tensor.read(0, tensor.size)
        if name == layout.name:
            data = encode(tensor.dtype, matrix)
        elif name == layout.ids:
            data = np.ascontiguousarray(_to_id_array(layout, ids)).tobytes()
        if name in (layout.name, layout.ids):
            facts["shape"] = [len(ids), *facts["shape"][1:]]
        facts["data_offsets"] = [at, at + len(data)]
        parts.append(data)
        at += len(data)
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return b"".join((struct.pack("<Q", len(text)), text, *parts))


def _to_listed(listed: Sequence[Any]) -> Callable[[str], Any]:
    """Ids as the list had them: whole numbers, if it had nothing else."""
    return int if listed and all(type(name) is int for name in listed) else str
