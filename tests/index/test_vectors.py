"""The vector index: what it finds, what its filters hide, what a crash, a flipped bit or an erasure leaves of it."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from memlake.errors import Corrupt, InvalidInput
from memlake.index import binary_vectors, vector_file
from memlake.index.vectors import Allow, Flat
from memlake.objects import disk
from tests.reliability.ground import KILLED, fast_folder, hooked, in_child, kill_at, snapshot_of, steps_of

D = 48


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks and candidate counts so small that a few hundred rows take every way through the code."""
    monkeypatch.setattr(vector_file, "BLOCK", 64)
    monkeypatch.setattr(binary_vectors, "RESCORE", 20)


@pytest.fixture(autouse=True)
def _known_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vector_file, "make_number", lambda: 0)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "vectors"


def noise(rows: np.ndarray | range | list[int], dimension: int = D) -> np.ndarray:
    """The vector of each row, the same in every process."""
    every = [np.random.default_rng(int(row)).standard_normal(dimension) for row in rows]
    return np.array(every, np.float32).reshape(-1, dimension)


def clustered(count: int, dimension: int = D, seed: int = 0) -> np.ndarray:
    """A mixture of Gaussians in a few directions, as embeddings are."""
    chance = np.random.default_rng(seed)
    centres = chance.standard_normal((50, 12))
    points = centres[chance.integers(50, size=count)] + 0.7 * chance.standard_normal((count, 12))
    base = np.random.default_rng(99).standard_normal((12, dimension))
    return (points @ base + 0.3 * chance.standard_normal((count, dimension))).astype(np.float32)


def cosines(vectors: np.ndarray, query: np.ndarray) -> np.ndarray:
    return (vectors @ query) / np.linalg.norm(vectors, axis=1) / np.linalg.norm(query)


def recall(index: Flat, vectors: np.ndarray, queries: np.ndarray, allow: Allow | None = None) -> float:
    """Of the ten true neighbours of each query, the share that is found; row ids are positions."""
    rows = np.arange(len(vectors))
    kept = rows if allow is None else rows[allow(rows)] if callable(allow) else np.asarray(allow)
    shares = []
    for query in queries:
        true = kept[np.argsort(-cosines(vectors[kept], query))[:10]]
        found, _ = index.search(query, 10, allow=allow)
        shares.append(len(set(found.tolist()) & set(true.tolist())) / len(true))
    return float(np.mean(shares))


def filled(folder: Path, rows: int) -> Flat:
    index = Flat(folder, "m", D)
    index.append(np.arange(rows), noise(range(rows)))
    return index


def content(folder: Path) -> dict[int, bytes]:
    """Every row a new reader finds and its vector, checksums compared; what two states are compared by."""
    index = Flat(folder, "m", D)
    index.verify()
    view = index._view()
    slots = view.live(np.arange(view.header.count))
    found = {int(view.rows[slot]): view.vectors[slot].tobytes() for slot in slots}
    assert len(found) == index.count
    if found:
        rows, _ = index.search(np.ones(D), len(found))
        assert set(rows.tolist()) == set(found)
    return found


def stored(rows: list[int] | range) -> dict[int, bytes]:
    return {row: _half(noise([row])[0]) for row in rows}


def _half(vector: np.ndarray) -> bytes:
    return binary_vectors.units(vector[None], len(vector))[0].astype(np.float16).tobytes()


# -- finding ------------------------------------------------------------------------------------------


def test_an_index_without_rows_finds_nothing(folder: Path) -> None:
    index = Flat(folder, "m", D)
    rows, cosine = index.search(np.ones(D), 5)
    assert (len(rows), len(cosine), index.count) == (0, 0, 0)
    assert not index.has([1, 2]).any() and np.isnan(index.scores(np.ones(D), [1])).all()
    index.append([], np.empty((0, D)))
    index.forget([4])
    index.compact(lambda rows: rows > 0)
    assert index.count == 0
    index.verify()


