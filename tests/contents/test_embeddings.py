"""Files of vectors: how they are told from weights, where their ids are, and what is refused."""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from memlake.contents import embeddings
from memlake.contents.content import Content, Unreadable
from memlake.contents.explain import Explanation, How, explain
from memlake.contents.file_types import find_type
from memlake.rows.vectors import EmbeddingDiff
from memlake.views.contents import brief_text, explained_lines

RANDOM = np.random.default_rng(0)
OLD = RANDOM.standard_normal((40, 12)).astype("<f4")
NEW = OLD.copy()
NEW[3] = -NEW[3]
IDS = [f"e{number}" for number in range(40)]


def content(name: str, data: bytes, beside: Mapping[str, bytes] | None = None) -> Content:
    others = dict(beside or {})

    def find(path: str) -> Content | None:
        return content(path, others[path]) if path in others else None

    return Content(name, len(data), lambda: io.BytesIO(data), beside=find)


def npy(matrix: Any) -> bytes:
    out = io.BytesIO()
    np.save(out, matrix)
    return out.getvalue()


def npz(**arrays: Any) -> bytes:
    out = io.BytesIO()
    np.savez_compressed(out, **arrays)
    return out.getvalue()


def safetensors(metadata: dict[str, str], **arrays: Any) -> bytes:
    header: dict[str, Any] = {"__metadata__": metadata}
    body = b""
    for name, array in arrays.items():
        data = array.tobytes()
        kind = {"<f4": "F32", "<i8": "I64"}[array.dtype.str]
        header[name] = {"dtype": kind, "shape": array.shape, "data_offsets": [len(body), len(body) + len(data)]}
        body += data
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + body


def diff(old: Content, new: Content) -> EmbeddingDiff:
    found = explain(old, new, How())
    assert found is not None and isinstance(found.record, EmbeddingDiff), found
    return found.record


@pytest.mark.parametrize(
    ("name", "make", "ids_from"),
    [
        ("v.npz", lambda matrix: npz(vectors=matrix, ids=np.array(IDS)), "the array ids"),
        ("v.npz", lambda matrix: npz(ids=np.array(IDS), emb=matrix, model=np.array("m")), "the array ids"),
        ("v.safetensors", lambda matrix: safetensors({"ids": json.dumps(IDS)}, v=matrix), "the metadata"),
    ],
)
def test_ids_are_found_inside_the_file(name: str, make: Any, ids_from: str) -> None:
    found = diff(content(name, make(OLD)), content(name, make(NEW)))
    assert (found.ids_from, found.moved, found.unchanged) == (ids_from, 1, 39)
    assert [one.id for one in found.most_moved] == ["e3"]


@pytest.mark.parametrize("suffix", ["txt", "json"])
def test_ids_are_found_in_a_file_beside_it(suffix: str) -> None:
    order = RANDOM.permutation(40)

    def ids(names: list[str]) -> bytes:
        return json.dumps(names).encode() if suffix == "json" else "".join(f"{one}\n" for one in names).encode()

    old = content("a/v.npy", npy(OLD), {f"a/v.ids.{suffix}": ids(IDS)})
    new = content("a/v.npy", npy(NEW[order]), {f"a/v.ids.{suffix}": ids([IDS[row] for row in order])})
    found = diff(old, new)
    assert (found.ids_from, found.moved) == (f"v.ids.{suffix}", 1) and found.most_moved[0].id == "e3"


def test_without_ids_rows_are_told_apart_by_their_place() -> None:
    found = diff(content("v.npy", npy(OLD)), content("v.npy", npy(np.delete(NEW, 20, axis=0))))
    assert (found.ids_from, found.moved, found.removed_ids) == (embeddings.ROW_NUMBERS, 1, ("20",))


def test_whole_numbers_are_ids_and_the_model_is_named() -> None:
    ids = np.arange(40, dtype="<i8")
    old = content("v.safetensors", safetensors({"model": "minilm"}, v=OLD, ids=ids))
    new = content("v.safetensors", safetensors({"model": "bge"}, v=OLD, ids=ids))
    found = diff(old, new)
    assert (found.old_model, found.new_model, found.moved, found.is_empty) == ("minilm", "bge", 0, False)


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("one.npy", npy(OLD[0])),  # a vector
        ("small.npy", npy(OLD[:3])),  # a few rows without ids
        ("whole.npy", npy(np.ones((40, 12), "<i8"))),
        ("model.npz", npz(a=OLD, b=OLD)),
        ("model.npz", npz(weight=OLD, bias=OLD[:, 0])),
        ("empty.npz", npz()),
    ],
)
def test_weights_and_other_arrays_are_checkpoints(name: str, data: bytes) -> None:
    found = find_type(name, content(name, data))
    assert found is not None and found.name == "checkpoint"


def test_a_matrix_that_became_a_model_is_compared_by_tensors() -> None:
    found = explain(content("v.npz", npz(v=OLD)), content("v.npz", npz(v=OLD, w=OLD)), How())
    assert found is not None and (found.type, found.record.added) == ("checkpoint", ("w",))


