"""Damage: which files a run stood on are missing or not what they were. Asked only after something failed."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator

import duckdb
import pyarrow as pa

from memlake.dataset import storages
from memlake.dataset.memo.results import Memo
from memlake.dataset.parts.frames import Frame
from memlake.dataset.parts.parquet import Parts
from memlake.dataset.plan.nodes import Plan, Source
from memlake.errors import Conflict, Corrupt, Error

SIGNS = (Error, OSError, ValueError, pa.ArrowException, duckdb.Error)  # what reading a bad file may end in


class Forgotten(Corrupt):
    """Damage only of what was remembered, which is not relied on any more: a second run does the work again."""


def find_damage(parts: Parts, recall: Memo, plan: Plan) -> Corrupt | None:
    """What there is to say of the parts a run stood on: by the dataset that holds them, or as what was remembered."""
    for spec, frame in _dataset_frames(plan):
        bad = sorted(_bad_parts(parts, {family.oid for family in frame.families() if family.oid}))
        if bad:
            return Corrupt(
                f"{spec} cannot be read: {len(bad)} of its parts are missing or damaged, the first is {bad[0]}. "
                "Nothing was changed.",
                hint="See which paths are affected with: memlake fsck --full\n"
                "Restore the part from a backup or another clone, or run what made "
                "the dataset again with settings(recompute=True): equal rows heal it.",
            )
    bad = sorted(_bad_parts(parts, recall.relied_on))
    if not bad:
        return None
    recall.forget(bad)
    return Forgotten(
        f"part {bad[0]}, which was remembered from earlier work, is missing or damaged. It is forgotten; "
        "nothing was saved.",
        hint="Run it again: the work is done anew.",
    )


def find_changed_file(plan: Plan) -> Conflict | None:
    """What there is to say of files whose columns were read when the chain was built, and that are others now."""
    seen = {path: etag for node in plan.walk() if isinstance(node, Source) for path, etag in node.seen.items()}
    for path, etag in seen.items():
        if os.path.exists(path) and storages.etag_of(os.stat(path)) != etag:
            return Conflict(
                f"{path} changed since the chain was built, and cannot be read as what it was then. Nothing was saved.",
                hint="Build the chain again: it begins with the file as it is now.",
            )
    return None


def _dataset_frames(plan: Plan) -> Iterator[tuple[str, Frame]]:
    for node in plan.walk():
        if isinstance(node, Source) and node.origin.kind == "dataset" and node.frame is not None:
            yield node.origin.name, node.frame()


def _bad_parts(parts: Parts, oids: Iterable[str]) -> Iterator[str]:
    for oid in oids:
        path = parts.objects.part_path(oid)
        try:
            with open(path or "", "rb") as file:
                good = hashlib.file_digest(file, "sha256").hexdigest() == oid
        except OSError:
            good = False
        if not good:
            yield oid
