"""Laws of the prolly tree, with a plain dict as the model and another as the node store."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from memlake.versions.trees import tree
from memlake.versions.trees.tree import Node

Model = dict[bytes, bytes]


class Memory:
    """A node store in memory that counts what is asked of it."""

    def __init__(self) -> None:
        self.data: dict[bytes, bytes] = {tree.EMPTY: tree.EMPTY_DATA}
        self.read = 0
        self.trips = 0

    def get_many(self, oids: Iterable[bytes]) -> Mapping[bytes, Node]:
        wanted = set(oids)
        self.read += len(wanted)
        self.trips += 1
        return {oid: tree.decode(self.data[oid]) for oid in wanted}

    def build(self, model: Model) -> bytes:
        root, made = tree.build(sorted(model.items()))
        self.data.update(made)
        return root

    def edit(self, root: bytes, edits: tree.Edits) -> bytes:
        new, made = tree.edit(self.get_many, root, edits)
        self.data.update(made)
        return new

    def reach(self, root: bytes) -> set[bytes]:
        """Every node of a tree; KeyError when one of them is nowhere."""
        seen: set[bytes] = set()
        waiting = [root]
        while waiting:
            oid = waiting.pop()
            if oid not in seen:
                seen.add(oid)
                node = tree.decode(self.data[oid])
                if node.level:
                    waiting.extend(node.values)
        return seen


@cache
def keys_of_height(least: int, count: int, prefix: bytes = b"k") -> list[bytes]:
    """Keys that end nodes on at least so many levels: random ones hardly ever reach the second."""
    found: list[bytes] = []
    number = 0
    while len(found) < count:
        key = b"%s%d" % (prefix, number)
        if tree.height(key) >= least:
            found.append(key)
        number += 1
    return found


PLAIN = [b"k%d" % n for n in range(60)]
BOUNDARY = keys_of_height(1, 40) + keys_of_height(2, 20) + keys_of_height(3, 4)
POOL = sorted({*PLAIN, *BOUNDARY})
KEY = st.one_of(st.sampled_from(BOUNDARY), st.sampled_from(POOL), st.binary(max_size=6))
VALUE = st.binary(max_size=3)
MODEL = st.dictionaries(KEY, VALUE, max_size=150)
EDITS = st.dictionaries(KEY, st.one_of(st.none(), VALUE), max_size=60)


def applied(model: Model, edits: tree.Edits) -> Model:
    both = {**model, **edits}
    return {key: value for key, value in both.items() if value is not None}


def many(seed: int, count: int) -> Model:
    """A model of a given size with every kind of boundary key in it."""
    numbers = random.Random(seed)
    return {b"%016x" % numbers.getrandbits(64): b"v%d" % n for n, _ in enumerate(range(count))}


def test_the_pool_has_keys_that_end_nodes_on_three_levels() -> None:
    assert {tree.height(key) for key in POOL} >= {0, 1, 2, 3}


@given(MODEL, st.lists(EDITS, max_size=8))
@example({}, [{}])
@example({b"a": b"1"}, [{b"a": None}])
@example(dict.fromkeys(BOUNDARY, b""), [dict.fromkeys(BOUNDARY[::2]), dict.fromkeys(BOUNDARY[1::2])])
def test_any_sequence_of_edits_gives_the_root_of_the_final_content(model: Model, steps: list[tree.Edits]) -> None:
    store = Memory()
    root = store.build(model)
    for edits in steps:
        root = store.edit(root, edits)
        model = applied(model, edits)
        assert root == tree.build(sorted(model.items()))[0]
        assert dict(tree.scan(store.get_many, root)) == model


@pytest.mark.parametrize("seed", range(6))
def test_roots_do_not_depend_on_history_over_many_levels_of_growing_and_shrinking(seed: int) -> None:
    numbers, store = random.Random(seed), Memory()
    everything = many(seed, 6000)
    model: Model = {}
    root, levels = tree.EMPTY, set()
    for goal in (1, 13, 400, 6000, 5999, 2500, 300, 12, 1, 0, 3000, 0):
        root, model = _move_towards(store, root, model, everything, goal, numbers)
        assert root == tree.build(sorted(model.items()))[0]
        levels.add(tree.decode(store.data[root]).level)
    assert root == tree.EMPTY
    assert levels >= {0, 1, 2}


def _move_towards(
    store: Memory, root: bytes, model: Model, everything: Model, goal: int, numbers: random.Random
) -> tuple[bytes, Model]:
    """Add or remove random keys in batches of random size until `goal` of them are there."""
    while len(model) != goal:
        batch = numbers.choice((1, 1, 3, 50, 1000))
        if len(model) > goal:
            chosen = numbers.sample(sorted(model), min(batch, len(model) - goal))
            edits: dict[bytes, bytes | None] = dict.fromkeys(chosen)
        else:
            free = sorted(everything.keys() - model.keys())
            edits = {key: everything[key] for key in numbers.sample(free, min(batch, goal - len(model)))}
        root, model = store.edit(root, edits), applied(model, edits)
    return root, model


@pytest.mark.parametrize("least", [1, 2, 3])
def test_removing_keys_that_end_nodes_joins_the_nodes_they_ended(least: int) -> None:
    model = {**many(least, 4000), **dict.fromkeys(keys_of_height(least, 12), b"x")}
    ends = [key for key in model if tree.height(key) >= least]
    assert len(ends) >= 12
    store = Memory()
    root = store.build(model)
    for at in range(0, len(ends), 3):
        edits = dict.fromkeys(ends[at : at + 3])
        root, model = store.edit(root, edits), applied(model, edits)
        assert root == tree.build(sorted(model.items()))[0]


def test_the_boundary_check_would_notice_nodes_that_are_not_joined(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tree, "_after", lambda *_: None)
    with pytest.raises(AssertionError):
        test_removing_keys_that_end_nodes_joins_the_nodes_they_ended(1)


def test_removing_runs_of_neighbouring_boundaries_at_once_is_the_same_as_one_by_one() -> None:
    model = many(5, 3000)
    ends = sorted(key for key in model if tree.height(key) > 0)
    store = Memory()
    start = store.build(model)
    at_once = store.edit(start, dict.fromkeys(ends[20:60]))
    one_by_one = start
    for key in ends[20:60]:
        one_by_one = store.edit(one_by_one, {key: None})
    assert at_once == one_by_one == tree.build(sorted(applied(model, dict.fromkeys(ends[20:60])).items()))[0]


@given(MODEL, EDITS)
def test_an_edit_makes_every_node_its_root_needs_and_none_that_it_does_not(model: Model, edits: tree.Edits) -> None:
    store = Memory()
    root = store.build(model)
    new, made = tree.edit(store.get_many, root, edits)
    store.data.update(made)
    assert made.keys() <= store.reach(new)
    assert all(tree.oid_of(data) == oid for oid, data in made.items())


@given(MODEL, EDITS)
def test_an_edit_tells_what_its_keys_held_before(model: Model, edits: tree.Edits) -> None:
    store, before = Memory(), Model()
    root = store.build(model)
    tree.edit(store.get_many, root, edits, before)
    assert before == {key: model[key] for key in edits if key in model}


@given(MODEL, st.sets(KEY, max_size=20))
def test_get_returns_what_a_dict_would(model: Model, keys: set[bytes]) -> None:
    store = Memory()
    root = store.build(model)
    assert tree.get(store.get_many, root, keys) == {key: model[key] for key in keys if key in model}


@given(MODEL, KEY, st.one_of(st.none(), KEY))
def test_scan_of_a_range_is_a_slice_of_the_sorted_dict(model: Model, start: bytes, end: bytes | None) -> None:
    store = Memory()
    root = store.build(model)
    wanted = [(k, v) for k, v in sorted(model.items()) if k >= start and (end is None or k < end)]
    assert list(tree.scan(store.get_many, root, start, end)) == wanted


def differences(a: Model, b: Model, start: bytes = b"", end: bytes | None = None) -> list[tree.Difference]:
    keys = sorted(key for key in a.keys() | b.keys() if a.get(key) != b.get(key))
    return [(key, a.get(key), b.get(key)) for key in keys if key >= start and (end is None or key < end)]


@given(MODEL, EDITS, KEY, st.one_of(st.none(), KEY))
def test_diff_is_the_difference_of_the_dicts_also_in_a_range(
    model: Model, edits: tree.Edits, start: bytes, end: bytes | None
) -> None:
    store, other = Memory(), applied(model, edits)
    a, b = store.build(model), store.build(other)
    assert tree.diff(store.get_many, a, b) == differences(model, other)
    assert tree.diff(store.get_many, b, a) == differences(other, model)
    assert tree.diff(store.get_many, a, b, start, end) == differences(model, other, start, end)


@given(MODEL, MODEL)
def test_diff_of_unrelated_trees_of_any_height_is_still_exact(one: Model, two: Model) -> None:
    store = Memory()
    assert tree.diff(store.get_many, store.build(one), store.build(two)) == differences(one, two)


@pytest.mark.parametrize("size", [0, 1, 40, 3000])
def test_diff_of_a_small_tree_and_a_large_one_goes_down_to_the_same_level_first(size: int) -> None:
    large = many(8, 6000)
    small = dict(sorted(large.items())[1000 : 1000 + size])
    store = Memory()
    a, b = store.build(small), store.build(large)
    assert tree.diff(store.get_many, a, b) == differences(small, large)
    low, high = sorted(large)[500], sorted(large)[2500]
    assert tree.diff(store.get_many, b, a, low, high) == differences(large, small, low, high)


def test_a_large_scan_over_several_levels_is_whole_and_in_order() -> None:
    model, store = many(9, 20_000), Memory()
    root = store.build(model)
    assert tree.decode(store.data[root]).level >= 2
    assert list(tree.scan(store.get_many, root)) == sorted(model.items())
    low, high = sorted(model)[7000], sorted(model)[7100]
    assert [key for key, _ in tree.scan(store.get_many, root, low, high)] == sorted(model)[7000:7100]


# -- what it costs ------------------------------------------------------------------------------

SIZES = (1_000, 10_000, 100_000)


@cache
def large_tree(size: int) -> tuple[Memory, bytes, tuple[bytes, ...]]:
    model, store = many(size, size), Memory()
    return store, store.build(model), tuple(sorted(model))


def cost_of_one_edit(size: int, how: Callable[..., Any]) -> float:
    """Nodes read and made by one edit, on the average of many: replaced, added and removed keys."""
    store, root, keys = large_tree(size)
    numbers = random.Random(size)
    total, rounds = 0, 60
    for number in range(rounds):
        key = numbers.choice(keys)
        edits = ({key: b"new"}, {key + b"x": b"new"}, {key: None})[number % 3]
        store.read = 0
        _, made = how(store.get_many, root, edits)
        total += store.read + len(made)
    return total / rounds


def rebuild(nodes: tree.GetMany, root: bytes, edits: tree.Edits) -> tuple[bytes, dict[bytes, bytes]]:
    """What an edit must not be: everything read and written again."""
    return tree.build(sorted(applied(dict(tree.scan(nodes, root)), edits).items()))


def grows_like_the_logarithm(costs: list[float]) -> bool:
    """Each tenfold growth of the tree may add one level (with its neighbours), and no more."""
    return all(after - before <= 8 for before, after in pairwise(costs)) and costs[-1] <= 40


def test_one_edit_costs_the_same_in_a_hundred_thousand_keys_but_for_the_logarithm() -> None:
    costs = [cost_of_one_edit(size, tree.edit) for size in SIZES]
    assert grows_like_the_logarithm(costs), costs


def test_putting_a_key_among_a_hundred_thousand_descends_once() -> None:
    store, root, keys = large_tree(SIZES[-1])
    levels = tree.decode(store.data[root]).level + 1
    store.trips = 0
    tree.edit(store.get_many, root, {keys[len(keys) // 2] + b"!": b"new"}, {})
    assert store.trips <= levels + 1  # the root is looked at once more


def test_the_cost_check_would_notice_a_rebuild() -> None:
    costs = [cost_of_one_edit(size, rebuild) for size in SIZES[:2]]
    assert not grows_like_the_logarithm(costs), costs


def test_diff_of_one_change_in_a_hundred_thousand_keys_reads_a_few_nodes_in_few_trips() -> None:
    store, root, keys = large_tree(SIZES[-1])
    changed = store.edit(root, {keys[50_000]: b"new"})
    store.read = store.trips = 0
    assert [key for key, _, _ in tree.diff(store.get_many, root, changed)] == [keys[50_000]]
    height = tree.decode(store.data[root]).level + 1
    assert store.read <= 2 * height + 2
    assert store.trips <= height + 1


def test_reading_a_hundred_keys_asks_level_by_level_and_not_key_by_key() -> None:
    store, root, keys = large_tree(SIZES[-1])
    wanted = random.Random(1).sample(keys, 100)
    store.trips = 0
    assert len(tree.get(store.get_many, root, wanted)) == 100
    assert store.trips == tree.decode(store.data[root]).level + 1


def test_nodes_of_a_large_tree_are_about_a_kilobyte_and_the_tree_is_flat() -> None:
    store, root, keys = large_tree(SIZES[-1])
    sizes = [len(store.data[oid]) for oid in store.reach(root)]
    assert 200 <= sum(sizes) / len(sizes) <= 2000
    assert tree.decode(store.data[root]).level <= math.ceil(math.log(len(keys), tree.INNER_TARGET)) + 2


# -- the bytes of a node ------------------------------------------------------------------------


def test_a_node_has_exactly_the_documented_bytes() -> None:
    data = tree.encode(0, [b"files/a", b"files/b"], [b"\x01", b"\x02"])
    assert data == b"\x94\x00\xc4\x06files/\x92\xc4\x01a\xc4\x01b\x92\xc4\x01\x01\xc4\x01\x02"
    assert tree.EMPTY_DATA == b"\x94\x00\xc4\x00\x90\x90"


def test_roots_are_the_ones_every_release_gave() -> None:
    """Changing these means that every repo gets other roots for the same content: a new format."""
    roots = {n: tree.build((b"files/%05d" % i, b"%d" % i) for i in range(n))[0].hex()[:16] for n in (1, 50, 5000)}
    assert roots == {1: "9a2d4e1b6b6ec232", 50: "4c2cdbaf838410ed", 5000: "8e42b0eb617baead"}
    assert [tree.height(b"files/%05d" % n) for n in (0, 3, 282, 2166, 85824)] == [0, 1, 2, 3, 4]


@given(st.lists(st.binary(max_size=12), unique=True, min_size=1, max_size=30).map(sorted), st.integers(0, 7))
def test_a_node_reads_back_as_it_was_written(keys: list[bytes], level: int) -> None:
    values = [b"%032d" % n for n in range(len(keys))]
    node = tree.decode(tree.encode(level, keys, values))
    assert node.ends == (keys[0], keys[-1])
    assert (node.level, node.keys, node.values) == (level, keys, values)
    assert node.ends == (keys[0], keys[-1]), "also once the keys were put together"
