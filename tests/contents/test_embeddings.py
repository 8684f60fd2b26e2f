"""Files of vectors: how they are told from weights, where their ids are, and what is refused."""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import memlake as ml
from memlake.contents import embeddings, vector_files
from memlake.contents.content import Content, Unreadable
from memlake.contents.explain import Explanation, How, explain
from memlake.contents.file_types import find_type
from memlake.contents.merged import Merged, MergeHow
from memlake.rows.vectors import EmbeddingDiff
from memlake.views.conflicts import place_lines
from memlake.views.contents import brief_text, explained_lines
from memlake.views.status import list_conflicts

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


def write_list(suffix: str, names: list[str]) -> bytes:
    if suffix in ("json", "npy"):
        return npy(np.array(names)) if suffix == "npy" else json.dumps(names).encode()
    return "".join(f"{one}\n" for one in (["id"] if suffix == "csv" else []) + names).encode()


@pytest.mark.parametrize("name", ["v.ids", "ids"])
@pytest.mark.parametrize("suffix", ["txt", "json", "csv", "npy"])
def test_ids_are_found_in_a_file_beside_it(suffix: str, name: str) -> None:
    order = RANDOM.permutation(40)
    file = f"a/{name}.{suffix}"
    old = content("a/v.npy", npy(OLD), {file: write_list(suffix, IDS)})
    new = content("a/v.npy", npy(NEW[order]), {file: write_list(suffix, [IDS[row] for row in order])})
    found = diff(old, new)
    assert (found.ids_from, found.moved) == (f"{name}.{suffix}", 1) and found.most_moved[0].id == "e3"


def test_a_list_of_ids_without_a_name_is_taken_only_if_it_fits() -> None:
    old, new = (content("v.npy", npy(one), {"ids.txt": b"a\nb\n"}) for one in (OLD, NEW))
    assert diff(old, new).ids_from == vector_files.ROW_NUMBERS


def test_without_ids_rows_are_told_apart_by_their_place() -> None:
    found = diff(content("v.npy", npy(OLD)), content("v.npy", npy(np.delete(NEW, 20, axis=0))))
    assert (found.ids_from, found.moved, found.removed_ids) == (vector_files.ROW_NUMBERS, 1, ("20",))


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
        vector_files.parse_ids(content("v.ids.json", b"[[1], [2]]"))


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


# -- merge --------------------------------------------------------------------------------------

Named = dict[str, int]  # what stands for a vector: a number that all its values are


def write(named: Named, kind: str = "npz") -> Content:
    matrix = np.repeat(np.array(list(named.values()), "<f4")[:, None], 9, axis=1).reshape(-1, 9)
    if kind == "npz":
        return content("v.npz", npz(ids=np.array(list(named), "U"), v=matrix))
    return content("v.safetensors", safetensors({"ids": json.dumps(list(named)), "model": "m"}, v=matrix))


def read(merged: Merged, name: str) -> Named:
    assert merged.data is not None
    made = content(name, merged.data)
    layout = vector_files.get_layout(made)
    vectors = vector_files.read_vectors(made, layout)
    return dict(zip(vectors.ids, (int(row[0]) for row in vectors.matrix), strict=True))


def join(
    base: Named, ours: Named, theirs: Named, how: MergeHow | None = None, kind: str = "npz"
) -> tuple[Named, set[str]]:
    sides = [write(side, kind) for side in (base, ours, theirs)]
    merged = embeddings.merge(*sides, how or MergeHow())
    return read(merged, sides[1].path), {conflict.where["id"] for conflict in merged.conflicts}


@pytest.mark.parametrize("kind", ["npz", "safetensors"])
def test_a_merge_unites_ids_and_takes_what_one_side_moved_or_removed(kind: str) -> None:
    base = {"a": 1, "b": 2, "c": 3, "d": 4}
    ours, theirs = {"a": 9, "b": 2, "c": 3, "d": 4, "new": 5}, {"a": 1, "b": 8, "d": 4, "other": 6}
    merged, conflicts = join(base, ours, theirs, kind=kind)
    assert list(merged.items()) == [("a", 9), ("b", 8), ("d", 4), ("new", 5), ("other", 6)] and not conflicts


def test_an_id_that_both_moved_is_a_conflict_of_that_id_and_ours_stays() -> None:
    sides = [write({"a": value, "b": 1}) for value in (1, 2, 3)]
    merged = embeddings.merge(*sides, MergeHow())
    (conflict,) = merged.conflicts
    assert (conflict.place, conflict.where, conflict.ours) == ("id=a", {"id": "a"}, "[2, 2, 2, 2, ... 9 numbers]")
    assert read(merged, "v.npz") == {"a": 2, "b": 1}


