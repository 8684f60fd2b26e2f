"""What a script measured, kept on every version it saves: ml.metrics.set("accuracy", 0.95)."""

from __future__ import annotations

import math
from typing import Any

from memlake.dataset.lineage import process_facts
from memlake.errors import InvalidInput


def set(key: str, value: Any) -> None:  # noqa: A001  ml.metrics.set is what users write
    """Record a value: at once on the versions this process has saved, and on those it will save."""
    if not str(key).strip():
        raise InvalidInput(f"a metric needs a name, and {key!r} is empty. Nothing was noted.")
    process_facts.tell_metric(str(key), _plain(key, value))


def get(key: str, default: Any = None) -> Any:
    return process_facts.metrics().get(key, default)


def all() -> dict[str, Any]:
    return process_facts.metrics()


def _plain(key: str, value: Any) -> Any:
    """A value as JSON has it: numbers of NumPy and tensors are plain ones."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple):
        return [_plain(key, one) for one in value]
    if isinstance(value, dict):
        return {str(name): _plain(key, one) for name, one in value.items()}
    raise InvalidInput(
        f"metric {key!r} is a {type(value).__name__}. Nothing was noted.",
        hint="Give a number, a text, or lists and dictionaries of these.",
    )
