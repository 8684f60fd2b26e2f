"""Running work over items: in this process, in a pool of processes, on Ray. Knows nothing of what the work is."""

from __future__ import annotations

from memlake.datasets.executors.choosing import auto, choose
from memlake.datasets.executors.flow import Executor, Lost, Work
from memlake.datasets.executors.pool import pool
from memlake.datasets.executors.raying import ray
from memlake.datasets.executors.serial import serial
from memlake.datasets.executors.threads import run_async, run_threads, threads

__all__ = [
    "Executor", "Lost", "Work", "auto", "choose", "pool", "ray", "run_async", "run_threads", "serial", "threads",
]  # fmt: skip
