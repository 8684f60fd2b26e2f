"""Running work over items: in this process, in a pool of processes, on Ray. Knows nothing of what the work is."""

from __future__ import annotations

from memlake.dataset.executors.choosing import auto, choose
from memlake.dataset.executors.map_loop import Executor, Lost, Serial, Work
from memlake.dataset.executors.pool import pool
from memlake.dataset.executors.ray_cluster import ray
from memlake.dataset.executors.threads import run_async, run_threads, threads

__all__ = [
    "Executor", "Lost", "Serial", "Work", "auto", "choose", "pool", "ray", "run_async", "run_threads", "threads",
]  # fmt: skip
