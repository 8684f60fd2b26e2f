"""Chains over the repo found from here: a door, so each name only finds the repo and calls one method of it.

    import memlake as ml
    ml.read_storage("photos/", type="image").filter(ml.C("file.size") > 1000).save("photos")

Without a repo here or above, the personal one is used and made on first use: nothing has to be set up.
"""

from __future__ import annotations

import atexit
import functools
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from memlake import config
from memlake.datasets.datasets import Datasets
from memlake.repo import Repo, open_for_memories

if TYPE_CHECKING:
    from memlake.datasets.chain import Chain

_OPEN: dict[tuple[str, int], Repo] = {}


def here() -> Datasets:
    """The datasets of the repo found from here; opened once in a process."""
    key = (str(config.find_repo() or config.personal_folder()), os.getpid())
    if key not in _OPEN:
        _OPEN[key] = open_for_memories()
    return _OPEN[key].datasets()


@atexit.register
def _close() -> None:
    for (_, process), repo in _OPEN.items():
        if process == os.getpid():  # a forked child must not close what its parent has open
            repo.close()


def _door(method: Callable[..., Any]) -> Callable[..., Any]:
    """A method of Datasets as a function over the repo found from here."""

    @functools.wraps(method)
    def call(*args: Any, **named: Any) -> Any:
        return method(here(), *args, **named)

    call.__module__, call.__qualname__ = __name__, method.__name__
    return call


read_arrow = _door(Datasets.read_arrow)
read_csv = _door(Datasets.read_csv)
read_database = _door(Datasets.read_database)
read_dataset = _door(Datasets.read_dataset)
read_hf = _door(Datasets.read_hf)
read_json = _door(Datasets.read_json)
read_jsonl = _door(Datasets.read_jsonl)
read_pandas = _door(Datasets.read_pandas)
read_parquet = _door(Datasets.read_parquet)
read_polars = _door(Datasets.read_polars)
read_records = _door(Datasets.read_records)
read_storage = _door(Datasets.read_storage)
read_values = _door(Datasets.read_values)
delete_dataset = _door(Datasets.delete_dataset)
move_dataset = _door(Datasets.move_dataset)
restore_dataset = _door(Datasets.restore_dataset)


def datasets(**how: Any) -> Chain:
    """Every version of every dataset known here, as rows: everything known can be queried."""
    return here().known(**how)
