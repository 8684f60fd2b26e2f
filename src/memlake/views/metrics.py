"""What commits record, as a table: a column a metric with its difference, a column a param. Knows no command."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from memlake.records import short
from memlake.reports import Measurement
from memlake.views.dataset import align, value_text
from memlake.views.style import Style
from memlake.views.words import clean, cut

_SUBJECT = 60


def measurement_table(style: Style, rows: Sequence[Measurement]) -> list[str]:
    """One line a row under a head; empty for none."""
    if not rows:
        return []
    metrics = list(dict.fromkeys(name for row in rows for name in row.metrics))
    params = list(dict.fromkeys(name for row in rows for name in row.params))
    is_compared = any(row.rev for row in rows)
    head = [
        *(["rev"] if is_compared else []), "commit", *map(clean, metrics),
        *(f"{clean(name)} (param)" for name in params), "subject",
    ]  # fmt: skip
    lines = align([head, *(_cells(row, metrics, params, is_compared=is_compared) for row in rows)])
    return [style.paint(lines[0], "dim"), *lines[1:]]


def _cells(row: Measurement, metrics: Sequence[str], params: Sequence[str], *, is_compared: bool) -> list[str]:
    values, deltas, given = row.metrics, row.deltas, row.params
    cells = [clean(row.rev)] if is_compared else []
    cells.append(f"{short(row.commit)} (-{row.behind})" if row.behind else short(row.commit))
    cells += [_value(values.get(name), deltas.get(name)) for name in metrics]
    cells += [value_text(given.get(name)) for name in params]
    cells.append(clean(cut(row.subject, _SUBJECT)))
    return cells


def _value(value: Any, delta: float | None) -> str:
    return f"{value_text(value)} ({delta:+.6g})" if delta else value_text(value)
