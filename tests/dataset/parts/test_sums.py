"""Parts whose few bytes unpack to many: counted from their pages before anybody unpacks them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import memlake as ml
from memlake.dataset.parts import parquet, sums
from memlake.errors import Corrupt

LONG = "x" * 5000
TWICE = pa.array([LONG, "y" * 5000])
ROWS = 4096


def numbered(numbers: Any, words: pa.Array = TWICE) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array(numbers, pa.int32()), words)


def lists(values: pa.Array, length: int = ROWS) -> pa.Array:
    return pa.ListArray.from_arrays(pa.array([0, length], pa.int32()), values)


BOMBS: dict[str, tuple[pa.Array, dict[str, Any]]] = {
    "one text in every row": (numbered([0] * ROWS), {}),
    "one text, which has no bits to name it": (numbered([0] * ROWS, pa.array([LONG])), {}),
    "two texts in turn": (numbered([0, 1] * (ROWS // 2)), {}),
    "a text and nothing in turn": (numbered([0, None] * (ROWS // 2)), {}),
    "bytes": (numbered([0] * ROWS, pa.array([LONG.encode()])), {}),
    "uncompressed": (numbered([0] * ROWS), {"compression": "none"}),
    "in a struct": (pa.StructArray.from_arrays([numbered([0] * ROWS)], ["a"]), {}),
    "in one list": (lists(numbered([0] * ROWS)), {}),
    "a list of many nulls": (lists(pa.nulls(1 << 20, pa.int32()), 1 << 20), {}),
    "bytes of one length": (pa.array([b"x" * 5000] * ROWS, pa.binary(5000)), {}),
}


def planted(repo: ml.Repo, column: pa.Array, monkeypatch: pytest.MonkeyPatch, **settings: Any) -> ml.Chain:
    """A saved dataset whose part is another file, with all its sums right."""

    def write(_: pa.Table, file: Path) -> None:
        told = {"compression": "zstd", "store_schema": False, "write_page_checksum": True}
        pq.write_table(pa.table({"x": column}), file, **told | settings)

    with monkeypatch.context() as patch:
        patch.setattr(parquet, "_write", write)
        kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
        return repo.datasets().read_arrow(pa.table({"x": pa.nulls(len(column), kind)})).save("bomb")


@pytest.mark.parametrize("bomb", BOMBS)
def test_a_part_that_unpacks_to_far_more_is_refused(repo: ml.Repo, bomb: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sums, "MOST_BYTES", 1 << 20)
    monkeypatch.setattr(sums, "_MOST_TIMES", 10)
    column, settings = BOMBS[bomb]
    chain = planted(repo, column, monkeypatch, **settings)
    with pytest.raises(Corrupt, match=r"has [\d,]+ bytes, which unpack to [\d,]+: more than a part has"):
        chain.to_pandas()


def test_some_rows_of_such_a_part_are_refused_as_well(repo: ml.Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sums, "MOST_BYTES", 1 << 20)
    monkeypatch.setattr(sums, "_MOST_TIMES", 10)
    planted(repo, numbered([0] * ROWS), monkeypatch)
    part = next(path for path in (repo.dir / "parts").rglob("*") if path.is_file())
    with pytest.raises(Corrupt, match="more than a part has"):
        sums.check(str(part), ["x"], sums.footer(str(part)), [0])


@pytest.mark.parametrize(
    "settings",
    [
        {"use_dictionary": False, "column_encoding": "DELTA_BYTE_ARRAY"},
        {"data_page_version": "2.0"},
    ],
    ids=["texts that share a beginning", "pages of another version"],
)
def test_pages_as_no_part_has_them_are_refused(
    repo: ml.Repo, settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    chain = planted(repo, pa.array([LONG] * 100), monkeypatch, **settings)
    with pytest.raises(Corrupt, match="is written as no part is: a page in another encoding"):
        chain.to_pandas()


RANDOM = np.random.default_rng(0)
TEXTS = {
    "a few": [f"value {n}" for n in range(10)],
    "short and long": ["", "a", "b" * 255, "c" * 256, "d" * 70_000],
    "with zeros": ["\0\0\0\0\0", "\1\0\0\0", "a\0\0\0", "\0" * 300],
    "with none": ["a", None, "bb", None],
    "many": [f"value {n:06}" for n in range(50_000)],
}


@pytest.mark.parametrize("texts", TEXTS)
@pytest.mark.parametrize("order", ["mixed", "sorted", "by eights"])
def test_the_text_that_rows_name_is_counted_to_the_byte(
    tmp_path: Path, texts: str, order: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers = RANDOM.integers(0, len(TEXTS[texts]), 20_000)
    numbers = {"mixed": numbers, "sorted": np.sort(numbers), "by eights": np.repeat(numbers[:2500], 8)}[order]
    column = pa.array(TEXTS[texts]).take(pa.array(numbers))
    pq.write_table(pa.table({"x": column}), tmp_path / "x", compression="zstd", write_page_checksum=True)
    seen: list[int] = []
    named = sums._Chunk._count_words
    monkeypatch.setattr(sums._Chunk, "_count_words", lambda *given: seen.append(named(*given)) or seen[-1])
    with open(tmp_path / "x", "rb") as file:
        at_most = sums._check_pages(file.fileno(), str(tmp_path / "x"), ["x"])
        seen.clear()
        assert sums._check_pages(file.fileno(), str(tmp_path / "x"), ["x"], is_exact=True)["x"] <= at_most["x"]
    extra = sum(seen) - sum(len(text.encode()) for text in column.to_pylist() if text)
    assert 0 <= extra <= (7 * 2 if column.null_count else 0)  # the last of packed numbers are filled up to eight


def test_columns_that_are_read_one_after_the_other_are_counted_together_and_exactly(
    repo: ml.Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sums, "MOST_BYTES", 60 << 20)
    texts = ["a"] * 6000 + [LONG] * 4000  # 20 MB, and 50 MB if each row named the longest
    saved = repo.datasets().read_arrow(pa.table({"x": texts, "y": texts})).save("texts")
    assert saved.to_values("x") == saved.to_values("y") == texts
    monkeypatch.setattr(sums, "MOST_BYTES", 22 << 20)
    monkeypatch.setattr(sums, "_MOST_TIMES", 0)
    sums._checked.clear()
    assert saved.to_values("x") == texts
    with pytest.raises(Corrupt, match="more than a part has"):
        saved.to_values("y")


def test_numbers_without_bits_all_name_the_first_text() -> None:
    """Our writer gives them one bit; a stranger may not."""
    assert [(numbers.tolist(), times) for numbers, times in sums._read_runs(b"\0\x03", 0, 8)] == [([0], 8)]


def test_an_honest_part_of_one_long_text_is_filled_up_and_comes_back(
    repo: ml.Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sums, "MOST_BYTES", 1 << 20)
    rows = pa.table({"x": [LONG] * 10_000, "y": range(10_000)})
    saved = repo.datasets().read_arrow(rows).save("prompts")
    assert saved.to_arrow().equals(rows)
    assert saved.filter(ml.C("y") < 3).to_values("x") == [LONG] * 3
    part = next(path for path in (repo.dir / "parts").rglob("*") if path.is_file())
    assert part.stat().st_size > 45_000  # a thousandth of what it unpacks to


def test_other_parts_are_not_filled_up(repo: ml.Repo) -> None:
    repo.datasets().read_arrow(pa.table({"x": [LONG] * 10_000})).save("prompts")
    part = next(path for path in (repo.dir / "parts").rglob("*") if path.is_file())
    assert part.stat().st_size < 3000
