"""The local model: MiniLM as int8 ONNX from the data package memlake-minilm. Knows the model's inputs, no service."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memlake import config
from memlake.errors import Unavailable
from memlake.memories.embedders import native
from memlake.memories.embedders.wordpiece import WordPiece

if TYPE_CHECKING:
    from memlake.memories.embedders.checked import Vectors

PACKAGE = "memlake_minilm"
MISSING = (
    "the local embedding model is not installed (the package memlake-minilm), so search finds words, not meaning. "
    "In a clone of memlake, `make model` builds and installs it; "
    "to do without it: `memlake config embedding.provider none`."
)
STEP = 8  # texts of one run, which cannot be stopped: a program that ends waits for it
MOST_TOKENS = STEP * 128  # of one run, padding included: attention grows with the square of the length
TOO_UNKNOWN = 0.3  # a text with more unknown words than this is one the model cannot read: Chinese, say


def is_installed() -> bool:
    return find_spec(PACKAGE) is not None


class Local:
    """Loads at the first text. The same text has the same vector whatever stands beside it.

    A query does not wait for a batch in another thread: onnxruntime runs both, on the threads of one session, which
    all of this process share.
    """

    step = STEP

    def __init__(self) -> None:
        import memlake_minilm  # constants and a path

        self.name: str = memlake_minilm.MODEL
        self.dimension: int = memlake_minilm.DIMENSION
        self._limit: int = memlake_minilm.MAX_TOKENS
        self._folder: Path = memlake_minilm.path()

    def embed(self, texts: Sequence[str]) -> Vectors:
        import numpy as np

        tokenizer, session = self._load()
        encoded = [tokenizer.encode(text, self._limit) for text in texts]
        readable = [number for number, ids in enumerate(encoded) if tokenizer.unknown_share(ids) <= TOO_UNKNOWN]
        rows = np.full((len(texts), self.dimension), np.nan, np.float32)
        for batch in batches(encoded, readable):
            with native.gate.enter():
                rows[batch] = run(session, [encoded[number] for number in batch])
        return rows

    def embed_query(self, text: str) -> Vectors | None:
        row: Vectors = self.embed([text])[0]
        return row if row[0] == row[0] else None

    def _load(self) -> tuple[WordPiece, Any]:
        with native.loading:
            if self._folder not in native.models:
                with native.gate.enter():
                    native.models[self._folder] = load(self._folder)
            loaded: tuple[WordPiece, Any] = native.models[self._folder]
            return loaded


def load(folder: Path) -> tuple[WordPiece, Any]:
    """The tokenizer and the session of the model in a folder, or Unavailable."""
    try:
        words = (folder / "vocab.txt").read_text(encoding="utf-8").splitlines()
        return WordPiece(words), open_session(folder / "model.onnx")
    except Exception as error:  # the errors of onnxruntime have no class in common but this one
        raise Unavailable(
            f"the local embedding model in {folder} could not be loaded: {error}. Nothing was embedded.",
            hint="Install it again: in a clone of memlake, remove build/model and run `make model`.",
        ) from error


def open_session(model: Path) -> Any:
    config.no_telemetry()
    import onnxruntime

    onnxruntime.disable_telemetry_events()  # where somebody else imported it first
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = min(2, os.cpu_count() or 1)
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")  # an idle model takes no CPU
    options.log_severity_level = 3  # errors only: they are raised as well
    return onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])


def run(session: Any, encoded: list[list[int]]) -> Vectors:
    """The vectors of one batch, the shorter texts padded."""
    import numpy as np

    ids = np.zeros((len(encoded), max(map(len, encoded))), np.int64)
    mask = np.zeros_like(ids)
    for number, one in enumerate(encoded):
        ids[number, : len(one)] = one
        mask[number, : len(one)] = 1
    rows: Vectors = session.run(None, {"input_ids": ids, "attention_mask": mask})[0]
    return rows


def batches(encoded: list[list[int]], numbers: list[int]) -> Iterator[list[int]]:
    """The numbers in groups of texts about as long as each other, so that little is padding."""
    batch: list[int] = []
    for number in sorted(numbers, key=lambda number: len(encoded[number])):
        if len(batch) == STEP or (len(batch) + 1) * len(encoded[number]) > MOST_TOKENS:
            yield batch
            batch = []
        batch.append(number)
    if batch:
        yield batch
