"""What differs between two sets of vectors, in sentences. Knows no repo and no command."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from memlake.views.style import Style
from memlake.views.words import clean, count, cut

if TYPE_CHECKING:
    from memlake.rows.vectors import Drift, EmbeddingDiff

_WIDE = 110
_TINY = 1e-6  # rounding of 32 bits


def embedding_lines(style: Style, found: EmbeddingDiff) -> Iterator[str]:
    """Counts first, then what moved and why, then ids."""
    column = f"vectors in column {clean(found.column)}: " if found.column else ""
    yield f"{column}{embedding_brief(found)} (matched by {clean(found.ids_from)})"
    yield from _changed_facts(found)
    if found.drift is not None:
        yield _drift_line("drift", found.drift)
    yield from _rotation_lines(found)
    yield from _neighbour_lines(found)
    for moved in found.most_moved:
        rest = "" if moved.rest is None else f", {figure_text(moved.rest)} after the rotation"
        yield f"  ~ {cut(clean(moved.id), _WIDE)}: moved by {figure_text(moved.drift)}{rest}"
    if found.drift is not None and found.drift.vectors > len(found.most_moved) > 0:
        yield style.paint(f"  ... and {found.drift.vectors - len(found.most_moved):,} more that moved less", "dim")
    sides = (("+", "added", found.added_ids, found.added), ("-", "removed", found.removed_ids, found.removed))
    for mark, color, ids, number in () if found.column else sides:  # the table has told its rows
        yield from (style.paint(f"  {mark} {cut(clean(name), _WIDE)}", color) for name in ids)
        if number > len(ids) > 0:
            yield style.paint(f"  ... and {number - len(ids):,} more", "dim")
    yield from (f"note: {clean(note)}" for note in found.notes)


def embedding_brief(found: EmbeddingDiff) -> str:
    old, new = found.old_count, found.new_count
    vectors = count(new, "vector") if old == new else f"{old:,} -> {count(new, 'vector')}"
    parts = [(found.added, "added"), (found.removed, "removed"), (found.moved, "moved")]
    said = [f"{number:,} {word}" for number, word in parts if number]
    return f"{vectors}: {', '.join([*said, f'{found.unchanged:,} unchanged'])}"


def _changed_facts(found: EmbeddingDiff) -> Iterator[str]:
    for word, old, new in (
        ("dimension", found.old_dimension, found.new_dimension),
        ("type of numbers", found.old_type, found.new_type),
        ("model", found.old_model or "not named", found.new_model or "not named"),
    ):
        if old != new:
            yield f"{word}: {clean(str(old))} -> {clean(str(new))}"


def _drift_line(word: str, drift: Drift) -> str:
    """Cosine distances by their quantiles; of a single vector, its own."""
    figures = drift.quantiles
    if drift.vectors == 1:
        return f"{word} (cosine distance from where it was): {figure_text(figures['1'])}"
    return (
        f"{word} (cosine distance from where they were): half {figure_text(figures['0.5'], 'up to ')}, "
        f"90 % {figure_text(figures['0.9'], 'up to ')}, the farthest {figure_text(figures['1'])}"
    )


def _rotation_lines(found: EmbeddingDiff) -> Iterator[str]:
    rotation = found.rotation
    if rotation is None:
        return
    if rotation.is_reason:
        yield (
            f"The whole space was rotated: one rotation explains {_percent(rotation.explained)} of the change, and a "
            "rotation alone changes no distance between vectors."
        )
        if found.rest is not None:
            yield _drift_line("drift after the rotation", found.rest)
    elif rotation.explained >= 0.25:
        yield f"A rotation of the whole space explains {_percent(rotation.explained)} of the change, but not the rest."
    else:
        yield f"The vectors moved by themselves: a rotation of the space explains {_percent(rotation.explained)} of it."


def _neighbour_lines(found: EmbeddingDiff) -> Iterator[str]:
    seen = found.neighbours
    if seen is None:
        return
    of = f"the {seen.nearest} nearest neighbours" if seen.nearest > 1 else "the nearest neighbour"
    if not seen.changed:
        yield f"Neighbours are the same: each of {seen.sample:,} sampled vectors kept {of}."
        return
    yield (
        f"Of {of} of a vector, {seen.changed:.1f} changed on average ({seen.sample:,} sampled; "
        f"{seen.stable:,} of them kept all)."
    )


def figure_text(number: float, before: str = "") -> str:
    if number < _TINY:
        return f"less than {_TINY:.6f}"
    return f"{before}{number:.6f}" if number < 0.001 else f"{before}{number:.3f}"


def _percent(share: float) -> str:
    return f"{share:.0%}" if share < 0.995 else f"{share:.1%}" if share < 0.9995 else "all"
