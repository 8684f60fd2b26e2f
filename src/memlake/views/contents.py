"""What differs inside a file, as lines. One function for each type of record; knows no repo and no command."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from memlake.views.embeddings import embedding_brief, embedding_lines
from memlake.views.hunks import color_lines
from memlake.views.media import (
    byte_brief,
    byte_lines,
    image_brief,
    image_lines,
    image_text,
    recording_brief,
    recording_lines,
    recording_text,
)
from memlake.views.style import Style
from memlake.views.words import clean, count, cut

if TYPE_CHECKING:
    from memlake.contents.checkpoints import CheckpointDiff, CheckpointSummary, TensorChange
    from memlake.contents.documents import DocumentDiff, DocumentSummary
    from memlake.contents.embeddings import EmbeddingSummary
    from memlake.contents.explain import Explanation
    from memlake.contents.notebooks import NotebookDiff, NotebookSummary
    from memlake.contents.tables import TableSummary
    from memlake.rows.compare import ColumnChange, RowChange, TableDiff

_WIDE = 110
_ORIGINS = {
    "given": "", "declared": ", as .memlakeattributes says", "found": ", which is unique on both sides",
    "nearly": ", which is nearly unique",
}  # fmt: skip


def explained_lines(style: Style, explanation: Explanation) -> Iterator[str]:
    """What differs inside a file that memlake could look into."""
    for record in (explanation.record, *explanation.more):
        yield from _LINES[type(record).__name__](style, record)


def brief_text(explanation: Explanation) -> str:
    """The same in a few words, for --stat."""
    return summary_text(explanation.record) or _BRIEFS[type(explanation.record).__name__](explanation.record)


# -- tables -------------------------------------------------------------------------------------


def table_lines(style: Style, found: TableDiff) -> Iterator[str]:
    """Columns first, then how many rows differ, then the first of them."""
    for change in found.columns:
        yield _column_line(style, change)
    matched = " (compared as whole rows, in any order)"
    if found.key.columns:
        matched = f" (matched by {', '.join(map(_name, found.key.columns))}{_ORIGINS[found.key.origin]})"
    yield f"{_brief_rows(found)}{matched}"
    if found.cells:
        cells = ", ".join(f"{clean(name)} {number:,}" for name, number in found.cells.items())
        yield f"changed cells: {cells}"
    numbers = {"M": found.changed, "A": found.added, "D": found.removed}
    for status, number in numbers.items():
        shown = [row for row in found.rows if row.status == status]
        yield from (_row_line(style, row) for row in shown)
        if number > len(shown) > 0:
            yield style.paint(f"  ... and {number - len(shown):,} more", "dim")
    yield from (f"note: {clean(note)}" for note in found.notes)


def _brief_rows(found: TableDiff) -> str:
    old, new = found.old_rows, found.new_rows
    rows = count(new, "row") if old == new else f"{old:,} -> {count(new, 'row')}"
    if not (found.added or found.removed or found.changed):
        return f"{rows}: none differs{' in the columns of both sides' if found.columns or found.notes else ''}"
    parts = [(found.added, "added"), (found.removed, "removed"), (found.changed, "changed")]
    return f"{rows}: {', '.join(f'{number:,} {word}' for number, word in parts if number)}"


def _column_line(style: Style, change: ColumnChange) -> str:
    name = clean(change.name)
    if change.old_type is None:
        return style.paint(f"column + {name}: {change.new_type}", "added")
    if change.new_type is None:
        return style.paint(f"column - {name}: {change.old_type}", "removed")
    types = f": {change.old_type} -> {change.new_type}" if change.old_type != change.new_type else ""
    return f"column ~ {clean(change.old_name)} -> {name}{types}" if change.old_name else f"column ~ {name}{types}"


def _row_line(style: Style, row: RowChange) -> str:
    if row.status == "M":
        edits = (f"{clean(name)} {_change_text(*values)}" for name, values in row.cells.items())
        return "  ~ " + cut(f"{_fields(row.row)}: {', '.join(edits)}", _WIDE)
    mark, color = ("+", "added") if row.status == "A" else ("-", "removed")
    return style.paint(f"  {mark} {cut(_fields(row.row), _WIDE)}", color)


def _change_text(old: Any, new: Any) -> str:
    """Of two structs only what differs in them."""
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        fields = [name for name in dict.fromkeys((*old, *new)) if old.get(name) != new.get(name)]
        return f"{{{', '.join(f'{_name(name)} {_change_text(old.get(name), new.get(name))}' for name in fields)}}}"
    return f"{value_text(old)} -> {value_text(new)}"


def _fields(row: Mapping[str, Any]) -> str:
    return "  ".join(f"{_name(name)}={value_text(value)}" for name, value in row.items())


def _name(name: str) -> str:
    return clean(name) or "''"


def value_text(value: Any) -> str:
    """A value in a line; text only in quotes where it would be read wrongly."""
    if value is None:
        return "null"
    if isinstance(value, list) and len(value) > 8 and all(isinstance(number, float) for number in value):
        return f"[{value[0]:.4g}, {value[1]:.4g}, ... {len(value):,} numbers]"
    if isinstance(value, Mapping) and {"source", "path"} <= value.keys():
        return value_text(value["path"])  # a file
    text = str(value)
    return clean(text if text and text == text.strip() and "\n" not in text and text != "null" else repr(value))


def table_brief(found: TableDiff) -> str:
    columns = f", {count(len(found.columns), 'column')} changed" if found.columns else ""
    return f"{_brief_rows(found)}{columns}"


# -- documents ----------------------------------------------------------------------------------


def document_lines(style: Style, found: DocumentDiff) -> Iterator[str]:
    """How many values differ, then the first of them, in the order of the document."""
    yield f"{_document_brief(found)}"
    for value in found.values:
        place = clean(value.path)
        if value.status == "M":
            yield f"  ~ {place}: {_json_text(value.old)} -> {_json_text(value.new)}"
        elif value.status == "A":
            yield style.paint(f"  + {place}: {_json_text(value.new)}", "added")
        else:
            yield style.paint(f"  - {place}: {_json_text(value.old)}", "removed")
    left = found.added + found.removed + found.changed - len(found.values)
    if left:
        yield style.paint(f"  ... and {left:,} more", "dim")
    yield from (f"note: {note}" for note in found.notes)


def _json_text(value: Any) -> str:
    import json

    return clean(cut(json.dumps(value, ensure_ascii=False, default=str), _WIDE // 2))


def _document_brief(found: DocumentDiff) -> str:
    parts = [(found.added, "added"), (found.removed, "removed"), (found.changed, "changed"), (found.moved, "moved")]
    return f"values: {', '.join(f'{number:,} {word}' for number, word in parts if number)}"


# -- notebooks ----------------------------------------------------------------------------------


def notebook_lines(style: Style, found: NotebookDiff) -> Iterator[str]:
    """Each cell that differs with its patch; outputs are counted."""
    yield _notebook_brief(found)
    words = {"A": "added", "D": "removed", "M": "changed"}
    for cell in found.cells:
        yield style.paint(f"cell {cell.number} ({clean(cell.cell_type)}) {words[cell.status]}", "bold")
        yield from color_lines(style, cell.patch)


def _notebook_brief(found: NotebookDiff) -> str:
    parts = [(sum(cell.status == status for cell in found.cells), word)
             for status, word in (("A", "added"), ("D", "removed"), ("M", "changed"))]  # fmt: skip
    told = [f"{number:,} {word}" for number, word in parts if number]
    told += [f"{count(found.outputs_changed, 'cell has', 'cells have')} other outputs"] if found.outputs_changed else []
    return f"{count(found.new_cells, 'cell')}: {', '.join(told) or 'only metadata differs'}"


# -- checkpoints --------------------------------------------------------------------------------


def checkpoint_lines(style: Style, found: CheckpointDiff) -> Iterator[str]:
    """Totals, then layers, then the tensors that moved most."""
    yield _checkpoint_brief(found)
    for mark, color, names in (("+", "added", found.added), ("-", "removed", found.removed)):
        yield from (style.paint(f"  {mark} {clean(name)}", color) for name in names[:20])
        if len(names) > 20:
            yield style.paint(f"  ... and {len(names) - 20:,} more", "dim")
    for total in found.layers if len(found.layers) > 1 else ():
        moved = f", moved by {_share(total.relative)}" if total.relative is not None else ""
        yield f"  {clean(total.prefix)}: {total.changed:,} of {count(total.tensors, 'tensor')} changed{moved}"
    for change in found.changed:
        yield f"  ~ {clean(change.name)}: {_tensor_text(change)}"
    if found.changed_count > len(found.changed):
        yield style.paint(f"  ... and {found.changed_count - len(found.changed):,} more", "dim")
    for key, (old, new) in found.metadata.items():
        yield f"  metadata {clean(key)}: {value_text(old)} -> {value_text(new)}"


def _tensor_text(change: TensorChange) -> str:
    if change.old_shape != change.new_shape or change.old_type != change.new_type:
        sides = ((change.old_type, change.old_shape), (change.new_type, change.new_shape))
        return " -> ".join(f"{kind} {'x'.join(map(str, shape)) or 'scalar'}" for kind, shape in sides)
    if change.relative is None or change.changed is None:
        return "its bits differ"
    if not change.relative and not change.largest:
        return f"{_share(change.changed)} of its values have other bits, but they are equal as numbers (-0.0, NaN)"
    rank = f"; a change of rank {change.rank}, as LoRA makes" if change.rank else ""
    return f"moved by {_share(change.relative)}, {_share(change.changed)} of its values differ{rank}"


def _share(number: float) -> str:
    return f"{number:.0%}" if number >= 0.1 else f"{number:.2%}" if number >= 0.0001 else f"{number:.1e}"


def _checkpoint_brief(found: CheckpointDiff) -> str:
    parts = [(len(found.added), "added"), (len(found.removed), "removed"), (found.changed_count, "changed")]
    told = [f"{number:,} {word}" for number, word in parts if number]
    same = f"{count(found.identical, 'tensor is', 'tensors are')} identical bit by bit"
    return f"{', '.join(told)}; {same}" if told else same


# -- what a file is ------------------------------------------------------------------------------


def summary_text(record: Any) -> str | None:
    """A summary in a line, or None if the record is not one."""
    tell = _SUMMARIES.get(type(record).__name__)
    return cut(clean(tell(record)), _WIDE) if tell else None


def _tell_table(found: TableSummary) -> str:
    columns = ", ".join(f"{name} ({kind})" if kind != "string" else name for name, kind in found.columns)
    return f"{found.format} table: {count(found.rows, 'row')}, {count(len(found.columns), 'column')}: {columns}"


def _tell_checkpoint(found: CheckpointSummary) -> str:
    parts = f"{count(found.tensors, 'tensor')}, {count(found.parameters, 'parameter')} ({', '.join(found.types)})"
    return f"{found.format} checkpoint: {parts}"


def _tell_notebook(found: NotebookSummary) -> str:
    cells = ", ".join(count(number, f"{kind} cell") for kind, number in found.cells.items())
    return f"{found.language} notebook: {cells or 'empty'}".strip()


def _tell_document(found: DocumentSummary) -> str:
    return f"{found.format} document: {found.top}"


def _tell_embeddings(found: EmbeddingSummary) -> str:
    model = f" of {found.model}" if found.model else ""
    return f"embeddings{model}: {count(found.vectors, 'vector')} of {found.dimension:,} {found.type} values"


_SUMMARIES: dict[str, Callable[[Any], str]] = {
    "TableSummary": _tell_table,
    "CheckpointSummary": _tell_checkpoint,
    "NotebookSummary": _tell_notebook,
    "DocumentSummary": _tell_document,
    "EmbeddingSummary": _tell_embeddings,
    "ImageFacts": lambda found: f"image: {image_text(found)}",
    "RecordingFacts": lambda found: f"recording: {recording_text(found)}",
}

_LINES: dict[str, Callable[[Style, Any], Iterator[str]]] = {
    "TableDiff": table_lines,
    "DocumentDiff": document_lines,
    "NotebookDiff": notebook_lines,
    "CheckpointDiff": checkpoint_lines,
    "EmbeddingDiff": embedding_lines,
    "ImageDiff": image_lines,
    "RecordingDiff": recording_lines,
    "ByteDiff": byte_lines,
}
_BRIEFS: dict[str, Callable[[Any], str]] = {
    "TableDiff": table_brief,
    "DocumentDiff": _document_brief,
    "NotebookDiff": _notebook_brief,
    "CheckpointDiff": _checkpoint_brief,
    "EmbeddingDiff": embedding_brief,
    "ImageDiff": image_brief,
    "RecordingDiff": recording_brief,
    "ByteDiff": byte_brief,
}
