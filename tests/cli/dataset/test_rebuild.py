"""rebuild as a command: what is missing, what was not allowed, and what differs."""

from __future__ import annotations

from pathlib import Path

import pytest

import memlake as ml
from tests.cli.conftest import Run
from tests.dataset.telling import put


@pytest.fixture
def pets(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """pets, as if a script had saved it that gives another row now."""
    run("init")
    source = "import memlake as ml\nml.read_values(x=[1, 3]).save('pets')\n"
    with ml.open(tmp_path) as repo:
        told = repo.datasets().read_values(x=[1, 2]).save("pets").record.provenance  # type: ignore[union-attr]
        packages = {**told["packages"], "duckdb": "0.1"}
        script = {"source_kind": "script", "source_name": "p.py", "source": source, "packages": packages}
        put(repo.datasets(), "pets", provenance={**told, **script})


@pytest.mark.usefixtures("pets")
def test_rebuild_says_what_it_needs_and_what_differs(run: Run) -> None:
    assert run("rebuild", "pets", "--check").lines == [
        "pets@1.0.0 can be rebuilt: its program, params and inputs are here."
    ]
    assert "you did not allow that. Nothing was run." in run("rebuild", "pets", code=128).err
    assert "  ml.read_values(x=[1, 3]).save('pets')" in run("trust", "--program", "pets", "--yes").lines
    assert "program of pets@1.0.0" in run("trust", "--list").out
    lines = run("rebuild", "pets", code=1).lines
    assert lines[:2] == [
        "pets@1.0.0 is not the same when it is made again: row 2 differs in x.", "  row 2, x: 2 then, 3 now"
    ]  # fmt: skip
    assert lines[2] == "Packages that changed since:" and lines[3].startswith("  duckdb 0.1 then, ")
    assert run("rebuild", "pets", "--json", code=1).json["rebuilt"]["first"]["new"] == 3
    run("trust", "--revoke")
    assert "did not allow" in run("rebuild", "pets", code=128).err


@pytest.mark.usefixtures("pets")
def test_rebuild_lists_what_is_missing(run: Run, tmp_path: Path) -> None:
    with ml.open(tmp_path) as repo:
        put(repo.datasets(), "pets", provenance={})
    assert run("rebuild", "pets", code=1).lines == ["pets@1.0.0 cannot be rebuilt:", "  no program was recorded"]
    assert "nothing to trust" in run("trust", "--program", "pets", code=128).err
    assert "cannot be combined" in run("trust", "--program", "pets", "--list", code=2).err
