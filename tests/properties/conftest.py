"""What the laws here leave out."""

from __future__ import annotations

import pytest

from memlake.versions.history import merge_trees


@pytest.fixture(autouse=True)
def _contents_are_equal_by_chance(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The state machine writes few different contents, so that what looks like a rename is none."""
    if "machine" in request.node.nodeid:
        monkeypatch.setattr(merge_trees, "_follow", lambda *_: {})