@pytest.mark.parametrize("dimension", [1, 3, 63, 64, 65, 100, 384])
def test_few_rows_are_scored_exactly_in_any_dimension(folder: Path, dimension: int) -> None:
    index, vectors = Flat(folder, "m", dimension), noise(range(300), dimension)
    index.append(np.arange(300) * 7, vectors)
    query = noise([1000], dimension)[0]
    found = index.explain(query, 300)
    true = cosines(vectors, query)
    assert found.plan == "exact"
    np.testing.assert_allclose(found.cosine, np.sort(true)[::-1], atol=2e-3)
    np.testing.assert_allclose(index.scores(query, np.arange(300) * 7), true, atol=2e-3)
    np.testing.assert_allclose(true[found.rows // 7], found.cosine, atol=2e-3)


def test_of_equal_scores_the_lower_row_comes_first(folder: Path) -> None:
    index = Flat(folder, "m", 2)
    index.append([9, 3, 5], [[1, 0], [2, 0], [0, 1]])
    rows, cosine = index.search([1, 0], 3)
    assert rows.tolist() == [3, 9, 5] and cosine.tolist() == [1, 1, 0]


def test_sign_bits_and_rescoring_find_the_neighbours(folder: Path) -> None:
    index, vectors = Flat(folder, "m", D), clustered(20_000)
    for start in range(0, 20_000, 3_000):
        index.append(np.arange(start, min(20_000, start + 3_000)), vectors[start : start + 3_000])
    found = index.explain(vectors[7], 10)
    assert found.plan == "all bits" and found.scored < 10_000
    assert recall(index, vectors, clustered(50, seed=1)) >= 0.95


def test_the_newest_rows_are_found_before_they_have_bits(folder: Path) -> None:
    index, vectors = Flat(folder, "m", D), clustered(10_000)
    index.append(np.arange(10_000), vectors)
    index.append([10_000], vectors[:1] + 0.001)
    assert set(index.search(vectors[0], 2)[0].tolist()) == {0, 10_000}


def test_a_widened_number_is_the_half_it_was() -> None:
    every = np.arange(0x7C00, dtype=np.uint16)
    halves = np.concatenate([every, every | 0x8000]).view(np.float16)  # all finite ones
    np.testing.assert_array_equal(binary_vectors.widen(halves) * np.float32(2.0**112), halves.astype(np.float32))


@pytest.mark.parametrize("limit", [1, 5, 50, 99, 100, 150])
def test_nearest_takes_the_smallest_distances_and_no_hidden_one(limit: int) -> None:
    distances = np.random.default_rng(limit).integers(0, 12, 100).astype(np.uint16)
    hidden = np.arange(100) % 3 == 0
    binary_vectors.hide_others(distances, ~hidden)
    taken = binary_vectors.nearest(distances, limit, 64)
    assert not hidden[taken].any() and len(taken) == min(limit, 66) == len(set(taken.tolist()))
    assert sorted(distances[taken]) == sorted(distances[~hidden])[:limit]


# -- filters ------------------------------------------------------------------------------------------

SHARES = {"none": 0.0, "one": 1 / 30_000, "1 %": 0.01, "15 %": 0.15, "50 %": 0.5, "all": 1.0}


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> tuple[Flat, np.ndarray]:
    index, vectors = Flat(tmp_path_factory.mktemp("large") / "vectors", "m", D), clustered(30_000)
    index.append(np.arange(30_000), vectors)
    return index, vectors


@pytest.mark.parametrize("name", SHARES)
@pytest.mark.parametrize("as_ids", [True, False])
def test_a_filter_applies_before_the_best_are_taken(large: tuple[Flat, np.ndarray], name: str, *, as_ids: bool) -> None:
    index, vectors = large
    allowed = np.random.default_rng(5).permutation(30_000)[: round(SHARES[name] * 30_000)]
    mask = np.isin(np.arange(30_000), allowed)
    allow: Allow = np.sort(allowed) if as_ids else lambda rows: mask[rows]
    found = index.explain(vectors[3], 100, allow=allow)
    plans = {"15 %": "bits of allowed rows", "50 %": "all bits, masked", "all": "all bits, masked"}
    assert (found.plan, found.allowed) == (plans.get(name, "exact"), len(allowed))
    assert len(found.rows) == min(100, len(allowed)) and mask[found.rows].all()
    if len(allowed):
        assert recall(index, vectors, clustered(20, seed=2), allow) >= 0.95


def test_allowed_ids_may_be_unknown_repeated_or_out_of_order(large: tuple[Flat, np.ndarray]) -> None:
    index, vectors = large
    found = index.explain(vectors[3], 10, allow=np.array([90_000, 5, 3, 5, -1]))
    assert found.rows.tolist() in ([3, 5], [5, 3]) and found.allowed == 2


def test_a_filter_that_answers_in_the_wrong_shape_is_refused(large: tuple[Flat, np.ndarray]) -> None:
    with pytest.raises(InvalidInput, match="shape"):
        large[0].search(np.ones(D), 3, allow=lambda rows: rows[:5] > 0)


# -- sets that sign bits are bad at -------------------------------------------------------------------


def orthant(count: int, seed: int = 0) -> np.ndarray:
    """Vectors around one direction, positive throughout: their signs are all the same."""
    return 12 + clustered(count, seed=seed) / 3


def test_the_mean_is_subtracted_where_plain_signs_fail(folder: Path) -> None:
    index, vectors = Flat(folder, "m", D), orthant(12_000)
    assert (vectors > 0).all()
    index.append(np.arange(12_000), vectors)
    assert index._view().mean is not None and index.rescore < 6_000
    assert index.explain(vectors[0], 10).plan == "all bits"
    assert recall(index, vectors, orthant(40, seed=1)) >= 0.95
    index.compact(lambda rows: rows >= 0)
    assert index._view().mean is not None
    assert recall(index, vectors, orthant(40, seed=1)) >= 0.95
    index.verify()


def test_where_no_signs_help_everything_is_scored(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(binary_vectors, "mean_of", lambda vectors: np.zeros(D, np.float32))
    index, vectors = Flat(folder, "m", D), orthant(12_000)
    index.append(np.arange(12_000), vectors)
    assert index.rescore >= 8_000 and index.explain(vectors[0], 10).plan == "exact"
    assert recall(index, vectors, orthant(20, seed=1)) >= 0.95  # float16 cannot tell all of these apart
    assert sorted(os.listdir(folder)) == ["CURRENT", "bits.0", "rows.0", "vectors.0"], "the bits tried are removed"


def test_without_the_measurement_recall_is_lost_on_such_a_set(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(binary_vectors, "candidates_needed", lambda *_: binary_vectors.RESCORE)
    index, vectors = Flat(folder, "m", D), orthant(12_000)
    index.append(np.arange(12_000), vectors)
    assert recall(index, vectors, orthant(20, seed=1)) < 0.6


# -- what is refused ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("vectors", "says"),
    [
        (np.ones((2, D + 1)), "48 dimensions"),
        (np.ones(D), "48 dimensions"),
        (np.full((2, D), np.nan), "vector 1 of 2 holds"),
        (np.array([np.ones(D), np.full(D, np.inf)]), "vector 2 of 2 holds"),
        (np.array([np.ones(D), np.zeros(D)]), "vector 2 of 2 is all zeros"),
        (np.ones((3, D)), "as many different rows"),
    ],
)
def test_vectors_that_cannot_be_are_refused_and_nothing_changes(folder: Path, vectors: np.ndarray, says: str) -> None:
    index = filled(folder, 3)
    with pytest.raises(InvalidInput, match=says):
        index.append([10, 11], vectors)
    assert content(folder) == stored(range(3))


@pytest.mark.parametrize("rows", [[5, 5], [1.5, 2.5], [[1, 2]]])
def test_rows_that_cannot_be_are_refused(folder: Path, rows: list[object]) -> None:
    with pytest.raises(InvalidInput):
        filled(folder, 1).append(rows, np.ones((2, D)))


@pytest.mark.parametrize("query", [np.zeros(D), np.full(D, np.nan), np.ones(D - 1), np.ones((1, D))])
def test_a_query_that_cannot_be_is_refused(folder: Path, query: np.ndarray) -> None:
    index = filled(folder, 3)
    with pytest.raises(InvalidInput, match="quer"):
        index.search(query, 1)
    with pytest.raises(InvalidInput):
        index.scores(query, [1])
    with pytest.raises(InvalidInput):
        index.search(np.ones(D), 0)


def test_another_model_or_dimension_is_refused(folder: Path) -> None:
    filled(folder, 3)
    for model, dimension in (("other", D), ("m", D + 1)):
        with pytest.raises(InvalidInput, match="a folder of its own"):
            _ = Flat(folder, model, dimension).count
    with pytest.raises(InvalidInput):
        Flat(folder, "m", 0)


def test_very_large_and_very_small_values_keep_their_direction(folder: Path) -> None:
    index = Flat(folder, "m", D)
    index.append([1, 2], np.array([noise([1])[0] * 1e30, noise([2])[0] * 1e-30], np.float32))
    np.testing.assert_allclose(index.scores(noise([1])[0], [1]), 1, atol=1e-3)
    np.testing.assert_allclose(index.scores(noise([2])[0] * 1e25, [2]), 1, atol=1e-3)


# -- adding -------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("small")
def test_an_append_may_be_repeated(folder: Path) -> None:
    index = filled(folder, 70)
    index.append(np.arange(60, 200), noise(range(60, 200)))
    index.append(np.arange(200), -noise(range(200)))
    assert content(folder) == stored(range(200))


@pytest.mark.usefixtures("small")
def test_rows_that_come_late_are_found_and_compacting_puts_them_in_order(folder: Path) -> None:
    index = Flat(folder, "m", D)
    late = np.random.default_rng(3).permutation(300)
    for part in np.array_split(late, 7):
        index.append(part, noise(part))
    assert content(folder) == stored(range(300))
    assert index.has([0, 299, 300]).tolist() == [True, True, False]
    np.testing.assert_allclose(index.scores(noise([11])[0], [11, 400]), [1, np.nan], atol=1e-3)
    index.compact(lambda rows: rows != 5)
    assert index._view().rows.tolist() == [row for row in range(300) if row != 5]
    assert content(folder) == stored([row for row in range(300) if row != 5])


@pytest.mark.parametrize("batches", [[[5, 6, 9], [1, 2]], [[1], [9, 3, 4, 2]]])
def test_rows_are_found_whether_a_batch_comes_late_or_is_not_in_order(folder: Path, batches: list[list[int]]) -> None:
    index = Flat(folder, "m", D)
    for rows in batches:
        index.append(rows, noise(rows))
    every = sorted(row for rows in batches for row in rows)
    assert index.has(every).all() and content(folder) == stored(every)
    np.testing.assert_allclose([index.scores(noise([row])[0], [row])[0] for row in every], 1, atol=1e-3)


def test_a_reader_notices_what_another_one_writes(folder: Path) -> None:
    writer, reader = filled(folder, 3), Flat(folder, "m", D)
    assert reader.count == 3
    writer.append([8], noise([8]))
    assert reader.search(noise([8])[0], 1)[0].tolist() == [8]
    writer.forget([8])
    assert not reader.has([8])[0]
    old = reader._view()
    writer.compact(lambda rows: rows == 2)
    np.testing.assert_array_equal(old.rows, [0, 1, 2, 8])  # the old map still answers
    assert reader.search(noise([8])[0], 5)[0].tolist() == [2]


def test_a_reader_that_meets_a_compaction_looks_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer, read_header = filled(folder, 3), vector_file.read_header
    compactions = [lambda rows: rows > 1]

    def then_compact(folder: Path) -> tuple[bytes, vector_file.Header] | None:
        found = read_header(folder)
        if compactions:
            writer.compact(compactions.pop())
        return found

    monkeypatch.setattr(vector_file, "read_header", then_compact)
    assert Flat(folder, "m", D).search(np.ones(D), 3)[0].tolist() == [2]


def test_a_reader_takes_no_old_map_for_an_index_made_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    filled(folder, 3)
    reader = Flat(folder, "m", D)
    assert reader.search(noise([2])[0], 1)[0].tolist() == [2]
    shutil.rmtree(folder)
    Flat(folder, "m", D).append([10, 11, 12], noise([10, 11, 12]))
    rows, cosine = reader.search(noise([11])[0], 1)
    assert rows.tolist() == [11] and cosine[0] > 0.99


_APPENDER = """
import sys, numpy as np, pathlib
from memlake.index import binary_vectors as signs
from memlake.index import vector_file as vectorfile
from memlake.index.vectors import Flat
from tests.index.test_vectors import noise, D
vectorfile.BLOCK, signs.RESCORE = 64, 20
index = Flat(pathlib.Path(sys.argv[1]), "m", D)
for start in range(0, 3000, 30):
    rows = np.arange(start, start + 30)
    index.append(rows, noise(rows))
    if start % 90 == 60:
        index.forget(rows[::7])
    if start % 600 == 570:
        index.compact(lambda rows: rows % 5 > 0)
"""


@pytest.mark.usefixtures("small")
def test_others_read_while_one_process_appends_forgets_and_compacts(folder: Path) -> None:
    """Whatever moment a search falls on, each row it names has the score of its own vector."""
    reader, vectors = Flat(folder, "m", D), noise(range(3000))
    child = subprocess.Popen([sys.executable, "-c", _APPENDER, str(folder)], env=_with_source())
    seen: set[int] = set()
    searches = 0
    try:
        while child.poll() is None:
            searches += 1
            rows, cosine = reader.search(vectors[searches % 3000], 10, allow=None if searches % 2 else _even)
            np.testing.assert_allclose(cosine, cosines(vectors[rows], vectors[searches % 3000]), atol=3e-3)
            seen.add(reader._view().header.serial)
            if searches % 20 == 0:
                reader.verify()
    finally:
        child.kill()
        child.wait()
    assert child.returncode == 0
    print(f"{searches} searches saw {len(seen)} of {reader._view().header.serial} states", file=sys.stderr)
    assert len(seen) > 20 and content(folder)


def _even(rows: np.ndarray) -> np.ndarray:
    return rows % 2 == 0


def _with_source() -> dict[str, str]:
    root = Path(__file__).resolve().parents[2]
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(root / "src"), str(root)])}


