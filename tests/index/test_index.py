"""Rows in, rows found: words, filters, moments, branches, folding; the index against a plain model of itself."""

from __future__ import annotations

import math
import os
import threading
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from memlake.errors import Corrupt
from memlake.index import generations, rows, segments, terms
from memlake.index import index as indexes
from memlake.index.generations import Derived
from memlake.index.index import Index, IndexQuery
from memlake.index.rows import Doc, Filter, Overlay, Replaced, Shown

DAY = 86_400_000_000
TEXTS = [
    "the cat sat on the mat",
    "a dog chased the cat around the garden",
    "enterprise revenue grew in the fourth quarter",
    "the garden has roses and a pond",
    "revenue fell in spring",
    "we ate soup",
]


def key(number: int) -> bytes:
    return number.to_bytes(16, "big")


def oid(number: int) -> bytes:
    return number.to_bytes(32, "big")


def doc(number: int, text: str, *, agent: str = "bot", session: str = "", importance: float = 0.5) -> Doc:
    marks = (terms.mark("agent", agent),)
    return Doc(key(number), oid(number), text, marks, session, number * DAY, importance, 0)


def put(index: Index, seq: int, *docs: Doc) -> None:
    with index.db.write():
        changes = [(seq, Replaced(one.key, None, one.oid)) for one in docs]
        rows.apply_changes(index.db, changes, {one.oid: one for one in docs})
        rows.raise_stamp(index.db)


def take_away(index: Index, seq: int, number: int) -> None:
    with index.db.write():
        rows.apply_changes(index.db, [(seq, Replaced(key(number), oid(number), None))], {})
        rows.raise_stamp(index.db)


def found(index: Index, text: str, **how: object) -> list[int]:
    return [int.from_bytes(one.key, "big") for one in index.search(IndexQuery(text, **how))]  # type: ignore[arg-type]


@pytest.fixture
def index(tmp_path: Path) -> Index:
    made = Index(tmp_path / "index")
    for number, text in enumerate(TEXTS, 1):
        put(made, number, doc(number, text, agent="even" if number % 2 == 0 else "odd"))
    return made


def by(agent: str) -> Filter:
    return Filter(marks=((terms.hash_term(terms.mark("agent", agent)),),))


def folded(index: Index) -> Index:
    assert index.fold()
    return index


@pytest.mark.parametrize("as_segment", [False, True], ids=["fresh", "folded"])
def test_words_find_rows_and_rare_words_count_more(index: Index, as_segment: bool) -> None:
    if as_segment:
        folded(index)
    assert found(index, "cat in the garden")[0] == 2
    assert set(found(index, "revenue")) == {3, 5}
    assert found(index, "soup") == [6]


def test_folding_changes_no_score_beyond_rounding(index: Index) -> None:
    before = {one.key: one.scored.words for one in index.search(IndexQuery("cat garden revenue"))}
    after = {one.key: one.scored.words for one in folded(index).search(IndexQuery("cat garden revenue"))}
    assert before == pytest.approx(after, rel=0.02)


def test_scores_are_those_of_bm25_with_a_usual_length_for_the_mean(index: Index) -> None:
    counts = [Counter(terms.words(text)) for text in TEXTS]

    def bm25(count: Counter[str]) -> float:
        total = 0.0
        for word in terms.query_words("cat garden"):
            having = sum(word in other for other in counts)
            share = 1 - 0.4 + 0.4 * sum(count.values()) / 32
            part = count[word] * 1.9 / (count[word] + 0.9 * share)
            total += math.log(1 + (len(counts) - having + 0.5) / (having + 0.5)) * part
        return total

    scores = {int.from_bytes(one.key, "big"): one.scored.words for one in index.search(IndexQuery("cat garden"))}
    assert scores == pytest.approx({n: bm25(counts[n - 1]) for n in (1, 2, 4)}, rel=0.02)


@pytest.mark.parametrize("as_segment", [False, True], ids=["fresh", "folded"])
def test_filters_come_before_the_best_are_chosen(index: Index, as_segment: bool) -> None:
    if as_segment:
        folded(index)
    assert set(found(index, "revenue", limits=by("odd"))) == {3, 5}
    assert found(index, "cat", limits=by("even")) == [2]
    assert found(index, "cat", limits=by("nobody")) == []
    assert found(index, "revenue", limits=Filter(since=4 * DAY)) == [5]
    assert found(index, "revenue", limits=Filter(until=4 * DAY)) == [3]


