"""Turns texts into vectors: the local model, services, installed libraries. Knows no memories, only texts.

`open_embedder` is the way in. Nothing heavy is imported before the first text: numpy, onnxruntime and the libraries
are imported inside the functions that need them.
"""

from memlake.memories.embedders.checked import Embedder, check_embedder
from memlake.memories.embedders.providers import (
    PROVIDERS,
    check_setting,
    describe_missing,
    is_on_this_machine,
    open_embedder,
)
from memlake.memories.embedders.spans import find_span

__all__ = [
    "PROVIDERS", "Embedder", "check_embedder", "check_setting", "describe_missing", "find_span",
    "is_on_this_machine", "open_embedder",
]  # fmt: skip
