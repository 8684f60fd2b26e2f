"""Joining packs: what it costs while every writer waits."""

from __future__ import annotations

import random
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

import memlake as ml
from memlake.objects.db import Database


def test_joining_packs_moves_each_row_once_however_many_packs_there_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo, packs = ml.init(tmp_path / "repo"), 12
    for number in range(packs):
        (repo.root / f"{number}").write_bytes(random.Random(number).randbytes(50_000))
        repo.add(all=True)
    moved: list[Any] = []
    run_many = Database.run_many

    def noted(db: Database, sql: str, rows: Iterable[Any]) -> None:
        rows = list(rows)
        moved.extend(rows if sql.startswith("UPDATE object SET pack") else ())
        run_many(db, sql, rows)

    monkeypatch.setattr(Database, "run_many", noted)
    assert repo.upkeep.gc(prune=True).packs == packs
    assert len(moved) == packs and repo.upkeep.fsck(full=True).ok