def test_importance_is_a_filter_and_a_boost(tmp_path: Path) -> None:
    index = Index(tmp_path / "index")
    put(index, 1, doc(1, "tea in the morning", importance=0.1), doc(2, "tea in the morning", importance=0.9))
    assert found(index, "tea", limits=Filter(least=0.9)) == [2]
    assert found(index, "tea")[0] == 2  # of equals the newer
    assert index.search(IndexQuery("tea"))[0].scored.boost == 1


def test_a_misspelt_word_finds_what_was_meant_and_says_so(index: Index) -> None:
    hits = index.search(IndexQuery("enterprize"))
    assert [int.from_bytes(one.key, "big") for one in hits] == [3]
    assert hits[0].scored.grams > 0
    assert hits[0].scored.words == 0


def test_a_row_that_ended_is_seen_only_in_the_past(index: Index) -> None:
    take_away(index, 7, 3)
    assert found(index, "revenue") == [5]
    assert set(found(index, "revenue", shown=Shown(seq=6))) == {3, 5}
    folded(index)
    assert found(index, "revenue") == [5]
    take_away(index, 8, 5)
    assert found(index, "revenue") == []
    assert found(index, "revenue", shown=Shown(seq=7)) == [5]
    assert found(index, "revenue", shown=Shown(seq=2)) == []


def test_a_branch_is_the_trunk_at_its_fork_with_its_own_changes(index: Index) -> None:
    with index.db.write():
        start = Overlay(4, frozenset(), frozenset())
        mine = doc(9, "revenue of the branch")
        branch = rows.lay_over(index.db, start, [Replaced(mine.key, None, mine.oid)], {mine.oid: mine})
        branch = rows.lay_over(index.db, branch, [Replaced(key(3), oid(3), None)], {})
        rows.write_overlay(index.db, "draft", oid(1), branch)
        rows.raise_stamp(index.db)
    assert rows.find_overlay(index.db, "draft") == (oid(1), branch)
    assert found(index, "revenue", shown=Shown(overlay=branch)) == [9]
    assert found(index, "soup", shown=Shown(overlay=branch)) == []  # it came after the fork
    assert found(index, "cat", shown=Shown(overlay=branch, only_added=True)) == []
    assert set(found(index, "revenue")) == {3, 5}  # the trunk sees nothing of it
    with index.db.write():
        back = rows.lay_over(index.db, branch, [Replaced(key(3), None, oid(3))], {})
    assert back.hidden == frozenset()


def test_an_index_that_grew_answers_as_one_made_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Scores, ties and neighbours must not depend on which rows a segment happens to hold."""
    docs = [doc(n, f"amber n{n} " + "x " * (n % 9), session=f"s{n % 3}") for n in range(1, 301)]
    monkeypatch.setattr(segments, "FRESH", 1 << 30)
    grown, whole = Index(tmp_path / "grown"), Index(tmp_path / "whole")
    for start in range(0, 300, 37):
        put(grown, start + 1, *docs[start : start + 37])
        folded(grown)
    put(whole, 1, *docs)
    for most in (1, 7, 100):
        hits = [
            [(one.key, one.scored) for one in index.search(IndexQuery("amber n7 n37", most=most))]
            for index in (grown, whole)
        ]
        assert hits[0] == hits[1]


def test_a_thread_that_comes_while_another_goes_over_to_a_new_generation_waits_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It neither reads the old one, whose files are gone, nor opens the new one a second time: whoever reads that
    would be told that it was made again, and leave it behind as damaged."""
    index = Index(tmp_path / "index")
    generations.begin_generation(index.folder)
    generations.drop_old(index.folder)
    came, opened, used = threading.Event(), [], []

    class Door(type(index._changing)):  # type: ignore[misc]
        def __enter__(self) -> None:
            if threading.current_thread() is second:
                came.set()
            super().__enter__()

    def open_slowly(*given: Any, **named: Any) -> Derived:
        opened.append(given)
        if len(opened) == 1:
            second.start()
            assert came.wait(60)
        return Derived(*given, **named)

    def use() -> None:
        index.refresh()
        used.append(index.db)
        came.set()

    second = threading.Thread(target=use)
    index._changing = Door()
    monkeypatch.setattr(indexes, "Derived", open_slowly)
    index.refresh()
    second.join(60)
    assert len(opened) == 1
    assert used == [index.db] and index.db.path.exists()
    index.close()


def test_neighbours_of_a_session_share_in_a_score(tmp_path: Path) -> None:
    index = Index(tmp_path / "index")
    said = ["did you find a place?", "the blue house by the lake", "unrelated words entirely"]
    put(index, 1, *(doc(n, text, session="talk") for n, text in enumerate(said, 1)), doc(9, "elsewhere", session="no"))
    hits = index.search(IndexQuery("find a place"))
    assert [int.from_bytes(one.key, "big") for one in hits] == [1, 2, 3]
    assert hits[1].scored.neighbours > hits[2].scored.neighbours > 0


