"""The long reliability tests: every module of them belongs to a part, counts add up, and a part goes on."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import torture

LONG = [
    path
    for path in Path(__file__).parent.rglob("test_*.py")
    if "TORTURE" in path.read_text() or "mark.torture" in path.read_text()
]


def test_every_module_with_a_long_form_belongs_to_one_part() -> None:
    here = torture.ROOT
    modules = {str(path.relative_to(here)) for path in LONG if path != Path(__file__)}
    for module in modules:
        parts = [name for name, part in torture.PARTS.items() if any(module.startswith(path) for path in part.paths)]
        assert len(parts) == 1, f"{module} belongs to {parts}"
    for part in torture.PARTS.values():
        assert all((here / path).exists() for path in part.paths), part


def test_counts_add_up_and_a_part_goes_on_where_it_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torture, "FOLDER", tmp_path)
    monkeypatch.setattr(torture, "LEDGER", tmp_path / "ledger.jsonl")
    line = {"part": "power", "outcome": "passed", "counts": {"power_cuts": 60}, "day": "2026-11-01"}
    torture.append_line({**line, "test": "a"})
    torture.append_line({**line, "test": "b", "outcome": "failed"})
    assert torture.read_passed("power") == ["a"]
    torture.append_line({**line, "test": "b", "day": "2026-11-02"})
    assert "120 power cuts, 2 tests | 2026-11-02, in part |" in torture.table(torture.read_lines())
    torture.append_line({"part": "power", "complete": "2026-11-02"})
    assert torture.read_passed("power") == []
    counts, day = torture.add_up(torture.read_lines())["power"]
    assert (counts, day) == ({"tests": 2, "power_cuts": 120}, "2026-11-02")
    page = torture.table(torture.read_lines())
    assert "120 power cuts, 2 tests | 2026-11-02" in page
    assert "120 power cuts, 2 tests | 2026-11-02" in torture.table([], page)  # as another machine ran it
