"""Jupyter notebooks by their cells: what changed in the source of each, and outputs summed up.

Two edits are joined cell by cell and, inside a cell, line by line. Outputs follow the source that made them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memlake.contents.content import Content, Unreadable
from memlake.contents.documents import is_same, read_document
from memlake.contents.explain import How
from memlake.contents.merge_documents import write_json
from memlake.contents.merged import InnerConflict, Merged, MergeHow
from memlake.named_tuple import NamedTuple
from memlake.versions.text import unified
from memlake.versions.text.lines import opcodes, split_lines
from memlake.versions.text.merge3 import merge_text

Cell = Mapping[str, Any]
Pairs = list[tuple[int | None, int | None]]  # numbers of cells of the old and of the new side


class CellChange(NamedTuple):
    """A cell that was added ("A"), removed ("D") or changed ("M"): its number, its kind, its source as a patch."""

    status: str
    number: int  # from 1, on the new side; of a removed cell on the old one
    cell_type: str
    patch: tuple[str, ...]


class NotebookDiff(NamedTuple):
    """What differs between two notebooks. Outputs are counted, because they change with every run."""

    old_cells: int
    new_cells: int
    cells: tuple[CellChange, ...]
    outputs_changed: int  # cells whose source is the same and whose outputs are not
    metadata_changed: bool

    @property
    def is_empty(self) -> bool:
        return not (self.cells or self.outputs_changed or self.metadata_changed)


class NotebookSummary(NamedTuple):
    """What a notebook is: how many cells of each kind, and its language."""

    cells: Mapping[str, int]
    language: str


def summarize(content: Content) -> NotebookSummary:
    notebook, kinds = _read(content), dict[str, int]()
    for cell in notebook["cells"]:
        kinds[_type(cell)] = kinds.get(_type(cell), 0) + 1
    language = notebook.get("metadata", {}).get("kernelspec", {}).get("language", "")
    return NotebookSummary(kinds, str(language))


def text(content: Content) -> str:
    """The cells one after the other, each behind a line that names it."""
    cells = _read(content)["cells"]
    return "".join(f"# %% [{_type(cell)}] {number}\n{_source(cell)}\n" for number, cell in enumerate(cells, 1))


def diff(old: Content, new: Content, _how: How) -> NotebookDiff:
    before, after = _read(old), _read(new)
    pairs = _match(before["cells"], after["cells"])
    cells, outputs = [], 0
    for was, now in pairs:
        ours = before["cells"][was] if was is not None else None
        theirs = after["cells"][now] if now is not None else None
        if ours is not None and theirs is not None and (_source(ours), _type(ours)) == (_source(theirs), _type(theirs)):
            outputs += not is_same(_outputs(ours), _outputs(theirs))
            continue
        number = now if now is not None else was
        lines = [split_lines(_source(cell)) if cell is not None else [] for cell in (ours, theirs)]
        status = "A" if ours is None else "D" if theirs is None else "M"
        kind = _type(theirs if theirs is not None else ours or {})
        cells.append(CellChange(status, (number or 0) + 1, kind, tuple(unified.format_hunks(lines[0], lines[1]))))
    rest = [{key: value for key, value in side.items() if key != "cells"} for side in (before, after)]
    return NotebookDiff(len(before["cells"]), len(after["cells"]), tuple(cells), outputs, not is_same(*rest))


def merge(base: Content, ours: Content, theirs: Content, how: MergeHow) -> Merged:
    """Ours with the cells they added, removed and edited, if nothing but cells can get lost."""
    for content in (base, ours, theirs):
        if write_json(content.read_whole(), []) != content.read_whole():
            raise Unreadable(f"{content.path} is not written as notebooks are, so it is merged by lines")
    sides = [_read(content) for content in (base, ours, theirs)]
    old, mine, other = (side["cells"] for side in sides)
    in_mine, in_other = dict(_both(_match(old, mine))), dict(_both(_match(old, other)))
    back_mine, back_other = ({now: was for was, now in found.items()} for found in (in_mine, in_other))
    added = [cell for number, cell in enumerate(mine) if number not in back_mine]
    cells, conflicts = list[Cell](), list[InnerConflict]()
    for number, cell in enumerate(mine):
        was = back_mine.get(number)
        if was is None:
            cells.append(cell)
            continue
        found = other[in_other[was]] if was in in_other else None
        joined, open_sides = _join(f"cell {number + 1}", (old[was], cell, found), how)
        cells += joined
        conflicts += [_conflict(f"cell {number + 1}", number + 1, *open_sides)] if open_sides else []
    for number, cell in enumerate(other):
        was = back_other.get(number)
        if was is None:
            if any(_source(cell) == _source(one) and _type(cell) == _type(one) for one in added):
                continue
            joined, open_sides = [cell], None
        elif was not in in_mine:
            joined, open_sides = _join(f"removed cell {was + 1}", (old[was], None, cell), how)
            conflicts += [_conflict(f"removed cell {was + 1}", was + 1, *open_sides)] if open_sides else []
        else:
            continue
        place = _place_after(cells, other[:number])
        cells[place:place] = joined
    return Merged(write_json(ours.read_whole(), [(("cells",), cells)]), tuple(conflicts))


Sides = tuple[Cell, Cell | None, Cell | None]  # base, ours, theirs; None: removed


def _conflict(place: str, number: int, *sides: Cell | None) -> InnerConflict:
    base, ours, theirs = (None if cell is None else _source(cell) for cell in sides)
    return InnerConflict(place, base, ours, theirs, {"cell": number})


def _join(place: str, sides: Sides, how: MergeHow) -> tuple[list[Cell], Sides | None]:
    """What becomes of a cell of the base, and its sides if only a person can say; then ours stays."""
    old, ours, theirs = sides
    if ours is None or theirs is None:
        left = theirs if ours is None else ours
        if left is None or _source(left) == _source(old):  # removed by one, not edited by the other
            return [], None
    elif (joined := _join_cells(old, ours, theirs)) is not None:
        return [joined], None
    side = how.find_side(place)
    kept = {"theirs": [theirs], "union": [ours, theirs]}.get(side, [ours])
    if side == "union" and ours is not None and theirs is not None:
        kept = [ours, {**theirs, **({"id": f"{theirs['id']}-theirs"[-64:]} if "id" in theirs else {})}]
    is_open = side not in ("ours", "theirs", "union")
    return [cell for cell in kept if cell is not None], sides if is_open else None


def _join_cells(old: Cell, ours: Cell, theirs: Cell) -> Cell | None:
    """One cell with both edits of its source; the outputs are those of the side that edited it."""
    if _source(ours) == _source(theirs):  # outputs of a run that only they made are theirs
        return theirs if is_same(old.get("outputs"), ours.get("outputs")) else ours
    if _source(old) == _source(theirs):
        return ours
    if _source(old) == _source(ours):
        return theirs
    source = merge_text(_source(old), _source(ours), _source(theirs))
    if source is None:
        return None
    joined = {**ours, "source": split_lines(source)}
    return {**joined, "outputs": [], "execution_count": None} if "outputs" in ours else joined  # nobody ran it so


def _place_after(cells: list[Cell], before: list[Cell]) -> int:
    """Behind the nearest of the cells that stand before it on the other side."""
    for cell in reversed(before):
        for place in range(len(cells), 0, -1):
            if _known_by(cells[place - 1]) == _known_by(cell):
                return place
    return 0


def _match(old: list[Cell], new: list[Cell]) -> Pairs:
    """Which cell of one side is which of the other: by id if all have one, else by what is equal, in order."""
    ids = [[str(cell["id"]) for cell in cells if "id" in cell] for cells in (old, new)]
    if len(ids[0]) == len(old) == len(set(ids[0])) and len(ids[1]) == len(new) == len(set(ids[1])):
        places = {name: place for place, name in enumerate(ids[0])}
        found: Pairs = [(places.pop(name, None), place) for place, name in enumerate(ids[1])]
        return [*found, *((place, None) for place in places.values())]
    return [
        (i1 + place if i1 + place < i2 else None, j1 + place if j1 + place < j2 else None)
        for _, i1, i2, j1, j2 in opcodes([*map(_known_by, old)], [*map(_known_by, new)])
        for place in range(max(i2 - i1, j2 - j1))
    ]


def _both(pairs: Pairs) -> list[tuple[int, int]]:
    return [(was, now) for was, now in pairs if was is not None and now is not None]


def _known_by(cell: Cell) -> str:
    return str(cell["id"]) if "id" in cell else f"{_type(cell)}\n{_source(cell)}"


def _read(content: Content) -> dict[str, Any]:
    notebook = read_document(content)
    cells = notebook.get("cells") if isinstance(notebook, dict) else None
    if not isinstance(cells, list) or not all(isinstance(cell, dict) for cell in cells):
        raise Unreadable(f"{content.path} has no list of cells, as notebooks have since version 4")
    return dict(notebook)


def _source(cell: Cell) -> str:
    source = cell.get("source", "")
    return "".join(map(str, source)) if isinstance(source, list) else str(source)


def _type(cell: Cell) -> str:
    return str(cell.get("cell_type", "raw"))


def _outputs(cell: Cell) -> Any:
    return [cell.get("outputs"), cell.get("execution_count")]