@pytest.mark.skipif(not hasattr(resource, "RUSAGE_SELF"), reason="counts page faults")
def test_opening_reads_next_to_nothing(large: tuple[Flat, np.ndarray]) -> None:
    pages = sum(file.stat().st_size for file in large[0].folder.iterdir()) // 4096
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    index = Flat(large[0].folder, "m", D)
    assert index.count == 30_000 and index.has([29_999])[0]
    taken = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
    assert taken < 60 < pages // 10


# -- crashes ------------------------------------------------------------------------------------------

CHANGES: dict[str, Callable[[Flat], object]] = {
    "the first append": lambda index: index.append(np.arange(10), noise(range(10))),
    "an append within a block": lambda index: index.append(np.arange(150, 170), noise(range(150, 170))),
    "an append over two blocks that is measured": lambda index: index.append(
        np.arange(150, 300), noise(range(150, 300))
    ),
    "forgetting": lambda index: index.forget([3, 70, 149]),
    "compacting": lambda index: index.compact(lambda rows: rows % 3 > 0),
}


def crash_everywhere(change: Callable[[Flat], object], start: int = 150) -> int:
    """Kill before each step: readers find the state before or after; the change can be made again."""
    with fast_folder() as place:
        if start:
            filled(place / "ready", start)
        else:
            (place / "ready").mkdir()
        before = content(place / "ready")
        steps = len(steps_of(lambda: change(Flat(snapshot_of(place / "ready", place / "done"), "m", D))))
        after = content(place / "done")
        for number in range(1, steps + 1):
            copy = snapshot_of(place / "ready", place / "copy")
            assert _die_at(copy, change, number) == KILLED
            found = content(copy)
            assert found in (before, after), f"killed before step {number} of {steps}"
            Flat(copy, "m", D).append([10_000], noise([10_000]))
            _assert_no_bytes_of(copy, before.keys() - found.keys(), before)
            change(Flat(copy, "m", D))
            index = Flat(copy, "m", D)
            index.compact(lambda rows: rows < 10_000)
            assert content(copy) == after, f"made again after step {number} of {steps}"
            shutil.rmtree(copy)
        return steps


