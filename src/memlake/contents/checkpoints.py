"""Model checkpoints tensor by tensor: which came, went, changed shape or type, and how far the others moved.

Tensors whose bytes lie in equal chunks are equal without being read. The others are read block by block.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from memlake.contents.content import Content
from memlake.contents.explain import How
from memlake.contents.tensors import Array, Tensor, open_archive, refuse_wrong
from memlake.named_tuple import NamedTuple

_SMALL = 16_000_000  # values of a matrix whose rank is looked for
_RANKS = (1, 2, 4, 8, 16, 32, 64)
_BROAD = 0.5  # share of changed values beyond which the rank of a change is looked for
_LEFT = 1e-3  # share of a change that a low rank may leave unexplained: rounding to 16 bits leaves about this


class TensorChange(NamedTuple):
    """How a tensor that both sides have differs. Figures are None where its type cannot be calculated with."""

    name: str
    old_type: str
    new_type: str
    old_shape: tuple[int, ...]
    new_shape: tuple[int, ...]
    changed: float | None = None  # share of its values that are not the same bit by bit
    relative: float | None = None  # norm of the change over the norm of what was
    largest: float | None = None  # of the changes of single values
    rank: int | None = None  # if the change is of a rank far below its shape, as LoRA's is


class LayerTotal(NamedTuple):
    """What changed below a prefix of names."""

    prefix: str
    tensors: int
    changed: int
    relative: float | None


class CheckpointDiff(NamedTuple):
    """What differs between two checkpoints. `identical` tensors are equal bit by bit."""

    old_format: str
    new_format: str
    identical: int
    added: tuple[str, ...]
    removed: tuple[str, ...]
    changed: tuple[TensorChange, ...]  # those of another shape or type first, then by how far they moved
    changed_count: int
    layers: tuple[LayerTotal, ...]
    metadata: Mapping[str, tuple[Any, Any]]
    notes: tuple[str, ...] = ()

    @property
    def is_empty(self) -> bool:
        return not (self.added or self.removed or self.changed_count or self.metadata)


class CheckpointSummary(NamedTuple):
    format: str
    tensors: int
    parameters: int
    types: Mapping[str, int]


def summarize(content: Content) -> CheckpointSummary:
    archive, types = open_archive(content), dict[str, int]()
    for tensor in archive.tensors.values():
        types[tensor.dtype] = types.get(tensor.dtype, 0) + tensor.values
    return CheckpointSummary(archive.format, len(archive.tensors), sum(types.values()), types)


def diff(old: Content, new: Content, how: How) -> CheckpointDiff:
    with refuse_wrong(old):  # a packed tensor may turn out to be broken only when it is read
        return _compare(old, new, how)


def _compare(old: Content, new: Content, how: How) -> CheckpointDiff:
    before, after = open_archive(old), open_archive(new)
    both = [name for name in after.tensors if name in before.tensors]
    changes, norms, identical = [], {}, 0
    for name in both:
        was, now = before.tensors[name], after.tensors[name]
        if (was.dtype, was.shape) != (now.dtype, now.shape):
            changes.append(TensorChange(name, was.dtype, now.dtype, was.shape, now.shape))
        elif _has_same_bytes(old, was, new, now):
            identical += 1
        else:
            change, norms[name] = _measure(name, was, now)
            if change.changed == 0:  # only laid out in another way
                identical += 1
                del norms[name]
            else:
                changes.append(change)
    changes.sort(key=lambda change: (change.relative is not None, -(change.relative or 0), change.name))
    metadata = {
        key: (before.metadata.get(key), after.metadata.get(key))
        for key in dict.fromkeys((*before.metadata, *after.metadata))
        if before.metadata.get(key) != after.metadata.get(key)
    }
    return CheckpointDiff(
        before.format, after.format, identical,
        tuple(name for name in after.tensors if name not in before.tensors),
        tuple(name for name in before.tensors if name not in after.tensors),
        tuple(changes if how.limit is None else changes[: how.limit]), len(changes),
        tuple(_total(both, changes, norms)), metadata,
    )  # fmt: skip


def _has_same_bytes(old: Content, was: Tensor, new: Content, now: Tensor) -> bool:
    if was.size != now.size or was.strides != now.strides:
        return False
    if was.start is not None and now.start is not None:
        mine, theirs = old.describe_range(was.start, was.size), new.describe_range(now.start, now.size)
        if mine is not None and mine == theirs:
            return True
        if mine is not None and theirs is not None and was.is_numeric:
            return False  # most likely; measuring it will tell, and so it is read once
        if (mine is None) != (theirs is None):
            return old.has_same_range(was.start, new, now.start, was.size)
    step = 8 << 20
    return all(
        was.read(at, min(step, was.size - at)) == now.read(at, min(step, was.size - at))
        for at in range(0, was.size, step)
    )


class _Norms(NamedTuple):
    old: float
    change: float


def _measure(name: str, was: Tensor, now: Tensor) -> tuple[TensorChange, _Norms]:
    """How far a tensor moved, block by block."""
    plain = TensorChange(name, was.dtype, now.dtype, was.shape, now.shape)
    if not was.is_numeric:
        return plain, _Norms(math.nan, math.nan)
    differing, norm, moved, largest = 0, 0.0, 0.0, 0.0
    blocks = []
    keep = len(was.shape) >= 2 and was.values <= _SMALL
    with np.errstate(all="ignore"):
        for old, new in zip(was.blocks(), now.blocks(), strict=True):
            wide = np.complex128 if old.dtype.kind == "c" else np.float64
            a, b = old.astype(wide), new.astype(wide)
            unequal = _find_other_bits(old, new)
            change = np.where(unequal & ~(np.isnan(a) & np.isnan(b)), b - a, 0)
            differing += int(np.count_nonzero(unequal))
            norm += float(np.sum(np.abs(a[np.isfinite(a)]) ** 2))
            moved += float(np.sum(np.abs(change) ** 2))
            largest = max(largest, float(np.max(np.abs(change), initial=0)))
            if keep:
                blocks.append(change.astype(np.float32))
    norms = _Norms(math.sqrt(norm), math.sqrt(moved))
    relative = norms.change / norms.old if norms.old else math.inf
    share = differing / max(was.values, 1)
    # A few changed rows are of low rank, too, but that is not what anybody wants to know of them.
    is_broad = share > _BROAD and math.isfinite(moved)
    rank = _find_rank(np.concatenate(blocks).reshape(was.shape[0], -1)) if blocks and is_broad else None
    return plain._replace(changed=share, relative=relative, largest=largest, rank=rank), norms


def _find_other_bits(old: Array, new: Array) -> Array:
    """Which values are not the same bit by bit: -0.0 is not 0.0, and a NaN is itself."""
    if old.dtype.kind == "c":
        parts = (old.view(f"u{old.itemsize // 2}") != new.view(f"u{old.itemsize // 2}")).reshape(-1, 2)
        return np.asarray(parts.any(axis=1))
    return np.asarray(old.view(f"u{old.itemsize}") != new.view(f"u{old.itemsize}"))


def _find_rank(change: Any) -> int | None:
    """The rank of a change, if it is far below its shape: by a few random directions, which a low rank cannot leave."""
    size, total = min(change.shape), float(np.linalg.norm(change))
    if size < 8 or not total:
        return None
    most = max((rank for rank in _RANKS if rank <= size // 4), default=0)
    if not most:
        return None
    directions = np.random.default_rng(0).standard_normal((change.shape[1], most + 4), dtype=np.float32)
    basis, _ = np.linalg.qr(change @ directions)
    weights = np.linalg.svd(basis.T @ change, compute_uv=False).astype(np.float64)
    for rank in range(1, most + 1):
        explained = float(np.sum(weights[:rank] ** 2))
        if math.sqrt(max(total * total - explained, 0.0)) <= _LEFT * total:
            return rank
    return None


def _total(both: Iterable[str], changes: Iterable[TensorChange], norms: Mapping[str, _Norms]) -> Iterable[LayerTotal]:
    """By the first parts of names, up to the number of a layer: `model.layers.3`."""
    moved = {change.name for change in changes}
    groups: dict[str, list[str]] = {}
    for name in both:
        groups.setdefault(_prefix(name), []).append(name)
    for prefix, names in groups.items():
        changed = [name for name in names if name in moved]
        if not changed:
            continue
        known = [norms[name] for name in changed if name in norms and math.isfinite(norms[name].change)]
        old = math.sqrt(sum(norm.old**2 for norm in known))
        change = math.sqrt(sum(norm.change**2 for norm in known))
        yield LayerTotal(prefix, len(names), len(changed), change / old if old else None)


def _prefix(name: str) -> str:
    parts = name.split(".")
    for place, part in enumerate(parts[:-1]):
        if part.isdigit():
            return ".".join(parts[: place + 1])
    return ".".join(parts[:-1]) or name
