"""diff --summarize: a diff in sentences, and in a model's words where one is configured. Loaded only when asked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from memlake.cli.screen import Screen
from memlake.errors import Error
from memlake.records import Change
from memlake.repo import Repo
from memlake.repo.diff import Diff
from memlake.repo.model import Words, ask_model, names_model
from memlake.views import json_shapes, prose
from memlake.views.changes import Row
from memlake.views.patches import Detail, View


def show_summary(repo: Repo, screen: Screen, rows: Sequence[Row], view: View, *, detail: Detail) -> None:
    """The sentences first: a model may take its time, or be down, and costs only its paragraph."""
    changes = [Change(row.path, row.old, row.new) for row in rows]
    found = Diff.of(repo, changes, detail.sides).summarize(key=detail.key)
    lines = list(prose.summary_lines(view, rows, found))
    if screen.as_json:
        model = _ask(repo, found) if rows and names_model(repo.config.in_force) else None
        shape: dict[str, Any] = {"summary": found, "sentences": [line.strip() for line in lines]}
        problem = model.message if isinstance(model, Error) else ""
        words = json_shapes.plain(model) if isinstance(model, Words) else None
        screen.json({**shape, "model": {"words": words, "problem": problem} if model else None})
        return
    screen.lines(lines)
    if not rows or not names_model(repo.config.in_force):
        return
    model = _ask(repo, found)
    if isinstance(model, Words):
        screen.lines(prose.model_lines(*model))
    else:
        screen.warn(model.message)


def _ask(repo: Repo, found: Any) -> Words | Error:
    try:
        return ask_model(repo.config.in_force, prose.TASK, prose.model_record(found))
    except Error as error:
        return error