def _die_at(folder: Path, change: Callable[[Flat], object], number: int) -> int:
    def work() -> None:
        with hooked(kill_at(number)):
            change(Flat(folder, "m", D))

    return in_child(work)


def _assert_no_bytes_of(folder: Path, rows: set[int], vectors: dict[int, bytes]) -> None:
    everything = b"".join(file.read_bytes() for file in sorted(folder.iterdir()))
    assert not [row for row in rows if vectors[row] in everything]


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("name", CHANGES)
def test_a_kill_before_any_step_leaves_the_state_before_or_after(name: str) -> None:
    survived = crash_everywhere(CHANGES[name], 0 if "first" in name else 150)
    print(f"{name}: {survived} kills survived", file=sys.stderr)
    assert survived > 5


@pytest.mark.usefixtures("small")
def test_everything_a_header_counts_is_synced_before_the_header(folder: Path) -> None:
    """A power cut may otherwise keep the header and lose the rows."""
    header = ["write", "fsync", "rename", "fsync-dir"]
    index = Flat(folder, "m", D)
    first = steps_of(lambda: index.append(np.arange(10), noise(range(10))))
    assert first == ["mkdir", "fsync-dir", "write", "write", "fsync", "fsync", *header]
    sealing = steps_of(lambda: index.append(np.arange(10, 64), noise(range(10, 64))))
    assert sealing[:6] == ["write", "write", "write", "fsync", "fsync", "fsync"]
    assert sealing[-5:] == [*header, "unlink"], "bits with the mean subtracted were tried"
    erasing = steps_of(lambda: index.forget([3]))
    assert erasing == [*header, "write", "fsync", "write", "fsync", *header]


