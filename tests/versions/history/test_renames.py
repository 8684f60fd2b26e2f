"""Finding the file that another one has become, among many."""

from __future__ import annotations

import hashlib
from collections.abc import ValuesView
from pathlib import Path

import memlake as ml
from memlake.records import Change, Entry
from memlake.versions.history import merge_trees
from memlake.versions.history.merge_trees import Making


class Counted(dict[str, Change]):
    """Changes that count how often all of them are looked at."""

    times = 0

    def values(self) -> ValuesView[Change]:  # type: ignore[override]
        self.times += 1
        return super().values()


def entry(text: str) -> Entry:
    return Entry(hashlib.sha256(text.encode()).hexdigest(), "file", 100)


def test_what_a_side_added_is_looked_at_once_however_many_files_it_renamed(tmp_path: Path) -> None:
    mine, other, met = Counted(), Counted(), {}
    for number in range(100):
        old, edited, path, new = (
            entry(f"old {number}"),
            entry(f"new {number}"),
            f"files/a/{number}",
            f"files/b/{number}",
        )
        mine |= {path: Change(path, old, None), new: Change(new, None, old)}
        other[path], met[path] = Change(path, old, edited), (old, None, edited)
    followed = merge_trees._follow(Making(ml.init(tmp_path)._history), mine, other, met)
    assert followed == {f"files/b/{number}": entry(f"new {number}") for number in range(100)} and not met
    assert mine.times == 1
