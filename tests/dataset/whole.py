"""What a record of a making must have, and where the source of this tree is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

SOURCE = Path(__file__).resolve().parents[2] / "src"
FIELDS = {
    "source", "source_kind", "source_name", "functions", "parents", "storages", "origins", "packages", "params",
    "author", "agent", "session", "seconds", "plan", "columns", "git", "ran",
}  # fmt: skip


def assert_whole(told: Any) -> None:
    """No field is missing or empty; who is no agent has no agent's name."""
    assert set(told) == FIELDS
    assert told["source"].strip() and told["source_kind"] and told["source_name"] and told["plan"] and told["author"]
    assert told["parents"] or told["storages"] or told["origins"]
    assert {"memlake", "python", "duckdb", "pyarrow"} <= told["packages"].keys() and all(told["packages"].values())
    assert told["git"]["commit"] or told["git"]["why"]
    assert told["seconds"] > 0 and told["columns"]
    for one in told["functions"]:
        assert one["name"] and len(one["fingerprint"]) == 64 and one["source"].strip()