@pytest.mark.usefixtures("small")
def test_with_the_header_before_the_rows_a_crash_leaves_garbage(monkeypatch: pytest.MonkeyPatch) -> None:
    late: list[tuple[str, bytes, int]] = []
    publish, write_at = vector_file.publish, disk.write_at

    def then_write(folder: Path, header: vector_file.Header) -> vector_file.Header:
        header = publish(folder, header)
        for path, data, offset in late:
            with vector_file._open_file(Path(path)) as fd:
                write_at(fd, data, offset)
        late.clear()
        return header

    with monkeypatch.context() as wrong:
        wrong.setattr(vector_file, "publish", then_write)
        wrong.setattr(
            disk, "write_at", lambda fd, data, at: late.append((os.readlink(f"/proc/self/fd/{fd}"), data, at))
        )
        with pytest.raises((AssertionError, Corrupt), match=r"killed before|header counts|checksum"):
            crash_everywhere(CHANGES["an append within a block"], start=0)


@pytest.mark.usefixtures("small")
def test_erasing_before_the_header_says_so_leaves_garbage(monkeypatch: pytest.MonkeyPatch) -> None:
    def at_once(self: Flat, rows: list[int]) -> None:
        view = self._prepare_to_write()
        slots = view.find(np.array(rows))
        marked = replace(view.header, gone=slots.tobytes(), erasing=slots.tobytes())
        vector_file.publish(self.folder, vector_file.erase(self.folder, marked))

    monkeypatch.setattr(Flat, "forget", at_once)
    with pytest.raises((AssertionError, Corrupt), match=r"killed before|header counts|checksum"):
        crash_everywhere(CHANGES["forgetting"])


