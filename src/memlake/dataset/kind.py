"""The kind of this room: versions of datasets. Light to import; its functions load the rest."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memlake import dataset
from memlake.records import Conflict
from memlake.versions.kinds import Kind, Sides, define

if TYPE_CHECKING:
    from memlake.versions.history.commits import History
    from memlake.versions.history.merge_trees import Outcome


def _label(path: str) -> str:
    """`pets@1.0.0`."""
    return "@".join(path.partition("/")[2].rsplit("/", 1))


def _text(data: bytes) -> bytes:
    return dataset.version_text.text(data)


def _brief(data: bytes) -> str:
    return dataset.version_text.brief(data)


def _sides(history: History, met: Conflict) -> Sides | None:
    return dataset.merge_versions.said(history, met)


def _join(history: History, outcome: Outcome, ours: bytes, theirs: bytes) -> Outcome:
    return dataset.merge_versions.joined(history, outcome, ours, theirs)


DATASET = define(
    Kind(
        "dataset", "datasets", "work", 2, ("dataset", "datasets"),
        label=_label, text=_text, brief=_brief, sides=_sides, join=_join,
    )
)  # fmt: skip
