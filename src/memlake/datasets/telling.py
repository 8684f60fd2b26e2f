"""Warnings that point at the line of the person who wrote the chain, not into memlake."""

from __future__ import annotations

import contextlib
import sys
import warnings
from pathlib import Path

_OURS = str(Path(__file__).parent.parent)


def warn(text: str) -> None:
    warnings.warn(text, stacklevel=_depth())


def _depth() -> int:
    """How far up the caller is who wrote the chain."""
    depth, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith((_OURS, contextlib.__file__)):
        depth, frame = depth + 1, frame.f_back
    return depth