def test_rows_are_listed_newest_first_without_words(index: Index) -> None:
    listed = index.list_rows(IndexQuery("", limits=by("odd"), most=2))
    assert [int.from_bytes(one.key, "big") for one in listed] == [5, 3]


@pytest.mark.parametrize("largest", [1 << 17, 40])
def test_many_folds_and_merges_lose_no_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, largest: int) -> None:
    monkeypatch.setattr(segments, "FRESH", 8)
    monkeypatch.setattr(segments, "LARGEST", largest)
    index = Index(tmp_path / "index")
    for number in range(1, 201):
        put(index, number, doc(number, f"word{number % 10} all"))
        if segments.is_fold_due(index.db):
            index.fold()
        if number % 7 == 0:
            take_away(index, number, number - 3)
    gone = {number - 3 for number in range(7, 201, 7)}
    assert set(found(index, "all", most=500)) == set(range(1, 201)) - gone
    spans = index.db.rows("SELECT name, first, last FROM segment ORDER BY first")
    names, sizes = [name for name, _, _ in spans], [last - first + 1 for _, first, last in spans]
    assert len(names) < 12 and 8 < max(sizes) <= largest
    assert all(last + 1 == after for (_, _, last), (_, after, _) in pairwise(spans))
    assert {file.name for file in index.generation.glob("*.seg")} == set(names)
    assert found(index, "word3", most=500) == sorted((n for n in range(3, 201, 10) if n not in gone), reverse=True)


def test_a_reader_sees_what_another_wrote_and_folded(tmp_path: Path) -> None:
    one, other = Index(tmp_path / "index"), Index(tmp_path / "index")
    put(one, 1, doc(1, "first tea"))
    assert found(other, "tea") == [1]
    one.fold()
    put(one, 2, doc(2, "second tea"))
    assert set(found(other, "tea")) == {1, 2}
    take_away(one, 3, 1)
    assert found(other, "tea") == [2]


@pytest.mark.parametrize("as_segment", [False, True], ids=["fresh", "folded"])
def test_erasing_leaves_no_word_of_a_row(index: Index, as_segment: bool) -> None:
    put(index, 7, doc(7, "the password is xyzzyplugh"))
    if as_segment:
        folded(index)
    index.erase_objects([doc(7, "the password is xyzzyplugh").oid], b"purge")
    assert index.read_purge_cursor() == b"purge"
    assert found(index, "xyzzyplugh") == []
    assert set(found(index, "revenue")) == {3, 5}
    index.close()
    assert not [f for f in index.generation.rglob("*") if f.is_file() and b"xyzzyplugh" in f.read_bytes()]


def test_a_block_without_some_rows_keeps_the_others() -> None:
    docs = [terms.pack_terms(terms.count_terms(text, ())) for text in TEXTS]
    columns = {name: np.arange(len(docs)) for name in segments.COLUMNS}
    block = segments.build_block(1, docs, np.full(len(docs), 6), columns)
    less = segments.blank_rows(block, [3, 6])
    postings = less.find([terms.hash_term(word) for word in ("soup", "revenu", "cat")])
    assert [rows.tolist() for rows, _ in postings] == [[], [4], [0, 1]]


@pytest.mark.parametrize("how", ["cut", "flip", "empty"])
def test_a_damaged_segment_is_noticed(index: Index, how: str) -> None:
    folded(index)
    file = next(index.generation.glob("*.seg"))
    data = bytearray(file.read_bytes())
    if how == "flip":
        data[40] ^= 1
    file.write_bytes({"cut": data[:-70], "flip": data, "empty": b""}[how])
    with pytest.raises(Corrupt):
        found(Index(index.folder), "cat")


def test_a_transaction_is_ended_in_the_database_it_was_begun_in(tmp_path: Path) -> None:
    """Another thread may go over to the index that a third process made, in the middle of it."""
    index = Index(tmp_path / "index")
    with index.db.write():
        begun = index.db
        (tmp_path / "index" / "CURRENT").write_bytes((tmp_path / "index" / "CURRENT").read_bytes())
        os.utime(tmp_path / "index" / "CURRENT", (1, 1))
        other = threading.Thread(target=index.refresh)
        other.start()
        other.join()
        assert index.db is begun
        rows.set_meta(index.db, trunk="main")
    assert index.db is not begun and rows.read_meta(index.db, "trunk") == "main"
    index.close()
