"""Embeddings: files that hold one matrix of floats, a vector in each row, and maybe the ids of the rows.

The ids are an array or a note in the same file, or a file beside it: `vectors.ids.txt` with an id on each line, or
`vectors.ids.json` with a list, for `vectors.npy`. Without any, rows are told apart by their place.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from memlake.contents.content import Content, Unreadable
from memlake.contents.explain import How
from memlake.contents.tensors import Archive, Tensor, open_archive
from memlake.rows.vectors import EmbeddingDiff, Vectors, compare_vectors, match_places

_FLOATS = frozenset({"F64", "F32", "F16", "BF16"})
_WHOLE = frozenset({"I64", "I32", "I16", "U64", "U32", "U16", "U8", "I8"})
_ID_NAMES = frozenset({"id", "ids", "key", "keys", "name", "names", "label", "labels", "index"})
_MODEL_NAMES = ("model", "model_name", "embedding_model")
_ROWS, _WIDTH = 16, 8  # a matrix without ids that is smaller is not taken for embeddings
_LARGEST = 4 << 30  # bytes of a matrix; a larger one is compared block by block, as a checkpoint
_IDS = 256 << 20  # bytes of a file of ids
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


class EmbeddingSummary(NamedTuple):
    vectors: int
    dimension: int
    type: str
    ids_from: str
    model: str


def recognize(content: Content) -> bool:
    """Whether it is one matrix of vectors rather than the weights of a model. Reads headers only."""
    try:
        return find_layout(content) is not None
    except Unreadable:  # told by whoever takes it for a checkpoint
        return False


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
        layout = layout._replace(ids_file=_find_ids_file(content))
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


def _find_ids_file(content: Content) -> Content | None:
    stem = content.path.rpartition(".")[0]
    return content.find_beside(f"{stem}.ids.txt") or content.find_beside(f"{stem}.ids.json")


def summarize(content: Content) -> EmbeddingSummary:
    layout = _get_layout(content)
    rows, width = layout.matrix.shape
    return EmbeddingSummary(rows, width, layout.matrix.dtype, layout.ids_from, layout.model)


def diff(old: Content, new: Content, how: How) -> EmbeddingDiff:
    before, after = _get_layout(old), _get_layout(new)
    is_by_place = ROW_NUMBERS in (before.ids_from, after.ids_from)
    was, now = (read_vectors(side, layout) for side, layout in ((old, before), (new, after)))
    found = compare_vectors(
        was, now, ids_from=ROW_NUMBERS if is_by_place else after.ids_from, limit=how.limit,
        matches=match_places(was.matrix, now.matrix) if is_by_place else None,
    )  # fmt: skip
    if is_by_place and before.ids_from != after.ids_from:
        found = found._replace(notes=(*found.notes, "only one side has ids, so rows are matched by their place"))
    return found


def read_vectors(content: Content, layout: Layout) -> Vectors:
    return Vectors(read_ids(content, layout), layout.matrix.read_array(), layout.matrix.dtype, layout.model)


def read_ids(content: Content, layout: Layout) -> list[str]:
    """The ids of the rows in their order, as text."""
    rows = layout.matrix.shape[0]
    if layout.ids:
        return [str(name) for name in layout.archive.tensors[layout.ids].read_array().tolist()]
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
            text = content.read().decode("utf-8")
        if not content.path.endswith(".json"):
            return text.splitlines()
        listed = json.loads(text)
    except (UnicodeError, ValueError, RecursionError) as error:
        raise Unreadable(f"{content.path} cannot be read as a list of ids: {error}") from error
    if not isinstance(listed, list) or any(isinstance(name, list | dict) for name in listed):
        raise Unreadable(f"{content.path} is not a list of ids")
    return listed


def _get_layout(content: Content) -> Layout:
    layout = find_layout(content)
    if layout is None:
        raise Unreadable(f"{content.path} does not hold one matrix of vectors")
    return layout
