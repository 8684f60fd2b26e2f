"""The tree: an ordered map from bytes to bytes whose root hash names its whole content. Knows no path or commit.

A prolly tree. Whether a key ends a node at level L is decided by the hash of the key alone, so the same
content has the same nodes and the same root however it came about, and changing one key among a million
rewrites only the nodes on its way up. A level is itself an ordered map (last key of a node -> its oid),
so one routine, `_edit_level`, edits leaves and inner levels alike. Nodes are asked for level by level
with one `get_many`, never one by one.

    node = msgpack [level, common prefix, [rest of key, ...], [value, ...]];  oid = SHA-256 of these bytes
    a key ends a leaf with chance 1/12, and, when it does, ends the node above with chance 1/24, and so on
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import chain, compress, repeat
from operator import lt, ne

import msgpack

from memlake.errors import Corrupt

LEAF_TARGET, INNER_TARGET = 12, 24
_LEAF_CUT, _INNER_CUT = (1 << 32) // LEAF_TARGET, (1 << 32) // INNER_TARGET
MAX_LEVEL = 7
_LONGEST = 4096  # bytes of a key that its node may hold once for all of its keys

Edits = Mapping[bytes, bytes | None]
Covering = list[tuple["Node", list[bytes]]]  # nodes of one level, each with the sorted keys it covers
Difference = tuple[bytes, bytes | None, bytes | None]


class Node:
    """A node of any level. Its keys are put together from what they share and their rests when first asked for."""

    __slots__ = ("_parts", "level", "values")

    def __init__(self, level: int, prefix: bytes, rests: list[bytes], values: list[bytes]) -> None:
        self.level, self.values = level, values
        self._parts = prefix, rests  # replaced in one step, so that threads never see one of them without the other

    @property
    def keys(self) -> list[bytes]:
        prefix, rests = self._parts
        if prefix:
            self._parts = b"", [prefix + rest for rest in rests]
        return self._parts[1]

    @property
    def ends(self) -> tuple[bytes, bytes] | None:
        """The first and the last key; None of an empty node."""
        prefix, rests = self._parts
        return (prefix + rests[0], prefix + rests[-1]) if rests else None

    def has_keys_of(self, other: Node) -> bool:
        return self._parts == other._parts or self.keys == other.keys


GetMany = Callable[[Iterable[bytes]], Mapping[bytes, Node]]


def height(key: bytes) -> int:
    """How many levels a key ends a node on: 0 for eleven keys of twelve."""
    digest = hashlib.sha256(key).digest()
    if int.from_bytes(digest[:4], "big") >= _LEAF_CUT:
        return 0
    level = 1
    while level < MAX_LEVEL and int.from_bytes(digest[4 * level : 4 * level + 4], "big") < _INNER_CUT:
        level += 1
    return level


def encode(level: int, keys: list[bytes], values: list[bytes]) -> bytes:
    cut = _count_shared(keys[0], keys[-1]) if keys else 0
    prefix = keys[0][:cut] if keys else b""
    return msgpack.packb([level, prefix, [key[cut:] for key in keys], values])  # type: ignore[no-any-return]


def _count_shared(first: bytes, last: bytes) -> int:
    """How many leading bytes two sorted keys, and so all keys between them, have in common."""
    for at, (a, b) in enumerate(zip(first, last, strict=False)):
        if a != b:
            return at
    return min(len(first), len(last))


def decode(data: bytes) -> Node:
    try:
        level, prefix, rests, values = msgpack.unpackb(data)
        if not 0 <= level <= MAX_LEVEL or len(rests) != len(values) or len(prefix) * len(rests) > _LONGEST * len(data):
            raise ValueError("its parts do not fit together")
        b"".join(chain((prefix,), rests, values))  # a TypeError if one of them is not bytes, as quick as a look can be
        if not all(map(lt, rests, rests[1:])):
            raise ValueError("its keys are not in order")
        if level and (len(set(values)) != len(values) or set(map(len, values)) != {32}):
            raise ValueError("its children are not some nodes, each once")
        return Node(level, prefix, rests, values)
    except (ValueError, TypeError, msgpack.UnpackException) as error:
        raise Corrupt("a tree node cannot be read.", hint="Run memlake fsck.") from error


EMPTY_DATA = encode(0, [], [])
EMPTY = hashlib.sha256(EMPTY_DATA).digest()


def oid_of(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()


# -- reading ------------------------------------------------------------------------------------


def get(nodes: GetMany, root: bytes, keys: Iterable[bytes]) -> dict[bytes, bytes]:
    """The values of those keys that are there."""
    nodes = _check_places(nodes)
    return dict(_find_values(list(_descend(nodes, root, sorted(set(keys)), 0))))


def find_next_keys(nodes: GetMany, root: bytes, keys: Iterable[bytes]) -> dict[bytes, bytes]:
    """For each key the first key of the tree that is not smaller, if there is one."""
    following: dict[bytes, bytes] = {}
    for node, wanted in _descend(_check_places(nodes), root, sorted(set(keys)), 0):
        for key in wanted:
            at = bisect_left(node.keys, key)
            if at < len(node.keys):  # a leaf covers keys up to its last one, so only past the last leaf is there none
                following[key] = node.keys[at]
    return following


def scan(nodes: GetMany, root: bytes, start: bytes = b"", end: bytes | None = None) -> Iterator[tuple[bytes, bytes]]:
    """Keys from `start` up to but not `end`, in order, about a thousand leaves in memory at a time."""
    return _scan(nodes, nodes([root])[root], start, end, None)


def _scan(
    nodes: GetMany, node: Node, start: bytes, end: bytes | None, low: bytes | None
) -> Iterator[tuple[bytes, bytes]]:
    """`low` is the last key before this node, if there is one."""
    if node.level == 0:
        yield from _items_of_leaf(node, start, end)
        return
    children = _within(node, start, end)
    if node.level <= 2:
        loaded = nodes(children)  # one round trip for all of them; below, each finds its own children cached
    first = bisect_left(node.keys, start)
    for at, oid in enumerate(children, first):
        child = loaded[oid] if node.level <= 2 else nodes([oid])[oid]
        before = node.keys[at - 1] if at else low
        if not _fits(child, node.level - 1, before, node.keys[at]):
            raise _misplaced_error(oid)
        if child.level:
            yield from _scan(nodes, child, start, end, before)
        else:
            yield from _items_of_leaf(child, start, end)


def _items_of_leaf(leaf: Node, start: bytes, end: bytes | None) -> Iterator[tuple[bytes, bytes]]:
    low = bisect_left(leaf.keys, start)
    high = len(leaf.keys) if end is None else bisect_left(leaf.keys, end)
    return zip(leaf.keys[low:high], leaf.values[low:high], strict=True)


def _fits(node: Node, level: int, low: bytes | None, last: bytes) -> bool:
    """Whether a node is what its parent says: on this level, with keys after `low` and up to `last`.

    So no two children share a key, no node is in a tree twice, and a few nodes cannot stand for a million paths.
    """
    ends = node.ends
    return node.level == level and ends is not None and ends[1] == last and (low is None or ends[0] > low)


def _misplaced_error(oid: bytes) -> Corrupt:
    return Corrupt(f"tree node {oid.hex()} is not what its parent says.", hint="Run memlake fsck.")


class _Places:
    """What parents say of their children, learned on the way down: level, last key before the child, its last key."""

    def __init__(self) -> None:
        self._places: dict[bytes, tuple[int, bytes | None, bytes]] = {}

    def check(self, oid: bytes, node: Node) -> None:
        place = self._places.get(oid)
        if place is not None and not _fits(node, *place):
            raise _misplaced_error(oid)

    def note(self, oid: bytes, node: Node, at: int) -> None:
        """Learn where one child of a node hangs."""
        low = node.keys[at - 1] if at else self._low(oid)
        self._places[node.values[at]] = node.level - 1, low, node.keys[at]

    def note_children(self, oids: Iterable[bytes], loaded: Mapping[bytes, Node]) -> None:
        """Learn where all children of some nodes hang."""
        for oid in oids:
            node = loaded[oid]
            if node.level:
                before = chain((self._low(oid),), node.keys)
                place = zip(repeat(node.level - 1), before, node.keys)
                self._places.update(zip(node.values, place, strict=False))

    def _low(self, oid: bytes) -> bytes | None:
        return self._places[oid][1] if oid in self._places else None


def _check_places(nodes: GetMany) -> GetMany:
    """`nodes` for one walk in one tree, with each node checked against its parent. (`scan` does its own checks.)"""
    places = _Places()

    def get_many(oids: Iterable[bytes]) -> Mapping[bytes, Node]:
        loaded = nodes(oids)
        for oid, node in loaded.items():
            places.check(oid, node)
        places.note_children(loaded, loaded)
        return loaded

    return get_many


def _within(node: Node, start: bytes, end: bytes | None) -> list[bytes]:
    low, high = _range_within(node, start, end)
    return node.values[low:high]


def _range_within(node: Node, start: bytes, end: bytes | None) -> tuple[int, int]:
    """Which children of a node can hold keys from `start` up to `end`."""
    return bisect_left(node.keys, start), len(node.keys) if end is None else bisect_left(node.keys, end) + 1


def _descend(nodes: GetMany, root: bytes, keys: list[bytes], level: int) -> Iterator[tuple[Node, list[bytes]]]:
    """The nodes at `level` that cover the sorted keys, each with the keys it covers."""
    current: list[tuple[bytes, list[bytes]]] = [(root, keys)]
    while current:
        loaded = nodes([oid for oid, _ in current])
        if loaded[current[0][0]].level <= level:
            yield from ((loaded[oid], wanted) for oid, wanted in current)
            return
        below: list[tuple[bytes, list[bytes]]] = []
        for oid, wanted in current:
            below.extend(_route(loaded[oid], wanted))
        current = below


def _descend_all(nodes: GetMany, root: bytes, keys: list[bytes]) -> list[Covering]:
    """The nodes that cover the sorted keys on every level, the leaves first."""
    levels, current = list[Covering](), [(root, keys)]
    while current:
        loaded = nodes([oid for oid, _ in current])
        levels.append([(loaded[oid], wanted) for oid, wanted in current])
        below = levels[-1] if levels[-1][0][0].level else ()
        current = [part for node, wanted in below for part in _route(node, wanted)]
    return levels[::-1]


def _deal_keys(covering: Covering, keys: list[bytes]) -> Covering:
    """Deal sorted keys out to the nodes of one level that cover them; keys past the last one go to the last node."""
    dealt, at, last = Covering(), 0, len(covering) - 1
    for number, (node, _) in enumerate(covering):
        end = len(keys) if number == last else bisect_right(keys, node.keys[-1], at)
        dealt += [(node, keys[at:end])] if end > at else []
        at = end
    return dealt


def _find_values(leaves: Covering) -> Iterator[tuple[bytes, bytes]]:
    """Those keys that the leaves have, with their values."""
    for node, wanted in leaves:
        for key in wanted:
            at = bisect_left(node.keys, key)
            if at < len(node.keys) and node.keys[at] == key:
                yield key, node.values[at]


def _route(node: Node, keys: list[bytes]) -> Iterator[tuple[bytes, list[bytes]]]:
    """Deal sorted keys out to the children that cover them; keys past the last one go to the last child."""
    at, last = 0, len(node.keys) - 1
    while at < len(keys):
        child = min(bisect_left(node.keys, keys[at]), last)
        end = len(keys) if child == last else bisect_right(keys, node.keys[child], at)
        yield node.values[child], keys[at:end]
        at = end


# -- editing ------------------------------------------------------------------------------------


def build(items: Iterable[tuple[bytes, bytes]]) -> tuple[bytes, dict[bytes, bytes]]:
    """A tree of sorted items: (root, new nodes)."""
    keys, values = [], []
    for key, value in items:
        keys.append(key)
        values.append(value)
    return _build_up(0, keys, values, [height(key) for key in keys])


def _build_up(
    level: int, keys: list[bytes], values: list[bytes], heights: list[int]
) -> tuple[bytes, dict[bytes, bytes]]:
    new_nodes: dict[bytes, bytes] = {}
    if not keys:
        return EMPTY, {EMPTY: EMPTY_DATA}
    while True:
        up_keys, up_values, up_heights, start = [], [], [], 0
        for at in range(len(keys)):
            if heights[at] > level or at == len(keys) - 1:
                data = encode(level, keys[start : at + 1], values[start : at + 1])
                oid = oid_of(data)
                new_nodes[oid] = data
                up_keys.append(keys[at])
                up_values.append(oid)
                up_heights.append(heights[at])
                start = at + 1
        if len(up_keys) == 1:
            return up_values[0], new_nodes
        keys, values, heights, level = up_keys, up_values, up_heights, level + 1


def edit(
    nodes: GetMany, root: bytes, edits: Edits, before: dict[bytes, bytes] | None = None
) -> tuple[bytes, dict[bytes, bytes]]:
    """Apply edits (None removes): (new root, new nodes). Cost grows with the edits, not with the tree.

    `before` is filled with what the keys of the edits held, which costs nothing extra.
    """
    if not edits:
        return root, {}
    nodes = _check_places(nodes)
    top = nodes([root])[root]
    if not top.keys:
        return build(sorted((key, value) for key, value in edits.items() if value is not None))
    levels = _descend_all(nodes, root, sorted(edits))
    if before is not None:
        before.update(_find_values(levels[0]))
    new_nodes: dict[bytes, bytes] = {}
    level, current, grows = 0, dict(edits), None not in edits.values()
    while True:
        if not current:
            return root, {}
        if level == top.level:
            break
        keys = sorted(current)
        # New keys change only the nodes that cover them; a removal may reach into neighbours.
        covering = _deal_keys(levels[level], keys) if grows else list(_descend(nodes, root, keys, level))
        current = _edit_level(level, covering, current, new_nodes, partial(_after, nodes, root, level))
        level += 1
    keys, values = _apply(top, current)
    new_root, above = _build_up(level, keys, values, _heights(level, top, keys, current))
    new_nodes.update(above)
    return _collapse(nodes, new_root, new_nodes)


def _edit_level(
    level: int,
    covering: Covering,
    edits: dict[bytes, bytes | None],
    new_nodes: dict[bytes, bytes],
    after: Callable[[bytes], Node | None],
) -> dict[bytes, bytes | None]:
    """Edit one level below the top; returns the edits this means for the level above."""
    up: dict[bytes, bytes | None] = {}
    at = 0
    while at < len(covering):
        node, wanted = covering[at]
        at += 1
        old_bound = node.keys[-1]
        keys, values = _apply(node, {key: edits[key] for key in wanted})
        fresh = [key for key in wanted if edits[key] is not None]
        up[old_bound] = None
        # Without its last key a node no longer ends here but runs on into its neighbour.
        while old_bound in edits and edits[old_bound] is None:
            following = after(old_bound)
            if following is None:
                break
            if at < len(covering) and following.keys[-1] == covering[at][0].keys[-1]:
                node, wanted = covering[at]
                at += 1
            else:
                node, wanted = following, []
            old_bound = node.keys[-1]
            more = _apply(node, {key: edits[key] for key in wanted})
            keys, values = keys + more[0], values + more[1]
            fresh += [key for key in wanted if edits[key] is not None]
            up[old_bound] = None
        for key, oid, data in _cut(level, keys, values, {*fresh, old_bound}):
            new_nodes[oid], up[key] = data, oid
    return up


def _cut(
    level: int, keys: list[bytes], values: list[bytes], suspects: set[bytes]
) -> Iterator[tuple[bytes, bytes, bytes]]:
    """A run of items as nodes: (last key, oid, bytes). Only new keys and the old end can end one."""
    start = 0
    for at, key in enumerate(keys):
        if at == len(keys) - 1 or (key in suspects and height(key) > level):
            data = encode(level, keys[start : at + 1], values[start : at + 1])
            yield key, oid_of(data), data
            start = at + 1


def _apply(node: Node, edits: Mapping[bytes, bytes | None]) -> tuple[list[bytes], list[bytes]]:
    if len(edits) > len(node.keys):
        merged: dict[bytes, bytes | None] = {**dict(zip(node.keys, node.values, strict=True)), **edits}
        pairs = sorted((key, value) for key, value in merged.items() if value is not None)
        return [key for key, _ in pairs], [value for _, value in pairs]
    keys, values = list(node.keys), list(node.values)
    for key, value in edits.items():
        at = bisect_left(keys, key)
        here = at < len(keys) and keys[at] == key
        if value is None:
            if here:
                del keys[at], values[at]
        elif here:
            values[at] = value
        else:
            keys.insert(at, key)
            values.insert(at, value)
    return keys, values


def _heights(level: int, top: Node, keys: list[bytes], edits: Mapping[bytes, bytes | None]) -> list[int]:
    """Heights for rebuilding the top. Old keys inside the root cannot end a node at its level: no need to hash them."""
    old = set(top.keys[:-1])
    return [level if key in old and key not in edits else height(key) for key in keys]


def _after(nodes: GetMany, root: bytes, level: int, key: bytes) -> Node | None:
    """The first node at `level` that holds keys greater than `key`."""
    oid, at_level = root, nodes([root])[root].level
    while at_level > level:
        node = nodes([oid])[oid]
        at = bisect_right(node.keys, key)
        if at == len(node.keys):
            return None
        oid, at_level = node.values[at], node.level - 1
    node = nodes([oid])[oid]
    return node if node.keys and node.keys[-1] > key else None


def _collapse(nodes: GetMany, root: bytes, new_nodes: dict[bytes, bytes]) -> tuple[bytes, dict[bytes, bytes]]:
    """A root with a single child is not canonical: the child is the root."""
    while True:
        node = decode(new_nodes[root]) if root in new_nodes else nodes([root])[root]
        if node.level == 0 or len(node.keys) > 1:
            return root, new_nodes
        new_nodes.pop(root, None)
        root = node.values[0]


# -- comparing ----------------------------------------------------------------------------------


def diff(nodes: GetMany, a: bytes, b: bytes, start: bytes = b"", end: bytes | None = None) -> list[Difference]:
    """Every key whose value differs, in order, as (key, value in a, value in b). Equal subtrees are never read."""
    if a == b:
        return []
    sides = _Sides(nodes)
    left, right = [a], [b]
    loaded = sides.load([(left, right)])
    la, lb = loaded[a].level, loaded[b].level
    while la > lb:
        left, la = sides.find_children(0, left, start, end), la - 1
    while lb > la:
        right, lb = sides.find_children(1, right, start, end), lb - 1
    pairs = [(left, right)]
    for _ in range(la):
        pairs = sides.split(pairs, start, end)
    return _leaf_diff(sides.load(pairs), pairs, start, end)


Pair = tuple[list[bytes], list[bytes]]
Loaded = Mapping[bytes, Node]


class _Sides:
    """The nodes of two trees, loaded together. A node that both have may follow another key in each of them.

    Hot: if a few of a million keys differ, most children of a node are the same on both sides and are passed over
    without a step of Python for each. Only nodes that are read are noted with what their parents say.
    """

    def __init__(self, nodes: GetMany) -> None:
        self._nodes, self._places = nodes, (_Places(), _Places())

    def load(self, pairs: list[Pair]) -> Loaded:
        loaded = self._nodes({oid for left, right in pairs for oid in chain(left, right)})
        for side, places in enumerate(self._places):
            for pair in pairs:
                for oid in pair[side]:
                    places.check(oid, loaded[oid])
        return loaded

    def find_children(self, side: int, oids: list[bytes], start: bytes, end: bytes | None) -> list[bytes]:
        """One level down on one side, which is higher than the other."""
        loaded = self.load([(oids, []) if side == 0 else ([], oids)])
        self._places[side].note_children(oids, loaded)
        return [child for oid in oids for child in _within(loaded[oid], start, end)]

    def split(self, pairs: list[Pair], start: bytes, end: bytes | None) -> list[Pair]:
        """Go one level down: drop children equal on both sides, split where both sides have a common end."""
        loaded = self.load(pairs)
        below: list[Pair] = []
        for left, right in pairs:
            a, b = loaded[left[0]] if left else None, loaded[right[0]] if right else None
            if a and b and len(left) == len(right) == 1 and a.has_keys_of(b):
                low, high = _range_within(a, start, end)
                for at in compress(range(low, high), map(ne, a.values[low:high], b.values[low:high])):
                    self._places[0].note(left[0], a, at)
                    self._places[1].note(right[0], b, at)
                    below.append(([a.values[at]], [b.values[at]]))
                continue
            for side, oids in enumerate((left, right)):
                self._places[side].note_children(oids, loaded)
            below.extend(_align(*([item for oid in oids for item in _items(loaded[oid], start, end)]
                                  for oids in (left, right))))  # fmt: skip
        return below


def _items(node: Node, start: bytes, end: bytes | None) -> Iterator[tuple[bytes, bytes]]:
    low, high = _range_within(node, start, end)
    return zip(node.keys[low:high], node.values[low:high], strict=True)


def _align(a: list[tuple[bytes, bytes]], b: list[tuple[bytes, bytes]]) -> Iterator[Pair]:
    """Runs of children of both sides that cover the same keys, without those that are equal."""
    i = j = 0
    left: list[bytes] = []
    right: list[bytes] = []
    while i < len(a) or j < len(b):
        step_a = j == len(b) or (i < len(a) and a[i][0] <= b[j][0])
        step_b = i == len(a) or (j < len(b) and b[j][0] <= a[i][0])
        if step_a and step_b and not left and not right and a[i][1] == b[j][1]:
            i, j = i + 1, j + 1
            continue
        if step_a:
            left.append(a[i][1])
            i += 1
        if step_b:
            right.append(b[j][1])
            j += 1
        if step_a and step_b:
            yield left, right
            left, right = [], []
    if left or right:
        yield left, right


def _leaf_diff(loaded: Loaded, pairs: list[Pair], start: bytes, end: bytes | None) -> list[Difference]:
    differences: list[Difference] = []
    for left, right in pairs:
        a, b = (
            {key: value for oid in oids for key, value in zip(loaded[oid].keys, loaded[oid].values, strict=True)}
            for oids in (left, right)
        )
        keys = [key for key in a if a[key] != b.get(key)] + [key for key in b if key not in a]
        inside = (key for key in keys if key >= start and (end is None or key < end))
        differences.extend((key, a.get(key), b.get(key)) for key in inside)
    differences.sort(key=lambda item: item[0])
    return differences