@pytest.mark.parametrize(
    ("how", "value"),
    [
        (MergeHow(strategy="theirs"), 5),
        (MergeHow(choices={"id=a": "theirs"}), 5),
        (MergeHow(choices={"id=a": "ours"}, strategy="theirs"), 3),
        (MergeHow(strategy="mean"), 4),
        (MergeHow(strategy="latest", latest="theirs"), 5),
    ],
)
def test_a_choice_or_a_strategy_settles_it(how: MergeHow, value: int) -> None:
    assert join({"a": 1}, {"a": 3}, {"a": 5}, how) == ({"a": value}, set())


def test_nobody_knows_the_latest_or_the_mean_of_what_one_side_removed() -> None:
    assert join({"a": 1}, {"a": 3}, {"a": 5}, MergeHow(strategy="latest")) == ({"a": 3}, {"a"})
    assert join({"a": 1, "b": 1}, {"b": 1}, {"a": 5, "b": 1}, MergeHow(strategy="mean")) == ({"b": 1}, {"a"})
    assert join({"a": 1, "b": 1}, {"b": 1}, {"a": 5, "b": 1}, MergeHow(strategy="theirs")) == ({"b": 1, "a": 5}, set())


def test_the_same_merge_gives_the_same_bytes_in_the_format_of_ours() -> None:
    sides = [npz(ids=np.array(IDS), v=OLD, model=np.array("m")), npz(ids=np.array(IDS), v=NEW, model=np.array("m"))]
    first, again = (
        embeddings.merge(*(content("v.npz", side) for side in (sides[0], sides[1], sides[0])), MergeHow()).data
        for _ in range(2)
    )
    assert first is not None and first == again
    with np.load(io.BytesIO(first)) as read_again:
        assert list(read_again) == ["ids", "v", "model"] and np.array_equal(read_again["v"], NEW)


@pytest.mark.parametrize(
    ("theirs", "words"),
    [
        (npz(ids=np.array(IDS), v=np.hstack([OLD, OLD])), "their dimension differs: it was 12, is 12 in ours and 24"),
        (npz(ids=np.array(IDS), v=OLD.astype("<f2")), "their type differs: it was F32, is F32 in ours and F16"),
        (npz(ids=np.array(IDS), v=OLD, model=np.array("bge")), "their model differs: it was not named"),
        (npz(ids=np.array(["a", "a", *IDS[2:]]), v=OLD), "the id 'a' occurs twice"),
        (npz(v=OLD), "does not hold their ids"),
    ],
)
def test_vectors_of_another_space_are_refused_with_the_reason(theirs: bytes, words: str) -> None:
    ours = npz(ids=np.array(IDS), v=OLD)
    with pytest.raises(Unreadable, match=words):
        embeddings.merge(content("v.npz", ours), content("v.npz", ours), content("v.npz", theirs), MergeHow())


def test_an_id_that_the_type_of_ours_cannot_hold_is_refused() -> None:
    whole = npz(ids=np.arange(40, dtype="<i4"), v=OLD)
    with pytest.raises(Unreadable, match="cannot hold an id of the other side"):
        embeddings.merge(content("v.npz", whole), content("v.npz", whole),
                         content("v.npz", npz(ids=np.array(IDS), v=OLD)), MergeHow())  # fmt: skip


SETS = st.dictionaries(st.sampled_from("abcdef"), st.integers(0, 3), max_size=6)


@settings(max_examples=80, deadline=None)
@given(SETS, SETS, SETS)
def test_the_laws_of_merging(base: Named, ours: Named, theirs: Named) -> None:
    merged, conflicts = join(base, ours, theirs)
    mirrored, same_conflicts = join(base, theirs, ours)
    planted = {name for name in {*base, *ours, *theirs} if len({base.get(name), ours.get(name), theirs.get(name)}) == 3}
    assert conflicts == same_conflicts == planted
    assert {n: v for n, v in merged.items() if n not in planted} == {
        n: v for n, v in mirrored.items() if n not in planted
    }
    assert all(merged.get(name) == ours.get(name) for name in planted)
    assert set(merged) <= {*ours, *theirs} and {*ours, *theirs} - set(merged) <= {*base}
    assert join(base, ours, ours) == (ours, set()) and join(base, base, theirs) == (theirs, set())


