"""Which cosines of a model tell what is near: those of texts that have nothing in common, and of answers.

Models differ: of one, unrelated texts have a cosine of 0.1, of another 0.7. `benchmarks/calibrate.py` measures both.
"""

from __future__ import annotations

from memlake.defaults import Settings

Span = tuple[float, float]  # of texts that have nothing in common; of a question and its answer

_LOCAL = "minilm-l6-v2-int8"
KNOWN: dict[str, Span] = {_LOCAL: (0.15, 0.43), "test-64": (0.3, 0.6)}


def find_span(model: str, settings: Settings) -> Span:
    """The span of a model: what the settings say, else what is known of it, else that of the local model."""
    unrelated, related = settings.embedding_unrelated, settings.embedding_related
    return (unrelated, related) if related > unrelated else KNOWN.get(model, KNOWN[_LOCAL])