def test_a_file_that_was_only_written_differently_has_an_empty_record() -> None:
    assert diff(content("v.npy", npy(OLD)), content("v.npy", npy(np.asfortranarray(OLD)))).is_empty


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (npy(OLD)[:-7], "does not take"),
        (npy(OLD).replace(b"(40, 12)", b"(4000000000, 12)"[:8].ljust(8)), "cannot be read as tensors"),
        (npy(OLD).replace(b"(40, 12), }  ", b"(-40, -12), }"), "does not take"),
        (npy(OLD).replace(b"(40, 12), }      ", b"(40000000000, 12)"), "cannot be read as tensors"),
    ],
)
def test_a_truncated_or_lying_file_is_refused_with_words(data: bytes, words: str) -> None:
    found = explain(content("v.npy", npy(OLD)), content("v.npy", data), How())
    assert found is not None and found.record is None and words in found.note


def test_python_objects_are_never_loaded() -> None:
    out = io.BytesIO()
    np.save(out, np.array([{"a": 1}] * 20, dtype=object), allow_pickle=True)
    found = explain(content("v.npy", npy(OLD)), content("v.npy", out.getvalue()), How())
    assert found is not None and found.record is None and "Python objects, which memlake never loads" in found.note


@pytest.mark.parametrize(
    ("ids", "words"),
    [(b"a\nb\n", "v.ids.txt has 2 ids, but v.npy has 40 vectors"), (b"\xff\xfe\n", "cannot be read as a list of ids")],
)
def test_ids_that_do_not_fit_are_refused_with_words(ids: bytes, words: str) -> None:
    found = explain(content("v.npy", npy(OLD)), content("v.npy", npy(NEW), {"v.ids.txt": ids}), How())
    assert found is not None and found.record is None and words in found.note


def test_a_list_of_lists_is_not_a_list_of_ids() -> None:
    with pytest.raises(Unreadable, match="is not a list of ids"):
        embeddings.parse_ids(content("v.ids.json", b"[[1], [2]]"))


# -- columns ------------------------------------------------------------------------------------


def parquet(matrix: Any, ids: list[str] | None, **more: Any) -> bytes:
    columns = {"id": ids} if ids else {}
    lists = pa.FixedSizeListArray.from_arrays(pa.array(matrix.reshape(-1)), matrix.shape[1])
    out = io.BytesIO()
    pq.write_table(pa.table({**columns, "emb": lists, **more}), out)
    return out.getvalue()


def jsonl(matrix: Any, ids: list[str]) -> bytes:
    rows = ({"id": name, "emb": [float(one) for one in row]} for name, row in zip(ids, matrix, strict=True))
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


@pytest.mark.parametrize(("name", "make"), [("t.parquet", parquet), ("t.jsonl", jsonl)])
def test_vectors_of_a_column_are_a_section_of_the_diff_of_a_table(name: str, make: Any) -> None:
    found = explain(content(name, make(OLD, IDS)), content(name, make(NEW[1:], IDS[1:])), How())
    assert found is not None and found.type == "table" and found.record.removed == 1
    (section,) = found.more
    assert (section.column, section.ids_from, section.moved) == ("emb", "column id", 1)
    assert section.most_moved[0].id == "e3"


def test_boxes_missing_vectors_and_lists_of_several_lengths_are_not_vectors() -> None:
    boxes = explain(content("t.parquet", parquet(OLD[:, :4].copy(), IDS)),
                    content("t.parquet", parquet(NEW[:, :4].copy(), IDS)), How())  # fmt: skip
    uneven = explain(
        content("t.jsonl", jsonl(OLD, IDS)), content("t.jsonl", jsonl(OLD, IDS)[:-3] + b", 1.0]}\n"), How()
    )
    assert boxes is not None and uneven is not None and boxes.more == uneven.more == ()


def test_a_row_without_a_vector_has_lost_it() -> None:
    rows = jsonl(OLD, IDS).splitlines(keepends=True)
    rows[5] = b'{"id": "e5", "emb": null}\n'
    found = explain(content("t.jsonl", jsonl(OLD, IDS)), content("t.jsonl", b"".join(rows)), How())
    assert found is not None and found.more[0].removed_ids == ("e5",)


# -- words --------------------------------------------------------------------------------------


class Plain:
    color, on_terminal, width = False, False, 100

    def paint(self, text: str, style: str) -> str:
        return text

    def clean(self, text: str) -> str:
        return text


def lines(found: Explanation | None) -> list[str]:
    assert found is not None
    return list(explained_lines(Plain(), found))


def test_people_read_sentences() -> None:
    old = content("v.npz", npz(v=OLD, ids=np.array(IDS)))
    found = explain(old, content("v.npz", npz(v=NEW[1:], ids=np.array(IDS[1:]))), How())
    assert lines(found) == [
        "40 -> 39 vectors: 1 removed, 1 moved, 38 unchanged (matched by the array ids)",
        "drift (cosine distance from where it was): 2.000",
        "Of the 10 nearest neighbours of a vector, 0.8 changed on average (39 sampled; 18 of them kept all).",
        "  ~ e3: moved by 2.000",
        "  - e0",
    ]
    assert brief_text(found) == "40 -> 39 vectors: 1 removed, 1 moved, 38 unchanged"  # type: ignore[arg-type]


def test_a_rotation_is_said_in_a_sentence() -> None:
    matrix = RANDOM.standard_normal((200, 12)).astype("<f4")
    turn = np.linalg.qr(RANDOM.standard_normal((12, 12)))[0].astype("<f4")
    said = lines(explain(content("v.npy", npy(matrix)), content("v.npy", npy(matrix @ turn)), How()))
    assert said[2].startswith("The whole space was rotated: one rotation explains all of the change")
    assert said[3].startswith("drift after the rotation")
    assert said[4] == "Neighbours are the same: each of 100 sampled vectors kept the 10 nearest neighbours."
