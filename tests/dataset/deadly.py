"""Functions that end the process they run in. Workers import this file, so it imports little."""

from __future__ import annotations

import os
from collections.abc import Iterator

import numpy as np

GUILTY = 37


def note(x: int) -> None:
    with open("calls", "a") as log:
        log.write(f"{x}\n")


def deadly(x: int) -> int:
    note(x)
    if x == GUILTY and not os.path.exists("mended"):
        os._exit(3)
    return x + 1


def deadly_items(x: int) -> Iterator[int]:
    yield deadly(x)


def deadly_batch(x: np.ndarray) -> np.ndarray:
    return np.array([deadly(int(one)) for one in x])