def test_bytes_beyond_what_the_header_counts_are_ignored_and_overwritten(folder: Path) -> None:
    index = filled(folder, 10)
    for name in ("rows.0", "vectors.0", "bits.0"):
        with (folder / name).open("ab") as file:
            file.write(b"torn" * 1000)
    assert content(folder) == stored(range(10))
    index.append([10, 11], noise([10, 11]))
    assert content(folder) == stored(range(12))


# -- damage -------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("name", ["CURRENT", "rows.0", "vectors.0", "bits.0"])
@pytest.mark.parametrize("by", [1, 100, None])
def test_a_shortened_or_missing_file_is_noticed_at_opening(folder: Path, name: str, by: int | None) -> None:
    filled(folder, 150)
    path = folder / name
    if by is None and name == "CURRENT":
        path.write_bytes(b"")
    elif by is None:
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[:-by])
    with pytest.raises(Corrupt, match=name) as raised:
        Flat(folder, "m", D).search(np.ones(D), 1)
    assert "delete" in raised.value.hint


@pytest.mark.usefixtures("small")
def test_every_flipped_bit_is_noticed(folder: Path) -> None:
    filled(folder, 150).forget([70])
    Flat(folder, "m", D).verify()
    chance = np.random.default_rng(4)
    for path in sorted(folder.iterdir()):
        whole = path.read_bytes()
        for place in chance.choice(len(whole), min(60, len(whole)), replace=False):
            flipped = bytearray(whole)
            flipped[place] ^= 1 << int(chance.integers(8))
            path.write_bytes(flipped)
            with pytest.raises(Corrupt, match=path.name):
                Flat(folder, "m", D).verify()
        path.write_bytes(whole)
    Flat(folder, "m", D).verify()


