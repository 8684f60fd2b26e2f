"""What a person is told: warnings that point at the line of who wrote the chain, not into memlake; counts in words."""

from __future__ import annotations

import contextlib
import os
import sys
import warnings
from pathlib import Path

_OURS = str(Path(__file__).parent.parent) + os.sep


def warn(text: str) -> None:
    # Up to the caller who wrote the chain, counted from here.
    depth, frame = 1, sys._getframe()
    while frame.f_back is not None and is_ours(frame.f_code.co_filename):
        depth, frame = depth + 1, frame.f_back
    warnings.warn(text, stacklevel=depth)


def count(number: int, noun: str) -> str:
    """`1 row`, `3 rows`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def is_ours(file: str) -> bool:
    """Whether a file of code is memlake's, or what it goes through on its way."""
    return file.startswith((_OURS, contextlib.__file__))
