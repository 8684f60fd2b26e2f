"""How what memories rest on is read: tensors and versions are other rooms' formats, loaded when one is met."""

from __future__ import annotations

from collections.abc import Callable
from typing import BinaryIO

from memlake import contents
from memlake.dataset.kind import read_rows
from memlake.errors import Error
from memlake.memories.anchors.anchor import Formats


def _digest_part(path: str, size: int, opener: Callable[[], BinaryIO], part: str) -> str | None:
    """The hash of a tensor of a file, or of all below a name; empty if it has none, None if it cannot be read."""
    try:
        with contents.content.Content(path, size, opener) as content:
            return contents.tensors.digest_part(contents.tensors.open_archive(content), part)
    except (Error, OSError):
        return None


FORMATS = Formats(_digest_part, read_rows)
