"""What came of a rebuild, as lines for a person."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from memlake.views.contents import explained_lines
from memlake.views.words import clean

if TYPE_CHECKING:
    from memlake.reports import Rebuilt
    from memlake.views.style import Style


def rebuilt_lines(style: Style, done: Rebuilt) -> Iterator[str]:
    of = clean(done.of)
    if done.missing:
        yield f"{of} cannot be rebuilt:"
        yield from (f"  {clean(one)}" for one in done.missing)
    elif done.same is None:
        yield f"{of} can be rebuilt: its program, params and inputs are here."
    elif done.same:
        yield f"{of} is the same when it is made again."
    else:
        yield f"{of} is not the same when it is made again: {clean(done.why)}."
    if done.first is not None:
        first = done.first
        values = f"{_brief(first['old'])} then, {_brief(first['new'])} now"
        yield f"  row {first['row']:,}, {clean(str(first['column']))}: {values}"
    if done.inside is not None:
        yield from (f"  {line}" for line in explained_lines(style, done.inside))
    if done.packages and not done.same:
        yield "Packages that changed since:"
        yield from (
            f"  {clean(name)} {clean(old) or '-'} then, {clean(new) or '-'} now" for name, old, new in done.packages
        )
    if done.output:
        yield "It printed:"
        yield from (f"  {clean(line)}" for line in done.output.splitlines()[-20:])
    yield from (f"note: {clean(one)}" for one in done.notes)


def _brief(value: object) -> str:
    text = clean(repr(value))
    return text if len(text) <= 60 else f"{text[:57]}..."