# -- forgetting and compacting ------------------------------------------------------------------------


@pytest.mark.usefixtures("small")
def test_forgetting_removes_the_bytes(folder: Path) -> None:
    index = filled(folder, 200)
    view = index._view()
    bits = {row: view.bits[row // 64, :, row % 64].copy() for row in (3, 70)}
    before = b"".join(file.read_bytes() for file in folder.iterdir())
    assert all(vector in before for vector in stored([3, 70, 199]).values())
    index.forget([3, 70, 199, 5000])
    index.forget([3])
    _assert_no_bytes_of(folder, {3, 70, 199}, stored([3, 70, 199]))
    view = index._view()
    assert not any(view.bits[row // 64, :, row % 64].any() for row in bits) and all(had.any() for had in bits.values())
    left = [row for row in range(200) if row not in (3, 70, 199)]
    assert content(folder) == stored(left)
    assert (index.count, index.erased_count) == (197, 3)
    assert index.has([2, 3, 199]).tolist() == [True, False, False]
    assert np.isnan(index.scores(np.ones(D), [3, 70])).all()
    for allow in (None, np.array([3, 4, 70]), lambda rows: rows < 100):
        assert not {3, 70} & set(index.search(noise([3])[0], 200, allow=allow)[0].tolist())


def test_forgetting_removes_what_a_first_append_left_that_was_killed(folder: Path) -> None:
    assert _die_at(folder, CHANGES["the first append"], 5) == KILLED
    assert stored([4])[4] in (folder / "vectors.0").read_bytes()
    Flat(folder, "m", D).forget([4])
    assert os.listdir(folder) == []


def test_an_append_does_not_bring_a_forgotten_row_back(folder: Path) -> None:
    index = filled(folder, 5)
    index.forget([2])
    index.append([2, 7], noise([2, 7]))
    assert content(folder) == stored([0, 1, 3, 4, 7])


def test_forgetting_also_removes_what_unfinished_changes_left(folder: Path) -> None:
    index = filled(folder, 5)
    for name in ("vectors.0", "bits.0"):
        with (folder / name).open("ab") as file:
            file.write(b"left by an append")
    (folder / "vectors.9").write_bytes(b"left by a compaction")
    (folder / "CURRENT.123.tmp").write_bytes(b"left")
    index.forget([])
    assert not any(b"left" in file.read_bytes() for file in folder.iterdir())
    assert sorted(os.listdir(folder)) == ["CURRENT", "bits.0", "rows.0", "vectors.0"]
    assert content(folder) == stored(range(5))


@pytest.mark.usefixtures("small")
def test_a_row_erased_in_the_middle_of_a_search_is_not_returned(folder: Path) -> None:
    index, other = filled(folder, 150), Flat(folder, "m", D)

    def meanwhile(rows: np.ndarray) -> np.ndarray:
        other.forget([3, 70])
        return rows >= 0

    assert not {3, 70} & set(index.search(noise([3])[0], 150, allow=meanwhile)[0].tolist())


@pytest.mark.usefixtures("small")
def test_compacting_leaves_one_set_of_files_and_no_erased_slots(folder: Path) -> None:
    index = filled(folder, 500)
    index.forget(np.arange(0, 500, 7))
    index.compact(lambda rows: rows % 2 == 0)
    assert content(folder) == stored([row for row in range(0, 500, 2) if row % 7])
    assert index.erased_count == 0 and len(os.listdir(folder)) == 4
    index.append([1, 600], noise([1, 600]))
    assert index.has([1, 600]).all()
    index.compact(lambda rows: rows < 0)
    assert index.count == 0 and content(folder) == {}
