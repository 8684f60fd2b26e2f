"""Chains over the repo found from here: a door, so each name only finds the repo and calls one method of it.

    import memlake as ml
    ml.read_storage("photos/", type="image").filter(ml.C("file.size") > 1000).save("photos")

Without a repo here or above, the personal one is used, so nothing has to be set up. It is made by the first chain that
runs or is saved, not by one that is only written down, nor by a question about datasets that nobody saved.
"""

from __future__ import annotations

import atexit
import functools
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from memlake import config
from memlake.dataset.datasets import Datasets
from memlake.errors import NotFound
from memlake.objects.forks import Mutex
from memlake.repo import Repo, open_personal, open_repo

if TYPE_CHECKING:
    from memlake.dataset.chain import Chain
    from memlake.dataset.context import DatasetContext
    from memlake.dataset.parts.version_record import Version

_OPEN: dict[tuple[str, int], Repo] = {}
_OPENING = Mutex()  # else threads that come at once would each open one


def here() -> Datasets:
    """The datasets of the repo found from here; opened once in a process."""
    found = config.find_repo()
    if found is not None:
        return _open_once(str(found), open_repo)
    return _personal() if _is_made() else _Unmade()


def _open_once(folder: str, open_: Callable[[], Repo]) -> Datasets:
    key = (folder, os.getpid())
    with _OPENING:
        if key not in _OPEN:
            _OPEN[key] = open_()
        return _OPEN[key].datasets()


def _personal() -> Datasets:
    return _open_once(str(config.personal_folder()), open_personal)


def _is_made() -> bool:
    return (config.personal_folder() / config.FOLDER).is_dir()


class _Unmade(Datasets):
    """The datasets of a personal repo that does not exist yet. Whatever needs its context makes it."""

    def __init__(self) -> None:
        pass

    @functools.cached_property
    def context(self) -> DatasetContext:  # type: ignore[override]
        return _personal().context

    def all(self, *, deleted: bool = False) -> list[Version]:
        return super().all(deleted=deleted) if _is_made() else []


@atexit.register
def _close() -> None:
    for (_, process), repo in _OPEN.items():
        if process == os.getpid():  # a forked child must not close what its parent has open
            repo.close()


def _as_function(method: Callable[..., Any], *, of_saved: bool = False) -> Callable[..., Any]:
    """A method of Datasets as a function over the repo found from here; `of_saved`: over what was saved there."""

    @functools.wraps(method)
    def call(*args: Any, **named: Any) -> Any:
        found = here()
        if of_saved and isinstance(found, _Unmade):
            raise NotFound(
                "there are no datasets, because there is no repo here or above and no personal one. Nothing was made.",
                hint="The first save makes one: ml.read_values(x=[1, 2]).save('numbers')",
            )
        return method(found, *args, **named)

    call.__module__, call.__qualname__ = __name__, method.__name__
    return call


read_arrow = _as_function(Datasets.read_arrow)
read_csv = _as_function(Datasets.read_csv)
read_database = _as_function(Datasets.read_database)
read_dataset = _as_function(Datasets.read_dataset, of_saved=True)
read_hf = _as_function(Datasets.read_hf)
read_json = _as_function(Datasets.read_json)
read_jsonl = _as_function(Datasets.read_jsonl)
read_pandas = _as_function(Datasets.read_pandas)
read_parquet = _as_function(Datasets.read_parquet)
read_polars = _as_function(Datasets.read_polars)
read_records = _as_function(Datasets.read_records)
read_storage = _as_function(Datasets.read_storage)
read_values = _as_function(Datasets.read_values)


def datasets(**how: Any) -> Chain:
    """Every version of every dataset known here, as rows that can be queried."""
    return here().overview(**how)
