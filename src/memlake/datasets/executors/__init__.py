"""Running work over items: in this process, in a pool of processes, on Ray. Knows nothing of what the work is."""

from __future__ import annotations

from memlake.datasets.executors.flow import Executor, Work
from memlake.datasets.executors.pool import pool
from memlake.datasets.executors.serial import serial

__all__ = ["Executor", "Work", "pool", "serial"]
