"""Which executor: what the user asked for, and whether the work at hand is worth leaving this process."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from copy import copy
from operator import length_hint
from time import perf_counter, process_time
from typing import Any

from memlake.dataset.executors.map_loop import Executor, Serial, Work, keep_open
from memlake.dataset.executors.messages import pack, unpack
from memlake.dataset.executors.pool import cores, pool
from memlake.dataset.executors.ray_cluster import ray
from memlake.errors import InvalidInput
from memlake.named_tuple import NamedTuple

MARGIN = 1.5  # what is gained must be this much more than what it costs: both are estimates
BYTES_A_SECOND = 1e9  # through a pipe, there and back


def choose(parallel: int | bool | None = None, engine: str | None = None, *, apart: bool = False) -> Executor:
    """`parallel`: how many workers; True or -1: one for each core; None or 1: in process. `engine`: local or ray.

    A local pool is used only where it gains time; see `auto`. An engine asked for by name is used. `apart`: in no
    case in this process, for work that ends the process it is in.
    """
    n = _workers(parallel)
    if engine in (None, "local"):
        if apart:
            return pool(cores() if n == 0 else n or 1)
        return Serial() if n in (None, 1) else Auto(pool(n or cores()))
    if engine == "ray" or engine.startswith("ray://"):
        # One is what settings say when nobody asked for a number: whoever asks for a cluster means all of it.
        return ray(None if engine == "ray" else engine, workers=n if n and n > 1 else None)
    raise InvalidInput(
        f"engine is {engine!r}, which memlake does not know. Nothing was run.",
        hint='engine="local", "ray" or "ray://host:port"',
    )


def _workers(parallel: int | bool | None) -> int | None:
    """None: nothing was asked for; 0: as many as there are."""
    if parallel is None or parallel is False:
        return None
    if parallel is True or parallel == -1:
        return 0
    if parallel < 1:
        raise InvalidInput(
            f"parallel is {parallel!r}. Nothing was run.", hint="a number of workers from 1, or True for one per core"
        )
    return parallel


class Auto:
    """An executor that is used when that gains time."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self.workers = executor.workers

    def start_seconds(self) -> float:
        return 0.0

    def warm(self) -> bool:
        return True

    def map(self, work: Work, items: Iterable[Any]) -> Iterator[tuple[int, Any]]:
        return auto(self._executor, work, items)


class _Spent(NamedTuple):
    """What the items done in this process took, in seconds."""

    opening: float = 0.0
    wall: float = 0.0
    cpu: float = 0.0
    items: int = 0


def auto(executor: Executor, work: Work, items: Iterable[Any]) -> Iterator[tuple[int, Any]]:
    """In this process, until what is left to do is worth sending elsewhere, and the executor has started meanwhile.

    How much is left is known from `items.seconds_left()`, where items differ, or from `len(items)` (or
    `__length_hint__`); else as much is taken to be left as was done.
    """
    total = length_hint(items, -1)
    known = getattr(items, "seconds_left", None)
    left, leaving = iter(items), False
    here = copy(work)  # what open() keeps in it, a model or a connection, is not sent along with the work later
    begun = perf_counter()
    with keep_open(here):
        spent = _Spent(opening=perf_counter() - begun)
        for item in left:
            wall, cpu = perf_counter(), process_time()
            result = here(item)
            spent = _Spent(
                spent.opening, spent.wall + perf_counter() - wall, spent.cpu + process_time() - cpu, spent.items + 1
            )
            yield spent.items - 1, result
            if spent.items & (spent.items - 1) == 0:  # after 1, 2, 4, 8 ... items: to look costs, too
                left_items = total - spent.items if total >= 0 else spent.items
                seconds = known() if known else left_items * spent.wall / spent.items
                leaving = _seconds_gained(executor, spent, seconds) > 0
                leaving = leaving and _seconds_gained(executor, spent, seconds, _sending_seconds(item, result)) > 0
            if leaving and executor.warm():
                break
        else:
            return
        del item, result
    for index, result in executor.map(work, left):
        yield spent.items + index, result


def _seconds_gained(executor: Executor, spent: _Spent, seconds: float, moving: float = 0.0) -> float:
    """Seconds of wall time that are gained by leaving now, at least, of those that are left."""
    each = spent.wall / spent.items
    # Work that waits for something else is not held up by other work on the same core.
    ways = min(executor.workers, max(1.0, cores() * spent.wall / max(spent.cpu, 1e-9)))
    return seconds * (1 - max(1 / ways, moving / max(each, 1e-9))) - MARGIN * (executor.start_seconds() + spent.opening)


def _sending_seconds(item: Any, result: Any) -> float:
    """Seconds to send an item and its result: done by this process, whatever the number of workers."""
    begun = perf_counter()
    body, beside = pack((item, result))
    unpack(body, beside)
    return perf_counter() - begun + (body.nbytes + sum(one.nbytes for one in beside)) / BYTES_A_SECOND