def test_branches_that_added_vectors_merge(tmp_path: Path) -> None:
    with ml.init(tmp_path) as repo:
        for branch, ids in (("main", ["a"]), ("side", ["a", "b"]), ("main", ["a", "c"])):
            if branch != "main":
                repo.branches.create(branch)
            repo.switch(branch)
            np.savez(tmp_path / "v.npz", ids=np.array(ids), v=OLD[: len(ids)] if ids[-1] != "c" else OLD[[0, 5]])
            repo.add("v.npz")
            repo.commit(ids[-1])
        assert not repo.merge("side").conflicts
    with np.load(tmp_path / "v.npz") as merged:
        assert list(merged["ids"]) == ["a", "c", "b"] and np.array_equal(merged["v"], OLD[[0, 5, 1]])


@pytest.mark.parametrize("file", ["v.ids.txt", "v.ids.json", "ids.csv", "ids.npy"])
def test_vectors_whose_ids_are_in_a_file_beside_them_merge_with_it(tmp_path: Path, file: str) -> None:
    repo, suffix = ml.init(tmp_path / "shop"), file.rpartition(".")[2]

    def keep(message: str, vectors: dict[str, Any]) -> None:
        (tmp_path / "shop/v.npy").write_bytes(npy(np.stack([*vectors.values()])))
        (tmp_path / f"shop/{file}").write_bytes(write_list(suffix, [*vectors]))
        repo.add(all=True)
        repo.commit(message)

    base = dict(zip(IDS, OLD, strict=True))
    keep("base", base)
    repo.switch("dev", create=True)
    theirs = {"new": OLD[9] * 2, **base, "e5": OLD[5] * 3, "e1": -OLD[1]}
    del theirs["e7"]
    keep("theirs", theirs)
    repo.switch("main")
    keep("ours", {**base, "mine": OLD[8], "e1": OLD[1] * 9})
    merged = repo.merge("dev")
    assert [one.path for one in merged.conflicts] == ["files/v.npy"]
    assert [one.place for one in repo.pending_merge.places()] == ["id=e1"]
    repo.pending_merge.resolve("theirs", "v.npy", where="id = e1")
    repo.pending_merge.conclude()
    here = content("v.npy", (tmp_path / "shop/v.npy").read_bytes(), {file: (tmp_path / f"shop/{file}").read_bytes()})
    vectors = vector_files.read_vectors(here, vector_files.get_layout(here))
    found = dict(zip(vectors.ids, vectors.matrix, strict=True))
    expected = {name: vector for name, vector in base.items() if name != "e7"}
    expected |= {"mine": OLD[8], "new": OLD[9] * 2, "e5": OLD[5] * 3, "e1": -OLD[1]}
    assert found.keys() == expected.keys() and all((found[name] == expected[name]).all() for name in expected)
    assert not repo.status().unstaged and not repo.status().staged


def test_ids_beside_vectors_wait_where_the_choice_would_change_them(tmp_path: Path) -> None:
    names = {"v.ids.txt": "".join(f"{one}\n" for one in IDS).encode()}
    fewer = {"v.ids.txt": "".join(f"{one}\n" for one in IDS if one != "e3").encode()}
    sides = content("v.npy", npy(OLD), names), content("v.npy", npy(np.delete(OLD, 3, 0)), fewer)
    with pytest.raises(Unreadable, match="one side removed 'e3', the other moved it"):
        embeddings.merge(*sides, content("v.npy", npy(NEW), names), MergeHow())
    found = embeddings.merge(*sides, content("v.npy", npy(NEW), names), MergeHow(strategy="theirs"))
    assert found.beside["v.ids.txt"].decode().split() == [*(one for one in IDS if one != "e3"), "e3"]


def test_a_merge_of_another_dimension_says_why_it_waits(tmp_path: Path) -> None:
    with ml.init(tmp_path) as repo:
        for branch, matrix in (("main", OLD), ("side", np.hstack([OLD, OLD])), ("main", NEW)):
            if branch != "main":
                repo.branches.create(branch)
            repo.switch(branch)
            np.savez(tmp_path / "v.npz", ids=np.array(IDS), v=matrix)
            repo.add("v.npz")
            repo.commit("edit")
        (conflict,) = repo.merge("side").conflicts
        (place,) = repo.pending_merge.places()
        assert "their dimension differs: it was 12, is 12 in ours and 24 in theirs" in place.why
        assert place.why in list_conflicts(repo, [conflict]) and place.why in "\n".join(place_lines([place], Plain()))
    with np.load(tmp_path / "v.npz") as held:
        assert np.array_equal(held["v"], NEW), "the file holds our side"
